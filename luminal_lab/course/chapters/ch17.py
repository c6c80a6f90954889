"""The exercises of notebook 17: weights in a file, a request, one run for many, and what leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily, drawn, equal, kind, ops
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

# -- 17.1 ------------------------------------------------------------------------------------------


def file_of(arrays: dict[str, Array], padding: int = 0) -> bytes:
    """Return a safetensors file."""
    at, entries = 0, dict[str, object]()
    for name, array in arrays.items():
        place = [at, at := at + array.nbytes]
        entries[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": place}
    head = json.dumps(entries).encode() + b" " * padding
    data = b"".join(map(np.ndarray.tobytes, arrays.values()))
    return len(head).to_bytes(8, "little") + head + data


def weights(answer: object) -> Verdict:
    """Does it find arrays in a safetensors file?"""
    arrays = {"layer.weight": drawn((3, 4), 1), "layer.bias": drawn((4,), 2), "scale": drawn((), 3)}

    def found(name: str, padding: int = 0) -> str:
        got = cast("Callable[..., object]", answer)(file_of(arrays, padding), name)
        return equal(got, arrays[name], tolerance=0)

    return no_function(answer) or Verdict.all(
        (
            "it finds the first array",
            lambda: found("layer.weight"),
            "the data begin behind the eight bytes and the header",
        ),
        (
            "it finds others, and a single number",
            lambda: found("layer.bias") or found("scale"),
            "data_offsets count from where the data begin",
        ),
        (
            "the header may have any length",
            lambda: found("layer.bias", 1000),
            'int.from_bytes(data[:8], "little") is its length',
        ),
    )


# -- 17.2 ------------------------------------------------------------------------------------------


def asks(answer: object) -> Verdict:
    """Does it write a request of the Open Inference Protocol?"""

    def entry(array: Array) -> dict[str, Any] | str:
        got: object = cast("Callable[..., object]", answer)("image", array.copy())
        if not isinstance(got, str | bytes):
            return f"expected a text, got {kind(got)}"
        try:
            made: object = json.loads(got)
        except ValueError:
            return "this is no JSON"
        found = cast("dict[str, object]", made) if isinstance(made, dict) else {}
        inputs = found.get("inputs")
        if not isinstance(inputs, list) or len(cast("list[object]", inputs)) != 1:
            return 'expected {"inputs": [one input]}'
        (one,) = cast("list[object]", inputs)
        return cast("dict[str, Any]", one) if isinstance(one, dict) else "an input is no dict"

    def says(key: str, want: object) -> str:
        one = entry(drawn((2, 3), 1))
        if isinstance(one, str):
            return one
        return "" if one.get(key) == want else f"{key}: expected {want!r}, got {one.get(key)!r}"

    def numbers() -> str:
        array = drawn((2, 3), 4)
        one = entry(array)
        if isinstance(one, str):
            return one
        data = np.array(one.get("data", []), "float32")
        return equal(data.ravel(), array.ravel(), tolerance=0, name="data")

    return no_function(answer) or Verdict.all(
        (
            "it is JSON, with one input",
            lambda: said if isinstance(said := entry(drawn((2,), 0)), str) else "",
            'json.dumps({"inputs": [{...}]})',
        ),
        (
            "it says the name, the type and the shape",
            lambda: says("name", "image") or says("datatype", "FP32") or says("shape", [2, 3]),
            "the notebook's function ask writes one",
        ),
        ("it has the numbers", numbers, "array.ravel().tolist() are numbers of Python's"),
    )


# -- 17.3 ------------------------------------------------------------------------------------------


def joins(answer: object) -> Verdict:
    """Does it run once for many requests, and give each its own rows?"""

    def run(sizes: Sequence[int]) -> str:
        requests = [drawn((rows, 3), k) for k, rows in enumerate(sizes)]
        calls = list[int]()

        def call(array: Array) -> Array:
            calls.append(len(array))
            return array.sum(-1, keepdims=True) * np.float32(2)

        given = [array.copy() for array in requests]
        got: object = cast("Callable[..., object]", answer)(call, given)
        if not isinstance(got, list | tuple):
            return f"expected a list of answers, got {kind(got)}"
        answers = [*cast("Sequence[object]", got)]
        if len(calls) != 1:
            return f"expected one call, got {len(calls)}"
        if len(answers) != len(requests):
            return f"expected {len(requests)} answers, got {len(answers)}"
        wanted = [array.sum(-1, keepdims=True) * 2 for array in requests]
        said = (
            equal(one, want, name=f"answer {k}")
            for k, (one, want) in enumerate(zip(answers, wanted, strict=True))
        )
        return next(filter(None, said), "")

    return no_function(answer) or Verdict.all(
        (
            "it calls once, and each request gets its row",
            lambda: run([1, 1, 1, 1]),
            "np.concatenate(requests) has all rows",
        ),
        (
            "requests may have several rows, or none",
            lambda: run([2, 0, 5, 1]),
            "np.split(result, places) cuts where each request ends",
        ),
        ("one request alone is right, too", lambda: run([3]), "no cut is needed for the last one"),
    )


# -- 17.4 ------------------------------------------------------------------------------------------


def largest_two(a: Array) -> Array:
    """Return the sum of the two largest of each row."""
    return np.sort(a, -1)[..., -2:].sum(-1)


def leaves(answer: object) -> Verdict:
    """Does it compute the same by ops that have a form in C?"""

    def without_python() -> str:
        made: object = cast("Callable[..., object]", answer)(Graph().tensor((3, 5), name="a"))
        if not isinstance(made, Tensor):
            return f"expected a tensor, got {kind(made)}"
        found = {"host_call", "user_kernel"} & ops(made).keys()
        return f"{' and '.join(sorted(found))} cannot leave" if found else ""

    shapes = [[(3, 5)], [(2, 2)], [(4, 17)]]
    return no_function(answer) or Verdict.all(
        (
            "it is the sum of the two largest",
            lambda: agrees_lazily(answer, largest_two, shapes),
            "the largest is a.max(-1); what is the largest of the others?",
        ),
        (
            "no function of Python's is called",
            without_python,
            "use the tensor's own operations",
        ),
    )


EXERCISES = (
    Exercise(
        "17.1",
        "answer is a function weight(data, name) that returns the array of float32 that a "
        "safetensors file, given as bytes, has under a name.",
        (
            'size = int.from_bytes(data[:8], "little"); json.loads(data[8 : 8 + size]) follows.',
            "begin, end = the entry's data_offsets, counted from byte 8 + size.",
            "np.frombuffer(part, np.float32).reshape(shape)",
        ),
        """import json

import numpy as np


def weight(data, name):
    end = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:end])[name]
    first, last = entry["data_offsets"]
    numbers = np.frombuffer(data[end + first : end + last], np.float32)
    return numbers.reshape(entry["shape"])


answer = weight""",
        weights,
    ),
    Exercise(
        "17.2",
        "answer is a function body(name, array) that returns the body of a request of the Open "
        "Inference Protocol for one input of float32, as a text in JSON.",
        (
            'The body is {"inputs": [...]}, with a dict for each input.',
            "The dict has name, datatype, shape and data.",
            '"datatype" is "FP32"; data are the numbers, flat or in nested lists.',
        ),
        """import json


def body(name, array):
    one = {"name": name, "datatype": "FP32", "shape": array.shape}
    return json.dumps({"inputs": [{**one, "data": array.ravel().tolist()}]})


answer = body""",
        asks,
    ),
    Exercise(
        "17.3",
        "answer is a function together(call, requests) that runs a model once for all requests, "
        "which are arrays with some rows each, and returns a list with the answer of each.",
        (
            "All rows together are one array: np.concatenate.",
            "The answers of the first request are the first rows of the result.",
            "np.cumsum of the numbers of rows says where each request ends.",
        ),
        """import numpy as np


def together(call, requests):
    result = call(np.concatenate(requests))
    ends = np.cumsum([len(rows) for rows in requests])
    return np.split(result, ends[:-1])


answer = together""",
        joins,
    ),
    Exercise(
        "17.4",
        "answer is a function of a tensor that returns the sum of the two largest numbers of each "
        "row, as lambda a: np.sort(a, -1)[..., -2:].sum(-1) does, without a function of Python's.",
        (
            "The largest is a.max(-1, keepdim=True). Where is it?",
            "Take it out: put something very small in its place, and ask for the maximum again.",
            "ll.where(a < top, a, -1e30) keeps all but the largest.",
        ),
        """import luminal_lab as ll


def two_largest(a):
    top = a.max(-1, keepdim=True)
    rest = ll.where(a < top, a, -1e30)
    return top[..., 0] + rest.max(-1)


answer = two_largest""",
        leaves,
    ),
)
