"""Times, each with how it was obtained: measured here, recorded elsewhere, or modelled from rates.

A row is one launch of a kernel, or one node if the interpreter runs. It has all of its samples, the
kernel's work (bytes, operations), and the least time in which the machine could do it; the share
says how close it came. `cx.time()` measures; `cx.time(model=rates)` only computes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Charted, Displayed, Theme
from luminal_lab.errors import (
    ArgumentError,
    GraphError,
    RecordingError,
    expect,
    nearest,
    position,
    whole_number,
)
from luminal_lab.machines.load import BUSY, is_crowded, load_text
from luminal_lab.machines.rates import DOUBT, Limit, PeakRates, check_rates, read_json, size_text
from luminal_lab.plain import read
from luminal_lab.reading import read_text, shown
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.folded import Asked, Folded, Part, folded
from luminal_lab.timing.timeline import Timeline, check_timeline, chrome_trace
from luminal_lab.writing import write_bytes

SCHEMA = 1
"""The format of a file of timings, raised whenever it changes."""
MOST_SHOWN = 30
"""How many rows the text shows before it only counts the rest."""
How: TypeAlias = Literal["measured", "recorded", "modelled"]
CACHED = (
    "that roof is in doubt: some of the data still lay in a nearer cache than the rate is measured "
    "for"
)
TOO_LOW = (
    "that roof is in doubt: the processor has done more than was measured of it; "
    "ll.devices.peak_rates(fresh=True) measures it again"
)
IN_DOUBT: Final = {"FMA": TOO_LOW, "memory": CACHED, "cache": CACHED}
"""Why a launch may exceed a roof."""
FACTORS: Final = {"s": 1.0, "ms": 1e3, "µs": 1e6}
MARK: Final = {"measured": "", "recorded": "°", "modelled": "~"}
"""The marks of times, so that the three kinds never look alike."""


@told_object("row")
@dataclass(frozen=True, repr=False)
class Timing:
    """The times of one launch, or of one node."""

    name: str
    kind: Literal["launch", "node", "host"]
    kernel: str
    node: str
    origins: tuple[str, ...]
    """The user's lines that it comes from."""
    samples: tuple[float, ...]
    """Seconds, after warm-up, in the order in which they were taken."""
    flops: int | None = None
    read: int | None = None
    """Bytes."""
    written: int | None = None
    dtype: str = "float32"
    limit: Limit | None = None
    """The least time on this machine; None if the rates or the work are unknown."""
    how: How = "measured"
    family: str = ""
    """The kind of work that it does, as in "product" or "copy"."""
    parts: tuple[Part, ...] = ()
    """The lines and scopes whose work it does, each with its share."""
    shares: tuple[float, ...] = ()
    """The share of each of its lines, by what they compute; they add up to 1."""

    @property
    def seconds(self) -> float:
        """The median of the samples."""
        return median(self.samples)

    @property
    def spread(self) -> float:
        """The distance between the quartiles of the samples."""
        return spread_of(self.samples)

    @property
    def bytes(self) -> int | None:
        """The bytes that are read and written."""
        return None if self.read is None or self.written is None else self.read + self.written

    @property
    def gbytes(self) -> float | None:
        """The GB/s that it reached."""
        return _rate(self.bytes, self.seconds)

    @property
    def gflops(self) -> float | None:
        """The GFLOP/s that it reached."""
        return _rate(self.flops, self.seconds)

    @property
    def share(self) -> float | None:
        """The least time that the machine allows divided by its own: 1 is as fast as possible."""
        if self.limit is None or not self.limit.seconds or not self.seconds:
            return None
        return self.limit.seconds / self.seconds

    @property
    def label(self) -> str:
        """The launch, and the user's name for its result, as a table shows them."""
        return f"{self.name} {self.node}".strip() if is_named(self.node) else self.name

    @override
    def __str__(self) -> str:
        factor, unit = unit_of(self.seconds)
        mark = MARK[self.how]
        parts = [f"{self.label}: {mark}{factor * self.seconds:.3f} {unit}"]
        if self.how != "modelled":
            parts[0] += (
                f" ± {mark}{factor * self.spread:.3f}, {_counted(len(self.samples), 'sample')}"
            )
        parts += [size_text(self.bytes)] if self.bytes is not None else []
        if self.share is not None and self.limit is not None:
            parts.append(f"{self.share:.0%} of the limit ({self.limit.bound})")
        return "; ".join([*parts, *([_lines(self)] if self.origins else [])])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Timing {self}>"


@told_object("timings")
@dataclass(frozen=True, repr=False)
class Timings(Charted, Displayed):
    """The times of a graph's launches, slowest marked; a sequence of rows with a table.

    >>> row = Timing("double", "launch", "double", "%y", (), (0.002, 0.003, 0.002))
    >>> timings = Timings("main", (row,), device="a laptop", clock="perf_counter")
    >>> timings["double"].seconds
    0.002
    """

    graph: str
    rows: tuple[Timing, ...]
    how: How = "measured"
    device: str = ""
    threads: int = 1
    """The processor's threads that ran it; 0 on a GPU."""
    clock: str = ""
    warm_up: int = 0
    date: str = ""
    whole: tuple[float, ...] = ()
    """The seconds of complete runs, with everything between launches."""
    rates: PeakRates | None = None
    """The machine's rates, from which the limits come."""
    note: str = ""
    busy: float | None = None
    """How many cores other programs kept busy meanwhile; None if unknown."""
    timeline: Timeline | None = None
    """When everything happened in a run of about the median time."""

    # -- rows --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Timing]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: int | str) -> Timing:
        """Return a row by its position, or by the name of its launch or its node."""
        if not isinstance(name, str):
            hint = "give its place, or the name of its launch or its node"
            if whole_number(name) is None:
                raise ArgumentError(f"timings: {name!r} names no row", hint=hint)
            missing = "timings: there is no row"
            return self.rows[position(name, len(self), missing, "rows count from 0")]
        for row in self.rows:
            if name in (row.name, row.node, row.node.removeprefix("%")):
                return row
        known = [word for row in self.rows for word in (row.name, row.node)]
        raise GraphError(f"timings: there is no launch {name!r}", hint=nearest(name, known))

    @property
    def seconds(self) -> float:
        """The median of complete runs; if modelled, the sum of the launches."""
        return median(self.whole) if self.whole else self.launches

    @property
    def launches(self) -> float:
        """The sum of the medians of all rows."""
        return sum(row.seconds for row in self.rows)

    @property
    def rounds(self) -> int:
        """The largest number of samples of any row."""
        return max((len(row.samples) for row in self.rows), default=len(self.whole))

    @cached_property
    def slowest(self) -> Timing | None:
        """The row that takes the longest."""
        return max(self.rows, key=lambda row: row.seconds, default=None)

    def by_kernel(self) -> dict[str, float]:
        """Return the seconds of all launches of each kernel, the longest first.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> cx.time(model=laptop).by_kernel()
        {'mul': 4e-07}
        """
        sums: dict[str, float] = {}
        for row in self.rows:
            sums[row.kernel] = sums.get(row.kernel, 0.0) + row.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def by(self, what: Asked, *, depth: int | None = None) -> Folded:
        """Return the time of each "module" of the model, each "line", or each "kind" of work.

        A kernel of several lines is divided by the operations of each, so that all parts add up to
        the launches. Scopes count as modules; with a `depth`, only that many levels do.

        >>> with cx.scope("head"):
        ...     y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> print(cx.time(model=laptop).by("module"))
        main by module, modelled for a laptop, 1 thread
            µs  share  launches  module
        ~0.400   100%         1  head
          ~0.400 µs in all launches
        """
        return folded(self, what, depth)

    def beside(self, other: Timings) -> Comparison:
        """Return both side by side, kernel by kernel.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> slow = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> fast = ll.devices.PeakRates.stated("a desktop", gflops=200, gbytes=40)
        >>> print(cx.time(model=slow).beside(cx.time(model=fast)))
        main beside main
          first: modelled for a laptop, 1 thread
          second: modelled for a desktop, 1 thread
        first µs  second µs  ratio  kernel
          ~0.400     ~0.200   2.00  mul
          ~0.400     ~0.200   2.00  the whole
        """
        said = f"timings: {{}} has no times to stand beside those of {self.graph}"
        expect(other, Timings, said, "give other timings, as in before.beside(cx.time())")
        return Comparison(self, other)

    # -- shown -------------------------------------------------------------------------------------

    @override
    def __str__(self) -> str:
        kinds = {row.kind for row in self.rows}
        unit_name = "nodes" if kinds == {"node"} else "launches"
        count = f"1 {unit_name.removesuffix('es' if unit_name == 'launches' else 's')}"
        count = count if len(self.rows) == 1 else f"{len(self.rows)} {unit_name}"
        title = f"{self.graph}: {count}, {self.how}{self.where}"
        shown = list(zip(self.rows, self.labels, strict=True))
        if len(shown) > MOST_SHOWN:
            least = sorted((row.seconds for row in self.rows), reverse=True)[MOST_SHOWN - 1]
            shown = [pair for pair in shown if pair[0].seconds >= least][:MOST_SHOWN]
        header = [(">", ""), (">", self.unit), *HEADER[1:]]
        if self._only_line:
            title += f"; all from {self._only_line}"
            header[-1] = ("<", "module")
        lines = [title, *aligned(header, [self._cells(*pair) for pair in shown])]
        hidden = len(self.rows) - len(shown)
        if hidden:
            rest = self.launches - sum(row.seconds for row, _ in shown)
            lines.append(f"  and {hidden} faster ones, {self.shown(rest)} {self.unit} together")
        lines.append(f"  {self.shown(self.launches)} {self.unit} in {unit_name}")
        if self.whole:
            spread = self.shown(spread_of(self.whole))
            lines.append(f"  {self.shown(self.seconds)} ± {spread} {self.unit} for a whole run")
        return "\n".join([*lines, *self._with()])

    @override
    def __repr__(self) -> str:
        return (
            f"<Timings of {self.graph}: {_counted(len(self.rows), 'row')}, "
            f"{self.shown(self.seconds, 'ms')} ms {self.how}; print(…) shows them>"
        )

    @property
    def where(self) -> str:
        """The device, its threads and the date, as in a title."""
        many = f", {_counted(self.threads, 'thread')}" if self.threads else ""
        when = f", {self.date[:16].replace('T', ' ')}" if self.date else ""
        return f" {'for' if self.how == 'modelled' else 'on'} {self.device}{many}{when}"

    def _with(self) -> Iterator[str]:
        if self.how == "modelled":
            yield "modelled: the least time that the rates allow; nothing was run"
        else:
            runs = f"{_counted(self.warm_up, 'run')} to warm up"
            many = f"{_counted(self.rounds, 'sample')} after {runs}"
            yield f"clock {self.clock}, {many}; medians, ± is between the quartiles"
        if self.rates is not None:
            gbytes = self.rates.gbytes(threads=self.threads)
            gflops = self.rates.gflops(threads=self.threads)
            reach = f"{gflops:.0f} GFLOP/s in float32, {gbytes:.1f} GB/s from memory"
            yield f"limits from rates {self.rates.how}: {reach}"
        yield from self.doubts
        if self.note:
            yield self.note

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why times or shares may be wrong: load, or a roof that was exceeded."""
        over = {row.limit.bound for row in self.rows if row.limit and (row.share or 0) > 1}
        doubts = [f"more than 100% of {name}: {IN_DOUBT[name]}" for name in sorted(over)]
        if self.rates is not None and self.rates.is_doubtful:
            doubts.append(DOUBT)
        load = load_text(self.busy)
        return (*doubts, load) if load else tuple(doubts)

    @property
    def unit(self) -> str:
        """The unit of times in the text: that of the slowest row."""
        return "ms" if self.slowest is None else unit_of(self.slowest.seconds)[1]

    def shown(self, seconds: float, unit: str | None = None) -> str:
        """Return a time in a unit, with the mark for how it was obtained.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> timings = cx.time(model=laptop)
        >>> timings.shown(timings.seconds, "µs")
        '~0.400'
        """
        return f"{MARK[self.how]}{FACTORS[unit or self.unit] * seconds:.3f}"

    def _cells(self, row: Timing, label: str) -> list[str]:
        slowest = row is self.slowest and len(self.rows) > 1
        gbytes = "" if not row.gbytes else f"{row.gbytes:.1f}"
        gflops = "" if not row.gflops else f"{row.gflops:.1f}"
        share = "" if row.share is None else f"{row.share:.0%}"
        bound = "" if row.limit is None or not row.limit.seconds else row.limit.bound
        size = "" if row.bytes is None else size_text(row.bytes)
        spread = "" if row.how == "modelled" else f"± {self.shown(row.spread)}"
        mark = ">" if slowest else ""
        times = [mark, self.shown(row.seconds), spread, size, gbytes, gflops, share, bound]
        name = label + (" (host)" if row.kind == "host" else "")
        return [*times, name, _modules(row) if self._only_line else _lines(row)]

    @cached_property
    def _only_line(self) -> str:
        """The line from which all launches of several modules come, as of a model that was loaded.

        Of such rows their modules say more.
        """
        lines = {_lines(row) for row in self.rows if row.origins}
        modules = {_modules(row) for row in self.rows}
        return lines.pop() if len(lines) == 1 < len(modules) else ""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the rows, numbered from the second of the same name on."""
        met: Counter[str] = Counter()
        labels: list[str] = []
        for row in self.rows:
            met[row.label] += 1
            labels.append(row.label + (f" #{met[row.label]}" if met[row.label] > 1 else ""))
        return tuple(labels)

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each launch; what holds for all is in its attrs.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> cx.time(model=laptop).to_pandas()[["launch", "bytes", "bound"]].values.tolist()
        [['mul', 8000, 'memory']]
        """
        about = {
            name: getattr(self, name)
            for name in ("graph", "how", "device", "threads", "clock", "warm_up", "date", "note")
        }
        return frame("timings", COLUMNS, map(_record, self.rows), about)

    @override
    def plot(self, *others: Timings, theme: Theme = "auto") -> Any:
        """Return bars, one for each launch; other timings, as from a recording, stand beside them.

        Measured, recorded and modelled look different; whiskers end at the quartiles.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> [bars.name for bars in cx.time(model=laptop).plot().data]
        ['a laptop (~modelled)']
        """
        return DISPLAYS["Timings.plot"](self, *others, theme=theme)

    def roofline(self, *, theme: Theme = "auto", still: bool = False) -> Any:  # noqa: ANN401  # a figure of plotly's, or a picture
        """Return a chart of what the machine could do, and how close each launch came.

        It is a plotly figure, or with `still=True` a picture that a saved notebook keeps.

        >>> y = (cx.tensor((1000,), name="x") * 2).retrieve()
        >>> laptop = ll.devices.PeakRates.stated("a laptop", gflops=100, gbytes=20)
        >>> cx.time(model=laptop).roofline(still=True)
        <Picture: Roofline of main: what is reached, and the roof: a laptop (~modelled).>
        """
        return DISPLAYS["Timings.roofline"](self, theme=theme, still=still)

    # -- kept --------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the timings as text that `from_json` can read.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> cx.time(rounds=3).to_json().splitlines()[1:3]
        [' "schema": 1,', ' "graph": "main",']
        """
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1)

    def save(self, path: str | Path) -> None:
        """Write the timings to a file; the old one stays until the new one is complete.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> cx.time(rounds=3).save(folder / "times.json")
        >>> [file.name for file in folder.iterdir()]
        ['times.json']
        """
        write_bytes("timings", path, self.to_json().encode())

    def save_trace(self, path: str | Path) -> None:
        """Write when everything happened in a run, for ui.perfetto.dev or chrome://tracing.

        Python, launches, kernels and gaps each have a track.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> cx.time(rounds=3).save_trace(folder / "trace.json")
        >>> "traceEvents" in (folder / "trace.json").read_text()
        True
        """
        write_bytes("trace", path, chrome_trace(self).encode())

    @classmethod
    def load(cls, path: str | Path) -> Timings:
        """Read timings from a file: what was measured then is recorded now.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> cx.time(rounds=3).save(folder / "times.json")
        >>> timings = ll.devices.Timings.load(folder / "times.json")
        >>> timings.how, timings.rounds
        ('recorded', 3)
        """
        return cls.from_json(read_text("timings", path, "save(...)"))

    @classmethod
    def from_json(cls, text: str) -> Timings:
        """Read the text that `to_json` writes; what was measured then is recorded now.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> timings = cx.time(rounds=3)
        >>> again = ll.devices.Timings.from_json(timings.to_json())
        >>> again["mul"].samples == timings["mul"].samples
        True
        """
        given = read_json("timings", text, SCHEMA)
        try:
            timings = read(cls, given, "timings")
            for row in timings.rows:
                check_samples(row.samples)
            if timings.rates is not None:
                check_rates(timings.rates)
            if timings.timeline is not None:
                check_timeline(timings.timeline, len(timings))
        except ValueError as error:
            raise RecordingError(
                f"timings: they cannot be read: {error}", hint="time the graph again"
            ) from error
        return timings.recorded()

    def recorded(self) -> Timings:
        """Return the same times as recorded ones, no longer measured here.

        >>> y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        >>> timings = cx.time(rounds=3)
        >>> timings.how, timings.recorded().how
        ('measured', 'recorded')
        """
        if self.how != "measured":
            return self
        rows = tuple(replace(row, how="recorded") for row in self.rows)
        return replace(self, how="recorded", rows=rows)


# -- beside each other -----------------------------------------------------------------------------


@told_object("comparison")
@dataclass(frozen=True, repr=False)
class Comparison:
    """Two timings side by side; a ratio above 1 is how many times faster the second is."""

    first: Timings
    second: Timings

    @property
    def kernels(self) -> dict[str, tuple[float | None, float | None]]:
        """The seconds of each kernel in both; None if one has no such kernel."""
        first, second = self.first.by_kernel(), self.second.by_kernel()
        return {name: (first.get(name), second.get(name)) for name in {**first, **second}}

    @property
    def ratios(self) -> dict[str, float]:
        """How many times faster the second is, for each kernel that both have."""
        return {n: a / b for n, (a, b) in self.kernels.items() if a is not None and b}

    @property
    def ratio(self) -> float:
        """How many times faster the second is as a whole."""
        return self.first.seconds / self.second.seconds

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each kernel: both seconds, and their ratio."""
        rows = ((name, *pair, self.ratios.get(name)) for name, pair in self.kernels.items())
        columns = ("kernel", "first_seconds", "second_seconds", "ratio")
        return frame("comparison", columns, rows)

    @override
    def __str__(self) -> str:
        sides = self.first, self.second
        unit = max(sides, key=lambda side: side.seconds).unit
        title = f"{self.first.graph} beside {self.second.graph}"
        heads = [
            f"  {name}: {side.how}{side.where}"
            for name, side in zip(("first", "second"), sides, strict=True)
        ]
        rows = [
            [
                *("" if t is None else s.shown(t, unit) for t, s in zip(pair, sides, strict=True)),
                f"{self.ratios[name]:.2f}" if name in self.ratios else "",
                name,
            ]
            for name, pair in self.kernels.items()
        ]
        whole = [s.shown(s.seconds, unit) for s in sides]
        rows.append([*whole, f"{self.ratio:.2f}", "the whole"])
        header = [(">", f"first {unit}"), (">", f"second {unit}"), (">", "ratio"), ("<", "kernel")]
        return "\n".join([title, *heads, *aligned(header, rows), *self.doubts])

    @property
    def doubts(self) -> list[str]:
        """Why the ratios may be wrong."""
        sides = {"first": self.first.busy, "second": self.second.busy}
        doubts = [f"{name}: {load_text(busy)}" for name, busy in sides.items() if load_text(busy)]
        return [*doubts, BUSY] if any(map(is_crowded, sides.values())) else doubts

    @override
    def __repr__(self) -> str:
        return f"<Comparison: the second takes 1/{self.ratio:.2f} of the time; print(…) shows it>"

    _repr_mimebundle_ = as_text


# -- parts -----------------------------------------------------------------------------------------

HEADER: Final = heads("> ms < ± > bytes > GB/s > GFLOP/s > share < limit < launch < from")
COLUMNS: Final = """
launch kind kernel node origin how seconds spread samples bytes flops gbytes gflops
limit_seconds bound share
""".split()  # noqa: SIM905  # a list of names reads better so


def unit_of(seconds: float) -> tuple[float, str]:
    """Return the unit that fits a time: how many there are in a second, and its name.

    >>> unit_of(2.5), unit_of(0.0025), unit_of(2e-6)
    ((1.0, 's'), (1000.0, 'ms'), (1000000.0, 'µs'))
    """
    unit = "s" if seconds >= 1 else "ms" if seconds >= 1e-3 else "µs"
    return FACTORS[unit], unit


def is_named(node: str) -> bool:
    """Return whether the user has named a node."""
    return not node.removeprefix("%").isdigit()


def check_samples(samples: Sequence[float]) -> None:
    """Raise a ValueError unless there are times, none of them negative."""
    if not samples or not all(0 <= seconds < float("inf") for seconds in samples):
        raise ValueError(f"samples are {shown([*samples])}")


def spread_of(samples: Sequence[float]) -> float:
    """Return the distance between the quartiles.

    >>> spread_of([1.0, 2.0, 3.0, 4.0, 5.0])
    2.0
    """
    if len(samples) < 2:
        return 0.0
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return high - low


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _rate(amount: int | None, seconds: float) -> float | None:
    return None if amount is None or not seconds else amount / seconds / 1e9


def _lines(row: Timing) -> str:
    """Return the lines with the largest shares, with their shares if there are several."""
    more = f" and {len(row.origins) - 2} more" if len(row.origins) > 2 else ""
    shares = row.shares if len(row.shares) == len(row.origins) > 1 else ()
    shown = [f" {share:.0%}" for share in shares] or [""] * len(row.origins)
    pairs = zip(row.origins[:2], shown[:2], strict=True)
    return "; ".join(f"{line}{share}" for line, share in pairs) + more


def _modules(row: Timing) -> str:
    """Return the module whose work most of a launch is, and how many others there are."""
    shares: dict[str, float] = {}
    for part in row.parts:
        shares[part.scope] = shares.get(part.scope, 0.0) + part.share
    most = max(shares, key=lambda scope: shares[scope], default="")
    return most + (f" and {len(shares) - 1} more" if len(shares) > 1 else "")


def _record(row: Timing) -> list[object]:
    """Return a row of the table; most columns are attributes."""
    limit, bound = (None, None) if row.limit is None else row.limit
    own = {"launch": row.name, "origin": _lines(row), "limit_seconds": limit}
    own["bound"] = bound
    return [own[name] if name in own else getattr(row, name) for name in COLUMNS]
