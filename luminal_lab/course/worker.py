"""The process in which an exercise of a submitted notebook runs: cells in, a verdict out.

It reads a line of JSON, and answers with another that has the given token. The check is the
course's own, fetched before any cell runs; a notebook that replaces functions of luminal_lab, NumPy
or Python is wrong, whatever its answer is.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NoReturn, TypeAlias, cast

from luminal_lab.course import outline
from luminal_lab.course.exercise import Exercise, Verdict, error_text
from luminal_lab.course.isolated import CallLimits, bounded, encoded
from luminal_lab.course.kept import data_folder
from luminal_lab.course.needed import plain

State: TypeAlias = dict[str, object]
Refuse: TypeAlias = Callable[[str], NoReturn]
STILL_OPEN = "it is still open"
NAME = "THE-NAME"
WATCHED = ("builtins", "numpy", "json", "json.encoder", "dataclasses", "math", "os")
"""Other modules whose functions a verdict relies on."""


def main() -> None:
    """Answer the request on standard input."""
    asked = json.loads(sys.stdin.buffer.readline())
    answering = os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(empty, stream)
    exercise = outline.exercise(asked["id"])
    limits = CallLimits(asked["seconds"], asked["memory"])
    refuse = refusing(answering, asked["token"])
    call = partial(answered, exercise, asked["cells"], refuse)
    verdict = bounded(call, limits, data_folder())
    os.write(answering, encoded(verdict, asked["token"]) + b"\n")
    os._exit(0)  # do not wait for a notebook's threads and exit functions


def refusing(answering: int, token: str) -> Refuse:
    """Return a function that refuses an answer, given the changed name; none can replace it."""
    write, leave = os.write, os._exit
    text = f"the notebook gives {NAME} another meaning, and grading takes answers alone"
    data = encoded(Verdict.no(text), token)

    def refuse(name: str) -> NoReturn:
        write(answering, data.replace(NAME.encode(), name.encode("ascii", "replace")))
        leave(0)

    return refuse


def answered(exercise: Exercise, cells: Sequence[tuple[int, str]], refuse: Refuse) -> Verdict:
    """Run cells, each with its number, and return the verdict on the answer of the last one.

    The functions that look for changes are fetched before the cells run, and checked after.
    """
    check, look, compare, begin = exercise.check, state, changes, run
    codes = look.__code__, compare.__code__
    sys.modules["luminal_lab"].Graph  # noqa: B018  # what the first name loads is no change
    before = look()

    def hold() -> None:
        if (look.__code__, compare.__code__) != codes:
            refuse("grading")
        if changed := compare(before, look()):
            refuse(changed)

    answer, failed = begin(cells)
    hold()
    if answer is ... or answer is None:
        return Verdict.no(failed or STILL_OPEN)
    verdict = check(answer)
    hold()
    return verdict


def run(cells: Sequence[tuple[int, str]]) -> tuple[object, str]:
    """Run cells in one namespace; return the last one's `answer`, and a note of failures."""
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    space = vars(module)
    space["display"] = lambda *_, **__: None  # pyright: ignore[reportUnknownLambdaType]  # any
    failed = ""
    for index, (number, text) in enumerate(cells):
        is_last = index == len(cells) - 1
        if is_last:
            space["answer"] = ...
        try:
            exec(compiled(plain(text), number), space)
        except MemoryError:
            raise
        except Exception as error:  # a notebook may raise anything
            earlier = f"; before it, {failed}" if is_last and failed else ""
            failed = f"cell {number} failed with {error_text(error)}{earlier}"
            if is_last:
                space["answer"] = ...
    return space.get("answer", ...), failed


def compiled(text: str, number: int) -> CodeType:
    """Return a cell's code, with its source available to tracebacks."""
    name = f"<cell {number}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    return compile(text, name, "exec")


def state() -> State:
    """Return the current functions of luminal_lab, NumPy and Python."""
    functions: State = {}
    for name, module in list(sys.modules.items()):
        if name in WATCHED or name.partition(".")[0] == "luminal_lab":
            functions.update(_of(name, vars(module)))
    return functions


def changes(before: State, after: State) -> str:
    """Return the name of something that changed; an empty text if nothing did."""
    for name, value in before.items():
        if name in after and after[name] is not value and after[name] != value:
            return name
        if name not in after:
            return name
    return ""


def _of(where: str, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in list(values.items()):
        if name in ("input", "_"):  # input was replaced here
            continue
        if isinstance(value, FunctionType):
            yield f"{where}.{name}", (value, value.__code__, value.__defaults__)
        elif isinstance(value, type):
            yield f"{where}.{name}", value
            if value.__module__.partition(".")[0] == "luminal_lab" == where.partition(".")[0]:
                yield from _members(f"{where}.{name}", value)
        elif callable(value) and where in WATCHED:
            yield f"{where}.{name}", value


def _members(where: str, kind: type) -> Iterator[tuple[str, object]]:
    for name, value in list(vars(kind).items()):
        inner: object = value
        if isinstance(value, classmethod | staticmethod):
            inner = cast("staticmethod[..., object]", value).__func__
        if isinstance(inner, FunctionType):
            yield f"{where}.{name}", (inner, inner.__code__, inner.__defaults__)
        elif isinstance(value, property):
            yield f"{where}.{name}", (value.fget, getattr(value.fget, "__code__", None))


def command() -> list[str]:
    """Return the command that runs this in a process with the same luminal_lab."""
    root = str(Path(__file__).resolve().parents[2])
    start = f"import sys; sys.path.insert(0, {root!r})"
    return [sys.executable, "-P", "-c", f"{start}; from {__name__} import main; main()"]
