"""Normalising layers beside PyTorch's; the running moments of batches over several runs."""

from typing import Any

import numpy as np
import pytest

from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError, RangeError, ShapeError
from tests.expect import error_of
from tests.nn.layers import compare
from tests.tensor.against import draw

BATCHES = {1: [(4, 6), (4, 6, 5)], 2: [(3, 6, 4, 5)], 3: [(2, 6, 2, 3, 2)]}


@pytest.mark.parametrize("shape", [6, (5, 6), [3, 5, 6]])
def test_over_the_last_axes(torch, shape):
    x = draw((3, 5, 6))
    every: list[dict[str, Any]] = [{}, {"elementwise_affine": False}, {"eps": 0.1}]
    for options in [*every, {"bias": False}]:
        compare(torch, nn.LayerNorm(shape, **options), torch.nn.LayerNorm(shape, **options), x)
    for options in every:
        compare(torch, nn.RMSNorm(shape, **options), torch.nn.RMSNorm(shape, **options), x)


@pytest.mark.parametrize("shape", [(3, 6), (3, 6, 4, 5)])
def test_over_groups(torch, shape):
    for groups, options in ((2, {}), (3, {"affine": False, "eps": 0.5}), (1, {"eps": 0.1})):
        pair = (kind.GroupNorm(groups, 6, **options) for kind in (nn, torch.nn))
        compare(torch, *pair, draw(shape))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_over_instances(torch, count):
    for options in ({}, {"affine": True}):
        pair = (getattr(kind, f"InstanceNorm{count}d")(6, **options) for kind in (nn, torch.nn))
        compare(torch, *pair, draw(BATCHES[count][-1]))


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "options",
    [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None, "eps": 0.1}],
)
def test_over_batches(torch, count, options):
    for shape in BATCHES[count]:
        ours, theirs = (
            getattr(kind, f"BatchNorm{count}d")(6, **options) for kind in (nn, torch.nn)
        )
        compare(torch, ours, theirs, draw(shape))
        compare(torch, ours.eval(), theirs.eval(), draw(shape))


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("calls", [1, 2])
def test_running_moments_move_with_each_run_and_each_call(torch, momentum, calls):
    ours: Any = nn.BatchNorm2d(3, momentum=momentum)
    theirs = torch.nn.BatchNorm2d(3, momentum=momentum)
    cx = Graph()
    x = cx.tensor(("batch", 3, 2, 2), name="x")
    for _ in range(calls):
        ours(x).retrieve()
    for run in range(3):
        data = draw((2 + run, 3, 2, 2), seed=run)
        x.set(data)
        cx.execute()
        for _ in range(calls):
            theirs(torch.tensor(data))
    for path, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[path], value.numpy(), rtol=1e-5, atol=1e-6)
    assert ours.num_batches_tracked.value == 3 * calls
    y = ours.eval()(Graph().tensor((2, 3, 2, 2)))
    assert not y.graph.ir.carries


def test_running_moments_of_a_training_graph_serve_another(torch):
    model, theirs = nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    training, use = Graph(), Graph()
    model(training.tensor((5, 3)).set(draw((5, 3)))).retrieve()
    y = model.eval()(use.tensor((1, 3)).set(draw((1, 3), seed=1))).retrieve()
    for _ in range(2):
        training.execute()
        theirs.train()(torch.tensor(draw((5, 3))))
        use.execute()
        wanted = theirs.eval()(torch.tensor(draw((1, 3), seed=1)))
        np.testing.assert_allclose(y.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_halves_are_normalised_in_float32():
    cx, model = Graph(), nn.BatchNorm1d(3, dtype="bfloat16")
    buffers: Any = model.buffers()
    x = draw((8, 3), "bfloat16")
    y = model(cx.tensor((8, 3), "bfloat16").set(x)).retrieve()
    cx.execute()
    wide = x.astype("f4")
    wanted = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    np.testing.assert_allclose(y.numpy().astype("f4"), wanted, rtol=1e-2)
    assert str(buffers["running_mean"].value.dtype) == "bfloat16"


def test_errors():
    cx = Graph()
    x, row = cx.tensor((2, 3), name="x"), cx.tensor((1, 3), name="row")
    cases = {
        "layer_norm: normalized_shape is (3, 4), but %x (2, 3) ends with (2, 3)": (
            lambda: nn.LayerNorm((3, 4))(x)
        ),
        "rms_norm: normalized_shape is (4,), but %x (2, 3) ends with (3,)": (
            lambda: nn.RMSNorm(4)(x)
        ),
        "layer_norm: normalized_shape is ()": lambda: nn.LayerNorm(()),
        "layer_norm: normalized_shape is -3": lambda: nn.LayerNorm((4, -3)),
        "group_norm: num_groups is 4, which does not divide num_channels, 6": (
            lambda: nn.GroupNorm(4, 6)
        ),
        "group_norm: num_channels is 6, but in %x (2, 3) axis 1 has 3": (
            lambda: nn.GroupNorm(3, 6)(x)
        ),
        "batch_norm2d: needs 4 axes, but %x (2, 3) has 2": lambda: nn.BatchNorm2d(3)(x),
        "batch_norm1d: num_features is 4, but in %x (2, 3) axis 1 has 3": (
            lambda: nn.BatchNorm1d(4)(x)
        ),
        "batch_norm1d: %row (1, 3) has one value for each channel, which has no variance": (
            lambda: nn.BatchNorm1d(3)(row)
        ),
        "instance_norm1d: needs 3 axes, but %x (2, 3) has 2": lambda: nn.InstanceNorm1d(3)(x),
    }
    for message, call in cases.items():
        error = error_of(call, ShapeError)
        assert error.message == message
        assert "test_norm.py" in error.where
        assert error.hint
    assert nn.BatchNorm1d(3).eval()(row).shape == (1, 3)


WRONG: Any = "a"


@pytest.mark.parametrize(
    "make",
    [
        lambda x: nn.LayerNorm(3, eps=x),
        lambda x: nn.RMSNorm(3, eps=x),
        lambda x: nn.GroupNorm(1, 3, eps=x),
        lambda x: nn.InstanceNorm1d(3, eps=x),
        lambda x: nn.BatchNorm1d(3, eps=x),
        lambda x: nn.BatchNorm1d(3, momentum=x),
    ],
)
def test_numbers_that_are_none(make):
    for value, kind in ((-1.0, RangeError), (float("nan"), RangeError), (WRONG, ArgumentError)):
        error = error_of(lambda value=value: make(value), kind)
        assert f" is {value!r}" in error.message
        assert error.message.startswith(("layer_", "rms_", "group_", "instance_", "batch_"))
        assert "test_norm.py" in error.where


def test_a_batch_that_turns_out_to_be_one_leaves_no_nan_behind():
    cx, layer = Graph(), nn.BatchNorm1d(2)
    x = cx.tensor(("batch", 2), name="x")
    layer(x).retrieve()
    for rows in ([[4.0, 5.0]], [[1.0, 2.0], [3.0, 6.0]]):
        x.set(rows)
        cx.execute()
    # 1 · 0.9 + 0 · 0.1, and of that · 0.9 + (2 or 8) · 0.1
    found = layer.state_dict()["running_var"]
    np.testing.assert_allclose(found.tolist(), [1.01, 1.61], rtol=1e-6)
