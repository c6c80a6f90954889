"""Values between the positions of an image: `grid_sample`, and the grids of affine maps."""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
from collections.abc import Sequence
from itertools import product
from typing import Self, TypeVar

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.errors import ArgumentError, ShapeError, nearest
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.operation import operation
from luminal_lab.tensor.window import Windowed, cubic_weights

G = TypeVar("G", bound="Sampled")
MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


class Sampled(Windowed):
    """Images read at positions that data give."""

    __slots__ = ()

    @operation
    def grid_sample(
        self,
        grid: Operand,
        mode: str = "bilinear",
        padding_mode: str = "zeros",
        align_corners: bool | None = False,
    ) -> Self:
        """Return [batch, channels, *spatial] read at positions from -1 to 1, [batch, *out, axes].

        The last axis of the grid has x, y (and z): positions along the last spatial axis first.
        The mode is "bilinear", "nearest" or, for images, "bicubic". Beyond the edges there are
        "zeros", or the values of the "border" or of a "reflection" at it. With `align_corners`
        -1 and 1 are the centres of the outermost positions, otherwise their outer edges.

        >>> x = cx.tensor((1, 1, 1, 2)).set([[[[1, 3]]]])
        >>> y = x.grid_sample([[[[0.0, 0.0], [0.5, 0.0]]]]).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[[2.0, 3.0]]]]
        """
        what, count = self._spatial("grid_sample")
        for word, known, given in (
            ("mode", MODES[: 2 + (count == 2)], mode),
            ("padding_mode", PADDINGS, padding_mode),
        ):
            if given not in known:
                raise ArgumentError(
                    f"grid_sample: there is no {word} {given!r} for {count} spatial axes",
                    hint=nearest(str(given), known) or f"one of {', '.join(known)}",
                )
        places = self._tensor_of(grid)
        if places.ndim != self.ndim or places.shape[-1] != count:
            raise ShapeError(
                f"{what}: the grid {places.label} must be [batch, *out, {count}] for {self.label}",
                hint="the last axis has a position for each spatial axis, the last of them first",
            )
        places = places.cast(self.dtype)
        batch, channels, *space = self.shape
        out = places.shape[1:-1]
        flat = self._viewed((batch, channels, size_of(space)))
        along: list[list[tuple[Self, Self | None]]] = []
        for axis, size in enumerate(space):
            at = places.select(-1, count - 1 - axis)
            at = _unscaled(at, size, bool(align_corners))
            if mode != "bicubic":
                at = _inside(at, size, padding_mode, bool(align_corners))
            if mode == "nearest":
                along.append([(at.round_to_even(), None)])
                continue
            low = at.floor()
            part = at - low
            if mode == "bilinear":
                along.append([(low, -part + 1), (low + 1, part)])
                continue
            taps = cubic_weights(part)
            along.append(
                [
                    (_inside(low + k, size, padding_mode, bool(align_corners)), weight)
                    for k, weight in taps.items()
                ]
            )
        total: Self | None = None
        for corner in product(*along):
            value = _read(flat, [at for at, _ in corner], space)
            for _, weight in corner:
                value = value if weight is None else value * weight.flatten(1).unsqueeze(1)
            total = value if total is None else total + value
        assert total is not None
        return total._viewed((batch, channels, *out))

    @operation
    def affine_grid(self, size: Sequence[DimLike], align_corners: bool | None = False) -> Self:
        """Return the grid for `grid_sample` of affine maps [batch, axes, axes + 1].

        The size is that of the result, [batch, channels, *spatial].

        >>> maps = cx.tensor((1, 2, 3)).set([[[1, 0, 0], [0, 1, 0]]])
        >>> y = maps.affine_grid((1, 1, 1, 2)).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[[-0.5, 0.0], [0.5, 0.0]]]]
        """
        sizes = self.graph.as_shape(tuple(size))
        count = len(sizes) - 2
        if self.ndim != 3 or self.shape[1:] != (count, count + 1):
            raise ShapeError(
                f"affine_grid: {self.label} has no maps for {count} spatial axes",
                hint="maps of images are [batch, 2, 3], and those of volumes [batch, 3, 4]",
            )
        space = [whole("affine_grid: a size", n, 1) for n in sizes[2:]]
        lines: list[Self] = []
        for axis, n in enumerate(space):
            line = self._iota(n, self.dtype)
            steps = n - 1 if align_corners else n
            first = 0.0 if align_corners else 0.5
            line = (line + first) * (2 / steps if steps else 0.0) - (1.0 if steps else 0.0)
            lines.append(line._along(axis, tuple(space)))
        ones = lines[0].full_like(1)
        points = self.join("stack", [*lines[::-1], ones], -1)  # [*spatial, axes + 1]
        grid = points.flatten(0, -2).matmul(self.mT)
        return grid._viewed((self.shape[0], *space, count))


def _unscaled(at: G, size: Dim, align: bool) -> G:
    """Return positions from -1 to 1 as positions on an axis."""
    n = at.full_like(size)
    return (at + 1) * 0.5 * (n - 1) if align else ((at + 1) * n - 1) * 0.5


def _inside(at: G, size: Dim, padding: str, align: bool) -> G:
    """Return positions moved onto the axis, unless there are zeros beyond it."""
    if padding == "zeros":
        return at
    last = at.full_like(size) - 1
    if padding == "reflection":
        low = at.full_like(0.0 if align else -0.5)
        span = last if align else last + 1
        none = span.eq(0)
        way = (at - low).abs()
        rest = way.fmod(none.where(1.0, span))
        odd = ((way - rest) / none.where(1.0, span)).round_to_even().remainder(2) > 0.5
        at = none.where(0.0, odd.where(span - rest, rest) + low)
    at = at.isfinite().where(at, -1.0)  # as PyTorch reads them
    return at.maximum(0.0).minimum(last)


def _read(flat: G, places: Sequence[G], space: Sequence[Dim]) -> G:
    """Return values at whole positions, [batch, channels, places], and 0 beyond the edges."""
    index: G | None = None
    inside: G | None = None
    for at, size in zip(places, space, strict=True):
        mine = (at > -1) & (at < at.full_like(size))
        step = mine.where(at, 0.0).cast(DType.int64)
        index = step if index is None else index * size + step
        inside = mine if inside is None else inside & mine
    assert index is not None
    assert inside is not None
    shape = (flat.shape[0], flat.shape[1], size_of(index.shape[1:]))
    at, there = (
        x._viewed((x.shape[0], size_of(x.shape[1:]))).unsqueeze(1)._stretch(shape)
        for x in (index, inside)
    )
    return there.where(flat.gather(2, at), 0.0)
