"""Compiles, recordings and models beside each other: aligned, static, and as a bundle."""

from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.timing.timings import Timings
from luminal_lab.viz.live import columns
from luminal_lab.viz.live.beside import aligned_passes
from tests.expect import error_of
from tests.needs import need
from tests.viz.test_pages import Read


def written(name: str = "g", zero: float = 0.0) -> ll.Graph:
    cx = ll.Graph(name)
    x = cx.tensor((2, 3), name="x").set([[1, 2, 3], [4, 5, 6]])
    ((x * 1 + zero) * 3).named("y").retrieve()
    return cx


def test_passes_of_one_name_stand_beside_each_other():
    cx = written()
    one, other = cx.compile("simplify, dce"), cx.compile("cse, simplify, cse, dce")
    pairs = aligned_passes(one.snapshots, other.snapshots)
    shown = [(pair.title, pair.first is not None, pair.other is not None) for pair in pairs]
    assert shown == [
        ("written", True, True),
        ("cse", False, True),
        ("simplify", True, True),
        ("cse", False, True),
        ("dce", True, True),
    ]
    assert [pair.differs for pair in pairs] == [False, False, False, False, False]


def test_two_compiles_in_words():
    cx = written()
    beside = ll.beside(cx.compile("dce"), cx.compile("simplify, dce"), names=["plain", "simpler"])
    assert beside.words().splitlines() == [
        "pass      plain  simpler",
        "written   7      7",
        "simplify  –      7 → 7  ×2  ≠",
        "dce       7      7 → 3  ×4  ≠",
        "",
        "                  plain  simpler",
        "nodes at the end      7        3",
    ]
    assert repr(beside) == "<Beside of plain, simpler: 2 passes differ; print(…) shows them>"
    assert beside.totals == {"nodes at the end": ("7", "3")}


def test_recordings_sessions_models_and_live_ones(tmp_path: Path):
    cx, other = written("one"), written("two", 1.0)
    cx.compile("simplify, dce")
    cx.save(tmp_path / "run.lab")
    other.compile(ll.GenericCompiler())
    run = ll.open(tmp_path / "run.lab")
    assert ll.beside(run, other).title == "one, two"
    assert ll.beside(run, run).title == "one (1), one (2)"
    assert ll.beside(cx.workbench(), other.workbench()).title == "one, two"
    model = ll.nn.Linear(3, 2)
    both = []
    for name in ("small", "large"):
        graph = ll.Graph(name)
        model(graph.tensor((1, 3), name="x")).retrieve()
        both.append(graph.compile())
    assert len(ll.beside(*both, cx).subjects) == 3


def test_a_saved_notebook_has_it_without_a_script():
    cx = written()
    html = ll.beside(cx.compile("dce"), cx.compile("simplify, dce"), names=["<b>", "b"]).static()
    read = Read(html)
    assert not read.tags & {"script", "iframe", "b"}
    assert "≠" in read.text
    assert html.count("data:image/svg+xml") == 2
    assert html.count("max-height:560px;overflow:auto") == 2  # a large graph is scrolled
    assert "<b>" in read.text


def test_a_page_has_both_runs(tmp_path: Path):
    cx = written()
    beside = ll.beside(cx.compile("dce"), cx.compile("simplify, dce"))
    runs = columns.read(beside.data).header["runs"]
    assert [run["title"] for run in runs] == ["g (1)", "g (2)"]
    need("script")
    beside.export(tmp_path / "page.html")
    assert 'data-what="beside"' in (tmp_path / "page.html").read_text("utf-8")


def test_what_cannot_be_beside_is_answered():
    cx = written()
    compilation = cx.compile("dce")
    hint = "give compiles, sessions (cx), or recordings that ll.open has opened"
    error = error_of(lambda: ll.beside(compilation))
    assert (error.message, error.hint) == ("beside: there is 1 compile", hint)
    assert error_of(lambda: ll.beside(compilation, 3)).message == "beside: 3 is not a compile"
    times = Timings("main", ())
    hint = "two times are compared by first.beside(second)"
    assert error_of(lambda: ll.beside(times, times)).hint == hint
    error = error_of(lambda: ll.beside(compilation, cx, names=["a"]))
    assert error.message == "beside: there is 1 name, and 2 compiles"


@pytest.mark.parametrize("table", ["passes", "totals"])
def test_tables_are_values(table: str):
    cx = written()
    assert getattr(ll.beside(cx.compile("dce"), cx.compile("simplify")), table)


def test_sessions_that_nobody_named_are_called_by_their_models():
    sessions = [ll.Graph(), ll.Graph()]
    for cx, name in zip(sessions, ("encoder", "decoder"), strict=True):
        with cx.scope(f"{name}.layer"):
            (cx.tensor((2,), name="x") * 2).retrieve()
        cx.compile("dce")
    assert ll.beside(*sessions).title == "encoder, decoder"
    assert ll.beside(sessions[0], sessions[0]).title == "main (1), main (2)"
    names = ["a\x1b[2J", "b"]
    assert ll.beside(*sessions, names=names).title == "a\\u001b[2J, b"
