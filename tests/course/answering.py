"""What tests of chapters share: an answer as it would be written in a cell, and what it gets."""

from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.course.exercise import Exercise, Verdict


def answer_of(code: str) -> Any:
    """Return the answer that a cell leaves."""
    names: dict[str, Any] = {"ll": ll, "np": np}
    exec(compile(code, "<a cell>", "exec"), names)
    return names["answer"]


def by_id(exercises: tuple[Exercise, ...]) -> dict[str, Exercise]:
    """Return exercises by their numbers."""
    return {exercise.id: exercise for exercise in exercises}


def said(exercise: Exercise, code: str) -> str:
    """Return all that is said of an answer that is not right."""
    verdict = exercise.check(answer_of(code))
    assert not verdict.right, verdict
    return text_of(verdict)


def text_of(verdict: Verdict) -> str:
    """Return what is said and the hint, a line each."""
    return "\n".join((*verdict.said, verdict.hint))


class Hostile:
    """An answer of which nothing can be asked."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Hostile
        raise ValueError(f"no {name} here")

    def __eq__(self, other: object) -> bool:
        raise ValueError("not comparable")

    def __hash__(self) -> int:
        raise ValueError("not hashable")


def raises(*_: object, **__: object) -> Any:
    """Raise, as an answer that is a function may."""
    raise ValueError("on purpose")


def huge() -> Any:
    """Return a tensor that no memory holds."""
    return ll.Graph().ones((1 << 20, 1 << 20)) * 2


ODD = {
    "...": ...,
    "None": None,
    "a text": "forty-two",
    "a number": 42,
    "a list": [1, "two", None],
    "huge number": 10**400,
    "huge array": np.broadcast_to(np.float32(1), (1 << 20, 1 << 20)),
    "raises": raises,
    "hostile": Hostile(),
    "a class": ll.Graph,
    "empty graph": ll.Graph(),
    "symbolic": ll.Graph().tensor(("n", "m"), name="x") * 2,
    "huge tensor": huge(),
    "huge result": lambda *_: huge(),
}
"""Answers that are right nowhere, and must get a sentence everywhere."""
