"""What a rule of search is: an equation, and the function that finds its right side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from luminal_lab.search.egraph import EGraph
from luminal_lab.search.language import Node, Operator

Fire: TypeAlias = Callable[[EGraph, Node], Iterator[int]]


@dataclass(frozen=True)
class Rule:
    """An equation, from its left side to its right one."""

    name: str
    before: str
    after: str
    on: type[Operator]
    """The operator of the nodes that it is tried on."""
    fire: Fire
    """Yields what a node is equal to."""
    grows: bool = False
    """Whether it may go on making nodes: then a region has a limit of them."""

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}"


def rule(
    before: str, after: str, on: type[Operator], *, grows: bool = False
) -> Callable[[Fire], Rule]:
    """Make a rule of the function that is decorated; its name is the function's."""

    def made(fire: Fire) -> Rule:
        return Rule(fire.__name__.replace("_", "-"), before, after, on, fire, grows)

    return made
