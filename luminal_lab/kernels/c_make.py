"""From a definition to a kernel in C, for a machine."""

from functools import partial

from luminal_lab.kernels.c_nest import render_nest
from luminal_lab.kernels.cpu_schedule import cpu_schedule
from luminal_lab.kernels.definition import Definition
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.lowering import lower
from luminal_lab.kernels.machine import Machine
from luminal_lab.kernels.nest_steps import applied
from luminal_lab.kernels.online import online_softmax
from luminal_lab.kernels.schedule import Schedule


def make_kernel(
    definition: Definition, name: str, machine: Machine, schedule: Schedule | None = None
) -> Kernel:
    """Return a kernel for a machine, made by its default schedule or by another."""
    definition = online_softmax(definition)
    nest = lower(definition)
    if schedule is None:
        made = cpu_schedule(nest, machine)
        nest, schedule = made.nest, made.schedule
    else:
        nest = applied(schedule, nest, name).end
    c = render_nest(nest, function_name(name), tuple(definition.dims))
    top = comment(str(definition))
    return Kernel(
        name,
        definition,
        f"{top}\n{c.text}",
        c.phases,
        c.locals,
        c.scratch,
        nest,
        schedule,
        vectors=c.vectors,
        ops_of_line=(*((),) * len(top.splitlines()), *c.ops_of_line),
        make=partial(make_kernel, definition, name, machine),
    )
