"""Folds of which one needs another over the same axis: in one pass instead of two."""

from collections.abc import Iterator

from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import Folded, Node, Online, Ratio
from luminal_lab.search.rules.rule import rule


@rule(
    "sum j: x, x with a fold over j",
    "online j: what was summed * ratio[j](x) + x, the ratio without j",
    Folded,
)
def cascade(egraph: EGraph, node: Node) -> Iterator[int]:
    """Rescale what was summed by how its terms have changed, wherever in the sum they stand."""
    fold = node.operator
    assert isinstance(fold, Folded)
    (body,) = node.children
    axis = fold.axis.name
    if fold.kind == "sum" and axis in egraph.facts(body).moving:
        ratio = egraph.add(Ratio(fold.axis, fold.dtype), body)
        facts = egraph.facts(ratio)
        if facts.is_solved and axis not in facts.free:
            yield egraph.add(Online(fold.axis, fold.size, fold.dtype), ratio, body)


CASCADE = (cascade,)
