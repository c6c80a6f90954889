"""A graph that grows: names, scopes, dims, and calls that leave nothing when they fail."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dims import Symbol, bounds
from luminal_lab.core.ir import Derivation
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import Add, Update
from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DimError,
    GraphError,
    LabError,
    ParseError,
    ShapeError,
)
from luminal_lab.session import Graph
from tests.expect import error_of, state


def made():
    """A graph with a bit of everything."""
    cx = Graph()
    x = cx.tensor((2, 3), name="x").set(np.ones((2, 3)))
    s = cx.tensor(("n", 3), name="s")
    b = cx.tensor((3,), "bool", name="b")
    y = (x * 2).named("y").retrieve()
    cx.rand(2).keep()
    cx.execute()
    return cx, x, s, b, y


OTHER = Graph("other")
FOREIGN = OTHER.tensor((2, 3), name="foreign")


class WrongError(RuntimeError):
    """An error that is not ours."""


class Unreadable:
    def __array__(self, *_args, **_options):
        raise WrongError


FAILING = {
    "add": lambda cx, x, s, b, y: x + np.ones((5, 7)),
    "add list": lambda cx, x, s, b, y: x.add([[1, 2], [3]]),
    "add text": lambda cx, x, s, b, y: x + "3",
    "add none": lambda cx, x, s, b, y: None + x,
    "add foreign": lambda cx, x, s, b, y: x + FOREIGN,
    "add unreadable": lambda cx, x, s, b, y: x + Unreadable(),
    "where": lambda cx, x, s, b, y: b.where(x, np.ones((4, 4))),
    "where foreign": lambda cx, x, s, b, y: b.where(x, FOREIGN),
    "where condition": lambda cx, x, s, b, y: x.where(x, y),
    "apply dtypes": lambda cx, x, s, b, y: b.apply(Add(), x),
    "apply number": lambda cx, x, s, b, y: x.apply(Add(), 3),
    "apply foreign": lambda cx, x, s, b, y: x.apply(Add(), FOREIGN),
    "apply shapes": lambda cx, x, s, b, y: x.apply(Update(5, 0), b),
    "reshape": lambda cx, x, s, b, y: x.reshape((5, "q")).reshape(3),
    "sum axis": lambda cx, x, s, b, y: x.sum(7),
    "sum both": lambda cx, x, s, b, y: x.sum(axis=0, dim=1),
    "matmul": lambda cx, x, s, b, y: x.matmul(y),
    "softmax": lambda cx, x, s, b, y: x.softmax(4),
    "layer norm": lambda cx, x, s, b, y: x.layer_norm("k"),
    "variance": lambda cx, x, s, b, y: b.var(3),
    "cast": lambda cx, x, s, b, y: x.cast("float23"),
    "after": lambda cx, x, s, b, y: x.after(y, FOREIGN),
    "tensor shape": lambda cx, x, s, b, y: cx.tensor(("k", -1), name="z"),
    "tensor dtype": lambda cx, x, s, b, y: cx.tensor(("k", 1), "float23", name="z"),
    "tensor name": lambda cx, x, s, b, y: cx.tensor(("k", 1), name="a b"),
    "named": lambda cx, x, s, b, y: y.named(""),
    "dim": lambda cx, x, s, b, y: cx.dim("n", 3),
    "dim bounds": lambda cx, x, s, b, y: cx.dim("k", 3, 2),
    "dim number": lambda cx, x, s, b, y: cx.dim(5),
    "dim fraction": lambda cx, x, s, b, y: cx.dim("k", 1.5),
    "dim text": lambda cx, x, s, b, y: cx.dim("k", 1, "2"),
    "dim nothing": lambda cx, x, s, b, y: cx.dim("k", multiple_of=None),
    "dim name": lambda cx, x, s, b, y: cx.dim("3k"),
    "text": lambda cx, x, s, b, y: cx.tensor(("m +", 2)),
    "full": lambda cx, x, s, b, y: cx.full(("k", 2), 300, "uint8"),
    "arange": lambda cx, x, s, b, y: cx.arange(0, "k", 0),
    "linspace": lambda cx, x, s, b, y: cx.linspace(0, 1, "k"),
    "randint": lambda cx, x, s, b, y: cx.randint(3, 3, 2),
    "randn": lambda cx, x, s, b, y: cx.randn(2, "p +"),
    "set": lambda cx, x, s, b, y: x.set([1, 2]),
    "set symbolic": lambda cx, x, s, b, y: s.set(np.ones((0, 3))),
    "set unreadable": lambda cx, x, s, b, y: x.set(Unreadable()),
    "set result": lambda cx, x, s, b, y: y.set([1, 2]),
    "set dim": lambda cx, x, s, b, y: cx.set_dim("n", 0),
    "carry": lambda cx, x, s, b, y: cx.carry(y, s),
    "transfer": lambda cx, x, s, b, y: cx.transfer([x, y], [s, b]),
    "swap": lambda cx, x, s, b, y: cx.swap(x, b),
    "function": lambda cx, x, s, b, y: cx.function(len, x, 3, shape=("k",)),
    "function shape": lambda cx, x, s, b, y: cx.function(len, x, shape=("k", None)),
    "retrieve": lambda cx, x, s, b, y: cx.retrieve([b, FOREIGN]),
    "retrieve other": lambda cx, x, s, b, y: cx.keep([b, 3]),
    "delete": lambda cx, x, s, b, y: cx.delete_inputs(y, b),
    "missing": lambda cx, x, s, b, y: cx["xx"],
    "diff": lambda cx, x, s, b, y: y.diff([1, 2]),
    "diff file": lambda cx, x, s, b, y: y.diff("nowhere.npy"),
    "len": lambda cx, x, s, b, y: len(s),
    "bool": lambda cx, x, s, b, y: bool(b),
    "item": lambda cx, x, s, b, y: y.item(),
    "index": lambda cx, x, s, b, y: x[9],
    "iterate": lambda cx, x, s, b, y: list(s),
    "parameter": lambda cx, x, s, b, y: cx.parameter(3),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_leaves_nothing(name):
    call = FAILING[name]
    cx, *tensors = made()
    for scoped in (False, True):
        before = state(cx)
        with pytest.raises((LabError, WrongError)) as caught:  # noqa: PT012
            if scoped:
                with cx.scope("part"):
                    call(cx, *tensors)
            else:
                call(cx, *tensors)
        assert state(cx) == before
        assert cx.begun is None
        if isinstance(caught.value, LabError):
            assert "lambda cx, x, s, b, y: " in str(caught.value.where)
            assert caught.value.hint
    verify(cx.ir)


def test_a_call_that_fails_after_many_nodes_leaves_room_for_the_next():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    for _ in range(50):
        x.exp2()

    def fails():
        with cx.whole():
            for _ in range(200):
                x.exp2()
            raise KeyError

    error_of(fails, KeyError)
    nodes = [x.exp2().node for _ in range(200)]
    assert [node.id for node in nodes] == list(range(51, 251))
    assert [cx.ir[node.id] for node in nodes] == nodes
    verify(cx.ir)


@given(st.lists(st.sampled_from(sorted(FAILING)), max_size=12))
def test_many_calls_that_fail_between_calls_that_do_not(names):
    cx, *tensors = made()
    cy, *others = made()
    for number, name in enumerate(names):
        with pytest.raises((LabError, WrongError)):
            FAILING[name](cx, *tensors)
        one, two = (t[0] + np.full(3, number) for t in (tensors, others))
        tensors[0], others[0] = one.named(f"next_{number}"), two.named(f"next_{number}")
    assert cx.ir == cy.ir
    assert str(cx) == str(cy)
    assert state(cx)[3:] == state(cy)[3:]


def test_an_interrupt_in_the_middle_of_a_call_leaves_nothing():
    cx, x, *_ = made()

    class Interrupts:
        def __array__(self, *_args, **_options):
            raise KeyboardInterrupt

    before = state(cx)
    for call in (lambda: x + Interrupts(), lambda: x.set(Interrupts())):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert state(cx) == before
    _ = x + 1


def test_ids_of_what_failed_are_free_of_its_data():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    with pytest.raises(ShapeError):
        _ = x + np.ones(5)
    y = x * 2
    assert y.id == 2
    error_of(y.numpy)
    _ = x + np.array([1, 2])
    assert list(cx._data) == [cx.ir.inputs[-1].id]


# -- names and scopes ------------------------------------------------------------------------------


def test_names_are_made_unique():
    cx = Graph()
    names = [cx.tensor((2,), name="x").name for _ in range(3)]
    assert names == ["x", "x_2", "x_3"]
    y = cx["x"] + cx["x_2"]
    assert y.name == "3"
    assert y.named("x").name == "x_4"
    assert y.named("y").name == "y"
    assert y.named("y").name == "y"
    assert cx.tensor((2,), name="x_4").name == "x_4"
    assert cx["y"].id == y.id


@pytest.mark.parametrize("name", ["", "a b", "é", "1x", "x-y", "%x", "x\n", 5, b"x", "🦆"])
def test_names_that_text_cannot_have(name):
    cx = Graph()
    messages = {
        error_of(call, GraphError).message
        for call in (
            lambda: cx.tensor((2,), name=name),
            lambda: cx.ones(2).named(name),
        )
    }
    assert messages == {f"{name!r} cannot be the name of a tensor"}
    assert error_of(lambda: Graph(name)).message == f"{name!r} cannot be the name of a graph"
    error = error_of(lambda: cx.scope(name).__enter__())
    assert error.message == f"{name!r} cannot be the name of a scope"
    assert error.hint == ("a name is letters, digits, '_' and '.', and starts with a letter or '_'")


def test_scopes_nest_and_end_with_their_block():
    cx = Graph()
    x = cx.tensor((2,))
    with cx.scope("block0"):
        a = x + x
        with cx.scope("attention"):
            b = a.relu()
        c = b + a
        with pytest.raises(ZeroDivisionError), cx.scope("wrong"):
            raise ZeroDivisionError
        d = c + c
    scopes = [tensor.node.meta.scope for tensor in (x, a, b, c, d, d + d)]
    assert scopes == ["", "block0", "block0.attention", "block0", "block0", ""]


def test_a_scope_within_a_call_keeps_what_else_the_call_says():
    cx = Graph()
    x = cx.tensor((2,))
    with cx.whole():  # the call
        a = x * 2
        with cx.scope("part"):
            b = x * 3
        c = x * 4
    assert [t.node.meta.scope for t in (a, b, c)] == ["", "part", ""]
    lines = [t.node.meta.origin for t in (a, b, c)]
    assert {line and line.text for line in lines} == {"with cx.whole():  # the call"}
    with cx.deriving("rule", a.node), cx.scope("part"):
        d = x * 5
    assert d.node.meta == a.node.meta._replace(scope="part", derivation=Derivation("rule", (a.id,)))


# -- what is worked out once -----------------------------------------------------------------------


def test_equal_ops_on_equal_types_are_one_object():
    cx = Graph()
    x, y = cx.tensor((2, 3)), cx.tensor((2, 3))
    for call in (
        lambda t: t.T,
        lambda t: t.permute(1, 0),
        lambda t: t.reshape(3, 2),
        lambda t: t.sum(0, keepdim=True),
        lambda t: t.cast("int8"),
        lambda t: t.full_like(0.5),
    ):
        a, b = call(x).node, call(y).node
        assert a is not b
        assert a.op is b.op
        assert a.type is b.type
    assert x.T.T.T.type is x.T.type
    assert x.T.node.op is not Graph().tensor((2, 3)).T.node.op


def test_what_python_takes_to_be_equal_is_not_shared():
    cx = Graph()
    x = cx.tensor((2,))
    values = [0.0, -0.0, 0, 1, 1.0, True, np.float32(1), math.nan, -math.nan]
    made: list[Any] = [x.full_like(value).node.op for value in values]
    again = [x.full_like(value).node.op for value in values]
    assert [repr(op.value) for op in made] == "0.0 -0.0 0.0 1.0 1.0 1.0 1.0 nan nan".split()  # noqa: SIM905
    assert made == again
    flags, whole = cx.tensor((2,), "bool"), cx.tensor((2,), "int64")
    ones: list[Any] = [
        t.full_like(value).node.op for t, value in ((flags, 1), (whole, 1), (whole, True))
    ]
    assert [repr(op.value) for op in ones] == ["True", "1", "1"]


def fail_after(cx, make):
    with cx.whole():
        make()
        raise ZeroDivisionError


def test_dims_of_one_name_and_other_bounds_are_not_shared():
    cx = Graph()
    shapes = []

    def make():
        n = cx.dim("n", 1, 4 + len(shapes))
        shapes.append(cx.tensor((n, 2)).T.shape)
        assert shapes[-1] == (2, n)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail_after(cx, make)
    assert [bounds(shape[1]) for shape in shapes] == [(1, 4), (1, 5)]


def test_what_a_failed_call_made_can_be_made_again():
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            fail_after(cx, lambda: x.T)
        assert cx.next_id == 1
    assert str(x.T.node.op) == "Permute(axes=(1, 0))"
    for _ in range(2):
        assert error_of(lambda: x + x.T).message.startswith("add: the shapes cannot be broadcast")
    verify(cx.ir)


# -- shapes and dims -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, 3), "(2, 3)"),
        (5, "(5,)"),
        ("n", "(n,)"),
        ((), "()"),
        ((np.int64(2), np.uint8(3)), "(2, 3)"),
        (("n", "n + 1", "2*n"), "(n, n + 1, 2*n)"),
        ((0, 2**61), f"(0, {2**61})"),
    ],
)
def test_shapes(shape, text):
    assert tuple_text(Graph().tensor(shape).shape) == text


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((2, -1), ShapeError, "shape: a dim cannot be negative, but one is -1"),
        (-3, ShapeError, "shape: a dim cannot be negative, but one is -3"),
        ((2.0, 3), ShapeError, "shape: 2.0 is not a dim"),
        ((None,), ShapeError, "shape: None is not a dim"),
        (None, ShapeError, "shape: None is not a shape"),
        (2.5, ShapeError, "shape: 2.5 is not a shape"),
        (((2, 3), 4), ShapeError, "shape: (2, 3) is not a dim"),
        (("n +",), ParseError, "'n +' is not a dim"),
        (("",), ParseError, "'' is not a dim"),
        (("n ** 2",), ParseError, "'n ** 2' cannot be used in a dim"),
        (("lambda",), ParseError, "'lambda' is not a dim"),
        (("n // 0",), ShapeError, "a dim is divided by 0"),
        (("a[0]",), ParseError, "'a[0]' cannot be used in a dim"),
    ],
)
def test_what_is_no_shape(shape, kind, message):
    cx = Graph()
    error = error_of(lambda: cx.tensor(shape), kind)
    assert error.message == message
    assert error.where is not None
    assert cx._dims == {}


def test_dims_of_other_graphs_may_be_used_if_they_mean_the_same():
    one, two = Graph(), Graph()
    n = one.dim("n", 1, 8)
    two.tensor((n, 2))
    two.tensor(("n", 2))
    assert two.dim("n", 1, 8) == n
    error = error_of(lambda: two.tensor((one.dim("n", 1, 9), 2)), DimError)
    assert error.message == "dim 'n': in this graph it is 1..8, and here 1..9"
    assert error.hint == "make the dim with this graph's dim(...)"


def test_axis_and_dim_are_one_word():
    x: Any = Graph().tensor((2, 3))
    assert x.sum(dim=0).shape == x.sum(axis=0).shape == x.sum(0).shape == (3,)
    assert x.sum(dim=0, keepdims=True).shape == (1, 3)
    error = error_of(lambda: x.sum(axis=0, dim=1), AxisError)
    assert error.message == "sum: both axis and dim are given"
    assert error.hint == "they are two words for one thing; use axis"


def test_data_is_not_a_shape():
    error = error_of(lambda: Graph().tensor([1, 2, 3]))
    assert error.message == "tensor: [1, 2, 3] is not a shape, which is a tuple"
    assert error.hint == ("a tensor of data takes its shape first: cx.tensor((3,)).set([1, 2, 3])")


def test_a_scope_may_be_entered_again_and_inside_itself():
    cx = Graph()
    x = cx.tensor((2,))
    part = cx.scope("part")
    with part:
        a = x + 1
    with part:
        with part:
            b = x + 2
        c = x + 3
    assert [t.node.meta.scope for t in (a, b, c, x + 4)] == ["part", "part.part", "part", ""]


def test_what_was_written_is_one_value_as_long_as_nothing_changes():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    first = cx.ir
    assert cx.ir is first
    y = x + 1
    second = cx.ir
    assert second is not first
    assert len(first) == 1
    y.named("y")
    third = cx.ir
    assert (third is second, "y" in third, "y" in second) == (False, True, False)
    y.retrieve()
    assert cx.ir.output_ids == (y.id,)
    assert third.output_ids == ()


def test_positions_in_views_are_no_names_of_dims():
    cx = Graph()
    message = "a dim cannot be called 'i0': i0, i1, … are the positions in views"
    for call in (
        lambda: cx.tensor(("i0", 3)),
        lambda: cx.tensor(("2*i0 + 1",)),
        lambda: cx.dim("i0", 1, 4),
        lambda: cx.tensor((Symbol("i0"),)),
        lambda: parse("graph g(%x: f32[i0]) -> (%x) { }"),
        lambda: parse("graph g[i0: 1..4](%x: f32[i0]) -> (%x) { }"),
    ):
        assert message in str(error_of(call))
    cx.tensor(("i", "index0", "i_0"))


def test_what_is_derived_says_from_what():
    cx = Graph()
    x = cx.tensor((2,))
    with cx.scope("block"):
        y = x * 3
    with cx.deriving("grad-mul", y.node, x.node):
        first = x.exp()
        with cx.deriving("inner", x.node):
            inner = x + 1
        last = x * 2
    made = [tensor.node.meta for tensor in (first, inner, last)]
    assert [meta.scope for meta in made] == ["block", "", "block"]
    assert [
        meta.derivation and (meta.derivation.rule, meta.derivation.parents) for meta in made
    ] == [
        ("grad-mul", (y.id, x.id)),
        ("inner", (x.id,)),
        ("grad-mul", (y.id, x.id)),
    ]
    assert made[0].origin is y.node.meta.origin
    assert (x * 2).node.meta.derivation is None


def test_what_no_machine_can_count_is_no_dim():
    error = error_of(lambda: Graph().tensor((2, 10**30)))
    assert error.message == f"shape: {10**30} is too large for a dim"
    assert error.hint == "a dim has 62 bits"


def test_an_argument_of_the_wrong_kind_is_ours_and_leaves_nothing():
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    before = str(cx)
    error = error_of(lambda: x.softplus(np.zeros(2)), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert error.message == "softplus: cannot be called with beta=an array (2,) of float64"
    assert error.hint == "call it as x.softplus(beta=1.0, threshold=20.0)"
    assert "test_builder.py" in str(error.where)
    assert isinstance(error, TypeError)
    assert isinstance(error, ValueError)
    assert str(cx) == before
    error = error_of(lambda: x.softplus(nonsense=1), ArgumentError)  # pyright: ignore[reportCallIssue]
    assert error.message == "softplus: there is no argument 'nonsense'"


def test_more_axes_than_numpy_has():
    error = error_of(lambda: Graph().tensor((1,) * 65))
    assert error.message == "shape: 65 axes are more than the 64 that NumPy allows"


def test_runs_of_a_graph_that_keeps_something_use_one_snapshot():
    # A run asks for the outputs, and for all that a program gives: each is worked out once.
    cx = Graph()
    x = cx.tensor(("n",), name="x")
    kept = x.sin().keep()
    total = (kept + 1).retrieve()
    cx.compile()
    graphs: list[object] = []
    for size in (2, 3, 4):
        x.set(np.zeros(size, np.float32))
        cx.execute()
        graphs.append(cx.ir)
    assert all(one is graphs[0] for one in graphs)
    assert total.numpy().tolist() == [1.0] * 4
