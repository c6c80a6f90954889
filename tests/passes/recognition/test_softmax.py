"""Softmax and log-softmax: the spellings, and what is none."""

import math

import numpy as np
import pytest

from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled
from tests.passes.running import run_passes, values_of

SOFTMAX, LOG_SOFTMAX = "softmax(exp)", "log_softmax(exp)"


def by_hand(x, axis=-1):
    powers = (x - x.max(axis, keepdim=True)).exp()
    return powers / powers.sum(axis, keepdim=True)


def squeezed(x):
    powers = (x - x.max(-1).unsqueeze(-1)).exp()
    return powers / powers.sum(-1).unsqueeze(-1)


def base_two(x):
    powers = ((x - x.max(-1, keepdim=True)) * math.log2(math.e)).exp2()
    return powers * powers.sum(-1, keepdim=True).recip()


def logarithm(x):
    below = x - x.max(-1, keepdim=True)
    return below - below.exp().sum(-1, keepdim=True).log()


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shape", "call"),
    [
        (lambda x: x.softmax(-1), (4, 8), SOFTMAX),
        (lambda x: x.softmax(0), (4, "n"), SOFTMAX),
        (lambda x: x.softmax((1, 2)), (4, "n", 3), SOFTMAX),
        (lambda x: x.softmax((0, 2)), (4, 8, 3), SOFTMAX),
        (lambda x: x.log_softmax(-1), ("n", 8), LOG_SOFTMAX),
        (lambda x: x.log_softmax((0, 1)), (4, 8), LOG_SOFTMAX),
        (by_hand, (4, "n"), SOFTMAX),
        (squeezed, (4, 8), SOFTMAX),
        (base_two, (4, 8), SOFTMAX),
        (logarithm, (4, 8), LOG_SOFTMAX),
    ],
)
def test_spellings(formula, shape, call, pipeline):
    assert all_of_it(spelled(formula, shape), pipeline) == call


def over_another_axis(x):
    powers = (x - x.max(-1, keepdim=True)).exp()
    return powers / powers.sum(0, keepdim=True)


def with_another_maximum(x):
    powers = (x - x.max(0, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def of_another_value(x, y):
    powers = (x - y.max(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def over_another_sum(x, y):
    powers = (x - x.max(-1, keepdim=True)).exp()
    return powers / y.sum(-1, keepdim=True)


def in_another_base(x):
    powers = (x - x.max(-1, keepdim=True)).exp2()
    return powers / powers.sum(-1, keepdim=True)


def without_the_maximum(x):
    return x.exp() / x.exp().sum(-1, keepdim=True)


def with_the_minimum(x):
    powers = (x - x.min(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def less_another_logarithm(x):
    below = x - x.max(-1, keepdim=True)
    return below - below.exp().sum(-1, keepdim=True).log2()


def less_the_logarithm_over_another_axis(x):
    below = x - x.max(-1, keepdim=True)
    return below - below.exp().sum(0, keepdim=True).log()


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "count"),
    [
        (over_another_axis, 1),
        (with_another_maximum, 1),
        (of_another_value, 2),
        (over_another_sum, 2),
        (in_another_base, 1),
        (without_the_maximum, 1),
        (with_the_minimum, 1),
        (less_another_logarithm, 1),
        (less_the_logarithm_over_another_axis, 1),
    ],
)
def test_near_misses(formula, count, pipeline):
    assert set(recognised(spelled(formula, *[(4, 4)] * count), pipeline)) <= {"exp"}


def test_hidden_rows_and_nan_stay_as_they_were():
    shapes = [(3, 3)] * 4
    ir = spelled(lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m), *shapes)
    numbers = np.arange(9, dtype=np.float32).reshape(3, 3)
    mask = np.array([[0, -np.inf, -np.inf], [-np.inf] * 3, [np.nan, 0, -np.inf]], np.float32)
    data = {"in0": numbers, "in1": numbers, "in2": numbers, "in3": mask}
    (before,), (after,) = (values_of(g, data, {}) for g in (ir, run_passes(ir, PIPELINE).ir))
    np.testing.assert_array_equal(after, before)
    assert not after[1].any()
    assert np.isnan(after[2]).all()
