"""Time a graph: run it again and again, or compute from a machine's rates the least it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import mentioned
from luminal_lab.core.origin import Origin, here
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.facts.probe import cpu_name, peak_rates
from luminal_lab.errors import DimError
from luminal_lab.interrupts import held, opened
from luminal_lab.machines.load import Load
from luminal_lab.machines.rates import Limit, PeakRates
from luminal_lab.passes.compilation import Compilation
from luminal_lab.progress import progress
from luminal_lab.timing.timings import Timing, Timings
from luminal_lab.timing.work import Work, is_work, work_of, work_of_definition

if TYPE_CHECKING:
    from luminal_lab.kernels.kernel import Kernel

CLOCK = "perf_counter"
C_CLOCK = "monotonic, read in C"


@runtime_checkable
class OnDevice(Protocol):
    """A program that runs on a device with a clock of its own."""

    @property
    def device(self) -> str:
        """What it runs on."""
        ...

    @property
    def clock(self) -> str:
        """What measures its times."""
        ...

    def kernels_of(self, dims: Mapping[str, int]) -> Mapping[int, Kernel]:
        """Return the kernels that compute nodes, by their ids."""
        ...


class CompiledGraph(Protocol):
    """What a compile has made of a graph."""

    @property
    def ir(self) -> IR:
        """The graph to run."""
        ...

    @property
    def runner(self) -> object:
        """What runs it, if it is not the interpreter."""
        ...

    def values(
        self,
        environment: Environment,
        wanted: set[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> dict[int, Array]:
        """Return the values of nodes of that graph, by their ids."""
        ...


def measured(
    graph: IR | CompiledGraph, environment: Environment, *, rounds: int = 10, warm_up: int = 2
) -> Timings:
    """Run a graph, compiled or not, and return the times of all that it launches."""
    ir = graph if isinstance(graph, IR) else graph.ir
    program = None if isinstance(graph, IR) else graph.runner
    asked = set(ir.output_ids)
    mine = environment._replace(data=_views(environment.data))
    seconds: dict[int, list[float]] = {}
    whole: list[float] = []
    load = Load()
    with held() as hold, progress(f"time {ir.name}", warm_up + rounds, "run") as bar, load:
        for turn in range(warm_up + rounds):
            bar.now("warm-up" if turn < warm_up else "")
            steps: list[NodeStep] = []
            start = perf_counter()
            if isinstance(graph, IR):
                opened(partial(interpret, graph, mine, wanted=asked, trace=steps))
                end = perf_counter()
            else:
                graph.values(mine, asked, {}, None)
                end = perf_counter()
                hold.settle()
                # A traced run tells more, and takes longer than what happens between launches.
                graph.values(mine, asked, {}, steps)
                hold.settle()
            if turn >= warm_up:
                whole.append(end - start)
                for step in steps:
                    seconds.setdefault(step.node.id, []).append(step.seconds)
            bar.step()
    threads = program.threads if isinstance(program, CPUProgram) else 1
    gpu = program if isinstance(program, OnDevice) else None
    # What this machine's processor can do at most says nothing of a GPU.
    rates = opened(peak_rates) if gpu is None else None
    maker = _RowMaker(
        graph, environment.dims, rates, threads, program, ir.ancestors(asked) - seconds.keys()
    )
    rows = [maker.row(ir[id], samples) for id, samples in seconds.items() if is_work(ir[id])]
    notes = [] if program is not None else [INTERPRETED]
    notes += [CARRIED] if ir.carries else []
    return Timings(
        ir.name,
        tuple(rows),
        device=_device(program) if gpu is None else gpu.device,
        threads=threads,
        clock=_clock(program) if gpu is None else gpu.clock,
        warm_up=warm_up,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        whole=tuple(whole),
        rates=rates,
        note="\n".join(notes),
        busy=load.others,
    )


def _device(program: object) -> str:
    return cpu_name() if program is not None else f"{cpu_name()} (NumPy's interpreter)"


def _clock(program: object) -> str:
    return C_CLOCK if isinstance(program, CPUProgram) else CLOCK


INTERPRETED = "the interpreter: NumPy computes node by node, and nothing is fused"
CARRIED = "whole runs copy what is carried, so that the session's values stay as they are"


def _views(data: Callable[[Node], Array]) -> Callable[[Node], Array]:
    """Return the data as views that others hold too: no program writes over what is held."""
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
    """Return the least time that each node of a graph takes on a machine of these rates.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[n]) -> (%y) { %y = add %x, %x : f32[n] }")
    >>> laptop = PeakRates.stated("a laptop", gflops=100, gbytes=20)
    >>> modelled(ir, laptop, {"n": 1_000_000})[0].limit
    Limit(seconds=0.0004, bound='memory')
    """
    sizes = dict(dims or {})
    needed = mentioned([type for node in ir for type in node.types], [node.op for node in ir])
    missing = [name for name in needed if name not in sizes]
    if missing:
        raise DimError(
            f"time: the dim {missing[0]!r} has no size, and without data none is known",
            where=str(here() or "") or None,
            hint=f'give it one, as in time(model=…, dims={{"{missing[0]}": 128}})',
        )
    many = rates.threads if threads is None else threads
    live = ir.ancestors(ir.output_ids)
    maker = _RowMaker(ir, sizes, rates, many)
    rows = [maker.row(node, None) for node in ir.nodes if node.id in live and is_work(node)]
    return Timings(ir.name, tuple(rows), "modelled", rates.device, many, rates=rates)


def limit_of(work: Work, rates: PeakRates, threads: int | None = None) -> Limit | None:
    """Return the least time for some work, if it is known what it is."""
    if work.read is None or work.written is None:
        return None
    return rates.limit(
        flops=work.flops or 0,
        read=work.read,
        written=work.written,
        dtype=work.dtype.name.removesuffix("_"),
        threads=threads,
    )


class _RowMaker:
    """Makes rows: what each node is called, asks for and comes from."""

    def __init__(
        self,
        graph: IR | CompiledGraph,
        dims: Mapping[str, int],
        rates: PeakRates | None,
        threads: int,
        program: object = None,
        inside: Container[int] = (),
    ) -> None:
        self.graph = graph
        self.ir = graph if isinstance(graph, IR) else graph.ir
        self.dims = dims
        self.rates = rates
        self.threads = threads
        self.is_compiled = program is not None
        self.inside = inside
        self.kernels: dict[int, Kernel] = {}
        if isinstance(program, CPUProgram):
            plan = program.plan(self.ir.output_ids, dims=dims)
            pairs = [(work.node.id, plan.kernel_of(work)) for work in plan.works]
            self.kernels = {id: kernel for id, kernel in pairs if kernel is not None}
        elif isinstance(program, OnDevice):
            self.kernels = dict(program.kernels_of(dims))
        self._work: dict[str, Work] = {}
        self._behind: dict[tuple[int, int], tuple[Origin, ...]] = {}

    def row(self, node: Node, samples: Sequence[float] | None) -> Timing:
        """Return the row of a node; without samples the least time stands for them."""
        kernel, body = self.kernels.get(node.id), node.op.body_of()
        work = self.work(node)
        limit = None if self.rates is None else limit_of(work, self.rates, self.threads)
        kind = "node"
        if kernel is not None or (samples is None and body is not None):
            kind = "launch"
        elif self.is_compiled:
            kind = "host"
        plain = node.op.name if body is None else body.name
        return Timing(
            plain if kernel is None else kernel.name,
            kind,
            plain if kernel is None else kernel.name,
            str(node),
            self.origins(node),
            (limit.seconds if limit else 0.0,) if samples is None else tuple(samples),
            work.flops,
            work.read,
            work.written,
            work.dtype.name.removesuffix("_"),
            limit,
            "modelled" if samples is None else "measured",
        )

    def work(self, node: Node) -> Work:
        """Return what a node asks for; equal launches of one kernel ask for the same."""
        kernel = self.kernels.get(node.id)
        if kernel is None or kernel.definition is None:
            return work_of(self.ir, node, self.dims, inside=self.inside)
        if kernel.name not in self._work:
            self._work[kernel.name] = work_of_definition(kernel.definition, self.dims)
        return self._work[kernel.name]

    def origins(self, node: Node) -> tuple[str, ...]:
        """Return the user's lines that a node comes from, as `file:line`."""
        own = node.meta.origin
        lines = () if own is None else (own,)
        if isinstance(self.graph, Compilation):
            lines = self._lines(len(self.graph.snapshots) - 1, node.id) or lines
        places = [re.sub(r"^.*[/\\]", "", f"{line.file}:{line.line}") for line in lines]
        return tuple(dict.fromkeys(places))

    def _lines(self, snapshot: int, id: int) -> tuple[Origin, ...]:
        """Return the lines behind a node of a snapshot, each looked up once for all rows."""
        assert isinstance(self.graph, Compilation)
        shots = self.graph.snapshots
        while snapshot and not shots[snapshot].firings:
            snapshot -= 1
        key = snapshot, id
        if key not in self._behind:
            if snapshot:
                ids = sorted(node.id for node in shots[snapshot].back(id))
                lines = [line for source in ids for line in self._lines(snapshot - 1, source)]
            else:
                node = shots[0].ir[id]
                lines = [] if node.meta.origin is None else [node.meta.origin]
            self._behind[key] = tuple(dict.fromkeys(lines))
        return self._behind[key]
