"""Dependencies in a graph, cached for repeated runs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cached_property

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Random
from luminal_lab.tensor.sizes import Mentioned, mentions

MOST = 100
"""The number of cached answers of each kind."""


class Reach:
    """The dependencies in an unchanging graph."""

    def __init__(self, ir: IR) -> None:
        self._table = ir.table.copy()
        self._ir = ir
        self._needed: dict[frozenset[int], frozenset[int]] = {}
        self._own: dict[int, Node] | None = None
        self._open: tuple[Node, ...] | None = None
        self._stale: dict[frozenset[int], frozenset[int]] = {}
        self._mentions: dict[frozenset[int], Mentioned] = {}
        self.sizes: dict[object, dict[str, int]] = {}
        """The sizes of dims that were found for some shapes of data."""

    def is_of(self, ir: IR) -> bool:
        """Return whether a graph has the same nodes."""
        return self._ir is ir or self._table.shares_all(ir.table)

    def needed(self, asked: Iterable[int]) -> frozenset[int]:
        """Return the given nodes and all their ancestors."""
        key = frozenset(asked)
        if key not in self._needed:
            if len(self._needed) >= MOST:
                self._needed.clear()
            self._needed[key] = frozenset(self._ir.ancestors(key))
        return self._needed[key]

    def stale(self, changed: Iterable[int]) -> frozenset[int]:
        """Return those of the given nodes that exist, and all their descendants."""
        key = frozenset(changed)
        stale = self._stale.get(key)
        if stale is None:
            if len(self._stale) >= MOST:
                self._stale.clear()
            there = [id for id in key if id in self._ir]
            stale = self._stale[key] = frozenset(self._ir.descendants(there))
        return stale

    def mentions(self, needed: frozenset[int]) -> Mentioned:
        """Return the symbols that nodes mention, each with the first such node."""
        if needed not in self._mentions:
            if len(self._mentions) >= MOST:
                self._mentions.clear()
            self._mentions[needed] = mentions(self._ir, needed)
        return self._mentions[needed]

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The inputs, in order."""
        return self._ir.inputs

    def own_inputs(self, lent: Container[int]) -> Mapping[int, Node]:
        """Return the inputs that are not lent, by their ids."""
        if self._own is None:
            self._own = {node.id: node for node in self.inputs if node.id not in lent}
        return self._own

    def open_inputs(self, lent: Container[int]) -> tuple[Node, ...]:
        """Return those whose shapes are symbolic."""
        if self._open is None:
            own = self.own_inputs(lent).values()
            self._open = tuple(node for node in own if node.type.is_symbolic)
        return self._open

    @cached_property
    def random(self) -> frozenset[int]:
        """The nodes that draw random numbers."""
        return frozenset(node.id for node in self._ir if _is_random(node.op))


def _is_random(op: Op) -> bool:
    body = op.body_of()
    return isinstance(op, Random) or (body is not None and any(_is_random(n.op) for n in body))
