"""Is a program as exact as what was written? Both in float32, against float64, on drawn inputs.

Long axes are made shorter if what is written means the same at any length. A program that is wrong
at such sizes is judged again at its own sizes, as rules may have used the length of an axis. Axes
that would take minutes stay short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.algebra.language import Online
from luminal_lab.algebra.pick import Pick
from luminal_lab.core.dims import Dim, Symbol, evaluate
from luminal_lab.kernels.definition.definition import Buffer, Definition
from luminal_lab.kernels.definition.terms import (
    Count,
    Draw,
    Fold,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    walk,
)
from luminal_lab.search.evaluate import Evaluation
from luminal_lab.search.space import NO_SIZES, Space, Way

MORE = 4
"""How many times the error of what was written a program's error may be."""
TOLERANCE = 2e-6
"""The error, relative to the largest value, that is never refused."""
LOOKED_AT = 16
"""How many positions are checked along each axis of an output, spread over it."""
SIZES = 7, 1
"""The sizes of symbolic dims."""
LONGEST = 33
"""The length given to longer axes; more than twice the numbers that positions are compared with."""
AGAIN = 1024
"""Axes up to this length keep it when a refusal is judged again: passes take its square."""

Values: TypeAlias = npt.NDArray[Any]
Drawing: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Values]
DRAWS: Mapping[str, Drawing] = {
    "ordinary": lambda rng, shape: rng.standard_normal(shape),
    "a hundred times as large": lambda rng, shape: 100 * rng.standard_normal(shape),
    "around 1000": lambda rng, shape: 1000 + rng.standard_normal(shape),
}


class Judgement(NamedTuple):
    """The largest errors of a program and of what was written, and why it is refused, if so."""

    error: float
    written: float
    refusal: str = ""
    wrong: Way | None = None
    """The first of its classes that is wrong, and the node that it has there."""


def judged(space: Space, pick: Pick) -> Judgement:
    """Return whether a program computes what was written, and as exactly."""
    sizes = shorter(space.definition)
    verdict = _judged(space, pick, sizes)
    longest = {size: length for size, length in sizes.items() if size > AGAIN}
    is_again = verdict.refusal and len(longest) < len(sizes)
    return _judged(space, pick, longest) if is_again else verdict


def shorter(definition: Definition) -> Mapping[int, int]:
    """Return shorter lengths for a definition's long axes that suffice to judge its programs."""
    parts = [*walk(*(line.term for line in definition.lines))]
    indices = [dim for part in parts for dim in _positions(part)]
    counts = any(isinstance(part, Count) for part in parts)
    offsets = [part.value for part in parts if isinstance(part, Number) and not part.dtype.is_float]
    is_plain = all(isinstance(dim, Symbol) or dim == 0 for dim in indices)
    if not is_plain:
        return NO_SIZES
    longest = max([LONGEST, *(2 * abs(int(value)) + 1 for value in offsets if counts)])
    sizes = {size for line in definition.lines for size in line.type.shape}
    sizes |= {part.size for part in parts if isinstance(part, (Fold, Lookup))}
    return {size: longest for size in sizes if isinstance(size, int) and size > longest}


def _positions(term: Term) -> Iterable[Dim | None]:
    """Return the positions that a term reads or is; None stands for anything else."""
    match term:
        case Read(index=index) | Lookup(index=index):
            return index
        case Count(at=at):
            return (at,)
        case Guarded() | Draw():
            return (None,)
        case _:
            return ()


def _judged(space: Space, pick: Pick, sizes: Mapping[int, int]) -> Judgement:
    worst = Judgement(0, 0)
    for draw in drawn(space, sizes):
        trial = _Trial(space, pick, draw)
        for name, number in space.outputs.items():
            error, usual = trial.errors(number)
            worst = max(worst, Judgement(error, usual))
            if error > max(MORE * usual, TOLERANCE):
                off = (
                    f"off by {error:.1g} of the largest value"
                    if np.isfinite(error)
                    else "no number"
                )
                reason = f"{name} is {off} where inputs are {draw.name}"
                return Judgement(
                    error, usual, f"{reason}; as written, by {usual:.1g}", trial.wrong()
                )
    return worst


class JudgeInputs(NamedTuple):
    """Drawn inputs, their name, sizes for symbolic dims, and shorter lengths of axes."""

    name: str
    data: Mapping[str, Values]
    dims: Mapping[str, int]
    sizes: Mapping[int, int]


class _Trial:
    """A program and what was written, on one draw."""

    def __init__(self, space: Space, pick: Pick, draw: JudgeInputs) -> None:
        def evaluation(of: Pick | None, *, wide: bool) -> Evaluation:
            return space.evaluation(
                of, draw.data, draw.dims, wide=wide, most=LOOKED_AT, sizes=draw.sizes
            )

        self.pick = pick
        self.exact = evaluation(None, wide=True)
        self.written = evaluation(None, wide=False)
        self.computed = evaluation(pick, wide=False)

    def errors(self, number: int) -> tuple[float, float]:
        """Return the error of a class in the program, and as it was written."""
        exact, written = self.exact.value(number), self.written.value(number)
        return _error(self.computed.value(number), exact, written), _error(written, exact, written)

    def wrong(self) -> Way:
        """Return the first class of the program that is wrong, and its node."""
        for number in self.pick.order:
            error, usual = self.errors(number)
            if error > max(MORE * usual, TOLERANCE):
                node = self.pick.node(number)
                if isinstance(node.operator, Online):
                    return self._on_the_way(node.operator.axis.name, number)
                return number, node
        raise AssertionError("an output is wrong")

    def _on_the_way(self, axis: str, total: int) -> Way:
        """Return what is NaN only in the middle of a pass; if nothing is, its sum."""
        counts = range(1, len(self.computed.axes[axis]))
        stands = [((axis, count),) for count in counts]
        for number in self.pick.order[: self.pick.order.index(total)]:
            if axis in self.computed.moving(number):
                for stand in stands:
                    exact = np.isnan(self.exact.value(number, stand))
                    if (np.isnan(self.computed.value(number, stand)) & ~exact).any():
                        return number, self.pick.node(number)
        return total, self.pick.node(total)


def drawn(space: Space, sizes: Mapping[int, int] = NO_SIZES) -> Iterator[JudgeInputs]:
    """Yield inputs: ordinary ones, large ones, equal ones, and masked ones."""
    definition = space.definition
    for seed, size in enumerate(SIZES if definition.dims else SIZES[:1]):
        dims = dict.fromkeys(definition.dims, size)
        rng = np.random.default_rng(seed)
        for name, drawing in DRAWS.items():
            data = {b.name: _array(b, dims, sizes, drawing, rng) for b in definition.inputs}
            yield JudgeInputs(name, data, dims, sizes)
        for masked in definition.inputs:
            if masked.type.dtype.is_float:
                data = {
                    b.name: _array(b, dims, sizes, DRAWS["ordinary"], rng)
                    for b in definition.inputs
                }
                mask = np.asarray(rng.random(data[masked.name].shape) < 1 / 3)
                np.atleast_1d(mask)[:1] = True
                data[masked.name][mask] = -np.inf
                yield JudgeInputs(f"-inf here and there in {masked.name}", data, dims, sizes)


def _array(
    buffer: Buffer,
    dims: Mapping[str, int],
    sizes: Mapping[int, int],
    drawing: Drawing,
    rng: np.random.Generator,
) -> Values:
    shape = tuple(evaluate(size, dims) for size in buffer.type.shape)
    shape = tuple(sizes.get(size, size) for size in shape)
    dtype = buffer.type.dtype
    values = drawing(rng, shape) if dtype.is_float else rng.integers(0, 2, shape)
    return np.asarray(values).astype(dtype.numpy)


def _error(values: Values, exact: Values, written: Values) -> float:
    """Return the largest difference, relative to the largest value, among finite numbers."""
    values, exact, written = np.broadcast_arrays(values, exact, written)
    known = np.isfinite(exact) & np.isfinite(written)
    if not known.any():
        return 0.0
    if not np.isfinite(values[known]).all():
        return np.inf
    scale = float(np.abs(exact[known]).max()) or 1.0
    return float(np.abs(values[known].astype(np.float64) - exact[known]).max()) / scale
