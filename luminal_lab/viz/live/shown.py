"""The table behind `.explore()` and `.workbench()`: live pictures by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import GraphError, LabError
from luminal_lab.io.derivation_facts import derivation_facts, with_derivation
from luminal_lab.io.facts import KernelFacts, Subject
from luminal_lab.io.opened import Opened
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.search.derivation import Derivation
from luminal_lab.search.derived import JoinedDerivation, KernelDerivation
from luminal_lab.search.space import Space, space_of
from luminal_lab.viz.derivation_subject import subject_of_derivation
from luminal_lab.viz.egraph_picture import space_picture
from luminal_lab.viz.egraph_subject import subject_of_space, winning_costs
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed, backed_compile, backed_snapshot, with_workers
from luminal_lab.viz.live.explorer import Explorer, explorer
from luminal_lab.viz.live.story import recording_story
from luminal_lab.viz.live.workbench import Workbench, workbench
from luminal_lab.viz.picture import Picture

BEST = "the best program: additions for an element"
LivePicture = TypeVar("LivePicture", bound=Live)


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
    return workbench(with_workers(backed_compile(compilation)))


def recording_explorer(recorded: HasSubjects) -> Explorer:
    """Return an explorer of a recording."""
    return explorer(_compiles(recorded))


def recording_workbench(recorded: Opened) -> Workbench:
    """Return a workbench of a recording, with its story if it has one."""
    if recorded.contents.story:
        with suppress(LabError):  # what it points at may not be there; the compiles are
            return recording_story(recorded)
    return workbench(_compiles(recorded))


def _compiles(recorded: HasSubjects) -> Sequence[Backed]:
    """Return all that a recording has but searches, which show themselves, if there is more."""
    subjects = [one for one in recorded.subjects if one.facts.search is None]
    return [Backed(subject) for subject in subjects or recorded.subjects]


@dataclass(frozen=True)
class BackedSpace(Backed):
    """Elements of a space of programs, which knows why they are there."""

    space: Space | None = None
    is_whole: bool = True
    """Whether it is the space that is shown, and not a program of it."""

    @override
    def picture(
        self,
        theme: Theme = "auto",
        stage: int = -1,
        firing: int | None = None,
        *,
        changes: bool = False,
    ) -> Picture:
        if self.space is None or not self.is_whole:
            return super().picture(theme, stage, firing, changes=changes)
        return space_picture(self.space, theme=theme)

    @override
    def why(self, id: int) -> str:
        return super().why(id) if self.space is None else self.space.why(self._term(id))

    @override
    def why_not(self, rule: str, id: int) -> str:
        if self.space is None:
            return super().why_not(rule, id)
        return self.space.why_not(rule, self._term(id))

    def _term(self, id: int) -> str:
        """Return the name of the class that a node belongs to, or its own."""
        tables = [shot.ir.table for shot in reversed(self.snapshots)]
        node = next((node for table in tables if (node := table.get(id)) is not None), None)
        return f"%{id}" if node is None else node.meta.scope or node.name


def space_explorer(space: Space) -> Explorer:
    """Return an explorer of a space, round by round, with what its best program costs."""
    return _with_best(explorer([BackedSpace(subject_of_space(space), space=space)]), space)


def space_workbench(space: Space) -> Workbench:
    """Return a workbench of a space: its rounds are passes, whose firings are those of rules."""
    return _with_best(workbench([BackedSpace(subject_of_space(space), space=space)]), space)


def _with_best(live: LivePicture, space: Space) -> LivePicture:
    costs = winning_costs(space)
    live.overlay = {BEST: {"results": {name: {"value": cost} for name, cost in costs.items()}}}
    return live


def derivation_explorer(derivation: Derivation) -> Explorer:
    """Return an explorer of a derivation: the program as written, and as found."""
    return explorer([_backed_derivation(derivation)])


def derivation_workbench(derivation: Derivation) -> Workbench:
    """Return a workbench of a derivation, as a pass with its firings."""
    return workbench([_backed_derivation(derivation)])


def joined_explorer(joined: JoinedDerivation) -> Explorer:
    """Return an explorer of several derivations."""
    return explorer(_backed_parts(joined))


def joined_workbench(joined: JoinedDerivation) -> Workbench:
    """Return a workbench of several derivations, each a run: its rules, then all of its steps."""
    return workbench(_backed_parts(joined))


def _backed_parts(joined: JoinedDerivation) -> Sequence[Backed]:
    """Return the kernels whose elements can be shown; a random number is no element."""
    parts: list[Backed] = []
    for part in joined.parts:
        with suppress(LabError, ValueError):
            parts.append(_backed_part(part))
    if not parts:
        raise GraphError(
            "derivation: there is no kernel that could be shown",
            hint="a device makes kernels: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
        )
    return parts


def _backed_part(part: KernelDerivation) -> BackedSpace:
    """Return how a kernel was found: elements, as long as rules fire, and then its nests."""
    space = space_of(part.written, ()) if part.rules is None else part.rules.space
    rules = part.rules or Derivation(space, space.programs(1)[0])
    subject, facts = subject_of_derivation(rules), derivation_facts(part)
    kernel = KernelFacts(**vars(facts), definition=str(part.kernel.definition))
    return BackedSpace(
        replace(
            subject,
            snapshots=with_derivation(subject.snapshots, [facts]),
            facts=replace(subject.facts, kernels=(kernel,)),
        ),
        space=space,
        is_whole=False,
    )


def _backed_derivation(derivation: Derivation) -> BackedSpace:
    subject = subject_of_derivation(derivation)
    return BackedSpace(subject, space=derivation.space, is_whole=False)


FORMATTERS: dict[str, Callable[[Any], Live]] = {
    "Compilation.explore": compilation_explorer,
    "Compilation.workbench": compilation_workbench,
    "Derivation.explore": derivation_explorer,
    "Derivation.workbench": derivation_workbench,
    "JoinedDerivation.explore": joined_explorer,
    "JoinedDerivation.workbench": joined_workbench,
    "Opened.explore": recording_explorer,
    "Opened.workbench": recording_workbench,
    "Snapshot.explore": snapshot_explorer,
    "Space.explore": space_explorer,
    "Space.workbench": space_workbench,
}
"""The function for each live picture, by the names of the class and of the method."""
