"""Whose code may run here: what this process wrote, what its user has signed, and nothing else.

A graph may carry the source of kernels (`ll.kernel`), and a recording the name of a compiler. Text
that came from a file is no reason to run either. Each source that goes into generated code has a
mark with its digest behind it, and whatever compiles or loads code calls `admit` first:

    // lab_user scale c 6a1f… void scale(const float *x, float *y, long n) {

    written   ll.kernel(...) was called with it, in this process
    allowed   somebody here said so, for this process: trust=True, --trust, a button in the page
    signed    its digest is in the user's file, which `luminal-lab trust` and saving add to

    ~/.local/share/luminal_lab/trusted      on Windows AppData/Local/…, on macOS Library/…
        6a1f… 2026-03-01 kernel scale in C

Whoever can write to that file can run code as the user anyway; one that others may write to is not
read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from luminal_lab.errors import ArgumentError, TrustError

LANGUAGES: Final[Mapping[str, str]] = {"c": "C", "cuda": "CUDA", "metal": "Metal"}
MARK: Final = re.compile(r"lab_user\b[^\n]*")
MARKED: Final = re.compile(r"lab_user ([\w.]+) (c|cuda|metal) ([0-9a-f]{64})(?: (.*))?")
SIGNED: Final = re.compile(r"([0-9a-f]{64})(?: (\S+) ([ -~]*))?")
LONGEST: Final = 60
"""The characters of a source's first line that an error shows."""


class Carried(Protocol):
    """A user's kernel as a graph has it."""

    @property
    def header(self) -> str:
        """What it takes and gives."""
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
        """How often it is called."""
        ...


class Foreign(NamedTuple):
    """Something to run that came from a file: its digest, what it is, and its first line."""

    digest: str
    what: str
    first: str


def untrusted(kernels: Iterable[Carried]) -> list[Foreign]:
    """Return what nobody here has signed or allowed, each once."""
    found = {one.digest: one for one in map(foreign_of, kernels)}
    return [one for one in found.values() if not is_trusted(one)]


class Signed(NamedTuple):
    """A line of the user's file."""

    digest: str
    date: str
    what: str


_HERE: Final[dict[str, bool]] = {}
"""The digests that this process may run, and whether it wrote them itself."""


# -- what is trusted -------------------------------------------------------------------------------


def foreign_of(kernel: Carried) -> Foreign:
    """Return what there is to trust in a kernel: all that decides what it does to memory."""
    parts = kernel.dialect, kernel.header, kernel.tasks, kernel.source
    name = re.match(r"\s*kernel\s+([\w.]+)", kernel.header, re.ASCII)
    what = f"kernel {name[1] if name else '_'} in {LANGUAGES[kernel.dialect]}"
    return Foreign(_digest("kernel", *parts), what, _first(kernel.source))


def program_of(name: str) -> Foreign:
    """Return what there is to trust in the name of a program that a file wants to be run."""
    return Foreign(_digest("program", name), "a program to run as the compiler", _cut(name))


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_trusted(foreign: Foreign) -> bool:
    """Return whether it was written here, allowed, or signed."""
    return foreign.digest in _HERE or foreign.digest in signed()


def write(kernel: Carried) -> None:
    """Note a kernel that this process has written."""
    _HERE[foreign_of(kernel).digest] = True


def allow(foreign: Iterable[Foreign | str]) -> None:
    """Trust something, given by itself or its digest, until this process ends."""
    for one in foreign:
        _HERE.setdefault(one if isinstance(one, str) else one.digest, False)


def asked(what: str, trust: object) -> bool:
    """Return an argument `trust`, which nothing but True makes true."""
    if not isinstance(trust, bool):
        raise ArgumentError(f"{what}: trust is {trust!r}", hint="give True, or leave it out")
    return trust


# -- the gate --------------------------------------------------------------------------------------


def mark(kernel: Carried) -> str:
    """Return the line of a comment that stands below a user's source wherever it is generated."""
    foreign = foreign_of(kernel)
    # A backslash at its end would go on into the next line.
    first = foreign.first.rstrip("\\/ ")
    return (
        f"// lab_user {foreign.what.split()[1]} {kernel.dialect} {foreign.digest} {first}".rstrip()
    )


def admit(source: str) -> None:
    """Raise a TrustError unless all that others wrote in a generated source is trusted.

    Whatever compiles or loads code calls this first. Text can add marks, and none can be taken out:
    those that say nothing, or name what nobody trusts, are refused.
    """
    refused: dict[str, Foreign] = {}
    for found in MARK.finditer(source):
        told = MARKED.fullmatch(found[0])
        one = Foreign(_digest("mark", found[0]), "a mark that cannot be read", _cut(found[0]))
        if told:
            what = f"kernel {told[1]} in {LANGUAGES[told[2]]}"
            one = Foreign(told[3], what, told[4] or "")
        if not is_trusted(one):
            refused.setdefault(one.digest, one)
    refuse(refused.values())


def admit_kernels(kernels: Iterable[Carried]) -> None:
    """Raise a TrustError unless a graph's kernels of the user's may be run."""
    refuse(one for one in map(foreign_of, kernels) if not is_trusted(one))


def admit_program(name: str) -> None:
    """Raise a TrustError unless a program that a file names may be run."""
    one = program_of(name)
    refuse([] if is_trusted(one) else [one])


def refuse(foreign: Iterable[Foreign]) -> None:
    """Raise a TrustError about what nobody here trusts; about nothing if there is nothing."""
    found = list(foreign)
    if not found:
        return
    many = f", and {len(found) - 1} more" if len(found) > 1 else ""
    error = TrustError(
        f"{found[0].what}{many}: a file brought it along, and nobody here has said to run it",
        where="\n".join(one.first for one in found) or None,
        hint="read it first: luminal-lab trust FILE --show; then trust=True of ll.open and "
        "ll.parse, or --trust, runs it, and luminal-lab trust FILE signs it for good",
    )
    error.carried = tuple(found)
    raise error


def _first(source: str) -> str:
    """Return the first line of a source that is code, printable and cut; else its first line."""
    lines = [stripped for line in source.splitlines() if (stripped := line.strip())]
    code = (line for line in lines if not line.startswith(("//", "/*", "*", "#")))
    return _cut(next(code, lines[0] if lines else ""))


def printable(line: str) -> str:
    """Return a line of somebody else's that can do nothing to a terminal, nor hide in one."""
    return "".join(one if one.isprintable() or one == "\t" else "�" for one in line)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


# -- what is signed --------------------------------------------------------------------------------


def trusted_file() -> Path | None:
    """Return the user's file of digests; None for a user who has no home."""
    parts = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / parts.get(sys.platform, ".local/share") / "luminal_lab" / "trusted"


def signed() -> Mapping[str, Signed]:
    """Return what the user has signed, by digest; nothing where others may write to the file."""
    path = trusted_file()
    try:
        if path is None or not _is_own(path.stat()) or not _is_own(path.parent.stat()):
            return {}
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found = (SIGNED.fullmatch(line) for line in lines)
    return {one[1]: Signed(one[1], one[2] or "", one[3] or "") for one in found if one}


def _is_own(found: os.stat_result) -> bool:
    if sys.platform == "win32":  # where a user's folder is the user's
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def sign(foreign: Iterable[Foreign]) -> bool:
    """Trust something for good; return whether that could be written."""
    known = signed()
    date = datetime.now(UTC).date().isoformat()
    new = {one.digest: Signed(one.digest, date, one.what) for one in foreign}
    new = {digest: one for digest, one in new.items() if digest not in known}
    return not new or _written({**known, **new})


def unsign(foreign: Iterable[Foreign]) -> bool:
    """Take signatures back, in this process too; return whether that could be written."""
    gone = {one.digest for one in foreign}
    for digest in gone:
        _HERE.pop(digest, None)
    known = signed()
    left = {digest: one for digest, one in known.items() if digest not in gone}
    return len(left) == len(known) or _written(left)


def sign_written(kernels: Iterable[Carried]) -> None:
    """Sign the kernels that this process wrote itself: what a user saves, the user may run again.

    Where nothing can be written, they are asked about in the next process.
    """
    found = [foreign_of(one) for one in kernels]
    sign(one for one in found if _HERE.get(one.digest))


def _written(entries: Mapping[str, Signed]) -> bool:
    path = trusted_file()
    if path is None:
        return False
    text = "".join(f"{' '.join(one).rstrip()}\n" for one in entries.values())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Nobody else may read or write what mkstemp makes.
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
