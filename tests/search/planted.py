"""Workers for tests of the search: ones that answer without measuring, and faults in kernels."""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.machine import Machine
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.driver import Answer, Outcome
from luminal_lab.search.worker import Failure, Job, Make, scheduled

MATMUL = """kernel mm(a: f32[N, K], b: f32[K, M]) -> (c: f32[N, M])
  c[i < N, j < M] = sum k < K: a[i, k] * b[k, j]"""


def matmul(n: int, k: int, m: int) -> str:
    """Return the definition of a product in three loops."""
    return MATMUL.replace("N", str(n)).replace("K", str(k)).replace("M", str(m))


SIZES = tuple(range(2, 34))


def tiles(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
    """Cut both axes of a product into tiles: a plan of few steps and many numbers."""
    scheduling = Scheduling(nest, asked=asked)
    for axis in "ij":
        size = scheduling.choose(Choice(f"tile_{axis}", *SIZES))
        scheduling.do(Split((axis,), (size,), ("tile", "own")))
    return scheduling


def job_of(text: str) -> Job:
    """Return a job from its text."""
    return read(Job, read_json(text, exact=True))


def seconds_of(schedule: str) -> float:
    """Return a time that depends on the text alone, the same in every process."""
    return 1e-6 * (100 + sha256(schedule.encode()).digest()[0])


def guess(job: str) -> str:
    """Answer a job without measuring."""
    times = [Outcome("measured", (seconds_of(text),)) for text in job_of(job).schedules]
    return json.dumps(plain(Answer(Outcome("measured", (2e-4,)), tuple(times), "here")))


def by_form(job: str) -> str:
    """Answer a job as if what rules have made of one kernel were the fastest."""
    asked = job_of(job)
    fast = [form.name.endswith("by rules") and len(form.stages) == 1 for form in asked.forms]
    pairs = zip(asked.schedules, asked.form_of, strict=True)
    times = [seconds_of(text) * (0.1 if fast[form] else 1.0) for text, form in pairs]
    outcomes = tuple(Outcome("measured", (seconds,)) for seconds in times)
    return json.dumps(plain(Answer(Outcome("measured", (2e-4,)), outcomes, "here")))


class Gains:
    """Answers jobs as if each batch of one region took a tenth off its time, and others nothing."""

    def __init__(self, output: str) -> None:
        self.output, self.batches = output, 0
        """The type of what the region makes."""

    def __call__(self, job: str) -> str:
        asked = job_of(job)
        gains = self.output in asked.definition
        self.batches += gains and not asked.is_last
        least = 2e-4 * 0.9**self.batches if gains else 3e-4
        times = [
            Outcome("measured", (least * (1 + at / 100),)) for at in range(len(asked.schedules))
        ]
        return json.dumps(plain(Answer(Outcome("measured", (2e-4,)), tuple(times), "here")))


def die(job: str) -> str:
    """End the worker's process, as a system does that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(job)


def die_once(mark: Path, job: str) -> str:
    """End the worker's process, and answer when the job comes again."""
    if mark.exists():
        return guess(job)
    mark.touch()
    return die(job)


def wait_for(mark: Path, job: str) -> str:
    """Answer when somebody makes a file."""
    while not mark.exists():
        time.sleep(0.01)
    return guess(job)


def interrupt(process: int, mark: Path, job: str) -> str:
    """Send Ctrl-C to a process, once, and answer."""
    with suppress(FileExistsError):
        mark.touch(exist_ok=False)
        os.kill(process, signal.SIGINT)
    return guess(job)


def refuse(job: str) -> str:
    """Answer that nothing can be measured, as `work` does."""
    return json.dumps(plain(Failure("search: there is no compiler", "install gcc")))


def stumble(job: str) -> str:
    """Raise what no worker of ours does."""
    raise ZeroDivisionError("a job of 0 parts")


def faulty(faults: dict[int, str], plain: Make = scheduled) -> Make:
    """Return what makes kernels, some of which begin with other code, by their numbers."""

    def make(definition: Definition, name: str, schedule: str) -> Kernel:
        kernel = plain(definition, name, schedule)
        number = re.search("[0-9]+", name)
        fault = faults.get(int(number[0])) if number else None
        if fault is None:
            return kernel
        head, brace, rest = kernel.source.partition("{\n")
        assert brace
        return replace(kernel, source=f"{head}{{\n{fault}\n{rest}")

    return make
