"""What keeps neighbours from becoming one kernel: breaks, stored values, copies.

y = (x * 2).graph_break() + 1        two kernels, and an array between them
h = (x * 2).retrieve(); h + 1        h is written to memory for somebody who may not need it
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from luminal_lab.advice.suspect import Case, Suspect, Variant, by_line, called, edited
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Contiguous, GraphBreak


def breaks(case: Case) -> Iterator[Suspect]:
    """Yield the lines that forbid fusion."""
    barriers = [node for node in case.written if isinstance(node.op, GraphBreak)]
    for nodes in by_line(case.written, barriers):
        yield Suspect(
            "graph-break",
            "graph_break() keeps two kernels apart",
            "the value before it is written to memory, and read again by what follows",
            "take out graph_break()",
            tuple(node.id for node in nodes),
            partial(_without, case.written, nodes),
        )


def copies(case: Case) -> Iterator[Suspect]:
    """Yield the lines that ask for a copy."""
    copying = [node for node in case.written if isinstance(node.op, Contiguous)]
    for nodes in by_line(case.written, copying):
        yield Suspect(
            "copy",
            "contiguous() copies an array",
            "a view moves nothing by itself: kernels read through transposes and slices",
            "take out contiguous()",
            tuple(node.id for node in nodes),
            partial(_without, case.written, nodes),
        )


def _without(ir: IR, nodes: list[Node]) -> Variant:
    """Return a graph in which some nodes are replaced by their sources."""

    def change(edit: Edit) -> None:
        for node in nodes:
            edit.replace(node.id, edit[node.id].sources[0])

    return Variant(edited(ir, change))


def stored(case: Case) -> Iterator[Suspect]:
    """Yield retrieved values from which others are computed."""
    ir = case.written
    outputs = set(case.asked)
    carried = {id for id, _ in ir.carries}
    middle = [
        ir[id]
        for id in ir.output_ids
        if id in outputs - carried
        and not ir[id].op.name.startswith("input")
        and (ir.descendants([id]) - {id}) & set(ir.output_ids)
    ]
    for nodes in by_line(ir, middle):
        name = called(nodes[0]) if len(nodes) == 1 else f"{len(nodes)} values"
        yield Suspect(
            "retrieved",
            f"{name} in the middle of the graph {'is' if len(nodes) == 1 else 'are'} retrieved",
            "a retrieved value is written to memory whole, and what follows it cannot share a "
            "kernel with what comes before",
            "take out retrieve() or keep(), if nobody reads that value",
            tuple(node.id for node in nodes),
            partial(_unasked, ir, {node.id for node in nodes}),
        )


def _unasked(ir: IR, ids: set[int]) -> Variant:
    wanted = tuple(id for id in ir.output_ids if id not in ids)
    signature = ir.signature._replace(outputs=wanted)
    return Variant(IR(ir.table, name=ir.name, **signature._asdict()))
