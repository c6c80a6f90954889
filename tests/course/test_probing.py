"""Hold what checks ask of answers, and that none of it raises."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.course import probing
from luminal_lab.course.probing import agrees, agrees_lazily, equal, kernels, kind, nodes, ops
from tests.course.answering import ODD


def test_equal_within_a_tolerance_that_is_relative_above_one():
    assert equal([1.0, 1000.05], [1.00005, 1000.0]) == ""
    assert equal([1.001], [1.0]) == "element [0] of the answer: expected 1, got 1.001"
    assert equal(np.nan, np.nan) == ""
    assert equal(np.inf, np.inf) == ""
    assert equal(np.inf, 1.0) == "the answer: expected 1, got inf"
    assert equal([[1, 2], [3, 5]], [[1, 2], [3, 4]], name="x") == (
        "element [1, 1] of x: expected 4, got 5"
    )


def test_a_tensor_is_computed():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1.0, 2.0])
    assert equal(x * 2, [2.0, 4.0]) == ""
    assert equal(cx.tensor((2,), name="y"), [1.0, 2.0]).startswith(
        "the answer cannot be computed: InputError: "
    )


@pytest.mark.parametrize("name", ODD)
def test_odd_answers_get_a_sentence(name: str):
    answer = ODD[name]
    faults = [
        equal(answer, [1.0, 2.0, 3.0]),
        agrees(answer, lambda x: x, [[(2,)]]),
        agrees_lazily(answer, lambda x: x, [[(2,)]]),
    ]
    assert all(isinstance(one, str) and one for one in faults)
    assert all(isinstance(one, dict) for one in [ops(answer)])


def test_what_is_too_large_is_not_computed():
    fault = equal(ODD["huge tensor"], 1.0)
    assert fault == (
        "the answer has 1,099,511,627,776 elements, and at most 67,108,864 are looked at"
    )


def test_functions_are_compared_call_by_call():
    def only_for_vectors(x: np.ndarray) -> np.ndarray:
        return x[:, None] if x.ndim > 1 else x * 2

    assert agrees(only_for_vectors, lambda x: x * 2, [[(3,)], [(2, 2)]]) == (
        "with an argument of (2, 2), what it returns: expected the shape (2, 2), got (2, 1, 2)"
    )
    assert agrees(lambda x, y: x @ y, lambda x, y: x @ y, [[(2, 3), (3, 4)]]) == ""


def test_a_function_cannot_change_what_the_reference_gets():
    def spoils(x: np.ndarray) -> np.ndarray:
        x[:] = 0
        return x

    assert "element [0]" in agrees(spoils, lambda x: x, [[(3,)]])


def test_functions_of_tensors_have_a_graph_of_their_own():
    other = ll.Graph().tensor((3,), name="x")
    assert agrees_lazily(lambda x: x.exp(), np.exp, [[(3,)]]) == ""
    assert agrees_lazily(lambda x: other, np.exp, [[(3,)]]) == (
        "with an argument of (3,), expected a tensor of the same graph as its arguments, got one "
        "of another graph"
    )
    assert agrees_lazily(lambda x: 3, np.exp, [[(3,)]]) == (
        "with an argument of (3,), what it returns: expected a tensor, got a number"
    )


def test_an_endless_call_is_told():
    def call(x: object) -> object:
        return call(x)

    assert agrees(call, lambda x: x, [[(3,)]]) == (
        "with an argument of (3,), it calls itself without an end"
    )


def test_ops_nodes_and_kernels_are_counted():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2.0, 3.0, 4.0])
    y = (x * 2).exp2().retrieve()
    assert ops(y) == ops(cx) == {"constant": 1, "exp2": 1, "mul": 1}
    assert nodes(cx) == 3
    assert nodes(cx.compile()[-1]) == 3
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert kernels(cx) == 1


def test_kinds_are_words():
    assert kind(None) == "a NoneType"
    assert kind(np.outer([1], [2])) == "an array of NumPy"
    assert {kind(one) for one in (1j, np.float32(1), np.True_, True)} == {"a number"}
    assert kind(ll.Graph) == "the class Graph itself"
    assert kind(ll.Graph().tensor((2,), name="x")) == "a tensor"
    assert probing.ir_of(3) is None
