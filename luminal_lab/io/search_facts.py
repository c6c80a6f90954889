"""A search as plain values, for charts, tables, pages and files; search_gather.py collects them.

SearchFacts
    kernels      what is searched for: a definition, and what is known of its search
    candidates   all that was tried, in the order of measuring, each of some kernel
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from luminal_lab.io.derivation_facts import DerivationFacts
from luminal_lab.reading import shown
from luminal_lab.search.driver import Answer, Batch
from luminal_lab.search.forms import Form

STATES: Final = ("fastest", "default", "slower", "stopped", "refused", "failed", "pruned")
"""The possible states of a candidate, the best first."""

LEAST, MOST = 1e-12, 1e9
"""All seconds, and all shares of a time, are between these."""
MOST_COUNTED = 1 << 31


@dataclass(frozen=True)
class CandidateFacts:
    """A candidate: the schedule of a kernel, with its time or the reason why it has none."""

    kernel: int
    number: int
    """Its number among the candidates of its kernel; 0 is the default."""
    state: str
    why: str = ""
    step: str = ""
    """The first step after which its values are wrong, if that is known."""
    seconds: float | None = None
    """Its time, measured or by a model."""
    spread: float | None = None
    """How far its rounds differ, in seconds."""
    limit: float | None = None
    """The least seconds that it can take, by the machine's rates."""
    ratio: float | None = None
    """Its time as a share of the default's."""
    is_final: bool = False
    """Whether it was among the best, which are measured again for longer."""
    form: int = 0
    """The number of its form."""
    resources: str = ""
    """What it takes up of a GPU, in words."""
    origin: str = ""
    choices: Mapping[str, int] = field(default_factory=dict[str, int])
    schedule: str = ""
    nest: str = ""
    """The nest after the steps; a file has it for the best and the default."""
    source: str = ""
    """The C, likewise."""

    @property
    def is_error(self) -> bool:
        """Whether it was refused, has failed, or was pruned, and so has no time."""
        return self.state in ("refused", "failed", "pruned")


@dataclass(frozen=True)
class RefusedFacts:
    """A program by rules that is less exact than what is written."""

    definition: str
    why: str


@dataclass(frozen=True)
class KernelSearchFacts:
    """A kernel that is searched for: what it computes, and how its search went."""

    name: str
    definition: str
    launches: int = 1
    """How often it is launched in a run."""
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    others: tuple[Mapping[str, int], ...] = ()
    """The other sizes at which it was measured, if there were several."""
    seed: int = 0
    seconds: float = 0.0
    """How long its search took."""
    ended: str = ""
    limit: float | None = None
    """The least seconds that the machine's rates allow; None if they are unknown."""
    bound: str = ""
    """The rate that sets this limit."""
    is_doubtful: bool = False
    """Whether something else must have been running while the rates were measured."""
    refusals: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often a step refused a schedule before it was a candidate, by reason."""
    forms: tuple[Form, ...] = ()
    """The ways to compute it; the first has the default schedule."""
    unfused: int | None = None
    """The number of the fastest candidate that keeps its kernels apart, if some do not."""
    model: str = ""
    """What its times are a model of, if nothing was measured."""
    answers: tuple[tuple[Batch, Answer], ...] = ()
    """What was asked for and the answers, in order; empty if it was found before."""
    noise: float = 0.0
    """How much the default's own times differ, as a share."""
    refused: tuple[RefusedFacts, ...] = ()
    """What rules made of it that is less exact than what is written."""
    derivation: tuple[DerivationFacts, ...] = ()
    """How the kernels of the best came from what was written; a file and a page have it."""

    @property
    def bounded_by(self) -> str:
        """The rate that sets its limit, with a remark if it is in doubt."""
        return f"{self.bound}, in doubt" if self.is_doubtful else self.bound


@dataclass(frozen=True)
class SearchFacts:
    """A search: its kernels, and all candidates in the order of measuring."""

    title: str
    kernels: tuple[KernelSearchFacts, ...]
    candidates: tuple[CandidateFacts, ...]
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    """Kernels that are not searched, with the reason."""
    device: str = ""
    """The compiler as a pass, in text."""

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(kernel.seconds for kernel in self.kernels)

    @cached_property
    def by_kernel(self) -> tuple[tuple[CandidateFacts, ...], ...]:
        """The candidates of each kernel."""
        groups: list[list[CandidateFacts]] = [[] for _ in self.kernels]
        for candidate in self.candidates:
            groups[candidate.kernel].append(candidate)
        return tuple(map(tuple, groups))

    @cached_property
    def defaults(self) -> tuple[CandidateFacts, ...]:
        """Each kernel's candidate without a search."""
        return tuple(next(c for c in own if c.number == 0) for own in self.by_kernel)

    @cached_property
    def best(self) -> tuple[CandidateFacts, ...]:
        """The fastest candidate of each kernel."""
        return tuple(
            next((c for c in own if c.state == "fastest"), default)
            for own, default in zip(self.by_kernel, self.defaults, strict=True)
        )

    @property
    def best_seconds(self) -> float | None:
        """The time of a run by the best candidates; None if one has no time."""
        return self._sum([candidate.seconds for candidate in self.best])

    @property
    def default_seconds(self) -> float | None:
        """The time of a run by the default candidates; None if one has no time."""
        return self._sum([candidate.seconds for candidate in self.defaults])

    @cached_property
    def unfused(self) -> tuple[CandidateFacts | None, ...]:
        """The fastest candidate of each kernel that keeps kernels apart, if some do not."""
        return tuple(
            next((c for c in own if c.number == kernel.unfused), None)
            for own, kernel in zip(self.by_kernel, self.kernels, strict=True)
        )

    @property
    def unfused_seconds(self) -> float | None:
        """The time of a run with all kernels apart; None if that is no other program."""
        if not any(self.unfused):
            return None
        pairs = zip(self.unfused, self.best, strict=True)
        return self._sum([(apart or best).seconds for apart, best in pairs])

    @property
    def model(self) -> str:
        """What times are a model of; empty if they were measured."""
        return self.kernels[0].model

    @property
    def limit_seconds(self) -> float | None:
        """The least time of a run that the machine's rates allow; None if that is unknown."""
        return self._sum([kernel.limit for kernel in self.kernels])

    def _sum(self, times: list[float | None]) -> float | None:
        known = [
            seconds * kernel.launches
            for seconds, kernel in zip(times, self.kernels, strict=True)
            if seconds is not None
        ]
        return sum(known) if known and len(known) == len(times) else None

    @property
    def errors(self) -> Mapping[tuple[str, str], list[CandidateFacts]]:
        """The candidates without a result by state and reason, the most common reason first."""
        reasons: dict[tuple[str, str], list[CandidateFacts]] = {}
        for candidate in self.candidates:
            if candidate.is_error:
                reasons.setdefault((candidate.state, candidate.why), []).append(candidate)
        return dict(sorted(reasons.items(), key=lambda item: -len(item[1])))

    @property
    def derivations(self) -> tuple[DerivationFacts, ...]:
        """How the kernels of the best came from what was written."""
        return tuple(d for kernel in self.kernels for d in kernel.derivation)

    @property
    def refusals(self) -> Counter[str]:
        """How often steps refused a schedule before it was a candidate, by reason."""
        refusals = Counter[str]()
        for kernel in self.kernels:
            refusals.update(kernel.refusals)
        return refusals


def check_search(facts: SearchFacts, path: str) -> None:
    """Raise a ValueError if facts are contradictory or impossible."""
    if not facts.kernels:
        raise ValueError(f"{path} has no kernel")
    for at, candidate in enumerate(facts.candidates):
        where = f"{path}.candidates[{at}]"
        _within(f"{where}.kernel", candidate.kernel, len(facts.kernels))
        _within(f"{where}.number", candidate.number, len(facts.candidates))
        if candidate.state not in STATES:
            raise ValueError(f"{where}.state is {shown(candidate.state)}")
        _within(f"{where}.form", candidate.form, len(facts.kernels[candidate.kernel].forms))
        _timed(f"{where}.seconds", candidate.seconds)
        _timed(f"{where}.spread", candidate.spread or None)
        _timed(f"{where}.limit", candidate.limit)
        _timed(f"{where}.ratio", candidate.ratio)
    begun = {candidate.kernel for candidate in facts.candidates if candidate.number == 0}
    for at, kernel in enumerate(facts.kernels):
        where = f"{path}.kernels[{at}]"
        if at not in begun:
            raise ValueError(f"{where} has no default among the candidates")
        for count in (kernel.launches, *kernel.refusals.values()):
            _within(f"{where}.launches or refusals", count, MOST_COUNTED)
        if not all(form.stages for form in kernel.forms):
            raise ValueError(f"{where}.forms has one without a kernel")
        _timed(f"{where}.seconds", kernel.seconds or None)
        _timed(f"{where}.limit", kernel.limit)


def _within(path: str, number: int, most: int) -> None:
    if not 0 <= number < most:
        raise ValueError(f"{path} is {shown(number)}, which is not from 0 to {most - 1}")


def _timed(path: str, seconds: float | None) -> None:
    if seconds is not None and not LEAST < seconds < MOST:
        raise ValueError(f"{path} is {seconds:g}, which nothing takes")
