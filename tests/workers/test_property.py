"""Random programs, cut at random, on threads: what the interpreter computes.

    python -m tests.fuzz --checks sharded --programs 4200 --jobs 2 --minutes 600

cuts 8,400 programs in 12 ways each, minimises what it finds, and writes it down.
"""

from __future__ import annotations

import warnings
from random import Random

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.ops import Collective, OwnPart
from tests.fuzz.checks import CUTS, failure
from tests.fuzz.drawing import drawn

PARTS, STEPS, FEW = 4, 200, 24
PROGRAMS = -(-1_000 // (PARTS * CUTS))
"""In each part: a thousand cuts in all."""
SIZES = {"x": (8, 16), "t": (8, 8), "w1": (16, 24), "b1": (24,), "w2": (24, 8)}


@pytest.mark.parametrize("part", range(PARTS))
def test_workers_compute_what_the_interpreter_does(part: int, seed: int) -> None:
    warnings.simplefilter("ignore")
    for number in range(PROGRAMS):
        key = f"workers {seed} {part} {number}"
        assert failure(drawn(key), "sharded", key) is None, key


def step(data: dict[str, np.ndarray]) -> tuple[ll.Graph, dict[str, ll.Tensor]]:
    """Return a step of training by momentum, with all that can be annotated."""
    cx = ll.Graph("step")
    given = {name: cx.tensor(shape, name=name) for name, shape in SIZES.items()}
    for name, tensor in given.items():
        tensor.set(data[name])
    x, t, w1, b1, w2 = given.values()
    hidden = (x @ w1 + b1).softmax(-1).named("hidden")
    error = (hidden @ w2).named("y") - t
    loss = (error * error).mean().named("loss").retrieve()
    made = {"hidden": hidden, "loss": loss}
    for w, slope in zip((w1, b1, w2), ll.grad(loss, [w1, b1, w2]), strict=True):
        clipped = slope.named(f"d_{w.name}").retrieve() * (0.1 + slope.square().sum().sqrt())
        made[f"d_{w.name}"], made[f"n_{w.name}"] = slope, (w - clipped).named(f"n_{w.name}")
        made[f"n_{w.name}"].retrieve()
    return cx, given | made


def annotated(pick: Random, tensors: dict[str, ll.Tensor], mesh: ll.Mesh) -> dict[object, object]:
    """Draw words for some values."""
    cut: dict[object, object] = {}
    for tensor in tensors.values():
        left, words = [*mesh.sizes.items()], list[str | None]()
        pick.shuffle(left)
        for dim in tensor.shape:
            fits = [axis for axis in left if int(str(dim)) % axis[1] == 0 and pick.random() < 0.6]
            words.append(fits[0][0] if fits else None)
            left = [axis for axis in left if axis not in fits[:1]]
        if pick.random() < 0.5:
            cut[tensor] = words
    return cut


def test_a_step_of_training_may_be_cut_in_any_way(seed: int, long: bool) -> None:
    rng = np.random.default_rng(0)
    data = {k: (rng.standard_normal(n) / 2).astype("float32") for k, n in SIZES.items()}
    cx, tensors = step(data)
    cx.execute()
    expected = {id: value.numpy() for id, value in tensors.items() if cx.ir.is_output(value.node)}
    for number in range(STEPS if long else FEW):
        pick = Random(f"step {0 if long else seed} {number}")
        axes = pick.choice([{"a": 2}, {"a": 4}, {"a": 8}, {"a": 2, "b": 2}, {"a": 2, "b": 4}])
        cx, tensors = step(data)
        mesh = ll.Mesh(**axes)
        plan = ll.sharding(mesh, annotated(pick, tensors, mesh))  # pyright: ignore[reportArgumentType]
        compiled = cx.compile(ll.Sharded(plan, bucket=pick.random() < 0.5))
        cx.execute()
        for name, value in expected.items():
            told = f"{plan}\n{name}, by {pick}"
            np.testing.assert_allclose(
                tensors[name].numpy(), value, rtol=2e-5, atol=2e-6, err_msg=told
            )
        program = compiled.program
        assert isinstance(program, ShardedProgram)
        local = program.workers.partitioned.ir
        sent = [n for n in local if isinstance(n.op, Collective) and not isinstance(n.op, OwnPart)]
        told = [row.op for row in compiled.communication]
        assert sorted(node.op.name for node in sent) == sorted(told)
