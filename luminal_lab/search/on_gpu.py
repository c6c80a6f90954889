"""A batch on a GPU that is here: kernels of one source, checked and then timed in turns.

Kernels run in a child process: a kernel that never ends, or that destroys the GPU's context, costs
its child, and another child goes on without it. The child prints a line with each kernel that it is
about to run, and last a line with all outcomes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import NamedTuple, TypeAlias

import numpy as np

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import evaluate as number_of
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import ints
from luminal_lab.devices.cuda.driver import present
from luminal_lab.devices.cuda.engine import CUDAEngine
from luminal_lab.devices.gpu.compiler import gpu_maker
from luminal_lab.devices.gpu.engine import BYTE, Argument, Engine, Location, Mapped, PlacedLaunch
from luminal_lab.devices.gpu.nvrtc import version
from luminal_lab.errors import DeviceError, is_circumstance
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import gpu_of
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.deadline import SKIPPED, Deadline
from luminal_lab.search.draws import said
from luminal_lab.search.driver import WRONG, Answer, Outcome
from luminal_lab.search.measure import FEWEST, LAST_ROUNDS, MEASURING, ROUNDS, SLOW, Data
from luminal_lab.search.validate import difference, wrong_by_definition
from luminal_lab.search.worker import MOST_LINES, Job, Make

COMPILING, RUNNING = 300.0, 20.0
"""The seconds until a child runs its first kernel, and from one kernel to the next."""
GRACE = 1.0
"""The seconds in which a child may still report once the time of its job is over."""
POLL = 0.05
GUARD, FILLS = 256, (0xA5, 0x5A)
"""The bytes around each array that nobody may write, and the fill of all memory before a draw."""
CHILD = (sys.executable, "-m", "luminal_lab.search.on_gpu")
Find: TypeAlias = Callable[[str, Kernels], Engine]


@dataclass(frozen=True)
class Errand:
    """What a child is sent: a job, and what is known about some of its schedules."""

    job: Job
    arch: str
    cores: int
    tf32: bool = False
    known: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])
    """By their numbers as text, as JSON has them."""

    def make(self, definition: Definition, name: str, schedule: str) -> Kernel:
        """Return the kernel of a schedule."""
        gpu = gpu_of(self.arch, tf32=self.tf32, cores=self.cores)
        return gpu_maker(gpu, "cuda").kernel(definition, name, parse_schedule(schedule))

    def find(self, source: str, kernels: Kernels) -> Engine:
        """Return the GPU with a source."""
        return CUDAEngine(source, self.arch, kernels, tf32=self.tf32, cublas=False)


def signature(device: str) -> str:
    """Return what times depend on, on the GPU that is here."""
    return sha256(f"{present()} {device} NVRTC {version()}".encode()).hexdigest()[:16]


# -- the worker ------------------------------------------------------------------------------------


def work(job: str) -> str:
    """Return the answer to a job, both as text."""
    return json.dumps(plain(answered(read(Job, read_json(job, exact=True)))))


def answered(job: Job, command: Sequence[str] = CHILD) -> Answer:
    """Run the kernels of a job in one child after another, until each has an outcome."""
    here = present()
    if here is None:
        raise DeviceError(
            "search: there is no NVIDIA GPU on this machine", hint="where there is none, give arch="
        )
    known: dict[str, Outcome] = {}
    deadline = Deadline(job.seconds)
    with held():
        while not deadline.is_over:
            own = job if job.seconds is None else replace(job, seconds=deadline.left)
            errand = Errand(own, here.arch, here.cores, "tf32 = true" in job.device, known)
            outcomes, running, why = _ran(errand, command, deadline)
            if outcomes is not None:
                known |= outcomes
                break
            if deadline.is_over:  # it did not get as much time as the others
                break
            if not running or str(running) in known:
                raise DeviceError(
                    f"search: the default kernel fails, with which others are compared: {why}",
                    hint='cx.compile(…, check="values") shows where',
                )
            known[str(running)] = Outcome("failed", why=why)
    every = range(1 + len(job.schedules))
    reference, *others = (known.get(str(at), SKIPPED) for at in every)
    if not reference.samples and reference.state != "skipped":
        raise DeviceError(
            f"search: the default kernel fails, with which others are compared: {reference.why}",
            hint='cx.compile(…, check="values") shows where',
        )
    return Answer(reference, tuple(others), signature(job.device))


class Ended(NamedTuple):
    """How a child ended: with all outcomes, or at a kernel, and why."""

    outcomes: Mapping[str, Outcome] | None
    running: int | None
    why: str = ""


@dataclass(frozen=True)
class ChildReport:
    """The last line of a child."""

    outcomes: Mapping[str, Outcome]


def _ran(errand: Errand, command: Sequence[str], deadline: Deadline) -> Ended:
    """Let a child run what is left, and return how it ended."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    lines = SimpleQueue[str]()
    listener = Thread(target=_listen, args=(child, lines), daemon=True)
    try:
        assert child.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError), child.stdin as asked:
            asked.write(json.dumps(plain(errand)))
        listener.start()
        running: int | None = None
        while True:
            patience = COMPILING if running is None else RUNNING
            line = _next(lines, min(patience, max(0.0, deadline.left) + GRACE))
            if line is None:
                return Ended(None, running, f"it was ended after {patience:g} s")
            word, _, rest = line.partition(" ")
            match word:
                case "run":
                    running = int(rest)
                case "done":
                    return Ended(read(ChildReport, read_json(rest)).outcomes, running)
                case "lost":
                    return Ended(None, running, rest.strip())
                case _:
                    code = child.wait()
                    return Ended(None, running, f"its process has ended with status {code}")
    finally:
        child.kill()
        child.wait()
        listener.join()


def _listen(child: subprocess.Popen[str], lines: SimpleQueue[str]) -> None:
    """Put the lines of a child into a queue, and an empty one at its end."""
    assert child.stdout is not None, "it is a pipe"
    with child.stdout as said_lines:
        for line in said_lines:
            lines.put(line)
    lines.put("")


def _next(lines: SimpleQueue[str], patience: float) -> str | None:
    """Return the next line; None if none comes. Ctrl-C is noticed meanwhile."""
    end = monotonic() + patience
    while monotonic() < end:
        look()
        with suppress(Empty):
            return lines.get(timeout=POLL)
    return None


# -- the child -------------------------------------------------------------------------------------


class SourceTrials:
    """The kernels of a job on a GPU, in one source."""

    def __init__(
        self,
        errand: Errand,
        tell: Callable[[str], None],
        make: Make | None = None,
        find: Find | None = None,
    ) -> None:
        self.job, self.tell = errand.job, tell
        self.known = {int(at): outcome for at, outcome in errand.known.items()}
        self.definition = parse_definition(self.job.definition)
        self.data = Data(self.definition, dict(self.job.dims), self.job.seed)
        self.deadline = Deadline(self.job.seconds)
        self.kernels = dict(self._made(make or errand.make))
        kernels = Kernels(self.kernels.values())
        self.engine = (find or errand.find)(gpu_source([*kernels]), kernels)
        self.late = set[int]()
        """The kernels that were not checked in time."""
        self.places: dict[str, Location] = {}
        for name, type in self.data.bound.types.items():
            size = self.data.size(int(np.prod(ints(type.shape)))) * type.dtype.itemsize
            memory = self.engine.reserve(size + 2 * GUARD)
            self.places[name] = Location(memory, GUARD, size)
        self.launches = {at: self._placed(at, kernel) for at, kernel in self.kernels.items()}

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """Check and time all kernels; 0 is the reference."""
        for number in reversed(range(len(self.data.draws))):
            self._check(number)
        samples = {at: seconds for at, seconds in self._timed().items() if seconds}
        for at, seconds in samples.items():
            is_slow = at and min(seconds) > SLOW * min(map(min, samples.values()))
            state = "stopped" if is_slow and not self.job.is_last else "measured"
            self.known[at] = Outcome(state, tuple(seconds))
        return self.known

    def _made(self, make: Make) -> Iterator[tuple[int, Kernel]]:
        for at, schedule in enumerate((self.job.reference, *self.job.schedules)):
            if at in self.known or (at and self.deadline.is_over):
                continue
            try:
                kernel = make(self.definition, f"candidate_{at}" if at else "reference", schedule)
                if kernel.compile is not None:
                    kernel.compile(kernel)
            except Exception as error:
                if is_circumstance(error):
                    raise
                self.known[at] = Outcome("refused", why=said(error))
                continue
            lines = kernel.source.count("\n")
            if lines > MOST_LINES and at:
                why = f"it has {lines:,} lines, and may have {MOST_LINES:,}"
                self.known[at] = Outcome("refused", why=why)
            else:
                yield at, kernel

    def _placed(self, at: int, kernel: Kernel) -> list[PlacedLaunch]:
        """Return the launches of a kernel, with the addresses of all their arguments."""
        dims, bound = self.job.dims, self.data.bound
        inputs = [self.places[name] for name, _ in bound.inputs]
        outputs = [self.places[output.name] for output in bound.outputs]
        locals_: list[Location] = []
        for local in kernel.locals:
            size = number_of(local.bytes, dims)
            locals_.append(Location(self.engine.reserve(size), 0, size))
        fault = Location(self.engine.reserve(4), 0, 4)
        self.engine.upload(fault, np.zeros(1, np.int32))
        places = [*inputs, *locals_, *outputs]
        numbers = tuple(numbers_of(kernel, dims))
        sizes = tuple((name, dims[name]) for name in kernel.dims)
        launches: list[PlacedLaunch] = []
        for phase in kernel.phases:
            given: list[Argument] = [*places, *numbers]
            given += [np.uint32(0)] * phase.draws + [fault] * phase.faults
            given += [Mapped(places[tile.number], tile) for tile in phase.maps]
            if blocks := number_of(phase.tasks, dims):
                launch = PlacedLaunch(kernel, phase, blocks, at, (), numbers, sizes, tuple(given))
                launches.append(launch)
        return launches

    @property
    def _left(self) -> list[int]:
        return [at for at in self.kernels if at not in self.known and at not in self.late]

    # -- whether it is right -----------------------------------------------------------------------

    def _check(self, number: int) -> None:
        """Check what each kernel makes of a draw."""
        expected: dict[str, Array] = {}
        data, draw = self.data, self.data.draws[number]
        for at in self._left:
            if self.deadline.is_over:
                self.late.add(at)
                continue
            self._fill(FILLS[number % len(FILLS)], draw)
            self.tell(f"run {at}")
            try:
                self.engine.launch(self.launches[at], None, careful=True)
                made, beyond = self._results(FILLS[number % len(FILLS)])
            except DeviceError as error:
                if getattr(self.engine, "lost", ""):
                    raise
                self.known[at] = Outcome("failed", why=said(error))
                continue
            wrong = None
            if not beyond and at:
                wrong = difference(expected, made)
            elif not beyond:
                expected, wrong = made, wrong_by_definition(data.bound, draw, made, data.seed)
            if beyond or wrong:
                self.known[at] = Outcome("failed", why=beyond or f"{WRONG}{wrong}")
                if at == 0:
                    return

    def _fill(self, fill: int, draw: Mapping[str, Array]) -> None:
        for name, place in self.places.items():
            whole = np.full(place.bytes + 2 * GUARD, fill, BYTE)
            if name in draw:
                raw = np.ascontiguousarray(draw[name]).reshape(-1).view(BYTE)
                whole[GUARD : GUARD + place.bytes] = raw
            self.engine.upload(Location(place.memory, 0, len(whole)), whole)

    def _results(self, fill: int) -> tuple[dict[str, Array], str]:
        """Return the outputs, and what was written around them, in words."""
        outputs: dict[str, Array] = {}
        for output in self.data.bound.outputs:
            area = self.places[output.name]
            whole = np.empty(area.bytes + 2 * GUARD, BYTE)
            self.engine.download(Location(area.memory, 0, len(whole)), whole)
            if (whole[:GUARD] != fill).any():
                return outputs, f"it writes before {output.name}"
            if (whole[GUARD + area.bytes :] != fill).any():
                return outputs, f"it writes behind {output.name}"
            shape = ints(bound_shape(output.name, output.type.shape, {}))
            own = whole[GUARD : GUARD + area.bytes].copy()
            outputs[output.name] = own.view(output.type.dtype.numpy).reshape(shape)
        return outputs, ""

    # -- how long it takes -------------------------------------------------------------------------

    def _timed(self) -> dict[int, list[float]]:
        """Return the seconds of each kernel, measured in turns, by the GPU's clock."""
        samples: dict[int, list[float]] = {at: [] for at in self._left}
        for turn in range(LAST_ROUNDS if self.job.is_last else ROUNDS):
            going = [at for at in samples if self._goes_on(turn, at, samples)]
            if not going or self.deadline.is_over:
                break
            self.tell(f"run {going[0]}")
            seconds = self.engine.seconds([self.launches[at] for at in going])
            for at, taken in zip(going, seconds, strict=True):
                samples[at].append(taken)
        return samples

    def _goes_on(self, turn: int, at: int, samples: Mapping[int, Sequence[float]]) -> bool:
        if turn < FEWEST or self.job.is_last or at == 0:
            return True
        fastest = min(min(known) for known in samples.values())
        return sum(samples[at]) < MEASURING and min(samples[at]) <= SLOW * fastest


def main() -> None:
    """Read an errand, print a line before each run, and last a line with all outcomes."""

    def tell(line: str) -> None:
        print(line.replace("\n", " "), flush=True)

    errand = read(Errand, read_json(sys.stdin.read(), exact=True))
    try:
        outcomes = SourceTrials(errand, tell).outcomes
    except DeviceError as error:
        tell(f"lost {said(error)}")
    else:
        report = ChildReport({str(at): outcome for at, outcome in outcomes.items()})
        tell(f"done {json.dumps(plain(report))}")


if __name__ == "__main__":
    main()
