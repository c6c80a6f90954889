"""Convolutions and their transposes beside PyTorch's."""

from typing import Any

import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

TYPO: Any = "reflct"
SPACE = (7, 6, 5)
CONVS: list[dict[str, Any]] = [
    {},
    {"bias": False, "stride": 2},
    {"padding": 1, "dilation": 2, "groups": 2},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"padding": 1, "padding_mode": "reflect"},
    {"padding": 2, "padding_mode": "circular", "stride": 2},
    {"padding": "same", "padding_mode": "replicate"},
]
TRANSPOSES: list[dict[str, Any]] = [
    {},
    {"bias": False, "stride": 3},
    {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
    {"dilation": 2},
]


@pytest.mark.parametrize("options", CONVS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_convolutions(torch, count, options):
    sizes = (3, 2, 2)[:count]
    kernel = sizes if count > 1 else 3
    ours, theirs = (
        getattr(kind, f"Conv{count}d")(4, 6, kernel, **options) for kind in (nn, torch.nn)
    )
    compare(torch, ours, theirs, draw((2, 4, *SPACE[:count])))
    compare(torch, ours, theirs, draw((4, *SPACE[:count]), seed=1))


@pytest.mark.parametrize("options", TRANSPOSES, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_transposes(torch, count, options):
    ours, theirs = (
        getattr(kind, f"ConvTranspose{count}d")(4, 6, 2, **options) for kind in (nn, torch.nn)
    )
    compare(torch, ours, theirs, draw((2, 4, *(4, 3, 2)[:count])))
    compare(torch, ours, theirs, draw((4, *(4, 3, 2)[:count]), seed=1))


def test_each_axis_may_have_its_own(torch):
    ours, theirs = (
        kind.Conv2d(3, 4, (3, 1), stride=(2, 1), padding=(1, 0), dilation=(1, 2))
        for kind in (nn, torch.nn)
    )
    compare(torch, ours, theirs, draw((2, 3, 6, 5)))


def test_symbolic_sizes():
    cx = Graph()
    y = nn.Conv2d(3, 4, 3, padding=1)(cx.tensor(("batch", 3, "height", 8)))
    assert [str(dim) for dim in y.shape] == ["batch", "4", "height", "8"]


def test_the_text_of_layers():
    layer = nn.Conv2d(4, 6, 3, stride=2, dilation=2, groups=2, bias=False)
    assert str(layer).splitlines()[0] == (
        "Conv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), dilation=(2, 2), groups=2)  108 parameters"
    )
    layer = nn.ConvTranspose1d(4, 6, 3, stride=2)
    assert str(layer).splitlines()[0] == (
        "ConvTranspose1d(4, 6, kernel_size=(3,), stride=(2,))  78 parameters"
    )


def test_errors():
    cx = Graph()
    image, row = cx.tensor((2, 3, 8, 8), name="image"), cx.tensor((2, 3), name="row")
    cases = {
        "conv2d: in_channels is 0": lambda: nn.Conv2d(0, 4, 3),
        "conv2d: groups is 2, which does not divide in_channels, 3": (
            lambda: nn.Conv2d(3, 4, 3, groups=2)
        ),
        "conv2d: the kernel_size is (3, 3, 3), but there are 2 spatial axes": (
            lambda: nn.Conv2d(3, 4, (3, 3, 3))
        ),
        "conv2d: the kernel_size is 0": lambda: nn.Conv2d(3, 4, 0),
        "conv1d: the padding is -1": lambda: nn.Conv1d(3, 4, 3, padding=-1),
        "conv2d: there is no padding 'reflct'": lambda: nn.Conv2d(3, 4, 3, padding=TYPO),
        "conv2d: the padding is 'same' and the stride (2, 2)": (
            lambda: nn.Conv2d(3, 4, 3, 2, padding="same")
        ),
        "conv2d: in_channels is 4, but in %image (2, 3, 8, 8) axis -3 has 3": (
            lambda: nn.Conv2d(4, 4, 3)(image)
        ),
        "conv2d: needs 3 or 4 axes, but %row (2, 3) has 2": lambda: nn.Conv2d(3, 4, 3)(row),
        "conv_transpose2d: groups is 3, which does not divide out_channels, 4": (
            lambda: nn.ConvTranspose2d(3, 4, 2, groups=3)
        ),
        "conv_transpose2d: in_channels is 4, but in %image (2, 3, 8, 8) axis -3 has 3": (
            lambda: nn.ConvTranspose2d(4, 4, 2)(image)
        ),
    }
    for message, call in cases.items():
        error = error_of(call, ShapeError)
        assert error.message == message
        assert "test_conv.py" in error.where
        assert error.hint
    error = error_of(lambda: nn.Conv2d(3, 4, 3, padding_mode=TYPO), ArgumentError)
    assert error.message == "conv2d: there is no padding_mode 'reflct'"
    assert error.hint == "did you mean 'reflect'?"
