"""The table behind `.explore()` and `.workbench()`: live pictures by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from luminal_lab.io.facts import Subject
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed, backed_compile, backed_snapshot
from luminal_lab.viz.live.explorer import Explorer, explorer
from luminal_lab.viz.live.workbench import Workbench, workbench


class HasSubjects(Protocol):
    """An open recording."""

    @property
    def subjects(self) -> Sequence[Subject]:
        """The graphs and compiles in it."""
        ...


def snapshot_explorer(snapshot: Snapshot) -> Explorer:
    """Return an explorer of the graph after a pass, alone."""
    return explorer([backed_snapshot(snapshot)])


def compilation_explorer(compilation: Compilation) -> Explorer:
    """Return an explorer of the last graph of a compile, with its story."""
    return explorer([backed_compile(compilation)])


def compilation_workbench(compilation: Compilation) -> Workbench:
    """Return a workbench of a compile."""
    return workbench([backed_compile(compilation)])


def recording_explorer(recorded: HasSubjects) -> Explorer:
    """Return an explorer of a recording."""
    return explorer([Backed(subject) for subject in recorded.subjects])


def recording_workbench(recorded: HasSubjects) -> Workbench:
    """Return a workbench of a recording."""
    return workbench([Backed(subject) for subject in recorded.subjects])


FORMATTERS: dict[str, Callable[[Any], Live]] = {
    "Compilation.explore": compilation_explorer,
    "Compilation.workbench": compilation_workbench,
    "Opened.explore": recording_explorer,
    "Opened.workbench": recording_workbench,
    "Snapshot.explore": snapshot_explorer,
}
"""The function for each live picture, by the names of the class and of the method."""
