"""The CPU: kernels in C, compiled by the machine's own compiler, called from Python.

    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())

fuses the results of earlier passes into kernels, compiles those that are not cached, several at
once, and runs them in a small pool of threads. What cannot be a kernel (calls to the host, the
user's ops without a form in C) is computed by NumPy, as in the interpreter.

worklist.py says what is launched, and plan.py where values live; program.py and run.py have what
every device does with both. The files plan.py, program.py and run.py here add the CPU's part, and
program.py calls C. Without a compiler, kernels can only be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.core.origin import warn
from luminal_lab.devices.build.toolchain import ABSENT, find_compiler
from luminal_lab.devices.cpu.program import CPUProgram, CPUSource
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.devices.runtime.worklist import Recall
from luminal_lab.errors import ArgumentError, DeviceError, expect
from luminal_lab.kernels.definition.programs import ProgramsLike
from luminal_lab.kernels.steps.applied import ScheduleLike

__all__ = ["CPUCompiler", "CPUProgram"]
MOST_THREADS = 1024


@dataclass(frozen=True, init=False, repr=False)
class CPUCompiler(DeviceCompiler):
    """Fuse into kernels, and run them as C.

    `threads` is how many compute at most, `compiler` the C compiler by name or path. With
    `reuse_outputs` a run may overwrite what earlier ones returned. `schedules` replaces the default
    schedules of some kernels, as in {"matmul": "parallel i"}; `programs` says what is computed
    instead of a kernel's definition.

    >>> print(CPUCompiler(compiler="gcc", threads=2))
    cpu{compiler = gcc, threads = 2}
    """

    name: ClassVar[str] = "cpu"
    shown: ClassVar[tuple[str, ...]] = ("compiler", "threads", "reuse_outputs")
    example: ClassVar[str] = "parallel i"
    compiler: str | None = None
    """The C compiler to use, by its name or path; None: the first one available."""
    threads: int | None = None
    """How many threads compute at most; None: one for each core that the process may use."""
    wait: bool = True
    """Whether a compile waits for the C compiler."""

    def __init__(
        self,
        *,
        compiler: str | None = None,
        threads: int | None = None,
        reuse_outputs: bool = False,
        schedules: Mapping[str, ScheduleLike] | None = None,
        programs: ProgramsLike | None = None,
    ) -> None:
        if threads is not None:
            hint = f"give 1 to {MOST_THREADS}, or leave it out for all cores"
            fault = f"cpu: the number of threads is {threads!r}"
            threads = ArgumentError.unless_number(threads, fault, hint, 1, MOST_THREADS)
        hint = 'give its name or path, as in "clang", or leave it out'
        expect(compiler, str | None, "cpu: the compiler is {}", hint)
        super().__init__(
            schedules,
            programs,
            compiler=compiler,
            threads=threads,
            reuse_outputs=reuse_outputs,
        )

    @override
    def runner(
        self,
        ir: IR,
        specialise: Mapping[str, int] | None = None,
        recall: Recall | None = None,
    ) -> CPUProgram | CPUSource:
        options = self.options(specialise, recall)
        try:
            compiler = find_compiler(self.compiler)
        except DeviceError as error:
            if self.compiler is not None:
                raise
            # A machine without a compiler still computes.
            first, *reasons = error.message.removeprefix("compiler: ").splitlines()
            told = [reason for reason in reasons if not reason.endswith(ABSENT)]
            lines = [f"compile: {first}; NumPy's interpreter runs the graph, slowly", *told]
            hint = str(error.hint).partition(";")[0]
            warn("\n".join([*lines, f"hint: {hint}"]))
            return CPUSource(ir, **options)
        return CPUProgram(ir, compiler, threads=self.threads, wait=self.wait, **options)

    @override
    def unawaited(self) -> CPUCompiler:
        device = super().unawaited()
        object.__setattr__(device, "wait", False)
        return device
