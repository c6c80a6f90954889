"""The command line's tools for teachers, as plain functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from luminal_lab.course import notebooks, outline
from luminal_lab.course.grading import LIMITS, Results, grade as graded
from luminal_lab.course.isolated import MEGABYTE


def student(folder: Path, out: Path) -> list[Path]:
    """Write the notebooks of a folder into another one in the students' form; return the files."""
    return notebooks.write_all(folder, out, notebooks.student)


def solved(folder: Path, out: Path) -> list[Path]:
    """Write the notebooks of a folder into another one with an answer to each exercise."""
    return notebooks.write_all(folder, out, notebooks.solved)


def grade(
    folder: Path, *, seconds: float = LIMITS.seconds, megabytes: int = 2048, jobs: int = 0
) -> Results:
    """Return the results of submitted notebooks: `str(…)`, `.csv` and `.json` are the table."""
    limits = replace(LIMITS, seconds=seconds, memory=megabytes * MEGABYTE)
    return graded(folder, limits, jobs)


def listed() -> Mapping[str, Mapping[str, str]]:
    """Return the chapters, with the tasks of their exercises by id."""
    return {
        number: {exercise.id: exercise.task for exercise in outline.exercises(number)}
        for number in outline.numbers()
    }


def listed_text() -> str:
    """Return the chapters and exercises as lines."""
    rows: list[str] = []
    for number, tasks in listed().items():
        rows.append(f"{number}  {outline.TITLES.get(number, '')}".rstrip())
        rows += [f"    {id}  {task}" for id, task in tasks.items()]
    return "\n".join(rows)


def listed_json() -> str:
    """Return the chapters and exercises for a program."""
    chapters = [
        {
            "chapter": number,
            "title": outline.TITLES.get(number, ""),
            "exercises": [{"id": id, "task": task} for id, task in tasks.items()],
        }
        for number, tasks in listed().items()
    ]
    return json.dumps({"format": 1, "chapters": chapters}, indent=1, ensure_ascii=False) + "\n"
