"""The most that a machine can do in a second: numbers multiplied and added, bytes moved.

Work that takes as long as these rates allow is at the machine's limit (its roofline):

    seconds = max(flops / FMA rate, bytes read / read rate + bytes written / write rate)

`devices/facts/probe.py` measures them; those of a machine that is not here can be written down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, RecordingError, real_number
from luminal_lab.machines.load import load_text
from luminal_lab.plain import read
from luminal_lab.reading import read_json as parsed, shown

SCHEMA = 1
"""The format of a file of rates, raised whenever it changes."""
SPREAD = 0.2
"""The largest gap between the median and the best sample on an idle machine."""
DOUBT = (
    "something else was running while the rates were measured: "
    "ll.devices.peak_rates(fresh=True) measures them again"
)
How: TypeAlias = Literal["measured", "estimated", "stated"]
Bound: TypeAlias = Literal["FMA", "memory", "cache"]


class Limit(NamedTuple):
    """The least time that some work can take on a machine, and which of its rates limits it."""

    seconds: float
    bound: Bound


@dataclass(frozen=True)
class Rate:
    """One rate: of operations on a dtype, or of bytes within a working set of some size."""

    what: Literal["fma", "read", "copy"]
    threads: int
    best: float
    """GFLOP/s, or GB/s; for a copy, the bytes read plus those written."""
    dtype: str = ""
    size: int = 0
    """The bytes of the working set."""
    samples: tuple[float, ...] = ()
    spread: float | None = None
    """How far the median sample is below the best one, relative to the best."""
    busy: float | None = None
    """How many cores other programs kept busy meanwhile."""
    date: str = ""

    @property
    def key(self) -> tuple[str, int, str, int]:
        """What is measured; a rate measured again has the same key."""
        return self.what, self.threads, self.dtype, self.size

    @override
    def __str__(self) -> str:
        many = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        of = f"{self.dtype} multiply and add" if self.what == "fma" else self.what
        where = f"within {size_text(self.size)}" if self.size else "from memory"
        range_text = "" if self.what == "fma" else where
        unit = "GFLOP/s" if self.what == "fma" else "GB/s"
        text = f"{of:<24}  {range_text:<14}  {many:<10}  {self.best:>8.1f} {unit}"
        return text if self.spread is None else f"{text:<72}  spread {self.spread:>4.0%}"


@dataclass(frozen=True, repr=False)
class PeakRates:
    """What a machine can do at most, and how that is known.

    >>> laptop = PeakRates.stated("a laptop", gflops=100, gbytes=20)
    >>> laptop.limit(flops=2_000_000, read=4_000_000)
    Limit(seconds=0.0002, bound='memory')
    """

    device: str
    threads: int
    rates: tuple[Rate, ...]
    how: How = "measured"
    by: str = ""
    """What measured it: a compiler and its version, or NumPy."""
    date: str = ""

    @classmethod
    def stated(cls, device: str, *, gflops: float, gbytes: float, threads: int = 1) -> PeakRates:
        """Return the rates of a machine as stated by the caller, in GFLOP/s and GB/s.

        >>> print(ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20, threads=4))
        a laptop, 4 threads: rates stated
          float32 multiply and add                  4 threads      100.0 GFLOP/s
          read                      from memory     4 threads       20.0 GB/s
        """
        known = [real_number(rate) for rate in (gflops, gbytes)]
        if not all(rate is not None and rate > 0 for rate in known):
            raise ArgumentError(
                f"rates of {device!r}: they are {gflops!r} GFLOP/s and {gbytes!r} GB/s",
                hint="both are numbers, and more than 0",
            )
        fma = Rate("fma", threads, gflops, dtype="float32")
        return cls(device, threads, (fma, Rate("read", threads, gbytes)), "stated")

    # -- asking ------------------------------------------------------------------------------------

    def gflops(self, dtype: str = "float32", threads: int | None = None) -> float:
        """Return the rate of multiplying and adding, which are two operations, in GFLOP/s.

        Dtypes without a rate of their own, 16-bit floats and whole numbers, have float32's.

        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> laptop.gflops(), laptop.gflops("float16")
        (100, 100)
        """
        rates = self._at("fma", threads)
        matching = [rate for rate in rates if rate.dtype == dtype]
        return max(rate.best for rate in matching or rates)

    def gbytes(
        self,
        what: Literal["read", "copy"] = "read",
        size: int | None = None,
        threads: int | None = None,
    ) -> float:
        """Return the rate of moving bytes in GB/s: of memory, or within a working set of a size.

        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> laptop.gbytes(), laptop.gbytes("copy")
        (20, 20)
        """
        rates = self._at(what, threads) or self._at("read", threads)
        return max(rates, key=lambda rate: rate.size).best if size is None else _of(rates, size)

    def limit(
        self,
        *,
        flops: float,
        read: float,
        written: float = 0,
        dtype: str = "float32",
        threads: int | None = None,
    ) -> Limit:
        """Return the least time for some operations, and some bytes in and out.

        Data that fits into a cache counts at that cache's rate.

        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> laptop.limit(flops=2e9, read=4e6, written=4e6)
        Limit(seconds=0.02, bound='FMA')
        """
        size = int(read + written)
        in_memory = size > max((r.size for r in self._at("read", threads)[:-1]), default=-1)
        reading = self.gbytes("read", size, threads)
        # A copy of n bytes reads n and writes n; the rest of its time is for writing.
        copying = self.gbytes("copy", size, threads)
        writing = max(2 / copying - 1 / reading, 1 / reading)
        moving = (read / reading + written * writing) / 1e9
        computing = flops / self.gflops(dtype, threads) / 1e9
        if computing >= moving:
            return Limit(computing, "FMA")
        return Limit(moving, "memory" if in_memory else "cache")

    def _at(self, what: str, threads: int | None) -> list[Rate]:
        """Return the rates of a kind, those with small working sets first."""
        mine = [rate for rate in self.rates if rate.what == what]
        wanted = self.threads if threads is None else threads
        # Between one thread and all of them nothing was measured: the nearest one counts.
        near = min((rate.threads for rate in mine), key=lambda n: abs(n - wanted), default=0)
        return sorted((r for r in mine if r.threads == near), key=lambda rate: rate.size)

    @property
    def is_doubtful(self) -> bool:
        """Whether something else must have been running while the rates were measured."""
        spreads = [rate.spread for rate in self.rates if rate.spread is not None]
        return (bool(spreads) and median(spreads) > SPREAD) or bool(load_text(self.busy))

    @property
    def busy(self) -> float | None:
        """How many cores other programs kept busy while most of the rates were measured."""
        known = [rate.busy for rate in self.rates if rate.busy is not None]
        return median(known) if known else None

    def or_better(self, before: PeakRates) -> PeakRates:
        """Return these rates, each replaced by an earlier one if that was better.

        What a machine has done once it can do again, so a busy moment replaces nothing.

        >>> before = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> now = ll.devices.PeakRates.stated("a laptop", gflops=80, gbytes=25)
        >>> best = now.or_better(before)
        >>> best.gflops(), best.gbytes()
        (100, 25)
        """
        known = {rate.key: rate for rate in before.rates}
        best = (
            max(rate, known.get(rate.key, rate), key=lambda candidate: candidate.best)
            for rate in self.rates
        )
        return replace(self, rates=tuple(best))

    # -- shown and kept ----------------------------------------------------------------------------

    @override
    def __str__(self) -> str:
        many = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        when = f" on {self.date[:16].replace('T', ' ')}" if self.date else ""
        by = f" by {self.by}" if self.by else ""
        title = f"{self.device}, {many}: rates {self.how}{by}{when}"
        lines = [title]
        for rate in self.rates:
            earlier = rate.date and rate.date != self.date
            day = f"  on {rate.date[:16].replace('T', ' ')}" if earlier else ""
            lines.append(f"  {rate}{day}")
        lines += [load_text(self.busy)] if load_text(self.busy) else []
        return "\n".join([*lines, DOUBT] if self.is_doubtful else lines)

    @override
    def __repr__(self) -> str:
        return f"<PeakRates of {self.device}, {self.how}; print(…) shows them>"

    _repr_mimebundle_ = as_text

    def to_json(self) -> str:
        """Return the rates as text that `from_json` can read.

        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> laptop.to_json().splitlines()[1:4]
        [' "schema": 1,', ' "device": "a laptop",', ' "threads": 1,']
        """
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> PeakRates:
        """Read the text that `to_json` writes.

        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> ll.devices.PeakRates.from_json(laptop.to_json()) == laptop
        True
        """
        given = read_json("rates", text, SCHEMA)
        try:
            rates = read(cls, given, "rates")
            check_rates(rates)
        except ValueError as error:
            raise RecordingError(
                f"rates: they cannot be read: {error}", hint="measure them again"
            ) from error
        return rates


def check_rates(peaks: PeakRates) -> None:
    """Raise a ValueError unless there are rates of computing and of reading, all above 0."""
    lacking = {"fma", "read"} - {rate.what for rate in peaks.rates}
    if lacking:
        raise ValueError(f"there is no rate of {' and '.join(sorted(lacking))}")
    for rate in peaks.rates:
        if not (rate.best > 0 and rate.threads > 0 and all(sample >= 0 for sample in rate.samples)):
            raise ValueError(f"a rate is {rate.best} with {rate.threads} threads")


def read_json(subject: str, text: str, schema: int) -> dict[str, Any]:
    """Return a JSON object that has the schema number of this version."""
    try:
        given = parsed(text)
    except ValueError as error:
        raise RecordingError(
            f"{subject}: this is not JSON: {error}",
            hint="the file is damaged, or cut short: get it again",
        ) from error
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    number = fields.get("schema")
    if number != schema:
        raise RecordingError(
            f"{subject}: the schema is {shown(number)}, and this version reads {schema}",
            hint="it was written by another version of luminal_lab",
        )
    return fields


def size_text(size: float) -> str:
    """Return a number of bytes, written as briefly as possible.

    >>> size_text(512), size_text(3 << 20), size_text(3_500_000)
    ('512 B', '3 MiB', '3.34 MiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"


def _of(rates: Iterable[Rate], size: int) -> float:
    """Return the rate of the smallest working set that holds a size, or of the largest there is."""
    rates = list(rates)
    return next((rate for rate in rates if rate.size >= size), rates[-1]).best
