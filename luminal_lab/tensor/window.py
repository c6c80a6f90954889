"""Sliding windows over any number of spatial axes: convolution, pooling, patches, resizing.

Values are [batch, channels, *spatial]. No patch is copied: windows are views, and results are
sums of products (`contract`), sums or maxima over the axes within each window.
"""

from __future__ import annotations

# The functions of this file use private members of its class.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import (
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from luminal_lab.core.dims import Dim, Expr, Shape, maximum, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Reduce, Scalar, never, size_of, tuple_text
from luminal_lab.core.ops import Gather, MaxReduce, SumReduce, Window
from luminal_lab.errors import ShapeError, nearest
from luminal_lab.tensor import formulas
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import number, widened
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.operation import operation
from luminal_lab.tensor.product import contract
from luminal_lab.tensor.statistics import Statistics

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Windowed")
Sizes: TypeAlias = int | Sequence[int]
Resized: TypeAlias = int | Sequence[int | None] | None
Steps: TypeAlias = tuple[int, ...]
Margins: TypeAlias = list[tuple[Dim, Dim]]

MODES = ("nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area")
CUBIC = -0.75  # the slope that PyTorch's bicubic kernel has


def over(count: int, method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Return a method for exactly `count` spatial axes; the batch axis may be left out."""
    name = f"{method.__name__}{count}d"

    @wraps(method)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._check_rank(name, count + 1, count + 2)
        if self.ndim == count + 2:
            return method(self, *args, **kwargs)
        result: Any = method(self.unsqueeze(0), *args, **kwargs)
        if isinstance(result, tuple):
            return tuple(part.squeeze(0) for part in cast("tuple[Any, ...]", result))  # pyright: ignore[reportReturnType]  # of the same kind
        return result.squeeze(0)

    call.__name__, call.__qualname__ = name, f"Windowed.{name}"
    axes = f"{count} spatial axes" if count > 1 else "one spatial axis"
    call.__doc__ = f"Return `{method.__name__}` over {axes}; the batch axis may be left out."
    return operation(call)


def each(what: str, count: int, **options: Sizes) -> list[tuple[int, ...]]:
    """Return a whole number per spatial axis for each option."""
    rows: list[tuple[int, ...]] = []
    for name, value in options.items():
        given = value if isinstance(value, Sequence) else (value,)
        if len(given) not in (1, count):
            raise ShapeError(
                f"{what}: the {name} is {value!r}, but there are {count} spatial axes",
                hint="give one number, or one for each of them",
            )
        numbers = [whole(f"{what}: the {name}", n, 0 if "padding" in name else 1) for n in given]
        rows.append(tuple(numbers) * (count // len(given)))
    return rows


class Windowed(Statistics):
    """Windows that slide along the spatial axes, those after batch and channels."""

    __slots__ = ()

    # -- what they share ---------------------------------------------------------------------------

    def _spatial(self, what: str) -> tuple[str, int]:
        """Return an operation's name with the number of spatial axes, and that number."""
        if self.ndim < 3:
            raise ShapeError(
                f"{what}: {self.label} has no spatial axes",
                hint="they follow batch and channels",
            )
        return f"{what}{self.ndim - 2}d", self.ndim - 2

    def windows(
        self, what: str, sizes: Shape, steps: Steps, gaps: Steps, margins: Margins, fill: Scalar = 0
    ) -> Self:
        """Return a view of all windows, with the axes within a window last.

        >>> x = cx.tensor((1, 2, 6))
        >>> x.windows("conv", (3,), (1,), (1,), [(1, 1)]).shape
        (1, 2, 6, 3)
        """
        x = self.pad(((0, 0), (0, 0), *margins), fill)
        for axis, (size, step, gap) in enumerate(zip(sizes, steps, gaps, strict=True), 2):
            span, length = (size - 1) * gap + 1, x.shape[axis]
            if never(size >= 1) or never(span <= length):
                raise ShapeError(
                    f"{what}: the kernel spans {span} on axis {axis}, but padded {self.label} has "
                    f"{length}",
                    hint="use a smaller kernel or dilation, or more padding",
                )
            x = x._apply(Window(axis, size, step, gap))
        return x

    # -- convolution -------------------------------------------------------------------------------

    @operation
    def conv(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Self:
        """Return the convolution with kernels [out, channels / groups, *kernel], not flipped.

        The padding is a number, one for each spatial axis, "valid" (none) or "same".

        >>> x, w = cx.tensor((1, 2, 6), name="x"), cx.tensor((4, 2, 3), name="w")
        >>> print(x.conv(w).lowering())
        %2 = window{axis = 2, size = 3, stride = 1, dilation = 1} %x : f32[1, 2, 4, 3]
        %3 = permute{axes = [0, 2, 1, 3]} %2 : f32[1, 4, 2, 3]
        %4 = reshape{shape = [1, 1, 4, 2, 3]} %3 : f32[1, 1, 4, 2, 3]
        %5 = expand{shape = [1, 4, 4, 2, 3]} %4 : f32[1, 4, 4, 2, 3]
        %6 = reshape{shape = [1, 4, 1, 2, 3]} %w : f32[1, 4, 1, 2, 3]
        %7 = expand{shape = [1, 4, 4, 2, 3]} %6 : f32[1, 4, 4, 2, 3]
        %8 = mul %5, %7 : f32[1, 4, 4, 2, 3]
        %9 = sum_reduce{axis = 4} %8 : f32[1, 4, 4, 2, 1]
        %10 = sum_reduce{axis = 3} %9 : f32[1, 4, 4, 1, 1]
        %11 = reshape{shape = [1, 4, 4]} %10 : f32[1, 4, 4]
        """
        what, count = self._spatial("conv")
        w = self.other(what, weight, count + 2)
        steps, gaps = each(what, count, stride=stride, dilation=dilation)
        margins: Margins = [(0, 0)] * count
        if padding == "same":
            if max(steps) > 1:
                raise ShapeError(
                    f"{what}: the padding is 'same' and the stride {tuple_text(steps)}",
                    hint="'same' needs a stride of 1; give the padding in numbers",
                )
            spans = [(size - 1) * gap for size, gap in zip(w.shape[2:], gaps, strict=True)]
            margins = [(span // 2, span - span // 2) for span in spans]
        elif padding != "valid":
            if isinstance(padding, str):
                raise ShapeError(
                    f"{what}: there is no padding {padding!r}",
                    hint=nearest(padding, ("same", "valid")) or "'same', 'valid', or numbers",
                )
            margins = [(n, n) for n in each(what, count, padding=padding)[0]]
        groups = whole(f"{what}: the number of groups", groups, 1)
        x = self.windows(what, w.shape[2:], steps, gaps, margins)
        group, x, v = self._grouped(what, x, w, groups, w.shape[1] * groups, w.shape[0])
        space, kernel = [f"s{k}" for k in range(count)], [f"k{k}" for k in range(count)]
        result = contract(
            what,
            ["b", *group, "o", *space],
            (x, ["b", *group, "c", *space, *kernel]),
            (v, [*group, "o", "c", *kernel]),
            wide=True,
        )
        result = result.flatten(1, 2) if group else result
        return result._biased(what, bias, (1,), self, w)

    conv1d, conv2d, conv3d = over(1, conv), over(2, conv), over(3, conv)

    def _grouped(
        self, what: str, x: Self, w: Self, groups: int, wanted: Dim, divided: Dim
    ) -> tuple[list[str], Self, Self]:
        """Return both factors with an axis of groups, and its label, if there are several."""
        if self.shape[1] != wanted:
            raise ShapeError(
                f"{what}: {self.label} has {self.shape[1]} channels, but with groups={groups} the "
                f"weight {w.label} is for {wanted}",
                hint="check the order of the axes: x is [batch, channels, *spatial]",
            )
        if divided % groups != 0:
            raise ShapeError(
                f"{what}: {groups} groups do not divide {divided} channels evenly: the weight is "
                f"{w.label}",
                hint="use a number of groups that divides the channels on both sides",
            )
        if groups == 1:
            return [], x, w
        return ["g"], x.unflatten(1, (groups, -1)), w.unflatten(0, (groups, -1))

    @operation
    def conv_transpose(
        self,
        weight: Operand,
        bias: Operand | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Self:
        """Return the convolution's transpose with kernels [channels, out / groups, *kernel].

        Each position is multiplied by the kernel, and results at the same position are added up.

        >>> x, w = cx.tensor((1, 2, 6), name="x"), cx.tensor((2, 4, 3), name="w")
        >>> x.conv_transpose(w, stride=2).op_counts()
        {'expand': 2, 'mul': 1, 'pad': 2, 'permute': 2, 'reshape': 8, 'slice': 2, 'sum_reduce': 2}
        """
        what, count = self._spatial("conv_transpose")
        w = self.other(what, weight, count + 2)
        steps, gaps, pads, more = each(
            what,
            count,
            stride=stride,
            dilation=dilation,
            padding=padding,
            output_padding=output_padding,
        )
        if any(extra >= max(both) for extra, *both in zip(more, steps, gaps, strict=True)):
            raise ShapeError(
                f"{what}: the output_padding {tuple_text(more)} is not smaller than the stride "
                f"{tuple_text(steps)} or the dilation {tuple_text(gaps)}",
                hint="use a smaller output_padding, or none",
            )
        groups = whole(f"{what}: the number of groups", groups, 1)
        group, x, v = self._grouped(what, self, w, groups, w.shape[0], self.shape[1])
        space, kernel = [f"s{k}" for k in range(count)], [f"k{k}" for k in range(count)]
        pairs = [label for pair in zip(kernel, space, strict=True) for label in pair]
        spread = contract(
            what,
            ["b", *group, "o", *pairs],
            (x, ["b", *group, "c", *space]),
            (v, [*group, "c", "o", *kernel]),
            wide=True,
        )
        spread = spread.flatten(1, 2) if group else spread
        wanted = tuple(
            (length - 1) * step + (size - 1) * gap + 1 + extra - 2 * pad
            for length, step, size, gap, extra, pad in zip(
                self.shape[2:], steps, w.shape[2:], gaps, more, pads, strict=True
            )
        )
        if any(never(size >= 0) for size in wanted):
            raise ShapeError(
                f"{what}: with the padding {tuple_text(pads)} the output of {self.label} would be "
                f"{tuple_text(wanted)}",
                hint="use less padding",
            )
        result = spread._overlapped(wanted, steps, gaps, pads)
        return result._biased(what, bias, (1,), self, w)

    conv_transpose1d, conv_transpose2d = over(1, conv_transpose), over(2, conv_transpose)
    conv_transpose3d = over(3, conv_transpose)

    def _overlapped(
        self, wanted: Shape, steps: Sequence[int], gaps: Sequence[int], pads: Sequence[int]
    ) -> Self:
        """Return windows, whose axes are [b, c, kernel, space, kernel, space, ...], added up.

        Windows that are no longer than the steps between them stand side by side. Otherwise rows of
        windows are shifted against each other by reading them with a shorter row length.
        """
        x, forms = self, zip(wanted, steps, gaps, pads, strict=True)
        for axis, (size, step, gap, pad) in enumerate(forms, 2):
            kernel, length = x.shape[axis : axis + 2]
            if isinstance(kernel, int) and kernel <= step and (gap == 1 or kernel == 1):
                x = x.transpose(axis, axis + 1).pad_along(axis + 1, 0, step - kernel)
                x = x.flatten(axis, axis + 1)
                x = x.pad_along(axis, 0, maximum(0, pad + size - length * step))
                x = x._cut({axis: (pad, pad + size, 1)})
                continue
            if step > 1:  # zeros between the positions
                x = x.unsqueeze(axis + 2).pad_along(axis + 2, 0, step - 1)
                x = x.flatten(axis + 1, axis + 2)
            kernel, length = x.shape[axis : axis + 2]
            row = maximum(length + (kernel - 1) * gap, pad + size)
            x = x.pad_along(axis + 1, 0, row + gap - length).flatten(axis, axis + 1)
            x = x._cut({axis: (0, kernel * row, 1)}).unflatten(axis, (kernel, row))
            x = x._reduced(SumReduce, (axis,), False)._cut({axis: (pad, pad + size, 1)})
        return x

    # -- patches -----------------------------------------------------------------------------------

    @operation
    def patches(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> Self:
        """Return every window as a column: [batch, channels * kernel, windows].

        >>> cx.tensor((1, 3, 8, 8)).patches(2).shape
        (1, 12, 49)
        """
        what, count = "patches", self._spatial("patches")[1]
        sizes, gaps, steps, pads = each(
            what, count, kernel_size=kernel_size, dilation=dilation, stride=stride, padding=padding
        )
        margins: Margins = [(pad, pad) for pad in pads]
        x = self.windows(what, sizes, steps, gaps, margins)
        space, kernel = range(2, 2 + count), range(2 + count, 2 + 2 * count)
        columns = size_of(x.shape[2 : 2 + count])
        x = x.permute(0, 1, *kernel, *space)
        return x.reshape(x.shape[0], x.shape[1] * math.prod(sizes), columns)

    unfold2d = over(2, patches)

    @operation
    def fold(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> Self:
        """Return an image from the columns of `unfold2d`, adding up overlaps.

        >>> cx.tensor((1, 12, 49)).fold((8, 8), 2).shape
        (1, 3, 8, 8)
        """
        self._check_rank("fold", 2, 3)
        count = len(output_size) if isinstance(output_size, Sequence) else 2
        wanted, sizes, gaps, pads, steps = each(
            "fold",
            count,
            output_size=output_size,
            kernel_size=kernel_size,
            dilation=dilation,
            padding=padding,
            stride=stride,
        )
        space = [
            (out + 2 * pad - (size - 1) * gap - 1) // step + 1
            for out, size, gap, pad, step in zip(wanted, sizes, gaps, pads, steps, strict=True)
        ]
        rows, columns = self.shape[-2:]
        if rows % math.prod(sizes) != 0 or columns != math.prod(space) or min(space) < 1:
            raise ShapeError(
                f"fold: {self.label} does not hold columns of {tuple_text(sizes)} kernels from "
                f"{tuple_text(space)} places",
                hint="it is [batch, channels * kernel, places], as unfold2d makes it",
            )
        x = self if self.ndim == 3 else self.unsqueeze(0)
        x = widened(x).reshape(x.shape[0], rows // math.prod(sizes), *sizes, *space)
        x = x.permute(0, 1, *(axis for k in range(count) for axis in (2 + k, 2 + count + k)))
        x = x._overlapped(wanted, steps, gaps, pads).cast(self.dtype)
        return x if self.ndim == 3 else x.squeeze(0)

    # -- pooling -----------------------------------------------------------------------------------

    def _pooling(
        self,
        what: str,
        kernel: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
    ) -> Pooling:
        what, count = self._spatial(what)
        stride = kernel if stride is None or stride == () else stride
        sizes, steps, pads, gaps = each(
            what, count, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation
        )
        margins: Margins = []
        for length, size, step, gap, pad in zip(
            self.shape[2:], sizes, steps, gaps, pads, strict=True
        ):
            span = (size - 1) * gap + 1
            if 2 * pad > span:
                raise ShapeError(
                    f"{what}: the padding {pad} is more than half of what the kernel spans, {span}",
                    hint="use less padding, or pad() before",
                )
            spare, extra = length + 2 * pad - span, 0
            if ceil_mode:  # the last window may reach beyond the padding, but not start there
                last = minimum((spare + step - 1) // step, (length + pad - 1) // step)
                extra = maximum(last * step - spare, 0)
            margins.append((pad, pad + extra))
        return Pooling(what, sizes, steps, gaps, pads, margins)

    @overload
    def max_pool(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Self: ...
    @overload
    def max_pool(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> tuple[Self, Self]: ...
    @operation
    def max_pool(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Self | tuple[Self, Self]:
        """Return the largest value of each window; padding never wins.

        On request with its position, counted in row-major order over the spatial axes.

        >>> print(cx.tensor((1, 2, 6), name="x").max_pool(2).lowering())
        %1 = window{axis = 2, size = 2, stride = 2, dilation = 1} %x : f32[1, 2, 3, 2]
        %2 = max_reduce{axis = 3} %1 : f32[1, 2, 3, 1]
        %3 = reshape{shape = [1, 2, 3]} %2 : f32[1, 2, 3]
        """
        pooling = self._pooling("max_pool", kernel_size, stride, padding, dilation, ceil_mode)
        values = pooling.reduce(self, MaxReduce, self._least)
        if not return_indices:
            return values
        space = self.shape[2:]
        at = self._iota(size_of(space), DType.int64)._viewed((1, 1, *space))
        windows = [
            x.windows(
                pooling.what, pooling.sizes, pooling.steps, pooling.gaps, pooling.margins, fill
            )
            for x, fill in ((self, self._least), (at, -1))
        ]
        mine, places = (x.flatten(self.ndim) for x in windows)
        return values, mine._first_place(places._stretch(mine.shape), values.unsqueeze(-1))

    def _first_place(self, places: Self, extreme: Self) -> Self:
        """Return the first place of an extreme along the last axis, or as PyTorch the last NaN.

        Places below 0 are padding.
        """
        size = self.shape[-1]
        order = self._iota(size, DType.int64)
        ahead = (self.eq(extreme) & (places > -1)).where(-order + (size - 1), -1)
        if self.dtype.is_float:
            ahead = self.isnan().where(order + size, ahead)
        best = ahead.amax(-1, True)
        chosen = (best < size).where(-best + (size - 1), best - size)
        return places.gather(-1, chosen.clip(0, size - 1)).squeeze(-1)

    @operation
    def max_unpool(
        self,
        indices: Operand,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Self:
        """Return zeros with these values at the positions that `max_pool` returned.

        >>> x = cx.tensor((1, 1, 4)).set([[[1, 5, 7, 3]]])
        >>> values, places = x.max_pool(2, return_indices=True)
        >>> y = values.max_unpool(places, 2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[0.0, 5.0, 7.0, 0.0]]]
        """
        what, count = self._spatial("max_unpool")
        at = self._tensor_of(indices)
        at = at.unsqueeze(0) if at.ndim == self.ndim - 1 else at
        if at.shape != self.shape or at.dtype.kind != "int":
            raise ShapeError(
                f"{what}: the indices {at.label} of {at.dtype} are not a place for each value of "
                f"{self.label}",
                hint="give what max_pool returned with return_indices=True",
            )
        step = kernel_size if stride is None or stride == () else stride
        sizes, steps, pads = each(
            what, count, kernel_size=kernel_size, stride=step, padding=padding
        )
        wanted = tuple(
            (length - 1) * by + size - 2 * pad
            for length, size, by, pad in zip(self.shape[2:], sizes, steps, pads, strict=True)
        )
        if output_size is not None:
            wanted = tuple(self.graph.as_dim(size) for size in list(output_size)[-count:])
        flat = self.constant(0, self.dtype, (*self.shape[:2], size_of(wanted)))
        values, places = self.flatten(2), at.flatten(2)
        done = flat._scatter(what, "set", 2, places, values)._spells("unpooled", values, places)
        return done._viewed((*self.shape[:2], *wanted))

    max_unpool1d, max_unpool2d, max_unpool3d = (
        over(1, max_unpool),
        over(2, max_unpool),
        over(3, max_unpool),
    )

    @operation
    def avg_pool(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Self:
        """Return the mean of each window.

        >>> print(cx.tensor((1, 2, 6), name="x").avg_pool(2).lowering())
        %1 = window{axis = 2, size = 2, stride = 2, dilation = 1} %x : f32[1, 2, 3, 2]
        %2 = sum_reduce{axis = 3} %1 : f32[1, 2, 3, 1]
        %3 = reshape{shape = [1, 2, 3]} %2 : f32[1, 2, 3]
        %4 = constant{value = 0.5} : f32[1, 2, 3]
        %5 = mul %3, %4 : f32[1, 2, 3]
        """
        pooling = self._pooling("avg_pool", kernel_size, stride, padding, 1, ceil_mode)
        x = self._as_float()
        total = pooling.reduce(widened(x), SumReduce)
        pads = [pad if count_include_pad else 0 for pad in pooling.pads]
        inner: Margins = [(pad, pad) for pad in pads]
        size = math.prod(pooling.sizes)
        if divisor_override is not None:
            size = whole(f"{pooling.what}: the divisor_override", divisor_override)
            if size == 0:
                raise ShapeError(
                    f"{pooling.what}: the divisor_override is 0", hint="leave it out for the mean"
                )
        if divisor_override is not None or inner == pooling.margins:
            return (total * (1 / size)).cast(x.dtype)
        shape = tuple(n + a + b for n, (a, b) in zip(self.shape[2:], inner, strict=True))
        left = [(p - a, q - b) for (p, q), (a, b) in zip(pooling.margins, inner, strict=True)]
        ones = total.constant(1, total.dtype, (1, 1, *shape))
        sizes = pooling._replace(margins=left).reduce(ones, SumReduce)
        return (total * sizes.recip()).cast(x.dtype)

    @operation
    def lp_pool(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Self:
        """Return (sum of x^p)^(1/p) of each window, p being the norm's type.

        >>> x = cx.tensor((1, 1, 4)).set([[[3, 4, 6, 8]]])
        >>> y = x.lp_pool(2, 2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[5.0, 10.0]]]
        """
        p = number("lp_pool", "norm_type", norm_type)
        mean = widened(self._as_float()).pow(p).avg_pool(kernel_size, stride, 0, ceil_mode)
        size = math.prod(each("lp_pool", self.ndim - 2, kernel_size=kernel_size)[0])
        total = mean * size
        root = total.pow(1 / p)
        if p > 0:  # the slope of a root is infinite at 0, where PyTorch's is 0
            root = formulas.is_zero(total).where(0.0, root)
        return root.cast(self._as_float().dtype)

    max_pool1d, max_pool2d, max_pool3d = over(1, max_pool), over(2, max_pool), over(3, max_pool)
    avg_pool1d, avg_pool2d, avg_pool3d = over(1, avg_pool), over(2, avg_pool), over(3, avg_pool)
    lp_pool1d, lp_pool2d, lp_pool3d = over(1, lp_pool), over(2, lp_pool), over(3, lp_pool)

    @overload
    def adaptive_max_pool(
        self, output_size: Resized, return_indices: Literal[False] = False
    ) -> Self: ...
    @overload
    def adaptive_max_pool(
        self, output_size: Resized, return_indices: Literal[True]
    ) -> tuple[Self, Self]: ...
    @operation
    def adaptive_max_pool(
        self, output_size: Resized, return_indices: bool = False
    ) -> Self | tuple[Self, Self]:
        """Return the largest values of a requested number of windows (None: the axis's size).

        On request with their positions, counted in row-major order over the spatial axes.

        >>> y = cx.arange(7).reshape(1, 1, 7).adaptive_max_pool(3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[[2, 4, 6]]]
        """
        values = self._adaptive("adaptive_max_pool", output_size, MaxReduce)
        if not return_indices:
            return values
        count = self.ndim - 2
        inside: Self | None = None
        for k, (size, length) in enumerate(zip(values.shape[2:], self.shape[2:], strict=True)):
            mine = self._spans(size, length)
            shape = [1] * (2 * count)
            shape[k], shape[count + k] = size, length  # pyright: ignore[reportArgumentType, reportCallIssue]  # dims
            mine = mine._viewed(tuple(shape))
            inside = mine if inside is None else inside & mine
        space = self.shape[2:]
        every = (*values.shape, *space)
        at = self._iota(size_of(space), DType.int64)._viewed(space)._stretch(every)
        assert inside is not None
        at = inside._stretch(every).where(at, -1).flatten(self.ndim)
        x = self._viewed((*self.shape[:2], *[1] * count, *space))._stretch(every)
        x = (at < 0).where(self._least, x.flatten(self.ndim)).cast(self.dtype)
        return values, x._first_place(at, values.unsqueeze(-1))

    @operation
    def adaptive_avg_pool(self, output_size: Resized) -> Self:
        """Return the means of a requested number of windows (None: the axis's size).

        Window i of n begins at floor(i · size / n) and ends at ceil((i + 1) · size / n).

        >>> print(cx.tensor((1, 2, 6), name="x").adaptive_avg_pool(2).lowering())
        %1 = reshape{shape = [1, 2, 2, 3]} %x : f32[1, 2, 2, 3]
        %2 = sum_reduce{axis = 3} %1 : f32[1, 2, 2, 1]
        %3 = reshape{shape = [1, 2, 2]} %2 : f32[1, 2, 2]
        %4 = constant{value = 0.3333333333333333} : f32[1, 2, 2]
        %5 = mul %3, %4 : f32[1, 2, 2]
        """
        x = self._as_float()
        return widened(x)._adaptive("adaptive_avg_pool", output_size, SumReduce).cast(x.dtype)

    def _adaptive(self, what: str, output_size: Resized, op: type[Reduce]) -> Self:
        what, count = self._spatial(what)
        given = output_size if isinstance(output_size, Sequence) else [output_size] * count
        wanted = [1 if size is None else size for size in given]
        (sizes,) = each(what, count, output_size=wanted)
        x = self
        for axis, (size, length) in enumerate(zip(sizes, self.shape[2:], strict=True), 2):
            if length == 0:
                raise ShapeError(
                    f"{what}: axis {axis} of {self.label} is empty", hint="there is nothing to pool"
                )
            if given[axis - 2] is None or size == length:
                continue
            if length % size == 0:
                x = x.unflatten(axis, (size, length // size))._reduced(op, (axis + 1,), False)
                x = x._over(length // size) if op is SumReduce else x
                continue
            inside = self._spans(size, length).reshape(size, length, *[1] * (x.ndim - axis - 1))
            fill = 0 if op is SumReduce else x._least
            x = inside.where(x.unsqueeze(axis), fill)._reduced(op, (axis + 1,), False)
            if op is SumReduce:
                x = x * inside.cast(x.dtype)._reduced(op, (1,), False).recip()
        return x

    def _spans(self, size: Dim, length: Dim) -> Self:
        """Return which of `length` positions are in which of `size` windows."""
        at, first = self._iota(length) * size, (self._iota(size) * length).unsqueeze(1)
        return (first < at + size) & (at < first + length)

    adaptive_avg_pool1d = over(1, adaptive_avg_pool)
    adaptive_avg_pool2d = over(2, adaptive_avg_pool)
    adaptive_avg_pool3d = over(3, adaptive_avg_pool)
    adaptive_max_pool1d = over(1, adaptive_max_pool)
    adaptive_max_pool2d = over(2, adaptive_max_pool)
    adaptive_max_pool3d = over(3, adaptive_max_pool)

    # -- resizing ----------------------------------------------------------------------------------

    @operation
    def interpolate(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = False,
        recompute_scale_factor: bool | None = None,
    ) -> Self:
        """Return the spatial axes resized, to a size or by a factor.

        The mode is "nearest", "nearest-exact", "linear" (also called "bilinear" and "trilinear"),
        "bicubic" or "area". Positions are computed from the factor that is given, or, with
        `recompute_scale_factor`, from the sizes before and after.

        >>> print(cx.tensor((1, 1, 2), name="x").interpolate(scale_factor=2).lowering())
        %1 = reshape{shape = [1, 1, 2, 1]} %x : f32[1, 1, 2, 1]
        %2 = expand{shape = [1, 1, 2, 2]} %1 : f32[1, 1, 2, 2]
        %3 = reshape{shape = [1, 1, 4]} %2 : f32[1, 1, 4]
        """
        _, count = self._spatial("interpolate")
        if mode not in MODES:
            raise ShapeError(
                f"interpolate: there is no mode {mode!r}",
                hint=nearest(mode, MODES) or f"one of {', '.join(MODES)}",
            )
        given = (scale_factor or 0) if size is None else size
        wanted = list(given) if isinstance(given, Sequence) else [given] * count
        if (size is None) == (scale_factor is None) or len(wanted) != count:
            raise ShapeError(
                f"interpolate: size is {size}, scale_factor {scale_factor}, and {self.label} has "
                f"{count} spatial axes",
                hint="give one of the two, as one number or as one for each spatial axis",
            )
        x = self if "nearest" in mode else widened(self._as_float())
        for axis, (target, length) in enumerate(zip(wanted, self.shape[2:], strict=True), 2):
            old = 0 if isinstance(length, Expr) else length
            if size is None:
                factor = number("interpolate", "scale_factor", target)
                factor = factor if 0 < factor < 1 << 30 else 0.0
                new = int(old * factor)
                factor = new / old if recompute_scale_factor and old else factor
            else:
                new = whole("interpolate: the size", target, 1)
                factor = new / old if old else 0.0
            if "nearest" in mode and factor >= 1 and factor == int(factor):
                x = x.expand_dim(axis + 1, int(factor)).flatten(axis, axis + 1)
            elif new > 0 and old > 0:
                x = x._resized(axis, old, new, mode, 1 / factor, bool(align_corners))
            else:
                raise ShapeError(
                    f"interpolate: axis {axis} of {self.label} cannot become {target} by {mode!r}",
                    hint="a symbolic size can be resized by 'nearest' and a whole factor",
                )
        return x if "nearest" in mode else x.cast(self._as_float().dtype)

    def _resized(self, axis: int, old: int, new: int, mode: str, ratio: float, align: bool) -> Self:
        """Return one axis resized, with `ratio` old positions between new ones."""
        if mode == "area":
            sizes = [new if k == axis else None for k in range(2, self.ndim)]
            return self._adaptive("interpolate", sizes, SumReduce)
        at = self._iota(new, self.dtype if self.dtype is DType.float64 else DType.float32)
        if align and "nearest" not in mode:
            at = at * ((old - 1) / max(new - 1, 1))
        else:
            at = at * ratio if mode == "nearest" else (at + 0.5) * ratio
            at = at if "nearest" in mode else at - 0.5
        at = at if mode == "bicubic" else at.clip(0)
        first = at.floor()
        part = at - first
        weights: dict[int, Self | None] = {0: -part + 1, 1: part}
        if "nearest" in mode:
            weights = {0: None}
        elif mode == "bicubic":
            weights = {**cubic_weights(part)}
        trailing = [1] * (self.ndim - axis - 1)
        parts: list[Self] = []
        for offset, weight in weights.items():
            position = (first + offset).clip(0, old - 1).cast(DType.int64).reshape(new, *trailing)
            taken = self._apply(
                Gather(axis), position._stretch(self.type.with_axis(axis, new).shape)
            )
            parts.append(taken if weight is None else taken * weight.reshape(new, *trailing))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


def cubic_weights(part: T) -> dict[int, T]:
    """Return the weights of the four positions around one, by their distance from the one below."""
    rest = -part + 1
    return {-1: _far(part), 0: _near(part), 1: _near(rest), 2: _far(rest)}


def _near(t: T) -> T:
    """Return the cubic kernel at a distance from 0 to 1."""
    return (t * (CUBIC + 2) - (CUBIC + 3)) * t * t + 1


def _far(t: T) -> T:
    """Return the cubic kernel at a distance of 1 more than t."""
    t = t + 1
    return ((t * CUBIC - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


class Pooling(NamedTuple):
    """The layout of windows: sizes, steps and gaps, and the margins that they need."""

    what: str
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    gaps: tuple[int, ...]
    pads: tuple[int, ...]
    margins: Margins

    def reduce(self, x: T, op: type[Reduce], fill: Scalar = 0) -> T:
        """Return one value for each window."""
        windows = x.windows(self.what, self.sizes, self.steps, self.gaps, self.margins, fill)
        return windows._reduced(op, tuple(range(x.ndim, windows.ndim)), False)
