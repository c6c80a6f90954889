"""Pools: windows of positions, each of which becomes one number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from luminal_lab.core.dims import Dim, Expr
from luminal_lab.importing.onnx_ops.movement import size_of
from luminal_lab.importing.onnx_ops.product import Ints, each, margins
from luminal_lab.importing.onnx_ops.table import Call, Refusal, Sizes, op, whole
from luminal_lab.tensor import Tensor


class Pool:
    """The windows of a pool: how many there are, and the margins that these need."""

    def __init__(
        self,
        x: Tensor,
        kernel: Ints,
        strides: Ints | None,
        dilations: Ints | None,
        pads: Ints | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        count = x.ndim - 2
        if len(kernel) != count:
            raise Refusal(f"the kernel {list(kernel)} does not fit {count} spatial axes")
        self.kernel = each(kernel, count)
        self.steps, self.gaps = each(strides, count), each(dilations, count)
        self.pads = margins(x.shape[2:], kernel, self.steps, self.gaps, pads, auto_pad)
        self.margins: list[tuple[Dim, Dim]] = []
        for k, (before, after) in enumerate(self.pads):
            size, step = x.shape[2 + k], self.steps[k]
            span = (self.kernel[k] - 1) * self.gaps[k] + 1
            wide = size + before + after
            more: Dim = 0
            if ceil_mode:
                windows = (wide - span + step - 1) // step + 1
                inside = (size + before + step - 1) // step  # that begin before the end
                if isinstance(windows, Expr) or isinstance(inside, Expr):
                    raise Refusal("ceil_mode over a dim without a number is not supported")
                more = max(0, (min(windows, inside) - 1) * step + span - int(wide))  # pyright: ignore[reportArgumentType]  # a number
            self.margins.append((before, after + more))

    def windows(
        self, x: Tensor, fill: float, pads: Sequence[tuple[Dim, Dim]] | None = None
    ) -> Tensor:
        """Return x with its windows as axes behind the others."""
        chosen = self.margins if pads is None else pads
        return x.windows(
            "pool", tuple(self.kernel), tuple(self.steps), tuple(self.gaps), list(chosen), fill
        )

    def axes(self, x: Tensor) -> tuple[int, ...]:
        """Return the axes of a window."""
        return tuple(range(x.ndim, x.ndim + len(self.kernel)))


@op("MaxPool")
def max_pool(
    call: Call,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int = 0,
    strides: Ints | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest value of each window, and where it is."""
    pool = Pool(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    least = -math.inf if x.dtype.is_float else x.dtype.limits[0]
    seen = pool.windows(x, least)
    values = seen.amax(pool.axes(x))
    if call.outputs < 2:
        return values
    space = x.shape[2:]
    order = list(range(len(space)))
    step: Dim = 1
    places: Tensor | None = None
    for k in order if storage_order else reversed(order):
        line = call.graph.arange(space[k]).reshape(space[k], *[1] * (len(space) - 1 - k))
        part = line * step
        places = part if places is None else places + part
        step = step * space[k]
    assert places is not None
    each_image = call.graph.arange(size_of(x.shape[:2])).reshape((*x.shape[:2], *[1] * len(space)))
    places = each_image * size_of(space) + places
    where = pool.windows(places, -1).flatten(x.ndim, -1)
    best = seen.flatten(x.ndim, -1).argmax(-1, keepdim=True)
    return values, where.gather(x.ndim, best).squeeze(-1)


@op("AveragePool")
def average_pool(
    _: Call,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the mean of each window, of what is inside, or of its margins as well."""
    pool = Pool(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = pool.windows(x, 0).sum(pool.axes(x))
    if all(pair == (0, 0) for pair in pool.margins):
        return total * (1 / math.prod(pool.kernel))
    ones = x.constant(1.0, x.dtype, (1, 1, *x.shape[2:]))
    if count_include_pad:
        ones = ones.pad([(0, 0), (0, 0), *pool.pads], 1.0)
        extra = [(0, b - d) for (_, b), (_, d) in zip(pool.margins, pool.pads, strict=True)]
        counts = pool.windows(ones, 0, extra)
    else:
        counts = pool.windows(ones, 0)
    return total / counts.sum(pool.axes(x))


@op("LpPool")
def lp_pool(
    _: Call,
    x: Tensor,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    p: float = 2,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the norm of each window."""
    pool = Pool(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    powers = x.abs().pow(int(p) if p == int(p) else p)
    return pool.windows(powers, 0).sum(pool.axes(x)).pow(1 / p)


@op("MaxUnpool")
def max_unpool(
    _: Call,
    x: Tensor,
    places: Tensor,
    size: Sizes | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return values put back at the places that a pool has told, among zeros."""
    count = x.ndim - 2
    steps, pairs = each(strides, count), list(pads or [0] * (2 * count))
    own = [
        (length - 1) * step - pairs[k] - pairs[k + count] + kernel_shape[k]
        for k, (length, step) in enumerate(zip(x.shape[2:], steps, strict=True))
    ]
    # Places count within the size that follows from the pool, whatever the output's is.
    whole_shape = (*x.shape[:2], *own)
    flat = x.constant(0.0 if x.dtype.is_float else 0, x.dtype, (size_of(whole_shape),))
    done = flat.scatter(0, places.flatten().cast("int64"), x.flatten()).reshape(whole_shape)
    if size is None:
        return done
    wanted = whole(size, "a size")
    for axis, (old, new) in enumerate(zip(whole(done.shape, "a size"), wanted, strict=True)):
        done = done.narrow(axis, 0, new) if new < old else done.pad_along(axis, 0, new - old)
    return done
