"""How a space came to be: its rules fired once more, with all that each has made on record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.algebra.egraph import EGraph, Reason
from luminal_lab.algebra.language import ENode
from luminal_lab.algebra.reading import read_definition
from luminal_lab.algebra.rules.rule import Fire, Rule
from luminal_lab.algebra.saturate import saturate
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.tensor.arguments import told_object


class ClassThen(NamedTuple):
    """A class as it was after a round."""

    dtype: DType
    free: frozenset[str]
    """The axes that its value depends on."""
    nodes: tuple[tuple[int, ENode], ...]
    """Its nodes with their numbers, oldest first."""


class Union(NamedTuple):
    """Two classes that became one."""

    reason: Reason
    kept: int
    gone: int
    entered: range
    """The numbers of the nodes that were entered for that."""


class Maker(NamedTuple):
    """What made a node: a rule, the node on which it fired, and when."""

    rule: str
    number: int
    round: int


class GrowthRound(NamedTuple):
    """What there was after each rule had been tried on each node once more."""

    classes: Mapping[int, ClassThen]
    unions: tuple[Union, ...]


class _Watched(EGraph):
    """An e-graph that records what happens to it."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        super().__init__()
        self.rounds: list[GrowthRound] = []
        self.makers: dict[int, Maker] = {}
        self._names = {rule.fire: rule.name for rule in rules}
        self._unions: list[Union] = []
        self._seen = 0
        self._firing: tuple[str, int] | None = None

    @override
    def fired(self, fire: Fire, node: ENode) -> Iterator[int]:
        self._firing = self._names[fire], self.number_of(node)
        yield from super().fired(fire, node)
        self._entered()
        self._firing = None

    def _entered(self) -> range:
        """Return the numbers of the new nodes, and note what made them."""
        numbers = range(self._seen, len(self.entered))
        if self._firing is not None:
            maker = Maker(*self._firing, len(self.rounds))
            self.makers.update(dict.fromkeys(numbers, maker))
        self._seen = len(self.entered)
        return numbers

    @override
    def union(self, first: int, second: int, rule: str = "", whole: str = "") -> bool:
        kept, gone = sorted((self.find(first), self.find(second)))
        is_new = super().union(first, second, rule, whole)
        if is_new:
            self._unions.append(Union(self.reasons[-1], kept, gone, self._entered()))
        return is_new

    @override
    def rebuild(self) -> None:
        """End a round."""
        super().rebuild()
        self.keep()

    def keep(self) -> None:
        """Record the classes as they are now."""
        classes: dict[int, list[tuple[int, ENode]]] = {}
        for number, node in self.each():
            classes.setdefault(number, []).append((self.number_of(node), node))
        held = {
            number: ClassThen(self.facts(number).dtype, self.facts(number).free, tuple(nodes))
            for number, nodes in classes.items()
        }
        self.rounds.append(GrowthRound(held, tuple(self._unions)))
        self._entered()
        self._unions = []


@told_object("growth")
@dataclass(frozen=True)
class Growth:
    """The classes of a space as they were written, and after each round of its rules.

    The same rules always make the same nodes under the same numbers.
    """

    rounds: tuple[GrowthRound, ...]
    """As written, and after each round that brought something new."""
    makers: Mapping[int, Maker]
    """What made each node that was not written and that is not another one in normal form."""

    @classmethod
    def of(cls, definition: Definition, rules: Iterable[Rule]) -> Growth:
        """Fire rules on a definition again."""
        rules = [*rules]
        egraph = _Watched(rules)
        read_definition(egraph, definition)
        egraph.keep()
        saturate(egraph, rules)
        first, *others = egraph.rounds
        pairs = zip([first, *others], others, strict=False)
        changed = [later for earlier, later in pairs if later.classes != earlier.classes]
        return cls((first, *changed), egraph.makers)

    def round_of(self, reason: Reason) -> int:
        """Return the number of the round in which a reason arose; 0 is what was written."""
        return next(
            number
            for number, each in enumerate(self.rounds)
            if any(union.reason == reason for union in each.unions)
        )
