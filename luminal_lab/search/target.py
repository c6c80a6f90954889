"""What a search needs from a device: its plans, its kernels, and who answers its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.ir import IR
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.cuda.driver import Present, present
from luminal_lab.devices.gpu.compiler import GPUCompiler, gpu_maker
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.devices.runtime.worklist import KernelMaker, Recall, c_maker
from luminal_lab.errors import ArgumentError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import Programs, nameless
from luminal_lab.kernels.gpu import GPU, gpu_of
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.plans.gpu import gpu_definition, gpu_schedule
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.machine import Machine
from luminal_lab.search import modelled, on_gpu
from luminal_lab.search.draws import Plan
from luminal_lab.search.worker import Worker, signature, work

DEVICES = "give ll.CPUCompiler(), ll.CUDACompiler(…) or ll.MetalCompiler(…)"


@dataclass(frozen=True)
class Target:
    """A device as a search sees it."""

    machine: Machine | GPU
    """The machine from which its plans take sizes."""
    plan: Plan
    maker: KernelMaker
    worker: Worker
    signature: Callable[[], str]
    """Returns what its times depend on."""
    defined: Callable[[Definition], Definition]
    """Returns a definition as its kernels compute it."""
    device: str = ""
    """The compiler as text if jobs name it so, as for a GPU."""
    job: tuple[str | None, int | None] = (None, None)
    """The C compiler and the threads that jobs name on a CPU."""
    forms: bool = True
    """Whether its worker takes candidates with several kernels."""
    model: str = ""
    """What its times are a model of; empty if they are measured."""

    def recalling(self, schedules: Mapping[str, Schedule]) -> Recall:
        """Return a lookup for schedules, which are given by what kernels compute."""
        return lambda definition: schedules.get(nameless(self.defined(definition)))


def target_of(device: DeviceCompiler) -> Target:
    """Return what a search needs from a device."""
    match device:
        case CPUCompiler():
            here = this_machine()
            return Target(
                here,
                cpu_schedule,
                c_maker(here),
                work,
                partial(_cpu_signature, device),
                one_pass,
                job=(device.compiler, device.threads),
            )
        case CUDACompiler() if (here := _present(device)) is not None:
            text = modelled.cuda_text(here.arch, tf32=device.tf32)
            gpu = gpu_of(here.arch, tf32=device.tf32, cores=here.cores)
            return Target(
                gpu,
                gpu_schedule,
                gpu_maker(gpu, "cuda"),
                on_gpu.work,
                partial(on_gpu.signature, text),
                partial(gpu_definition, gpu=gpu),
                text,
                forms=False,
            )
        case GPUCompiler():
            target = modelled.ModelledPlace.of(device)
            return Target(
                target.gpu,
                gpu_schedule,
                target.maker,
                modelled.work,
                target.signature,
                partial(gpu_definition, gpu=target.gpu),
                target.device,
                forms=False,
                model=target.model,
            )
        case _:
            raise ArgumentError(f"search: nothing is known of {device!r}", hint=DEVICES)


def _present(device: CUDACompiler) -> Present | None:
    """Return the GPU that is here, if it is the right one."""
    here = None if device.emulate else present()
    return here if here is not None and device.arch in (None, here.arch) else None


def _cpu_signature(device: CPUCompiler) -> str:
    return signature(find_compiler(device.compiler), device.threads)


def program_of(
    device: DeviceCompiler, ir: IR, recall: Recall | None = None
) -> CPUSource | GPUProgram:
    """Return the kernels and launches of a graph on a device, which need not be here."""
    if isinstance(device, CPUCompiler):
        return CPUSource(ir, **device.options(None, recall))
    program = device.runner(ir, None, recall)
    assert isinstance(program, GPUProgram), "GPUs' compilers make no other"
    return program


def replaced(
    device: DeviceCompiler, schedules: Mapping[str, Schedule], programs: Programs
) -> DeviceCompiler:
    """Return a device whose kernels have these schedules and programs."""
    options = {name: getattr(device, name) for name in device.shown}
    return type(device)(schedules=schedules, programs=programs, **options)
