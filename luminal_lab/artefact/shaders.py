"""The launches of a page in WGSL, too: what its switch runs them by, where a browser has WebGPU.

Each value that the page keeps has a buffer, and so has each array that a kernel works in. All dims
have sizes here, so a launch is a list of numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from luminal_lab.artefact.contents import Contents
from luminal_lab.core.dims import evaluate
from luminal_lab.devices.gpu.compiler import check_float64, gpu_maker
from luminal_lab.devices.runtime.worklist import NodeWork, Worklist
from luminal_lab.devices.webgpu.engine import MOST_POSITIONS, modules
from luminal_lab.errors import DeviceError, LabError
from luminal_lab.kernels.gpu import webgpu
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.kernels.render.gpu.webgpu import MOST
from luminal_lab.trust import admit


def shaders(
    contents: Contents, dims: Mapping[str, int], step: int, works: Sequence[NodeWork]
) -> dict[str, object]:
    """Return the modules and launches for the works of a page, or why there are none."""
    try:
        return _shaders(contents, dims, step, works)
    except LabError as error:
        return {"why": error.message}


def _shaders(
    contents: Contents, dims: Mapping[str, int], step: int, works: Sequence[NodeWork]
) -> dict[str, object]:
    check_float64(contents.ir, "webgpu", "WGSL has none")
    made = _Launches(contents, dims, step)
    launches = [made.of(work) for work in works]
    admit("\n\n".join(made.modules))
    return {"modules": [*made.modules], "launches": launches, "bytes": made.bytes}


class _Launches:
    """The launches so far, and what they have in common."""

    def __init__(self, contents: Contents, dims: Mapping[str, int], step: int) -> None:
        self.work = Worklist(contents.ir, gpu_maker(webgpu(), "webgpu"), {})
        self.dims, self.step = dims, step
        self.items = {item.node.id: item for item in self.work.works}
        slots = [
            self.work.slot_of[one.id]
            for one in (*contents.inputs, *contents.outputs, *contents.weights)
        ]
        self.bytes = [self._bytes(slot) for slot in slots]
        """The bytes of each buffer: of the page's places, then of working arrays."""
        self.buffer_of = {slot: place for place, slot in enumerate(slots)}
        self.modules: dict[str, int] = {}

    def _bytes(self, slot: int) -> int:
        return evaluate(self.work.slots[slot].bytes, self.dims)

    def of(self, own: NodeWork) -> list[object]:
        """Return what a work launches: for each phase its module, buffers, numbers, blocks."""
        item = self.items.get(own.node.id)
        if item is None or item.use is None:
            raise DeviceError(f"webgpu: {own.node} has no form in WGSL")
        kernel = self.work.uses[item.use].kernel
        bound, copies = self._bound((*item.reads, *item.general.locals, *item.makes))
        written, made = modules(kernel), list[object]()
        for phase in kernel.phases:
            blocks = evaluate(phase.tasks, self.dims)
            numbers = [int(number) for number in numbers_of(kernel, self.dims)]
            if max(blocks * phase.threads, *numbers, *self.bytes) > MOST_POSITIONS:
                raise DeviceError(f"webgpu: kernel {kernel.name} has more positions than it counts")
            numbers += [self.step & 0xFFFFFFFF] * phase.draws + [0] * phase.faults + [blocks]
            if blocks:
                module = self.modules.setdefault(written[phase.function], len(self.modules))
                grid = min(blocks, MOST), -(-blocks // MOST)
                made.append([module, bound, numbers, *grid, copies, int(phase.faults)])
        return made

    def _bound(self, slots: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the buffers of a launch, and those that are copied for it.

        WebGPU binds no buffer twice, where one of both could be written, and here all could.
        """
        bound, copies = list[int](), list[tuple[int, int]]()
        for slot in slots:
            buffer = self.buffer_of.get(slot)
            if buffer is None or buffer in bound:
                self.bytes.append(self._bytes(slot))
                if buffer is None:
                    buffer = self.buffer_of[slot] = len(self.bytes) - 1
                else:
                    copies.append((buffer, buffer := len(self.bytes) - 1))
            bound.append(buffer)
        return bound, copies
