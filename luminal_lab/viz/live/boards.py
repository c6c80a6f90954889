"""The A/B boards of a live picture: made when a schedule is first tried, kept with its subjects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from luminal_lab.errors import ArgumentError, ParseError
from luminal_lab.io.board_facts import BoardFacts, board_facts, recorded_board
from luminal_lab.search.board import Board, board_of, device_of
from luminal_lab.viz.live.backed import Backed

Reply: TypeAlias = dict[str, Any]
PLACE = re.compile(r"line ([0-9]+), column ([0-9]+)")
"""Where a text is wrong, as its error says."""


class Boards:
    """The boards of all runs, by the number of the run and of the kernel."""

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._boards: dict[tuple[int, int], Board] = {}
        self._changed = changed
        """Called with the number of a run whose boards have changed."""

    def of(self, run: int, kernel: int, backed: Backed) -> Board:
        """Return the board of a kernel, made on first use."""
        if (run, kernel) not in self._boards:
            board = _new_board(backed, kernel)
            board.watchers.append(partial(self._changed, run))
            self._boards[run, kernel] = board
        return self._boards[run, kernel]

    def facts(self, run: int) -> tuple[BoardFacts, ...]:
        """Return the boards of a run, as facts."""
        known = sorted((kernel, board) for (at, kernel), board in self._boards.items() if at == run)
        return tuple(board_facts(board, kernel) for kernel, board in known)


def _new_board(backed: Backed, kernel: int) -> Board:
    session = backed.session
    facts = backed.subject.facts.kernels[kernel]
    known = {} if session is None else session.given().dims
    if backed.compilation is None:
        return recorded_board(facts, backed.subject.pipeline, {})
    kernels = getattr(backed.compilation.program, "kernels", ())
    alive = next(one for one in kernels if one.name == facts.name)
    dims = {name: size for name, size in known.items() if name in alive.dims}
    return board_of(alive, device_of(backed.compilation), dims)


def tried(board: Board, question: Mapping[str, Any]) -> Reply:
    """Try the schedule of a question, and say what came of it, or where its text is wrong."""
    text, name = question.get("schedule"), question.get("name", "")
    if not isinstance(text, str) or not isinstance(name, str):
        raise ArgumentError("board: the question has no schedule")
    try:
        result = board.add(text, name=name)
    except ParseError as error:
        match = PLACE.search(error.message)
        if match is None:
            raise
        hint = f"\nhint: {error.hint}" if error.hint else ""
        said = error.message.partition(": ")[2].removeprefix(f"{match[0]}: ")
        return {"wrong": said + hint, "place": [int(match[1]), int(match[2])]}
    return {"tried": result.name, "text": f"{result.name}: {result.told}"}


def _keep(board: Board, name: str, question: Mapping[str, Any]) -> None:
    board.keep(name, kept=bool(question.get("kept", True)))


def _rename(board: Board, name: str, question: Mapping[str, Any]) -> None:
    board.rename(name, str(question.get("to", "")))


def _drop(board: Board, name: str, _: Mapping[str, Any]) -> None:
    board.drop(name)


def _measure(board: Board, _: str, __: Mapping[str, Any]) -> None:
    board.measure()


ACTS: Mapping[str, Callable[[Board, str, Mapping[str, Any]], None]] = {
    "drop": _drop,
    "keep": _keep,
    "measure": _measure,
    "rename": _rename,
}


def changed(board: Board, question: Mapping[str, Any]) -> Reply:
    """Do to a board what a question says: keep, rename or drop a try, or time all again."""
    act, name = question.get("act"), question.get("entry", "")
    if not isinstance(act, str) or act not in ACTS or not isinstance(name, str):
        raise ArgumentError(
            f"board: nothing does {act!r} to it", hint=f"choose from {', '.join(ACTS)}"
        )
    ACTS[act](board, name, question)
    return {"text": ""}
