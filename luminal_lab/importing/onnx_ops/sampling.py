"""Values between positions: resized images, grids of points, regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dims import Dim, Expr
from luminal_lab.importing.onnx_ops.movement import size_of
from luminal_lab.importing.onnx_ops.product import Ints, each
from luminal_lab.importing.onnx_ops.table import (
    KNOW_IT,
    Call,
    Known,
    Refusal,
    Value,
    axis_of,
    op,
    whole,
)
from luminal_lab.tensor import Tensor

CUBIC = -0.75
Floats = npt.NDArray[np.float64]


class Sampling(NamedTuple):
    """How a resized axis reads the old one."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool

    def taps(
        self, old: int, new: int, scale: float, roi: tuple[float, float]
    ) -> tuple[npt.NDArray[np.int64], Floats, npt.NDArray[np.bool_]]:
        """Return which old positions each new one reads, with what weights, and which are outside.

        Each has a row for a new position: [new, taps], [new, taps], [new].
        """
        at = self._old(np.arange(new, dtype=float), old, new, scale, roi)
        outside = (at < 0) | (at > old - 1)
        ceil = np.ceil(at)
        ratio = np.where(at == ceil, 1.0, at - np.floor(at))
        weights = self._weights(ratio, scale)
        count = int(weights.shape[1])
        first: npt.NDArray[np.int64] = ceil.astype(np.int64) - count // 2
        index: npt.NDArray[np.int64] = first[:, None] + np.arange(count)
        if self.exclude_outside:
            weights = np.where((index < 0) | (index >= old), 0.0, weights)
            weights = weights / weights.sum(1, keepdims=True)
        crop = self.coordinates == "tf_crop_and_resize"
        return np.clip(index, 0, old - 1), weights, outside if crop else outside & False

    def _old(self, x: Floats, old: int, new: int, scale: float, roi: tuple[float, float]) -> Floats:
        wide = scale * old
        match self.coordinates:
            case "align_corners":
                return x * 0 if wide == 1 else x * (old - 1) / (wide - 1)
            case "asymmetric":
                return x / scale
            case "tf_crop_and_resize":
                first, last = roi
                if wide == 1:
                    return x * 0 + (last - first) * (old - 1) / 2 + first * (old - 1)
                return x * (last - first) * (old - 1) / (wide - 1) + first * (old - 1)
            case "pytorch_half_pixel" if wide == 1:
                return x * 0 - 0.5
            case "half_pixel" | "pytorch_half_pixel":
                return (x + 0.5) / scale - 0.5
            case "tf_half_pixel_for_nn":
                return (x + 0.5) / scale
            case "half_pixel_symmetric":
                return old / 2 * (1 - new / wide) + (x + 0.5) / scale - 0.5
            case _:
                raise Refusal(f"the coordinates {self.coordinates!r} are not known")

    def _weights(self, ratio: Floats, scale: float) -> Floats:
        """Return the weights of the positions around a place, `ratio` behind the left one."""
        t = ratio[:, None]
        if self.mode == "nearest":
            right = {
                "round_prefer_floor": t > 0.5,
                "round_prefer_ceil": t >= 0.5,
                "floor": t >= 1,
                "ceil": t >= 0,
            }.get(self.nearest)
            if right is None:
                raise Refusal(f"the rounding {self.nearest!r} is not known")
            return np.concatenate([~right, right], 1).astype(float)
        least = min(scale, 1.0) if self.antialias else 1.0
        reach = (1 if self.mode == "linear" else 2) / least
        first = math.floor(-reach) + 1
        span = 2 - 2 * first
        if span > 1 << 12:
            raise Refusal(f"each position would read {span:,} others")
        distance = np.abs((np.arange(first, first + span) - t) * least)
        if self.mode == "linear":
            weights = np.clip(1 - distance, 0, 1)
        else:
            a, d = self.cubic, distance
            near = ((a + 2) * d - (a + 3)) * d * d + 1
            far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
            weights = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
        return weights / weights.sum(1, keepdims=True) if self.antialias else weights


def resized(
    call: Call, x: Tensor, axis: int, index: npt.NDArray[np.int64], weights: Floats
) -> Tensor:
    """Return an axis resized: sums of old positions by weights."""
    rows = np.arange(len(index))
    used = weights.argmax(1) if np.all(weights.max(1) == 1) else None
    if used is not None:
        chosen = index[rows, used]
        old = x.shape[axis]
        if isinstance(old, int) and old and len(index) % old == 0:
            times = len(index) // old
            if np.array_equal(chosen, rows // times):
                return x.expand_dim(axis + 1, times).flatten(axis, axis + 1)
        return x.take(chosen, axis)
    trailing = [1] * (x.ndim - axis - 1)
    total: Tensor | None = None
    for k in range(index.shape[1]):
        if not np.any(weights[:, k]):
            continue
        factor = call.constant(np.ascontiguousarray(weights[:, k].astype(x.dtype.numpy)))
        part = x.take(index[:, k], axis) * factor.reshape(-1, *trailing)
        total = part if total is None else total + part
    assert total is not None
    return total


@op("Resize")
def resize(
    call: Call,
    x: Tensor,
    roi: Value = None,
    scales: Value = None,
    sizes: Value = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Return an image in another size."""
    if call.opset < 11:
        roi, scales, coordinate_transformation_mode, nearest_mode = None, roi, "asymmetric", "floor"
    if mode not in ("nearest", "linear", "cubic"):
        raise Refusal(f"the mode {mode!r} is not known")
    chosen = [axis_of(a, x.ndim) for a in (range(x.ndim) if axes is None else axes)]
    count = len(chosen)
    factors, wanted = _targets(
        call, [x.shape[axis] for axis in chosen], scales, sizes, keep_aspect_ratio_policy
    )
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    edges = np.array([0.0] * count + [1.0] * count)
    if roi is not None and crop:
        edges = call.known(roi, "roi").reshape(-1).astype(float)
    how = Sampling(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(antialias),
        bool(exclude_outside),
    )
    whole_numbers = x.dtype if not x.dtype.is_float else None
    y = x.cast("float32") if whole_numbers is not None and mode != "nearest" else x
    beyond: Tensor | None = None
    for at, axis in enumerate(chosen):
        old, factor, size = y.shape[axis], factors[at], wanted[at]
        if not crop and (factor == 1.0 if factor is not None else size == old):
            continue
        if isinstance(old, Expr) or isinstance(size, Expr):
            y = _of_any_size(call, y, axis, factor, size, how)
            continue
        new, scale = _scaled(axis, old, size, factor)
        index, weights, outside = how.taps(
            old, new, scale, (float(edges[at]), float(edges[at + count]))
        )
        y = resized(call, y, axis, index, weights)
        if outside.any():
            mask = call.constant(outside).reshape(-1, *[1] * (x.ndim - axis - 1))
            beyond = mask if beyond is None else beyond | mask
    if beyond is not None:
        y = beyond.where(extrapolation_value, y).cast(y.dtype)
    if whole_numbers is None or mode == "nearest":
        return y
    low, high = whole_numbers.limits
    return y.round().clip(float(low), float(high)).cast(whole_numbers)


def _targets(
    call: Call, old: Sequence[Dim], scales: Value, sizes: Value, policy: str
) -> tuple[list[float | None], list[Dim | None]]:
    """Return the factor and the size that each axis gets, one of them or both."""
    given = call.known(scales, "scales") if scales is not None else np.zeros(0)
    factors: list[float | None] = [None] * len(old)
    wanted: list[Dim | None] = [None] * len(old)
    if given.size:
        factors = [float(number) for number in given.reshape(-1)]
    elif sizes is not None:
        wanted = [*call.sizes(sizes, "sizes")]
    if len(factors) != len(old) or len(wanted) != len(old):
        raise Refusal(f"{max(len(factors), len(wanted))} sizes are given for {len(old)} axes")
    if policy == "stretch" or given.size:
        return factors, wanted
    before, after = whole(old, "a size"), whole([n or 0 for n in wanted], "a size")
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    share = min(ratios) if policy == "not_larger" else max(ratios)
    return [share] * len(old), [math.floor(share * a + 0.5) for a in before]


def _scaled(axis: int, old: int, size: int | None, factor: float | None) -> tuple[int, float]:
    """Return an axis's new size, and how much larger it is."""
    scale = factor if factor is not None else (size or 0) / old if old else 0.0
    if not 0 < scale < MOST_RESIZED:  # infinite, or no number
        raise Refusal(f"axis {axis} of size {old} cannot become {scale} times as large")
    new = math.floor(old * scale) if size is None else size
    if not 0 < new <= MOST_RESIZED:
        raise Refusal(f"axis {axis} of size {old} cannot become {new}")
    return new, scale


MOST_RESIZED = 1 << 16
"""The largest size of a resized axis."""


def _of_any_size(
    call: Call, x: Tensor, axis: int, factor: float | None, size: Dim | None, how: Sampling
) -> Tensor:
    """Return an axis resized whose old or new size has no number: positions are calculated."""
    old = x.shape[axis]
    share = None if factor is None else Fraction(factor).limit_denominator(FINEST)
    if share is None and size is not None and isinstance(ratio := size // old, int):
        share = Fraction(ratio) if size == old * ratio else None
    if how.mode == "nearest" and share is not None and share.denominator == 1:
        return x.expand_dim(axis + 1, share.numerator).flatten(axis, axis + 1)
    new = old * share.numerator // share.denominator if size is None and share else size
    if new is None or how.mode == "nearest" or how.antialias or how.exclude_outside:
        raise Refusal(f"an axis of {old} is resized in the mode {how.mode}", KNOW_IT)
    width, target = (call.graph.constant(dim, "float32") for dim in (old, new))
    steps = call.graph.arange(new).cast("float32")
    back = width / target if factor is None else 1 / factor
    match how.coordinates:
        case "half_pixel" | "pytorch_half_pixel":
            at = (steps + 0.5) * back - 0.5
        case "asymmetric":
            at = steps * back
        case "align_corners":
            at = steps * ((width - 1.0) / (target - 1.0).maximum(1.0))
        case _:
            raise Refusal(f"an axis of {old} is resized with {how.coordinates}", KNOW_IT)
    trailing = [1] * (x.ndim - axis - 1)
    total: Tensor | None = None
    for place, weight in _around(at, how.mode, how.cubic):
        rows = place.clip(0.0).minimum(width - 1.0).cast("int64")
        assert weight is not None
        part = x.take(rows, axis) * weight.cast(x.dtype).reshape(-1, *trailing)
        total = part if total is None else total + part
    assert total is not None
    return total


FINEST = 1 << 16
"""The largest denominator of a factor by which a size without a number grows."""


@op("Upsample")
def upsample(
    call: Call,
    x: Tensor,
    given: Known | None = None,
    *,
    mode: str = "nearest",
    scales: Sequence[float] | None = None,
    height_scale: float | None = None,
    width_scale: float | None = None,
) -> Tensor:
    """Return an image in a larger size, as it was before `Resize`."""
    if given is None:
        numbers = scales or [1.0, 1.0, height_scale or 1.0, width_scale or 1.0]
        given = np.array(numbers, np.float32)
    return resize(
        call,
        x,
        None if call.opset >= 11 else given,
        given if call.opset >= 11 else None,
        mode={"bilinear": "linear"}.get(mode, mode),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


# -- points ----------------------------------------------------------------------------------------


def picked(x: Tensor, places: Sequence[Tensor], dims: Sequence[Dim]) -> Tensor:
    """Return the values at points: x [n, c, *dims], places d × [n, p] -> [n, c, p]."""
    flat: Tensor | None = None
    for place, size in zip(places, dims, strict=True):
        flat = place if flat is None else flat * size + place
    assert flat is not None
    rows = x.reshape((*x.shape[:2], size_of(dims)))
    index = flat.cast("int64").unsqueeze(1).expand((*x.shape[:2], flat.shape[1]))
    return rows.gather(2, index)


def _reflected(at: Tensor, low: float, span: float) -> Tensor:
    if span <= 0:
        return at * 0
    rest = (at - low).remainder(2 * span)
    return (rest > span).where(-rest + 2 * span, rest) + low


def interpolated(
    x: Tensor,
    places: Sequence[Tensor],
    mode: str = "linear",
    padding: str = "zeros",
    align: bool = True,
) -> Tensor:
    """Return values at points between positions: x [n, c, *dims], places d × [n, p] -> [n, c, p].

    Points outside are 0 in the padding "zeros", take the nearest position in "border", and are
    mirrored at the edge in "reflection".
    """
    dims = whole(x.shape[2:], "a size of the image")
    if len(dims) > MOST_SPACE:
        raise Refusal(f"images of {len(dims)} axes are not supported")
    taps = [_taps(at, size, x, mode, padding, align) for at, size in zip(places, dims, strict=True)]
    total: Tensor | None = None
    for corner in itertools.product(*taps):
        value = picked(x, [place for place, _ in corner], dims)
        for _, weight in corner:
            if weight is not None:
                value = value * weight.cast(x.dtype).unsqueeze(1)
        total = value if total is None else total + value
    assert total is not None
    return total


MOST_SPACE = 3
"""The most spatial axes of an image; each doubles what a point reads."""
Taps = list[tuple[Tensor, Tensor | None]]


def _taps(at: Tensor, size: int, x: Tensor, mode: str, padding: str, align: bool) -> Taps:
    """Return the positions of an axis that points read, and the weight of each."""
    low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
    at = at.round() if mode == "nearest" else at
    if padding == "border":
        at = at.clip(0.0, size - 1.0)
    elif padding == "reflection":
        at = _reflected(at, low, span)
    within: Taps = []
    for place, weight in _around(at, mode):
        if padding == "zeros":
            inside = ((place >= 0) & (place <= size - 1)).cast(x.dtype)
            weight = inside if weight is None else weight.cast(x.dtype) * inside
        elif padding == "reflection":
            place = _reflected(place, low, span)
        within.append((place.trunc().clip(0.0, size - 1.0), weight))
    return within


def _around(at: Tensor, mode: str, cubic: float = CUBIC) -> Taps:
    """Return the positions around points, and how much of each these have."""
    first = at.floor()
    t = at - first
    if mode == "nearest":
        return [(at, None)]
    if mode == "linear":
        return [(first, -t + 1.0), (first + 1.0, t)]
    return [
        (first - 1.0, _far(t, cubic)),
        (first, _near(t, cubic)),
        (first + 1.0, _near(-t + 1.0, cubic)),
        (first + 2.0, _far(-t + 1.0, cubic)),
    ]


def _near(t: Tensor, a: float) -> Tensor:
    return (t * (a + 2) - (a + 3)) * t * t + 1.0


def _far(t: Tensor, a: float) -> Tensor:
    t = t + 1.0
    return ((t * a - 5 * a) * t + 8 * a) * t - 4 * a


@op("GridSample")
def grid_sample(
    _: Call,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Return an image at the points of a grid, whose coordinates go from -1 to 1."""
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if kind not in ("linear", "cubic", "nearest"):
        raise Refusal(f"the mode {mode!r} is not known")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise Refusal(f"the padding {padding_mode!r} is not known")
    dims, out = whole(x.shape[2:], "a size of the image"), grid.shape[1:-1]
    points = grid.reshape((grid.shape[0], size_of(out), len(dims)))
    places: list[Tensor] = []
    for k, size in enumerate(dims):
        n = points.select(-1, len(dims) - 1 - k)
        places.append(
            (n + 1.0) * ((size - 1) / 2) if align_corners else ((n + 1.0) * size - 1.0) * 0.5
        )
    y = interpolated(x, places, kind, padding_mode, bool(align_corners))
    return y.reshape((*x.shape[:2], *out))


@op("RoiAlign")
def roi_align(
    call: Call,
    x: Tensor,
    rois: Tensor,
    images: Tensor,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Return regions of images in one size: means, or maxima, of points within each part."""
    if sampling_ratio <= 0:
        raise Refusal("sampling_ratio=0 makes the number of points depend on data")
    if coordinate_transformation_mode is None:
        coordinate_transformation_mode = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    half = coordinate_transformation_mode == "half_pixel"
    height, width = whole(x.shape[2:], "a size of the image")
    scaled = rois * spatial_scale - (0.5 if half else 0.0)
    count, n = rois.shape[0], sampling_ratio
    lines: list[Tensor] = []
    for axis, parts in ((1, output_height), (0, output_width)):
        start, end = scaled.select(1, axis), scaled.select(1, axis + 2)
        size = end - start if half else (end - start).clip(1.0)
        steps = call.constant(
            ((np.arange(parts * n) // n) + (np.arange(parts * n) % n + 0.5) / n).astype(
                rois.dtype.numpy
            )
        )
        lines.append(start.unsqueeze(1) + (size * (1 / parts)).unsqueeze(1) * steps)
    ys, xs = lines
    rows, columns = output_height * n, output_width * n
    y = ys.unsqueeze(2).expand((count, rows, columns)).flatten(1, 2)
    z = xs.unsqueeze(1).expand((count, rows, columns)).flatten(1, 2)
    chosen = x.take(images.cast("int64"), 0)
    inside = (y >= -1.0) & (y <= height) & (z >= -1.0) & (z <= width)
    taps: list[list[tuple[Tensor, Tensor]]] = []
    for at, size in ((y, height), (z, width)):
        at = at.clip(0.0, size - 1.0)
        first = at.floor()
        t = at - first
        taps.append([(first, -t + 1.0), ((first + 1.0).clip(0.0, size - 1.0), t)])
    parts_: list[Tensor] = []
    for (a, wa), (b, wb) in itertools.product(*taps):
        value = picked(chosen, [a, b], (height, width))
        parts_.append(value * (wa * wb * inside.cast(x.dtype)).unsqueeze(1))
    total = parts_[0]
    for part in parts_[1:]:
        total = total + part if mode == "avg" else total.maximum(part)
    total = total.reshape((count, x.shape[1], output_height, n, output_width, n))
    return total.mean((3, 5)) if mode == "avg" else total.amax((3, 5))


@op("DeformConv")
def deform_conv(
    call: Call,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    offset_group: int = 1,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return a convolution whose positions are moved by an offset each."""
    if x.ndim != 4:
        raise Refusal(f"images of {x.ndim - 2} axes are not supported")
    kernel = whole(w.shape[2:], "a size of the kernel")
    steps, gaps, pairs = each(strides, 2), each(dilations, 2), list(pads or [0] * 4)
    batch, channels = x.shape[:2]
    out = whole(offset.shape[2:], "a size of the offsets")
    points = math.prod(kernel)
    moved = offset.reshape((batch * offset_group, points, 2, *out))
    places: list[Tensor] = []
    for k in range(2):
        own = np.arange(kernel[k]) * gaps[k]
        own = (own[:, None] if k == 0 else own[None, :]) + np.zeros(kernel)
        base = np.arange(out[k]) * steps[k] - pairs[k]
        base = (base[:, None] if k == 0 else base[None, :]) + np.zeros(out)
        fixed = (own.reshape(points, 1, 1) + base).astype(x.dtype.numpy)
        places.append(
            (moved.select(2, k) + call.constant(np.ascontiguousarray(fixed))).flatten(1, -1)
        )
    parts = channels // offset_group
    y = interpolated(x.reshape((batch * offset_group, parts, *x.shape[2:])), places)
    y = y.reshape((batch, offset_group, parts, points, *out))
    if mask is not None:
        y = y * mask.reshape((batch, offset_group, 1, points, *out))
    rows = y.reshape((batch, group, channels // group * points, size_of(out)))
    weights = w.reshape((group, w.shape[0] // group, w.shape[1] * points))
    result = weights.matmul(rows).reshape((batch, w.shape[0], *out))
    return result if bias is None else result + bias.reshape(-1, 1, 1)
