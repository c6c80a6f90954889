"""Chains of views as index expressions, against what NumPy's own views show."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.core.dims import Dim, Shape, Symbol, evaluate, known
from luminal_lab.core.op import Op, View as ViewOp
from luminal_lab.core.ops import Expand, Flip, Pad, Permute, Reshape, Slice, Window
from luminal_lab.core.parse import parse
from luminal_lab.core.views import ComposedView, apply, view_of
from luminal_lab.errors import AxisError, LabError, ShapeError

B, S = Symbol("b", 1, 6), Symbol("s", 2, 8, multiple_of=2)
BINDINGS = ({"b": 1, "s": 2}, {"b": 3, "s": 4}, {"b": 2, "s": 8})


def chain(shape: Shape, *ops: ViewOp) -> ComposedView:
    return ComposedView.identity(shape).then(*ops)


# NumPy's own way to say what each op says.
def numpys(op: Op, x: np.ndarray) -> np.ndarray:
    fields: Any = op
    match op:
        case Permute():
            return np.transpose(x, fields.axes)
        case Reshape():
            return np.reshape(x, fields.shape)
        case Expand():
            return np.broadcast_to(x, fields.shape)
        case Slice():
            ranges = zip(fields.start, fields.stop, fields.step, strict=True)
            return x[tuple(slice(*place) for place in ranges)]
        case Pad():
            return np.pad(x, [*zip(fields.before, fields.after, strict=True)])
        case Flip():
            return np.flip(x, fields.axes)
        case Window(axis=axis, stride=stride, dilation=dilation):
            span = dilation * (fields.size - 1) + 1
            windows = np.lib.stride_tricks.sliding_window_view(x, span, axis)
            return windows[(slice(None),) * axis + (slice(None, None, stride),)][..., ::dilation]
        case _:
            raise NotImplementedError(op)


def check(view: ComposedView, shape: Shape, ops: list[ViewOp], dims: dict[str, int]):
    """Assert that a view shows what NumPy does, and lies where its strides say."""
    sizes = [evaluate(dim, dims) for dim in shape]
    array = want = np.arange(1, math.prod(sizes) + 1).reshape(sizes)
    for op in ops:
        want = numpys(op.bind(dims), want)
    got = apply(view, array, dims)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    if view.valid == 1 and view.affine is not None and want.size:
        offset = evaluate(view.affine[0], dims)
        strides = [evaluate(stride, dims) for stride in view.affine[1]]
        places = offset + sum(
            (at * stride for at, stride in zip(np.indices(want.shape), strides, strict=True)),
            np.zeros(want.shape, np.int64),
        )
        np.testing.assert_array_equal(array.ravel()[places], want)
    if view.is_contiguous and want.size:
        np.testing.assert_array_equal(want.ravel(), want.ravel()[0] + np.arange(want.size))


# -- examples --------------------------------------------------------------------------------------


def test_heads_of_attention_need_no_division():
    split = chain((B, S, 768), Reshape((B, S, 12, 64)))
    assert str(split.index) == "(i0, i1, 64*i2 + i3)"
    heads = split.then(Permute((0, 2, 1, 3)))
    assert str(heads.index) == "(i0, i2, 64*i1 + i3)"
    back = heads.then(Permute((0, 2, 1, 3)), Reshape((B, S, 768)))
    assert back == ComposedView.identity((B, S, 768))
    merged = heads.then(Reshape((B * 12, S, 64)))
    assert str(merged.index) == "(i0//12, i1, 64*(i0%12) + i2)"
    assert merged.then(Reshape((B, 12, S, 64))) == heads


def test_a_matmul_reads_by_strides():
    left = chain((B, S, 64), Reshape((B, S, 1, 64)), Expand((B, S, 32, 64)))
    assert str(left.index) == "(i0, i1, i3)"
    assert str(left.flat) == "64*i0*s + 64*i1 + i3"
    assert left.affine == (0, (64 * S, 64, 0, 1))
    assert not left.is_contiguous


def test_a_convolution_pads_and_slides():
    view = chain((B, 8, S), Pad((0, 1, 2), (0, 1, 2)), Window(2, 3, 1, 1), Window(1, 3, 2, 1))
    assert str(view.index) == "(i0, 2*i1 + i4 - 1, i2 + i3 - 2)"
    assert str(view.valid) == "0 < 2*i1 + i4 and 1 < i2 + i3 and i2 + i3 < s + 2"
    assert view.affine == (-S - 2, (8 * S, 2 * S, 1, 1, S))


def test_padding_that_is_cut_off_again_is_gone():
    view = chain((B, S), Pad((1, 2), (3, 4)), Slice((1, 2), (B + 1, S + 2), (1, 1)))
    assert view == ComposedView.identity((B, S))


def test_a_transpose_of_a_transpose_is_nothing():
    ops = (Reshape((4, 6)), Permute((1, 0)), Reshape((24,)))
    back = (Reshape((6, 4)), Permute((1, 0)), Reshape((24,)))
    view = chain((24,), *ops)
    assert str(view.index) == "(6*(i0%4) + i0//4,)"
    assert view.then(*back) == ComposedView.identity((24,))


def test_independent_axes_never_mix():
    view = chain((2, B, 3, S, 5, 1), Reshape((2, 1, B * 3, S * 5)))
    assert str(view.index) == "(i0, i2//3, i2%3, i3//5, i3%5, 0)"


def test_flipping_twice_and_an_axis_of_one():
    assert str(chain((4, S), Flip((0, 1))).index) == "(3 - i0, s - i1 - 1)"
    assert chain((4, S), Flip((0, 1)), Flip((1, 0))) == ComposedView.identity((4, S))
    assert ComposedView.identity((1, 3)).index[0] == 0


@pytest.mark.parametrize(
    ("view", "contiguous"),
    [
        (chain((4, 6)), True),
        (chain((4, 6), Reshape((2, 12))), True),
        (chain((4, 6), Slice((1, 0), (3, 6), (1, 1))), True),
        (chain((4, 6), Slice((0, 1), (4, 6), (1, 1))), False),
        (chain((4, 6), Permute((1, 0))), False),
        (chain((4, 1), Permute((1, 0))), True),
        (chain((4,), Pad((0,), (1,))), False),
        (chain((1,), Expand((5,))), False),
        (chain((4,), Flip((0,))), False),
        (chain((S, 6), Reshape((S * 6,))), True),
    ],
)
def test_contiguous(view: ComposedView, contiguous: bool):
    assert view.is_contiguous is contiguous


def test_affine_or_not():
    assert chain((4, 6), Permute((1, 0))).affine == (0, (1, 6))
    assert chain((4, S), Flip((1,)), Slice((0, 0), (4, S), (2, 1))).affine == (S - 1, (2 * S, -1))
    assert chain((4, 6), Permute((1, 0)), Reshape((24,))).affine is None


def test_no_elements():
    for shape, new in (((0, 3), (3, 0)), ((2, 0), (0,)), ((0,), (5, 0, 2))):
        view = chain(shape, Reshape(new))
        assert apply(view, np.zeros(shape)).shape == new
    padded = chain((0, 2), Pad((1, 0), (1, 1)))
    np.testing.assert_array_equal(apply(padded, np.ones((0, 2))), np.zeros((2, 3)))
    unknown = Symbol("z", 0, 9)
    view = chain((unknown, 4), Reshape((unknown * 4,)), Reshape((unknown, 2, 2)))
    assert apply(view, np.ones((0, 4)), {"z": 0}).shape == (0, 2, 2)


def test_the_chain_below_a_node():
    ir = parse(
        "graph g(%x: f32[b, 6]) -> (%z) {\n"
        "  %y = sin %x : f32[b, 6]\n"
        "  %t = permute{axes = [1, 0]} %y : f32[6, b]\n"
        "  %z = reshape{shape = [2, 3, b]} %t : f32[2, 3, b]\n"
        "}"
    )
    base, view = view_of(ir, "z")
    assert base is ir["y"]
    assert str(view.index) == "(i2, 3*i0 + i1)"
    base, view = view_of(ir, "y")
    assert base is ir["y"]
    assert view == ComposedView.identity(ir["y"].shape)


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (Reshape((5,)), ShapeError),
        (Permute((0, 0)), AxisError),
        (Expand((3, 6)), ShapeError),
        (Slice((0, 0), (5, 6), (1, 1)), ShapeError),
        (Pad((-1, 0), (0, 0)), ShapeError),
        (Flip((2,)), AxisError),
        (Window(0, 9, 1, 1), ShapeError),
    ],
)
def test_an_op_that_does_not_fit_says_what_it_says_in_a_graph(op: ViewOp, error: type[LabError]):
    with pytest.raises(error, match=f"^{op.name}: "):
        chain((4, 6), op)


# -- random chains ---------------------------------------------------------------------------------


def draw_op(data: st.DataObject, shape: Shape) -> ViewOp | None:
    """Return an op that fits a shape, or None where the draw makes none."""

    def each(values: Callable[[Dim], list[Any]]) -> tuple[Any, ...]:
        return tuple(data.draw(st.sampled_from(values(dim))) for dim in shape)

    kind = data.draw(st.sampled_from(["reshape", "split", "permute", "expand", "slice", "pad",
                                      "flip", "window"]))  # fmt: skip
    axis = data.draw(st.integers(0, len(shape) - 1)) if shape else 0
    match kind:
        case "permute":
            return Permute(tuple(data.draw(st.permutations(range(len(shape))))))
        case "expand":
            return Expand(each(lambda dim: [1, 2, 3] if dim == 1 else [dim]))
        case "slice":
            start = each(lambda dim: [0, 1] if known(dim >= 2) else [0])
            return Slice(start, shape, each(lambda _: [1, 1, 2, 3]))
        case "pad":
            return Pad(each(lambda _: [0, 0, 1, 2]), each(lambda _: [0, 0, 1, 2]))
        case "flip":
            return Flip((axis,) if shape else ())
        case "window" if shape:
            size, stride, dilation = (data.draw(st.integers(1, limit)) for limit in (3, 3, 2))
            fits = known(shape[axis] >= dilation * (size - 1) + 1)
            return Window(axis, size, stride, dilation) if fits else None
        case "split" if shape:
            factor = data.draw(st.sampled_from([1, 2, 3, 4, B, S]))
            rest = shape[axis] // factor
            parts = data.draw(st.permutations([factor, rest]))
            fits = rest * factor == shape[axis]
            return Reshape((*shape[:axis], *parts, *shape[axis + 1 :])) if fits else None
        case "reshape" if len(shape) > axis + 1:
            merged = shape[axis] * shape[axis + 1]
            return Reshape((*shape[:axis], merged, *shape[axis + 2 :]))
        case _:
            return Reshape((1, *shape))


SIZES = st.sampled_from([1, 2, 3, 4, 6, B, S, B + 1, 2 * B])


@settings(max_examples=250)
@given(st.lists(SIZES, min_size=1, max_size=4), st.data())
def test_random_chains(sizes: list[Dim], data: st.DataObject):
    shape = tuple(sizes)
    view, ops = ComposedView.identity(shape), []
    for _ in range(data.draw(st.integers(1, 6))):
        op = draw_op(data, view.shape)
        if op is not None:
            longer = view.then(op)
            if math.prod(evaluate(dim, BINDINGS[1]) for dim in longer.shape) < 3000:
                view = longer
                ops.append(op)
    for dims in BINDINGS:
        check(view, shape, ops, dims)
    # One op at a time or all at once is the same.
    assert chain(shape, *ops) == view


def test_long_chains_stay_short():
    shape = (4, 6, 10)
    view = ComposedView.identity(shape)
    for turn in range(40):
        order = ((1, 0, 2), (2, 1, 0), (0, 2, 1))[turn % 3]
        view = view.then(Permute(order))
        view = view.then(Reshape((240,)), Reshape(view.shape), Pad((1, 0, 2), (0, 1, 0)))
        view = view.then(Flip((turn % 3,)), Flip((turn % 3,)))
        view = view.then(
            Slice((1, 0, 2), (view.shape[0], view.shape[1] - 1, view.shape[2]), (1,) * 3)
        )
    assert len(str(view.index)) < 40
    assert view.valid == 1
    symbolic = ComposedView.identity((B, S, 12))
    for _ in range(30):
        symbolic = symbolic.then(Reshape((B * S, 3, 4)), Permute((1, 0, 2)), Permute((1, 0, 2)))
        symbolic = symbolic.then(Reshape((B, S * 12)), Reshape((B, S, 12)), Flip((1,)))
    assert symbolic == ComposedView.identity((B, S, 12))


@pytest.mark.parametrize("turns", range(1, 6))
def test_what_does_not_simplify_grows_with_the_chain_only(turns: int):
    view = ComposedView.identity((60,))
    for _ in range(turns):
        view = view.then(Reshape((4, 15)), Permute((1, 0)), Reshape((60,)))
    assert len(str(view.index)) < 30 * turns * turns
    check(view, (60,), [Reshape((4, 15)), Permute((1, 0)), Reshape((60,))] * turns, {})
