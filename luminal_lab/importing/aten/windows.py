"""Windows: convolution, pooling, patches, resizing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import DType
from luminal_lab.importing.aten.table import aten, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources


def _batched(x: Tensor, count: int, call: Callable[[Tensor], Tensor]) -> Tensor:
    """Return what a function makes of a batch; x may be one sample of it."""
    return call(x) if x.ndim == count + 2 else call(x.unsqueeze(0)).squeeze(0)


@aten("convolution")
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Return a convolution, or the transpose of one."""
    count = weight.ndim - 2
    steps, pads, gaps, more = (
        list(each) * (count if len(each) == 1 else 1)
        for each in (stride, padding, dilation, output_padding)
    )
    if not transposed:
        return _batched(x, count, lambda x: x.conv(weight, bias, steps, pads, gaps, groups))
    return _batched(
        x, count, lambda x: x.conv_transpose(weight, bias, steps, pads, more, groups, gaps)
    )


# -- pooling ---------------------------------------------------------------------------------------


def _steps(stride: Sequence[int] | None) -> list[int] | None:
    return list(stride) if stride else None


def _max_pool(count: int) -> Callable[..., Tensor]:
    def max_pool(
        x: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | int = 0,
        dilation: Sequence[int] | int = 1,
        ceil_mode: bool = False,
    ) -> Tensor:
        """Return the largest value of each window."""
        sizes, steps = list(kernel_size), _steps(stride)
        return _batched(x, count, lambda x: x.max_pool(sizes, steps, padding, dilation, ceil_mode))

    return max_pool


def _avg_pool(count: int) -> Callable[..., Tensor]:
    def avg_pool(
        x: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """Return the mean of each window."""
        sizes, steps, by = list(kernel_size), _steps(stride), divisor_override
        whole = not x.dtype.is_float
        options = sizes, steps, padding, ceil_mode, count_include_pad, by and abs(by)
        wide = x.cast(DType.float64) if whole else x
        mean = _batched(wide, count, lambda x: x.avg_pool(*options))
        mean = -mean if by and by < 0 else mean
        return mean.cast(x.dtype) if whole else mean

    return avg_pool


def _adaptive(count: int) -> Callable[..., Tensor]:
    def adaptive_avg_pool(x: Tensor, output_size: Sequence[int]) -> Tensor:
        """Return the means of a requested number of windows."""
        return _batched(x, count, lambda x: x.adaptive_avg_pool(list(output_size)))

    return adaptive_avg_pool


def _with_indices(count: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def max_pool_with_indices(
        graph: Sources,
        x: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | int = 0,
        dilation: Sequence[int] | int = 1,
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Return the largest value of each window, and its number in the sample's channel."""
        options = list(kernel_size), _steps(stride), padding, dilation, ceil_mode
        values = _batched(x, count, lambda x: x.max_pool(*options))
        return values, _batched(x, count, lambda x: _positions(graph, x, *options))

    return max_pool_with_indices


def _positions(
    graph: Sources,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int] | None,
    padding: Sequence[int] | int,
    dilation: Sequence[int] | int,
    ceil_mode: bool,
) -> Tensor:
    """Return where the largest value of each window is, counted in row-major order."""
    pooling = x._pooling("max_pool", kernel_size, stride, padding, dilation, ceil_mode)  # pyright: ignore[reportPrivateUsage]  # the layout of its windows
    layout = pooling.what, pooling.sizes, pooling.steps, pooling.gaps, pooling.margins
    windows = x.windows(*layout, x._least)  # pyright: ignore[reportPrivateUsage]  # as above
    spatial = x.shape[2:]
    at = graph.arange(1)
    for size in spatial:
        at = at.unsqueeze(-1) * size + graph.arange(size)
    numbers = at.reshape(1, 1, *spatial).windows(*layout, 0)
    best = windows.flatten(x.ndim).argmax(-1, keepdim=True)
    return (
        numbers.flatten(x.ndim).expand(*windows.flatten(x.ndim).shape).gather(-1, best).squeeze(-1)
    )


for _count in (1, 2, 3):
    aten(f"max_pool{_count}d")(_max_pool(_count))
    aten(f"avg_pool{_count}d")(_avg_pool(_count))
    source(f"max_pool{_count}d_with_indices")(_with_indices(_count))
    aten(f"adaptive_avg_pool{_count}d")(_adaptive(_count))
    if _count > 1:
        aten(f"_adaptive_avg_pool{_count}d")(_adaptive(_count))


# -- patches ---------------------------------------------------------------------------------------


@aten("im2col")
def im2col(
    x: Tensor,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Return every window as a column."""
    return _batched(x, 2, lambda x: x.unfold2d(kernel_size, dilation, padding, stride))


@aten("col2im")
def col2im(
    x: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """Return an image from columns, with overlaps added up."""
    return x.fold(output_size, kernel_size, dilation, padding, stride)


MODES = "bilinear", "nearest", "bicubic"
EDGES = "zeros", "border", "reflection"


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return values read at positions between those of x."""
    return x.grid_sample(grid, MODES[interpolation_mode], EDGES[padding_mode], align_corners)


# -- resizing --------------------------------------------------------------------------------------


def _resized(
    x: Tensor,
    mode: str,
    output_size: Sequence[Dim] | None,
    scales: Sequence[float | None],
    align_corners: bool = False,
) -> Tensor:
    """Return spatial axes resized, to sizes or by factors."""
    factors = [scale for scale in scales if scale is not None]
    sizes = output_size or ()
    given = list(zip(sizes, x.shape[2:], factors, strict=False))
    # A given factor says where positions lie; the size is rounded down.
    if output_size is None or (
        len(given) == len(sizes)
        and all(isinstance(n, int) and int(n * factor) == size for size, n, factor in given)
    ):
        return x.interpolate(None, factors, mode, align_corners)
    if any(isinstance(size, Expr) for size in output_size):
        whole = [size // length for size, length in zip(output_size, x.shape[2:], strict=True)]
        exact = all(
            length * factor == size
            for size, length, factor in zip(output_size, x.shape[2:], whole, strict=True)
        )
        if exact and all(isinstance(factor, int) for factor in whole):
            return x.interpolate(None, [float(factor) for factor in whole], mode, align_corners)  # pyright: ignore[reportArgumentType]  # numbers
    return x.interpolate(list(output_size), None, mode, align_corners)  # pyright: ignore[reportArgumentType]  # or an error


@aten("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def nearest_vec(
    x: Tensor, output_size: Sequence[Dim] | None, scale_factors: Sequence[float] | None
) -> Tensor:
    """Return each position's nearest old one."""
    return _resized(x, "nearest", output_size, scale_factors or ())


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest(x: Tensor, output_size: Sequence[Dim], *scales: float | None) -> Tensor:
    """Return each position's nearest old one."""
    return _resized(x, "nearest", output_size, scales)


@aten("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")
def nearest_exact(x: Tensor, output_size: Sequence[Dim], *scales: float | None) -> Tensor:
    """Return each position's nearest old one, by their centres."""
    return _resized(x, "nearest-exact", output_size, scales)


@aten("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def linear_vec(
    x: Tensor,
    output_size: Sequence[Dim] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Tensor:
    """Return positions between old ones by straight lines."""
    return _resized(x, "linear", output_size, scale_factors or (), align_corners)


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(
    x: Tensor, output_size: Sequence[Dim], align_corners: bool, *scales: float | None
) -> Tensor:
    """Return positions between old ones by straight lines."""
    return _resized(x, "linear", output_size, scales, align_corners)


@aten("upsample_bicubic2d.vec")
def bicubic_vec(
    x: Tensor,
    output_size: Sequence[Dim] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Tensor:
    """Return positions between old ones by cubic curves."""
    return _resized(x, "bicubic", output_size, scale_factors or (), align_corners)


@aten("upsample_bicubic2d")
def bicubic(
    x: Tensor, output_size: Sequence[Dim], align_corners: bool, *scales: float | None
) -> Tensor:
    """Return positions between old ones by cubic curves."""
    return _resized(x, "bicubic", output_size, scales, align_corners)
