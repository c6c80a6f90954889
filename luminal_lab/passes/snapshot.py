"""Snapshots: the graph after a pass, and its history from the editor's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, NoReturn, final, overload

from typing_extensions import override

from luminal_lab.core.edit import LogEntry, Refusal, replay
from luminal_lab.core.ir import IR, Node, NodeLike
from luminal_lab.core.origin import here
from luminal_lab.core.printer import as_text
from luminal_lab.display import DrawnGraph, Explored
from luminal_lab.errors import ArgumentError
from luminal_lab.passes.diff import Diff, diff
from luminal_lab.tensor.arguments import told_class, told_object


@told_class
class Firing(NamedTuple):
    """One step of a pass: a rule, and the nodes that it removed and added.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor(("batch", 4), name="x").softmax(-1).retrieve()
    >>> firing = cx.compile()["recognise"].firings[0]
    >>> firing.rule, len(firing.before), len(firing.after)
    ('exp', 3, 1)
    """

    rule: str
    because: str
    before: tuple[Node, ...]
    """The nodes that were replaced or erased."""
    after: tuple[Node, ...]
    """The nodes that were inserted, or that replaced another."""
    changes: tuple[LogEntry, ...]

    @override
    def __str__(self) -> str:
        old, new = (", ".join(map(str, nodes)) for nodes in (self.before, self.after))
        what = f"{old} → {new}" if old and new else f"made {new}" if new else f"erased {old}"
        before, after = self.changes[0].signatures[0], self.changes[-1].signatures[1]
        if not old and not new:
            if before == after:  # belongs to no graph: it says what happened elsewhere
                return f"{self.rule}: {self.because}"
            what = "another order"
        return f"{self.rule}: {what}" + (f", because {self.because}" if self.because else "")

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Firing {self}>"


class Record(NamedTuple):
    """The record of a pass: its log, and the figures of its run."""

    title: str
    """The pass as pipeline text."""
    log: Sequence[LogEntry]
    refusals: tuple[Refusal, ...] = ()
    seconds: float = 0.0
    verified: bool = False
    checked: bool = False
    """Whether the values were compared with those before."""
    round: int = 1
    """The number of the round of its pipeline."""


@told_object("snapshot")
@final
class Snapshot(DrawnGraph, Explored):
    """A graph, the one before it, and the firings between.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor(("batch", 4), name="x").softmax(-1).retrieve()
    >>> snapshot = cx.compile()["recognise"]
    >>> print(snapshot)
    recognise: 13 → 2 nodes; exp ×1, softmax ×1; well-formed
    """

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
        firings: list[Firing] = []
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
            firings.append(
                Firing(
                    first.rule or self.name,
                    first.because,
                    tuple(node for id, node in before.items() if id not in after),
                    tuple(after.values()),
                    changes,
                )
            )
        return tuple(firings)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of firings by rule."""
        return Counter(firing.rule for firing in self.firings)

    @property
    def refused(self) -> Mapping[str, int]:
        """The number of refusals by rule: it assumes a fact that the licence does not grant."""
        return Counter(refusal.rule for refusal in self.refusals)

    def steps(self) -> Steps:
        """Return the graph after each firing, beginning with the one before the pass; lazily.

        `steps()[0]` is the graph before the first firing, `steps()[-1]` the one after the last.

        >>> y = (cx.tensor((2,), name="x") * 1 + 0).retrieve()
        >>> steps = cx.compile("simplify")["simplify"].steps()
        >>> [ir.outputs for ir in steps]
        [(%4,), (%4,), (%x,)]
        """
        return Steps(self)

    def diff(self) -> Diff:
        """Return the changes of the pass.

        >>> y = (cx.tensor((2,), name="x") * 1 + 0).retrieve()
        >>> cx.compile("simplify, dce")["dce"].diff()
        <Diff: 0 added, 4 removed, 0 rewired, 1 kept>
        """
        return diff(self.before, self.ir)

    # -- across the pass ---------------------------------------------------------------------------

    @cached_property
    def _into(self) -> dict[int, int]:
        """The replacement of each replaced node."""
        into: dict[int, int] = {}
        for change in self.log:
            if change.kind == "replace" and change.into is not None:
                into[change.node] = change.into
                into.pop(change.into, None)  # it is back, and stands for itself again
        return into

    @cached_property
    def _folded(self) -> dict[int, list[int]]:
        """The calls into which nodes without a replacement were folded.

        This includes nodes that only dead code reads, or that a call recomputes.
        """
        folded: dict[int, list[int]] = {}
        get = self.ir.table.get
        for change in self.log:
            if change.kind != "insert" or change.after[0].meta.derivation is None:
                continue
            end = get(_end(self._into, change.node))
            is_call = change.after[0].op.body_of() is not None
            for id in self._parents(change.after[0]) if end is not None else ():
                if end is not None and id not in self._into and (is_call or get(id) is None):
                    folded.setdefault(id, []).append(end.id)
        return folded

    def _parents(self, node: Node) -> list[int]:
        """Return the parents of a node, through intermediate nodes of the pass."""
        todo = [*_parents_of(node)]
        parents: dict[int, None] = {}
        while todo:
            id = todo.pop()
            if id not in parents:
                parents[id] = None
                inserted = self._inserted.get(id)
                todo += _parents_of(inserted) if inserted is not None else ()
        return [*reversed(parents)]

    @cached_property
    def _inserted(self) -> dict[int, Node]:
        return {change.node: change.after[0] for change in self.log if change.kind == "insert"}

    @cached_property
    def _live(self) -> frozenset[int]:
        return frozenset(self.ir.ancestors(self.ir.output_ids))

    @cached_property
    def _came_from(self) -> dict[int, list[int]]:
        """The nodes that each node replaced, and its parents."""
        back: dict[int, list[int]] = {}
        for id in self._into:
            back.setdefault(_end(self._into, id), []).append(id)
        replaced = {id: list(ids) for id, ids in back.items()}
        for id, news in self._folded.items():
            for new in news:
                back.setdefault(new, []).extend([id, *replaced.get(id, ())])
        return back

    def forward(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes of the later graph for one of the earlier graph; none if it is gone.

        A node that became part of a call is that call.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).named("y").retrieve()
        >>> cx.compile("simplify")["simplify"].forward("y")
        (%1,)
        """
        id = self.before[node].id
        end = _end(self._into, id)
        successor = self.ir.table.get(end)
        # Its replacement may itself have become part of a call.
        folded = self._folded.get(id) or self._folded.get(end, ())
        if successor is not None and (successor.id in self._live or not folded):
            return (successor,)
        return tuple(self.ir[new] for new in dict.fromkeys(folded))

    def standing_for(self, id: int) -> int:
        """Return the node that replaced one of the earlier graph, or that node itself.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).retrieve()
        >>> snapshot = cx.compile("simplify")["simplify"]
        >>> y.id, snapshot.standing_for(y.id)
        (3, 1)
        """
        return _end(self._into, id)

    def back(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes of the earlier graph that a node of the later graph comes from.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).named("y").retrieve()
        >>> snapshot = cx.compile("simplify")["simplify"]
        >>> snapshot.back(snapshot.ir.outputs[0])
        (%1, %y)
        """
        return self._back(self.ir[node])

    def _back(self, node: Node) -> tuple[Node, ...]:
        get = self.before.table.get
        ids = dict.fromkeys([node.id, *self._came_from.get(node.id, ())])
        old = [record for id in ids if (record := get(id)) is not None]
        if old or node.meta.derivation is None:
            return tuple(old)
        # It replaced no node, but was derived from others.
        parents: dict[int, Node] = {}
        seen: set[int] = set()
        todo = [*reversed(_parents_of(node))]
        while todo:
            id = todo.pop()
            record, inserted = get(id), self._inserted.get(id)
            if id in seen or (record is None and inserted is None):
                continue
            seen.add(id)
            known = [id, *self._came_from.get(id, ())] if record is None else [id]
            old = [record for each in known if (record := get(each)) is not None]
            parents.update((record.id, record) for record in old)
            if not old and inserted is not None:
                todo += reversed(_parents_of(inserted))
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


def _parents_of(node: Node) -> tuple[int, ...]:
    return node.meta.derivation.parents if node.meta.derivation is not None else ()


def _end(into: Mapping[int, int], id: int) -> int:
    seen = {id}
    while id in into and into[id] not in seen:
        id = into[id]
        seen.add(id)
    return id


@told_object("steps")
@final
class Steps(Sequence[IR]):
    """The graphs between the firings of a pass, built on demand."""

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
            return [self[index] for index in wanted]
        return replay(self._first, [c for f in self.firings[:wanted] for c in f.changes])

    @override
    def __iter__(self) -> Iterator[IR]:
        ir = self._first
        yield ir
        for firing in self.firings:
            ir = replay(ir, firing.changes)
            yield ir


def followed(snapshots: Sequence[Snapshot], start: int, ids: set[int]) -> list[set[int]]:
    """Return the nodes of each snapshot that stand for some nodes of one of them."""
    rows: dict[int, set[int]] = {start: ids}
    for index in range(start, 0, -1):
        back = snapshots[index].back
        rows[index - 1] = {node.id for id in rows[index] for node in back(id)}
    for index in range(start + 1, len(snapshots)):
        forward = snapshots[index].forward
        rows[index] = {node.id for id in rows[index - 1] for node in forward(id)}
    return [rows[index] for index in range(len(snapshots))]


class Derivations(tuple[Snapshot, ...]):
    """The graph before and after each call of `grad` or `backward`."""

    __slots__ = ()

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuse to derive: a caller wants `grad`."""
        raise ArgumentError(
            "gradients: it has a snapshot for each derivation so far, and derives nothing itself",
            where=str(here() or "") or None,
            hint="ll.grad(loss, [x, y]) returns the gradients, and loss.backward() makes x.grad",
        )
