"""What goes wrong on one worker; engines import it, as graphs that they are sent name the op."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import luminal_lab as ll
from luminal_lab.core.dtypes import Array
from luminal_lab.workers import clocks, job, ops, turns
from luminal_lab.workers.ops import WORKER
from luminal_lab.workers.pipelined import PipelinedProgram


@dataclass(frozen=True, slots=True)
class Fault(ll.Unary):
    """The same value, but the second worker fails where the value says so."""

    name: ClassVar[str] = "fault_on_a_worker"

    def eval(self, x: Array) -> Array:
        worker = WORKER.get()
        kind = int(np.max(x[..., 0])) if x.size else 0
        if worker is not None and worker.rank == 1:
            if kind == 1:
                raise ValueError("no such luck")
            if kind == 2:
                os._exit(3)
            if kind == 3:
                time.sleep(100)
            if kind == 4:
                until = time.process_time() + 4
                while time.process_time() < until:
                    pass
            if kind == 5:
                os.kill(os.getpid(), signal.SIGSTOP)  # nothing interrupts it
        return x


FAR = 1e6
"""The seconds by which the clock of another machine may be ahead."""


def other_clock(ahead: float) -> None:
    """Give this process a clock that is ahead of others, as those of other machines are."""

    def clock() -> float:
        return time.perf_counter() + ahead

    modules: tuple[Any, ...] = clocks, job, ops, turns
    for module in modules:
        module.perf_counter = clock


def training(rows: int = 8) -> tuple[ll.Graph, ll.Tensor]:
    """Return a step of training, with dropout, whose weights are carried."""
    cx = ll.Graph("step", seed=3)
    x, t = cx.tensor((rows, 16), name="x"), cx.tensor((rows, 4), name="t")
    w1, w2 = cx.tensor((16, 32), name="w1"), cx.tensor((32, 4), name="w2")
    hidden = (x @ w1).relu()
    error = (cx.rand(hidden.shape) > 0.1).where(hidden, 0.0) @ w2 - t
    loss = (error * error).mean().named("loss").retrieve()
    for weight, slope in zip((w1, w2), ll.grad(loss, [w1, w2]), strict=True):
        cx.carry(weight - 0.1 * slope, weight)
    rng = np.random.default_rng(0)
    for tensor in (x, t, w1, w2):
        shape = [int(str(dim)) for dim in tensor.shape]
        tensor.set((rng.standard_normal(shape) / 4).astype("float32"))
    return cx, loss


Made = tuple[ll.Graph, list[ll.Tensor]]


def layers(depth: int, *, rows: int = 8, wide: int = 8, trains: bool = True) -> Made:
    """Return layers, each in a scope of its own, and what a step of training computes."""
    cx, rng = ll.Graph("deep"), np.random.default_rng(0)
    x, t = cx.tensor((rows, wide), name="x"), cx.tensor((rows, wide), name="t")
    h, weights = x, []
    for k in range(depth):
        with cx.scope(f"layer{k}"):
            weights.append(cx.tensor((wide, wide), name=f"w{k}"))
            h = (h @ weights[-1]).tanh()
    for k, value in enumerate((x, t, *weights)):
        value.set((rng.standard_normal((rows if k < 2 else wide, wide)) / 3).astype("f"))
    if not trains:
        return cx, [h.named("h").retrieve()]
    with cx.scope("loss"):
        loss = (h - t).square().mean().named("loss").retrieve()
    slopes = ll.grad(loss, weights)
    news = [(w - 0.1 * slope) for w, slope in zip(weights, slopes, strict=True)]
    for w, new in zip(weights, news, strict=True):
        cx.carry(new, w)
    return cx, [loss, *(slope.retrieve() for slope in slopes)]


def stages(depth: int, workers: int) -> dict[str, int]:
    named = {f"layer{k}": k * workers // depth for k in range(depth)}
    return {**named, "loss": workers - 1}


def held(made: Made, alone: Made, how: ll.Pipelined, *, checked: bool = False) -> PipelinedProgram:
    """Return the program of a pipeline, whose values were held to the interpreter's."""
    (cx, outputs), (cy, expected) = made, alone
    compiled = cx.compile(how, check="values" if checked else None)
    for _ in range(2):
        cx.execute()
        cy.execute()
        for output, value in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(output.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
    program = compiled.runner
    assert isinstance(program, PipelinedProgram)
    return program


def staged(engine: Any = None) -> tuple[ll.Graph, ll.Tensor, ll.Tensor, ll.Pipelined]:
    """Return a graph with a fault in the second of two stages, what asks for it, and a sum."""
    cx = ll.Graph("staged")
    x = cx.tensor((4, 2), name="x")
    with cx.scope("first"):
        h = x + 0.25
    with cx.scope("second"):
        y = (h.apply(Fault()) * 2).sum().named("y").retrieve()
    how = ll.Pipelined({"first": 0, "second": 1}, batch="x", microbatches=2, engine=engine)
    return cx, x, y, how


ROWS = {"x": ("data", None), "t": ("data", None)}


def faulty() -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """Return a graph with a fault between collectives, the input that asks for it, and a sum."""
    cx = ll.Graph("faulty")
    x = cx.tensor((4, 2), name="x")
    first = x.sum(0).named("first").retrieve()
    y = (x.apply(Fault()) * (1 + 0 * first)).sum().named("y").retrieve()
    return cx, x, y
