"""A mean: a sum times 1 over the number of summed elements.

%s = sum_reduce{axis = 1} %x      : f32[4, 1]
%c = constant{value = 0.125}      : f32[4, 1]
%y = mul %s, %c                   : f32[4, 1]      where axis 1 of %x has size 8
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Mul, SumReduce
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser


def _find(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    for total, factor in reading.pairs(node, Mul):
        for x, axes in reading.reduced(reading.squeezed(total), SumReduce):
            count = size_of([x.shape[axis] for axis in axes])
            why = "{} is summed over axes of size 1 alone"
            if reading.holds(bool(axes), total, why, x) and reading.is_reciprocal(factor, count):
                because = f"the sum over {count} elements of {x}, times 1/{count}"
                yield RecognisedRegion("mean", node, {"x": x}, axes, because)


MEAN = Recogniser("mean", (Mul,), _find, {SumReduce: 1})
