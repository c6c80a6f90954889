"""Softmax and its logarithm: powers of e over their sum, after subtracting the maximum.

    %m = max_reduce{axis = 1} %x                       %b = what %d is on the left
    %d = add %x, expand(-1 · %m)                       %l = log(sum_reduce{axis = 1} exp(%b))
    %e = exp(%d)                                       %y = add %b, expand(-1 · %l)
    %y = mul %e, expand(recip(sum_reduce{axis = 1} %e))

The repetition may come before or after -1 and the reciprocal. A softmax that may hide a whole row
subtracts 0 where the maximum is infinite, and divides by 1 where the sum is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Add, LessThan, Log2, MaxReduce, Mul, Recip, SumReduce, Where
from luminal_lab.passes.recognition.elementary import EXP
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser


def _find_softmax(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    for power, share in reading.pairs(node, Mul):
        below = reading.source(share, Recip)
        exp = reading.at(EXP, power) if below is not None else None
        if below is None or exp is None:
            continue
        for value, axes in reading.reduced(_or_one(reading, below), SumReduce):
            if reading.same(value, power, "the power that is divided"):
                for x in _taken_off(reading, exp.x, axes):
                    because = (
                        f"exp of {x} less its maximum over axes {list(axes)}, divided by its sum "
                        "over the same axes"
                    )
                    yield RecognisedRegion("softmax", node, {"x": x}, axes, because)


def _find_log_softmax(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    for below, log in reading.difference(node):
        value = reading.multiple(log, math.log(2))
        total = None if value is None else reading.source(value, Log2)
        if total is None:
            continue
        for power, axes in reading.reduced(total, SumReduce):
            exp = reading.at(EXP, power)
            what = "from which the logarithm is subtracted"
            if exp is not None and reading.same(exp.x, below, what):
                for x in _taken_off(reading, below, axes):
                    because = (
                        f"{x} less its maximum over axes {list(axes)}, less the logarithm of the "
                        "sum of exp of that over the same axes"
                    )
                    yield RecognisedRegion("log_softmax", node, {"x": x}, axes, because)


def _taken_off(reading: Reading, node: Node, axes: tuple[int, ...]) -> Iterator[Node]:
    """Yield x if a node is x minus its maximum over these axes."""
    for x, top in reading.difference(node):
        for value, along in reading.reduced(_or_zero(reading, top), MaxReduce):
            same = reading.same(value, x, "from which the maximum is subtracted")
            why = "{} is a maximum over axes {}, and the sum is over axes {}"
            if same and reading.holds(along == axes, top, why, top, [*along], [*axes]):
                yield x


def _or_zero(reading: Reading, node: Node) -> Node:
    """Return the maximum below a `where` that replaces infinity by 0."""
    if isinstance(node.op, Where):
        finite, top, zero = (reading.base(source) for source in reading.sources(node))
        if isinstance(finite.op, LessThan) and reading.is_number(zero, 0):
            nothing, one = reading.sources(finite)
            if reading.multiple(nothing, 0) is top and reading.is_number(one, 1):
                return top
    return node


def _or_one(reading: Reading, node: Node) -> Node:
    """Return the sum below a `where` that replaces 0 by 1."""
    if isinstance(node.op, Where):
        positive, total, one = (reading.base(source) for source in reading.sources(node))
        if isinstance(positive.op, LessThan) and reading.is_number(one, 1):
            zero, same = reading.sources(positive)
            if reading.is_number(zero, 0) and reading.base(same) is total:
                return total
    return node


SOFTMAX = Recogniser("softmax", (Mul,), _find_softmax, {Recip: 1})
LOG_SOFTMAX = Recogniser("log_softmax", (Add,), _find_log_softmax, {Log2: 3})
