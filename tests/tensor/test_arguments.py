"""Arguments that do not fit: every answer is an error of ours, at the user's line, with a hint."""

# These calls are wrong on purpose.
# pyright: reportCallIssue=false
import re
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.errors import DTypeError, ShapeError
from tests.expect import error_of
from tests.tensor.against import against, draw, interpret


@pytest.fixture
def x() -> Any:
    return ll.Graph().tensor((2, 3), name="x")


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda x: x.mul(x, alpha=2),
            "mul: there is no argument 'alpha', which only PyTorch has",
            "multiply first, as in x + 2 * y",
        ),
        (
            lambda x: x.sum(1, out=x),
            "sum: there is no argument 'out', which only PyTorch has",
            "results are new tensors: y = x.sum(axis=None, keepdim=False, dtype=None)",
        ),
        (
            lambda x: x.sum(axes=1),
            "sum: there is no argument 'axes'",
            "did you mean 'axis'?",
        ),
        (
            lambda x: x.add(),
            "add: the argument 'other' is missing",
            "call it as x.add(other, *, alpha=1)",
        ),
        (
            lambda x: x.relu(1, 2),
            "relu: takes no arguments by position, but 2 are given",
            "call it as x.relu()",
        ),
        (
            lambda x: x.double("much"),
            "double: takes no arguments by position, but 1 are given",
            "call it as x.double()",
        ),
        (
            lambda x: x.sum(1, axis=1),
            "sum: the argument 'axis' is given twice, by position and by name",
            "call it as x.sum(axis=None, keepdim=False, dtype=None)",
        ),
        (
            lambda x: x.gelu(nonsense=1),
            "gelu: there is no argument 'nonsense'",
            "call it as x.gelu(approximate='none')",
        ),
        (
            lambda x: x.softplus(np.ones(3)),
            "softplus: cannot be called with beta=an array (3,) of float64",
            "call it as x.softplus(beta=1.0, threshold=20.0)",
        ),
        (
            lambda x: ll.concat([x, x], axes=1),
            "concat: there is no argument 'axes'",
            "did you mean 'axis'?",
        ),
        (
            lambda x: nn.mse_loss(x, x, size_average=True),
            "mse_loss: there is no argument 'size_average', which only PyTorch has",
            'say reduction="mean", "sum" or "none"',
        ),
        (
            lambda x: nn.mse_loss(),
            "mse_loss: the argument 'prediction' is missing",
            "call it as mse_loss(prediction, target, reduction='mean')",
        ),
        (
            lambda x: nn.Linear(3, 4, device="cpu"),
            "Linear: there is no argument 'device', which only PyTorch has",
            "a graph runs on what it is compiled for: "
            "cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
        ),
        (
            lambda x: nn.Linear(3, 2)(x, x),
            "Linear: takes 1 argument by position, but 2 are given",
            "call it as Linear(x)",
        ),
        (
            lambda x: x.graph.zeros(),
            "zeros: the argument 'shape' is missing",
            "call it as cx.zeros(shape, dtype='float32')",
        ),
        (lambda x: ll.grad(), "grad: the argument 'loss' is missing", None),
        (
            lambda x: x[: x.argmax()],
            "shape: %23 () is a tensor, whose value only a run knows",
            "shapes are known before a run: use a number or a symbolic dim, and a mask for what "
            "depends on values, as in (positions < t).where(x, 0)",
        ),
        (
            lambda x: x.mean(dtype="int64"),
            "mean: dtype is int64, and a mean is a float",
            'cast the mean, as in x.mean().cast("int64")',
        ),
        (
            lambda x: x.sum(dtype=""),
            "dtype: '' is not a dtype that luminal_lab has",
            "one of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, bool",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_our_words(x, call, message, hint):
    error = error_of(lambda: call(x))
    assert error.message == message
    assert hint is None or error.hint == hint
    assert "test_arguments.py" in error.where
    assert error.__cause__ is None


def test_values_of_a_tensor_are_in_no_error():
    cx = ll.Graph()
    t = cx.tensor((), "int64", name="t").set(2).retrieve()
    cx.execute()
    error = error_of(lambda: cx.tensor((4,), name="x")[:t], ShapeError)
    assert error.message == "shape: %t () is a tensor, whose value only a run knows"


def test_what_the_users_own_code_raises_stays_what_it_is(x):
    def steep(weight):
        raise KeyError("of the user's")

    with pytest.raises(KeyError):
        nn.SGD(lr=0.1, weight_decay=steep).minimise(x.sum(), [x])

    def fill():
        raise ZeroDivisionError

    x.set(fill).retrieve()
    with pytest.raises(ZeroDivisionError):
        x.graph.execute()


def test_dtypes_by_name(torch):
    array = draw((2, 3))
    whole = interpret(lambda x: x.full_like(2, dtype="int32"), array)
    assert whole.dtype == np.int32
    assert error_of(lambda: ll.Graph().tensor((2,)).full_like(1, "float33"), DTypeError).hint
    against(torch, lambda x: x.mean(dtype="float64"), lambda x: x.mean(dtype=torch.float64), array)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1, 3)])
def test_prelu_with_one_slope_keeps_the_shape(torch, shape):
    prelu = torch.nn.functional.prelu
    against(torch, lambda x, w: x.prelu(w), prelu, draw(shape), np.array([0.3], np.float32))


def test_what_python_raised_within_is_noted() -> None:
    with pytest.raises(ll.LabError, match=r"^softplus: cannot be called with beta=") as caught:
        ll.Graph().tensor((3,)).softplus(np.ones(3))  # pyright: ignore[reportArgumentType]
    (note,) = caught.value.__notes__
    begins, ends = (
        "within it, ValueError: The truth value of an array",
        r"\(luminal_lab\.\S+, line \d+\)",
    )
    assert re.fullmatch(f"{begins}.* {ends}", note)
