"""Trials of a rule: graphs of its pattern, with types, constants and fields filled in.

Readable graphs come first, by enumeration: few values, two axes. Thorough ones follow: all
corners of dtypes as constants, and graphs of random shapes, with sizes 0 and 1 among
them, whose fields fit their sources.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from random import Random
from typing import Any, TypeAlias, get_args

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import Elementwise, Op, Scalar, TensorType, fields_of, ints
from luminal_lab.core.ops import (
    Constant,
    CustomGradient,
    Expand,
    Flip,
    Gather,
    Input,
    Pad,
    Permute,
    Reshape,
    Scatter,
    Slice,
    Update,
    Where,
    Window,
)
from luminal_lab.errors import Interrupted, LabError
from luminal_lab.passes.corners import constants, simple
from luminal_lab.passes.pattern import (
    ConstantVariable,
    Field,
    NumberPattern,
    OpPattern,
    Pattern,
    Variable,
    as_value,
)
from luminal_lab.passes.rule import Rule

DTYPES = (
    *(DType.float32, DType.float64, DType.float16, DType.int32, DType.uint8, DType.bool_),
    *(DType.bfloat16, DType.int64, DType.int16, DType.int8),
    *(DType.uint32, DType.uint64, DType.uint16),
)
"""All dtypes, the most frequent first."""
SHAPES = ((2, 3), (1, 3), (2, 1), (1, 1))
EMPTY = ((0, 3), (2, 0))
MOST = 1_500
"""The number of graphs tried by enumeration."""
CHOICES = 100
"""The number of choices of constants and fields in thorough trials of a dtype."""
DRAWN = 600
"""The number of random graphs for a rule that is not elementwise."""
SIZES = (2, 3, 1, 4, 2, 3, 0, 5)
RANKS = (2, 3, 1, 2, 3, 4)
READABLE = 40
"""The most elements of an array that a person may have to read."""
AXES = (0, 1)
PER_FIELD: Mapping[tuple[type[Op], str], tuple[object, ...]] = {
    (Permute, "axes"): tuple(permutations(range(2))),
    (Reshape, "shape"): ((3, 2), (6,), (2, 3), (1, 6), (3,), (1,), (2,), (3, 1)),
    (Expand, "shape"): ((2, 3), (1, 3), (2, 1), (4, 3), (2, 5), (1, 1)),
    (Slice, "start"): ((0, 0), (1, 0), (0, 1), (1, 1)),
    (Slice, "stop"): ((2, 3), (1, 2), (2, 2), (1, 3)),
    (Slice, "step"): ((1, 1), (1, 2), (2, 1)),
    (Pad, "before"): ((0, 0), (1, 0), (0, 2)),
    (Pad, "after"): ((0, 0), (1, 0), (0, 1)),
    (Flip, "axes"): ((), (0,), (1,), (0, 1)),
    (Window, "size"): (1, 2),
    (Window, "stride"): (1, 2),
    (Window, "dilation"): (1,),
}
"""The enumerated values of fields; axes and dtypes are tried wherever they are fields."""

Given: TypeAlias = dict[str, object]
"""Constants by name, fields by name or position."""


@dataclass(frozen=True)
class Trial:
    """One graph for the left side of a rule."""

    dtype: DType
    edit: Edit
    left: Node
    given: Given = field(default_factory=Given)
    inputs: Mapping[str, Node] = field(default_factory=dict[str, Node])
    thorough: bool = False
    """Whether it is tried with all values, not only with readable ones."""


def trials(rule: Rule, dtypes: Iterable[DType]) -> Iterator[Trial]:
    """Yield the graphs on which a rule is tried, the same ones each time."""
    dtypes = [dtype for dtype in DTYPES if dtype in dtypes]
    lanes = is_elementwise(rule.pattern)
    for shapes in [((1,),)] if lanes else [SHAPES, EMPTY]:
        for sample, given in _enumerated(rule, dtypes, shapes):
            yield from _written(rule.pattern, sample, given, None)
    rng = Random(0)
    if lanes:
        for dtype in dtypes:
            for given in _choices(rule, dtype, rng):
                yield from _written(rule.pattern, TensorType(dtype, (1,)), given, rng)
        return
    for number in range(DRAWN):
        dtype = dtypes[number % len(dtypes)]
        shape = tuple(rng.choices(SIZES, k=rng.choice(RANKS)))
        if math.prod(shape) > READABLE:
            shape = tuple(min(size, 2) for size in shape)
        yield from _written(rule.pattern, TensorType(dtype, shape), {}, rng)


def is_elementwise(pattern: Pattern) -> bool:
    """Return whether a pattern has elementwise ops alone."""
    if not isinstance(pattern, OpPattern):
        return True
    return issubclass(pattern.cls, Elementwise) and all(map(is_elementwise, pattern.sources))


def numbers_of(rule: Rule) -> tuple[Scalar, ...]:
    """Return the numbers that a rule mentions: in its patterns, its condition, its calculation."""
    numbers: list[Scalar] = [*_numbers(rule.pattern)]
    replacement = rule.replacement
    if isinstance(replacement, Pattern):
        numbers += _numbers(replacement)
    else:
        numbers += _mentioned(replacement)
    if rule.condition is not None:
        numbers += _mentioned(rule.condition)
    return tuple(dict.fromkeys(numbers))


def _numbers(pattern: Pattern) -> Iterator[Scalar]:
    if isinstance(pattern, NumberPattern):
        yield pattern.value
    elif isinstance(pattern, OpPattern):
        for source in pattern.sources:
            yield from _numbers(source)


def _mentioned(function: Callable[..., object]) -> Iterator[Scalar]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    values: tuple[object, ...] = getattr(code, "co_consts", ())
    yield from (v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool))


# -- by enumeration --------------------------------------------------------------------------------


def _enumerated(
    rule: Rule, dtypes: Sequence[DType], shapes: Sequence[Shape]
) -> Iterator[tuple[TensorType, Given]]:
    names, slots = _open(rule.pattern)
    fields = {slot: _candidates(cls, of) for slot, (cls, of) in slots.items()}
    samples: list[tuple[TensorType, Mapping[str, Sequence[object]]]] = []
    for dtype, shape in product(dtypes, shapes):
        values: Sequence[object] = simple(dtype).tolist()
        samples.append((TensorType(dtype, shape), {**dict.fromkeys(names, values), **fields}))
    counts = [math.prod(map(len, pools.values())) for _, pools in samples]
    total = sum(counts)
    picked = range(total) if total <= MOST else sorted(Random(0).sample(range(total), MOST))
    start, index = 0, 0
    for number in picked:
        while number >= start + counts[index]:
            start, index = start + counts[index], index + 1
        sample, pools = samples[index]
        yield sample, _nth(pools, number - start)


def _nth(pools: Mapping[str, Sequence[object]], number: int) -> Given:
    """Return one choice from each pool, the last of them turning fastest."""
    given: Given = {}
    for name, pool in reversed(list(pools.items())):
        number, index = divmod(number, len(pool))
        given[name] = pool[index]
    return dict(reversed(list(given.items())))


def _choices(rule: Rule, dtype: DType, rng: Random) -> Iterator[Given]:
    """Yield constants and dtypes to try; missing ones are drawn at random."""
    names, slots = _open(rule.pattern)
    pools: dict[str, Sequence[object]] = {}
    for name in names:
        mentioned = [n for n in numbers_of(rule) if isinstance(n, (int, float))]
        known = [as_value(n, dtype) for n in mentioned if math.isfinite(n)]
        pools[name] = (*constants(dtype), *known)
    pools |= {slot: DTYPES for slot, (_, of) in slots.items() if of == "dtype"}
    total = math.prod(map(len, pools.values()))
    if total <= CHOICES or len(pools) == 1:
        for number in range(total if len(pools) == len(names) + len(slots) else CHOICES):
            yield _nth(pools, number % total)
        return
    for number in rng.sample(range(total), CHOICES):
        given = _nth(pools, number)
        if len(names) > 1 and rng.random() < 0.25:
            given[names[1]] = given[names[0]]
        yield given


def _open(pattern: Pattern) -> tuple[list[str], dict[str, tuple[type[Op], str]]]:
    """Return the constants of a pattern, and its open fields, each with its position."""
    return sorted({*_constants(pattern)}), dict(_slots(pattern))


def _constants(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, OpPattern):
        for source in pattern.sources:
            yield from _constants(source)
    elif isinstance(pattern, ConstantVariable):
        yield pattern.name


def variables_of(pattern: Pattern) -> tuple[str, ...]:
    """Return the names of a pattern's variables, in the order in which they are read."""
    if isinstance(pattern, Variable):
        return (pattern.name,)
    sources = pattern.sources if isinstance(pattern, OpPattern) else ()
    return tuple(dict.fromkeys(name for source in sources for name in variables_of(source)))


def _slots(pattern: Pattern, path: str = "") -> Iterator[tuple[str, tuple[type[Op], str]]]:
    if not isinstance(pattern, OpPattern):
        return
    given = dict(pattern.fields)
    for name in fields_of(pattern.cls):
        value = given.get(name)
        if isinstance(value, Field):
            yield value.name, (pattern.cls, name)
        elif name not in given:
            yield f"{path}{pattern.cls.name}.{name}", (pattern.cls, name)
    for position, source in enumerate(pattern.sources):
        yield from _slots(source, f"{path}{position}.")


def _candidates(cls: type[Op], name: str) -> tuple[object, ...]:
    if (cls, name) in PER_FIELD:
        return PER_FIELD[cls, name]
    if name == "axis":
        return AXES
    if cls is CustomGradient:
        return ("a function",)
    return DTYPES if name == "dtype" else ()


# -- writing ---------------------------------------------------------------------------------------


def _written(
    pattern: OpPattern, sample: TensorType, given: Given, rng: Random | None
) -> Iterator[Trial]:
    """Yield the graph of a pattern, unless its ops reject the types or fields."""
    writer = _TrialWriter(sample, dict(given), rng)
    try:
        left = writer.node(pattern, sample, "")
    except Interrupted:
        raise
    except LabError:
        return
    edit, inputs = writer.edit, {name: writer.inputs[name] for name in variables_of(pattern)}
    yield Trial(sample.dtype, edit, left, writer.given, inputs, thorough=rng is not None)


class _TrialWriter:
    """A writer of patterns as graphs, from sources to users, with fields that fit the sources."""

    def __init__(self, sample: TensorType, given: Given, rng: Random | None) -> None:
        self.edit = Edit(IR(Table(), (), ()))
        self.inputs: dict[str, Node] = {}
        self.sample = sample
        self.given = given
        self.rng = rng

    def node(self, pattern: Pattern, like: TensorType, path: str) -> Node:
        """Write a pattern; parts without a type take that of their neighbours."""
        match pattern:
            case Variable(name=name):
                if name not in self.inputs:
                    self.inputs[name] = self.edit.insert(Input(like.dtype, like.shape), name=None)
                return self.inputs[name]
            case ConstantVariable(name=name):
                if name not in self.given:
                    assert self.rng is not None
                    self.given[name] = self.rng.choice(constants(like.dtype))
                value: Any = self.given[name]
                return self.edit.insert(Constant(value, like.dtype, like.shape))
            case NumberPattern(value=value):
                value = as_value(value, like.dtype)
                return self.edit.insert(Constant(value, like.dtype, like.shape))
            case OpPattern(cls=cls):
                indexes = cls in (Gather, Scatter, Update)
                sources = (
                    self._indexing(pattern, path) if indexes else self._sources(pattern, like, path)
                )
                return self.edit.insert(cls(**self._fields(pattern, sources, path)), *sources)
            case _:
                raise AssertionError(pattern)

    def _sources(self, pattern: OpPattern, like: TensorType, path: str) -> list[Node]:
        """Write typed sources first, with the condition of `where` as the last of these."""
        nodes: dict[int, Node] = {}
        parts = pattern.sources
        beside: TensorType | None = None

        def chooses(position: int) -> bool:
            return pattern.cls is Where and position == 0

        order = sorted(range(len(parts)), key=lambda k: (not self._has_type(parts[k]), chooses(k)))
        for position in order:
            wanted = beside if beside is not None and is_elementwise(parts[position]) else like
            if chooses(position) and not isinstance(parts[position], OpPattern):
                wanted = wanted.with_dtype(DType.bool_)
            node = nodes[position] = self.node(parts[position], wanted, f"{path}{position}.")
            if beside is None:
                beside = node.type.with_dtype(like.dtype) if chooses(position) else node.type
        return [nodes[position] for position in range(len(parts))]

    def _has_type(self, part: Pattern) -> bool:
        return isinstance(part, OpPattern) or (
            isinstance(part, Variable) and part.name in self.inputs
        )

    def _indexing(self, pattern: OpPattern, path: str) -> list[Node]:
        """Write the sources of an op that reads or writes some positions of an axis."""
        parts = pattern.sources
        first = self.node(parts[0], self.sample, f"{path}0.")
        axis = self._field(pattern, "axis", [first], {}, path)
        assert isinstance(axis, int)
        size = ints(first.shape)[axis]
        rng = self.rng or Random(0)
        indexes = pattern.cls is not Update
        count = rng.randint(0, 4) if size and indexes else rng.randint(0, size)
        some = first.type.with_axis(axis, count)
        index = some.with_dtype(rng.choice((DType.int64, DType.int32, DType.int8, DType.uint8)))
        wanted = [index, some] if indexes else [some]
        pairs = enumerate(zip(parts[1:], wanted, strict=False), 1)
        return [first, *[self.node(part, type, f"{path}{k}.") for k, (part, type) in pairs]]

    def _fields(self, pattern: OpPattern, sources: Sequence[Node], path: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in fields_of(pattern.cls):
            values[name] = self._field(pattern, name, sources, values, path)
        return values

    def _field(
        self,
        pattern: OpPattern,
        name: str,
        sources: Sequence[Node],
        others: Mapping[str, Any],
        path: str,
    ) -> object:
        fixed = dict(pattern.fields)
        value = fixed.get(name)
        if name in fixed and not isinstance(value, Field):
            return value
        slot = value.name if isinstance(value, Field) else f"{path}{pattern.cls.name}.{name}"
        if slot not in self.given:
            types = [source.type for source in sources] or [self.sample]
            rng = self.rng or Random(0)
            self.given[slot] = _fitting(pattern.cls, name, types, others, rng)
        return self.given[slot]


def _fitting(
    cls: type[Op], name: str, types: Sequence[TensorType], others: Mapping[str, Any], rng: Random
) -> object:
    """Return a value of a field that fits the op's sources."""
    shape = ints(types[0].shape)
    if (cls, name) == (Update, "at"):
        axis: int = others["axis"]
        return rng.randint(0, max(0, shape[axis] - ints(types[1].shape)[axis]))
    fit = FITTING.get((cls, name))
    return _of_type(cls, name, types[0], rng) if fit is None else fit(shape, others, rng)


def _stops(shape: Sequence[int], others: Mapping[str, Any], rng: Random) -> Shape:
    pairs: Iterable[tuple[int, int]] = zip(others["start"], shape, strict=True)
    return tuple(rng.choice((size, rng.randint(min(low, size), size))) for low, size in pairs)


def _window(shape: Sequence[int], others: Mapping[str, Any], rng: Random) -> int:
    axis: int = others["axis"]
    return rng.randint(1, max(1, min(3, shape[axis])))


def _widths(shape: Sequence[int], others: Mapping[str, Any], rng: Random) -> Shape:
    return tuple(rng.choice((0, 0, 1, 2)) for _ in shape)


def _of_type(cls: type[Op], name: str, like: TensorType, rng: Random) -> object:
    """Return a value that a field's type allows."""
    hint = fields_of(cls)[name]
    rank = len(like.shape)
    if hint is DType:
        return rng.choice(DTYPES)
    if hint is Shape:
        return like.shape
    if hint == tuple[int, ...]:
        return tuple(range(rank))
    if hint is bool:
        return rng.random() < 0.5
    if hint is str:
        return "a function"
    if hint is int and name == "axis":
        return rng.randrange(max(1, rank))
    if hint in (int, Dim):
        return rng.choice((1, 2, 3, 0))
    words = [word for word in get_args(hint) if isinstance(word, str)]
    return rng.choice(words) if words else rng.choice((1.0, 2.0, 0.5, -1.0, 0.0))


def _reshaped(shape: Sequence[int], rng: Random) -> Shape:
    """Return another shape with as many elements: axes merged, split, added and dropped."""
    sizes = list(shape)
    for _ in range(rng.randint(0, 3)):
        axis = rng.randrange(len(sizes) + 1)
        match rng.randrange(4):
            case 0:
                sizes.insert(axis, 1)
            case 1 if 1 in sizes:
                sizes.remove(1)
            case 2 if axis + 1 < len(sizes):
                sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
            case 3 if axis < len(sizes):
                by = rng.choice([k for k in (1, 2, 3, 5) if sizes[axis] % k == 0])
                sizes[axis : axis + 1] = [by, sizes[axis] // by]
            case _:
                pass
    return tuple(sizes)


Fit: TypeAlias = Callable[[tuple[int, ...], Mapping[str, Any], Random], object]
FITTING: Mapping[tuple[type[Op], str], Fit] = {
    (Permute, "axes"): lambda shape, _, rng: tuple(rng.sample(range(len(shape)), len(shape))),
    (Reshape, "shape"): lambda shape, _, rng: _reshaped(shape, rng),
    (Expand, "shape"): lambda shape, _, rng: tuple(
        rng.choice((1, 2, 3, 5, 0)) if size == 1 else size for size in shape
    ),
    (Slice, "start"): lambda shape, _, rng: tuple(
        rng.choice((0, rng.randint(0, size))) for size in shape
    ),
    (Slice, "stop"): _stops,
    (Slice, "step"): lambda shape, _, rng: tuple(rng.choice((1, 1, 2, 3)) for _ in shape),
    (Pad, "before"): _widths,
    (Pad, "after"): _widths,
    (Flip, "axes"): lambda shape, _, rng: tuple(k for k in range(len(shape)) if rng.random() < 0.5),
    (Window, "size"): _window,
}
"""The generators of views' fields, for a source of some shape."""
