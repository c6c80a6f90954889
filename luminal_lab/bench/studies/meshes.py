"""Steps on meshes: what `ll.plan` says on paper, and what threads take here.

    python -m luminal_lab.bench.studies.meshes [--rows 512] [--wide 512] [--rounds 9]

A training step of two layers on 1, 2 and 4 workers, cut by rows and cut as Megatron does. Each
mesh is planned, then runs; the best run of each counts. Where there are more workers than cores,
the plan has them share the cores.
"""
# pyright: basic

import argparse
from time import perf_counter

import numpy as np

import luminal_lab as ll

WAYS = {
    "data": {"x": ("data", None), "t": ("data", None)},
    "model": {"w1": (None, "model"), "w2": ("model", None)},
}


def main() -> None:
    """Print what was planned and what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, usual in (("rows", 512), ("wide", 512), ("rounds", 9)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    print("cut    workers  on paper ms  computing  sending  measured ms  measured / paper")
    for axis, cut in WAYS.items():
        for count in (1, 2, 4):
            mesh = ll.Mesh(**{axis: count})
            paper = ll.plan(step(asked.rows, asked.wide), mesh, cut).best
            taken = measured(step(asked.rows, asked.wide), mesh, cut, asked.rounds)
            ratio = taken / paper.seconds
            print(
                f"{axis:<5}  {count:>7}  {1e3 * paper.seconds:>11.1f}  "
                f"{1e3 * paper.computing:>9.1f}  {1e3 * paper.sending:>7.1f}  "
                f"{1e3 * taken:>11.1f}  {ratio:>16.2f}"
            )


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


def measured(cx: ll.Graph, mesh: ll.Mesh, cut: dict, rounds: int) -> float:
    """Return the seconds of the best run, with cutting inputs and putting results together."""
    device = ll.Sharded(ll.sharding(mesh, cut), ll.CPUCompiler(threads=1))
    cx.compile(ll.GenericCompiler(), device)
    best = float("inf")
    for _ in range(rounds + 2):
        start = perf_counter()
        cx.execute()
        best = min(best, perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
