"""Hold what is said of answers, hints and solutions, and that no answer ends a kernel."""

import subprocess
import sys
from pathlib import Path

import pytest

from luminal_lab import course
from luminal_lab.course.desk import Desk
from luminal_lab.course.isolated import CallLimits
from luminal_lab.course.kept import ExerciseRecord
from luminal_lab.errors import ArgumentError, UnknownNameError
from tests.course import made
from tests.course.answering import ODD
from tests.expect import error_of
from tests.notebook import notebook


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    made.chapter(monkeypatch)
    return Desk(tmp_path, CallLimits(5))


def test_an_open_exercise_says_its_task_and_keeps_nothing(desk: Desk, tmp_path: Path):
    for answer in (..., None):
        assert desk.check("77.1", answer).text == "77.1 is still open: Make four."
    assert desk.check("77.1").kind == "open"
    assert not list(tmp_path.iterdir())


def test_a_right_answer(desk: Desk):
    assert desk.check("77.1", 4).text == "77.1 is right\n  right: it is a number\n  right: it is 4"
    assert desk.kept.entry("77.1") == ExerciseRecord(right=True, tries=1)
    desk.check("77.1", 5)
    assert desk.kept.entry("77.1") == ExerciseRecord(right=True, tries=1)


def test_a_wrong_answer_gets_what_is_right_what_is_not_and_a_hint(desk: Desk):
    assert desk.check("77.1", 5).text == (
        "77.1 is not right yet\n  right: it is a number\n  not yet: it is 4\n"
        "hint: what is twice two?"
    )
    assert desk.kept.entry("77.1") == ExerciseRecord(tries=1)


@pytest.mark.parametrize("name", sorted(ODD.keys() - {"...", "None"}))
def test_odd_answers_get_a_sentence(desk: Desk, name: str):
    said = desk.check("77.1", ODD[name])
    assert said.kind == "not yet"
    assert any(line.startswith("not yet: ") for line in said.lines)


def test_an_answer_that_checks_itself_does_not_go_on_forever(desk: Desk):
    def answer() -> int:
        desk.check("77.1", answer)
        desk.hint("77.1")
        return 4

    assert desk.check("77.1", answer).text.startswith(
        "77.1 is not right yet\n  not yet: the answer"
    )


def test_the_modules_functions_keep_nothing_within_an_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def answer() -> int:
        assert "not checked" in course.check("77.1", answer).text
        course.hint("77.1")
        return 4

    assert desk.check("77.1", answer).kind == "right"
    assert desk.kept.entry("77.1").hints == 0


def test_hints_come_one_after_the_other(desk: Desk, tmp_path: Path):
    assert desk.hint("77.1").text == (
        '77.1, hint 1 of 2: Count.\n  hint("77.1") shows another hint'
    )
    last = '77.1, hint 2 of 2: Count <further>.\n  solution("77.1") shows an answer'
    assert desk.hint("77.1").text == last
    assert Desk(tmp_path).hint("77.1").text == last
    assert "Count &lt;further&gt;." in desk.hint("77.1").html
    assert desk.hint("77.2").text == '77.2 has no hints; solution("77.2") shows an answer'


def test_a_solution_is_shown_and_noted_unless_it_is_too_late(desk: Desk):
    assert desk.solution("77.1").text == (
        "77.1, one answer of several:\n  your progress says that you looked\n\nanswer = 2 + 2"
    )
    desk.check("77.1", 4)
    desk.check("77.2", 4)
    assert desk.solution("77.2").text == "77.2, one answer of several:\n\nanswer = 4"
    assert (desk.kept.entry("77.1").looked, desk.kept.entry("77.2").looked) == (True, False)


def test_progress_is_a_row_for_each_chapter(desk: Desk):
    assert desk.progress().text == "0 of 2 exercises are right\n  77    □□  0 of 2"
    desk.solution("77.1")
    desk.check("77.1", 4)
    desk.check("77.2", 3)
    assert desk.progress().text == (
        "1 of 2 exercises are right\n  77    ■□  1 of 2  1 tried, 1 after its solution"
    )
    bundle = desk.progress()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "1 of 2" in bundle["text/html"]


def test_the_html_has_no_script_and_says_in_words_what_it_colours(desk: Desk):
    html = desk.check("77.1", 5).html
    assert "<script" not in html
    assert ">right</b>: it is a number" in html
    assert ">not yet</b>: it is 4" in html
    assert "<script" not in desk.check("77.1", lambda: {}["<script>"]).html


def test_a_file_that_is_damaged_is_said_beside_the_verdict(desk: Desk, tmp_path: Path):
    (tmp_path / "progress.json").write_text("{")
    said = desk.check("77.1", 4)
    assert said.kind == "right"
    assert "was damaged" in said.notes[0]
    assert desk.progress().right == 1


@pytest.mark.parametrize(
    ("id", "message"),
    [
        (77.1, "exercise: 77.1 is not the number of an exercise"),
        ("one", "exercise: 'one' is not the number of an exercise"),
        ("78.1", "exercise: there is no chapter 78 with exercises"),
        ("77.9", "exercise: there is no 77.9; chapter 77 has 77.1, 77.2"),
    ],
)
def test_an_exercise_that_is_not_there(desk: Desk, id: str, message: str):
    assert error_of(lambda: desk.check(id, 4), ArgumentError).message == message


def test_a_chapter_may_be_written_without_its_zero():
    assert course.check("0.1").text.startswith("00.1 is still open: ")


def test_the_course_is_light_until_it_is_used():
    script = (
        "import sys, luminal_lab.course; print('numpy.random' in sys.modules or "
        "'luminal_lab.course.desk' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "desk" not in done.stdout
    assert error_of(lambda: course.chek, UnknownNameError).hint == "did you mean 'check'?"
    assert dir(course) == [
        "Exercise",
        "Verdict",
        "check",
        "hint",
        "progress",
        "recorded",
        "solution",
    ]


def test_in_a_kernel_an_answer_cannot_end_it(tmp_path: Path):
    """A notebook's own functions are checked in a real kernel, which lives on."""
    with notebook(tmp_path) as here:
        ran = here.run(
            "import os, sys\n"
            "from pathlib import Path\n"
            "from luminal_lab.course.desk import Desk\n"
            "from luminal_lab.course.isolated import CallLimits\n"
            "desk = Desk(Path('kept'), CallLimits(20))\n"
            "calls = []\n"
            "def leave(*shapes):\n"
            "    calls.append(shapes)\n"
            "    os._exit(1)"
        )
        assert ran.status == "ok", ran.error
        for code, sentence in (
            ("leave", "the answer ended its process, as os._exit() does"),
            ("lambda *_: sys.exit()", "the answer ended Python, by sys.exit() or exit()"),
            ("lambda *_: input('?')", "asked for something to be typed, by input()"),
            ("lambda *_: os.fork()", "the answer started a process, which it may not"),
        ):
            ran = here.run(f"desk.check('00.2', {code})")
            assert ran.status == "ok", ran.error
            assert ran.kinds() == [["text/html", "text/plain"]]
            assert sentence in ran.outputs[0]["text/plain"]
        assert here.value("calls") == []
        ran = here.run(
            "from IPython.display import display\n"
            "from IPython import get_ipython\n"
            "from luminal_lab.course.exercise import Verdict\n"
            "from luminal_lab.course.isolated import isolated\n"
            "def show():\n"
            "    display('shown')\n"
            "    return Verdict(get_ipython() is None)\n"
            "isolated(show).right"
        )
        assert [one["text/plain"] for one in ran.outputs] == ["True"]
