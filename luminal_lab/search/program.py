"""A program of a space: what it computes, how exactly, and why it is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from typing_extensions import override

from luminal_lab.algebra.defining import defined
from luminal_lab.algebra.pick import Pick
from luminal_lab.display import Displayed
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.search.derivation import Derivation
from luminal_lab.search.judge import Judgement, judged
from luminal_lab.search.space import Space, Way
from luminal_lab.tensor.arguments import told_object

TRIED = 24
"""At most this many programs are judged until one is right."""


@told_object("program")
@dataclass(frozen=True, repr=False)
class Program(Displayed):
    """One way to compute what was written.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    >>> space = ll.search.space_of(cx.ir)
    >>> program = next(iter(ll.search.judged_programs(space)))
    >>> print(program.definition)
    kernel main(x: f32[4, 8]) -> (O: f32[4, 8])
      s[i < 4] = recip(sum j < 8: exp2((x[i, j] - (max k < 8: x[i, k])) * 1.442695))
      O[i < 4, j < 8] = exp2((x[i, j] - (max k < 8: x[i, k])) * 1.442695) * s[i]
    """

    space: Space
    pick: Pick

    @cached_property
    def definition(self) -> Definition:
        """What it computes, in index notation."""
        return defined(self.space.definition, self.pick)

    @cached_property
    def verdict(self) -> Judgement:
        """How exact it is, and why it is refused, if it is."""
        return judged(self.space, self.pick)

    @cached_property
    def derivation(self) -> Derivation:
        """The firings that lead from what was written to it."""
        return Derivation(self.space, self.pick)

    @property
    def cost(self) -> float:
        """What it costs by the model, in additions."""
        return self.pick.cost

    @override
    def __str__(self) -> str:
        return f"{self.definition}" + f"\nrefused: {self.verdict.refusal}" * self.is_refused

    @property
    def is_refused(self) -> bool:
        """Whether it is less exact than what was written."""
        return bool(self.verdict.refusal)

    @override
    def __repr__(self) -> str:
        return f"<Program of {self.cost:,.0f} additions{', refused' * self.is_refused}>"


def judged_programs(space: Space) -> Iterator[Program]:
    """Yield programs, the cheapest first, each without what made the earlier ones wrong.

    The last one is right, if any is.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    >>> space = ll.search.space_of(cx.ir)
    >>> programs = ll.search.judged_programs(space)
    >>> next(programs)
    <Program of 980 additions>
    """
    wrong: dict[Way, None] = {}
    for _ in range(TRIED):
        picks = space.programs(1, wrong)
        if not picks:
            return
        program = Program(space, picks[0])
        yield program
        if program.verdict.wrong is None:
            return
        wrong[program.verdict.wrong] = None
