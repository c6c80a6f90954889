"""Why a program computes what was written: the firings that lead from one to the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from luminal_lab.search.egraph import EGraph, Equal, Reason
from luminal_lab.search.pick import Pick


@dataclass(frozen=True)
class Firing:
    """A rule that fired: the number of what it found, and of what it made."""

    rule: str
    before: int
    after: int
    at: int
    """Its position among all reasons."""


def derivation(egraph: EGraph, written: Mapping[str, int], pick: Pick) -> list[Firing]:
    """Return the firings that make a program's nodes equal to what was written, in order."""
    proof = _Proof(egraph)
    for name, number in written.items():
        proof.need(number, egraph.number_of(pick.node(pick.outputs[name])))
    for number in pick.order:
        for child in pick.node(number).children:
            proof.need(child, egraph.number_of(pick.node(child)))
    return [
        Firing(reason.rule, reason.first, reason.second, at)
        for at, reason in sorted(proof.used.items())
        if reason.rule
    ]


class _Proof:
    """The reasons that some equalities rest on."""

    def __init__(self, egraph: EGraph) -> None:
        self.reasons = egraph.reasons
        self.near: dict[int, list[tuple[int, int]]] = {}
        for at, reason in enumerate(egraph.reasons):
            self.near.setdefault(reason.first, []).append((reason.second, at))
            self.near.setdefault(reason.second, []).append((reason.first, at))
        self.used: dict[int, Reason] = {}
        self.shown: set[Equal] = set()

    def need(self, first: int, second: int) -> None:
        """Use the reasons for two numbers being equal, and those that these rest on."""
        todo = [(first, second)]
        while todo:
            pair = todo.pop()
            if pair not in self.shown:
                self.shown.add(pair)
                for at in self.path(*pair):
                    if at not in self.used:
                        self.used[at] = self.reasons[at]
                        todo += self.reasons[at].premises

    def path(self, first: int, second: int) -> list[int]:
        """Return the reasons on the shortest way between two numbers."""
        came: dict[int, tuple[int, int]] = {first: (first, -1)}
        todo = deque([first])
        while todo and second not in came:
            number = todo.popleft()
            for other, at in self.near.get(number, ()):
                if other not in came:
                    came[other] = number, at
                    todo.append(other)
        found: list[int] = []
        while second != first:
            second, at = came[second]
            found.append(at)
        return found
