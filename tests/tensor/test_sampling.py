"""Images read between their positions, against PyTorch."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, LabError, ShapeError
from tests.expect import error_of
from tests.tensor.against import against, draw

IMAGE, VOLUME = draw((2, 3, 4, 5)), draw((2, 2, 3, 4, 2))
PLACES = draw((2, 3, 2, 2), seed=1, low=-1.6, high=1.6)
PLACES[0, 0] = [[-1, 1], [0, 0]]
DEEP = draw((2, 2, 1, 3, 3), seed=2, low=-1.6, high=1.6)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_values(torch, mode: str, padding: str, align: bool):
    theirs = torch.nn.functional.grid_sample
    for x, grid in ((IMAGE, PLACES), (VOLUME, DEEP)):
        if mode == "bicubic" and x is VOLUME:
            continue
        against(
            torch,
            lambda t, g: t.grid_sample(g, mode, padding, align),
            lambda t, g: theirs(t, g, mode, padding, align),
            x, grid, rtol=1e-5, atol=1e-5,
        )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients(torch, mode: str, padding: str):
    cx = ll.Graph()
    x, grid = cx.tensor(IMAGE.shape).set(IMAGE), cx.tensor(PLACES.shape).set(PLACES * 0.97)
    found = ll.grad(x.grid_sample(grid, mode, padding).square().sum(), [x, grid])
    cx.retrieve(found)
    cx.execute()
    t, g = (torch.tensor(a, requires_grad=True) for a in (IMAGE, PLACES * np.float32(0.97)))
    sampled = torch.nn.functional.grid_sample(t, g, mode, padding, False)
    sampled.square().sum().backward()
    for ours, theirs in zip(found, (t, g), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("align", [False, True])
def test_affine_grids(torch, align: bool):
    theirs = torch.nn.functional.affine_grid
    for shape, size in (((2, 2, 3), (2, 1, 3, 4)), ((1, 3, 4), (1, 1, 2, 2, 3))):
        against(
            torch,
            lambda t, s=size: t.affine_grid(s, align),
            lambda t, s=size: theirs(t, s, align),
            draw(shape), atol=1e-6,
        )  # fmt: skip


def test_errors():
    cx = ll.Graph()
    x, grid = cx.tensor((1, 2, 4, 4), name="x"), cx.tensor((1, 3, 3, 2), name="grid")
    error = error_of(lambda: x.grid_sample(grid, "cubic"), ArgumentError)
    assert error.message == "grid_sample: there is no mode 'cubic' for 2 spatial axes"
    error_of(lambda: x.grid_sample(grid, padding_mode="wrap"), ArgumentError)
    error = error_of(lambda: x.grid_sample(grid[..., :1]), ShapeError)
    assert "must be [batch, *out, 2]" in error.message
    error_of(lambda: cx.tensor((1, 2, 3)).affine_grid((1, 1, 2, 2, 2)), LabError)
    volume = cx.tensor((1, 1, 2, 2, 2))
    error_of(lambda: volume.grid_sample(cx.tensor((1, 1, 1, 1, 3)), "bicubic"), ArgumentError)
