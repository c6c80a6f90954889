"""Functions of one value: their formulas as data, and a single recogniser.

exp(x) = 2^x · 2^(x/4) · 2^(x/8) · 2^(0.067…x), or 2^(1.44…x)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Add, Mul
from luminal_lab.passes.pattern import (
    OpPattern,
    Pattern,
    constants,
    exp2,
    recip,
    sin,
    variables,
    where,
)
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser

x = variables("x")
LOG2E = math.log2(math.e)
"""The factors of x that turn exp(x) into powers of 2."""

COMMON = (Add, Mul)
"""Ops of nearly all formulas."""
NUMBERS = ("slope", *(f"c{k}" for k in range(24)))
"""The names of the constants that a formula leaves open."""


def _split(x: Pattern) -> tuple[OpPattern, OpPattern]:
    """Return two factors of exp(x), whose exponents have small rounding errors."""
    rest = exp2(x * 0.125) * exp2(x * (LOG2E - 1.375))
    return exp2(x), exp2(x * 0.25) * rest


def _exp(x: Pattern) -> OpPattern:
    whole, rest = _split(x)
    return whole * rest


negative = x < 0
falling = where(negative, x, x * -1)


def _sigmoid() -> OpPattern:
    power = _exp(falling)
    return where(negative, power, 1.0) * recip(power + 1.0)


def _silu() -> OpPattern:
    whole, rest = _split(falling)
    return where(negative, whole * (rest * x), x) * recip(whole * rest + 1.0)


def _cos() -> OpPattern:
    half = sin(x * 0.5)
    cosine = (half * half) * -2.0 + 1.0
    near = (cosine * cosine < 0.25) * ((x + x) * 0.0 < 1.0)
    y = where(near, x, 1.0)
    return where(near, sin(y + y) * recip(sin(y) * 2.0), cosine)


def _gelu_tanh() -> OpPattern:
    scale = 2 * LOG2E * math.sqrt(2 / math.pi)
    exponent = x * ((x * x) * (scale * 0.044715) + scale)
    power = exp2(where(negative, exponent, exponent * -1))
    return x * (where(negative, power, 1.0) * recip(power + 1.0))


def _gelu(count: int) -> OpPattern:
    """Return x · Φ(x) by a polynomial of `count` coefficients, which are checked afterwards."""
    slope, *coefficients = constants(" ".join(NUMBERS[: count + 1]))
    size = where(negative, x * -1, x)
    part = recip(size * slope + 1.0)
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * part + coefficient
    tail = exp2((size * size) * (-LOG2E / 2)) * (part * value)
    return x * where(negative, tail, tail * -1 + 1.0)


def _is_normal(numbers: Sequence[float]) -> bool:
    """Return whether the polynomial of a gelu is that of the normal distribution."""
    slope, *coefficients = numbers
    for size in (0.0, 0.5, 1.0, 2.0, 4.0):
        part = 1 / (size * slope + 1)
        value = 0.0
        for coefficient in coefficients:
            value = value * part + coefficient
        tail = math.exp(-size * size / 2) * part * value
        if abs(tail - math.erfc(size / math.sqrt(2)) / 2) > 1e-6:
            return False
    return True


FORMULAS: Mapping[str, tuple[OpPattern, ...]] = {
    "gelu": (_gelu(8), _gelu(24)),
    "gelu_tanh": (_gelu_tanh(),),
    "silu": (_silu(),),
    "sigmoid": (_sigmoid(),),
    "cos": (_cos(), sin(x + math.pi / 2)),
    "exp": (_exp(x), exp2(x * LOG2E)),
}


def _recogniser(name: str, patterns: Sequence[OpPattern]) -> Recogniser[RecognisedRegion]:
    def find_at(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
        for pattern in patterns:
            for bindings in reading.found(pattern, node):
                value: Node = bindings.pop("x")
                numbers = [bindings[key].op.value for key in NUMBERS if key in bindings]
                why = "the polynomial of {} is not that of the normal distribution"
                if reading.holds(not numbers or _is_normal(numbers), node, why, node):
                    because = f"a formula for {name} of {value}"
                    yield RecognisedRegion(name, node, {"x": value}, because=because)

    roots = {pattern.cls for pattern in patterns}
    near: dict[type[Op], int] = {}
    for pattern in patterns:
        op, steps = _rare(pattern)
        near[op] = max(steps, near.get(op, 0))
    return Recogniser(name, tuple(roots), find_at, near)


def _rare(pattern: OpPattern) -> tuple[type[Op], int]:
    """Return an op of a formula that few others have, and how far below its root it is."""
    todo: list[tuple[Pattern, int]] = [(pattern, 0)]
    for part, depth in todo:  # it grows
        if isinstance(part, OpPattern):
            if part.cls not in COMMON:
                return part.cls, depth
            todo += [(source, depth + 1) for source in part.sources]
    return pattern.cls, 0


ELEMENTARY = tuple(_recogniser(name, patterns) for name, patterns in FORMULAS.items())
"""The functions in order of search: composed ones come before their parts."""
EXP = ELEMENTARY[-1]
