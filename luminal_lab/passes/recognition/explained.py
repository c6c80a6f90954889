"""A reading that listens to a recogniser: how a graph answered it, and where it stopped.

Each question of `Reading` notes its answer here. A recogniser reports its own decisions with
`holds` or `missed`, so that nothing is reported that is not in its code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import Node, NodeLookup
from luminal_lab.core.op import Op, Reduce
from luminal_lab.core.ops import Call
from luminal_lab.passes.asking import Inquiry, is_not, kind_of
from luminal_lab.passes.pattern import OpPattern, why_not
from luminal_lab.passes.recognition.reading import F, Reading, Recogniser


class ExplainedReading(Reading):
    """A graph in the recognisers' view, with an inquiry that hears all questions and answers."""

    def __init__(self, graph: NodeLookup) -> None:
        super().__init__(graph)
        self.heard = self.inquiry = Inquiry()
        self.plain = Reading(graph)
        """Answers further questions within a question, unheard."""

    @override
    def source(self, node: Node, op: type[Op]) -> Node | None:
        source, base = self.plain.source(node, op), self.base(node)
        if source is None:
            self.heard.missed(base, is_not(base, op))
        else:
            self.heard.step(f"{base} is {op.name} of {source}")
        return source

    @override
    def pairs(self, node: Node, op: type[Op]) -> Iterator[tuple[Node, Node]]:
        pairs = self.plain.pairs(node, op)
        return self.heard.each(pairs, f"{node} is {op.name}", node, is_not(node, op))

    @override
    def at(self, recogniser: Recogniser[F], node: Node) -> F | None:
        inquiry, name = self.heard, recogniser.name
        length = len(inquiry.path)
        if isinstance(node.op, Call):
            region = self.plain.at(recogniser, node)
            if region is None:
                inquiry.missed(node, f"{node} is {kind_of(node)}, and that is no {name}")
        else:
            inquiry.step(f"of {node}, is it {name}?")
            region = super().at(recogniser, node)
            if region is None:
                inquiry.missed(node, f"{node} is no {name}")
        inquiry.back(length)
        if region is not None:
            inquiry.step(f"{node} is {name} of {' and '.join(map(str, region.sources.values()))}")
        return region

    @override
    def found(self, pattern: OpPattern, node: Node) -> Iterator[dict[str, Any]]:
        misfit = why_not(pattern, node, self.graph)
        if misfit is not None:
            self.heard.missed(misfit.node, misfit.why, misfit.steps)
        return super().found(pattern, node)

    # -- numbers -----------------------------------------------------------------------------------

    @override
    def is_number(self, node: Node, value: float) -> bool:
        is_number = self.plain.is_number(node, value)
        return self.holds(
            is_number, node, "{} is {}, not the number {}", node, _seen(self, node), value
        )

    @override
    def is_reciprocal(self, node: Node, count: Dim) -> bool:
        is_reciprocal = self.plain.is_reciprocal(node, count)
        return self.holds(is_reciprocal, node, "{} is {}, not 1/{}", node, _seen(self, node), count)

    @override
    def multiple(self, node: Node, factor: float) -> Node | None:
        other, base = self.plain.multiple(node, factor), self.base(node)
        if other is None:
            self.missed(base, "{} is {}, not a product with {}", base, kind_of(base), factor)
        else:
            self.heard.step(f"{base} is {other} · {factor:.6g}")
        return other

    @override
    def difference(self, node: Node) -> Iterator[tuple[Node, Node]]:
        why = f"{node} is {kind_of(node)}, not a difference: x + y · -1"
        return self.heard.each(self.plain.difference(node), f"{node} is a difference", node, why)

    # -- reductions --------------------------------------------------------------------------------

    @override
    def reduced(self, node: Node, op: type[Reduce]) -> Iterator[tuple[Node, tuple[int, ...]]]:
        reduced = self.plain.reduced(node, op)
        return self.heard.each(reduced, f"{node} is {op.name}", node, is_not(node, op))


def _seen(reading: Reading, node: Node) -> str:
    """Say what a value is where a number was wanted."""
    number = reading.number(node)
    return kind_of(reading.base(node)) if number is None else str(number)
