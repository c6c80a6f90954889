"""The handle itself: what it says, what Python does with it, operands, foreign tensors."""

import itertools
import operator
import re
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Add, Mul
from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GraphError,
    LabError,
    ShapeError,
)
from luminal_lab.session import Graph
from luminal_lab.tensor.lazy import constant_of, value_text
from tests.expect import error_of, state

WRONG: Any = 3
AXIS: Any = np.int64(-1)
HALF: Any = np.float32(2.5)


def computed(data, dtype="float32"):
    cx = Graph()
    array = np.asarray(data).astype(DType(dtype).numpy)
    y = cx.tensor(array.shape, dtype).set(array).graph_break().named("y").retrieve()
    cx.execute()
    return y


# -- what it says ----------------------------------------------------------------------------------


def test_what_is_known_without_computing():
    cx = Graph()
    x = cx.tensor((2, "n"), "int8", name="x")
    assert (x.name, x.ndim, x.dtype, x.label) == ("x", 2, "int8", "%x (2, n)")
    assert x.shape == (2, cx.dim("n"))
    assert x.node.op.name == "input"
    assert str(x) == repr(x) == f"{x}"
    assert str(x) == "%x: i8[2, n], an input without data; give it data with set(...)"


def test_text_of_values():
    assert str(computed([[1, 2]], "int8")) == "[[1, 2]]\n%y: i8[1, 2]"
    assert str(computed(2.5)) == "2.5\n%y: f32[]"
    assert str(computed(np.zeros((0, 3)))) == "[] (empty)\n%y: f32[0, 3]"
    assert str(computed([True, False], "bool")) == "[ True, False]\n%y: bool[2]"
    assert str(computed([1.5, 2], "bfloat16")).endswith("\n%y: bf16[2]")
    large = str(computed(np.zeros((100, 100))))
    assert len(large.splitlines()) < 10
    assert "..., " in large
    assert value_text(np.zeros((2, 0))) == "[] (empty)"


def test_text_of_an_input_with_data():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    assert str(x) == "[1., 2.]\n%x: f32[2]"


# -- what Python does with it ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DType)
def test_numbers_of_values(dtype):
    y = computed([[3]], dtype)
    three = True if dtype == "bool" else 3
    assert (y.item(), float(y), int(y), bool(y)) == (three, three, three, True)
    assert type(y.item()) is {"bool": bool, "int": int, "float": float}[DType(dtype).kind]
    assert y.tolist() == [[three]]
    assert np.asarray(y).dtype == DType(dtype).numpy
    assert np.asarray(y, np.float64).dtype == np.float64
    assert np.array(y).shape == (1, 1)


def test_values_are_copies():
    y = computed([1, 2])
    y.numpy()[:] = 7
    np.asarray(y)[:] = 7
    assert y.tolist() == [1, 2]


def test_formatting():
    assert f"{computed(2.5):.3f} {computed(7, 'int64'):3d}" == "2.500   7"
    assert error_of(lambda: f"{computed([1, 2]):.3f}", ShapeError).message == (
        "item: %y (2,) has 2 elements and not one"
    )


@pytest.mark.parametrize("call", [float, int, bool, lambda y: y.item()])
def test_several_elements_are_no_number(call):
    error = error_of(lambda: call(computed([1, 2])), ShapeError)
    assert error.message == "item: %y (2,) has 2 elements and not one"
    assert error.hint == "use numpy() for all of them"
    assert error.where is not None


def test_truth_before_there_is_a_value():
    cx = Graph()
    x, z = cx.tensor((2,), name="x"), cx.tensor((2,), name="z")
    conditions = {
        "bool": lambda: bool(x > 0),
        "if": lambda: 1 if x > 0 else 2,
        "not": lambda: not x,
        "and": lambda: (x > 0) and (x < 1),
        "in": lambda: x in (z, z),
        "chain": lambda: 0 < x < 1,
        "max": lambda: max(x, z),
        "any": lambda: any([x, z]),
    }
    for call in conditions.values():
        error = error_of(call, GraphError)
        assert error.message.startswith("bool: %")
        assert error.message.endswith("(2,) is neither true nor false before it is computed")
        assert error.hint == (
            "use cond.where(a, b) to choose in the graph, or retrieve() it and run cx.execute() "
            "first"
        )
        assert "lambda: " in str(error.where) or ": lambda" in str(error.where)
    assert x in [x, z]
    assert {x: 1}[x] == 1
    assert len({x, z, x}) == 2


def test_lengths_and_iteration():
    cx = Graph()
    x, s, c = cx.tensor((2, 3)), cx.tensor(("n", 3), name="s"), cx.constant(1.0)
    assert len(x) == 2
    assert [row.shape for row in x] == [(3,), (3,)]
    assert list(cx.tensor((0, 3))) == []
    for tensor, call in itertools.product((s, c), (len, list)):
        error = error_of(lambda tensor=tensor, call=call: call(tensor))
        assert error.message == (f"len: {tensor.label} has no first axis of known size")
        assert error.hint


def test_numpy_leaves_operators_to_the_tensor():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    for call in (operator.add, operator.sub, operator.mul, operator.truediv):
        for array in (np.array([3, 4], np.float32), np.float32(3)):
            y = call(array, x).retrieve()
            cx.execute()
            np.testing.assert_allclose(y.numpy(), call(array, np.array([1, 2], np.float32)))
            assert y.dtype == "float32"


# -- operands --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "dtype"),
    [
        (2, "float32"),
        (2.5, "float32"),
        (True, "float32"),
        (np.float64(2.5), "float32"),
        (np.int8(2), "float32"),
        ([1.0, 2.0], "float32"),
        ((1, 2), "float32"),
        (np.array([1.0, 2.0]), "float64"),
        (np.array([1, 2]), "float32"),
        (np.array([1, 2], np.float16), "float32"),
        (np.array(2.5), "float32"),
    ],
)
def test_operands_of_all_kinds(operand, dtype):
    cx = Graph()
    y = (cx.tensor((2,)).set([1, 2]) + operand).retrieve()
    cx.execute()
    assert y.dtype == dtype
    np.testing.assert_allclose(y.numpy(), np.array([1, 2]) + np.asarray(operand))


def test_torch_tensors_are_operands(torch):
    cx = Graph()
    y = (cx.tensor((2,)).set([1, 2]) * torch.tensor([2.0, 3.0], requires_grad=True)).retrieve()
    z = (cx.tensor((2,), "bfloat16").set([1, 2]) * torch.ones(2, dtype=torch.bfloat16)).retrieve()
    cx.execute()
    assert (y.tolist(), z.tolist(), z.dtype) == ([2, 6], [1, 2], "bfloat16")


@pytest.mark.parametrize(
    ("operand", "kind", "message"),
    [
        ("3", DTypeError, "add: a str that holds <U1, and not numbers of one of our dtypes"),
        (None, DTypeError, "add: None is neither a number nor an array"),
        (1j, DTypeError, "add: a complex that holds complex128, and not numbers"),
        (object, DTypeError, "add: a type is neither a number nor an array"),
        ([[1], [2, 3]], LabError, "add: a list that cannot be read as one array"),
        (np.zeros(2, np.longdouble), DTypeError, f"dtype: '{np.dtype(np.longdouble)}' is not a"),
        (np.zeros(3), ShapeError, "add: the shapes cannot be broadcast together: %x (2,) and %"),
    ],
)
def test_what_is_no_operand(operand, kind, message):
    cx = Graph()
    x = cx.tensor((2,), name="x")
    before = state(cx)
    for call in (lambda: x + operand, lambda: operand + x):
        if isinstance(operand, np.ndarray) or call is not None:
            error = error_of(call, kind)
            assert error.message.startswith(message)
            assert error.hint
            assert "for call in (lambda: x + operand, lambda: operand + x)" in str(error.where)
            assert state(cx) == before


def test_tensors_of_another_graph_in_every_position():
    one, two = Graph("one"), Graph("two")
    x, y = one.tensor((2, 2), name="x"), two.tensor((2, 2), name="y")
    c, d = x > 0, y > 0
    before = state(one), state(two)
    calls = {
        "add": lambda: x + y,
        "mul": lambda: x * y,
        "sub": lambda: x - y,
        "less_than": lambda: x < y,
        "matmul": lambda: x @ y,
        "maximum": lambda: x.maximum(y),
        "pow": lambda: x**y,
        "where x": lambda: c.where(x, y),
        "where condition": lambda: d.where(x, x),
        "masked_fill": lambda: x.masked_fill(d, 0),
        "gather": lambda: x.gather(0, y.cast("int64")),
        "apply": lambda: x.apply(Mul(), y),
        "after": lambda: x.after(x, y),
        "function": lambda: one.function(len, x, y, shape=2),
        "carry": lambda: one.carry(x, y),
        "carry new": lambda: one.carry(y, x),
        "retrieve": lambda: one.retrieve([x, y]),
        "downstream": lambda: one.downstream(y),
        "delete_inputs": lambda: one.delete_inputs(y),
    }
    for name, call in calls.items():
        error = error_of(call, GraphError)
        assert re.search("belongs to (another|the) graph", error.message), name
        assert error.hint, name
        assert f'"{name}": lambda: ' in str(error.where), name
    assert state(one) == before[0]
    two.drop([])
    message = error_of(lambda: x + y).message
    assert message == "add: %y (2, 2) belongs to another graph than %x (2, 2)"


def test_applying_an_op_by_hand():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    assert x.apply(Add(), x).shape == (2,)
    error = error_of(lambda: x.apply(Add(), WRONG), GraphError)
    assert error.message == "add: 3 is not a tensor"
    error = error_of(lambda: x.apply(Add(), cx.tensor((3,))), ShapeError)
    assert "x.apply(Add(), cx.tensor((3,)))" in str(error.where)


# -- axes and numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "message", "hint"),
    [
        (2, "sum: there is no axis 2 in %x (2, 3)", "axes go from -2 to 1"),
        (-3, "sum: there is no axis -3 in %x (2, 3)", "axes go from -2 to 1"),
        (10**30, f"sum: there is no axis {10**30} in %x (2, 3)", "axes go from -2 to 1"),
        (1.0, "sum: 1.0 is not an axis of %x (2, 3)", "an axis is a whole number"),
        ("a", "sum: 'a' is not an axis of %x (2, 3)", "an axis is a whole number"),
        (True, "sum: there is no axis True in %x (2, 3)", "axes go from -2 to 1"),
        ((0, 0), "sum: axis 0 of %x (2, 3) is given twice: (0, 0)", "name each axis once"),
        ([1, -1], "sum: axis 1 of %x (2, 3) is given twice: (1, -1)", "name each axis once"),
        ((0, None), "sum: None is not an axis of %x (2, 3)", "an axis is a whole number"),
    ],
)
def test_what_is_no_axis(axis, message, hint):
    x = Graph().tensor((2, 3), name="x")
    error = error_of(lambda: x.sum(axis), AxisError)
    assert (error.message, error.hint) == (message, hint)
    assert isinstance(error, IndexError)
    assert isinstance(error, ValueError)


def test_axes_of_what_has_none():
    error = error_of(lambda: Graph().constant(1.0).sum(1), AxisError)
    assert error.message == "sum: there is no axis 1 in %0 ()"
    assert error.hint == "it has no axes"


def test_a_number_is_taken_as_a_vector_of_one():
    x = Graph().constant(1.0)
    assert [x.sum(axis).shape for axis in (0, -1, (0,))] == [()] * 3
    assert [x.softmax(0).shape, x.cumsum(-1).shape, x.transpose(0, 0).shape] == [()] * 3
    assert [part.shape for part in x.sort()] == [(), ()]
    for axis in (1, -2, True):
        error_of(lambda a=axis: x.cumsum(a), AxisError)


def test_numpy_integers_are_axes():
    x = Graph().tensor((2, 3))
    assert x.sum(AXIS).shape == (2,)


def test_constants_are_values_of_their_dtype():
    assert constant_of(True, DType.float32, ()).value == 1.0
    assert constant_of(2, DType.bool_, ()).value is True
    assert constant_of(HALF, DType.float64, ()).value == 2.5
    wrongs: list[Any] = ["1", [1], {}, np.zeros(2), None]
    for wrong in wrongs:
        error = error_of(lambda v=wrong: Graph().tensor((2,)).full_like(v), DTypeError)
        assert error.message == f"full_like: {wrong!r} is not a number"
    for value, dtype in [(300, "uint8"), (-1, "uint8"), (1 << 63, "int64"), (10**400, "float32")]:
        error = error_of(lambda v=value, d=dtype: constant_of(v, DType(d), ()), DTypeError)
        assert error.message.startswith(f"constant: {value} is not a value of {dtype}, which holds")


def test_arrays_on_the_left_leave_operators_to_the_tensor():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    a = np.array([4, 6], np.float32)
    made = [a + x, a - x, a * x, a / x, a // x, a % x, a**x, a < x, a >= x, a == x]
    made += [np.float32(3) * x, a.reshape(1, 2) @ x.reshape(2, 1)]
    total = a
    total += x
    cx.retrieve([*made, total])
    cx.execute()
    b = np.array([1, 2], np.float32)
    wanted = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a < b, a >= b, a == b]
    wanted += [3 * b, a.reshape(1, 2) @ b.reshape(2, 1)]
    for one, other in zip([*made, total], [*wanted, a + b], strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        (lambda x: np.exp(x), "exp", "tensors have it as a method: x.exp(...)"),
        (lambda x: np.add(x, x), "add", "write it as an operator, as in x + y"),
        (lambda x: np.add(np.ones(2), x, out=np.ones(2)), "add", "as in x + y"),
        (lambda x: np.add.reduce(x), "add", "write it as an operator, as in x + y"),
        (lambda x: np.spacing(x), "spacing", "x.numpy() is an array, after cx.execute()"),
    ],
)
def test_functions_of_numpy_are_for_arrays(call, name, hint):
    x = Graph().tensor((2,), name="x")
    error = error_of(lambda: call(x), ArgumentError)
    assert error.message == f"np.{name}: %x (2,) is a tensor, and NumPy computes with arrays"
    assert hint in error.hint
    assert "test_lazy.py" in error.where
