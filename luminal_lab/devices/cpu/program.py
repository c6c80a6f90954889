"""A graph of kernels for the CPU: its source and, if compiled, its library and runs."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import UserKernel
from luminal_lab.devices.build.toolchain import Compiler, compile_library, find_compiler, load
from luminal_lab.devices.cpu.assembly import cpu_maker
from luminal_lab.devices.cpu.libraries import Ahead, KernelLibrary, Libraries, ProgramLibraries
from luminal_lab.devices.cpu.plan import CPUBound, CPUPlan
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.devices.cpu.straight import StraightRun
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram, ProgramOptions
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.devices.runtime.worklist import NodeWork, Worklist
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import held
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.kernels.render.c.program import (
    POOL,
    PROGRAM,
    linked_source,
    most_given,
    program_source,
    tried_source,
)
from luminal_lab.machines.here import usable_cores

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.trial_build import Builds


class CPUSource(DeviceProgram[CPUPlan]):
    """Kernels, their C and their memory plan, to be read; NumPy's interpreter computes."""

    is_runnable = False

    def __init__(
        self,
        ir: IR,
        compiler: Compiler | None = None,
        planned: Callable[[Kernel], object] = lambda kernel: None,
        **options: Unpack[ProgramOptions],
    ) -> None:
        super().__init__(ir, cpu_maker(compiler, planned), **options)

    @cached_property
    def source(self) -> str:
        """The C source of the whole program."""
        return program_source(self.list.kernels.values(), self.list.uses)

    @override
    def planned(self, asked: RunRequest) -> CPUPlan:
        return CPUPlan(self.list, asked)

    @override
    def started(self, plan: CPUPlan, given: RunData) -> CPURun:
        raise DeviceError("execute: there is no C compiler", hint="pip install ziglang")


class LaunchRecord(ctypes.Structure):
    """A launch; `lab_launch` in the C source."""

    _fields_ = [
        ("phases", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("phase_count", "buffer_count")),
        ("buffers", ctypes.c_void_p),
        ("dim_count", ctypes.c_int32),
        ("dims", ctypes.c_void_p),
    ]


class ProgramRecord(ctypes.Structure):
    """The launches of a program; `lab_program` in the C source."""

    _fields_ = [
        ("launches", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("phases", "buffers", "dims")),
    ]


class ProgramLibrary:
    """The launches of a program, and its pool of threads, which ends with it."""

    def __init__(self, libraries: Libraries, work: Worklist, threads: int) -> None:
        uses = work.uses
        phases = {name: _phases_in(kernel) for name, kernel in libraries.kernels.items()}
        numbers = [number for use in uses for number in (*use.values, *use.dims)]
        self._numbers = (ctypes.c_int32 * max(1, len(numbers)))(*numbers)
        at, launches = ctypes.addressof(self._numbers), list[LaunchRecord]()
        for use in uses:
            dims = at + 4 * len(use.values)
            counts = len(use.kernel.phases), len(use.values)
            given = phases.get(use.kernel.name), *counts, at, len(use.dims), dims
            launches.append(LaunchRecord(*given))
            at = dims + 4 * len(use.dims)
        self._launches = (LaunchRecord * max(1, len(launches)))(*launches)
        record = ProgramRecord(
            ctypes.addressof(self._launches), *most_given(work.kernels.values(), uses)
        )
        self._record, self._program = record, ctypes.addressof(record)
        library = load(libraries.pool, *POOL)
        opens, self._execute, self._cancel, closes = (library[name] for name in POOL)
        opens.restype, opens.argtypes = ctypes.c_void_p, [ctypes.c_int]
        self._execute.restype = ctypes.c_int64
        self._execute.argtypes = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2]
        self._cancel.restype, self._cancel.argtypes = None, [ctypes.c_void_p]
        closes.restype, closes.argtypes = None, [ctypes.c_void_p]
        self._pool: int = opens(threads)
        if not self._pool:
            raise DeviceError("cpu: there is no memory for a pool of threads")
        # When the process ends, the system ends the threads, even one that is running a kernel.
        weakref.finalize(self, closes, self._pool).atexit = False

    def execute(self, run: int, first: int, last: int) -> int:
        """Run launches of a run, given by its address; return how many were done."""
        return self._execute(self._pool, self._program, run, first, last)

    def cancel(self) -> None:
        """Make a run in another thread end soon."""
        self._cancel(self._pool)


def _phases_in(kernel: KernelLibrary) -> int:
    """Return the address of the list of a kernel's functions."""
    library = load(kernel.path, kernel.export)
    return ctypes.addressof(ctypes.c_char.in_dll(library, kernel.export))


class CPUProgram(CPUSource):
    """A graph of kernels, compiled for the CPU."""

    is_runnable = True

    def __init__(
        self,
        ir: IR,
        compiler: Compiler | None = None,
        *,
        threads: int | None = None,
        wait: bool = True,
        **options: Unpack[ProgramOptions],
    ) -> None:
        chosen = compiler or find_compiler()
        with Ahead(chosen) as ahead:
            if wait:
                super().__init__(ir, compiler, ahead.add, **options)
                ahead.finish(self.list.kernels.values())
            else:
                super().__init__(ir, compiler, **options)
        self.threads = usable_cores() if threads is None else threads
        self._arena = self._scratch = MemoryBlock(0)
        # Done now, so that compile reports what cannot be compiled.
        for op in dict.fromkeys(node.op for node in ir if isinstance(node.op, UserKernel)):
            from luminal_lab.devices.cpu.user_check import check_source  # noqa: PLC0415  # loaded when used

            check_source(op, chosen)  # errors in a user's lines are reported for those lines
        self.compiler = chosen
        lines = weakref.WeakMethod(self.behind)  # what nobody runs any more is not compiled
        self._found = ProgramLibraries(
            [*self.list.kernels.values()],
            chosen,
            lambda function: "" if (own := lines()) is None else own(function),
            wait=wait,
        )
        self._interim: tuple[Libraries | None, ProgramLibrary | None] = None, None
        """The libraries that were there in the last run, and what launched those."""
        if wait:
            self.library  # noqa: B018  # so that compile reports what cannot be loaded

    @cached_property
    def libraries(self) -> Libraries:
        """What has its kernels and its threads; waits for those that are being compiled."""
        return self._found.whole()

    @cached_property
    def library(self) -> ProgramLibrary:
        """What launches all of its kernels."""
        return ProgramLibrary(self.libraries, self.list, self.threads)

    @property
    def awaited(self) -> frozenset[str]:
        """The kernels that NumPy's interpreter computes until they are compiled, by name."""
        return frozenset() if "library" in vars(self) else self._found.awaited

    @override
    def launch_of(self, work: NodeWork, number: int) -> Launch:
        launch = super().launch_of(work, number)
        return replace(launch, chosen=partial(self._instead, launch.kernel.name))

    def _instead(self, name: str) -> str:
        return "NumPy's interpreter, until it is compiled" if name in self.awaited else ""

    @cached_property
    def path(self) -> Path:
        """A library that has the launches, too, for processes that know nothing of this one."""
        of = self.libraries.kernels
        exported = [(kernel, of[name].export) for name, kernel in self.list.kernels.items()]
        source = linked_source(exported, self.list.uses)
        paths = dict.fromkeys(str(kernel.path) for kernel in of.values())
        linked = replace(self.compiler, flags=(*self.compiler.flags, *paths))
        return compile_library(source, linked, entries=[PROGRAM])

    def behind(self, function: str) -> str:
        """Return the user's lines that a function of a kernel is made from."""
        origins = [
            work.node.meta.origin
            for sizes in (None, *range(len(self.list.sizes)))
            for work, number in self.numbers(sizes)
            if function in [phase.function for phase in self.list.uses[number].kernel.phases]
        ]
        return "\n".join(dict.fromkeys(str(origin) for origin in origins if origin is not None))

    @override
    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        if not known and not environment.probes and trace is None and "library" in vars(self):
            plan = self.plan(frozenset(wanted), dims=environment.dims)
            bound = plan.bound(environment.dims)
            if bound.straight is None:
                bound.straight = StraightRun.fits(self, bound) and StraightRun(self, bound)
            if bound.straight:
                with held(), self.turn():
                    self.ran_sizes = plan.asked.sizes
                    return bound.straight.run(environment)
        return super().run(environment, wanted, known, trace)

    @override
    def started(self, plan: CPUPlan, given: RunData) -> CPURun:
        if "library" not in vars(self):  # it was told not to wait
            there, awaited = self._found.so_far(), self._found.awaited
            if awaited or there is None:
                return self._begun(plan, given, there, awaited)
        return CPURun(self, plan, given)

    def _begun(
        self, plan: CPUPlan, given: RunData, there: Libraries | None, awaited: frozenset[str]
    ) -> CPURun:
        from luminal_lab.devices.cpu.interim import InterimRun  # noqa: PLC0415  # loaded when used

        if there != self._interim[0]:
            library = None if there is None else ProgramLibrary(there, self.list, self.threads)
            self._interim = there, library
        return InterimRun(self, plan, given, self._interim[1], awaited)

    @cached_property
    def builds(self) -> Builds | None:
        """What its trials are built from; None if there can be no child process."""
        from luminal_lab.devices.cpu.trial_build import builds  # noqa: PLC0415  # loaded when used

        return builds(self.compiler)

    def tried(
        self, environment: Environment, wanted: Iterable[int], known: Mapping[int, Array]
    ) -> list[dict[int, Array]]:
        """Return the values of the wanted nodes for each way of running them in a child process.

        If there can be no child process, they come from a run in this one.
        """
        from luminal_lab.devices.cpu.trials import CPUTrial  # noqa: PLC0415  # loaded when used

        build = self.builds
        if build is None:
            return [self.run(environment, wanted, known)]
        wanted = frozenset(wanted)
        plan = self.plan(wanted, known, (), environment.dims)
        source, values = tried_source(self.source), list[dict[int, Array]]()
        with self.turn():
            for apart in (True, False):
                library = build.library(source, behind=self.behind) if apart else self.path
                given = plan, RunData(environment, known), build, library, source
                values.append(CPUTrial(self, *given, apart=apart).run(None))
        return [results | {id: known[id] for id in wanted if id in known} for results in values]

    # -- memory ------------------------------------------------------------------------------------

    @property
    def kept_bytes(self) -> int:
        """The bytes of copies of weights that runs have kept beside the arena."""
        return sum(plan.packs.bytes for plan in self._plans.values())

    def memory(self, bound: CPUBound) -> tuple[MemoryBlock, MemoryBlock | None]:
        """Return the arena and the threads' own memory, enlarged if necessary."""
        size = bound.memory.arena_bytes
        if size > self._arena.bytes:
            self._arena = MemoryBlock(0)  # the old one is released first
            self._arena = MemoryBlock(size)
        if not bound.scratch_bytes:
            return self._arena, None
        size = bound.scratch_bytes * self.threads
        if size > self._scratch.bytes:
            self._scratch = MemoryBlock(size)
        return self._arena, self._scratch
