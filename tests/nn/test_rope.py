"""Rotary positions beside a plain spelling in PyTorch: layouts, offsets, Llama 3's scaling."""

import math

import numpy as np
import pytest

from luminal_lab.errors import RangeError, ShapeError
from luminal_lab.nn.rope import (
    DynamicScaling,
    FactorScaling,
    LinearScaling,
    Llama3Scaling,
    RotaryEmbedding,
    YarnScaling,
)
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.tensor.against import draw


def frequencies(torch, size, base, scaling=None):
    """Return what a pair is turned by, as Hugging Face computes it."""
    turn = 1.0 / base ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    if scaling is None:
        return turn
    length = 2 * math.pi / turn
    long, short = scaling.context / scaling.low, scaling.context / scaling.high
    share = (scaling.context / length - scaling.low) / (scaling.high - scaling.low)
    mixed = (1 - share) * turn / scaling.factor + share * turn
    return torch.where(
        length > long, turn / scaling.factor, torch.where(length < short, turn, mixed)
    )


def rotated(torch, x, turn, offset, interleaved):
    angles = torch.outer(torch.arange(offset, offset + x.shape[-2], dtype=torch.float64), turn)
    if interleaved:
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))
    first, second = x.double().chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


SCALING = Llama3Scaling(8.0, 1.0, 4.0, 64)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size", [2, 4, 16])
@pytest.mark.parametrize("offset", [0, 37])
@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "scaled"])
def test_values(torch, interleaved, size, offset, scaling):
    x = draw((2, 3, 5, size))
    rope = RotaryEmbedding(size, 500.0, interleaved=interleaved, scaling=scaling)
    cx = Graph()
    given = cx.tensor(("batch", 3, "seq", size), name="x").set(x)
    fixed = rope(given, offset).retrieve()
    moving = rope(given, cx.dim("past", 0)).retrieve()
    cx.set_dim("past", offset)
    cx.execute()
    turn = frequencies(torch, size, 500.0, scaling)
    wanted = rotated(torch, torch.tensor(x), turn, offset, interleaved).numpy()
    np.testing.assert_allclose(fixed.numpy(), wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(moving.numpy(), fixed.numpy())


def test_all_three_bands_of_the_scaling_occur(torch):
    turn, scaled = (frequencies(torch, 32, 500.0, s) for s in (None, SCALING))
    ratio = scaled / turn
    assert (float(ratio[0]), float(ratio[-1])) == (1.0, 0.125)
    assert ((ratio > 0.126) & (ratio < 0.999)).any()
    cx = Graph()
    found = RotaryEmbedding(32, 500.0, scaling=SCALING).frequencies(cx).retrieve()
    cx.execute()
    np.testing.assert_allclose(found.numpy(), scaled.numpy(), rtol=2e-6)


def test_scores_depend_on_the_distance_alone():
    query, key = draw((1, 8)), draw((1, 8), seed=1)
    cx, rope = Graph(), RotaryEmbedding(8)
    q, k = (cx.tensor((1, 8)).set(x) for x in (query, key))
    scores = [(rope(q, a) @ rope(k, b).T).retrieve() for a, b in ((5, 2), (105, 102), (5, 3))]
    cx.execute()
    near, far, other = (float(score) for score in scores)
    assert near == pytest.approx(far, abs=1e-4)
    assert near != pytest.approx(other, abs=1e-2)


def turns_of(scaling, end=0, size=8):
    cx = Graph()
    found = RotaryEmbedding(size, 500.0, scaling=scaling).frequencies(cx, end).retrieve()
    cx.execute()
    return found.numpy()


def test_linear_and_dynamic_scaling():
    plain = turns_of(None)
    np.testing.assert_allclose(turns_of(LinearScaling(4.0)), plain / 4, rtol=1e-6)
    dynamic = DynamicScaling(3.0, context=64)
    np.testing.assert_allclose(turns_of(dynamic, 64), plain, rtol=1e-6)
    base = 500 * (3.0 * 100 / 64 - 2) ** (8 / 6)
    wanted = base ** (-np.arange(0, 8, 2) / 8)
    np.testing.assert_allclose(turns_of(dynamic, 100), wanted, rtol=1e-5)


def test_yarn_slows_down_what_turns_seldom():
    plain, slowed = (turns_of(s, size=64) for s in (None, YarnScaling(4.0, context=256)))
    ratio = slowed / plain
    assert ratio[0] == pytest.approx(1.0)
    assert ratio[-1] == pytest.approx(0.25)
    assert (np.diff(ratio) <= 1e-6).all()
    assert ((ratio > 0.26) & (ratio < 0.99)).any()
    cx = Graph()
    scaling = YarnScaling(4.0, context=256, amplitude=2.0)
    rotation = RotaryEmbedding(4, scaling=scaling).rotation(cx, 3)
    cos = rotation.cos.retrieve()
    cx.execute()
    np.testing.assert_allclose(cos.numpy()[0, 0], [2, 2])


@pytest.mark.parametrize("free", [False, True])
def test_factors_of_a_long_text(free):
    scaling = FactorScaling((1.0, 2.0), (4.0, 8.0), context=10)
    cx = Graph()
    count = cx.dim("count", 1) if free else 0
    rope = RotaryEmbedding(4, scaling=scaling)
    for length, factors in ((10, (1, 2)), (11, (4, 8))):
        found = rope.frequencies(cx, count if free else length).retrieve()
        if free:
            cx.set_dim("count", length)
        cx.execute()
        wanted = np.array([1, 1e-2]) / np.array(factors)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_a_part_of_the_features_may_be_turned():
    x = draw((2, 5, 6))
    cx, rope = Graph(), RotaryEmbedding(4)
    given = cx.tensor((2, 5, 6)).set(x)
    found = rope.rotation(cx, 5).turn(given).retrieve()
    front = rope(given[:, :, :4]).retrieve()
    cx.execute()
    np.testing.assert_array_equal(found.numpy()[..., :4], front.numpy())
    np.testing.assert_array_equal(found.numpy()[..., 4:], x[..., 4:])


def test_scalings_that_do_not_fit():
    error = error_of(lambda: LinearScaling(0.0), RangeError)
    assert error.message == "LinearScaling: factor is 0.0, and must be above 0"
    rope = RotaryEmbedding(8, scaling=FactorScaling((1.0, 2.0)))
    error = error_of(lambda: rope.rotation(Graph(), 3), ShapeError)
    assert error.message == "rotary_embedding: 2 factors are given for 4 pairs"


def test_half_precision_stays_itself():
    cx = Graph()
    x = cx.tensor((1, 4), "bfloat16").set(np.ones((1, 4), np.float32))
    y = RotaryEmbedding(4)(x, 3).retrieve()
    cx.execute()
    assert y.dtype == "bfloat16"
    wanted = [math.cos(3) - math.sin(3), math.cos(0.03) - math.sin(0.03)]
    np.testing.assert_allclose(y.numpy().astype(float)[0, :2], wanted, rtol=1e-2)


def test_errors():
    error = error_of(lambda: RotaryEmbedding(7), ShapeError)
    assert error.message == "rotary_embedding: size is 7, and features are turned in pairs"
    assert error.hint == "give an even number, such as 64"
    x = Graph().tensor((5, 6), name="x")
    error = error_of(lambda: RotaryEmbedding(8)(x), ShapeError)
    assert error.message == "rotary_embedding: size is 8, but in %x (5, 6) axis -1 has 6"
    assert "RotaryEmbedding(8)(x)" in str(error.where)
    row = Graph().tensor((8,), name="x")
    error = error_of(lambda: RotaryEmbedding(8)(row), ShapeError)
    assert error.message == "rotary_embedding: %x (8,) has no axis of positions"
    assert "RotaryEmbedding(8)(row)" in str(error.where)
    for base in (0.0, -1.0, math.nan):
        error = error_of(lambda base=base: RotaryEmbedding(8, base), RangeError)
        assert error.message == f"rotary_embedding: base is {base!r}, and must be above 0"
    rows = Graph().tensor((2, 8))
    error = error_of(lambda: RotaryEmbedding(8)(rows, -1), ShapeError)
    assert "RotaryEmbedding(8)(rows, -1)" in str(error.where)
