"""Functions spelled by formulas: their gradients are those of the functions."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.session import Graph

DERIVATIVES = {
    "exp": (np.exp, 2),
    "sigmoid": (lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2, 8),
    "cos": (lambda x: -np.sin(x), 5),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_derivative_is_short_and_right(name):
    exact, most = DERIVATIVES[name]
    cx = Graph()
    x = cx.tensor((5,), "float64", name="x").set([-3, -0.5, 0, 1, 2])
    y = getattr(x, name)()
    slope = ll.grad(y.sum(), x).retrieve()
    cx.execute()
    np.testing.assert_allclose(slope.numpy(), exact(x.numpy()), rtol=1e-12, atol=1e-15)
    assert len(cx.compile().ir) <= most
    rules = {
        node.meta.derivation.rule for node in cx.gradients[0].ir if node.meta.derivation is not None
    }
    assert f"grad-{name}" in rules
    assert "grad-exp2" not in rules


def test_the_derivative_of_exp_is_exp_again_and_again():
    cx = Graph()
    x = cx.tensor((3,), name="x").set([0, 1, 2])
    y = x.exp()
    first = ll.grad(y.sum(), x)
    second = ll.grad(first.sum(), x)
    third = ll.grad(second.sum(), x).retrieve()
    y.retrieve()
    cx.execute()
    np.testing.assert_array_equal(third.numpy(), y.numpy())
    cx.compile()
    assert cx.compilation.ir.output_ids[0] == cx.compilation.ir.output_ids[1]


def test_what_is_inside_of_a_formula_can_be_asked_for():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([0.5, 1])
    y = x.exp()
    inner = cx[str(x.id + 3)]
    assert inner.node.op.name == "mul"  # x / 4, whose power is one of the factors
    slope = ll.grad(y.sum(), inner).retrieve()
    cx.execute()
    np.testing.assert_allclose(slope.numpy(), np.log(2) * np.exp([0.5, 1]), rtol=1e-6)


def test_a_branch_not_taken_counts_for_nothing():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 1000])
    safe = (x < 100).where(x.exp(), 0.0)
    slope = ll.grad(safe.sum(), x).retrieve()
    cx.execute()
    np.testing.assert_allclose(slope.numpy(), [np.e, 0], rtol=1e-6)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("include_self", [True, False])
def test_extremes_of_what_is_scattered_are_shared_among_what_is_there(reduce, dtype, include_self):
    worst = -np.inf if reduce == "amax" else np.inf
    cx = Graph()
    x = cx.tensor((4,), dtype, "x").set([worst, worst, 0, 5])
    index = cx.tensor((5,), "int64", "index").set([1, 1, 2, 2, 3])
    source = cx.tensor((5,), dtype, "source").set([worst, worst, 0, 0, np.nan])
    done = x.scatter_reduce(0, index, source, reduce, include_self=include_self)
    slopes = ll.grad((done * cx.arange(1, 5)).sum(), [x, source])
    cx.retrieve(slopes)
    cx.execute()
    own = [1, 2 / 3, 1, np.nan] if include_self else [1, 0, 0, 0]
    theirs = [2 / 3, 2 / 3, 1, 1, np.nan] if include_self else [1, 1, 1.5, 1.5, np.nan]
    np.testing.assert_allclose(slopes[0].numpy(), own, rtol=1e-3)
    np.testing.assert_allclose(slopes[1].numpy(), theirs, rtol=1e-3)
