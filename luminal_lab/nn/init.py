"""First values of parameters, as PyTorch draws them: functions of a shape and a generator.

With options set by `functools.partial`, each is an `init` for `Parameter`:

>>> from functools import partial
>>> from luminal_lab.nn import Parameter
>>> weight = Parameter((4, 3), init=partial(normal, std=0.02))
"""

from __future__ import annotations

import math
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.core.origin import here
from luminal_lab.errors import ShapeError
from luminal_lab.tensor.parameter import Draw

Values: TypeAlias = npt.NDArray[np.float32]
Sizes: TypeAlias = tuple[int, ...]


def zeros(shape: Sizes, rng: np.random.Generator) -> Values:
    """Return zeros."""
    return np.zeros(shape, np.float32)


def ones(shape: Sizes, rng: np.random.Generator) -> Values:
    """Return ones."""
    return np.ones(shape, np.float32)


def constant(shape: Sizes, rng: np.random.Generator, value: float = 0.0) -> Values:
    """Return one number everywhere."""
    return np.full(shape, value, np.float32)


def uniform(shape: Sizes, rng: np.random.Generator, low: float = 0.0, high: float = 1.0) -> Values:
    """Return uniformly distributed numbers between two bounds."""
    # In place, since a large model has many weights.
    values = rng.random(shape, np.float32)
    values *= np.float32(high - low)
    values += np.float32(low)
    return values


def within(fan_in: float) -> Draw:
    """Return an `init` that draws uniformly within ±1 / √fan_in: `kaiming_uniform` with a = √5.

    PyTorch initialises the weights and biases of most layers this way.
    """
    bound = 1 / math.sqrt(fan_in)
    return partial(uniform, low=-bound, high=bound)


def normal(shape: Sizes, rng: np.random.Generator, mean: float = 0.0, std: float = 1.0) -> Values:
    """Return normally distributed numbers."""
    values = rng.standard_normal(shape, np.float32)
    values *= np.float32(std)
    values += np.float32(mean)
    return values


def trunc_normal(
    shape: Sizes,
    rng: np.random.Generator,
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
) -> Values:
    """Return normally distributed numbers, with those outside two bounds drawn again."""
    values = normal(shape, rng, mean, std)
    if not low < high or not (low - 8 * std < mean < high + 8 * std):
        raise ShapeError(
            f"trunc_normal: hardly a number with mean {mean} and std {std} is between {low} and "
            f"{high}",
            where=str(here() or "") or None,
            hint="the bounds are numbers, and not multiples of std",
        )
    while True:
        outside = (values < low) | (values > high)
        count = int(outside.sum())
        if not count:
            return values
        values[outside] = normal((count,), rng, mean, std)


def fans(shape: Sizes) -> tuple[int, int]:
    """Return the number of inputs to each output of a weight, and of outputs from each input.

    >>> fans((4, 3)), fans((16, 8, 5, 5))
    ((3, 4), (200, 400))
    """
    if len(shape) < 2:
        raise ShapeError(
            f"init: a weight of the shape {shape} has no inputs and outputs",
            where=str(here() or "") or None,
            hint="a weight is [out, in, *kernel]; for others use uniform or normal",
        )
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def kaiming_uniform(shape: Sizes, rng: np.random.Generator, a: float = 0.0) -> Values:
    """Return He's uniform numbers for a leaky ReLU of slope a; with a = √5 within ±1 / √fan_in."""
    bound = math.sqrt(6 / ((1 + a * a) * max(fans(shape)[0], 1)))
    return uniform(shape, rng, -bound, bound)


def kaiming_normal(shape: Sizes, rng: np.random.Generator, a: float = 0.0) -> Values:
    """Return He's normal numbers for a leaky ReLU of slope a."""
    return normal(shape, rng, 0, math.sqrt(2 / ((1 + a * a) * max(fans(shape)[0], 1))))


def xavier_uniform(shape: Sizes, rng: np.random.Generator, gain: float = 1.0) -> Values:
    """Return Glorot's uniform numbers: of equal variance forwards and backwards."""
    bound = gain * math.sqrt(6 / max(sum(fans(shape)), 1))
    return uniform(shape, rng, -bound, bound)


def xavier_normal(shape: Sizes, rng: np.random.Generator, gain: float = 1.0) -> Values:
    """Return Glorot's normal numbers: of equal variance forwards and backwards."""
    return normal(shape, rng, 0, gain * math.sqrt(2 / max(sum(fans(shape)), 1)))


def orthogonal(shape: Sizes, rng: np.random.Generator, gain: float = 1.0) -> Values:
    """Return a matrix, the later axes taken as one, whose rows or columns are orthonormal."""
    fans(shape)
    rows, columns = shape[0], math.prod(shape[1:])
    tall = rng.standard_normal((max(rows, columns), min(rows, columns)))
    basis, upper = np.linalg.qr(tall)
    basis *= np.sign(np.diag(upper))  # makes every such basis equally likely
    wide = basis if rows >= columns else basis.T
    return (gain * wide).reshape(shape).astype(np.float32)
