"""What was counted, in the text that Prometheus reads."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Final

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS: Final = (1, 2, 4, 8, 16, 32, 64)
KIND: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters, histograms and gauges, by name and labels.

    >>> metrics = Metrics()
    >>> metrics.count("requests", "Requests.", status="200")
    >>> print(metrics.text().splitlines()[2])
    luminal_lab_requests_total{status="200"} 1
    """

    def __init__(self) -> None:
        self._about: dict[str, str] = {}
        self._counts: dict[str, dict[Labels, float]] = {}
        self._spread: dict[str, dict[Labels, _Spread]] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def count(self, name: str, about: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._about[name] = about
        values, key = self._counts.setdefault(name, {}), tuple(labels.items())
        values[key] = values.get(key, 0) + by

    def observe(
        self,
        name: str,
        about: str,
        value: float,
        bounds: tuple[float, ...] = SECONDS,
        **labels: str,
    ) -> None:
        """Add a value to a histogram."""
        self._about[name] = about
        spreads, key = self._spread.setdefault(name, {}), tuple(labels.items())
        if key not in spreads:
            spreads[key] = _Spread(bounds)
        spreads[key].add(value)

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Have a number read whenever somebody asks."""
        self._about[name], self._gauges[name] = about, read

    def text(self) -> str:
        """Return all of it."""
        lines: list[str] = []
        for name, values in self._counts.items():
            lines += self._head(f"{name}_total", "counter", name)
            lines += [_line(f"{name}_total", labels, value) for labels, value in values.items()]
        for name, spreads in self._spread.items():
            lines += self._head(name, "histogram", name)
            for labels, spread in spreads.items():
                lines += spread.lines(name, labels)
        for name, read in self._gauges.items():
            lines += [*self._head(name, "gauge", name), _line(name, (), read())]
        if (memory := resident()) is not None:
            lines += ["# HELP process_resident_memory_bytes Memory that the process has."]
            lines += ["# TYPE process_resident_memory_bytes gauge"]
            lines += [f"process_resident_memory_bytes {memory}"]
        return "\n".join([*lines, ""])

    def _head(self, name: str, kind: str, about: str) -> list[str]:
        whole = f"luminal_lab_{name}"
        return [f"# HELP {whole} {self._about[about]}", f"# TYPE {whole} {kind}"]


class _Spread:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.sum = bounds, 0.0
        self.counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: Labels) -> list[str]:
        lines, total = list[str](), 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            lines.append(_line(f"{name}_bucket", (*labels, ("le", bound)), total))
        return [
            *lines,
            _line(f"{name}_sum", labels, self.sum),
            _line(f"{name}_count", labels, total),
        ]


def _line(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"luminal_lab_{name}{f'{{{inner}}}' if inner else ''} {value:.10g}"


def _escaped(text: str) -> str:
    return re.sub(r'[\\"]', r"\\\g<0>", text).replace("\n", r"\n")


def resident() -> int | None:
    """Return the bytes of memory that this process has; None where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * 4096
