"""A graph of kernels, compiled: its source, its library, its plans, and what it runs in."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, Step
from luminal_lab.core.ir import IR
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Pick, UserKernel
from luminal_lab.devices.cpu_blocks import Block, Blocks
from luminal_lab.devices.cpu_library import Library
from luminal_lab.devices.cpu_plan import Asked, Bound, Plan
from luminal_lab.devices.cpu_run import CPURun, Pointers, stop
from luminal_lab.devices.cpu_work import Work, Worklist
from luminal_lab.devices.machine import this_machine, usable_cores
from luminal_lab.devices.toolchain import Compiler, compile_library, find_compiler
from luminal_lab.devices.user_check import check_source
from luminal_lab.kernels.c_program import ENTRIES, program_source
from luminal_lab.kernels.definition import Definition
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.launch import Argument, Launch
from luminal_lab.kernels.memory_plan import MemoryPlan
from luminal_lab.kernels.schedule import Schedule

MOST_PLANS = 32
"""For how many kinds of runs plans are remembered."""


class CPUProgram:
    """A graph of kernels, compiled."""

    def __init__(
        self,
        ir: IR,
        compiler: Compiler | None = None,
        *,
        threads: int | None = None,
        reuse_outputs: bool = False,
        specialise: Mapping[str, int] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.ir = ir
        self.threads = usable_cores() if threads is None else threads
        self.reuse_outputs = reuse_outputs
        self.sizes = dict(specialise or {})
        """The sizes of dims for which there are kernels beside the general ones."""
        self.list = Worklist(ir, this_machine(), self.sizes, schedules)
        self.source = program_source(
            self.list.kernels.values(), self.list.uses, sorted(self.list.dtypes, key=str)
        )
        """The C source of the whole program."""
        self.blocks = Blocks()
        self.pointers = Pointers()
        self.is_late = False
        self.ran_exact = False
        """Whether the last run took the kernels for the sizes that compile was given."""
        self._launches: dict[bool, tuple[Launch, ...]] = {}
        self._plans: dict[Asked, Plan] = {}
        self._arena = self._scratch = Block(0)
        self._outputs: dict[tuple[int, ...], Block] = {}
        self._lock, self._process = threading.Lock(), os.getpid()
        # Now, so that what cannot be compiled is said by compile.
        found = compiler or find_compiler()
        for op in dict.fromkeys(node.op for node in ir if isinstance(node.op, UserKernel)):
            check_source(op, found)  # what is wrong in a user's lines is said of those lines
        path = compile_library(self.source, found, entries=ENTRIES, behind=self._behind)
        self.library = Library(path, self.threads)

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
                self._launch(work, number) for work, number in self._numbers(self.ran_exact)
            )
        return self._launches[self.ran_exact]

    def _numbers(self, is_exact: bool) -> Iterator[tuple[Work, int]]:
        """Yield what is launched, and which launch of the source does it in a kind of run."""
        for work in self.list.works:
            number = work.exact if is_exact and work.exact is not None else work.use
            if number is not None:
                yield work, number

    def _behind(self, function: str) -> str:
        """Return the lines of the user's that a function of a kernel is made from."""
        origins = [
            work.node.meta.origin
            for work, number in (*self._numbers(is_exact=False), *self._numbers(is_exact=True))
            if function in [phase.function for phase in self.list.uses[number].kernel.phases]
        ]
        return "\n".join(dict.fromkeys(str(origin) for origin in origins if origin is not None))

    def _launch(self, work: Work, number: int) -> Launch:
        kernel, node = self.list.uses[number].kernel, work.node
        given = [(self.ir[id].name, self.ir[id].type, False) for id in work.node.sources]
        made: list[tuple[str, TensorType, bool]] = []
        picks = {one.op.index: one.name for one in self.ir.users(node) if isinstance(one.op, Pick)}
        for place, slot in enumerate(work.makes):
            name, type, _ = self.list.slots[slot]
            assert type is not None
            made.append((picks.get(place, name), type, True))
        buffers = tuple(Argument(*one) for one in (*given, *made))
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
        trace: list[Step] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        wanted = frozenset(wanted)
        plan = self.plan(wanted, known, environment.probes, environment.dims)
        with self._turn():
            self.ran_exact = plan.asked.is_exact
            values = CPURun(self, plan, environment, known).run(trace)
        if known:
            values |= {id: known[id] for id in wanted if id in known}
        return values

    def _turn(self) -> threading.Lock:
        """Return what one thread at a time has, in this process: a fork inherits a held lock."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def settle(self) -> None:
        """Do what had to wait until the values of a run were kept: Ctrl-C came too late for it."""
        if self.is_late:
            self.is_late = False
            stop()

    def plan(
        self,
        wanted: Iterable[int],
        known: Iterable[int] = (),
        probed: Iterable[int] = (),
        dims: Mapping[str, int] | None = None,
    ) -> Plan:
        """Return the plan for what a run is asked for and knows."""
        exact = bool(self.sizes) and all(
            (dims or {}).get(name) == size for name, size in self.sizes.items()
        )
        asked = Asked(frozenset(wanted), frozenset(known), frozenset(probed), exact)
        found = self._plans.get(asked)
        if found is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            found = self._plans[asked] = Plan(self.list, asked)
        return found

    # -- memory ------------------------------------------------------------------------------------

    def memory(self, bound: Bound) -> tuple[Block, Block | None]:
        """Return the arena and the threads' own memory, larger ones if they must be."""
        size = bound.memory.arena_bytes
        if size > self._arena.bytes:
            self._arena = Block(0)  # the old one goes first
            self._arena = Block(size)
        if not bound.scratch_bytes:
            return self._arena, None
        size = bound.scratch_bytes * self.threads
        if size > self._scratch.bytes:
            self._scratch = Block(size)
        return self._arena, self._scratch

    def output(self, slots: tuple[int, ...], size: int, given: Mapping[int, Array]) -> Block:
        """Return the memory of an output; what is given to the run does not lie in it."""
        if not self.reuse_outputs:
            return self.blocks.take(size)
        block = self._outputs.get(slots)
        if (
            block is None
            or block.bytes != size
            or any(array.base is block.raw for array in given.values())
        ):
            block = self._outputs[slots] = Block(size)
        return block

    # -- times -------------------------------------------------------------------------------------

    def time_launches(
        self, environment: Environment, rounds: int = 10, *, warm_up: int = 2
    ) -> tuple[tuple[Launch, tuple[float, ...]], ...]:
        """Return for each launch its seconds, one for each round, by the library's own clock.

        Nothing is changed by it: values that are carried are copied first.
        """
        samples: dict[int, list[float]] = {}
        for turn in range(warm_up + rounds):
            steps: list[Step] = []
            self.run(environment, self.ir.output_ids, {}, steps)
            for step in steps if turn >= warm_up else ():
                samples.setdefault(step.node.id, []).append(step.seconds)
        return tuple(
            (launch, tuple(samples[launch.node]))
            for launch in self.launches
            if launch.node in samples
        )
