"""What one device says about a graph: its launches, each with a time and how that was obtained.

ll.CPU()              measured here
ll.CUDA("h200")       measured where there is such a GPU, else modelled by its specification
ll.Metal("m3-max")    likewise, on a Mac
ll.WebGPU()           measured on this machine's adapter, which may be software
ll.XLA()              measured where JAX runs, as whole programs
ll.Recorded("h200")   answered from a recording
ll.devices.specification("t4")    modelled: a specification stands for itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, cast

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.facts.specifications import (
    bare_name,
    specification as known_specification,
    this_cpu,
)
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.devices.webgpu.compiler import WebGPUCompiler
from luminal_lab.devices.xla.compiler import XLACompiler
from luminal_lab.errors import ArgumentError, DeviceError, InputError, UnknownNameError
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.launches import Covering, KernelUse, LaunchTime
from luminal_lab.timing.measure import check_dims, measured
from luminal_lab.timing.roofline import modelled
from luminal_lab.timing.subject import ComparedGraph
from luminal_lab.timing.timings import How, Timings
from luminal_lab.timing.work import known_sum

BOUNDS = {"FMA": "compute"}
"""Names of bounds in a comparison that differ from those of rates."""
HOST = "NumPy computes it, and nothing models that"
SURPASSED = (
    "the roof is in doubt: some of the data lay in a cache, or the device does more than its "
    "figures say"
)


@dataclass(frozen=True)
class Column:
    """All launches of a graph on one device."""

    label: str
    """The name of the column."""
    how: How
    device: str
    date: str
    parts: tuple[LaunchTime, ...]
    whole: tuple[float, ...] = ()
    """The seconds of complete runs, with everything between launches."""
    notes: tuple[str, ...] = ()
    """What is assumed, ignored or missing."""
    specification: Specification | None = None
    """The device whose figures the shares are of."""
    doubts: tuple[str, ...] = ()
    """Why its times or shares may be wrong: load, or a roof that was exceeded."""
    busy: float | None = None
    """How many cores other programs kept busy meanwhile; None if unknown."""
    dialect: str = ""
    """The language of its kernels, if its figures do not say it."""

    @property
    def seconds(self) -> float | None:
        """The sum of all launches' medians; None if one has no time."""
        return known_sum(part.seconds for part in self.parts)


class Comparable(Protocol):
    """A device that says how long a graph's launches take on it."""

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        ...


@told_object("device")
@dataclass(frozen=True)
class CPU:
    """This machine's processor, measured.

    >>> import luminal_lab as ll
    >>> ll.CPU(threads=2)
    CPU(threads=2, compiler=None)
    """

    threads: int | None = None
    compiler: str | None = None

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Run the graph, and return the times of its launches."""
        device = CPUCompiler(threads=self.threads, compiler=self.compiler)
        many = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        label = "this CPU" if self.threads is None else f"this CPU, {many}"
        return measured_column(subject, device, "the CPU", label, rounds, warm_up)


@told_object("device")
@dataclass(frozen=True)
class XLA:
    """What XLA makes of the whole graph, measured where JAX runs; it says nothing about parts.

    >>> import luminal_lab as ll
    >>> ll.XLA("cpu")
    XLA(platform='cpu')
    """

    platform: str | None = None

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Run the graph, and return the times of its programs."""
        label = "XLA" if self.platform is None else f"XLA, {self.platform}"
        column = measured_column(subject, XLACompiler(self.platform), label, label, rounds, warm_up)
        where = column.device.removeprefix("XLA on ")
        notes = ("XLA fuses by itself: a launch is a whole program",)
        return replace(column, device=where, notes=notes, dialect="stablehlo")


def measured_column(
    subject: ComparedGraph, device: Pipeline, what: str, label: str, rounds: int, warm_up: int
) -> Column:
    """Run a graph on a device, and return the times of its launches."""
    environment = subject.measurable(what)
    compilation = subject.compiled(device)
    timings = measured(compilation, environment, rounds=rounds, warm_up=warm_up)
    covering = Covering(compilation)
    parts: list[LaunchTime] = []
    for row in timings:
        id = compilation.ir[row.node].id
        origin = covering.written(id), covering.value(id)
        least, bound = row.limit or (None, "")
        known = row.bytes, row.flops, least, BOUNDS.get(bound, bound)
        taken = row.node, row.kernel, row.how, row.samples
        is_host, lines = row.kind == "host", covering.lines(id, environment.dims)
        parts.append(LaunchTime(*taken, *origin, *known, is_host=is_host, lines=lines))
    known = None if timings.rates is None else this_cpu(timings.rates)
    taken = tuple(parts), timings.whole, (), known, timings.doubts, timings.busy
    return Column(label, "measured", timings.device, timings.date, *taken)


# -- by a model ------------------------------------------------------------------------------------


def fused(
    subject: ComparedGraph, machine: Machine | None = None
) -> tuple[Compilation, list[KernelUse]]:
    """Return a graph with the CPU's kernels, made for a machine but not compiled."""
    compilation = subject.compiled(Pipeline(CPUCompiler().passes))
    work = Worklist(compilation.ir, machine or this_machine(), {})
    uses = [
        KernelUse(item.node.id, None if item.use is None else work.uses[item.use].kernel)
        for item in work.works
    ]
    return compilation, uses


def modelled_column(subject: ComparedGraph, specification: Specification) -> Column:
    """Return the least times that a device's figures allow for the CPU's kernels."""
    compilation, uses = fused(subject)
    note = "its kernels are those that the CPU's passes fuse: a compiler for it may fuse others"
    notes = () if specification.dialect == "c" else (note,)
    return column_of_model(compilation, uses, subject.dims, specification, notes)


def column_of_model(
    compilation: Compilation,
    uses: Sequence[KernelUse],
    dims: Mapping[str, int],
    specification: Specification,
    notes: tuple[str, ...] = (),
) -> Column:
    """Return the least times of some kernels on a device."""
    check_dims("compare", compilation.ir, dims, "compare(cx, devices")
    covering = Covering(compilation)
    ignored: dict[str, None] = {}
    parts: list[LaunchTime] = []
    for use in uses:
        model = None if use.kernel is None else modelled(use.kernel, specification, dims)
        ignored.update(dict.fromkeys(model.ignores.split("; ") if model else ()))
        samples, missing = ((), HOST) if model is None else ((model.seconds,), "")
        parts.append(covering.time(use, "modelled", samples, dims, model, missing))
    launch = specification.launch
    said = f"a launch takes at least {launch.value * 1e6:g} µs ({launch.how}: {launch.source})"
    told = (*notes, said, f"ignores {', '.join(ignored)}")
    name = specification.name
    return Column(name, "modelled", name, "", tuple(parts), (), told, specification)


# -- on a GPU --------------------------------------------------------------------------------------


@told_object("device")
@dataclass(frozen=True)
class CUDA:
    """An NVIDIA GPU; without one, the named card's specification models it.

    >>> import luminal_lab as ll
    >>> ll.CUDA("h200")
    CUDA(card='h200', tf32=False)
    """

    card: str | None = None
    tf32: bool = False

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        card = _named(self.card, "cuda", "CUDA")
        device = CUDACompiler(arch=None if card is None else card.arch, tf32=self.tf32)
        return gpu_column(subject, device, card, "CUDA", rounds=rounds, warm_up=warm_up)


@told_object("device")
@dataclass(frozen=True)
class Metal:
    """An Apple GPU; without one, the named chip's specification models it.

    >>> import luminal_lab as ll
    >>> ll.Metal("m3-max")
    Metal(chip='m3-max')
    """

    chip: str | None = None

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        chip = _named(self.chip, "metal", "Metal")
        device = MetalCompiler(chip=self.chip)
        return gpu_column(subject, device, chip, "Metal", rounds=rounds, warm_up=warm_up)


@told_object("device")
@dataclass(frozen=True)
class WebGPU:
    """This machine's adapter of WebGPU, measured; a software adapter says so in its name.

    >>> import luminal_lab as ll
    >>> ll.WebGPU()
    WebGPU()
    """

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        device = WebGPUCompiler()
        return gpu_column(subject, device, None, "WebGPU", rounds=rounds, warm_up=warm_up)


def _named(name: str | None, dialect: str, kind: str) -> Specification | None:
    if name is None:
        return None
    known = known_specification(name)
    if known.dialect != dialect:
        raise ArgumentError(
            f"compare: {known.name} is not a device for ll.{kind}: it is made by {known.maker}",
            hint=f"give its specification alone: ll.devices.specification({name!r})",
        )
    return known


def gpu_column(
    subject: ComparedGraph,
    device: Pipeline,
    specification: Specification | None,
    kind: str,
    *,
    rounds: int,
    warm_up: int,
) -> Column:
    """Return the times of a graph's launches on a GPU, modelled if it is not here."""
    label = kind if specification is None else specification.name
    compilation = subject.compiled(device)
    program = cast("GPUProgram", compilation.runner)
    covering = Covering(compilation)
    timings: Timings | None = None
    try:
        here = program.device
        if specification is None or bare_name(here) == bare_name(specification.name):
            environment = subject.measurable(label)
            timings = measured(compilation, environment, rounds=rounds, warm_up=warm_up)
        why = f"the GPU here is {here}"
    except (DeviceError, InputError) as error:
        if specification is None:
            raise
        here, why = "", error.message.splitlines()[0]
    if timings is None:
        assert specification is not None
        uses = [KernelUse(launch.node, launch.kernel) for launch in program.launches]
        said = (f"not measured: {why}",)
        return column_of_model(compilation, uses, subject.dims, specification, said)
    if specification is None:
        with suppress(UnknownNameError):
            specification = known_specification(here)
    parts: list[LaunchTime] = []
    notes: list[str] = []
    samples_of = {compilation.ir[row.node].id: row.samples for row in timings}
    for launch in program.launches:
        if (samples := samples_of.get(launch.node)) is None:
            continue
        by = launch.chosen()
        notes += [f"{launch.kernel.name} {compilation.ir[launch.node]}: {by}"] if by else []
        use, dims = KernelUse(launch.node, launch.kernel), subject.dims
        least = specification and modelled(launch.kernel, specification, dims)
        parts.append(covering.time(use, "measured", samples, dims, least))
    doubts = timings.doubts
    if any(part.least and part.seconds and part.least > part.seconds for part in parts):
        doubts = (*doubts, f"more than 100%: {SURPASSED}")
    told = tuple(notes), specification, doubts, timings.busy, device.name
    return Column(label, "measured", here, timings.date, tuple(parts), timings.whole, *told)
