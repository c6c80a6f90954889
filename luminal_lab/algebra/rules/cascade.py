"""Folds that need another fold over the same axis: in one pass instead of two."""

from collections.abc import Iterator

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import Folded, Online, Ratio
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.core.dims import bounds


@equation(
    "sum j: x",
    "online j: acc * ratio[j](x) + x",
    where="x with a fold over j, the ratio without j, j not empty",
    assumes=FINITE,
)
def cascade(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
    """Rescale the sum so far by how its terms have changed, wherever they occur in the sum."""
    if fold.axis.name in egraph.facts(body).moving and bounds(fold.size)[0]:
        ratio = egraph.add(Ratio(fold.axis, fold.dtype), body)
        facts = egraph.facts(ratio)
        if facts.is_solved and fold.axis.name not in facts.free:
            yield egraph.add(Online(fold.axis, fold.size, fold.dtype), ratio, body)


CASCADE = (cascade,)
