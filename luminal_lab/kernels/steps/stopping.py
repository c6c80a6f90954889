"""The step `stop`: a loop over blocks of scores ends where all further scores are -inf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, bounds, maximum, minimum, substitute, symbols
from luminal_lab.core.ops import Add, Exp2, LessThan, Mul, Where
from luminal_lab.kernels.definition.terms import Apply, Count, Guarded, Number, Read, Term
from luminal_lab.kernels.nest.nest import Block, Nest, Set, every, paths, private, walk
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import Step, axes_around, extent, replaced_loop


@dataclass(frozen=True)
class _Same:
    """The value of an array's element before the iteration."""

    name: str
    index: Shape


@dataclass(frozen=True)
class Stop(Step):
    """End a loop before iterations in which all scores are -inf, as they weigh nothing.

    for j < n: s = where(i < 64*j, -inf, …); m max= s; …   →   for j < min(n, (i + 64)//64): …

    With such scores, no statement may change a value outside the iteration: the maximum stays, 2 to
    the power of -inf is 0, and 0 times a value is 0. That holds for finite values: a value without
    a score is not read at all, even if it is NaN.
    """

    form: ClassVar[str] = "stop {loop} where {scores} is -inf"
    loop: str
    scores: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        writes = [statement for statement in every(loop.body, Set) if statement.name == self.scores]
        if self.scores not in private(loop.body) or not writes:
            raise self.refuse(f"{loop.name} makes no {self.scores} anew in each iteration")
        first = writes[0]
        self.check(loop.body, first, private(loop.body))
        ahead = self.ahead(first.term)
        inner = next(path for path, statement in paths(loop.body) if statement is first)
        for axis in [inner_loop.axis for inner_loop in inner]:
            step = slope(ahead, axis)
            if not isinstance(step, int):
                raise self.refuse(f"{ahead} is not a multiple of {axis} and something")
            end = extent(axis) - 1 if step < 0 else 0
            ahead = substitute(ahead, {axis.name: end})
        step = slope(ahead, loop.axis)
        rest = substitute(ahead, {loop.name: 0})
        if not isinstance(step, int) or step < 1 or loop.axis in symbols(rest):
            raise self.refuse(f"what is hidden does not grow with {loop.name}")
        known = axes_around(nest, loop.name) | set(nest.dims)
        left = {s.name for s in symbols(rest)} - known
        if left:
            raise self.refuse(f"what is hidden depends on {', '.join(sorted(left))}")
        # From here on step * loop + rest > 0 in all of an iteration.
        end = (step - rest) // step
        low, _ = bounds(end)
        if low is None or low < 0:
            end = maximum(0, end)
        return replaced_loop(nest, loop.name, replace(loop, size=minimum(loop.size, end)))

    def ahead(self, term: Term) -> Dim:
        """Return an index expression that is above 0 where a score is -inf."""
        match term:
            case Apply(op=Where(), args=(Apply(op=LessThan(), args=(a, b)), yes, no)):
                left, right = _position(a), _position(b)
                if left is not None and right is not None and _is_hidden(yes):
                    return right - left
                if left is not None and right is not None and _is_hidden(no):
                    return left - right + 1
            case _:
                pass
        raise self.refuse(f"{self.scores} is not said to be -inf by a comparison of indices")

    def check(self, block: Block, first: Set, own: set[str]) -> None:
        """Refuse a block that changes something when all scores are -inf."""
        known: dict[str, object] = {}
        for statement in walk(block):
            if isinstance(statement, Set):
                value = -float("inf") if statement is first else _value(statement.term, known, own)
                if statement.how == "=" and statement.name in own:
                    known[statement.name] = value
                    continue
                as_before = {
                    "=": value == _Same(statement.name, statement.index),
                    "+=": value == 0.0,
                    "max=": value == -float("inf"),
                }[statement.how]
                if not as_before and statement.name in own:
                    known[statement.name] = None
                elif not as_before:
                    raise self.refuse(f"{statement.name} changes where all {self.scores} are -inf")


def _value(term: Term, known: dict[str, object], own: set[str]) -> object:
    """Return a term's value: a number, an array's earlier element, or None for anything else."""
    match term:
        case Number(value=value):
            return float(value)
        case Read(buffer=buffer, index=index):
            return known.get(buffer) if buffer in own else _Same(buffer, index)
        case Guarded(term=inner):
            return 0.0 if _value(inner, known, own) == 0.0 else None
        case Apply(op=Exp2(), args=(x,)):
            exponent = _value(x, known, own)
            return (
                {0.0: 1.0, -float("inf"): 0.0}.get(exponent)
                if isinstance(exponent, float)
                else None
            )
        case Apply(op=Mul(), args=(a, b)):
            return _times(_value(a, known, own), _value(b, known, own))
        case Apply(op=Add(), args=(a, Apply(op=Mul(), args=(b, Number(value=-1))))):
            x, y = _value(a, known, own), _value(b, known, own)
            if x == -float("inf"):
                return x
            return 0.0 if x is not None and x == y else None
        case _:
            return None


def _times(a: object, b: object) -> object:
    if 0.0 in (a, b):
        return 0.0
    if a == 1.0:
        return b
    if b == 1.0:
        return a
    if isinstance(a, float) and isinstance(b, float):
        return a * b
    return None


def _position(term: Term) -> Dim | None:
    """Return the index that a term is."""
    match term:
        case Count(at=at):
            return at
        case Number(value=int() as value):
            return value
        case Apply(op=Add(), args=(a, b)):
            left, right = _position(a), _position(b)
            return None if left is None or right is None else left + right
        case _:
            return None


def _is_hidden(term: Term) -> bool:
    return isinstance(term, Number) and term.value == -float("inf")
