"""A program as one C source: every distinct kernel once, and the launches in their order.

    // v2: f32[2048] = gelu(v0, v1)
    {phases_gelu, 1, LAB_LIST(0, 1, 2), LAB_NONE},

Two kernels are one if their definitions are equal as text, whatever their names. Values are
numbered in the order in which the program mentions them, and have no names of the user's: so when
lines above change, the source stays the same, and its library is found in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from luminal_lab.kernels.kernel import Kernel, function_name
from luminal_lab.kernels.prelude.files import whole
from luminal_lab.kernels.prelude.prelude import prelude

PROGRAM = "lab_main"
"""The export of a program's library: its launches."""
POOL = ("lab_open", "lab_execute", "lab_cancel", "lab_close")
"""The functions that run programs, in a library of their own, which is compiled once."""


class Use(NamedTuple):
    """A launch as the source has it."""

    kernel: Kernel
    values: tuple[int, ...]
    """The program's values that are its inputs, its locals and its outputs."""
    dims: tuple[int, ...]
    """The numbers of its definition's dims among the program's."""
    output_count: int
    """How many of the values, counted from the end, are its outputs."""
    types: tuple[str, ...] = ()
    """The types of the outputs."""


def program_source(kernels: Iterable[Kernel], uses: Sequence[Use]) -> str:
    """Return the C source of all kernels, with what they need, and of the launches."""
    kernels = list(kernels)
    named = {"LAB_GIVEN"}.union(*(kernel.uses for kernel in kernels))
    parts = [prelude("c", named), *(kernel.source for kernel in kernels)]
    parts += [whole("launch.h"), *map(_phases, kernels), _launches(uses)]
    return "\n\n".join([*parts, _program(kernels, uses)]) + "\n"


def pool_source() -> str:
    """Return the C source of the threads that run any program."""
    files = map(whole, ("launch.h", "pool.c", "run.h", "execute.c"))
    return "\n\n".join([prelude("c", {"LAB_GIVEN"}), *files]) + "\n"


def tried_source(source: str) -> str:
    """Return a program's source with functions that run it task by task, in a child process."""
    return "\n\n".join([source.rstrip(), whole("run.h"), whole("tried.c")]) + "\n"


def most_phases(kernels: Iterable[Kernel]) -> int:
    """Return how many phases the counts of tasks of one launch have room for."""
    return max([1, *(len(kernel.phases) for kernel in kernels)])


def _phases(kernel: Kernel) -> str:
    functions = ", ".join(phase.function for phase in kernel.phases)
    return f"static lab_function *const {phases_name(kernel)}[] = {{{functions}}};"


def phases_name(kernel: Kernel) -> str:
    """Return the C name of the list of a kernel's functions."""
    return function_name(kernel.name).replace("kernel_", "phases_", 1)


def _program(kernels: Sequence[Kernel], uses: Sequence[Use]) -> str:
    buffers = max([1, *(len(use.values) for use in uses)])
    most = most_phases(kernels), buffers, max([1, *(len(use.dims) for use in uses)])
    return (
        f"LAB_EXPORT const lab_program {PROGRAM} = {{lab_launches, {', '.join(map(str, most))}}};"
    )


def _launches(uses: Sequence[Use]) -> str:
    lines = ["static const lab_launch lab_launches[] = {"]
    for number, use in enumerate(uses):
        count = len(use.values) - use.output_count
        given, results_of = use.values[:count], use.values[count:]
        types = use.types or ("",) * len(results_of)
        results = ", ".join(
            f"v{value}: {type}" if type else f"v{value}"
            for value, type in zip(results_of, types, strict=True)
        )
        read = ", ".join(f"v{value}" for value in given)
        lines += [
            f"    // {number}: {results} = {use.kernel.name}({read})",
            f"    {{{phases_name(use.kernel)}, {len(use.kernel.phases)}, {_list(use.values)}, "
            f"{_list(use.dims)}}},",
        ]
    if not uses:
        lines.append("    {0, 0, LAB_NONE, LAB_NONE},")
    return "\n".join([*lines, "};"])


def _list(numbers: Sequence[int]) -> str:
    return f"LAB_LIST({', '.join(map(str, numbers))})" if numbers else "LAB_NONE"
