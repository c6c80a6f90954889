"""Recurrent layers and their cells beside PyTorch's."""

from typing import Any

import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

TYPO: Any = "tan"
KINDS = ["RNN", "GRU", "LSTM"]
LAYERS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 2, "batch_first": True},
    {"num_layers": 2, "bidirectional": True},
]


def state(kind, *shape):
    """A state to begin with: h, or for an LSTM the pair (h, c)."""
    both = tuple(draw(shape, seed=k, low=-1, high=1) for k in (5, 6))
    return both if kind.startswith("LSTM") else both[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(torch, kind, bias):
    ours, theirs = (getattr(place, f"{kind}Cell")(3, 5, bias) for place in (nn, torch.nn))
    compare(torch, ours, theirs, draw((2, 3)))
    compare(torch, ours, theirs, draw((2, 3)), state(kind, 2, 5))
    compare(torch, ours, theirs, draw((3,)), state(kind, 5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_layers(torch, kind, options):
    ours, theirs = (getattr(place, kind)(3, 5, **options) for place in (nn, torch.nn))
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    batch = 3 if options.get("batch_first") else 2
    compare(torch, ours, theirs, draw((3, 2, 3)), state(kind, count, batch, 5))
    if not options:
        compare(torch, ours, theirs, draw((3, 2, 3)))
        compare(torch, ours, theirs, draw((3, 3)), state(kind, count, 5))


def test_relu(torch):
    x = draw((4, 2, 3))
    compare(torch, *(place.RNN(3, 5, nonlinearity="relu") for place in (nn, torch.nn)), x)
    compare(torch, *(place.RNNCell(3, 5, nonlinearity="relu") for place in (nn, torch.nn)), x[0])


def test_dropout_between_layers_in_training_alone():
    cx = Graph()
    x = cx.tensor((3, 2, 4))
    model = nn.LSTM(4, 4, num_layers=2, dropout=0.5)
    model.eval()(x)
    assert not any(node.op.name == "random" for node in cx.ir)
    model.train()(x)
    assert sum(node.op.name == "random" for node in cx.ir) == 1


def test_text():
    text = str(nn.LSTM(3, 5, num_layers=2, bidirectional=True)).splitlines()
    assert text[0] == "LSTM(3, 5, num_layers=2, bidirectional=True)  1,080 parameters"
    assert text[-1] == "  bias_hh_l1_reverse (20,) float32"


def test_errors():
    cx = Graph()
    x, steps = cx.tensor((2, 3), name="x"), cx.tensor(("t", 2, 3), name="steps")
    image = cx.tensor((2, 3, 8, 8), name="image")
    cases = [
        (
            lambda: nn.LSTM(3, 4)(steps),
            ShapeError,
            "lstm: %steps (t, 2, 3) has t steps, and their number must be known to write them",
        ),
        (
            lambda: nn.LSTM(3, 4)(image),
            ShapeError,
            "lstm: needs 2 or 3 axes, but %image (2, 3, 8, 8) has 4",
        ),
        (
            lambda: nn.GRU(4, 4)(x),
            ShapeError,
            "gru: input_size is 4, but in %x (2, 3) axis -1 has 3",
        ),
        (lambda: nn.LSTM(3, 4)(x, x), ArgumentError, "lstm: 1 states are given, and it has 2"),
        (
            lambda: nn.LSTMCell(3, 4)(x, (x, x)),
            ShapeError,
            "lstm_cell: the state %x (2, 3) must be (2, 4)",
        ),
        (lambda: nn.GRUCell(3, 0), ShapeError, "gru_cell: hidden_size is 0"),
        (
            lambda: nn.RNN(3, 4, nonlinearity=TYPO),
            ArgumentError,
            "rnn: there is no nonlinearity 'tan'",
        ),
    ]
    for call, kind, message in cases:
        error = error_of(call, kind)
        assert error.message == message
        assert "test_recurrent.py" in error.where
        assert error.hint
