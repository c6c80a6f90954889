"""From a definition to a kernel: in C for a machine, in CUDA C++ or Metal's language for a GPU."""

from collections.abc import Callable, Mapping, Set as AbstractSet
from dataclasses import replace
from functools import partial

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.gpu import DECLARED, GPU
from luminal_lab.kernels.kernel import Kernel, comment, function_name
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.spelling import spelled
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.plans.gpu import gpu_definition, gpu_schedule
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.gpu.render import render_gpu
from luminal_lab.kernels.render.rendered import Rendered
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choices
from luminal_lab.kernels.steps.schedule import PlanRefusal, Schedule, Scheduling, chosen
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

    If other kernels compare its results, 16-bit floats are rounded after each op.
    """
    definition = one_pass(definition)
    plan = partial(cpu_schedule, lower(definition), machine)
    make = partial(make_kernel, definition, name, machine)
    return with_compared(_planned(definition, name, plan, schedule, choices, make)[0], compared)


def remaker(kernel: Kernel, machine: Machine) -> Callable[..., Kernel]:
    """Return what makes a kernel of `make_kernel` with other schedules, as `kernel.make` does."""
    assert kernel.definition is not None, "it is made of one"
    return _told(partial(make_kernel, kernel.definition, kernel.name, machine))


def with_compared(kernel: Kernel, compared: AbstractSet[str]) -> Kernel:
    """Return a kernel some of whose results other kernels compare."""
    definition, nest = kernel.definition, kernel.nest
    assert definition is not None, "C that no definition says is as it is"
    assert nest is not None, "C that no definition says is as it is"
    c = render_nest(spelled(nest), function_name(kernel.name), tuple(definition.dims), compared)
    make = kernel.make if not compared else partial(kernel.make or make_kernel, compared=compared)
    return c.put_into(replace(kernel, make=make), comment(str(definition)))


def make_gpu_kernel(
    definition: Definition,
    name: str,
    gpu: GPU,
    schedule: Schedule | None = None,
    compared: AbstractSet[str] = frozenset(),
    choices: Mapping[str, int] = NO_CHOICES,
) -> Kernel:
    """Return a kernel for a GPU, made by its default schedule or by another.

    If other kernels compare its results, 16-bit floats are rounded after each op.
    """
    definition = gpu_definition(definition, gpu)
    plan = partial(gpu_schedule, lower(definition), gpu)
    make = partial(make_gpu_kernel, definition, name, gpu, compared=compared)
    kernel, why = _planned(definition, name, plan, schedule, choices, make)
    nest, dialect = kernel.nest, gpu.dialect
    assert nest is not None, "it has just been planned"
    source = render_gpu(
        spelled(nest), function_name(name), tuple(definition.dims), dialect, compared
    )
    check_threads(name, source, gpu)
    check_shared(nest, name, source.shared, gpu)
    check_tiles(name, source, gpu)
    top = "\n".join(comment(text) for text in (str(definition), why) if text)
    return source.put_into(replace(kernel, dialect=dialect.name), top)


def _planned(
    definition: Definition,
    name: str,
    plan: Callable[[Mapping[str, int]], Scheduling],
    schedule: Schedule | None,
    choices: Mapping[str, int],
    make: Callable[..., Kernel],
) -> tuple[Kernel, str]:
    """Return a kernel without source, and why a preferred plan did not apply."""
    taken, why, refused = Choices(), "", list[PlanRefusal]()
    if schedule is None:
        scheduling = chosen(plan, choices, name)
        nest, schedule = scheduling.nest, scheduling.schedule
        taken, why, refused = scheduling.choices, scheduling.why, scheduling.refused
    else:
        nest = applied(schedule, lower(definition), name).end
    kernel = Kernel(name, definition, "", (), nest=nest, schedule=schedule, choices=taken)
    kernel = replace(kernel, refused=tuple(dict.fromkeys(refused)))
    return replace(kernel, make=_told(make)), why


def _told(make: Callable[..., Kernel]) -> Callable[..., Kernel]:
    return told(make, "make", on="kernel.", whole=True)


def check_threads(name: str, source: Rendered, gpu: GPU) -> None:
    """Refuse blocks with more threads than the GPU allows."""
    threads = max((phase.threads for phase in source.phases), default=1)
    if threads > gpu.threads:
        raise ScheduleError(
            f"kernel {name}: a block has {threads:,} threads, and {gpu.place} it may have "
            f"{gpu.threads:,}",
            hint="split a loop, and bind the inner one to threads",
        )


def check_tiles(name: str, source: Rendered, gpu: GPU) -> None:
    """Refuse tiles for which a block of the GPU has no room."""
    asked = max(phase.shared for phase in source.phases) if source.phases else 0
    if source.shared + asked > gpu.shared:
        raise ScheduleError(
            f"kernel {name}: a block has {source.shared + asked:,} bytes of shared memory, "
            f"{asked:,} of them for tiles, and {gpu.place} it may have {gpu.shared:,}",
            hint="make the tiles smaller, or copy fewer iterations ahead",
        )


def check_shared(nest: Nest, name: str, shared: int, gpu: GPU) -> None:
    """Refuse more shared memory than a block of the GPU may have."""
    most = min(gpu.shared, DECLARED)
    if shared <= most:
        return
    sizes = {
        local.name: size * local.type.dtype.itemsize
        for local in nest.locals.values()
        if local.space == "shared" and isinstance(size := size_of(local.type.shape), int)
    }
    largest = max(sizes, key=lambda array: sizes[array])
    may = "declare" if gpu.arch else "have"
    raise ScheduleError(
        f"kernel {name}: a block has {shared:,} bytes of shared memory, and {gpu.place} it may "
        f"{may} {most:,}",
        hint=f"{largest} has {sizes[largest]:,} of them: make its tiles smaller, or place it in "
        "memory",
    )
