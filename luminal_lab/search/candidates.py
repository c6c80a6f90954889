"""What a search hands out: candidates, each with its outcome, and a table of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TypeAlias, overload

from typing_extensions import override

from luminal_lab.display import Displayed
from luminal_lab.errors import position
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.steps.schedule import Schedule, parse_schedule
from luminal_lab.search.driver import DraftTrial, Driver
from luminal_lab.search.forms import BETWEEN, Form
from luminal_lab.search.target import Target
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object

COLUMNS = (
    "kernel",
    "number",
    "form",
    "state",
    "why",
    "seconds",
    "spread",
    "limit",
    "ratio",
    "origin",
    "numbers",
    "steps",
    "step",
    "modelled",
    "resources",
)
SHOWN = 12
"""How many candidates a search's text shows."""
OPTIONAL = range(2, 6)
"""The columns of that table that are left out if they are empty."""
NONE_FASTER = "none is faster than the default"
Numbers: TypeAlias = Mapping[str, int]


@told_object("candidate")
@dataclass(frozen=True, repr=False)
class Candidate(Displayed):
    """A kernel by some schedule, with its time, or the reason why it has none."""

    number: int
    """Its place in the order of measuring; 0 is the default schedule."""
    definition: Definition
    """What it computes, with one kernel or with the kernels of its form."""
    form: Form
    target: Target
    """The device it is for."""
    text: str
    """Its schedule, one step a line; with several kernels, the schedule of each."""
    state: str
    """fastest, default, slower, stopped, refused, failed or pruned; the first three preceded by
    "modelled" if nothing was measured."""
    why: str = ""
    """Why it was refused, has failed, or was never tried because it cannot win."""
    step: str = ""
    """The first step after which its values are wrong, if that is known."""
    seconds: float | None = None
    """Its measured time; None if nothing was measured."""
    spread: float | None = None
    """How far its rounds differ, in seconds: the distance between their quartiles."""
    limit: float | None = None
    """The least seconds that it can take, by its machine's rates if those are known."""
    ratio: float | None = None
    """Its time as a share of the default's, both measured in turns or both modelled."""
    origin: str = ""
    """The draw or the edit that made it, in words."""
    choices: Numbers = field(default_factory=dict[str, int])
    """The open numbers that its plan chose."""
    modelled: float | None = None
    """The seconds that a model gives it, if nothing was measured."""
    resources: str = ""
    """What it takes up of a GPU, in words."""

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
        """Its kernels, for its device."""
        schedules = self.schedules
        return Kernels(
            self.target.maker.kernel(definition, name, schedules[name])
            for name, definition in self.definitions.items()
        )

    @property
    def source(self) -> str:
        """Its C, or its source in a GPU's language."""
        return "\n".join(kernel.source for kernel in self.kernels)

    @property
    def error(self) -> str | None:
        """What is wrong with it; None if its values are right."""
        return self.why if self.state in ("refused", "failed") else None

    @override
    def __str__(self) -> str:
        lines = [f"candidate {self.number} of {self.definition.name}: {self.told}"]
        lines += [f"after `{self.step}` its values are wrong"] if self.step else []
        return "\n".join([*lines, "", self.headed])

    @property
    def headed(self) -> str:
        """The schedules of its kernels, each under the kernel's name if there are several."""
        if len(self.form.stages) == 1:
            return self.text
        parts = zip(self.definitions, self.text.split(BETWEEN), strict=True)
        return "\n\n".join(f"# {name}\n{text.strip()}" for name, text in parts)

    @property
    def told(self) -> str:
        """Its state in words."""
        if self.why:
            return f"{self.state}: {self.why}"
        if self.modelled is not None:
            return (
                f"{self.state} for {self.target.model}, ~{seconds_text(self.modelled)}, nothing "
                f"was measured; {self.resources or 'what it takes is not known'}"
            )
        time = "not measured" if self.seconds is None else seconds_text(self.seconds)
        return f"{self.state}, {time}"

    @property
    def is_best(self) -> bool:
        """Whether no other is faster, as measured or modelled."""
        return self.state.endswith("fastest")

    @override
    def __repr__(self) -> str:
        return f"<Candidate {self.number}: {self.told}; print(…) shows its schedule>"


@told_object("candidates")
class Candidates(Displayed, Sequence[Candidate]):
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

    @property
    def ranked(self) -> list[Candidate]:
        """All of them: the best of each kernel first, then the others by their share of its time.

        The best were measured again, so another may once have been faster.
        """
        return sorted(self, key=lambda c: (not c.is_best, inf if c.ratio is None else c.ratio))

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each candidate."""
        rows = (
            (
                *(c.definition.name, c.number, c.form.name, c.state, c.why),
                *(c.seconds, c.spread, c.limit, c.ratio, c.origin),
                ", ".join(f"{name} = {value}" for name, value in c.choices.items()),
                *(len(c.text.splitlines()), c.step, c.modelled, c.resources),
            )
            for c in self
        )
        return frame("candidates", COLUMNS, rows)

    @override
    def __str__(self) -> str:
        return "\n".join(table_of(self))

    @override
    def __repr__(self) -> str:
        return f"<Candidates: {len(self)}; print(…) shows them, .to_pandas() is a table>"


def table_of(candidates: Sequence[Candidate]) -> list[str]:
    """Return the lines of a table of candidates."""
    rows = [
        (
            c.form.name,
            str(c.number),
            "" if c.seconds is None else seconds_text(c.seconds),
            "" if c.spread is None else f"± {seconds_text(c.spread)}",
            "" if c.limit is None else seconds_text(c.limit),
            "" if c.modelled is None else f"~{seconds_text(c.modelled)}",
            "" if c.ratio is None else f"{c.ratio:.3f}",
            c.origin,
            f"{c.state}: {c.why}" if c.why else ": ".join(filter(None, (c.state, c.resources))),
        )
        for c in candidates
    ]
    known = heads(
        "< kernels > candidate > time > spread > limit > modelled > ratio < origin < state"
    )
    empty = {at for at in OPTIONAL if not any(row[at] for row in rows)}
    shown = [[cell for at, cell in enumerate(row) if at not in empty] for row in rows]
    return aligned([head for at, head in enumerate(known) if at not in empty], shown)


def seconds_text(seconds: float) -> str:
    """Write a time as people do.

    >>> seconds_text(0.0000132), seconds_text(1.5)
    ('13.2 µs', '1.5 s')
    """
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def candidates_of(
    driver: Driver,
    definition: Definition,
    forms: Sequence[Form],
    target: Target,
    limits: Sequence[float | None],
) -> Candidates:
    """Return what a driver knows as candidates; the first is the default.

    `limits` are the least seconds of each form.
    """
    winner, default = driver.winner, driver.draws.default
    seconds = min(driver.reference, default=None)
    first = Candidate(
        0,
        _whole(definition, forms[0]),
        forms[0],
        target,
        default.schedule,
        "default" if winner else "fastest",
        seconds=seconds,
        spread=_product(seconds, driver.spread),
        ratio=None if seconds is None else 1.0,
        origin=default.origin,
        choices=dict(default.choices),
        resources=driver.resources,
    )
    rest = [
        replace(
            _candidate(number, trial, first, is_winner=trial is winner),
            definition=_whole(definition, forms[trial.draft.form]),
            form=forms[trial.draft.form],
        )
        for number, trial in enumerate(driver.trials, 1)
    ]
    pruned = [
        replace(
            first,
            number=1 + len(rest) + at,
            definition=_whole(definition, forms[form]),
            form=forms[form],
            text=driver.draws.defaults[form].schedule,
            state="pruned",
            why=f"it takes {seconds_text(seconds)} at least, by the rates of this machine",
            seconds=None,
            spread=None,
            ratio=None,
            choices=dict(driver.draws.defaults[form].choices),
        )
        for at, (form, seconds) in enumerate(driver.pruned.items())
    ]
    candidates = [
        replace(c, limit=limit or None)  # what may be skipped as a whole has none
        for c in (first, *rest, *pruned)
        for limit in (limits[forms.index(c.form)],)
    ]
    return Candidates([as_modelled(c) for c in candidates] if target.model else candidates)


def _whole(definition: Definition, form: Form) -> Definition:
    """Return what a form computes: what its kernel does, or what all its kernels do together."""
    return form.definitions[0] if len(form.stages) == 1 else definition


def _candidate(number: int, trial: DraftTrial, default: Candidate, *, is_winner: bool) -> Candidate:
    draft, outcome = trial.draft, trial.outcome
    ratio = trial.ratio if trial.final is None else trial.final
    # Batches are measured at different times: only the share of the default's can be compared.
    seconds = outcome.compared
    if ratio is not None and default.seconds is not None:
        seconds = ratio * default.seconds
    has_time = outcome.state in ("measured", "modelled")
    return replace(
        default,
        number=number,
        text=draft.schedule,
        state="fastest" if is_winner else "slower" if has_time else outcome.state,
        why=outcome.why,
        step=outcome.step,
        seconds=seconds,
        spread=_product(seconds, outcome.spread),
        ratio=ratio,
        origin=draft.origin,
        choices=dict(draft.choices),
        resources=outcome.resources,
    )


def _product(seconds: float | None, share: float | None) -> float | None:
    return None if seconds is None or share is None else seconds * share


def as_modelled(candidate: Candidate) -> Candidate:
    """Return a candidate that says that its time comes from a model."""
    if candidate.seconds is None:
        return candidate
    state = f"modelled {candidate.state}"
    return replace(candidate, state=state, seconds=None, spread=None, modelled=candidate.seconds)
