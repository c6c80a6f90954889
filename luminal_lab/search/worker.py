"""What a worker does with a batch: make its kernels, compile them as one library, measure them.

A job is text, and so is its answer: any executor can carry them. Kernels run in a child process of
the worker (measure.py). If several workers share a machine, a lock file lets only one of them
measure at a time.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import TypeAlias

from typing_extensions import override

from luminal_lab.devices.build.cache import is_passing, spare_folder
from luminal_lab.devices.build.toolchain import (
    Compiler,
    compile_library,
    find_compiler,
    machine as processor,
)
from luminal_lab.devices.cpu.trial_build import Builds, builds
from luminal_lab.devices.runtime.worklist import c_maker
from luminal_lab.errors import DeviceError, LabError, is_circumstance
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.c.program import Use, program_source
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.here import this_machine, usable_cores
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.deadline import SKIPPED, Deadline, OutOfTime
from luminal_lab.search.draws import said
from luminal_lab.search.driver import WRONG, Answer, Outcome
from luminal_lab.search.forms import BETWEEN, Built, Form, alone
from luminal_lab.search.measure import Data, LibraryTrials
from luminal_lab.search.validate import wrong_step

MOST_LINES = 3_000
"""How many lines of C a candidate may have: more take the compiler too long."""
COMPILING, ALONE = 12.0, 4.0
"""The seconds that a batch, and then each of its kernels, may take to compile."""
SINGLY = 8.0
"""The seconds in which kernels of a batch that does not compile are compiled one by one."""
BLAMING = 5.0
"""The seconds of a batch spent on finding the steps that made candidates wrong."""
WAITING = 600.0
"""The seconds to wait for another worker that measures on this machine."""
CANDIDATE = re.compile(r"candidate_([0-9]+)")


@dataclass(frozen=True)
class Job:
    """A batch as text: what is computed, by which schedules, on which data."""

    definition: str
    reference: str
    """The schedule with which the others are compared, of the first form."""
    schedules: tuple[str, ...]
    forms: tuple[Form, ...] = ()
    """The forms of the schedules; empty if what is computed is one kernel, as defined."""
    form_of: tuple[int, ...] = ()
    """The number of each schedule's form; the first form if none is given."""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    compiler: str | None = None
    threads: int | None = None
    seed: int = 0
    best: float = 0.0
    """The least share of the reference's time so far; 0 if none is known."""
    is_last: bool = False
    device: str = ""
    """The compiler as text, for a GPU."""
    seconds: float | None = None
    """How long the worker may take; what it has not measured by then is skipped."""
    others: tuple[Mapping[str, int], ...] = ()
    """Other sizes to measure at, too: times are then geometric means."""

    @override
    def __str__(self) -> str:
        return json.dumps(plain(self))


@dataclass(frozen=True)
class Failure:
    """Why there is no answer to a job; an answer has none of these fields."""

    error: str = ""
    hint: str | None = None


Worker: TypeAlias = Callable[[str], str]
"""Answers a job, both as text."""
Make: TypeAlias = Callable[[Definition, str, str], Kernel]


def work(job: str) -> str:
    """Return the answer to a job, both as text; not every library carries an error."""
    try:
        told: Answer | Failure = answered(read(Job, read_json(job, exact=True)))
    except LabError as error:
        told = Failure(error.message, error.hint)
    return json.dumps(plain(told))


def answer_of(text: str) -> Answer:
    """Return an answer from its text, or raise the error in it."""
    given = read_json(text)
    failure = read(Failure, given)
    if failure.error:
        raise DeviceError(failure.error, hint=failure.hint)
    return read(Answer, given)


def scheduled(definition: Definition, name: str, schedule: str) -> Kernel:
    """Return the kernel of a schedule."""
    return c_maker(this_machine()).kernel(definition, name, parse_schedule(schedule))


def signature(compiler: Compiler, threads: int | None) -> str:
    """Return what times depend on: the processor, its caches and threads, and the compiler."""
    parts = (processor(), str(this_machine()), str(threads or usable_cores()), compiler.version)
    return sha256("\n".join((*parts, *compiler.flags)).encode()).hexdigest()[:16]


def answered(job: Job, make: Make = scheduled, clock: Callable[[], float] = monotonic) -> Answer:
    """Make, compile, check and time the kernels of a job."""
    deadline = Deadline(job.seconds, clock)
    compiler = find_compiler(job.compiler)
    build = builds(compiler)
    if build is None:
        raise DeviceError(
            "search: kernels that nobody has tried run in a child process, and there is none here",
            hint="search on Linux or macOS; the schedule that wins there runs anywhere"
            if sys.platform == "win32"
            else f"it could not be built: check whether {tempfile.gettempdir()} has room",
        )
    with held():
        try:
            with tempfile.TemporaryDirectory(prefix="luminal_lab-") as folder:
                workplace = _Workplace(job, make, compiler, build, Path(folder), deadline)
                outcomes = workplace.outcomes
        except OSError as error:
            if not is_passing(error):
                raise
            raise DeviceError(
                f"search: a batch could not be measured: {error.strerror or error}",
                hint=f"make room in {tempfile.gettempdir()}, and search again",
            ) from error
    reference, *others = (outcomes[at] for at in range(1 + len(job.schedules)))
    if not reference.samples and reference.state != "skipped":
        raise DeviceError(
            f"search: the default kernel fails, with which others are compared: {reference.why}",
            hint='cx.compile(…, check="values") shows where',
        )
    return Answer(reference, tuple(others), signature(compiler, job.threads))


class _Workplace:
    """A job at work, in a folder of its own."""

    def __init__(
        self,
        job: Job,
        make: Make,
        compiler: Compiler,
        build: Builds,
        folder: Path,
        deadline: Deadline,
    ) -> None:
        self.job, self.compiler, self.build, self.folder = job, compiler, build, folder
        self.deadline = deadline
        self.definition = parse_definition(job.definition)
        self.forms = job.forms or (alone(self.definition),)
        self.form_of = (0, *(job.form_of or (0,) * len(job.schedules)))
        self.outcomes: dict[int, Outcome] = {}
        """The outcome of each candidate, by its number; the reference is 0."""
        with suppress(OutOfTime):
            self._measure(make)
        for at in range(1 + len(job.schedules)):
            self.outcomes.setdefault(at, SKIPPED)
        blaming = Deadline(min(BLAMING, deadline.left), deadline.clock)
        for at, outcome in self.outcomes.items():
            definitions = self.forms[self.form_of[at]].definitions
            if at and outcome.is_wrong:
                is_traced = len(definitions) == 1 and not blaming.is_over
                step = wrong_step(definitions[0], job.schedules[at - 1]) if is_traced else ""
                self.outcomes[at] = Outcome("failed", (), outcome.why, step)

    def _measure(self, make: Make) -> None:
        job, candidates = self.job, dict(self._built(make))
        if 0 not in candidates:
            return
        self.deadline.check()
        sizes = [dict(dims) for dims in (*job.others, job.dims)]
        for library, kernels in self._libraries(candidates):
            for dims in sizes:
                data = Data(self.definition, dims, job.seed)
                with measuring():
                    session = LibraryTrials(
                        data, job.best, self.build, library, kernels, self.deadline
                    )
                    outcomes = session.outcomes(job.threads, is_last=job.is_last)
                for at in kernels:
                    outcome = outcomes.get(at, SKIPPED)
                    if job.others:
                        outcome = joined(self.outcomes.get(at), outcome, dims, len(sizes))
                    self.outcomes[at] = outcome
                look()

    def _built(self, make: Make) -> Iterator[tuple[int, Built]]:
        """Yield the candidates that can be built, by number."""
        for at, schedule in enumerate((self.job.reference, *self.job.schedules)):
            look()
            self.deadline.check()
            form, name = self.forms[self.form_of[at]], f"candidate_{at}" if at else "reference"
            try:
                parts = zip(form.definitions, schedule.split(BETWEEN), strict=True)
                kernels = [
                    make(definition, f"{name}_{number}" if number else name, steps)
                    for number, (definition, steps) in enumerate(parts)
                ]
            except Exception as error:
                if is_circumstance(error):
                    raise
                self.outcomes[at] = Outcome("refused", why=said(error))
                continue
            candidate = Built(form, tuple(kernels))
            if candidate.lines > MOST_LINES and at:
                why = f"it has {candidate.lines:,} lines of C, and may have {MOST_LINES:,}"
                self.outcomes[at] = Outcome("refused", why=why)
            else:
                yield at, candidate

    # -- compiling ---------------------------------------------------------------------------------

    def _libraries(self, built: dict[int, Built]) -> Iterator[tuple[Path, Mapping[int, Built]]]:
        """Yield libraries of the candidates: a single one if all of them compile."""
        built = {**built}
        while True:
            try:
                library = self._compiled(built, COMPILING)
            except DeviceError as error:
                blamed = CANDIDATE.search(str(error))
                at = int(blamed[1]) if blamed else 0
                if at not in built or not at:
                    break
                self._uncompiled(at, error)
                del built[at]
            else:
                yield library, built
                return
        # Nothing says which candidate is at fault, so each is compiled by itself.
        reference = {0: built[0]}
        self._compiled(reference, COMPILING)  # if this fails, no candidate is at fault
        sound, singly = dict(reference), Deadline(SINGLY, self.deadline.clock)
        for at in sorted(built.keys() - {0}, key=lambda at: built[at].lines):
            if singly.is_over:  # the rest is skipped, and may be drawn again
                break
            try:
                self._compiled({**reference, at: built[at]}, ALONE)
            except DeviceError as error:
                self._uncompiled(at, error)
            else:
                sound[at] = built[at]
        yield self._compiled(sound, COMPILING), sound

    def _uncompiled(self, at: int, error: DeviceError) -> None:
        first, *lines = error.message.removeprefix("compile: ").splitlines()
        told = next((line for line in lines if "error" in line), first)
        self.outcomes[at] = Outcome("failed", why=f"it does not compile: {told.strip()}")

    def _compiled(self, built: Mapping[int, Built], patience: float) -> Path:
        kernels = [kernel for candidate in built.values() for kernel in candidate.kernels]
        source = program_source(kernels, self._uses(built))
        self.deadline.check()
        patience = min(patience, self.deadline.left)
        try:
            return compile_library(source, self.compiler, folder=self.folder, timeout=patience)
        except DeviceError:
            self.deadline.check()
            raise

    def _uses(self, built: Mapping[int, Built]) -> list[Use]:
        """Return the launches: all candidates read the same inputs, and write the same outputs."""
        outside = len(self.definition.inputs) + len(self.definition.outputs)
        most = max(len(candidate.own) for candidate in built.values())
        order = {name: number for number, name in enumerate(self.definition.dims)}
        uses: list[Use] = []
        for number, candidate in enumerate(built.values()):
            begin = local = outside + number * most
            between = begin + len(candidate.own) - len(candidate.form.inner) - outside
            for kernel, stage in zip(candidate.kernels, candidate.form.stages, strict=True):
                own = range(local, local + len(kernel.locals))
                arrays = [n if n < outside else between + n for n in stage.arrays]
                inputs = len(stage.definition.inputs)
                values = (*arrays[:inputs], *own, *arrays[inputs:])
                dims = tuple(order[name] for name in kernel.dims)
                uses.append(Use(kernel, values, dims, len(arrays) - inputs))
                local += len(own)
        return uses


def joined(
    before: Outcome | None, outcome: Outcome, dims: Mapping[str, int], sizes: int
) -> Outcome:
    """Return a candidate's outcome at some sizes joined with its outcome at one more.

    Its time in a round is the geometric mean of its times at all sizes, added one by one.
    """
    if before is not None and before.state in ("failed", "skipped"):
        return before
    if outcome.state == "failed":
        at = ", ".join(f"{name} = {size}" for name, size in dims.items())
        kind = WRONG if outcome.is_wrong else ""
        return replace(outcome, why=f"{kind}at {at}: {outcome.why.removeprefix(WRONG)}")
    shares = tuple(seconds ** (1 / sizes) for seconds in outcome.samples)
    if before is None or not shares:
        return replace(outcome, samples=shares)
    state = "stopped" if "stopped" in (before.state, outcome.state) else outcome.state
    both = zip(before.samples, shares, strict=False)
    return replace(outcome, state=state, samples=tuple(a * b for a, b in both))


@contextmanager
def measuring() -> Generator[None]:
    """Let nobody else's search measure on this machine meanwhile."""
    if sys.platform == "win32":
        yield
        return
    import fcntl  # noqa: PLC0415  # Windows has none

    folder = spare_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "measuring.lock").open("ab") as file:
        end = monotonic() + WAITING
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > end:
                    raise DeviceError(
                        f"search: another search has measured here for {WAITING:g} s",
                        hint="only one at a time can measure on a machine; end the other one",
                    ) from None
                look()
                sleep(0.01)
        yield  # closing the file lets the next one measure
