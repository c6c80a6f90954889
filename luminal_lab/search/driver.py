"""What to measure next: a state machine that asks for batches and is told what came of them.

    driver = Driver(draws, seed=0)
    while (batch := driver.ask()) is not None:
        driver.tell(batch, answer)

It starts no process and reads no clock: the same seed and the same answers give the same batches,
so that a search can be replayed from what was recorded of it. Batches may be asked for ahead; they
are told in the order in which they were asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median
from typing import Literal, TypeAlias

from luminal_lab.search.draws import Draft, Draws, pick
from luminal_lab.search.ranker import LEAST, ranked

BATCH = 16
DRAWN = 4
"""The schedules of a batch that are drawn, once there are some to edit."""
PARENTS = 8
CHILDREN = 48
"""The edits among which the ranker chooses."""
FINALISTS = 4
PROMISING = 1.5
"""A form whose best takes so many times as long as that of another one is drawn no more."""
GAIN = 0.02
"""The share of its time by which a winner must beat the default, or the default stays."""
WRONG = "it computes wrong values: "
"""How the reason begins why a wrong schedule has failed."""
RandomState: TypeAlias = "tuple[object, ...]"
State: TypeAlias = Literal["measured", "modelled", "stopped", "refused", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What came of one schedule: how long it took, or why there is no time."""

    state: State
    samples: tuple[float, ...] = ()
    """The seconds of each round."""
    why: str = ""
    step: str = ""
    """The first step after which values are wrong."""
    modelled: float | None = None
    """The seconds that a model gives it, where nothing could be measured."""
    resources: str = ""
    """What it takes of a GPU, in words."""

    @property
    def compared(self) -> float | None:
        """The seconds that it is compared by: measured, or else modelled."""
        return self.modelled if self.seconds is None else self.seconds

    @property
    def seconds(self) -> float | None:
        """The least seconds of all rounds."""
        return min(self.samples, default=None)

    @property
    def is_wrong(self) -> bool:
        """Whether it ran, and computed something else."""
        return self.why.startswith(WRONG)


@dataclass(frozen=True)
class Answer:
    """What came of a batch: of its schedules in order, and of the reference measured with them."""

    reference: Outcome
    outcomes: tuple[Outcome, ...]
    machine: str = ""
    """The signature of the machine that measured; times of two machines are not compared."""


@dataclass(frozen=True)
class Batch:
    """Schedules that are measured together, beside the reference."""

    number: int
    drafts: tuple[Draft, ...]
    best: float = 0.0
    """The least share of the reference's time so far; 0 where none is known."""
    is_last: bool = False
    """Whether it has the best so far, which are measured for longer, or the default alone."""
    after: int = 0
    """How many answers were known when it was asked for."""
    most: int = 0
    """How many schedules it was to have at most."""


@dataclass(frozen=True)
class Trial:
    """A schedule with what came of it."""

    draft: Draft
    outcome: Outcome
    ratio: float | None = None
    """Its time as a share of the reference's, measured in the same batch."""
    final: float | None = None
    """The same share in the last, longer batch."""

    @property
    def rank(self) -> float:
        """What trials are ordered by."""
        known = self.ratio if self.final is None else self.final
        return float("inf") if known is None else known


@dataclass
class Driver:
    """The search for one kernel's schedule."""

    draws: Draws
    seed: int = 0
    size: int = BATCH
    trials: list[Trial] = field(default_factory=list[Trial])
    """All schedules that were told of, in order; the default is not among them."""
    reference: list[float] = field(default_factory=list[float])
    """The reference's seconds, of each batch."""
    machine: str = ""
    resources: str = ""
    """What the reference takes of a GPU, in words."""
    noise: float = 0.0
    """By how much the reference's own times differ in the last batch, as a share."""
    asked: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._open: list[Batch] = []
        self._states: list[RandomState] = []
        """What the draws of each open batch began with."""
        self._told = 0

    # -- asking and telling ------------------------------------------------------------------------

    def ask(self, most: int | None = None) -> Batch | None:
        """Return the next schedules to measure, at most so many; None if there are no new ones."""
        size = self.size if most is None else min(self.size, most)
        state = self._random.getstate()
        drafts = self._drafts(size)
        return self._asked(drafts, state, most=size) if drafts else None

    def last(self) -> Batch | None:
        """Return the best schedules, to be measured for longer beside the default.

        Where none is faster it is the default alone, or None if that has a time.
        """
        best = [trial for trial in self.best if trial.rank < 1.0][:FINALISTS]
        if not best and self.reference:
            return None
        return self._asked([trial.draft for trial in best], self._random.getstate())

    def drop(self) -> None:
        """Take back the batches that will have no answer: they are asked for again."""
        if self._open:
            self._random.setstate(self._states[0])
            self.asked = self._open[0].number
            own = [draft for batch in self._open if not batch.is_last for draft in batch.drafts]
            self.draws.forget(own)
            self._open.clear()
            self._states.clear()

    def tell(self, batch: Batch, answer: Answer) -> None:
        """Take in what came of the batch that was asked for first."""
        assert self._open[:1] == [batch], "batches are told in the order of asking"
        assert len(answer.outcomes) == len(batch.drafts), "an outcome for each schedule"
        self._open.pop(0)
        self._states.pop(0)
        self._told += 1
        self.machine = self.machine or answer.machine
        is_same = answer.machine == self.machine
        if is_same and answer.reference.compared is not None:
            self.reference.append(answer.reference.compared)
        self.resources = self.resources or answer.reference.resources
        if batch.is_last:
            self.noise = noise_of(answer.reference.samples)
        for draft, outcome in zip(batch.drafts, answer.outcomes, strict=True):
            ratio = _ratio(answer.reference, outcome, paired=batch.is_last)
            if not is_same and outcome.compared is not None:
                why = f"it was measured on another machine ({answer.machine})"
                outcome, ratio = Outcome("refused", outcome.samples, why), None
            if batch.is_last:
                self._finish(draft, outcome, ratio)
            else:
                self.trials.append(Trial(draft, outcome, ratio))

    def restore(self, trials: Sequence[Trial], reference: Sequence[float], noise: float) -> None:
        """Begin with what another search has been told; none of it is tried again."""
        self.trials, self.reference, self.noise = [*trials], [*reference], noise
        self.draws.know(trial.draft for trial in trials)

    def _asked(self, drafts: Sequence[Draft], state: RandomState, most: int = 0) -> Batch:
        best = min(self._ratios(), default=0.0)
        batch = Batch(self.asked, tuple(drafts), best, not most, self._told, most)
        self._open.append(batch)
        self._states.append(state)
        self.asked += 1
        return batch

    def _finish(self, draft: Draft, outcome: Outcome, ratio: float | None) -> None:
        at = next(n for n, trial in enumerate(self.trials) if trial.draft == draft)
        # One that fails only now has no time at all.
        failed = Trial(draft, outcome)
        self.trials[at] = failed if ratio is None else replace(self.trials[at], final=ratio)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def best(self) -> list[Trial]:
        """The measured schedules, the fastest first."""
        timed = [trial for trial in self.trials if trial.ratio is not None]
        return sorted(timed, key=lambda trial: trial.rank)

    @property
    def winner(self) -> Trial | None:
        """The schedule that beats the default; None where the default stays.

        A search that was broken off before its last batch goes by the batches that it has.
        """
        finals = [trial for trial in self.best if trial.final is not None] or self.best
        gain = max(GAIN, self.noise)
        return next((trial for trial in finals if trial.rank <= 1 - gain), None)

    def _ratios(self) -> Sequence[float]:
        return [trial.ratio for trial in self.trials if trial.ratio is not None]

    # -- what is next ------------------------------------------------------------------------------

    def _drafts(self, size: int) -> list[Draft]:
        parents = [trial.draft for trial in self.best[:PARENTS]]
        # Beside the best schedules there is the default, which is as good until it is beaten.
        parents = [*parents, self.draws.default][:PARENTS]
        drafts = self.draws.first(size)
        if self.asked:
            count = max(0, size - len(drafts) - min(DRAWN, size))
            drafts += self._children(parents, count)
        drafts += self._draws(size - len(drafts))
        # Where all draws are known there may still be edits.
        return drafts + self._edits(parents, size - len(drafts))

    def _draws(self, count: int) -> list[Draft]:
        forms = self._promising()
        drawn = (self.draws.draw(self._random, forms) for _ in range(count))
        return [draft for draft in drawn if draft is not None]

    def _promising(self) -> list[int]:
        """Return the forms that are not known to be much slower than the best."""
        best = {0: 1.0}
        for trial in self.trials:
            ratio = best.get(trial.draft.form, float("inf"))
            best[trial.draft.form] = min(ratio, trial.rank)
        limit = PROMISING * min(best.values())
        return [n for n in range(len(self.draws.forms)) if best.get(n, 0.0) <= limit]

    def _children(self, parents: Sequence[Draft], count: int) -> list[Draft]:
        known = [(t.draft, t.ratio) for t in self.trials if t.ratio is not None]
        edits = self._edits(parents, CHILDREN if len(known) >= LEAST else count)
        chosen = ranked(known, edits)[:count]
        self.draws.forget(draft for draft in edits if draft not in chosen)
        return chosen

    def _edits(self, parents: Sequence[Draft], count: int) -> list[Draft]:
        edits: list[Draft] = []
        for _ in range(count):
            parent, mate = (pick(self._random, [*parents]) for _ in range(2))
            draft = self.draws.edit(self._random, parent, mate)
            edits += [] if draft is None else [draft]
        return edits


def noise_of(samples: Sequence[float]) -> float:
    """Return by how much times of the same kernel differ, as a share: every other one is left out.

    >>> round(noise_of((1.0, 1.1, 1.0, 1.1)), 3)
    0.091
    """
    even, odd = samples[::2], samples[1::2]
    if not odd:
        return 0.0
    pairs = [a / b for a, b in zip(even, odd, strict=False)]
    return max(abs(min(even) / min(odd) - 1), abs(median(pairs) - 1))


def _ratio(reference: Outcome, outcome: Outcome, *, paired: bool) -> float | None:
    """Return a schedule's time as a share of the reference's."""
    known, own = reference.compared, outcome.compared
    if known is None or own is None or outcome.state == "failed":
        return None
    ratio = own / known
    if paired and outcome.samples and len(reference.samples) == len(outcome.samples):
        # What is no faster in most rounds was lucky in one.
        pairs = zip(outcome.samples, reference.samples, strict=True)
        ratio = max(ratio, median(a / b for a, b in pairs))
    return ratio
