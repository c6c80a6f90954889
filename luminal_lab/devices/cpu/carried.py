"""What a run writes over: arrays that the last one has returned, if only a session knows them.

A decoder writes over the keys and values of every layer at each step. To ask for each whose it is
takes longer than the step of a small model, and at every step but the first the answer is the same.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping, Sequence
from operator import is_

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import Node
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.runtime.plan import Result


class CarriedArrays:
    """The arrays that a run has returned in the places of inputs.

    `places` has for each such input its node, all slots in its place, the memory, and the id of the
    result; `carried` are all inputs that are written over, and `results` all results of the run.
    """

    def __init__(
        self,
        places: Sequence[tuple[Node, tuple[int, ...], MemoryBlock, int]],
        carried: Sequence[tuple[Node, int]],
        results: list[Result],
        arrays: Mapping[int, Array],
    ) -> None:
        self.nodes = [node for node, *_ in places]
        self.ids = [id for *_, id in places]
        self.inputs = [slots[0] for _, slots, *_ in places]
        placed = {node.id for node in self.nodes}
        self.rest = [(node, slot) for node, slot in carried if node.id not in placed]
        """What holds no result in the end: a value on the way was written there."""
        self.results = results
        self.others = [result for result in results if result[0] not in self.ids]
        """The results that lie elsewhere."""
        self.blocks = {slot: block for _, slots, block, _ in places for slot in slots}
        """The memory of each slot."""
        self.slots = np.array([*self.blocks], np.intp)
        self.addresses = np.array([block.address for block in self.blocks.values()], np.uintp)
        self._own = [block for *_, block, _ in places]
        self._arrays = [weakref.ref(arrays[id]) for id in self.ids]

    def are_alone(self, arrays: list[Array]) -> bool:
        """Return whether these are the arrays, and nobody has them or their memory but a session.

        The session has each twice: as an output's value, and as that of the input it becomes.
        """
        own = [array() for array in self._arrays]
        if not all(map(is_, arrays, own)):
            return False
        memory = [block.raw for block in self._own]
        most = max(map(sys.getrefcount, arrays)) - IN_TWO_LISTS
        return most <= 2 and max(map(sys.getrefcount, memory)) - IN_A_BLOCK <= 1


def _counts() -> tuple[int, int]:
    """Return the counts of references, as counted above, to what nobody else has."""
    block = MemoryBlock(1)
    arrays, memory = [np.empty(1)], [block.raw]
    own = [*arrays]
    assert own
    return max(map(sys.getrefcount, arrays)), max(map(sys.getrefcount, memory))


IN_TWO_LISTS, IN_A_BLOCK = _counts()
