"""Passes written as code that try something at one node after another, and can explain themselves.

A `Walk` is such a pass at work. It decides by the questions of `Asking`, so that `why_not` can run
the same code once more, at a node of the graph that the pass has left, and listen.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.asking import Asking, Inquiry, Misfit
from luminal_lab.passes.base import Pass
from luminal_lab.passes.rule import FACTS


class Walk(Asking):
    """A pass at work on a graph that it changes."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        self.wanted: dict[str, None] = {}
        """The facts that it has requested, while somebody listens."""

    def search(self, name: str, node: Node) -> None:
        """Try one of the pass's searches at a node."""
        raise NotImplementedError

    def grants(self, fact: str) -> bool:
        """Return whether the licence grants a fact."""
        if self.inquiry is not None:
            self.wanted[fact] = None
        return fact in self.edit.licence


class Walking(Pass):
    """A pass that walks, and looks for one thing, or for several that it names."""

    def walk(self, edit: Edit) -> Walk:
        """Return the pass at work on a graph."""
        raise NotImplementedError

    @override
    def searches(self) -> tuple[str, ...]:
        return (self.name,)

    @override
    def why_not(self, ir: IR, search: str, node: Node) -> str:
        edit = Edit(ir)
        self.run(ir, edit)  # what it does elsewhere counts
        after = edit.ir()
        if node.id not in after:
            return f"{search}: {node} is gone by then."
        return self.told(after, [search], after[node.id])

    def told(self, after: IR, searches: Sequence[str], node: Node) -> str:
        """Say how far searches get at a node of the graph that the pass has left.

        Of several, the one that gets furthest is reported.
        """
        name = searches[0] if len(searches) == 1 else self.name
        if not (after.users(node) or after.is_output(node)):
            return f"{name} leaves {node} to dce: nothing reads it."
        missed: list[tuple[str, Misfit]] = []
        for search in searches:
            edit = Edit(after, licence=FACTS)  # what no licence would bring has another reason
            walk = self.walk(edit)
            inquiry = walk.inquiry = Inquiry()
            walk.search(search, node)
            if edit.log:
                return f"{search} {_kept(walk, node)}"
            if inquiry.furthest is not None:
                missed.append((search, inquiry.furthest))
        if not missed:
            return f"{name} finds nothing at {node}."
        search, furthest = max(missed, key=lambda pair: _far(pair[1], node))
        if _far(furthest, node) > (0, False):
            return furthest.told(search)
        whys = dict.fromkeys(misfit.why for _, misfit in missed)  # none of them begins
        return furthest._replace(why="; ".join(whys)).told(name)


def _far(misfit: Misfit, node: Node) -> tuple[int, bool]:
    """Return how far a search got: one that ends at the node itself has not begun."""
    return len(misfit.steps), misfit.node.id != node.id


def _kept(walk: Walk, node: Node) -> str:
    """Say what kept a search from firing that would otherwise fire."""
    if not walk.wanted:
        return f"finds something at {node} now: the pass ended before."
    said = " and ".join(f"{fact} ({FACTS[fact]})" for fact in walk.wanted)
    return f"assumes {said} at {node}, which the licence does not grant."
