"""The editor of an IR: the only way to change one, and a log of every change with its reason.

Whatever shows the history of a graph (snapshots, diffs, stepping, maps forward and back) reads
this log; who edits need not know of any of it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from luminal_lab.core.ir import IR, Derivation, Meta, Node, NodeLike
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Input
from luminal_lab.core.printer import unique
from luminal_lab.errors import GraphError, VerifyError


class Change(NamedTuple):
    """One entry of the log: records before and after, so that it can be redone and undone."""

    kind: Literal["insert", "replace", "erase"]
    rule: str
    node: int
    """The node that was inserted, replaced or erased."""
    into: int | None
    """For "replace": the node that took its place."""
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    outputs: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """The outputs before and after, where they changed."""
    carries: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] | None = None


def replay(ir: IR, log: Iterable[Change]) -> IR:
    """Return the graph after the changes of a log."""
    return _apply(ir, [(c.before, c.after, c.outputs, c.carries, 1) for c in log])


def undo(ir: IR, log: Sequence[Change]) -> IR:
    """Return the graph before the changes of a log."""
    return _apply(ir, [(c.after, c.before, c.outputs, c.carries, 0) for c in reversed(log)])


class Edit:
    """A graph being changed: reads as it is now, and logs each change with the rule behind it.

    >>> from luminal_lab.core.parse import parse
    >>> from luminal_lab.core.ops import Sin
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %y = sqrt %x : f32[2] }")
    >>> edit = Edit(ir)
    >>> new = edit.insert(Sin(), "x", like="y", rule="sqrt-to-sin")
    >>> edit.replace("y", new, rule="sqrt-to-sin")
    >>> edit.erase("y", rule="unused")
    >>> print(edit.ir())
    graph g(%x: f32[2]) -> (%2) {
      %2 = sin %x : f32[2]
    }
    <BLANKLINE>
    >>> [change.kind for change in edit.log]
    ['insert', 'replace', 'erase']
    """

    def __init__(self, ir: IR) -> None:
        self.base = ir
        self.log: list[Change] = []
        self._table = ir.table.copy()
        self._inputs = list(ir.input_ids)
        self._outputs = ir.output_ids
        self._carries = ir.carries
        self._names: dict[str, int] | None = None
        self._users: dict[int, dict[int, None]] = {}
        for node in ir.nodes:
            for source in node.sources:
                self._users.setdefault(source, {})[node.id] = None

    # -- reading -------------------------------------------------------------------------------

    def __getitem__(self, key: NodeLike) -> Node:
        """Return the present record of a node, given by id, by name, or as it was before."""
        if isinstance(key, str):
            key = self.names[key.removeprefix("%")]
        node = self._table.get(key if isinstance(key, int) else key.id)
        if node is None:
            raise GraphError(f"edit: {key} is not in the graph any more")
        return node

    def __contains__(self, node: NodeLike) -> bool:
        if isinstance(node, str):
            return node.removeprefix("%") in self.names
        return self._table.get(node if isinstance(node, int) else node.id) is not None

    @property
    def names(self) -> dict[str, int]:
        """The id of every node by its name."""
        if self._names is None:
            self._names = {node.name: node.id for node in self._table}
        return self._names

    def sources(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that a node reads now."""
        return tuple(self[id] for id in self[node].sources)

    def users(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that read a node now, each once."""
        return tuple(self[id] for id in self._users.get(self[node].id, ()))

    def is_output(self, node: NodeLike) -> bool:
        """Return whether a node is an output now."""
        return self[node].id in self._outputs

    def ir(self) -> IR:
        """Return the graph as it is now; untouched records are the same objects as before."""
        if not self.log:
            return self.base
        return IR(
            self._table.copy(),
            self._inputs,
            self._outputs,
            name=self.base.name,
            carries=self._carries,
            schedule=self.base.schedule,
        )

    # -- changing ------------------------------------------------------------------------------

    def insert(
        self,
        op: Op,
        *sources: NodeLike,
        like: NodeLike | Sequence[NodeLike] = (),
        name: str | None = None,
        rule: str = "",
    ) -> Node:
        """Add a node and return it; `like` is what it is made from, whose origin it takes."""
        found = [self[source] for source in sources]
        types = op.types(found)
        parents = [self[p] for p in ([like] if isinstance(like, (Node, int, str)) else like)]
        first = parents[0].meta if parents else Meta()
        made = Derivation(rule, tuple(p.id for p in parents)) if rule or parents else None
        if name is not None:
            name = unique(name, self.names)
        meta = Meta(name, first.origin, first.scope, made)
        ids = tuple(node.id for node in found)
        node = Node(self._table.size, op, ids, types[0], types[1:], meta)
        self._put(node)
        if isinstance(op, Input):
            self._inputs.append(node.id)
        self.log.append(Change("insert", rule, node.id, None, (), (node,)))
        return node

    def replace(self, old: NodeLike, new: NodeLike, *, rule: str = "") -> None:
        """Make every user of `old`, and the outputs, read `new` instead."""
        old, new = self[old], self[new]
        if old is new:
            return
        if old.types != new.types:
            raise VerifyError(
                f"replace: {old} is {old.type}, but {new} is {new.type}",
                hint="insert a cast or a view first, so that the types are equal",
            )
        users = [user for user in self.users(old) if user is not new]
        before, after = list(users), list[Node]()
        for user in users:
            sources = tuple(new.id if id == old.id else id for id in user.sources)
            after.append(user._replace(sources=sources))
            self._put(after[-1])
            self._users[new.id][user.id] = None
        keeps = {new.id: None} if old.id in new.sources else {}
        self._users[old.id] = keeps
        outputs, carries = self._outputs, self._carries
        self._outputs = tuple(new.id if id == old.id else id for id in outputs)
        self._carries = tuple((new.id if id == old.id else id, into) for id, into in carries)
        self.log.append(
            Change(
                "replace",
                rule,
                old.id,
                new.id,
                tuple(before),
                tuple(after),
                (outputs, self._outputs) if outputs != self._outputs else None,
                (carries, self._carries) if carries != self._carries else None,
            )
        )

    def erase(self, node: NodeLike, *, rule: str = "") -> None:
        """Take out a node that nothing reads."""
        node = self[node]
        users = self.users(node)
        if users or self.is_output(node):
            what = f"{users[0]} reads it" if users else "it is an output"
            raise GraphError(f"erase: {node} is still needed: {what}")
        for id in node.sources:
            self._users[id].pop(node.id, None)
        self._table.set(node.id, None)
        if self._names is not None:
            self._names.pop(node.name, None)
        if isinstance(node.op, Input):
            self._inputs.remove(node.id)
        self.log.append(Change("erase", rule, node.id, None, (node,), ()))

    def _put(self, node: Node) -> None:
        self._table.set(node.id, node)
        self._users.setdefault(node.id, {})
        for id in node.sources:
            self._users.setdefault(id, {})[node.id] = None
        if self._names is not None:
            self._names[node.name] = node.id


def _apply(
    ir: IR,
    steps: Iterable[
        tuple[
            tuple[Node, ...],
            tuple[Node, ...],
            tuple[tuple[int, ...], tuple[int, ...]] | None,
            tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] | None,
            int,
        ]
    ],
) -> IR:
    table = ir.table.copy()
    inputs = dict.fromkeys(ir.input_ids)
    outputs, carries = ir.output_ids, ir.carries
    for gone, come, new_outputs, new_carries, side in steps:
        for node in gone:
            table.set(node.id, None)
            if isinstance(node.op, Input):
                inputs.pop(node.id, None)
        for node in come:
            table.set(node.id, node)
            if isinstance(node.op, Input):
                inputs[node.id] = None
        outputs = outputs if new_outputs is None else new_outputs[side]
        carries = carries if new_carries is None else new_carries[side]
    return IR(
        table, tuple(inputs), outputs, name=ir.name, carries=carries, schedule=ir.schedule
    )
