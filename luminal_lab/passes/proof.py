"""Tests of rules: on simple values first, then on all values of small dtypes and on corners.

The interpreter computes both sides. Where a rule assumes a fact, values of the left side
that violate it do not count against the rule. All others do, bit by bit, unless the rule assumes
that the order of roundings does not matter: then differences that roundings explain do not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dtypes import BY_NUMPY, Array, DType, DTypeLike, as_dtype
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Scalar, TensorType, ints
from luminal_lab.core.ops import Cast, Constant, Gather, Input, Scatter
from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, LabError, LabWarning, PassError, is_circumstance
from luminal_lab.passes.base import Pass
from luminal_lab.passes.corners import (
    corners,
    drawn,
    every,
    exactly,
    near,
    negatives,
    neighbours,
    simple,
)
from luminal_lab.passes.enclosure import enclosures
from luminal_lab.passes.judge import is_outside, is_subnormal
from luminal_lab.passes.pattern import Pattern, build
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.trials import DTYPES, Trial, numbers_of, trials
from luminal_lab.tensor.arguments import told_object

EXHAUSTED = 1 << 17
"""The most choices of values for variables that are tried exhaustively."""
SAMPLED = 1 << 16
"""The number of choices to try where there are more."""
FEW = 1 << 12
"""The number of choices to try for each constant, where a rule has constants."""
READ = 1 << 11
"""The number of counterexamples from which the most readable is chosen."""

Bools: TypeAlias = npt.NDArray[np.bool_]


@told_object("counterexample")
@dataclass(frozen=True, repr=False)
class Counterexample:
    """Inputs for which the sides of a rule differ."""

    rule: Rule
    dtype: DType
    given: Mapping[str, object]
    """The variables, constants and fields, as numbers that can be typed in again."""
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
    """The number of tests of a rule, and its first counterexample."""

    tried: int
    """The number of graphs that the rule matched; 0 proves nothing."""
    wrong: Counterexample | None


def counterexample(
    rule: Rule, dtypes: DTypeLike | Iterable[DTypeLike] = DTYPES
) -> Counterexample | None:
    """Return inputs for which a rule is wrong, or None if none are found.

    Rules of one variable are tried on all values of the dtypes of 8 and 16 bits; others, and the
    wider dtypes, on corners and on values drawn over all bit patterns, the same ones each time.

    >>> from luminal_lab.passes.pattern import variables
    >>> x = variables("x")
    >>> print(counterexample(Rule("mul-zero", x * 0, 0, assumes={"no_nan"})))
    mul-zero: x * 0 → 0, if no value is NaN
    is wrong for float32: with x = -0.0 the left side is -0.0, but the right side is 0.0
    >>> counterexample(Rule("mul-one", x * 1, x))
    """
    if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        hint = 'give one, as in ll.Rule("mul-one", x * 1, x); passes have them as .rules()'
        if isinstance(rule, Pass) and not rule.rules():
            hint = 'this pass has no rules: cx.compile(…, check="values") tries it on a graph'
        raise ArgumentError(f"counterexample: {rule!r} is not a rule", hint=hint)
    is_single = isinstance(dtypes, (str, type, np.dtype))
    kinds = {as_dtype(dtype) for dtype in ([dtypes] if is_single else dtypes)}
    tried, wrong = examine(rule, kinds)
    if not tried:
        text = (
            f"rule {rule.name!r} was not tested: none of the small graphs that were made to try it "
            f"matches {rule.pattern}, or its condition refuses them all. Nothing shows that it "
            "is right. Loosen the condition, give other dtypes, as in counterexample(rule, "
            'dtypes=["int32"]), or compile a graph that it matches with check="values"'
        )
        warnings.warn(text, LabWarning, stacklevel=2)
    return wrong


def examine(rule: Rule, dtypes: Iterable[DType] = DTYPES, *, on: Iterable[IR] = ()) -> Examination:
    """Try a rule on all trials until one refutes it.

    Random graphs hardly ever match a pattern of many ops with dependent fields: such a rule is
    tried `on` given graphs, whose outputs match it.
    """
    graphs = list(on)
    with np.errstate(all="ignore"):
        return _examined(rule, map(_given, graphs) if graphs else trials(rule, tuple(dtypes)))


def _examined(rule: Rule, tries: Iterable[Trial]) -> Examination:
    tried = 0
    for trial in tries:
        wrong = None
        try:
            instance = _instance(rule, trial)
        except Exception as error:  # also any error of a condition or a calculation
            if is_circumstance(error):
                raise _untried(rule, error) from error
            told = error.message if isinstance(error, LabError) else repr(error)
            given = _told(trial, {name: node.type for name, node in trial.inputs.items()})
            wrong = Counterexample(rule, trial.dtype, given, trial.left.type, f"refused: {told}")
        else:
            if instance is None:
                continue
            wrong = _refuted(rule, trial, instance)
        tried += 1
        if wrong is not None:
            return Examination(tried, wrong)
    return Examination(tried, None)


def _untried(rule: Rule, error: Exception) -> PassError:
    """Return the error for a rule that could not be tested."""
    out = "of stack" if isinstance(error, RecursionError) else "of memory"
    return PassError(
        f"rule {rule.name!r}: it could not be put to the test: Python ran out {out}: {error}",
        hint="that says nothing about the rule; try it again with more stack and memory free",
    )


def _given(ir: IR) -> Trial:
    edit = Edit(ir)
    inputs = {node.name: node for node in ir.inputs}
    return Trial(ir.outputs[0].dtype, edit, ir.outputs[0], {}, inputs, thorough=True)


# -- one graph -------------------------------------------------------------------------------------


class Instance(NamedTuple):
    """Both sides of a rule, in one graph."""

    left: Node
    right: Node
    ir: IR
    behind: frozenset[int]
    """The ids of the nodes of the left side."""


def _instance(rule: Rule, trial: Trial) -> Instance | None:
    left, edit = trial.left, trial.edit
    behind = frozenset(node.id for node in edit.ir().nodes)
    match, right = next(rule.matches(left, edit), (None, None))
    if match is None or right is None:
        return None
    built = build(right, left.type, match.bindings, edit, [left])
    return Instance(left, built, edit.ir(), behind)


def _refuted(rule: Rule, trial: Trial, instance: Instance) -> Counterexample | None:
    """Return the values for which the sides of an instance differ."""
    left, right, ir, _ = instance
    if left.type != right.type:
        given = _told(trial, {name: node.type for name, node in trial.inputs.items()})
        return Counterexample(rule, trial.dtype, given, left.type, right.type)
    # One lane holds one choice of values; other patterns see whole arrays of one choice.
    kept = (Elementwise, Input, Constant)
    lanes = left.shape == (1,) and all(isinstance(node.op, kept) for node in ir.nodes)
    for data in _lanes(rule, trial, ir.inputs) if lanes else _arrays(trial, ir):
        try:
            values = _values(ir, data, None if lanes else instance.behind)
        except LabError as error:
            if is_circumstance(error):
                raise
            continue  # the left side is undefined for such data
        shown = {name: values[node.id] for name, node in trial.inputs.items()}
        try:
            values = values if lanes else _values(ir, data, {node.id for node in ir.nodes})
        except LabError as error:
            if is_circumstance(error):
                raise
            given = _told(trial, {name: _shown(value) for name, value in shown.items()})
            told = f"refused: {error.message}"
            return Counterexample(rule, trial.dtype, given, _shown(values[left.id]), told)
        wrong = _wrong(rule, instance, values, lanes=lanes)
        if wrong is None:
            continue
        if lanes:  # a single choice of values, the easiest to read of a thorough trial's
            names = {**shown, "": values[left.id]}
            lane = _easiest(names.values(), wrong) if trial.thorough else wrong[0]
            values = {id: value[lane] for id, value in values.items()}
        shown = {name: _shown(values[node.id]) for name, node in trial.inputs.items()}
        sides = _shown(values[left.id]), _shown(values[right.id])
        return Counterexample(rule, trial.dtype, _told(trial, shown), *sides)
    return None


def _easiest(arrays: Iterable[Array], lanes: Sequence[int]) -> int:
    few = lanes[:READ]
    texts = zip(*[map(str, map(exactly, array[few])) for array in arrays], strict=True)
    sizes = [sum(map(len, text)) for text in texts]
    return few[sizes.index(min(sizes))]


def _told(trial: Trial, variables: Mapping[str, object]) -> dict[str, object]:
    """Return variables, constants and fields by name, constants as values of their dtype."""
    dtype = trial.dtype
    return dict(variables) | {
        name: exactly(np.asarray(value).astype(dtype.numpy))
        if isinstance(value, float) and dtype.is_float
        else value
        for name, value in trial.given.items()
    }


def _shown(value: Array) -> object:
    """Return a value as text that can be typed in; for an empty array, its shape."""
    return exactly(value) if value.size else str(TensorType(BY_NUMPY[value.dtype], value.shape))


def _values(ir: IR, data: Mapping[int, Array], wanted: Iterable[int] | None) -> dict[int, Array]:

    def given(node: Node) -> Array:
        return data[node.id]

    if wanted is not None:
        return interpret(ir, Environment(given), wanted=wanted)
    # The graph describes one element; it runs on all lanes at once.
    values = dict(data)
    count = max([1, *[array.size for array in data.values()]])
    with np.errstate(all="ignore"):
        for node in ir.nodes:
            op = node.op
            if isinstance(op, Constant):
                values[node.id] = np.broadcast_to(op.eval(), (count,))
            elif node.id not in values:
                values[node.id] = op.eval(*[values[id] for id in node.sources])
    return values


# -- what is compared ------------------------------------------------------------------------------


def _wrong(
    rule: Rule, instance: Instance, values: Mapping[int, Array], *, lanes: bool
) -> Sequence[int] | None:
    """Return where the sides differ although all assumed facts hold, or None."""
    left, right, ir, behind = instance
    differ = ~_same(rule, values[left.id], values[right.id])
    if not differ.any():
        return None
    indices = np.flatnonzero(differ) if lanes else np.zeros(1, int)
    if lanes:
        values = {id: value[indices] for id, value in values.items()}
        differ = np.ones(len(indices), bool)
    for node in ir.nodes:
        if node.id in behind:
            broken = _broken(rule, node, values)
            differ &= ~(broken if lanes else broken.any())
    if "reassociate" in rule.assumes and differ.any():
        differ &= ~_is_explained(rule, instance, values, lanes=lanes)
    return [int(k) for k in indices[differ if lanes else slice(None)]] if differ.any() else None


def _same(rule: Rule, a: Array, b: Array) -> Bools:
    """Return where two values are equal: NaN equals NaN, and 0.0 equals -0.0 only if assumed."""
    same = np.asarray(np.equal(a, b), bool)
    if a.dtype.kind in "iub":
        return same
    if "no_signed_zero" not in rule.assumes:
        same &= np.equal(np.signbit(a), np.signbit(b))
    return same | (np.isnan(a) & np.isnan(b))


def _broken(rule: Rule, node: Node, values: Mapping[int, Array]) -> Bools:
    """Return where a node violates a fact that the rule assumes."""
    value = values[node.id]
    broken: Bools = np.zeros(value.shape, bool)
    if node.dtype.is_float:
        if "no_nan" in rule.assumes:
            broken |= np.isnan(value)
        if "no_inf" in rule.assumes:
            broken |= np.isinf(value)
        if "no_subnormal" in rule.assumes:
            broken |= is_subnormal(value)
    if node.op.domain in rule.assumes:
        broken |= is_outside(node.op.domain, values[node.sources[-1]])
    return broken


def _is_explained(
    rule: Rule, instance: Instance, values: Mapping[int, Array], *, lanes: bool
) -> Bools:
    """Return where some order of roundings makes the two sides equal.

    Roundings neither change the sign of a zero nor turn a number into NaN. A finite and an infinite
    value can come from one number only at the very end of the dtype, or where the rule assumes
    that nothing overflows and another order may overflow on the way.
    """
    left, right, ir, behind = instance
    unbounded = "no_inf" in rule.assumes
    # A literal number in the rule is exact; a calculated one is rounded.
    written = isinstance(rule.replacement, Pattern)
    given = [node.id for node in ir.nodes if written or node.id in behind]
    bounds = enclosures(ir.nodes, values, given=given, overflows=not unbounded)
    a, b = bounds[left.id], bounds[right.id]
    meet = a.meets(b)
    x, y = values[left.id], values[right.id]
    if not left.dtype.is_float:
        return meet & (np.not_equal(*a) | np.not_equal(*b))
    nan = np.isnan(x) != np.isnan(y)
    if unbounded and "no_nan" in rule.assumes:
        infinite = [np.isinf(values[node.id]) for node in ir.nodes if node.dtype.is_float]
        overflown = np.any(infinite, axis=0) if lanes else any(mask.any() for mask in infinite)
        nan &= np.logical_not(overflown)
    zeros = np.equal(x, 0) & np.equal(y, 0)
    return meet & ~nan & ~zeros | _same(rule, x, y)


# -- values ----------------------------------------------------------------------------------------

Data: TypeAlias = dict[int, Array]


def _lanes(rule: Rule, trial: Trial, inputs: Sequence[Node]) -> Iterator[Data]:
    """Yield values for variables of one element each, side by side."""
    dtypes = [node.dtype for node in inputs]
    if not trial.thorough:
        arrays = _grid([simple(dtype) for dtype in dtypes])
    else:
        whole = [pool for dtype in dtypes if (pool := every(dtype)) is not None]
        total = np.prod([len(pool) for pool in whole])
        if len(whole) == len(dtypes) and total <= EXHAUSTED:
            arrays = _grid(whole)
        else:
            given = [value for value in trial.given.values() if isinstance(value, (int, float))]
            arrays = _sampled(dtypes, (*numbers_of(rule), *given), FEW if given else SAMPLED)
    yield {node.id: array for node, array in zip(inputs, arrays, strict=True)}


def _grid(pools: Sequence[Array]) -> list[Array]:
    return [grid.reshape(-1) for grid in np.meshgrid(*pools, indexing="ij")]


def _sampled(dtypes: Sequence[DType], numbers: Sequence[Scalar], count: int) -> list[Array]:
    """Return choices of values: corners, random, equal, neighbouring or otherwise related."""
    rng = np.random.default_rng(0)
    pools = [np.concatenate([corners(dtype), near(dtype, numbers)]) for dtype in dtypes]
    if len(dtypes) == 1:
        return [np.concatenate([pools[0], drawn(dtypes[0], count // 4, rng)])]
    part = count // 4
    columns = [
        [
            rng.choice(pool, part),
            drawn(dtype, part, rng),
            rng.choice(near(dtype, numbers), part)
            if len(near(dtype, numbers))
            else rng.choice(pool, part),
        ]
        for dtype, pool in zip(dtypes, pools, strict=True)
    ]
    if len(dtypes) == 2:
        keys = [pool[:: max(1, len(pool) // int(part**0.5))] for pool in pools]
        for column, grid in zip(columns, _grid(keys), strict=True):
            column.append(grid)
    # Related values: equal ones, neighbours, negatives, reciprocals, sums and squares.
    base: dict[DType, Array] = {}
    for column, dtype, pool in zip(columns, dtypes, pools, strict=True):
        first = base.setdefault(
            dtype, np.concatenate([rng.choice(pool, part // 2), drawn(dtype, part // 2, rng)])
        )
        column.append(first if column is columns[0] else _related(first, dtype, rng))
    return [np.concatenate(column) for column in columns]


def _related(first: Array, dtype: DType, rng: np.random.Generator) -> Array:
    if dtype is DType.bool_:
        return np.not_equal(first, rng.random(len(first)) < 0.5)
    other = negatives(first)
    relatives = [first, *neighbours(first), other, *neighbours(other)]
    relatives += [np.reciprocal(first) if dtype.is_float else np.invert(first)]
    relatives += [np.multiply(first, first), np.add(first, first)]
    return np.choose(rng.integers(0, len(relatives), len(first)), relatives).astype(dtype.numpy)


def _arrays(trial: Trial, ir: IR) -> Iterator[Data]:
    """Yield whole arrays for the variables."""
    rng = np.random.default_rng(0)
    sizes: dict[int, int] = {}
    for node in ir.nodes:
        if isinstance(node.op, (Gather, Scatter)):
            x, index = ir.sources(node)[:2]
            while isinstance(index.op, Cast):
                (index,) = ir.sources(index)
            sizes[index.id] = ints(x.shape)[node.op.axis]

    def indexed(node: Node) -> Array:  # an index out of range is an error on both sides
        most = min(sizes[node.id], node.dtype.limits[1] + 1)
        return rng.integers(0, max(1, most), ints(node.shape)).astype(node.dtype.numpy)

    for kind in KINDS if trial.thorough else KINDS[:2]:
        yield {
            node.id: indexed(node) if node.id in sizes else _array(node, kind, rng)
            for node in ir.inputs
        }


KINDS = (
    "simple",
    "simple, not finite",
    "ordinary",
    "ends",
    "corners",
    "corners, not finite",
    "one",
    "ties",
)
"""The kinds of random arrays: `one` corner among simple values, `ties` of two corners."""


def _array(node: Node, kind: str, rng: np.random.Generator) -> Array:
    dtype, shape = node.dtype, ints(node.shape)
    count = int(np.prod(shape))
    pool = simple(dtype) if kind.startswith("simple") else corners(dtype)
    if not kind.endswith("not finite") and dtype.is_float:
        pool = pool[np.isfinite(pool)]
    if kind == "ordinary":
        pool = drawn(dtype, 64, rng)[-64:]
        pool = pool[np.abs(pool.astype(np.float64)) < 1e3] if dtype.is_float else pool
    if kind == "ties":
        pool = rng.choice(pool, 2)
    if kind == "ends" and dtype is not DType.bool_:
        pool = np.sort(pool)[[0, 0, -1, -1, len(pool) // 2]]
    array = rng.choice(pool, count)
    if kind == "one" and count:
        array = rng.choice(simple(dtype)[: 7 if dtype.is_float else None], count)
        array[rng.integers(count)] = rng.choice(corners(dtype))
    return array.reshape(shape)
