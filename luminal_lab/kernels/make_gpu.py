"""From a definition to a kernel for a GPU, in CUDA C++ or Metal's language."""

from collections.abc import Mapping, Set as AbstractSet
from functools import partial

from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.spelling import spelled
from luminal_lab.kernels.plans.gpu import gpu_definition, gpu_schedule
from luminal_lab.kernels.render.gpu.render import render_gpu
from luminal_lab.kernels.render.rendered import Rendered
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choices
from luminal_lab.kernels.steps.schedule import Schedule, chosen
from luminal_lab.tensor.arguments import told


def make_gpu_kernel(
    definition: Definition,
    name: str,
    gpu: GPU,
    schedule: Schedule | None = None,
    compared: AbstractSet[str] = frozenset(),
    choices: Mapping[str, int] = NO_CHOICES,
) -> Kernel:
    """Return a kernel for a GPU, made by its default schedule or by another.

    Where other kernels compare its results, 16-bit floats are rounded after each op.
    """
    definition = gpu_definition(definition, gpu)
    nest = lower(definition)
    top = comment(str(definition))
    taken = Choices()
    if schedule is None:
        plan = chosen(partial(gpu_schedule, nest, gpu), choices, name)
        nest, schedule, taken = plan.nest, plan.schedule, plan.choices
        top = f"{top}\n{comment(plan.why)}" if plan.why else top
    else:
        nest = applied(schedule, nest, name).end
    source = render_gpu(
        spelled(nest), function_name(name), tuple(definition.dims), gpu.dialect, compared
    )
    check_threads(name, source, gpu)
    check_shared(nest, name, source.shared, gpu)
    check_tiles(name, source, gpu)
    kernel = Kernel(
        name,
        definition,
        "",
        (),
        nest=nest,
        schedule=schedule,
        choices=taken,
        make=told(
            partial(make_gpu_kernel, definition, name, gpu, compared=compared),
            "make",
            on="kernel.",
            whole=True,
        ),
        dialect=gpu.dialect.name,
    )
    return source.put_into(kernel, top)


def check_threads(name: str, source: Rendered, gpu: GPU) -> None:
    """Refuse blocks of more threads than the GPU has for one."""
    threads = max((phase.threads for phase in source.phases), default=1)
    if threads > gpu.threads:
        where = f"on {gpu.arch}" if gpu.arch else "on Apple's GPUs"
        raise ScheduleError(
            f"kernel {name}: a block has {threads:,} threads, and {where} it may have "
            f"{gpu.threads:,}",
            hint="split a loop, and bind the inner one to threads",
        )


def check_tiles(name: str, source: Rendered, gpu: GPU) -> None:
    """Refuse tiles that a block of the GPU has no room for."""
    asked = max(phase.shared for phase in source.phases) if source.phases else 0
    if source.shared + asked > gpu.shared:
        raise ScheduleError(
            f"kernel {name}: a block has {source.shared + asked:,} bytes of shared memory, "
            f"{asked:,} of them for tiles, and on {gpu.arch} it may have {gpu.shared:,}",
            hint="make the tiles smaller, or copy fewer iterations ahead",
        )


def check_shared(nest: Nest, name: str, shared: int, gpu: GPU) -> None:
    """Refuse what shares more than a block of the GPU may have."""
    most = min(gpu.shared, DECLARED)
    if shared <= most:
        return
    sizes = {
        local.name: size * local.type.dtype.itemsize
        for local in nest.locals.values()
        if local.space == "shared" and isinstance(size := size_of(local.type.shape), int)
    }
    largest = max(sizes, key=lambda array: sizes[array])
    told = f"on {gpu.arch} it may declare" if gpu.arch else "on Apple's GPUs it may have"
    raise ScheduleError(
        f"kernel {name}: a block has {shared:,} bytes of shared memory, and {told} {most:,}",
        hint=f"{largest} has {sizes[largest]:,} of them: make its tiles smaller, or place it in "
        "memory",
    )
