"""Notebooks for teachers: the student form, the solved form, and the positions of exercises.

The conventions are nbgrader's: a cell's metadata says `"nbgrader": {"grade": true, "solution":
true, "grade_id": "ex-04-2", …}`, lines from `### BEGIN SOLUTION` to `### END SOLUTION` are for
teachers, and so are those from `### BEGIN HIDDEN TESTS` to `### END HIDDEN TESTS`.
"""

from __future__ import annotations

import copy
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from luminal_lab.course import outline
from luminal_lab.errors import ArgumentError, LabError
from luminal_lab.reading import read_json, read_plain
from luminal_lab.writing import write_bytes

Cell: TypeAlias = dict[str, Any]
LARGEST = 64 << 20
"""The most bytes of a notebook."""
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
REGIONS = {BEGIN: END, "### BEGIN HIDDEN TESTS": "### END HIDDEN TESTS"}
OPEN = "answer = ...          # your code here"
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
"""nbgrader's placeholder for a solution."""
ASKED = re.compile(r"""^[^#\n]*\bcheck\(\s*["'](\d{1,2})\.(\d+)["']""", re.MULTILINE)
GIVEN = re.compile(r"^([ \t]*)answer[ \t]*=[ \t]*\.\.\.[ \t]*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook in memory."""

    path: Path
    content: dict[str, Any]

    @property
    def cells(self) -> list[Cell]:
        """Its cells."""
        return cast("list[Cell]", self.content["cells"])

    @property
    def code(self) -> list[Cell]:
        """Its code cells."""
        return [cell for cell in self.cells if cell.get("cell_type") == "code"]

    @property
    def text(self) -> str:
        """The text of its file."""
        return json.dumps(self.content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def read(path: Path) -> Notebook:
    """Read a notebook, or say why it is none."""
    try:
        content = cast("dict[str, Any]", read_json(read_plain(path, LARGEST), exact=True))
        cells = content["cells"]
        if not isinstance(cells, list):
            raise TypeError
        for cell in cast("list[Cell]", cells):
            if not isinstance(cell.get("metadata", {}), dict):
                raise TypeError
            _ = cell["cell_type"], source(cell)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise ArgumentError(f"{path}: it cannot be read: {why}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ArgumentError(f"{path}: it is not a notebook of version 4") from None
    return Notebook(path, content)


def source(cell: Cell) -> str:
    """Return the text of a cell."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(text)


def asked(cell: Cell) -> str | None:
    """Return the id of the exercise that a cell answers, from its metadata or its check."""
    if cell.get("cell_type") != "code":
        return None
    marked = cast("dict[str, object]", cell.get("metadata") or {}).get("nbgrader")
    name = cast("dict[str, object]", marked).get("grade_id") if isinstance(marked, dict) else None
    match = re.fullmatch(r"ex-(\d\d)-(\d+)", name) if isinstance(name, str) else None
    if match:
        return f"{match[1]}.{match[2]}"
    called = ASKED.search(source(cell))
    return None if called is None else f"{called[1].zfill(2)}.{called[2]}"


def student(notebook: Notebook) -> Notebook:
    """Return a notebook without solutions and hidden tests."""

    def change(cell: Cell, where: str) -> str:
        return stripped(source(cell), where, is_asked=asked(cell) is not None)

    return _changed(notebook, change)


def solved(notebook: Notebook) -> Notebook:
    """Return a notebook with an answer to each exercise that is open."""

    def change(cell: Cell, _: str) -> str:
        text, id = source(cell), asked(cell)
        given = None if id is None else GIVEN.search(text)
        if id is None or given is None:
            return text
        lines = [BEGIN, outline.exercise(id).solution.strip("\n"), END]
        body = textwrap.indent("\n".join(lines), given[1])
        return text[: given.start()] + body + text[given.end() :]

    return _changed(notebook, change)


def stripped(text: str, where: str = "the cell", *, is_asked: bool = False) -> str:
    """Return a cell's text for students.

    >>> print(stripped("a = 1\\n### BEGIN SOLUTION\\nanswer = 2\\n### END SOLUTION", is_asked=True))
    a = 1
    answer = ...          # your code here
    """
    kept: list[str] = []
    begun: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        word = line.strip()
        if begun is None:
            if word in REGIONS.values():
                raise ArgumentError(f"{where}, line {number}: {word} has no begin")
            if word not in REGIONS:
                kept.append(line)
                continue
            begun = word
            if word == BEGIN:
                space = line[: len(line) - len(line.lstrip())]
                kept += [space + stub_line for stub_line in ((OPEN,) if is_asked else STUB)]
        elif word in REGIONS:
            raise ArgumentError(f"{where}, line {number}: {word} within {begun}")
        elif word == REGIONS[begun]:
            begun = None
    if begun is not None:
        raise ArgumentError(f"{where}: {begun} has no end", hint=f"end it by {REGIONS[begun]}")
    return "\n".join(kept)


def write_all(folder: Path, out: Path, form: Callable[[Notebook], Notebook]) -> list[Path]:
    """Write a form of all notebooks of a folder into another one, or nothing if one is faulty.

    A different file that already exists is kept, and raises an error: it may be somebody's work.
    """
    if out.resolve() == folder.resolve():
        raise ArgumentError(
            f"course: {out} is the folder that is read", hint="name another one, which may be new"
        )
    pairs = [(out / path.relative_to(folder), form(read(path))) for path in notebook_paths(folder)]
    for path, notebook in pairs:
        if path.exists() and path.read_text("utf-8", "replace") != notebook.text:
            raise ArgumentError(
                f"course: {path} is there already, and differs",
                hint="name a new folder, or remove that file",
            )
    try:
        for path, notebook in pairs:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes("course", path, notebook.text.encode())
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise ArgumentError(
            f"course: {error.filename or out} cannot be written: {why}", hint="name another folder"
        ) from None
    return [path for path, _ in pairs]


def notebook_paths(folder: Path) -> list[Path]:
    """Return the notebooks below a folder, without Jupyter's copies."""
    if not folder.is_dir():
        raise ArgumentError(f"course: {folder} is not a folder", hint="name one with notebooks")
    paths = sorted(
        path
        for path in folder.rglob("*.ipynb")
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    if not paths:
        raise ArgumentError(f"course: {folder} has no notebooks", hint="their names end in .ipynb")
    return paths


def places(notebook: Notebook) -> Iterator[tuple[str, int]]:
    """Yield the exercises of a notebook, each with its index among the code cells."""
    for index, cell in enumerate(notebook.code):
        id = asked(cell)
        if id is not None:
            yield id, index


def _changed(notebook: Notebook, change: Callable[[Cell, str], str]) -> Notebook:
    """Return a notebook with changed code; outputs of changed cells are removed."""
    content = copy.deepcopy(notebook.content)
    for number, cell in enumerate(cast("list[Cell]", content["cells"]), 1):
        if cell.get("cell_type") != "code":
            continue
        where = f"{notebook.path.name}, cell {number}"
        try:
            text = change(cell, where)
        except LabError as error:
            if not error.message.startswith(where):
                error.add_note(f"in {where}")
            raise
        if text != source(cell):
            cell["source"] = text.splitlines(keepends=True)
            cell["outputs"], cell["execution_count"] = [], None
    return Notebook(notebook.path, content)
