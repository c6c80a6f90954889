"""Parameters: values that graphs borrow, made when they are first needed."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, DTypeError, InputError, LabError, ShapeError
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.expect import error_of

SYMBOLIC: Any = ("n",)
NUMBER: Any = 3


def test_a_provider_is_called_once_for_all_graphs_when_the_value_is_needed():
    calls = []

    def provide():
        calls.append(1)
        return np.arange(6).reshape(2, 3)

    weight = Parameter((2, 3), provider=provide, name="w")
    graphs = Graph("one"), Graph("two")
    results = [(cx, (cx.parameter(weight) * 2).retrieve()) for cx in graphs]
    assert not calls
    assert not weight.is_loaded
    for cx, y in results:
        cx.execute()
        np.testing.assert_array_equal(y.numpy(), 2 * np.arange(6).reshape(2, 3))
    assert calls == [1]
    weight.unload()
    assert not weight.is_loaded
    assert weight.value.dtype == np.float32
    assert calls == [1, 1]


def test_set_copies_and_counts_versions():
    data = np.zeros(2, np.float32)
    weight = Parameter((2,), value=data)
    data[:] = 1
    assert weight.value.tolist() == [0, 0]
    before = weight.version
    weight.set([3, 4])
    assert weight.version == before + 1
    weight.set(data, copy=False)
    assert np.shares_memory(weight.value, data)
    weight.set(lambda: [5, 6])
    assert not weight.is_loaded
    assert weight.value.tolist() == [5, 6]


def test_the_value_cannot_be_changed_in_place():
    weight = Parameter((2,), value=[1, 2])
    with pytest.raises(ValueError, match="read-only"):
        weight.value[0] = 5
    assert weight.value.tolist() == [1, 2]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "bool"])
def test_dtypes(dtype):
    weight = Parameter((2,), dtype, value=np.array([True, False]))
    assert weight.value.dtype == (ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda w: w.set([1, 2, 3]),
            InputError,
            "parameter w is (2,), but the data is (3,), so that axis 0 has 3 and not 2",
        ),
        (lambda w: w.set("ab"), DTypeError, "parameter w: a str that holds <U2"),
        (lambda w: Parameter((2,), "int8", value=[0.5, 1]), DTypeError, "a parameter is int8, but"),
        (
            lambda w: Parameter(SYMBOLIC),
            ShapeError,
            "parameter: ('n',) is not a shape of known sizes",
        ),
        (lambda w: Parameter((-1,)), ShapeError, "parameter: (-1,) is not a shape of known sizes"),
        (lambda w: Parameter(NUMBER), ShapeError, "parameter: 3 is not a shape of known sizes"),
        (lambda w: Parameter((2,)).value, InputError, "a parameter: it has no value"),
        (lambda w: Parameter((2,), "float23"), DTypeError, "dtype: 'float23' is not a dtype"),
    ],
)
def test_errors(call, kind, message):
    weight = Parameter((2,), value=[1, 2], name="w")
    error = error_of(lambda: call(weight), LabError)
    assert type(error) is kind
    assert error.message.startswith(message)
    assert error.hint
    assert (weight.value.tolist(), weight.version) == ([1, 2], 1)


def test_a_provider_of_what_does_not_fit_is_named_at_the_line_of_the_graph():
    cx = Graph()
    weight = Parameter((2,), provider=lambda: np.zeros(3), name="w")
    y = (cx.parameter(weight) * 2).retrieve()
    error = error_of(cx.execute, InputError)
    assert error.message.startswith("parameter w is (2,), but the data is (3,)")
    assert "y = (cx.parameter(weight) * 2).retrieve()" in str(error.where)
    assert y.shape == (2,)
    assert cx.step == 0


def test_names():
    cx = Graph()
    one, two = Parameter((2,), name="w"), Parameter((2,), name="w")
    assert [cx.parameter(p).name for p in (one, two, one)] == ["w", "w_2", "w"]
    assert cx.parameter(Parameter((2,))).name == "2"
    assert [str(one), str(Parameter((2,)))] == ["parameter w", "a parameter"]
    assert list(cx.parameters) == ["w", "w_2", "2"]


def test_a_provider_must_be_callable_and_alone():
    error = error_of(lambda: Parameter((2,), provider=NUMBER), ArgumentError)
    assert error.message == "parameter: 3 cannot be called"
    assert error.hint == "give an array as value, or as provider a function that returns one"
    assert "provider=NUMBER" in error.where
    both = error_of(lambda: Parameter((2,), value=[1, 2], provider=lambda: [3, 4]), ArgumentError)
    assert both.message == "parameter: a value and a provider are both given"


def test_init_draws_once_from_a_seed_or_anew():
    calls = []

    def draw(shape, rng):
        calls.append(shape)
        return rng.normal(size=shape)

    one, two = (Parameter((3, 2), init=draw) for _ in range(2))
    assert not calls
    assert not np.array_equal(one.value, two.value)
    assert calls == [(3, 2), (3, 2)]
    before = one.value.copy()
    one.unload()
    np.testing.assert_array_equal(one.value, before)
    for weight in (one, two):
        weight.initialise(7, 1)
    np.testing.assert_array_equal(one.value, two.value)
    one.initialise()
    two.initialise()
    assert not np.array_equal(one.value, two.value)
    plain = Parameter((2,), value=[1, 2])
    plain.initialise(3)
    assert plain.value.tolist() == [1, 2]


def test_what_is_set_is_not_provided_again():
    weight = Parameter((2,), provider=lambda: [1, 2])
    weight.set([3, 4])
    weight.unload()
    assert weight.value.tolist() == [3, 4]


def test_cast_makes_another_parameter():
    weight = Parameter((2,), value=[1, 1e6], name="w", trainable=False)
    half = weight.cast("float16")
    assert not half.is_loaded
    assert (half.name, half.trainable, half.value.dtype) == ("w", False, "float16")
    assert half.value.tolist() == [1, np.inf]
    weight.set([2, 3])
    assert half.value.tolist() == [1, np.inf]
