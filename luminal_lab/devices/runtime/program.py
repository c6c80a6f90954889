"""A compiled program of kernels, whatever it runs on: its launches, plans, runs and times."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from functools import cached_property
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR, Node
from luminal_lab.devices.runtime.blocks import BlockPool, MemoryBlock
from luminal_lab.devices.runtime.plan import Remembered, RunPlan, RunRequest
from luminal_lab.devices.runtime.run import DeviceRun, RunData
from luminal_lab.devices.runtime.worklist import KernelMaker, NodeWork, Recall, Worklist, picks_of
from luminal_lab.interrupts import held, this_process
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import Programs
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import Argument, Launch
from luminal_lab.kernels.memory.plan import MemoryPlan
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.machine import Machine

MOST_PLANS: Final = 32
"""For how many kinds of runs plans are remembered."""
PlanT = TypeVar("PlanT", bound=RunPlan[Any])


class ProgramOptions(TypedDict, total=False):
    """The options of programs on all devices."""

    reuse_outputs: bool
    """Whether a run may overwrite the outputs that earlier ones have returned."""
    specialise: Mapping[str, int] | None
    """The sizes of dims for which there are kernels beside the general ones."""
    schedules: Mapping[str, Schedule] | None
    """The schedules that replace default ones, with the names of their kernels."""
    programs: Programs
    """What kernels compute instead of what is written."""
    recall: Recall | None
    """Returns what a search has found for other kernels."""


class DeviceProgram(ABC, Generic[PlanT]):
    """A graph of kernels, compiled."""

    looks = True

    def __init__(
        self, ir: IR, maker: Machine | KernelMaker, **options: Unpack[ProgramOptions]
    ) -> None:
        self.ir = ir
        self.list = Worklist(
            ir,
            maker,
            dict(options.get("specialise") or {}),
            options.get("schedules"),
            options.get("recall"),
            options.get("programs", {}),
        )
        self.reuse_outputs = options.get("reuse_outputs", False)
        self.ran_sizes: int | None = None
        """The sizes whose kernels the last run used, by their number; None for the general ones."""
        self._launches: dict[int | None, tuple[Launch, ...]] = {}
        self._plans = Remembered[RunRequest, PlanT](MOST_PLANS)
        self._last: PlanT | None = None
        """The plan that was last asked for, if nothing was known or probed."""
        self._outputs: dict[tuple[int, ...], list[MemoryBlock]] = {}
        self._lock, self._process = threading.Lock(), this_process()

    @abstractmethod
    def planned(self, asked: RunRequest) -> PlanT:
        """Make the plan for a kind of run."""

    @abstractmethod
    def started(self, plan: PlanT, given: RunData) -> DeviceRun[Any]:
        """Return a run that can begin."""

    # -- what there is -----------------------------------------------------------------------------

    @property
    def kernels(self) -> Kernels:
        """The distinct kernels."""
        return Kernels(self.list.kernels.values())

    @property
    def definitions(self) -> Mapping[IR, Definition]:
        """What the bodies of calls compute."""
        return self.list.definitions

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of a run that computes everything, in order, by the kernels of the last run.

        Launches for sizes of dims only appear after a run with these sizes.
        """
        if self.ran_sizes not in self._launches:
            self._launches[self.ran_sizes] = tuple(
                self.launch_of(work, number) for work, number in self.numbers(self.ran_sizes)
            )
        return self._launches[self.ran_sizes]

    def numbers(self, sizes: int | None) -> Iterator[tuple[NodeWork, int]]:
        """Yield what is launched for some sizes, and which launch of the source does it."""
        for work in self.list.works:
            number = work.way(sizes).use
            if number is not None:
                yield work, number

    def launch_of(self, work: NodeWork, number: int) -> Launch:
        """Return some work as a launch to look at."""
        assert work.use is not None, "what has a kernel for sizes has a general one"
        return launch_of(self.ir, work.node, self.list.uses[number].kernel, work.use)

    @property
    def memory_plan(self) -> MemoryPlan:
        """Where the values of a run that computes all outputs live."""
        return self.plan(self.ir.output_ids).plan

    # -- running -----------------------------------------------------------------------------------

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        wanted = frozenset(wanted)
        plan = self.plan(wanted, known, environment.probes, environment.dims)
        with held(), self.turn():
            self.ran_sizes = plan.asked.sizes
            values = self.started(plan, RunData(environment, known)).run(trace)
        if known:
            values |= {id: known[id] for id in wanted if id in known}
        return values

    def turn(self) -> threading.Lock:
        """Return this process's lock, held by one thread at a time: a fork inherits a held lock."""
        if self._process != this_process():
            self._process, self._lock = this_process(), threading.Lock()
        return self._lock

    def plan(
        self,
        wanted: Iterable[int],
        known: Iterable[int] = (),
        probed: Iterable[int] = (),
        dims: Mapping[str, int] | None = None,
    ) -> PlanT:
        """Return the plan for the wanted and the known values of a run."""
        sizes = self.list.sizes_of(dims) if dims else None
        last = None if known or probed else self._last
        if last is not None and last.asked.wanted is wanted and last.asked.sizes == sizes:
            return last
        asked = RunRequest(frozenset(wanted), frozenset(known), frozenset(probed), sizes)
        plan = self._plans.get(asked) or self._plans.keep(asked, self.planned(asked))
        self._last = None if known or probed else plan
        return plan

    # -- memory ------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> BlockPool:
        """The memory that the host sees."""
        return BlockPool()

    def output(self, slots: tuple[int, ...], size: int, read: AbstractSet[int]) -> MemoryBlock:
        """Return the memory of an output that the host sees; `read` holds the ids of what is read.

        A carried output that is overwritten has two blocks, used in turn.
        """
        if not self.reuse_outputs:
            return self.blocks.take(size)
        blocks = [block for block in self._outputs.get(slots, ()) if block.bytes == size]
        free = next((block for block in blocks if id(block.raw) not in read), None)
        block = free or self.blocks.make(size)
        self._outputs[slots] = blocks if free else [*blocks, block]
        return block

    def kernels_of(self, dims: Mapping[str, int]) -> Mapping[int, Kernel]:
        """Return the kernels that compute nodes of a whole run, by the nodes' ids."""
        plan = self.plan(self.ir.output_ids, dims=dims)
        pairs = [(work.node.id, plan.kernel_of(work)) for work in plan.works]
        return {id: kernel for id, kernel in pairs if kernel is not None}

    # -- times -------------------------------------------------------------------------------------

    def time_launches(
        self, environment: Environment, rounds: int = 10, *, warm_up: int = 2
    ) -> tuple[tuple[Launch, tuple[float, ...]], ...]:
        """Return for each launch its seconds in each round, by the device's own clock.

        It changes nothing: carried values are copied first.
        """
        samples: dict[int, list[float]] = {}
        for turn in range(warm_up + rounds):
            steps: list[NodeStep] = []
            self.run(environment, self.ir.output_ids, {}, steps)
            for step in steps if turn >= warm_up else ():
                samples.setdefault(step.node.id, []).append(step.seconds)
        return tuple(
            (launch, tuple(samples[launch.node]))
            for launch in self.launches
            if launch.node in samples
        )


def launch_of(ir: IR, node: Node, kernel: Kernel, number: int) -> Launch:
    """Return what a kernel does for a node as a launch to look at."""
    picks = picks_of(ir, node)
    buffers = [Argument(ir[id].name, ir[id].type, False) for id in node.sources]
    for index, type in enumerate(node.types):
        own = f"{node.name}.{index}" if index else node.name
        buffers.append(Argument(picks[index].name if index in picks else own, type, True))
    return Launch(number, kernel, tuple(buffers), node.id, node.meta.scope)
