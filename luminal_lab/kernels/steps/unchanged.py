"""Whether an iteration changes anything outside itself, if some comparisons of indices hold in it.

    s = where(i < j, -inf, …); top = m; top max= s; c = exp2(m - top); m = top; l = l * c + exp2(s)

If i < j, s is -inf; so top keeps the old m, c is 1, m stays, and so does l: the iteration is idle.
A value is tracked as a number, or as the old value of an element. That 0 times a value is 0, and
that adding a value to -inf gives -inf, holds for finite values only: among what is hidden, no
others matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np

from luminal_lab.core.dims import Dim, Shape, Symbol, bounds, known, minimum, substitute, symbols
from luminal_lab.core.dims.expression import Negative, terms_of
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Add, Cast, LessThan, Mul, Where
from luminal_lab.core.ops.intrinsic import Maximum
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Guarded,
    Number,
    Read,
    Term,
    free,
    read_by,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.lowering import least
from luminal_lab.kernels.nest.nest import (
    Block,
    Loop,
    Nest,
    Set,
    When,
    arrays_written,
    every,
    private,
    terms_in,
)
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import apart, axes_around, extent, least_of, meetings

ALTERNATIVES = 8
"""The most indices that one term may stand for, when conditions choose among them."""
FOLLOWED = 16
"""The most elements that are followed to what they are copies of: an inverse is made of copies of
copies, each of several elements."""
LONGEST = 1 << 30
"""No axis has more positions than this."""
RULES = (Mul, 1, 0), (Add, 0, -inf), (Maximum, -inf, inf)
"""Ops with the number that leaves any other unchanged, and the number that absorbs any other."""
DIGITS = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}
"""How many binary digits of whole numbers floats hold."""


class Earlier(NamedTuple):
    """The value of an array's element before the iteration."""

    name: str
    at: Shape


Value: TypeAlias = "bool | int | float | Earlier | None"
"""A number, the old value of an element, or None for anything else."""


class _Held(NamedTuple):
    """What elements of an iteration's own array are set to, and which elements."""

    value: Value
    at: Shape
    where: object


@dataclass
class Copies:
    """What the elements that the iterations of a loop read are copies of, made before the loop."""

    nest: Nest
    loop: Loop
    followed: dict[Read, Term] = field(default_factory=dict[Read, Term])

    def of(self, read: Read) -> Term | None:
        """Return the term of which an element is a copy."""
        copy = self.made.get(read.buffer)
        if copy is not None and read not in self.followed and len(self.followed) < FOLLOWED:
            axes = [dim.name for dim in copy.index if isinstance(dim, Symbol)]
            self.followed[read] = replaced(copy.term, dict(zip(axes, read.index, strict=True)))
        return self.followed.get(read)

    @cached_property
    def made(self) -> dict[str, Set]:
        """The only assignments to arrays that the loop just reads."""
        sets = dict[str, list[Set]]()
        for update in every(self.nest.body, Set):
            sets.setdefault(update.name, []).append(update)
        later = {*sets}
        own, copies = arrays_written(self.loop.body), dict[str, Set]()
        for name, (update, *others) in sets.items():
            is_whole = name in self.nest.locals and name not in own and not others
            if is_whole and self.is_copy(update) and later.isdisjoint(read_by(update.term)):
                copies[name] = update
            later.remove(name)
        return copies

    def is_copy(self, update: Set) -> bool:
        """Return whether an assignment sets each element once while its array exists."""
        names = {dim.name for dim in update.index if isinstance(dim, Symbol)}
        changing = {name for name in free(update.term) if name in self.nest.loops} - names
        is_plain = update.how == "=" and len(names & {*self.nest.loops}) == len(update.index)
        return is_plain and changing <= axes_around(self.nest, update.name)


@dataclass
class Iteration:
    """Any iteration of a loop in which some dims are above 0."""

    nest: Nest
    loop: Loop
    copies: Copies
    above: tuple[Dim, ...] = ()
    truths: dict[Term, bool | None] = field(default_factory=dict[Term, "bool | None"])
    dims: dict[Term, list[Dim]] = field(default_factory=dict[Term, list[Dim]])

    @cached_property
    def inner(self) -> dict[str, Symbol]:
        """The axes of the loops inside."""
        return {loop.name: loop.axis for loop in every(self.loop.body, Loop)}

    @cached_property
    def changed(self) -> str | None:
        """An array outside that it may change."""
        lost = frozenset[str]()
        while True:
            run = _Run(self, lost)
            run.block(self.loop.body)
            if run.changed or run.lost <= lost:
                return run.changed
            lost |= run.lost

    # -- comparisons -------------------------------------------------------------------------------

    @property
    def compared(self) -> Iterator[Dim]:
        """Yield what its conditions on indices compare, each as a dim that may be above 0."""
        todo, followed = [*terms_in(self.loop.body)], set[Term]()
        for term in todo:
            match term:
                case Read() if term not in followed and (copy := self.copies.of(term)) is not None:
                    followed.add(term)
                    todo += walk_terms(copy)
                case Apply(op=LessThan(), args=(left, right)):
                    yield from self.differences(left, right)
                case Guarded(holds=holds):
                    yield from map(_above, _atoms(holds))
                case _:
                    pass
        for when in every(self.loop.body, When):
            yield from map(_above, _atoms(when.holds))

    def everywhere(self, dim: Dim) -> Dim | None:
        """Return a dim that is above 0 if another one is at all positions of the inner loops."""
        for symbol in symbols(dim):
            if (axis := self.inner.get(symbol.name)) is not None:
                step = slope(dim, axis)
                if not isinstance(step, int):
                    return None
                dim = substitute(dim, {axis.name: extent(axis) - 1 if step < 0 else 0})
        return dim

    def is_above(self, dim: Dim) -> bool | None:
        """Return whether a dim is above 0, if that is known."""
        return True if self._surely(dim) else False if self._surely(1 - dim) else None

    def _surely(self, dim: Dim) -> bool:
        least = self.everywhere(dim)
        return least is not None and any(known(least >= fact) for fact in (1, *self.above))

    def holds(self, condition: Dim) -> bool | None:
        """Return whether a condition on indices holds, if that is known."""
        atoms = _atoms(condition)
        return _all([self.is_above(_above(atom)) for atom in atoms]) if atoms else known(condition)

    def truth(self, term: Term) -> bool | None:
        """Return whether a term is true, if that is known."""
        if term not in self.truths:
            self.truths[term] = self._truth(term)
        return self.truths[term]

    def _truth(self, term: Term) -> bool | None:
        match term:
            case Number(value=value):
                return bool(value)
            case Apply(op=LessThan(), args=(a, b)) if a.dtype is DType.bool_:
                return _all([_not(self.truth(a)), self.truth(b)])
            case Apply(op=LessThan(), args=(a, b)):
                answers = {self.is_above(dim) for dim in self.differences(a, b)}
                return answers.pop() if len(answers) == 1 else None
            case Apply(op=Mul(), args=args, dtype=DType.bool_):
                return _all([*map(self.truth, args)])
            case Apply(op=Add(), args=args, dtype=DType.bool_):
                return _not(_all([_not(self.truth(arg)) for arg in args]))
            case Apply(op=Where(), args=(condition, yes, no), dtype=DType.bool_):
                answers = {self.truth(arg) for arg in self.chosen(condition, yes, no)}
                return answers.pop() if len(answers) == 1 else None
            case _:
                return None

    def chosen(self, condition: Term, yes: Term, no: Term) -> tuple[Term, ...]:
        """Return the term that a condition chooses of two; both, if that is not known."""
        truth = self.truth(condition)
        return (yes, no) if truth is None else (yes,) if truth else (no,)

    def differences(self, left: Term, right: Term) -> list[Dim]:
        """Return by how much the right one of two indices is larger: one of these dims."""
        return [b - a for a in self.indices(left) for b in self.indices(right)]

    def indices(self, term: Term) -> list[Dim]:
        """Return the index that a term is, or several that it may be; none if it is no index."""
        if term not in self.dims:
            dims = [*dict.fromkeys(self._indices(term))]
            is_exact = len(dims) <= ALTERNATIVES and all(_is_exact(dim, term.dtype) for dim in dims)
            self.dims[term] = dims if is_exact else []
        return self.dims[term]

    def _indices(self, term: Term) -> list[Dim]:
        match term:
            case Count(at=at):
                return [at]
            case Number(value=value) if value == value // 1:
                return [int(value)]
            case Apply(op=Cast(), args=(x,)) if x.dtype is DType.bool_:
                truth = self.truth(x)
                return [0, 1] if truth is None else [int(truth)]
            case Apply(op=Cast(), args=(x,)):
                return self.indices(x)
            case Apply(op=Add(), args=(a, b)):
                return [x + y for x in self.indices(a) for y in self.indices(b)]
            case Apply(op=Mul(), args=(a, b)):
                return [x * y for x in self.indices(a) for y in self.indices(b)]
            case Apply(op=Where(), args=(condition, yes, no)):
                chosen = [self.indices(arg) for arg in self.chosen(condition, yes, no)]
                return [dim for dims in chosen for dim in dims] if all(chosen) else []
            case _:
                return []


class _Run:
    """What is known while the statements of an iteration are followed one by one."""

    def __init__(self, iteration: Iteration, lost: frozenset[str]) -> None:
        self.iteration, self.nest = iteration, iteration.nest
        self.own = private(iteration.loop.body)
        self.held: dict[str, _Held] = {}
        self.lost = lost
        """The arrays in which iterations of an inner loop find different values."""
        self.changed: str | None = None
        self.values: dict[Term, Value] = {}
        """The values of parts of the current statement."""

    def block(self, block: Block, path: tuple[Loop, ...] = (), when: Shape = ()) -> None:
        """Follow statements."""
        for statement in block:
            if self.changed:
                return
            match statement:
                case Loop(body=body, position=position):
                    before = dict(self.held)
                    # One position does not tell which element another one is.
                    some = () if position is None else (Symbol(f"{statement.name}__at"),)
                    self.block(body, (*path, statement), (*when, *some))
                    self.lost |= {
                        name
                        for name, held in before.items()
                        if self.held[name].value != held.value and self.carries(name, statement)
                    }
                case When(holds=holds, body=body):
                    truth = self.iteration.holds(holds)
                    if truth is not False:
                        self.block(body, path, when if truth else (*when, holds))
                case Set():
                    self.set(statement, path, when)
                case _:
                    pass

    def carries(self, name: str, loop: Loop) -> bool:
        """Return whether an iteration of an inner loop meets what another iteration has set."""
        fixed = axes_around(self.nest, loop.name)
        return any(
            use.name == name and not apart(self.nest, use, other, loop.axis, fixed)
            for use, other in meetings(loop.body, loop.body)
        )

    def set(self, update: Set, path: tuple[Loop, ...], when: Shape) -> None:
        """Follow an assignment."""
        self.values = {}
        name, value = update.name, self.value(update.term)
        stays = {"=": None, "+=": 0, "max=": least(self.nest.types[name].dtype)}[update.how]
        if value is not None and value == stays:
            return
        if name not in self.own:
            if update.how == "+=" or value != Earlier(name, update.index):
                self.changed = self.changed or name
            return
        old, where = self.held.get(name), _where(update.index, path, when)
        if update.how != "=" or name in self.lost or (when and isinstance(value, Earlier)):
            value = None
        if old is not None and old.where != where:
            value, where = value if value == old.value else None, None
        self.held[name] = _Held(value, update.index, where)

    def value(self, term: Term) -> Value:
        """Return the value of a term."""
        if term not in self.values:
            self.values[term] = self._value(term)
        return self.values[term]

    def _value(self, term: Term) -> Value:
        match term:
            case Number(value=value):
                return value
            case Read(buffer=buffer, index=index) if buffer not in self.own:
                copy = self.iteration.copies.of(term)
                value = None if copy is None else self.value(copy)
                is_number = isinstance(value, (bool, int, float))
                return value if is_number else Earlier(buffer, index)
            case Read(buffer=buffer, index=index) if buffer in self.held:
                value, at, _ = self.held[buffer]
                return value if at == index or not isinstance(value, Earlier) else None
            case Guarded(holds=holds, term=inner):
                value, truth = self.value(inner), self.iteration.holds(holds)
                return value if truth or value == 0 else 0 if truth is False else None
            case Apply(op=Where(), args=(condition, yes, no)):
                values = [*map(self.value, self.iteration.chosen(condition, yes, no))]
                return values[0] if values[0] == values[-1] else None
            case Apply(op=Add(), args=(a, Apply(op=Mul(), args=(b, Number(value=-1))))) if (
                isinstance(value := self.value(a), Earlier) and value == self.value(b)
            ):
                return 0
            case Apply(args=args):
                truth = self.iteration.truth(term) if term.dtype is DType.bool_ else None
                return truth if truth is not None else _applied(term, [*map(self.value, args)])
            case _:
                return None


def _applied(term: Apply, values: list[Value]) -> Value:
    """Return an op's value for some values, not all of which need be known."""
    numbers = [value for value in values if isinstance(value, (bool, int, float))]
    if len(numbers) == len(values):
        given = zip(numbers, term.args, strict=True)
        with np.errstate(all="ignore"):
            result = term.op.eval(*(np.asarray(value, arg.dtype.numpy) for value, arg in given))
        return np.asarray(result).astype(term.dtype.numpy).item()
    if len(values) == 2 and len(numbers) == 1:
        (number,), other = numbers, values[values[0] in numbers]
        for op, neutral, ruling in RULES:
            if isinstance(term.op, op) and number in (neutral, ruling):
                return other if number == neutral else number
    return None


def _where(index: Shape, path: tuple[Loop, ...], when: Shape) -> object:
    """Return which elements are set at an index in some loops, whatever the loops' names."""
    lengths = [_length(dim, path) for dim in index]
    axes = [symbol for dim in index for symbol in symbols(dim)]
    if None not in lengths and len(axes) == len({*axes}) and not when:
        index, path = (), tuple(loop for loop in path if loop.axis not in axes)
    names: dict[str, Dim] = {
        loop.name: Symbol(f"__{depth}", 0, loop.axis.high) for depth, loop in enumerate(path)
    }
    ends = (end for loop in path for end in loop.ends)
    return lengths, [substitute(dim, names) for dim in (*index, *ends, *when)]


def _length(dim: Dim, path: tuple[Loop, ...]) -> Dim | None:
    """Return the number up to which a dim counts from 0 in some loops, if it skips none.

    For i.own + 6*i.block it is n if i.block < (n + 5)//6 and i.own < min(6, n - 6*i.block).
    """
    loops = [loop for loop in path if loop.axis in symbols(dim)]
    length: Dim = 1
    count: Dim = 1
    for loop in reversed(loops):
        if loop.start != 0 or slope(dim, loop.axis) != count:
            return None
        rest = [part + count * loop.axis for part in least_of(length) if part != count]
        if rest and loop.size != (minimum(*rest) + count - 1) // count:
            return None
        length = minimum(*rest) if rest else count * loop.size
        count = count * extent(loop.axis)
        dim = substitute(dim, {loop.name: 0})
    return length if dim == 0 and not {loop.axis for loop in loops} & {*symbols(length)} else None


def _is_exact(dim: Dim, dtype: DType) -> bool:
    """Return whether a dtype holds all values of an index."""
    if dtype is DType.bool_:
        return False
    digits = DIGITS.get(dtype)
    low, high = dtype.limits if digits is None else (-(1 << digits), 1 << digits)
    least, most = bounds(_limited(dim))
    return least is not None and most is not None and low <= least and most <= high


def _limited(dim: Dim) -> Dim:
    """Return a dim whose symbols have bounds, since no axis has more positions than `LONGEST`."""
    values: dict[str, Dim] = {}
    for symbol in symbols(dim):
        _, high = (None, LONGEST) if symbol.high is None else bounds(_limited(symbol.high))
        values[symbol.name] = Symbol(symbol.name, symbol.low, high, symbol.multiple_of)
    return substitute(dim, values)


def _atoms(condition: Dim) -> list[Negative]:
    """Return the comparisons that must all hold for a condition; none if it has another form."""
    terms = terms_of(condition)
    atoms = terms[0][0] if len(terms) == 1 and terms[0][1] == 1 else ()
    comparisons = [atom for atom in atoms if isinstance(atom, Negative)]
    return comparisons if len(comparisons) == len(atoms) else []


def _above(atom: Negative) -> Dim:
    """Return what is above 0 if a comparison holds."""
    return -atom.x


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _all(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True
