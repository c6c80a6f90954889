"""Discrete Fourier transforms, by matrices of cosines and sines.

There are no complex dtypes: a complex value is a pair (real, imaginary) of tensors, and what takes
one also takes a single real tensor. A transform of n positions is a product with [n, n] matrices,
which grows with n² where the fast transform grows with n log n: n is at most 4,096.

>>> import luminal_lab as ll
>>> cx = ll.Graph()
>>> x = cx.tensor((4,)).set([1, 2, 3, 4])
>>> real, imaginary = ll.fft.rfft(x)
>>> cx.retrieve([real, imaginary])
>>> cx.execute()
>>> real.numpy().round(4).tolist(), imaginary.numpy().round(4).tolist()
([10.0, -2.0, -2.0], [0.0, 2.0, 0.0])
"""

from __future__ import annotations

# The functions of this file use private members of tensors.
# pyright: reportPrivateUsage=false
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from luminal_lab.errors import ArgumentError, GraphError, ShapeError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.movement import listed, whole

Complex: TypeAlias = "tuple[Tensor, Tensor]"
Value: TypeAlias = "Tensor | Complex"
P = ParamSpec("P")
R = TypeVar("R")
LONGEST = 4096
"""The most positions of an axis that is transformed."""
NORMS = ("backward", "ortho", "forward")

__all__ = [
    "fft", "fft2", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip


def transform(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function of a value as a transform: all or nothing, with `dim` for its axes."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = args[0] if args else kwargs.get("input")
        first: Any = given[0] if isinstance(given, (tuple, list)) and given else given  # pyright: ignore[reportUnknownVariableType]  # of any kind
        if not isinstance(first, Tensor):
            raise GraphError(
                f"{function.__name__}: {given!r} is not a tensor, nor a pair of tensors",
                hint="give a real tensor, or (real, imaginary)",
            )
        with first.graph.whole():
            return function(*args, **kwargs)

    return told(call)


# -- one axis --------------------------------------------------------------------------------------


@transform
def fft(input: Value, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    """Return the Fourier transform along an axis, which is first cut or padded to n.

    >>> y = ll.fft.fft(cx.tensor((2, 8)))
    >>> [part.shape for part in y]
    [(2, 8), (2, 8)]
    """
    return _along("fft", _pair("fft", input), [n], [dim], norm, -1)


@transform
def ifft(input: Value, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    """Return the inverse of `fft`.

    >>> x = cx.tensor((4,)).set([1, 2, 3, 4])
    >>> y = ll.fft.ifft(ll.fft.fft(x))[0].retrieve()
    >>> cx.execute()
    >>> y.numpy().round(4).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return _along("ifft", _pair("ifft", input), [n], [dim], norm, 1)


@transform
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    """Return the first half of the transform of real values; the rest mirrors it.

    >>> y = ll.fft.rfft(cx.tensor((2, 8)))
    >>> [part.shape for part in y]
    [(2, 5), (2, 5)]
    """
    return _real("rfft", input, [n], [dim], norm, -1)


@transform
def irfft(input: Value, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the inverse of `rfft`, of n positions: by default an even number.

    >>> x = cx.tensor((4,)).set([1, 2, 3, 4])
    >>> y = ll.fft.irfft(ll.fft.rfft(x)).retrieve()
    >>> cx.execute()
    >>> y.numpy().round(4).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return _halved("irfft", input, [n], [dim], norm, 1)


@transform
def hfft(input: Value, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Return the real transform of values that are mirrored, of which the first half is given.

    >>> ll.fft.hfft(cx.tensor((2, 5))).shape
    (2, 8)
    """
    return _halved("hfft", input, [n], [dim], norm, -1)


@transform
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    """Return the inverse of `hfft`: the first half.

    >>> [part.shape for part in ll.fft.ihfft(cx.tensor((2, 8)))]
    [(2, 5), (2, 5)]
    """
    return _real("ihfft", input, [n], [dim], norm, 1)


# -- several axes ----------------------------------------------------------------------------------


Sizes: TypeAlias = "int | Sequence[int] | None"


@transform
def fftn(input: Value, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Complex:
    """Return the Fourier transform along several axes, by default all.

    >>> [part.shape for part in ll.fft.fftn(cx.tensor((2, 8)))]
    [(2, 8), (2, 8)]
    """
    pair = _pair("fftn", input)
    return _along("fftn", pair, *_axes("fftn", pair[0], s, dim), norm, -1)


@transform
def ifftn(input: Value, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Complex:
    """Return the inverse of `fftn`.

    >>> [part.shape for part in ll.fft.ifftn(cx.tensor((2, 8)))]
    [(2, 8), (2, 8)]
    """
    pair = _pair("ifftn", input)
    return _along("ifftn", pair, *_axes("ifftn", pair[0], s, dim), norm, 1)


@transform
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Complex:
    """Return the transform of real values along several axes; of the last one the first half.

    >>> [part.shape for part in ll.fft.rfftn(cx.tensor((2, 8)))]
    [(2, 5), (2, 5)]
    """
    return _real("rfftn", input, *_axes("rfftn", input, s, dim), norm, -1)


@transform
def irfftn(input: Value, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return the inverse of `rfftn`.

    >>> ll.fft.irfftn(ll.fft.rfftn(cx.tensor((2, 8)))).shape
    (2, 8)
    """
    return _halved("irfftn", input, *_axes("irfftn", _first(input), s, dim, half=True), norm, 1)


@transform
def hfftn(input: Value, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """Return the real transform of mirrored values along several axes.

    >>> ll.fft.hfftn(cx.tensor((2, 5))).shape
    (2, 8)
    """
    return _halved("hfftn", input, *_axes("hfftn", _first(input), s, dim, half=True), norm, -1)


@transform
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Complex:
    """Return the inverse of `hfftn`: of the last axis the first half.

    >>> [part.shape for part in ll.fft.ihfftn(cx.tensor((2, 8)))]
    [(2, 5), (2, 5)]
    """
    return _real("ihfftn", input, *_axes("ihfftn", input, s, dim), norm, 1)


@transform
def fft2(input: Value, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Complex:
    """Return `fftn` along the last two axes.

    >>> [part.shape for part in ll.fft.fft2(cx.tensor((2, 4, 8)))]
    [(2, 4, 8), (2, 4, 8)]
    """
    return fftn(input, s, dim, norm)


@transform
def ifft2(input: Value, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Complex:
    """Return `ifftn` along the last two axes.

    >>> [part.shape for part in ll.fft.ifft2(cx.tensor((2, 4, 8)))]
    [(2, 4, 8), (2, 4, 8)]
    """
    return ifftn(input, s, dim, norm)


@transform
def rfft2(
    input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None
) -> Complex:
    """Return `rfftn` along the last two axes.

    >>> [part.shape for part in ll.fft.rfft2(cx.tensor((2, 4, 8)))]
    [(2, 4, 5), (2, 4, 5)]
    """
    return rfftn(input, s, dim, norm)


@transform
def irfft2(input: Value, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """Return `irfftn` along the last two axes.

    >>> ll.fft.irfft2(cx.tensor((2, 4, 5))).shape
    (2, 4, 8)
    """
    return irfftn(input, s, dim, norm)


@transform
def hfft2(input: Value, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """Return `hfftn` along the last two axes.

    >>> ll.fft.hfft2(cx.tensor((2, 4, 5))).shape
    (2, 4, 8)
    """
    return hfftn(input, s, dim, norm)


@transform
def ihfft2(
    input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None
) -> Complex:
    """Return `ihfftn` along the last two axes.

    >>> [part.shape for part in ll.fft.ihfft2(cx.tensor((2, 4, 8)))]
    [(2, 4, 5), (2, 4, 5)]
    """
    return ihfftn(input, s, dim, norm)


# -- the order of frequencies ----------------------------------------------------------------------


@transform
def fftshift(input: Value, dim: Sizes = None) -> Value:
    """Return a transform with the frequency 0 in the middle of its axes.

    >>> y = ll.fft.fftshift(cx.arange(4)).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [2, 3, 0, 1]
    """
    return _shifted("fftshift", input, dim, 0)


@transform
def ifftshift(input: Value, dim: Sizes = None) -> Value:
    """Return the inverse of `fftshift`.

    >>> y = ll.fft.ifftshift(ll.fft.fftshift(cx.arange(5))).retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [0, 1, 2, 3, 4]
    """
    return _shifted("ifftshift", input, dim, 1)


def _shifted(what: str, input: Value, dim: Sizes, up: int) -> Value:
    if not isinstance(input, Tensor):
        pair = _pair(what, input)
        return tuple(_shifted(what, part, dim, up) for part in pair)  # pyright: ignore[reportReturnType]  # two
    axes = input._axes_of(what, dim)
    return input.roll([(input.shape[k] + up) // 2 for k in axes], axes) if axes else input


# -- what these are made of ------------------------------------------------------------------------


def _first(value: Value) -> Tensor:
    return value if isinstance(value, Tensor) else value[0]


def _pair(what: str, value: Value) -> Complex:
    """Return a complex value as a pair of float tensors for computation."""
    if isinstance(value, Tensor):
        x = widened(value._as_float())
        return x, x.full_like(0.0)
    if len(value) != 2 or value[0].shape != value[1].shape:
        said = ", ".join(part.label for part in value)
        raise ShapeError(
            f"{what}: {said} are not a real and an imaginary part",
            hint="give two tensors of one shape",
        )
    real, imaginary = (widened(part._as_float()) for part in value)
    return real, imaginary


def _axes(
    what: str, x: Tensor, s: Sizes, dim: Sizes, *, half: bool = False
) -> tuple[list[int | None], list[int]]:
    """Return the sizes and axes of a transform along several axes."""
    sizes = None if s is None else list(listed((s,)))
    if dim is not None:
        axes = [x._axis_of(what, axis) for axis in listed((dim,))]
    else:
        axes = list(range(x.ndim - len(sizes), x.ndim)) if sizes else list(range(x.ndim))
    if not axes and half:
        raise ShapeError(f"{what}: {x.label} has no axes", hint="there is nothing to transform")
    if (sizes is not None and len(sizes) != len(axes)) or len(set(axes)) < len(axes):
        raise ShapeError(
            f"{what}: the sizes {s} and the axes {dim} do not belong together",
            hint="give one size for each axis, and each axis once",
        )
    wanted: list[int | None] = [None] * len(axes)
    if sizes:
        wanted = [None if size == -1 else size for size in sizes]
    return wanted, axes


def _fitted(what: str, x: Tensor, n: int | None, axis: int) -> tuple[Tensor, int, int]:
    """Return a tensor cut or padded to n positions of an axis, with n and the axis."""
    k, size = x._axis_of(what, axis), 0
    size = whole(f"{what}: the size of axis {axis} of {x.label}", x.shape[k])
    count = size if n is None else whole(f"{what}: n", n, 1)
    _check(what, count)
    if count == size:
        return x, count, k
    return (x.narrow(k, 0, count) if count < size else x.pad_along(k, 0, count - size)), count, k


def _check(what: str, count: int) -> None:
    if not 1 <= count <= LONGEST:
        raise ShapeError(
            f"{what}: {count:,} positions are to be transformed",
            hint=f"1 to {LONGEST:,} can be: the transform is a product with an [n, n] matrix",
        )


def _scale(what: str, norm: str | None, sign: int) -> Callable[[int], float]:
    """Return the factor of a transform of n positions: sign is -1 for forward ones."""
    if norm not in (None, *NORMS):
        raise ArgumentError(f"{what}: there is no norm {norm!r}", hint=f"one of {', '.join(NORMS)}")
    if norm == "ortho":
        return lambda n: 1 / math.sqrt(n)
    return lambda n: 1 / n if (sign > 0) == (norm != "forward") else 1.0


def _waves(x: Tensor, rows: int, columns: int, n: int, sign: int) -> Complex:
    """Return cos and sin of 2π · row · column / n: [rows, columns]."""
    # Whole turns are left out before the product is a float, so that no angle is large.
    turn = (x._iota(rows).unsqueeze(1) * x._iota(columns)) % n
    turn = (turn * 2 > n).where(turn - n, turn)
    angle = turn.cast(x.dtype) * (2 * math.pi / n * sign)
    return angle.cos().contiguous(), angle.sin().contiguous()


def _times(x: Tensor, waves: Tensor, axis: int) -> Tensor:
    """Return a product with a matrix [positions, results] along an axis."""
    return x.movedim(axis, -1).matmul(waves).movedim(-1, axis)


def _along(
    what: str,
    value: Complex,
    sizes: Sequence[int | None],
    axes: Sequence[int],
    norm: str | None,
    sign: int,
) -> Complex:
    """Return the transform along axes, one after another."""
    factor = _scale(what, norm, sign)
    real, imaginary = value
    for n, axis in zip(sizes, axes, strict=True):
        real, count, k = _fitted(what, real, n, axis)
        imaginary, _, _ = _fitted(what, imaginary, n, axis)
        c, s = _waves(real, count, count, count, sign)
        real, imaginary = (
            _times(real, c, k) - _times(imaginary, s, k),
            _times(real, s, k) + _times(imaginary, c, k),
        )
        scale = factor(count)
        if scale != 1:
            real, imaginary = real * scale, imaginary * scale
    return real, imaginary


def _real(
    what: str,
    input: Tensor,
    sizes: Sequence[int | None],
    axes: Sequence[int],
    norm: str | None,
    sign: int,
) -> Complex:
    """Return the transform of real values: of the last axis the first half, of others the whole."""
    if not isinstance(input, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a pair
        raise ShapeError(f"{what}: it takes real values, and a pair is given", hint="use fft")
    x, count, k = _fitted(what, widened(input._as_float()), sizes[-1], axes[-1])
    c, s = _waves(x, count, count // 2 + 1, count, sign)
    scale = _scale(what, norm, sign)(count)
    pair = (
        _times(x, c * scale if scale != 1 else c, k),
        _times(x, s * scale if scale != 1 else s, k),
    )
    return _along(what, pair, sizes[:-1], axes[:-1], norm, sign)


def _halved(
    what: str,
    input: Value,
    sizes: Sequence[int | None],
    axes: Sequence[int],
    norm: str | None,
    sign: int,
) -> Tensor:
    """Return the real transform of a first half: each of the inner positions counts twice."""
    pair = _along(what, _pair(what, input), sizes[:-1], axes[:-1], norm, sign)
    k = pair[0]._axis_of(what, axes[-1])
    size = whole(f"{what}: the size of axis {axes[-1]} of {pair[0].label}", pair[0].shape[k])
    count = 2 * (size - 1) if sizes[-1] is None else whole(f"{what}: n", sizes[-1], 1)
    _check(what, count)
    half = count // 2 + 1
    real, imaginary = (_fitted(what, part, half, k)[0] for part in pair)
    at = real._iota(half).unsqueeze(1)
    once = at.eq(0) | at.eq(half - 1) if count % 2 == 0 else at.eq(0)
    weight = once.where(1.0, real.constant(2.0, real.dtype, ()))
    weight = weight * _scale(what, norm, sign)(count)
    c, s = _waves(real, half, count, count, sign)
    return _times(real, c * weight, k) - _times(imaginary, s * weight, k)
