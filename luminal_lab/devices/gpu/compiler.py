"""What the compilers for GPUs share: the passes, the kernels, and the text that spells them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Scatter, Update, UserKernel
from luminal_lab.devices.gpu.engine import EmulatorEngine, Engine
from luminal_lab.devices.gpu.nvrtc import compile_kernel
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.emulator.kernels import emulate_kernel
from luminal_lab.kernels.definition.definition import Buffer, Definition
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.emulated import Meaning
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.make_gpu import make_gpu_kernel
from luminal_lab.kernels.moving import moving_kernel
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.kernels.user.gpu import gpu_user_kernel


@dataclass(frozen=True)
class GPUMaker:
    """What makes kernels for a GPU."""

    gpu: GPU
    name: str

    def kernel(self, definition: Definition, name: str, schedule: Schedule | None) -> Kernel:
        """Return a definition in the GPU's language."""
        return self._compiling(make_gpu_kernel(definition, name, self.gpu, schedule))

    def moving(self, op: Update | Scatter, types: Sequence[TensorType], name: str) -> Kernel:
        """Return an update or a scatter in the GPU's language."""
        kernel = moving_kernel(op, types, name, self.gpu.dialect)
        return self._compiling(replace(kernel, meaning=moving_meaning(op, types)))

    def user(self, op: UserKernel, name: str) -> Kernel | None:
        """Return what the user has written, if it is in the GPU's language."""
        if op.dialect != self.gpu.dialect.name:
            return None
        return self._compiling(gpu_user_kernel(op, name))

    def compared(self, kernel: Kernel, names: set[str]) -> Kernel:
        """Return a kernel that rounds 16-bit floats after each op in results of these names."""
        assert kernel.definition is not None, "what no definition says is as it is"
        kernel_compared = make_gpu_kernel(
            kernel.definition, kernel.name, self.gpu, kernel.schedule, frozenset(names)
        )
        return self._compiling(kernel_compared)

    def _compiling(self, kernel: Kernel) -> Kernel:
        kernel = replace(kernel, emulator=emulate_kernel)
        if self.gpu.arch is None:
            return kernel
        return replace(kernel, compile=partial(compile_kernel, arch=self.gpu.arch))


def moving_meaning(op: Update | Scatter, types: Sequence[TensorType]) -> Meaning:
    """Return what an update or a scatter takes, gives and computes."""
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

    def program(
        self,
        ir: IR,
        gpu: GPU,
        find: Callable[[str, Kernels], Engine],
        specialise: Mapping[str, int] | None,
    ) -> GPUProgram:
        """Return a program for a GPU, which an engine runs unless the emulator does."""
        if self.emulate:
            find = partial(_emulated, gpu.dialect)
        maker = GPUMaker(gpu, self.name)
        return GPUProgram(ir, maker, gpu.dialect, find, **self.options(specialise))


def _emulated(dialect: Dialect, source: str, kernels: Kernels) -> EmulatorEngine:
    del kernels
    return EmulatorEngine(source, dialect)
