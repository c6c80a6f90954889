"""Matrix products: a sum of the product of two values, each repeated along the other's axes.

    %b = reshape{shape = [4, 1, 8]} %x : f32[4, 1, 8]
    %c = expand{shape = [4, 6, 8]} %b  : f32[4, 6, 8]
    %d = permute{axes = [1, 0]} %w     : f32[6, 8]                    where %w: f32[8, 6]
    %e = reshape{shape = [1, 6, 8]} %d : f32[1, 6, 8]
    %f = expand{shape = [4, 6, 8]} %e  : f32[4, 6, 8]
    %p = mul %c, %f                    : f32[4, 6, 8]
    %s = sum_reduce{axis = 2} %p       : f32[4, 6, 1]
    %y = reshape{shape = [4, 6]} %s    : f32[4, 6]

Batches broadcast, operands may be transposed, and several axes may be summed. A transposed matrix
is itself an operand; for a matrix with rearranged heads, the view is the operand. A sum of
the product of two values with the same axes is a reduction, not a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import SumReduce
from luminal_lab.passes.recognition.contraction import SumOfProducts, contraction
from luminal_lab.passes.recognition.convolution import CONVOLUTION, windows_of
from luminal_lab.passes.recognition.reading import Reading, Recogniser


def _find(reading: Reading, node: Node) -> Iterator[SumOfProducts]:
    for product in contraction(reading, node):
        is_plain = windows_of(reading, product) is None
        if reading.holds(is_plain, node, "{} is a convolution: an operand is windows", node):
            yield product


MATMUL = Recogniser("matmul", CONVOLUTION.roots, _find, {SumReduce: 0})
