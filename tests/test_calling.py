"""A compile as a function of arrays: a session's values, its weights, wrong arguments."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DeviceError, InputError
from tests.expect import error_of

pytestmark = pytest.mark.needs("cc")


@pytest.fixture
def rows() -> Any:
    return np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)


def compiled(cx: ll.Graph, *passes: Any) -> Any:
    cx.compile(ll.GenericCompiler(), *passes, ll.CPUCompiler())
    return cx.as_function()


def test_values_are_those_of_the_session_for_any_sizes(rows):
    cx = ll.Graph()
    x = cx.tensor(("n", 8), name="x")
    y, total = ll.nn.Linear(8, 3)(x).retrieve(), x.sum().retrieve()
    function = compiled(cx)
    for count in (5, 1, 3, 5):
        found = function(rows[:count])
        x.set(rows[:count])
        cx.execute()
        assert [a.tobytes() for a in found] == [y.numpy().tobytes(), total.numpy().tobytes()]


def test_results_are_new_arrays(rows):
    cx = ll.Graph()
    (cx.tensor((5, 8), name="x") * 2).retrieve()
    function = compiled(cx)
    first = function(rows)
    function(rows + 1)
    assert np.array_equal(first, rows * 2)


def test_arguments_come_in_any_form_that_fits(rows):
    cx = ll.Graph()
    (cx.tensor((5, 8), name="x") * 2).retrieve()
    function = compiled(cx)
    for given in (rows, rows.astype(np.float64), rows.tolist(), np.asfortranarray(rows)):
        assert np.array_equal(function(given), rows * 2)
        assert np.array_equal(function(x=given), rows * 2)
    flipped = rows[::-1]
    assert np.array_equal(function(flipped), flipped * 2)


def test_weights_may_change_between_calls(rows):
    cx = ll.Graph()
    layer = ll.nn.Linear(8, 3, bias=False)
    layer(cx.tensor((5, 8), name="x")).retrieve()
    function = compiled(cx)
    assert function(rows).any()
    layer.weight.set(np.zeros((3, 8)))
    assert not function(rows).any()


def test_weights_in_fewer_bits_are_stored_once_more_when_they_change(rows):
    cx = ll.Graph()
    layer = ll.nn.Linear(8, 3, bias=False)
    x = cx.tensor((5, 8), name="x")
    y = layer(x).retrieve()
    function = compiled(cx, ll.HalfPrecision())
    for _ in range(2):
        x.set(rows)
        cx.execute()
        assert np.array_equal(function(rows), y.numpy())
        layer.weight.set(np.ones((3, 8)))


def test_what_is_not_given_comes_from_the_session(rows):
    cx = ll.Graph()
    x, shift = cx.tensor((5, 8), name="x"), cx.tensor((8,), name="shift")
    (x + shift).retrieve()
    function = compiled(cx)
    error = error_of(lambda: function(rows), InputError)
    assert "the input %shift is not given" in str(error)
    for value in (1, 2):
        shift.set(np.full(8, value))
        assert np.array_equal(function(rows), rows + value)
    assert np.array_equal(function(rows, shift=np.zeros(8, np.float32)), rows)


def test_each_call_draws_other_numbers():
    cx = ll.Graph()
    (cx.rand(4) + cx.tensor((4,), name="x")).retrieve()
    function = compiled(cx)
    zeros = np.zeros(4, np.float32)
    assert not np.array_equal(function(zeros), function(zeros))


def test_wrong_arguments_are_told(rows):
    cx = ll.Graph()
    (cx.tensor((5, 8), name="x") * 2).retrieve()
    function = compiled(cx)
    assert "2 arrays are given" in str(error_of(lambda: function(rows, rows), ArgumentError))
    assert "no input 'y'" in str(error_of(lambda: function(y=rows), ArgumentError))
    assert "given twice" in str(error_of(lambda: function(rows, x=rows), ArgumentError))
    assert "axis 1 has 7" in str(error_of(lambda: function(rows[:, :7]), InputError))
    assert repr(function) == "<CompiledFunction of main(x: f32[5, 8]) -> f32[5, 8]>"


def test_there_must_be_a_program_for_the_cpu():
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    assert "nothing was compiled yet" in str(error_of(cx.as_function, DeviceError))
    cx.compile(ll.GenericCompiler())
    assert "no program for the CPU" in str(error_of(cx.as_function, DeviceError))
    cx = ll.Graph()
    cx.function(np.sort, cx.tensor((3,), name="x"), shape=(3,)).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    function = cx.as_function()
    given = np.zeros(3, np.float32)
    assert "computed by Python" in str(error_of(lambda: function(given), DeviceError))


def test_a_right_call_looks_for_no_similar_names(monkeypatch):
    def looked(*_: object) -> str:
        raise AssertionError("it takes longer than a small graph")

    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    monkeypatch.setattr("luminal_lab.calling.nearest", looked)
    values = cx.as_function()(x=np.array([1, 2], np.float32))
    assert np.asarray(values).tolist() == [2, 4]
