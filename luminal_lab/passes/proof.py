"""Rules put to the test by enumeration: dtypes, special values, constants and fields, all of them.

Both sides are computed by the interpreter. Where a rule assumes a fact, values that break it, on
either side and on the way there, do not count against it; all others do, bit by bit, unless it
assumes that the order of roundings does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node, Table
from luminal_lab.core.op import Elementwise, Op, Scalar, TensorType, fields_of, ints
from luminal_lab.core.ops import (
    Constant,
    CustomGradient,
    Expand,
    Flip,
    Input,
    Log2,
    Pad,
    Permute,
    Recip,
    Reshape,
    Slice,
    Sqrt,
    Window,
)
from luminal_lab.core.printer import as_text
from luminal_lab.errors import LabError
from luminal_lab.passes.pattern import (
    Apply,
    ConstantVariable,
    Field,
    Pattern,
    Variable,
    build,
)
from luminal_lab.passes.rule import Rule, choices

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-40, 1e-30, -1e30, math.inf, -math.inf, math.nan)
TAME = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 7.0, 0.1, math.inf, -math.inf, math.nan)
"""Values among which no sum loses all of the smaller part."""
INTEGERS = (0, 1, 2, 3, 5, -1, -2, -7, 100, 127, -128, 2**31 - 1, -(2**31))
DTYPES = (DType.float32, DType.float64, DType.float16, DType.int32, DType.uint8, DType.bool_)
SHAPES = ((2, 3), (1, 3), (2, 1), (1, 1))
MOST = 1_500
"""How many graphs are tried for one rule."""
ROUNDINGS = 100
"""How many roundings a rule may add."""
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
"""What is tried for the fields of ops; axes and dtypes are tried wherever they are fields."""


@dataclass(frozen=True, repr=False)
class Counterexample:
    """Inputs for which the sides of a rule differ."""

    rule: Rule
    dtype: DType
    given: Mapping[str, object]
    """What the variables, constants and fields are."""
    left: object
    right: object

    @override
    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.given.items())
        return (
            f"{self.rule}\nis wrong for {self.dtype}: with {given} the left side is {self.left}, "
            f"but the right side is {self.right}"
        )

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Counterexample {self}>"


class Examination(NamedTuple):
    """How often a rule was put to the test, and the first time that it was wrong."""

    tried: int
    """How many graphs the rule matched; 0 proves nothing."""
    wrong: Counterexample | None


def counterexample(rule: Rule) -> Counterexample | None:
    """Return inputs for which a rule is wrong, or None if enumeration finds none.

    >>> from luminal_lab.passes.pattern import variables
    >>> x = variables("x")
    >>> print(counterexample(Rule("mul-zero", x * 0, 0, assumes={"no_nan"})))
    mul-zero: x * 0 → 0, if no value is NaN
    is wrong for float32: with x = -0.0 the left side is -0.0, but the right side is 0.0
    >>> counterexample(Rule("mul-one", x * 1, x))
    """
    return examine(rule).wrong


def examine(rule: Rule) -> Examination:
    """Try a rule on all that there is to try, until it is wrong."""
    tried = 0
    for sample, given in cases(rule):
        try:
            made = _instance(rule, sample, given)
        except LabError as error:
            refused = f"refused: {error}"
            wrong = Counterexample(rule, sample.dtype, given, "of this type", refused)
            return Examination(tried, wrong)
        if made is not None:
            tried += 1
            wrong = _tried(rule, sample, given, made)
            if wrong is not None:
                return Examination(tried, wrong)
    return Examination(tried, None)


Given: TypeAlias = dict[str, object]
Bools: TypeAlias = npt.NDArray[np.bool_]


def cases(rule: Rule) -> list[tuple[TensorType, Given]]:
    """Return the types of the variables, and values of constants and fields, to try.

    Of more than can be tried in a second or two it is the same part each time.
    """
    constants = sorted(set(_names(rule.pattern, ConstantVariable)))
    slots = list(_slots(rule.pattern))
    shapes = ((1,),) if _is_elementwise(rule.pattern) else SHAPES
    found: list[tuple[TensorType, Given]] = []
    for dtype, shape in product(DTYPES, shapes):
        pools: list[tuple[object, ...]] = [_numbers(rule, dtype)] * len(constants)
        names = [*constants, *(slot for slot, _, _ in slots)]
        pools += [_candidates(cls, field) for _, cls, field in slots]
        sample = TensorType(dtype, shape)
        found += [(sample, dict(zip(names, values, strict=True))) for values in product(*pools)]
    return found if len(found) <= MOST else Random(0).sample(found, MOST)


def _numbers(rule: Rule, dtype: DType) -> tuple[Scalar, ...]:
    if dtype is DType.bool_:
        return (False, True)
    if not dtype.is_float:
        low, high = dtype.limits
        return tuple(value for value in INTEGERS if low <= value <= high)
    with np.errstate(all="ignore"):
        values = np.asarray(TAME if "reassociate" in rule.assumes else FLOATS).astype(dtype.numpy)
    return tuple(float(value) for value in values)


def _names(pattern: Pattern, kind: type[Variable | ConstantVariable]) -> Iterator[str]:
    if isinstance(pattern, Apply):
        for source in pattern.sources:
            yield from _names(source, kind)
    elif isinstance(pattern, (Variable, ConstantVariable)) and isinstance(pattern, kind):
        yield pattern.name


def _slots(pattern: Pattern, path: str = "") -> Iterator[tuple[str, type[Op], str]]:
    """Yield each field of a pattern that is open: its name, or its place, and where it stands."""
    if not isinstance(pattern, Apply):
        return
    given = dict(pattern.fields)
    for field in fields_of(pattern.cls):
        value = given.get(field)
        if isinstance(value, Field):
            yield value.name, pattern.cls, field
        elif field not in given:
            yield f"{path}{pattern.cls.name}.{field}", pattern.cls, field
    for place, source in enumerate(pattern.sources):
        yield from _slots(source, f"{path}{place}.")


def _candidates(cls: type[Op], field: str) -> tuple[object, ...]:
    if (cls, field) in PER_FIELD:
        return PER_FIELD[cls, field]
    if field == "axis":
        return AXES
    if cls is CustomGradient:
        return ("a function",)
    return DTYPES if field == "dtype" else ()


def _filled(pattern: Pattern, given: Given, path: str = "") -> Pattern:
    """Return a pattern with all fields filled in."""
    if not isinstance(pattern, Apply):
        return pattern
    fields = dict(pattern.fields)
    for field in fields_of(pattern.cls):
        value = fields.get(field)
        if isinstance(value, Field):
            fields[field] = given[value.name]
        elif field not in fields:
            fields[field] = given[f"{path}{pattern.cls.name}.{field}"]
    sources = [_filled(s, given, f"{path}{place}.") for place, s in enumerate(pattern.sources)]
    return Apply(pattern.cls, tuple(sources), tuple(fields.items()), pattern.name, pattern.more)


def _is_elementwise(pattern: Pattern) -> bool:
    if not isinstance(pattern, Apply):
        return True
    return issubclass(pattern.cls, Elementwise) and all(map(_is_elementwise, pattern.sources))


# -- one graph -------------------------------------------------------------------------------------


class Instance(NamedTuple):
    """A graph that a rule matches, with what took the place of the match."""

    left: Node
    right: Node
    edit: Edit


def _instance(rule: Rule, sample: TensorType, given: Given) -> Instance | None:
    edit = Edit(IR(Table(), (), ()))
    chosen = choices(rule.pattern)
    try:
        bindings: dict[str, Node] = {}
        for name in dict.fromkeys(_names(rule.pattern, Variable)):
            dtype = DType.bool_ if name in chosen else sample.dtype
            bindings[name] = edit.insert(Input(dtype, sample.shape), name=None)
        for name in dict.fromkeys(_names(rule.pattern, ConstantVariable)):
            value = given[name]
            assert isinstance(value, (bool, int, float))
            bindings[name] = edit.insert(Constant(value, sample.dtype, sample.shape))
        left = build(_filled(rule.pattern, given), sample, bindings, edit, [])
        match, right = next(rule.matches(left, edit), (None, None))
        if match is None or right is None:
            return None
    except (LabError, TypeError, KeyError):
        return None  # the ops do not take this type, or these fields
    return Instance(left, build(right, left.type, match.bindings, edit, [left]), edit)


def _tried(rule: Rule, sample: TensorType, given: Given, made: Instance) -> Counterexample | None:
    if made.left.type != made.right.type:
        return Counterexample(rule, sample.dtype, given, made.left.type, made.right.type)
    ir = made.edit.ir()
    inputs = ir.inputs
    named = dict.fromkeys(_names(rule.pattern, Variable))
    # One lane holds one choice of values; what is not elementwise sees whole arrays of one choice.
    scalar = sample.shape == (1,) and _is_elementwise(rule.pattern)
    for data in _data(rule, inputs, scalar=scalar):
        values = _values(ir, data, lanes=scalar)
        wrong = _wrong(rule, made, values, lanes=scalar)
        if wrong is not None:
            at = (wrong,) if scalar else ...
            shown: Given = {
                name: values[node.id][at].tolist() for name, node in zip(named, inputs, strict=True)
            }
            left, right = values[made.left.id][at].tolist(), values[made.right.id][at].tolist()
            return Counterexample(rule, sample.dtype, {**shown, **given}, left, right)
    return None


def _data(rule: Rule, inputs: tuple[Node, ...], *, scalar: bool) -> Iterator[dict[int, Array]]:
    pools = [np.asarray(_numbers(rule, node.dtype), node.dtype.numpy) for node in inputs]
    if scalar:
        grids = np.meshgrid(*pools, indexing="ij")
        yield {node.id: g.reshape(-1) for node, g in zip(inputs, grids, strict=True)}
        return
    rng = np.random.default_rng(0)
    for finite in (True, False):
        chosen = [pool[np.isfinite(pool.astype(float))] if finite else pool for pool in pools]
        yield {
            node.id: rng.choice(pool, ints(node.shape)).astype(node.dtype.numpy)
            for node, pool in zip(inputs, chosen, strict=True)
        }


def _values(ir: IR, data: Mapping[int, Array], *, lanes: bool) -> dict[int, Array]:
    if lanes:  # the graph says one element; it is run on as many as there are lanes
        found = dict(data)
        count = max([1, *[array.size for array in data.values()]])
        with np.errstate(all="ignore"):
            for node in ir.nodes:
                if node.id not in found:
                    op = node.op
                    if isinstance(op, Constant):
                        found[node.id] = np.full(count, op.value, node.dtype.numpy)
                    else:
                        found[node.id] = op.eval(*[found[id] for id in node.sources])
        return found

    def data_of(node: Node) -> Array:
        return data[node.id]

    return interpret(ir, Environment(data_of), wanted=[node.id for node in ir.nodes])


def _wrong(rule: Rule, made: Instance, values: Mapping[int, Array], *, lanes: bool) -> int | None:
    """Return the first lane in which the sides differ although all assumed facts hold."""
    left, right = values[made.left.id], values[made.right.id]
    same = _same(rule, left, right, values)
    holds: Bools = np.ones(left.shape if lanes else (), bool)
    if made.left.dtype.is_float or "nonzero" in rule.assumes:
        for node in made.edit.ir().nodes:
            broken = _broken(rule, node, values)
            holds &= ~(broken if lanes else broken.any())
    wrong = np.argwhere(np.logical_and(np.logical_not(same), holds))
    return int(wrong[0][0]) if len(wrong) else None


def _broken(rule: Rule, node: Node, values: Mapping[int, Array]) -> Bools:
    """Return where a node breaks a fact that the rule assumes."""
    value = values[node.id]
    broken: Bools = np.zeros(value.shape, bool)
    if node.dtype.is_float:
        if "no_nan" in rule.assumes:
            broken |= np.isnan(value)
        if "no_inf" in rule.assumes:
            broken |= np.isinf(value)
    if isinstance(node.op, Recip) and "nonzero" in rule.assumes:
        broken |= np.equal(values[node.sources[0]], 0)
    if isinstance(node.op, (Sqrt, Log2)) and "non_negative" in rule.assumes:
        broken |= np.less(values[node.sources[0]], 0)
    return broken


def _same(rule: Rule, a: Array, b: Array, values: Mapping[int, Array]) -> Bools:
    if a.dtype.kind in "iub":
        return np.equal(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(x) & np.isnan(y)
    equal = (x == y) | nan
    if "no_signed_zero" not in rule.assumes:
        equal &= (np.signbit(x) == np.signbit(y)) | nan
    if "reassociate" in rule.assumes:
        # One more rounding is half a unit in the last place of the largest value on the way.
        bound = ROUNDINGS * float(np.finfo(a.dtype.name).eps)
        with np.errstate(all="ignore"):
            sizes = [abs(v.astype(np.float64)) for v in values.values() if v.shape == a.shape]
            scale = np.max([np.where(np.isfinite(size), size, 0) for size in sizes], axis=0)
            equal |= abs(x - y) <= bound * scale
    return equal
