"""Recording: the op table, small models and the benchmark's workloads, run and timed on a device.

    luminal-lab record --device cpu -o mine.json

Everything is first compared with NumPy's interpreter, the workloads at their small sizes; what
differs is reported and not recorded. `ll.Recorded("mine.json")` then answers with these times.
"""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from typing_extensions import override

import luminal_lab as ll
from luminal_lab.bench.peers.ours import Ours
from luminal_lab.bench.peers.peer import ReadyWorkload
from luminal_lab.bench.workload import Arrays, Workload
from luminal_lab.bench.workloads import workloads
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import Node
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cuda.calls import version_text
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.cuda.driver import driver_class, present
from luminal_lab.devices.facts.probe import PeakRates, cpu_name, peak_rates
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.devices.webgpu.compiler import WebGPUCompiler
from luminal_lab.devices.webgpu.engine import webgpu_device
from luminal_lab.devices.xla.compiler import XLACompiler
from luminal_lab.errors import ArgumentError, DeviceError, LabError, nearest
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.machines.here import this_machine, usable_cores
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.draws import Given
from luminal_lab.passes.judge import differences
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.progress import Progress, progress
from luminal_lab.testing.cases import Case
from luminal_lab.testing.conformance import merged, selected
from luminal_lab.testing.graphs import FUNCTIONS, MODELS
from luminal_lab.timing.measure import C_CLOCK, CLOCK, measured
from luminal_lab.timing.recording import (
    VERSIONS,
    Key,
    RecordedKernel,
    RecordedProgram,
    Recording,
    kept,
    key_of_kernel,
)
from luminal_lab.timing.subject import ComparedGraph, subject_of

Device: TypeAlias = Literal["cpu", "cuda", "metal", "webgpu", "xla"]
DEVICES: tuple[Device, ...] = ("cpu", "cuda", "metal", "webgpu", "xla")
FAMILIES = ("elementwise", "reduction", "view", "indexing", "product")
"""The recorded parts of the op table, in float32, and products in 16-bit floats as well; other
dtypes are for the conformance kit."""
TABLE = "op table: "
BATCH = 50
"""How many cases of a family are one program."""
EQUAL = "equal to the interpreter"
SMALL = "equal to the interpreter at small sizes"
WARM_UP = 2


class RecordingDevice(NamedTuple):
    """The recording device: its compiler and its description for the file."""

    compiler: Pipeline
    device: str
    driver: str
    dialect: str
    target: Mapping[str, int | str]
    clock: str


class RecordingTask(NamedTuple):
    """A program to record, and a smaller one to check it."""

    name: str
    write: Callable[[], ComparedGraph]
    small: Callable[[], ComparedGraph] | None = None
    """None: the program itself is small."""


@dataclass
class Outcome:
    """The outcome: the recording, and what was not recorded."""

    recording: Recording
    failed: list[str] = field(default_factory=list[str])


def record(
    device: Device,
    only: Sequence[str] = (),
    *,
    is_quick: bool = False,
    threads: int = 0,
    rounds: int = 10,
    told: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Run programs on a device, compare them with the interpreter, and return their times."""
    chosen = chosen_tasks(only, is_quick=is_quick, threads=threads)
    machine = _machine(device, threads)
    rates = partial(peak_rates, threads or None) if device == "cpu" else None
    with progress(f"record {device}", len(chosen), "program") as bar:
        return record_tasks(machine, chosen, rounds, told=told, bar=bar, rates=rates)


def record_tasks(
    machine: RecordingDevice,
    chosen: Sequence[RecordingTask],
    rounds: int,
    *,
    told: Callable[[str], object] = lambda line: None,
    bar: Progress | None = None,
    rates: Callable[[], PeakRates] | None = None,
) -> Outcome:
    """Run programs on a machine that is ready, and return their times."""
    recorder = _Recorder(machine, rounds)
    shown = Progress() if bar is None else bar
    for task in shown.each(chosen, lambda task: task.name):
        try:
            line = recorder.add(task)
        except LabError as error:
            recorder.failed.append(f"{task.name}: {error.message.splitlines()[0]}")
            line = f"{task.name}: FAILED: {error.message.splitlines()[0]}"
        shown.aside()
        told(line)
    recording = Recording(
        machine.device,
        machine.driver,
        datetime.now(UTC).isoformat(timespec="seconds"),
        machine.dialect,
        VERSIONS[machine.dialect],
        recorder.entries(),
        tuple(recorder.programs),
        machine.target,
        machine.clock,
        WARM_UP,
        ll.__version__,
        None if rates is None else rates(),
        max(recorder.busy, default=None),
    )
    return Outcome(recording, recorder.failed)


def names() -> list[str]:
    """Return the names of all programs to record."""
    table = [f"{TABLE}{family}" for family in FAMILIES]
    return [*table, *(f"model {write.__name__}" for write in MODELS), *_workloads()]


def _workloads(*, is_quick: bool = False) -> dict[str, Workload]:
    """Return the workloads by name, except those that time other things than kernels."""
    return {w.name: w for w in workloads(is_quick) if any(w.cost)}


def chosen_tasks(only: Sequence[str], *, is_quick: bool, threads: int = 0) -> list[RecordingTask]:
    """Return the programs that have some of the names; all of them without one."""
    known, wanted = names(), [name.strip() for name in only if name.strip()]
    for name in wanted:
        if name not in known:
            raise ArgumentError(
                f"record: there is nothing called {name!r} to record",
                hint=nearest(name, known) or "luminal-lab record --help lists it",
            )
    asked = wanted or known
    return [
        *(task for name in asked if name.startswith(TABLE) for task in _table(name)),
        *(RecordingTask(case.name, _of_cases([case])) for case in _models(asked)),
        *_benchmark(asked, is_quick=is_quick, threads=threads),
    ]


def _machine(device: Device, threads: int) -> RecordingDevice:
    if device == "cpu":
        count = threads or usable_cores()
        tool = find_compiler()
        cpu = CPUCompiler(threads=count)
        return RecordingDevice(cpu, cpu_name(), tool.version, "c", asdict(this_machine()), C_CLOCK)
    try:
        if device == "xla":
            xla = XLACompiler()
            program = xla.runner(_tiny().ir)
            where, driver = program.kind or cpu_name(), f"jaxlib {program.jax.lib.__version__}"
            return RecordingDevice(xla, f"XLA on {where}", driver, "stablehlo", {}, CLOCK)
        if device == "cuda":
            tool = present()
            arch = tool.arch if tool is not None else None
            device_compiler, target = CUDACompiler(arch=arch, cublas=False), {"arch": arch or ""}
        else:
            made = {"metal": MetalCompiler, "webgpu": WebGPUCompiler}
            device_compiler, target = made[device](), {}
        program = device_compiler.runner(_tiny().ir)
        return RecordingDevice(
            device_compiler, program.device, _driver(device), device, target, program.clock
        )
    except DeviceError as error:
        failure = DeviceError(
            f"record: {error.message}",
            hint="what still works: luminal-lab record --device cpu, and ll.compare, which models "
            "devices that are not here",
        )
        raise failure from error


def _driver(device: Device) -> str:
    """Return the version of the GPU's driver."""
    if device == "metal":
        return f"macOS {platform.mac_ver()[0]}"
    if device == "webgpu":
        wgpu, adapter = webgpu_device()
        return f"wgpu {wgpu.__version__}, {adapter.adapter.info['description']}"
    return f"NVIDIA driver for CUDA {version_text(driver_class(None)().version)}"


def _tiny() -> ll.Graph:
    cx = ll.Graph("tiny")
    (cx.tensor((4,), name="x") + 1.0).retrieve()
    return cx


class TimedLaunch(NamedTuple):
    """A timed launch."""

    kernel: Kernel
    samples: tuple[float, ...]
    by: str = ""
    """What computed it, if that was a library and not its own code."""
    cold: tuple[float, ...] = ()
    """The same with nothing in the device's cache, where it can be emptied."""


# -- one program -----------------------------------------------------------------------------------


class _Recorder:
    """Collects the times of kernels, equal kernels together."""

    def __init__(self, machine: RecordingDevice, rounds: int) -> None:
        self.machine = machine
        self.rounds = rounds
        self.programs: list[RecordedProgram] = []
        self.failed: list[str] = []
        self.places: dict[Key, int] = {}
        self.names: list[str] = []
        self.samples: list[list[float]] = []
        self.by: list[str] = []
        self.cold: list[list[float]] = []
        self.busy: list[float] = []
        """How many cores other programs kept busy during each program."""

    def add(self, task: RecordingTask) -> str:
        """Check and time a program, and return a line about it."""
        check = EQUAL
        if task.small is not None:
            self._check(task.name, task.small())
            check = SMALL
        subject = task.write()
        compilation = subject.compiled(self.machine.compiler)
        if task.small is None:
            self._check(task.name, subject, compilation)
        environment = subject.measurable(task.name)
        launches, whole = self._timed(compilation, environment)
        places = [self._index_of(launch, subject.dims) for launch in launches]
        self.programs.append(RecordedProgram(task.name, tuple(places), kept(whole), check))
        total = sum(float(np.median(launch.samples)) for launch in launches)
        launches_text = "1 launch" if len(launches) == 1 else f"{len(launches)} launches"
        times = f"{1e3 * total:.4g} ms"
        if launches and all(launch.cold for launch in launches):
            cold = sum(float(np.median(launch.cold)) for launch in launches)
            times += f" hot and {1e3 * cold:.4g} ms cold"
        return f"{task.name}: {launches_text}, {times}; {check}"

    def _timed(
        self, compilation: Compilation, environment: Environment
    ) -> tuple[list[TimedLaunch], tuple[float, ...]]:
        program = cast("DeviceProgram[Any]", compilation.runner)
        times = measured(compilation, environment, rounds=self.rounds, warm_up=WARM_UP)
        self.busy += [] if times.busy is None else [times.busy]
        rows = [(compilation.ir[row.node].id, row) for row in times if row.kind == "launch"]
        samples = {id: row.samples for id, row in rows}
        cold: dict[int, tuple[float, ...]] = {}
        if isinstance(program, GPUProgram) and program.engine.can_flush:
            samples, cold = (
                {
                    launch.node: found
                    for launch, found in program.time_launches(
                        environment, self.rounds, warm_up=WARM_UP, caches=caches
                    )
                }
                for caches in ("hot", "cold")
            )
        launches = {launch.node: launch for launch in program.launches}
        return [
            TimedLaunch(launches[id].kernel, found, launches[id].chosen(), cold.get(id, ()))
            for id, found in samples.items()
            if id in launches
        ], times.whole

    def _check(
        self, name: str, subject: ComparedGraph, compilation: Compilation | None = None
    ) -> None:
        """Raise unless the device computes the same as the interpreter."""
        compilation = (
            subject.compiled(self.machine.compiler) if compilation is None else compilation
        )
        environment = subject.measurable(name)
        asked = set(compilation.ir.output_ids)
        stored = compilation.storage.values(environment, asked)
        right = interpret(compilation.ir, environment, wanted=asked, known=stored)
        computed = compilation.values(environment, asked, {}, None)
        for id in compilation.ir.output_ids:
            wrong = differences(right[id], computed[id], scaled=True)
            if wrong.any():
                raise DeviceError(
                    f"{compilation.ir[id]} differs from the interpreter's in {int(wrong.sum())} of "
                    f"{right[id].size} places"
                )

    def _index_of(self, launch: TimedLaunch, dims: Mapping[str, int]) -> int:
        key = key_of_kernel(launch.kernel, dims)
        if key not in self.places:
            self.places[key] = len(self.names)
            self.names.append(launch.kernel.name)
            self.samples.append([])
            self.by.append("")
            self.cold.append([])
        index = self.places[key]
        self.samples[index] += launch.samples
        self.by[index] = launch.by
        self.cold[index] += launch.cold
        return index

    def entries(self) -> tuple[RecordedKernel, ...]:
        """Return all kernels with their samples."""
        rows = zip(self.names, self.places, self.samples, self.by, self.cold, strict=True)
        return tuple(
            RecordedKernel(
                *(name, key.definition, key.schedule, dict(key.dims)),
                *(kept(samples), by, kept(cold)),
            )
            for name, key, samples, by, cold in rows
        )


# -- what is recorded ------------------------------------------------------------------------------


def _table(name: str) -> Iterator[RecordingTask]:
    """Yield a family of the op table, some cases at a time."""

    def kind(case: Case) -> tuple[Any, ...]:
        return sorted(case.runs[0].dims.items()), case.runs[0].step

    family = name.removeprefix(TABLE)
    cases = selected(family, dtypes=() if family == "product" else "float32")
    number = 0
    for _, group in groupby(sorted(cases, key=kind), key=kind):
        together = list(group)
        for start in range(0, len(together), BATCH):
            number += 1
            title = name + (f" #{number}" if number > 1 else "")
            yield RecordingTask(title, _of_cases(together[start : start + BATCH]))


def _models(asked: Sequence[str]) -> Iterator[Case]:
    if any(name.startswith("model ") for name in asked):
        yield from (case for case in selected("model") if case.name in asked)


def _benchmark(asked: Sequence[str], *, is_quick: bool, threads: int) -> Iterator[RecordingTask]:
    small = _workloads(is_quick=True)
    for name, workload in _workloads(is_quick=is_quick).items():
        if name in asked:
            checked = None if is_quick else _written(small[name], threads)
            yield RecordingTask(name, _written(workload, threads), checked)


def _of_cases(cases: Sequence[Case]) -> Callable[[], ComparedGraph]:
    def write() -> ComparedGraph:
        ir, inputs = merged([case.ir for case in cases])
        first = cases[0].runs[0]
        data = {
            id: case.runs[0].data[name]
            for case, names in zip(cases, inputs, strict=True)
            for id, name in names.items()
        }
        environment = Environment(_reader(data), first.dims, first.step, FUNCTIONS)
        return ComparedGraph(ir, Given(dims=first.dims), environment, "", first.dims)

    return write


def _reader(data: Mapping[int, Array]) -> Callable[[Node], Array]:
    def data_of(node: Node) -> Array:
        return data[node.id]

    return data_of


def _written(workload: Workload, threads: int) -> Callable[[], ComparedGraph]:
    """Return a function that writes a workload as the benchmark does."""

    def write() -> ComparedGraph:
        rng = np.random.default_rng(zlib.crc32(workload.kind.encode()))
        writer = WorkloadWriter(threads)
        writer.prepare(workload, workload.data(workload.sizes, rng))
        return writer.subject

    return write


class WorkloadWriter(Ours):
    """Our spelling of the workloads, written but not compiled."""

    subject: ComparedGraph

    @override
    def compiled(
        self,
        cx: ll.Graph,
        output: Any,
        inputs: Arrays,
        *,
        symbols: Mapping[str, int] | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> ReadyWorkload:
        output.retrieve()
        for name, array in inputs.items():
            cx[name].borrow(array)
        self.subject = subject_of(cx, dims, (ll.GenericCompiler(),))

        def run() -> object:
            return output

        def read(result: object) -> list[Array]:
            return [np.array(result)]

        return ReadyWorkload(run, read)
