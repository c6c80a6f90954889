"""Means: by methods and by hand, of numbers and symbols, and sums divided by something else."""

import pytest

from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        (lambda x: x.mean(-1), (4, 8)),
        (lambda x: x.mean(-1), (4, "n")),
        (lambda x: x.mean(0, keepdim=True), (4, 8)),
        (lambda x: x.mean((0, 2)), (4, 3, 5)),
        (lambda x: x.mean(), (4, 3, "n")),
        (lambda x: x.sum(1) / 8, (4, 8)),
        (lambda x: x.sum(1) * 0.125, (4, 8)),
    ],
)
def test_spellings(formula, shape, pipeline):
    assert all_of_it(spelled(formula, shape), pipeline) == "mean"


def test_of_one_mean_the_sum_of_another_axis_is_no_part():
    assert recognised(spelled(lambda x: x.sum(0, keepdim=True).mean(1), (4, 8))) == ["mean"]


@pytest.mark.parametrize(
    ("formula", "shape"),
    [
        (lambda x: x.sum(1) / 7, (4, 8)),
        (lambda x: x.sum(0) / 8, (4, 8)),
        (lambda x: x.sum((0, 1)) / 8, (4, 8)),
        (lambda x: x.max(1) / 8, (4, 8)),
        (lambda x: x.sum(1) / x.shape[0], ("m", "n")),
        (lambda x: x.sum(1).recip() * 8, (4, 8)),
    ],
)
@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
def test_near_misses(formula, shape, pipeline):
    assert recognised(spelled(formula, shape), pipeline) == []
