"""What a search hands out: candidates, each with what became of it, and a table of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, overload

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.devices.runtime.worklist import c_maker
from luminal_lab.errors import position
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.steps.schedule import Schedule, parse_schedule
from luminal_lab.machines.here import this_machine
from luminal_lab.search.driver import Driver, Trial
from luminal_lab.search.forms import BETWEEN, Form
from luminal_lab.tables import Table, aligned, frame, heads

COLUMNS = (
    "kernel",
    "number",
    "form",
    "state",
    "why",
    "seconds",
    "ratio",
    "origin",
    "numbers",
    "steps",
    "step",
)
SHOWN = 12
"""The candidates that a search's text shows."""
Numbers: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, repr=False)
class Candidate:
    """A kernel by some schedule, with its time, or the reason why it has none."""

    number: int
    """Its place in the order of measuring; 0 is the default schedule."""
    definition: Definition
    """What it computes: by one kernel, or by the kernels of its form."""
    form: Form
    text: str
    """Its schedule, one step a line; of several kernels those of each."""
    state: str
    """fastest, default, slower, stopped, refused or failed."""
    why: str = ""
    """Why it was refused, or has failed."""
    step: str = ""
    """The first step after which its values are wrong, where that was found."""
    seconds: float | None = None
    ratio: float | None = None
    """Its time as a share of the default's, measured in turns with it."""
    origin: str = ""
    """The draw or the edit that made it, in words."""
    choices: Numbers = field(default_factory=dict[str, int])
    """The open numbers that its plan took."""

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """What its kernels compute, by their names."""
        return {definition.name: definition for definition in self.form.definitions}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """How its kernels run, by their names."""
        parts = zip(self.definitions, self.text.split(BETWEEN), strict=True)
        return {name: parse_schedule(text) for name, text in parts}

    @cached_property
    def kernels(self) -> Kernels:
        """Its kernels, for this machine."""
        maker, schedules = c_maker(this_machine()), self.schedules
        return Kernels(
            maker.kernel(definition, name, schedules[name])
            for name, definition in self.definitions.items()
        )

    @property
    def source(self) -> str:
        """Its C."""
        return "\n".join(kernel.source for kernel in self.kernels)

    @property
    def error(self) -> str | None:
        """What is wrong with it; None if it computes what it should."""
        return self.why if self.state in ("refused", "failed") else None

    @override
    def __str__(self) -> str:
        lines = [f"candidate {self.number} of {self.definition.name}: {self.told}"]
        lines += [f"after `{self.step}` its values are wrong"] if self.step else []
        return "\n".join([*lines, "", self.text])

    @property
    def told(self) -> str:
        """Its state in words."""
        if self.error is not None:
            return f"{self.state}: {self.why}"
        if self.seconds is None:
            return self.state
        return f"{self.state}, {seconds_text(self.seconds)}"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Candidate {self.number}: {self.told}; print(…) shows its schedule>"


class Candidates(Sequence[Candidate]):
    """All candidates of a search, in the order in which they were measured."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = tuple(candidates)

    @override
    def __len__(self) -> int:
        return len(self._candidates)

    @override
    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Candidate: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Candidate]: ...
    @override
    def __getitem__(self, index: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(index, slice):
            return self._candidates[index]
        hint = "candidates count from 0, the default schedule"
        return self._candidates[position(index, len(self), "search: there is no candidate", hint)]

    def to_pandas(self) -> Table:
        """Return a table of pandas, a row for each candidate."""
        rows = (
            (
                *(c.definition.name, c.number, c.form.name, c.state, c.why),
                *(c.seconds, c.ratio, c.origin),
                ", ".join(f"{name} = {value}" for name, value in c.choices.items()),
                *(len(c.text.splitlines()), c.step),
            )
            for c in self
        )
        return frame("candidates", COLUMNS, rows)

    @override
    def __str__(self) -> str:
        return "\n".join(table_of(self))

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Candidates: {len(self)}; print(…) shows them, .to_pandas() is a table>"


def table_of(candidates: Sequence[Candidate]) -> list[str]:
    """Return the lines of a table of candidates."""
    rows = [
        (
            c.definition.name,
            str(c.number),
            "" if c.seconds is None else seconds_text(c.seconds),
            "" if c.ratio is None else f"{c.ratio:.3f}",
            c.origin,
            f"{c.state}: {c.why}" if c.error else c.state,
        )
        for c in candidates
    ]
    return aligned(heads("< kernel > candidate > time > ratio < origin < state"), rows)


def seconds_text(seconds: float) -> str:
    """Write a time as people do.

    >>> seconds_text(0.0000132), seconds_text(1.5)
    ('13.2 µs', '1.5 s')
    """
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def candidates_of(driver: Driver, definition: Definition, forms: Sequence[Form]) -> Candidates:
    """Return what a driver knows as candidates; the default is the first of them."""
    winner, default = driver.winner, driver.draws.default
    seconds = min(driver.reference, default=None)
    state = "default" if winner else "fastest"
    ratio = None if seconds is None else 1.0
    told = seconds, ratio, default.origin, dict(default.choices)
    whole = [_whole(definition, form) for form in forms]
    first = Candidate(0, whole[0], forms[0], default.schedule, state, "", "", *told)
    rest = [
        _candidate(
            number,
            trial,
            whole[trial.draft.form],
            forms[trial.draft.form],
            seconds,
            is_winner=trial is winner,
        )
        for number, trial in enumerate(driver.trials, 1)
    ]
    return Candidates([first, *rest])


def _whole(definition: Definition, form: Form) -> Definition:
    """Return what a form computes: what its kernel does, or what all of them are to do."""
    return form.definitions[0] if len(form.stages) == 1 else definition


def _candidate(
    number: int,
    trial: Trial,
    definition: Definition,
    form: Form,
    default: float | None,
    *,
    is_winner: bool,
) -> Candidate:
    draft, outcome = trial.draft, trial.outcome
    ratio = trial.ratio if trial.final is None else trial.final
    # Batches are measured at different times: the share of the default's is what is comparable.
    seconds = outcome.seconds if ratio is None or default is None else ratio * default
    state = "fastest" if is_winner else "slower" if outcome.state == "measured" else outcome.state
    return Candidate(
        *(number, definition, form, draft.schedule, state, outcome.why, outcome.step),
        *(seconds, ratio, draft.origin, dict(draft.choices)),
    )
