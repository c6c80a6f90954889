"""Products: matrices, convolutions, and integers that stand for numbers."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dims import Dim, maximum
from luminal_lab.importing.onnx_ops.activation import per_channel
from luminal_lab.importing.onnx_ops.arithmetic import beside
from luminal_lab.importing.onnx_ops.movement import sliced
from luminal_lab.importing.onnx_ops.table import Call, Refusal, Sizes, op, whole
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.product import einsum

Ints = Sequence[int]


@op("MatMul")
def matmul(_: Call, x: Tensor, y: Tensor) -> Tensor:
    """Return the product of matrices."""
    return x.matmul(y)


@op("Gemm")
def gemm(
    call: Call,
    x: Tensor,
    y: Tensor,
    z: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803  # ONNX's name
    transB: int = 0,  # noqa: N803  # likewise
    broadcast: int | None = None,
) -> Tensor:
    """Return alpha · x · y + beta · z."""
    product = (x.mT if transA else x).matmul(y.mT if transB else y)
    if alpha != 1:
        product = (product * alpha).cast(x.dtype)
    if z is None or beta == 0:
        return product
    added = z if beta == 1 else (z * beta).cast(z.dtype)
    return product + beside(call, product, added, broadcast, None)


@op("Einsum")
def contraction(_: Call, *xs: Tensor, equation: str) -> Tensor:
    """Return sums of products, whose axes are letters."""
    return einsum(equation.replace(" ", ""), *xs)


def margins(
    sizes: Sequence[Dim],
    kernel: Sequence[Dim],
    steps: Ints,
    gaps: Ints,
    pads: Ints | None,
    auto_pad: str,
) -> list[tuple[Dim, Dim]]:
    """Return the margins of spatial axes, as they are given or by a rule."""
    count = len(sizes)
    if auto_pad in ("NOTSET", "") and pads is not None:
        if len(pads) != 2 * count:
            raise Refusal(f"{len(pads)} margins are given for {count} axes")
        return [(pads[k], pads[k + count]) for k in range(count)]
    if auto_pad in ("NOTSET", "", "VALID"):
        return [(0, 0)] * count
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise Refusal(f"auto_pad={auto_pad!r} is not known")
    found: list[tuple[Dim, Dim]] = []
    for size, width, step, gap in zip(sizes, kernel, steps, gaps, strict=True):
        out = (size + step - 1) // step
        total = maximum(0, (out - 1) * step + (width - 1) * gap + 1 - size)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return found


def each(given: Ints | None, count: int) -> list[int]:
    """Return a number for each spatial axis, 1 by default."""
    numbers = [1] * count if given is None else list(given)
    if len(numbers) != count or min(numbers, default=1) < 1:
        raise Refusal(f"{numbers} is no list of {count} numbers of 1 or more")
    return numbers


def padded(x: Tensor, pairs: Sequence[tuple[Dim, Dim]], value: float = 0) -> Tensor:
    """Return x with margins on its spatial axes; negative ones cut."""
    for axis, (before, after) in enumerate(pairs, 2):
        cut = [-w if isinstance(w, int) and w < 0 else 0 for w in (before, after)]
        if any(cut):
            x = x.slice_along(axis, cut[0], x.shape[axis] - cut[1])
    kept = [tuple(0 if isinstance(w, int) and w < 0 else w for w in pair) for pair in pairs]
    if all(pair == (0, 0) for pair in kept):
        return x
    return x.pad([(0, 0), (0, 0), *kept], value)


def convolved(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    *,
    auto_pad: str,
    dilations: Ints | None,
    group: int,
    pads: Ints | None,
    strides: Ints | None,
) -> Tensor:
    """Return a convolution over any number of spatial axes."""
    count = x.ndim - 2
    steps, gaps = each(strides, count), each(dilations, count)
    pairs = margins(x.shape[2:], w.shape[2:], steps, gaps, pads, auto_pad)
    even = all(a == b and isinstance(a, int) and a >= 0 for a, b in pairs)
    if not even:
        x = padded(x, pairs)
    sides: list[int] = [a for a, _ in pairs] if even else [0] * count  # pyright: ignore[reportAssignmentType]  # numbers
    return x.conv(w, bias, steps, sides, gaps, group)


@op("Conv")
def conv(
    _: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return a convolution."""
    return convolved(
        x, w, bias, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides
    )


@op("ConvTranspose")
def conv_transpose(
    _: Call,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the transpose of a convolution: all of it, then cut to the size that is wanted."""
    count = x.ndim - 2
    steps, gaps = each(strides, count), each(dilations, count)
    more = list(output_padding or [0] * count)
    full = x.conv_transpose(w, None, steps, 0, 0, group, gaps)
    for k in range(count):
        size = full.shape[2 + k] + more[k]
        if output_shape is not None:
            total = size - output_shape[k - count]
        elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            total = size - x.shape[2 + k] * steps[k]
        else:
            total = None
        if total is None:
            before, after = (pads[k], pads[k + count]) if pads else (0, 0)
        else:
            small = total // 2
            before, after = total - small, small
            if auto_pad == "SAME_UPPER":
                before, after = after, before
        extra = more[k]
        if extra:
            full = full.pad_along(2 + k, 0, extra)
        if isinstance(before, int) and before < 0:
            full, before = full.pad_along(2 + k, -before, 0), 0
        if isinstance(after, int) and after < 0:
            full, after = full.pad_along(2 + k, 0, -after), 0
        full = sliced(full, 2 + k, before, full.shape[2 + k] - after, 1)
    return full if bias is None else full + per_channel(bias, full)


# -- integers that stand for numbers ---------------------------------------------------------------


def _less(x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Return integers of 32 bits, without their zero point: one number, or one a row or column."""
    wide = x.cast("int32")
    if zero is None:
        return wide
    less = zero.cast("int32")
    if less.ndim == 1 and x.ndim > 1:
        less = less.reshape(-1, *[1] * (-axis - 1)) if less.shape[0] != 1 else less.reshape(())
    return wide - less


@op("MatMulInteger")
def matmul_integer(
    _: Call, x: Tensor, y: Tensor, x_zero: Tensor | None = None, y_zero: Tensor | None = None
) -> Tensor:
    """Return the product of integer matrices, in 32 bits."""
    return _less(x, x_zero, -2).matmul(_less(y, y_zero, -1))


@op("ConvInteger")
def conv_integer(
    _: Call,
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the convolution of integers, in 32 bits."""
    return convolved(
        _less(x, x_zero, -1),
        _less(w, w_zero, -w.ndim),
        None,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )


def requantised(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Return numbers as integers again: rounded, moved to the zero point, and within limits."""
    low, high = zero.dtype.limits
    moved = (total * factor).round() + zero.cast(factor.dtype)
    return moved.clip(float(low), float(high)).cast(zero.dtype)


def _along(value: Tensor, axis: int) -> Tensor:
    """Return one number, or one for each position of an axis counted from the end."""
    if value.ndim == 1 and value.shape[0] != 1:
        return value.reshape(-1, *[1] * (-axis - 1))
    return value.reshape(()) if value.ndim < 2 else value


@op("QLinearMatMul")
def qlinear_matmul(
    _: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
) -> Tensor:
    """Return the product of quantised matrices, quantised."""
    product = _less(x, x_zero, -2).matmul(_less(y, y_zero, -1)).cast("float32")
    factor = _along(x_scale.cast("float32"), -2) * _along(y_scale.cast("float32"), -1)
    return requantised(product, factor / _along(scale.cast("float32"), -2), _along(zero, -2))


@op("QLinearConv")
def qlinear_conv(
    _: Call,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    scale: Tensor,
    zero: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return the convolution of quantised values, quantised."""
    total = convolved(
        _less(x, x_zero.reshape(()), -1),
        _less(w, w_zero, -w.ndim),
        bias,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    own = _along(w_scale, -(total.ndim - 1))
    return requantised(
        total.cast("float32"), x_scale.reshape(()) * own / scale.reshape(()), zero.reshape(())
    )


MOST_ROWS = 1 << 10
"""The most rows of a block, each of which is added up by itself."""


@op("Col2Im")
def col2im(
    _: Call,
    x: Tensor,
    image: Sizes,
    block: Sizes,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:
    """Return blocks put back at their places, with what overlaps added up."""
    sizes, kernel = whole(image, "a size of the image"), whole(block, "a size of a block")
    count = len(sizes)
    if len(kernel) != count or sum(kernel) > MOST_ROWS:
        raise Refusal(f"blocks of {kernel} are too many, or do not fit {sizes}")
    steps, gaps = each(strides, count), each(dilations, count)
    pairs = list(pads or [0] * (2 * count))
    wide = [size + pairs[k] + pairs[k + count] for k, size in enumerate(sizes)]
    spots = [
        (size - (width - 1) * gap - 1) // step + 1
        for size, width, gap, step in zip(wide, kernel, gaps, steps, strict=True)
    ]
    batch, rows = x.shape[0], x.shape[1]
    channels = rows
    for width in kernel:
        channels = channels // width
    y = x.reshape((batch, channels, *kernel, *spots))
    # Each axis in turn: [kernel, spots] become one axis of the image.
    for k in range(count):
        at = 2 + k  # done axes come first, then kernels, then spots
        left = count - k
        total: Tensor | None = None
        for offset in range(kernel[k]):
            part = y.select(at, offset)
            spot = at + left - 1
            if steps[k] > 1:
                part = part.unsqueeze(spot + 1).pad_along(spot + 1, 0, steps[k] - 1)
                part = part.flatten(spot, spot + 1)
            length = part.shape[spot]
            first = offset * gaps[k]
            assert isinstance(length, int)
            over = first + length - wide[k]
            if over > 0:
                part, length = part.narrow(spot, 0, length - over), length - over
            part = part.pad_along(spot, first, wide[k] - first - length)
            total = part if total is None else total + part
        assert total is not None
        y = total.movedim(at + left - 1, at)
    for k in range(count):
        y = y.narrow(2 + k, pairs[k], sizes[k])
    return y
