"""Run one kernel alone, in one thread, task after task: for the tests of nests and schedules."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import evaluate
from luminal_lab.core.op import ints
from luminal_lab.devices.build.toolchain import compile_library, find_compiler, load
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.prelude.prelude import prelude


def source_of(*kernels: Kernel) -> str:
    """Return kernels with all that they need, and one function that runs a phase's tasks."""
    parts = [prelude("c", {"LAB_GIVEN"}.union(*(kernel.uses for kernel in kernels)))]
    functions = [phase.function for kernel in kernels for phase in kernel.phases]
    cases = [
        f"        case {place}: for (lab_i64 t = 0; t < tasks; t++) "
        f"{function}(lab_buffers, lab_dims, lab_step, lab_fault, t, lab_scratch); break;"
        for place, function in enumerate(functions)
    ]
    run = [
        "void run_phase(int phase, lab_i64 tasks, void *const *lab_buffers, "
        "const lab_i64 *lab_dims, lab_u32 lab_step, lab_i64 *lab_fault, char *lab_scratch) {",
        "    switch (phase) {",
        *cases,
        "    }",
        "}",
    ]
    return "\n\n".join([*parts, *(kernel.source for kernel in kernels), "\n".join(run)]) + "\n"


def entry_of(source: str, compiler: str | None = None) -> Any:  # ctypes has no type for it
    """Compile a source, and return its function."""
    entry = load(compile_library(source, find_compiler(compiler)), "run_phase")["run_phase"]
    entry.restype = None
    entry.argtypes = [
        ctypes.c_int,
        ctypes.c_int64,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    return entry


def run_together(kernels: Sequence[Kernel], compiler: str | None = None) -> list[Running]:
    """Compile kernels of different names as one library."""
    entry, first, found = entry_of(source_of(*kernels), compiler), 0, list[Running]()
    for kernel in kernels:
        found.append(Running(kernel, entry=entry, first=first))
        first += len(kernel.phases)
    return found


class Running:
    """A kernel that is compiled, for inputs by name."""

    def __init__(
        self, kernel: Kernel, compiler: str | None = None, *, entry: Any = None, first: int = 0
    ) -> None:
        self.kernel = kernel
        self.entry = entry_of(source_of(kernel), compiler) if entry is None else entry
        self.first = first
        """The number of its first phase in the library."""

    def __call__(
        self, inputs: Mapping[str, np.ndarray], dims: Mapping[str, int] | None = None
    ) -> dict[str, np.ndarray]:
        kernel, sizes = self.kernel, dict(dims or {})
        definition = kernel.definition
        assert definition is not None
        given = [np.ascontiguousarray(inputs[name]) for name, _ in definition.inputs]
        inner = [np.empty(evaluate(one.bytes, sizes) + 64, np.uint8) for one in kernel.locals]
        made = {
            line.name: np.full(
                ints(bound_shape("run", line.type.shape, sizes)), 99, line.type.dtype.numpy
            )
            for line in definition.outputs
        }
        arrays = [*given, *inner, *made.values()]
        pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        numbers = [sizes[name] for name in definition.dims] or [0]
        scratch = np.empty(evaluate(kernel.scratch, sizes) + 64, np.uint8)
        start = scratch.ctypes.data + -scratch.ctypes.data % 64
        fault = ctypes.c_int64(0)
        for place, phase in enumerate(kernel.phases):
            self.entry(
                self.first + place,
                evaluate(phase.tasks, sizes),
                pointers,
                (ctypes.c_int64 * len(numbers))(*numbers),
                0,
                ctypes.byref(fault),
                start,
            )
        assert not fault.value, "an index is out of range"
        return made
