"""Patterns: pieces of a graph with variables in them, written as algebra, and how they match.

    x, y = variables("x y")         any node; a name used twice is one node
    c = constants("c")              any constant; what is calculated sees its value
    a = fields("a")                 the value of an op's field
    x + 0                           a number is a constant of that value
    op(Permute, x, axes=a)          any op, by its class; fields that are not named may be anything
    recip(x), where(c, x, y), …     the ops that algebra has no sign for

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
from luminal_lab.core.ir import Lookup, Node
from luminal_lab.core.op import Elementwise, Op, Scalar, TensorType, fields_of
from luminal_lab.core.ops import (
    Add,
    Cast,
    Constant,
    Exp2,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Recip,
    Sin,
    Sqrt,
    SumReduce,
    Where,
)
from luminal_lab.errors import DefinitionError, UnknownNameError

Bindings: TypeAlias = dict[str, Any]
HALF_DIGITS = 2**-7
"""How far two numbers may be apart, of the larger one, that are one value in some dtype."""


class Pattern:
    """A piece of a graph with variables in it."""

    __slots__ = ()

    @property
    def first(self) -> type[Op] | None:
        """The op that a node must have; None for any."""
        return None

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__" or name[:5] == "_repr" or name[:5] == "_ipyt":
            raise AttributeError(name)
        raise UnknownNameError(
            f"pattern: it has no {name!r}: a rule is about ops, and not about methods of tensors",
            hint="from luminal_lab.passes.pattern import exp2, log2, sin, sqrt, recip, where, …, "
            "or op(SomeOp, x)",
        )

    @override
    def __repr__(self) -> str:
        return f"<Pattern {self}>"

    def __add__(self, other: PatternLike) -> Apply:
        return op(Add, self, other)

    def __radd__(self, other: PatternLike) -> Apply:
        return op(Add, other, self)

    def __mul__(self, other: PatternLike) -> Apply:
        return op(Mul, self, other)

    def __rmul__(self, other: PatternLike) -> Apply:
        return op(Mul, other, self)

    def __mod__(self, other: PatternLike) -> Apply:
        return op(Mod, self, other)

    def __lt__(self, other: PatternLike) -> Apply:
        return op(LessThan, self, other)

    def __gt__(self, other: PatternLike) -> Apply:
        return op(LessThan, other, self)

    def __neg__(self) -> Apply:
        return self * -1

    def __sub__(self, other: PatternLike) -> Apply:
        return self + as_pattern(other) * -1

    def __rsub__(self, other: PatternLike) -> Apply:
        return other + self * -1

    def __truediv__(self, other: PatternLike) -> Apply:
        return self * recip(other)

    def __rtruediv__(self, other: PatternLike) -> Apply:
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
class Number(Pattern):
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
        if value != self.value:  # NaN is NaN, and 0.1 is what float16 makes of it
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


SIGNS = {"add": "+", "mul": "*", "mod": "%", "less_than": "<"}


@dataclass(frozen=True, slots=True, repr=False)
class Apply(Pattern):
    """An op on sources: any of a class whose named fields fit."""

    cls: type[Op]
    sources: tuple[Pattern, ...]
    fields: tuple[tuple[str, object], ...] = ()
    name: str | None = None
    """The name under which what is calculated sees the op."""
    more: bool = False
    """Whether there may be more sources, which stand for nothing."""
    needs: frozenset[type[Op]] = dataclasses.field(init=False, compare=False)
    """The ops that sources must have: where one is missing, it is no use to look further."""

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
                f"({s})" if isinstance(s, Apply) and s.cls.name in SIGNS else str(s)
                for s in self.sources
            )
        written = [*map(str, self.sources), *(f"{key}={value}" for key, value in self.fields)]
        return f"{self.cls.name}({', '.join(written)})"


def variables(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable for each name: `x, y = variables("x y")`, or `variables("x", "y")`."""
    return _one_or_all(Variable, names)


def constants(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable that stands for a constant for each name."""
    return _one_or_all(ConstantVariable, names)


def fields(*names: str) -> Any:  # noqa: ANN401  # one variable, or a tuple of them
    """Return a variable that stands for the value of a field for each name."""
    return _one_or_all(Field, names)


def _one_or_all(kind: Callable[[str], object], given: Sequence[object]) -> Any:  # noqa: ANN401  # see above
    for one in given:
        if not isinstance(one, str):
            raise DefinitionError(f"pattern: {one!r} is no name", hint='as in variables("x y")')
    found = [kind(name) for name in " ".join(map(str, given)).split()]
    if not found:
        raise DefinitionError("pattern: no name is given", hint='as in variables("x y")')
    return found[0] if len(found) == 1 else tuple(found)


def as_pattern(like: PatternLike) -> Pattern:
    """Return a pattern, or the number that a constant must have."""
    if isinstance(like, Pattern):
        return like
    if isinstance(like, (bool, int, float, Expr)):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        return Number(like)
    if isinstance(like, np.generic):
        return Number(like.item())
    raise DefinitionError(
        f"pattern: {like!r} is neither a pattern nor a number",
        hint='make variables first: x, y = ll.variables("x y")',
    )


def op(
    what: type[Op] | Op,
    *sources: PatternLike,
    name: str | None = None,
    more: bool = False,
    **given: object,
) -> Apply:
    """Return the pattern of an op, by its class and what is asked of its fields.

    An op itself stands for its class with just its fields. With `more` there may be more sources.
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
    return Apply(cls, tuple(map(as_pattern, sources)), tuple(given.items()), name, more)


class Spelling(Protocol):
    """What makes a pattern of sources and fields."""

    def __call__(self, *sources: PatternLike, **fields: object) -> Apply:
        """Return the pattern."""
        ...


def _spelling(cls: type[Op]) -> Spelling:
    def spell(*sources: PatternLike, **fields: object) -> Apply:
        return op(cls, *sources, name=None, more=False, **fields)

    return spell


log2, exp2, sin, sqrt, recip = map(_spelling, (Log2, Exp2, Sin, Sqrt, Recip))
sum_reduce, max_reduce, where, cast = map(_spelling, (SumReduce, MaxReduce, Where, Cast))


# -- matching --------------------------------------------------------------------------------------


class Match:
    """What the variables of a pattern stand for at one place of a graph."""

    __slots__ = ("bindings", "graph", "root")

    def __init__(self, root: Node, bindings: Bindings, graph: Lookup) -> None:
        self.root = root
        self.bindings = bindings
        self.graph = graph

    def type(self, name: str) -> TensorType:
        """Return the type of what a variable stands for."""
        found = self.bindings[name]
        return found.type

    @property
    def dtype(self) -> DType:
        """The dtype of the result."""
        return self.root.dtype

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes of the result and of all that the variables stand for."""
        bound = (found for found in self.bindings.values() if isinstance(found, Node))
        return {self.root.dtype, *(node.dtype for node in bound)}

    def seen(self, name: str) -> object:
        """Return what a calculation or condition sees of a variable: a type, a value, a field."""
        found = self.bindings[name]
        if not isinstance(found, Node):
            return found
        return found.op.value if isinstance(found.op, Constant) else found.type


def find(pattern: Pattern, node: Node, graph: Lookup) -> Iterator[Bindings]:
    """Yield each way in which a pattern matches with this node as its root."""
    return iter(_ways(pattern, node, {}, graph))


def _ways(pattern: Pattern, node: Node, bound: Bindings, graph: Lookup) -> Iterable[Bindings]:
    op = node.op
    match pattern:
        case Apply():
            if type(op) is pattern.cls and _has_sources(pattern, node):
                sources = [graph[id] for id in node.sources[: len(pattern.sources)]]
                if pattern.needs.issubset([type(source.op) for source in sources]):
                    return _op_ways(pattern, node, sources, bound, graph)
        case Variable(name=name):
            if bound.get(name, node).id == node.id:
                return ({**bound, name: node},)
        case Number():
            if isinstance(op, Constant) and pattern.equals(op.value, node.dtype):
                return (bound,)
        case ConstantVariable(name=name):
            if isinstance(op, Constant) and bound.get(name, node).op == op:
                return ({name: node, **bound},)
        case _:
            raise AssertionError(pattern)
    return ()


def _has_sources(pattern: Apply, node: Node) -> bool:
    more = len(node.sources) - len(pattern.sources)
    return more == 0 or (pattern.more and more > 0)


def _op_ways(
    pattern: Apply, node: Node, sources: list[Node], bound: Bindings, graph: Lookup
) -> Iterator[Bindings]:
    with_fields = _match_fields(pattern, node, bound)
    if with_fields is not None:
        yield from _source_ways(pattern.sources, sources, with_fields, graph)
        if pattern.cls.commutative and pattern.sources[0] != pattern.sources[1]:
            yield from _source_ways(pattern.sources, sources[::-1], with_fields, graph)


def _source_ways(
    patterns: tuple[Pattern, ...], nodes: list[Node], bound: Bindings, graph: Lookup
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


def _match_fields(pattern: Apply, node: Node, bound: Bindings) -> Bindings | None:
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


def why_not(pattern: Pattern, node: Node, graph: Lookup) -> str | None:
    """Return which part of a pattern a node fails, or None if it matches."""
    if next(find(pattern, node, graph), None) is not None:
        return None
    return _misfit(pattern, node, {}, graph)


def _misfit(pattern: Pattern, node: Node, bound: Bindings, graph: Lookup) -> str:
    if isinstance(pattern, Variable):
        return f"{pattern} is {bound[pattern.name]} already, and not {node} as well"
    if not isinstance(pattern, Apply):
        what = "a constant" if isinstance(pattern, ConstantVariable) else f"the constant {pattern}"
        value = f" of {node.op.value}" if isinstance(node.op, Constant) else ""
        return f"{node} is {node.op.name}{value}, where the pattern has {what}"
    if type(node.op) is not pattern.cls:
        return f"{node} is {node.op.name}, where the pattern has {pattern.cls.name}: {pattern}"
    if not _has_sources(pattern, node):
        count = f"{len(node.sources)} sources, where the pattern has {len(pattern.sources)}"
        return f"{node} has {count}"
    with_fields = _match_fields(pattern, node, bound)
    if with_fields is None:
        asked = ", ".join(f"{field} = {value}" for field, value in pattern.fields)
        return f"{node} is {node.op}, where the pattern has {asked}"
    reached, told = with_fields, ""
    for part, id in zip(pattern.sources, node.sources, strict=False):
        source = graph[id]
        way = next(iter(_ways(part, source, reached, graph)), None)
        if way is None:
            told = _misfit(part, source, reached, graph)
            break
        reached = way
    both = " (in the other order it does not fit either)"
    if pattern.cls.commutative and not told.endswith(both):
        told += both * bool(told)
    return told or f"the parts below {node} fit one by one, but not together"


# -- building --------------------------------------------------------------------------------------


def build(
    pattern: Pattern,
    wanted: TensorType,
    bindings: Mapping[str, Any],
    edit: Edit,
    like: list[Node],
    made: dict[tuple[Op, tuple[int, ...]], Node] | None = None,
) -> Node:
    """Insert what a pattern stands for, with what its variables are bound to.

    What it says twice is inserted once; `made` is what is there already.
    """
    made = {} if made is None else made
    match pattern:
        case Variable(name=name):
            return bindings[name]
        case ConstantVariable(name=name):
            found: Node = bindings[name]
            if found.type == wanted:
                return found
            assert isinstance(found.op, Constant)
            return build(Number(found.op.value), wanted, bindings, edit, like, made)
        case Number(value=value):
            value = as_value(value, wanted.dtype)
            return _inserted(Constant(value, wanted.dtype, wanted.shape), [], edit, like, made)
        case Apply(cls=cls, sources=parts):
            built = [
                None
                if isinstance(part, Number)
                else build(part, wanted, bindings, edit, like, made)
                for part in parts
            ]
            # A number is of the type of what stands beside it: of what `where` takes, not chooses.
            first = int(cls is Where)
            beside = next((node.type for node in built[first:] if node is not None), wanted)
            sources = [
                build(part, _number_type(cls, place, beside), bindings, edit, like, made)
                if node is None
                else node
                for place, (part, node) in enumerate(zip(parts, built, strict=True))
            ]
            return _inserted(_op_of(pattern, bindings, wanted), sources, edit, like, made)
        case _:
            raise DefinitionError(f"pattern: {pattern!r} cannot be built")


def _inserted(
    new: Op,
    sources: list[Node],
    edit: Edit,
    like: list[Node],
    made: dict[tuple[Op, tuple[int, ...]], Node],
) -> Node:
    key = new, tuple(node.id for node in sources)
    if key not in made:
        made[key] = edit.insert(new, *sources, like=like)
    return made[key]


def _number_type(cls: type[Op], place: int, beside: TensorType) -> TensorType:
    return beside.with_dtype(DType.bool_) if cls is Where and place == 0 else beside


def _op_of(pattern: Apply, bindings: Mapping[str, Any], wanted: TensorType) -> Op:
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
