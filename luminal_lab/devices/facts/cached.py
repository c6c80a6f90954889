"""What is kept on this machine's disk to save time: libraries, planned kernels, and so on.

    ~/.cache/luminal_lab/libraries/lib-<key>/           a compiled library
    ~/.cache/luminal_lab/kernels/<key>/                 a kernel as its plan made it
    ~/.cache/luminal_lab/graphs/<key>/                  a graph as passes made it
    ~/.cache/luminal_lab/libraries/rates-<key>.json     the machine's rates, once measured
    ~/.cache/luminal_lab/winners/<key>/                 what a search found

All of it can be removed at any time, and is made again when it is needed. Other processes may be
using it, so an entry is removed as a whole, and by default none that was used a moment ago. A link
is removed as a link; its target stays.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from typing_extensions import override

from luminal_lab.devices.build import cache
from luminal_lab.devices.build.cache import FRESH, bytes_text, cut_text
from luminal_lab.devices.build.graphs import GRAPH
from luminal_lab.errors import ArgumentError, nearest, real_number
from luminal_lab.machines.rates import PeakRates
from luminal_lab.reading import read_plain
from luminal_lab.tensor.arguments import told_object

CachedKind: TypeAlias = Literal["libraries", "kernels", "graphs", "winners", "rates"]
KINDS: tuple[CachedKind, ...] = get_args(CachedKind)
ABOUT = {
    "libraries": "compiled kernels, with their sources",
    "kernels": "loops and C that plans made for kernels",
    "graphs": "graphs as passes made them",
    "winners": "the fastest programs that searches found",
    "rates": "what this machine can do at most, measured",
}
"""A description of each kind."""
IN_FOLDERS: dict[str, CachedKind] = {
    "kernels": "kernels",
    "graphs": "graphs",
    "winners": "winners",
}
"""The kinds in folders of their own, by the names of these."""
FIRST: dict[CachedKind, str] = {"libraries": cache.SOURCE, "graphs": GRAPH}
"""The files that say what an entry belongs to, unless it has a definition."""
RATES = re.compile(r"rates-[0-9a-f]{32}\.json")
UNITS = (("week", 7 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60))


class CachedEntry(NamedTuple):
    """Something that is kept on disk."""

    kind: CachedKind
    path: Path
    size: int
    """Its bytes."""
    used: datetime
    """When it was last used, or for rates, when they were measured."""

    @property
    def about(self) -> str:
        """What it belongs to: the first line of a source or a definition, or a device for rates."""
        with suppress(OSError, ValueError):
            if self.kind == "rates":
                rates = PeakRates.from_json(read_plain(self.path).decode())
                many = "1 thread" if rates.threads == 1 else f"{rates.threads} threads"
                return f"{rates.device}, {many}"
            name = FIRST.get(self.kind, "definition.txt")
            text = read_plain(self.path / name, sys.maxsize).decode("utf-8", "replace")
            lines = (line.strip() for line in text.split("\n"))
            return cut_text(next((line for line in lines if line and line[0] != "#"), ""), 70)
        return "not readable"

    @property
    def age(self) -> str:
        """How long ago it was last used.

        >>> from datetime import timedelta
        >>> long_ago = datetime.now(UTC) - timedelta(days=3)
        >>> CachedEntry("libraries", Path("lib"), 0, long_ago).age
        '3 days'
        """
        seconds = max(time.time() - self.used.timestamp(), 0.0)
        for unit, length in UNITS:
            if seconds >= length:
                many = int(seconds // length)
                return f"{many} {unit}{'s' * (many != 1)}"
        return "just now"

    @property
    def is_fresh(self) -> bool:
        """Whether it was used so recently that a process may be about to load it."""
        return time.time() - self.used.timestamp() < FRESH

    def remove(self) -> bool:
        """Remove it as a whole; return whether that worked."""
        if self.kind != "rates":
            return cache.remove(self.path)
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


@told_object("cached")
class CachedEntries(tuple[CachedEntry, ...]):
    """What is kept on disk, the most recently used first; shown as a table."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """The bytes of all of them."""
        return sum(entry.size for entry in self)

    @property
    def settled(self) -> CachedEntries:
        """Those that no process is about to load, since none used them within ten minutes."""
        return CachedEntries(entry for entry in self if not entry.is_fresh)

    def of(self, kind: CachedKind) -> CachedEntries:
        """Return the entries of one kind."""
        return CachedEntries(entry for entry in self if entry.kind == kind)

    def clear(self) -> CachedEntries:
        """Remove all of them, and return those that are gone."""
        return CachedEntries(entry for entry in self if entry.remove())

    @property
    def total(self) -> str:
        """How many there are of each kind, and their size together."""
        words = [named(kind, len(own)) for kind in KINDS if (own := self.of(kind))]
        return f"{', '.join(words)}; {bytes_text(self.size)}" if words else "nothing is cached"

    @override
    def __repr__(self) -> str:
        if not self:
            return self.total
        rows = [f"{'kind':9}  {'size':>9}  {'last used':10}  of"]
        rows += [
            f"{entry.kind:9}  {bytes_text(entry.size):>9}  {entry.age:10}  {entry.about}"
            for entry in self
        ]
        return "\n".join([self.total, *rows])


def named(kind: CachedKind, many: int) -> str:
    """Return a number of entries in words.

    >>> named("libraries", 1), named("winners", 3), named("rates", 1)
    ('1 library', '3 winners', '1 file of rates')
    """
    one = {"libraries": "library", "kernels": "planned kernel", "rates": "file of rates"}
    plural = {"kernels": "planned kernels", "rates": "files of rates"}
    return f"{many:,} {one.get(kind, kind[:-1]) if many == 1 else plural.get(kind, kind)}"


def cached(kind: CachedKind | None = None, *, older: float = 0.0) -> CachedEntries:
    """Return what is kept on disk: all kinds or one, and optionally only what is long unused.

    Kinds are "libraries", "kernels", "graphs", "winners" and "rates"; `older` is in seconds.
    `.clear()` removes what is returned. Everything is made again when it is needed.

    >>> import luminal_lab as ll
    >>> sorted({entry.kind for entry in ll.devices.cached("rates")}) in ([], ["rates"])
    True
    """
    if kind is not None and not (isinstance(kind, str) and kind in KINDS):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        raise ArgumentError(
            f"cached: there is no kind {kind!r}",
            hint=nearest(kind, KINDS) or f"the kinds are {', '.join(KINDS)}",
        )
    seconds = real_number(older)
    if seconds is None or not seconds >= 0:
        raise ArgumentError(
            f"cached: older is {older!r}", hint="give seconds, as in older=30 * 86400 for 30 days"
        )
    latest = time.time() - seconds
    entries = [
        entry
        for folder in folders()
        for entry in _entries(folder)
        if kind in (None, entry.kind) and (not seconds or entry.used.timestamp() <= latest)
    ]
    return CachedEntries(sorted(entries, key=lambda entry: entry.used, reverse=True))


def folders() -> tuple[Path, ...]:
    """Return the folders that may hold something."""
    libraries = cache.Cache().folders
    own = cache.user_folder() or cache.spare_folder() / "libraries"
    return tuple(dict.fromkeys((*libraries, own, *map(own.with_name, IN_FOLDERS))))


def _entries(folder: Path) -> Iterator[CachedEntry]:
    kind: CachedKind = IN_FOLDERS.get(folder.name, "libraries")
    for path in cache.entry_paths(folder):
        used, size = cache.use_of(path)
        if os.path.lexists(path):
            yield CachedEntry(kind, path, size, datetime.fromtimestamp(used, UTC))
    for path in _rates(folder) if kind == "libraries" else ():
        with suppress(OSError):
            status = path.lstat()
            used = datetime.fromtimestamp(status.st_mtime, UTC)
            yield CachedEntry("rates", path, status.st_size, used)


def _rates(folder: Path) -> Iterable[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if RATES.fullmatch(path.name)]
    return ()
