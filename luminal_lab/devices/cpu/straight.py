"""A run that does nothing but launch: what does not change between two of them is prepared.

Nothing is carried, known from before, looked at on the way, or computed by NumPy. For a small graph
all that `CPURun` does beyond this takes longer than its kernels.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.devices.cpu.plan import CPUBound
from luminal_lab.devices.cpu.run import CPURun, launch
from luminal_lab.devices.runtime.run import RunData

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.program import CPUProgram


class StraightRun:
    """All runs of a plan for sizes of dims, one at a time."""

    def __init__(self, program: CPUProgram, bound: CPUBound) -> None:
        self._program, self._bound, self._span = program, bound, bound.spans[0]
        self._values, self._pointers = bound.plan.values, bound.plan.pointers
        results = {slot: (id, shape, dtype) for id, slot, shape, dtype in bound.results}
        self._outputs = [
            (slots, size, *next(results[slot] for slot in slots if slot in results))
            for slots, size in bound.outputs
        ]

    @staticmethod
    def fits(program: CPUProgram, bound: CPUBound) -> bool:
        """Return whether runs do nothing but launch, and return each output as one value."""
        plan, spans = bound.plan, bound.spans
        places = [slots for slots, _ in bound.outputs]
        return (
            len(spans) == 1
            and spans[0].is_launched
            and not (plan.carried or plan.known or plan.probed or plan.passed)
            and not program.reuse_outputs
            and len(places) == len(bound.results)
            and all(any(slot in slots for _, slot, *_ in bound.results) for slots in places)
        )

    def run(self, environment: Environment) -> dict[int, Array]:
        """Do all work, and return the requested values."""
        program, bound, values, pointers = self._program, self._bound, self._values, self._pointers
        owners = pointers.find(environment)
        values[pointers.slots] = pointers.addresses
        results: dict[int, Array] = {}
        try:
            kept = bound.plan.packs
            packs = kept.stage(pointers.key_of) if kept.found else "passing"
            bound.locate(*program.memory(bound), packs)
            for slots, size, id, shape, dtype in self._outputs:
                block = program.blocks.take(size)
                for slot in slots:
                    values[slot] = block.address
                array = results[id] = block.array(shape, dtype)
                block.given = weakref.ref(array)
        except MemoryError as error:
            raise self._as_usual(environment).too_large() from error
        run = bound.run
        run.step, run.times = environment.step & 0xFFFFFFFF, None
        fault = launch(program.library, bound.plan, bound, self._span)
        del owners  # which had to live until now
        if packs == "kept now" and fault is None:
            kept.filled()
        if fault is not None:
            again = self._as_usual(environment)
            again.find_inputs(may_overwrite=False)
            raise again.out_of_range(fault.node, has_written=fault.has_written)
        return results

    def _as_usual(self, environment: Environment) -> CPURun:
        return CPURun(self._program, self._bound.plan, RunData(environment, {}))
