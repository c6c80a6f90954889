"""The nodes that two versions of a graph share, derived from ids and records."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from typing_extensions import override

from luminal_lab.core.ir import IR, Node, check_ir
from luminal_lab.display import DrawnGraph
from luminal_lab.tensor.arguments import told_object


@told_object("diff")
@dataclass(frozen=True, repr=False)
class Diff(DrawnGraph):
    """The nodes of two versions of a graph; `str` is a unified diff of their texts.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor(("batch", 4), name="x").softmax(-1).retrieve()
    >>> compiled = cx.compile()
    >>> change = ll.diff(compiled.written, compiled.ir)
    >>> len(change.added), len(change.removed)
    (1, 12)
    """

    added: tuple[Node, ...]
    removed: tuple[Node, ...]
    rewired: tuple[tuple[Node, Node], ...]
    """Pairs of records, before and after, of nodes whose sources changed."""
    kept: tuple[Node, ...]
    before: IR
    after: IR

    @property
    def is_empty(self) -> bool:
        """Whether both are the same graph."""
        same = self.before.signature == self.after.signature
        return same and not (self.added or self.removed or self.rewired)

    @override
    def __str__(self) -> str:
        old, new = str(self.before).splitlines(), str(self.after).splitlines()
        lines = difflib.unified_diff(old, new, "before", "after", lineterm="")
        return "\n".join(lines) or "no difference"

    @override
    def __repr__(self) -> str:
        return (
            f"<Diff: {len(self.added)} added, {len(self.removed)} removed, "
            f"{len(self.rewired)} rewired, {len(self.kept)} kept>"
        )


def diff(before: IR, after: IR) -> Diff:
    """Compare two versions of a graph.

    >>> from luminal_lab.core.edit import Edit
    >>> from luminal_lab.core.parse import parse
    >>> a = parse("graph g(%x: f32[2]) -> (%z) { %y = sin %x : f32[2]  %z = sqrt %y : f32[2] }")
    >>> edit = Edit(a)
    >>> edit.replace("y", "x", rule="no-sines")
    >>> edit.erase("y", rule="unused")
    >>> diff(a, edit.ir())
    <Diff: 0 added, 1 removed, 1 rewired, 1 kept>
    """
    for ir in (before, after):
        check_ir("diff", ir)
    added: list[Node] = []
    rewired: list[tuple[Node, Node]] = []
    kept: list[Node] = []
    for node in after.nodes:
        old = before.table.get(node.id)
        if old is None or not node.is_version_of(old):
            added.append(node)
        elif old is node or old.sources == node.sources:
            kept.append(node)
        else:
            rewired.append((old, node))
    get = after.table.get
    removed = [
        node
        for node in before.nodes
        if (new := get(node.id)) is None or not new.is_version_of(node)
    ]
    return Diff(tuple(added), tuple(removed), tuple(rewired), tuple(kept), before, after)
