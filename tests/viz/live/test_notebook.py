"""Explorers and workbenches in a real kernel: what a notebook gets, and how pages talk to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from luminal_lab.viz.live import columns
from tests.needs import need
from tests.notebook import Notebook, Ran, notebook

need("anywidget")
WRITE = """\
import luminal_lab as ll
cx = ll.Graph("g")
x = cx.tensor((2,), name="x").set([1, 2])
y = ((x * 1 + 0) * 3).named("y").retrieve()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with notebook(tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.fixture
def model(kernel: Notebook) -> str:
    """The model of a workbench w of a compile, which is shown."""
    ran = kernel.run(f"{WRITE}cx.compile('simplify, dce')\nw = cx.workbench()\nw")
    assert ran.status == "ok", ran.error
    return opened(ran)["comm_id"]


def opened(ran: Ran) -> dict[str, Any]:
    """Return the message that opened a model of ours, and not one of its layout."""
    (one,) = [c for c in ran.comms if "_esm" in c.get("data", {}).get("state", {})]
    return one


def test_a_notebook_gets_a_picture_and_the_widget_below_it(kernel: Notebook):
    ran = kernel.run(f"{WRITE}e = cx.explore()\ne")
    assert ran.status == "ok", ran.error
    assert ran.kinds() == [
        ["text/html", "text/plain"],
        ["application/vnd.jupyter.widget-view+json", "text/plain"],
    ]
    picture, widget = ran.outputs
    # A notebook that nobody trusts shows this in the widget's place.
    assert widget["text/plain"] == (
        "<explorer, live while its kernel runs: run the cell to have it here>"
    )
    comm = opened(ran)
    state = comm["data"]["state"]
    assert widget["application/vnd.jupyter.widget-view+json"]["model_id"] == comm["comm_id"]
    mark = f'data-ll-for="{state["picture"]}"'
    assert picture["text/html"].startswith(f"<div {mark}><img {mark} src=")
    assert len(state["picture"]) == 32
    assert "<script" not in picture["text/html"]
    assert picture["text/plain"].startswith("<Explorer of g: 7 nodes;")
    assert state["what"] == "explorer"
    assert (state["selection"], state["place"], state["options"]) == ({}, {}, {"overlay": None})
    # The graph is one binary part, and not text.
    (path,) = comm["data"]["buffer_paths"]
    assert path == ["data"]
    header = columns.read(bytes(comm["buffers"][0])).header
    assert [run["title"] for run in header["runs"]] == ["g"]


def test_showing_it_again_is_another_view_of_one_model(kernel: Notebook, model: str):
    ran = kernel.run("w.display()\nw")
    views = [
        view["model_id"]
        for one in ran.outputs
        if (view := one.get("application/vnd.jupyter.widget-view+json"))
    ]
    assert views == [model, model]
    assert not [c for c in ran.comms if "_esm" in c.get("data", {}).get("state", {})]


def test_the_widget_goes_into_boxes_of_ipywidgets(kernel: Notebook, model: str):
    ran = kernel.run("import ipywidgets\nipywidgets.VBox([w.widget])")
    assert ran.status == "ok", ran.error
    (box,) = [c for c in ran.comms if "children" in c.get("data", {}).get("state", {})]
    assert box["data"]["state"]["children"] == [f"IPY_MODEL_{model}"]


def test_selecting_in_python_tells_the_page(kernel: Notebook, model: str):
    ran = kernel.run("w.select('%y')")
    told = [c["data"]["state"] for c in ran.comms if c["comm_id"] == model]
    id = kernel.value("y.id")
    assert told == [{"selection": {"kind": "node", "stage": 1, "ids": [id]}}]


def test_selecting_in_the_page_tells_python(kernel: Notebook, model: str):
    kernel.run("got = []\nstop = w.observe(got.append)")
    id = kernel.value("x.id")
    kernel.update(model, selection={"kind": "node", "stage": 2, "ids": [id]})
    kernel.update(model, place={"run": 0, "stage": 1, "firing": 1})
    assert kernel.value("[[str(n) for n in got[-1]], str(w.selected[0])]") == [["%x"], "%x"]
    assert kernel.value("[len(got), w.stage.name, w.firing]") == [1, "simplify", 1]
    kernel.run("stop()\nw.select(None)")
    assert kernel.value("[len(got), w.selected]") == [1, []]


def test_what_fails_in_an_observer_is_seen_and_hurts_nothing(kernel: Notebook, model: str):
    kernel.run("def bad(selected):\n    raise ValueError('mine')\nw.observe(bad)")
    kernel.update(model, selection={"kind": "rule", "rule": "add-zero"})
    assert kernel.value("w.selected.name") == "add-zero"


@pytest.mark.parametrize(
    "sent",
    [
        {"kind": "node", "stage": 99, "ids": [0]},
        {"kind": "node", "stage": 0, "ids": [12345]},
        {"kind": "node"},
        {"kind": "kernel", "kernel": 7},
        {"kind": "line", "origin": "x"},
        {"kind": "nothing"},
        {"kind": "scope", "stage": "a", "path": 3},
    ],
)
def test_selections_that_are_none_select_nothing(
    kernel: Notebook, model: str, sent: dict[str, Any]
):
    kernel.update(model, selection=sent)
    assert kernel.value("w.selected") == []


def test_a_place_that_is_none_is_where_it_begins(kernel: Notebook, model: str):
    for place in ({"run": 9, "stage": 9, "firing": 9}, {"run": "a"}, {}):
        kernel.update(model, place=place)
        assert kernel.value("[w.stage.name, len(w.data) > 0]") == ["simplify", True]


def answer(ran: Ran, model: str) -> dict[str, Any]:
    """Return the answer to the one question that was asked."""
    sent = [c["data"]["content"] for c in ran.comms if c["data"].get("method") == "custom"]
    working, reply = sent
    assert working == {"reply": 5, "working": True}
    assert reply["reply"] == 5
    return reply


def test_a_question_is_answered(kernel: Notebook, model: str):
    id = kernel.value("y.id")
    reply = answer(kernel.ask(model, ask="values", request=5, run=0, stage=2, id=id), model)
    assert (reply["min"], reply["max"], reply["count"]) == (3, 6, 2)
    assert reply["text"].endswith("; with the session's data")


def test_a_question_that_fails_is_answered_with_a_sentence(kernel: Notebook, model: str):
    reply = answer(kernel.ask(model, ask="values", request=5, run=0, id=999), model)
    assert reply["error"].startswith("values: %999 is neither in the graph before dce nor in")
    reply = answer(kernel.ask(model, ask="no such", request=5), model)
    assert reply["error"] == "nothing answers a question whose ask is 'no such'"
    assert kernel.value("1 + 1") == 2


def test_messages_that_are_no_questions_are_ignored(kernel: Notebook, model: str):
    assert kernel.ask(model, nothing=1).comms == []
    assert kernel.value("1 + 1") == 2


def test_a_rerun_comes_with_its_bundle_before_the_answer(kernel: Notebook, model: str):
    passes = [{"text": "simplify", "on": False}, {"text": "dce", "on": True}]
    question = {"ask": "rerun", "request": 5, "run": 0, "passes": passes, "from": 0}
    ran = kernel.ask(model, **question)
    _, data, last = [c for c in ran.comms if c["comm_id"] == model]
    header = columns.read(bytes(data["buffers"][0])).header
    assert [run["title"] for run in header["runs"]] == ["g", "g again, without simplify"]
    assert last["data"]["content"] == {
        "reply": 5,
        "run": 1,
        "text": "7 nodes instead of 3",
    }
    assert kernel.value("[len(w.subjects), len(cx.snapshots), len(cx.compilation.ir)]") == [2, 3, 3]


def test_an_interrupt_ends_a_question_with_a_sentence(kernel: Notebook, model: str):
    kernel.run(
        "def stop(a):\n    raise KeyboardInterrupt\n"
        "z = cx.function(stop, x, shape=(2,), name='z').retrieve()\nv = cx.explore()\nv"
    )
    comm, id = kernel.value("[v.widget.model_id, z.id]")
    reply = answer(kernel.ask(comm, ask="values", request=5, id=id), comm)
    assert reply["error"] == "Stopped. Nothing was changed."
    kernel.run("z.drop()")


def test_what_is_not_built_is_said_below_the_picture(kernel: Notebook):
    kernel.run("from luminal_lab.viz.live import static")
    kernel.run("def gone():\n    raise ll.DeviceError('explore: not built', hint='make frontend')")
    kernel.run("was = static.script\nstatic.script = gone")
    ran = kernel.run(f"{WRITE}cx.explore()")
    kernel.run("static.script = was")
    assert ran.kinds()[0] == ["text/html", "text/plain"]
    assert "data-ll-for" not in ran.outputs[0]["text/html"]
    assert "DeviceError: explore: not built" in ran.error + ran.printed
