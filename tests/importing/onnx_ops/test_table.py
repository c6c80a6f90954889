"""The table of ONNX's ops: how functions say what they take, and what does not fit is refused."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import DefinitionError
from luminal_lab.importing.onnx_ops import OPS
from luminal_lab.importing.onnx_ops.table import (
    Call,
    Refusal,
    Value,
    axis_of,
    dtype_of,
    op,
    whole,
    widened,
)


def call(graph: ll.Graph) -> Call:
    return Call(graph, "Op", 18, 1, lambda _: None, lambda array: graph.tensor(array.shape))


def test_a_signature_says_kinds_needs_and_attributes() -> None:
    entry = OPS["Slice"]
    assert [name for name, _, needed in entry.inputs if needed] == ["x"]
    assert [kind for _, kind, _ in entry.inputs] == ["Tensor", *["Sizes"] * 4]
    assert entry.attributes == {"axes", "starts", "ends"}
    assert OPS["Concat"].rest == "Tensor"
    assert OPS["Cast"].required == {"to"}
    assert OPS["Cast"].kind(0) == ("x", "Stored")


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "said"),
    [
        ("Relu", 2, {}, "it has 2 inputs, and takes 1"),
        ("Relu", 0, {}, "the input x is missing"),
        ("Relu", 1, {"odd": 1}, "the attribute 'odd' is not known"),
        ("Cast", 1, {}, "the attribute 'to' is missing"),
        ("TopK", 2, {}, "the values of its input count are not known at import"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, inputs: int, attributes: dict[str, object], said: str
) -> None:
    cx = ll.Graph()
    with pytest.raises(Refusal) as raised:
        OPS[name](call(cx), [cx.tensor((3,)) for _ in range(inputs)], attributes)
    assert raised.value.reason == said


def test_an_op_has_one_function() -> None:
    with pytest.raises(DefinitionError, match="there are two functions for Relu"):
        op("Relu")(lambda _, x: x)


def test_dims_become_a_tensor() -> None:
    cx = ll.Graph()
    cx.tensor(("n", 2)).set([[1, 2]] * 5)
    dims = np.empty(2, object)
    dims[:] = [cx.dim("n"), 7]
    y = call(cx).tensor(dims).retrieve()
    cx.set_dim("n", 5)
    cx.execute()
    assert y.tolist() == [5, 7]


def test_small_helpers() -> None:
    assert axis_of(-1, 3) == 2
    with pytest.raises(Refusal, match="there is no axis 3 among 3"):
        axis_of(3, 3)
    assert dtype_of(16) is ll.DType.bfloat16
    with pytest.raises(Refusal, match="float8_e5m2 is not one of ours"):
        dtype_of(19)
    with pytest.raises(Refusal, match="the size is n, and must be a number"):
        whole([ll.Graph().dim("n")], "the size")
    values: Value = np.array([1], np.uint16)
    assert widened(values).dtype == np.uint16
