"""Operations: an error is about the name that the user wrote, and the good path is not longer."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.op import OPS
from luminal_lab.core.ops import SumReduce
from luminal_lab.errors import LabError, ShapeError
from luminal_lab.tensor.arithmetic import Arithmetic
from luminal_lab.tensor.joining import dstack, hstack, vstack
from tests.expect import error_of

TOLD = ("index", "join", "other", "windows")  # the name of the operation that uses them
SHORT = ("constant", "full_like")  # the message is of clip, constant
PUBLIC = [
    name
    for name in dir(ll.Tensor)
    if name[0] != "_" and callable(getattr(ll.Tensor, name)) and name not in TOLD + SHORT
]


def provoked(name: str):
    """Yield the errors of a method called with many things, most of which it cannot take."""
    for shape, dtype in product(
        ((), (2,), (2, 3), (2, 3, 4), (0, 3)), ("float32", "int64", "bool")
    ):
        cx = ll.Graph()
        x: Any = cx.tensor(shape, dtype, name="x")
        wrong = cx.tensor((5, 7, 2), name="wrong"), cx.tensor((3,), "bool", name="mask")
        several = [(tensor,) * count for tensor in wrong for count in (1, 2, 3)]
        for given in [(), (9,), (-3,), ("a",), (9, 9), (0, 9), (0, -5, 2), *several]:
            try:
                getattr(x, name)(*given)
            except LabError as error:
                yield error
            except TypeError:  # of a call with too few arguments or too many
                continue


@pytest.mark.share("name", PUBLIC, 130)
def test_an_error_is_about_what_was_called(name):
    for error in provoked(name):
        subject = error.message.partition(":")[0]
        inner = subject in OPS or callable(getattr(ll.Tensor, subject, None))
        assert subject == name or not inner, error.message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.swapaxes(0, 4), "swapaxes: there is no axis 4 in %x (2, 3)"),
        (lambda x: x.amax(4), "amax: there is no axis 4 in %x (2, 3)"),
        (lambda x: x[None].bmm(x[None]), "bmm: the inner dims differ"),
        (lambda x: x.cat(x[0]), "cat: the shapes must be equal apart from axis 0"),
        (lambda x: x.add(x[:, :2]), "add: the shapes cannot be broadcast together"),
        (lambda x: x.less(x[:, :2]), "less: the shapes cannot be broadcast together"),
        (lambda x: x.mT.mT[0].mT, "mT: there is no axis -2 in %"),
        (lambda x: x[0].fliplr(), "fliplr: there is no axis 1 in %"),
        (lambda x: x.argwhere(), "argwhere: its shape would depend on the data of %x (2, 3)"),
        # What has no word of its own keeps that of the operation.
        (lambda x: x @ x, "matmul: the inner dims differ"),
        (lambda x: x - x[:, :2], "sub: the shapes cannot be broadcast together"),
        (lambda x: x[:, 7], "index: there is no position 7"),
        (lambda x: ll.concat([x, x[0]]), "concat: the shapes must be equal"),
        (lambda x: vstack([x, x[:, :2]]), "vstack: the shapes must be equal"),
        (lambda x: hstack([x, x[:1]]), "hstack: the shapes must be equal"),
        (lambda x: dstack([x, x[:1]]), "dstack: the shapes must be equal"),
        (lambda x: x.apply(SumReduce(7)), "sum_reduce: there is no axis 7"),
    ],
)  # fmt: skip
def test_the_word_that_was_written(call, message):
    x = ll.Graph().tensor((2, 3), name="x")
    error = error_of(lambda: call(x), (LabError, TypeError))
    assert str(error).startswith(message)


def test_where_no_argument_is_a_tensor_the_line_is_said():
    for call in (
        lambda: ll.concat([1, 2]),  # pyright: ignore
        lambda: ll.stack([]),
        lambda: ll.einsum("ij->i", np.zeros((2, 2))),  # pyright: ignore
        lambda: ll.where(np.array([True]), 1, 2),
    ):
        assert "lambda: ll." in error_of(call).where


def test_setting_a_part_says_the_line_and_what_to_write():
    x: Any = ll.Graph().tensor((2,), name="x")

    def put():
        x[0] = 1

    error = error_of(put)
    assert "x[0] = 1" in error.where
    assert "x = x.update(rows, at)" in error.hint


def test_an_alias_is_called_as_what_it_stands_for_is():
    x: Any = ll.Graph().tensor((2, 3), name="x")
    assert x.swapaxes(dim0=0, dim1=1).shape == x.transpose(0, 1).shape
    assert x.amax(dim=1, keepdims=True).shape == (2, 1)
    assert ll.Tensor.swapaxes.__name__ == "swapaxes"
    assert ll.Tensor.swapaxes.__doc__ == ll.Tensor.transpose.__doc__


def test_operators_go_no_longer_way():
    # 2 * x is x * 2 without another call in between.
    assert Arithmetic.__rmul__ is Arithmetic.__mul__


def test_an_error_keeps_its_kind_and_what_it_says():
    error = error_of(lambda: ll.Graph().tensor((2, 3), name="x").fliplr().swapaxes(5, 5))
    assert isinstance(error, ShapeError)
    assert error.args == (error.message,)
