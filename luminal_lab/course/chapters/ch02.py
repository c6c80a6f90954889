"""The exercises of notebook 02: where an element is read from, and what views alone can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.chapters.lowered import MOVING, beyond, no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import Shape, agrees_lazily, equal
from luminal_lab.tensor import Tensor

ONLY_VIEWS = "views are methods such as reshape, permute, expand, slice, pad, flip and unfold"


def offset(answer: object) -> Verdict:
    """Is it where each element of x.T.reshape(3, 8) lies?"""
    if (none := no_function(answer, "offset")) is not None:
        return none
    function = cast("Callable[[int, int], object]", answer)
    places = np.arange(24).reshape(4, 6).T.reshape(3, 8)

    def row(i: int) -> str:
        for j in range(8):
            fault = equal(function(i, j), places[i, j], tolerance=0, name=f"offset({i}, {j})")
            if fault:
                return fault
        return ""

    return Verdict.all(
        (
            "the first row is right",
            lambda: row(0),
            "element [i, j] is number 8·i + j of x.T; which row and column of x.T is that?",
        ),
        (
            "so are the others",
            lambda: row(1) or row(2),
            "number n of x.T, which has rows of 4, is in its row n // 4 and its column n % 4",
        ),
    )


def moving_sum(answer: object) -> Verdict:
    """Is it the sums of n neighbours, with one reduction and views?"""
    if (none := no_function(answer, "moving_sum")) is not None:
        return none
    function = cast("Callable[..., object]", answer)

    def right(n: int, *shapes: Shape) -> str:
        def reference(x: Array) -> Array:
            return np.lib.stride_tricks.sliding_window_view(x, n, axis=-1).sum(-1)

        def summed(x: Tensor) -> object:
            return function(x, n)

        return agrees_lazily(summed, reference, [[shape] for shape in shapes])

    def of_three(x: Tensor) -> object:
        return function(x, 3)

    return Verdict.all(
        (
            "it is right for n = 3",
            lambda: right(3, (8,), (2, 5)),
            "x.unfold(-1, n) shows all windows, one after the other, on a new last axis",
        ),
        (
            "it is right for other n",
            lambda: right(1, (4,)) or right(2, (6,)) or right(5, (9,), (5,)),
            "is n used, and not a number in its place?",
        ),
        (
            "it is made of views and sum_reduce alone",
            lambda: beyond(of_three, [(8,)], MOVING | {"sum_reduce"}),
            "one sum over the axis within the windows is enough",
        ),
    )


def viewed(
    called: str, reference: Callable[[Array], Array], shapes: list[Shape], hint: str
) -> Callable[[object], Verdict]:
    """Return the check of a function that is made of views alone."""

    def check(answer: object) -> Verdict:
        if (none := no_function(answer, called)) is not None:
            return none
        function = cast("Callable[..., object]", answer)
        return Verdict.all(
            (
                f"it is right for the shape {shapes[0]}",
                lambda: agrees_lazily(function, reference, [shapes[:1]]),
                hint,
            ),
            (
                "it is right for other shapes",
                lambda: agrees_lazily(function, reference, [[shape] for shape in shapes[1:]]),
                "take the sizes from x.shape",
            ),
            (
                "it is made of views alone",
                lambda: beyond(function, shapes[:1], MOVING),
                ONLY_VIEWS,
            ),
        )

    return check


def _anti_diagonal(x: Array) -> Array:
    return np.diagonal(x[:, ::-1])


def _doubled(x: Array) -> Array:
    return x.repeat(2, 0).repeat(2, 1)


EXERCISES = (
    Exercise(
        "02.1",
        "Write offset(i, j): where in x, of shape (4, 6), lies element [i, j] of "
        "x.T.reshape(3, 8)?",
        (
            "Go backwards: from the place in (3, 8) to the place in (6, 4), and then to (4, 6).",
            "n = 8 * i + j counts the elements of x.T; its row is n // 4, its column n % 4.",
            "Element [r, c] of x.T is x[c, r], at 6 * c + r.",
        ),
        """\
def offset(i, j):
    n = 8 * i + j
    row, column = n // 4, n % 4
    return 6 * column + row

answer = offset
""",
        offset,
    ),
    Exercise(
        "02.2",
        "Write moving_sum(x, n): the sums of n neighbours along the last axis, by views and one "
        "sum.",
        (
            "Which view shows the same element several times?",
            "x.unfold(axis, size) has the windows along a new last axis.",
            "return x.unfold(-1, n).sum(-1)",
        ),
        """\
def moving_sum(x, n):
    return x.unfold(-1, n).sum(-1)

answer = moving_sum
""",
        moving_sum,
    ),
    Exercise(
        "02.3",
        "Write anti_diagonal(x): of a square, the diagonal from top right, by views alone.",
        (
            "Turned about, it is the diagonal from top left.",
            "In memory, the elements of a diagonal of n by n are n + 1 apart. Make rows of n + 1.",
            "return x.flip(1).diagonal(); print(….lowering()) shows how the diagonal is viewed",
        ),
        """\
def anti_diagonal(x):
    n = x.shape[0]
    line = x.flip(1).reshape(n * n).pad(((0, n),))
    return line.reshape(n, n + 1).slice([(0, n), (0, 1)]).reshape(n)

answer = anti_diagonal
""",
        viewed(
            "anti_diagonal",
            _anti_diagonal,
            [(4, 4), (3, 3), (1, 1), (6, 6)],
            "its first element is x[0, n - 1], the last x[n - 1, 0]",
        ),
    ),
    Exercise(
        "02.4",
        "Write doubled(x): an image (h, w) with each pixel twice in both directions, by views "
        "alone.",
        (
            "Which view repeats? It needs an axis of size 1.",
            "Put a new axis of size 1 after each axis, repeat it twice, and merge the axes.",
            "x.reshape(h, 1, w, 1).expand(h, 2, w, 2), and then reshape again",
        ),
        """\
def doubled(x):
    h, w = x.shape
    return x.reshape(h, 1, w, 1).expand(h, 2, w, 2).reshape(2 * h, 2 * w)

answer = doubled
""",
        viewed(
            "doubled",
            _doubled,
            [(2, 3), (4, 4), (1, 5), (3, 1)],
            "[[1, 2]] becomes [[1, 1, 2, 2], [1, 1, 2, 2]]",
        ),
    ),
)
