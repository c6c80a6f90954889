"""What a kind of run of a GPU program launches, for sizes of dims: functions, grids, arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.devices.gpu.engine import Argument, Location, Mapped, PlacedLaunch
from luminal_lab.devices.runtime.plan import Bound, RunPlan
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.kernels.tile_map import TileMap

MOST_BLOCKS: Final = (1 << 31) - 1


MOST_PLACES: Final = 4
"""For how many choices of its memory the launches of a run are remembered."""


class UnplacedLaunch(NamedTuple):
    """A launch complete but for the locations of its values."""

    kernel: Kernel
    function: str
    blocks: int
    threads: int
    slots: tuple[int, ...]
    numbers: tuple[np.generic, ...]
    draws: bool
    faults: bool
    work: int
    shared: int = 0
    maps: tuple[TileMap, ...] = ()


class LaunchSpan(NamedTuple):
    """Works that are done at one go: launched, or by NumPy, one at a time."""

    first: int
    last: int
    is_launched: bool
    checks: bool = False
    """Whether indices out of range are checked for after them."""


class GPUPlan(RunPlan["GPUBound"]):
    """The steps of a kind of run on a GPU, and where their values live."""

    @override
    def made_for(self, dims: Mapping[str, int]) -> GPUBound:
        return GPUBound(self, dims)


class GPUBound(Bound):
    """What a kind of run launches, for sizes of dims."""

    def __init__(self, plan: GPUPlan, dims: Mapping[str, int]) -> None:
        super().__init__(plan, dims)
        self.plan = plan
        known: dict[Dim, int] = {}

        def number(dim: Dim) -> int:
            if dim not in known:
                known[dim] = evaluate(dim, dims)
            return known[dim]

        self.steps: list[list[UnplacedLaunch] | None] = []
        """For each work what is launched; None where NumPy does it."""
        for at, (work, own) in enumerate(zip(plan.works, plan.locals, strict=True)):
            kernel = plan.kernel_of(work)
            if kernel is None:
                self.steps.append(None)
                continue
            slots = (*work.reads, *own, *work.makes)
            sizes = numbers_of(kernel, dims)
            ready: list[UnplacedLaunch] = []
            for phase in kernel.phases:
                blocks = number(phase.tasks)
                if blocks > MOST_BLOCKS:
                    raise DeviceError(
                        f"kernel {kernel.name}: it has {blocks:,} blocks for these sizes, and a "
                        f"launch has {MOST_BLOCKS:,} at most",
                        hint="a schedule whose blocks do more each has fewer",
                    )
                if blocks:
                    ready.append(
                        UnplacedLaunch(
                            kernel,
                            phase.function,
                            blocks,
                            phase.threads,
                            slots,
                            sizes,
                            phase.draws,
                            phase.faults,
                            at,
                            phase.shared,
                            phase.maps,
                        )
                    )
            self.steps.append(ready)
        self.faults = any(launch.faults for step in self.steps for launch in step or ())
        self.spans = list(self._spans())
        self.is_tried = False
        """Whether a run has come to its end."""
        self._launched: dict[tuple[int, ...], list[list[PlacedLaunch]]] = {}

    def _spans(self) -> Sequence[LaunchSpan]:
        """Return what is done at one go, apart where inputs are written over from there on."""
        spans: list[LaunchSpan] = []
        for at, step in enumerate(self.steps):
            if step is None:
                spans.append(LaunchSpan(at, at + 1, is_launched=False))
            elif spans and spans[-1].is_launched and at != self.plan.no_return:
                spans[-1] = spans[-1]._replace(last=at + 1)
            else:
                spans.append(LaunchSpan(at, at + 1, is_launched=True))
        return [span._replace(checks=self._faults(span)) for span in spans]

    def _faults(self, span: LaunchSpan) -> bool:
        steps = self.steps[span.first : span.last]
        return any(launch.faults for step in steps for launch in step or ())

    def launched(
        self, locations: Mapping[int, Location], fault: Location | None, step: int
    ) -> list[list[PlacedLaunch]]:
        """Return for each work its launches, with the places of all values."""
        key = tuple([location.address for location in locations.values()])
        launches = self._launched.get(key)
        if launches is None:
            if len(self._launched) >= MOST_PLACES:
                self._launched.pop(next(iter(self._launched)))
            launches = [self._placed(ready, locations, fault) for ready in self.steps]
            self._launched[key] = launches
        for work, ready in enumerate(self.steps):
            if ready is not None and any(launch.draws for launch in ready):
                launches[work] = self._placed(ready, locations, fault, step)
        return launches

    def _placed(
        self,
        ready: list[UnplacedLaunch] | None,
        locations: Mapping[int, Location],
        fault: Location | None,
        step: int = 0,
    ) -> list[PlacedLaunch]:
        placed: list[PlacedLaunch] = []
        for launch in ready or ():
            arguments: list[Argument] = [locations[slot] for slot in launch.slots]
            arguments += launch.numbers
            if launch.draws:
                arguments.append(np.uint32(step & 0xFFFFFFFF))
            if launch.faults:
                assert fault is not None
                arguments.append(Location(fault.memory, fault.offset + 4 * launch.work, 4))
            arguments += [Mapped(locations[launch.slots[tile.place]], tile) for tile in launch.maps]
            sizes = tuple((name, self.dims[name]) for name in launch.kernel.dims)
            placed.append(
                PlacedLaunch(
                    launch.kernel,
                    launch.function,
                    launch.blocks,
                    launch.threads,
                    tuple(arguments),
                    launch.work,
                    not launch.draws,
                    sizes,
                    launch.shared,
                )
            )
        return placed
