"""Boards of kernels for files and pages, and the boards of kernels that came in a file.

What a file says of a kernel is compiled only once somebody has allowed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.errors import DeviceError, ScheduleError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.passes.pipeline import parse_pipeline
from luminal_lab.search.board import Board, Interval, State
from luminal_lab.trust import Foreign, is_trusted, refuse, schedule_of

if TYPE_CHECKING:
    from luminal_lab.io.facts import Facts, KernelFacts

Within: TypeAlias = tuple[float, float, float]
"""A median and the ends of its interval."""
HINT = "read it first; trust=True of ll.open lets it run, and in a page a button does"


@dataclass(frozen=True)
class TryFacts:
    """A schedule that was tried, and what came of it."""

    name: str
    schedule: str
    state: State
    why: str = ""
    place: tuple[int, int] = (0, 0)
    """The line and the column that were refused, from 1; zeros if none was."""
    step: str = ""
    seconds: Within | None = None
    ratio: Within | None = None
    rounds: int = 0
    modelled: float | None = None
    modelled_ratio: float | None = None
    kept: bool = False
    python: str = ""


@dataclass(frozen=True)
class BoardFacts:
    """Schedules of a kernel, beside each other."""

    kernel: int
    device: str
    how: Literal["measured", "recorded"] = "measured"
    sizes: str = ""
    model: str = ""
    """What its times are a model of, where nothing was measured."""
    tries: tuple[TryFacts, ...] = ()

    def recorded(self) -> BoardFacts:
        """Return the same board, marked as recorded."""
        return replace(self, how="recorded")


def board_facts(board: Board, kernel: int) -> BoardFacts:
    """Return the facts of a board, of a kernel by its number."""
    tries = [
        TryFacts(
            one.name,
            one.text,
            one.state,
            one.why,
            one.place,
            one.step,
            _within(one.seconds),
            _within(one.ratio),
            one.rounds,
            one.modelled,
            one.modelled_ratio,
            one.is_kept,
            one.python,
        )
        for one in board
    ]
    return BoardFacts(kernel, str(board.device), "measured", board.sizes, board.model, tuple(tries))


def _within(interval: Interval | None) -> Within | None:
    return None if interval is None else (interval.middle, interval.low, interval.high)


# -- of a file -------------------------------------------------------------------------------------


def recorded_board(facts: KernelFacts, pipeline: str, dims: Mapping[str, int]) -> Board:
    """Return the board of a kernel from a file, which compiles nothing that nobody has allowed."""
    if not facts.definition:
        raise ScheduleError(
            f"kernel {facts.name}: no definition says what it computes, so it has no schedule",
            hint="kernels with steps are those whose schedule is shown",
        )
    devices = [one for one in parse_pipeline(pipeline).devices() if isinstance(one, DeviceCompiler)]
    if not devices:
        raise DeviceError(
            f"board: the recorded passes name no device for {facts.name}",
            hint="compile the graph here: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
        )
    definition, schedule = parse_definition(facts.definition), parse_schedule(facts.schedule)
    foreign = foreign_kernel(facts, pipeline)
    return Board(
        definition, schedule, devices[-1], dims, facts.name, admit=partial(_admit, foreign)
    )


def foreign_kernels(facts: Facts, pipeline: str) -> Iterator[Foreign]:
    """Yield what would have to be trusted before kernels of a file are compiled."""
    for kernel in facts.kernels:
        if kernel.definition:
            yield foreign_kernel(kernel, pipeline)


def foreign_kernel(facts: KernelFacts, pipeline: str) -> Foreign:
    """Return what would have to be trusted before a kernel of a file is compiled."""
    return schedule_of(facts.name, facts.definition, facts.schedule, pipeline)


def _admit(foreign: Foreign) -> None:
    if not is_trusted(foreign):
        refuse([foreign], hint=HINT)
