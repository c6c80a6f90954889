"""The assembly of a CPU's kernel: the compiler's own, or a disassembler's of the library."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from luminal_lab.devices.build.toolchain import (
    Compiler,
    compile_library,
    find_compiler,
    run_program,
)
from luminal_lab.devices.cpu.planned import planner
from luminal_lab.devices.runtime.worklist import KernelMaker, c_maker
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.c.program import PROGRAM, Use, program_source
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.assembly import Assembly, assembly_of, disassembly_of
from luminal_lab.machines.here import this_machine
from luminal_lab.trust import admit

SECONDS = 60.0
"""The seconds that a tool may take."""
FILE, RESULT = "kernel.c", "kernel.s"
DISASSEMBLERS = ("objdump", "llvm-objdump")


def cpu_maker(
    compiler: Compiler | None, planned: Callable[[Kernel], object] = lambda kernel: None
) -> KernelMaker:
    """Return the maker of kernels in C, each with a function that makes its assembly.

    `planned` gets kernels that were not found on disk.
    """
    bare, usual = c_maker(this_machine()), planner(this_machine(), planned)

    def kernel(definition: Definition, name: str, schedule: Schedule | None) -> Kernel:
        return (
            usual(definition, name) if schedule is None else bare.kernel(definition, name, schedule)
        )

    assemble = partial(assembled, compiler=compiler)
    return replace(bare, kernel=kernel).each(lambda made: replace(made, assemble=assemble))


def assembled(kernel: Kernel, compiler: Compiler | None = None) -> Assembly:
    """Return the assembly of a kernel, with the lines of its C if the compiler names them."""
    values = tuple(range(max(1, len(kernel.names) + len(kernel.locals))))
    source = program_source([kernel], [Use(kernel, values, tuple(range(len(kernel.dims))), 1)])
    admit(source)
    functions = tuple(phase.function for phase in kernel.phases)
    before = source[: source.index(kernel.source)].count("\n") + 1
    return _assembled(source, functions, before, len(kernel.source.splitlines()), compiler)


@lru_cache(maxsize=64)
def _assembled(
    source: str, functions: tuple[str, ...], first: int, count: int, asked: Compiler | None
) -> Assembly:
    compiler = asked or find_compiler()
    text = _by_compiler(source, compiler)
    if text is not None:
        assembly = assembly_of(text, functions, first, count, f"{compiler} -S")
        if assembly.text:
            return assembly
    library = compile_library(source, compiler, entries=[PROGRAM])
    for tool in DISASSEMBLERS:
        path = shutil.which(tool)
        if path is not None:
            said = _said([path, "-d", "--no-show-raw-insn", str(library)])
            assembly = disassembly_of(said or "", functions, tool)
            if assembly.text:
                return assembly
    raise DeviceError(
        f"assembly: {compiler} writes none with -S that has {', '.join(functions)}, and there is "
        f"no {' and no '.join(DISASSEMBLERS)} that finds them in the library",
        hint="install gcc, clang or binutils; print(kernel.source) shows the C",
    )


def _by_compiler(source: str, compiler: Compiler) -> str | None:
    """Return what a compiler writes with -S; None if it cannot."""
    with TemporaryDirectory(prefix="luminal-lab-") as name:
        folder = Path(name)
        (folder / FILE).write_bytes(source.encode("utf-8", "backslashreplace"))
        try:
            code, _ = run_program([*compiler.call(FILE, RESULT), "-S", "-g1"], folder, SECONDS)
            result = folder / RESULT
            return None if code or not result.is_file() else result.read_text("utf-8", "replace")
        except (OSError, subprocess.TimeoutExpired):
            return None


def _said(command: list[str]) -> str | None:
    with TemporaryDirectory(prefix="luminal-lab-") as name:
        try:
            done = subprocess.run(
                command, capture_output=True, check=True, timeout=SECONDS, cwd=name
            )
        except (OSError, subprocess.SubprocessError):
            return None
    return done.stdout.decode("utf-8", "replace")
