"""Counting: an iota with a step and a first number, or a running sum of ones.

%i = iota                : i64[n]          %p = pad{before = [n - 1], after = [0]} 1
%s = mul %i, 3           : i64[n]          %w = window{axis = 0, size = n, …} %p  : i64[n, n]
%y = add %s, 2           : i64[n]          %y = sum_reduce{axis = 1} %w           : i64[n, 1]
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Add, Cast, Iota, Mul, Pad, Reshape, SumReduce, Window
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser


def _find(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    inner = reading.sources(node)[0] if isinstance(node.op, Cast) else node
    if _counts(reading, inner, (Add, Mul)) or _sums_ones(reading, reading.squeezed(inner)):
        yield RecognisedRegion("arange", node, {}, because="counting in equal steps, of nothing")


def _counts(reading: Reading, node: Node, ops: tuple[type[Add | Mul], ...]) -> bool:
    """Return whether a node is an iota to which a number is added and by which it is multiplied."""
    for k, op in enumerate(ops):
        for inner, number in reading.pairs(node, op):
            if reading.number(number) is not None:
                return isinstance(inner.op, Iota) or _counts(reading, inner, ops[k + 1 :])
            reading.missed(number, "{} is not a number", number)
    return False


def _sums_ones(reading: Reading, node: Node) -> bool:
    """Return whether a node sums, for each position, as many ones as there are up to there."""
    if not isinstance(node.op, SumReduce):
        reading.missed(node, "{} is {kind}, not iota with a number, nor a sum of ones", node)
        return False
    (windows,) = reading.sources(node)
    if not isinstance(windows.op, Window) or node.op.axis != 1:
        reading.missed(windows, "{} is not a sum of windows of ones", node)
        return False
    (padded,) = reading.sources(windows)
    if not isinstance(padded.op, Pad) or len(padded.shape) != 1:
        reading.missed(padded, "{} is not a row of ones with zeros before it", padded)
        return False
    (ones,) = reading.sources(padded)
    size = ones.shape[0]
    every = Window(axis=0, size=size, stride=1, dilation=1)
    fits = (windows.op, padded.op) == (every, Pad((size - 1,), (0,)))
    why = "{} does not have as many ones in a window as there are up to there"
    return reading.holds(fits, windows, why, windows) and reading.is_number(ones, 1)


ARANGE = Recogniser("arange", (Add, Mul, Cast, SumReduce, Reshape), _find, {Iota: 3, Window: 3})
