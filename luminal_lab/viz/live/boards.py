"""The A/B boards of a live picture: made when a schedule is first tried, kept with its subjects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from luminal_lab.errors import ArgumentError, ParseError
from luminal_lab.io.board_facts import BoardFacts, board_facts, recorded_board, used_boards
from luminal_lab.io.facts import KernelFacts
from luminal_lab.passes.compilation import Compilation
from luminal_lab.search.board import Board, board_of, boards_of, device_of
from luminal_lab.viz.live.backed import Backed

Reply: TypeAlias = dict[str, Any]
PLACE = re.compile(r"line ([0-9]+), column ([0-9]+)")
"""Where a text is wrong, as its error says."""


class Boards:
    """The boards of all runs: a compile's own, and of a recording those that are made here."""

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._made: dict[int, list[Board]] = {}
        """The boards of runs without a compile."""
        self._compiled: dict[int, Compilation] = {}
        """The compiles of the others."""
        self._changed = changed
        """Called with the number of a run whose boards have changed."""

    def board_changed(self, board: Board) -> None:
        """Say so of each run that shows a board."""
        for run in sorted({*self._made, *self._compiled}):
            made = self._compiled.get(run)
            if board in (self._made[run] if made is None else made.boards):
                self._changed(run)

    def of(self, run: int, kernel: int, backed: Backed, number: int | None = None) -> Board:
        """Return the board of a run with a number, or that on which a kernel is tried.

        The latter is the last that was used whose first schedule is the kernel's own, or else the
        last one, made on first use.
        """
        if number is not None:
            numbered = [*self._numbered(run, backed)]
            older = len(self._brought(backed))
            if not 0 <= number - older < len(numbered):
                raise ArgumentError(
                    f"board: there is no board {number} to change", hint="recorded ones stay"
                )
            return numbered[number - older][0]
        facts = backed.subject.facts.kernels[kernel]
        own = facts.definition, facts.schedule
        same = [
            board
            for board in self._all(run, backed)
            if (str(board.definition), str(board[0].schedule)) == own
        ]
        if same:
            return max(reversed(same), key=lambda board: board.is_used)
        board = _new_board(backed, facts)
        made = backed.compilation
        (self._made.setdefault(run, []) if made is None else made.boards).append(board)
        board.watchers.add(self)
        return board

    def facts(self, run: int, backed: Backed) -> tuple[BoardFacts, ...]:
        """Return the boards of a run, as facts: first those that a recording brings along."""
        here = (board_facts(board, kernel) for board, kernel in self._numbered(run, backed))
        return (*self._brought(backed), *here)

    def _brought(self, backed: Backed) -> tuple[BoardFacts, ...]:
        return backed.subject.facts.boards if backed.compilation is None else ()

    def _numbered(self, run: int, backed: Backed) -> Iterator[tuple[Board, int]]:
        return used_boards(self._all(run, backed), backed.subject.facts.kernels)

    def _all(self, run: int, backed: Backed) -> list[Board]:
        made = backed.compilation
        if made is None:
            return self._made.get(run, [])
        self._compiled[run] = made
        made.board_watchers.add(self)
        boards = boards_of(made)
        for board in boards:
            board.watchers.add(self)
        return boards


def _new_board(backed: Backed, facts: KernelFacts) -> Board:
    session, compilation = backed.session, backed.compilation
    if compilation is None:
        return recorded_board(facts, backed.subject.pipeline, {})
    known = {} if session is None else session.given().dims
    kernels = getattr(compilation.program, "kernels", ())
    alive = next(one for one in kernels if one.name == facts.name)
    dims = {name: size for name, size in known.items() if name in alive.dims}
    return board_of(alive, device_of(compilation), dims)


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
