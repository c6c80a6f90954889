"""Forms: the ways to compute a region, each with kernels that run one after another.

A region is what is searched as a whole: a kernel, or a few that may become one. All its forms read
the same arrays and make the same ones; the arrays between their kernels are their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from luminal_lab.core.dims import Dim
from luminal_lab.core.op import size_of
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel

BETWEEN = "\n\n"
"""What separates the schedules of several kernels in one text."""
DEFAULT = "default"
"""The name of the form that a kernel has without a search."""


@dataclass(frozen=True)
class FormStage:
    """One kernel of a form, as text."""

    text: str
    """What it computes."""
    arrays: tuple[int, ...]
    """The numbers of its arrays: the region's inputs, its outputs, then those between kernels."""

    @property
    def name(self) -> str:
        """The name of its kernel."""
        return self.text.removeprefix("kernel ").partition("(")[0]

    @cached_property
    def definition(self) -> Definition:
        """What it computes."""
        return parse_definition(self.text)


@dataclass(frozen=True)
class Form:
    """A way to compute a region."""

    name: str
    outside: int
    """How many arrays all forms of the region share."""
    stages: tuple[FormStage, ...]
    programs: tuple[tuple[str, str | None], ...] = ()
    """What a device needs to be given to make these kernels, by what is written."""

    @property
    def definitions(self) -> tuple[Definition, ...]:
        """What its kernels compute, in order."""
        return tuple(stage.definition for stage in self.stages)

    @cached_property
    def inner(self) -> tuple[Dim, ...]:
        """The bytes of the arrays that pass from kernel to kernel."""
        sizes: dict[int, Dim] = {}
        for stage in self.stages:
            outputs = stage.definition.outputs
            for number, line in zip(stage.arrays[-len(outputs) :], outputs, strict=True):
                sizes[number] = size_of(line.type.shape) * line.type.dtype.itemsize
        return tuple(sizes[number] for number in sorted(sizes) if number >= self.outside)


def alone(definition: Definition, name: str = DEFAULT) -> Form:
    """Return the form whose one kernel computes a definition."""
    count = len(definition.inputs) + len(definition.outputs)
    return Form(name, count, (FormStage(str(definition), tuple(range(count))),))


@dataclass(frozen=True)
class Built:
    """The kernels of a form, by some schedules."""

    form: Form
    kernels: tuple[Kernel, ...]

    @property
    def lines(self) -> int:
        """The number of lines of their C."""
        return sum(kernel.source.count("\n") for kernel in self.kernels)

    @property
    def own(self) -> Sequence[Dim]:
        """The bytes of their own arrays: the locals of each kernel, then those between them."""
        locals_ = [local.bytes for kernel in self.kernels for local in kernel.locals]
        return [*locals_, *self.form.inner]
