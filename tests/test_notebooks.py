"""Every notebook runs, shows what is stored in it, and has exercises that can be answered.

The kernel of a notebook runs all of its cells once. What is not tagged `nbval-ignore-output` is
compared with what is stored. After each exercise, as it stands there for a student, its solution
is run; the kept progress then has to say that the answer was right.
"""

import json
import os
import re
import socket
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from luminal_lab.course import notebooks as forms, outline
from luminal_lab.course.kept import ProgressFile
from luminal_lab.course.notebooks import Notebook, asked, read, source
from luminal_lab.devices.facts.probe import cpu_name
from tests import refresh_notebooks
from tests.nbval_runs import nbval
from tests.needs import need
from tests.quiet_bars import WIDGET
from tests.refresh_notebooks import DRAWN, at_first, clean, lists_in

nbformat = need("nbformat")
new_code_cell, new_notebook = nbformat.v4.new_code_cell, nbformat.v4.new_notebook
new_output = nbformat.v4.new_output
ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 300_000
CELL_LIMIT, LIMIT = 90, 240
"""Seconds for a cell and for a notebook, on a machine that does four of them at a time."""
WIDEST = 88
"""The longest line of code, for a projector."""

NEEDS = {"12": ("jax",), "16": ("ziglang",), "17": ("sklearn", "uvicorn", "ziglang")}
"""What a chapter needs beside the lab: one exercise of 12 is of XLA, two pages are WebAssembly."""

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
    path, said = folder / "notebook.ipynb", folder / "said"
    path.write_text(json.dumps(content), encoding="utf-8")
    arguments = [
        "-q", "--tb=short", "--no-header", "-c", os.devnull, "--rootdir", str(folder),
        "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.quiet_bars", "--nbval",
        "--nbval-current-env", "--nbval-sanitize-with", str(ROOT / "tests/sanitize.cfg"),
        f"--nbval-cell-timeout={cell_limit}", str(path),
    ]  # fmt: skip
    code = nbval(arguments, ROOT, said, limit)
    words = said.read_text("utf-8", "replace")
    return code, words if code >= 0 else f"{words}\nthe notebook was still running after {limit} s"


@each
def test_it_shows_what_is_stored_and_its_exercises_can_be_answered(path: Path, tmp_path: Path):
    for package in NEEDS.get(path.stem[:2], ()):
        need(package)
    notebook, progress = read(path), tmp_path / "progress"
    code, said = run(to_run(notebook, progress), tmp_path)
    accept = f"to accept it: make notebooks NOTEBOOKS={path.name}"
    assert code == 0, f"{path.name}: {said[-6000:]}\n{accept}"
    kept = ProgressFile(progress)
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
    kinds = {one.get("name", one["output_type"]) for cell in code for one in cell["outputs"]}
    assert not kinds & {"error", "stderr"}
    again = nbformat.reads(text, 4)
    clean(again, path.stem[:2])
    assert nbformat.writes(again) + "\n" == text, "make notebooks writes it otherwise"


@each
def test_the_list_of_exercises_in_it_is_todays(path: Path):
    notebook = need("nbformat").read(path, as_version=4)
    for output in lists_in(notebook):
        stored = output.data["text/plain"]
        assert stored == at_first().text, "python -m tests.refresh_notebooks NAME"


@each
def test_nothing_in_it_tells_where_it_ran(path: Path):
    stored = path.read_text(encoding="utf-8")
    text = "\n".join([stored, *(b64decode(image).decode() for image in DRAWN.findall(stored))])
    own = {str(Path.home()), str(ROOT), socket.gethostname(), cpu_name()} - {"/", "localhost"}
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


BAR = """\
from luminal_lab import progress
progress.AFTER = 0
print(1, end="")
with progress.progress("slowly", 2, "step") as bar:
    bar.step()
    bar.step()
print(1)
"""


def test_a_notebook_that_is_wrong_does_not_pass(tmp_path: Path):
    printed = [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    cells = [
        cell("print(1 + 1)", printed),
        cell("print(1 + 2)", printed),
        cell("1 / 0", []),
    ]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    code, said = run(content, tmp_path)
    assert code == 1
    assert "2 failed, 1 passed" in said
    assert "ZeroDivisionError" in said


def test_a_bar_that_comes_up_where_it_is_slow_is_not_compared(tmp_path: Path):
    printed = {"output_type": "stream", "name": "stdout", "text": "11\n"}
    gone: Any = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": ""}}
    no_widgets = "from tqdm import notebook; notebook.IProgress = None"
    cells = [
        cell(BAR, [printed]),
        cell("print(11)", [printed, gone]),
        cell(no_widgets),
        cell(BAR, [printed]),
    ]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    code, said = run(content, tmp_path)
    assert code == 0, said


def test_what_is_stored_is_what_a_reader_without_a_kernel_sees():
    printed = [new_output("stream", name="stdout", text=text) for text in ("a", "\n", "b\n")]
    empty = new_output("display_data", {"text/html": "", "text/plain": ""})
    widget = new_output("display_data", {"text/plain": "<a widget>", WIDGET: {"model_id": "1"}})
    value = new_output("execute_result", {"text/plain": "3"}, execution_count=9)
    made = new_code_cell("3", outputs=[*printed[:1], empty, *printed[1:], widget, value])
    made.metadata = nbformat.from_dict({"tags": ["x"], "execution": {"iopub.status.busy": "now"}})
    notebook = new_notebook(cells=[made], metadata={"widgets": {}})
    clean(notebook, "07")
    (kept,) = notebook.cells
    assert (kept.id, kept.metadata, kept.execution_count) == ("07-00", {"tags": ["x"]}, 1)
    assert [one.output_type for one in kept.outputs] == ["stream", "execute_result"]
    assert (kept.outputs[0].text, kept.outputs[1].execution_count) == ("a\nb\n", 1)
    assert "widgets" not in notebook.metadata


def test_a_notebook_that_is_refreshed_is_that_of_somebody_who_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    asks = "from luminal_lab.course import desk\nprint(len(desk.data_folder().parts) > 1)"
    sources = {
        "01_well.ipynb": f"{asks}\nprint(*__import__('os').listdir(desk.data_folder()))",
        "02_warns.ipynb": "import warnings; warnings.warn('old')",
    }
    for name, code in sources.items():
        nbformat.write(new_notebook(cells=[new_code_cell(code)]), tmp_path / name)
    before = (tmp_path / "02_warns.ipynb").read_bytes()
    monkeypatch.setattr(refresh_notebooks, "FOLDER", tmp_path)
    monkeypatch.setattr(refresh_notebooks, "is_busy", lambda: True)
    assert refresh_notebooks.main(["03_none.ipynb"]) == 1
    assert "there is no 03_none.ipynb" in capsys.readouterr().out
    assert refresh_notebooks.main([]) == 1
    told = capsys.readouterr().out
    assert "other things run on this machine" in told
    assert "cell 02-00 warns:" in told
    assert "1 of 2 are stored" in told
    assert (tmp_path / "02_warns.ipynb").read_bytes() == before
    (output,) = nbformat.read(tmp_path / "01_well.ipynb", 4).cells[0].outputs
    assert output.text.split() == ["True", "profile_default"]


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
