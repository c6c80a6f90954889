"""An old checkout beside this one: the same work by both, in turns, round by round.

What disturbs a round disturbs both of its turns, so the ratio of a pair says more than the ratio of
two medians. The machine code that the two have compiled is compared as well.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import luminal_lab
from luminal_lab.bench.machine_code import machine_code
from luminal_lab.bench.measure import STEADY, TRIES, apart, scratch
from luminal_lab.bench.model_workloads import with_file
from luminal_lab.bench.peers.known import OURS
from luminal_lab.bench.process import Failed, Prepared, Process
from luminal_lab.bench.rows import geometric_mean
from luminal_lab.bench.stored import StoredArrays, store
from luminal_lab.bench.surroundings import own_home, surroundings
from luminal_lab.bench.table import WIDTH
from luminal_lab.bench.workload import Unable, Workload
from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import LOADED, Load
from luminal_lab.progress import progress

ROUNDS = 40
ALONE = 8
"""The pairs of a row whose runs have a process each."""
TURN = 0.04
"""The seconds of a turn."""
SIDES = "old", "new"
LEAST = 0.97
"""The ratio below which a row is named as slower."""
HEADER = "workload                 old, ms    new, ms   ratio  95% within    code"
NEEDED = "luminal_lab", "pyproject.toml"


@dataclass
class Pair:
    """One workload by both: the median milliseconds of each turn."""

    name: str
    old: list[float] = field(default_factory=list[float])
    new: list[float] = field(default_factory=list[float])
    same_code: bool | None = None
    """Whether both compile to the same machine code; None if that could not be read."""
    failed: list[str] = field(default_factory=list[str])
    tries: int = 1
    busy: float | None = None
    """How many cores other programs kept busy meanwhile."""

    @property
    def ratios(self) -> list[float]:
        """The old time divided by the new one for each round, sorted."""
        return sorted(old / new for old, new in zip(self.old, self.new, strict=True))

    @property
    def ratio(self) -> float | None:
        """The median of the ratios, above 1 if the new checkout is faster."""
        return statistics.median(self.ratios) if self.old else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The two ratios between which the true median lies, 19 times out of 20."""
        ratios, count = self.ratios, len(self.old)
        if count < 6:
            return None
        # As many rounds fall below the median as coins fall on one side.
        off = int(count / 2 - 0.98 * count**0.5)
        return ratios[max(0, off)], ratios[min(count - 1, count - 1 - off)]

    @property
    def spread(self) -> float:
        """The distance between the quartiles of the ratios."""
        if len(self.old) < 4:
            return 0.0
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return high - low


@dataclass
class PairedReport:
    """All rows of a run, and what was compared."""

    commit: str
    date: str
    threads: int
    is_quick: bool
    rows: list[Pair] = field(default_factory=list[Pair])

    @property
    def mean(self) -> float | None:
        """The geometric mean of the ratios."""
        return geometric_mean(row.ratio for row in self.rows if row.ratio is not None)

    @property
    def is_good(self) -> bool:
        """Whether both did all the work, with the same results."""
        return not any(row.failed for row in self.rows)

    def to_json(self) -> str:
        """Return the report as text."""
        given: dict[str, Any] = {**asdict(self), "mean": self.mean}
        given["rows"] = [
            {**asdict(row), "ratio": row.ratio, "bounds": row.bounds} for row in self.rows
        ]
        return json.dumps(given, indent=1) + "\n"


def compare(
    commit: str,
    workloads: Sequence[Workload],
    threads: int = 0,
    *,
    is_quick: bool = False,
    done: Callable[[PairedReport, Pair], object] = lambda report, row: None,
) -> PairedReport:
    """Time an old checkout of this repository beside the running one; `done` gets each row."""
    full = commit_of(commit)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    report = PairedReport(full, date, threads or usable_cores(), is_quick)
    with scratch() as folder, progress("bench", len(workloads), "workload") as bar:
        old = folder / "checkout"
        check_out(full, old)
        both = _Both(report, {"old": old, "new": package_root()}, folder)
        try:
            for workload in workloads:
                bar.now(workload.name)
                report.rows.append(both.row(workload))
                bar.aside()
                done(report, report.rows[-1])
                bar.step()
        finally:
            both.end()
    return report


class _Side(NamedTuple):
    """A checkout, in a process and a home of its own."""

    process: Process
    home: Path
    begun: Callable[[], Process]
    """Starts another process of the checkout, in the same home."""

    def first(self, workload: Workload, stored: StoredArrays) -> Prepared:
        """Let a new process do a workload once, in an empty home if nothing is to be cached."""
        if not workload.sizes["cached"]:
            shutil.rmtree(self.home, ignore_errors=True)
            self.home.mkdir()
        process = self.begun()
        try:
            return process.prepare(workload, stored)
        finally:
            process.end()

    def libraries(self) -> set[Path]:
        """Return the libraries that it has compiled, one path for each."""
        paths = sorted(self.home.rglob("lib-*/library.*"))
        return {*{path.stat().st_ino: path for path in paths}.values()}


class _Both:
    """The old checkout and the new one."""

    def __init__(self, report: PairedReport, roots: Mapping[str, Path], folder: Path) -> None:
        self.report, self.folder = report, folder
        self.sides: dict[str, _Side] = {}
        around = surroundings(report.threads, folder)
        for name in SIDES:
            home = folder / f"home-{name}"
            begun = partial(
                Process,
                OURS.peer_class,
                {"threads": report.threads},
                own_home(around, home),
                folder,
                package=roots[name],
            )
            self.sides[name] = _Side(begun(), home, begun)

    def end(self) -> None:
        for side in self.sides.values():
            side.process.end()

    def row(self, workload: Workload) -> Pair:
        row = Pair(workload.name)
        workload = with_file(workload, self.folder)
        data = workload.data(
            workload.sizes, np.random.default_rng(zlib.crc32(workload.kind.encode()))
        )
        path = self.folder / "data"
        stored = store(data, path)
        del data
        results: dict[str, list[Array]] = {}
        libraries: dict[str, list[Path]] = {}
        try:
            for name, side in self.sides.items():
                before = side.libraries()
                first = side.first if workload.is_alone else side.process.prepare
                results[name] = first(workload, stored).results
                libraries[name] = [*(side.libraries() - before)]
            row.failed += apart("the old one", results["old"], results["new"], workload.tolerance)
            with suppress(DeviceError):
                row.same_code = machine_code(libraries["old"]) == machine_code(libraries["new"])
            if workload.is_alone:
                self._alone(row, workload, stored)
            else:
                self._turns(row)
        except (Failed, Unable) as error:
            name = next((side_name for side_name in SIDES if side_name not in libraries), "both")
            row.failed.append(f"{name}: {error}")
        finally:
            for side in self.sides.values():
                with suppress(Failed):
                    side.process.release()
            path.unlink()
        return row

    def _alone(self, row: Pair, workload: Workload, stored: StoredArrays) -> None:
        """Time both in turns, each run in a new process."""
        for turn in range(ALONE):
            for name in SIDES if turn % 2 else SIDES[::-1]:
                seconds = self.sides[name].first(workload, stored).seconds
                getattr(row, name).append(1e3 * seconds)

    def _turns(self, row: Pair) -> None:
        """Time both in turns, repeating disturbed tries; the calmest one counts."""
        best: Pair | None = None
        for number in range(TRIES):
            attempt = Pair(row.name)
            with Load(side.process.id for side in self.sides.values()) as load:
                for turn in range(ROUNDS):
                    # The second finds what the first has left in the caches, and its clock speed.
                    for name in SIDES if turn % 2 else SIDES[::-1]:
                        times = self.sides[name].process.time(TURN)
                        getattr(attempt, name).append(1e3 * statistics.median(times))
            attempt.busy, row.tries = load.others, number + 1
            best = attempt if best is None or attempt.spread < best.spread else best
            if attempt.spread <= STEADY:
                break
        assert best is not None
        row.old, row.new, row.busy = best.old, best.new, best.busy


# -- checkouts -------------------------------------------------------------------------------------


def package_root() -> Path:
    """Return the folder that contains the running package."""
    return Path(luminal_lab.__file__).parents[1]


def commit_of(name: str) -> str:
    """Return the full name of a commit of this repository."""
    done = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if done.returncode:
        where = package_root()
        if not (where / ".git").exists():
            raise ArgumentError(
                f"bench: {where} is not a git checkout, and has no old commits",
                hint="clone the repository, and install it with pip install --editable",
            )
        raise ArgumentError(
            f"bench: there is no commit {name!r}",
            hint="give what git log shows, or a branch or tag",
        )
    return done.stdout.decode().strip()


def check_out(commit: str, folder: Path) -> None:
    """Write a commit's version of the package into a folder."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    done = _git("archive", f"--output={archive}", commit, *NEEDED)
    if done.returncode:
        raise ArgumentError(
            f"bench: commit {commit[:12]} cannot be checked out: {done.stderr.decode().strip()}",
            hint="give a commit that has the package",
        )
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", str(package_root()), *words], capture_output=True, check=False
        )
    except OSError as error:
        raise ArgumentError(
            f"bench: git cannot be run: {error}", hint="install git, which has the old commits"
        ) from error


# -- the table -------------------------------------------------------------------------------------


def head(report: PairedReport) -> str:
    """Return the lines above the table."""
    many = "1 thread" if report.threads == 1 else f"{report.threads} threads"
    title = f"commit {report.commit[:12]} beside this checkout, {many}, {ROUNDS} pairs of turns"
    title += "; small sizes, for a quick look" if report.is_quick else ""
    return f"{title}\na ratio above 1: this checkout is faster\n\n{HEADER}\n{'-' * WIDTH}"


def line(row: Pair) -> str:
    """Return the line of a row."""
    if row.ratio is None:
        return f"{row.name:<22} FAILED"
    old, new = statistics.median(row.old), statistics.median(row.new)
    within = "" if row.bounds is None else "{:.2f} to {:.2f}".format(*row.bounds)
    code = {True: "same", False: "other", None: "unknown"}[row.same_code]
    notes = [f"noise {row.spread:.0%}"] if row.spread > STEADY else []
    notes += [f"load {row.busy:.1f}"] if row.busy is not None and row.busy >= LOADED else []
    text = f"{row.name:<22} {old:>9.4g} {new:>10.4g} {row.ratio:>7.3f}  {within:<12}  {code:<8}"
    return f"{text}{'; '.join(notes)}".rstrip()


def foot(report: PairedReport) -> Iterator[str]:
    """Yield the lines below the table."""
    if report.mean is not None:
        yield f"geometric mean of the ratios: {report.mean:.3f}"
    slow = [row.name for row in report.rows if row.ratio is not None and row.ratio < LEAST]
    yield f"below {LEAST}: {', '.join(slow) or 'none'}"
    other = [row.name for row in report.rows if row.same_code is False]
    yield f"other machine code: {', '.join(other) or 'none'}"
