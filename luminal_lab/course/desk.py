"""Answering exercises: check, hint, solution and progress, for one record of progress."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from luminal_lab.course import outline
from luminal_lab.course.exercise import is_open
from luminal_lab.course.isolated import CallLimits, is_inside, isolated
from luminal_lab.course.kept import ExerciseRecord, ProgressFile, data_folder
from luminal_lab.course.saying import ChapterRow, CourseProgress, Said


class Desk:
    """The course as a notebook uses it; progress is kept in a folder, or in memory for None."""

    def __init__(self, folder: Path | None, limits: CallLimits | None = None) -> None:
        self.kept = ProgressFile(folder)
        self.limits = limits or CallLimits()

    def check(self, id: str, answer: object = ...) -> Said:
        """Say what is right about an answer, and what is not yet."""
        if is_inside():
            return Said(f"{id} is not checked while another answer is")
        asked = outline.exercise(id)
        if is_open(answer):
            return Said(f"{asked.id} is still open: {asked.task}")
        verdict = isolated(
            lambda: asked.check(answer), self.limits, self.kept.folder, forks=asked.forks
        )
        entry = self.kept.change(asked.id, lambda record: _tried(record, verdict.right))
        notes = self.kept.take_notes()
        if verdict.right:
            return Said(f"{asked.id} is right", "right", verdict.said, notes=notes)
        further = _further(asked.id, entry.hints, len(asked.hints))
        hint = verdict.hint or further
        return Said(f"{asked.id} is not right yet", "not yet", verdict.said, hint, notes=notes)

    def hint(self, id: str) -> Said:
        """Show the next hint for an exercise; each call says more."""
        asked = outline.exercise(id)
        total = len(asked.hints)
        if not total:
            return Said(f'{asked.id} has no hints; solution("{asked.id}") shows an answer')
        shown = self.kept.change(
            asked.id, lambda record: replace(record, hints=min(record.hints + 1, total))
        ).hints
        after = _further(asked.id, shown, total)
        head = f"{asked.id}, hint {shown} of {total}: {asked.hints[shown - 1]}"
        return Said(head, lines=(after,), notes=self.kept.take_notes())

    def solution(self, id: str) -> Said:
        """Show one answer to an exercise; the progress records that it was looked at."""
        asked = outline.exercise(id)
        entry = self.kept.change(
            asked.id, lambda record: replace(record, looked=record.looked or not record.right)
        )
        head = f"{asked.id}, one answer of several:"
        said = ("your progress says that you looked",) if entry.looked else ()
        return Said(head, lines=said, code=asked.solution, notes=self.kept.take_notes())

    def progress(self) -> CourseProgress:
        """Show how many exercises of each chapter are right."""
        self.kept.read()
        rows = tuple(_row(number, self.kept.entries) for number in outline.numbers())
        return CourseProgress(rows, self.kept.take_notes())


def desk() -> Desk:
    """Return the desk of notebooks, with the user's progress; inside answers, one without."""
    return Desk(None) if is_inside() else _own()


@cache
def _own() -> Desk:
    return Desk(data_folder())


def check(id: str, answer: object = ...) -> Said:
    """Say what is right about an answer, what is not yet, and give a hint.

    >>> from luminal_lab.course.desk import Desk
    >>> print(Desk(None).check("00.2", lambda x, w, b: x @ w + b).lines[0])
    not yet: it is right for a batch of 3
    """
    return desk().check(id, answer)


def hint(id: str) -> Said:
    """Show the next hint for an exercise; each call says more.

    >>> from luminal_lab.course.desk import Desk
    >>> print(Desk(None).hint("00.2").head)
    00.2, hint 1 of 3: Operators and methods are those of PyTorch.
    """
    return desk().hint(id)


def solution(id: str) -> Said:
    """Show one answer to an exercise; the progress records that it was looked at.

    >>> from luminal_lab.course.desk import Desk
    >>> print(Desk(None).solution("00.2").code.rstrip())
    def layer(x, w, b):
        return (x @ w + b).relu()
    <BLANKLINE>
    answer = layer
    """
    return desk().solution(id)


def progress() -> CourseProgress:
    """Show how many exercises of each chapter are right.

    >>> from luminal_lab.course.desk import Desk
    >>> Desk(None).progress().right
    0
    """
    return desk().progress()


def _tried(record: ExerciseRecord, right: bool) -> ExerciseRecord:
    return record if record.right else replace(record, right=right, tries=record.tries + 1)


def _further(id: str, shown: int, total: int) -> str:
    if shown < total:
        return f'hint("{id}") shows {"another" if shown else "a first"} hint'
    return f'solution("{id}") shows an answer'


def _row(number: str, entries: dict[str, ExerciseRecord]) -> ChapterRow:
    known = [entries.get(record.id, ExerciseRecord()) for record in outline.exercises(number)]
    return ChapterRow(
        number,
        outline.TITLES.get(number, ""),
        right=sum(record.right for record in known),
        total=len(known),
        looked=sum(record.right and record.looked for record in known),
        tried=sum(record.tries > 0 and not record.right for record in known),
    )
