"""Guided stories: each step a place and a text, kept in recordings, pages and saved notebooks."""

import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.io.recording import contents_of
from luminal_lab.viz.live.shown import recording_workbench
from luminal_lab.viz.live.story import Story
from luminal_lab.viz.live.workbench import Workbench
from tests.expect import error_of
from tests.viz.test_pages import Read

STEPS = [
    ("written/%y", "A product by `1`."),
    ("simplify/1", "It is gone. <b>"),
    ("dce", "And so are the zeros."),
]


@pytest.fixture
def cx() -> ll.Graph:
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x")
    (x * 1 + 0).named("y").retrieve()
    cx.compile("simplify, dce")
    return cx


def test_a_story_begins_with_its_first_step(cx: ll.Graph):
    story = ll.story(cx, STEPS)
    assert story.at == "written/%y"
    assert [step.text for step in story.steps] == [text for _, text in STEPS]
    told = story._options["story"]
    assert told[1]["place"] == {"run": 0, "stage": 1, "firing": 1}
    assert story.words().splitlines()[2] == "3 of 3, dce: And so are the zeros."


def test_a_saved_notebook_has_all_texts_with_their_pictures(cx: ll.Graph):
    html = ll.story(cx, STEPS).static()
    read = Read(html)
    assert not read.tags & {"script", "iframe"}
    assert html.count("data:image/svg+xml") == 3
    assert "It is gone. <b>" in read.text
    assert "<code>1</code>" in html
    assert read.text.index("1 of 3") < read.text.index("2 of 3") < read.text.index("3 of 3")


def test_where_no_script_runs_a_step_shows_what_its_firing_changes(cx: ll.Graph):
    steps = [
        ("simplify/1", "One product goes."),
        ("simplify/1/%y", "This reads it no more."),
        ("simplify/firing 1", "The zero."),
        ("simplify", "Both."),
    ]
    shown = re.findall(r'alt="Graph g ([^:"]*)', ll.story(cx, steps).static())
    assert shown == [
        "before and after firing 1 of simplify, mul-one",
        "after 1 of 2 firings of simplify",
        "after simplify",
        "after simplify",
    ]
    assert (
        cx.workbench(at="simplify/1")
        .picture()
        .text.startswith("Graph g after 1 of 2 firings of simplify")
    )


def test_a_recording_keeps_it(cx: ll.Graph, tmp_path: Path):
    ll.story(cx, STEPS).save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    assert [(step.at, step.text) for step in run.story.steps] == STEPS
    assert isinstance(run.workbench(), Story)
    run.save(tmp_path / "again.lab")
    assert len(ll.open(tmp_path / "again.lab").story.steps) == 3
    cx.save(tmp_path / "plain.lab")
    plain = ll.open(tmp_path / "plain.lab")
    assert not isinstance(plain.workbench(), Story)
    assert error_of(lambda: plain.story).message == "recording plain.lab: there is no story in it"


def test_a_file_whose_story_leads_nowhere_is_opened_without_it(cx: ll.Graph, tmp_path: Path):
    ll.story(cx, STEPS).save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    run.contents = replace(run.contents, story=(("recognise", "nowhere"),))
    shown = recording_workbench(run)
    assert isinstance(shown, Workbench)
    assert not isinstance(shown, Story)
    assert error_of(lambda: run.story).message == "story: step 1: there is no pass 'recognise'"


@pytest.mark.parametrize(
    "bad", [{"a": 1}, [["a"]], [[1, "b"]], [["a", "b", "c"]], [["a", "b"]] * 201]
)
def test_a_damaged_story_is_a_damaged_file(cx: ll.Graph, tmp_path: Path, bad: object):
    ll.story(cx, STEPS).save(tmp_path / "run.lab")
    head, _, body = (tmp_path / "run.lab").read_bytes().partition(b"\n")
    document = json.loads(zlib.decompress(body))
    document["story"] = bad
    data = head + b"\n" + zlib.compress(json.dumps(document).encode())
    assert "it is damaged" in error_of(lambda: contents_of(data, "run.lab")).message


@pytest.mark.needs("script")
def test_a_page_has_it(cx: ll.Graph, tmp_path: Path):
    ll.story(cx, STEPS).export(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "It is gone. &lt;b&gt;" in page
    assert "<b>" not in page.partition("data-state")[2].partition("</main>")[0]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "story: [] has no steps"),
        ("dce", "story: 'dce' has no steps"),
        ([("dce", "a"), ("dce",)], "story: step 2 is ('dce',)"),
        ([("dce", " ")], "story: step 1 is ('dce', ' ')"),
        ([("dec", "a")], "story: step 1: there is no pass 'dec'"),
    ],
)
def test_what_is_no_story_is_answered(cx: ll.Graph, steps: list[tuple[str, str]], message: str):
    assert error_of(lambda: ll.story(cx, steps)).message == message
