"""How kernels came from what was written: the firings of rules, then the steps of schedules.

    search.derivation[0]      a firing: its `rule`, the definitions `before` and `after`, `check()`
    search.derivation[-1]     a step of a schedule: the same of nests

Firings are found by firing the rules again, so that a kernel from a file, or from an earlier
search, has a derivation like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from typing_extensions import override

from luminal_lab.algebra.one_pass import GENTLE
from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rules
from luminal_lab.core.ir import IR
from luminal_lab.core.printer import as_text
from luminal_lab.errors import LabError, PassError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.running import scores_inlined
from luminal_lab.kernels.definition.terms import Fold, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.applied import Change
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.search.candidates import Candidate
from luminal_lab.search.derivation import Derivation, Firing, Steps
from luminal_lab.search.program import judged_programs
from luminal_lab.search.regions import MOST_FOLDS
from luminal_lab.search.space import space_of
from luminal_lab.search.validate import wrong_step
from luminal_lab.tensor.arguments import told_object

MOST_POINTS, SMALLER = 500, (13, 17, 7, 19)
"""A step is checked at its own sizes up to this many points, and otherwise at these sizes."""


@told_object("step")
@dataclass(frozen=True, repr=False)
class LoopStep:
    """A step of a kernel's schedule, with the nest before and after it."""

    kernel: Kernel
    change: Change
    number: int
    """Its place in the schedule."""

    @property
    def before(self) -> Nest:
        """The nest before it."""
        return self.change.before

    @property
    def after(self) -> Nest:
        """The nest after it."""
        return self.change.after

    @property
    def rule(self) -> str:
        """The step, as text."""
        return str(self.change.step)

    def check(self) -> None:
        """Raise if the step makes a different nest, or one with different values.

        Values are compared at small sizes at which the steps up to this one apply.
        """
        scheduling = Scheduling(self.before)
        scheduling.do(self.change.step)
        if str(scheduling.nest) != str(self.after):
            raise PassError(f"step `{self.rule}` of {self.kernel.name} makes another nest")
        assert self.kernel.definition is not None, "its kernel has steps"
        steps = [str(change.step) for change in self.kernel.steps[: self.number + 1]]
        wrong = wrong_step(
            self.kernel.definition, "\n".join(steps), most=MOST_POINTS, sizes=SMALLER
        )
        if wrong == self.rule:
            raise PassError(f"step `{wrong}` of {self.kernel.name} changes what is computed")

    @override
    def __str__(self) -> str:
        return self.rule

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<LoopStep {self}>"


@told_object("derivation")
@dataclass(frozen=True, repr=False)
class KernelDerivation(Steps[Firing | LoopStep]):
    """How a kernel came from what was written: the rules that fired, then the steps."""

    written: Definition
    kernel: Kernel
    among: Rules = RULES
    """The rules that may have fired."""

    @cached_property
    def rules(self) -> Derivation | None:
        """The firings that lead to what it computes; None if no rule leads there."""
        assert self.kernel.definition is not None, "it was made of a definition"
        return by_rules(self.written, self.kernel.definition, self.among)

    @cached_property
    @override
    def steps(self) -> tuple[Firing | LoopStep, ...]:
        """The firings, each with a program before and after it, then the steps with their nests."""
        changes = self.kernel.steps
        steps = [LoopStep(self.kernel, change, at) for at, change in enumerate(changes)]
        return (*(self.rules or ()), *steps)

    @property
    def summary(self) -> str:
        """The kernel, with how many rules and steps it took."""
        rules = 0 if self.rules is None else len(self.rules)
        counts = ((rules, "firing"), (len(self) - rules, "step"))
        told = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in counts if count]
        told = told if self.is_complete else ["by rules that are not here", *told]
        return f"{self.kernel.name}: {', then '.join(told) or 'as it was written'}"

    @property
    def is_complete(self) -> bool:
        """Whether rules lead from what was written to what the kernel computes."""
        assert self.kernel.definition is not None, "it was made of a definition"
        return self.rules is not None or _text(self.written) == _text(self.kernel.definition)


@told_object("derivation")
@dataclass(frozen=True, repr=False)
class JoinedDerivation(Steps[Firing | LoopStep]):
    """The derivations of several kernels, one after the other."""

    parts: tuple[KernelDerivation, ...]

    @cached_property
    @override
    def steps(self) -> tuple[Firing | LoopStep, ...]:
        """The steps of all kernels."""
        return tuple(step for part in self.parts for step in part)

    @override
    def __str__(self) -> str:
        lines, at = list[str](), 0
        for part in self.parts:
            lines += [part.summary, *(f"  {n} {step}" for n, step in enumerate(part, at))]
            at += len(part)
        return "\n".join(lines) or "there is no kernel"


def derivation_of(
    candidate: Candidate, written: Definition, rules: Rules = RULES
) -> JoinedDerivation:
    """Return how the kernels of a candidate came from a region as it was written."""
    form = candidate.form
    sources = {
        nameless(parse_definition(computed)): parse_definition(source)
        for source, computed in form.programs
        if computed is not None
    }
    whole = written if len(form.stages) == 1 else None
    return JoinedDerivation(
        tuple(
            _named(sources.get(nameless(definition), whole or definition), kernel, rules)
            for definition, kernel in zip(form.definitions, candidate.kernels, strict=True)
        )
    )


def derivation_of_launches(ir: IR, launches: Sequence[Launch]) -> JoinedDerivation:
    """Return how the kernels of a graph came from what it says."""
    parts: dict[str, KernelDerivation] = {}
    for launch in launches:
        body, kernel = ir[launch.node].op.body_of(), launch.kernel
        is_made = kernel.definition is not None and kernel.schedule is not None
        if body is not None and is_made and kernel.name not in parts:
            parts[kernel.name] = _named(define(body), kernel)
    return JoinedDerivation(tuple(parts.values()))


def _named(written: Definition, kernel: Kernel, rules: Rules = RULES) -> KernelDerivation:
    return KernelDerivation(replace(written, name=kernel.name), kernel, rules)


def by_rules(written: Definition, computed: Definition, rules: Rules = RULES) -> Derivation | None:
    """Return the firings that lead from one definition to another; None if there are none."""
    folds = sum(isinstance(part, Fold) for line in written.lines for part in walk(line.term))
    if folds > MOST_FOLDS or _text(written) == _text(computed):
        return None
    return _by_rules(str(written), _text(computed), rules)


def _text(definition: Definition) -> str:
    """Return a text that definitions share if they differ only in names or places of scores."""
    return nameless(canonical(scores_inlined(definition)))


@lru_cache(64)
def _by_rules(written: str, computed: str, rules: Rules) -> Derivation | None:
    try:
        spaces = (space_of(written, some) for some in (rules, GENTLE))
        programs = (p for space in spaces for p in judged_programs(space))
        alike = (p.derivation for p in programs if _text(p.definition) == computed)
        return next(alike, None)
    except (LabError, ValueError):  # rules cannot read it: it may draw random numbers
        return None
