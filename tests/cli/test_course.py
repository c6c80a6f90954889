"""`luminal-lab course`: a class's notebooks and results, through the command."""

import json

import pytest

from luminal_lab.course import commands
from luminal_lab.course.grading import ExerciseResult, Results
from tests.cli.asking import ask
from tests.course.made import cell, chapter, write


@pytest.fixture(autouse=True)
def _one_chapter(monkeypatch):
    chapter(monkeypatch)


def test_exercises_are_listed(capsys):
    status, out, err = ask(capsys, "course", "list")
    assert (status, err) == (0, "")
    assert "    77.1  Make four.\n" in out
    found = json.loads(ask(capsys, "course", "list", "--json")[1])
    assert found["chapters"][0]["exercises"][0] == {"id": "77.1", "task": "Make four."}


def test_alone_it_lists_its_choices(capsys):
    status, out, err = ask(capsys, "course")
    assert (status, err) == (0, "")
    for choice in ("student", "solved", "grade", "list"):
        assert f"\n    {choice} " in out


def test_notebooks_with_and_without_answers(capsys, tmp_path):
    notes, teacher, release = (tmp_path / name for name in ("notes", "teacher", "release"))
    write(notes / "77.ipynb", cell('answer = ...\ncheck("77.1", answer)', "77.1"))
    made = teacher / "77.ipynb"
    assert ask(capsys, "course", "solved", notes, teacher) == (0, f"{made}\n", "")
    assert "2 + 2" in made.read_text()
    assert ask(capsys, "course", "student", teacher, release)[0] == 0
    assert "2 + 2" not in (release / "77.ipynb").read_text()
    made.write_text("{}")
    status, _, err = ask(capsys, "course", "solved", notes, teacher)
    assert (status, err.partition("\n")[0]) == (
        2,
        f"course: {made} is there already, and differs",
    )


def test_a_class_is_graded(capsys, monkeypatch, tmp_path):
    found = Results(("77.1",), {"ana": {"77.1": ExerciseResult("right")}})
    asked = []

    def grade(folder, **how):
        asked.append((folder, how))
        return found

    monkeypatch.setattr(commands, "grade", grade)
    table = tmp_path / "class.csv"
    status, out, _ = ask(capsys, "course", "grade", tmp_path, "--csv", table, "--seconds", "5")
    assert (status, out) == (0, f"{found}\n")
    assert asked == [(tmp_path, {"seconds": 5.0, "megabytes": 2048, "jobs": 0})]
    assert table.read_text() == "student,77.1,right\nana,right,1\n"
    assert json.loads(ask(capsys, "course", "grade", tmp_path, "--json")[1])["students"]
    found = Results(("77.1",), {}, ("bo.ipynb is no notebook",))
    assert ask(capsys, "course", "grade", tmp_path)[0] == 1
