"""Why a program computes what was written: the firings that lead from one to the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Generic, TypeVar, overload

import numpy as np
from typing_extensions import override

from luminal_lab.algebra.defining import defined
from luminal_lab.algebra.egraph import EGraph, Equal, Reason
from luminal_lab.algebra.language import ENode, Ratio, Rise, Shift
from luminal_lab.algebra.pick import CircleError, Pick
from luminal_lab.core.printer import as_text
from luminal_lab.display import Displayed, Examined
from luminal_lab.errors import PassError, position
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.search.evaluate import FINISHED, Array, Evaluation, Stand
from luminal_lab.search.judge import drawn
from luminal_lab.search.named import entered_text
from luminal_lab.search.space import Space
from luminal_lab.tensor.arguments import told_object

S = TypeVar("S")
CLOSE = 1e-5
"""How far the two sides may differ, relative to the largest value: numbers are float32."""


@told_object("firing")
@dataclass(frozen=True, repr=False)
class Firing:
    """A firing of a rule: what it said about which terms, and the program before and after it."""

    space: Space
    reason: Reason
    picks: tuple[_Stage, _Stage]
    """The choices of the program before it, and of the one after it."""

    @property
    def before(self) -> Definition:
        """The program before it."""
        return self.picks[0].definition

    @property
    def after(self) -> Definition:
        """The program after it."""
        return self.picks[1].definition

    @property
    def changes_program(self) -> bool:
        """Whether the program differs after it; if not, a later firing rests on it."""
        return str(self.before) != str(self.after)

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return self.reason.rule

    @property
    def left(self) -> str:
        """The term that it fired on."""
        return entered_text(self.space.egraph, self.reason.first)

    @property
    def right(self) -> str:
        """The term that it set equal to that."""
        return entered_text(self.space.egraph, self.reason.second)

    def check(self) -> None:
        """Raise if the sides differ on drawn inputs, with folds finished or part of the way."""
        for draw in drawn(self.space):
            if draw.name == "ordinary":
                asked = self.space.evaluation(None, draw.data, draw.dims, most=3)
                answered = replace(asked, node=self.space.answered)
                for stand in _stands(asked, self.reason):
                    left = asked.value(self.reason.first, stand)
                    right = answered.value(self.reason.second, stand)
                    # How much a value changes is as exact as the value itself.
                    parts = self.space.egraph.entered[self.reason.first].children
                    values = [left, *(asked.value(part, stand) for part in parts)]
                    self._compare(left, right, _largest(values), stand)

    def _compare(self, left: Array, right: Array, scale: float, stand: Stand) -> None:
        left, right = np.broadcast_arrays(left, right)
        known = np.isfinite(left)  # a masked value has no ratio
        apart = ~np.isclose(left[known], right[known], rtol=0, atol=CLOSE * scale)
        if apart.any():
            when = "".join(f" after {count} steps along {axis}" for axis, count in stand)
            raise PassError(f"firing of {self.rule}: {self.left} is not {self.right}{when}")

    @override
    def __str__(self) -> str:
        return f"{self.rule}: {self.left} → {self.right}"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Firing {self}>"


class Steps(Displayed, Examined, Generic[S]):
    """Steps in order, each with `before`, `after`, its `rule` and `check()`."""

    @cached_property
    def steps(self) -> tuple[S, ...]:
        """The steps."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[S, ...]: ...
    def __getitem__(self, index: int | slice) -> S | tuple[S, ...]:
        if isinstance(index, slice):
            return self.steps[index]
        hint = "they count from 0; print(…) shows them"
        return self.steps[position(index, len(self), "derivation: there is no step", hint)]

    def __iter__(self) -> Iterator[S]:
        return iter(self.steps)

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "nothing fired: this is what was written"

    @override
    def __repr__(self) -> str:
        count = f"{len(self)} step{'s' * (len(self) != 1)}"
        return f"<{type(self).__name__}: {count}; print(…) shows them>"


@told_object("derivation")
@dataclass(frozen=True, repr=False)
class Derivation(Steps[Firing]):
    """The firings that lead from what was written to a program, in order."""

    space: Space
    pick: Pick

    @cached_property
    @override
    def steps(self) -> tuple[Firing, ...]:
        """The firings, each with the program before and after it."""
        proof = _Proof(self.space.egraph)
        for name, number in self.space.outputs.items():
            proof.need(number, self._chosen(self.pick.outputs[name]))
        for number in self.pick.order:
            for child in self.pick.node(number).children:
                proof.need(child, self._chosen(child))
        used = [at for at in sorted(proof.used) if proof.used[at].rule]
        reasons = [proof.used[at] for at in used]
        stages = [self._stage(proof, limit) for limit in (0, *used[1:], len(proof.reasons))]
        pairs = zip(reasons, pairwise(stages), strict=False)
        return tuple(Firing(self.space, reason, pair) for reason, pair in pairs)

    def _chosen(self, number: int) -> int:
        """Return the number of the node that the program takes from a class."""
        return self.space.egraph.number_of(self.pick.node(number))

    def _stage(self, proof: _Proof, limit: int) -> _Stage:
        """Return the program that the first reasons lead to."""
        stage = _Stage(self.pick, self.space, proof, limit)
        try:
            assert stage.order
        except CircleError:
            return self._stage(proof, limit - 1)
        return stage


class _Stage(Pick):
    """A program on the way: what was written, changed by the first reasons."""

    def __init__(self, pick: Pick, space: Space, proof: _Proof, limit: int) -> None:
        self.proof, self.limit = proof, limit
        self.chosen = {number: space.egraph.number_of(pick.node(number)) for number in pick.order}
        self.known: dict[int, int] = {}
        self.space = space
        super().__init__(space.egraph, space.outputs, pick.sizes, {})

    @cached_property
    def definition(self) -> Definition:
        """What it computes: two firings have it beside them."""
        return defined(self.space.definition, self)

    @override
    def lead(self, number: int) -> int:
        if number not in self.known:
            chosen = self.chosen.get(self.egraph.find(number), number)
            at = number
            for reason in self.proof.path(number, chosen):
                if reason >= self.limit:
                    break
                first, second = self.proof.reasons[reason][1:3]
                at = second if at == first else first
            self.known[number] = self.known[at] = at
        return self.known[number]

    @override
    def node(self, number: int) -> ENode:
        return self.egraph.entered[self.lead(number)]


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
        """Return the reasons along the shortest path between two numbers, in order."""
        came: dict[int, tuple[int, int]] = {first: (first, -1)}
        todo = deque([first])
        while todo and second not in came:
            number = todo.popleft()
            for other, at in self.near.get(number, ()):
                if other not in came:
                    came[other] = number, at
                    todo.append(other)
        path: list[int] = []
        while second != first:
            second, at = came[second]
            path.append(at)
        return path[::-1]


# -- one firing ------------------------------------------------------------------------------------


def _largest(values: Iterable[Array]) -> float:
    """Return the size of the largest number in some values, at least 1."""
    return max(float(np.abs(each[np.isfinite(each)]).max(initial=1)) for each in values)


def _stands(evaluation: Evaluation, reason: Reason) -> Iterator[Stand]:
    """Yield how far folds have come when both sides are compared.

    The first step has no change, as there was nothing before it.
    """
    sizes = {axis: len(positions) for axis, positions in evaluation.axes.items()}
    sides = reason.first, reason.second
    if any(sizes[axis] < 2 for side in sides for axis in _questioned(evaluation, side)):
        return
    yield FINISHED
    for axis in sorted(frozenset[str]().union(*map(evaluation.moving, sides))):
        size = sizes[axis]
        yield from (
            ((axis, count),) for count in sorted({1, size // 2, size - 1}) if 0 < count < size
        )


def _questioned(evaluation: Evaluation, number: int) -> set[str]:
    """Return the axes along which a change is asked for."""
    axes, seen, todo = set[str](), set[int](), [number]
    while todo:
        part = todo.pop()
        if part not in seen:
            seen.add(part)
            operator, children = evaluation.node(part)
            axes |= {operator.axis.name} if isinstance(operator, (Ratio, Shift, Rise)) else set()
            todo += children
    return axes
