"""Where one looks as a text: what is written is read, and what is not there is answered."""

from typing import Any

import pytest

import luminal_lab as ll
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
