"""The contents of a live picture: its subjects, their backing, and their bundle."""

from __future__ import annotations

from collections.abc import Iterable

from luminal_lab.core.origin import Origin
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.bundle import Bundling


class Held:
    """Some subjects, and their bundle, made on first use."""

    def __init__(self, backed: Iterable[Backed]) -> None:
        self._backed = list(backed)
        self._bundling: Bundling | None = None
        self._data: bytes | None = None

    @property
    def all(self) -> tuple[Backed, ...]:
        """The subjects."""
        return tuple(self._backed)

    @property
    def title(self) -> str:
        """The titles of the subjects."""
        return ", ".join(dict.fromkeys(backed.subject.title for backed in self._backed))

    @property
    def data(self) -> bytes:
        """The bundle."""
        if self._data is None:
            self._data = self._bundled().to_bytes()
        return self._data

    def origins(self, run: int) -> tuple[Origin, ...]:
        """Return the user's lines, as a run's bundle counts them."""
        return self._bundled().origins(run)

    def _bundled(self) -> Bundling:
        if self._bundling is None:
            bundling = Bundling(self.title)
            for backed in self._backed:
                bundling.add(backed.subject)
            self._bundling = bundling
        return self._bundling

    def add(self, backed: Backed) -> None:
        """Add a subject; if it cannot be shown, nothing changes."""
        try:
            self._bundled().add(backed.subject)
        except BaseException:
            self._bundling = None  # it may have a part of it
            raise
        self._backed.append(backed)
        self._data = None

    def replace(self, run: int, backed: Backed) -> None:
        """Replace a subject by one that differs only in its facts."""
        assert backed.snapshots == self._backed[run].snapshots
        self._bundled().tell(run, backed.subject.facts)
        self._backed[run] = backed
        self._data = None
