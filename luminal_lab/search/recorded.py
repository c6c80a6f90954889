"""A worker that measures nothing: it answers as another one did, so that a search can be repeated.

    times = record_of(search)
    search_kernel(definition, seed=0, plan=plan, worker=Recorded(times), budget=…)

The same seed and the same answers give the same questions, on any machine whose plan is the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.driver import Answer, Outcome
from luminal_lab.search.loops import KernelSearch
from luminal_lab.search.worker import Job

Times: TypeAlias = Mapping[str, float | str]
"""By the digest of a schedule its share of the default's time, or why it has none."""
DEFAULT, AGAIN, DIGITS = "default", "!", 8


@dataclass(frozen=True)
class Recorded:
    """Answers jobs with the times of a record."""

    times: Times

    def __call__(self, job: str) -> str:
        """Return the answer to a job, both as text."""
        asked = read(Job, read_json(job, exact=True))
        default = float(self.times[DEFAULT])
        outcomes = [self._outcome(text, default, asked.is_last) for text in asked.schedules]
        return json.dumps(plain(Answer(Outcome("measured", (default,)), tuple(outcomes), "record")))

    def _outcome(self, schedule: str, default: float, is_last: bool) -> Outcome:
        key = digest(schedule)
        share = self.times.get(key, "nobody has measured it")
        if is_last:
            share = self.times.get(key + AGAIN, share)
        if isinstance(share, str):
            return Outcome("failed", (), share)
        return Outcome("measured", (share * default,))


def record_of(search: KernelSearch) -> Times:
    """Return what a search was told, in few digits."""
    seconds = search.default.seconds
    times: dict[str, float | str] = {DEFAULT: float(f"{seconds or 1:.3g}")}
    for trial in search.driver.trials:
        key, outcome = digest(trial.draft.schedule), trial.outcome
        times[key] = outcome.why if trial.ratio is None else round(trial.ratio, 3)
        if trial.final is not None:
            times[key + AGAIN] = round(trial.final, 3)
    return times


def digest(schedule: str) -> str:
    """Return what a schedule is called in a record."""
    return sha256(schedule.encode()).hexdigest()[:DIGITS]
