"""What is known of old must come out by itself: count, kind, axis and bytes of collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.workers.ops import AllReduce

Row: TypeAlias = tuple[str, str, str, ll.Dim]
"""An op, an axis of the mesh, a value, and the bytes that each worker sends."""
WORKERS = [1, 2, 4, 8]
ROWS = {"x": ("data", None), "t": ("data", None)}
WEIGHTS = {"w1": 16 * 32 * 4, "w2": 32 * 8 * 4}


def draw(rng: np.random.Generator, tensor: ll.Tensor) -> None:
    shape = [dim for dim in tensor.shape if isinstance(dim, int)]
    tensor.set((rng.standard_normal(shape) / 4).astype("float32"))


def training(width: int = 32) -> tuple[ll.Graph, list[ll.Tensor]]:
    """Return a step of training, with its data."""
    cx = ll.Graph("mlp")
    x, t = cx.tensor((8, 16), name="x"), cx.tensor((8, 8), name="t")
    w1, w2 = cx.tensor((16, width), name="w1"), cx.tensor((width, 8), name="w2")
    error = (x @ w1).relu() @ w2 - t
    loss = (error * error).mean().named("loss").retrieve()
    slopes = ll.grad(loss, [w1, w2])
    new = [
        (w - 0.1 * slope).named(f"n{k + 1}").retrieve()
        for k, (w, slope) in enumerate(zip((w1, w2), slopes, strict=True))
    ]
    rng = np.random.default_rng(0)
    for tensor in (x, t, w1, w2):
        draw(rng, tensor)
    return cx, [loss, *new]


def forward() -> tuple[ll.Graph, list[ll.Tensor]]:
    """Return two layers with biases."""
    cx = ll.Graph("mlp")
    x, w1 = cx.tensor((4, 16), name="x"), cx.tensor((16, 32), name="w1")
    b1, w2 = cx.tensor((32,), name="b1"), cx.tensor((32, 16), name="w2")
    b2 = cx.tensor((16,), name="b2")
    y = ((x @ w1 + b1).gelu() @ w2 + b2).named("y").retrieve()
    rng = np.random.default_rng(1)
    for tensor in (x, w1, b1, w2, b2):
        draw(rng, tensor)
    return cx, [y]


def sent(compiled: ll.Compilation) -> list[Row]:
    return [(row.op, row.axis, str(row.of), row.bytes) for row in compiled.communication]


def held(
    made: Callable[[], tuple[ll.Graph, list[ll.Tensor]]],
    mesh: ll.Mesh,
    annotations: Mapping[str, tuple[str | None, ...]],
    device: ll.Pipeline | None = None,
) -> ll.Compilation:
    """Compile for a mesh, and hold what the workers compute to the interpreter."""
    cx, outputs = made()
    cx.execute()
    expected = [output.numpy() for output in outputs]
    cy, outputs = made()
    plan = ll.sharding(mesh, annotations)
    checked = "values" if mesh.workers == 2 else None
    compiled = cy.compile(ll.Sharded(plan, device), check=checked)
    cy.execute()
    for output, value in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output.numpy(), value, rtol=1e-6, atol=1e-6)
    return compiled


@pytest.mark.parametrize("workers", WORKERS)
def test_data_parallel_sends_each_gradient_once(workers: int) -> None:
    compiled = held(training, ll.Mesh(data=workers), ROWS)
    ring = [("loss", 4), *WEIGHTS.items()] if workers > 1 else []
    counted = [(op, axis, size) for op, axis, _, size in sent(compiled)]
    expected = [("all_reduce", "data", 2 * size * (workers - 1) // workers) for _, size in ring]
    assert sorted(counted) == sorted(expected)


def test_small_sums_are_sent_together() -> None:
    plan = ll.sharding(ll.Mesh(data=2), ROWS)
    cx, _ = training()
    compiled = cx.compile(ll.Sharded(plan))
    worker = compiled.program.worker  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    assert [count(worker[k].ir) for k in (0, 1)] == [3, 1]
    apart = cx.compile(ll.Sharded(plan, bucket=False))
    worker = apart.program.worker  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    assert count(worker.ir) == 3


def count(ir: ll.IR) -> int:
    return sum(isinstance(node.op, AllReduce) for node in ir)


@pytest.mark.parametrize("workers", WORKERS)
def test_megatrons_layers_send_their_output_once(workers: int) -> None:
    annotations = {"w1": (None, "model"), "b1": ("model",), "w2": ("model", None)}
    compiled = held(forward, ll.Mesh(model=workers), annotations)
    size = 2 * (4 * 16 * 4) * (workers - 1) // workers
    counted = [(op, axis, size) for op, axis, _, size in sent(compiled)]
    assert counted == ([("all_reduce", "model", size)] if workers > 1 else [])
    if workers > 1:
        (row,) = compiled.communication
        assert row.line.text.startswith("y = ((x @ w1 + b1).gelu() @ w2 + b2)")


@pytest.mark.parametrize("workers", WORKERS)
def test_sharded_weights_are_gathered_and_their_gradients_scattered(workers: int) -> None:
    cut = dict.fromkeys(("w1", "w2", "n1", "n2"), ("data", None))
    compiled = held(training, ll.Mesh(data=workers), ROWS | cut)
    if workers == 1:
        assert sent(compiled) == []
        return
    parts = {name: size * (workers - 1) // workers for name, size in WEIGHTS.items()}
    gathers = [row for row in sent(compiled) if row[0] == "all_gather"]
    assert gathers == [("all_gather", "data", f"%{name}", size) for name, size in parts.items()]
    counted = sorted((op, size) for op, _, _, size in sent(compiled) if op != "all_gather")
    scatters = [("reduce_scatter", size) for size in parts.values()]
    assert counted == sorted([("all_reduce", 8 * (workers - 1) // workers), *scatters])


@pytest.mark.parametrize(("data", "model"), [(2, 2), (2, 4), (4, 2)])
def test_two_axes_send_each_over_its_own(data: int, model: int) -> None:
    cut = {"w1": (None, "model"), "w2": ("model", None)}
    compiled = held(training, ll.Mesh(data=data, model=model), ROWS | cut)
    expected = [("all_reduce", "model", 2 * (8 * 8 * 4 // data) * (model - 1) // model)]
    expected += [
        ("all_reduce", "data", 2 * size * (data - 1) // data)
        for size in (4, *(size // model for size in WEIGHTS.values()))
    ]
    assert sorted((op, axis, size) for op, axis, _, size in sent(compiled)) == sorted(expected)


def test_the_same_on_the_cpu() -> None:
    device = ll.CPUCompiler(threads=1)
    compiled = held(training, ll.Mesh(data=2), ROWS, device)
    assert [row.op for row in compiled.communication] == ["all_reduce"] * 3


def test_carried_weights_keep_their_layout() -> None:
    cx = ll.Graph("step")
    x, w = cx.tensor((8, 16), name="x"), cx.tensor((16, 4), name="w")
    loss = ((x @ w) ** 2).mean().named("loss").retrieve()
    (slope,) = ll.grad(loss, [w])
    cx.carry(w - 0.1 * slope, w)
    plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None), "w": ("data", None)})
    compiled = cx.compile(ll.Sharded(plan))
    assert sorted(row.op for row in compiled.communication) == [
        "all_gather",
        "all_reduce",
        "reduce_scatter",
    ]
