"""A program as one C source: every distinct kernel once, and the launches in their order.

    // v2: f32[2048] = gelu(v0, v1)
    {phases_gelu, 1, LAB_LIST(0, 1, 2), LAB_NONE},

Two kernels are one if their definitions are equal as text, whatever their names. Values are
numbered in the order in which the program mentions them, and have no names of the user's.

Kernels are compiled apart from the launches, and cached one by one: the source of a kernel alone
has no name of it, so another program finds its library, whatever the kernel is called there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from luminal_lab.kernels.kernel import Kernel, comment, function_name
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
    parts = [*_functions(kernels), *map(_phases, kernels), _launches(uses)]
    return "\n\n".join([*parts, _program(kernels, uses)]) + "\n"


def private_source(kernels: Iterable[Kernel], uses: Sequence[Use], named: Iterable[str]) -> str:
    """Return the C source of all kernels and launches, none of them exported.

    `named` are functions of the prelude that what follows it will call.
    """
    kernels = list(kernels)
    parts = [*_functions(kernels, named), *map(_phases, kernels), _launches(uses)]
    return "\n\n".join(parts) + "\n"


def unit_source(exports: Mapping[str, Kernel]) -> str:
    """Return the C source of some kernels, each with the name under which a library exports it."""
    parts = _functions([*exports.values()])
    lists = (f"LAB_EXPORT {_listed(kernel, name)}" for name, kernel in exports.items())
    return "\n\n".join([*parts, *lists]) + "\n"


def linked_source(exported: Sequence[tuple[Kernel, str]], uses: Sequence[Use]) -> str:
    """Return the C source of a program's launches; libraries export its kernels under names."""
    parts = [_prelude(frozenset({"LAB_GIVEN"})), whole("launch.h")]
    parts += dict.fromkeys(f"extern lab_function *const {name}[];" for _, name in exported)
    parts += [f"#define {phases_name(kernel)} {name}" for kernel, name in exported]
    kernels = [kernel for kernel, _ in exported]
    return "\n\n".join([*parts, _launches(uses), _program(kernels, uses)]) + "\n"


def nameless_source(kernel: Kernel) -> str:
    """Return the C source of a kernel alone, the same whatever its name is.

    >>> from luminal_lab.kernels.kernel import Kernel
    >>> text = nameless_source(Kernel("mul_2", None, "static void kernel_mul_2(LAB_GIVEN) {}", ()))
    >>> text.splitlines()[-1]
    'static void kernel_(LAB_GIVEN) {}'
    """
    parts = [_prelude(frozenset({"LAB_GIVEN", *kernel.uses})), kernel.source]
    if kernel.definition is not None:
        parts[1] = re.sub(r"\A(?://.*\n)+", "", kernel.source)
        parts.insert(0, comment(str(kernel.definition.named("kernel"))))
    parts[-1] = parts[-1].replace(function_name(kernel.name), "kernel_")
    return "\n\n".join(parts) + "\n"


def _functions(kernels: Sequence[Kernel], named: Iterable[str] = ()) -> list[str]:
    """Return the C of some kernels, after what they need."""
    names = frozenset({"LAB_GIVEN", *named}.union(*(kernel.uses for kernel in kernels)))
    return [_prelude(names), *(kernel.source for kernel in kernels), whole("launch.h")]


@lru_cache(maxsize=256)
def _prelude(named: frozenset[str]) -> str:
    return prelude("c", named)


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
    return f"static {_listed(kernel, phases_name(kernel))}"


def _listed(kernel: Kernel, name: str) -> str:
    """Return the definition of the list of a kernel's functions."""
    functions = ", ".join(phase.function for phase in kernel.phases)
    return f"lab_function *const {name}[] = {{{functions}}};"


def phases_name(kernel: Kernel) -> str:
    """Return the C name of the list of a kernel's functions."""
    return function_name(kernel.name).replace("kernel_", "phases_", 1)


def most_given(kernels: Iterable[Kernel], uses: Sequence[Use]) -> tuple[int, int, int]:
    """Return for how many phases, values and dims a launch has room, each at least 1."""
    values = max([1, *(len(use.values) for use in uses)])
    return most_phases(kernels), values, max([1, *(len(use.dims) for use in uses)])


def _program(kernels: Iterable[Kernel], uses: Sequence[Use]) -> str:
    most = ", ".join(map(str, most_given(kernels, uses)))
    return f"LAB_EXPORT const lab_program {PROGRAM} = {{lab_launches, {most}}};"


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
