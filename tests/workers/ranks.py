"""What tests run under mpiexec: `mpiexec -n 2 python -m tests.workers.ranks trained`."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.plain import plain
from luminal_lab.workers import patience
from tests.workers.faulty import (
    FAR,
    ROWS,
    faulty,
    held,
    layers,
    other_clock,
    staged,
    stages,
    training,
)

MESH = ll.Mesh(data=2)


def trained() -> None:
    """Train, and print the losses and a digest of the weights."""
    cx, loss = training()
    how = ll.Sharded(ll.sharding(MESH, ROWS), ll.CPUCompiler(threads=1), engine=ll.engines.MPI())
    cx.compile(ll.GenericCompiler(), how)
    losses: list[float] = []
    for _ in range(100):
        cx.execute()
        losses.append(float(loss.item()))
    digest = hashlib.sha256(cx["w1"].numpy().tobytes() + cx["w2"].numpy().tobytes()).hexdigest()
    say(json.dumps({"losses": losses, "weights": digest}))


def say(line: str) -> None:
    """Print a line as a whole, so that those of two processes are not mixed."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def clocked() -> None:
    """Run in parts and in stages, by clocks that are far from each other; print both lanes."""
    engine = ll.engines.MPI()
    other_clock(FAR * (engine.rank or 0))
    cx, _ = training()
    program: Any = cx.compile(ll.Sharded(ll.sharding(MESH, ROWS), engine=engine)).program
    cx.execute()
    how = ll.Pipelined(stages(4, 2), batch=("x", "t"), engine=engine)
    say(json.dumps([plain(program.lanes), plain(held(layers(4), layers(4), how).lanes)]))


def gathered() -> None:
    """Make values that are cut, of dtypes that MPI adds and of one that it does not."""
    cx = ll.Graph("g")
    x = cx.tensor((6,), name="x").set(np.arange(6))
    half = (x.cast("float16") * x.cast("float16")).sum().retrieve()
    same, most = (x + 0).retrieve(), x.max().retrieve()
    plan = ll.sharding(ll.Mesh(data=3), {"x": ("data",)})
    cx.compile(ll.Sharded(plan, engine=ll.engines.MPI()))
    cx.execute()
    say(f"{same.tolist()} {half.item()} {most.item()}")


def piped() -> None:
    """Train in two stages; print a digest of all values, and who sent what to whom."""
    how = ll.Pipelined(
        stages(4, 2), ll.CPUCompiler(threads=1), batch=("x", "t"), engine=ll.engines.MPI()
    )
    made = layers(4)
    program = held(made, layers(4), how)
    values = b"".join(output.numpy().tobytes() for output in made[1])
    sent = [(one.source, one.to, one.bytes, one.start) for one in program.lanes.sent]
    say(json.dumps({"digest": hashlib.sha256(values).hexdigest(), "sent": sent}))


def stage_raises() -> None:
    """Raise in the second stage, and go on."""
    cx, x, y, how = staged(ll.engines.MPI())
    cx.compile(how)
    x.set(np.full((4, 2), 1))
    try:
        cx.execute()
    except (ll.DeviceError, ValueError) as error:
        say(str(error))
    x.set(np.full((4, 2), -0.25))
    cx.execute()
    say(f"and then {y.item()}")


def failing(kind: int) -> None:
    """Let the second worker fail, and go on."""
    patience.PATIENCE = 2.0
    cx, x, y = faulty()
    plan = ll.sharding(MESH, {"x": ("data", None)})
    cx.compile(ll.Sharded(plan, engine=ll.engines.MPI()))
    x.set(np.full((4, 2), kind))
    try:
        cx.execute()
    except (ll.DeviceError, ValueError) as error:
        say(str(error))
    if kind == 3:
        import os  # noqa: PLC0415

        os._exit(1)  # the other one sleeps
    x.set(np.zeros((4, 2)))
    cx.execute()
    say(f"and then {y.item()}")


def raises() -> None:
    """Raise in one worker."""
    failing(1)


def hangs() -> None:
    """Sleep in one worker."""
    failing(3)


def differs() -> None:
    """Run different graphs."""
    engine = ll.engines.MPI()
    cx = ll.Graph("g")
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    (x * (2.0 + (engine.rank or 0))).sum().retrieve()
    cx.compile(ll.Sharded(ll.sharding(MESH, {"x": ("data",)}), engine=engine))
    try:
        cx.execute()
    except ll.DeviceError as error:
        say(str(error))


def too_many() -> None:
    """Ask for more workers than there are."""
    try:
        ll.Sharded(ll.sharding(ll.Mesh(data=4), ROWS), engine=ll.engines.MPI())
    except ll.errors.ArgumentError as error:
        say(str(error))


if __name__ == "__main__":
    CALLS = [trained, clocked, gathered, piped, stage_raises, raises, hangs, differs, too_many]
    {call.__name__: call for call in CALLS}[sys.argv[1]]()
