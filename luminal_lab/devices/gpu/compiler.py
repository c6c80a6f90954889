"""What the compilers for GPUs share: the passes, the kernels, and their spelling as text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import HostCall, Input, Scatter, Update
from luminal_lab.devices.gpu.engine import EmulatorEngine, FindEngine
from luminal_lab.devices.gpu.nvrtc import compile_kernel
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.gpu.sass import gpu_assembly
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.devices.runtime.worklist import KernelMaker, Recall
from luminal_lab.emulator.kernels import emulate_kernel
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.definition import Buffer, Definition
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.emulated import Meaning
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.moving import moving_kernel
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.kernels.user.gpu import gpu_user_kernel


def gpu_maker(gpu: GPU, name: str) -> KernelMaker:
    """Return the maker of kernels in a GPU's language, each with the emulator and the compiler."""

    def ready(kernel: Kernel) -> Kernel:
        compiles = None if gpu.arch is None else partial(compile_kernel, arch=gpu.arch)
        emulator = None if gpu.dialect.name == "webgpu" else emulate_kernel
        return replace(kernel, emulator=emulator, compile=compiles, assemble=gpu_assembly)

    def of_definition(definition: Definition, kernel: str, schedule: Schedule | None) -> Kernel:
        return make_gpu_kernel(definition, kernel, gpu, schedule)

    def moving(op: Update | Scatter, types: Sequence[TensorType], kernel: str) -> Kernel:
        moves = moving_kernel(op, types, kernel, gpu.dialect)
        return replace(moves, meaning=moving_meaning(op, types))

    def compared(kernel: Kernel, names: set[str]) -> Kernel:
        assert kernel.definition is not None, "what no definition says is as it is"
        given = kernel.definition, kernel.name, gpu, kernel.schedule, frozenset(names)
        return replace(make_gpu_kernel(*given), refused=kernel.refused)

    makes = of_definition, moving, gpu_user_kernel, compared
    return KernelMaker(name, gpu.dialect.name, *makes).each(ready)


def moving_meaning(op: Update | Scatter, types: Sequence[TensorType]) -> Meaning:
    """Return what an update or a scatter takes, returns and computes."""
    names = ("x", "rows") if isinstance(op, Update) else ("x", "index", "values")
    inputs = tuple(Buffer(name, type) for name, type in zip(names, types, strict=True))

    def compute(arrays: Sequence[Array], dims: Mapping[str, int]) -> list[Array]:
        return [op.bind(dims).eval(*arrays)]

    indices = {} if isinstance(op, Update) else {"index": types[0].shape[op.axis]}
    return Meaning(inputs, (Buffer("y", types[0]),), compute, indices)


@dataclass(frozen=True, init=False, repr=False)
class GPUCompiler(DeviceCompiler):
    """Fuse a graph into kernels, and run them on a GPU."""

    example: ClassVar[str] = "bind i to block"
    emulate: bool = False
    """Whether the emulator runs the kernels on the CPU: slowly, with the same results."""

    @abstractmethod
    def target(self, ir: IR) -> tuple[GPU, FindEngine]:
        """Return the GPU that a graph is compiled for, and what finds the engine to run it.

        >>> gpu, _ = ll.CUDACompiler(arch="sm_90").target(cx.ir)
        >>> gpu.arch, gpu.threads, gpu.shared
        ('sm_90', 1024, 232448)
        """

    @override
    def runner(
        self, ir: IR, specialise: Mapping[str, int] | None = None, recall: Recall | None = None
    ) -> GPUProgram:
        gpu, find = self.target(ir)
        if self.emulate:
            find = partial(_emulated, gpu.dialect)
        maker = gpu_maker(gpu, self.name)
        return GPUProgram(ir, maker, gpu.dialect, find, **self.options(specialise, recall))


def _emulated(dialect: Dialect, source: str, kernels: Kernels) -> EmulatorEngine:
    return EmulatorEngine(source, dialect)


def check_float64(ir: IR, device: str, none: str) -> None:
    """Raise if anything would be computed in float64, where there is none."""
    for node in ir:
        if isinstance(node.op, (Input, HostCall)):
            continue
        body = node.op.body_of()
        inner = [] if body is None else [inner_node.type for inner_node in body]
        given = [ir[id].type for id in node.sources]
        if any(type.dtype is DType.float64 for type in (*node.types, *given, *inner)):
            raise DeviceError(
                f"{device}: {node} is computed in float64, and {none}",
                where=str(node.meta.origin or "") or None,
                hint='x.cast("float32") of its inputs, or ll.CPUCompiler(), which has it',
            )
