"""Every notebook runs, shows what is stored in it, and has exercises that can be answered.

The kernel of a notebook runs all of its cells once. What is not tagged `nbval-ignore-output` is
compared with what is stored. After each exercise, as it stands there for a student, its solution
is run; the kept progress then has to say that the answer was right.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course import notebooks as forms, outline
from luminal_lab.course.kept import Kept
from luminal_lab.course.notebooks import Notebook, asked, read, source

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 300_000
CELL_LIMIT, LIMIT = 90, 240
"""Seconds for a cell and for a notebook, on a machine that does four of them at a time."""
WIDEST = 88
"""The longest line of code, for a projector."""

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem[:2] for path in NOTEBOOKS])


def cell(code: str, outputs: list[Any] | None = None, *tags: str, count: int | None = 1) -> Any:
    return {
        "cell_type": "code",
        "execution_count": count,
        "metadata": {"tags": list(tags)},
        "outputs": outputs or [],
        "source": code,
    }


def to_run(notebook: Notebook, progress: Path) -> Any:
    """Return a notebook with its solutions behind its exercises, and its progress kept apart."""
    keep = (
        "from pathlib import Path\nimport luminal_lab.course.desk as desk\n"
        f"desk.data_folder = lambda: Path({str(progress)!r})"
    )
    answered = forms.solved(notebook).cells
    cells: list[Any] = [cell(keep)]
    for stored, solved in zip(notebook.cells, answered, strict=True):
        cells.append(stored)
        if asked(stored):
            cells.append(cell(source(solved), [], "nbval-ignore-output"))
    bare = [{key: value for key, value in one.items() if key != "id"} for one in cells]
    return {**notebook.content, "cells": bare, "nbformat_minor": 4}


def run(
    content: Any, folder: Path, limit: float = LIMIT, cell_limit: float = CELL_LIMIT
) -> tuple[int, str]:
    """Run a notebook under nbval; return how that ended and what was said."""
    path = folder / "notebook.ipynb"
    path.write_text(json.dumps(content), encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "--tb=short", "--no-header", "-c", os.devnull,
        "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "no:xdist",
        "-p", "tests.quiet_bars", "--nbval", "--nbval-current-env", "--nbval-sanitize-with",
        str(FOLDER / "sanitize.cfg"), f"--nbval-cell-timeout={cell_limit}", str(path),
    ]  # fmt: skip
    # A session of its own: what hangs is ended with its kernel.
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        encoding="utf-8", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end_of(process)
            said = f"{process.communicate()[0]}\nthe notebook was still running after {limit} s"
            return -1, said
    return process.returncode, said


def end_of(process: "subprocess.Popen[str]") -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


@each
def test_it_shows_what_is_stored_and_its_exercises_can_be_answered(path: Path, tmp_path: Path):
    notebook, progress = read(path), tmp_path / "progress"
    code, said = run(to_run(notebook, progress), tmp_path)
    accept = f"to accept it: make notebooks NOTEBOOKS={path.name}"
    assert code == 0, f"{path.name}: {said[-6000:]}\n{accept}"
    kept = Kept(progress)
    ids = [id for id, _ in forms.places(notebook)]
    assert [id for id in ids if not kept.entry(id).right] == []


@each
def test_its_exercises_are_those_of_its_chapter(path: Path):
    ids = [id for id, _ in forms.places(read(path))]
    assert ids == [one.id for one in outline.exercises(path.stem[:2])]
    assert 3 <= len(ids) <= 5


@each
def test_it_is_stored_clean(path: Path):
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    assert len(text.encode()) < LARGEST
    assert set(content["metadata"]) <= {"kernelspec", "language_info", "title"}
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    ids = [one["id"] for one in content["cells"]]
    assert all(re.fullmatch(rf"{path.stem[:2]}-\d\d\d?", id) for id in ids)
    assert len(set(ids)) == len(ids)
    code = [one for one in content["cells"] if one["cell_type"] == "code"]
    assert [one["execution_count"] for one in code] == list(range(1, len(code) + 1))
    assert [
        one["id"] for one in content["cells"] if set(one["metadata"]) - {"tags", "nbgrader"}
    ] == []
    shown = json.dumps([one["outputs"] for one in code])
    assert "widget-view" not in shown
    assert '"output_type": "error"' not in shown


@each
def test_nothing_in_it_tells_where_it_ran(path: Path):
    text = path.read_text(encoding="utf-8")
    own = {str(Path.home()), str(ROOT), socket.gethostname()} - {"/", "localhost"}
    assert [word for word in sorted(own) if len(word) > 4 and word in text] == []
    assert (
        re.findall(r"(?:/home/|/Users/|/root/|/tmp/|/private/var/|[A-Z]:\\\\Users)\S*", text) == []
    )


@each
def test_its_lines_fit_on_a_projector(path: Path):
    long = [
        line for one in read(path).code for line in source(one).splitlines() if len(line) > WIDEST
    ]
    assert long == []


@each
def test_it_can_be_opened_where_the_lab_is_missing(path: Path):
    first = read(path).code[0]
    assert first["metadata"].get("tags") == ["setup"]
    begin, found, _ = source(first).partition('%pip install -q "luminal-lab[lab]"')
    assert found
    assert re.match(r"try:\n    import luminal_lab\b.*\nexcept ModuleNotFoundError:", begin)


def test_a_notebook_that_is_wrong_does_not_pass(tmp_path: Path):
    printed = [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    bar: Any = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": ""}}
    cells = [
        cell("print(1 + 1)", printed),
        cell("print(1 + 1)", [*printed, bar]),
        cell("print(1 + 2)", printed),
        cell("1 / 0", []),
    ]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    code, said = run(content, tmp_path)
    assert code == 1
    assert "2 failed, 2 passed" in said
    assert "ZeroDivisionError" in said


def test_a_notebook_that_hangs_is_ended(tmp_path: Path):
    content = {
        "cells": [cell("import time; time.sleep(60)")],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    code, said = run(content, tmp_path, limit=4)
    assert code == -1
    assert said.endswith("the notebook was still running after 4 s")
