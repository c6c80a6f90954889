"""Gradients of convolutions, pools, patches and resizing against PyTorch's."""

import numpy as np
import pytest

from tests.passes.gradients.against import against
from tests.tensor.against import draw
from tests.tensor.test_window import CONVS, KERNELS, POOLS, SPACES, TRANSPOSES, functional


def wide(*shape: int, seed: int = 0):
    return draw(shape, "float64", seed=seed)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("options", CONVS)
@pytest.mark.parametrize("count", [1, 2])
def test_convolutions(torch, count, options):
    given = CONVS[options]
    groups, name = given.get("groups", 1), f"conv{count}d"
    arrays = wide(2, 4, *SPACES[count]), wide(6, 4 // groups, *KERNELS[count]), wide(6, seed=2)
    ours = lambda x, w, b: getattr(x, name)(w, b, **given)  # noqa: E731
    theirs = lambda x, w, b: functional(torch, name)(x, w, b, **given)  # noqa: E731
    against(torch, ours, theirs, *arrays)


def test_a_convolution_in_space(torch):
    arrays = wide(1, 2, 4, 3, 4), wide(2, 2, 2, 2, 3)
    theirs = functional(torch, "conv3d")
    against(
        torch, lambda x, w: x.conv3d(w, padding=1), lambda x, w: theirs(x, w, padding=1), *arrays
    )


@pytest.mark.parametrize("options", TRANSPOSES)
@pytest.mark.parametrize("count", [1, 2])
def test_transposed_convolutions(torch, count, options):
    given, name = TRANSPOSES[options], f"conv_transpose{count}d"
    arrays = wide(2, 4, *(3, 4)[:count]), wide(4, 3, *KERNELS[count])
    ours = lambda x, w: getattr(x, name)(w, **given)  # noqa: E731
    theirs = lambda x, w: functional(torch, name)(x, w, **given)  # noqa: E731
    against(torch, ours, theirs, *arrays)


@pytest.mark.parametrize("given", POOLS, ids=str)
@pytest.mark.parametrize("kind", ["max_pool2d", "avg_pool2d", "max_pool1d"])
def test_pools(torch, kind, given):
    x = wide(1, 2, 7, 6) if kind[-2] == "2" else wide(1, 2, 9)
    ours = lambda x: getattr(x, kind)(**given)  # noqa: E731
    theirs = lambda x: functional(torch, kind)(x, **given)  # noqa: E731
    against(torch, ours, theirs, x)


def test_a_dilated_pool(torch):
    options = {"kernel_size": 3, "stride": 2, "dilation": 2}
    theirs = functional(torch, "max_pool1d")
    against(
        torch, lambda x: x.max_pool1d(**options), lambda x: theirs(x, **options), wide(1, 2, 11)
    )


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
@pytest.mark.parametrize("size", [2, (3, 4), (1, None)])
def test_adaptive_pools(torch, name, size):
    theirs = lambda x: functional(torch, name)(x, size)  # noqa: E731
    against(torch, lambda x: getattr(x, name)(size), theirs, wide(1, 2, 7, 6))


def test_lp_pools(torch):
    theirs = functional(torch, "lp_pool1d")
    against(torch, lambda x: x.lp_pool1d(3, 2), lambda x: theirs(x, 3, 2), abs(wide(1, 2, 8)) + 0.1)


@pytest.mark.parametrize("given", [{}, {"stride": 2}, {"padding": 1, "dilation": 2}], ids=str)
def test_patches(torch, given):
    theirs = lambda x: functional(torch, "unfold")(x, 2, **given)  # noqa: E731
    against(torch, lambda x: x.unfold2d(2, **given), theirs, wide(2, 3, 5, 6))
    theirs = lambda x: functional(torch, "fold")(x, (5, 6), 2, **given)  # noqa: E731
    columns = functional(torch, "unfold")(torch.zeros(1, 1, 5, 6), 2, **given).shape[-1]
    against(torch, lambda x: x.fold((5, 6), 2, **given), theirs, wide(2, 4, columns))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(6, 8), (5, 3)])
def test_resizing(torch, mode, size):
    theirs = lambda x: functional(torch, "interpolate")(x, size, mode=mode)  # noqa: E731
    ours = lambda x: x.interpolate(size, mode=mode)  # noqa: E731
    against(torch, ours, theirs, wide(1, 2, 3, 4), rtol=1e-6)


@pytest.mark.parametrize("norm_type", [1, 2, 3])
def test_lp_pools_at_zero(torch, norm_type):
    theirs = functional(torch, "lp_pool1d")
    x = np.array([[[0.0, 0.0, 1.0, -1.0, 0.0, 2.0]]])
    against(torch, lambda x: x.lp_pool1d(norm_type, 2), lambda x: theirs(x, norm_type, 2), x)
