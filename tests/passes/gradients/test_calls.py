"""Gradients through calls: those of their bodies."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.parse import parse
from tests.passes.gradients.against import differences, ours_by
from tests.tensor.against import draw, same

ONE = parse("""
graph one(%a: f64[3], %b: f64[3]) -> (%d) {
  %c = mul %a, %b : f64[3]
  %d = exp2 %c : f64[3]
  %dead = sin %d : f64[3]
}
""")
NESTED = parse("""
graph outer(%a: f64[3], %b: f64[3]) -> (%e) {
  %c = call{body = one} %a, %b : f64[3]
  %d = call{body = one} %c, %a : f64[3]
  %e = add %d, %b : f64[3]
}

graph one(%a: f64[3], %b: f64[3]) -> (%d) {
  %s = sin %a : f64[3]
  %c = mul %s, %b : f64[3]
  %d = sin %c : f64[3]
}
""")
TWO = parse("""
graph two(%a: f64[3], %i: i64[3]) -> (%s, %i, %a, %t, %s) {
  %s = sin %a : f64[3]
  %t = mul %s, %a : f64[3]
}
""")
X, Y = draw((3,), "float64"), draw((3,), "float64", seed=1, low=0, high=1)


def several(cx: Any, body: Any, *given: Any) -> list[Any]:
    """Add a call with several results, and return them."""
    types = tuple(node.type for node in body.outputs)
    id = cx.append(ops.Call(body), tuple(x.id for x in given), types[0])
    cx.put(cx.node(id)._replace(extra=types[1:]))
    return [
        ll.Tensor(cx, cx.append(ops.Pick(k), (id,), type), type) for k, type in enumerate(types)
    ]


@pytest.mark.parametrize("body", [ONE, NESTED], ids=["one", "nested"])
def test_small_steps_show_the_same(body):
    differences(lambda a, b: a.sin().apply(ops.Call(body), b) * a, X, Y)


def test_a_gradient_of_a_gradient_through_a_call():
    def ours(a: Any, b: Any) -> Any:
        return ll.grad(a.apply(ops.Call(NESTED), b).sum(), a)

    differences(ours, X, Y)


def test_several_results():
    cx = ll.Graph()
    a = cx.tensor((3,), "float64").set(X)
    i = cx.tensor((3,), "int64").set([1, 2, 3])
    s, whole, same_a, t, again = several(cx, TWO, a, i)
    loss = (s * 2 + t * t + same_a * 3 + again * whole.double()).sum()
    slope = ll.grad(loss, a).retrieve()
    ll.verify(cx.ir)
    cx.execute()
    (wanted,) = ours_by_plain(a)
    same(slope.numpy(), wanted, rtol=1e-12)


def ours_by_plain(_: Any) -> list[np.ndarray]:
    cx = ll.Graph()
    a = cx.tensor((3,), "float64").set(X)
    s, t = a.sin(), a.sin() * a
    loss = (s * 2 + t * t + a * 3 + s * np.array([1.0, 2, 3])).sum()
    slope = ll.grad(loss, a).retrieve()
    cx.execute()
    return [slope.numpy()]


def test_a_call_in_a_checkpointed_scope():
    def ours(checkpoint: tuple[str, ...]) -> np.ndarray:
        cx = ll.Graph()
        a, b = cx.tensor((3,), "float64").set(X), cx.tensor((3,), "float64").set(Y)
        with cx.scope("h"):
            y = a.exp().apply(ops.Call(NESTED), b)
            i = cx.arange(3)
            s, _, _, t, _ = several(cx, TWO, y * 2, i)
            y = y * s * t
        slope = ll.grad(y.sum(), a, checkpoint=checkpoint).retrieve()
        ll.verify(cx.ir)
        cx.execute()
        return slope.numpy()

    same(ours(("h",)), ours(()), rtol=1e-12)


def test_only_what_a_gradient_reads_is_written_again():
    cx = ll.Graph()
    a, b = cx.tensor((3,), "float64", "a"), cx.tensor((3,), "float64", "b")
    y = a.apply(ops.Call(ONE), b)
    loss = y.sum()
    first = cx.next_id
    ll.grad(loss, b)
    made = [cx.node(id) for id in range(first, cx.next_id)]
    assert not any(isinstance(node.op, (ops.Sin, ops.Exp2)) for node in made)
    assert all(node.meta.derivation is not None for node in made)
    belongs = {node.meta.derivation.parents[0] for node in made if node.meta.derivation is not None}
    assert y.id in belongs
    assert ours_by(lambda a, b: a.apply(ops.Call(ONE), b), X, Y)[1].shape == (3,)
