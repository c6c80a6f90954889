"""Answers to what pages ask: beside the user's graph, never in it; what fails is a sentence."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import trust
from luminal_lab.display import Alive
from luminal_lab.viz.live import bundle, columns, replies
from luminal_lab.viz.live.replies import Replies
from luminal_lab.viz.live.shown import compilation_workbench
from luminal_lab.viz.live.workbench import Workbench
from tests.expect import state
from tests.io.test_worker_facts import megatron
from tests.needs import need
from tests.workers.test_pipelined import layers


class Page:
    """A page that asks."""

    def __init__(self, bench: Workbench | Alive) -> None:
        assert isinstance(bench, Workbench)
        self.shown: list[Any] = []
        self.bench = bench
        show = lambda: self.shown.append(columns.read(bench.data))  # noqa: E731  # what a page does
        bench._held.watchers.append(show)
        self.replies = Replies(bench._held, show)

    def ask(self, what: str, **body: object) -> dict[str, Any]:
        """Return the answer, which JSON can hold."""
        reply = self.replies.answer({"ask": what, **body})
        json.dumps(reply, allow_nan=False)
        return reply

    @property
    def titles(self) -> list[str]:
        """The runs that the page was last given."""
        return [run["title"] for run in self.shown[-1].header["runs"]]


@pytest.fixture
def cx() -> ll.Graph:
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x").set([[1, 2, 3], [4, 5, 6]])
    w = cx.tensor((2, 3), name="w")
    y = ((x * 1 + 0) * 3).named("y")
    (y + w).named("z").retrieve()
    return cx


@pytest.fixture
def page(cx: ll.Graph) -> Page:
    cx.compile("simplify, dce")
    return Page(cx.workbench())


@pytest.fixture
def on_cpu() -> tuple[ll.Graph, Page]:
    need("cc")
    cx = ll.Graph("c")
    cx.tensor((4, 8), name="x").set(np.linspace(-1, 1, 32).reshape(4, 8)).softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    return cx, Page(cx.workbench())


# -- values ----------------------------------------------------------------------------------------


def test_values_are_of_the_sessions_data(cx: ll.Graph, page: Page):
    reply = page.ask("values", run=0, stage=0, id=cx["y"].id)
    assert (reply["min"], reply["max"], reply["mean"], reply["drawn"]) == (3, 18, 10.5, False)
    assert reply["text"] == (
        "6 numbers, float32(2, 3): 3 to 18, mean 10.5 ± 5.123; with the session's data"
    )
    cx["x"].set([[1, 2, 3], [4, 5, 7]])
    assert page.ask("values", stage=0, id=cx["y"].id)["max"] == 21


def test_data_that_is_missing_is_drawn_and_that_is_said(cx: ll.Graph, page: Page):
    reply = page.ask("values", stage=0, id=cx["z"].id)
    assert reply["drawn"]
    assert reply["text"].endswith(
        "; with drawn data for %w, which has none; the rest is the session's"
    )
    again = page.ask("values", stage=0, id=cx["z"].id)
    assert again == reply
    assert page.ask("values", stage=0, id=cx["w"].id)["text"].endswith(
        "; with drawn data for %w, which has none"
    )


def test_every_node_of_every_stage_has_a_value(page: Page):
    for stage, snapshot in enumerate(page.bench.subjects[0].snapshots):
        for node in {*snapshot.ir, *snapshot.before}:
            assert "error" not in page.ask("values", stage=stage, id=node.id), node


def test_what_depends_on_nothing_says_so():
    cx = ll.Graph("g")
    y = cx.arange(4).retrieve()
    assert Page(cx.workbench()).ask("values", id=y.id)["text"].endswith("it depends on no input")


def test_dims_without_a_size_get_one():
    cx = ll.Graph("g")
    x = cx.tensor(("n", 4), name="x")
    y = (x * 2).sum(0).retrieve()
    page = Page(cx.workbench())
    assert page.ask("values", id=x.id)["count"] % 4 == 0
    x.set(np.ones((7, 4)))
    assert page.ask("values", id=y.id)["max"] == 14
    x.set(np.ones((5, 4)))
    assert page.ask("values", id=y.id)["max"] == 10
    cx.execute()
    x.set(np.ones((3, 4)))
    assert page.ask("values", id=y.id)["max"] == 6


def test_parameters_and_functions_are_the_sessions():
    cx = ll.Graph("g")
    layer = ll.nn.Linear(3, 2)
    x = cx.tensor((1, 3), name="x").set([[1, 2, 3]])
    y = cx.function(lambda a: a + 1, layer(x), shape=(1, 2)).retrieve()
    cx.execute()
    reply = Page(cx.workbench()).ask("values", id=y.id)
    assert reply["max"] == pytest.approx(y.numpy().max())
    assert not reply["drawn"]


def test_values_that_are_not_numbers_are_counted():
    cx = ll.Graph("g")
    x = cx.tensor((4,), name="x").set([0, 1, -1, np.inf])
    y = x.log2().retrieve()
    reply = Page(cx.workbench()).ask("values", id=y.id)
    assert (reply["nan"], reply["inf"]) == (1, 2)


def test_a_recording_has_drawn_values(cx: ll.Graph, page: Page):
    bench = compilation_workbench(ll.compile_ir(cx.ir, "simplify"))
    assert Page(bench).ask("values", id=cx["y"].id)["drawn"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"id": 999}, "values: %999 is neither in the graph before dce nor in the one after it\n"),
        ({"id": 0, "stage": 9}, "the question has stage 9, which is not there"),
        ({"id": 0, "run": 1}, "the question has run 1, which is not there"),
        ({"id": "x"}, "the question has id 'x', which is not there"),
        ({}, "the question has id None, which is not there"),
        ({"id": -1}, "the question has id -1, which is not there"),
        ({"id": 0, "run": [1]}, "the question has run [1], which is not there"),
    ],
)
def test_questions_that_have_no_answer(page: Page, body: dict[str, Any], error: str):
    assert page.ask("values", **body)["error"].startswith(error)


def test_a_value_that_is_too_large_is_not_made(cx: ll.Graph):
    huge = (cx["x"].reshape((6, 1)).expand((6, 1 << 28)) * 2).retrieve()
    reply = Page(cx.workbench()).ask("values", id=huge.id)
    assert reply["error"].startswith(f"values: %{huge.name} has 1,610,612,736 numbers, 6,442,450,")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (KeyboardInterrupt(), "Stopped. Nothing was changed."),
        (ValueError("mine"), "ValueError: mine"),
        (SystemExit(3), "SystemExit: 3"),
        (MemoryError(), "execute: out of memory: %y"),
        (ll.GraphError("a sentence", hint="a hint"), "a sentence"),
    ],
)
def test_whatever_is_raised_is_a_sentence(raised: BaseException, error: str):
    def fail(_: object) -> None:
        raise raised

    cx = ll.Graph("g")
    x = cx.tensor((2,), name="x").set([1, 2])
    y = cx.function(fail, x, shape=(2,), name="y").named("y").retrieve()
    reply = Page(cx.workbench()).ask("values", id=y.id)
    assert reply["error"].startswith(error)
    assert "error" not in Page(cx.workbench()).ask("values", id=x.id)


def test_warnings_come_with_the_answer_and_go_nowhere_else(cx: ll.Graph, page: Page):
    def warn(a: Any) -> Any:
        warnings.warn("careful", stacklevel=1)
        return a

    v = cx.function(warn, cx["x"], shape=(2, 3)).retrieve()
    assert Page(cx.workbench()).ask("values", id=v.id)["warnings"] == ["careful"]


# -- error, why ------------------------------------------------------------------------------------


def test_the_error_overlay_of_a_device(on_cpu: tuple[ll.Graph, Page]):
    cx, page = on_cpu
    reply = page.ask("error_overlay", run=0)
    last = cx.snapshots[-1].ir
    assert str(last.output_ids[0]) in reply["values"]
    assert max(reply["values"].values()) < 1e-5
    assert reply["text"].startswith("what the device computes against float64; ")
    assert reply["stage"] == len(cx.snapshots) - 1


def test_what_is_infinitely_wrong_is_told_apart():
    cx = ll.Graph("g")
    x = cx.tensor((2,), name="x").set([1e30, 1])
    y = (x * x).retrieve()
    reply = Page(cx.workbench()).ask("error_overlay")
    assert reply["infinite"] == [y.id]
    assert reply["values"] == {str(x.id): 0.0}


def test_why_and_why_not(cx: ll.Graph, page: Page):
    assert "You wrote it" in page.ask("why", id=cx["y"].id)["text"]
    reply = page.ask("why_not", id=cx["y"].id, rule="add-zero", stage=2)
    assert reply["text"].startswith("add-zero: x + 0 → x")
    assert "no pass of this compile has a rule" in page.ask("why_not", id=0, rule="no")["error"]
    assert page.ask("why_not", id=0)["error"] == "nothing answers a question whose rule is None"


def test_what_was_not_compiled_says_where_it_comes_from(cx: ll.Graph):
    page = Page(cx.workbench())
    assert "You wrote it in" in page.ask("why", id=cx["y"].id)["text"]
    assert (
        "no pass of this compile has a rule or a search 'softmax'"
        in (page.ask("why_not", id=0, rule="softmax")["error"])
    )


def test_a_recording_says_why_and_why_not(cx: ll.Graph, tmp_path: Path):
    cx.compile()
    cx.save(tmp_path / "g.lab")
    bench: Any = ll.open(tmp_path / "g.lab").workbench()
    page = Page(bench)
    assert "You wrote it in" in page.ask("why", id=cx["y"].id)["text"]
    told = page.ask("why_not", id=cx["y"].id, rule="softmax")["text"]
    assert told.startswith("softmax ")
    assert "recording" in page.ask("time")["error"]


# -- again -----------------------------------------------------------------------------------------


def switches(page: Page, run: int = 0, *, off: str = "") -> list[dict[str, object]]:
    """Return the passes of a run as the page lists them."""
    snapshots = page.bench._held.all[run].snapshots[1:]
    return [{"text": one.title, "on": one.name != off} for one in snapshots]


def test_passes_run_again_without_one(cx: ll.Graph, page: Page):
    before = state(cx), cx.compilation
    reply = page.ask("rerun", run=0, passes=switches(page, off="dce"), **{"from": 0})
    assert reply == {"run": 1, "text": "9 nodes instead of 5"}
    assert page.titles == ["g", "g again, without dce"]
    again = page.bench._held.all[1]
    assert [one.name for one in again.snapshots] == ["written", "simplify"]
    assert (state(cx), cx.compilation) == before


def test_passes_run_again_from_a_snapshot_on_with_other_options(cx: ll.Graph, page: Page):
    passes = [{"text": "simplify{limit = 3}", "on": True}, {"text": "cse", "on": True}]
    reply = page.ask("rerun", run=0, passes=passes, **{"from": 1})
    assert reply["run"] == 1
    again = page.bench._held.all[1]
    # It has the story from the user's lines on, and the Python of all of it.
    assert again.snapshots[:2] == tuple(cx.snapshots[:2])
    assert [one.title for one in again.snapshots] == [
        "written", "simplify", "simplify{limit = 3}", "cse",
    ]  # fmt: skip
    assert [one.index for one in again.snapshots] == [0, 1, 2, 3]
    assert again.snapshots[2].before is cx.snapshots[1].ir
    assert again.subject.facts.python == ("cx.compile('simplify', 'simplify{limit = 3}', 'cse')")
    assert page.titles[1] == "g again from simplify"
    assert page.ask("rerun", run=1, passes=switches(page, 1), **{"from": 0})["run"] == 2
    assert page.titles[2] == "g again"


def test_the_device_runs_what_was_run_again(on_cpu: tuple[ll.Graph, Page]):
    cx, page = on_cpu
    before, y = cx.compilation, cx["%12"].tolist()
    reply = page.ask("rerun", run=0, passes=switches(page, off="fuse-rows"), **{"from": 0})
    assert "error" not in reply, reply
    again = page.bench.compilations[1]
    assert again.runner is not None
    assert again.runner is not before.runner
    launches = page.bench.subjects[1].facts.launches
    assert len(launches) > 1
    # Its Python does the same: the device runs what these passes leave, and adds none of its own.
    python = page.bench.subjects[1].facts.python
    assert python.endswith("    ll.CPUCompiler().alone(),\n)")
    copied = ll.compile_ir(before.written, *eval(python.removeprefix("cx.compile"), {"ll": ll}))
    assert str(copied.ir) == str(again.ir)
    assert len(getattr(copied.runner, "launches", ())) == len(launches)
    assert "error" not in page.ask("time", run=1)
    assert cx.compilation is before
    assert cx["%12"].tolist() == y


def test_a_rule_of_the_users_own_runs_again_with_its_licence():
    x = ll.variables("x")
    rule = ll.Rule("mine", x * 1 + 0, x, assumes={"no_nan"})
    cx = ll.Graph("g")
    (cx.tensor((2,), name="x") * 1 + 0).retrieve()
    compilation = cx.compile(ll.Pipeline([rule], licence=["no_nan"]), "dce")
    assert compilation[1].counts == {"mine": 1}
    page = Page(cx.workbench())
    page.ask("rerun", run=0, passes=switches(page), **{"from": 0})
    assert page.bench.compilations[1][1].counts == {"mine": 1}
    whole = cx.compile(rule, "dce", licence=["no_nan"])
    assert whole.licence == {"no_nan"}
    page = Page(cx.workbench())
    page.ask("rerun", run=0, passes=switches(page), **{"from": 0})
    assert page.bench.compilations[1][1].counts == {"mine": 1}
    cx.compile(rule, "dce")
    page = Page(cx.workbench())
    page.ask("rerun", run=0, passes=switches(page), **{"from": 0})
    assert page.bench.compilations[1][1].refused == {"mine": 1}


@pytest.mark.parametrize(
    ("passes", "start", "error"),
    [
        ([{"text": "xyz", "on": True}], 0, "pipeline, column 1: there is no pass 'xyz'"),
        ([{"text": "simplify{limit = x}", "on": True}], 0, "pipeline, column 18: limit is int"),
        ([{"on": True}], 0, "rerun: a pass has no text"),
        (["dce"], 0, "rerun: 'dce' is not a pass"),
        ("dce", 0, "rerun: there is no list of passes"),
        ([], 99, "the question has from 99, which is not there"),
    ],
)
def test_runs_that_cannot_be(page: Page, passes: object, start: int, error: str):
    assert page.ask("rerun", run=0, passes=passes, **{"from": start})["error"].startswith(error)
    assert page.shown == []
    assert len(page.bench.subjects) == 1


def test_a_bundle_that_fails_leaves_all_as_it_was(page: Page, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise ValueError("no bundle")

    before = page.bench.data
    with monkeypatch.context() as patch:
        patch.setattr(bundle.Stages, "add", fail)
        patch.setattr(bundle, "_facts_header", fail)
        for what in ("rerun", "time"):
            reply = page.ask(what, run=0, passes=switches(page), **{"from": 0})
            assert reply == {"error": "ValueError: no bundle"}
    assert len(page.bench.subjects) == 1
    assert page.bench.subjects[0].facts.times == ()
    assert page.bench.data == before
    assert page.shown == []
    assert "error" not in page.ask("rerun", run=0, passes=switches(page), **{"from": 0})
    assert page.titles == ["g", "g again"]


# -- times and sources -----------------------------------------------------------------------------


def test_times_are_taken_and_shown(on_cpu: tuple[ll.Graph, Page], monkeypatch: Any):
    monkeypatch.setattr(replies, "ROUNDS", 1)
    cx, page = on_cpu
    before = cx.step, cx["%12"].tolist()
    reply = page.ask("time", run=0)
    assert reply["text"].startswith("1 launch, ")
    assert "; with the session's data" in reply["text"]
    (times,) = page.shown[-1].header["runs"][0]["facts"]["times"]
    assert (times["how"], len(times["rows"])) == ("measured", 1)
    page.ask("time", run=0)
    assert (
        page.shown[-1].header
        == columns.read(cx.workbench(*page.bench._held.all[0].times).data).header
    )
    assert len(page.shown[-1].header["runs"][0]["facts"]["times"]) == 2
    assert (cx.step, cx["%12"].tolist()) == before


def test_what_a_worker_runs_is_a_run_whose_kernels_are_timed_alone(monkeypatch: Any):
    need("cc")
    monkeypatch.setattr(replies, "ROUNDS", 1)
    cx, cut = megatron()
    plan = ll.sharding(ll.Mesh(model=2), cut)
    compiled: Any = cx.compile(ll.GenericCompiler(), ll.Sharded(plan, ll.CPUCompiler(threads=1)))
    page = Page(cx.workbench())
    held = page.bench._held.all
    assert [one.subject.title for one in held] == ["mlp", "mlp, on each worker"]
    assert held[1].compilation is compiled.program.worker
    assert {kernel.name for kernel in held[1].subject.facts.kernels}
    reply = page.ask("time", run=1)
    assert "; nothing was sent" in reply["text"]
    (times,) = page.shown[-1].header["runs"][1]["facts"]["times"]
    assert len(times["rows"]) == len(held[1].subject.facts.kernels)
    assert [one.title for one in compiled.workbench().subjects] == page.titles


def test_what_a_stage_runs_is_a_run_for_each_phase(monkeypatch: Any):
    monkeypatch.setattr(replies, "ROUNDS", 1)
    cx, _ = layers(2)
    stages = {"layer0": 0, "layer1": 1, "loss": 1}
    cx.compile(ll.Pipelined(stages, batch=("x", "t"), microbatches=2))
    page = Page(cx.workbench())
    titles = [one.subject.title for one in page.bench._held.all]
    assert titles[0] == "deep"
    assert {"deep, stage 0 forward", "deep, stage 1 end"} < {*titles}
    for run in range(1, len(titles)):
        assert "; nothing was sent" in page.ask("time", run=run)["text"]


def test_sources_are_written_in_other_languages(on_cpu: tuple[ll.Graph, Page]):
    _, page = on_cpu
    assert page.ask("sources", run=0, dialect="cuda") == {
        "text": "1 of 1 kernels have a source in cuda"
    }
    page.ask("sources", run=0, dialect="metal")
    (kernel,) = page.shown[-1].header["runs"][0]["facts"]["kernels"]
    assert [one["dialect"] for one in kernel["sources"]] == ["c", "cuda", "metal"]
    assert "is not a language" in page.ask("sources", run=0, dialect="rust")["error"]


def test_ptx_needs_no_gpu(on_cpu: tuple[ll.Graph, Page]):
    need("cuda.bindings.nvrtc")
    _, page = on_cpu
    reply = page.ask("ptx", run=0, kernel=0)
    if "error" in reply:
        pytest.skip(reply["error"])
    assert ".visible .entry" in reply["text"]
    assert reply["resources"]["registers"] > 0
    assert page.ask("ptx", run=0, kernel=5)["error"].startswith("the question has kernel 5")


def test_what_is_asked_by_nobody_is_said(page: Page):
    assert page.ask("sing")["error"] == "nothing answers a question whose ask is 'sing'"
    assert page.replies.answer({})["error"] == "nothing answers a question whose ask is None"
    assert page.replies.answer({"ask": ["values"]})["error"].startswith("nothing answers")


# -- a cell that was edited ------------------------------------------------------------------------


def erase_nothing() -> Any:
    """Define a pass as a cell does: whatever was defined under its name before is old."""

    @ll.graph_pass
    def cell_pass(ir: ll.IR, edit: ll.Edit) -> None:
        """Do nothing yet."""

    return cell_pass


def test_a_pass_that_its_cell_has_defined_again_runs_as_it_is_now(cx: ll.Graph):
    page = Page(cx.compile("simplify", erase_nothing()).workbench())

    @ll.graph_pass
    def cell_pass(ir: ll.IR, edit: ll.Edit) -> None:
        """Erase what nothing reads."""
        for node in reversed(ir.nodes):
            if not edit.users(node) and not edit.is_output(node) and node.sources:
                edit.erase(node, rule="unused")

    assert cell_pass is not None
    reply = page.ask("rerun", passes=[{"text": "simplify"}, {"text": "cell-pass"}], **{"from": 0})
    assert page.titles == ["g", "g again, cell-pass as defined now"]
    runs = page.shown[-1].header["runs"]
    assert [run["stages"][2]["firings"] > 0 for run in runs] == [False, True]
    assert reply["run"] == 1


def test_a_rule_that_its_cell_has_defined_again_fires_as_it_is_now(
    cx: ll.Graph, monkeypatch: pytest.MonkeyPatch
):
    a = ll.variables("a")
    zero = ll.Rule("mine", a + 0, a, assumes={"no_signed_zero"})
    page = Page(cx.compile(zero, licence=["no_signed_zero"]).workbench())
    one = ll.Rule("mine", a * 1, a)
    monkeypatch.setattr(sys.modules["__main__"], "mine", one, raising=False)
    page.ask("rerun", passes=[{"text": "mine"}], **{"from": 0})
    assert page.titles == ["g", "g again, mine as defined now"]
    counts = [run["stages"][1]["before"] for run in page.shown[-1].header["runs"]]
    assert counts[0] == counts[1]
    again = page.bench.compilations[1]
    assert str(again.snapshots[1].firings[0]).startswith("mine")
    assert again.rules["mine"] is one


def test_why_not_of_searches_and_the_smallest_graph():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    powers = (x - x.max(-1, keepdim=True)).exp()
    y = (powers / powers.sum(0, keepdim=True) + 0).named("y").retrieve()
    cx.compile()
    live = Page(cx.workbench())
    wrong = next(
        node.id for node in cx.compilation.written if node.op.name == "mul" and node.id > 20
    )
    told = live.ask("why_not", id=wrong, rule="softmax", stage=0)["text"]
    assert told.endswith("is a maximum over axes [1], and the sum is over axes [0].")
    small = live.ask("minimise", id=wrong, rule="softmax", stage=0)
    assert small["text"].startswith("The smallest graph in which softmax stops there for the same")
    assert "def test_softmax_misses():" in small["test"]
    fired = live.ask("minimise", id=y.id, rule="add-zero", stage=0)
    assert fired["graph"].count("\n") <= 4
    exec(compile(fired["test"] + "\ntest_add_zero_fires()", "pasted", "exec"), {})
    assert "hint" in live.ask("minimise", id=y.id, rule="no-such", stage=0)["error"]


# -- other schedules -------------------------------------------------------------------------------


def test_a_schedule_is_tried_beside_the_kernels_own(on_cpu: tuple[ll.Graph, Page]):
    cx, page = on_cpu
    before = cx.compilation
    reply = page.ask("board", kernel=0, schedule=str(cx.kernels[0].schedule), name="same")
    assert reply["tried"] == "same"
    (board,) = page.shown[-1].header["runs"][0]["facts"]["boards"]
    assert [one["name"] for one in board["tries"]] == ["first", "same"]
    assert page.bench.board("softmax")["same"].rounds == board["tries"][1]["rounds"] > 0
    assert cx.compilation is before
    assert page.ask("board", kernel=0, act="rename", entry="same", to="other") == {"text": ""}
    assert page.bench.board("softmax")["other"].text == str(cx.kernels[0].schedule)
    assert "error" not in page.ask("time")  # which tells new facts, and keeps the board
    assert page.shown[-1].header["runs"][0]["facts"]["boards"] != []


def test_python_and_the_page_have_the_same_boards(on_cpu: tuple[ll.Graph, Page], tmp_path: Path):
    cx, page = on_cpu
    own = str(cx.kernels[0].schedule)
    board = cx.board("softmax")
    board.add("parallel i\nsimd q", name="a slip")
    page = Page(cx.workbench())
    assert page.bench.board("softmax") is board
    board.add(own, name="from Python")
    page.ask("board", kernel=0, schedule=own, name="from the page")
    (shown,) = page.shown[-1].header["runs"][0]["facts"]["boards"]
    names = ["first", "a slip", "from Python", "from the page"]
    assert [one["name"] for one in shown["tries"]] == [one.name for one in board] == names
    cx.save(tmp_path / "run.lab")
    recording = ll.open(tmp_path / "run.lab")
    assert [one.name for one in recording.boards[0]] == names
    told = Page(recording.workbench()).ask("board", kernel=0, act="drop", entry="a slip", board=0)
    assert told["error"] == "board: there is no board 0 to change\nhint: recorded ones stay"
    assert page.ask("board", kernel=0, act="drop", entry="a slip", board=0) == {"text": ""}
    assert len(board) == 3
    later = cx.board("softmax")
    later.add("simd q", name="later")  # a later board is shown as well, once something is on it
    shown = page.shown[-1].header["runs"][0]["facts"]["boards"]
    assert [[one["name"] for one in each["tries"]] for each in shown] == [
        ["first", "from Python", "from the page"],
        ["first", "later"],
    ]


def test_a_text_that_is_no_schedule_says_where(on_cpu: tuple[ll.Graph, Page]):
    _, page = on_cpu
    reply = page.ask("board", kernel=0, schedule="parallel i\nsplit j bi 2")
    assert reply["place"] == [2, 9]
    assert reply["wrong"].startswith("'by' should be here\nhint: its form is split")
    reply = page.ask("board", kernel=0, act="burn", entry="first")
    assert reply["error"].startswith("board: nothing does 'burn' to it\nhint: choose from drop")


def test_a_recordings_kernel_is_compiled_once_somebody_has_said_so(
    on_cpu: tuple[ll.Graph, Page], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trust, "_HERE", {})
    cx, _ = on_cpu
    cx.save(tmp_path / "run.lab")
    page = Page(ll.open(tmp_path / "run.lab").workbench())
    question = {"kernel": 0, "schedule": "parallel i"}
    reply = page.ask("board", **question)
    assert reply["error"].startswith("kernel softmax by its schedule: it comes from a file")
    (carried,) = reply["carried"]
    assert carried["source"].startswith("kernel softmax(a: f32[4, 8])")
    assert len(page.bench.board("softmax")) == 1
    assert page.ask("board", **question, trust=[carried["digest"]])["tried"] == "try 1"


def test_another_annotation_is_tried_without_a_run() -> None:
    cx = ll.Graph("g")
    x, w = cx.tensor((4, 6), name="x"), cx.tensor((6, 2), name="w")
    (x @ w).retrieve()
    cut = {"x": (None, "model"), "w": ("model", None)}
    compiled = cx.compile(ll.Sharded(ll.sharding(ll.Mesh(model=2), cut)))
    page = Page(cx.workbench())
    reply = page.ask("what_if", changed={"w": ["-", "-"]})
    assert reply["sent"] != []
    assert {row[0] for row in reply["sent"]} == {-1}
    assert reply["text"].endswith("bytes")
    assert page.ask("what_if", changed={"x": ["-", "-"], "w": ["-", "-"]})["sent"] == []
    assert [row.op for row in compiled.communication] == ["all_reduce"]
    assert "cuts two axes" in page.ask("what_if", changed={"x": ["model", "model"]})["error"]
    assert "a word for each" in page.ask("what_if", changed={"x": [1]})["error"]
