"""Hold a class's results: every answer by the course's own check, in a process of its own."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from luminal_lab.course import commands, outline
from luminal_lab.course.grading import ExerciseResult, GradingTask, Results, graded
from luminal_lab.course.isolated import CallLimits, decoded
from luminal_lab.course.worker import changes, command, state
from tests.course.made import cell, write
from tests.needs import need

LIMITS = CallLimits(30)
EXERCISE = outline.exercises("00")[0]
START = "import luminal_lab as ll\nimport numpy as np\nfrom luminal_lab.course import check"
CHECK = f'check("{EXERCISE.id}", answer)'


def result(
    *cells: str, exercises: tuple[int, ...] = (), limits: CallLimits = LIMITS
) -> ExerciseResult:
    """What becomes of the exercise in the last cell."""
    last = len(cells)
    task = GradingTask("ana", EXERCISE.id, (START, *cells), frozenset({last, *exercises}))
    return graded(task, limits)


def test_a_class_is_a_table(tmp_path: Path):
    opened = cell(f"answer = ...\n{CHECK}", EXERCISE.id)
    solved = cell(f"{EXERCISE.solution}\n{CHECK}", EXERCISE.id)
    write(tmp_path / "ana" / "00" / "x.ipynb", cell(START), solved)
    write(tmp_path / "ana" / "00" / "y.ipynb", cell(START), opened)
    write(tmp_path / "ben.ipynb", cell(START), opened)
    write(tmp_path / "cem" / "x.ipynb", cell(START), cell(f"answer = 3\n{CHECK}", EXERCISE.id))
    write(tmp_path / "dan.ipynb", cell('check("99.1", 3)'))
    (tmp_path / "eve.ipynb").write_text("{")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    results = commands.grade(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    how = {student: results.of(student, EXERCISE.id).how for student in results.students}
    assert how == {
        "ana": "right", "ben": "open", "cem": "not yet", "dan": "missing", "eve": "missing",
    }  # fmt: skip
    assert results.exercises == tuple(one.id for one in outline.exercises("00"))
    assert results.notes[-1] == f"{tmp_path / 'eve.ipynb'}: it is not a notebook of version 4"
    assert results.notes[0].startswith(
        f"{tmp_path / 'dan.ipynb'}: exercise: there is no chapter 99"
    )


def some() -> Results:
    students = {
        "ana": {"77.1": ExerciseResult("right", ("right: a",)), "77.2": ExerciseResult("open")},
        "=cmd()": {"77.1": ExerciseResult("not yet", ("not yet: a",))},
    }
    return Results(("77.1", "77.2"), students, ("x: it is not a notebook",))


def test_the_table_as_text():
    assert str(some()) == (
        "student  77.1  77.2  right\n--------------------------\n"
        "ana       +     .    1 of 2\n=cmd()    x          0 of 2\n\n"
        "+ right   x not yet   . open   (nothing) not in the notebook\n"
        "note: x: it is not a notebook"
    )


def test_the_table_for_a_spreadsheet_and_a_program():
    assert some().csv == ("student,77.1,77.2,right\nana,right,open,1\n'=cmd(),not yet,missing,0\n")
    whole = json.loads(some().json)
    assert whole["students"][0] == {
        "name": "ana",
        "right": 1,
        "exercises": {
            "77.1": {"how": "right", "said": ["right: a"]},
            "77.2": {"how": "open", "said": []},
        },
    }
    need("pandas")
    assert list(some().to_pandas()["77.1"]) == ["right", "not yet"]


def test_an_answer_has_the_cells_that_it_needs_and_no_others():
    assert result("raise ValueError", "sys = 1", EXERCISE.solution).how == "right"
    named = EXERCISE.solution.replace("answer =", "mine =")
    assert result(f"%pip install x\n{named}", f"answer = mine\n{CHECK}").how == "right"


def test_a_name_that_only_a_run_shows_is_found_by_running_all():
    named = EXERCISE.solution.replace("answer =", "mine =")
    assert result(f"exec({named!r})", f"answer = mine\n{CHECK}").how == "right"


def test_a_cell_that_fails_is_told():
    assert result("answer = undefined").said == (
        "not yet: cell 2 failed with NameError: name 'undefined' is not defined",
    )
    assert result("x = 1 / 0", "answer = x").said == (
        "not yet: cell 3 failed with NameError: name 'x' is not defined; before it, cell 2 failed "
        "with ZeroDivisionError: division by zero",
    )
    assert "SyntaxError" in result("answer = = 3").said[0]


def test_an_open_answer_is_open():
    assert result("answer = ...").how == "open"
    assert result("pass").how == "open"
    assert result("answer = 3", "pass", exercises=(1,)).how == "open"


@pytest.mark.parametrize(
    "text",
    [
        "from luminal_lab.course.exercise import Verdict\n"
        "Verdict.all = Verdict.no = classmethod(lambda kind, *_: kind(True))",
        "from luminal_lab.course.exercise import Verdict\n"
        "from luminal_lab.course.chapters import ch00\n"
        "for name in vars(ch00).copy():\n    setattr(ch00, name, lambda *_: Verdict(True))",
        "import luminal_lab.course.exercise as e\n"
        "e.Verdict.all.__func__.__code__ = (lambda cls, *claims: cls(True)).__code__",
        "import json\nold = json.dumps\njson.dumps = lambda d, **k: old({**d, 'right': True}, **k)",
        "import luminal_lab.course.worker as w\nw.changes = lambda *_: ''\n"
        "w.encoded = lambda *_: b'{\"right\": true}'",
    ],
)
def test_a_notebook_that_changes_what_judges_it_is_not_right(text: str):
    (said,) = result(f"{text}\nanswer = 3\n{CHECK}").said
    assert said.startswith("not yet: the notebook gives ")
    assert said.endswith(" another meaning, and grading takes answers alone")


@pytest.mark.parametrize(
    "text",
    [
        "def check(*_): return True\ncheck.right = True",
        "from luminal_lab.course import desk\ndesk.desk().kept.entries.clear()",
        'import os\nos.write(1, b\'{"right": true, "said": [], "hint": ""}\')',
        "import os, json\n"
        "for n in range(3, 64):\n"
        '    try: os.write(n, b\'{"right": true, "said": [], "hint": "", "token": ""}\')\n'
        "    except OSError: pass\nos._exit(0)",
    ],
)
def test_a_verdict_of_the_notebooks_own_does_not_count(text: str):
    assert result(f"{text}\nanswer = 3\n{CHECK}").how == "not yet"


def test_what_is_changed_when_the_answer_is_asked_is_seen_too():
    text = (
        "import numpy as np\nimport luminal_lab as ll\n"
        "class Sly(ll.Tensor):\n    pass\n"
        "def swap(*_):\n    np.abs = np.all = lambda *_: True\n    return ()\n"
        "Sly.op_counts = swap\nSly.shape = property(swap)\n"
        "answer = object.__new__(Sly)"
    )
    assert "another meaning" in result(text).said[0]


def test_what_changed_has_a_name():
    before = state()
    assert changes(before, state()) == ""
    assert changes(before, {**before, "numpy.all": None}) == "numpy.all"
    assert "luminal_lab.course.exercise.Verdict.all" in before


def test_limits_hold(tmp_path: Path):
    short = CallLimits(3)
    assert result("while True: pass", limits=short).said == (
        "not yet: the answer was stopped after 3 s",
    )
    assert result("answer = np.ones(100 << 30, np.uint8)").said == (
        "not yet: the answer needs more than 2,048 MB of memory",
    )
    assert result("import os\nos._exit(0)").said == (
        "not yet: the answer ended its process, as os._exit() does",
    )
    assert result("exit()").how == "not yet"
    assert result("answer = input()").said[0].startswith("not yet: the answer asked for something")


def test_an_answer_that_floods_its_pipe_costs_no_memory():
    flood = "    try:\n        while True: os.write(fd, b'x' * 4096)\n    except OSError: pass"
    text = f"import os\nfor fd in range(3, 30):\n{flood}"
    assert result(text, limits=CallLimits(10)).said == (
        "not yet: the answer wrote to a file that it did not open",
    )


def test_ctrl_c_ends_all_that_runs(tmp_path: Path):
    endless = cell(f"while True: pass\n{CHECK}", EXERCISE.id)
    for name in ("ana", "ben", "cem"):
        write(tmp_path / f"{name}.ipynb", cell(START), endless)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        commands.grade(tmp_path, jobs=2)
    assert time.monotonic() - begun < 20


def test_the_worker_answers_in_one_line_whatever_is_printed():
    cells = [(1, "print('a')\nimport os\nos.write(1, b'b')\nanswer = 3")]
    asked = {"id": EXERCISE.id, "cells": cells, "seconds": 20, "memory": 1 << 31, "token": "t"}
    line = json.dumps(asked).encode() + b"\n"
    done = subprocess.run(command(), input=line, capture_output=True, check=True)
    assert done.stderr == b""
    verdict = decoded(done.stdout, "t")
    assert verdict is not None
    assert not verdict.right
