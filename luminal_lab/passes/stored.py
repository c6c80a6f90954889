"""The values of `stored` nodes: computed by the interpreter when inputs change, and kept.

    %q = stored{body = q8_0_quants} %w : i8[64, 64]

A compiled graph reads such a node as an input. This is how weights are stored in a form other than
their own: computed at the first run, and again only after the weight was set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Stored


class Kept(NamedTuple):
    """A value, and the versions of its inputs; None if they are unknown."""

    value: Array
    versions: tuple[int | None, ...]


class Storage:
    """The values of the stored nodes of one graph."""

    def __init__(self, ir: IR) -> None:
        self.ir = ir
        self.stored = {node.id for node in ir if isinstance(node.op, Stored)}
        self.kept: dict[int, Kept] = {}
        self._needed: dict[frozenset[int], set[int]] = {}

    def values(self, environment: Environment, wanted: Iterable[int]) -> dict[int, Array]:
        """Return the values of the stored nodes that the wanted ones depend on."""
        needed = self.needed(wanted)
        old = [id for id in needed if not self._is_present(id, environment)]
        if old:
            plain = environment._replace(probes={})
            for id, value in interpret(self.ir, plain, wanted=old).items():
                self.kept[id] = Kept(value, self._versions(id, environment))
        return {id: self.kept[id].value for id in needed}

    def needed(self, wanted: Iterable[int]) -> set[int]:
        """Return the stored nodes that the wanted ones depend on."""
        if not self.stored:
            return set()
        targets = frozenset(wanted)
        if targets not in self._needed:
            self._needed[targets] = self.stored & live(self.ir, targets)
        return self._needed[targets]

    def _versions(self, id: int, environment: Environment) -> tuple[int | None, ...]:
        return tuple(environment.versions.get(source) for source in self.ir[id].sources)

    def _is_present(self, id: int, environment: Environment) -> bool:
        versions = self._versions(id, environment)
        return id in self.kept and None not in versions and self.kept[id].versions == versions


def live(ir: IR, wanted: Iterable[int]) -> set[int]:
    """Return the ids that a run for some nodes computes or reads; stored nodes end the search.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse('''
    ... graph g(%w: f32[2]) -> (%y) {
    ...   %h = stored{body = half} %w : bf16[2]
    ...   %y = cast{dtype = f32} %h : f32[2]
    ... }
    ... graph half(%w: f32[2]) -> (%h) { %h = cast{dtype = bf16} %w : bf16[2] }
    ... ''')
    >>> [ir[id].name for id in sorted(live(ir, ir.output_ids))]
    ['h', 'y']
    """
    reached: set[int] = set()
    todo = list(wanted)
    while todo:
        id = todo.pop()
        if id not in reached:
            reached.add(id)
            node = ir[id]
            if not isinstance(node.op, Stored):
                todo += node.sources
    return reached
