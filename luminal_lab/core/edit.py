"""The editor of an IR: the only way to change a graph, and a log of every change with its reason.

Snapshots, diffs, stepping, and maps forward and back all read this log; passes need not know
about them.
"""

import math
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.builder import check_name
from luminal_lab.core.ir import (
    IR,
    Derivation,
    Meta,
    Node,
    NodeLike,
    NodeLookup,
    Signature,
    Table,
    check_ir,
    in_order,
)
from luminal_lab.core.op import Op, TensorType, result_types
from luminal_lab.core.ops import Input
from luminal_lab.core.printer import unique
from luminal_lab.errors import GraphError, PassError, VerifyError

Kind: TypeAlias = Literal["insert", "replace", "erase", "reorder"]


class LogEntry(NamedTuple):
    """One entry of the log: the records before and after, so that it can be undone."""

    kind: Kind
    rule: str
    node: int
    """The node that was inserted, replaced or erased."""
    into: int | None
    """For "replace": the node that took its place."""
    before: tuple[Node, ...]
    after: tuple[Node, ...]
    signatures: tuple[Signature, Signature]
    firing: int = 0
    """The number of the firing; changes of one firing are one step."""
    because: str = ""
    """The reason in words, where the rule's name is not enough."""


class Refusal(NamedTuple):
    """A rule that matched a node, but assumes a fact that is not granted."""

    rule: str
    node: int
    facts: frozenset[str] = frozenset()
    because: str = ""
    """The reason in words, where no fact is missing."""


def replay(ir: IR, log: Iterable[LogEntry]) -> IR:
    """Return the graph after the changes of a log."""
    return _apply(ir, [(c.before, c.after, c.signatures[1]) for c in log])


def undo(ir: IR, log: Sequence[LogEntry]) -> IR:
    """Return the graph before the changes of a log; their ids stay used."""
    return _apply(ir, [(c.after, c.before, c.signatures[0]) for c in reversed(log)])


def _apply(ir: IR, steps: Iterable[tuple[Sequence[Node], Sequence[Node], Signature]]) -> IR:
    table, signature = ir.table.copy(), ir.signature
    for gone, come, then in steps:
        for node in gone:
            table.set(node.id, None)
        for node in come:
            table.set(node.id, node)
        signature = then
    return _changed(ir, table, signature)


def _changed(ir: IR, table: Table, signature: Signature) -> IR:
    return IR(table, name=ir.name, **signature._asdict())


class Edit(NodeLookup):
    """A graph under change: it reads as it is now, and logs each change with its rule.

    >>> from luminal_lab.core.parse import parse
    >>> from luminal_lab.core.ops import Sin
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %y = sqrt %x : f32[2] }")
    >>> edit = Edit(ir)
    >>> new = edit.insert(Sin(), "x", like="y", rule="sqrt-to-sin")
    >>> edit.made_of(new.id, [edit["x"].id]) == edit["x"].id
    True
    >>> edit.replace("y", new, rule="sqrt-to-sin")
    >>> edit.erase("y", rule="unused")
    >>> print(edit.ir())
    graph g(%x: f32[2]) -> (%2) {
      %2 = sin %x : f32[2]
    }
    >>> [change.kind for change in edit.log]
    ['insert', 'replace', 'erase']
    """

    def __init__(
        self,
        ir: IR,
        *,
        licence: Iterable[str] = (),
        limit: int | None = None,
        weights: Mapping[int, str] | None = None,
    ) -> None:
        check_ir("Edit", ir)
        super().__init__(ir.table.copy(), ir.name, ir.signature)
        self.base = ir
        self.log: list[LogEntry] = []
        self.licence = frozenset(licence)
        """The facts about values that rules may assume."""
        self.limit = limit
        """The most firings; a pass that exceeds it does not terminate."""
        self.weights: Mapping[int, str] = weights or {}
        """The inputs that are parameters, each with its storage form."""
        self.refusals: dict[tuple[str, int], Refusal] = {}
        self._inferred: dict[Hashable, tuple[TensorType, ...]] = {}
        """The types that ops make of types: those of equal layers are worked out once."""
        self._firing = self._lifted = 0
        self._because: tuple[str, str] | None = None

    @cached_property
    def _ranks(self) -> dict[int, int]:
        """Ranks of nodes above those of their sources, so that a search for cycles stops early.

        The gaps leave room for nodes inserted between.
        """
        return {node.id: k << 32 for k, node in enumerate(self if self.log else self.base)}

    @cached_property
    @override
    def readers(self) -> dict[int, dict[int, None]]:
        """The ids of the nodes that read a node: the base's own until the first change."""
        return self.base.readers

    def ir(self) -> IR:
        """Return the graph as it is now; untouched records are the same objects as before.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> ir = cx.ir
        >>> ll.Edit(ir).ir() is ir
        True
        """
        if self.signature == self.base.signature and self.table.shares_all(self.base.table):
            return self.base
        return _changed(self.base, self.table.copy(), self.signature)

    def __iter__(self) -> Iterator[Node]:
        """Iterate over the nodes as they are at the beginning, in order."""
        return iter(in_order(self.table, self.signature.schedule))

    @contextmanager
    def firing(self, rule: str, because: str = "") -> Generator[None, None, None]:
        """Make the changes inside one step, with one rule and one reason.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> edit = ll.Edit(cx.ir)
        >>> with edit.firing("mul-one"):
        ...     edit.replace(y.node, "x")
        ...     edit.erase(y.node)
        >>> [(change.kind, change.rule, change.firing) for change in edit.log]
        [('replace', 'mul-one', 0), ('erase', 'mul-one', 0)]
        """
        outer, self._because = self._because, self._because or (rule, because)
        try:
            yield
        finally:
            self._because = outer
            if outer is None:
                self._next_firing()

    def refuse(
        self, rule: str, node: NodeLike, facts: Iterable[str] = (), because: str = ""
    ) -> None:
        """Note that a rule did not apply to a node, with the missing facts or the reason.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> edit = ll.Edit(cx.ir)
        >>> edit.refuse("sin-to-sqrt", y.node, because="it is wrong")
        >>> [*edit.refusals.values()]
        [Refusal(rule='sin-to-sqrt', node=1, facts=frozenset(), because='it is wrong')]
        """
        id = self[node].id
        self.refusals[rule, id] = Refusal(rule, id, frozenset(facts), because)

    def reorder(self, nodes: Iterable[NodeLike], *, rule: str = "") -> None:
        """Ask for an order of the nodes; sources still come before their users.

        >>> a, b = cx.arange(2).named("a"), cx.arange(2).named("b")
        >>> edit = ll.Edit(cx.ir)
        >>> edit.reorder(["b", "a"])
        >>> edit.ir().nodes
        (%b, %a)
        """
        signature = self.signature._replace(schedule=tuple(self._ids(nodes)))
        self._log("reorder", rule, -1, None, (), (), signature)

    def insert(
        self,
        op: Op,
        *sources: NodeLike,
        like: NodeLike | Sequence[NodeLike] = (),
        name: str | None = None,
        rule: str = "",
    ) -> Node:
        """Add a node and return it; it takes its origin from the first of `like`.

        >>> from luminal_lab.core.ops import Sqrt
        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> root = ll.Edit(cx.ir).insert(Sqrt(), y.node, name="root")
        >>> root, root.type
        (%root, f32[2])
        """
        nodes = [self[source] for source in sources]
        own = op if isinstance(op, Op) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        key = own, *[node if node.extra else node.type for node in nodes]
        types = self._inferred.get(key) or self._inferred.setdefault(key, result_types(op, nodes))
        parents = [self[p] for p in ([like] if isinstance(like, (Node, int, str)) else like)]
        first = parents[0].meta if parents else Meta()
        rule = rule or (self._because[0] if self._because else "")
        derivation = Derivation(rule, tuple(p.id for p in parents)) if rule or parents else None
        if name is not None:
            name = unique(check_name(name, "a node"), self.names)
        meta = Meta(name, first.origin, first.scope, derivation)
        ids = tuple(node.id for node in nodes)
        node = Node(self.table.size, op, ids, types[0], types[1:], meta)
        self._ranks[node.id] = max([self._ranks[id] for id in ids], default=0) + (1 << 8)
        signature = self.signature
        if isinstance(op, Input):
            signature = signature._replace(inputs=(*signature.inputs, node.id))
        self._log("insert", rule, node.id, None, (), (node,), signature)
        return node

    def replace(
        self, old: NodeLike, new: NodeLike, *, rule: str = "", renames: bool = False
    ) -> None:
        """Replace `old` by `new` in the outputs and in every user except `new` itself.

        With `renames` the name of `old` goes with its value, if nothing reads `old` any more and
        `new` has none.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> edit = ll.Edit(cx.ir)
        >>> edit.replace(y.node, "x", rule="mul-one")
        >>> edit.ir().outputs
        (%x,)
        """
        old, new = self[old], self[new]
        if old is new:
            return
        if old.types != new.types:
            raise VerifyError(
                f"replace: {old} is {old.type}, but {new} is {new.type}",
                hint="insert a cast or a view first, so that the types are equal",
            )
        gone, come, read_by = old.id, new.id, self.users(old)
        users = tuple([user for user in read_by if user is not new])
        if (id := self.made_of(new.id, {user.id for user in users})) is not None:
            raise GraphError(
                f"replace: {new} cannot take the place of {old}: it is computed from "
                f"{self[id]}, which would read it, and that is a cycle",
                hint=f"compute {new} from a copy of {old}: insert its op on its sources again",
            )
        after = tuple(
            user._replace(sources=tuple([come if id == gone else id for id in user.sources]))
            for user in users
        )
        signature = self.signature
        if gone in self.returned:  # otherwise all entries of the log share the lists
            outputs = tuple([come if id == gone else id for id in signature.outputs])
            pairs = [(come, b) if a == gone else (a, b) for a, b in signature.carries]
            signature = signature._replace(outputs=outputs, carries=tuple(pairs))
        is_free = len(users) == len(read_by) and not isinstance(old.op, Input)
        if renames and is_free and old.meta.name is not None and new.meta.name is None:
            bare = old._replace(meta=old.meta._replace(name=None))
            named = new._replace(meta=new.meta._replace(name=old.meta.name))
            users, after = (*users, old, new), (*after, bare, named)
        self._log("replace", rule, old.id, new.id, users, after, signature)
        self._lift(new.id)

    def erase(self, node: NodeLike, *, rule: str = "") -> None:
        """Remove an unused node.

        >>> unused = cx.tensor((2,), name="x").sin()
        >>> edit = ll.Edit(cx.ir)
        >>> edit.erase(unused.node, rule="unused")
        >>> edit.ir().nodes
        (%x,)
        """
        node = self[node]
        inputs, _, carries, _ = self.signature
        needed, hint = "it is an output" * (node.id in self.returned), None
        if self.readers.get(node.id):
            needed, hint = f"{self.users(node)[0]} reads it", "replace it first, by edit.replace"
        given = isinstance(node.op, Input)
        if not needed and given and any(into == node.id for _, into in carries):
            needed = "an output is carried to it"
        if needed:
            raise GraphError(f"erase: {node} is still needed: {needed}", hint=hint)
        signature = self.signature
        if isinstance(node.op, Input):
            signature = signature._replace(inputs=tuple(id for id in inputs if id != node.id))
        self._log("erase", rule, node.id, None, (node,), (), signature)

    def _log(
        self,
        kind: Kind,
        rule: str,
        node: int,
        into: int | None,
        before: tuple[Node, ...],
        after: tuple[Node, ...],
        signature: Signature,
    ) -> None:
        if not self.log:
            self.readers = {id: users.copy() for id, users in self.readers.items()}
        names: dict[str, int] | None = self.__dict__.get("names")  # unless nobody has asked
        readers = self.readers
        for record in before:
            self.table.set(record.id, None)
            if names is not None:
                names.pop(record.name, None)
            for id in record.sources:
                readers[id].pop(record.id, None)
        for record in after:
            self.table.set(record.id, record)
            if names is not None:
                names[record.name] = record.id
            for id in record.sources:
                readers.setdefault(id, {})[record.id] = None
        given, because = self._because or (rule, "")
        change = kind, rule or given, node, into, before, after, (self.signature, signature)
        self.log.append(LogEntry(*change, self._firing, because))
        if signature is not self.signature:
            self.signature, self.returned = signature, frozenset(signature.outputs)
        if self._because is None and kind != "insert":
            self._next_firing()

    def _next_firing(self) -> None:
        """Begin the next step, or raise if rules seem to undo each other without end."""
        if not self.log or self.log[-1].firing < self._firing:
            return
        self._firing += 1
        if self.limit is not None and self._firing > self.limit:
            rules = dict.fromkeys([c.rule for c in self.log[-100:] if c.kind != "insert"])
            listed = ", ".join(rule or "the pass itself" for rule in rules)
            what = "it makes" if len(rules) == 1 else "one of them makes"
            raise PassError(
                f"it has fired {self._firing:,} times on a graph of {len(self.base):,} nodes, and "
                f"does not end; its last changes were by {listed}",
                hint=f"{what} what {'it matches' if len(rules) == 1 else 'they match'} again",
            )

    def made_of(self, node: int, others: Collection[int]) -> int | None:
        """Return one of some nodes that a node is or is computed from, if there is one."""
        ranks, flat, seen = self._ranks, self.table.flat, {node}
        lowest, todo = min([ranks[id] for id in others], default=math.inf), [node]
        for id in todo:  # it grows
            if id in others:
                return id
            fresh = {s for s in (flat[id] or self[id]).sources if ranks[s] >= lowest} - seen
            seen |= fresh
            todo += fresh
        return None

    def _lift(self, id: int) -> None:
        """Raise the ranks of a node's descendants above its own; after many lifts, rank anew."""
        lifted = [id]
        for id in lifted:  # it grows
            for user in self.readers.get(id, ()):
                if self._ranks[user] <= self._ranks[id]:
                    self._ranks[user] = self._ranks[id] + 1
                    lifted.append(user)
        self._lifted += len(lifted)
        if self._lifted > len(self._ranks):  # the gaps are full, and each lift may go to the end
            self._lifted = 0
            del self._ranks
