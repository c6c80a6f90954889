"""What a page that computes is refused, and how its inputs are changed."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.artefact import page, spread, targets
from luminal_lab.errors import ArgumentError, DeviceError, UnknownNameError
from luminal_lab.viz.live.computing import computed
from tests.expect import error_of

WIDE = 24


def graph() -> ll.Graph:
    cx = ll.Graph("g")
    x, at = cx.tensor((3,), name="x"), cx.tensor((2,), "int64", name="at")
    image = cx.tensor((1, WIDE, WIDE), name="image")
    (x.gather(0, at).sum() + image.mean()).named("y").retrieve()
    x.set([1, -4, 3])
    at.set([0, 2])
    image.set(np.full((1, WIDE, WIDE), 0.5, "float32"))
    return cx


WRONG: Any = "x"


def header(cx: ll.Graph, run: Any = True) -> dict[str, Any]:
    packed = zlib.decompress(computed(cx.workbench().backed, run).packed)
    return json.loads(packed[4 : 4 + int.from_bytes(packed[:4], "little")])


@pytest.mark.needs("ziglang")
def test_inputs_have_controls_that_suit_them() -> None:
    controls = [tuple(one.values())[:3] for one in header(graph())["controls"]]
    assert controls == [("sliders", -8, 8), ("sliders", 0, 2), ("pad", 0, 1)]
    told = header(graph(), {"x": (0, 5), "at": ["a", "b", "c"], "y": ["sum"]})
    assert [tuple(one.values())[:4] for one in told["controls"]][:2] == [
        ("sliders", 0, 5, None),
        ("text", 0, 2, ["a", "b", "c"]),
    ]
    assert [(one["name"], one["words"]) for one in told["results"]] == [("y", ["sum"])]


@pytest.mark.needs("ziglang")
def test_a_batch_of_what_would_have_a_pad_is_known_as_one() -> None:
    for shape, rows in (
        ((5, 8, 8), 5),
        ((5, 1, 9, 8), 5),
        ((1, 8, 8), 1),
        ((5, 3, 8, 8), 1),
        ((5, 64), 1),
    ):
        cx = ll.Graph()
        cx.tensor(shape, name="image").set(np.ones(shape)).sum().retrieve()
        (control,) = header(cx)["controls"]
        assert control["rows"] == rows


@pytest.mark.needs("ziglang")
def test_results_are_called_by_their_names_or_by_what_they_become() -> None:
    cx = ll.Graph()
    x, count = cx.tensor((2,), name="x"), cx.tensor((2,), name="count")
    x.set([1, 2])
    count.set([0, 0])
    cx.carry(count + x, count)
    (x * 2).named("twice").retrieve()
    (x * 3).retrieve()
    names = sorted(result["name"] for result in header(cx)["results"])
    assert names == ["", "count, carried", "twice"]


@pytest.mark.needs("ziglang")
def test_a_graph_that_was_not_compiled_runs_too(tmp_path: Path) -> None:
    cx = graph()
    made = header(cx)
    assert {node.id for node in cx.ir} == set(made["ids"])
    page = tmp_path / "page.html"
    assert cx.workbench().export(page, run=True) == page
    assert "wasm-unsafe-eval" in page.read_text()
    assert cx.explore().export(str(page)) == page


@pytest.mark.needs("ziglang")
def test_what_is_too_large_is_computed_where_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "LARGEST", (WIDE,))
    cx = ll.Graph("g")
    x = cx.tensor((WIDE, WIDE), name="x")
    (x * 2 + 1).sin().sum(-1).named("y").retrieve()
    made = header(cx)
    kept = {cx.ir[id].op.name for id in made["ids"]}
    assert kept == {"input", "sum_reduce", "reshape"}
    monkeypatch.setattr(spread, "ROOM", WIDE)
    error = error_of(lambda: header(cx), DeviceError)
    assert error.message.startswith("export: the values of all nodes take more than 0 MB")


def test_what_calls_python_is_refused_by_node_and_line(tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor((3,), name="x")
    cx.function(np.sort, x, shape=(3,)).named("sorted").retrieve()
    page = tmp_path / "page.html"
    error = error_of(lambda: cx.workbench().export(page, run=True), DeviceError)
    assert error.message == (
        "export: %sorted calls a function of Python's, so the model cannot run without Python"
    )
    assert "test_computing.py" in str(error.where)
    assert not page.exists()


def test_without_zig_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(asked: str) -> None:
        raise DeviceError(f"compiler: there is no {asked!r}")

    monkeypatch.setattr(targets, "find_compiler", none)
    page = tmp_path / "page.html"
    error = error_of(lambda: graph().workbench().export(page, run=True), DeviceError)
    assert error.message == "export: a page that runs is compiled by zig, and this machine has none"
    assert error.hint == "pip install ziglang; a page without run=True needs no compiler"
    assert not page.exists()


def test_wrong_words_about_inputs() -> None:
    backed = graph().workbench().backed
    error = error_of(lambda: computed(backed, {"z": (0, 1)}), UnknownNameError)
    assert error.message == "export: run mentions 'z', which is neither an input nor an output"
    for like in ((3, 1), (0, float("inf")), [], 7, [1, 2, 3], (0, 1, 2)):
        error = error_of(lambda like=like: computed(backed, {"x": like}), ArgumentError)
        assert error.message == (
            f"export: run gives 'x' {like!r}, which are neither two bounds, the lower one first, "
            "nor words"
        )
    assert error_of(lambda: computed(backed, WRONG), ArgumentError).message == "export: run is 'x'"
    error = error_of(lambda: computed((*backed, *backed), True), ArgumentError)
    assert error.message == "export: run=True needs one graph or compile, and here are 2"


def test_an_output_has_as_many_words_as_classes(tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor((4, 10), name="x").set(np.ones((4, 10)))
    x.softmax(-1).named("digit").retrieve()
    page = tmp_path / "page.html"
    for like, many in (("012", "3 words"), (["zero", "one"], "2 words"), ("0", "1 word")):
        run = {"digit": like}
        error = error_of(lambda run=run: cx.workbench().export(page, run=run), ArgumentError)
        assert error.message == (
            f"export: run gives 'digit' {many}, and its last axis has 10 classes"
        )
        assert "test_computing.py" in str(error.where)
    error = error_of(lambda: cx.workbench().export(page, run={"digit": (0, 1)}), ArgumentError)
    assert error.message == "export: run gives bounds to 'digit', which is an output"
    assert not page.exists()


@pytest.mark.needs("ziglang")
def test_weights_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = page.MOST_BYTES // 4
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    weight = ll.Parameter((many + 3,), name="w")
    weight.set(np.zeros(many + 3, "float32"))
    (cx.parameter(weight)[:3] + x).retrieve()
    error = error_of(lambda: header(cx), DeviceError)
    assert error.message == "export: the weights take 20.0 MB, and a page takes 20 MB at most"
