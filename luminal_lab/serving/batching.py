"""Requests that wait are computed together: rows of all of them, one after another, in one run.

    while a run is under way, requests gather; then as many as fit are the next run
    rows are joined only where the export has proved that they have nothing to do with one another

Nobody waits for others to come: a request that comes alone is computed at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from luminal_lab.serving.http import ProblemError
from luminal_lab.serving.library import Exported, Value
from luminal_lab.serving.metrics import ROWS, Metrics
from luminal_lab.serving.tensors import count_of

BATCH: Final = 32
"""The most rows of a run, unless the model has a fixed number."""
WAITING: Final = 1024
"""The most requests that wait."""


@dataclass
class Job:
    """Inputs that wait for their outputs."""

    inputs: list[Value]
    given: dict[str, int]
    """The sizes of dims that were named."""
    step: int
    rows: int
    is_alone: bool = False
    """Whether a run with others has failed, and one of them is to blame."""
    done: asyncio.Future[list[Value]] = field(default_factory=asyncio.Future[list[Value]])

    @property
    def kind(self) -> object:
        """What jobs have in common that can be one run: all but their rows."""
        shapes = tuple(value.shape[1:] for value in self.inputs)
        return shapes, tuple(sorted(self.given.items())), self.step


class Batches:
    """The runs of a model, one at a time, in a thread."""

    def __init__(self, model: Exported, metrics: Metrics, most: int = BATCH) -> None:
        self.model, self._metrics = model, metrics
        self._rows = Rows(model, most)
        self._pool = ThreadPoolExecutor(1, "run")
        self._waiting = deque[Job]()
        self._is_running = self._is_closed = False
        metrics.gauge("waiting", "Requests that wait for a run.", lambda: len(self._waiting))

    def whole(self, rows: int) -> int:
        """Return the rows of a run in which so many are asked for, or raise a ValueError."""
        if isinstance(self.model.batch, int) and rows > self.model.batch:
            raise ValueError(f"there are {rows:,} rows, and {self.model.batch:,} are the most")
        return self._rows.whole(rows)

    def submit(self, inputs: list[Value], given: dict[str, int], step: int) -> Job:
        """Let inputs wait for a run; whoever cancels the job's `done` takes it back."""
        if self._is_closed:
            raise ProblemError(503, "the server is stopping")
        if len(self._waiting) >= WAITING:
            raise ProblemError(503, "too many requests are waiting: try again later")
        rows = self._rows.of(inputs)
        job = Job(inputs, given, step, rows)
        self._waiting.append(job)
        # What else has come by now is read first, and may be part of the same run.
        asyncio.get_running_loop().call_soon(self._next)
        return job

    def _next(self) -> None:
        """Begin a run of what waits, unless one is under way."""
        while self._waiting and self._waiting[0].done.cancelled():
            self._waiting.popleft()
        if self._is_running or not self._waiting:
            return
        jobs = self._taken()
        self._is_running = True
        self._metrics.observe("batch_rows", "Rows of a run.", sum(job.rows for job in jobs), ROWS)
        run = asyncio.get_running_loop().run_in_executor(self._pool, self._rows.run, jobs)
        run.add_done_callback(lambda run: self._ran(jobs, run))

    def _taken(self) -> list[Job]:
        """Take the first job that waits, and others that fit into the same run."""
        first = self._waiting.popleft()
        jobs, rows, left = [first], first.rows, deque[Job]()
        is_joined = self._rows.dim is not None and not first.is_alone
        while self._waiting and is_joined and rows < self._rows.most:
            job = self._waiting.popleft()
            if job.done.cancelled():
                continue
            fits = rows + job.rows <= self._rows.most and not job.is_alone
            if fits and job.kind == first.kind:
                jobs.append(job)
                rows += job.rows
            else:
                left.append(job)
        self._waiting.extendleft(reversed(left))
        return jobs

    def _ran(self, jobs: list[Job], run: asyncio.Future[list[list[Value]]]) -> None:
        self._is_running = False
        error = run.exception()
        waits = [job for job in jobs if not job.done.cancelled()]
        if error is None:
            for job, outputs in zip(jobs, run.result(), strict=True):
                if not job.done.cancelled():
                    job.done.set_result(outputs)
        elif isinstance(error, ValueError) and len(jobs) > 1:
            for job in reversed(waits):
                job.is_alone = True
                self._waiting.appendleft(job)
        else:
            for job in waits:
                job.done.set_exception(error)
        self._next()

    def close(self) -> None:
        """Refuse what waits, and end the thread once its run is over."""
        self._is_closed = True
        while self._waiting:
            job = self._waiting.popleft()
            if not job.done.done():
                job.done.set_exception(ProblemError(503, "the server is stopping"))
        self._pool.shutdown(wait=True)


class Rows:
    """What joins rows and takes them apart."""

    def __init__(self, model: Exported, most: int) -> None:
        self._model = model
        self.dim = model.batch
        at = next((at for at, dim in enumerate(model.dims) if dim.name == self.dim), None)
        self._low = self._multiple = 1
        self.most = most
        if isinstance(self.dim, int):
            self._low = self.most = self.dim
        elif at is not None:
            self._low, self._multiple = model.dims[at].low, model.dims[at].multiple_of
            self.most = max(1, min(most, model.dims[at].high))
        self._at = at

    def of(self, inputs: Sequence[Value]) -> int:
        """Return how many rows inputs have; 1 where they are not counted."""
        return inputs[0].shape[0] if self.dim is not None else 1

    def whole(self, rows: int) -> int:
        """Return the rows of a run in which so many are asked for."""
        return max(self._low, -(-rows // self._multiple) * self._multiple)

    def run(self, jobs: list[Job]) -> list[list[Value]]:
        """Return the outputs of each job."""
        model = self._model
        first = jobs[0]
        if self.dim is None:
            shapes = {p.name: v.shape for p, v in zip(model.inputs, first.inputs, strict=True)}
            return [model.run(model.sizes(shapes, first.given), first.inputs, first.step)]
        rows = sum(job.rows for job in jobs)
        whole = self.whole(rows)
        inputs = [
            _joined([job.inputs[at] for job in jobs], whole - rows)
            for at in range(len(model.inputs))
        ]
        shapes = {p.name: v.shape for p, v in zip(model.inputs, inputs, strict=True)}
        outputs = model.run(model.sizes(shapes, first.given), inputs, first.step)
        results, at = list[list[Value]](), 0
        for job in jobs:
            results.append([_part(value, at, job.rows) for value in outputs])
            at += job.rows
        return results


def _joined(values: list[Value], more: int) -> Value:
    """Return the rows of several arrays as one, and the last row so many times more."""
    if len(values) == 1 and not more:
        return values[0]
    shape = values[0].shape[1:]
    rows = sum(value.shape[0] for value in values)
    last = values[-1]
    size = len(last.data) // max(1, last.shape[0])
    parts = [*(value.data for value in values), *[bytes(last.data[-size:] if size else b"")] * more]
    return Value((rows + more, *shape), b"".join(parts))


def _part(value: Value, begin: int, rows: int) -> Value:
    shape = (rows, *value.shape[1:])
    size = 0 if not count_of(value.shape) else len(value.data) // value.shape[0]
    return Value(shape, memoryview(value.data)[begin * size : (begin + rows) * size])
