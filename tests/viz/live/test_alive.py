"""Explorers and workbenches in Python: what is selected, where one is, numbers, errors."""

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import luminal_lab as ll
from luminal_lab.core.origin import Origin
from luminal_lab.errors import ArgumentError, DeviceError, GraphError, RecordingError
from luminal_lab.io.facts import TimeFacts, TimeRow
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.live import export, held, static
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.columns import read
from luminal_lab.viz.live.explorer import Explorer
from luminal_lab.viz.live.meaning import SelectedLine
from luminal_lab.viz.live.shown import compilation_workbench
from luminal_lab.viz.live.workbench import Workbench
from tests.expect import error_of
from tests.needs import need


@pytest.fixture
def cx() -> ll.Graph:
    """A graph with a scope."""
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("head"):
        y = (x.softmax(-1) * 1).named("y")
    (y + 0).named("z").retrieve()
    return cx


@pytest.fixture
def bench(cx: ll.Graph) -> Workbench:
    cx.compile("simplify, dce")
    return cx.workbench()


@pytest.fixture(scope="module")
def kernels() -> Workbench:
    """A workbench of kernels in C, which nothing runs."""
    need("cc")
    cx = ll.Graph("k")
    x = cx.tensor((4, 8), name="x")
    x.softmax(-1).named("p").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    return cx.workbench()


HOSTILE = ("written", "<b>&bold")


# -- what is made ----------------------------------------------------------------------------------


def test_a_graph_as_written_and_as_compiled(cx: ll.Graph):
    e = cx.explore()
    assert isinstance(e, Explorer)
    assert [len(one.snapshots) for one in e.subjects] == [1]
    compilation = cx.compile("simplify, dce")
    assert cx.explore().subjects[0].snapshots == compilation.snapshots
    x = cx["x"]
    (x * 2).retrieve()  # written since
    assert [len(one.snapshots) for one in cx.explore().subjects] == [1]


def test_snapshots_and_compilations_are_explored_too(cx: ll.Graph):
    compilation = cx.compile("simplify, dce")
    one = compilation["simplify"].explore()
    assert one.stage.title == "simplify"
    assert one.stage.ir is compilation["simplify"].ir
    assert len(one.subjects[0].snapshots) == 1
    assert compilation.explore().stage is compilation.snapshots[-1]
    assert compilation_workbench(compilation).compilations == (compilation,)
    assert compilation.workbench().subjects[0].snapshots == compilation.snapshots


def test_a_graph_without_nodes_has_good_words():
    error = error_of(ll.Graph("empty").explore, GraphError)
    assert error.message == "explore: the graph 'empty' has no nodes yet"
    assert error.hint == (
        "write something first: x = cx.tensor((2, 3)), y = x.softmax(-1).retrieve()"
    )
    assert error_of(ll.Graph("empty").workbench, GraphError).message.startswith("workbench: ")


def test_a_graph_of_inputs_alone_is_shown():
    cx = ll.Graph("one")
    cx.tensor((2,), name="x")
    assert len(cx.explore().data) > 0
    assert repr(cx.workbench()).startswith("<Workbench of one: not compiled yet;")


def test_outside_a_notebook_it_says_how_to_see_it(bench: Workbench, capsys: Any):
    assert repr(bench) == (
        '<Workbench of g: 2 passes; a notebook shows it, .export("page.html") writes it as a page>'
    )
    bench.display()
    printed = capsys.readouterr().out
    assert printed == f"{bench}\n"
    assert "    1  simplify " in printed
    assert "Graph g before and after simplify:" in printed
    bench.display_static()
    assert capsys.readouterr().out == printed


def test_the_static_picture_has_words_that_are_escaped():
    cx = ll.Graph("g")
    x = cx.tensor((2,), name="x")
    snapshots = [Snapshot(cx.ir, cx.ir, Record(name, ()), k) for k, name in enumerate(HOSTILE)]
    html = compilation_workbench(Compilation(snapshots, ll.Pipeline())).static("data-x")
    assert x is not None
    # A table of passes is scrolled where it is too wide, and never broken.
    style = "font-family:monospace;white-space:pre;overflow:auto"
    assert html.startswith(f'<div data-x><pre data-x style="{style}">')
    assert "&lt;b&gt;&amp;bold" in html
    assert "<b>" not in html
    assert "<script" not in html


def test_without_a_script_it_shows_what_a_live_one_shows_first(kernels: Workbench):
    subject = kernels.subjects[0]
    html = kernels.static()
    # Both graphs of the pass that says most, and the source of the first kernel.
    assert "before and after fuse-rows" in html
    assert "kernel_softmax(LAB_GIVEN)" in html
    assert ">times<" not in html
    rows = (TimeRow(0, 2.5e-6, 2e-6, 3e-6),)
    times = (TimeFacts("T4", "recorded", rows=rows), TimeFacts("H200", "modelled"))
    timed = replace(subject, facts=replace(subject.facts, times=times))
    table = unescape(Workbench([Backed(timed)]).static())
    assert re.search(r"launch +°T4\n0: softmax → %p +°2.5 µs", table)
    # What was not compiled is one graph.
    kernels.go("written")
    try:
        assert "Graph k as written" in kernels.static()
    finally:
        kernels.go("fuse-rows")


# -- selecting -------------------------------------------------------------------------------------


def names(selected: Any) -> list[str]:
    return [str(node) for node in selected]


def test_nodes_are_selected_by_name_record_tensor_and_number(cx: ll.Graph, bench: Workbench):
    assert bench.selected == ()
    z = bench.stage.ir.outputs[0]
    for what in (str(z), z, z.id, str(z).removeprefix("%")):
        bench.select(None)
        bench.select(what)
        assert bench.selected == (z,)
    bench.select(cx["x"])
    assert names(bench.selected) == ["%x"]
    bench.select(["%x", z])
    assert names(bench.selected) == ["%x", str(z)]
    bench.select(None)
    assert bench.selected == ()


def test_what_the_present_graph_lacks_is_found_in_another(cx: ll.Graph, bench: Workbench):
    bench.go("dce")
    bench.select("%z")
    assert names(bench.selected) == ["%z"]
    assert bench.stage.name == "simplify"


def test_scopes_lines_firings_and_rules(cx: ll.Graph, bench: Workbench):
    bench.go(0)
    bench.select("head")
    assert "%y" in names(bench.selected)
    assert "%x" not in names(bench.selected)
    line = cx["z"].node.meta.origin
    assert isinstance(line, Origin)
    bench.select(f"{Path(__file__).name}, line {line.line}")
    assert bench.selected == line
    bench.select(line)
    assert bench.selected == line
    firing = bench.compilations[0]["simplify"].firings[1]
    bench.select(firing)
    assert bench.selected is firing
    assert bench.stage.name == "simplify"
    rule = bench.compilations[0].rules["mul-one"]
    for what in ("mul-one", rule):
        bench.select(what)
        assert bench.selected is rule


def test_kernels_launches_and_buffers(kernels: Workbench):
    (compilation,) = kernels.compilations
    runner: Any = compilation.runner
    kernel, launch = runner.kernels[0], runner.launches[0]
    for what in (kernel.name, kernel, kernels.subjects[0].facts.kernels[0]):
        kernels.select(what)
        assert kernels.selected is kernel
    for what in (launch, kernels.subjects[0].facts.launches[0]):
        kernels.select(what)
        assert kernels.selected == launch
    buffer = kernels.subjects[0].facts.buffers[0]
    kernels.select(buffer)
    assert kernels.selected == buffer


def test_a_line_of_source_is_its_text(kernels: Workbench):
    kernels._selected({"kind": "source", "kernel": 0, "dialect": "c", "line": 1})
    line = kernels.selected
    assert isinstance(line, SelectedLine)
    source = kernels.subjects[0].facts.kernels[0].sources[0]
    assert line == source.text.splitlines()[0]
    assert (line.kernel, line.dialect, line.line) == (
        kernels.subjects[0].facts.kernels[0].name,
        "c",
        1,
    )


@pytest.mark.parametrize(
    ("what", "message", "hint"),
    [
        ("%zz", "select: g has no node, scope, kernel or rule '%zz'", "did you mean 'z'?"),
        ("haed", "select: g has no node, scope, kernel or rule 'haed'", "did you mean 'head'?"),
        (10_000, "select: no graph of g has a node with the id 10000", "what was removed before"),
        ("cell 7, line 1", "select: no node comes from 'cell 7'", "they come from "),
        (3.5, "select: 3.5 is nothing that can be selected", "give a node or its name"),
        (True, "select: True is nothing that can be selected", "give a node or its name"),
    ],
)
def test_what_is_not_there_is_an_error(bench: Workbench, what: object, message: str, hint: str):
    error = error_of(lambda: bench.select(what), (GraphError, ArgumentError))
    assert error.message == message
    assert error.hint.startswith(hint)
    assert bench.selected == ()


def test_a_line_that_made_nothing_names_those_that_did(cx: ll.Graph, bench: Workbench):
    error = error_of(lambda: bench.select(f"{Path(__file__).name}:1"), GraphError)
    assert error.message == f"select: line 1 of {Path(__file__).name!r} made no node"
    assert error.hint.startswith("lines near it that did: ")


def test_a_tensor_of_another_graph_is_an_error(bench: Workbench):
    x = ll.Graph("other").tensor((2,), name="x")
    error = error_of(lambda: bench.select(x), GraphError)
    assert error.message.startswith("select: %x: f32[2]")
    assert error.message.endswith(" belongs to another graph than g")


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "line", "origin": -1},
        {"kind": "line", "origin": 1 << 30},
        {"kind": "firing", "stage": 1, "firing": -5},
        {"kind": "node", "stage": "0", "ids": [None, {}, "1", 1e99]},
        {"kind": "rule", "rule": ["x"]},
        {"kind": "scope", "stage": 0, "path": None},
        {"kind": ["x"]},
        {"a": {"b": [1]}},
    ],
)
def test_a_selection_from_a_page_that_is_none_selects_nothing(bench: Workbench, given: Any):
    bench.select("%x")
    need("anywidget", "script")
    bench.widget.selection = given
    assert bench.selected == ()


def test_selecting_a_tensor_writes_no_node(cx: ll.Graph, bench: Workbench):
    before = len(cx.ir)
    bench.select(cx["x"])
    bench.select([cx["x"], cx["y"]])
    assert len(cx.ir) == before


def test_observers_hear_of_each_change_until_they_stop(bench: Workbench):
    heard: list[Any] = []
    stop = bench.observe(heard.append)
    assert repr(stop) == "<observing: calling this stops it; 1 in all>"
    bench.select("%x")
    bench.select("%x")
    bench.select(None)
    stop()
    stop()
    bench.select("%x")
    assert [len(one) for one in heard] == [1, 0]
    assert "cannot be called" in str(error_of(lambda: bench.observe(3), ArgumentError))  # pyright: ignore[reportArgumentType]


# -- going -----------------------------------------------------------------------------------------


def test_going_to_passes_and_firings(bench: Workbench):
    assert (bench.stage.index, bench.firing) == (1, None)
    bench.go("simplify", firing=1)
    assert (bench.stage.index, bench.firing) == (1, 1)
    bench.go(0)
    assert (bench.stage.index, bench.firing) == (0, None)
    bench.go(-1)
    assert bench.stage.name == "dce"
    bench.go(bench.subjects[0].snapshots[1])
    assert bench.stage.name == "simplify"
    bench.go(firing=2)
    assert (bench.stage.index, bench.firing) == (1, 2)


@pytest.mark.parametrize(
    ("to", "how", "message"),
    [
        ("simplfy", {}, "go: no pass 'simplfy' ran"),
        (9, {}, "go: there is no snapshot 9"),
        ("simplify", {"firing": 99}, "go: simplify has no firing 99"),
        (0, {"firing": 1}, "go: written has no firing 1"),
        (0, {"run": 3}, "go: there is no run 3"),
    ],
)
def test_going_nowhere_is_an_error(bench: Workbench, to: Any, how: dict[str, Any], message: str):
    before = bench.stage
    assert error_of(lambda: bench.go(to, **how), GraphError).message == message
    assert bench.stage is before


def test_several_runs_are_gone_to_by_number():
    with ll.trace() as t:
        for name in ("a", "b"):
            cx = ll.Graph(name)
            (cx.tensor((2,), name=name) * 1).retrieve()
            cx.compile("simplify")
    bench = t.workbench()
    bench.select("%a")
    bench.go(run=1)
    assert bench.selected == ()
    bench.go("simplify", run=1)
    assert bench.stage.ir.name == "b"
    bench.select("%b")
    assert names(bench.selected) == ["%b"]


# -- numbers on nodes ------------------------------------------------------------------------------


def test_numbers_are_shown_on_nodes(cx: ll.Graph, bench: Workbench):
    bench.go(0)
    bench.overlay = {"%y": 2.0, "x": 1.5}
    ids = {str(cx["y"].id): 2.0, str(cx["x"].id): 1.5}
    overlay: Any = bench.overlay
    assert (overlay["values"], overlay["stage"]) == (ids, 0)
    bench.overlay = None
    assert bench.overlay is None
    error = error_of(lambda: setattr(bench, "overlay", {"yy": 1.0}), GraphError)
    assert error.message == "overlay: g has no node 'yy'"
    assert error.hint == "did you mean 'y'?"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[1]", '{"a": {"results": {"%y": {"value": "1e999"}}}}']
)
def test_files_of_numbers_that_are_none(cx: ll.Graph, tmp_path: Path, text: str):
    (tmp_path / "data.json").write_text(text)
    e = cx.explore()
    with pytest.raises((ArgumentError, RecordingError), match="display: "):
        e.overlay = tmp_path / "data.json"
    assert e.overlay is None


def test_timings_are_numbers_too(cx: ll.Graph):
    cx["x"].set([[0.0] * 8] * 4)
    e = cx.explore()
    e.overlay = cx.time(rounds=1, warm_up=0)
    overlay: Any = e.overlay
    assert overlay["title"].startswith("time, measured")
    assert all(text.endswith("s") for text in overlay["texts"].values())


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.needs("anywidget", "script")
def test_of_a_large_compile_one_view_is_sent_at_first(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(held, "MANY", 1)
    part = read(bench.widget.data)
    stages, views = (part.header["runs"][0][name] for name in ("stages", "views"))
    assert [at for at, view in enumerate(views) if view] == [stages[bench._stage]["view"]]
    assert len(views) > 1
    answer = Mock()
    monkeypatch.setattr(bench.widget, "send", answer)
    bench.widget._asked(None, {"ask": "rest", "request": 7}, [])
    assert answer.call_args_list[-1].args == ({"reply": 7},)
    whole = read(bench.widget.data)
    assert all(whole.header["runs"][0]["views"])
    # What was seen at first stays as it was.
    for name, column in part.columns.items():
        assert column.tolist() == whole.columns[name].tolist()
    assert part.strings == whole.strings[: len(part.strings)]


def test_without_anywidget_it_says_what_to_install(cx: ll.Graph, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    error = error_of(lambda: cx.explore().widget, DeviceError)
    assert str(error) == (
        "explore: a live picture needs anywidget, which is not installed\n"
        'hint: pip install "luminal-lab[lab]"; display() shows a picture without it, and '
        'export("page.html") writes a live page'
    )


def test_without_the_script_it_says_how_to_build_it(
    cx: ll.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(static, "files", lambda _: tmp_path)
    error = error_of(lambda: cx.explore().export(tmp_path / "page.html"), DeviceError)
    assert error.message == (
        "explore: the script of live pictures is not built: luminal_lab/viz/static/lab.js is "
        "missing"
    )
    assert error.hint.startswith("in a checkout, make frontend builds it")


def test_a_page_begins_where_the_value_stands(
    cx: ll.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given: list[export.Exported] = []
    monkeypatch.setattr(export, "page_of", lambda one: given.append(one) or "")
    cx.compile("simplify, dce")
    w = cx.workbench()
    w.go("simplify", firing=0)
    w.select("%x")
    w.export(tmp_path / "page.html")
    state = json.loads(given[0].state)
    assert state["place"] == {"run": 0, "stage": 1, "firing": 0}
    assert (state["selection"]["kind"], state["overlay"]) == ("node", None)


def test_a_workbench_begins_at_the_last_pass_that_changed_something_but_dead_code(cx: ll.Graph):
    cx.compile("simplify, dce, cse, dce")
    assert not cx.snapshots[-1].firings
    assert cx.workbench().stage is cx.snapshots[1]
    assert cx.explore().stage is cx.snapshots[-1]


def test_pages_go_into_files_of_html(cx: ll.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(export, "page_of", lambda given: f"page of {given.title}")
    e = cx.explore()
    e.export(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "page of g"
    error = error_of(lambda: e.export(tmp_path / "page.svg"), ArgumentError)
    assert "is not an HTML file" in error.message
    error = error_of(lambda: e.export(tmp_path / "no" / "page.html"), RecordingError)
    assert "cannot be written" in error.message
    wrong: Any  # a caller may err
    for wrong in (None, 5, "", "a\0.html"):
        error = error_of(lambda wrong=wrong: e.export(wrong), ArgumentError)
        assert error.message == f"export: {wrong!r} is not the name of a file"
    for wrong in ("neon", None):
        error = error_of(lambda wrong=wrong: e.export("a.html", theme=wrong), ArgumentError)
        assert error.message == f"display: the theme is {wrong!r}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((3,), "workbench: 3 has no times"),
        (("x",), "workbench: 'x' has no times"),
    ],
)
def test_times_that_are_none(cx: ll.Graph, given: Any, message: str):
    cx.compile("dce")
    assert error_of(lambda: cx.workbench(*given), ArgumentError).message == message


def test_a_language_that_is_none(cx: ll.Graph):
    cx.compile("dce")
    error = error_of(lambda: cx.workbench(dialects=["opencl"]), ArgumentError)
    assert error.message == "workbench: 'opencl' is not a language of kernels"


def test_the_session_stays_as_it_was(cx: ll.Graph):
    cx["x"].set([[1.0] * 8] * 4)
    compilation = cx.compile("simplify, dce")
    cx.execute()
    before = str(cx), cx.step, cx["z"].tolist()
    bench = cx.workbench()
    bench.go("simplify")
    bench.select("%x")
    assert len(bench.data) > 0
    assert (str(cx), cx.step, cx["z"].tolist()) == before
    assert cx.compilation is compilation
