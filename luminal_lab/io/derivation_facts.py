"""How kernels came from what was written, as plain values: the rules that fired, then the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from luminal_lab.core.edit import LogEntry
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.passes.snapshot import Record, Snapshot

if TYPE_CHECKING:
    from luminal_lab.search.derived import KernelDerivation

DERIVATION: Final = "derivation"
"""The title of the pass that has the derivations of kernels."""


@dataclass(frozen=True)
class RuleStep:
    """A rule that fired, what it said about which terms, and the definition after it."""

    rule: str
    told: str
    definition: str


@dataclass(frozen=True)
class ScheduleStep:
    """A step of a schedule, and the nest after it."""

    text: str
    nest: str


@dataclass(frozen=True)
class DerivationFacts:
    """How a kernel came from what was written."""

    name: str
    written: str = ""
    """The definition as it was written; empty if no search has found the kernel."""
    rules: tuple[RuleStep, ...] = ()
    """The rules that lead from there to what it computes."""
    first: str = ""
    """The nest before the first step."""
    steps: tuple[ScheduleStep, ...] = ()

    @property
    def told(self) -> list[tuple[str, str]]:
        """The name of each step, and what it did, in words."""
        rules = [(step.rule, step.told) for step in self.rules]
        return rules + [(step.text.partition(" ")[0], step.text) for step in self.steps]

    @property
    def changes(self) -> list[tuple[str, str]]:
        """The text before and after each step: a definition for a rule, or else a nest."""
        definitions = [self.written, *(step.definition for step in self.rules)]
        nests = [self.first, *(step.nest for step in self.steps)]
        return [*pairwise(definitions), *pairwise(nests)]


def derivation_facts(derivation: KernelDerivation) -> DerivationFacts:
    """Return how a kernel came from what was written."""
    firings = derivation.rules or ()
    rules = tuple(RuleStep(f.rule, f"{f.left} → {f.right}", str(f.after)) for f in firings)
    written = firings[0].before if firings else derivation.written
    first, steps = steps_of(derivation.kernel)
    return DerivationFacts(derivation.kernel.name, str(written), rules, first, steps)


@lru_cache(256)
def steps_of(kernel: Kernel) -> tuple[str, tuple[ScheduleStep, ...]]:
    """Return the nest before the first step of a kernel's schedule, and after each."""
    if kernel.definition is None or kernel.schedule is None:
        return "", ()
    steps = kernel.steps
    return str(steps.start), tuple(
        ScheduleStep(str(applied.step), str(applied.after)) for applied in steps
    )


def with_derivation(
    snapshots: Sequence[Snapshot], kernels: Iterable[DerivationFacts]
) -> tuple[Snapshot, ...]:
    """Return the passes of a compile, plus one whose firings are how its kernels were found."""
    last, searched = snapshots[-1], [kernel for kernel in kernels if kernel.written]
    told = [
        (rule, f"{kernel.name}: {words}" if len(searched) > 1 else words)
        for kernel in searched
        for rule, words in kernel.told
    ]
    if not told:
        return tuple(snapshots)
    same = last.ir.signature, last.ir.signature
    log = [
        LogEntry("reorder", rule, -1, None, (), (), same, number, because)
        for number, (rule, because) in enumerate(told)
    ]
    record = Record(DERIVATION, log, verified=last.verified)
    return (*snapshots, Snapshot(last.ir, last.ir, record, last.index + 1))
