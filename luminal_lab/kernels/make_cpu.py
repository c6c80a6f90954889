"""From a definition to a kernel in C, for a machine."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import replace
from functools import partial

from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.online import online_softmax
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.spelling import spelled
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choices
from luminal_lab.kernels.steps.schedule import Schedule, chosen
from luminal_lab.machines.machine import Machine
from luminal_lab.tensor.arguments import told


def make_kernel(
    definition: Definition,
    name: str,
    machine: Machine,
    schedule: Schedule | None = None,
    *,
    compared: AbstractSet[str] = frozenset(),
    choices: Mapping[str, int] = NO_CHOICES,
) -> Kernel:
    """Return a kernel for a machine, made by its default schedule or by another.

    Where other kernels compare its results, 16-bit floats are rounded after each op.
    """
    definition = online_softmax(definition)
    nest = lower(definition)
    taken = Choices()
    if schedule is None:
        made = chosen(partial(cpu_schedule, nest, machine), choices, name)
        nest, schedule, taken = made.nest, made.schedule, made.choices
    else:
        nest = applied(schedule, nest, name).end
    made = Kernel(
        name,
        definition,
        "",
        (),
        nest=nest,
        schedule=schedule,
        choices=taken,
        make=told(
            partial(make_kernel, definition, name, machine), "make", on="kernel.", whole=True
        ),
    )
    return with_compared(made, compared)


def with_compared(kernel: Kernel, compared: AbstractSet[str]) -> Kernel:
    """Return a kernel of which other kernels compare some results."""
    definition, nest = kernel.definition, kernel.nest
    assert definition is not None, "C that no definition says is as it is"
    assert nest is not None, "C that no definition says is as it is"
    c = render_nest(spelled(nest), function_name(kernel.name), tuple(definition.dims), compared)
    make = kernel.make if not compared else partial(kernel.make or make_kernel, compared=compared)
    return c.put_into(replace(kernel, make=make), comment(str(definition)))
