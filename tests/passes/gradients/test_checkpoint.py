"""Checkpointed scopes: the same gradients, computed with less memory and more work."""

import re
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.ir import IR
from luminal_lab.passes.memory import peak_bytes
from tests.tensor.against import draw, same

WIDTH, BLOCKS = 64, 6


def stack(checkpoint: Any = (), count: int = BLOCKS, dropout: float = 0.0) -> tuple[Any, list[Any]]:
    """A stack of blocks; the graph and the gradients by its input and its weights."""
    cx = ll.Graph()
    x = start = cx.tensor((32, WIDTH), "float64", "x").set(draw((32, WIDTH), "float64"))
    weights: list[Any] = []
    for k in range(count):
        with cx.scope(f"block{k}"):
            w = cx.tensor((WIDTH, WIDTH), "float64", f"w{k}")
            weights.append(w.set(draw((WIDTH, WIDTH), "float64", seed=k) / 8))
            x = x + (x.layer_norm(-1) @ w).gelu().dropout(dropout)
    found = ll.grad(x.square().mean(), [start, *weights], checkpoint=checkpoint)
    cx.retrieve(found)
    ll.verify(cx.ir)
    return cx, found


ALL = [f"block{k}" for k in range(BLOCKS)]


def merged(ir: IR) -> IR:
    """Return a graph in which equal nodes are one: what a pass that merges would make of it."""
    edit = ll.Edit(ir)
    seen: dict[Any, Any] = {}
    for node in ir.nodes:
        key = node.op, edit[node].sources, node.type
        if isinstance(node.op, ops.Input) or key not in seen:
            seen[key] = node
        else:
            edit.replace(node, seen[key])
    return edit.ir()


@pytest.mark.parametrize("checkpoint", [ALL, ["block2"], "block0", ["block1", "block1", "block4"]])
def test_the_gradients_are_the_same(checkpoint):
    (plain, wanted), (cx, found) = stack(), stack(checkpoint)
    plain.execute()
    cx.execute()
    for one, other in zip(found, wanted, strict=True):
        same(one.numpy(), other.numpy(), rtol=1e-12)


def test_less_memory_is_taken_and_more_is_computed():
    plain, cx = stack()[0].ir, stack(ALL)[0].ir
    before, after = peak_bytes(plain), peak_bytes(cx)
    assert after.bytes < before.bytes / 2, f"{before}\n{after}"
    assert len(cx) > len(plain)
    # A pass that merges equal nodes cannot undo it.
    assert peak_bytes(merged(cx)).bytes < peak_bytes(merged(plain)).bytes / 2
    one = peak_bytes(stack(["block2"])[0].ir)
    assert after.bytes < one.bytes < before.bytes


def test_no_copy_can_run_before_the_gradient_arrives():
    ir = stack(ALL)[0].ir
    copies = [
        n for n in ir if n.meta.derivation is not None and n.meta.derivation.rule == "recompute"
    ]
    originals = {n.meta.derivation.parents[0] for n in copies if n.meta.derivation is not None}
    assert len(originals) > BLOCKS * 10
    last = max(n.id for n in ir if n.meta.derivation is None)
    seeds = {
        n.id
        for n in ir
        if n.id > last and n.meta.derivation and n.meta.derivation.rule == "grad-loss"
    }
    for copy in copies:
        if not isinstance(copy.op, ops.Random):
            assert seeds & ir.ancestors([copy]), "it waits for what comes back"


def test_copies_belong_where_their_originals_do():
    ir = stack(ALL)[0].ir
    for node in ir:
        made = node.meta.derivation
        if made is not None and made.rule == "recompute":
            original = ir[made.parents[0]]
            assert node.meta.scope == original.meta.scope
            assert node.meta.origin == original.meta.origin


def test_random_numbers_are_drawn_again_the_same():
    (plain, wanted), (cx, found) = stack(dropout=0.5), stack(ALL, dropout=0.5)
    for _ in range(2):
        plain.execute()
        cx.execute()
        for one, other in zip(found, wanted, strict=True):
            same(one.numpy(), other.numpy(), rtol=1e-12)


def test_a_scope_has_those_within_it():
    cx = ll.Graph()
    x = cx.tensor((4,), "float64", "x").set(draw((4,), "float64"))
    with cx.scope("h"):
        with cx.scope("inner"):
            y = x.sin()
        y = y.exp()
    with cx.scope("hidden"):
        y = y.cos()
    slope = ll.grad(y.sum(), x, checkpoint=["h"]).retrieve()
    scopes = {
        n.meta.scope for n in cx.ir if n.meta.derivation and n.meta.derivation.rule == "recompute"
    }
    assert scopes == {"h", "h.inner"}
    cx.execute()
    data = x.numpy()
    same(
        slope.numpy(),
        -np.sin(np.exp(np.sin(data))) * np.exp(np.sin(data)) * np.cos(data),
        rtol=1e-9,
    )


def test_backward_takes_scopes_too():
    cx = ll.Graph()
    x = cx.tensor((4,), "float64", "x")
    with cx.scope("h"):
        y = x.sin().exp()
    y.sum().backward(checkpoint=["h"])
    assert re.search(r"= after %x", str(cx))


def test_a_deep_scope():
    cx = ll.Graph()
    x = y = cx.tensor((), "float64", "x").set(0.5)
    with cx.scope("h"):
        for _ in range(2000):
            y = y.apply(ops.Sin())
    slope = ll.grad(y, x, checkpoint=["h"]).retrieve()
    cx.execute()
    assert 0 < slope.item() < 1


def test_a_scope_that_is_not_there():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    with cx.scope("block0"):
        y = x.sin().sum()
    before = str(cx)
    with pytest.raises(ll.GraphError) as caught:
        ll.grad(y, x, checkpoint=["blok0"])
    assert caught.value.message == "grad: the loss is computed by no node in the scope 'blok0'"
    assert caught.value.hint == "did you mean 'block0'?"
    assert str(cx) == before


def test_a_scope_in_another_belongs_to_the_one_named_first():
    cx = ll.Graph()
    x = cx.tensor((4,), "float64", "x").set([1.0, 2.0, 3.0, 4.0])
    with cx.scope("a"):
        with cx.scope("b"):
            y = x.sin()
        y = (y * x).exp()
        with cx.scope("c"):
            y = (y * y).cos()
    ways = [[], ["a"], ["a", "a.b"], ["a.b", "a"], ["a.c", "a.b"], "a"]
    slopes = [ll.grad(y.sum(), x, checkpoint=names).retrieve() for names in ways]
    cx.execute()
    assert all(slope.tolist() == slopes[0].tolist() for slope in slopes)
