"""All kernels of a graph, each by some candidate, and the passes that turn them into a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Recorded
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.fuse.chains import FuseChains
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.search.candidates import (
    Candidate,
    seconds_text,
)
from luminal_lab.search.forms import Form
from luminal_lab.search.target import program_of, replaced, target_of
from luminal_lab.tensor.arguments import told_object


@told_object("candidate")
@dataclass(frozen=True, repr=False)
class ProgramCandidate(Displayed):
    """All kernels of a graph, each by some schedule; a pipeline takes it as its device."""

    given: DeviceCompiler
    """The compiler for which the search ran."""
    regions: Mapping[str, Candidate]
    counts: Mapping[str, int]
    """How often each region is in the graph."""
    ir: IR
    """The graph, in which every kernel stands by itself."""
    searched: Recorded | None = field(default=None, compare=False)
    """The search that it comes from."""

    def __iter__(self) -> Iterator[DeviceCompiler]:
        """Yield the device, so that a pipeline takes the candidate as a list of passes."""
        yield self.device

    @property
    def programs(self) -> Mapping[str, Definition | None]:
        """What kernels compute instead of what was written, by its text; None keeps them apart."""
        programs = dict(self.given.programs)
        for candidate in self.regions.values():
            programs |= programs_of(candidate.form)
        return programs

    @cached_property
    def made(self) -> CPUSource | GPUProgram:
        """Its kernels and launches."""
        device = replaced(self.given, dict(self.given.schedules), self.programs)
        target = target_of(self.given)
        recall = target.recalling(schedules_of(self.regions.values()))
        return program_of(device, chained(self.ir, self.programs), recall)

    @cached_property
    def device(self) -> DeviceCompiler:
        """The compiler, with the programs and the schedules."""
        return replaced(self.given, self.schedules, self.programs)

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """What its kernels compute, by their names."""
        kernels = self.made.kernels
        return {kernel.name: kernel.definition for kernel in kernels if kernel.definition}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """How its kernels run, by their names."""
        kernels = self.made.kernels
        return {
            kernel.name: kernel.schedule
            for kernel in kernels
            if kernel.schedule is not None and kernel.make is not None
        }

    @property
    def seconds(self) -> float | None:
        """The time of all launches that were searched; None if a region has no time."""
        return self._sum({name: region.seconds for name, region in self.regions.items()})

    @property
    def modelled(self) -> float | None:
        """The seconds that a model gives all launches, if nothing was measured."""
        return self._sum({name: region.modelled for name, region in self.regions.items()})

    def _sum(self, times: Mapping[str, float | None]) -> float | None:
        known = [seconds * self.counts[name] for name, seconds in times.items() if seconds]
        return sum(known) if len(known) == len(times) else None

    @property
    def told(self) -> str:
        """Its time in words."""
        if self.modelled is not None:
            return f"~{seconds_text(self.modelled)} by a model, nothing was measured"
        return "not measured" if self.seconds is None else seconds_text(self.seconds)

    @property
    def error(self) -> str | None:
        """What is wrong with it; None if its values are right."""
        return next((region.error for region in self.regions.values() if region.error), None)

    @property
    def source(self) -> str:
        """Its source: the kernels, and in C also launches and threads."""
        return self.made.source

    @override
    def __str__(self) -> str:
        regions = self.regions.values()
        alone = [f"# {name}\n" * (len(one.form.stages) == 1) for name, one in self.regions.items()]
        lines = [title + one.headed for title, one in zip(alone, regions, strict=True)]
        return "\n\n".join([repr(self)[1:].partition(";")[0], *lines])

    @override
    def __repr__(self) -> str:
        kernels = sum(len(region.form.stages) for region in self.regions.values())
        count = f"{kernels} kernel{'s' * (kernels != 1)}"
        return f"<Program of {count}: {self.told}; print(…) shows their schedules>"


def programs_of(form: Form) -> dict[str, Definition | None]:
    """Return what a device needs to be given to make the kernels of a form."""
    return {
        written: None if text is None else parse_definition(text) for written, text in form.programs
    }


def schedules_of(candidates: Iterable[Candidate]) -> dict[str, Schedule]:
    """Return the schedules of kernels by what they compute."""
    return {
        nameless(definition): candidate.schedules[name]
        for candidate in candidates
        for name, definition in candidate.definitions.items()
    }


def chained(ir: IR, programs: Mapping[str, Definition | None]) -> IR:
    """Return a graph with kernels fused where programs say so, or where they are one pass."""
    chosen = FuseChains(tuple((text, program is not None) for text, program in programs.items()))
    return compile_ir(ir, chosen, DeadCode()).ir


def apart(device: DeviceCompiler) -> Pipeline:
    """Return the passes of a device that make kernels, but none that fuses several into one."""
    passes = [given for given in device.passes if not isinstance(given, FuseChains)]
    return Pipeline(passes, rounds=device.rounds)
