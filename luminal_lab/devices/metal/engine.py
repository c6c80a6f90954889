"""An Apple GPU, through PyObjC's Metal: memory that both see, launches, times.

PyObjC is imported when something is about to run, and only here. It has not yet run on a Mac.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from typing_extensions import override

from luminal_lab.devices.build.located import device_error, optional
from luminal_lab.devices.gpu.engine import Engine, Location, Mapped, PlacedLaunch
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.kernels.kernel import Kernels, Phase
from luminal_lab.trust import admit

STILL: Final = (
    "the source of kernels is available without it; emulate=True runs small sizes on the CPU"
)
"""What works where nothing runs."""
PAGE: Final = mmap.PAGESIZE
"""The unit of memory that Metal can see."""
FAILED: Final = 5
"""The status of a command buffer that ended in an error."""


def import_metal() -> Any:  # noqa: ANN401  # PyObjC has no types
    """Return PyObjC's Metal, or say why it is not there."""
    if sys.platform != "darwin":
        raise device_error(f"metal: only Macs have Metal, and this is {sys.platform}", hint=STILL)
    hint = f'pip install "luminal-lab[metal]"; {STILL}'
    return optional("Metal", "metal: PyObjC's Metal", hint)


def metal_device() -> tuple[Any, Any]:
    """Return PyObjC's Metal and the GPU of this Mac, or raise a DeviceError."""
    metal = import_metal()
    device = metal.MTLCreateSystemDefaultDevice()
    if device is None:
        raise device_error("metal: this Mac has no GPU that Metal can use", hint=STILL)
    return metal, device


class MetalBlock(MemoryBlock):
    """Whole pages that Metal also sees."""

    __slots__ = ("buffer",)

    def __init__(self, metal: Any, device: Any, size: int) -> None:  # noqa: ANN401  # PyObjC's
        whole = -(-max(1, size) // PAGE) * PAGE
        pages = mmap.mmap(-1, whole)
        self.buffer = device.newBufferWithBytesNoCopy_length_options_deallocator_(
            memoryview(pages), whole, metal.MTLResourceStorageModeShared, None
        )
        if self.buffer is None:
            raise MemoryError(f"{whole:,} bytes")
        self.lie_in(np.frombuffer(pages, np.uint8), size)


class MetalEngine(Engine):
    """The GPU of a Mac on which one program runs."""

    clock = "GPUStartTime and GPUEndTime"

    def __init__(self, source: str, kernels: Kernels) -> None:
        admit(source)
        self.metal, self.device = metal_device()
        self.name = str(self.device.name())
        options = self.metal.MTLCompileOptions.alloc().init()
        # NaNs stay NaNs, and operations are not reordered.
        options.setFastMathEnabled_(False)
        library, error = self.device.newLibraryWithSource_options_error_(source, options, None)
        if library is None:
            raise device_error(f"metal: the kernels are not compiled: {_text(error)}", hint=STILL)
        self.queue = self.device.newCommandQueue()
        self.states: dict[str, Any] = {}
        for kernel in kernels:
            for phase in kernel.phases:
                self.states[phase.function] = self._state(library, kernel.name, phase)
        self._open: list[tuple[Any, list[str]]] = []

    def _state(self, library: Any, name: str, phase: Phase) -> Any:  # noqa: ANN401  # PyObjC's
        compiled = library.newFunctionWithName_(phase.function)
        state, error = self.device.newComputePipelineStateWithFunction_error_(compiled, None)
        if state is None:
            fault = f"kernel {name}: Metal makes no pipeline of it: {_text(error)}"
            raise device_error(fault, hint="smaller tiles in its schedule need less shared memory")
        most = int(state.maxTotalThreadsPerThreadgroup())
        if phase.threads > most:
            raise device_error(
                f"kernel {name}: a block has {phase.threads:,} threads, and with its registers "
                f"this GPU runs {most:,}",
                hint="bind shorter loops to threads in its schedule",
            )
        return state

    @override
    def reserve(self, size: int) -> MemoryBlock:
        return MetalBlock(self.metal, self.device, size)

    def free_bytes(self) -> int | None:
        """Return how much more memory the GPU is recommended to use."""
        most = int(self.device.recommendedMaxWorkingSetSize())
        return max(0, most - int(self.device.currentAllocatedSize()))

    @override
    def commit(self, launches: Sequence[PlacedLaunch]) -> Any:
        """Give the GPU a command buffer of launches, which run one after another."""
        make = self.metal.MTLSizeMake
        commands = self.queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        for launch in launches:
            encoder.setComputePipelineState_(self.states[launch.phase.function])
            for index, argument in enumerate(launch.arguments):
                if isinstance(argument, Location):
                    memory = argument.memory
                    assert isinstance(memory, MetalBlock)
                    encoder.setBuffer_offset_atIndex_(memory.buffer, argument.offset, index)
                else:
                    assert not isinstance(argument, Mapped), "Metal has no tensor maps"
                    encoder.setBytes_length_atIndex_(argument.tobytes(), argument.nbytes, index)
            encoder.dispatchThreadgroups_threadsPerThreadgroup_(
                make(launch.blocks, 1, 1), make(launch.phase.threads, 1, 1)
            )
        encoder.endEncoding()
        commands.commit()
        names = list(dict.fromkeys(launch.kernel.name for launch in launches))
        self._open.append((commands, names))
        return commands

    @override
    def wait(self) -> None:
        """Wait for everything that was committed, and raise an error if something went wrong."""
        waiting, self._open = self._open, []
        for commands, names in waiting:
            commands.waitUntilCompleted()
            if int(commands.status()) == FAILED:
                which = f"kernel {names[0]}" if len(names) == 1 else f"one of {', '.join(names)}"
                raise device_error(
                    f"metal: {which} was stopped by the GPU: {_text(commands.error())}",
                    hint="run it again; with emulate=True the emulator finds the line",
                )

    def seconds(self, groups: Sequence[Sequence[PlacedLaunch]]) -> list[float]:
        """Launch each group as a command buffer, and return how long the GPU took for it."""
        committed = [self.commit(group) if group else None for group in groups]
        self.wait()
        spans = ((c.GPUStartTime(), c.GPUEndTime()) if c is not None else (0, 0) for c in committed)
        return [float(end) - float(start) for start, end in spans]


def _text(error: Any) -> str:  # noqa: ANN401  # PyObjC's
    return "no reason is given" if error is None else str(error.localizedDescription())
