"""The contents of a live picture: its subjects, their backing, and their bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from luminal_lab.core.origin import Origin
from luminal_lab.io.facts import Subject
from luminal_lab.search.board import Board
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.boards import Boards
from luminal_lab.viz.live.bundle import Bundling

MANY = 10_000
"""From so many nodes on, in all stages together, views are sent when they are needed."""


def telling_first(backed: Backed) -> int:
    """Return the snapshot of a compile that says most."""
    return backed.telling


class Held:
    """Some subjects, and their bundle, made on first use."""

    def __init__(
        self, backed: Iterable[Backed], first: Callable[[Backed], int] = telling_first
    ) -> None:
        self._backed = list(backed)
        self._first = first
        self._bundling: Bundling | None = None
        self._data: bytes | None = None
        self._boards = Boards(self._board_changed)
        self.watchers: list[Callable[[], object]] = []
        """Called when something of it was changed from outside."""

    @property
    def all(self) -> tuple[Backed, ...]:
        """The subjects."""
        return tuple(self._backed)

    def first(self, run: int) -> int:
        """Return the number of the snapshot at which one begins to look at a run."""
        return self._first(self._backed[run])

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects as they are shown, with their boards."""
        return tuple(self._shown(run, backed) for run, backed in enumerate(self._backed))

    def _shown(self, run: int, backed: Backed) -> Subject:
        subject = backed.subject
        boards = self._boards.facts(run, backed)
        return replace(subject, facts=replace(subject.facts, boards=boards))

    @property
    def title(self) -> str:
        """The titles of the subjects."""
        return ", ".join(dict.fromkeys(backed.subject.title for backed in self._backed))

    @property
    def data(self) -> bytes:
        """The bundle."""
        if self._data is None:
            bundling = self._bundled()
            bundling.draw()
            self._data = bundling.to_bytes()
        return self._data

    def first_data(self, run: int, stage: int) -> bytes:
        """Return the bundle as it is needed at first: of large graphs it has the view of one stage.

        The front end asks for the rest as soon as it shows that.
        """
        nodes = sum(len(made.ir) for backed in self._backed for made in backed.snapshots)
        if self._data is not None or nodes < MANY:
            return self.data
        bundling = self._bundled()
        bundling.draw_first(run, stage)
        return bundling.to_bytes()

    def origins(self, run: int) -> tuple[Origin, ...]:
        """Return the user's lines, as a run's bundle counts them."""
        return self._bundled().origins(run)

    def _bundled(self) -> Bundling:
        if self._bundling is None:
            bundling = Bundling(self.title)
            for run, subject in enumerate(self.subjects):
                bundling.add(subject, self.first(run))
            self._bundling = bundling
        return self._bundling

    def add(self, backed: Backed) -> None:
        """Add a subject; if it cannot be shown, nothing changes."""
        try:
            shown = self._shown(len(self._backed), backed)
            self._bundled().add(shown, self._first(backed))
        except BaseException:
            self._bundling = None  # it may have a part of it
            raise
        self._backed.append(backed)
        self._data = None

    def replace(self, run: int, backed: Backed) -> None:
        """Replace a subject by one that differs only in its facts."""
        assert backed.snapshots == self._backed[run].snapshots
        self._bundled()  # if that fails, all is as it was
        self._tell(run, backed)
        self._backed[run] = backed

    def board(self, run: int, kernel: int, number: int | None = None) -> Board:
        """Return the A/B board of a kernel, or that with a number among those shown."""
        return self._boards.of(run, kernel, self._backed[run], number)

    def _board_changed(self, run: int) -> None:
        self._tell(run, self._backed[run])
        for watcher in self.watchers:
            watcher()

    def _tell(self, run: int, backed: Backed) -> None:
        if self._bundling is not None:  # else it is made of what is then so
            self._bundling.tell(run, self._shown(run, backed).facts)
        self._data = None
