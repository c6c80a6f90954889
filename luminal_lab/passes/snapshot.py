"""A snapshot: the graph after a pass, and all that the editor's log says about how it got there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, final, overload

from typing_extensions import override

from luminal_lab.core.edit import Change, Refusal, replay
from luminal_lab.core.ir import IR, Node, NodeLike
from luminal_lab.core.printer import as_text
from luminal_lab.display import DrawnGraph, Explored
from luminal_lab.passes.diff import Diff, diff
from luminal_lab.tensor.arguments import told_object


class Firing(NamedTuple):
    """One step of a pass: a rule, what it took out and what it put in."""

    rule: str
    because: str
    before: tuple[Node, ...]
    """The nodes that were replaced or erased."""
    after: tuple[Node, ...]
    """The nodes that were inserted, or that took another's place."""
    changes: tuple[Change, ...]

    @override
    def __str__(self) -> str:
        old, new = (", ".join(map(str, nodes)) for nodes in (self.before, self.after))
        what = f"{old} → {new}" if old and new else f"made {new}" if new else f"erased {old}"
        text = f"{self.rule}: {what if old or new else 'another order'}"
        return text + (f", because {self.because}" if self.because else "")

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Firing {self}>"


class Record(NamedTuple):
    """What a pass left: its log, and how its run went."""

    title: str
    """The pass as the text of a pipeline spells it."""
    log: Sequence[Change]
    refusals: tuple[Refusal, ...] = ()
    seconds: float = 0.0
    verified: bool = False
    checked: bool = False
    """Whether the values were compared with those before."""
    round: int = 1
    """Which repetition of its pipeline this was."""


@told_object("snapshot")
@final
class Snapshot(DrawnGraph, Explored):
    """A graph, the one before it, and the firings between."""

    def __init__(self, before: IR, ir: IR, record: Record, index: int = 0) -> None:
        self.before = before
        """The graph before the pass."""
        self.ir = ir
        """The graph after the pass."""
        self.index = index
        self.title, self.log, self.refusals, self.seconds, *held, self.round = record
        self.verified, self.checked = held

    @property
    def name(self) -> str:
        """The short name of the pass."""
        return self.title.split("{")[0]

    # -- firings -----------------------------------------------------------------------------------

    @cached_property
    def firings(self) -> tuple[Firing, ...]:
        """The steps of the pass, in order."""
        records: dict[int, Node] = {}
        found: list[Firing] = []
        for _, group in groupby(self.log, key=lambda change: change.firing):
            changes = tuple(group)
            before: dict[int, Node] = {}
            after: dict[int, Node] = {}
            for change in changes:
                for id, into in ((change.node, before), (change.into, after)):
                    if id is not None and id >= 0 and change.kind != "insert":
                        record = records.get(id) or self.before.table.get(id)
                        if record is not None:
                            into[id] = record
                records.update((node.id, node) for node in change.after)
                if change.kind == "insert":
                    after[change.node] = change.after[0]
            first = changes[-1]
            found.append(
                Firing(
                    first.rule or self.name,
                    first.because,
                    tuple(node for id, node in before.items() if id not in after),
                    tuple(after.values()),
                    changes,
                )
            )
        return tuple(found)

    @property
    def counts(self) -> Mapping[str, int]:
        """How often each rule fired."""
        return Counter(firing.rule for firing in self.firings)

    @property
    def refused(self) -> Mapping[str, int]:
        """How often each rule was refused, because it assumes what the licence does not grant."""
        return Counter(refusal.rule for refusal in self.refusals)

    def steps(self) -> Steps:
        """Return the graph after each firing, from the one before the pass; each made when asked.

        `steps()[0]` is the graph before the first firing, `steps()[-1]` the one after the last.
        """
        return Steps(self)

    def diff(self) -> Diff:
        """Return what the pass has changed."""
        return diff(self.before, self.ir)

    # -- across the pass ---------------------------------------------------------------------------

    @cached_property
    def _into(self) -> dict[int, int]:
        """What took the place of each node that was replaced."""
        into: dict[int, int] = {}
        for change in self.log:
            if change.kind == "replace" and change.into is not None:
                into[change.node] = change.into
                into.pop(change.into, None)  # it is back: what it stood for stands for itself
        return into

    @cached_property
    def _folded(self) -> dict[int, list[int]]:
        """Of nodes without a successor, those that were made from them: calls.

        A node that only dead code reads, or that is computed within a call once more, is there.
        """
        folded: dict[int, list[int]] = {}
        get = self.ir.table.get
        for change in self.log:
            if change.kind != "insert" or change.after[0].meta.made is None:
                continue
            end = get(_end(self._into, change.node))
            is_call = change.after[0].op.body_of() is not None
            for id in self._parents(change.after[0]) if end is not None else ():
                if end is not None and id not in self._into and (is_call or get(id) is None):
                    folded.setdefault(id, []).append(end.id)
        return folded

    def _parents(self, node: Node) -> list[int]:
        """Return what a node was made of, through nodes that the pass made on the way."""
        todo = [*_made_of(node)]
        found: dict[int, None] = {}
        while todo:
            id = todo.pop()
            if id not in found:
                found[id] = None
                made = self._inserted.get(id)
                todo += _made_of(made) if made is not None else ()
        return [*reversed(found)]

    @cached_property
    def _inserted(self) -> dict[int, Node]:
        return {change.node: change.after[0] for change in self.log if change.kind == "insert"}

    @cached_property
    def _live(self) -> frozenset[int]:
        return frozenset(self.ir.ancestors(self.ir.output_ids))

    @cached_property
    def _came_from(self) -> dict[int, list[int]]:
        """Of which nodes each took the place, and which it was made of."""
        back: dict[int, list[int]] = {}
        for id in self._into:
            back.setdefault(_end(self._into, id), []).append(id)
        replaced = {id: list(ids) for id, ids in back.items()}
        for id, news in self._folded.items():
            for new in news:
                back.setdefault(new, []).extend([id, *replaced.get(id, ())])
        return back

    def forward(self, node: NodeLike) -> tuple[Node, ...]:
        """Return what a node of the graph before is in the graph after: nothing if it went.

        A node that became part of a call is that call.
        """
        id = self.before[node].id
        end = _end(self._into, id)
        found = self.ir.table.get(end)
        # What took its place may have become part of a call itself.
        folded = self._folded.get(id) or self._folded.get(end, ())
        if found is not None and (found.id in self._live or not folded):
            return (found,)
        return tuple(self.ir[new] for new in dict.fromkeys(folded))

    def back(self, node: NodeLike) -> tuple[Node, ...]:
        """Return which nodes of the graph before a node of the graph after comes from."""
        return self._back(self.ir[node])

    def _back(self, node: Node) -> tuple[Node, ...]:
        get = self.before.table.get
        found = dict.fromkeys([node.id, *self._came_from.get(node.id, ())])
        old = [record for id in found if (record := get(id)) is not None]
        if old or node.meta.made is None:
            return tuple(old)
        # It took nobody's place, but was made from others.
        parents: dict[int, Node] = {}
        seen: set[int] = set()
        todo = [*reversed(_made_of(node))]
        while todo:
            id = todo.pop()
            record, made = get(id), self._inserted.get(id)
            if id in seen or (record is None and made is None):
                continue
            seen.add(id)
            known = [id, *self._came_from.get(id, ())] if record is None else [id]
            old = [one for each in known if (one := get(each)) is not None]
            parents.update((one.id, one) for one in old)
            if not old and made is not None:
                todo += reversed(_made_of(made))
        return tuple(parents.values())

    # -- shown -------------------------------------------------------------------------------------

    @override
    def __str__(self) -> str:
        rules = ", ".join(f"{rule} ×{count}" for rule, count in self.counts.items())
        refused = ", ".join(f"{rule} ×{count}" for rule, count in self.refused.items())
        text = f"{self.title}: {len(self.before)} → {len(self.ir)} nodes"
        text += f"; {rules}" if rules else "; no change" if self.index else ""
        text += f"; refused: {refused}" if refused else ""
        held = ["well-formed"] * self.verified + ["values equal"] * self.checked
        return "; ".join([text, *held])

    @override
    def __repr__(self) -> str:
        return f"<Snapshot {self.index} {self}>"


def _made_of(node: Node) -> tuple[int, ...]:
    return node.meta.made.parents if node.meta.made is not None else ()


def _end(into: Mapping[int, int], id: int) -> int:
    seen = {id}
    while id in into and into[id] not in seen:
        id = into[id]
        seen.add(id)
    return id


@final
class Steps(Sequence[IR]):
    """The graphs between the firings of a pass, each made when it is asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.firings = snapshot.firings
        self._first = snapshot.before

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Steps: {len(self)} graphs, {len(self.firings)} firings between them>"

    @override
    def __len__(self) -> int:
        return len(self.firings) + 1

    @overload
    def __getitem__(self, index: int) -> IR: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[IR]: ...
    @override
    def __getitem__(self, index: int | slice) -> IR | Sequence[IR]:
        wanted = range(len(self))[index]
        if isinstance(wanted, range):
            return [self[one] for one in wanted]
        return replay(self._first, [c for f in self.firings[:wanted] for c in f.changes])

    @override
    def __iter__(self) -> Iterator[IR]:
        ir = self._first
        yield ir
        for firing in self.firings:
            ir = replay(ir, firing.changes)
            yield ir
