"""Definition to nest: a loop for each axis, in the order in which the definition writes them.

    y[i < n] = (sum j < 8: x[i, j]) * 0.125    →    for i < n:
                                                      local t: f32[] in registers
                                                      t = 0.0
                                                      for j < 8:
                                                        t += x[i, j]
                                                      y[i] = t * 0.125

A fold becomes a local that a loop adds to, as far out as its axes allow; folds that are equal are
one. A fold of a fold of one kind is one sum. Definitions' locals become arrays in memory.

A softmax goes along its axis in blocks: the scores of a block, the largest so far, what was summed
scaled down to it, the weights, and what they add. Rows of values are summed side by side, and a
local that only the scores read is worked out where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from luminal_lab.core.dims import Dim, Shape, Symbol, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.online import scores_inlined
from luminal_lab.kernels.definition.substitution import exchanged, rebuilt, replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    Guard,
    Number,
    Read,
    State,
    Term,
    axis_of,
    free,
    power,
    product,
    softmaxes,
    walk,
)
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, Statement, When

BLOCK = 64
"""How many positions of a softmax are one block."""


def lower(definition: Definition) -> Nest:
    """Return the plainest nest that computes a definition.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> print(lower(parse_definition('''kernel mean(x: f32[n, 8]) -> (y: f32[n])
    ...   y[i < n] = (sum j < 8: x[i, j]) * 0.125''')))
    nest mean(x: f32[n, 8]) -> (y: f32[n])
      for i < n:
        local t: f32[] in registers
        t = 0.0
        for j < 8:
          t += x[i, j]
        y[i] = t * 0.125
    """
    written = definition
    definition = scores_inlined(definition)
    lowering = _Lowering(definition, written)
    body: list[Statement] = [Local(line.name, line.type, "memory") for line in definition.locals]
    for line in definition.lines:
        body += lowering.line(line)
    outputs = tuple(Buffer(line.name, line.type) for line in definition.outputs)
    return Nest(definition.name, definition.inputs, outputs, tuple(body))


class _Lowering:
    def __init__(self, definition: Definition, written: Definition) -> None:
        self.written = {line.name: line.term for line in written.lines}
        """The lines before scores became part of the softmaxes that read them."""
        self.words = {*written.types} - {*definition.types}
        """The names of such scores, of which blocks are made."""
        self.asked: dict[Term, Fold] = {}
        """The softmaxes of a line as they were written."""
        self.taken = {*written.types, *written.dims}
        self.levels: list[list[Statement]] = []
        """The statements of the loops around, the outermost first."""
        self.bound: list[set[str]] = []
        """The axes that are known at each level."""
        self.known: list[dict[Term, Term]] = []
        """The folds that are worked out at each level."""
        self.rows: dict[Term, Term] = {}
        """Softmaxes that are worked out for several axes at once."""
        self.floor = 0
        """The outermost level that may be used: under a condition, what is in it."""

    def line(self, line: Output) -> Block:
        axes = [
            self.axis(axis, size) for axis, size in zip(line.axes, line.type.shape, strict=True)
        ]
        pairs = list(zip(line.axes, axes, line.type.shape, strict=True))
        values: dict[str, Dim] = {old.name: 0 if size == 1 else new for old, new, size in pairs}
        loops = [(new, size) for _, new, size in pairs if size != 1]
        self.levels = [[]]
        self.bound = [set()]
        self.known = [{}]
        for axis, _ in loops:
            self.levels.append([])
            self.bound.append({*self.bound[-1], axis.name})
            self.known.append({})
        place = tuple(values[axis.name] for axis in line.axes)
        term = replaced(line.term, values)
        self.rows = {}
        self.asked = dict(zip(softmaxes(term), softmaxes(self.written[line.name]), strict=False))
        along = _values(term, [axis for axis, _ in loops])
        if along:
            level = len(loops) - len(along)
            inner = loops[level:]
            for fold in softmaxes(term):
                self.rows[fold] = self.softmax(fold, level, inner)
            write = Set(line.name, place, self.term(term))
            for axis, size in reversed(inner):
                self.levels[-1].append(write)
                write = Loop(axis, size, tuple(self.levels.pop()))
            self.levels[-1].append(write)
            loops = loops[:level]
        else:
            self.levels[-1].append(Set(line.name, place, self.term(term)))
        block = self.levels.pop()
        for axis, size in reversed(loops):
            outer = self.levels.pop()
            outer.append(Loop(axis, size, tuple(block)))
            block = outer
        return tuple(block)

    def axis(self, axis: Symbol, size: Dim) -> Symbol:
        """Return an axis whose name is new."""
        name = unique(axis.name, self.taken)
        self.taken.add(name)
        return axis_of(name, size)

    def term(self, term: Term) -> Term:
        """Return a term without folds; they are worked out before."""
        done: dict[int, Term] = {}

        def part(one: Term) -> Term:
            if id(one) not in done:
                match one:
                    case Fold():
                        made = self.fold(one)
                    case Guard(term=inner) if any(isinstance(t, Fold) for t in walk(inner)):
                        made = self.guarded(one)
                    case _:
                        made = rebuilt(one, lambda place: place, part)
                done[id(one)] = made
            return done[id(one)]

        return part(term)

    def level(self, term: Term) -> int:
        """Return the outermost level at which all axes that a term mentions are known."""
        mentioned = {name for name in free(term) if name in self.bound[-1]}
        found = next(n for n, bound in enumerate(self.bound) if mentioned <= bound)
        return max(found, self.floor)

    def fold(self, fold: Fold) -> Term:
        if fold in self.rows:
            return self.rows[fold]
        level = self.level(fold)
        for known in self.known[: level + 1]:
            if fold in known:
                return known[fold]
        if fold.kind == "softmax":
            found = self.known[level][fold] = self.softmax(fold, level, [])
            return found
        dtype = DType.float32 if fold.dtype.is_half else fold.dtype
        value = self.local(level, dtype)
        start = Number(0, dtype) if fold.kind == "sum" else Number(least(dtype), dtype)
        self.levels[level].append(Set(value.buffer, (), start))
        self.levels[level].append(self.loop(fold, value.buffer, dtype, level))
        found: Term = value
        if dtype is not fold.dtype:
            found = Apply(Cast(fold.dtype), (value,), fold.dtype)
        self.known[level][fold] = found
        return found

    def softmax(self, fold: Fold, level: int, along: list[tuple[Symbol, Dim]]) -> Term:
        """Work out a softmax for all positions along some axes, which its scores do not have."""
        assert fold.score is not None
        dtype = fold.dtype
        (lowest, zero, _), _, result = fold.states
        shape = tuple(size for _, size in along)
        axes = tuple(axis for axis, _ in along)
        m, total = (self.local(level, dtype, name) for name in ("m", "l"))
        acc = self.local(level, dtype, "acc", shape)
        into = self.levels[level]
        into += [Set(m.buffer, (), lowest), Set(total.buffer, (), zero)]
        into += self.each("start", along, lambda axes: Set(acc.buffer, axes, zero))

        blocks = (fold.size + BLOCK - 1) // BLOCK
        count = min(BLOCK, fold.size) if isinstance(fold.size, int) else BLOCK
        outer = self.axis(Symbol(f"{fold.axis.name}.block"), blocks)
        kept = self.levels, self.bound, self.known
        self.levels = [*self.levels[: level + 1], []]
        self.bound = [*self.bound[: level + 1], {*self.bound[level], outer.name}]
        self.known = [*self.known[: level + 1], {}]
        inside = self.levels[-1]
        s = self.local(level + 1, dtype, self.scores(fold), (count,))
        top, c = (self.local(level + 1, dtype, name) for name in ("top", "c"))
        whole = fold.size % count == 0
        length: Dim = count if whole else minimum(count, fold.size - BLOCK * outer)

        def block(word: str, made: Callable[[Symbol], Statement | Block]) -> None:
            """Add a loop over a block, whose body may need folds of its own."""
            j = self.axis(Symbol(f"{fold.axis.name}_{word}"), count)
            outside = self.levels, self.bound, self.known
            self.levels = [*self.levels, []]
            self.bound = [*self.bound, {*self.bound[-1], j.name}]
            self.known = [*self.known, {}]
            last = made(j)
            body = (*self.levels[-1], *(last if isinstance(last, tuple) else (last,)))
            self.levels, self.bound, self.known = outside
            inside.append(Loop(j, length, body))

        def at(term: Term, j: Symbol) -> Term:
            return replaced(term, {fold.axis.name: BLOCK * outer + j})

        def element(j: Symbol) -> Term:
            return Read(s.buffer, (j,), dtype)

        def weight(of: Term) -> Term:
            return power(of, top, fold.factor)

        score, value = fold.score, fold.body
        block("score", lambda j: Set(s.buffer, (j,), self.term(at(score, j))))
        inside.append(Set(top.buffer, (), m))
        block("top", lambda j: Set(top.buffer, (), element(j), "max="))
        inside += [Set(c.buffer, (), weight(m)), Set(m.buffer, (), top)]
        inside.append(Set(total.buffer, (), product(total, c)))
        block(
            "weight",
            lambda j: (
                Set(s.buffer, (j,), weight(element(j))),
                Set(total.buffer, (), element(j), "+="),
            ),
        )
        inside += self.each(
            "scale",
            along,
            lambda axes: Set(acc.buffer, axes, product(Read(acc.buffer, axes, dtype), c)),
        )

        def added(j: Symbol) -> Block:
            return self.each(
                "mix",
                along,
                lambda axes: Set(
                    acc.buffer,
                    axes,
                    product(
                        element(j),
                        self.term(replaced(at(value, j), _renamed(along, axes))),
                        fused=fold.fused,
                    ),
                    "+=",
                ),
            )

        block("mix", added)
        self.levels, self.bound, self.known = kept
        self.levels[level].append(Loop(outer, blocks, tuple(inside)))
        return _stated(result, {"l": total, "acc": Read(acc.buffer, axes, dtype)})

    def each(
        self,
        word: str,
        along: list[tuple[Symbol, Dim]],
        made: Callable[[tuple[Symbol, ...]], Statement],
    ) -> Block:
        """Return a statement for each position along some axes, called by a word behind theirs."""
        axes = tuple(self.axis(Symbol(f"{axis.name}_{word}"), size) for axis, size in along)
        levels, bound = len(self.levels), self.bound
        for axis in axes:
            self.levels.append([])
            self.bound = [*self.bound, {*self.bound[-1], axis.name}]
            self.known.append({})
        block: Block = (made(axes),)
        for axis, (_, size) in reversed([*zip(axes, along, strict=True)]):
            block = (Loop(axis, size, (*self.levels.pop(), *block)),)
            self.known.pop()
        assert len(self.levels) == levels
        self.bound = bound
        return block

    def scores(self, fold: Fold) -> str:
        """Return a name for the scores of a softmax: the one that they were written with."""
        score = self.asked[fold].score if fold in self.asked else None
        if isinstance(score, Read) and score.buffer in self.words:
            self.words.remove(score.buffer)
            self.taken.remove(score.buffer)
            return score.buffer
        return "s"

    def local(self, level: int, dtype: DType, word: str = "t", shape: Shape = ()) -> Read:
        """Return a new scalar, or array, that is there from a level on."""
        name = unique(word, self.taken)
        self.taken.add(name)
        space = "scratch" if shape else "registers"
        self.levels[level].append(Local(name, TensorType(dtype, shape), space))
        return Read(name, (), dtype)

    def loop(self, fold: Fold, value: str, dtype: DType, level: int) -> Loop:
        """Return the loop that works out a fold; a fold right in it of one kind is one with it."""
        axis = self.axis(fold.axis, fold.size)
        body = replaced(fold.body, {fold.axis.name: axis})
        kept = self.levels, self.bound, self.known
        # Inside, only what is around the fold is known.
        self.levels = [*self.levels[: level + 1], []]
        self.bound = [*self.bound[: level + 1], {*self.bound[level], axis.name}]
        self.known = [*self.known[: level + 1], {}]
        if (
            isinstance(body, Fold)
            and body.kind == fold.kind
            and body.dtype is fold.dtype
            and (axis.name in free(body))
        ):
            inner: list[Statement] = [self.loop(body, value, dtype, level + 1)]
        else:
            term = self.term(body)
            term = widened(term, dtype)
            inner = [Set(value, (), term, "+=" if fold.kind == "sum" else "max=")]
        inside = (*self.levels[-1], *inner)
        self.levels, self.bound, self.known = kept
        return Loop(axis, fold.size, inside)

    def guarded(self, guard: Guard) -> Term:
        """Work out a guarded term with folds, which may only be looked at where it holds."""
        level = len(self.levels) - 1
        value = self.local(level, guard.dtype)
        self.levels[level].append(Set(value.buffer, (), Number(0, guard.dtype)))
        kept = self.levels, self.bound, self.known, self.floor
        self.levels, self.floor = [*self.levels, []], level + 1
        self.bound, self.known = [*self.bound, self.bound[-1]], [*self.known, {}]
        term = self.term(guard.term)
        body = (*self.levels[-1], Set(value.buffer, (), term))
        self.levels, self.bound, self.known, self.floor = kept
        self.levels[level].append(When(guard.holds, body))
        return value


def widened(term: Term, dtype: DType) -> Term:
    """Return a term in a wider dtype; what is multiplied is so before, and not rounded between."""
    if term.dtype is dtype:
        return term
    if isinstance(term, Apply) and isinstance(term.op, Mul):
        return Apply(term.op, tuple([widened(arg, dtype) for arg in term.args]), dtype)
    return Apply(Cast(dtype), (term,), dtype)


def least(dtype: DType) -> float | int:
    """Return the least value of a dtype."""
    if dtype.is_float:
        return -float("inf")
    return dtype.limits[0] if dtype is not DType.bool_ else 0


# -- softmaxes -------------------------------------------------------------------------------------


def _values(term: Term, axes: list[Symbol]) -> list[Symbol]:
    """Return the last axes, as many as the scores of no softmax have; none without softmaxes."""
    folds = softmaxes(term)
    scored = {name for fold in folds if fold.score is not None for name in free(fold.score)}
    found: list[Symbol] = []
    for axis in reversed(axes):
        if not folds or axis.name in scored:
            break
        found.append(axis)
    return found[::-1]


def _stated(term: Term, states: Mapping[str, Term]) -> Term:
    """Return a term with what a fold has at its end in it."""

    return exchanged(term, lambda one: states[one.name] if isinstance(one, State) else None)


def _renamed(along: list[tuple[Symbol, Dim]], axes: tuple[Symbol, ...]) -> dict[str, Dim]:
    return {old.name: new for (old, _), new in zip(along, axes, strict=True)}
