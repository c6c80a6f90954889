"""The CPU: kernels in C, compiled by the machine's own compiler, called from Python.

    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())

fuses what came out of the passes before it into kernels and compiles all of them as one library,
with a small pool of threads. What no kernel can be (calls to the host, ops of the user's without a
form in C) NumPy does, as in the interpreter.

worklist.py says what is launched, plan.py where values live; program.py and run.py have what any
device does with both; plan.py, program.py and run.py add the CPU's part, and
library.py calls C. source.py has what there is without a compiler: kernels to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.core.origin import warn
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.cpu.source import CPUSource
from luminal_lab.errors import ArgumentError, DeviceError, flag, whole_number
from luminal_lab.kernels.fuse.fusion import fusion
from luminal_lab.kernels.fuse.intrinsics import Intrinsics
from luminal_lab.kernels.steps.applied import ScheduleLike, read_schedule
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.passes.base import Option, spec_text
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.subexpressions import CommonSubexpressions

__all__ = ["CPUCompiler", "CPUProgram"]
MOST_THREADS = 1024
DEEPEST = 50
"""How deep calls within calls are taken apart."""


@dataclass(frozen=True, init=False, repr=False)
class CPUCompiler(Pipeline):
    """Fuse into kernels, and run them as C.

    `threads` is how many compute at most, `compiler` the C compiler by name or path. With
    `reuse_outputs` a run may write over what earlier ones returned. `schedules` has the schedules
    of kernels that are to have another than the default one, as in {"mul_sum": "parallel i"}.

    >>> print(CPUCompiler(compiler="gcc", threads=2))
    cpu{compiler = gcc, threads = 2}
    """

    name: ClassVar[str] = "cpu"
    compiler: str | None = None
    """The C compiler to use, by its name or path; None: the first that is found."""
    threads: int | None = None
    """How many threads compute, at most; None: one for each core that the process may use."""
    reuse_outputs: bool = False
    """Whether a run may write over the outputs that earlier ones have returned."""
    schedules: tuple[tuple[str, Schedule], ...] = ()
    """Which kernels have another schedule than the default one, by their names."""

    def __init__(
        self,
        *,
        compiler: str | None = None,
        threads: int | None = None,
        reuse_outputs: bool = False,
        schedules: Mapping[str, ScheduleLike] | None = None,
    ) -> None:
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        cleaned = (CommonSubexpressions(), DeadCode())
        passes = [calls, *cleaned, Intrinsics(), *fusion(attention=True), DeadCode()]
        super().__init__(passes)
        count = whole_number(threads)
        if threads is not None and (count is None or not 1 <= count <= MOST_THREADS):
            raise ArgumentError(
                f"cpu: the number of threads is {threads!r}",
                hint=f"give 1 to {MOST_THREADS}, or leave it out for all cores",
            )
        if compiler is not None and not isinstance(compiler, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise ArgumentError(
                f"cpu: the compiler is {compiler!r}",
                hint='give its name or path, as in "clang", or leave it out',
            )
        object.__setattr__(self, "compiler", compiler)
        object.__setattr__(self, "threads", count)
        object.__setattr__(self, "reuse_outputs", flag("cpu: reuse_outputs", reuse_outputs))
        if schedules is not None and not isinstance(schedules, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a text of a pipeline has their names alone
            raise ArgumentError(
                f"cpu: schedules is {schedules!r}, which says no schedule",
                hint='give a dict, as in {"softmax": "parallel i"}',
            )
        for name in schedules or ():
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
                raise ArgumentError(
                    f"cpu: schedules has one for {name!r}, which is no kernel's name",
                    hint="cx.kernels has the names of kernels",
                )
        read = [(name, read_schedule(text, name)) for name, text in dict(schedules or {}).items()]
        object.__setattr__(self, "schedules", tuple(read))

    @override
    def __str__(self) -> str:
        options: dict[str, Option] = {}
        for name in ("compiler", "threads", "reuse_outputs"):
            value = getattr(self, name)
            if value not in (None, False):
                options[name] = value
        if self.schedules:
            options["schedules"] = tuple(name for name, _ in self.schedules)
        return spec_text(self.name, options)

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> CPUProgram | CPUSource:
        try:
            compiler = find_compiler(self.compiler)
        except DeviceError as error:
            if self.compiler is not None:
                raise
            # A machine without a compiler still computes.
            first, *reasons = error.message.removeprefix("compiler: ").splitlines()
            hangs = [reason for reason in reasons if "no answer" in reason]
            told = [f"compile: {first}; NumPy's interpreter runs the graph, slowly", *hangs]
            hint = str(error.hint).partition(";")[0]
            warn("\n".join([*told, f"hint: {hint}"]))
            return CPUSource(ir, specialise=specialise, schedules=dict(self.schedules))
        return CPUProgram(
            ir,
            compiler,
            threads=self.threads,
            reuse_outputs=self.reuse_outputs,
            specialise=specialise,
            schedules=dict(self.schedules),
        )
