"""A graph of kernels for the CPU: its source and, if compiled, its library and runs."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Unpack

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import UserKernel
from luminal_lab.devices.build.toolchain import Compiler, compile_library, find_compiler, load
from luminal_lab.devices.cpu.assembly import cpu_maker
from luminal_lab.devices.cpu.plan import CPUBound, CPUPlan
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.devices.cpu.trial import SECONDS
from luminal_lab.devices.cpu.trial_build import Builds, builds
from luminal_lab.devices.cpu.trials import CPUTrial
from luminal_lab.devices.cpu.user_check import check_source
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram, ProgramOptions
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.render.c.program import (
    POOL,
    PROGRAM,
    pool_source,
    program_source,
    tried_source,
)
from luminal_lab.machines.here import usable_cores


class CPUSource(DeviceProgram[CPUPlan]):
    """Kernels, their C and their memory plan, to be read; NumPy's interpreter computes."""

    is_runnable = False

    def __init__(
        self, ir: IR, compiler: Compiler | None = None, **options: Unpack[ProgramOptions]
    ) -> None:
        super().__init__(ir, cpu_maker(compiler), **options)
        self.source = program_source(self.list.kernels.values(), self.list.uses)
        """The C source of the whole program."""

    @override
    def planned(self, asked: RunRequest) -> CPUPlan:
        return CPUPlan(self.list, asked)

    @override
    def started(self, plan: CPUPlan, given: RunData) -> CPURun:
        raise DeviceError("execute: there is no C compiler", hint="pip install ziglang")


class ProgramLibrary:
    """The launches of a program, and its pool of threads, which ends with it."""

    def __init__(self, path: Path, pool: Path, threads: int) -> None:
        self._program = ctypes.addressof(ctypes.c_char.in_dll(load(path, PROGRAM), PROGRAM))
        library = load(pool, *POOL)
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


class CPUProgram(CPUSource):
    """A graph of kernels, compiled for the CPU."""

    is_runnable = True

    def __init__(
        self,
        ir: IR,
        compiler: Compiler | None = None,
        *,
        threads: int | None = None,
        **options: Unpack[ProgramOptions],
    ) -> None:
        super().__init__(ir, compiler, **options)
        self.threads = usable_cores() if threads is None else threads
        self._arena = self._scratch = MemoryBlock(0)
        # Done now, so that compile reports what cannot be compiled.
        chosen = compiler or find_compiler()
        for op in dict.fromkeys(node.op for node in ir if isinstance(node.op, UserKernel)):
            check_source(op, chosen)  # errors in a user's lines are reported for those lines
        self.compiler = chosen
        self.patience = SECONDS
        """The seconds that a trial may take, in addition to those for its operations."""
        self.path = compile_library(self.source, chosen, entries=[PROGRAM], behind=self.behind)
        pool = compile_library(pool_source(), chosen, entries=POOL)
        self.library = ProgramLibrary(self.path, pool, self.threads)

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
    def started(self, plan: CPUPlan, given: RunData) -> CPURun:
        return CPURun(self, plan, given)

    @cached_property
    def builds(self) -> Builds | None:
        """What its trials are built from; None if there can be no child process."""
        return builds(self.compiler)

    def tried(
        self, environment: Environment, wanted: Iterable[int], known: Mapping[int, Array]
    ) -> list[dict[int, Array]]:
        """Return the values of the wanted nodes for each way of running them in a child process.

        If there can be no child process, they come from a run in this one.
        """
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
