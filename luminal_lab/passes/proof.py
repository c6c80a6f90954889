"""Rules put to the test: on simple values first, then on all values of small dtypes and on corners.

Both sides are computed by the interpreter. Where a rule assumes a fact, values of the left side
that break it do not count against the rule. All others do, bit by bit, unless the rule assumes
that the order of roundings does not matter: then no difference counts that roundings explain.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Scalar, TensorType, ints
from luminal_lab.core.ops import Cast, Constant, Gather, Input, Scatter
from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, LabError, LabWarning, PassError, is_circumstance
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
from luminal_lab.passes.judge import is_outside
from luminal_lab.passes.pattern import Pattern, build
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.trials import DTYPES, Trial, numbers_of, trials

EXHAUSTED = 1 << 17
"""Up to how many choices of values for the variables all of them are tried."""
SAMPLED = 1 << 16
"""How many choices are tried where there are more."""
FEW = 1 << 12
"""How many, where a rule has constants too, each of which is tried with as many."""
READ = 1 << 11
"""Among how many counterexamples the one is looked for that is easiest to read."""

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, repr=False)
class Counterexample:
    """Inputs for which the sides of a rule differ."""

    rule: Rule
    dtype: DType
    given: Mapping[str, object]
    """What the variables, constants and fields are, as numbers that can be typed in again."""
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


def counterexample(rule: Rule, dtypes: Iterable[DType] = DTYPES) -> Counterexample | None:
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
        raise ArgumentError(
            f"counterexample: {rule!r} is no rule",
            hint='give one, as in ll.Rule("mul-one", x * 1, x); passes have them as .rules()',
        )
    tried, wrong = examine(rule, dtypes)
    if not tried:
        text = (
            f"rule {rule.name!r}: no graph that is tried matches {rule.pattern}; nothing is shown"
        )
        warnings.warn(text, LabWarning, stacklevel=2)
    return wrong


def examine(rule: Rule, dtypes: Iterable[DType] = DTYPES, *, on: Iterable[IR] = ()) -> Examination:
    """Try a rule on all that there is to try, until it is wrong.

    A pattern of many ops whose fields depend on each other is hardly ever met by chance: it is
    tried `on` graphs whose output it matches.
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
        except Exception as error:  # of a condition or a calculation too, whatever they raise
            if is_circumstance(error) or isinstance(error, RecursionError):
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
    """Return the error that says that a rule could not be put to the test."""
    out = "of stack" if isinstance(error, RecursionError) else "of memory"
    return PassError(
        f"rule {rule.name!r}: it could not be put to the test: Python ran out {out}: {error}",
        hint="that says nothing of the rule; try it again with less on the stack and in memory",
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
    """The nodes that the left side is made of."""


def _instance(rule: Rule, trial: Trial) -> Instance | None:
    left, edit = trial.left, trial.edit
    behind = frozenset(node.id for node in edit.ir().nodes)
    match, right = next(rule.matches(left, edit), (None, None))
    if match is None or right is None:
        return None
    made = build(right, left.type, match.bindings, edit, [left])
    return Instance(left, made, edit.ir(), behind)


def _refuted(rule: Rule, trial: Trial, instance: Instance) -> Counterexample | None:
    """Return the values for which the sides of an instance differ."""
    left, right, ir, _ = instance
    if left.type != right.type:
        given = _told(trial, {name: node.type for name, node in trial.inputs.items()})
        return Counterexample(rule, trial.dtype, given, left.type, right.type)
    # One lane holds one choice of values; what is not elementwise sees whole arrays of one choice.
    kept = (Elementwise, Input, Constant)
    lanes = left.shape == (1,) and all(isinstance(node.op, kept) for node in ir.nodes)
    for data in _lanes(rule, trial, ir.inputs) if lanes else _arrays(trial, ir):
        try:
            values = _values(ir, data, None if lanes else instance.behind)
        except LabError as error:
            if is_circumstance(error):
                raise
            continue  # the left side has no value for such data
        shown = {name: values[node.id] for name, node in trial.inputs.items()}
        try:
            values = values if lanes else _values(ir, data, {node.id for node in ir.nodes})
        except LabError as error:
            if is_circumstance(error):
                raise
            given = _told(trial, {name: _shown(value) for name, value in shown.items()})
            told = f"refused: {error.message}"
            return Counterexample(rule, trial.dtype, given, _shown(values[left.id]), told)
        places = _wrong(rule, instance, values, lanes=lanes)
        if places is None:
            continue
        if lanes:  # a single choice of values, the easiest to read of a thorough trial's
            names = {**shown, "": values[left.id]}
            place = _easiest(names.values(), places) if trial.thorough else places[0]
            values = {id: value[place] for id, value in values.items()}
        shown = {name: _shown(values[node.id]) for name, node in trial.inputs.items()}
        sides = _shown(values[left.id]), _shown(values[right.id])
        return Counterexample(rule, trial.dtype, _told(trial, shown), *sides)
    return None


def _easiest(arrays: Iterable[Array], places: Sequence[int]) -> int:
    few = places[:READ]
    texts = zip(*[map(str, map(exactly, array[few])) for array in arrays], strict=True)
    sizes = [sum(map(len, text)) for text in texts]
    return few[sizes.index(min(sizes))]


def _told(trial: Trial, variables: Mapping[str, object]) -> dict[str, object]:
    """Return what variables, constants and fields are, constants as values of their dtype."""
    dtype = trial.dtype
    return dict(variables) | {
        name: exactly(np.asarray(value).astype(dtype.numpy))
        if isinstance(value, float) and dtype.is_float
        else value
        for name, value in trial.given.items()
    }


def _shown(value: Array) -> object:
    """Return a value as it can be typed in; of an array without elements its shape."""
    return exactly(value) if value.size else str(TensorType(BY_NUMPY[value.dtype], value.shape))


def _values(ir: IR, data: Mapping[int, Array], wanted: Iterable[int] | None) -> dict[int, Array]:

    def given(node: Node) -> Array:
        return data[node.id]

    if wanted is not None:
        return interpret(ir, Environment(given), wanted=wanted)
    # The graph says one element; it is run on as many as there are lanes.
    found = dict(data)
    count = max([1, *[array.size for array in data.values()]])
    with np.errstate(all="ignore"):
        for node in ir.nodes:
            op = node.op
            if isinstance(op, Constant):
                found[node.id] = np.broadcast_to(op.eval(), (count,))
            elif node.id not in found:
                found[node.id] = op.eval(*[found[id] for id in node.sources])
    return found


# -- what is compared ------------------------------------------------------------------------------


def _wrong(
    rule: Rule, instance: Instance, values: Mapping[int, Array], *, lanes: bool
) -> Sequence[int] | None:
    """Return where the sides differ although all assumed facts hold; None if they do nowhere."""
    left, right, ir, behind = instance
    differ = ~_same(rule, values[left.id], values[right.id])
    if not differ.any():
        return None
    places = np.flatnonzero(differ) if lanes else np.zeros(1, int)
    if lanes:
        values = {id: value[places] for id, value in values.items()}
        differ = np.ones(len(places), bool)
    for node in ir.nodes:
        if node.id in behind:
            broken = _broken(rule, node, values)
            differ &= ~(broken if lanes else broken.any())
    if "reassociate" in rule.assumes and differ.any():
        differ &= ~_is_explained(rule, instance, values, lanes=lanes)
    return [int(k) for k in places[differ if lanes else slice(None)]] if differ.any() else None


def _same(rule: Rule, a: Array, b: Array) -> Bools:
    """Return where two values are the same: NaN is NaN, and 0.0 is not -0.0 unless assumed."""
    same = np.asarray(np.equal(a, b), bool)
    if a.dtype.kind in "iub":
        return same
    if "no_signed_zero" not in rule.assumes:
        same &= np.equal(np.signbit(a), np.signbit(b))
    return same | (np.isnan(a) & np.isnan(b))


def _broken(rule: Rule, node: Node, values: Mapping[int, Array]) -> Bools:
    """Return where a node breaks a fact that the rule assumes."""
    value = values[node.id]
    broken: Bools = np.zeros(value.shape, bool)
    if node.dtype.is_float:
        if "no_nan" in rule.assumes:
            broken |= np.isnan(value)
        if "no_inf" in rule.assumes:
            broken |= np.isinf(value)
    if node.op.domain in rule.assumes:
        broken |= is_outside(node.op.domain, values[node.sources[-1]])
    return broken


def _is_explained(
    rule: Rule, instance: Instance, values: Mapping[int, Array], *, lanes: bool
) -> Bools:
    """Return where roundings, in some order, make of each side what the other is.

    They neither turn the sign of a zero nor make NaN of a number. A finite value and an infinite
    one are rounded from one number only at the very end of the dtype, or where the rule assumes
    that nothing overflows and another order may overflow on the way.
    """
    left, right, ir, behind = instance
    unbounded = "no_inf" in rule.assumes
    # A number that stands in the rule is meant as it stands; one that is calculated is rounded.
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
        overflown = np.any(infinite, axis=0) if lanes else any(one.any() for one in infinite)
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
    """Return choices of values that are corners, drawn, equal, neighbours, or each other's."""
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
    # Values that have to do with each other: the same, neighbours, negatives, halves, opposites.
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
    found = [first, *neighbours(first), other, *neighbours(other)]
    found += [np.reciprocal(first) if dtype.is_float else np.invert(first)]
    found += [np.multiply(first, first), np.add(first, first)]
    return np.choose(rng.integers(0, len(found), len(first)), found).astype(dtype.numpy)


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

    def indexed(node: Node) -> Array:  # an index out of range is an error, on either side
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
"""What arrays are drawn from: `one` corner among simple values, `ties` of two corners."""


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
    found = rng.choice(pool, count)
    if kind == "one" and count:
        found = rng.choice(simple(dtype)[: 7 if dtype.is_float else None], count)
        found[rng.integers(count)] = rng.choice(corners(dtype))
    return found.reshape(shape)
