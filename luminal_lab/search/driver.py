"""What to measure next: a state machine that asks for batches and is told their outcomes.

    driver = Driver(draws, seed=0)
    while (batch := driver.ask()) is not None:
        driver.tell(batch, answer)

It starts no process and reads no clock: the same seed and the same answers give the same batches,
so that a search can be replayed from its record. Each batch has a seed of its own, and is drawn
from all answers except the one to the batch before it, which may still be open. So the same batches
are asked for whoever measures them, here or in an executor that compiles ahead. The first two
batches, for which nothing is known, are half as large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from random import Random
from statistics import median, quantiles
from typing import Literal, TypeAlias

from luminal_lab.search.allocation import Claim, next_turn
from luminal_lab.search.draws import Draws, ScheduleDraft, pick
from luminal_lab.search.ranker import LEAST, ranked

BATCH = 16
AHEAD = 2
"""How many batches may be open: one is drawn without the answer to the one before it."""
DRAWN = 4
"""How many schedules of a batch are drawn, once there are some to edit."""
PARENTS = 8
CHILDREN = 48
"""The number of edits among which the ranker chooses."""
FINALISTS = 4
PROMISING = 1.5
"""A form is drawn no more if its best takes this many times as long as another form's."""
GAIN = 0.02
"""The share of its time by which a winner must beat the default; otherwise the default stays."""
WRONG = "it computes wrong values: "
"""How the reason of a failure begins if a schedule is wrong."""
MARGIN = 0.8
"""The share of a limit that counts: rates may have been measured too low."""
HEAVY = 4.0
"""A form with this many times the work of another waits until there is a time to compare with."""
State: TypeAlias = Literal["measured", "modelled", "stopped", "refused", "failed", "skipped"]
"""What became of a schedule; one skipped for lack of time was never tried."""


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
    """The seconds that a model gives it, if nothing could be measured."""
    resources: str = ""
    """What it takes up of a GPU, in words."""

    @property
    def compared(self) -> float | None:
        """The seconds that it is compared by: measured, or else modelled."""
        return self.modelled if self.seconds is None else self.seconds

    @property
    def seconds(self) -> float | None:
        """The least seconds of all rounds."""
        return min(self.samples, default=None)

    @property
    def spread(self) -> float | None:
        """The distance between the quartiles of its rounds, as a share of the median."""
        if len(self.samples) < 2:
            return None
        low, middle, high = quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / middle

    @property
    def is_wrong(self) -> bool:
        """Whether it ran and computed wrong values."""
        return self.why.startswith(WRONG)


@dataclass(frozen=True)
class Answer:
    """The outcomes of a batch: of its schedules in order, and of the reference beside them."""

    reference: Outcome
    outcomes: tuple[Outcome, ...]
    machine: str = ""
    """The signature of the machine that measured; times from two machines are not compared."""


@dataclass(frozen=True)
class FormLimit:
    """What is known about a form before it is measured."""

    work: float = 0.0
    """Its operations, with the time of its bytes expressed as operations."""
    seconds: float | None = None
    """The least seconds that the rates of a machine allow; None if that is in doubt."""
    machine: str = ""
    """The signature of that machine."""


@dataclass(frozen=True)
class Batch:
    """Schedules that are measured together, beside the reference."""

    number: int
    drafts: tuple[ScheduleDraft, ...]
    best: float = 0.0
    """The least share of the reference's time so far; 0 if none is known."""
    is_last: bool = False
    """Whether it holds the best so far, to be measured for longer, or the default alone."""
    after: int = 0
    """How many answers were known when it was drawn."""
    most: int = 0
    """How many schedules it could have at most."""
    limits: tuple[FormLimit, ...] = ()
    """What was known about the forms beforehand; given with the first batch alone."""


@dataclass(frozen=True)
class DraftTrial:
    """A schedule with its outcome."""

    draft: ScheduleDraft
    outcome: Outcome
    ratio: float | None = None
    """Its time as a share of the reference's, measured in the same batch."""
    final: float | None = None
    """The same share in the last, longer batch."""

    @property
    def rank(self) -> float:
        """The key by which trials are ordered."""
        known = self.ratio if self.final is None else self.final
        return float("inf") if known is None else known


@dataclass(frozen=True)
class AnswersSoFar:
    """What the answers so far say: schedules, and the reference's seconds in each batch."""

    trials: Sequence[DraftTrial]
    reference: Sequence[float]
    before: int = 0
    """How many of the trials are older than the last batch."""

    @property
    def best(self) -> list[DraftTrial]:
        """The measured schedules by their batches' times, the fastest first."""
        timed = [(trial.ratio, trial) for trial in self.trials if trial.ratio is not None]
        return [trial for _, trial in sorted(timed, key=lambda pair: pair[0])]

    @property
    def least_ratio(self) -> float:
        """The least share of the reference's time; 0 if none is known."""
        return min((trial.ratio for trial in self.best if trial.ratio is not None), default=0.0)

    @property
    def least(self) -> float:
        """The same, or 1 if nothing is faster than the reference."""
        return min(1.0, self.least_ratio or 1.0)

    @property
    def seconds(self) -> float | None:
        """The least seconds, the reference's included; None if nothing was measured."""
        return min(self.reference) * self.least if self.reference else None

    def claims(self, forms: Sequence[int]) -> dict[int, Claim]:
        """Return how many draws forms claim; those much slower than the best claim none."""
        now, before = self._by_form(self.trials), self._by_form(self.trials[: self.before])
        turns = Counter(trial.draft.form for trial in self.trials)
        limit = PROMISING * min(now.values())
        return {
            form: Claim(1 / now[form], 1 - now[form] / before[form], turns[form])
            if form in before
            else Claim(1.0, 1.0, turns[form])
            for form in forms
            if now.get(form, 0.0) <= limit
        }

    @staticmethod
    def _by_form(trials: Sequence[DraftTrial]) -> dict[int, float]:
        """Return the least share of the reference's time by form; the reference is in the first."""
        least = {0: 1.0}
        for trial in trials:
            if trial.ratio is not None:
                form = trial.draft.form
                least[form] = min(trial.ratio, least.get(form, trial.ratio))
        return least

    def pruned(self, limits: Sequence[FormLimit], machine: str) -> Mapping[int, float]:
        """Return the untried forms that cannot win, with the least seconds of each.

        Limits of another machine say nothing, and a limit that a candidate has beaten shows that
        its rates are wrong: then nothing is pruned.
        """
        own = [limit.seconds if limit.machine == machine else None for limit in limits]
        times = [(0, min(self.reference, default=None))]
        times += [(trial.draft.form, trial.outcome.seconds) for trial in self.best]
        beaten = any(
            seconds is not None and seconds < (own[form] or 0.0) for form, seconds in times if own
        )
        if self.seconds is None or beaten:
            return {}
        tried = {form for form, _ in times} | {trial.draft.form for trial in self.trials}
        return {
            form: seconds
            for form, seconds in enumerate(own)
            if seconds and form not in tried and MARGIN * seconds > self.seconds
        }


@dataclass
class Driver:
    """The search for one kernel's schedule."""

    draws: Draws
    seed: int = 0
    limits: tuple[FormLimit, ...] = ()
    """What is known about each form beforehand; empty if nothing is."""
    size: int = BATCH
    trials: list[DraftTrial] = field(default_factory=list[DraftTrial])
    """All schedules with an outcome, in order, without the default."""
    reference: list[float] = field(default_factory=list[float])
    """The reference's seconds in each batch."""
    machine: str = ""
    resources: str = ""
    """What the reference takes up of a GPU, in words."""
    spread: float | None = None
    """The spread of the reference's rounds in its fastest batch, as a share."""
    noise: float = 0.0
    """How much the reference's own times differ in the last batch, as a share."""
    gain: float = 1.0
    """The share that the last batch took off the least time; 1 if no time is known."""
    asked: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._open: list[Batch] = []
        self._told = 0
        self._is_final = False
        self.drawn = 0
        """How many batches were asked for, without last ones."""
        self._ends: list[tuple[int, int]] = []
        """How many trials and reference times were known after each of them."""

    # -- asking and telling ------------------------------------------------------------------------

    def ask(self, most: int | None = None) -> Batch | None:
        """Return the next schedules to measure, at most `most`; None if there are no new ones."""
        size = self.size if self.drawn >= AHEAD else self.size // AHEAD
        size = size if most is None else min(size, most)
        assert len(self._open) < AHEAD, "no more batches are open at once"
        self._random = Random(f"{self.seed} {self.drawn}")
        known = self._known_then
        drafts = self._drafts(known, size, self._forms(known))
        if not drafts:  # except perhaps those that wait
            drafts = self._drafts(known, size, range(len(self.draws.forms)))
        if not drafts:
            return None
        self.drawn += 1
        return self._asked(drafts, known.least_ratio, most=size)

    def last(self) -> Batch | None:
        """Return the best schedules, to be measured for longer beside the default.

        If none is faster it is the default alone, or None if that already has a time. Right after
        such a batch it is the schedules whose own batch was faster than all that were measured for
        longer.
        """
        best = [trial for trial in self.best if trial.rank < 1.0]
        if self._is_final:
            best = [*takewhile(lambda trial: trial.final is None, best)]
        best = best[:FINALISTS]
        if not best and self.reference:
            return None
        return self._asked([trial.draft for trial in best], self._known.least_ratio)

    def drop(self) -> None:
        """Take back the batches that will get no answer: they are asked for again."""
        if self._open:
            self.asked = self._open[0].number
            drawn = [batch for batch in self._open if not batch.is_last]
            self.draws.forget(draft for batch in drawn for draft in batch.drafts)
            self.drawn -= len(drawn)
            self._open.clear()

    def tell(self, batch: Batch, answer: Answer) -> None:
        """Take in the answer to the batch that was asked for first."""
        assert self._open[:1] == [batch], "batches are told in the order of asking"
        assert len(answer.outcomes) == len(batch.drafts), "an outcome for each schedule"
        self._open.pop(0)
        self._told += 1
        was_final, self._is_final = self._is_final, batch.is_last
        least = self._known.least
        self.machine = self.machine or answer.machine
        is_same = answer.machine == self.machine
        if is_same and answer.reference.compared is not None:
            self.reference.append(answer.reference.compared)
            if answer.reference.compared == min(self.reference):
                self.spread = answer.reference.spread
        self.resources = self.resources or answer.reference.resources
        if batch.is_last:
            self.noise = max(self.noise * was_final, noise_of(answer.reference.samples))
        for draft, outcome in zip(batch.drafts, answer.outcomes, strict=True):
            if outcome.state == "skipped":
                self.draws.forget([] if batch.is_last else [draft])
                continue
            ratio = _ratio(answer.reference, outcome, paired=batch.is_last)
            if not is_same and outcome.compared is not None:
                why = f"it was measured on another machine ({answer.machine})"
                outcome, ratio = Outcome("refused", outcome.samples, why), None
            if batch.is_last:
                self._finish(draft, outcome, ratio)
            else:
                self.trials.append(DraftTrial(draft, outcome, ratio))
        if not batch.is_last:
            self._ends.append((len(self.trials), len(self.reference)))
            self.gain = 1 - self._known.least / least

    def restore(self, answers: Sequence[tuple[Batch, Answer]]) -> None:
        """Begin with another search's answers, and go on as that one would have."""
        self.limits = limits_asked(answers)
        for batch, answer in answers:
            self._open = [batch]
            if not batch.is_last:
                self.draws.know(batch.drafts)
                self.drawn += 1
            self.tell(batch, answer)
            self.asked = batch.number + 1

    def adopt(self, trials: Sequence[DraftTrial], reference: Sequence[float], noise: float) -> None:
        """Begin with outcomes of schedules if nobody knows which were asked for together."""
        self.trials, self.reference, self.noise = [*trials], [*reference], noise
        self.draws.know(trial.draft for trial in trials)

    def _asked(self, drafts: Sequence[ScheduleDraft], best: float, most: int = 0) -> Batch:
        limits = () if self.asked else self.limits
        batch = Batch(self.asked, tuple(drafts), best, not most, self._told, most, limits)
        self._open.append(batch)
        self.asked += 1
        return batch

    def _finish(self, draft: ScheduleDraft, outcome: Outcome, ratio: float | None) -> None:
        at = next(n for n, trial in enumerate(self.trials) if trial.draft == draft)
        # A schedule that fails only now has no time at all.
        failed = DraftTrial(draft, outcome)
        self.trials[at] = failed if ratio is None else replace(self.trials[at], final=ratio)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def best(self) -> list[DraftTrial]:
        """The measured schedules, the fastest first."""
        timed = [trial for trial in self.trials if trial.ratio is not None]
        return sorted(timed, key=lambda trial: trial.rank)

    @property
    def winner(self) -> DraftTrial | None:
        """The schedule that beats the default; None if the default stays.

        A search that was stopped before its last batch goes by the batches that it has.
        """
        finals = [trial for trial in self.best if trial.final is not None] or self.best
        gain = max(GAIN, self.noise)
        return next((trial for trial in finals if trial.rank <= 1 - gain), None)

    @property
    def seconds(self) -> float | None:
        """The least time so far, the default's included; None if nothing was measured."""
        return self._known.seconds

    @property
    def pruned(self) -> Mapping[int, float]:
        """The forms that cannot win, with the least seconds of each."""
        return self._known.pruned(self.limits, self.machine)

    @property
    def _known(self) -> AnswersSoFar:
        """What all answers say."""
        return AnswersSoFar(self.trials, self.reference)

    @property
    def _known_then(self) -> AnswersSoFar:
        """What the next batch is drawn from."""
        behind = self.drawn - AHEAD
        if behind < 0:
            return AnswersSoFar((), ())
        trials, reference = self._ends[behind]
        before = self._ends[behind - 1][0] if behind else 0
        return AnswersSoFar(self.trials[:trials], self.reference[:reference], before)

    # -- what is next ------------------------------------------------------------------------------

    def _drafts(self, known: AnswersSoFar, size: int, forms: Sequence[int]) -> list[ScheduleDraft]:
        pruned = known.pruned(self.limits, self.machine)
        forms = [form for form in forms if form not in pruned]
        parents = [trial.draft for trial in known.best[:PARENTS]]
        # The default counts among the best schedules: it is as good until it is beaten.
        parents = [*parents, self.draws.default][:PARENTS]
        drafts = self.draws.first(size, forms)
        if known.trials:
            count = max(0, size - len(drafts) - min(DRAWN, size))
            drafts += self._children(known, parents, count)
        drafts += self._draws(known.claims(forms), size - len(drafts))
        # Even if all draws are known, there may still be edits.
        return drafts + self._edits(parents, size - len(drafts))

    def _forms(self, known: AnswersSoFar) -> Sequence[int]:
        """Return the forms that may be tried: heavy ones wait for a time to compare with."""
        forms = range(len(self.draws.forms))
        if known.reference or not self.limits:
            return forms
        most = HEAVY * min(limit.work for limit in self.limits)
        return [form for form in forms if not form or self.limits[form].work <= most]

    def _draws(self, claims: dict[int, Claim], count: int) -> list[ScheduleDraft]:
        drafts: list[ScheduleDraft] = []
        while claims and len(drafts) < count:
            form = next_turn(claims)
            draft = self.draws.draw(self._random, form)
            if draft is None:
                del claims[form]
            else:
                drafts.append(draft)
                claims[form] = replace(claims[form], turns=claims[form].turns + 1)
        return drafts

    def _children(
        self, known: AnswersSoFar, parents: Sequence[ScheduleDraft], count: int
    ) -> list[ScheduleDraft]:
        timed = [(t.draft, t.ratio) for t in known.trials if t.ratio is not None]
        edits = self._edits(parents, CHILDREN if len(timed) >= LEAST else count)
        chosen = ranked(timed, edits)[:count]
        self.draws.forget(draft for draft in edits if draft not in chosen)
        return chosen

    def _edits(self, parents: Sequence[ScheduleDraft], count: int) -> list[ScheduleDraft]:
        edits: list[ScheduleDraft] = []
        for _ in range(count):
            parent, mate = (pick(self._random, [*parents]) for _ in range(2))
            draft = self.draws.edit(self._random, parent, mate)
            edits += [] if draft is None else [draft]
        return edits


def limits_asked(answers: Sequence[tuple[Batch, Answer]]) -> tuple[FormLimit, ...]:
    """Return what was known about forms beforehand when some batches were asked for."""
    return answers[0][0].limits if answers else ()


def noise_of(samples: Sequence[float]) -> float:
    """Return how much times of the same kernel differ, as a share: every other one is left out.

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
    if not known or own is None or outcome.state == "failed":
        return None
    ratio = own / known
    if paired and outcome.samples and len(reference.samples) == len(outcome.samples):
        # What is not faster in most rounds was lucky in one.
        pairs = zip(outcome.samples, reference.samples, strict=True)
        ratio = max(ratio, median(a / b for a, b in pairs))
    return ratio
