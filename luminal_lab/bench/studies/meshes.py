"""Steps on meshes: what `ll.plan` says on paper, and what threads or processes take here.

    python -m luminal_lab.bench.studies.meshes [--rows 512] [--wide 512] [--rounds 9]
    mpiexec -n 4 python -m luminal_lab.bench.studies.meshes --processes

A training step of two layers on 1, 2 and 4 threads, or on as many processes as there are, cut by
rows and cut as Megatron does. Each mesh is planned, then runs; the best run of each counts. Where
there are more workers than cores, the plan has them share the cores.
"""
# pyright: basic

import argparse
from importlib import import_module
from time import perf_counter, sleep
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.machines.links import Link
from luminal_lab.timing.links import pair_seconds, shared_link
from luminal_lab.workers.talk import Talk

WAYS = {
    "data": {"x": ("data", None), "t": ("data", None)},
    "model": {"w1": (None, "model"), "w2": ("model", None)},
}


def main() -> None:
    """Print what was planned and what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, usual in (("rows", 512), ("wide", 512), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--processes", action="store_true", help="those of this mpiexec")
    asked = parser.parse_args()
    engine: Any = ll.engines.MPI() if asked.processes else None
    here = 0 if engine is None else engine.rank
    link = "threads" if engine is None else between_processes(engine)
    if not here:
        print("cut    workers  on paper ms  computing  sending  measured ms  measured / paper")
    for axis, cut in WAYS.items():
        for count in (1, 2, 4) if engine is None else (world().size,):
            mesh, cx = ll.Mesh(**{axis: count}), step(asked.rows, asked.wide)
            paper = None if here else ll.plan(cx, mesh, cut, links=link).best
            if engine is not None:
                joined()
            taken = measured(cx, mesh, cut, asked.rounds, engine)
            if paper is not None:
                print(
                    f"{axis:<5}  {count:>7}  {1e3 * paper.seconds:>11.1f}  "
                    f"{1e3 * paper.computing:>9.1f}  {1e3 * paper.sending:>7.1f}  "
                    f"{1e3 * taken:>11.1f}  {taken / paper.seconds:>16.2f}"
                )


def between_processes(engine: Any) -> Link | str:
    """Return what lies between two of these processes, measured while all pairs talk."""
    if world().size < 2:
        return "threads"  # nothing is sent
    mesh = ll.Mesh(others=world().size // 2, pair=2)
    taken = pair_seconds(Talk(engine._ranks.post, mesh, 9_000))
    return shared_link("processes", taken)


def world() -> Any:
    """Return the processes of this mpiexec."""
    return import_module("mpi4py.MPI").COMM_WORLD


def joined() -> None:
    """Wait for all processes, without taking a core from one that still measures."""
    waits = world().Ibarrier()
    while not waits.Test():
        sleep(0.01)


def step(rows: int, wide: int) -> ll.Graph:
    """Return a step of two layers with data."""
    cx = ll.Graph("step")
    x, t = cx.tensor((rows, wide), name="x"), cx.tensor((rows, wide), name="t")
    w1, w2 = cx.tensor((wide, 4 * wide), name="w1"), cx.tensor((4 * wide, wide), name="w2")
    error = (x @ w1).relu() @ w2 - t
    loss = (error * error).mean().named("loss").retrieve()
    for w, slope in zip((w1, w2), ll.grad(loss, [w1, w2]), strict=True):
        cx.carry(w - 0.1 * slope, w)
    rng = np.random.default_rng(0)
    shapes = (rows, wide), (rows, wide), (wide, 4 * wide), (4 * wide, wide)
    for value, shape in zip((x, t, w1, w2), shapes, strict=True):
        value.set((rng.standard_normal(shape) / 20).astype("float32"))
    return cx


def measured(cx: ll.Graph, mesh: ll.Mesh, cut: dict, rounds: int, engine: Any) -> float:
    """Return the seconds of the best run, with cutting inputs and putting results together."""
    device = ll.Sharded(ll.sharding(mesh, cut), ll.CPUCompiler(threads=1), engine=engine)
    cx.compile(ll.GenericCompiler(), device)
    best = float("inf")
    for _ in range(rounds + 2):
        start = perf_counter()
        cx.execute()
        best = min(best, perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
