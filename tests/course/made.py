"""A chapter and notebooks that tests make: small, and no student's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from luminal_lab.course import outline
from luminal_lab.course.exercise import Exercise, Verdict


def is_four(answer: object) -> Verdict:
    """Is it four, or a function that returns four?"""
    found = answer() if callable(answer) else answer
    return Verdict.all(
        ("it is a number", isinstance(found, int), "2 is one"),
        ("it is 4", lambda: found == 4, "what is twice two?"),
    )


FOUR = Exercise("77.1", "Make four.", ("Count.", "Count <further>."), "answer = 2 + 2", is_four)
LATER = Exercise("77.2", "Make four again.", (), "answer = 4", is_four)


def chapter(monkeypatch: Any) -> None:
    """Have a chapter of two exercises, and no other."""
    monkeypatch.setattr(outline, "numbers", lambda: ("77",))
    monkeypatch.setattr(outline, "exercises", lambda number: (FOUR, LATER))


def cell(text: str, id: str = "", kind: str = "code") -> dict[str, Any]:
    """Return a cell; with an id it is an exercise's."""
    marked = {
        "grade": True,
        "solution": True,
        "locked": False,
        "schema_version": 3,
        "grade_id": f"ex-{id.replace('.', '-')}",
        "points": 1,
        "cell_type": "code",
    }
    made = {
        "cell_type": kind,
        "metadata": {"nbgrader": marked, "tags": ["exercise"]} if id else {},
        "source": text.splitlines(keepends=True),
    }
    if kind == "code":
        made |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]}
        made |= {"execution_count": 3}
    return made


def write(path: Path, *cells: dict[str, Any]) -> Path:
    """Write a notebook."""
    path.parent.mkdir(parents=True, exist_ok=True)
    numbered = [{**one, "id": f"c{place}"} for place, one in enumerate(cells)]
    whole = {"cells": numbered, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole))
    return path
