"""Gradients of random chains of views, against finite differences: they are linear, so exactly."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.op import View
from tests.passes.gradients.against import differences, ours_by, weights
from tests.tensor.against import draw


@st.composite
def chains(draw_from: Any) -> tuple[tuple[int, ...], list[View]]:
    """A shape, and views that follow one another on it."""
    shape = draw_from(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    chain: list[View] = []
    now = shape
    for _ in range(draw_from(st.integers(1, 5))):
        op = draw_from(one_view(now))
        made = op.infer(ll.TensorType(ll.DType.float64, now)).shape
        if np.prod(made) <= 200 and len(made) <= 5:
            chain.append(op)
            now = made
    return shape, chain


def one_view(shape: tuple[int, ...]) -> st.SearchStrategy[View]:
    """Any view of a shape."""
    rank = len(shape)
    per_axis = lambda low, high: st.tuples(*[st.integers(low, high)] * rank)  # noqa: E731
    kinds: list[st.SearchStrategy[View]] = [
        st.permutations(range(rank)).map(lambda axes: ops.Permute(tuple(axes))),
        st.tuples(per_axis(0, 2), per_axis(0, 2)).map(lambda ends: ops.Pad(*ends)),
        st.sets(st.integers(0, rank - 1)).map(lambda axes: ops.Flip(tuple(sorted(axes)))),
        st.tuples(
            *[st.tuples(*[st.integers(0, n)] * 2).map(sorted) for n in shape], per_axis(1, 3)
        ).map(lambda parts: sliced(parts[:-1], parts[-1])),
        st.tuples(st.integers(0, rank - 1), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
        .filter(lambda w: w[3] * (w[1] - 1) < shape[w[0]])
        .map(lambda w: ops.Window(*w)),
        st.just(ops.Reshape((int(np.prod(shape)),))),
        st.just(ops.Reshape((*shape, 1))),
        st.just(ops.Expand(tuple(3 if n == 1 else n for n in shape))),
    ]
    if rank > 1:
        kinds.append(st.just(ops.Reshape((shape[0] * shape[1], *shape[2:]))))
    return st.one_of(kinds)


def sliced(ends: Any, step: tuple[int, ...]) -> View:
    start, stop = zip(*ends, strict=True)
    return ops.Slice(start, stop, step)


@given(chains())
def test_chains_of_views(drawn):
    shape, chain = drawn

    def ours(x: Any) -> Any:
        for op in chain:
            x = x.apply(op)
        return x

    x = draw(shape, "float64")
    (found,) = ours_by(ours, x)
    # Which element is read where is seen by reading numbers.
    cx = ll.Graph()
    places = ours(cx.tensor(shape, "float64").set(np.arange(1, x.size + 1).reshape(shape)))
    places.retrieve()
    cx.execute()
    read = places.numpy().astype(int)
    wanted = np.zeros(x.size + 1)
    np.add.at(wanted, read.ravel(), weights(read.shape).ravel())
    np.testing.assert_allclose(found, wanted[1:].reshape(shape), rtol=1e-9, atol=1e-9)


def test_between_views_other_ops_stand():
    def ours(x: Any) -> Any:
        return x.T[::2].exp().reshape(-1).unfold(0, 3, 2).flip(1).max(0).pad(((1, 1),)).sin()

    differences(ours, draw((4, 5), "float64"))


SYMBOLIC = {
    "cumsum": lambda x: x.cumsum(0),
    "slice": lambda x: x[1::2] * 1.0,
    "slice from behind": lambda x: x.flip(0)[:3],
    "window": lambda x: x.unfold(0, 3, 1).exp(),
    "far windows": lambda x: x.unfold(0, 2, 3).exp(),
    "mean": lambda x: (x - x.mean()) * x,
    "softmax": lambda x: x.softmax(0),
    "pad": lambda x: x.pad(((2, 1),)).sin(),
    "concat": lambda x: x.concat(x * 2).sin(),
    "expand": lambda x: x.unsqueeze(1) * x,
    "repeat": lambda x: x.repeat(3).sin(),
    "max": lambda x: x.max(),
    "cummax": lambda x: x.cummax(0),
    "embedding": lambda x: x.take([0, 1, 0, 3]),
}


@pytest.mark.parametrize("high", [None, 20])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name, high):
    cx = ll.Graph()
    size = cx.dim("n", 1, high)
    x = cx.tensor((size,), "float64", "x")
    slope = ll.grad(SYMBOLIC[name](x).square().sum(), x).retrieve()
    ll.verify(cx.ir)
    for count in (4, 7):
        data = draw((count,), "float64")
        x.set(data)
        cx.execute()
        one = ll.Graph()
        same = one.tensor((count,), "float64").set(data)
        wanted = ll.grad(SYMBOLIC[name](same).square().sum(), same).retrieve()
        one.execute()
        np.testing.assert_allclose(slope.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


def test_a_slice_with_all_the_axes_that_there_are():
    cx = ll.Graph()
    shape = (*(1,) * 61, 2, 5, 2)
    x = cx.tensor(shape, name="x").set(draw(shape))
    slope = ll.grad((x[..., ::2, :] * 3.0).sum(), x).retrieve()
    cx.execute()
    assert slope.numpy()[..., 1, :, 0].ravel().tolist() == [3, 0, 3, 0, 3]
