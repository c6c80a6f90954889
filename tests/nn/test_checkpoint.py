"""Checkpoints: whoever wrote one, whoever reads it, the losses go on as they would have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import InputError
from luminal_lab.nn.checkpoint import load_state, save_state
from tests.needs import need
from tests.workers.faulty import ROWS, training

pytestmark = pytest.mark.needs("safetensors", "cc")
ROOT = Path(__file__).parents[2]
ONE = ll.CPUCompiler(threads=1)


def session(workers: int) -> tuple[ll.Graph, ll.Tensor]:
    """Return a step of training with dropout, compiled for some workers."""
    cx, loss = training()
    plan = ll.sharding(ll.Mesh(data=workers), ROWS)
    cx.compile(ll.GenericCompiler(), ONE if workers == 1 else ll.Sharded(plan, ONE))
    return cx, loss


def losses(cx: ll.Graph, loss: ll.Tensor, steps: int) -> list[float]:
    found: list[float] = []
    for _ in range(steps):
        cx.execute()
        found.append(float(loss.item()))
    return found


def test_what_four_workers_wrote_one_or_two_read(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    cx, loss = session(4)
    losses(cx, loss, 3)
    save_state(cx, path)
    expected = losses(cx, loss, 4)
    for workers in (1, 2, 4):
        cy, loss = session(workers)
        load_state(cy, path)
        found = losses(cy, loss, 4)
        if workers == 4:
            assert found == expected
        np.testing.assert_allclose(found, expected, rtol=1e-5)


ENDLESS = """
import sys
from luminal_lab.nn.checkpoint import save_state
from tests.nn.test_checkpoint import losses, session
cx, loss = session(4)
while True:
    print(*losses(cx, loss, 1), flush=True)
    save_state(cx, sys.argv[1])
"""


def test_a_run_that_was_killed_in_the_middle_goes_on_with_the_same_losses(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    command = [sys.executable, "-c", ENDLESS, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [float(process.stdout.readline()) for _ in range(5)]
        process.kill()
    cx, loss = session(4)
    load_state(cx, path)
    done = cx.step
    assert done >= 4
    after = losses(cx, loss, 3)
    cx, loss = session(4)
    expected = losses(cx, loss, max(5, done + 3))
    assert seen == expected[:5]
    assert after == expected[done : done + 3]


def test_weights_and_moments_of_an_optimiser_go_on(tmp_path: Path) -> None:
    def made() -> tuple[ll.Graph, ll.Tensor, ll.nn.Linear]:
        cx, layer = ll.Graph(), ll.nn.Linear(4, 2).initialise(0)
        x = cx.tensor((8, 4), name="x").set(np.ones((8, 4), "float32"))
        loss = layer(x).square().mean().retrieve()
        ll.nn.Adam(lr=0.1).minimise(loss, layer)
        return cx, loss, layer

    path = tmp_path / "state.safetensors"
    cx, loss, _ = made()
    losses(cx, loss, 3)
    save_state(cx, path)
    expected = losses(cx, loss, 3)
    cy, loss, _ = made()
    load_state(cy, path)
    assert losses(cy, loss, 3) == expected


W1, W2 = np.zeros((16, 32), "f4"), np.zeros((32, 4), "f4")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"w1": W1}, r"^load_state: \S+ is no checkpoint: it has no session"),
        ({"session.step": np.int64(1), "w1": W1}, r"of another graph: missing"),
        (
            {"session.step": np.int64(1), "w1": np.zeros((2, 3), "f4"), "w2": W2},
            r"of another graph: w1 is float32 \(2, 3\), and here f32\[16, 32\]",
        ),
        (
            {"session.step": np.int64(-1), "w1": W1, "w2": W2},
            r"says that there were -1 runs",
        ),
    ],
)
def test_a_file_that_does_not_fit_changes_nothing(
    tmp_path: Path, wrong: dict[str, np.ndarray], message: str
) -> None:
    path = tmp_path / "wrong.safetensors"
    need("safetensors.numpy").save_file(
        {name: np.asarray(value) for name, value in wrong.items()}, path
    )
    cx, _ = training()
    before = cx["w1"].numpy()
    with pytest.raises(InputError, match=message):
        load_state(cx, path)
    assert cx.step == 0
    np.testing.assert_array_equal(cx["w1"].numpy(), before)


def test_random_numbers_do_not_depend_on_who_draws_them() -> None:
    def drawn(device: ll.Pipeline) -> np.ndarray:
        cx = ll.Graph(seed=5)
        x = cx.tensor((8, 6), name="x").set(np.zeros((8, 6), "float32"))
        y = (x + cx.rand((8, 6)) + cx.arange(6).cast("float32")).retrieve()
        cx.compile(device)
        cx.execute()
        cx.execute()
        return y.numpy()

    alone = drawn(ll.GenericCompiler())
    for words in ({"x": ("a", None)}, {"x": (None, "b")}, {"x": ("a", "b")}):
        plan = ll.sharding(ll.Mesh(a=2, b=3), words)
        np.testing.assert_array_equal(drawn(ll.Sharded(plan)), alone)
