"""The exercises of notebook 03: larger operations and lookups, spelled in the twelve."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.chapters.lowered import FREE, MOVING, TWELVE, beyond, no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import Shape, agrees_lazily, drawn, equal, kind
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

SPELLED = TWELVE | FREE | MOVING
FITS = "every node is one of the twelve, a constant, a cast or a view"
LOOK = "print(….lowering()) shows what a method writes"


def _log_softmax(x: Array) -> Array:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_softmax(answer: object) -> Verdict:
    """Is it log(softmax(x)), also of large numbers?"""
    if (none := no_function(answer, "log_softmax")) is not None:
        return none
    function = cast("Callable[..., object]", answer)

    def right(scale: float) -> str:
        def scaled(x: Tensor) -> object:
            return function(x * scale)

        def reference(x: Array) -> Array:
            return _log_softmax(np.multiply(x, scale))

        return agrees_lazily(scaled, reference, [[(3, 8)], [(2, 1, 5)]])

    return Verdict.all(
        (
            "its values are right",
            lambda: right(1),
            "log(a / b) is log(a) - log(b); sum over the last axis with keepdim=True",
        ),
        (
            "so are they for numbers in the hundreds",
            lambda: right(300),
            "first subtract the largest number of each row; and never take the log of 0",
        ),
        (FITS, lambda: beyond(function, [(3, 8)], SPELLED), LOOK),
    )


def _max_pool(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def max_pool(answer: object) -> Verdict:
    """Is it the largest of each two by two pixels, by views and max_reduce?"""
    if (none := no_function(answer, "max_pool")) is not None:
        return none
    function = cast("Callable[..., object]", answer)
    return Verdict.all(
        (
            "it is right for an image of (4, 6)",
            lambda: agrees_lazily(function, _max_pool, [[(1, 1, 4, 6)]]),
            "the axes (h, w) can be seen as (h / 2, 2, w / 2, 2)",
        ),
        (
            "it is right for other images, and several channels",
            lambda: agrees_lazily(function, _max_pool, [[(2, 3, 4, 4)], [(1, 2, 2, 8)]]),
            "take n, c, h and w from x.shape",
        ),
        (
            "it is made of views and max_reduce alone",
            lambda: beyond(function, [(1, 1, 4, 6)], MOVING | {"max_reduce"}),
            LOOK,
        ),
    )


def _causal(q: Array, k: Array, v: Array) -> Array:
    scores = np.matmul(q, k.T, dtype=np.float64) / np.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    return np.matmul(np.exp(_log_softmax(scores)), v)


def causal(answer: object) -> Verdict:
    """Is it attention in which no row sees a later one, in the twelve?"""
    if (none := no_function(answer, "causal")) is not None:
        return none
    function = cast("Callable[..., object]", answer)

    def right(*shapes: Shape) -> str:
        return agrees_lazily(function, _causal, [[shape] * 3 for shape in shapes])

    def first() -> str:
        cx = Graph()
        data = [drawn((4, 3), seed) for seed in range(3)]
        q, k, v = (cx.tensor((4, 3)).set(array) for array in data)
        row = function(q, k, v)
        if not isinstance(row, Tensor):
            return f"what it returns: expected a tensor, got {kind(row)}"
        if row.shape != (4, 3):
            return f"what it returns: expected the shape (4, 3), got {row.shape}"
        return equal(row[0], data[2][0], name="the first row")

    return Verdict.all(
        (
            "the first row sees itself alone, and is the first row of v",
            first,
            "where j > i, the score of row i and column j has to be very small before the softmax",
        ),
        (
            "the other rows are right as well",
            lambda: right((5, 4), (2, 8), (1, 3)),
            "are the scores scaled by 1 / √d, where d is the last axis of q?",
        ),
        (FITS, lambda: beyond(function, [(4, 3)] * 3, SPELLED), "add a table instead of choosing"),
    )


def lookup(answer: object) -> Verdict:
    """Does it pick rows of a table without a gather?"""
    if (none := no_function(answer, "rows")) is not None:
        return none
    function = cast("Callable[..., object]", answer)

    def right(size: int, width: int, index: list[int]) -> str:
        cx, data = Graph(), drawn((size, width), size)
        table = cx.tensor(data.shape).set(data)
        places = cx.tensor((len(index),), dtype="int64").set(index)
        got = function(table, places)
        if not isinstance(got, Tensor):
            return f"what it returns: expected a tensor, got {kind(got)}"
        want = data[index]
        if got.shape != want.shape:
            return f"what it returns: expected the shape {want.shape}, got {got.shape}"
        return equal(got, want, name="what it returns")

    def others() -> str:
        cx = Graph()
        got = function(cx.tensor((6, 2)), cx.tensor((3,), dtype="int64"))
        names = got.op_counts() if isinstance(got, Tensor) else {}
        unspelled = [name for name in names if name not in SPELLED]
        return f"expected no other op, got {' and '.join(unspelled)}" if unspelled else ""

    return Verdict.all(
        (
            "it picks rows 2, 0, 2 of a table of four",
            lambda: right(4, 3, [2, 0, 2]),
            "make a table of ones and zeros: one where the column's number is the index",
        ),
        (
            "it is right for other tables and indices",
            lambda: right(7, 1, [6, 5, 0, 0, 3]) or right(1, 4, [0]) or right(3, 5, [1]),
            "take the sizes from table.shape and index.shape",
        ),
        (FITS, others, "two whole numbers are equal if neither is less than the other"),
    )


EXERCISES = (
    Exercise(
        "03.1",
        "Write log_softmax(x) over the last axis, in the twelve, right for large numbers too.",
        (
            "It is x - log(sum of e^x), and e^x overflows if x is in the hundreds.",
            "Subtract the largest number of each row first: that changes nothing else.",
            "s = x - x.max(-1, keepdim=True), and then s - s.exp().sum(-1, keepdim=True).log()",
        ),
        """\
def log_softmax(x):
    s = x - x.max(-1, keepdim=True)
    return s - s.exp().sum(-1, keepdim=True).log()

answer = log_softmax
""",
        log_softmax,
    ),
    Exercise(
        "03.2",
        "Write max_pool(x): of an image (n, c, h, w), the largest of each 2 by 2 pixels, by views "
        "and max_reduce.",
        (
            "Which view makes two axes of one?",
            "In (n, c, h / 2, 2, w / 2, 2) each 2 by 2 pixels have two axes of their own.",
            "x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))",
        ),
        """\
def max_pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

answer = max_pool
""",
        max_pool,
    ),
    Exercise(
        "03.3",
        "Write causal(q, k, v): attention in which row i sees rows 0 to i, in the twelve.",
        (
            "Later rows need weights of 0: their scores have to be very small before the softmax.",
            "With places = q.graph.arange(n), which pairs have row < column? Make it a number.",
            "(places.reshape(n, 1) < places.reshape(1, n)) * -1e9, added to the scores",
        ),
        """\
def causal(q, k, v):
    n, d = q.shape
    places = q.graph.arange(n)
    later = places.reshape(n, 1) < places.reshape(1, n)
    scores = q @ k.T * d**-0.5 + later * -1e9
    return scores.softmax(-1) @ v

answer = causal
""",
        causal,
    ),
    Exercise(
        "03.4",
        "Write rows(table, index): the rows of a table that an index names, without a gather.",
        (
            "A row of zeros with a single one, times a table, is a row of the table.",
            "Where is the one? Where index and column are equal: neither is less than the other.",
            "differ = (i < column) + (column < i), and 1 - differ.cast('float32') has the ones",
        ),
        """\
def rows(table, index):
    size, n = table.shape[0], index.shape[0]
    column = table.graph.arange(size).reshape(1, size)
    i = index.reshape(n, 1)
    differ = (i < column) + (column < i)
    return (1 - differ.cast("float32")) @ table

answer = rows
""",
        lookup,
    ),
)
