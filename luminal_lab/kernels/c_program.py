"""A program's kernels as one C source: every distinct kernel once, and one function that launches.

Two kernels are one if their definitions are equal as text, whatever they are called.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from luminal_lab.kernels.c_kernel import GIVEN, INDICES, RANDOM, maths_of, render
from luminal_lab.kernels.c_maths import c_maths
from luminal_lab.kernels.definition import Definition

ENTRY = "lab_launch"
"""The function that the library exports."""


def distinct(definitions: Iterable[Definition]) -> dict[Definition, int]:
    """Return the number of the kernel that each definition is."""
    numbers: dict[str, int] = {}
    found: dict[Definition, int] = {}
    for definition in definitions:
        text = str(replace(definition, name="kernel"))
        found[definition] = numbers.setdefault(text, len(numbers))
    return found


def program_source(kernels: dict[Definition, int]) -> str:
    """Return the C source of all kernels, with what they need."""
    firsts: dict[int, Definition] = {}
    for definition, place in kernels.items():
        firsts.setdefault(place, definition)
    parts = [c_maths(*maths_of(firsts.values())), GIVEN, INDICES, RANDOM]
    cases: list[str] = []
    for place, definition in firsts.items():
        comment = "\n".join(f"// {line}" for line in str(definition).splitlines())
        parts.append(f"{comment}\n{render(definition, f'kernel_{place}')}")
        call = f"kernel_{place}(lab_buffers, lab_dims, lab_step, lab_fault)"
        cases.append(f"        case {place}: {call}; break;")
    launch = [
        f"void {ENTRY}(int kernel, LAB_GIVEN) {{",
        "    switch (kernel) {",
        *cases,
        "    }",
        "}",
    ]
    return "\n\n".join([*parts, "\n".join(launch)]) + "\n"
