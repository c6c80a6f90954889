"""`generic`: the passes for every device, to a fixpoint; `cx.compile()` runs them by default.

Redundant work goes (views compose, arithmetic and constants are evaluated, equal values become
one) until nothing changes; named regions for later passes are recognised; views and reductions
move to where they cost less. All of this repeats until nothing changes; then an order with a low
memory peak is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.passes.base import spec_text
from luminal_lab.passes.constant_folding import ConstantFolding
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.merge_reductions import MergeReductions
from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
from luminal_lab.passes.push_views import PushViews
from luminal_lab.passes.reassociation import Reassociation
from luminal_lab.passes.recognition.recognise import Recognise
from luminal_lab.passes.schedule import DepthFirst
from luminal_lab.passes.simplify import Simplify
from luminal_lab.passes.single_reductions import SingleReductions
from luminal_lab.passes.subexpressions import CommonSubexpressions
from luminal_lab.passes.twelve import FromTwelve, ToTwelve
from luminal_lab.passes.view_composition import ViewComposition

__all__ = ["GenericCompiler", "parse_pipeline"]

ROUNDS = 10
"""The most rounds: more than any model has needed, as each changing round removes work."""
BESIDE = (Inlining, ToTwelve, FromTwelve)
"""Passes outside the generic pipeline that pipeline text knows as well."""
CLEANING = (
    DeadCode(),
    ViewComposition(),
    SingleReductions(),
    Simplify(),
    ConstantFolding(),
    CommonSubexpressions(),
    DeadCode(),
)
"""The passes that remove redundant work."""
TIDYING = frozenset(step.name for step in CLEANING)
"""Their names: their firings say less about a compile than the changes that they clean up after."""
ARRANGING = (Reassociation(), MergeReductions(), PushViews())
"""The passes that move work; they follow recognition, as a slice moved into a softmax hides it."""


@dataclass(frozen=True, init=False, repr=False)
class GenericCompiler(Pipeline):
    """Remove redundant work, recognise named regions, and choose an order.

    >>> print(GenericCompiler())
    generic
    >>> print(GenericCompiler(licence=["no_nan", "no_inf"]))
    generic{licence = [no_inf, no_nan]}
    """

    name: ClassVar[str] = "generic"

    def __init__(self, *, licence: Iterable[str] | None = None) -> None:
        clean = Pipeline(CLEANING, rounds=ROUNDS)
        work = Pipeline([clean, Recognise(), *ARRANGING], rounds=ROUNDS)
        super().__init__([work, DepthFirst()], licence=licence)

    @override
    def __str__(self) -> str:
        facts = {} if self.licence is None else {"licence": self.licence}
        return spec_text(self.name, dict(facts))
