"""Time a graph: run it again and again, or compute its least time from a machine's rates."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import mentioned
from luminal_lab.core.origin import here
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.facts.probe import better_rates, cpu_name, peak_rates
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.devices.runtime.whole import WholeProgram
from luminal_lab.devices.xla.program import XLAProgram
from luminal_lab.errors import ArgumentError, DimError
from luminal_lab.interrupts import held, opened
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import Load
from luminal_lab.machines.rates import Limit, PeakRates
from luminal_lab.passes.compilation import Compilation
from luminal_lab.progress import progress
from luminal_lab.timing.families import family_of
from luminal_lab.timing.folded import Part, parts_of
from luminal_lab.timing.launches import Covering, lines_text
from luminal_lab.timing.timeline import run_of
from luminal_lab.timing.timings import Timing, Timings
from luminal_lab.timing.work import Work, effort_for, is_work, work_of, work_of_definition

if TYPE_CHECKING:
    from luminal_lab.kernels.kernel import Kernel

MOST_TURNS = 1_000_000
"""The most runs that are timed; all their samples are kept."""
CLOCK = "perf_counter"
C_CLOCK = "monotonic, read in C"


def check_turns(caller: str, rounds: object, warm_up: object) -> None:
    """Raise unless a graph can be run that often."""
    for name, count, least in (("rounds", rounds, 1), ("warm_up", warm_up, 0)):
        fault, hint = f"{caller}: {name} is {count!r}", f"{least} to {MOST_TURNS:,}"
        ArgumentError.unless_number(count, fault, f"give a whole number, {hint}", least, MOST_TURNS)


def measured(
    graph: IR | Compilation, environment: Environment, *, rounds: int = 10, warm_up: int = 2
) -> Timings:
    """Run a graph, compiled or not, and return the times of everything that it launches."""
    ir = graph if isinstance(graph, IR) else graph.ir
    program = None if isinstance(graph, IR) else graph.runner
    asked = set(ir.output_ids)
    mine = environment._replace(data=as_views(environment.data))
    seconds: dict[int, list[float]] = {}
    whole: list[float] = []
    runs: list[tuple[float, float, list[NodeStep]]] = []
    awaited = sorted(program.awaited) if isinstance(program, CPUProgram) else []
    load = Load()
    with held() as hold, progress(f"time {ir.name}", warm_up + rounds, "run") as bar, load:
        for turn in range(warm_up + rounds):
            bar.now("warm-up" if turn < warm_up else "")
            steps: list[NodeStep] = []
            start = perf_counter()
            if isinstance(graph, IR):
                opened(partial(interpret, graph, mine, wanted=asked, trace=steps))
                begin, end = start, perf_counter()
                until = end
            else:
                graph.values(mine, asked, {}, None)
                end = perf_counter()
                hold.settle()
                # A traced run tells more, but the tracing adds time between launches.
                begin = perf_counter()
                graph.values(mine, asked, {}, steps)
                until = perf_counter()
                hold.settle()
            if turn >= warm_up:
                whole.append(end - start)
                runs.append((begin, until, steps))
                for step in steps:
                    seconds.setdefault(step.node.id, []).append(step.seconds)
            bar.step()
    device = cpu_name() if program is not None else f"{cpu_name()} (NumPy's interpreter)"
    clock, threads = CLOCK, 1
    if isinstance(program, CPUProgram):
        clock, threads = C_CLOCK, program.threads
    elif isinstance(program, GPUProgram):
        device, clock, threads = program.device, program.clock, 0
    elif isinstance(program, XLAProgram):
        device, threads = f"XLA on {program.kind or cpu_name()}", usable_cores()
    # The limits of this machine's processor say nothing about a GPU.
    is_here = not isinstance(program, GPUProgram) and not getattr(program, "kind", "")
    rates = opened(peak_rates) if is_here else None
    inside = ir.ancestors(asked) - seconds.keys()
    taken = {id: samples for id, samples in seconds.items() if is_work(ir[id])}

    def rows_by(rates: PeakRates | None) -> list[Timing]:
        maker = _RowMaker(graph, environment.dims, rates, threads, program, inside)
        return [maker.row(ir[id], samples) for id, samples in taken.items()]

    rows = rows_by(rates)
    if rates is not None and any(map(is_above, rows)):
        # The processor is faster than its known rates.
        rates = opened(partial(better_rates, rates))
        rows = rows_by(rates)
    numbers = {id: number for number, id in enumerate(taken)}
    middle = sorted(runs, key=lambda run: run[1] - run[0])[len(runs) // 2]
    timeline = run_of(*middle, numbers)
    notes = [] if program is not None else [INTERPRETED]
    notes += [CARRIED] if ir.carries else []
    notes += [AWAITED.format(", ".join(awaited))] if awaited else []
    date = datetime.now(UTC).isoformat(timespec="seconds")
    ran = device, threads, clock, warm_up, date, tuple(whole)
    note = "\n".join(notes)
    return Timings(ir.name, tuple(rows), "measured", *ran, rates, note, load.others, timeline)


def is_above(row: Timing) -> bool:
    """Return whether a row shows that its roof is too low: no cache explains its operations."""
    is_compute = row.limit is not None and row.limit.bound == "FMA"
    return is_compute and (row.share or 0) > 1


INTERPRETED = "the interpreter: NumPy computes node by node, and nothing is fused"
AWAITED = "not compiled yet when this began, and computed by NumPy's interpreter until then: {}"
CARRIED = "whole runs copy what is carried, so that the session's values stay as they are"


def as_views(data: Callable[[Node], Array]) -> Callable[[Node], Array]:
    """Return the data as views, which count as held elsewhere: no program overwrites such data."""
    held: dict[int, tuple[Array, Array, Array]] = {}

    def view(node: Node) -> Array:
        if node.id not in held:
            array = data(node)
            held[node.id] = array.view(), array.view(), array
        return held[node.id][0]

    return view


def modelled(
    ir: IR, rates: PeakRates, dims: Mapping[str, int] | None = None, *, threads: int | None = None
) -> Timings:
    """Return the least time that each node of a graph takes on a machine with these rates.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[n]) -> (%y) { %y = add %x, %x : f32[n] }")
    >>> laptop = PeakRates.stated("a laptop", gflops=100, gbytes=20)
    >>> modelled(ir, laptop, {"n": 1_000_000})[0].limit
    Limit(seconds=0.0004, bound='memory')
    """
    sizes = dict(dims or {})
    check_dims("time", ir, sizes, "time(model=…")
    many = rates.threads if threads is None else threads
    live = ir.ancestors(ir.output_ids)
    maker = _RowMaker(ir, sizes, rates, many)
    rows = [maker.row(node, None) for node in ir.nodes if node.id in live and is_work(node)]
    return Timings(ir.name, tuple(rows), "modelled", rates.device, many, rates=rates)


def check_dims(asking: str, ir: IR, dims: Mapping[str, int], call: str) -> None:
    """Raise unless every dim that a graph mentions has a size."""
    needed = mentioned([type for node in ir for type in node.types], [node.op for node in ir])
    for name in needed:
        if name not in dims:
            raise DimError(
                f"{asking}: the dim {name!r} has no size, and without data none is known",
                where=str(here() or "") or None,
                hint=f'give it one, as in {call}, dims={{"{name}": 128}})',
            )


def limit_of(work: Work, rates: PeakRates, threads: int | None = None) -> Limit | None:
    """Return the least time for some work, if the work is known."""
    if work.read is None or work.written is None:
        return None
    # Whole numbers are multiplied and added at rates that are not measured.
    flops, dtype = work.floats or 0, work.dtype.name.removesuffix("_")
    return rates.limit(
        flops=flops, read=work.read, written=work.written, dtype=dtype, threads=threads
    )


@dataclass
class _RowMaker:
    """Makes rows: each node's name, its work and its origin."""

    graph: IR | Compilation
    dims: Mapping[str, int]
    rates: PeakRates | None
    threads: int
    program: object = None
    inside: Container[int] = ()
    """The nodes that are computed together with others."""

    def __post_init__(self) -> None:
        graph, program = self.graph, self.program
        self.ir = graph if isinstance(graph, IR) else graph.ir
        self.covering = Covering(graph) if isinstance(graph, Compilation) else None
        self.kernels: Mapping[int, Kernel] = {}
        if isinstance(program, DeviceProgram):
            self.kernels = program.kernels_of(self.dims)
        self._work: dict[str, Work] = {}

    def row(self, node: Node, samples: Sequence[float] | None) -> Timing:
        """Return the row of a node; without samples it has the least time instead."""
        kernel, body = self.kernels.get(node.id), node.op.body_of()
        work = self.work(node)
        limit = None if self.rates is None else limit_of(work, self.rates, self.threads)
        kind = "node"
        is_whole = isinstance(self.program, WholeProgram) and self.program.is_launched(node)
        if is_whole or kernel is not None or (samples is None and body is not None):
            kind = "launch"
        elif self.program is not None:
            kind = "host"
        name = kernel.name if kernel is not None else node.op.name if body is None else body.name
        return Timing(
            name,
            kind,
            name,
            str(node),
            self.origins(node),
            (limit.seconds if limit else 0.0,) if samples is None else tuple(samples),
            work.flops,
            work.read,
            work.written,
            work.dtype.name.removesuffix("_"),
            limit,
            "modelled" if samples is None else "measured",
            family_of(node, kernel),
            self.parts(node),
            self.shares(node),
        )

    def parts(self, node: Node) -> tuple[Part, ...]:
        """Return the lines and scopes from which a node comes, by the work written there."""
        work: Mapping[Node, float] = {node: 1.0}
        if self.covering is not None:
            effort = effort_for(self.dims)
            work = self.covering.attribution.work(node.id, effort) or work
        weights: dict[tuple[str, str, str], float] = {}
        for part, share in work.items():
            line = "".join(lines_text([part.meta.origin]))
            origin = part.meta.scope, line, part.meta.origin.text if part.meta.origin else ""
            weights[origin] = weights.get(origin, 0.0) + share
        return parts_of(weights)

    def work(self, node: Node) -> Work:
        """Return the work of a node; equal launches of one kernel do equal work."""
        kernel = self.kernels.get(node.id)
        if kernel is None or kernel.definition is None:
            return work_of(self.ir, node, self.dims, inside=self.inside)
        if kernel.name not in self._work:
            self._work[kernel.name] = work_of_definition(kernel.definition, self.dims)
        return self._work[kernel.name]

    def origins(self, node: Node) -> tuple[str, ...]:
        """Return the user's lines that a node comes from, as `file:line`."""
        lines = () if self.covering is None else self.covering.lines(node.id, self.dims)
        return lines or lines_text([node.meta.origin])

    def shares(self, node: Node) -> tuple[float, ...]:
        """Return the share of each of these lines."""
        known = () if self.covering is None else self.covering.shares(node.id, self.dims).values()
        return tuple(known) or (1.0,) * len(self.origins(node))
