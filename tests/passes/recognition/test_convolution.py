"""Convolutions of one to three axes with strides, padding and groups, and windows that are none."""

import pytest

from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        (lambda x, w: x.conv(w), [(1, 2, 6), (4, 2, 3)]),
        (lambda x, w: x.conv(w, stride=2, dilation=2), [("b", 3, 9), (4, 3, 2)]),
        (lambda x, w: x.conv(w, padding=1), [(1, 3, 5, 5), (2, 3, 3, 3)]),
        (lambda x, w: x.conv(w, padding=1), [(2, 3, 3, 3, 3), (2, 3, 2, 2, 2)]),
        (lambda x, w: x.conv(w), [(2, 3, 5, 5), (2, 3, 1, 1)]),
        (lambda x, w: x.conv(w), [(2, 1, 5), (3, 1, 2)]),
    ],
)
def test_spellings(formula, shapes, pipeline):
    assert all_of_it(spelled(formula, *shapes), pipeline) == "convolution"


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
def test_groups_and_a_bias(pipeline):
    grouped = spelled(lambda x, w: x.conv(w, groups=2), (1, 4, 5), (4, 2, 3))
    assert recognised(grouped, pipeline) == ["convolution"]
    biased = spelled(lambda x, w, b: x.conv(w, b), (1, 3, 5), (2, 3, 3), (2,))
    assert recognised(biased, pipeline) == ["convolution"]


def test_the_padding_is_inside():
    ir = spelled(lambda x, w: x.conv(w, padding=2), (1, 2, 6), (4, 2, 3))
    assert all_of_it(ir) == "convolution"


def each_channel_by_itself(x, w):
    windows = x.unfold(2, 3, 1)  # [batch, channels, places, positions]
    return (windows.unsqueeze(1) * w.unsqueeze(2).unsqueeze(0)).sum(4)


def test_channels_need_not_be_summed():
    ir = spelled(each_channel_by_itself, (1, 2, 6), (4, 2, 3))
    assert all_of_it(ir) == "convolution"


def over_places(x, w):
    windows = x.unfold(1, 3, 1)  # [rows, places, positions]
    return (windows.unsqueeze(0) * w.unsqueeze(1).unsqueeze(3)).sum(2)


def test_a_sum_over_places_is_a_product_of_matrices():
    ir = spelled(over_places, (2, 6), (5, 4))
    assert recognised(ir) == ["matmul"]


def test_the_mean_of_windows_is_no_convolution():
    assert recognised(spelled(lambda x: x.avg_pool(2), (1, 3, 6))) == ["mean"]
