"""Proofs of rules: both sides are computed, for all small sizes and with special values everywhere.

The text of a rule is what is tried. Its variables stand for elements with and without the axes that
it names, for running maxima, and for weights below them. Where the rule fires, its right side must
have the left one's value, both once folds are finished and as they stand at every position: a rule
may not know how long a fold is, unless it is about whole folds alone. A ratio is right if the old
value times the ratio is the new one.

A rule must also be safe: if inputs are at most 2 ** 20 and all values of its left side are finite
in float32, its right side must be finite, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.extract import cheapest, priced, solved
from luminal_lab.algebra.language import Applied, Folded, Leaf, Ratio, Shift
from luminal_lab.algebra.rules.change import CHANGE
from luminal_lab.algebra.rules.rule import Fire, Rule, equation
from luminal_lab.algebra.rules.side import enter
from luminal_lab.algebra.saturate import saturate
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Exp2
from luminal_lab.core.printer import as_text
from luminal_lab.errors import LabError, PassError
from luminal_lab.kernels.definition.terms import Read, axis_of
from luminal_lab.passes.corners import SIMPLE
from luminal_lab.search.evaluate import FINISHED, Evaluation, Stand
from luminal_lab.tensor.arguments import told_object

SIZES = (1, 2, 3, 5)
SMALL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0)
LARGE = (*SMALL, 100.0, 130.0, -1000.0, 2.0**20, -(2.0**20), 2.0**-20)
SPECIAL = (*SIMPLE, *SMALL)
LANES = {"small": (SMALL, 12), "large": (LARGE, 12), "special": (SPECIAL, 12)}
"""The values that are drawn, and how many draws there are of each."""
NUMBERS = (3.0, 0.5, -2.0)
MOST_INSTANCES = 16
CLOSE = 1e-9
F = DType.float32
LANE = axis_of("lane", sum(count for _, count in LANES.values()))

Values: TypeAlias = npt.NDArray[Any]
StandIn: TypeAlias = Callable[[EGraph, str, tuple[Symbol, ...]], int]


@told_object("refutation")
@dataclass(frozen=True, repr=False)
class Refutation:
    """What shows that a rule is wrong."""

    rule: Rule
    variables: Mapping[str, str]
    """What each variable stands for."""
    sizes: Mapping[str, int]
    stand: Stand
    left: float
    right: float
    is_unsafe: bool

    @override
    def __str__(self) -> str:
        given = [f"{name} is {form}" for name, form in self.variables.items()]
        given += [f"{axis} < {size}" for axis, size in self.sizes.items()]
        given += [f"after {count} steps along {axis}" for axis, count in self.stand]
        what = "is not safe" if self.is_unsafe else "is wrong"
        return (
            f"{self.rule}\n{what}: where {', '.join(given)}, the left side is {self.left:g}, but "
            f"the right side is {self.right:g}"
        )

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Refutation {self}>"


# -- what variables stand for ----------------------------------------------------------------------


def _element(egraph: EGraph, name: str, axes: tuple[Symbol, ...]) -> int:
    return egraph.add(Leaf(Read("_".join([name, *(a.name for a in axes)]), (LANE, *axes), F)))


def _still(egraph: EGraph, name: str, axes: tuple[Symbol, ...]) -> int:
    return _element(egraph, name, axes[1:])


def _top(egraph: EGraph, name: str, axes: tuple[Symbol, ...]) -> int:
    size = axes[0].high + 1 if axes[0].high is not None else 1
    return egraph.add(Folded("max", axes[0], size, F), _element(egraph, name, axes))


def _weight(egraph: EGraph, name: str, axes: tuple[Symbol, ...]) -> int:
    below = egraph.sum(0, [(_element(egraph, name, axes), 1), (_top(egraph, name, axes), -1)], F)
    return egraph.add(Applied(Exp2(), F), below)


def _number(value: float) -> StandIn:
    return lambda egraph, name, axes: egraph.constant(value, F)


def _stand_ins(rule: Rule, name: str) -> dict[str, StandIn]:
    """Return what a variable is tried as, each with its name."""
    first = (rule.sides[0].axes or ("j",))[0]
    if f"{name} a number" in rule.where:
        return {str(value): _number(value) for value in NUMBERS}
    return {
        "an element": _element,
        f"an element without {first}": _still,
        f"a maximum over {first}": _top,
        f"a weight below a maximum over {first}": _weight,
    }


# -- instances -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Instance:
    """A left side on which a rule fires, and what the rule makes of it."""

    egraph: EGraph
    left: int
    right: int
    variables: Mapping[str, str]
    sizes: Mapping[str, int]
    is_as_written: bool
    """Whether the result agrees with the rule's text."""


def _instances(rule: Rule) -> Iterator[_Instance]:
    before = rule.sides[0]
    axes = before.axes or ("j",)
    forms = {name: _stand_ins(rule, name) for name in before.variables}
    choices = [*product(*forms.values())]
    for choice in choices[:: 1 + len(choices) // MOST_INSTANCES]:
        variables = dict(zip(forms, choice, strict=True))
        for shift in range(len(SIZES)):
            rotated = SIZES[shift:] + SIZES[:shift]
            sizes = dict(zip(axes, rotated, strict=False))
            yield from _fired(rule, forms, variables, sizes)


def _fired(
    rule: Rule,
    forms: Mapping[str, Mapping[str, StandIn]],
    variables: Mapping[str, str],
    sizes: Mapping[str, int],
) -> Iterator[_Instance]:
    egraph = EGraph()
    axes = tuple(axis_of(name, size) for name, size in sizes.items())
    classes = {name: forms[name][form](egraph, name, axes) for name, form in variables.items()}
    before, after = rule.sides
    left = enter(egraph, before, classes, sizes)
    node = egraph.entered[left]
    if not rule.matches(node):
        return
    results: dict[int, None] = {}
    for _ in range(2):  # a rule that asks how something changes fires once that is answered
        results |= dict.fromkeys(egraph.fired(rule.fire, node))
        saturate(egraph, CHANGE)
    written = enter(egraph, after, classes, sizes) if results else left
    for right in results:
        is_as_written = egraph.find(right) == egraph.find(written)
        yield _Instance(egraph, left, right, variables, sizes, is_as_written)


# -- both sides ------------------------------------------------------------------------------------


def refutation(rule: Rule) -> Refutation | None:
    """Return what shows that a rule is wrong or not safe, or None if nothing does.

    >>> from luminal_lab.search import RULES
    >>> refutation(RULES["sum-factor"])
    """
    is_tried = False
    for instance in _instances(rule):
        for is_wide in (True, False):
            wrong = _refuted(rule, instance, is_wide=is_wide)
            if wrong is not None:
                return wrong
        is_tried |= instance.is_as_written
    if not is_tried:
        raise PassError(
            f"rule {rule.name!r} has no proof: on none of the small terms that were made to try it "
            f"does it make {rule.after} of {rule.before}",
            hint="say on both sides what its function does",
        )
    return None


def rule(
    before: str,
    after: str,
    *,
    where: str = "",
    assumes: Iterable[str] = (),
    grows: bool = False,
    whole: bool = False,
) -> Callable[[Fire], Rule]:
    """Make a rule named after the decorated function from it, and put it to the test.

    The function is given the e-graph, the operator at the root of the left side, and its parts.

    >>> @rule("recip(exp2(x))", "exp2(0 - x)", assumes={"no_nan", "no_inf"})
    ... def recip_exp2(egraph, recip, power):
    ...     for exp2, (x,) in egraph.looks(power, Applied):
    ...         if exp2.op == Exp2():
    ...             yield egraph.add(exp2, egraph.sum(0, [(x, -1)], recip.dtype))
    """
    named = equation(before, after, where=where, assumes=assumes, grows=grows, whole=whole)
    return lambda fire: proved(named(fire))


def proved(rule: Rule) -> Rule:
    """Return a rule that no small case refutes, or raise an error with the case that does."""
    try:
        wrong = refutation(rule)
    except LabError:
        raise
    except Exception as error:
        raise PassError(
            f"rule {rule.name!r} has no proof: its function raised {error!r}"
        ) from error
    if wrong is not None:
        raise PassError(f"rule {wrong}")
    return replace(rule, is_proved=True)


def _refuted(rule: Rule, instance: _Instance, *, is_wide: bool) -> Refutation | None:
    """Return where the sides differ; in float32, where only the right one is not finite."""
    egraph, sizes = instance.egraph, instance.sizes
    axes = {"lane": np.arange(len(_lanes())), **{a: np.arange(n) for a, n in sizes.items()}}
    buffers = _buffers(egraph, sizes)
    choice = cheapest(priced(egraph, solved(egraph)))
    written = Evaluation(egraph.entered.__getitem__, buffers, axes, wide=is_wide)
    rewritten = Evaluation(
        lambda number: choice.get(egraph.find(number), egraph.entered[number]),
        buffers, axes, wide=is_wide,
    )  # fmt: skip
    for stand in _stands(rule, instance):
        left, known = _left(written, instance.left, stand)
        right, step = _right(rewritten, instance, stand, written)
        lanes = np.zeros((len(_lanes()),) + (1,) * len(sizes), left.dtype)
        left, right, _ = np.broadcast_arrays(left, right, lanes)
        usable = _usable(rule, [*known, left], is_wide=is_wide)
        usable &= _by_lane(np.all, np.isfinite(step))
        usable &= _by_lane(np.all, _defined(rewritten, instance.right, stand))
        wrong = _differ(left, right, known, rewritten.values(instance.right, stand))
        if not is_wide:
            wrong = ~np.isfinite(right)
        wrong &= np.expand_dims(usable, tuple(range(1, wrong.ndim)))
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            ends = float(left[at]), float(right[at])
            return Refutation(rule, instance.variables, sizes, stand, *ends, is_unsafe=not is_wide)
    return None


def _stands(rule: Rule, instance: _Instance) -> Iterator[Stand]:
    """Yield how far folds have come when both sides are compared."""
    operator = instance.egraph.entered[instance.left].operator
    if isinstance(operator, (Ratio, Shift)):
        name = operator.axis.name
        yield from (((name, count),) for count in range(1, instance.sizes[name]))
        return
    yield FINISHED
    if not rule.whole:
        for name, size in instance.sizes.items():
            yield from (((name, count),) for count in range(1, size))


def _left(evaluation: Evaluation, number: int, stand: Stand) -> tuple[Values, list[Values]]:
    """Return the value that the right side must have, and all that it is computed from."""
    node = evaluation.node(number)
    if not isinstance(node.operator, (Ratio, Shift)):
        return evaluation.value(number, stand), evaluation.values(number, stand)
    ((axis, count),) = stand
    (child,) = node.children
    known = [value for p in (count, count + 1) for value in evaluation.values(child, ((axis, p),))]
    return evaluation.value(child, ((axis, count + 1),)), known


def _right(
    evaluation: Evaluation, instance: _Instance, stand: Stand, written: Evaluation
) -> tuple[Values, Values]:
    """Return the value of the right side, and for a question about a step, the step that it gives.

    For a ratio it is the old value times the ratio; there is no ratio from 0 to something else.
    """
    value = evaluation.value(instance.right, stand)
    node = instance.egraph.entered[instance.left]
    if not isinstance(node.operator, (Ratio, Shift)):
        return value, np.zeros_like(value)
    step, old = written.value(instance.left, stand), written.value(node.children[0], stand)
    with np.errstate(all="ignore"):
        return (old * value if isinstance(node.operator, Ratio) else old + value), step


def _usable(rule: Rule, known: list[Values], *, is_wide: bool) -> npt.NDArray[np.bool_]:
    """Return the draws whose values are as the rule assumes them; for safety, finite ones."""
    groups = np.asarray(_lanes())
    usable = groups != "special" if not is_wide else np.ones(len(groups), np.bool_)
    for value in known:
        if value.dtype.kind == "f":
            if "no_nan" in rule.assumes or not is_wide:
                usable &= _by_lane(np.all, ~np.isnan(value))
            if "no_inf" in rule.assumes or not is_wide:
                usable &= _by_lane(np.all, ~np.isinf(value))
    return usable


def _defined(evaluation: Evaluation, number: int, stand: Stand) -> Values:
    """Return where a term asks for no impossible ratio, from 0 to something else."""
    numbers, todo = dict[int, None](), [number]
    while todo:
        part = todo.pop()
        if part not in numbers:
            numbers[part] = None
            todo += evaluation.node(part).children
    asked = [part for part in numbers if isinstance(evaluation.node(part).operator, Ratio)]
    known = [np.isfinite(evaluation.value(part, stand)) for part in asked]
    return np.logical_and.reduce(np.broadcast_arrays(*known)) if known else np.ones(1, np.bool_)


def _differ(left: Values, right: Values, *known: list[Values]) -> npt.NDArray[np.bool_]:
    """Return where two values differ by more than the rounding of what they were computed from."""
    with np.errstate(all="ignore"):
        sizes = [np.abs(v) for values in known for v in values if v.dtype.kind == "f"]
        finite = [np.where(np.isfinite(size), size, 0) for size in [*sizes, np.abs(left)]]
        scale = np.maximum.reduce([_by_lane(np.max, size) for size in finite])
        close = np.abs(left - right) <= CLOSE * np.expand_dims(scale, tuple(range(1, left.ndim)))
    same = np.equal(left, right) | (np.isnan(left) & np.isnan(right))
    return ~(same | close & np.isfinite(left) & np.isfinite(right))


def _by_lane(reduce: Callable[..., Any], values: Values) -> Values:
    """Return one value for each draw."""
    reduced = reduce(values, axis=tuple(range(1, values.ndim)))
    return np.broadcast_to(reduced, (len(_lanes()),))


def _lanes() -> list[str]:
    return [name for name, (_, count) in LANES.items() for _ in range(count)]


def _buffers(egraph: EGraph, sizes: Mapping[str, int]) -> dict[str, Values]:
    """Return values for all elements, the same each time."""
    rng = np.random.default_rng(0)
    buffers: dict[str, Values] = {}
    for node in egraph.entered:
        if isinstance(node.operator, Leaf) and isinstance(node.operator.term, Read):
            name = node.operator.term.buffer
            shape = tuple(sizes[axis] for axis in name.split("_")[1:])
            draws = [rng.choice(pool, (count, *shape)) for pool, count in LANES.values()]
            if name not in buffers:
                buffers[name] = np.concatenate(draws).astype(np.float32)
    return buffers
