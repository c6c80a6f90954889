"""What roundings can make of values lies within their bounds, and little else does."""

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.parse import parse
from luminal_lab.passes.enclosure import enclosures


def bounds_of(text, *data, overflows=True):
    """Return the bounds of the last value of a graph."""
    ir = parse(text)
    given = {node.id: array for node, array in zip(ir.inputs, data, strict=True)}
    ids = [node.id for node in ir.nodes]
    with np.errstate(all="ignore"):
        values = interpret(ir, Environment(lambda node: given[node.id]), wanted=ids)
    return enclosures(ir.nodes, values, given=ids, overflows=overflows)[ids[-1]]


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64, DType.float16, DType.bfloat16])
def test_all_orders_of_a_sum_lie_within(dtype):
    rng = np.random.default_rng(0)
    f = dtype.short
    text = f"graph g(%x: {f}[64]) -> (%s) {{ %s = sum_reduce{{axis = 0}} %x : {f}[1] }}"
    for _ in range(50):
        x = (rng.standard_normal(64) * 10.0 ** rng.integers(-3, 4, 64)).astype(dtype.numpy)
        low, high = bounds_of(text, x)
        for order in range(5):
            total = dtype.numpy.type(0)
            for value in rng.permutation(x) if order else np.sort(x):
                total = dtype.numpy.type(total + value)
            assert low <= float(total) <= high


def test_a_sum_of_opposites_may_lose_what_is_small():
    text = "graph g(%x: f32[3]) -> (%s) { %s = sum_reduce{axis = 0} %x : f32[1] }"
    low, high = bounds_of(text, np.asarray([1e8, 1, -1e8], np.float32))
    assert low[0] <= 0 < 1 <= high[0]
    assert high[0] - low[0] < 200


def test_bounds_are_narrow():
    text = """graph g(%x: f32[2], %y: f32[2]) -> (%r) {
      %p = mul %x, %y : f32[2]
      %s = add %p, %x : f32[2]
      %q = recip %s : f32[2]
      %r = exp2 %q : f32[2]
    }"""
    x, y = (np.asarray(values, np.float32) for values in ([3, -0.3], [0.1, 7]))
    low, high = bounds_of(text, x, y)
    right = 2 ** (1 / (x.astype(float) * y + x))
    assert (low <= right).all()
    assert (right <= high).all()
    assert (high - low < 2e-6 * right).all()


def test_what_overflows_is_infinite_unless_nothing_does():
    text = "graph g(%x: f16[1]) -> (%r) { %d = add %x, %x : f16[1] %r = recip %d : f16[1] }"
    x = np.asarray([60000], np.float16)
    low, high = bounds_of(text, x)
    assert (low[0], high[0]) == pytest.approx((0, 0), abs=1e-7)
    low, high = bounds_of(text, x, overflows=False)
    assert low[0] <= 1 / 120000 <= high[0]


def test_what_roundings_may_turn_is_uncertain():
    text = """graph g(%x: f32[3], %y: f32[3]) -> (%r) {
      %p = mul %x, %x : f32[3]
      %q = mul %y, %y : f32[3]
      %r = less_than %p, %q : bool[3]
    }"""
    x, y = (np.asarray(values, np.float32) for values in ([1, 2, 3], [1, 3, 2]))
    low, high = bounds_of(text, x, y)
    assert low.tolist() == [False, True, False]
    assert high.tolist() == [True, True, False]
