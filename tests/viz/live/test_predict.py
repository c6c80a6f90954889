"""Predict, then reveal: the graph before, questions, and answers beside what the pass has done."""

from pathlib import Path

import pytest

import luminal_lab as ll
from tests.expect import error_of
from tests.needs import need
from tests.viz.test_pages import Read


@pytest.fixture
def cx() -> ll.Graph:
    cx = ll.Graph("g")
    x = cx.tensor((2, 3), name="x")
    (x.named("x") * 1 + 0).named("y").retrieve()
    cx.compile("simplify, dce")
    return cx


def test_answers_stand_beside_what_happened(cx: ll.Graph):
    quiz = ll.predict(cx, "dce")
    went = [str(node) for node in quiz.gone]
    assert quiz.stage.ir is quiz.snapshot.before
    right = quiz.answer(nodes=1, gone=went, rules=["unused"])
    assert right.all_right
    wrong = quiz.answer(nodes=2, gone=went[:1])
    assert wrong.right == (False, False, None)
    assert not wrong.all_right
    assert not quiz.answer().all_right
    assert str(wrong).splitlines()[1].split()[-3:] == ["1", "not", "so"]


def test_names_are_those_of_the_graph_before(cx: ll.Graph):
    quiz = ll.predict(cx, "dce")
    assert quiz.answer(gone="y").predicted[1] == "%y"
    error = error_of(lambda: quiz.answer(gone=["yy"]))
    assert error.message == "predict: the graph before dce has no node 'yy'"
    assert error_of(lambda: quiz.answer(gone=[3])).message.startswith("predict: gone has 3")  # pyright: ignore[reportArgumentType]
    assert error_of(lambda: ll.predict(cx, "dec")).hint == "did you mean 'dce'?"
    assert error_of(lambda: ll.predict(cx, "written")).message == "predict: 'written' is not a pass"


def test_without_a_script_the_answer_is_hidden_until_it_is_asked_for(cx: ll.Graph):
    html = ll.predict(cx, "dce").static()
    read = Read(html)
    assert not read.tags & {"script", "iframe", "form"}
    before, _, hidden = html.partition("<details>")
    assert "How many nodes will there be?" in before
    assert "unused" not in before
    assert "unused ×" in hidden
    assert html.count("data:image/svg+xml") == 2


def test_recordings_have_it_too(cx: ll.Graph, tmp_path: Path):
    cx.save(tmp_path / "run.lab")
    quiz = ll.predict(ll.open(tmp_path / "run.lab"), "simplify")
    assert quiz.answer(rules=["mul-one", "add-zero"]).all_right
    need("script")
    quiz.export(tmp_path / "page.html")
    assert 'data-what="predict"' in (tmp_path / "page.html").read_text("utf-8")
