"""A compiled program of kernels, whatever it runs on: its launches, plans, runs and times."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Pick
from luminal_lab.devices.runtime.plan import RunPlan, RunRequest
from luminal_lab.devices.runtime.worklist import NodeWork, Worklist
from luminal_lab.interrupts import held
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.launch import Argument, Launch
from luminal_lab.kernels.memory.plan import MemoryPlan

MOST_PLANS: Final = 32
"""For how many kinds of runs plans are remembered."""
PlanT = TypeVar("PlanT", bound=RunPlan[Any])


class DeviceProgram(ABC, Generic[PlanT]):
    """A graph of kernels, compiled."""

    looks = True

    def __init__(
        self,
        ir: IR,
        worklist: Worklist,
        *,
        sizes: Mapping[str, int],
        reuse_outputs: bool,
    ) -> None:
        self.ir = ir
        self.list = worklist
        self.sizes = sizes
        """The sizes of dims for which there are kernels beside the general ones."""
        self.reuse_outputs = reuse_outputs
        self.ran_exact = False
        """Whether the last run took the kernels for the sizes that compile was given."""
        self._launches: dict[bool, tuple[Launch, ...]] = {}
        self._plans: dict[RunRequest, PlanT] = {}
        self._lock, self._process = threading.Lock(), os.getpid()

    @abstractmethod
    def planned(self, asked: RunRequest) -> PlanT:
        """Make the plan for a kind of run."""

    @abstractmethod
    def ran(
        self,
        plan: PlanT,
        environment: Environment,
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> dict[int, Array]:
        """Do a run, alone, and return what it computed."""

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

        Of those that are for sizes of dims there is nothing to see before a run had these sizes.
        """
        if self.ran_exact not in self._launches:
            self._launches[self.ran_exact] = tuple(
                self.launch_of(work, number) for work, number in self.numbers(self.ran_exact)
            )
        return self._launches[self.ran_exact]

    def numbers(self, is_exact: bool) -> Iterator[tuple[NodeWork, int]]:
        """Yield what is launched, and which launch of the source does it in a kind of run."""
        for work in self.list.works:
            number = work.exact if is_exact and work.exact is not None else work.use
            if number is not None:
                yield work, number

    def launch_of(self, work: NodeWork, number: int) -> Launch:
        """Return some work as a launch that can be looked at."""
        kernel, node = self.list.uses[number].kernel, work.node
        given = [(self.ir[id].name, self.ir[id].type, False) for id in node.sources]
        results: list[tuple[str, TensorType, bool]] = []
        picks = {
            buffer.op.index: buffer.name
            for buffer in self.ir.users(node)
            if isinstance(buffer.op, Pick)
        }
        for index, slot in enumerate(work.makes):
            name, type, _ = self.list.slots[slot]
            assert type is not None
            results.append((picks.get(index, name), type, True))
        buffers = tuple(Argument(*buffer) for buffer in (*given, *results))
        assert work.use is not None, "what has a kernel for sizes has a general one"
        return Launch(work.use, kernel, buffers, node.id, node.meta.scope)

    @property
    def memory_plan(self) -> MemoryPlan:
        """Where the values of a run live that computes all outputs."""
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
        with held(), self._turn():
            self.ran_exact = plan.asked.is_exact
            values = self.ran(plan, environment, known, trace)
        if known:
            values |= {id: known[id] for id in wanted if id in known}
        return values

    def _turn(self) -> threading.Lock:
        """Return what one thread at a time has, in this process: a fork inherits a held lock."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def plan(
        self,
        wanted: Iterable[int],
        known: Iterable[int] = (),
        probed: Iterable[int] = (),
        dims: Mapping[str, int] | None = None,
    ) -> PlanT:
        """Return the plan for what a run is asked for and knows."""
        exact = bool(self.sizes) and all(
            (dims or {}).get(name) == size for name, size in self.sizes.items()
        )
        asked = RunRequest(frozenset(wanted), frozenset(known), frozenset(probed), exact)
        plan = self._plans.get(asked)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            plan = self._plans[asked] = self.planned(asked)
        return plan

    # -- times -------------------------------------------------------------------------------------

    def time_launches(
        self, environment: Environment, rounds: int = 10, *, warm_up: int = 2
    ) -> tuple[tuple[Launch, tuple[float, ...]], ...]:
        """Return for each launch its seconds, one for each round, by the device's own clock.

        Nothing is changed by it: values that are carried are copied first.
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
