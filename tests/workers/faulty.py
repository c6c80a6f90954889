"""What goes wrong on one worker; engines import it, as graphs that they are sent name the op."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import luminal_lab as ll
from luminal_lab.core.dtypes import Array
from luminal_lab.workers.ops import WORKER


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
        return x


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


ROWS = {"x": ("data", None), "t": ("data", None)}


def faulty() -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """Return a graph with a fault between collectives, the input that asks for it, and a sum."""
    cx = ll.Graph("faulty")
    x = cx.tensor((4, 2), name="x")
    first = x.sum(0).named("first").retrieve()
    y = (x.apply(Fault()) * (1 + 0 * first)).sum().named("y").retrieve()
    return cx, x, y
