"""A rule of search: an equation, and the function that finds its right side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from typing_extensions import override

from luminal_lab.algebra.language import Applied, ENode, Folded, Operator
from luminal_lab.algebra.rules.side import RuleSide, parse_side
from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, DefinitionError, nearest
from luminal_lab.passes.rule import FACTS
from luminal_lab.tables import aligned, heads

FINITE = frozenset({"no_nan", "no_inf"})
Fire: TypeAlias = Callable[..., Iterator[int]]
"""Yields what a node equals, given the e-graph, the node's operator, and its parts."""


@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """An equation, from its left side to its right side."""

    name: str
    before: str
    after: str
    fire: Fire
    where: str = ""
    """Its condition, which its function checks."""
    assumes: frozenset[str] = frozenset()
    """The assumptions about values that it needs, beyond the order of rounding."""
    grows: bool = False
    """Whether it may keep making nodes: the number of nodes is then limited."""
    whole: bool = False
    """Whether it holds only for a finished fold, and not for a running one."""
    is_proved: bool = False

    @cached_property
    def sides(self) -> tuple[RuleSide, RuleSide]:
        """Both sides, parsed."""
        return parse_side(self.before), parse_side(self.after)

    @cached_property
    def kind(self) -> type[Operator]:
        """The kind of operator at the root of the left side."""
        return self.sides[0].operator[0]

    def matches(self, node: ENode) -> bool:
        """Return whether a node has the operator at the root of the left side."""
        kind, word = self.sides[0].operator
        operator = node.operator
        if not isinstance(operator, kind):
            return False
        if isinstance(operator, Folded):
            return operator.kind == word
        return not isinstance(operator, Applied) or operator.op.name == word

    @override
    def __str__(self) -> str:
        facts = " and ".join(FACTS[fact] for fact in FACTS if fact in self.assumes)
        conditions = [self.where, f"if {facts}" if facts else ""]
        return ", ".join([f"{self.name}: {self.before} → {self.after}", *filter(None, conditions)])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Rule {self}>"


def equation(
    before: str,
    after: str,
    *,
    where: str = "",
    assumes: Iterable[str] = (),
    grows: bool = False,
    whole: bool = False,
) -> Callable[[Fire], Rule]:
    """Make a rule named after the decorated function; it is not proved yet."""

    def named(fire: Fire) -> Rule:
        name = fire.__name__.replace("_", "-")
        facts = frozenset(assumes)
        for fact in sorted(facts - FACTS.keys()):
            raise DefinitionError(
                f"rule {name!r}: there is no fact {fact!r} to assume",
                hint=nearest(fact, FACTS) or f"the facts: {', '.join(FACTS)}",
            )
        return Rule(name, before, after, fire, where, facts, grows, whole)

    return named


class Rules:
    """Rules in the order in which they are tried; `+` appends more.

    Their text is a table, without what they assume.

    >>> from luminal_lab.search import RULES
    >>> print(RULES["sum-swap"])
    sum-swap: sum j: sum k: x → sum k: sum j: x, if no value is NaN and no value is infinite
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.name: rule for rule in rules}

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def __getitem__(self, name: str) -> Rule:
        if name not in self._rules:
            raise ArgumentError(
                f"rules: there is no rule {name!r}", hint=nearest(name, self._rules)
            )
        return self._rules[name]

    def __add__(self, others: Iterable[Rule]) -> Rules:
        return Rules([*self, *others])

    def without(self, *names: str) -> Rules:
        """Return the rules without those of some names."""
        gone = {self[name].name for name in names}
        return Rules(rule for rule in self if rule.name not in gone)

    @override
    def __str__(self) -> str:
        rows = [(each.name, each.before, each.where, "→", each.after) for each in self]
        return "\n".join(aligned(heads("< rule < before < where < → < after"), rows))

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Rules: {len(self)}; print(…) shows them>"
