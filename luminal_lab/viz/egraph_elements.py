"""Elements in index notation as nodes of a graph, so that all that shows graphs shows them.

A text names what a node is made of, as in `sum l < 17: c16`; numbers stand in texts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.algebra.language import ENode, Folded, Leaf, Online
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Kind, LogEntry
from luminal_lab.core.ir import IR, Derivation, Node, Table
from luminal_lab.core.op import Op, TensorType
from luminal_lab.errors import GraphError
from luminal_lab.kernels.definition.terms import Number, Read

EQUAL_PARTS = "equal-parts"
"""What it is called that nodes with equal parts are equal."""


@dataclass(frozen=True)
class Element(Op):
    """An element in index notation, for pictures alone; it is called by its text."""

    name: ClassVar[str] = "element"
    in_type: ClassVar[tuple[str, ...]] = ("text", "kind")
    text: str
    kind: Literal["input", "source", "op", "reduce", "class"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.text)

    @override
    def eval(self, *args: object, **kwargs: object) -> object:
        raise GraphError(
            f"values: {self.text} is an element of a program, and no array",
            hint="program.definition is what can be computed",
        )


def element(node: ENode, text: str) -> Element:
    """Return a node of an e-graph as an op."""
    match node.operator:
        case Leaf(term=Read()):
            return Element(text, "input")
        case Leaf():
            return Element(text, "source")
        case Folded() | Online():
            return Element(text, "reduce")
        case _:
            return Element(text, "op")


def is_number(node: ENode) -> bool:
    """Return whether a node is a number, which stands in texts alone."""
    return isinstance(node.operator, Leaf) and isinstance(node.operator.term, Number)


def type_of(dtype: DType, free: Iterable[str]) -> TensorType:
    """Return the type of an element: its shape is the axes that it depends on."""
    return TensorType(dtype, tuple(Symbol(axis) for axis in sorted(free)))


class RuleUse(NamedTuple):
    """A rule that fired: what it is said to have done, and the ids of the nodes that it touched."""

    rule: str
    because: str
    ids: Sequence[int]


class Drawn(NamedTuple):
    """A graph, and the ids in it of what it was drawn from."""

    ir: IR
    ids: Mapping[int, int]


class Graphs:
    """Graphs in a row, which share what stays the same; what has another text is another node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[int, Node] = {}
        self._next = 0

    def graph(self, nodes: Iterable[Node], outputs: Iterable[int]) -> Drawn:
        """Return the graph of some nodes, whose ids say what they are drawn from."""
        nodes = [*nodes]
        ids = {node.id: self._id(node) for node in nodes}
        table = Table()
        for node in nodes:
            maker = node.meta.derivation
            if maker is not None:
                parents = tuple(ids[parent] for parent in maker.parents if parent in ids)
                maker = Derivation(maker.rule, parents)
            record = Node(
                *(ids[node.id], node.op, tuple(ids[source] for source in node.sources)),
                *(node.type, (), node.meta._replace(derivation=maker)),
            )
            known = self._known.get(node.id)
            if known is None or tuple(known) != tuple(record):
                known = self._known[node.id] = record
            table.set(known.id, known)
        ends = tuple(ids[output] for output in outputs)
        return Drawn(IR(table, (), ends, name=self.name), ids)

    def _id(self, node: Node) -> int:
        known = self._known.get(node.id)
        if known is not None and (known.op, known.type) == (node.op, node.type):
            return known.id
        self._next += 1
        return self._next - 1


def log_between(before: Drawn, after: Drawn, uses: Iterable[RuleUse]) -> list[LogEntry]:
    """Return the log that leads from one graph to the next; what no rule did comes last."""
    drawn = dict.fromkeys([*after.ids, *before.ids])
    pairs = {one: (_record(before, one), _record(after, one)) for one in drawn}
    changed = {one: pair for one, pair in pairs.items() if pair[0] is not pair[1]}
    signatures, log = (before.ir.signature, before.ir.signature), list[LogEntry]()
    rest = RuleUse(EQUAL_PARTS, "nodes with equal parts are equal", [*changed])
    for firing, use in enumerate((*uses, rest)):
        edits = (edit for one in use.ids for edit in _edits(*changed.pop(one, (None, None))))
        for kind, id, into, gone, come in edits:
            told = signatures, firing, use.because
            log.append(LogEntry(kind, use.rule, id, into, gone, come, *told))
    if log:
        log[-1] = log[-1]._replace(signatures=(before.ir.signature, after.ir.signature))
    return log


def _record(drawn: Drawn, one: int) -> Node | None:
    return drawn.ir.table.get(drawn.ids[one]) if one in drawn.ids else None


_Edit: TypeAlias = tuple[Kind, int, "int | None", tuple[Node, ...], tuple[Node, ...]]


def _edits(old: Node | None, new: Node | None) -> Iterator[_Edit]:
    """Yield the edits that put one record in place of another."""
    if old is not None and new is not None and old.id == new.id:
        yield "replace", old.id, new.id, (old,), (new,)
        return
    if new is not None:
        yield "insert", new.id, None, (), (new,)
    if old is not None:
        into = None if new is None else new.id
        yield "erase" if new is None else "replace", old.id, into, (old,), ()
