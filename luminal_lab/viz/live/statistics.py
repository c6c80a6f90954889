"""Statistics of a value: range, mean, non-finite numbers and a histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text

READ = 1 << 26
"""The most numbers read; larger values are sampled evenly."""
CHUNK = 1 << 20
BINNED = 1 << 20
"""The most numbers in the histogram, evenly spaced."""
BINS = 32


def statistics(value: Array) -> dict[str, Any]:
    """Return the statistics of a value for JSON; None stands for a missing number.

    >>> found = statistics(np.array([1.0, 2.0, np.nan, 0.0]))
    >>> found["min"], found["max"], found["mean"], found["nan"], found["zeros"]
    (0.0, 2.0, 1.0, 1, 1)
    """
    flat = value.reshape(-1)
    step = max(1, math.ceil(flat.size / READ))
    read = flat[::step]
    nan = inf = zeros = finite = 0
    low, high, total = math.inf, -math.inf, 0.0
    for part in _chunks(read):
        good = part[np.isfinite(part)]
        nan += int(np.isnan(part).sum())
        inf += int(np.isinf(part).sum())
        zeros += int((part == 0).sum())
        finite += good.size
        if good.size:
            low, high = min(low, float(good.min())), max(high, float(good.max()))
            with np.errstate(all="ignore"):
                total += float(good.sum())
    mean = total / finite if finite else math.nan
    squares = 0.0
    for part in _chunks(read):
        with np.errstate(all="ignore"):
            squares += float((np.subtract(part[np.isfinite(part)], mean) ** 2).sum())
    bins, edges = _histogram(read, low, high, whole=value.dtype.kind in "biu")
    summary: dict[str, Any] = {
        "count": flat.size,
        "min": low if finite else None,
        "max": high if finite else None,
        "mean": mean if math.isfinite(mean) else None,
        "std": math.sqrt(squares / finite) if finite and math.isfinite(squares) else None,
        "nan": nan,
        "inf": inf,
        "zeros": zeros,
        "bins": bins,
        "edges": edges,
        "sampled": step > 1,
    }
    return {**summary, "text": _text(value, summary, read.size)}


def _chunks(flat: Array) -> Iterator[Array]:
    """Yield parts of a value as float64, to save memory."""
    for start in range(0, flat.size, CHUNK):
        yield flat[start : start + CHUNK].astype(np.float64)


def _histogram(
    flat: Array, low: float, high: float, *, whole: bool
) -> tuple[list[int], list[float]]:
    if not low <= high:
        return [], []
    some = flat[:: max(1, math.ceil(flat.size / BINNED))].astype(np.float64)
    some = some[np.isfinite(some)]
    if whole and high - low < BINS:
        edges = np.arange(low - 0.5, high + 1.0)
    else:
        # The difference of two large numbers may overflow.
        fits = math.isfinite(2 * (high / 2 - low / 2))
        edges = np.linspace(low, high, BINS + 1) if fits else np.array([low, 0.0, high])
        if not (edges[1:] > edges[:-1]).all():
            return [int(some.size)], [low, high]
    counts, _ = np.histogram(some, edges)
    return [int(number) for number in counts], [float(number) for number in edges]


def _text(value: Array, summary: dict[str, Any], read: int) -> str:
    count = summary["count"]
    if not count:
        return f"{value.dtype}{tuple_text(value.shape)} has no numbers"
    parts: list[str] = []
    if summary["min"] is not None:
        parts.append(f"{_shown(summary['min'])} to {_shown(summary['max'])}")
    if summary["mean"] is not None:
        spread = "" if summary["std"] is None else f" ± {_shown(summary['std'])}"
        parts.append(f"mean {_shown(summary['mean'])}{spread}")
    parts += [f"{summary['zeros']:,} zeros"] if summary["zeros"] else []
    parts += [f"{summary[key]:,} {word}" for key, word in NOT_FINITE.items() if summary[key]]
    of = f"{read:,} of {count:,} numbers" if summary["sampled"] else f"{count:,} numbers"
    of = "1 number" if count == 1 else of
    return f"{of}, {value.dtype}{tuple_text(value.shape)}: {', '.join(parts)}"


NOT_FINITE = {"nan": "NaN", "inf": "infinite"}


def _shown(number: float) -> str:
    return f"{number:.4g}"
