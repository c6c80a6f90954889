"""Whose code may run here: only code that this process wrote or its user has signed.

A graph may carry the source of kernels (`ll.kernel`), and a recording the name of a compiler.
Neither may run just because a file says so. In generated code a mark with its digest follows each
such source, and whatever compiles or loads code calls `admit` first:

    // lab_user scale c 6a1f… void scale(const float *x, float *y, long n) {

    written   ll.kernel(...) was called with it, in this process
    allowed   a user here said so, for this process: trust=True, --trust, a button in the page
    signed    its digest is in the user's file, which `luminal-lab trust` and saving add to

    ~/.local/share/luminal_lab/trusted      on Windows AppData/Local/…, on macOS Library/…
        6a1f… 2026-03-01 kernel scale in C
    90c4… 2026-03-02 machine code of an exported model in /home/me/digits

Anyone who can write to that file can run code as the user anyway; a file that others may write to
is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple, Protocol

from luminal_lab.errors import ArgumentError, TrustError

LANGUAGES: Final[Mapping[str, str]] = {"c": "C", "cuda": "CUDA", "metal": "Metal"}
MARK: Final = re.compile(r"lab_user\b[^\n]*")
MARKED: Final = re.compile(r"lab_user ([\w.]+) (c|cuda|metal) ([0-9a-f]{64})(?: (.*))?")
SIGNED: Final = re.compile(r"([0-9a-f]{64})(?: (\S+) ([ -~]*))?")
READ_FIRST: Final = (
    "read it first: luminal-lab trust FILE --show; then trust=True of ll.open and ll.parse, or "
    "--trust, runs it, and luminal-lab trust FILE signs it for good"
)
IN_PYTHON: Final = 'll.CPUCompiler(compiler="…") runs what you name there'
UNPICKLED: Final = (
    "if you know who wrote it: trust=True, or luminal-lab open FILE --trust, or luminal-lab trust "
    "FILE once for all; an ONNX file, or the weights as safetensors, run nothing"
)
OF_LIBRARY: Final = (
    "if you know who made it: --trust runs it once, and luminal-lab trust FOLDER signs it for "
    "good; its C is beside it"
)
CHANGED: Final = (
    "the library in this folder has changed since it was exported or signed here, as it does when "
    "make compiles it again, and no user here has allowed the new one"
)
OF_CHANGED: Final = (
    "if you ran make, or changed it yourself: luminal-lab trust FOLDER signs it for good, and "
    "--trust runs it once"
)
OF_BUNDLE: Final = (
    "if you know who made it: --trust runs it once, and luminal-lab trust FOLDER signs it for "
    "good; luminal-lab bundle makes your own"
)
USUAL: Final = re.compile(r"(cc|gcc|clang|zig|ziglang)(-[0-9.]+)?", re.ASCII)
"""Names under which a file may mention the compiler that it was made with."""
LONGEST: Final = 60
"""The most characters of a source's first line that an error shows."""


class Carried(Protocol):
    """A user's kernel as a graph has it."""

    @property
    def header(self) -> str:
        """Its arguments and results."""
        ...

    @property
    def source(self) -> str:
        """Its text."""
        ...

    @property
    def dialect(self) -> Literal["c", "cuda", "metal"]:
        """Its language."""
        ...

    @property
    def tasks(self) -> str:
        """The number of its calls."""
        ...


class Foreign(NamedTuple):
    """Code from a file: its digest, a description, its first line, and the folder it is in."""

    digest: str
    what: str
    first: str
    folder: str = ""

    @property
    def entry(self) -> str:
        """What the user's file says of it: a line of ASCII."""
        return f"{self.what} in {ascii(self.folder)[1:-1]}" if self.folder else self.what


def untrusted(kernels: Iterable[Carried]) -> list[Foreign]:
    """Return each kernel that is neither signed nor allowed here, once."""
    by_digest = {foreign.digest: foreign for foreign in map(foreign_of, kernels)}
    return [foreign for foreign in by_digest.values() if not is_trusted(foreign)]


class Signed(NamedTuple):
    """A line of the user's file."""

    digest: str
    date: str
    what: str


_HERE: Final[dict[str, bool]] = {}
"""The digests that this process may run, each with whether it wrote the code itself."""


# -- what is trusted -------------------------------------------------------------------------------


def foreign_of(kernel: Carried) -> Foreign:
    """Return the part of a kernel to be trusted: everything that determines its memory accesses."""
    parts = kernel.dialect, kernel.header, kernel.tasks, kernel.source
    name = re.match(r"\s*kernel\s+([\w.]+)", kernel.header, re.ASCII)
    description = f"kernel {name[1] if name else '_'} in {LANGUAGES[kernel.dialect]}"
    return Foreign(_digest("kernel", *parts), description, _first(kernel.source))


def program_of(name: str) -> Foreign:
    """Return the part to be trusted of a program that a file wants to run: its name."""
    return Foreign(_digest("program", name), "a program to run as the compiler", _cut(name))


def exported_of(file: BinaryIO, name: str) -> Foreign:
    """Return the part to be trusted of a file that PyTorch unpickles: all of it, from here on."""
    digest = _digest("exported", _digest_of(file))
    return Foreign(digest, "an exported program, which PyTorch unpickles", _cut(name))


def bundle_of(parts: Iterable[str], name: str) -> Foreign:
    """Return the part to be trusted of a bundle: all of its machine code, by digests."""
    digest = _digest("bundle", *sorted(parts))
    return Foreign(digest, "machine code for NVIDIA's GPUs", _cut(name))


def library_of(data: bytes, name: str) -> Foreign:
    """Return the part to be trusted of an exported model: its library, byte by byte."""
    digest = _digest("library", hashlib.sha256(data).hexdigest())
    return Foreign(digest, "machine code of an exported model", _cut(name), os.path.realpath(name))


def schedule_of(name: str, definition: str, schedule: str, device: str) -> Foreign:
    """Return the part to be trusted of a kernel to be made from what a file says about it."""
    digest = _digest("schedule", definition, schedule, device)
    text = f"{definition.strip()}\n{schedule.strip()}".splitlines()
    return Foreign(
        digest, f"kernel {printable(name)} by its schedule", "\n".join(map(printable, text))
    )


def _digest_of(file: BinaryIO) -> str:
    """Return the digest of a file's bytes, which need not fit into memory."""
    found = hashlib.sha256()
    while part := file.read(1 << 20):
        found.update(part)
    return found.hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_trusted(foreign: Foreign) -> bool:
    """Return whether some code was written here, allowed, or signed."""
    return foreign.digest in _HERE or foreign.digest in signed()


def write(kernel: Carried) -> None:
    """Note a kernel that this process has written."""
    _HERE[foreign_of(kernel).digest] = True


def allow(foreign: Iterable[Foreign | str]) -> None:
    """Trust code, given itself or by its digest, until this process ends."""
    for item in foreign:
        _HERE.setdefault(item if isinstance(item, str) else item.digest, False)


def asked(caller: str, trust: object) -> bool:
    """Return an argument `trust`, which must be a bool."""
    if not isinstance(trust, bool):
        raise ArgumentError(f"{caller}: trust is {trust!r}", hint="give True, or leave it out")
    return trust


# -- the gate --------------------------------------------------------------------------------------


def mark(kernel: Carried) -> str:
    """Return the comment line that follows a user's source in generated code."""
    foreign = foreign_of(kernel)
    # A backslash at the end would continue the comment on the next line.
    first = foreign.first.rstrip("\\/ ")
    return (
        f"// lab_user {foreign.what.split()[1]} {kernel.dialect} {foreign.digest} {first}".rstrip()
    )


def admit(source: str) -> None:
    """Raise a TrustError unless all foreign code in a generated source is trusted.

    Whatever compiles or loads code calls this first. Text can add marks but cannot remove any:
    unreadable marks, and marks of untrusted code, are refused.
    """
    refused: dict[str, Foreign] = {}
    for match in MARK.finditer(source):
        marked = MARKED.fullmatch(match[0])
        foreign = Foreign(_digest("mark", match[0]), "a mark that cannot be read", _cut(match[0]))
        if marked:
            description = f"kernel {marked[1]} in {LANGUAGES[marked[2]]}"
            foreign = Foreign(marked[3], description, marked[4] or "")
        if not is_trusted(foreign):
            refused.setdefault(foreign.digest, foreign)
    refuse(refused.values())


def admit_kernels(kernels: Iterable[Carried]) -> None:
    """Raise a TrustError unless the user kernels of a graph may run."""
    refuse(foreign for foreign in map(foreign_of, kernels) if not is_trusted(foreign))


def admit_program(name: str) -> None:
    """Raise a TrustError unless a program named by a text, which may be a file's, may run."""
    foreign = program_of(name)
    if not USUAL.fullmatch(name) and not is_trusted(foreign):
        refuse([foreign], "a text of passes names it", f"{IN_PYTHON}; of a file, {READ_FIRST}")


def admit_exported(file: BinaryIO, name: str, *, trust: bool) -> BytesIO:
    """Return the bytes of a file that may be unpickled, or raise a TrustError.

    Before it is trusted, it is not held in memory.
    """
    foreign = exported_of(file, name)
    if trust:
        allow([foreign])
    if is_trusted(foreign):
        file.seek(0)
        data = BytesIO(file.read())
        foreign = exported_of(data, name)  # what is unpickled is what was looked at
        if is_trusted(foreign):
            data.seek(0)
            return data
    raise refusal([foreign], "unpickling can run anything", UNPICKLED)


def admit_bundle(foreign: Foreign, *, trust: bool) -> None:
    """Raise a TrustError unless a bundle's machine code may run, as `trust` allows it once."""
    if trust:
        allow([foreign])
    refuse(() if is_trusted(foreign) else [foreign], "it comes from a bundle", OF_BUNDLE)


def admit_library(foreign: Foreign, *, trust: bool) -> None:
    """Raise a TrustError unless an exported model's library may run, as `trust` allows it once."""
    if trust:
        allow([foreign])
    if is_trusted(foreign):
        return
    has_changed = any(entry.what == foreign.entry for entry in signed().values())
    hint = OF_CHANGED if has_changed else OF_LIBRARY
    error = refusal([foreign], "it comes from a folder", hint)
    error.message = f"serve: {CHANGED if has_changed else error.message}"
    raise error


def refuse(
    foreign: Iterable[Foreign], why: str = "it comes from a file", hint: str = READ_FIRST
) -> None:
    """Raise a TrustError about untrusted code, if there is any."""
    refused = list(foreign)
    if refused:
        raise refusal(refused, why, hint)


def refusal(refused: Sequence[Foreign], why: str, hint: str) -> TrustError:
    """Return a TrustError about untrusted code."""
    many = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    error = TrustError(
        f"{refused[0].what}{many}: {why}, and no user here has allowed it",
        where="\n".join(item.first for item in refused) or None,
        hint=hint,
    )
    error.carried = tuple(refused)
    return error


def _first(source: str) -> str:
    """Return the first line of code in a source, or else its first line, printable and cut."""
    lines = [stripped for line in source.splitlines() if (stripped := line.strip())]
    code = (line for line in lines if not line.startswith(("//", "/*", "*", "#")))
    return _cut(next(code, lines[0] if lines else ""))


def printable(line: str) -> str:
    """Return a foreign line without anything that a terminal obeys or hides."""
    return "".join(letter if letter.isprintable() or letter == "\t" else "�" for letter in line)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


# -- what is signed --------------------------------------------------------------------------------


def trusted_file() -> Path | None:
    """Return the user's file of digests; None for a user without a home."""
    parts = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / parts.get(sys.platform, ".local/share") / "luminal_lab" / "trusted"


def signed() -> Mapping[str, Signed]:
    """Return the user's signatures by digest; none if others may write to the file."""
    path = trusted_file()
    try:
        if path is None or not _is_own(path.stat()) or not _is_own(path.parent.stat()):
            return {}
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    matches = (SIGNED.fullmatch(line) for line in lines)
    return {
        match[1]: Signed(match[1], match[2] or "", match[3] or "") for match in matches if match
    }


def _is_own(status: os.stat_result) -> bool:
    if sys.platform == "win32":  # where a user's folder is private
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def sign(foreign: Iterable[Foreign]) -> bool:
    """Trust code for good; return whether that could be written."""
    known = signed()
    date = datetime.now(UTC).date().isoformat()
    new = {
        item.digest: Signed(item.digest, date, item.entry)
        for item in foreign
        if item.digest not in known or _has_moved(item, known[item.digest])
    }
    return not new or _written({**known, **new})


def _has_moved(foreign: Foreign, entry: Signed) -> bool:
    """Return whether the folder that a signature names is gone, and the code is in another."""
    before = entry.what.removeprefix(foreign.what).removeprefix(" in ")
    return bool(foreign.folder) and not (before and Path(before).is_dir())


def unsign(foreign: Iterable[Foreign]) -> bool:
    """Take signatures back, in this process too; return whether that could be written."""
    gone = {item.digest for item in foreign}
    for digest in gone:
        _HERE.pop(digest, None)
    known = signed()
    left = {digest: entry for digest, entry in known.items() if digest not in gone}
    return len(left) == len(known) or _written(left)


def sign_written(kernels: Iterable[Carried]) -> None:
    """Sign the kernels that this process wrote itself: users may run again what they save.

    If nothing can be written, the next process asks.
    """
    written = [foreign_of(kernel) for kernel in kernels]
    sign(foreign for foreign in written if _HERE.get(foreign.digest))


def _written(entries: Mapping[str, Signed]) -> bool:
    path = trusted_file()
    if path is None:
        return False
    text = "".join(f"{' '.join(entry).rstrip()}\n" for entry in entries.values())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        import tempfile  # noqa: PLC0415  # it takes long, and most who ask for trust write nothing

        # mkstemp creates files that other users cannot read or write.
        descriptor, draft = tempfile.mkstemp(prefix="trusted-", dir=path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="\n") as file:  # noqa: PTH123  # a descriptor
                file.write(text)
            Path(draft).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(draft).unlink()
            raise
    except OSError:
        return False
    return signed().keys() >= entries.keys()
