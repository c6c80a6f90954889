"""Pools beside PyTorch's."""

from typing import Any

import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

SPACE = (8, 7, 6)
POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_size": 2}),
    ("MaxPool", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("MaxPool", {"kernel_size": 2, "dilation": 2, "stride": 1}),
    ("AvgPool", {"kernel_size": 2}),
    ("AvgPool", {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ("AvgPool", {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    ("AdaptiveAvgPool", {"output_size": 1}),
    ("AdaptiveAvgPool", {"output_size": 3}),
    ("AdaptiveMaxPool", {"output_size": 4}),
]


@pytest.mark.parametrize(("kind", "options"), POOLS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_pools(torch, count, kind, options):
    ours, theirs = (getattr(place, f"{kind}{count}d")(**options) for place in (nn, torch.nn))
    compare(torch, ours, theirs, draw((2, 3, *SPACE[:count])))
    compare(torch, ours, theirs, draw((3, *SPACE[:count]), seed=1))


def test_none_keeps_an_axis(torch):
    pair = (place.AdaptiveAvgPool2d((None, 2)) for place in (nn, torch.nn))
    compare(torch, *pair, draw((2, 3, 5, 6)))


def test_errors():
    row = Graph().tensor((2, 3), name="row")
    cases = {
        "max_pool2d: the kernel_size is 0": lambda: nn.MaxPool2d(0),
        "avg_pool1d: the stride is 0": lambda: nn.AvgPool1d(2, 0),
        "max_pool2d: needs 3 or 4 axes, but %row (2, 3) has 2": lambda: nn.MaxPool2d(3)(row),
        "adaptive_avg_pool2d: the output_size is [1, 2, 3], but there are 2 spatial axes": (
            lambda: nn.AdaptiveAvgPool2d([1, 2, 3])
        ),
    }
    for message, call in cases.items():
        error = error_of(call, ShapeError)
        assert error.message == message
        assert "test_pool.py" in error.where
        assert error.hint
    assert str(nn.MaxPool1d(2)) == "MaxPool1d(kernel_size=(2,), stride=(2,))"
    assert str(nn.AdaptiveAvgPool2d((1, None))) == "AdaptiveAvgPool2d(output_size=(1, None))"
