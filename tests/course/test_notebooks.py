"""Hold the student form and the solved form of notebooks, and where exercises are found."""

import json
from pathlib import Path

import pytest

from luminal_lab.course import commands, notebooks
from luminal_lab.course.needed import names, needed, plain
from luminal_lab.course.notebooks import asked, read, stripped
from luminal_lab.errors import ArgumentError, LabError
from tests.course import made
from tests.course.made import cell, write
from tests.expect import error_of

OPEN = 'answer = ...          # your code here\ncheck("77.1", answer)'
SOLVED = '### BEGIN SOLUTION\nanswer = 2 + 2\n### END SOLUTION\ncheck("77.1", answer)'


@pytest.fixture(autouse=True)
def _chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    made.chapter(monkeypatch)


def texts(path: Path) -> list[str]:
    return [notebooks.source(one) for one in read(path).cells]


def test_solved_and_back(tmp_path: Path):
    write(
        tmp_path / "a" / "77_x.ipynb",
        cell("# words", kind="markdown"),
        cell("x = 1"),
        cell(OPEN, "77.1"),
    )
    (path,) = commands.solved(tmp_path / "a", tmp_path / "b")
    assert texts(path) == ["# words", "x = 1", SOLVED]
    content = json.loads(path.read_text())["cells"]
    assert (content[1]["execution_count"], len(content[1]["outputs"])) == (3, 1)
    assert (content[2]["execution_count"], content[2]["outputs"]) == (None, [])
    assert content[2]["metadata"]["nbgrader"]["grade_id"] == "ex-77-1"
    (path,) = commands.student(tmp_path / "b", tmp_path / "c")
    assert texts(path) == ["# words", "x = 1", OPEN]
    assert [one["id"] for one in json.loads(path.read_text())["cells"]] == ["c0", "c1", "c2"]


def test_an_exercise_that_was_answered_stays(tmp_path: Path):
    write(tmp_path / "a" / "x.ipynb", cell('answer = 5\ncheck("77.1", answer)', "77.1"))
    (path,) = commands.solved(tmp_path / "a", tmp_path / "b")
    assert texts(path) == ['answer = 5\ncheck("77.1", answer)']


def test_a_teachers_own_cells_are_stripped_as_nbgrader_does():
    text = (
        "def f(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n\n"
        "### BEGIN HIDDEN TESTS\nassert f(2) == 4\n### END HIDDEN TESTS\nf(1)"
    )
    assert stripped(text) == (
        "def f(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()\n\nf(1)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("### BEGIN SOLUTION\nx", "x.ipynb, cell 2: ### BEGIN SOLUTION has no end"),
        ("x\n### END SOLUTION", "x.ipynb, cell 2, line 2: ### END SOLUTION has no begin"),
        (
            "### BEGIN SOLUTION\n### BEGIN SOLUTION",
            "x.ipynb, cell 2, line 2: ### BEGIN SOLUTION within ### BEGIN SOLUTION",
        ),
    ],
)
def test_signs_that_do_not_match_are_an_error_and_nothing_is_written(
    tmp_path: Path, text: str, message: str
):
    write(tmp_path / "a" / "w.ipynb", cell("y"))
    write(tmp_path / "a" / "x.ipynb", cell("y"), cell(text))
    call = error_of(lambda: commands.student(tmp_path / "a", tmp_path / "b"), ArgumentError)
    assert call.message == message
    assert not (tmp_path / "b").exists()


def test_a_file_that_differs_is_not_written_over(tmp_path: Path):
    write(tmp_path / "a" / "x.ipynb", cell(SOLVED, "77.1"))
    (path,) = commands.student(tmp_path / "a", tmp_path / "b")
    assert commands.student(tmp_path / "a", tmp_path / "b") == [path]
    path.write_text("somebody's work")
    error = error_of(lambda: commands.student(tmp_path / "a", tmp_path / "b"), ArgumentError)
    assert error.message == f"course: {path} is there already, and differs"
    assert path.read_text() == "somebody's work"


def test_folders_that_do_not_do(tmp_path: Path):
    write(tmp_path / "a" / "x.ipynb", cell("y"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for folder, out, end in (
        ("no", "b", "no is not a folder"),
        ("empty", "b", "empty has no notebooks"),
        ("a", "a", "a is the folder that is read"),
        ("a", "file", "cannot be written: file exists"),
    ):
        error = error_of(lambda f=folder, o=out: commands.solved(tmp_path / f, tmp_path / o))
        assert error.message.endswith(end)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": [3]}', '{"cells": [{"source": ""}]}'])
def test_what_is_no_notebook_is_said(tmp_path: Path, text: str):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert error_of(lambda: read(path), LabError).message == (
        f"{path}: it is not a notebook of version 4"
    )


def test_jupyters_copies_are_not_notebooks(tmp_path: Path):
    write(tmp_path / ".ipynb_checkpoints" / "x-checkpoint.ipynb", cell("y"))
    path = write(tmp_path / "x.ipynb", cell("y"))
    assert notebooks.notebook_paths(tmp_path) == [path]


def test_an_exercise_is_found_by_its_mark_or_its_check():
    assert asked(cell("x", "04.12")) == "04.12"
    assert asked(cell('check("4.2", answer)')) == "04.2"
    assert asked(cell("answer = 1; check( '04.12', answer)")) == "04.12"
    assert asked(cell('# check("04.2", answer)')) is None
    assert asked(cell('check("04.2", answer)', kind="markdown")) is None
    assert asked({**cell("x"), "metadata": {"nbgrader": "odd"}}) is None


def test_magics_do_nothing():
    assert plain("%%lab\nx = 1") == "x = 1"
    assert plain("%%bash\nrm -rf x") == ""
    assert plain("if a:\n    %time b()\n!ls\n?c\nd % e") == ("if a:\n    pass\npass\npass\nd % e")


def test_what_a_cell_speaks_of():
    assert names("def f(x):\n    return g(x)").mentioned >= {"f", "g"}
    assert names("import a.b, c as d").imported == {"a", "d"}
    assert names("x = = 1").mentioned == frozenset()


def test_an_exercise_needs_what_its_names_were_made_and_changed_by():
    cells = [
        "import lab as ll",  # 0
        "import numpy as np",  # 1
        "cx = ll.Graph()",  # 2
        "other = ll.Graph()\nother.display()",  # 3
        "def f(x):\n    return x + two",  # 4
        "two = 2",  # 5
        "cx.compile()",  # 6
        "answer = 3\ncheck('1', answer)",  # 7, an exercise
        "def g(x): return f(x)\nanswer = g",  # 8, another one
        "answer = lambda x: g(cx)",  # 9
    ]
    assert needed(cells, 9, frozenset({7, 8, 9})) == [0, 2, 4, 5, 6, 8, 9]
    assert needed(cells, 7, frozenset({7, 8, 9})) == [7]


def test_exercises_are_listed():
    assert commands.listed_text() == "77\n    77.1  Make four.\n    77.2  Make four again."
    assert json.loads(commands.listed_json())["chapters"][0]["exercises"][1]["id"] == "77.2"
