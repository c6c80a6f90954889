"""A graph, a device and a recording of it that nobody measured: for tests alone."""

from dataclasses import asdict, dataclass, replace

import numpy as np

import luminal_lab as ll
from luminal_lab.core.ops import Call
from luminal_lab.machines.machine import Machine
from luminal_lab.machines.rates import PeakRates
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.timing.column import Column, fused
from luminal_lab.timing.launches import Covering, LaunchTime
from luminal_lab.timing.recording import RecordedKernel, RecordedProgram, Recording, key_of_kernel
from luminal_lab.timing.subject import subject_of

MACHINE = Machine(cores=2)
RATES = PeakRates.stated("a machine", gflops=100, gbytes=10, threads=2)


@dataclass(frozen=True)
class Unfused:
    """A device that launches every node by itself, each in 1 ms, with made-up times."""

    def column(self, subject, rounds, warm_up):
        made = subject.compiled(Inlining(), DeadCode())
        covering = Covering(made)
        nodes = [node for node in made.ir if node.sources and not isinstance(node.op, Call)]
        parts = tuple(
            LaunchTime(
                str(n), n.op.name, "measured", (1e-3,) * rounds, covering.written(n.id), n.id, 8, 2
            )
            for n in nodes
        )
        return Column("unfused", "measured", "nothing", "2026-01-02T03:04:05+00:00", parts)


def written(rows: int | str = "n", count: int = 16):
    """Return a session of three kernels: a product, and two that read it."""
    cx = ll.Graph("small")
    x, w = cx.tensor((rows, 64), name="x"), cx.tensor((64, 32), name="w")
    h = (x @ w).gelu().named("h")
    h.softmax(-1).named("y").retrieve()
    (h.sum(-1) * 2.0).named("z").retrieve()
    x.set(np.ones((count, 64)))
    w.set(np.full((64, 32), 0.1))
    return cx


def recording(cx, dims=None):
    """Return times for the CPU's kernels of a session: 1 ms for the first, 2 ms for the second."""
    subject = subject_of(cx, dims)
    _, uses = fused(subject, MACHINE)
    kernels = [use.kernel for use in uses if use.kernel is not None]
    entries = tuple(
        RecordedKernel(
            kernel.name,
            (key := key_of_kernel(kernel, subject.dims)).definition,
            key.schedule,
            dict(key.dims),
            (1e-3 * k, 1e-3 * k, 1.2e-3 * k),
        )
        for k, kernel in enumerate(kernels, 1)
    )
    places = tuple(range(len(entries)))
    return Recording(
        "a made-up machine",
        "cc 1.2.3",
        "2026-01-02T03:04:05+00:00",
        "c",
        "1",
        entries,
        (RecordedProgram("small", places, (0.007,), "equal to the interpreter"),),
        asdict(MACHINE),
        "no clock",
        2,
        "0.1.0",
    )


def rescheduled(found, place):
    """Return a recording one of whose kernels had another schedule then."""
    old = found.kernels[place]
    kernels = [*found.kernels]
    kernels[place] = replace(old, schedule="parallel q\n" + old.schedule)
    return replace(found, kernels=tuple(kernels))
