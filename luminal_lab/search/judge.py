"""Is a program as exact as what was written? Both in float32, against float64, on drawn inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dims import evaluate
from luminal_lab.kernels.definition.definition import Buffer
from luminal_lab.search.evaluate import Evaluation
from luminal_lab.search.pick import Pick
from luminal_lab.search.space import Space, Way

MORE = 4
"""How many times the error of what was written a program's may be."""
TOLERANCE = 2e-6
"""The error, against the largest value, that is never refused."""
LOOKED_AT = 16
"""At so many positions along each axis of an output, spread over it."""
SIZES = 7, 1
"""The sizes of symbolic dims."""

Values: TypeAlias = npt.NDArray[Any]
Drawing: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Values]
DRAWS: Mapping[str, Drawing] = {
    "ordinary": lambda rng, shape: rng.standard_normal(shape),
    "a hundred times as large": lambda rng, shape: 100 * rng.standard_normal(shape),
    "around 1000": lambda rng, shape: 1000 + rng.standard_normal(shape),
}


class Verdict(NamedTuple):
    """The largest error of a program, and of what was written; why it is refused, if it is."""

    error: float
    written: float
    refusal: str = ""
    wrong: Way | None = None
    """The first of its classes that is wrong, and how it has it."""


def judged(space: Space, pick: Pick) -> Verdict:
    """Return whether a program computes what was written, as exactly."""
    worst = Verdict(0, 0)
    for draw in drawn(space):
        trial = _Trial(space, pick, draw)
        for name, number in space.outputs.items():
            error, usual = trial.errors(number)
            worst = max(worst, Verdict(error, usual))
            if error > max(MORE * usual, TOLERANCE):
                off = (
                    f"off by {error:.1g} of the largest value"
                    if np.isfinite(error)
                    else "no number"
                )
                reason = f"{name} is {off} where inputs are {draw.name}"
                return Verdict(error, usual, f"{reason}; as written, by {usual:.1g}", trial.wrong())
    return worst


class Draw(NamedTuple):
    """Inputs, what they are called, and sizes for symbolic dims."""

    name: str
    data: Mapping[str, Values]
    dims: Mapping[str, int]


class _Trial:
    """A program and what was written, on one draw."""

    def __init__(self, space: Space, pick: Pick, draw: Draw) -> None:
        def evaluation(of: Pick | None, *, wide: bool) -> Evaluation:
            return space.evaluation(of, draw.data, draw.dims, wide=wide, most=LOOKED_AT)

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
                return number, self.pick.node(number)
        raise AssertionError("an output is wrong")


def drawn(space: Space) -> Iterator[Draw]:
    """Yield inputs: ordinary ones, large ones, ones that are alike, and masked ones."""
    definition = space.definition
    for seed, size in enumerate(SIZES if definition.dims else SIZES[:1]):
        dims = dict.fromkeys(definition.dims, size)
        rng = np.random.default_rng(seed)
        for name, drawing in DRAWS.items():
            data = {b.name: _array(b, dims, drawing, rng) for b in definition.inputs}
            yield Draw(name, data, dims)
        for masked in definition.inputs:
            if masked.type.dtype.is_float:
                data = {b.name: _array(b, dims, DRAWS["ordinary"], rng) for b in definition.inputs}
                mask = rng.random(data[masked.name].shape) < 1 / 3
                mask[:1] = True
                data[masked.name][mask] = -np.inf
                yield Draw(f"-inf here and there in {masked.name}", data, dims)


def _array(
    buffer: Buffer, dims: Mapping[str, int], drawing: Drawing, rng: np.random.Generator
) -> Values:
    shape = tuple(evaluate(size, dims) for size in buffer.type.shape)
    dtype = buffer.type.dtype
    values = drawing(rng, shape) if dtype.is_float else rng.integers(0, 2, shape)
    return values.astype(dtype.numpy)


def _error(values: Values, exact: Values, written: Values) -> float:
    """Return the largest difference against the largest value, where there are numbers."""
    values, exact, written = np.broadcast_arrays(values, exact, written)
    known = np.isfinite(exact) & np.isfinite(written)
    if not known.any():
        return 0.0
    if not np.isfinite(values[known]).all():
        return np.inf
    scale = float(np.abs(exact[known]).max()) or 1.0
    return float(np.abs(values[known].astype(np.float64) - exact[known]).max()) / scale
