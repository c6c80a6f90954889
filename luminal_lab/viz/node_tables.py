"""Graphs as pandas tables: a row for each node, with all its facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import mentioned
from luminal_lab.core.ops import Input
from luminal_lab.core.printer import print_node
from luminal_lab.passes.diff import Diff
from luminal_lab.tables import Table, frame
from luminal_lab.timing.work import is_work, work_of

COLUMNS: Final = tuple(
    """
    id name op text dtype shape sources readers is_input is_output scope file line code rule flops
    bytes
    """.split()  # noqa: SIM905  # a list of names reads better so
)
NO_DIMS: Final[Mapping[str, int]] = {}


def node_table(ir: IR, dims: Mapping[str, int] = NO_DIMS) -> Table:
    """Return a graph's nodes in the order of its text.

    Operations and bytes are counted where all sizes are known; `dims` sizes symbolic ones.
    """
    return frame("graph", COLUMNS, _rows(ir, ir, dims), {"graph": ir.name})


def diff_table(diff: Diff) -> Table:
    """Return the nodes of two graphs: added, removed, rewired and kept."""
    parts: list[tuple[str, IR, Iterable[Node]]] = [
        ("added", diff.after, diff.added),
        ("removed", diff.before, diff.removed),
        ("rewired", diff.after, [new for _, new in diff.rewired]),
        ("kept", diff.after, diff.kept),
    ]
    rows = ((status, *row) for status, ir, nodes in parts for row in _rows(ir, nodes, NO_DIMS))
    return frame("diff", ("status", *COLUMNS), rows)


def _rows(ir: IR, nodes: Iterable[Node], dims: Mapping[str, int]) -> Iterator[tuple[object, ...]]:
    outputs, inputs = set(ir.output_ids), set(ir.input_ids)
    for node in nodes:
        origin, derivation = node.meta.origin, node.meta.derivation
        flops, size = _work(ir, node, dims)
        yield (
            *(node.id, node.name, node.op.name, print_node(ir, node).strip()),
            *(str(node.dtype), tuple(_plain(dim) for dim in node.shape)),
            *(tuple(ir[id].name for id in node.sources), len(ir.users(node))),
            *(node.id in inputs or isinstance(node.op, Input), node.id in outputs),
            node.meta.scope,
            *((None, None, None) if origin is None else (origin.file, origin.line, origin.text)),
            *(None if derivation is None else derivation.rule, flops, size),
        )


def _work(ir: IR, node: Node, dims: Mapping[str, int]) -> tuple[int | None, int | None]:
    """Return a node's operations and bytes, or None where a size is unknown."""
    if not is_work(node):
        return 0, 0
    around = [node, *(ir[id] for id in node.sources)]
    needed = mentioned(
        [type for neighbour in around for type in neighbour.types],
        [neighbour.op for neighbour in around],
    )
    if any(name not in dims for name in needed):
        return None, None
    work = work_of(ir, node, dims)
    return work.flops, work.bytes


def _plain(dim: object) -> int | str:
    return dim if isinstance(dim, int) else str(dim)
