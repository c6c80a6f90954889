"""Fourier transforms as products with matrices of angles, and what spectra are measured with."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from luminal_lab.importing.onnx_ops.table import (
    Call,
    Known,
    Refusal,
    Sizes,
    axis_of,
    dtype_of,
    op,
    whole,
)
from luminal_lab.tensor import Tensor

LONGEST = 1 << 12
"""The longest transform: its matrices have the square of this many numbers."""


def _angles(rows: int, columns: int, length: int, sign: int) -> npt.NDArray[np.float64]:
    if max(rows, columns, length) > LONGEST:
        raise Refusal(f"a transform of {length} is too long; at most {LONGEST:,} are supported")
    if length < 1:
        raise Refusal(f"a transform of {length} numbers is none")
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    return sign * 2 * math.pi * turns / length


def transformed(call: Call, x: Tensor, length: int, inverse: bool, onesided: bool) -> Tensor:
    """Return the transform over the last axis but one; the last one has real and imaginary parts.

    x: [..., n, 1 or 2] -> [..., length, 2]
    """
    n = whole(x.shape[-2:], "the length of a transform")[0]
    if inverse and onesided:
        return _real_inverse(call, x, length, n)
    if n > length:
        x, n = x.narrow(-2, 0, length), length
    out = length // 2 + 1 if onesided else length
    angle = _angles(n, out, length, 1 if inverse else -1)
    cos, sin = (
        _matrix(call, x, m / (length if inverse else 1)) for m in (np.cos(angle), np.sin(angle))
    )
    real = x.select(-1, 0)
    if x.shape[-1] == 1:
        return real.matmul(cos).unsqueeze(-1).concat(real.matmul(sin).unsqueeze(-1), -1)
    imaginary = x.select(-1, 1)
    return (
        (real.matmul(cos) - imaginary.matmul(sin))
        .unsqueeze(-1)
        .concat((real.matmul(sin) + imaginary.matmul(cos)).unsqueeze(-1), -1)
    )


def _real_inverse(call: Call, x: Tensor, length: int, n: int) -> Tensor:
    """Return the real signal of one half of a spectrum: [..., length, 1]."""
    used = min(n, length // 2 + 1)
    x = x.narrow(-2, 0, used)
    angle = _angles(used, length, length, 1)
    twice = np.full((used, 1), 2.0)
    twice[0] = 1.0
    if length % 2 == 0 and used == length // 2 + 1:
        twice[-1] = 1.0
    cos, sin = (_matrix(call, x, m * twice / length) for m in (np.cos(angle), np.sin(angle)))
    y = x.select(-1, 0).matmul(cos)
    if x.shape[-1] != 1:
        y = y - x.select(-1, 1).matmul(sin)
    return y.unsqueeze(-1)


def _matrix(call: Call, x: Tensor, matrix: npt.NDArray[np.float64]) -> Tensor:
    return call.constant(np.ascontiguousarray(matrix.astype(x.dtype.numpy)))


@op("DFT")
def dft(
    call: Call,
    x: Tensor,
    size: Sizes | None = None,
    place: Known | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Return the discrete Fourier transform along an axis."""
    given = (1 if call.opset < 20 else -2) if axis is None else axis
    along = axis_of(given if place is None else int(place.reshape(-1)[0]), x.ndim)
    if along == x.ndim - 1:
        raise Refusal("the last axis has real and imaginary parts")
    n = whole([x.shape[along]], "the length of a transform")[0]
    length = whole(size, "the length")[0] if size else 2 * (n - 1) if inverse and onesided else n
    y = transformed(call, x.movedim(along, -2), length, bool(inverse), bool(onesided))
    return y.movedim(-2, along)


@op("STFT")
def stft(
    call: Call,
    x: Tensor,
    step: Sizes,
    window: Tensor | None = None,
    size: Sizes | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Return the transforms of overlapping frames of a signal: [batch, frames, spectrum, 2]."""
    if window is not None:
        length = whole(window.shape, "the length of the window")[0]
    elif size is not None:
        length = whole(size, "the length of a frame")[0]
    else:
        raise Refusal("it has neither a window nor a length of its frames")
    x = x.unsqueeze(-1) if x.ndim == 2 else x
    frames = x.unfold(1, length, whole(step, "the step")[0])  # [batch, frames, parts, length]
    frames = frames.movedim(-1, -2)
    if window is not None:
        frames = frames * window.cast(x.dtype).reshape(length, 1)
    return transformed(call, frames, length, False, bool(onesided))


@op("MelWeightMatrix")
def mel_weights(
    _: Call,
    bins: Known,
    length: Known,
    rate: Known,
    low: Known,
    high: Known,
    *,
    output_datatype: int = 1,
) -> Known:
    """Return the matrix from a spectrum to bins that are spaced as one hears them."""
    count, size, sampled = (int(v.reshape(-1)[0]) for v in (bins, length, rate))
    lowest, highest = (float(v.reshape(-1)[0]) for v in (low, high))
    if not (0 < count <= LONGEST and 0 < size <= 1 << 20 and sampled > 0):
        raise Refusal(f"{count} bins of {size} numbers at a rate of {sampled} are not supported")
    first, last = (2595 * math.log10(1 + edge / 700) for edge in (lowest, highest))
    edges = np.arange(count + 2) * ((last - first) / (count + 2)) + first
    hertz = 700 * (10 ** (edges / 2595) - 1)
    at = (((size + 1) * hertz) // sampled).astype(int)
    if at.min() < 0 or at.max() > size // 2:
        raise Refusal(f"the edges {lowest} and {highest} are beyond the spectrum")
    weights = np.zeros((size // 2 + 1, count))
    for k in range(count):
        left, centre, right = at[k : k + 3]
        if centre == left:
            weights[centre, k] = 1
        else:
            weights[left : centre + 1, k] = np.arange(centre - left + 1) / (centre - left)
        if right > centre:
            weights[centre:right, k] = np.arange(right - centre, 0, -1) / (right - centre)
    return weights.astype(dtype_of(output_datatype).numpy)
