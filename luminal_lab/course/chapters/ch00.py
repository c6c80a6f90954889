"""The exercises of notebook 00: a lazy graph, a layer for any batch, and what a compile finds."""

from __future__ import annotations

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Input
from luminal_lab.course.chapters.lowered import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily, equal, kind, nodes
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

WRITTEN, LEFT = 8, 2
"""The nodes, inputs not counted, that a graph has at least before a compile, and at most after."""


def table(answer: object) -> Verdict:
    """Is it a lazy table of products?"""
    if not isinstance(answer, Tensor):
        hint = "begin with cx = ll.Graph() and two tensors of it, as at the top of the notebook"
        return Verdict.no(f"expected a tensor of a graph, got {kind(answer)}", hint)
    products, wanted = answer, np.outer(np.arange(1, 10), np.arange(1, 10))

    def shaped() -> str:
        return (
            "" if products.shape == (9, 9) else f"expected the shape (9, 9), got {products.shape}"
        )

    def computed() -> str:
        return "" if products.op_counts() else "it is an input, whose table was made elsewhere"

    return Verdict.all(
        (
            "its shape is (9, 9)",
            shaped,
            "a column of shape (9, 1) times a row of shape (1, 9) is a table",
        ),
        ("the graph computes it", computed, "give the graph 1 to 9, and let it multiply"),
        (
            "its values are the table's",
            lambda: equal(products, wanted),
            "are both tensors 1, 2, … 9, and did you multiply them?",
        ),
    )


def layer(answer: object) -> Verdict:
    """Is it relu(x @ w + b), for all sizes?"""

    def reference(x: Array, w: Array, b: Array) -> Array:
        return np.maximum(np.matmul(x, w) + b, 0)

    def on(*shapes: tuple[tuple[int, int], tuple[int, int]]) -> str:
        return agrees_lazily(answer, reference, [[x, w, (w[1],)] for x, w in shapes])

    if (none := no_function(answer, "layer")) is not None:
        return none
    return Verdict.all(
        (
            "it is right for a batch of 3",
            lambda: on(((3, 4), (4, 5))),
            "x @ w is the product, + b repeats b over the rows, .relu() comes last",
        ),
        (
            "it is right for other sizes too",
            lambda: on(((1, 4), (4, 2)), ((7, 6), (6, 1)), ((5, 5), (5, 5))),
            "use x, w and b as they come, without numbers for their sizes",
        ),
    )


def recognised(answer: object) -> Verdict:
    """Is it a graph of which a compile leaves next to nothing?"""
    if not isinstance(answer, Graph):
        hint = "answer = cx, the graph itself, after cx.compile()"
        return Verdict.no(f"expected a graph, got {kind(answer)}", hint)
    cx = answer
    if len(cx.snapshots) < 2:
        return Verdict.no("the graph is not compiled", "cx.compile() in the line before")
    first, last = cx.snapshots[0].ir, cx.snapshots[-1].ir

    def large() -> str:
        return "" if nodes(first) >= WRITTEN else f"expected {WRITTEN} or more, got {nodes(first)}"

    def small() -> str:
        return "" if nodes(last) <= LEFT else f"expected at most {LEFT}, got {nodes(last)}"

    return Verdict.all(
        (
            "it has a result that depends on an input",
            depends(first),
            "mark what you want with .retrieve(), and compute it from cx.tensor(…)",
        ),
        (
            f"{WRITTEN} nodes or more were written, inputs not counted",
            large,
            "x.sum(-1) alone is two; which line of a model is a whole formula?",
        ),
        (
            f"the compile leaves {LEFT} nodes or fewer",
            small,
            "what has a name of its own in the literature is likely to be recognised",
        ),
    )


def depends(ir: IR) -> bool:
    """Return whether all results of a graph are computed from its inputs."""
    ancestors = [ir.ancestors([id]) for id in ir.output_ids]
    inputs = {node.id for node in ir if isinstance(node.op, Input)}
    return bool(ancestors) and all(set(behind) & inputs for behind in ancestors)


EXERCISES = (
    Exercise(
        "00.1",
        "Write the multiplication table of 1 to 9 as a lazy tensor of shape (9, 9).",
        (
            "The first example of this notebook does it for 3 times 4.",
            "A column of shape (9, 1) and a row of shape (1, 9), both with the numbers 1 to 9.",
            "answer = column.matmul(row), or column * row: sizes of 1 are repeated.",
        ),
        """\
cx = ll.Graph("table")
column = cx.tensor((9, 1), name="column").set([[n] for n in range(1, 10)])
row = cx.tensor((1, 9), name="row").set([list(range(1, 10))])
answer = column.matmul(row)
""",
        table,
    ),
    Exercise(
        "00.2",
        "Write a function of three tensors x, w and b that returns relu(x @ w + b).",
        (
            "Operators and methods are those of PyTorch.",
            "The function gets tensors, returns a tensor, and never sees a number.",
            "return (x @ w + b).relu()",
        ),
        """\
def layer(x, w, b):
    return (x @ w + b).relu()

answer = layer
""",
        layer,
    ),
    Exercise(
        "00.3",
        f"Compile a graph of {WRITTEN} nodes or more of which {LEFT} or fewer are left.",
        (
            "Which part of the model above became a single call?",
            "A softmax over an input is a graph of twelve nodes; so is many a norm.",
            'y = cx.tensor((4, 8), name="x").softmax(-1).retrieve(), and then cx.compile()',
        ),
        """\
cx = ll.Graph("recognised")
x = cx.tensor((4, 8), name="x")
y = x.softmax(-1).retrieve()
cx.compile()
answer = cx
""",
        recognised,
    ),
)
