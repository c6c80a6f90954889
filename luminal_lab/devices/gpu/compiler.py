"""What the compilers for GPUs share: the passes, the kernels, and the text that spells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Scatter, Update, UserKernel
from luminal_lab.devices.gpu.nvrtc import compile_kernel
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.emulator.kernels import emulate_kernel
from luminal_lab.errors import ArgumentError, flag
from luminal_lab.kernels.definition.definition import Buffer, Definition
from luminal_lab.kernels.emulated import Meaning
from luminal_lab.kernels.fuse.fusion import fusion
from luminal_lab.kernels.fuse.intrinsics import Intrinsics
from luminal_lab.kernels.gpu import GPU
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make_gpu import make_gpu_kernel
from luminal_lab.kernels.render.gpu.moving import gpu_moving_kernel
from luminal_lab.kernels.steps.applied import ScheduleLike, read_schedule
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.kernels.user.gpu import gpu_user_kernel
from luminal_lab.passes.base import Option, spec_text
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.subexpressions import CommonSubexpressions

DEEPEST = 50
"""How deep calls within calls are taken apart."""


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
        kernel = gpu_moving_kernel(op, types, name, self.gpu.dialect)
        return self._compiling(replace(kernel, meaning=moving_meaning(op, types)))

    def user(self, op: UserKernel, name: str) -> Kernel | None:
        """Return what the user has written, if it is in the GPU's language."""
        if op.dialect != self.gpu.dialect.name:
            return None
        return self._compiling(gpu_user_kernel(op, name))

    def compared(self, kernel: Kernel, names: set[str]) -> Kernel:
        """Return a kernel that rounds 16-bit floats after each op in results of these names."""
        assert kernel.definition is not None, "what no definition says is as it is"
        made = make_gpu_kernel(
            kernel.definition, kernel.name, self.gpu, kernel.schedule, frozenset(names)
        )
        return self._compiling(made)

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
class GPUCompiler(Pipeline):
    """Fuse into kernels, as for every device, and run them on a GPU."""

    shown: ClassVar[tuple[str, ...]] = ()
    """The options that its text says, in order, where they are not as by default."""
    emulate: bool = False
    """Whether the emulator runs it, on the CPU: slowly, and the same."""
    reuse_outputs: bool = False
    """Whether a run may write over the outputs that earlier ones have returned."""
    schedules: tuple[tuple[str, Schedule], ...] = ()
    """Which kernels have another schedule than the default one, by their names."""

    def __init__(
        self,
        *,
        emulate: bool,
        reuse_outputs: bool,
        schedules: Mapping[str, ScheduleLike] | None,
    ) -> None:
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        cleaned = (CommonSubexpressions(), DeadCode())
        passes = [calls, *cleaned, Intrinsics(), *fusion(attention=True), DeadCode()]
        super().__init__(passes)
        if schedules is not None and not isinstance(schedules, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a text of a pipeline has their names alone
            raise ArgumentError(
                f"{self.name}: schedules is {schedules!r}, which says no schedule",
                hint='give a dict, as in {"softmax": "bind i to block"}',
            )
        for name in schedules or ():
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
                raise ArgumentError(
                    f"{self.name}: schedules has one for {name!r}, which is no kernel's name",
                    hint="cx.kernels has the names of kernels",
                )
        read = [(name, read_schedule(text, name)) for name, text in dict(schedules or {}).items()]
        object.__setattr__(self, "emulate", emulate)
        object.__setattr__(self, "reuse_outputs", reuse_outputs)
        object.__setattr__(self, "schedules", tuple(read))

    @override
    def __str__(self) -> str:
        options: dict[str, Option] = {}
        for name in (*self.shown, "emulate", "reuse_outputs"):
            value = cast("Option | None", getattr(self, name))
            if value != type(self).__dataclass_fields__[name].default:
                options[name] = cast("Option", value)
        if self.schedules:
            options["schedules"] = tuple(name for name, _ in self.schedules)
        return spec_text(self.name, options)

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> GPUProgram:
        raise NotImplementedError

    def checked_flag(self, name: str, value: object) -> bool:
        """Return an option that is yes or no."""
        return flag(f"{self.name}: {name}", value)
