"""The Open Inference Protocol, over real sockets: what is there, runs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from luminal_lab.artefact.runner import Model
from tests.needs import need
from tests.serving.endpoints import Endpoint, array_of, served

need("uvicorn", "cc")
X = (np.arange(8, dtype="float32").reshape(2, 4) / 7).tolist()


@pytest.fixture(scope="module")
def there(digits: Path):
    with served(digits) as endpoint:
        yield endpoint


def test_what_is_there(there: Endpoint) -> None:
    assert there.ask("/v2")[1]["name"] == "luminal_lab"
    assert there.ask("/v2/health/live") == (200, {"live": True})
    assert there.ask("/v2/health/ready") == (200, {"ready": True})
    assert there.ask("/v2/models/digits/ready") == (200, {"name": "digits", "ready": True})
    assert there.ask("/v2/models/digits") == there.ask("/v2/models/digits/versions/1")
    assert there.ask("/v2/models/digits")[1] == {
        "name": "digits",
        "versions": ["1"],
        "platform": "luminal_lab_c",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    }


@pytest.mark.parametrize("data", [X, X[0] + X[1]], ids=["nested", "flat"])
def test_a_run_gives_the_models_numbers(there: Endpoint, digits: Path, data) -> None:
    asked = {"id": "7", "inputs": [array_of("x", "FP32", data, [2, 4])]}
    status, answer = there.ask("/v2/models/digits/infer", asked)
    assert (status, answer["id"], answer["model_name"]) == (200, "7", "digits")
    (y,) = answer["outputs"]
    assert (y["name"], y["datatype"], y["shape"]) == ("y", "FP32", [2, 3])
    wanted = Model(digits)(x=np.array(X, "float32"))["y"]
    assert np.array(y["data"], "float32").reshape(2, 3).tolist() == wanted.tolist()


ROW = array_of("x", "FP32", [0] * 4, [1, 4])
SAYS = '"name": …, "datatype": …, "shape": …, "data": …'


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, f"inputs is missing: it is a list of {{{SAYS}}}"),
        ({"inputs": None}, "inputs is null, and must be a list"),
        ({"inputs": {"x": []}}, 'inputs is {"x": …}, and must be a list'),
        ({"inputs": [ROW] * 1001}, "inputs has 1,001 entries, and may have 1,000"),
        ({"inputs": [True]}, "inputs has true, which is no object"),
        ({"inputs": [ROW, ROW]}, "inputs has x twice"),
        ({"inputs": []}, "the input x is missing: f32[rows, 4]"),
        ({"inputs": [{"name": "x"}]}, "x has no datatype, and must be FP32"),
        (
            {"inputs": [{**ROW, "datatype": None}]},
            "x is of null, and must be of FP32",
        ),
        (
            {"inputs": [{"name": "x", "datatype": "FP32"}]},
            "x has no shape, and must be f32[rows, 4]",
        ),
        (
            {"inputs": [{**ROW, "shape": ["1", 4]}]},
            'x has the shape ["1", 4], and must be f32[rows, 4]',
        ),
        (
            {"inputs": [{**ROW, "data": [0, 0, True, 0]}]},
            "x: data has true or false, and must be FP32; it must be 4 numbers",
        ),
    ],
)
def test_what_is_refused(there: Endpoint, asked, words: str) -> None:
    assert there.ask("/v2/models/digits/infer", asked) == (400, {"error": words})
