"""Boards of kernels for files and pages, and the boards of kernels that came in a file.

A board from a file is only shown; what a file says about a kernel is compiled only once somebody
has allowed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.errors import DeviceError, ScheduleError, visible
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.passes.pipeline import parse_pipeline
from luminal_lab.search.board import Board, Interval, State, Tries, Try
from luminal_lab.tensor.arguments import told_object
from luminal_lab.trust import Foreign, is_trusted, refuse, schedule_of

if TYPE_CHECKING:
    from luminal_lab.io.facts import Facts, KernelFacts

Within: TypeAlias = tuple[float, float, float]
"""A median and the ends of its interval."""
HINT = "read it first; trust=True of ll.open lets it run, and in a page a button does"


@dataclass(frozen=True)
class TryFacts:
    """A schedule that was tried, and its outcome."""

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
    """Schedules of a kernel, side by side."""

    kernel: int
    device: str
    how: Literal["measured", "recorded"] = "measured"
    sizes: str = ""
    model: str = ""
    """What its times are a model of, if nothing was measured."""
    tries: tuple[TryFacts, ...] = ()

    def recorded(self, name: str) -> BoardFacts:
        """Return the same board as recorded, for a kernel by its name.

        The Python of a try is written here: people paste it, so a file must not dictate it.
        """
        tries = [replace(tried, python=_try(tried, name).python) for tried in self.tries]
        return replace(self, how="recorded", tries=tuple(tries))


def used_boards(
    boards: Iterable[Board], kernels: Sequence[KernelFacts]
) -> Iterator[tuple[Board, int]]:
    """Yield boards on which something was tried, each with its kernel's number.

    Boards of an earlier compile are included if one of the kernels computes the same.
    """
    numbers = {kernel.definition: number for number, kernel in enumerate(kernels)}
    for board in boards:
        number = numbers.get(str(board.definition))
        if number is not None and board.is_used:
            yield board, number


def board_facts(board: Tries, kernel: int) -> BoardFacts:
    """Return the facts of a board, for a kernel by its number."""
    tries = [
        TryFacts(
            tried.name,
            tried.text,
            tried.state,
            tried.why,
            tried.place,
            tried.step,
            _within(tried.seconds),
            _within(tried.ratio),
            tried.rounds,
            tried.modelled,
            tried.modelled_ratio,
            tried.is_kept,
            tried.python,
        )
        for tried in board
    ]
    device, sizes, model = board.device_name, board.sizes, board.model
    return BoardFacts(kernel, device, "measured", sizes, model, tuple(tries))


def _within(interval: Interval | None) -> Within | None:
    return None if interval is None else (interval.middle, interval.low, interval.high)


# -- of a file -------------------------------------------------------------------------------------


@told_object("board")
class RecordedBoard(Tries):
    """Schedules of a kernel that were tried where a recording was made; nothing is compiled."""

    def __init__(self, facts: BoardFacts, name: str) -> None:
        tries = [_try(tried, name) for tried in facts.tries]
        super().__init__(name, facts.device, facts.sizes, facts.model, tries)

    @override
    def __str__(self) -> str:
        return visible(super().__str__())

    @override
    def __repr__(self) -> str:
        many = "1 try" if len(self) == 1 else f"{len(self)} tries"
        again = f"run.board({self.name!r}) tries others here"
        return visible(f"<RecordedBoard of {self.name}: {many}; print(…) shows them, {again}>")


def _try(facts: TryFacts, kernel: str) -> Try:
    """Return a recorded try of a kernel."""
    return Try(
        facts.name,
        facts.schedule,
        kernel,
        facts.state,
        facts.why,
        facts.place,
        facts.step,
        None if facts.seconds is None else Interval(*facts.seconds),
        None if facts.ratio is None else Interval(*facts.ratio),
        facts.rounds,
        facts.modelled,
        facts.modelled_ratio,
        facts.kept,
        is_recorded=True,
    )


def recorded_board(facts: KernelFacts, pipeline: str, dims: Mapping[str, int]) -> Board:
    """Return the board of a kernel from a file, which compiles nothing unless that is allowed."""
    if not facts.definition:
        raise ScheduleError(
            f"kernel {facts.name}: no definition says what it computes, so it has no schedule",
            hint="kernels with steps are those whose schedule is shown",
        )
    devices = [d for d in parse_pipeline(pipeline).devices() if isinstance(d, DeviceCompiler)]
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
    """Yield what must be trusted before kernels of a file are compiled."""
    for kernel in facts.kernels:
        if kernel.definition:
            yield foreign_kernel(kernel, pipeline)


def foreign_kernel(facts: KernelFacts, pipeline: str) -> Foreign:
    """Return what must be trusted before a kernel of a file is compiled."""
    return schedule_of(facts.name, facts.definition, facts.schedule, pipeline)


def _admit(foreign: Foreign) -> None:
    if not is_trusted(foreign):
        refuse([foreign], hint=HINT)
