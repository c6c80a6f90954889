"""Copies of weights in the order in which kernels read them, kept from run to run.

A product copies its weights into tiles before it begins, in a phase of its own. Where a second run
finds the weights as they were, the copies of that run are kept, beside the arena, and later runs
leave these phases out until a weight changes. A graph that runs once, or that trains its weights,
takes no memory for this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.machines.here import available_memory

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.plan import CPUPlan

SHARE = 1 / 64
"""How much of the memory that this process could still get a plan takes for copies."""

Stage: TypeAlias = Literal["passing", "kept now", "kept"]
"""Whether a run makes its copies in the arena, keeps those it makes, or finds them."""


class Pack(NamedTuple):
    """A phase that does nothing but copy inputs into a working array."""

    phase: tuple[int, int]
    """Its launch and its number there."""
    slot: int
    bytes: int
    inputs: tuple[int, ...]
    """The slots of the inputs."""


class KeptPacks:
    """The copies that a plan's kernels make of weights."""

    def __init__(self, plan: CPUPlan) -> None:
        self.found = _packs_of(plan)
        """All that could be kept."""
        self.packs: list[Pack] = []
        """Those that are kept."""
        self.slots, self.addresses = np.zeros(0, np.intp), np.zeros(0, np.uintp)
        self._block: MemoryBlock | None = None
        self._read: list[int] = []
        """The slots of the inputs that they are made of."""
        self._before: list[object] = []
        """The keys of the inputs of all packs in the last run, as long as none is kept."""
        self._seen: object = None
        self._filled: object = None
        """The key of what is read, as of the last run, and as it is in the copies."""

    @property
    def bytes(self) -> int:
        """The bytes of what is kept."""
        return 0 if self._block is None else self._block.bytes

    def stage(self, key_of: Callable[[Sequence[int]], object]) -> Stage:
        """Say what a run does.

        `key_of` returns what is equal for as long as inputs, given by their slots, stay what they
        are; None if nobody knows.
        """
        if not self.packs:
            before, self._before = self._before, [key_of(pack.inputs) for pack in self.found]
            pairs = zip(self.found, self._before, before, strict=False)
            self._place([pack for pack, now, then in pairs if now is not None and now == then])
            if not self.packs:
                return "passing"
            self._seen = key_of(self._read)
        key = key_of(self._read)
        if key is not None and key == self._filled:
            return "kept"
        before, self._seen = self._seen, key
        return "kept now" if key is not None and key == before else "passing"

    def filled(self) -> None:
        """Note that a run has made all copies."""
        self._filled = self._seen

    def _place(self, packs: Sequence[Pack]) -> None:
        most = SHARE * (available_memory() or 0) if packs else 0
        places, end = list[int](), 0
        for pack in packs:
            size = -(-pack.bytes // 64) * 64
            if end + size <= most:
                self.packs.append(pack)
                places.append(end)
                end += size
        if not places:
            return
        self._block = MemoryBlock(end)
        self._read = sorted({slot for pack in self.packs for slot in pack.inputs})
        self.slots = np.array([pack.slot for pack in self.packs], np.intp)
        self.addresses = np.array(places, np.uintp) + np.uintp(self._block.address)


def _packs_of(plan: CPUPlan) -> list[Pack]:
    """Return all phases that only copy inputs into arrays of known sizes."""
    given = {*plan.pointers.slots.tolist()}
    packs = list[Pack]()
    for at, (work, own) in enumerate(zip(plan.works, plan.locals, strict=True)):
        kernel = plan.kernel_of(work)
        if kernel is None or not own:
            continue
        slots = dict(zip(kernel.names, work.reads, strict=False))
        into = {
            local.name: (slot, local.bytes) for slot, local in zip(own, kernel.locals, strict=True)
        }
        for number, phase in enumerate(kernel.phases):
            if phase.packs:
                slot, size = into[phase.packs[0]]
                inputs = tuple([slots[name] for name in phase.packs[1:]])
                if isinstance(size, int) and given.issuperset(inputs):
                    packs.append(Pack((at, number), slot, size, inputs))
    return packs
