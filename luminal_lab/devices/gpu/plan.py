"""What a kind of run of a GPU program launches, for sizes of dims: functions, grids, arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from luminal_lab.devices.gpu.engine import Argument, Location, Mapped, PlacedLaunch
from luminal_lab.devices.runtime.plan import Bound, Remembered, RunPlan, RunRequest
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.launch import numbers_of

MOST_BLOCKS: Final = (1 << 31) - 1
MOST_PLACES: Final = 4
"""For how many choices of its memory the launches of a run are remembered."""


class GPUBound(Bound):
    """What a kind of run launches, for sizes of dims."""

    plan: GPUPlan

    def __init__(self, plan: GPUPlan, dims: Mapping[str, int]) -> None:
        super().__init__(plan, dims)
        self.steps: list[list[PlacedLaunch] | None] = []
        """For each work, its launches; None if NumPy does it."""
        for at, (work, own) in enumerate(zip(plan.works, plan.locals, strict=True)):
            kernel = plan.kernel_of(work)
            if kernel is None:
                self.steps.append(None)
                continue
            slots = (*work.reads, *own, *work.makes)
            numbers = numbers_of(kernel, dims)
            sizes = tuple((name, dims[name]) for name in kernel.dims)
            ready: list[PlacedLaunch] = []
            for phase in kernel.phases:
                blocks = self.number(phase.tasks)
                if blocks > MOST_BLOCKS:
                    raise DeviceError(
                        f"kernel {kernel.name}: it has {blocks:,} blocks for these sizes, and a "
                        f"launch has at most {MOST_BLOCKS:,}",
                        hint="a schedule whose blocks each do more has fewer",
                    )
                if blocks:
                    ready.append(PlacedLaunch(kernel, phase, blocks, at, slots, numbers, sizes))
            self.steps.append(ready)
        self.faults = self._faults(0, len(self.steps))
        # Split where inputs begin to be overwritten.
        spans = plan.spans(plan.no_return)
        self.spans = [span._replace(checks=self._faults(*span[:2])) for span in spans]
        self._launched = Remembered[tuple[int, ...], list[list[PlacedLaunch]]](MOST_PLACES)

    def _faults(self, first: int, last: int) -> bool:
        steps = self.steps[first:last]
        return any(launch.phase.faults for step in steps for launch in step or ())

    def launched(
        self, locations: Mapping[int, Location], fault: Location | None, step: int
    ) -> list[list[PlacedLaunch]]:
        """Return the launches of each work, with the locations of all values."""
        key = tuple([location.address for location in locations.values()])
        launches = self._launched.get(key) or self._launched.keep(
            key, [self._placed(ready, locations, fault) for ready in self.steps]
        )
        for work, ready in enumerate(self.steps):
            if ready is not None and any(launch.phase.draws for launch in ready):
                launches[work] = self._placed(ready, locations, fault, step)
        return launches

    def _placed(
        self,
        ready: list[PlacedLaunch] | None,
        locations: Mapping[int, Location],
        fault: Location | None,
        step: int = 0,
    ) -> list[PlacedLaunch]:
        placed: list[PlacedLaunch] = []
        for launch in ready or ():
            arguments: list[Argument] = [locations[slot] for slot in launch.slots]
            arguments += launch.numbers
            if launch.phase.draws:
                arguments.append(np.uint32(step & 0xFFFFFFFF))
            if launch.phase.faults:
                assert fault is not None
                arguments.append(Location(fault.memory, fault.offset + 4 * launch.work, 4))
            maps = launch.phase.maps
            arguments += [Mapped(locations[launch.slots[tile.number]], tile) for tile in maps]
            placed.append(launch._replace(arguments=tuple(arguments)))
        return placed


class GPUPlan(RunPlan[GPUBound]):
    """The steps of a kind of run on a GPU, and where their values live."""

    bound_type = GPUBound
    is_tried = False
    """Whether a run has been completed, with whatever sizes."""

    def __init__(self, work: Worklist, asked: RunRequest) -> None:
        super().__init__(work, asked)
        for node_work in self.works:
            kernel = self.kernel_of(node_work)
            for phase in () if kernel is None else kernel.phases:
                self.numbers.place(phase.tasks)
