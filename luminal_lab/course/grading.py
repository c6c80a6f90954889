"""A class's results: exercises of submitted notebooks, each run alone, as a table.

submitted/ana/04_stepping.ipynb     a folder for each student, as in nbgrader, or
submitted/04_stepping_ana.ipynb     a file for each student
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from threading import Thread
from typing import Literal, TypeAlias

from typing_extensions import override

from luminal_lab.course import notebooks, outline
from luminal_lab.course.exercise import OPEN, Verdict
from luminal_lab.course.isolated import MEGABYTE, CallLimits, decoded, ended, too_long
from luminal_lab.course.needed import needed
from luminal_lab.course.notebooks import Notebook
from luminal_lab.course.worker import STILL_OPEN, command
from luminal_lab.errors import LabError, visible
from luminal_lab.progress import progress
from luminal_lab.tables import Table, frame

How: TypeAlias = Literal["right", "not yet", "open", "missing"]
SIGNS: Mapping[How, str] = {"right": "+", "not yet": "x", "open": ".", "missing": ""}
Process: TypeAlias = subprocess.Popen[bytes]
LIMITS = CallLimits(60.0)
WAITING = 5.0
"""The seconds in which a process that was killed lets go of its pipe."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ExerciseResult:
    """The result of a student's exercise."""

    how: How
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """A class's results: by student, and by exercise."""

    exercises: tuple[str, ...]
    students: Mapping[str, Mapping[str, ExerciseResult]]
    notes: tuple[str, ...] = ()
    """Notes about files that could not be read."""

    def of(self, student: str, exercise: str) -> ExerciseResult:
        """Return the result of one exercise of one student."""
        return self.students[student].get(exercise, ExerciseResult("missing"))

    def right(self, student: str) -> int:
        """Return how many exercises of a student are right."""
        return sum(result.how == "right" for result in self.students[student].values())

    @override
    def __str__(self) -> str:
        wide = max([7, *map(len, self.students)])
        head = f"{'student':{wide}}  {'  '.join(self.exercises)}  right"
        rows = [head, "-" * len(head)]
        for student in self.students:
            signs = [f"{SIGNS[self.of(student, id).how]:^{len(id)}}" for id in self.exercises]
            right = f"{self.right(student)} of {len(self.exercises)}"
            rows.append(f"{student:{wide}}  {'  '.join(signs)}  {right}")
        rows += ["", "+ right   x not yet   . open   (nothing) not in the notebook"]
        return visible("\n".join([*rows, *(f"note: {note}" for note in self.notes)]))

    @property
    def csv(self) -> str:
        """The table, for a spreadsheet: a row for each student."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["student", *self.exercises, "right"])
        for student in self.students:
            how = [self.of(student, id).how for id in self.exercises]
            writer.writerow([_cell(student), *how, self.right(student)])
        return text.getvalue()

    @property
    def json(self) -> str:
        """The table with the verdict on each answer."""
        students = [
            {
                "name": student,
                "right": self.right(student),
                "exercises": {
                    id: {"how": self.of(student, id).how, "said": self.of(student, id).said}
                    for id in self.exercises
                },
            }
            for student in self.students
        ]
        whole = {
            "format": FORMAT,
            "exercises": self.exercises,
            "students": students,
            "notes": self.notes,
        }
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    def to_pandas(self) -> Table:
        """Return the table, a row for each student."""
        rows = [
            [student, *(self.of(student, id).how for id in self.exercises), self.right(student)]
            for student in self.students
        ]
        return frame("results", ["student", *self.exercises, "right"], rows)


@dataclass(frozen=True, slots=True)
class GradingTask:
    """A student's exercise to be run."""

    student: str
    id: str
    cells: tuple[str, ...]
    """The texts of the notebook's code, up to the exercise."""
    exercises: frozenset[int] = field(default=frozenset())
    """The indices of those that are exercises."""


def grade(folder: Path, limits: CallLimits = LIMITS, jobs: int = 0) -> Results:
    """Return the results of the notebooks below a folder; the notebooks do not change."""
    tasks: list[GradingTask] = []
    notes: list[str] = []
    students: dict[str, dict[str, ExerciseResult]] = {}
    for path in notebooks.notebook_paths(folder):
        parts = path.relative_to(folder).parts
        student = parts[0] if len(parts) > 1 else path.stem
        students.setdefault(student, {})
        try:
            notebook = notebooks.read(path)
        except LabError as error:
            notes.append(error.message)
            continue
        tasks += _tasks(student, notebook, notes)
    jobs = jobs or min(4, os.cpu_count() or 1)
    running: set[Process] = set()
    with progress("grade", len(tasks), "exercise") as bar, ThreadPoolExecutor(jobs) as pool:
        done = pool.map(graded, tasks, repeat(limits), repeat(running))
        try:
            for task, result in zip(tasks, done, strict=True):
                bar.now(f"{task.student} {task.id}")
                known = students[task.student].get(task.id)
                if known is None or known.how != "right":
                    students[task.student][task.id] = result
                bar.step()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in tuple(running):
                _kill(process)
            raise
    return Results(_columns(tasks), students, tuple(notes))


def graded(
    task: GradingTask, limits: CallLimits = LIMITS, running: set[Process] | None = None
) -> ExerciseResult:
    """Run an exercise with the cells that it needs, or with all before it if that fails.

    Its process is in `running` meanwhile.
    """
    running = set() if running is None else running
    last = len(task.cells) - 1
    places = needed(task.cells, last, task.exercises)
    verdict = asked(task, places, limits, running)
    whole = [k for k in range(last + 1) if k == last or k not in task.exercises]
    if not verdict.right and _failed(verdict) and set(whole) - set(places):
        verdict = asked(task, sorted({*whole, *places}), limits, running)
    if verdict.right:
        return ExerciseResult("right", verdict.said)
    if verdict.said == (f"{OPEN}{STILL_OPEN}",):
        return ExerciseResult("open")
    return ExerciseResult("not yet", verdict.said)


def asked(
    task: GradingTask, places: Iterable[int], limits: CallLimits, running: set[Process]
) -> Verdict:
    """Return the verdict on an exercise from a separate process."""
    token = secrets.token_hex(16)
    request = {
        "id": task.id,
        "cells": [(k + 1, task.cells[k]) for k in places],
        "seconds": limits.seconds,
        "memory": limits.memory,
        "token": token,
    }
    with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )
        running.add(process)
        data = bytearray()
        line = json.dumps(request).encode() + b"\n"
        talk = Thread(target=_talk, args=(process, line, data), daemon=True)
        try:
            talk.start()
            talk.join(limits.seconds)
            in_time = not talk.is_alive()
        finally:
            running.discard(process)
            _end(process, talk)
    if not in_time:
        return too_long(limits)
    if len(data) > MEGABYTE:
        return Verdict.no("the answer wrote to a file that it did not open", "print instead")
    return decoded(bytes(data), token) or ended(process.returncode)


def _talk(process: Process, line: bytes, data: bytearray) -> None:
    """Give a process its request, and take its answer: no more than can be one."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):  # it has ended before it has read all
        process.stdin.write(line)
        process.stdin.close()
    data += process.stdout.read(MEGABYTE + 1)


def _kill(process: Process) -> None:
    """Kill a process and its children."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _end(process: Process, talk: Thread) -> None:
    """Kill a process and release its resources."""
    _kill(process)
    process.wait()
    if talk.ident is not None:  # it may not have begun
        talk.join(WAITING)
    for stream in (process.stdin, process.stdout):
        if stream is not None and not talk.is_alive():
            with suppress(OSError):
                stream.close()


def _failed(verdict: Verdict) -> bool:
    """Return whether a cell failed, perhaps because it needs another cell."""
    return any(" failed with " in line for line in verdict.said)


def _tasks(student: str, notebook: Notebook, notes: list[str]) -> list[GradingTask]:
    exercises = list(notebooks.places(notebook))
    texts = tuple(map(notebooks.source, notebook.code))
    where = frozenset(index for _, index in exercises)
    tasks: list[GradingTask] = []
    for id, index in exercises:
        try:
            outline.exercise(id)
        except LabError as error:
            notes.append(f"{notebook.path}: {error.message}")
            continue
        tasks.append(GradingTask(student, id, texts[: index + 1], where))
    return tasks


def _columns(tasks: Sequence[GradingTask]) -> tuple[str, ...]:
    """Return all exercises of the submitted chapters."""
    chapters = sorted({task.id.partition(".")[0] for task in tasks})
    return tuple(exercise.id for chapter in chapters for exercise in outline.exercises(chapter))


def _cell(text: str) -> str:
    """Return a name that a spreadsheet cannot take for a formula."""
    return f"'{text}" if text[:1] in "=+-@\t" and text else text
