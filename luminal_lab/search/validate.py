"""Whether a kernel's values are right, before its time counts; and which step made them wrong.

A kernel's results are compared with what the definition means, in NumPy. If that would take too
long, the default kernel stands in for it, once blocks of its outputs have been checked against the
definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Dim, evaluate as number_of, minimum
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import ints
from luminal_lab.errors import LabError
from luminal_lab.kernels.definition.cost import NO_DIMS
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import Fold, Lookup, Read, Term, axis_of, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.passes.judge import differences
from luminal_lab.search.draws import replay

MOST_POINTS = 1 << 20
"""How many points of a grid NumPy evaluates at once."""
BLOCKS = 3
"""How many blocks of a large output are evaluated."""
SLOW_POINTS = 1 << 14
"""How many points the statements of a nest are evaluated at, one by one."""
SMALL = (13, 29, 37, 50)
"""What larger sizes become when a nest is evaluated: no multiples of a tile."""
SIZE = re.compile(r"(?<=[\[< ,])([0-9]+)(?=[\],:]| from|$)", re.MULTILINE)


def drawn(definition: Definition, dims: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Return inputs of a definition, drawn by a seed; positions are in range."""
    rng = np.random.default_rng(seed)
    limits = _limits(definition)
    inputs: dict[str, Array] = {}
    for name, type in definition.inputs:
        shape = ints(bound_shape(name, type.shape, dims))
        if type.dtype is DType.bool_:
            inputs[name] = rng.integers(0, 2, shape).astype(bool)
        elif type.dtype.is_float:
            inputs[name] = rng.standard_normal(shape, np.float32).astype(type.dtype.numpy)
        elif name in definition.floats:
            floats = rng.standard_normal(shape).astype(definition.floats[name].numpy)
            inputs[name] = floats.view(type.dtype.numpy)
        else:
            low, high = type.dtype.limits
            low, high = max(low, -50), min(high, 50)
            if name in limits:
                low, high = 0, max(1, number_of(limits[name], dims))
            inputs[name] = rng.integers(low, high, shape).astype(type.dtype.numpy)
    return inputs


def _limits(definition: Definition) -> dict[str, Dim]:
    """Return, for each input that holds positions, the smallest size that it indexes."""
    limits: dict[str, Dim] = {}
    for term in walk(*(line.term for line in definition.lines)):
        for part in walk(term.position) if isinstance(term, Lookup) else ():
            if isinstance(part, (Read, Lookup)) and isinstance(term, Lookup):
                limits[part.buffer] = minimum(limits.get(part.buffer, term.size), term.size)
    return limits


# -- what a definition means -----------------------------------------------------------------------


def points_of(definition: Definition) -> int:
    """Return the points of the largest grid that a definition of known sizes is evaluated on."""
    return max(_points(line.term, prod(ints(line.type.shape))) for line in definition.lines)


def _points(term: Term, around: int) -> int:
    inner = around * number_of(term.size, {}) if isinstance(term, Fold) else around
    return max([inner, *(_points(part, inner) for part in term.parts)])


def wrong_by_definition(
    definition: Definition, inputs: Mapping[str, Array], results: Mapping[str, Array], seed: int
) -> str | None:
    """Return what is wrong with a kernel's outputs; `definition` has no symbolic dims.

    Large outputs are evaluated in blocks; if one element would take too long, nothing is evaluated.
    """
    if points_of(definition) <= MOST_POINTS:
        return difference(evaluate(definition, inputs), results)
    rng = np.random.default_rng(seed)
    for output in definition.outputs:
        for number in range(BLOCKS):
            block, starts = _block(definition, output, rng, number)
            if points_of(block) > MOST_POINTS:
                continue
            sizes = ints(block.outputs[0].type.shape)
            at = tuple(slice(b, b + n) for b, n in zip(starts, sizes, strict=True))
            wrong = difference(evaluate(block, inputs), {output.name: results[output.name][at]})
            if wrong is not None:
                return f"{wrong} (counted from {list(starts)})"
    return None


def _block(
    definition: Definition, output: Output, rng: np.random.Generator, number: int
) -> tuple[Definition, tuple[int, ...]]:
    """Return a definition of a block of one output, and where the block begins."""
    sizes = [*ints(output.type.shape)]
    each = _points(output.term, 1)
    for axis in range(len(sizes)):
        rest = prod(sizes[:axis]) * prod(sizes[axis + 1 :]) * each
        sizes[axis] = min(sizes[axis], max(1, MOST_POINTS // max(1, rest)))
    left = [whole - size for whole, size in zip(ints(output.type.shape), sizes, strict=True)]
    # The first block, the last, and others in between.
    starts = [0 if number == 0 else n if number == 1 else int(rng.integers(n + 1)) for n in left]
    axes = tuple(axis_of(axis.name, n) for axis, n in zip(output.axes, sizes, strict=True))
    values: dict[str, Dim] = {a.name: a + b for a, b in zip(axes, starts, strict=True)}
    term = replaced(output.term, values)
    block = Output(output.name, output.type.with_shape(tuple(sizes)), axes, term)
    return replace(definition, outputs=(block,)), tuple(starts)


def difference(expected: Mapping[str, Array], results: Mapping[str, Array]) -> str | None:
    """Return the first wrong element of some outputs in words; None if all are right."""
    for name, right in expected.items():
        wrong = np.argwhere(differences(right, results[name], scaled=True))
        if len(wrong):
            at = tuple(int(index) for index in wrong[0])
            return (
                f"{name}{list(at)} is {results[name][at]}, and should be {right[at]}; "
                f"{len(wrong):,} of {right.size:,} are wrong"
            )
    return None


# -- which step is wrong ---------------------------------------------------------------------------


def wrong_step(
    definition: Definition,
    schedule: str,
    seed: int = 0,
    *,
    most: int = SLOW_POINTS,
    sizes: Sequence[int] = SMALL,
) -> str:
    """Return the first step after which a nest has different values, at small sizes.

    The text is empty if the values are right after every step that applies there. A definition of
    more than `most` points is tried at other sizes.
    """
    for small in _sisters(definition, most, sizes):
        scheduling = replay(parse_schedule(schedule), lower(small)).scheduling
        inputs = drawn(small, NO_DIMS, seed)
        expected = evaluate(small, inputs)

        def is_wrong(at: int) -> bool:
            nest = scheduling.nests[at]  # noqa: B023  # called within the loop alone
            try:
                return difference(expected, evaluate_nest(nest, inputs)) is not None  # noqa: B023
            except (LabError, ArithmeticError, LookupError):
                return True  # it reads or writes outside its arrays

        right, wrong = 0, len(scheduling.steps)
        if not is_wrong(wrong) or is_wrong(right):
            continue
        while wrong - right > 1:
            middle = (right + wrong) // 2
            right, wrong = (right, middle) if is_wrong(middle) else (middle, wrong)
        return str(scheduling.steps[right])
    return ""


def _sisters(definition: Definition, most: int, small: Sequence[int]) -> Iterator[Definition]:
    """Yield the definition at sizes small enough to evaluate a nest, if there are any."""
    dims = {name: small[n % len(small)] for n, name in enumerate(definition.dims)}
    try:
        bound = specialised(definition, dims)
    except LabError:
        return
    if points_of(bound) <= most:
        yield bound
        return
    sizes = sorted({int(size) for size in SIZE.findall(str(bound)) if int(size) > max(small)})
    smaller = {size: small[n % len(small)] for n, size in enumerate(sizes)}
    text = SIZE.sub(lambda size: str(smaller.get(int(size[1]), int(size[1]))), str(bound))
    try:
        sister = parse_definition(text)
        evaluate(sister, drawn(sister, NO_DIMS, 0))
    except LabError:
        return  # sizes that depend on each other
    if points_of(sister) <= most * 4:
        yield sister
