"""The libraries that the cache keeps, for tests: each with what it is of and what is wrong."""

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from luminal_lab.devices.build.cache import (
    FACTS,
    SOURCE,
    Cache,
    _fault,
    entry_paths,
    remove,
    use_of,
)


class Kept(NamedTuple):
    """An entry, and why it is not used."""

    path: Path
    fault: str | None

    @property
    def source(self) -> str:
        """What the library was made from; empty if that is lost."""
        with suppress(OSError):
            return (self.path / SOURCE).read_bytes().decode("utf-8", "replace")
        return ""

    @property
    def made_by(self) -> str:
        """What made it."""
        return json.loads((self.path / FACTS).read_text())["made_by"]


def entries(folder: Path | None = None) -> list[Kept]:
    """Return all entries, the last used first; by default of the user's folder."""
    paths = [path for place in Cache(folder).folders for path in entry_paths(place)]
    return [Kept(path, _fault(path)) for path in sorted(paths, key=lambda path: -use_of(path)[0])]


def clear(folder: Path | None = None) -> int:
    """Remove all entries, and return how many there were."""
    return sum(remove(path) for place in Cache(folder).folders for path in entry_paths(place))
