"""From a definition to a kernel for a GPU, in CUDA C++ or Metal's language."""

from collections.abc import Set as AbstractSet
from functools import partial

from luminal_lab.kernels.definition import Definition
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.gpu_render import render_gpu
from luminal_lab.kernels.gpu_schedule import gpu_schedule
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.lowering import lower
from luminal_lab.kernels.nest_steps import applied
from luminal_lab.kernels.online import online_softmax
from luminal_lab.kernels.schedule import Schedule


def make_gpu_kernel(
    definition: Definition,
    name: str,
    gpu: GPU,
    schedule: Schedule | None = None,
    compared: AbstractSet[str] = frozenset(),
) -> Kernel:
    """Return a kernel for a GPU, made by its default schedule or by another.

    Of the results that are `compared` by other kernels each op rounds.
    """
    definition = online_softmax(definition)
    nest = lower(definition)
    if schedule is None:
        made = gpu_schedule(nest, gpu)
        nest, schedule = made.nest, made.schedule
    else:
        nest = applied(schedule, nest, name).end
    found = render_gpu(nest, function_name(name), tuple(definition.dims), gpu.dialect, compared)
    top = comment(str(definition))
    return Kernel(
        name,
        definition,
        f"{top}\n{found.text}",
        found.phases,
        found.locals,
        nest=nest,
        schedule=schedule,
        ops_of_line=(*((),) * len(top.splitlines()), *found.ops_of_line),
        make=partial(make_gpu_kernel, definition, name, gpu, compared=compared),
        dialect=gpu.dialect.name,
        uses=found.uses,
    )
