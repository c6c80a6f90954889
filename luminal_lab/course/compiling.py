"""Shared by checks about kernels: whether an answer is a function, and its kernel on the CPU."""

from __future__ import annotations

from luminal_lab.course.exercise import Verdict, error_text
from luminal_lab.course.probing import kind
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import DeviceError, LabError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.call import KernelCall
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function


def no_function(answer: object) -> Verdict | None:
    """Return the verdict on an answer that is not a function; None if it is one.

    >>> no_function(42).said
    ('not yet: expected a function, got a number',)
    """
    if is_function(answer) and not isinstance(answer, type | Tensor | KernelCall):
        return None
    hint = "answer = f, the function's name without brackets"
    return Verdict.no(f"expected a function, got {kind(answer)}", hint)


def compiled(cx: Graph) -> Graph:
    """Compile a graph for the CPU; without a compiler, raise instead of interpreting."""
    find_compiler()
    cx.compile(GenericCompiler(), CPUCompiler())
    return cx


def rescheduled(cx: Graph, answer: object) -> Kernel | Verdict:
    """Return the only kernel of a graph with a new schedule, or the verdict on a wrong one."""
    if not isinstance(answer, str):
        hint = 'answer = """ … """, with a step on each line'
        return Verdict.no(f"expected a text, got {kind(answer)}", hint)
    try:
        kernel = compiled(cx).kernels[0]
    except DeviceError as error:
        hint = error.hint or "luminal-lab doctor says what is missing"
        return Verdict.no(f"no kernel can be made here: {error_text(error)}", hint)
    try:
        return kernel.rescheduled(answer)
    except LabError as error:
        hint = error.hint or "kernel.steps shows the nest before and after each step"
        return Verdict.no(f"the schedule is refused: {error_text(error)}", hint)
