"""Kernels of one library, checked and timed in a child process that may be killed.

All kernels read the same inputs and write the same outputs, between guards. First each is checked
against what it should compute, on two draws of inputs and with memory filled in two ways. Then they
are timed in rounds, one after another in each, so that whatever slows the machine down slows all of
them. A kernel that hangs or crashes costs its child; another child goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from luminal_lab.core.dims import Dim, evaluate as number_of
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import ints, size_of
from luminal_lab.devices.cpu.plan import SHORT_BYTES, SHORT_FLOPS
from luminal_lab.devices.cpu.trial import FILLS, Area, Died, TrialJob, TrialProcess
from luminal_lab.devices.cpu.trial_build import Builds
from luminal_lab.devices.cpu.trial_report import ArrayName, words
from luminal_lab.interrupts import look
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.render.c.program import most_phases
from luminal_lab.machines.here import usable_cores
from luminal_lab.search.deadline import Deadline, OutOfTime
from luminal_lab.search.driver import WRONG, Outcome
from luminal_lab.search.forms import Built
from luminal_lab.search.validate import difference, drawn, wrong_by_definition

FIRST, RUNNING, SLOWEST = 20.0, 1.0, 10.0
"""The seconds that the reference's first run may take; the least that any other run may take, and
the same as a multiple of the best."""
LIFE = 600.0
"""The seconds that a child may compute in all."""
MOMENT = 0.1
"""The least seconds that a run may take at the end of a budget."""
FEWEST, ROUNDS, LAST_ROUNDS = 3, 30, 40
TURN, MEASURING = 0.001, 0.015
"""The least seconds that one kernel runs in a round, and in all rounds."""
MOST_RUNS = 64
"""How often a kernel runs in a round at most."""
SLOW = 2.0
"""A kernel this many times as slow as the best after two rounds is measured no further."""
ALIGNED = 64


class Data:
    """The inputs of two draws, and what the definition makes of them."""

    def __init__(self, definition: Definition, dims: Mapping[str, int], seed: int) -> None:
        self.definition, self.dims, self.seed = definition, dims, seed
        self.bound = specialised(definition, dims)
        self.draws = [drawn(self.bound, {}, seed + n) for n in range(len(FILLS))]

    def size(self, dim: Dim) -> int:
        """Return a size as a number."""
        return number_of(dim, self.dims)


class _Areas:
    """Where the arrays of all kernels are: inputs, outputs, and locals that they share."""

    def __init__(self, data: Data, candidates: Mapping[int, Built], threads: int) -> None:
        self.data = data
        self.areas: list[Area] = []
        self.names: dict[int, ArrayName] = {}
        self.own: dict[int, list[tuple[int, int, int]]] = {}
        """Where each candidate's outputs and own arrays are: area, offset and bytes."""
        definition = data.bound
        item = {name: type.dtype.itemsize for name, type in definition.types.items()}
        sizes = {
            name: data.size(size_of(t.shape)) * item[name] for name, t in definition.types.items()
        }
        for name, _ in definition.inputs:
            self._area(name, sizes[name], item[name], is_input=True)
        inputs = len(self.areas)
        outputs = [
            (self._area(o.name, sizes[o.name], item[o.name]), 0, sizes[o.name])
            for o in definition.outputs
        ]
        self.values: list[tuple[int, int] | None] = [(area, 0) for area in range(len(self.areas))]
        own = {
            number: [data.size(size) for size in candidate.own]
            for number, candidate in candidates.items()
        }
        most = max(map(len, own.values()))
        largest = [max((s[n] for s in own.values() if n < len(s)), default=0) for n in range(most)]
        shared = [self._area(f"inner array {n}", size) for n, size in enumerate(largest)]
        for number, local_sizes in own.items():
            locations = list(outputs)
            for area, size in zip(shared, local_sizes, strict=False):
                # Each array ends where its area does, so that reads beyond it are caught.
                offset = self.areas[area].bytes - _aligned(size)
                locations.append((area, offset, size))
            self.own[number] = locations
            locals_ = [location[:2] for location in locations[len(outputs) :]]
            self.values += [*locals_, *(None,) * (most - len(locals_))]
        kernels = [kernel for candidate in candidates.values() for kernel in candidate.kernels]
        self.scratch_bytes = _aligned(max(data.size(kernel.scratch) for kernel in kernels))
        size = self.scratch_bytes * threads
        self.scratch = self._area("the memory of its thread", size) if size else None
        self.writable = range(inputs, len(self.areas))

    def _area(self, name: str, size: int, item: int = 1, *, is_input: bool = False) -> int:
        self.areas.append(Area(_aligned(size), not is_input))
        self.names[len(self.areas) - 1] = ArrayName(name, item, is_input)
        return len(self.areas) - 1

    def beyond(self, trial: TrialProcess, number: int, fill: int) -> str:
        """Return what a kernel wrote outside its arrays, in words; empty if nothing."""
        before = trial.overwritten(fill)
        if before is not None:
            return f"it writes before {self.names[before].name}"
        for area, offset, size in self.own[number]:
            raw = trial.raw(area)
            if (raw[offset + size :] != fill).any():
                return f"it writes behind {self.names[area].name}"
            if (raw[:offset] != fill).any():
                return f"it writes before {self.names[area].name}"
        return ""


class LibraryTrials:
    """A library in one child after another, until each of its kernels has an outcome."""

    def __init__(
        self,
        data: Data,
        best: float,
        build: Builds,
        library: Path,
        candidates: Mapping[int, Built],
        deadline: Deadline,
    ) -> None:
        self.data, self.best, self.build, self.library = data, best, build, library
        self.candidates, self.deadline, self.is_last = candidates, deadline, False
        ends = [0, *accumulate(len(candidate.kernels) for candidate in candidates.values())]
        self.launches = dict(zip(candidates, pairwise(ends), strict=True))
        """The number of each candidate's first launch, and the number after its last."""
        self.known: dict[int, Outcome] = {}
        self.samples: dict[int, list[float]] = {number: [] for number in candidates}
        self.spent = dict.fromkeys(candidates, 0.0)
        self.checked: set[int] = set()
        self.stopped: set[int] = set()
        self.running = 0
        """The kernel that is running, or that ran last."""

    def outcomes(self, threads: int | None, *, is_last: bool) -> dict[int, Outcome]:
        """Check and time all kernels, the best ones for longer; 0 is the reference."""
        self.is_last = is_last
        threads = usable_cores() if threads is None else threads
        self.areas = _Areas(self.data, self.candidates, threads)
        count = max(end for _, end in self.launches.values())
        job = TrialJob(
            self.library,
            self.areas.areas,
            self.areas.values,
            range(count),
            self._tasks(),
            [self.data.dims[name] for name in self.data.definition.dims],
            scratch=self.areas.scratch,
            scratch_bytes=self.areas.scratch_bytes,
            threads=threads,
            no_return=count,
            seconds=LIFE,
        )
        while left := self._left():
            if 0 in self.known:  # nothing to compare with
                why = f"the default kernel fails: {self.known[0].why}"
                self.known |= dict.fromkeys(left, Outcome("failed", why=why))
                break
            with TrialProcess(self.build, job, checked=False, rounds=MOST_RUNS) as self.trial:
                try:
                    self._check(left)
                    self._time()
                    if self.is_last:  # a race may show only after many runs
                        self.checked.clear()
                        self._check(self._left())
                except OutOfTime:
                    break
                except Died as died:
                    if self.deadline.is_over:  # it did not get as much time as the others
                        break
                    self._fail(self.running, words(self.trial, died.death, self.areas.names).event)
                else:
                    self._note(self._left())
        # Kernels that the budget has cut short keep the rounds that all of them had.
        timed = [
            number for number in self._left() if number in self.checked and self.samples[number]
        ]
        if 0 in timed:
            self._note(timed, min(len(self.samples[number]) for number in timed))
        return self.known

    def _note(self, kernels: Sequence[int], rounds: int | None = None) -> None:
        """Note the times of kernels over `rounds` rounds."""
        for number in kernels:
            state = "stopped" if number in self.stopped else "measured"
            self.known[number] = Outcome(state, tuple(self.samples[number][:rounds]))

    def _tasks(self) -> list[int]:
        """Return how many tasks each phase has; negative if one thread does them all."""
        kernels = [kernel for candidate in self.candidates.values() for kernel in candidate.kernels]
        stride, tasks, dims = most_phases(kernels), list[int](), self.data.dims
        for kernel in kernels:
            counts = [self.data.size(phase.tasks) for phase in kernel.phases]
            types = kernel.definition.types.values() if kernel.definition else ()
            size = sum(self.data.size(size_of(t.shape)) * t.dtype.itemsize for t in types)
            is_short = size < SHORT_BYTES and kernel.flops(dims) < SHORT_FLOPS
            if max(counts) > 1 and is_short:
                counts = [-count for count in counts]
            tasks += [*counts, *(0,) * (stride - len(counts))]
        return tasks

    def _left(self) -> list[int]:
        return [number for number in self.candidates if number not in self.known]

    def _fail(self, number: int, why: str) -> None:
        self.known[number] = Outcome("failed", why=why)

    @property
    def _fastest(self) -> float:
        """The least seconds of any kernel so far; 0 if none was measured."""
        fastest = [min(times) for times in self.samples.values() if times]
        if self.best and self.samples[0]:
            fastest.append(self.best * min(self.samples[0]))
        return min(fastest, default=0.0)

    def _patience(self, number: int) -> float:
        """Return the seconds that one run of a kernel may take."""
        if number == 0 and not self.samples[0]:
            return min(FIRST, self._longest)
        return min(max(RUNNING, SLOWEST * self._fastest), self._longest)

    @property
    def _longest(self) -> float:
        """The seconds that any run may take: what is left, plus a moment to end in."""
        return max(0.0, self.deadline.left) + MOMENT

    # -- whether it is right -----------------------------------------------------------------------

    def _check(self, left: Sequence[int]) -> None:
        """Check what each kernel makes on each draw."""
        todo = [number for number in left if number not in self.checked]
        for draw in reversed(range(len(FILLS))):
            self._prepare(draw)
            expected: dict[str, Array] = {}
            for number in dict.fromkeys((0, *todo)) if todo else ():
                if number in self.known:
                    continue
                self.deadline.check()
                results = self._results(number)
                if results is None:
                    self._fail(number, "an index is out of range")
                    continue
                if number == 0:
                    expected = {name: array.copy() for name, array in results.items()}
                wrong = (
                    difference(expected, results)
                    if number
                    else self._undefined(draw, results, todo)
                )
                wrong = self.areas.beyond(self.trial, number, FILLS[draw]) or (
                    wrong and WRONG + wrong
                )
                if wrong:
                    self._fail(number, wrong)
                    if number == 0:
                        return
                    self._prepare(draw)
                for area in self.areas.writable:
                    self.trial.raw(area)[:] = FILLS[draw]
                look()
        self.checked.update(todo)

    def _undefined(
        self, draw: int, results: Mapping[str, Array], todo: Sequence[int]
    ) -> str | None:
        """Return what is wrong with the reference's outputs; a second child need not ask."""
        if 0 not in todo:
            return None
        data = self.data
        return wrong_by_definition(data.bound, data.draws[draw], results, data.seed)

    def _prepare(self, draw: int) -> None:
        """Fill memory, and put the inputs of a draw in place."""
        self.trial.fill(FILLS[draw])
        for area, array in enumerate(self.data.draws[draw].values()):
            self.trial.raw(area)[: array.nbytes] = array.reshape(-1).view(np.uint8)

    def _results(self, number: int) -> dict[str, Array] | None:
        """Return a kernel's results in the child's memory; None if an index is out of range."""
        self.running = number
        first, behind = self.launches[number]
        if self.trial.run(first, behind, within=self._patience(number)) < behind - first:
            return None
        locations = zip(self.data.bound.outputs, self.areas.own[number], strict=False)
        return {
            output.name: self.trial.array(area, ints(output.type.shape), output.type.dtype.numpy)
            for output, (area, _, _) in locations
        }

    # -- how long it takes -------------------------------------------------------------------------

    def _time(self) -> None:
        """Time kernels in rounds until each has been measured enough or is known to be slow."""
        for turn in range(LAST_ROUNDS if self.is_last else ROUNDS):
            for number in self._left():
                if number in self.stopped or (turn >= FEWEST and self._is_done(number)):
                    continue
                self.deadline.check()
                known = self.samples[number]
                runs = min(MOST_RUNS, max(1, int(TURN / max(min(known), 1e-9)))) if known else 1
                self.running = number
                patience = runs * self._patience(number)
                seconds = self.trial.seconds(runs, *self.launches[number], within=patience)
                known.append(min(seconds))
                self.spent[number] += sum(seconds)
            if turn == 1 and not self.is_last:
                slow = SLOW * self._fastest
                self.stopped |= {
                    number for number in self._left() if number and min(self.samples[number]) > slow
                }

    def _is_done(self, number: int) -> bool:
        return not self.is_last and number != 0 and self.spent[number] > MEASURING


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED
