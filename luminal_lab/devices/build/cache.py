"""Compiled libraries on disk, by what they were made from; each is checked before use.

    ~/.cache/luminal_lab/libraries/     readable and writable by its owner alone
        lib-<key>/                      an entry, which appears and goes as a whole
            library.so                  may have what other entries are for, and be their file, too
            source.c                    what the entry is for, to be read
            entry.json                  the digest of both, the compiler, the date; its time of
                                        change is when the entry was last used
        .draft-<random>/                an entry that is being written, or removed

Two processes may make the same entry at the same time, each in a draft of its own: the first to
rename it wins, and the other uses that one. If that folder cannot be used, one in the folder for
temporary files replaces it.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EAGAIN, EDQUOT, EFBIG, EINVAL, EMFILE, ENFILE, ENOMEM, ENOSPC
from pathlib import Path
from typing import Final, TypeAlias, cast

from luminal_lab.core.origin import warn
from luminal_lab.devices.build.located import device_error
from luminal_lab.interrupts import held
from luminal_lab.reading import read_json, read_plain

FORMAT = 1
"""The format of an entry, raised whenever it changes."""
LIMIT = 512 << 20
"""The bytes that a folder may hold before the libraries unused for longest are removed."""
FRESH = 600
"""The seconds for which an entry stays after its use, since a process may be about to load it."""
ABANDONED = 3600
"""The age in seconds at which a draft counts as left behind by a killed process."""
TRIES = 10
"""How often renaming an entry into place is tried."""
LIBRARY = {"win32": "library.dll", "darwin": "library.dylib"}.get(sys.platform, "library.so")
SOURCE, FACTS = "source.c", "entry.json"
ENTRY = re.compile(r"(lib-)?[0-9a-f]{32}")
DRAFT = ".draft-"
Check: TypeAlias = Callable[[Path], None]
"""Raises an error if a library is unusable."""


def key_of(*parts: str | bytes) -> str:
    """Return the key of a library made from these parts, in this order.

    >>> key_of("ab", "c") == key_of("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in (str(FORMAT), *parts):
        data = part.encode("utf-8", "backslashreplace") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def user_folder() -> Path | None:
    """Return where users of this platform keep such files; None for a user without a home."""
    parts = {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(sys.platform, ".cache")
    try:
        return Path.home() / parts / "luminal_lab" / "libraries"
    except RuntimeError:
        return None


def spare_folder() -> Path:
    """Return the folder that replaces one that cannot be used."""
    user = "" if sys.platform == "win32" else f"-{os.geteuid()}"
    return temporary_folder().absolute() / f"luminal_lab{user}"


def is_full(error: OSError) -> bool:
    """Return whether an error says that a disk is full."""
    return error.errno in (ENOSPC, EDQUOT)


def is_passing(error: OSError) -> bool:
    """Return whether an error says that something ran out, not that it can never work."""
    return is_full(error) or error.errno in (EAGAIN, EFBIG, EMFILE, ENFILE, ENOMEM)


def temporary_folder() -> Path:
    """Return the folder for temporary files, even if it cannot be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # Python has tried all the places that it knows
        return Path(tempfile.gettempprefix()).absolute().parent


class Cache:
    """A folder of libraries, and the one that replaces it if it cannot be used."""

    def __init__(self, folder: str | Path | None = None, *, limit: int = LIMIT) -> None:
        spare = spare_folder()
        first = user_folder() if folder is None else Path(folder).expanduser().absolute()
        self.folders: Final = tuple(dict.fromkeys((first or spare, spare)))
        self.limit: Final = limit

    def find(self, key: str, source: bytes) -> Path | None:
        """Return the library with a key, if there is one that can be trusted."""
        for folder in self.folders:
            path = folder / f"lib-{key}"
            if not path.is_dir() or _mistrusted(folder) or _fault(path, source):
                continue
            _touch(path)
            return path / LIBRARY
        return None

    def drop(self, library: Path) -> None:
        """Remove the entry of a library that turned out to be useless."""
        remove(library.parent)

    def store(
        self,
        key: str,
        source: bytes,
        library: bytes,
        made_by: str,
        check: Check | None = None,
        same: Path | None = None,
        warning: Callable[[str], None] = warn,
    ) -> Path:
        """Keep a library and return its path; an existing sound one stays.

        A library is not kept if `check`, which is given its path, raises an error. If another entry
        has the same library, `same` is its path, and the disk holds it once.
        """
        reasons: list[str] = []
        full: list[Path] = []
        for folder in self.folders:
            reason = _unfit(folder)
            if reason is None:
                try:
                    path = _put(folder, key, source, library, made_by, check, same)
                except OSError as error:
                    reason = error.strerror or str(error)
                    full += [folder] * is_full(error)
                else:
                    break
            reasons.append(f"{folder}: {reason}")
        else:
            raise device_error(
                "cache: there is nowhere to keep a library\n  " + "\n  ".join(reasons),
                hint=f"make room in {full[0]}, whose disk is full"
                if full
                else "give a folder= of your own that has room",
            )
        if reasons:
            warning(f"cache: libraries are kept in {folder}, because it cannot use {reasons[0]}")
        _make_room(folder, path, self.limit)
        return path / LIBRARY


# -- what can be trusted ---------------------------------------------------------------------------


def _unfit(folder: Path) -> str | None:
    """Return why libraries cannot be kept in a folder, which is created if it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        return "it is not a folder"
    except OSError as error:
        return error.strerror or str(error)
    return _mistrusted(folder)


def _mistrusted(folder: Path) -> str | None:
    """Return why the contents of a folder must not be run."""
    try:
        # Anybody may have put a link among the temporary files.
        reason = _others(folder.lstat() if folder == spare_folder() else folder.stat(), folder=True)
        if reason is None and sys.platform == "linux":
            noexec = os.statvfs(folder).f_flag & os.ST_NOEXEC
            reason = "nothing in it may be run (its disk is mounted noexec)" if noexec else None
    except OSError as error:
        return error.strerror or str(error)
    return reason


def _others(status: os.stat_result, *, folder: bool) -> str | None:
    """Return why another user may have written a file, and so could run code here."""
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        return "it is not a folder" if folder else "it is not a file"
    if sys.platform != "win32":  # there these numbers do not show the owner of a user's folder
        if status.st_uid not in (os.geteuid(), 0):
            return f"it is user {status.st_uid}'s, and this is user {os.geteuid()}"
        if status.st_mode & 0o022:
            return f"others may write there (its mode is {stat.S_IMODE(status.st_mode):o})"
    return None


def _fault(path: Path, source: bytes | None = None) -> str | None:
    """Return what is wrong with a library's entry, or why it does not belong to a source."""
    try:
        files, _ = _sound(path, (LIBRARY, SOURCE), _digest)
    except OSError as error:
        return f"it is not whole ({error.strerror})" if error.errno else error.strerror
    return None if source in (None, files[SOURCE]) else "it was made from another source"


def _digest(files: Mapping[str, bytes]) -> str:
    source = files[SOURCE]
    return hashlib.sha256(len(source).to_bytes(8, "little") + source + files[LIBRARY]).hexdigest()


def _sound(
    path: Path, names: Sequence[str], digest: Callable[[Mapping[str, bytes]], str]
) -> tuple[dict[str, bytes], dict[str, object]]:
    """Return the files of an entry and its facts; raise an OSError if it is not sound."""
    reason = _others(path.lstat(), folder=True)
    for name in (*names, FACTS):
        reason = reason or _others((path / name).lstat(), folder=False)
    if reason:
        raise OSError(0, reason)
    files = {name: read_plain(path / name, sys.maxsize) for name in names}
    facts = _facts(path)
    if facts.get("key") != _key(path):
        raise OSError(0, "it is another entry's")
    if facts.get("digest") != digest(files):
        raise OSError(0, "its bytes are not those that were stored")
    return files, facts


def _key(path: Path) -> str:
    return path.name.removeprefix("lib-")


def _facts(path: Path) -> dict[str, object]:
    """Return what is noted about an entry, or raise an OSError."""
    with suppress(ValueError):
        facts = read_json(read_plain(path / FACTS))
        if isinstance(facts, dict):
            return cast("dict[str, object]", facts)
    raise OSError(EINVAL, "its facts cannot be read")


# -- files of other kinds --------------------------------------------------------------------------


def write_files(path: Path, files: Mapping[str, bytes], facts: Mapping[str, object]) -> None:
    """Keep files as an entry, replacing an existing one; raise an OSError if that fails.

    Above the limit, entries of its folder are removed as libraries are.
    """
    reason = _unfit(path.parent)
    if reason is not None:
        raise OSError(0, reason)
    _placed(path, files, {**facts, "digest": _digest_of(files)}, lambda _: "")
    _make_room(path.parent, path, LIMIT)


def read_files(path: Path, names: Sequence[str]) -> tuple[dict[str, bytes], dict[str, object]]:
    """Return the files of an entry and its facts; raise an OSError if it is not sound.

    It is sound if nobody else may have written it, and it is as it was stored.
    """
    reason = _mistrusted(path.parent)
    if reason:
        raise OSError(0, reason)
    files, facts = _sound(path, names, _digest_of)
    _touch(path)
    return files, facts


def _digest_of(files: Mapping[str, bytes]) -> str:
    return key_of(*(part for name in sorted(files) for part in (name, files[name])))


# -- entries come and go ---------------------------------------------------------------------------


def _put(
    folder: Path,
    key: str,
    source: bytes,
    library: bytes,
    made_by: str,
    check: Check | None,
    same: Path | None,
) -> Path:
    """Write an entry and return its path; it only gets its name once it is complete."""
    files = {LIBRARY: library, SOURCE: source}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    facts = {"digest": _digest(files), "made_by": made_by, "created": created}
    path = folder / f"lib-{key}"
    return _placed(path, files, facts, lambda path: _fault(path, source), check, same)


def _placed(
    path: Path,
    files: Mapping[str, bytes],
    facts: Mapping[str, object],
    fault_of: Callable[[Path], str | None],
    check: Check | None = None,
    same: Path | None = None,
) -> Path:
    """Write an entry of some files, and return its path; an existing sound one stays.

    The library may be the `same` file as another entry's.
    """
    noted = json.dumps({"key": _key(path), **facts}, indent=1)
    with _draft(path.parent) as draft:
        entry = draft / "made"
        entry.mkdir(mode=0o700)
        for name, data in {**files, FACTS: noted.encode()}.items():
            _write(entry / name, data, same if name == LIBRARY else None)
        if check is not None:
            check(entry / LIBRARY)
        tries = 0
        while True:
            try:
                entry.rename(path)
            except OSError:  # something has the name, or had it until now
                tries += 1
                if tries == TRIES:
                    raise
            else:
                return path
            if fault_of(path) is None:  # another process was faster
                return path
            # What a process has loaded must stay: it is put aside, never overwritten.
            aside = draft / str(tries) / path.name
            aside.parent.mkdir()
            with suppress(FileNotFoundError):
                path.rename(aside)
                fault = fault_of(aside)
                if fault:  # it has not just been replaced
                    warn(f"cache: {path} was damaged and is made again: {fault}")


def _write(path: Path, data: bytes, same: Path | None) -> None:
    """Write a file, or give another name to one with the same bytes.

    A process that was faster may have put other bytes where ours were to be.
    """
    if same is not None:
        with suppress(OSError):  # not every disk has files with several names
            if same.read_bytes() == data:
                os.link(same, path)
                return
    path.touch(mode=0o600)
    path.write_bytes(data)


@contextmanager
def _draft(folder: Path) -> Generator[Path, None, None]:
    """Make a draft, which is removed after the block, with Ctrl-C held off."""
    with held():
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder))
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file that others see either complete or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft(path.parent) as draft:
        (draft / "made").touch(mode=0o600)
        (draft / "made").write_text(text, "utf-8")
        (draft / "made").replace(path)


_room: dict[tuple[Path, int], int] = {}
"""The bytes that may still go into a folder with a limit before it is fully checked again."""
SHARES = 8
"""This many processes may use up their room at once and stay below the limit."""


def _make_room(folder: Path, keep: Path, limit: int) -> None:
    """Keep a folder below its limit; checking all its entries takes longer than adding one."""
    _, size = use_of(keep)
    _room[folder, limit] = _room.get((folder, limit), 0) - size
    if _room[folder, limit] < 0:
        _room[folder, limit] = (limit - _prune(folder, keep, limit)) // SHARES


def _prune(folder: Path, keep: Path, limit: int) -> int:
    """Remove abandoned drafts and, above the limit, the entries unused for longest.

    Return the bytes that stay.
    """
    now, total = time.time(), limit
    with suppress(OSError):
        for draft in folder.glob(f"{DRAFT}*"):
            if now - draft.lstat().st_mtime > ABANDONED:
                shutil.rmtree(draft, ignore_errors=True)
        entries_by_use = sorted((*use_of(path), path) for path in entry_paths(folder))
        total = sum(size for _, size, _ in entries_by_use)
        for used, size, path in entries_by_use:
            if total > limit and path != keep and now - used > FRESH and remove(path):
                total -= size
    return total


def remove(path: Path) -> bool:
    """Remove an entry as a whole, and return whether that worked."""
    try:
        with _draft(path.parent) as draft:
            path.rename(draft / path.name)
    except OSError:  # another process was faster or, on Windows, has loaded it
        return False
    return True


def _touch(path: Path) -> None:
    """Note that an entry is used now."""
    with suppress(OSError):  # what cannot be written may still be read
        os.utime(path / FACTS)


def entry_paths(folder: Path) -> list[Path]:
    """Return the paths of all entries in a folder."""
    try:
        return sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))
    except OSError:
        return []


def use_of(path: Path) -> tuple[float, int]:
    """Return when an entry was last used, and how many bytes it takes.

    Of a file that several entries have, it takes a share.
    """
    try:
        facts = path / FACTS
        used = (facts if facts.exists() and not path.is_symlink() else path).lstat().st_mtime
        inside = path.iterdir() if path.is_dir() and not path.is_symlink() else [path]
        each = (file.lstat() for file in inside)
        return used, sum(status.st_size // max(1, status.st_nlink) for status in each)
    except OSError:
        return 0.0, 0


def bytes_text(size: float) -> str:
    """Return a number of bytes as people write it."""
    if size < 1000:
        return f"{size:.0f} B"
    return f"{size / 1e3:.1f} KB" if size < 1e6 else f"{size / 1e6:,.1f} MB"


def cut_text(text: str, width: int) -> str:
    """Return a text with at most `width` letters."""
    return text if len(text) <= width else text[: width - 1] + "…"
