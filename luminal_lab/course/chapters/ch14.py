"""The exercises of notebook 14: run somebody's file, say what of one is not here, and mend one."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import drawn, equal, kind
from luminal_lab.importing.onnx import from_onnx
from luminal_lab.importing.onnx_file import library
from luminal_lab.session import Graph
from luminal_lab.writing import write_bytes

HEAD = '<ir_version: 10, opset_import: ["": 20, "com.example": 1]>'
WEIGHTS = {"a": drawn((8, 16), 1), "b": drawn((16, 3), 2)}


def model_of(body: str, weights: Mapping[str, Array] = WEIGHTS) -> Any:  # noqa: ANN401  # of the package onnx, which is untyped
    """Return an ONNX model of one input x [batch, 8] and one output y [batch, 3]."""
    onnx = library()
    text = f"{HEAD} small (float[batch, 8] x) => (float[batch, 3] y) {{ {body} }}"
    model = onnx.parser.parse_model(text)
    arrays = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    model.graph.initializer.extend(arrays)
    return model


def written(folder: str, body: str, weights: Mapping[str, Array] = WEIGHTS) -> str:
    """Write such a model into a folder, and return its path."""
    path = Path(folder, "small.onnx")
    write_bytes("exercise", path, model_of(body, weights).SerializeToString())
    return str(path)


# -- 14.1 ------------------------------------------------------------------------------------------


def runs(answer: object) -> Verdict:
    """Does it open a file, and return what its model gives for some rows?"""

    def computed(body: str, wanted: Callable[[Array], Array], rows: int) -> str:
        x = drawn((rows, 8), rows)
        with tempfile.TemporaryDirectory() as folder:
            got = cast("Callable[..., object]", answer)(written(folder, body), x.copy())
        return equal(got, wanted(x))

    a, b = WEIGHTS["a"], WEIGHTS["b"]
    return no_function(answer) or Verdict.all(
        (
            "it is right for a product",
            lambda: computed(
                "h = MatMul(x, a) y = MatMul(h, b)", lambda x: np.dot(np.dot(x, a), b), 4
            ),
            "model = ll.from_onnx(path); y = model(cx.tensor(x.shape)…).retrieve()",
        ),
        (
            "it is right for another number of rows, and with a Relu",
            lambda: computed(
                "h = MatMul(x, a) r = Relu(h) y = MatMul(r, b)",
                lambda x: np.dot(np.maximum(np.dot(x, a), 0), b),
                7,
            ),
            "the shape of the input is that of x",
        ),
    )


# -- 14.2 ------------------------------------------------------------------------------------------


def lacking(answer: object) -> Verdict:
    """Does it name the ops of a file that are not here?"""

    def named(body: str, wanted: set[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            got: object = cast("Callable[..., object]", answer)(written(folder, body))
        if not isinstance(got, Set | list | tuple):  # the keys of a dict are a set
            return f"expected a set of names, got {kind(got)}"
        found = {str(name) for name in cast("set[object]", got)}
        return "" if found == wanted else f"expected {wanted or '{}'}, got {found or '{}'}"

    return no_function(answer) or Verdict.all(
        (
            "of a model that is all here it names nothing",
            lambda: named("h = MatMul(x, a) y = MatMul(h, b)", set()),
            "contents(path).missing has what is not here",
        ),
        (
            "it names an op of somebody's own",
            lambda: named(
                "h = com.example.Swish(x) k = MatMul(h, a) y = MatMul(k, b)", {"com.example.Swish"}
            ),
            "the keys of .missing",
        ),
    )


# -- 14.3 ------------------------------------------------------------------------------------------


def unread(body: str) -> str:
    """Return why a text is not one of nodes; "" if it is."""
    try:
        model_of(body)
    except Exception as error:  # the package onnx has its own
        lines = str(error).replace("\\n", "\n").strip("b'").splitlines()
        where = [line.partition(": ")[2].strip() for line in lines if "context" in line]
        line = where[0].rpartition("(y) {")[2] if where else ""
        nested = re.search(r"\([^()=]*\w\(", body)
        why = "a node is called with names, not with other nodes" if nested else lines[-1]
        shown = line.rpartition("{ ")[2].strip()
        return f"ONNX cannot read it{f', at {shown!r}' if shown else ''}: {why}"
    return ""


def mended(answer: object) -> Verdict:
    """Does an ONNX text compute what the one with a Swish computes, with ops that are here?"""
    if not isinstance(answer, str):
        hint = 'answer = """h = MatMul(x, a) …""", a text of nodes'
        return Verdict.no(f"expected a text of ONNX nodes, got {kind(answer)}", hint)
    body = answer

    def values() -> str:
        x = drawn((5, 8), 9)
        cx = Graph()
        with tempfile.TemporaryDirectory() as folder:
            model = from_onnx(written(folder, body))
        y = model(cx.tensor(x.shape).set(x)).retrieve()
        cx.execute()
        hidden = np.dot(x, WEIGHTS["a"])
        return equal(y.numpy(), np.dot(hidden / (1 + np.exp(-hidden)), WEIGHTS["b"]))

    return Verdict.all(
        (
            "it is a text of nodes",
            lambda: unread(body),
            "a line for each node, as in s = Sigmoid(h)",
        ),
        (
            "no op of another domain is left",
            "com." not in body,
            "Swish(x) is x times the sigmoid of x",
        ),
        (
            "it comes in, and computes the same",
            values,
            "s = Sigmoid(h)   k = Mul(h, s)",
        ),
    )


EXERCISES = (
    Exercise(
        "14.1",
        "Run anybody's file: answer is a function run(path, x) that opens an ONNX file and returns "
        "what its model gives for an array x, as an array.",
        (
            "A session, an input with the data of x, the model called with it, and a run.",
            "model = ll.from_onnx(path); the model is a function of tensors.",
            "cx.execute() computes what was retrieved; y.numpy() is the array.",
        ),
        """def run(path, x):
    cx = ll.Graph()
    model = ll.from_onnx(path)
    y = model(cx.tensor(x.shape).set(x)).retrieve()
    cx.execute()
    return y.numpy()


answer = run""",
        runs,
    ),
    Exercise(
        "14.2",
        "What would not come in? answer is a function lacks(path) that returns the names of a "
        "file's ops that are not here, as a set.",
        (
            "contents(path) reads a file without making anything of it.",
            "Its .missing is a dict: what is not here, with the reason.",
            "A set of a dict is the set of its keys.",
        ),
        """from luminal_lab.importing.contents import contents


def lacks(path):
    return set(contents(path).missing)


answer = lacks""",
        lacking,
    ),
    Exercise(
        "14.3",
        "Somebody's model has the nodes h = MatMul(x, a)  k = com.example.Swish(h)  "
        "y = MatMul(k, b), where Swish(h) is h times the sigmoid of h. answer is the text of nodes "
        "that compute the same y with ops of the standard.",
        (
            "The standard has Sigmoid and Mul.",
            "A node is a line: result = Op(inputs). The first and the last stay as they are.",
            "Two nodes take the place of one: the sigmoid, and the product with h.",
        ),
        '''answer = """
    h = MatMul(x, a)
    s = Sigmoid(h)
    k = Mul(h, s)
    y = MatMul(k, b)
"""''',
        mended,
    ),
)
