"""Values packed into blocks of few bits: q8_0, q4_0, q4_k and q6_k, as llama.cpp packs them.

The scale of q8_0 and q4_0 follows from the value of the largest magnitude. q4_k and q6_k try some
20 scales for each 32 or 16 values, and keep the one with the least error; large values count more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dtypes import Array
from luminal_lab.tensor.blocks import Blocks, form_of

Floats: TypeAlias = npt.NDArray[np.float32]
Packed: TypeAlias = npt.NDArray[Any]
"""Bytes."""
AT_ONCE: Final = 1 << 17
"""The most values that are packed at once, so that what is on the way stays in a core's cache."""
NOTHING: Final = np.float32(1e-15)
"""The largest value of a block that is taken for zeros."""


def packed(form: str, value: Array) -> Blocks:
    """Return values packed in a form.

    >>> import numpy as np
    >>> from luminal_lab.nn.packing import packed
    >>> blocks = packed("q8_0", np.linspace(-1, 1, 64, dtype="float32").reshape(2, 32))
    >>> blocks, blocks.value[0, :3].round(3)
    (<Blocks q8_0 (2, 32): 68 bytes>, array([-1.   , -0.968, -0.937], dtype=float32))
    """
    kind, pack = form_of(form), PACKERS[form]
    rows: Floats = np.asarray(value, np.float32).reshape(-1, kind.values)
    raw = np.empty((len(rows), kind.bytes), np.uint8)
    some = AT_ONCE // kind.values

    def pack_from(start: int) -> None:
        with np.errstate(all="ignore"):
            raw[start : start + some] = pack(rows[start : start + some])

    starts = range(0, len(rows), some)
    if len(starts) > 1 and sys.platform != "emscripten":  # browsers have no threads
        with ThreadPoolExecutor() as pool:  # NumPy lets other threads run meanwhile
            for _ in pool.map(pack_from, starts):
                pass
    else:
        for start in starts:
            pack_from(start)
    return Blocks(kind, raw.reshape(kind.raw_shape(value.shape)), value.shape)


def _half(x: Floats) -> Packed:
    """Return the bytes of 16-bit floats, [blocks, 2 × values]."""
    return np.ascontiguousarray(x.astype(np.float16)).view(np.uint8)


def _inverse(x: Floats) -> Floats:
    return np.where(x == 0, np.float32(0), np.float32(1) / x)


def _near(x: Floats, low: int, high: int) -> Floats:
    """Return the nearest whole numbers within limits; NaN becomes the lower one."""
    return np.nan_to_num(np.clip(np.rint(x), low, high), nan=low)


def _bytes(x: Floats) -> Packed:
    return x.astype(np.int16).astype(np.uint8)


def _q8_0(x: Floats) -> Packed:
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    quants = x * _inverse(scale)
    whole = np.floor(np.abs(quants))
    whole = np.sign(quants) * (whole + np.floor(2 * (np.abs(quants) - whole)))
    return np.concatenate([_half(scale), whole.astype(np.int8).view(np.uint8)], 1)


def _extreme(x: Floats) -> Floats:
    """Return the value of the largest magnitude of each row, [rows, 1]."""
    return np.take_along_axis(x, np.abs(x).argmax(1, keepdims=True), 1)


def _q4_0(x: Floats) -> Packed:
    scale = _extreme(x) / np.float32(-8)
    quants = np.trunc(x * _inverse(scale) + np.float32(8.5)).astype(np.uint8).clip(0, 15)
    return np.concatenate([_half(scale), quants[:, :16] | (quants[:, 16:] << 4)], 1)


# -- forms of 256 values ---------------------------------------------------------------------------


def _ranges(x: Floats) -> tuple[Floats, Floats]:
    """Return a scale and a least value, not above 0, for each row of 32 values in 0 to 15."""
    size = np.abs(x)
    weight = np.sqrt((x * x).mean(1, keepdims=True)) + size
    low, high = np.minimum(x.min(1, keepdims=True), 0), x.max(1, keepdims=True)
    span = high - low
    weights, sum_x = (a.sum(1, keepdims=True) for a in (weight, weight * x))

    def error(scale: Floats, least: Floats, quants: Floats) -> Floats:
        return (weight * np.square(scale * quants + least - x)).sum(1, keepdims=True)

    best_scale: Floats = span / np.float32(15)
    best_low: Floats = low
    best: Floats = error(best_scale, best_low, _near((x - low) * _inverse(best_scale), 0, 15))
    for step in range(21):
        inverse = np.float32(14 + 0.1 * step) * _inverse(span)
        quants = _near(inverse * (x - low), 0, 15)
        sums = [(weight * a).sum(1, keepdims=True) for a in (quants, quants**2, quants * x)]
        sum_l, sum_l2, sum_xl = sums
        divisor = weights * sum_l2 - sum_l * sum_l
        scale: Floats = (weights * sum_xl - sum_x * sum_l) / divisor
        least: Floats = (sum_l2 * sum_x - sum_l * sum_xl) / divisor
        scale = np.where(least > 0, sum_xl / sum_l2, scale)
        least = np.minimum(least, 0)
        now = error(scale, least, quants)
        better = (divisor > 0) & (now < best)
        best_scale, best_low = (
            np.where(better, scale, best_scale),
            np.where(better, least, best_low),
        )
        best = np.where(better, now, best)
    return best_scale, best_low


def _q4_k(x: Floats) -> Packed:
    count = len(x)
    each = x.reshape(-1, 32)
    scale, least = (part.reshape(count, 8) for part in _ranges(each))
    least = -least
    factors, halves, widths = list[Floats](), list[Floats](), list[Floats]()
    for part in (scale, least):
        most = part.max(1, keepdims=True)
        factors.append(_near(np.where(most > 0, np.float32(63) / most, 0) * part, 0, 63))
        halves.append((most / np.float32(63)).astype(np.float16).astype(np.float32))
        widths.append((halves[-1] * factors[-1]).reshape(-1, 1))
    step, shift = widths
    quants = _bytes(_near((each + shift) * _inverse(step), 0, 15))
    pairs = quants.reshape(count, 4, 2, 32)
    s, m = (_bytes(factor) for factor in factors)
    six = np.concatenate(
        [
            (s[:, :4] & 63) | ((s[:, 4:] >> 4) << 6),
            (m[:, :4] & 63) | ((m[:, 4:] >> 4) << 6),
            (s[:, 4:] & 15) | ((m[:, 4:] & 15) << 4),
        ],
        1,
    )
    nibbles = (pairs[:, :, 0] | (pairs[:, :, 1] << 4)).reshape(count, 128)
    return np.concatenate([_half(halves[0]), _half(halves[1]), six, nibbles], 1)


def _scales(x: Floats) -> Floats:
    """Return a scale for each row of 16 values in -32 to 31."""
    extreme = _extreme(x)
    weight = x * x
    scale = best = np.zeros_like(extreme)
    for step in (0, *range(-9, 0), *range(1, 10)):
        quants = _near(np.float32(-(32 + 0.1 * step)) / extreme * x, -32, 31)
        sum_lx, sum_l2 = ((weight * a).sum(1, keepdims=True) for a in (x * quants, quants**2))
        now = np.where(sum_l2 > 0, sum_lx * _inverse(sum_l2), np.float32(0))
        better = (sum_lx * sum_lx > best * sum_l2) if step else np.ones_like(best, bool)
        scale, best = np.where(better, now, scale), np.where(better, now * sum_lx, best)
    return np.where(np.abs(extreme) < NOTHING, np.float32(0), scale)


def _q6_k(x: Floats) -> Packed:
    count = len(x)
    each = x.reshape(-1, 16)
    scale = _scales(each).reshape(count, 16)
    extreme = _extreme(scale)
    is_nothing = np.abs(extreme) < NOTHING
    inverse = np.where(is_nothing, np.float32(0), np.float32(-128) / extreme)
    factors = _near(inverse * scale, -128, 127)
    half = _inverse(inverse).astype(np.float16).astype(np.float32)
    step = (half * factors).reshape(-1, 1)
    quants = _bytes(_near(each * _inverse(step), -32, 31) + 32).reshape(count, 2, 4, 32)
    quants = np.where(is_nothing.reshape(count, 1, 1, 1), np.uint8(0), quants)
    low = np.concatenate(
        [
            (quants[:, :, 0] & 15) | ((quants[:, :, 2] & 15) << 4),
            (quants[:, :, 1] & 15) | ((quants[:, :, 3] & 15) << 4),
        ],
        2,
    )
    high = quants[:, :, 0] >> 4
    for place in (1, 2, 3):
        high = high | ((quants[:, :, place] >> 4) << 2 * place)
    raw = [low.reshape(count, 128), high.reshape(count, 64)]
    return np.concatenate([*raw, factors.astype(np.int8).view(np.uint8), _half(half)], 1)


PACKERS: Final[dict[str, Callable[[Any], Packed]]] = {
    "q8_0": _q8_0, "q4_0": _q4_0, "q4_k": _q4_k, "q6_k": _q6_k,
}  # fmt: skip
"""What packs into each form."""


def fitting(form: str, shape: tuple[int, ...]) -> str:
    """Return the form for a shape: that one, q8_0 where its rows are no whole blocks, or none.

    >>> from luminal_lab.nn.packing import fitting
    >>> fitting("q4_k", (2, 256)), fitting("q4_k", (2, 96)), fitting("q4_k", (2, 20))
    ('q4_k', 'q8_0', '')
    """
    for wanted in (form, "q8_0"):
        if len(shape) > 1 and prod(shape) and shape[-1] % form_of(wanted).values == 0:
            return wanted
    return ""
