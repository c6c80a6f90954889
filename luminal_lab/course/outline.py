"""The chapters of the course, and their exercises by id."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from typing import cast

from luminal_lab.course import chapters
from luminal_lab.course.exercise import Exercise
from luminal_lab.errors import ArgumentError, nearest

TITLES = {
    "00": "quickstart",
    "01": "lazy graphs and the twelve primops",
    "02": "shapes are views",
    "03": "everything is primops",
    "04": "stepping through compilation",
    "05": "write a rule, write a pass",
    "06": "gradients are a pass",
    "07": "from graph to C",
    "08": "the same kernel as CUDA and Metal",
    "09": "matmul, step by step to the peak",
    "10": "attention without the matrix",
    "11": "a GPT and a Llama",
    "12": "bring up a new backend",
    "13": "attention finds itself",
    "14": "your own model",
    "15": "a Llama from a file",
    "16": "a page that thinks",
    "17": "ship it",
    "18": "many machines",
}


def numbers() -> tuple[str, ...]:
    """Return the numbers of the chapters that have exercises."""
    names = (module.name for module in pkgutil.iter_modules(chapters.__path__))
    return tuple(sorted(name[2:] for name in names if re.fullmatch(r"ch\d\d", name)))


def exercises(chapter: str) -> tuple[Exercise, ...]:
    """Return the exercises of a chapter, given as in "04"."""
    module = import_module(f"luminal_lab.course.chapters.ch{chapter}")
    return cast("tuple[Exercise, ...]", module.EXERCISES)


def exercise(id: object) -> Exercise:
    """Return the exercise of an id such as "04.2"; "4.2" is the same."""
    match = re.fullmatch(r"\s*(\d{1,2})\.(\d+)\s*", id) if isinstance(id, str) else None
    if match is None:
        text = repr(id)
        shown = text if len(text) < 80 else f"{text[:79]}…"
        raise ArgumentError(
            f"exercise: {shown} is not the number of an exercise",
            hint='one is "04.2", a text',
        )
    chapter, position = match[1].zfill(2), int(match[2])
    if chapter not in numbers():
        raise ArgumentError(
            f"exercise: there is no chapter {chapter} with exercises",
            hint=f"choose from {', '.join(numbers())}",
        )
    known = {item.id: item for item in exercises(chapter)}
    name = f"{chapter}.{position}"
    if name not in known:
        raise ArgumentError(
            f"exercise: there is no {name}; chapter {chapter} has {', '.join(known)}",
            hint=nearest(name, known),
        )
    return known[name]
