r"""An A/B board: other schedules of a kernel, each tried beside the first.

    board = cx.board("softmax")
    board.add("split i by 8\nparallel i.block", name="eights")
    print(board)
    print(board["eights"].python)     the Python that makes that kernel

A try runs in a child process: it is compiled, checked against the definition, and timed in turns
with the first and with those that are kept, so that whatever slows the machine slows all of them.
The graph and its compile stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from math import comb
from statistics import median
from typing import Literal, Protocol, TypeAlias, overload
from weakref import WeakSet

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    ScheduleError,
    UnknownNameError,
    expect,
    flag,
    position,
    real_number,
)
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.applied import ScheduleLike, read_schedule
from luminal_lab.kernels.steps.schedule import Schedule, Scheduling
from luminal_lab.kernels.steps.step import read_step
from luminal_lab.passes.compilation import Compilation
from luminal_lab.scanner import Scanner
from luminal_lab.search.candidates import seconds_text
from luminal_lab.search.driver import GAIN, WRONG, Outcome
from luminal_lab.search.loops import sizes_of
from luminal_lab.search.target import target_of
from luminal_lab.search.worker import Job, answer_of
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object

CERTAIN = 0.95
"""How certain it is that the median of endlessly many rounds lies within an interval."""
SECONDS = 20.0
"""How long a try may take, by default."""
FIRST = "first"
State: TypeAlias = Literal["first", "faster", "slower", "as fast", "wrong", "refused", "failed"]
COLUMNS = """
name state why seconds low high ratio ratio_low ratio_high rounds modelled kept schedule
""".split()  # noqa: SIM905  # a list of names reads better so
HEADER = heads("< try > time > interval > ratio > interval < state")


@dataclass(frozen=True)
class Interval:
    """A median, and where the median of endlessly many rounds would lie."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Interval:
        """Return the interval of some rounds, from their order alone.

        >>> Interval.of([5.0, 1.0, 2.0, 4.0, 3.0, 6.0, 7.0, 8.0, 9.0])
        Interval(middle=5.0, low=2.0, high=8.0)
        """
        count, ordered = len(samples), sorted(samples)
        # Of n rounds, as many lie below the true median as n coins show heads.
        outside, cut = 0, 0
        while cut < (count - 1) // 2:
            outside += comb(count, cut)
            if 2 * outside > (1 - CERTAIN) * 2**count:
                break
            cut += 1
        low = max(0, cut - 1)
        return cls(median(ordered), ordered[low], ordered[-1 - low])

    @property
    def spread(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


@told_object("try")
@dataclass(frozen=True, repr=False)
class Try(Displayed):
    """A schedule of a kernel, with what came of it."""

    name: str
    text: str
    """Its schedule, one step a line, as it was written."""
    kernel_name: str
    state: State
    why: str = ""
    """Why it was refused, or what is wrong with it."""
    place: tuple[int, int] = (0, 0)
    """The line and the column of the refused step, from 1; zeros if none was refused."""
    step: str = ""
    """The first step after which its values are wrong, if that is known."""
    seconds: Interval | None = None
    """The time of a run; None if nothing was measured."""
    ratio: Interval | None = None
    """Its time as a share of the first one's in the same turn."""
    rounds: int = 0
    modelled: float | None = None
    """The seconds that a model gives it, if nothing can be measured."""
    modelled_ratio: float | None = None
    is_kept: bool = False
    """Whether it is timed again beside each further try."""
    is_recorded: bool = False
    """Whether it was tried elsewhere and comes from a file."""

    @property
    def mark(self) -> str:
        """The mark before its times: "°" if they are recorded, "~" if they are a model's."""
        return "~" if self.modelled is not None else "°" if self.is_recorded else ""

    @property
    def schedule(self) -> Schedule:
        """Its schedule."""
        return read_schedule(self.text, self.kernel_name)

    @property
    def python(self) -> str:
        """The Python that makes this kernel."""
        quote = '"""' if "\\" not in self.text and '"""' not in self.text else ""
        text = f"{quote}\n{self.text}\n{quote}" if quote else repr(self.text)
        call = f"cx.kernels[{self.kernel_name!r}].rescheduled({text})"
        used = f"schedules={{{self.kernel_name!r}: kernel.schedule}}"
        return f"kernel = {call}\n# the device's compiler uses it, as in ll.CPUCompiler({used})"

    @property
    def told(self) -> str:
        """What came of it, in words."""
        where = f" in line {self.place[0]}" if self.place[0] else ""
        after = f"; values are wrong after `{self.step}`" if self.step else ""
        why = f"{where}: {self.why}" if self.why else ""
        return f"{self.state}{why}{after}"

    @override
    def __str__(self) -> str:
        times = "" if self.seconds is None else f", {self.mark}{_time(self.seconds)}"
        times += "" if self.ratio is None else f", {_share(self.ratio)} of the first's time"
        return f"{self.name}: {self.told}{times}\n\n{self.text}"

    @override
    def __repr__(self) -> str:
        return f"<Try {self.name}: {self.told}; print(…) shows its schedule>"


@told_object("diff")
class ScheduleDiff(str):
    """The difference between two schedules, as text."""

    __slots__ = ()
    _repr_mimebundle_ = as_text


class BoardWatcher(Protocol):
    """A listener that shows boards."""

    def board_changed(self, board: Board) -> None:
        """Called when a board has changed."""
        ...


class Tries(Displayed):
    """Schedules of one kernel, and what came of each."""

    def __init__(
        self, name: str, device: str, sizes: str, model: str, tries: Iterable[Try]
    ) -> None:
        self.name = name
        """The kernel's name."""
        self.device_name = device
        """The device, as text."""
        self.sizes = sizes
        """The sizes at which it is timed, in words; empty if all are fixed."""
        self.model = model
        """What its times are a model of, if nothing is measured."""
        self._tries = [*tries]

    def diff(self, which: str | int, other: str | int = 0) -> ScheduleDiff:
        """Return how the schedule of a try differs from another one's, or from the first."""
        old, new = self._tries[self._at(other)], self._tries[self._at(which)]
        lines = unified_diff(
            old.text.splitlines(), new.text.splitlines(), old.name, new.name, lineterm="", n=99
        )
        return ScheduleDiff("\n".join(lines) or f"{old.name} and {new.name} have the same steps")

    def _at(self, which: str | int) -> int:
        if isinstance(which, str):
            names = {one.name: number for number, one in enumerate(self._tries)}
            fault, hint = f"board: no try is called {which!r}", f"choose from {', '.join(names)}"
            UnknownNameError.unless_known(which, names, fault, hint)
            return names[which]
        hint = "tries count from 0, the first; names work too"
        return position(which, len(self._tries), "board: there is no try", hint)

    def __len__(self) -> int:
        return len(self._tries)

    def __iter__(self) -> Iterator[Try]:
        return iter([*self._tries])

    @overload
    def __getitem__(self, which: str | int) -> Try: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Try]: ...
    def __getitem__(self, which: str | int | slice) -> Try | Sequence[Try]:
        """Return a try by its name, or its number; the first is 0."""
        if isinstance(which, slice):
            return self._tries[which]
        return self._tries[self._at(which)]

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each try."""
        rows = (
            (
                *(tried.name, tried.state, tried.why, *_parts(tried.seconds), *_parts(tried.ratio)),
                *(tried.rounds, tried.modelled, tried.is_kept, tried.text),
            )
            for tried in self._tries
        )
        return frame("board", COLUMNS, rows, {"kernel": self.name, "device": self.device_name})

    @override
    def __str__(self) -> str:
        sizes = f", {self.sizes}" if self.sizes else ""
        model = f"; times are those of a model of {self.model}" if self.model else ""
        head = f"board of {self.name} on {self.device_name}{sizes}{model}"
        return "\n".join([head, "", *aligned(HEADER, map(row_of, self._tries))])


@told_object("board")
class Board(Tries):
    """Schedules of one kernel, each with its time beside the first one's."""

    def __init__(
        self,
        definition: Definition,
        schedule: Schedule,
        device: DeviceCompiler,
        dims: Mapping[str, int],
        name: str = "",
        admit: Callable[[], None] = lambda: None,
    ) -> None:
        self.definition, self.device = definition, device
        self.dims = sizes_of(definition, dims)
        """The sizes at which it is timed."""
        self._target = target_of(device)
        self._admit = admit
        """Raises before anything is compiled, unless the user has allowed it."""
        self.watchers: WeakSet[BoardWatcher] = WeakSet()
        """Those that are told of each change."""
        name = name or definition.name
        sizes = ", ".join(f"{dim} = {size}" for dim, size in self.dims.items())
        first = Try(FIRST, str(schedule), name, FIRST, is_kept=True)
        super().__init__(name, str(device), sizes, self._target.model, [first])

    @property
    def is_used(self) -> bool:
        """Whether anything was tried or timed on it."""
        first = self._tries[0]
        return len(self) > 1 or first.seconds is not None or first.modelled is not None

    # -- trying ------------------------------------------------------------------------------------

    def add(self, schedule: ScheduleLike, *, name: str = "", seconds: float = SECONDS) -> Try:
        """Try a schedule beside the first, and return what came of it.

        A refused step, wrong values, and a kernel that crashes or hangs are states of the try; a
        text that is not a schedule is an error. `seconds` is how long it may take in all.
        """
        expect(name, str, "board: the name is {}", 'give text, as in name="eights"')
        name = name.strip() or self._free_name()
        if any(known.name == name for known in self._tries):
            raise ArgumentError(
                f"board: there is a try called {name!r}", hint="give another name, or drop that one"
            )
        check_seconds(seconds)
        parsed = read_schedule(schedule, self.name)  # what cannot be read is no try
        text = schedule.strip("\n") if isinstance(schedule, str) else str(parsed)
        tried = Try(name, text, self.name, "failed")
        refused = self._refused(tried)
        if refused is not None:
            self._set([*self._tries, refused])
            return refused
        self._measure([tried], seconds)
        return self._tries[-1]

    def measure(self, *, seconds: float = SECONDS) -> Board:
        """Time all tries once more, in turns, and return the board."""
        check_seconds(seconds)
        sound = [tried for tried in self._tries[1:] if tried.state != "refused"]
        self._measure(sound, seconds)
        return self

    def _free_name(self) -> str:
        names = {tried.name for tried in self._tries}
        return next(name for n in range(1, len(names) + 2) if (name := f"try {n}") not in names)

    def _refused(self, tried: Try) -> Try | None:
        """Return a try with the step that is refused, if one is."""
        scheduling = Scheduling(lower(self.definition))
        for number, step in enumerate(tried.schedule):
            try:
                scheduling.do(step)
            except ScheduleError as error:
                why = error.message.partition("\n")[0]
                return replace(tried, state="refused", why=why, place=place_of(tried.text, number))
        return None

    def _measure(self, fresh: Sequence[Try], seconds: float) -> None:
        """Time the first, those that are kept and the new ones, in turns."""
        self._admit()
        first, *rest = self._tries
        names = {t.name for t in fresh}
        beside = [t for t in rest if t.is_kept and t.name not in names and t.seconds]
        timed = [*beside, *fresh]
        job = Job(
            str(self.definition),
            str(first.schedule),
            tuple(str(t.schedule) for t in timed),
            (),
            (),
            self.dims,
            *self._target.job,
            is_last=True,
            device=self._target.device,
            seconds=float(seconds),
        )
        answer = answer_of(self._target.worker(str(job)))
        told = dict(zip((t.name for t in timed), answer.outcomes, strict=True))
        tries = {t.name: t for t in (*self._tries, *fresh)}
        if answer.reference.compared is not None:
            tries[first.name] = _with_times(first, answer.reference, None)
        for name, outcome in told.items():
            tries[name] = _judged(tries[name], outcome, answer.reference)
        self._set([*tries.values()])

    def _set(self, tries: list[Try]) -> None:
        self._tries = tries
        for watcher in [*self.watchers]:
            watcher.board_changed(self)

    # -- its tries ---------------------------------------------------------------------------------

    def keep(self, which: str | int, *, kept: bool = True) -> Try:
        """Time a try again beside each further one; `kept=False` stops that."""
        flag("board: kept", kept)
        at = self._at(which)
        return self._change(at, replace(self._tries[at], is_kept=kept or at == 0))

    def rename(self, which: str | int, name: str) -> Try:
        """Give a try another name."""
        at, name = self._at(which), str(name).strip()
        if not name or any(one.name == name for k, one in enumerate(self._tries) if k != at):
            hint = "give a name that no other try has"
            raise ArgumentError(f"board: a try cannot be called {name!r}", hint=hint)
        return self._change(at, replace(self._tries[at], name=name))

    def _change(self, at: int, tried: Try) -> Try:
        self._set([*self._tries[:at], tried, *self._tries[at + 1 :]])
        return tried

    def drop(self, which: str | int) -> None:
        """Take a try off the board; the first stays."""
        at = self._at(which)
        if at == 0:
            raise ArgumentError(
                "board: the first try stays, as the others are compared with it",
                hint="kernel.rescheduled(…) is another kernel, and cx.board(kernel) its board",
            )
        self._set([*self._tries[:at], *self._tries[at + 1 :]])

    def kernel(self, which: str | int) -> Kernel:
        """Return the kernel of a try."""
        tried = self._tries[self._at(which)]
        return self._target.maker.kernel(self.definition, self.name, tried.schedule)

    @override
    def __repr__(self) -> str:
        many = "1 try" if len(self) == 1 else f"{len(self)} tries"
        return f"<Board of {self.name}: {many}; print(…) shows them, .add(schedule) tries another>"


def check_seconds(seconds: object) -> None:
    """Raise unless a try may take so many seconds."""
    number = real_number(seconds)
    if number is None or not 0 < number < float("inf"):
        raise ArgumentError(f"board: seconds is {seconds!r}", hint="as in seconds=20")


def device_of(compilation: Compilation) -> DeviceCompiler:
    """Return the device that a compile is for, or raise an error if there is none."""
    devices = [d for d in compilation.pipeline.devices() if isinstance(d, DeviceCompiler)]
    if not devices:
        raise DeviceError(
            "board: the last compile is for no device, so it has no kernels",
            hint="compile for one: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
        )
    return devices[-1]


def board_of(kernel: Kernel, device: DeviceCompiler, dims: Mapping[str, int]) -> Board:
    """Return the board of a kernel on a device; the kernel's schedule is the first try."""
    steps = kernel.steps  # or the error that it has none
    del steps
    assert kernel.definition is not None
    assert kernel.schedule is not None
    return Board(kernel.definition, kernel.schedule, device, dims, kernel.name)


def boards_of(compilation: Compilation) -> list[Board]:
    """Return the boards of a compile, in the order in which they were made."""
    return [board for board in compilation.boards if isinstance(board, Board)]


def place_of(text: str, step: int) -> tuple[int, int]:
    """Return the line and the column, from 1, where a step of a schedule's text begins.

    >>> place_of("# a comment\\n  split i by 8\\n\\nparallel i.block", 1)
    (4, 1)
    """
    scanner = Scanner(text)
    for _ in range(step):
        read_step(scanner)
    before = text[: scanner.pos]
    return before.count("\n") + 1, scanner.pos - before.rfind("\n")


def row_of(tried: Try) -> tuple[str, ...]:
    """Return the cells of a try in a table."""
    kept, mark = "*" if tried.is_kept and tried.state != FIRST else "", tried.mark
    if tried.modelled is not None:
        ratio = "" if tried.modelled_ratio is None else f"{mark}{tried.modelled_ratio:.3f}"
        time = f"{mark}{seconds_text(tried.modelled)}"
        return (tried.name + kept, time, "", ratio, "", tried.told)
    if tried.seconds is None:
        return (tried.name + kept, "", "", "", "", tried.told)
    time, ratio = tried.seconds, tried.ratio
    share, within = ("", "") if ratio is None else (f"{ratio.middle:.3f}", _within(ratio))
    return (
        tried.name + kept,
        f"{mark}{seconds_text(time.middle)}",
        f"{seconds_text(time.low)} … {seconds_text(time.high)}",
        share,
        within,
        tried.told,
    )


def _within(ratio: Interval) -> str:
    return f"{ratio.low:.3f} … {ratio.high:.3f}"


def _time(seconds: Interval) -> str:
    return f"{seconds_text(seconds.middle)} ± {seconds_text(seconds.spread)}"


def _share(ratio: Interval) -> str:
    return f"{ratio.middle:.3f} ({_within(ratio)})"


def _parts(interval: Interval | None) -> tuple[float | None, float | None, float | None]:
    if interval is None:
        return None, None, None
    return interval.middle, interval.low, interval.high


def _with_times(tried: Try, outcome: Outcome, ratio: Interval | None) -> Try:
    seconds = Interval.of(outcome.samples) if outcome.samples else None
    known = {"rounds": len(outcome.samples), "modelled": outcome.modelled}
    return replace(tried, seconds=seconds, ratio=ratio, why="", step="", place=(0, 0), **known)


def _judged(tried: Try, outcome: Outcome, first: Outcome) -> Try:
    """Return a try with its outcome, judged beside the outcome of the first in the same turns."""
    if outcome.state in ("refused", "failed") or outcome.compared is None:
        state: State = "refused" if outcome.state == "refused" else "failed"
        why = outcome.why or "there was no time to measure it: give it more seconds"
        if outcome.is_wrong:
            state, why = "wrong", outcome.why.removeprefix(WRONG)
        blank = replace(tried, seconds=None, ratio=None, rounds=0, modelled=None)
        return replace(blank, state=state, why=why, step=outcome.step)
    pairs = zip(outcome.samples, first.samples, strict=False)
    shares = [own / reference for own, reference in pairs if reference]
    ratio = Interval.of(shares) if shares else None
    timed = _with_times(tried, outcome, ratio)
    if ratio is None:
        share = None
        if outcome.modelled is not None and first.modelled:
            share = outcome.modelled / first.modelled
        return replace(timed, state=_state(share, share, share), modelled_ratio=share)
    return replace(timed, state=_state(ratio.middle, ratio.low, ratio.high))


def _state(middle: float | None, low: float | None, high: float | None) -> State:
    """Return what a ratio says; a small difference, or one within the interval, does not count."""
    if middle is None or low is None or high is None or abs(middle - 1) < GAIN:
        return "as fast"
    return "faster" if high < 1 else "slower" if low > 1 else "as fast"
