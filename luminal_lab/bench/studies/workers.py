"""What workers cost and gain: collectives beside mpi4py's own, and a step on two beside one.

    mpiexec -n 2 python -m luminal_lab.bench.studies.workers

Each process has one thread. Both sides of a pair are measured in turns; all figures are of this
one run, and the first process prints them. With one process the step is measured alone.
"""
# pyright: basic

import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.workers.talk import Talk

SIZES = {"1 KB": 1 << 8, "64 KB": 1 << 14, "1 MB": 1 << 18}
ROUNDS, STEPS = 100, 10
ROWS, WIDTH, HIDDEN = 2048, 512, 2048
"""The sizes of the step: a product of these takes about a tenth of a second on a core."""


def main() -> None:
    """Print the tables."""
    engine: Any = ll.engines.MPI()
    world: Any = import_module("mpi4py.MPI").COMM_WORLD
    ranks = engine._ranks
    assert ranks is not None
    if world.size > 1:
        collectives(world, Talk(ranks.post, ll.Mesh(data=world.size), 9_000))
    steps(world, engine)


def collectives(world: Any, talk: Talk) -> None:
    """Print the microseconds of collectives, ours and mpi4py's."""
    mpi: Any = import_module("mpi4py.MPI")
    say(world, f"{'collective':>10} {'size':>6} {'mpi4py':>9} {'ours':>9}  ratio")
    for name, count in SIZES.items():
        x = np.ones(count, np.float32)
        y, gathered = np.empty_like(x), np.empty((world.size, count), np.float32)
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "all_reduce": (
                lambda x=x, y=y: world.Allreduce(x, y, mpi.SUM),
                lambda x=x: talk.all_reduce(x, "data", "sum"),
            ),
            "all_gather": (
                lambda x=x, g=gathered: world.Allgather(x, g),
                lambda x=x: talk.all_gather(x, "data"),
            ),
        }
        for what, calls in pairs.items():
            theirs, ours = in_turns(world, calls, ROUNDS)
            ratio = f"{ours / theirs:5.2f}"
            say(world, f"{what:>10} {name:>6} {theirs * 1e6:6.0f} µs {ours * 1e6:6.0f} µs  {ratio}")


def in_turns(world: Any, calls: tuple[Callable[[], object], ...], rounds: int) -> list[float]:
    """Return the median seconds of each of some calls, which all processes make together."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 3):
        for call, seconds in zip(calls, times, strict=True):
            world.Barrier()
            start = time.perf_counter()
            call()
            if turn > 2:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def training(device: ll.Pipeline, rows: int = ROWS) -> Callable[[], object]:
    """Return a step of training of an MLP, on a device."""
    cx = ll.Graph("step")
    x, t = cx.tensor((rows, WIDTH), name="x"), cx.tensor((rows, WIDTH), name="t")
    w1, w2 = cx.tensor((WIDTH, HIDDEN), name="w1"), cx.tensor((HIDDEN, WIDTH), name="w2")
    error = (x @ w1).relu() @ w2 - t
    loss = (error * error).mean().named("loss").retrieve()
    for weight, slope in zip((w1, w2), ll.grad(loss, [w1, w2]), strict=True):
        cx.carry(weight - 0.01 * slope, weight)
    rng = np.random.default_rng(0)
    for tensor, size in ((x, WIDTH), (t, WIDTH), (w1, WIDTH), (w2, HIDDEN)):
        shape = tuple(int(str(dim)) for dim in tensor.shape)
        tensor.set((rng.standard_normal(shape) / size**0.5).astype(np.float32))
    cx.compile(ll.GenericCompiler(), device)
    return cx.execute


def steps(world: Any, engine: Any) -> None:
    """Print the milliseconds of a step: one worker alone, all of them, all of them in silence."""
    one = ll.CPUCompiler(threads=1)
    alone = training(one) if world.rank == 0 else lambda: None
    rows = {"x": ("data", None), "t": ("data", None)}
    calls = [alone]
    if world.size > 1:
        plan = ll.sharding(ll.Mesh(data=world.size), rows)
        calls.append(training(ll.Sharded(plan, one, engine=engine)))
        calls.append(training(one, ROWS // world.size))
    found = in_turns(world, tuple(calls), STEPS)
    say(world, f"a step on one worker {found[0] * 1e3:.1f} ms")
    if len(found) > 1:
        gain = f"{found[0] / found[1]:.2f} times as fast"
        say(world, f"on {world.size} workers {found[1] * 1e3:.1f} ms, {gain}")
        limit = f"{found[0] / found[2]:.2f} times at most"
        say(world, f"their rows at the same time, nothing sent {found[2] * 1e3:.1f} ms, {limit}")


def say(world: Any, line: str) -> None:
    """Print a line once."""
    if world.rank == 0:
        print(line, flush=True)


if __name__ == "__main__":
    main()
