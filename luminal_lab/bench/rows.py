"""The results of a benchmark run: a row for each workload, and the machine."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from luminal_lab.bench.workload import USUAL
from luminal_lab.errors import RecordingError
from luminal_lab.machines.rates import PeakRates, check_rates, read_json
from luminal_lab.plain import read
from luminal_lab.reading import read_text

SCHEMA = 1
"""The format of a file of rows, raised whenever it changes."""
OURS = "luminal_lab"
SHARE = "thousandths of the compile"
"""The name among the facts for what snapshots take."""
MODELLED = "modelled ms"
"""The name among the facts for the least time of our launches, by the machine's rates."""
READING = "the file, read"
"""The variant that only reads a model's file: memory is as fast as it is at that moment."""
FLOATS = "float32 activations"
"""The variant of a row that rounds nothing, where its own rounds what it multiplies."""
ROUNDED: Mapping[tuple[str, str], Literal["bfloat16", "int8"]] = {
    ("decode", "q4_k_m"): "int8",
    ("prefill", "bf16"): "bfloat16",
}
"""What rows multiply weights by, by their kind and form, where that is as their peers do."""


@dataclass
class BenchRow:
    """One workload: our time, each library's time, and the machine's limit."""

    name: str
    about: str
    ours_ms: float | None = None
    """The median of the medians of all rounds; None if we failed."""
    peers: dict[str, float] = field(default_factory=dict[str, float])
    """The same for each library that did the work."""
    best_peer: str | None = None
    best_peer_ratio: float | None = None
    """The time of the fastest library divided by ours: above 1 if we are faster."""
    limit_share: float | None = None
    """The least time that the machine's rates allow, divided by ours."""
    best_peer_limit_share: float | None = None
    limit_ms: float | None = None
    bound: str | None = None
    """Which of the machine's rates sets the limit: FMA, memory or cache."""
    variants: dict[str, float] = field(default_factory=dict[str, float])
    """Our times in other forms, such as kernels for any size, or for one."""
    unable: dict[str, str] = field(default_factory=dict[str, str])
    """Libraries and variants that could not do the work, and why."""
    failed: list[str] = field(default_factory=list[str])
    """What went wrong: that we failed, or that results differ."""
    rounds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """For each library, the median ms of each round."""
    minima: dict[str, float] = field(default_factory=dict[str, float])
    """For each library, the ms of its fastest run: what other programs disturbed least."""
    runs: dict[str, int] = field(default_factory=dict[str, int])
    """How often each library ran."""
    tries: int = 1
    """How often the rounds were run: those with the smallest spread count."""
    busy: float | None = None
    """How many cores other programs kept busy meanwhile."""
    first_ms: dict[str, float] = field(default_factory=dict[str, float])
    """The first run of each library, with everything that it does only once."""
    facts: dict[str, float] = field(default_factory=dict[str, float])
    """What was counted besides the time, such as bytes written."""
    modelled_ms: float | None = None
    """The modelled least time of our launches, from the machine's rates."""
    flops: int = 0
    read: int = 0
    written: int = 0
    tolerance: float = 0.0
    tokens: int = 0
    """How many tokens of a language model a run computes."""
    family: str = USUAL
    """Which rows it is counted with in the means."""
    date: str = ""
    """When it was measured, in minutes."""
    slower: str = ""
    """How much slower it became since the run before, if it did."""
    goals: dict[str, float] = field(default_factory=dict[str, float])
    """The least ratio to a library, or the least share of the `limit`, or the most `ms`."""

    @property
    def spread(self) -> float | None:
        """The range of our rounds, as a share of the median."""
        mine = self.rounds.get(OURS)
        if not mine:
            return None
        return (max(mine) - min(mine)) / statistics.median(mine)

    @property
    def least_ratio(self) -> float | None:
        """The fastest run of any library divided by our fastest."""
        theirs = [ms for name, ms in self.minima.items() if name in self.peers]
        mine = self.minima.get(OURS)
        return min(theirs) / mine if theirs and mine else None

    def conclude(self, rates: PeakRates) -> None:
        """Compute what follows from the rounds."""
        medians = {name: statistics.median(times) for name, times in self.rounds.items() if times}
        self.ours_ms = medians.pop(OURS, None)
        self.modelled_ms = self.facts.get(MODELLED, self.modelled_ms)
        self.facts = {name: fact for name, fact in self.facts.items() if MODELLED not in name}
        self.variants = {n: medians.pop(n) for n in [*medians] if n.startswith(f"{OURS}, ")}
        self.variants = {n.removeprefix(f"{OURS}, "): ms for n, ms in self.variants.items()}
        self.peers = medians
        if self.flops or self.read or self.written:
            limit = rates.limit(flops=self.flops, read=self.read, written=self.written)
            self.limit_ms, self.bound = limit.seconds * 1e3, limit.bound
        if READING in self.variants:
            self.limit_ms, self.bound = self.variants[READING], "memory"
        if self.ours_ms and self.limit_ms:
            self.limit_share = self.limit_ms / self.ours_ms
        if medians:
            self.best_peer = min(medians, key=medians.__getitem__)
            best = medians[self.best_peer]
            if self.ours_ms:
                self.best_peer_ratio = best / self.ours_ms
            if self.limit_ms:
                self.best_peer_limit_share = self.limit_ms / best


@dataclass
class Report:
    """All rows of a run, and what they were measured on."""

    version: str
    date: str
    threads: int
    is_quick: bool
    rates: PeakRates
    versions: dict[str, str] = field(default_factory=dict[str, str])
    """The version of each library."""
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Libraries that are not installed, and the command that installs them."""
    rows: list[BenchRow] = field(default_factory=list[BenchRow])
    left_out: list[str] = field(default_factory=list[str])
    """Workloads for which there was no time."""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether no row failed, and no results differ."""
        return not any(row.failed for row in self.rows)

    def to_json(self) -> str:
        """Return the report as text that `from_json` can read."""
        given: dict[str, Any] = {"schema": SCHEMA, **asdict(self)}
        given["rates"] = json.loads(self.rates.to_json())
        for row, data in zip(self.rows, given["rows"], strict=True):
            data["spread"] = row.spread
        return json.dumps(given, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read the text that `to_json` writes."""
        given = read_json("bench", text, SCHEMA)
        try:
            report = read(cls, given, "report")
            check_rates(report.rates)
        except ValueError as error:
            raise RecordingError(
                f"bench: the rows cannot be read: {error}", hint="run the benchmark again"
            ) from error
        return report


def read_report(path: Path) -> Report:
    """Read the file that `--json` wrote."""
    return Report.from_json(read_text("bench", path, "luminal-lab bench --json"))


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """Return the geometric mean, or None if there is nothing.

    >>> round(geometric_mean([0.5, 2.0, 8.0]), 6)
    2.0
    """
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


# -- against another run ---------------------------------------------------------------------------


def slower(now: Report, then: Report) -> list[str]:
    """Return a sentence for each row that became slower by more than the noise of both runs.

    These are rows whose fastest round now took longer than the slowest one then.
    """
    before = {row.name: row for row in then.rows}
    pairs = [(row, before[row.name]) for row in now.rows if row.name in before]
    sentences = {row.name: slowed(row, old) for row, old in pairs}
    return [f"{name}: {sentence}" for name, sentence in sentences.items() if sentence]


def slowed(row: BenchRow, old: BenchRow) -> str:
    """Return how much slower a row became, or nothing if it did not."""
    if old.ours_ms is None:
        return ""
    if row.ours_ms is None:
        return f"it failed, and took {old.ours_ms:.4g} ms then"
    mine, theirs = row.rounds[OURS], old.rounds[OURS]
    if min(mine) <= max(theirs):
        return ""
    return (
        f"{row.ours_ms:.4g} ms, and {old.ours_ms:.4g} ms then: {row.ours_ms / old.ours_ms:.2f} "
        f"times as long ({_span(mine)}; then {_span(theirs)})"
    )


def differences(now: Report, then: Report) -> list[str]:
    """Return the differences that make two runs hard to compare."""
    sentences: list[str] = []
    if now.is_quick != then.is_quick:
        sentences.append("one of the runs is quick, and has other sizes")
    if now.rates.device != then.rates.device:
        sentences.append(f"the machine is {now.rates.device}, and was {then.rates.device}")
    if now.threads != then.threads:
        sentences.append(f"threads are {now.threads}, and were {then.threads}")
    for verb, mine, theirs in (
        ("multiplies and adds at", now.rates.gflops(), then.rates.gflops()),
        ("reads memory at", now.rates.gbytes(), then.rates.gbytes()),
    ):
        if not 0.9 < mine / theirs < 1.1:
            unit = "GFLOP/s" if verb[0] == "m" else "GB/s"
            sentences.append(
                f"the machine {verb} {mine:.1f} {unit}, and did at {theirs:.1f} {unit}"
            )
    return sentences


def _span(times: Sequence[float]) -> str:
    return f"rounds of {min(times):.4g} to {max(times):.4g} ms"
