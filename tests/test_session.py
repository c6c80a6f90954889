"""The session: what a run computes and keeps, where data comes from, what an error leaves."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import interrupts
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.ops import Slice, Update
from luminal_lab.core.parse import parse
from luminal_lab.errors import (
    DimError,
    DTypeError,
    GraphError,
    InputError,
    Interrupted,
    NotComputedError,
    RangeError,
    ShapeError,
    UnknownNameError,
)
from luminal_lab.session import PUBLIC, Graph
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.running import run
from tests.expect import error_of, state

lab: Any = ll

ROOT = Path(__file__).resolve().parents[1]


NUMBER: Any = 3


class Count:
    """A host function that counts its calls."""

    def __init__(self, call=lambda x: x + 1):
        self.calls = 0
        self.call = call

    def __call__(self, *args):
        self.calls += 1
        return self.call(*args)


# -- the story of the README -----------------------------------------------------------------------


def test_the_first_example():
    cx = Graph()
    a = cx.tensor((3, 1)).set([[1.0], [2.0], [3.0]])
    b = cx.tensor((1, 4)).set([[1.0, 2.0, 3.0, 4.0]])
    c = a.matmul(b).retrieve()
    assert str(c) == f"%{c.name}: f32[3, 4], not computed yet; run cx.execute()"
    cx.execute()
    np.testing.assert_array_equal(c.numpy(), np.outer([1, 2, 3], [1, 2, 3, 4]))
    assert str(c) == (
        "[[ 1.,  2.,  3.,  4.],\n [ 2.,  4.,  6.,  8.],\n [ 3.,  6.,  9., 12.]]\n"
        f"%{c.name}: f32[3, 4]"
    )
    assert (c.shape, c.dtype) == ((3, 4), "float32")
    assert str(cx).startswith("graph main(%0: f32[3, 1], %1: f32[1, 4]) -> (")
    assert repr(cx) == f"<Graph main: {len(cx.ir)} nodes, 2 inputs, 1 output; print(cx) shows it>"


def test_tensors_are_found_by_name():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    y = (x * 2).named("double")
    assert cx["x"].id == x.id
    assert cx["double"].id == cx["%double"].id == y.id
    assert str(error_of(lambda: cx["doble"], GraphError)).startswith(
        "main: there is no node %doble\n"
    )
    assert error_of(lambda: cx["doble"]).hint == "did you mean 'double'?"


def test_a_graph_goes_with_its_last_handle():
    cx = Graph()
    y = (cx.tensor((2,)).set([1, 2]) * 2).print().retrieve()
    cx.execute()
    gone = weakref.ref(cx)
    gc.disable()
    try:
        del cx
        assert gone() is not None
        del y
        assert gone() is None
    finally:
        gc.enable()


# -- what a run computes ---------------------------------------------------------------------------


def test_only_what_is_asked_for_is_computed():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    wanted, other = Count(), Count()
    y = cx.function(wanted, x, shape=2).retrieve()
    cx.function(other, x, shape=2)
    _ = cx.tensor((2,), name="never_set") * 2
    cx.execute()
    assert (wanted.calls, other.calls) == (1, 0)
    assert y.tolist() == [2, 3]


def test_what_is_computed_is_not_computed_again():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    first, second = Count(), Count()
    y = cx.function(first, x, shape=2).retrieve()
    cx.execute()
    z = cx.function(second, y, shape=2).retrieve()
    cx.execute()
    cx.execute()
    assert (first.calls, second.calls, cx.step) == (1, 1, 3)
    assert (y.tolist(), z.tolist()) == ([2, 3], [3, 4])


def test_kept_values_serve_later_runs_but_are_not_computed_for_their_own_sake():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    middle, unneeded = Count(), Count()
    m = cx.function(middle, x, shape=2).keep()
    u = cx.function(unneeded, x, shape=2).keep()
    a = (m * 2).retrieve()
    cx.execute()
    assert (middle.calls, unneeded.calls) == (1, 0)
    a.drop()
    b = (m * 3).retrieve()
    cx.execute()
    assert middle.calls == 1
    assert (m.tolist(), b.tolist()) == ([2, 3], [6, 9])
    error_of(u.numpy, NotComputedError)
    x.set([5, 5])
    cx.execute()
    assert (middle.calls, m.tolist()) == (2, [6, 6])


def test_values_in_between_are_gone_after_a_run():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    y = x * 2
    (y + 1).retrieve()
    cx.execute()
    error_of(y.numpy, NotComputedError)
    assert set(cx._values) == set(cx._outputs)


def test_keep_all_keeps_everything_on_the_way():
    cx = Graph()
    x = cx.tensor((2, 2)).set(np.eye(2))
    y = x * 2
    t = y.T
    aside = x * 5
    (t + 1).retrieve()
    cx.execute(keep_all=True)
    assert y.tolist() == t.tolist() == [[2, 0], [0, 2]]
    error_of(aside.numpy, NotComputedError)


def test_a_traced_run_says_what_each_node_took():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    (x * 2).named("y").retrieve()
    run = cx.execute(trace=True)
    assert run is not None
    assert [step.node.name for step in run.steps] == ["x", "1", "y"]
    assert all(isinstance(step, NodeStep) and step.seconds >= 0 for step in run.steps)
    assert run.steps[-1].bytes == 8
    assert run.seconds == sum(step.seconds for step in run.steps)
    lines = str(run).splitlines()
    assert lines[0] == "       ms         bytes  node"
    assert lines[-1].endswith("  %y = mul : f32[2]")
    assert cx.execute() is None


@pytest.mark.parametrize("drop", ["tensor", "tree", "reset"])
def test_dropped_and_reset_values_are_gone(drop):
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).retrieve()
    cx.execute()
    if drop == "tensor":
        assert y.drop() is y
    elif drop == "tree":
        cx.drop({"a": [y]})
    else:
        cx.reset()
    error_of(y.numpy, NotComputedError)
    assert bool(cx.ir.outputs) == (drop == "reset")
    y.retrieve()
    if drop == "reset":
        assert "the input %x was never set" in error_of(cx.execute, InputError).message
        x.set([3, 4])
    cx.execute()
    assert y.tolist() == ([6, 8] if drop == "reset" else [2, 4])


def test_dropping_an_input_forgets_its_data_and_what_came_of_it():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).retrieve()
    cx.execute()
    x.drop()
    error_of(y.numpy, NotComputedError)
    error_of(cx.execute, InputError)


def test_an_output_may_be_an_input_and_be_asked_for_twice():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2]).retrieve().retrieve()
    y = (x + 1).retrieve()
    again = cx[y.name].retrieve()
    assert len(cx.ir.outputs) == 2
    cx.execute()
    assert x.tolist() == [1, 2]
    assert y.tolist() == again.tolist() == [2, 3]


def test_nothing_retrieved():
    cx = Graph()
    cx.tensor((2,)).set([1, 2]).keep()
    error = error_of(cx.execute, GraphError)
    assert str(error).splitlines()[0] == (
        "execute: nothing is retrieved, so there is nothing to compute"
    )
    assert error.hint == "call retrieve() on the tensors whose values you want"
    assert cx.step == 0


def test_results_share_no_memory():
    cx = Graph()
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    parameter = Parameter((2, 3), value=given)
    x = cx.tensor((2, 3)).borrow(given)
    p = cx.parameter(parameter)
    tensors = [x, p, x.T, x.graph_break(), x[0], x * 2, x.reshape(6), x.after(x), p.graph_break()]
    double = tensors[5]
    tensors += [double.graph_break(), double.T, cx.ones(3).expand(3)]
    cx.retrieve(tensors)
    cx.execute()
    arrays = [given, parameter.value, *cx._data.values(), *cx._values.values()]
    arrays += [tensor.numpy() for tensor in tensors]
    shared = [
        (i, j)
        for i, a in enumerate(arrays)
        for j, b in enumerate(arrays[:i])
        if np.shares_memory(a, b) and not (a is b or {i, j} == {0, 2})
    ]
    assert shared == []
    double.numpy()[:] = 7
    assert double.numpy()[1, 2] == 10


def test_results_without_axes_are_arrays():
    cx = Graph()
    y = (cx.constant(2.0) * 3).retrieve()
    cx.execute()
    value = y.numpy()
    assert isinstance(value, np.ndarray)
    assert value.shape == ()
    assert (y.item(), float(y), int(y), bool(y), f"{y:.2f}") == (6.0, 6.0, 6, True, "6.00")


# -- what makes values stale -----------------------------------------------------------------------


def test_new_data_makes_what_depends_on_it_stale_and_nothing_else():
    cx = Graph()
    x, y = cx.tensor((2,)).set([1, 2]), cx.tensor((2,)).set([10, 20])
    count = Count()
    a, b = (x * 2).retrieve(), cx.function(count, y, shape=2).retrieve()
    cx.execute()
    x.set([3, 4])
    error = error_of(a.numpy, NotComputedError)
    assert error.message == (f"read: {a.label} is not computed yet for the present inputs")
    assert error.hint == "run cx.execute()"
    assert b.tolist() == [11, 21]
    cx.execute()
    assert (a.tolist(), count.calls) == ([6, 8], 1)


def test_another_size_of_a_dim_makes_values_stale():
    cx = Graph()
    ones = cx.ones(("n",))
    count = Count(lambda: np.ones(2))
    other = cx.function(count, shape=2).retrieve()
    total = ones.sum().retrieve()
    cx.set_dim("n", 3)
    cx.execute()
    assert total.item() == 3
    cx.set_dim(cx.dim("n"), 5)
    error_of(total.numpy, NotComputedError)
    cx.execute()
    assert total.item() == 5
    cx.set_dim("n", 5)
    assert total.item() == 5
    cx.tensor(("m",), name="x").set(np.ones(4)).sum().retrieve()
    calls = count.calls
    cx.execute()
    assert count.calls == calls  # a new dim changes nothing about the others
    assert other.tolist() == [1, 1]


def test_data_of_another_size():
    cx = Graph()
    x = cx.tensor(("n", 2), name="x")
    y = (x.sum(0) * cx.constant(cx.dim("n"))).retrieve()
    for size in (3, 5, 3):
        x.set(np.ones((size, 2)))
        cx.execute()
        assert y.tolist() == [size * size] * 2


def test_data_of_another_size_makes_all_that_has_the_dim_stale():
    cx = Graph()
    x = cx.tensor(("n",), name="x").set([1, 2, 3])
    total, count = x.sum().retrieve(), cx.ones(("n",)).sum().retrieve()
    cx.execute()
    x.set([4, 5, 6])
    assert count.item() == 3
    x.set([4, 5])
    error_of(count.item, NotComputedError)
    cx.execute()
    assert (total.item(), count.item()) == (9, 2)


def test_a_parameter_that_is_not_loaded_can_be_read():
    cx = Graph()
    w = cx.parameter(Parameter((2,), provider=lambda: [1, 2], name="w"))
    assert str(w).startswith("%w: f32[2], an input whose value comes when it is first needed")
    assert w.tolist() == [1, 2]
    assert str(w) == "[1., 2.]\n%w: f32[2]"
    none = cx.parameter(Parameter((2,), name="none"))
    assert error_of(none.numpy, InputError).message == (
        "parameter none: it has no value and no provider"
    )


def test_a_parameter_that_changes_is_seen_by_the_next_run_of_each_graph():
    weight = Parameter((2,), value=[1, 2], name="weight")
    graphs = [Graph("one"), Graph("two")]
    results = [(cx.parameter(weight) * 2).retrieve() for cx in graphs]
    for cx in graphs:
        cx.execute()
    weight.set([5, 6])
    assert results[0].tolist() == [2, 4]  # the value of the last run
    for cx, y in zip(graphs, results, strict=True):
        cx.execute()
        assert y.tolist() == [10, 12]
    assert list(graphs[0].parameters) == ["weight"]
    assert graphs[0].parameters["weight"] is weight


def test_setting_the_input_of_a_parameter_sets_the_parameter():
    weight = Parameter((2,), value=[1, 2], name="weight")
    cx, other = Graph(), Graph()
    w = cx.parameter(weight)
    assert cx.parameter(weight).id == w.id
    y, z = (w * 2).retrieve(), (other.parameter(weight) * 3).retrieve()
    cx.execute()
    w.set([3, 4])
    assert (weight.value.tolist(), w.tolist()) == ([3, 4], [3, 4])
    error_of(y.numpy, NotComputedError)
    cx.execute()
    other.execute()
    assert (y.tolist(), z.tolist()) == ([6, 8], [9, 12])
    w.set(lambda: [7, 8])
    assert not weight.is_loaded
    assert str(w).endswith("an input whose value comes when it is first needed; numpy() needs it")
    cx.execute()
    assert y.tolist() == [14, 16]


def test_random_numbers_are_new_in_each_run_and_what_does_not_need_them_is_not():
    cx = Graph(seed=3)
    count = Count(lambda: np.ones(2))
    r = cx.rand(4).retrieve()
    cx.function(count, shape=2).retrieve()
    cx.execute()
    first = r.numpy()
    np.testing.assert_array_equal(first, r.numpy())
    cx.execute()
    assert (first != r.numpy()).any()
    assert count.calls == 1
    again = Graph(seed=3)
    same = again.rand(4).retrieve()
    again.execute()
    np.testing.assert_array_equal(first, same.numpy())


# -- data ------------------------------------------------------------------------------------------


def test_set_copies_and_borrow_does_not():
    cx = Graph()
    data = np.zeros(2, np.float32)
    x, y = cx.tensor((2,)).set(data), cx.tensor((2,)).borrow(data)
    a, b = (x + 1).retrieve(), (y + 1).retrieve()
    assert cx._data[y.id] is data
    data[:] = 5
    cx.execute()
    assert (a.tolist(), b.tolist()) == ([1, 1], [6, 6])


def test_a_function_gives_data_once_when_it_is_first_needed():
    cx = Graph()
    count = Count(lambda: np.array([1.0, 2.0]))
    x = cx.tensor((2,), name="x").set(count)
    y, z = (x * 2).retrieve(), (x * 3).retrieve()
    assert str(x).endswith("an input whose value comes when it is first needed; numpy() needs it")
    assert count.calls == 0
    cx.execute()
    cx.execute()
    assert (count.calls, y.tolist(), z.tolist()) == (1, [2, 4], [3, 6])
    lazily = cx.tensor((2,)).set(Count(lambda: [3, 4]))
    assert lazily.tolist() == [3, 4]


def test_a_function_gives_symbolic_dims_their_sizes():
    cx = Graph()
    count = Count(lambda: np.ones((3, 2)))
    x = cx.tensor(("n", 2)).set(count)
    y = x.sum(0).retrieve()
    cx.execute()
    assert (y.tolist(), count.calls) == ([3, 3], 1)


@pytest.mark.parametrize("shape", [(2,), ("n",)])
@pytest.mark.parametrize(
    ("data", "dtype", "kind", "text"),
    [
        (np.zeros((2, 1)), "float32", InputError, "set: %x is {}, but the data is (2, 1)"),
        (["a"], "float32", DTypeError, "set: %x: a list that holds <U1"),
        ([1.5, 2], "int32", DTypeError, "set: %x is int32, but the data is float64"),
    ],
)
def test_a_function_that_gives_what_does_not_fit(shape, data, dtype, kind, text):
    cx = Graph()
    x = cx.tensor(shape, dtype, name="x").set(lambda: data)
    (x * 2).retrieve()
    before = state(cx)
    error = error_of(cx.execute, kind)
    assert error.message.startswith(text.format("(2,)" if shape == (2,) else "(n,)"))
    assert error.where is not None
    assert state(cx) == before
    x.set([1, 2])
    cx.execute()


def test_an_exception_in_a_function_that_gives_data_keeps_its_type():
    cx = Graph()
    x = cx.tensor((2,), name="x").set(lambda: {}["weights"])
    (x * 2).retrieve()
    error = error_of(cx.execute, KeyError)
    assert error.__notes__[0].startswith("while computing\n%x: f32[2]\n  ")
    assert '.set(lambda: {}["weights"])' in error.__notes__[0]


def test_set_on_what_is_no_input():
    cx = Graph()
    y = (cx.tensor((2,), name="x") * 2).named("y")
    for call, name in [(y.set, "set"), (y.borrow, "borrow")]:
        error = error_of(lambda call=call: call([1, 2]), GraphError)
        assert error.message == f"{name}: %y (2,) is the result of mul, and not an input"
        assert error.hint == "only what cx.tensor(...) made takes data"
        assert error.where is not None
        assert "error = error_of(lambda call=call: call([1, 2])" in error.where


def test_an_input_never_set():
    cx = Graph()
    x = cx.tensor((2, "n"), "int8", name="x")
    x.sum(0).retrieve()
    error = error_of(cx.execute, InputError)
    assert error.message == "execute: the input %x was never set; it is i8[2, n]"
    assert error.hint == "give it data with set(...), or drop() the outputs that need it"
    assert 'x = cx.tensor((2, "n"), "int8", name="x")' in str(error.where)


def test_reading_what_has_no_value():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    y = (x * 2).named("y")
    z = (x * 3).named("z").retrieve()
    texts = {tensor.name: (error_of(tensor.numpy), str(tensor)) for tensor in (x, y, z)}
    assert {name: (error.message, error.hint) for name, (error, _) in texts.items()} == {
        "x": ("read: %x (2,) is an input without data", "give it data with set(...)"),
        "y": (
            "read: %y (2,) is not computed yet: it was not retrieved",
            "call retrieve() on it, and then run cx.execute()",
        ),
        "z": ("read: %z (2,) is not computed yet", "run cx.execute()"),
    }
    assert [text for _, text in texts.values()] == [
        "%x: f32[2], an input without data; give it data with set(...)",
        "%y: f32[2], not computed yet: it was not retrieved; call retrieve() on it, and then run "
        "cx.execute()",
        "%z: f32[2], not computed yet; run cx.execute()",
    ]
    for read in (y.item, y.tolist, y.__array__, lambda: float(y), lambda: int(y)):
        error_of(read, NotComputedError)
    error_of(lambda: np.asarray(y), NotComputedError)


# -- dims ------------------------------------------------------------------------------------------


def test_dims_are_declared_once():
    cx = Graph()
    n = cx.dim("n", 1, 64, multiple_of=8)
    assert cx.dim("n", 1, 64, multiple_of=8) is n or cx.dim("n", 1, 64, multiple_of=8) == n
    assert cx.dim("n", 1, 128).high == 128  # nothing has it yet
    cx.tensor(("n",))
    error = error_of(lambda: cx.dim("n", 2, multiple_of=2), DimError)
    assert error.message == "dim 'n': it is declared as 1..128, and again as 2.. by 2"
    assert cx.dim("n", 1, 128).high == 128


def test_set_dim_is_checked():
    cx = Graph()
    cx.tensor((cx.dim("seq", 2, 64, multiple_of=2),))
    messages = [
        error_of(lambda value=value: cx.set_dim(*value), kind).message
        for value, kind in [
            (("sek", 4), DimError),
            (("seq", 1), DimError),
            (("seq", 65), DimError),
            (("seq", 7), DimError),
            (("seq", 2.5), DimError),
            (("seq", "seq"), DimError),
        ]
    ]
    assert messages == [
        "set_dim: this graph has no dim 'sek'",
        "dim 'seq': 1 is out of its bounds, which are 2 to 64",
        "dim 'seq': 65 is out of its bounds, which are 2 to 64",
        "dim 'seq': 7 is not a multiple of 2, as it is declared to be",
        "set_dim: 'seq' cannot be 2.5",
        "set_dim: 'seq' cannot be 'seq'",
    ]
    assert error_of(lambda: cx.set_dim("sek", 4)).hint == "did you mean 'seq'?"


def test_what_symbols_left_open_is_decided_when_they_are_bound():
    cx = Graph()
    x = cx.tensor(("n",), name="x")
    y = x.apply(Slice((2,), (6,), (1,))).retrieve()
    x.set(np.arange(8.0))
    cx.execute()
    assert y.tolist() == [2, 3, 4, 5]
    x.set(np.arange(4.0))
    before = state(cx)
    error = error_of(cx.execute, ShapeError)
    assert "y = x.apply(Slice((2,), (6,), (1,))).retrieve()" in str(error.where)
    assert state(cx) == before


def test_a_size_below_zero_is_an_error():
    cx = Graph()
    cx.ones(("n - 5",)).retrieve()
    cx.set_dim("n", 3)
    error = error_of(cx.execute, DimError)
    assert error.message == "execute: %0 is (n - 5,), which is (-2,) with n = 3"
    assert 'cx.ones(("n - 5",)).retrieve()' in str(error.where)


# -- carrying, moving ------------------------------------------------------------------------------


def test_carry_over_many_runs():
    cx = Graph()
    old = cx.tensor((), name="old").set(0)
    new = cx.carry(old + 1, old)
    assert f"%{new.name} => %old" in str(cx)
    for step in range(1, 6):
        cx.execute()
        assert (new.item(), old.item()) == (step, step)
    old.set(100)
    error_of(new.item, NotComputedError)
    cx.execute()
    assert new.item() == 101


def test_carried_chains_and_swaps_move_at_once():
    cx = Graph()
    a, b, c = (cx.tensor((), name=name) for name in "abc")
    cx.carry(a, b)
    cx.carry(b, c)
    cx.carry(c, a)
    for tensor, value in ((a, 1), (b, 2), (c, 3)):
        tensor.set(value)
    seen = []
    total = (a * 100 + b * 10 + c).retrieve()
    for _ in range(4):
        cx.execute()
        seen.append(total.item())
    assert seen == [123, 312, 231, 123]


def test_carry_into_a_parameter_trains_it_for_every_graph():
    weight = Parameter((2,), value=[0, 0], name="weight")
    train, use = Graph("train"), Graph("use")
    w = train.parameter(weight)
    train.carry(w + 1, w)
    y = (use.parameter(weight) * 10).retrieve()
    for step in (1, 2, 3):
        train.execute()
        use.execute()
        assert weight.value.tolist() == [step, step]
        assert y.tolist() == [10 * step, 10 * step]


def test_a_carried_cache_of_fixed_capacity():
    cx = Graph()
    at = cx.dim("at", 0, 3)
    cache = cx.tensor((4, 2), name="cache").set(np.zeros((4, 2)))
    rows = cx.tensor((1, 2), name="rows")
    cx.carry(cache.apply(Update(0, at), rows), cache)
    for step in range(4):
        cx.set_dim("at", step)
        rows.set([[step + 1, step + 1]])
        cx.execute()
    np.testing.assert_array_equal(cache.numpy(), [[1, 1], [2, 2], [3, 3], [4, 4]])
    error_of(lambda: cx.set_dim("at", 4), DimError)


def test_what_cannot_be_carried():
    cx, other = Graph(), Graph("other")
    old, second = cx.tensor((2,), name="old"), cx.tensor((2,), name="second")
    new = (old * 2).named("new")
    foreign = other.tensor((2,), name="foreign")
    cx.carry(new, old)
    cx.carry(new, old)
    before = state(cx)
    messages = [
        error_of(call, GraphError).message
        for call in (
            lambda: cx.carry(new, new),
            lambda: cx.carry(new.sum(0, keepdim=True).named("sum"), old),
            lambda: cx.carry((old * 3).named("third"), old),
            lambda: cx.carry(new, second),
            lambda: cx.carry(foreign, second),
            lambda: cx.carry(new, foreign),
            lambda: cx.carry(NUMBER, old),
        )
    ]
    assert messages == [
        "carry: %new (2,) is the result of mul, and not an input",
        "carry: %sum (1,) is f32[1], but the input %old (2,) is f32[2]",
        "carry: %new goes to the input %old already",
        "carry: %new goes to the input %old already",
        "carry: %foreign (2,) belongs to the graph 'other', and not to this one, 'main'",
        "carry: %foreign (2,) belongs to the graph 'other', and not to this one, 'main'",
        "carry: 3 is not a tensor",
    ]
    assert state(cx)[5:] == before[5:] or cx._carries == {new.id: old.id}
    new.drop()
    cx.carry(new, second)


def test_transfer_moves_values_between_graphs_without_copies():
    one, two = Graph("one"), Graph("two")
    x = one.tensor((2,)).set([1, 2])
    states = {"k": (x * 2).retrieve(), "v": [(x * 3).retrieve(), x]}
    inputs = {"v": [two.tensor((2,)), two.tensor((2,))], "k": two.tensor((2,))}
    one.execute()
    array = one._values[states["k"].id]
    two.transfer(states, inputs)
    assert two._data[inputs["k"].id] is array
    assert [t.tolist() for t in (inputs["k"], *inputs["v"])] == [[2, 4], [3, 6], [1, 2]]
    error_of(states["k"].numpy, NotComputedError)
    error_of(x.numpy, NotComputedError)
    back = one.tensor((2,))
    one.transfer(inputs["k"], back)
    assert back.tolist() == [2, 4]
    one.transfer(back, one[back.name])
    assert back.tolist() == [2, 4]
    one.transfer([back, x.set([7, 8])], [x, back])
    assert (x.tolist(), back.tolist()) == ([2, 4], [7, 8])


def test_a_transfer_that_fails_moves_nothing():
    one, two = Graph("one"), Graph("two")
    a, b = one.tensor((2,), name="a").set([1, 2]), one.tensor((3,), name="b").set([1, 2, 3])
    c, d = two.tensor((2,), name="c"), two.tensor((2,), name="d")
    before = state(one), state(two)
    cases = [
        (([a, b], [c, d]), "transfer: %d is (2,), but the data is (3,), so that axis 0 has 3"),
        (([a, b], [c]), "transfer: the two sides differ: a list of 2 and a list of 1"),
        (({"a": a}, {"b": c}), "transfer: the two sides differ: a dict of 'a' and a dict of 'b'"),
        ((a, [c]), "transfer: the two sides differ: %a (2,) and a list of 1"),
        ((a, 5), "transfer: 5 is not a tensor"),
        ((a, (c * 2).named("y")), "transfer: %y (2,) is the result of mul, and not an input"),
        ((d, c), "read: %d (2,) is an input without data"),
        ((dict, dict), "transfer: <class 'dict'> is not a tensor"),
        ((deep(a), deep(c)), "transfer: the argument is nested more than 1000 levels deep"),
        ((endless(), endless()), "transfer: the argument is nested more than 1000 levels deep"),
    ]
    before = state(one), state(two)
    for trees, text in cases:
        assert error_of(lambda trees=trees: one.transfer(*trees)).message.startswith(text)
        assert (state(one), state(two)) == before


def deep(tree: Any, levels: int = 5_000) -> Any:
    """Return what is given at the end of many nested lists."""
    for _ in range(levels):
        tree = [tree]
    return tree


def endless() -> Any:
    """Return a list that contains itself."""
    tree: list[Any] = []
    tree += [{"again": tree}, tree]
    return tree


@pytest.mark.parametrize("what", ["keep", "retrieve", "drop"])
def test_what_is_no_tree_of_tensors(what):
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    cases: list[tuple[Any, str]] = [
        (dict, f"{what}: <class 'dict'> is not a tensor"),
        (int, f"{what}: <class 'int'> is not a tensor"),
        ([x, {"a": list}], f"{what}: <class 'list'> is not a tensor"),
        ("x", f"{what}: 'x' is not a tensor"),
        (np.zeros(2), f"{what}: array([0., 0.]) is not a tensor"),
        (deep(x), f"{what}: the argument is nested more than 1000 levels deep"),
        (endless(), f"{what}: the argument is nested more than 1000 levels deep"),
    ]
    for tree, text in cases:
        error = error_of(lambda tree=tree: getattr(cx, what)(tree), GraphError)
        assert error.message == text
        assert error.where
        assert error.hint
    getattr(cx, what)(deep(x, 900))


def test_the_branches_of_a_tree_may_be_in_any_order():
    cx = Graph()
    a, b, c, d = (cx.tensor((1,)).set([k]) for k in range(4))
    cx.transfer({"a": a, "b": (b,)}, {"b": [c], "a": d})
    assert (c.tolist(), d.tolist()) == ([1], [0])
    cx.retrieve(t for t in (c, d))
    assert cx.ir.output_ids == (c.id, d.id)


def test_a_graph_is_its_tensors_in_order_and_they_are_in_it():
    cx, other = Graph(), Graph()
    x = cx.tensor((2,), name="x")
    y = x * 2
    assert [t.id for t in cx] == [x.id, y.id - 1, y.id]
    assert "x" in cx
    assert "%x" in cx
    assert y in cx
    assert "y" not in cx
    assert other.tensor((2,), name="x") not in cx
    assert 0 not in cx
    assert list(other) != []
    assert list(Graph()) == []


def test_an_unknown_name_gets_the_nearest_or_says_where_the_names_are():
    cx = Graph()
    cx.tensor((2,), name="tokens")
    error = error_of(lambda: cx["%token"], GraphError)
    assert error.message == "main: there is no node %token"
    assert error.hint == "did you mean 'tokens'?"
    assert error.where
    assert error_of(lambda: cx["nope"]).hint == "print(cx) shows all nodes"


def test_a_graph_that_cannot_be_made_says_where():
    for make in (lambda: Graph("a b"), lambda: Graph(seed="x")):  # pyright: ignore
        assert "make in (lambda" in error_of(make).where
    assert error_of(lambda: Graph("a b")).message == "'a b' cannot be the name of a graph"


def test_data_of_an_input_that_nothing_reads_gives_a_dim_its_size():
    cx = Graph()
    x, y = cx.tensor(("n",), name="x"), cx.tensor(("n",), name="y")
    ones, sums = x.full_like(1).retrieve(), (y * 2)
    error = error_of(cx.execute, DimError)
    assert error.message.startswith("execute: dim 'n' is not bound")
    x.set([1, 2, 3])
    cx.execute()
    assert ones.tolist() == [1, 1, 1]
    y.set([1, 2])
    sums.retrieve()
    cx.execute()  # what is read decides
    assert ones.tolist() == [1, 1]


def test_swap_exchanges_data():
    one, two = Graph("one"), Graph("two")
    a, b = one.tensor((2,)).set([1, 2]), one.tensor((2,)).set([3, 4])
    c, d = two.tensor((2,)).set([5, 6]), two.tensor((3,), name="d").set([7, 8, 9])
    y = (a * 10).retrieve()
    one.execute()
    one.swap(a, b)
    error_of(y.numpy, NotComputedError)
    one.execute()
    assert y.tolist() == [30, 40]
    one.swap([a, b], [c, b])
    assert [t.tolist() for t in (a, b, c)] == [[5, 6], [1, 2], [3, 4]]
    before = state(one), state(two)
    assert error_of(lambda: one.swap(a, d), InputError).message.startswith("swap: %d is (3,)")
    assert (state(one), state(two)) == before


def test_delete_inputs_makes_inputs_of_values():
    cx = Graph()
    raw = cx.tensor((2,), name="raw").set([1, 2])
    both = cx.tensor((2,), name="both").set([10, 20])
    middle = (raw * 2).named("middle")
    weight = (middle + both).named("weight").retrieve()
    y = (weight * both).retrieve()
    cx.execute()
    cx.delete_inputs(weight)
    assert [node.name for node in cx.ir.inputs] == ["both", "weight"]
    assert "middle" not in str(cx)
    assert raw.id not in cx._data
    both.set([1, 1])
    cx.execute()
    assert (weight.tolist(), y.tolist()) == ([12, 24], [12, 24])
    weight.set([1, 2])
    cx.execute()
    assert y.tolist() == [1, 2]
    error_of(lambda: cx.delete_inputs(y * 2), NotComputedError)


def test_downstream():
    cx = Graph()
    x, z = cx.tensor((2,)), cx.tensor((2,))
    y = x.recip()
    w = y + z
    assert [t.id for t in cx.downstream(x)] == [y.id, w.id]
    assert [t.id for t in cx.downstream(x, y)] == [w.id]
    assert cx.downstream(w) == []


# -- host functions, order, probes -----------------------------------------------------------------


def test_host_functions():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    n = cx.tensor(("n",), name="n").set([1, 2, 3])

    def both(a, b):
        return np.concatenate([a, b])

    y = cx.function(both, x, n, shape=("n + 2",)).retrieve()
    again = cx.function(both, n, x, shape=("n + 2",)).retrieve()
    z = cx.function(lambda: 5, shape=(), dtype="int32", name="five").retrieve()
    other = cx.function(lambda: 6, shape=(), name="five").retrieve()
    cx.execute()
    assert (y.tolist(), again.tolist()) == ([1, 2, 1, 2, 3], [1, 2, 3, 1, 2])
    assert (z.item(), z.dtype, other.item()) == (5, "int32", 6)
    assert 'host_call{function = "both"} %x, %n : f32[n + 2]' in str(cx)
    assert 'function = "five_2"' in str(cx)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (np.zeros(3), "function 'f': %y is (2,), but the data is (3,), so that axis 0 has 3"),
        ("ab", "function 'f': %y: a str that holds <U2"),
        (None, "function 'f': %y: None is neither a number nor an array"),
    ],
)
def test_a_host_function_that_returns_what_does_not_fit(made, text):
    cx = Graph()
    y = cx.function(lambda: made, shape=2, name="f").named("y").retrieve()
    before = state(cx)
    error = error_of(cx.execute)
    assert error.message.startswith(text)
    assert str(error.where).startswith('%y = host_call{function = "f"} : f32[2]\n')
    assert 'y = cx.function(lambda: made, shape=2, name="f")' in str(error.where)
    assert state(cx) == before
    assert y.shape == (2,)


def test_an_exception_in_a_host_function_keeps_its_type_and_says_where():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    ok = (x + 1).retrieve()
    cx.execute()
    x.set([3, 4])
    cx.function(lambda a: 1 // 0, x, shape=2, name="f").named("y").retrieve()
    before = state(cx)
    error = error_of(cx.execute, ZeroDivisionError)
    assert error.__notes__[0].startswith(
        'while computing\n%y = host_call{function = "f"} %x : f32[2]\n  '
    )
    assert "cx.function(lambda a: 1 // 0, x" in error.__notes__[0]
    assert state(cx) == before
    error_of(ok.numpy, NotComputedError)


def test_host_functions_cannot_change_what_they_are_given():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    kept = np.zeros(2, np.float32)

    def spoil(a):
        a += 1

    def keep(a):
        kept[:] = a
        return kept

    y = cx.function(keep, x, shape=2).retrieve()
    cx.execute()
    kept[:] = 9
    assert y.tolist() == [1, 2]
    cx.function(spoil, x, shape=2).retrieve()
    error_of(cx.execute, ValueError)
    assert x.tolist() == [1, 2]


def test_what_is_no_host_function():
    cx, other = Graph(), Graph("other")
    x = cx.tensor((2,))
    foreign = other.tensor((2,), name="foreign")
    before = state(cx)
    calls = {
        "function: 3 cannot be called": lambda: cx.function(NUMBER, x, shape=2),
        "function: 3 is not a tensor": lambda: cx.function(len, NUMBER, shape=2),
        "function: %foreign (2,) belongs to the graph 'other', and not to this one, 'main'": (
            lambda: cx.function(len, foreign, shape=2)
        ),
    }
    assert [error_of(call, GraphError).message for call in calls.values()] == list(calls)
    assert state(cx) == before


def test_after_and_graph_break():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    order = []
    late = cx.function(lambda a: order.append("late") or a, x, shape=2, name="late")
    early = cx.function(lambda: order.append("early") or [0, 0], shape=2, name="early")
    y = (x * 2).after(early, late).graph_break().retrieve()
    cx.execute()
    assert y.tolist() == [2, 4]
    assert sorted(order) == ["early", "late"]


def test_probes_see_values_and_do_not_change_the_graph(capsys):
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).named("y")
    text = str(cx)
    assert y.print() is y
    y.print("double")
    y.diff([2, 5])
    assert str(cx) == text
    cx.execute()
    assert capsys.readouterr().out == (
        "%y: f32[2]\n[2., 4.]\n"
        "double: f32[2]\n[2., 4.]\n"
        "%y against the reference: 1 of 2 differ; largest difference 1 at (1,): 4 and 5; "
        "mean difference 0.5\n"
    )
    cx.execute()
    assert capsys.readouterr().out == ""  # nothing new was computed
    y.print("again").retrieve()
    cx.execute()
    assert "again: f32[2]" in capsys.readouterr().out
    x.set([5, 6])
    cx.execute()
    assert capsys.readouterr().out.count("[10., 12.]") == 3
    y.drop()
    error_of(cx.execute, GraphError)


# -- trees -----------------------------------------------------------------------------------------


def test_trees_of_tensors():
    cx = Graph()
    x = cx.tensor((2,)).set([1, 2])
    tree = {"a": x + 1, "b": [x + 2, (x + 3, {"c": x + 4})]}
    cx.retrieve(tree)
    cx.keep(tree)
    cx.execute()
    assert tree["b"][1][1]["c"].tolist() == [5, 6]
    assert len(cx.ir.outputs) == 4
    cx.drop(iter([tree["a"]]))
    assert len(cx.ir.outputs) == 3


@pytest.mark.parametrize("wrong", [5, "xy", None, [1.5], {"a": None}, np.zeros(2)])
@pytest.mark.parametrize("method", ["retrieve", "keep", "drop"])
def test_trees_of_other_things(method, wrong):
    cx = Graph()
    x = cx.tensor((2,))
    before = state(cx)
    error = error_of(lambda: getattr(cx, method)([x, wrong]), GraphError)
    assert error.message.startswith(f"{method}: ")
    assert error.message.endswith("is not a tensor")
    assert state(cx) == before


def test_trees_of_another_graph():
    cx, other = Graph(), Graph("other")
    x, foreign = cx.tensor((2,)), other.tensor((2,), name="foreign")
    error = error_of(lambda: cx.retrieve([x, foreign]), GraphError)
    assert error.message == (
        "retrieve: %foreign (2,) belongs to the graph 'other', and not to this one, 'main'"
    )
    assert cx.ir.outputs == other.ir.outputs == ()


# -- errors and Ctrl-C in the middle ---------------------------------------------------------------


def test_an_error_in_the_middle_leaves_everything_as_it_was():
    cx = Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    index = cx.tensor((2,), "int64", name="index").set([0, 1])
    first = cx.rand(3).retrieve()
    taken = x.gather(0, index).retrieve()
    state_in = cx.tensor((), name="s").set(0)
    cx.carry(state_in + 1, state_in)
    x.keep()
    cx.execute()
    index.set([0, 7])
    numbers, before = first.numpy(), state(cx)
    error = error_of(cx.execute, RangeError)
    assert "taken = x.gather(0, index).retrieve()" in str(error.where)
    assert state(cx) == before
    np.testing.assert_array_equal(first.numpy(), numbers)
    error_of(taken.numpy, NotComputedError)
    index.set([2, 2])
    cx.execute()
    assert taken.tolist() == [3, 3]
    assert state_in.item() == 2


def test_a_keyboard_interrupt_in_a_host_function():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    stop = [True]

    def impatient(a):
        if stop:
            raise KeyboardInterrupt
        return a

    y = cx.function(impatient, x + 1, shape=2).named("y").retrieve()
    before = state(cx)
    error = error_of(cx.execute, Interrupted)
    assert KeyboardInterrupt in type(error).__mro__
    assert error.message == "execute: stopped by Ctrl-C; no value was changed"
    assert str(error.where).startswith('%y = host_call{function = "impatient"} %')
    assert error.hint == "run it again, or drop() outputs that are not needed"
    assert state(cx) == before
    stop.clear()
    cx.execute()
    assert y.tolist() == [2, 3]


def test_a_signal_from_a_thread_stops_a_run():
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))

    def begun(values: Any) -> Any:
        timer.start()  # by the run itself: the signal finds it at work, however busy the machine is
        return values

    cx = Graph()
    x = cx.function(begun, cx.tensor((256, 256)).set(np.ones((256, 256))), shape=(256, 256))
    for _ in range(20_000):
        x = x.sin()
    x.retrieve()
    # What a shell starts in the background ignores the signal, and so do its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # an exception inside of the collector's callbacks would be lost
    try:
        error_of(cx.execute, Interrupted)
        timer.join()
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)
    assert cx.step == 0
    assert cx._values == {}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
def test_ctrl_c_in_a_process():
    script = """if True:
        import signal, time
        from luminal_lab.session import Graph
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cx = Graph()
        x = cx.tensor((2,), name="x").set([1, 2])
        slow = [True]
        def wait(a):
            if slow:
                print("ready", flush=True)
                time.sleep(30)
            return a
        y = cx.function(wait, x, shape=2).retrieve()
        try:
            cx.execute()
        except KeyboardInterrupt as error:
            print(type(error).__name__, cx.step)
        slow.clear()
        cx.execute()
        print(y.tolist())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0].splitlines() == ["Interrupted 0", "[1.0, 2.0]"]


# -- names -----------------------------------------------------------------------------------------


def test_completion_shows_what_is_for_users():
    cx = Graph()
    shown = [name for name in dir(cx) if not name.startswith("_")]
    assert shown == sorted(PUBLIC)
    for name in shown:
        getattr(cx, name)
        assert name in vars(cx) or getattr(Graph, name).__doc__, name


@pytest.mark.parametrize(
    ("of", "name", "hint"),
    [
        ("cx", "exceute", "did you mean 'execute'?"),
        ("x", "sofmax", "did you mean 'softmax'?"),
        (
            "x",
            "cuda",
            "a lazy tensor is on no device; a graph is compiled for one: "
            "cx.compile(ll.GenericCompiler(), ll.CUDACompiler())",
        ),
        ("x", "add_", "nothing changes in place; use x = x.add(...)"),
    ],
)
def test_a_name_that_is_not_there(of, name, hint):
    cx = Graph()
    values = {"cx": cx, "x": cx.tensor((2,), name="x")}
    assert not hasattr(values[of], name)
    error = error_of(lambda: getattr(values[of], name), UnknownNameError)
    assert error.message == f"a {'graph' if of == 'cx' else 'tensor'} has no {name!r}"
    assert error.hint == hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("int64", 'a dtype is a word, as in dtype="int64"'),
        ("half", 'a dtype is a word, as in dtype="float16"'),
        ("relu", "tensors have it as a method: x.relu(...)"),
        ("Grpah", "did you mean 'Graph'?"),
    ],
)
def test_a_name_that_the_package_does_not_have(name, hint):
    assert error_of(lambda: getattr(ll, name), UnknownNameError).hint == hint


# -- graphs that no session wrote ------------------------------------------------------------------


def test_a_parsed_graph_runs():
    ir = parse("graph g(%x: f32[n, 2], %y: f32[n, 2]) -> (%z, %x) { %z = add %x, %y : f32[n, 2] }")
    z, x = run(ir, {"x": [[1, 2]], "y": np.ones((1, 2))})
    np.testing.assert_array_equal(z, [[2, 3]])
    np.testing.assert_array_equal(x, [[1, 2]])


def test_data_that_a_graph_cannot_run_with():
    ir = parse("graph g(%x: f32[n, 2]) -> (%y) { %y = add %x, %x : f32[n, 2] }")
    assert error_of(lambda: run(ir), InputError).message == (
        "run: there is no data for the input %x, which is f32[n, 2]"
    )
    error = error_of(lambda: run(ir, {"x": [[1, 2]], "z": 1}), InputError)
    assert error.message == "run: the graph has no input 'z'"
    assert error_of(lambda: run(ir, {"x": [1]}), InputError).message == (
        "run: %x is (n, 2), but the data is (1,)"
    )


# -- while a graph runs --------------------------------------------------------------------------


def test_of_two_threads_one_runs_the_graph():
    cx = Graph()
    with cx.turn("execute"):
        assert cx.running
        error = error_of(lambda: cx.turn("execute").__enter__(), GraphError)
    assert error.message == "execute: the graph 'main' is running already"
    assert not cx.running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_does_not_go_on_with_its_parents_run(monkeypatch):
    cx = Graph()
    with cx.turn("execute"):
        monkeypatch.setattr(interrupts, "_process", -1)  # as in a child
        assert not cx.running
        with cx.turn("execute"):
            assert cx.running
        monkeypatch.undo()
        assert cx.running


def test_what_a_run_calls_cannot_write_the_graph():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    errors: list[GraphError] = []

    def writes(value: np.ndarray) -> np.ndarray:
        errors.extend(error_of(call, GraphError) for call in (lambda: x * 3, cx.execute))
        return value

    y = cx.function(writes, x, shape=2).retrieve()
    before = str(cx)
    cx.execute()
    assert y.tolist() == [1, 2]
    assert str(cx) == before
    assert [error.message for error in errors] == [
        "constant: the graph 'main' is running, and cannot be written meanwhile",
        "execute: the graph 'main' is running already",
    ]
    assert (x * 3).retrieve().id == y.id + 2


def test_an_input_takes_one_value():
    cx = Graph()
    a, b = (cx.tensor((2,), name=name).set([1, 2]) for name in "ab")
    c = cx.tensor((2,), name="c")
    error = error_of(lambda: cx.transfer([a, b], [c, c]), GraphError)
    assert error.message == "transfer: %c (2,) would take two values"
    assert a.tolist() == b.tolist() == [1, 2]


@pytest.mark.parametrize(
    "asked",
    [
        lambda cx: cx.compile(licence=3),
        lambda cx: cx.compile(licence=[None]),
        lambda cx: cx.compile(check=np.array([1, 2])),
        lambda cx: cx.compile(1.5),
        lambda cx: cx.execute(keep_all=np.array([1, 2])),
        lambda cx: cx.execute(keep_all=1),
        lambda cx: cx.save("\ud800"),
        lambda cx: cx.to_pandas(3),
        lambda cx: cx.to_pandas({"n": "two"}),
        lambda cx: cx.time(dims=np.array([1, 2])),
        lambda cx: cx.workbench(dialects=None),
        lambda cx: cx.workbench(dialects="cuda"),
        lambda cx: cx.display(show_shapes=np.array([1, 2])),
        lambda cx: cx.compile("simplify")[None],
        lambda cx: cx.compile("simplify").find(3.5),
        lambda cx: cx.compile("simplify").to_pandas([1]),
        lambda cx: lab.CPUCompiler(reuse_outputs=(1,)),
        lambda cx: lab.CPUCompiler(thread=1),
        lambda cx: lab.HalfPrecision(weights=np.array([1, 2])),
        lambda cx: lab.Quantised(weights=3),
        lambda cx: lab.Pipeline(3),
        lambda cx: lab.Pipeline(rounds=None),
        lambda cx: lab.Pipeline(rounds=2.5),
        lambda cx: lab.Pipeline(rounds=True),
        lambda cx: lab.Rule(None, None, None),
        lambda cx: lab.Symbol(None),
        lambda cx: lab.parse_pipeline(None),
        lambda cx: lab.run(None),
        lambda cx: lab.open("\ud800"),
    ],
)
def test_an_argument_of_a_wrong_kind_is_an_error_of_ours(asked: Callable[[Any], object]) -> None:
    cx = ll.Graph()
    cx.tensor((2, 3), name="x").set(np.ones((2, 3))).sum(1).retrieve()
    with pytest.raises(ll.LabError):
        asked(cx)


def test_what_is_no_node_is_in_no_graph() -> None:
    nothing: Any = None
    assert nothing not in ll.parse("graph g(%x: f32[2]) -> (%x) {\n}")
