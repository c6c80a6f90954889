"""Requests that wait are computed together, and get what each gets alone."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.artefact.runner import Model
from luminal_lab.serving.batching import Batches
from luminal_lab.serving.http import ProblemError
from luminal_lab.serving.library import Exported, Value
from luminal_lab.serving.metrics import Metrics
from tests.needs import need
from tests.serving.endpoints import array_of, exported_mlp, served

need("uvicorn", "cc")
DATA = np.random.default_rng(0).random((40, 4), "float32")


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_mlp(tmp_path_factory.mktemp("fixed") / "digits", 8)


def test_the_export_says_which_rows_are_independent(digits: Path, fixed: Path, tmp_path) -> None:
    assert json.loads((digits / "model.json").read_text())["batch"] == "rows"
    assert json.loads((fixed / "model.json").read_text())["batch"] == 8
    cx = ll.Graph()
    cx.tensor((8, 4), name="x").softmax(0).retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    about = json.loads((compiled.export(tmp_path) / "model.json").read_text())
    assert about["batch"] is None


def value(first: int, rows: int) -> Value:
    return Value((rows, 4), DATA[first : first + rows].tobytes())


def together(batches: Batches, jobs: list[tuple[int, int]]) -> list[Any]:
    """Submit rows at once, and return each job's."""

    async def all_of_them() -> list[Any]:
        waiting = [batches.submit([value(first, rows)], {}, 0).done for first, rows in jobs]
        return await asyncio.gather(*waiting)

    return [
        np.frombuffer(outputs[0].data, "float32").reshape(outputs[0].shape)
        for outputs in asyncio.run(all_of_them())
    ]


@pytest.mark.parametrize(("most", "runs"), [(32, 1), (8, 2), (1, 5)])
def test_rows_are_joined_up_to_a_limit(digits: Path, most: int, runs: int) -> None:
    metrics = Metrics()
    batches = Batches(Exported(digits), metrics, most)
    jobs = [(0, 1), (1, 3), (4, 2), (6, 1), (7, 2)]
    results = together(batches, jobs)
    for (first, rows), result in zip(jobs, results, strict=True):
        wanted = Model(digits)(x=DATA[first : first + rows])["y"]
        assert np.allclose(result, wanted, atol=1e-6)
    assert f"luminal_lab_batch_rows_count {runs}\n" in metrics.text()
    batches.close()


def test_a_fixed_batch_is_filled(fixed: Path) -> None:
    metrics = Metrics()
    batches = Batches(Exported(fixed), metrics)
    results = together(batches, [(0, 3), (3, 4), (7, 8)])
    whole = np.concatenate([Model(fixed)(x=DATA[k : k + 8])["y"] for k in (0, 8)])
    assert np.allclose(np.concatenate(results), whole[:15], atol=1e-6)
    assert "luminal_lab_batch_rows_count 2\n" in metrics.text()
    batches.close()
    with served(fixed) as there:
        assert there.ask("/v2/models/digits")[1]["inputs"][0]["shape"] == [-1, 4]
        asked = {"inputs": [array_of("x", "FP32", DATA[:1].tolist(), [1, 4])]}
        assert there.ask("/v2/models/digits/infer", asked)[1]["outputs"][0]["shape"] == [1, 3]
        asked = {"inputs": [array_of("x", "FP32", DATA[:9].tolist(), [9, 4])]}
        status, answer = there.ask("/v2/models/digits/infer", asked)
        assert (status, answer) == (400, {"error": "there are 9 rows, and 8 are the most"})


def test_whoever_gives_a_wrong_index_fails_alone(tmp_path: Path) -> None:
    cx = ll.Graph("words")
    x = cx.tensor((cx.dim("rows", 1, 64), 2), "int64", "x")
    nn.Embedding(5, 3)(x).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1)).export(tmp_path / "words")
    batches = Batches(Exported(tmp_path / "words"), Metrics())

    async def asked() -> list[Any]:
        rows = [np.array([[1, 2]]), np.array([[1, 99]]), np.array([[4, 0]])]
        jobs = [batches.submit([Value((1, 2), ids.tobytes())], {}, 0).done for ids in rows]
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, wrong, last = asyncio.run(asked())
    assert str(wrong) == "words: an index in the data is out of range"
    assert isinstance(wrong, ValueError)
    assert first[0].shape == last[0].shape == (1, 2, 3)
    batches.close()


def test_who_has_gone_is_not_computed(digits: Path) -> None:
    metrics = Metrics()
    batches = Batches(Exported(digits), metrics, 1)

    async def asked() -> None:
        jobs = [batches.submit([value(0, 1)], {}, 0) for _ in range(5)]
        for job in jobs[1:4]:
            job.done.cancel()
        await asyncio.gather(jobs[0].done, jobs[4].done)

    asyncio.run(asked())
    assert "luminal_lab_batch_rows_count 2\n" in metrics.text()
    batches.close()
    with pytest.raises(ProblemError, match="the server is stopping"):
        batches.submit([value(0, 1)], {}, 0)


def test_clients_at_once_share_runs(digits: Path) -> None:
    wanted = Model(digits)(x=DATA)["y"]
    with served(digits) as there, ThreadPoolExecutor(20) as pool:

        def ask(row: int) -> Any:
            asked = {"inputs": [array_of("x", "FP32", DATA[row].tolist(), [1, 4])]}
            return there.ask("/v2/models/digits/infer", asked)[1]["outputs"][0]["data"]

        results = [*pool.map(ask, [*range(40)] * 5)]
        assert np.allclose(results, np.concatenate([wanted] * 5), atol=1e-6)
        assert there.metric('requests_total{path="/v2/models/digits/infer",status="200"}') == 200
        assert there.metric("batch_rows_sum") == 200
        assert there.metric("batch_rows_count") <= 200
