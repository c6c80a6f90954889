"""Patterns: pieces of a graph with variables, written as algebra, and their matching.

    x, y = variables("x y")         any node; a repeated name is the same node
    c = constants("c")              any constant; calculations see its value
    a = fields("a")                 the value of an op's field
    x + 0                           a number is a constant of that value
    op(Permute, x, axes=a)          any op, by its class; unnamed fields may have any value
    recip(x), where(c, x, y), …     ops without a sign in algebra

A commutative op is tried in both orders.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import Node, NodeLookup, Table
from luminal_lab.core.op import Elementwise, Op, Scalar, TensorType, fields_of
from luminal_lab.core.ops import (
    Add,
    BitAnd,
    BitOr,
    BitXor,
    Cast,
    Constant,
    Exp2,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Recip,
    ShiftLeft,
    ShiftRight,
    Sin,
    Sqrt,
    SumReduce,
    Where,
)
from luminal_lab.errors import DefinitionError, UnknownNameError
from luminal_lab.passes.asking import Misfit

Bindings: TypeAlias = dict[str, Any]
HALF_DIGITS = 2**-7
"""The largest relative distance of two numbers that are the same value in some dtype."""
SPELLED = ("exp2", "log2", "sin", "sqrt", "recip", "where", "cast", "sum_reduce", "max_reduce")
"""The ops that have a function here."""
LONGEST_PATTERN = 60
"""The most characters of a pattern in a sentence."""


class Pattern:
    """A piece of a graph with variables."""

    __slots__ = ()

    @property
    def first(self) -> type[Op] | None:
        """The required op of a node; None for any."""
        return None

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__" or name[:5] == "_repr" or name[:5] == "_ipyt":
            raise AttributeError(name)
        spelled = next((word for word in SPELLED if word.startswith(name)), None)
        raise UnknownNameError(
            f"pattern: it has no {name!r}: a rule is about ops, not about methods of tensors",
            hint=f"from luminal_lab.passes.pattern import {spelled}"
            if spelled
            else "from luminal_lab.passes.pattern import exp2, log2, sin, sqrt, recip, where, …, "
            "or op(SomeOp, x)",
        )

    def __iter__(self) -> NoReturn:
        raise DefinitionError(
            f"pattern: {self} is one pattern, and no list of them",
            hint='as in x = ll.variables("x"), or x, y = ll.variables("x y")',
        )

    def __matmul__(self, other: object) -> NoReturn:
        raise DefinitionError(
            "pattern: there is no op @: a matmul is a mul and a sum_reduce in a graph",
            hint="match those; recognise makes a call of them",
        )

    __rmatmul__ = __matmul__

    @override
    def __repr__(self) -> str:
        return f"<Pattern {self}>"

    def __add__(self, other: PatternLike) -> OpPattern:
        return op(Add, self, other)

    def __radd__(self, other: PatternLike) -> OpPattern:
        return op(Add, other, self)

    def __mul__(self, other: PatternLike) -> OpPattern:
        return op(Mul, self, other)

    def __rmul__(self, other: PatternLike) -> OpPattern:
        return op(Mul, other, self)

    def __mod__(self, other: PatternLike) -> OpPattern:
        return op(Mod, self, other)

    def __lt__(self, other: PatternLike) -> OpPattern:
        return op(LessThan, self, other)

    def __gt__(self, other: PatternLike) -> OpPattern:
        return op(LessThan, other, self)

    def __and__(self, other: PatternLike) -> OpPattern:
        return op(BitAnd, self, other)

    def __or__(self, other: PatternLike) -> OpPattern:
        return op(BitOr, self, other)

    def __xor__(self, other: PatternLike) -> OpPattern:
        return op(BitXor, self, other)

    def __lshift__(self, other: PatternLike) -> OpPattern:
        return op(ShiftLeft, self, other)

    def __rshift__(self, other: PatternLike) -> OpPattern:
        return op(ShiftRight, self, other)

    def __neg__(self) -> OpPattern:
        return self * -1

    def __sub__(self, other: PatternLike) -> OpPattern:
        return self + as_pattern(other) * -1

    def __rsub__(self, other: PatternLike) -> OpPattern:
        return other + self * -1

    def __truediv__(self, other: PatternLike) -> OpPattern:
        return self * recip(other)

    def __rtruediv__(self, other: PatternLike) -> OpPattern:
        return other * recip(self)


PatternLike: TypeAlias = Pattern | Scalar


@dataclass(frozen=True, slots=True, repr=False)
class Variable(Pattern):
    """Any node."""

    name: str

    @override
    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class ConstantVariable(Pattern):
    """Any constant."""

    name: str

    @property
    @override
    def first(self) -> type[Op] | None:
        return Constant

    @override
    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class NumberPattern(Pattern):
    """A constant of one value; a bool stands for bools alone, any other number for all dtypes."""

    value: Scalar

    @property
    @override
    def first(self) -> type[Op] | None:
        return Constant

    @override
    def __str__(self) -> str:
        return str(self.value)

    def equals(self, value: Scalar, dtype: DType) -> bool:
        """Return whether a constant's value is this one; the integer 0 means both zeros."""
        if dtype.kind == "int" and not isinstance(self.value, (bool, Expr)):  # -1 is 255 in uint8
            return value == as_value(self.value, dtype) and self.value == int(self.value)
        if isinstance(value, Expr) or isinstance(self.value, Expr):
            return value is self.value or (value == self.value) is True
        if isinstance(self.value, bool) and not isinstance(value, bool):
            return False
        if value != self.value:  # NaN matches NaN, and 0.1 matches its value in float16
            if math.isclose(value, self.value, rel_tol=HALF_DIGITS):
                return as_value(value, dtype) == as_value(self.value, dtype)
            return self.value != self.value and value != value
        if isinstance(self.value, float) and not self.value:
            return np.signbit(self.value) == np.signbit(value)
        return True


@dataclass(frozen=True, slots=True)
class Field:
    """The value of a field of an op."""

    name: str

    @override
    def __str__(self) -> str:
        return self.name


SIGNS = {
    "add": "+",
    "mul": "*",
    "mod": "%",
    "less_than": "<",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}


@dataclass(frozen=True, slots=True, repr=False)
class OpPattern(Pattern):
    """An op on sources: any of a class whose named fields fit."""

    cls: type[Op]
    sources: tuple[Pattern, ...]
    fields: tuple[tuple[str, object], ...] = ()
    name: str | None = None
    """The name of the op in calculations."""
    more: bool = False
    """Whether there may be more sources, which the pattern ignores."""
    needs: frozenset[type[Op]] = dataclasses.field(init=False, compare=False)
    """The ops that the sources must have; a node without them cannot match."""

    def __post_init__(self) -> None:
        firsts = [source.first for source in self.sources]
        object.__setattr__(self, "needs", frozenset(op for op in firsts if op is not None))

    @property
    @override
    def first(self) -> type[Op] | None:
        return self.cls

    @override
    def __str__(self) -> str:
        sign = SIGNS.get(self.cls.name)
        if sign is not None:
            return f" {sign} ".join(
                f"({s})" if isinstance(s, OpPattern) and s.cls.name in SIGNS else str(s)
                for s in self.sources
            )
        written = [*map(str, self.sources), *(f"{key}={value}" for key, value in self.fields)]
        return f"{self.cls.name}({', '.join(written)})"


def variables(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable for each name: `x, y = variables("x y")`, or `variables("x", "y")`.

    >>> import luminal_lab as ll
    >>> x, y = ll.variables("x y")
    >>> x * y + x
    <Pattern (x * y) + x>
    """
    return _single_or_all(Variable, names)


def constants(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable that stands for a constant for each name.

    >>> import luminal_lab as ll
    >>> x, c = ll.variables("x"), ll.constants("c")
    >>> ll.Rule("twice", (x + c) + c, x + 2 * c)
    <Rule twice: (x + c) + c → x + (2 * c)>
    """
    return _single_or_all(ConstantVariable, names)


def fields(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable that stands for the value of a field for each name.

    >>> import luminal_lab as ll
    >>> from luminal_lab.core.ops import Permute
    >>> x, i = ll.variables("x"), ll.fields("i")
    >>> ll.op(Permute, x, axes=i)
    <Pattern permute(x, axes=i)>
    """
    return _single_or_all(Field, names)


def _single_or_all(kind: Callable[[str], object], given: Sequence[object]) -> Any:  # noqa: ANN401  # see above
    for name in given:
        if not isinstance(name, str):
            raise DefinitionError(f"pattern: {name!r} is not a name", hint='as in variables("x y")')
    variables = [kind(name) for name in " ".join(map(str, given)).split()]
    if not variables:
        raise DefinitionError("pattern: no name is given", hint='as in variables("x y")')
    return variables[0] if len(variables) == 1 else tuple(variables)


def as_pattern(like: PatternLike) -> Pattern:
    """Return a pattern, or the number that a constant must have."""
    if isinstance(like, Pattern):
        return like
    if isinstance(like, (bool, int, float, Expr)):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
        return NumberPattern(like)
    if isinstance(like, np.generic):
        return NumberPattern(like.item())
    label = getattr(like, "label", None)  # for a tensor, whose repr says much more
    what = f"{label}, a tensor," if isinstance(label, str) else repr(like)
    raise DefinitionError(
        f"pattern: {what} is neither a pattern nor a number",
        hint='make variables first: x, y = ll.variables("x y")',
    )


def op(
    what: type[Op] | Op,
    *sources: PatternLike,
    name: str | None = None,
    more: bool = False,
    **given: object,
) -> OpPattern:
    """Return the pattern of an op, by its class and patterns of its fields.

    An op value stands for its class with exactly its fields. With `more` there may be more sources.

    >>> import luminal_lab as ll
    >>> from luminal_lab.core.ops import Exp2
    >>> ll.op(Exp2, ll.variables("x") * 2)
    <Pattern exp2(x * 2)>
    """
    cls = what if isinstance(what, type) else type(what)
    known = fields_of(cls)
    if isinstance(what, Op):
        given = {field: getattr(what, field) for field in known}
    for field in given:
        if field not in known:
            listed = ", ".join(known) or "none"
            raise DefinitionError(
                f"pattern: {cls.name} has no field {field!r}", hint=f"its fields: {listed}"
            )
    return OpPattern(cls, tuple(map(as_pattern, sources)), tuple(given.items()), name, more)


class PatternMaker(Protocol):
    """A function that returns a pattern for sources and fields."""

    def __call__(self, *sources: PatternLike, **fields: object) -> OpPattern:
        """Return the pattern."""
        ...


def _spelling(cls: type[Op]) -> PatternMaker:
    def spell(*sources: PatternLike, **fields: object) -> OpPattern:
        return op(cls, *sources, name=None, more=False, **fields)

    return spell


log2, exp2, sin, sqrt, recip = map(_spelling, (Log2, Exp2, Sin, Sqrt, Recip))
sum_reduce, max_reduce, where, cast = map(_spelling, (SumReduce, MaxReduce, Where, Cast))


# -- matching --------------------------------------------------------------------------------------


class Match:
    """A match: the values of a pattern's variables at one node of a graph."""

    __slots__ = ("bindings", "graph", "root")

    def __init__(self, root: Node, bindings: Bindings, graph: NodeLookup) -> None:
        self.root = root
        self.bindings = bindings
        self.graph = graph

    def type(self, name: str) -> TensorType:
        """Return the type of a variable's node."""
        bound = self.bindings[name]
        return bound.type

    @property
    def dtype(self) -> DType:
        """The dtype of the result."""
        return self.root.dtype

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes of the result and of all matched nodes."""
        nodes = (value for value in self.bindings.values() if isinstance(value, Node))
        return {self.root.dtype, *(node.dtype for node in nodes)}

    def seen(self, name: str) -> object:
        """Return a variable as calculations and conditions see it: a type, a value or a field."""
        bound = self.bindings[name]
        if not isinstance(bound, Node):
            return bound
        return bound.op.value if isinstance(bound.op, Constant) else bound.type


def find(pattern: Pattern, node: Node, graph: NodeLookup) -> Iterator[Bindings]:
    """Yield each match of a pattern with this node as its root."""
    return iter(_ways(pattern, node, {}, graph))


class Outlines:
    """What patterns can see of nodes two steps down: ops, numbers, and which sources are one node.

    Nodes of equal outlines, as in equal layers, resemble the same patterns.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._near: dict[Node, object] = {}
        """What can be seen of records one step down, which stays."""

    def of(self, node: Node) -> object:
        """Return the outline of a node."""
        records, near = self._table.flat, self._near
        below: list[object] = []
        ids = [*node.sources]
        for id in node.sources:
            source = records[id] or node
            seen = near.get(source)
            if seen is None:
                seen = near[source] = _seen_near(source, records)
            below.append(seen)
            ids += source.sources
        first: dict[int, int] = {}
        shared = (
            [first.setdefault(id, k) for k, id in enumerate(ids)] if len({*ids}) < len(ids) else ()
        )
        return node.op.__class__, tuple(shared), *below


def _seen_near(node: Node, records: Sequence[Node | None]) -> object:
    if isinstance(node.op, Constant):
        return _number(node.op)
    ops = [(records[id] or node).op for id in node.sources]
    below = [_number(op) if isinstance(op, Constant) else op.__class__ for op in ops]
    return (node.op.__class__, *below)


def _number(op: Constant) -> object:
    value = op.value  # 0.0 is not -0.0, and True is not 1
    shown = str(value) if value.__class__ is float and not value else value
    return value.__class__, shown, id(op.dtype)


def resembles(pattern: OpPattern, node: Node, graph: NodeLookup) -> bool:
    """Return whether a node may match a pattern, as far as its outline tells."""
    if not _resembles(pattern, node, graph.table.flat, 2):
        return False
    constants = _constants_in(pattern)
    is_seen = _is_seen(pattern, 2) and len({*constants}) == len(constants)
    return not is_seen or next(find(pattern, node, graph), None) is not None


def _constants_in(pattern: Pattern) -> list[str]:
    if isinstance(pattern, OpPattern):
        return [name for part in pattern.sources for name in _constants_in(part)]
    return [pattern.name] if isinstance(pattern, ConstantVariable) else []


def _is_seen(pattern: Pattern, depth: int) -> bool:
    """Return whether an outline of some depth tells all that a pattern asks, but for constants."""
    if not isinstance(pattern, OpPattern):
        return depth >= 0
    return not pattern.fields and all(_is_seen(part, depth - 1) for part in pattern.sources)


def _resembles(pattern: Pattern, node: Node, records: Sequence[Node | None], depth: int) -> bool:
    match pattern:
        case OpPattern(cls=cls, sources=parts):
            if type(node.op) is not cls or not _has_sources(pattern, node):
                return False
            if not depth:
                return True
            below = [records[id] or node for id in node.sources]
            return any(
                all(
                    _resembles(part, source, records, depth - 1)
                    for part, source in zip(parts, order, strict=False)
                )
                for order in ((below, below[::-1]) if cls.commutative else (below,))
            )
        case NumberPattern():
            return isinstance(node.op, Constant) and pattern.equals(node.op.value, node.dtype)
        case ConstantVariable():
            return isinstance(node.op, Constant)
        case _:
            return True


def _ways(pattern: Pattern, node: Node, bound: Bindings, graph: NodeLookup) -> Iterable[Bindings]:
    op = node.op
    match pattern:
        case OpPattern():
            if type(op) is pattern.cls and _has_sources(pattern, node):
                sources = [graph[id] for id in node.sources[: len(pattern.sources)]]
                if pattern.needs.issubset([type(source.op) for source in sources]):
                    return _op_ways(pattern, node, sources, bound, graph)
        case Variable(name=name):
            if bound.get(name, node).id == node.id:
                return ({**bound, name: node},)
        case NumberPattern():
            if isinstance(op, Constant) and pattern.equals(op.value, node.dtype):
                return (bound,)
        case ConstantVariable(name=name):
            if isinstance(op, Constant) and bound.get(name, node).op == op:
                return ({name: node, **bound},)
        case _:
            raise AssertionError(pattern)
    return ()


def _has_sources(pattern: OpPattern, node: Node) -> bool:
    more = len(node.sources) - len(pattern.sources)
    return more == 0 or (pattern.more and more > 0)


def _op_ways(
    pattern: OpPattern, node: Node, sources: list[Node], bound: Bindings, graph: NodeLookup
) -> Iterator[Bindings]:
    with_fields = _match_fields(pattern, node, bound)
    if with_fields is not None:
        yield from _source_ways(pattern.sources, sources, with_fields, graph)
        if pattern.cls.commutative and pattern.sources[0] != pattern.sources[1]:
            yield from _source_ways(pattern.sources, sources[::-1], with_fields, graph)


def _source_ways(
    patterns: tuple[Pattern, ...], nodes: list[Node], bound: Bindings, graph: NodeLookup
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    ways = _ways(patterns[0], nodes[0], bound, graph)
    if len(patterns) == 1:
        yield from ways
        return
    for way in ways:
        yield from _source_ways(patterns[1:], nodes[1:], way, graph)


def _match_fields(pattern: OpPattern, node: Node, bound: Bindings) -> Bindings | None:
    if pattern.name is not None:
        bound = {**bound, pattern.name: node.op}
    for field, wanted in pattern.fields:
        value = getattr(node.op, field)
        if isinstance(wanted, Field):
            if wanted.name in bound:
                if bound[wanted.name] != value:
                    return None
            else:
                bound = {**bound, wanted.name: value}
        elif value != wanted:
            return None
    return bound


def why_not(pattern: Pattern, node: Node, graph: NodeLookup) -> Misfit | None:
    """Return the part of a pattern that a node fails, or None if it matches."""
    if next(find(pattern, node, graph), None) is not None:
        return None
    return _misfit(pattern, node, {}, graph)


def steps_of(pattern: OpPattern, node: Node, graph: NodeLookup) -> tuple[str, ...]:
    """Return what a pattern finds on its way down from a node that it matches."""
    return _misfit(pattern, node, {}, graph).steps


def _misfit(pattern: Pattern, node: Node, bound: Bindings, graph: NodeLookup) -> Misfit:
    if isinstance(pattern, Variable):
        known = bound[pattern.name]
        return Misfit(node, f"{pattern} is {known} already, and not {node} as well")
    if not isinstance(pattern, OpPattern):
        what = "a constant" if isinstance(pattern, ConstantVariable) else f"the constant {pattern}"
        value = f" of {node.op.value}" if isinstance(node.op, Constant) else ""
        return Misfit(node, f"{node} is {node.op.name}{value}, where the pattern has {what}")
    if type(node.op) is not pattern.cls:
        wanted = f"{pattern.cls.name}: {_brief(pattern)}"
        return Misfit(node, f"{node} is {node.op.name}, where the pattern has {wanted}")
    if not _has_sources(pattern, node):
        count = f"{len(node.sources)} sources, where the pattern has {len(pattern.sources)}"
        return Misfit(node, f"{node} has {count}")
    with_fields = _match_fields(pattern, node, bound)
    if with_fields is None:
        asked = ", ".join(f"{field} = {value}" for field, value in pattern.fields)
        return Misfit(node, f"{node} is {node.op}, where the pattern has {asked}")
    sources = [graph[id] for id in node.sources]
    misfit = _below(pattern, node, sources, with_fields, graph)
    if not pattern.cls.commutative:
        return misfit
    other = _below(pattern, node, sources[::-1], with_fields, graph)
    further = other if len(other.steps) > len(misfit.steps) else misfit
    both = " (in the other order it does not fit either)"
    why = further.why if further.why.endswith(both) else further.why + both
    return further._replace(why=why)


def _below(
    pattern: OpPattern, node: Node, sources: list[Node], bound: Bindings, graph: NodeLookup
) -> Misfit:
    """Return the part of a pattern that does not fit a node's sources in one order."""
    steps = [f"{node} is {node.op.name}"]
    for part, source in zip(pattern.sources, sources, strict=False):
        way = next(iter(_ways(part, source, bound, graph)), None)
        if way is None:
            misfit = _misfit(part, source, bound, graph)
            return misfit._replace(steps=(*steps, *misfit.steps))
        if isinstance(part, OpPattern):
            steps.append(f"{source} is {source.op.name}")
        bound = way
    return Misfit(node, f"the parts below {node} fit one by one, but not together", tuple(steps))


def _brief(pattern: Pattern) -> str:
    """Return a pattern as text, the end of a long one left out."""
    text = str(pattern)
    return text if len(text) <= LONGEST_PATTERN else f"{text[:LONGEST_PATTERN]}…"


# -- building --------------------------------------------------------------------------------------


def build(
    pattern: Pattern,
    wanted: TensorType,
    bindings: Mapping[str, Any],
    edit: Edit,
    like: list[Node],
    inserted: dict[tuple[Op, tuple[int, ...]], Node] | None = None,
) -> Node:
    """Insert the nodes of a pattern, with its variables bound.

    Equal parts are inserted once; `inserted` has the nodes already there.
    """
    inserted = {} if inserted is None else inserted
    match pattern:
        case Variable(name=name):
            return bindings[name]
        case ConstantVariable(name=name):
            bound: Node = bindings[name]
            if bound.type == wanted:
                return bound
            assert isinstance(bound.op, Constant)
            return build(NumberPattern(bound.op.value), wanted, bindings, edit, like, inserted)
        case NumberPattern(value=value):
            value = as_value(value, wanted.dtype)
            return _inserted(Constant(value, wanted.dtype, wanted.shape), [], edit, like, inserted)
        case OpPattern(cls=cls, sources=parts):
            built = [
                None
                if isinstance(part, NumberPattern)
                else build(part, wanted, bindings, edit, like, inserted)
                for part in parts
            ]
            # A number takes the type of its neighbours: the branches of `where`, not its condition.
            first = int(cls is Where)
            beside = next((node.type for node in built[first:] if node is not None), wanted)
            sources = [
                build(part, _number_type(cls, position, beside), bindings, edit, like, inserted)
                if node is None
                else node
                for position, (part, node) in enumerate(zip(parts, built, strict=True))
            ]
            return _inserted(_op_of(pattern, bindings, wanted), sources, edit, like, inserted)
        case _:
            raise DefinitionError(f"pattern: {pattern!r} cannot be built")


def _inserted(
    new: Op,
    sources: list[Node],
    edit: Edit,
    like: list[Node],
    inserted: dict[tuple[Op, tuple[int, ...]], Node],
) -> Node:
    key = new, tuple(node.id for node in sources)
    if key not in inserted:
        inserted[key] = edit.insert(new, *sources, like=like)
    return inserted[key]


def _number_type(cls: type[Op], position: int, beside: TensorType) -> TensorType:
    return beside.with_dtype(DType.bool_) if cls is Where and position == 0 else beside


def _op_of(pattern: OpPattern, bindings: Mapping[str, Any], wanted: TensorType) -> Op:
    known = fields_of(pattern.cls)
    given: dict[str, Any] = {
        field: bindings[value.name] if isinstance(value, Field) else value
        for field, value in pattern.fields
    }
    if pattern.cls is Cast:
        given.setdefault("dtype", wanted.dtype)
    missing = [field for field in known if field not in given]
    if missing and not issubclass(pattern.cls, Elementwise):
        raise DefinitionError(
            f"pattern: {pattern} cannot be built: {pattern.cls.name} needs {', '.join(missing)}",
            hint="name the field on both sides: op(Permute, x, axes=a)",
        )
    return pattern.cls(**given)


def as_value(value: Scalar, dtype: DType) -> Scalar:
    """Return a number as a value of a dtype, rounded or wrapped as its arithmetic does."""
    if isinstance(value, Expr):
        return value
    if dtype is DType.bool_:
        return bool(value)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return float(np.asarray(value, np.float64).astype(dtype.numpy))
    low, high = dtype.limits
    return (int(value) - int(low)) % (int(high) - int(low) + 1) + int(low)
