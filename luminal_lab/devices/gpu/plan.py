"""What a kind of run of a GPU program launches, for sizes of dims: functions, grids, arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.devices.gpu.engine import Argument, Launched, Mapped, Place
from luminal_lab.devices.runtime.plan import Bound, Plan
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.kernels.tile_map import TileMap

MOST_BLOCKS: Final = (1 << 31) - 1


MOST_PLACES: Final = 4
"""For how many choices of its memory the launches of a run are remembered."""


class Ready(NamedTuple):
    """A launch that lacks but the places of its values."""

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


class Span(NamedTuple):
    """Works that are done at one go: launched, or by NumPy, one at a time."""

    first: int
    last: int
    is_launched: bool
    checks: bool = False
    """Whether it is asked behind them if an index was out of range."""


class GPUPlan(Plan["GPUBound"]):
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

        self.steps: list[list[Ready] | None] = []
        """For each work what is launched; None where NumPy does it."""
        for at, (work, own) in enumerate(zip(plan.works, plan.locals, strict=True)):
            kernel = plan.kernel_of(work)
            if kernel is None:
                self.steps.append(None)
                continue
            slots = (*work.reads, *own, *work.makes)
            sizes = numbers_of(kernel, dims)
            ready: list[Ready] = []
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
                        Ready(
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
        self.faults = any(one.faults for step in self.steps for one in step or ())
        self.spans = list(self._spans())
        self.is_tried = False
        """Whether a run has come to its end."""
        self._launched: dict[tuple[int, ...], list[list[Launched]]] = {}

    def _spans(self) -> Sequence[Span]:
        """Return what is done at one go, apart where inputs are written over from there on."""
        found: list[Span] = []
        for at, step in enumerate(self.steps):
            if step is None:
                found.append(Span(at, at + 1, is_launched=False))
            elif found and found[-1].is_launched and at != self.plan.no_return:
                found[-1] = found[-1]._replace(last=at + 1)
            else:
                found.append(Span(at, at + 1, is_launched=True))
        return [span._replace(checks=self._faults(span)) for span in found]

    def _faults(self, span: Span) -> bool:
        steps = self.steps[span.first : span.last]
        return any(one.faults for step in steps for one in step or ())

    def launched(
        self, places: Mapping[int, Place], fault: Place | None, step: int
    ) -> list[list[Launched]]:
        """Return for each work its launches, with the places of all values."""
        key = tuple([place.address for place in places.values()])
        found = self._launched.get(key)
        if found is None:
            if len(self._launched) >= MOST_PLACES:
                self._launched.pop(next(iter(self._launched)))
            found = [self._placed(ready, places, fault) for ready in self.steps]
            self._launched[key] = found
        for work, ready in enumerate(self.steps):
            if ready is not None and any(one.draws for one in ready):
                found[work] = self._placed(ready, places, fault, step)
        return found

    def _placed(
        self,
        ready: list[Ready] | None,
        places: Mapping[int, Place],
        fault: Place | None,
        step: int = 0,
    ) -> list[Launched]:
        made: list[Launched] = []
        for one in ready or ():
            given: list[Argument] = [places[slot] for slot in one.slots]
            given += one.numbers
            if one.draws:
                given.append(np.uint32(step & 0xFFFFFFFF))
            if one.faults:
                assert fault is not None
                given.append(Place(fault.memory, fault.offset + 4 * one.work, 4))
            given += [Mapped(places[one.slots[tile.place]], tile) for tile in one.maps]
            sizes = tuple((name, self.dims[name]) for name in one.kernel.dims)
            made.append(
                Launched(
                    one.kernel,
                    one.function,
                    one.blocks,
                    one.threads,
                    tuple(given),
                    one.work,
                    not one.draws,
                    sizes,
                    one.shared,
                )
            )
        return made
