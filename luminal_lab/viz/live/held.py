"""What a live picture holds: its subjects, what is behind them, and their bundle."""

from __future__ import annotations

from collections.abc import Iterable

from luminal_lab.core.origin import Origin
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.bundle import Bundling


class Held:
    """Some subjects, and the bundle of them, which is made when it is first asked for."""

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
        """What they are called, in a few words."""
        return ", ".join(dict.fromkeys(one.subject.title for one in self._backed))

    @property
    def data(self) -> bytes:
        """The bundle."""
        if self._data is None:
            self._data = self._made().to_bytes()
        return self._data

    def origins(self, run: int) -> tuple[Origin, ...]:
        """Return the lines of the user's, as the bundle of a run counts them."""
        return self._made().origins(run)

    def _made(self) -> Bundling:
        if self._bundling is None:
            made = Bundling(self.title)
            for one in self._backed:
                made.add(one.subject)
            self._bundling = made
        return self._bundling

    def add(self, one: Backed) -> None:
        """Add a subject; if it cannot be shown, all stays as it was."""
        try:
            self._made().add(one.subject)
        except BaseException:
            self._bundling = None  # it may have a part of it
            raise
        self._backed.append(one)
        self._data = None

    def replace(self, run: int, one: Backed) -> None:
        """Put another in the place of a subject, of which the facts alone are different."""
        assert one.snapshots == self._backed[run].snapshots
        self._made().tell(run, one.subject.facts)
        self._backed[run] = one
        self._data = None
