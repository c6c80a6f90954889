"""Norms: all of them with and without weights, by methods and by hand, and what is nearly one."""

import pytest

from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled

STD, MEAN = "std_norm(mean)", "mean_norm(mean)"
LAYER, RMS = f"layer_norm({MEAN}, {STD})", f"rms_norm({STD})"


def by_hand(x, w, b):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * w + b


def by_moments(x):
    variance = x.var(-1, correction=0, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * (variance + 1e-5).rsqrt()


def rms_by_hand(x, w):
    return w * (x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt())


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shapes", "call"),
    [
        (lambda x: x.mean_norm(-1), [(4, "n")], MEAN),
        (lambda x: x.std_norm(-1), [("n", 8)], STD),
        (lambda x: x.layer_norm(-1), [("n", 8)], LAYER),
        (lambda x, w: x.layer_norm(-1, weight=w), [(4, 8), (8,)], LAYER),
        (lambda x, b: x.layer_norm(-1, bias=b), [(4, 8), (8,)], LAYER),
        (lambda x, w, b: x.layer_norm(-1, 1e-5, w, b), [(2, "n", 8), (8,), (8,)], LAYER),
        (lambda x, w, b: x.layer_norm((1, 2), 1e-5, w, b), [(4, 8, 3), (8, 3), (8, 3)], LAYER),
        (lambda x, w: x.rms_norm(-1, weight=w), [("n", 8), (8,)], RMS),
        (by_hand, [(4, 8), (8,), (8,)], LAYER),
        (rms_by_hand, [(4, 8), (8,)], RMS),
    ],
)
def test_spellings(formula, shapes, call, pipeline):
    assert all_of_it(spelled(formula, *shapes), pipeline) == call


def test_the_variance_may_have_its_own_difference_from_the_mean():
    assert all_of_it(spelled(by_moments, (4, 8))).startswith("layer_norm(")


def over_another_axis(x):
    return x.mean_norm(-1).std_norm(0)


def of_another_value(x, y):
    return x.mean_norm(-1) * ((y * y).mean(-1, keepdim=True) + 1e-5).rsqrt()


def with_the_root_of_the_mean(x):
    return x * (x.mean(-1, keepdim=True) + 1e-5).rsqrt()


def with_the_third_power(x):
    return x * ((x * x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()


def without_the_root(x):
    return x * ((x * x).mean(-1, keepdim=True) + 1e-5).recip()


def plus_the_mean(x):
    return x + x.mean(-1, keepdim=True)


def less_the_mean_of_another(x, y):
    return x - y.mean(-1, keepdim=True)


def less_a_mean_that_has_lost_its_axis(x):
    return x - x.mean(-1)


def by_the_sum_of_squares(x):
    return x * ((x * x).sum(-1, keepdim=True) + 1e-5).rsqrt()


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "count", "parts"),
    [
        (over_another_axis, 1, [MEAN, STD]),
        (of_another_value, 2, ["mean", MEAN]),
        (with_the_root_of_the_mean, 1, ["mean"]),
        (with_the_third_power, 1, ["mean"]),
        (without_the_root, 1, ["mean"]),
        (plus_the_mean, 1, ["mean"]),
        (less_the_mean_of_another, 2, ["mean"]),
        (less_a_mean_that_has_lost_its_axis, 1, ["mean"]),
        (by_the_sum_of_squares, 1, []),
    ],
)
def test_near_misses(formula, count, parts, pipeline):
    assert recognised(spelled(formula, *[(4, 4)] * count), pipeline) == parts


def test_what_is_no_parameter_stays_outside():
    plain = f"layer_norm({MEAN}, {STD})"
    for other in ((4, 8), (4, 1), ()):
        after = recognised(spelled(lambda x, y: x.layer_norm(-1) + y, (4, 8), other))
        assert after == [plain]
    one_row = spelled(lambda x, y: x.layer_norm(-1) + y, (1, 8), (1, 8))
    assert recognised(one_row) == [plain]
    with_names = spelled(lambda x, w: x.layer_norm(-1) * w, (4, 8), (8,))
    assert all_of_it(with_names) == plain
