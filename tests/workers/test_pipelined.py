"""Pipelines: stages by scope, microbatch by microbatch; values and gradients as without them."""

from __future__ import annotations

import re
from threading import Event
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.errors import ArgumentError, DeviceError, PassError
from luminal_lab.workers import patience
from luminal_lab.workers.lanes import Lanes, Work
from luminal_lab.workers.pipelined import Pipelined
from luminal_lab.workers.turns import Turns
from tests.needs import need
from tests.workers.faulty import Made, held, layers, staged, stages


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("workers", "count"), [(1, 2), (2, 1), (2, 4), (3, 8), (4, 2)])
def test_a_step_of_training_is_the_same_in_stages(workers: int, count: int, schedule: str) -> None:
    how = Pipelined(
        stages(4, workers),
        batch=("x", "t"),
        microbatches=count,
        schedule=schedule,  # pyright: ignore[reportArgumentType]
    )
    program = held(layers(4), layers(4), how)
    lanes = program.lanes
    sent = [one for one in lanes.sent if one.source != one.to]
    # Between neighbours, one activation forward and one gradient back for each microbatch.
    assert len(sent) == 2 * (workers - 1) * count
    assert all(abs(one.source - one.to) == 1 and one.bytes == 8 * 8 * 4 // count for one in sent)
    expected = [count if schedule == "gpipe" else min(count, workers - k) for k in range(workers)]
    assert [*lanes.kept][:-1] == expected[:-1]
    assert lanes.kept[-1] == 1  # the last stage goes back at once


def test_forward_alone_gives_whole_outputs() -> None:
    how = Pipelined(stages(4, 2) | {"loss": 1}, batch="x", microbatches=4)
    cx, outputs = layers(4, trains=False)
    with pytest.raises(PassError, match="no scope of deep is 'loss'"):
        cx.compile(how)
    how = Pipelined({"layer[01]": 0, "layer[23]": 1}, batch="x", microbatches=4)
    held((cx, outputs), layers(4, trains=False), how, checked=True)


def test_a_device_runs_the_stages() -> None:
    need("cc")
    how = Pipelined(
        stages(2, 2), ll.CPUCompiler(threads=1), batch=("x", "t"), microbatches=2, schedule="1f1b"
    )
    program = held(layers(2), layers(2), how)
    assert [*program.worker(0)] == ["forward", "backward", "end"]
    assert [*program.worker(1)] == ["forward", "end"]
    assert any(node.op.name == "receive" for node in program.worker(1)["forward"].ir)
    # What is kept for the way back is no broadcast of it.
    assert all(len(node.shape) == 2 for node in program.worker(0)["backward"].ir.inputs)


def decoder() -> Made:
    model = nn.models.GPT2(layers=2, heads=4, width=32, vocab=48, context=4)
    rng, cx = np.random.default_rng(0), ll.Graph("gpt2")
    for parameter in model.parameters().values():
        shape = [dim for dim in parameter.shape if isinstance(dim, int)]
        parameter.set((rng.standard_normal(shape) / 5).astype("float32"))
    tokens, wanted = cx.tensor((8, 4), "int64", name="tokens"), np.arange(32).reshape(8, 4)
    loss = -model(tokens.set(wanted % 48)).log_softmax(-1).mean()
    slopes = ll.grad(loss, [*model.parameters().values()])
    return cx, [loss.named("loss").retrieve(), *(slope.retrieve() for slope in slopes)]


def test_a_gpt_in_two_stages_has_the_same_gradients() -> None:
    how = Pipelined({"gpt2.h.0*": 0, "gpt2.h.1*": 1}, batch="tokens", microbatches=4)
    held(decoder(), decoder(), how)


def test_what_needs_the_whole_batch_is_refused_at_its_line() -> None:
    cx = ll.Graph("normed")
    x = cx.tensor((8, 4), name="x").set(np.ones((8, 4), "f"))
    with cx.scope("first"):
        h = x.exp()
    with cx.scope("second"):
        (h - h.mean(0)).retrieve()
    with pytest.raises(PassError, match="cannot be computed by microbatches"):
        cx.compile(Pipelined({"first": 0, "second": 1}, batch="x", microbatches=2))


def classes(ignored: int | None) -> Made:
    """Return a step towards classes, of which none is ignored."""
    cx, rng = ll.Graph("classes"), np.random.default_rng(0)
    x = cx.tensor((8, 4), name="x").set(rng.standard_normal((8, 4)).astype("f"))
    t = cx.tensor((8,), "int64", name="t").set(np.arange(8) % 5)
    with cx.scope("first"):
        w = cx.tensor((4, 5), name="w").set(rng.standard_normal((4, 5)).astype("f"))
        h = (x @ w).tanh()
    with cx.scope("second"):
        loss = nn.losses.cross_entropy(h, t, ignore_index=ignored)
    return cx, [loss.named("loss").retrieve(), ll.grad(loss, [w])[0].retrieve()]


def test_a_mean_over_all_targets_is_that_of_the_microbatches() -> None:
    how = Pipelined({"first": 0, "second*": 1}, batch=("x", "t"), microbatches=4)
    held(classes(None), classes(None), how)
    with pytest.raises(PassError, match="it reads a sum over all microbatches") as caught:
        classes(-100)[0].compile(how)
    assert "which with ignore_index=None is that of all" in str(caught.value)


def test_back_and_forth_is_refused() -> None:
    cx = ll.Graph("zigzag")
    h = cx.tensor((8, 4), name="x").set(np.ones((8, 4), "f"))
    for k, scope in enumerate(("a", "b", "a", "b")):
        with cx.scope(scope):
            h = h.exp() if k % 2 else h.sin()
    h.retrieve()
    with pytest.raises(PassError, match="back and forth") as caught:
        cx.compile(Pipelined({"a": 0, "b": 1}, batch="x", microbatches=2))
    assert "numbers in the order in which values go through them" in str(caught.value)


def test_bad_input_is_told() -> None:
    with pytest.raises(ArgumentError, match="none is left out"):
        Pipelined({"a": 0, "b": 2}, batch="x")
    with pytest.raises(ArgumentError, match="0 microbatches"):
        Pipelined({"a": 0}, batch="x", microbatches=0)
    with pytest.raises(ArgumentError, match="the schedule is"):
        Pipelined({"a": 0}, batch="x", schedule="2f2b")  # pyright: ignore[reportArgumentType]
    cx, _ = layers(2)
    message = "the batch %x has 8 rows, which 3 microbatches do not divide"
    with pytest.raises(PassError, match=message) as caught:
        cx.compile(Pipelined(stages(2, 2), batch=("x", "t"), microbatches=3))
    assert caught.value.hint == "microbatches=2 divides it"
    free = ll.Graph()
    (free.tensor(("batch", 2), name="x") * 2).retrieve()
    with pytest.raises(PassError, match="the batch %x has batch rows, and microbatches are cut"):
        free.compile(Pipelined({"": 0}, batch="x", microbatches=2))
    for batch in (None, cx["x"], 3):
        with pytest.raises(ArgumentError, match=r"^Pipelined: the batch is "):
            Pipelined({"a": 0}, batch=batch)  # pyright: ignore[reportArgumentType]
    for stage in ("0", 0.0, None):
        with pytest.raises(ArgumentError, match=r"^Pipelined: the stages are ") as caught:
            Pipelined({"a": stage}, batch="x")  # pyright: ignore[reportArgumentType]
        assert caught.value.hint == "give a whole number for each pattern, from 0"
    with pytest.raises(PassError, match="the batch 'y' names no input"):
        cx.compile(Pipelined(stages(2, 2), batch=("x", "y"), microbatches=2))


def test_a_stage_that_fails_ends_the_others() -> None:
    cx, x, y, how = staged()
    cx.compile(how)
    x.set(np.full((4, 2), 1))
    with pytest.raises(ValueError, match="no such luck") as caught:  # and not of who waits for it
        cx.execute()
    assert "in worker 1 (stage 1)" in caught.value.__notes__
    assert any("y = (h.apply(Fault())" in note for note in caught.value.__notes__)
    x.set(np.zeros((4, 2)))
    cx.execute()
    assert y.item() == 4


def test_a_stage_that_stands_still_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cx, outputs = layers(2)
    cx.compile(Pipelined(stages(2, 2), batch=("x", "t"), microbatches=2))
    monkeypatch.setattr(patience, "PATIENCE", 0.5)
    turn, over = Turns.turn, Event()

    def still(self: Turns, *rest: Any) -> dict[int, np.ndarray]:
        if self.rank == 0:
            over.wait(20)
        return turn(self, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Turns, "turn", still)
        with pytest.raises(DeviceError, match=r"^worker 0 \(stage 0\) has hung") as caught:
            cx.execute()
    assert re.search(r"\n  before %\d+ = send\{to = 1, ", str(caught.value))
    assert "h = (h @ weights[-1]).tanh()" in str(caught.value)  # the user's line
    over.set()
    cx.execute()
    assert np.isfinite(outputs[0].item())


def test_bubbles_of_equal_stages_are_those_of_the_formula() -> None:
    work = [
        Work(worker, "forward", k, float(worker + k), float(worker + k + 1))
        for worker in range(3)
        for k in range(4)
    ]
    lanes = Lanes(3, 4, tuple(work), ())
    assert lanes.bubbles == pytest.approx(lanes.formula) == pytest.approx(2 / 6)
    assert str(lanes).splitlines()[1].startswith(" 1  ░░░")
