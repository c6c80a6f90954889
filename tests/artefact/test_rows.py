"""Which rows are independent: what is proved, what must not be, and that it is so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.artefact.rows import rows_of
from luminal_lab.nn.models import GPT2


class Case(NamedTuple):
    """A function of rows, and what a row is."""

    make: Callable[[ll.Tensor], ll.Tensor]
    row: tuple[int, ...] = (4,)
    dtype: str = "float32"


def gpt(x: ll.Tensor) -> ll.Tensor:
    return GPT2(layers=1, heads=2, width=8, vocab=12, context=8)(x)


def merged(x: ll.Tensor) -> ll.Tensor:
    return nn.Linear(4, 5)(x.reshape(x.shape[0] * 3, 4)).reshape(x.shape[0], 3, 5)


INDEPENDENT = {
    "linear": Case(lambda x: nn.Linear(4, 3)(x).sin()),
    "softmax": Case(lambda x: x.softmax(-1)),
    "convolution": Case(lambda x: nn.Conv2d(2, 3, 3)(x), (2, 6, 6)),
    "transposed": Case(lambda x: (x.T * 2).T),
    "flipped": Case(lambda x: x.flip(1).cumsum(1)),
    "positions": Case(lambda x: x + x.graph.arange(4)),
    "a constant": Case(lambda x: x * 0 + 1),
    "argmax": Case(lambda x: x.argmax(-1)),
    "attention": Case(lambda x: ((x @ x.transpose(1, 2)).softmax(-1) @ x).relu(), (5, 4)),
    "embedding": Case(lambda x: nn.Embedding(10, 4)(x), (3,), "int64"),
    "merged": Case(merged, (3, 4)),
    "gpt": Case(gpt, (6,), "int64"),
}
DEPENDENT = {
    "softmax": Case(lambda x: x.softmax(0)),
    "mean": Case(lambda x: x - x.mean(0)),
    "flipped": Case(lambda x: x.flip(0)),
    "sum of pairs": Case(lambda x: x @ x.T @ x),
    "shifted": Case(lambda x: x.pad(((1, 0), (0, 0)))[:-1]),
    "cumsum": Case(lambda x: x.cumsum(0)),
    "random": Case(lambda x: x + ll.rand_like(x)),
    "reshaped": Case(lambda x: x.reshape(4, x.shape[0]).T),
    "gathered": Case(lambda x: x[x.argmax(0)[:1]] + 0 * x),
}
OF_SIZES = {
    "the number of rows": Case(lambda x: x * x.shape[0]),
    "its place": Case(lambda x: x + x.graph.arange(x.shape[0]).reshape(x.shape[0], 1)),
    "a sum of ones": Case(lambda x: x * ll.ones_like(x).sum(0)),
}


def written(case: Case, rows: Any) -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    cx = ll.Graph()
    first = cx.dim(rows, 1, 9) if isinstance(rows, str) else rows
    x = cx.tensor((first, *case.row), case.dtype, "x")
    return cx, x, case.make(x).named("y").retrieve()


def proved(case: Case, rows: Any) -> Any:
    cx = written(case, rows)[0]
    return rows_of(cx.ir, [node for node in cx.ir.inputs if node.name == "x"])


@pytest.mark.parametrize("rows", ["rows", 6])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_rows_are_proved(name: str, rows: Any) -> None:
    assert str(proved(INDEPENDENT[name], rows)) == str(rows)


@pytest.mark.parametrize("rows", ["rows", 6])
@pytest.mark.parametrize("name", DEPENDENT)
def test_rows_that_look_at_others_are_not(name: str, rows: Any) -> None:
    assert proved(DEPENDENT[name], rows) is None


@pytest.mark.parametrize("name", OF_SIZES)
def test_rows_that_know_their_number_are_not(name: str) -> None:
    assert proved(OF_SIZES[name], "rows") is None


def test_a_weight_for_each_row_is_not() -> None:
    cx = ll.Graph()
    x, w = cx.tensor((6, 4), name="x"), cx.tensor((6, 4), name="w")
    (x * w).named("y").retrieve()
    assert rows_of(cx.ir, [cx.ir.inputs[0]]) is None
    assert rows_of(cx.ir, cx.ir.inputs) == 6, "both are given by callers"


def test_what_is_carried_is_not() -> None:
    cx = ll.Graph()
    x = cx.tensor((6, 4), name="x")
    cx.carry(x + 1, x)
    (x * 2).retrieve()
    assert rows_of(cx.ir, cx.ir.inputs) is None


@pytest.mark.parametrize("name", INDEPENDENT)
def test_what_is_proved_is_so(name: str) -> None:
    case = INDEPENDENT[name]
    cx, x, y = written(case, "rows")
    data = (np.random.default_rng(0).random((5, *case.row)) * 9).astype(case.dtype)
    results: list[Any] = []
    for some in (data, data[[3, 1]]):
        x.set(some)
        cx.execute()
        results.append(y.numpy().copy())
    assert np.allclose(results[0][[3, 1]], results[1], atol=1e-6)
