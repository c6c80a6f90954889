"""Where one looks as a text: what is written is read, and what is not there is answered."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.viz.live.columns import read
from luminal_lab.viz.live.explorer import Explorer
from luminal_lab.viz.live.workbench import Workbench
from tests.expect import error_of


@pytest.fixture(scope="module")
def bench() -> Workbench:
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("head"):
        (x.softmax(-1) * 1).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
    return cx.workbench()


def test_every_place_is_read_from_what_is_written(bench: Workbench):
    for snapshot in bench.stage, *bench.subjects[0].snapshots:
        for done in (None, *range(len(snapshot.firings) + 1)):
            bench.go(snapshot, firing=done)
            text, place = bench.at, dict(bench._place)
            bench.at = "written"
            bench.at = text
            assert bench._place == place, text


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("recognise/%x", {"kind": "node", "ids": [0]}),
        ("recognise/1/scope head", {"kind": "scope", "path": "head"}),
        ("dce/rule unused", {"kind": "rule", "rule": "unused"}),
        ("dce/kernel softmax", {"kind": "kernel", "kernel": 0}),
        ("dce/source softmax cuda 7", {"kind": "source", "kernel": 0, "line": 7}),
        ("dce/launch 0", {"kind": "launch", "launch": 0}),
        ("recognise/firing 1", {"kind": "firing", "firing": 1}),
        ("written/test_at.py, line 17", {"kind": "line"}),
    ],
)
def test_all_that_can_be_selected_has_a_text(
    bench: Workbench, text: str, selection: dict[str, Any]
):
    bench.at = text
    assert bench._selection | selection == bench._selection
    assert bench.at == text


def test_a_node_that_the_pass_has_removed_stays_at_the_pass(bench: Workbench):
    removed = next(c for c in bench.subjects[0].snapshots[0].ir if c.op.name == "max_reduce")
    bench.at = f"recognise/%{removed.name}"
    assert bench.stage.name == "recognise"
    assert bench.selected == (removed,)
    assert bench.at == f"recognise/%{removed.name}"


def test_passes_go_by_name_number_or_both(bench: Workbench):
    bench.at = "dce"
    number = bench._place["stage"]
    assert bench.stage.firings
    bench.at = f"dce@{number}"
    assert bench.at == "dce"
    bench.at = str(number)
    assert bench.at == "dce"
    bench.at = "1"
    assert bench._place == {"run": 0, "stage": 1, "firing": -1}
    bench.at = "/rule unused"
    assert bench.selected is not None


def test_without_a_pass_one_stays_or_begins_where_the_run_does():
    """`frontend/tests/data/at.test.ts` has the same for pages."""
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x")
    (x.softmax(-1) * 1).named("y").retrieve()
    with ll.trace() as traced:
        cx.compile("simplify, recognise, dce")
        cx.compile("simplify, dce")
    bench = traced.workbench()
    assert isinstance(bench, Workbench)
    runs = read(bench.data).header["runs"]
    begins = [run["first"] for run in runs]
    assert begins == [2, 1]
    bench.at = "/%y"  # as cx.workbench(at="/%y") and page.html#at=/%25y begin
    assert bench._place == {"run": 0, "stage": 2, "firing": -1}
    assert bench._selection["stage"] == 2
    bench.at = "1:/%y"
    assert (bench._place["stage"], bench._selection["stage"]) == (1, 1)
    bench.at = "1:written"
    bench.at = "1:/%x"
    assert (bench._place["run"], bench._place["stage"]) == (1, 0)
    bench.at = "/%x"
    assert bench._place == {"run": 0, "stage": 2, "firing": -1}
    bench.go(run=1)
    assert bench._place["stage"] == 1
    explorer = traced.compilations[0].explore()
    assert isinstance(explorer, Explorer)
    assert read(explorer.data).header["runs"][0]["first"] == 3
    explorer.at = "/%y"
    assert explorer._place["stage"] == 3


def test_a_compile_that_was_stopped_is_shown_where_it_stopped():
    cx = ll.Graph()
    (cx.tensor((4, 8), name="x").softmax(-1) + 0).named("y").retrieve()
    stopped = cx.compile("recognise, simplify, dce", until="rule add-zero")
    bench = cx.workbench(at="/%y")
    assert bench.stage is stopped.snapshots[-1]
    assert read(bench.data).header["runs"][0]["first"] == 2


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("recognize", "there is no pass 'recognize'", "did you mean 'recognise'?"),
        ("dce@0", "there is no pass 'dce@0'", "pass 0 is written"),
        ("999", "there is no pass '999'", "passes go from 0 to "),
        ("recognise/99", "recognise has 2 firings, not 99", "give how many are done, 0 to 2"),
        ("recognise/%yy", "there is no node '%yy'", "did you mean '%y'?"),
        ("dce/kernel softmx", "there is no kernel 'softmx'", "did you mean 'softmax'?"),
        ("dce/rule unusd", "there is no rule 'unusd'", "did you mean 'unused'?"),
        ("dce/scope haed", "there is no scope 'haed'", "did you mean 'head'?"),
        ("dce/launch 9", "there is no launch 9", "there are 1, counted from 0"),
        ("dce/what is it", "'what is it' selects nothing", 'give "%y"'),
        ("7:dce", "there is no run 7", "there is one, 0"),
        ("dce\u202e", "the text names no place", "as in "),
        ("x" * 401, "the text names no place", "as in "),
    ],
)
def test_what_is_not_there_is_answered(bench: Workbench, text: str, message: str, hint: str):
    bench.at = "written"

    def go() -> None:
        bench.at = text

    error = error_of(go)
    assert error.message == f"at: {message}"
    assert str(error.hint).startswith(hint)
    assert bench.at.startswith("written")


def test_a_workbench_begins_there():
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 1).named("y").retrieve()
    cx.compile("simplify, dce")
    assert cx.workbench(at="simplify/0/%y").at == "simplify/0/%y"
    assert error_of(lambda: cx.workbench(at="simplfy")).hint == "did you mean 'simplify'?"
