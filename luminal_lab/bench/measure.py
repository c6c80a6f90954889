"""The run: every workload prepared by every library, compared, and then timed in turns."""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from luminal_lab.bench.model_workloads import with_file
from luminal_lab.bench.peers.known import OURS, PEERS, Known
from luminal_lab.bench.process import Failed, Prepared, Process
from luminal_lab.bench.rows import READING, BenchRow, Report
from luminal_lab.bench.stored import StoredArrays, store
from luminal_lab.bench.surroundings import own_home, surroundings
from luminal_lab.bench.workload import Unable, Workload
from luminal_lab.bench.workloads import EIGHTH
from luminal_lab.core.dtypes import Array
from luminal_lab.devices.facts.probe import peak_rates
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import Load
from luminal_lab.passes.judge import typical
from luminal_lab.progress import Progress, progress

ROUNDS = 3
TRIES = 3
"""How often the rounds of a row are run at most."""
STEADY = 0.15
"""The spread above which they are run again."""
QUICK_TURN = 0.02
"""The seconds of a turn in a quick run."""
SHARED = Path("/dev/shm")  # where Linux has files that are only in memory
WRITTEN = "bytes written"
TOO_LONG = "a quick run leaves it out: compiling takes longer than everything else"


class Options(NamedTuple):
    """How a run is done."""

    threads: int = 0
    """0 means all available ones."""
    is_quick: bool = False
    rounds: int = ROUNDS
    peers: tuple[Known, ...] = PEERS
    limit: float = math.inf
    """The seconds after which no other row begins."""


def measure(
    workloads: Sequence[Workload],
    options: Options,
    version: str,
    done: Callable[[Report, BenchRow], object] = lambda report, row: None,
) -> Report:
    """Measure workloads; `done` gets each row once it is complete."""
    with progress("bench", len(workloads), "workload") as bar:
        return _measured(workloads, options, version, done, bar)


def _measured(
    workloads: Sequence[Workload],
    options: Options,
    version: str,
    done: Callable[[Report, BenchRow], object],
    bar: Progress,
) -> Report:
    begin = perf_counter()
    threads = options.threads or usable_cores()
    bar.now("the machine's rates")
    report = Report(
        version,
        datetime.now(UTC).isoformat(timespec="seconds"),
        threads,
        options.is_quick,
        peak_rates(threads, fresh=not options.is_quick),
    )
    peers: list[Known] = []
    for peer in options.peers:
        if peer.missing:
            report.missing[peer.name] = peer.missing
        else:
            peers.append(peer)
            report.versions[peer.name] = version_of(peer.package)
    with scratch() as folder, BenchRun(report, options, peers, folder, bar) as run:
        for workload in workloads:
            if perf_counter() - begin > options.limit:
                report.left_out.append(workload.name)
                bar.step()
                continue
            row = run.alone(workload) if workload.is_alone else run.row(workload)
            row.unable |= {n: why for n, why in report.missing.items() if n not in row.unable}
            row.conclude(report.rates)
            row.date = datetime.now(UTC).isoformat(" ", "minutes").removesuffix("+00:00")
            report.rows.append(row)
            report.seconds = perf_counter() - begin
            bar.step()
            bar.aside()
            done(report, row)
    return report


@contextmanager
def scratch() -> Generator[Path]:
    """Yield a folder for data and caches, in memory if possible."""
    parent = SHARED if SHARED.is_dir() and shutil.disk_usage(SHARED).free > 8 << 30 else None
    with tempfile.TemporaryDirectory(
        prefix="luminal-lab-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


class BenchRun:
    """The processes of a run, and its schedule of requests."""

    def __init__(
        self,
        report: Report,
        options: Options,
        peers: list[Known],
        folder: Path,
        bar: Progress,
    ) -> None:
        self.report = report
        self.options = options
        self.peers = peers
        self.folder = folder
        self.announce = bar.now
        self.around = surroundings(report.threads, folder)
        self.processes: dict[str, Process] = {}

    def __enter__(self) -> BenchRun:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            process.end()

    def process(self, name: str, known: Known, **more: str) -> Process:
        """Return the process of a library, started when it is first needed or has ended."""
        if name not in self.processes or not self.processes[name].is_alive:
            given = {"threads": self.report.threads, **more}
            self.processes[name] = Process(known.peer_class, given, self.around, self.folder)
        return self.processes[name]

    # -- a workload --------------------------------------------------------------------------------

    def row(self, workload: Workload) -> BenchRow:
        """Measure one workload."""
        row = new_row(workload)
        self.announce(f"{workload.name}: data")
        workload = with_file(workload, self.folder)
        data = workload.data(
            workload.sizes, np.random.default_rng(zlib.crc32(workload.kind.encode()))
        )
        path = self.folder / "data"
        stored = store(data, path)
        del data
        ours: list[Array] | None = None
        ready: dict[str, Process] = {}
        try:
            for name, known, more in self._asked(workload, row):
                self.announce(f"{workload.name}: {name} gets ready")
                process = self.process(name, known, **more)
                try:
                    prepared = process.prepare(workload, stored)
                except Unable as error:
                    row.unable[name] = str(error)
                    continue
                except Failed as error:
                    row.unable[name] = f"failed: {error}"
                    row.failed.append(f"{name}: {error}")
                    continue
                row.first_ms[name] = prepared.seconds * 1e3
                add_facts(row, name, prepared)
                ready[name] = process
                if name == OURS.name:
                    ours = prepared.results
                elif ours is not None and more.get("variant") not in (EIGHTH, READING):
                    row.failed += apart(name, prepared.results, ours, workload.tolerance)
            row.failed += grown(row)
            self._turns(workload, row, ready)
        finally:
            for process in ready.values():
                with suppress(Failed):  # a process that has ended holds nothing
                    process.release()
            path.unlink()
        return row

    def _asked(self, workload: Workload, row: BenchRow) -> list[tuple[str, Known, dict[str, str]]]:
        """Return the peers of a workload, ours first; skipped ones are noted with the reason."""
        asked: list[tuple[str, Known, dict[str, str]]] = [(OURS.name, OURS, {})]
        asked += [(f"{OURS.name}, {v}", OURS, {"variant": v}) for v in workload.variants]
        asked += [(peer.name, peer, {}) for peer in self.peers if workload.has_peers]
        left_out = dict(workload.left_out)
        if self.options.is_quick:
            left_out |= {"torch.compile": TOO_LONG}
            left_out |= {"tinygrad": TOO_LONG} if workload.is_model else {}
        for name, known, _ in asked:
            why = left_out.get(name) or known.unable(workload.kind)
            if why is not None:
                row.unable[name] = why
        if OURS.name in row.unable:
            row.failed.append(f"{OURS.name}: {row.unable[OURS.name]}")
        return [entry for entry in asked if entry[0] not in row.unable]

    def _turns(self, workload: Workload, row: BenchRow, ready: dict[str, Process]) -> None:
        """Time all ready peers, repeating disturbed tries; the calmest one counts."""
        best: BenchRow | None = None
        for number in range(1 if self.options.is_quick else TRIES):
            row.rounds, row.runs, row.minima, row.tries = {}, {}, {}, number + 1
            with Load(process.id for process in ready.values()) as load:
                self._rounds(workload, row, ready)
            row.busy = load.others
            if best is None or (row.spread or 0.0) < (best.spread or 0.0):
                best = replace(row)
            if (row.spread or 0.0) <= STEADY:
                break
        assert best is not None
        row.rounds, row.runs, row.minima, row.busy = best.rounds, best.runs, best.minima, best.busy

    def _rounds(self, workload: Workload, row: BenchRow, ready: dict[str, Process]) -> None:
        seconds = QUICK_TURN if self.options.is_quick else workload.seconds
        for k in range(self.options.rounds):
            for name, process in list(ready.items()):
                self.announce(f"{workload.name}: round {k + 1}, {name}")
                try:
                    times = process.time(seconds)
                except Failed as error:
                    row.failed.append(f"{name}: {error}")
                    row.unable[name] = f"failed: {error}"
                    row.rounds.pop(name, None)
                    del ready[name]
                    continue
                note(row, name, times)

    # -- a process for each run --------------------------------------------------------------------

    def alone(self, workload: Workload) -> BenchRow:
        """Measure the time from a model to its first result, each time in a new process."""
        row = new_row(workload)
        workload = with_file(workload, self.folder)
        path = self.folder / "data"
        stored = store(workload.data(workload.sizes, np.random.default_rng(0)), path)
        ours: list[Array] | None = None
        asked = list(self._asked(workload, row))
        for k in range(self.options.rounds):
            for name, known, _ in asked:
                if name in row.unable:
                    continue
                self.announce(f"{workload.name}: round {k + 1}, {name}")
                prepared = self._first(name, known, workload, stored, row)
                if prepared is None:
                    continue
                add_facts(row, name, prepared)
                note(row, name, [prepared.seconds])
                if name == OURS.name:
                    ours = prepared.results
                elif ours is not None and k == 0:
                    row.failed += apart(name, prepared.results, ours, workload.tolerance)
        path.unlink()
        return row

    def _first(
        self, name: str, known: Known, workload: Workload, stored: StoredArrays, row: BenchRow
    ) -> Prepared | None:
        """Let a library compile, either in an empty home or where it has compiled before."""
        home = self.folder / f"home-{known.peer_class.rpartition(':')[2]}"
        try:
            if not workload.sizes["cached"]:
                shutil.rmtree(home, ignore_errors=True)
            elif not home.exists():
                self._alone(known, home, workload, stored)
            return self._alone(known, home, workload, stored)
        except Unable as error:
            row.unable[name] = str(error)
        except Failed as error:
            row.unable[name] = f"failed: {error}"
            row.failed.append(f"{name}: {error}")
        return None

    def _alone(
        self, known: Known, home: Path, workload: Workload, stored: StoredArrays
    ) -> Prepared:
        """Let a new process, which finds no caches but those in a home, do a workload once."""
        around = own_home(self.around, home)
        process = Process(known.peer_class, {"threads": self.report.threads}, around, self.folder)
        try:
            return process.prepare(workload, stored)
        finally:
            process.end()


def note(row: BenchRow, name: str, times: Sequence[float]) -> None:
    """Note the seconds of each run of a library's turn."""
    row.rounds.setdefault(name, []).append(statistics.median(times) * 1e3)
    row.minima[name] = min(row.minima.get(name, math.inf), min(times) * 1e3)
    row.runs[name] = row.runs.get(name, 0) + len(times)


def new_row(workload: Workload) -> BenchRow:
    """Return the row of a workload before anything is known."""
    return BenchRow(
        workload.name,
        workload.about,
        flops=workload.cost.flops,
        read=workload.cost.read,
        written=workload.cost.written,
        tolerance=workload.tolerance,
        tokens=workload.tokens,
        family=workload.family,
        goals=dict(workload.goals),
    )


def add_facts(row: BenchRow, name: str, prepared: Prepared) -> None:
    """Note what a library has counted."""
    row.facts |= {
        (fact if name == OURS.name else f"{fact}: {name}"): value
        for fact, value in prepared.facts.items()
    }


def grown(row: BenchRow) -> list[str]:
    """Return what is wrong if a decode step writes more when the cache is longer."""
    long, short = (row.facts.get(name) for name in (WRITTEN, f"{WRITTEN}: {OURS.name}, {EIGHTH}"))
    if long is None or short is None or long == short:
        return []
    return [f"a step writes {long:,.0f} bytes, and {short:,.0f} with {EIGHTH}"]


def apart(name: str, theirs: list[Array], ours: list[Array], tolerance: float) -> list[str]:
    """Return how results differ, if they do by more than a share of a value and of their size."""
    if len(theirs) != len(ours):
        return [f"{name} returns {len(theirs)} results, and we {len(ours)}"]
    for k, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        if their.shape != our.shape:
            return [f"{name} disagrees: result {k} is {their.shape}, and ours {our.shape}"]
        a, b = their.astype(np.float64), our.astype(np.float64)
        if not a.size:
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0.0, np.abs(a - b) / (np.abs(a) + typical(a)))
        off = np.where(np.isnan(off), np.inf, off)
        worst = np.unravel_index(int(off.argmax()), off.shape)
        if off[worst] > tolerance:
            at = tuple(int(i) for i in worst)
            return [
                f"{name} disagrees: at {at} of result {k} it has {a[worst]:.6g}, and we "
                f"{b[worst]:.6g}; {int((off > tolerance).sum())} of {a.size} are further apart "
                f"than {tolerance:g}"
            ]
    return []
