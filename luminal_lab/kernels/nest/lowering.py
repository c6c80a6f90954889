"""Definition to nest: a loop for each axis, in the order in which the definition writes them.

    y[i < n] = (sum j < 8: x[i, j]) * 0.125    →    for i < n:
                                                      local t: f32[] in registers
                                                      t = 0.0
                                                      for j < 8:
                                                        t += x[i, j]
                                                      y[i] = t * 0.125

A fold becomes a local that a loop adds to, as far out as its axes allow; folds that are equal are
one. A fold of a fold of one kind is one sum. Definitions' locals become arrays in memory.

A softmax goes along its axis in blocks: the scores of a block, the largest so far, the earlier sums
scaled down to it, the weights, and their contributions. Rows of values are summed side by side, and
a local that only the scores read is computed where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple

from luminal_lab.core.dims import Dim, Shape, Symbol, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.online import scores_inlined
from luminal_lab.kernels.definition.substitution import exchanged, replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    FoldState,
    Guarded,
    Number,
    Read,
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
"""The number of positions in a block of a softmax."""


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


class _Level(NamedTuple):
    """A loop around, or the level outside all loops."""

    statements: list[Statement]
    known: dict[Term, Term]
    """The folds computed so far."""
    axes: frozenset[str] = frozenset()
    """The axes that are known."""

    def inner(self, *axes: Symbol) -> _Level:
        """Return the level of a loop within."""
        return _Level([], {}, self.axes.union(axis.name for axis in axes))


class _Lowering:
    def __init__(self, definition: Definition, written: Definition) -> None:
        self.written = {line.name: line.term for line in written.lines}
        """The lines before scores became part of the softmaxes that read them."""
        self.words = {*written.types} - {*definition.types}
        """The names of such scores, which are computed in blocks."""
        self.asked: dict[Term, Fold] = {}
        """The softmaxes of a line as they were written."""
        self.taken = {*written.types, *written.dims}
        self.levels: list[_Level] = []
        """The loops around, the outermost first."""
        self.rows: dict[Term, Term] = {}
        """Softmaxes computed for several axes at once."""
        self.floor = 0
        """The outermost level that may be used: inside a condition, only levels within it."""

    def line(self, line: Output) -> Block:
        axes = [
            self.axis(axis, size) for axis, size in zip(line.axes, line.type.shape, strict=True)
        ]
        pairs = list(zip(line.axes, axes, line.type.shape, strict=True))
        values: dict[str, Dim] = {old.name: 0 if size == 1 else new for old, new, size in pairs}
        loops = [(new, size) for _, new, size in pairs if size != 1]
        self.levels = [_Level([], {})]
        for axis, _ in loops:
            self.levels.append(self.levels[-1].inner(axis))
        index = tuple(values[axis.name] for axis in line.axes)
        term = replaced(line.term, values)
        self.rows = {}
        self.asked = dict(zip(softmaxes(term), softmaxes(self.written[line.name]), strict=False))
        along = _values(term, [axis for axis, _ in loops])
        level = len(loops) - len(along)
        for fold in softmaxes(term) if along else ():
            self.rows[fold] = self.softmax(fold, level, loops[level:])
        self.add(Set(line.name, index, self.term(term)))
        for axis, size in reversed(loops):
            block = self.levels.pop().statements
            self.add(Loop(axis, size, tuple(block)))
        return tuple(self.levels.pop().statements)

    def add(self, *statements: Statement, level: int = -1) -> None:
        """Add statements to those of a loop around, the innermost if nothing is said."""
        self.levels[level].statements.extend(statements)

    @contextmanager
    def inside(self, level: int, *axes: Symbol) -> Generator[list[Statement]]:
        """Collect the statements added meanwhile at a level, with only its axes known."""
        kept = self.levels
        self.levels = [*kept[: level + 1], kept[level].inner(*axes)]
        yield self.levels[-1].statements
        self.levels = kept

    def axis(self, axis: Symbol, size: Dim) -> Symbol:
        """Return an axis with a new name."""
        name = unique(axis.name, self.taken)
        self.taken.add(name)
        return axis_of(name, size)

    def term(self, term: Term) -> Term:
        """Return a term without folds, which are computed before it."""
        return exchanged(term, self.before)

    def before(self, term: Term) -> Term | None:
        """Compute a value that cannot be part of a term, and return the read that stands for it."""
        match term:
            case Fold():
                return self.fold(term)
            case Guarded(term=inner) if any(isinstance(part, Fold) for part in walk(inner)):
                return self.guarded(term)
            case _:
                return None

    def level(self, term: Term) -> int:
        """Return the outermost level at which all axes that a term mentions are known."""
        mentioned = free(term).keys() & self.levels[-1].axes
        outermost = next(n for n, level in enumerate(self.levels) if mentioned <= level.axes)
        return max(outermost, self.floor)

    def fold(self, fold: Fold) -> Term:
        if fold in self.rows:
            return self.rows[fold]
        level = self.level(fold)
        for outer in self.levels[: level + 1]:
            if fold in outer.known:
                return outer.known[fold]
        known = self.levels[level].known
        if fold.kind == "softmax":
            known[fold] = self.softmax(fold, level, [])
            return known[fold]
        dtype = DType.float32 if fold.dtype.is_half else fold.dtype
        value = self.local(level, dtype)
        start = Number(0, dtype) if fold.kind == "sum" else Number(least(dtype), dtype)
        self.add(Set(value.buffer, (), start), level=level)
        self.add(self.loop(fold, value.buffer, dtype, level), level=level)
        is_same = dtype is fold.dtype
        known[fold] = value if is_same else Apply(Cast(fold.dtype), (value,), fold.dtype)
        return known[fold]

    def softmax(self, fold: Fold, level: int, along: list[tuple[Symbol, Dim]]) -> Term:
        """Compute a softmax for all positions along some axes, which its scores do not have."""
        assert fold.score is not None
        dtype = fold.dtype
        (lowest, zero, _), _, result = fold.states
        shape = tuple(size for _, size in along)
        axes = tuple(axis for axis, _ in along)
        m, total = (self.local(level, dtype, name) for name in ("m", "l"))
        acc = self.local(level, dtype, "acc", shape)
        self.add(Set(m.buffer, (), lowest), Set(total.buffer, (), zero), level=level)
        self.add(*self.each("start", along, lambda axes: Set(acc.buffer, axes, zero)), level=level)

        blocks = (fold.size + BLOCK - 1) // BLOCK
        count = min(BLOCK, fold.size) if isinstance(fold.size, int) else BLOCK
        outer = self.axis(Symbol(f"{fold.axis.name}.block"), blocks)
        whole = fold.size % count == 0
        length: Dim = count if whole else minimum(count, fold.size - BLOCK * outer)

        def block(word: str, body_of: Callable[[Symbol], Block]) -> None:
            """Add a loop over a block, whose body may need further folds."""
            j = self.axis(Symbol(f"{fold.axis.name}_{word}"), count)
            with self.inside(len(self.levels) - 1, j) as body:
                body += body_of(j)
            self.add(Loop(j, length, tuple(body)))

        def at(term: Term, j: Symbol) -> Term:
            return replaced(term, {fold.axis.name: BLOCK * outer + j})

        score, value = fold.score, fold.body
        with self.inside(level, outer) as inside:
            s = self.local(level + 1, dtype, self.scores(fold), (count,))
            top, c = (self.local(level + 1, dtype, name) for name in ("top", "c"))

            def element(j: Symbol) -> Term:
                return Read(s.buffer, (j,), dtype)

            def weight(of: Term) -> Term:
                return power(of, top, fold.factor)

            def added(j: Symbol) -> Block:
                def mixed(axes: tuple[Symbol, ...]) -> Set:
                    pairs = zip(along, axes, strict=True)
                    own: dict[str, Dim] = {old.name: new for (old, _), new in pairs}
                    term = self.term(replaced(at(value, j), own))
                    return Set(acc.buffer, axes, product(element(j), term, fused=fold.fused), "+=")

                return self.each("mix", along, mixed)

            def scaled(axes: tuple[Symbol, ...]) -> Set:
                return Set(acc.buffer, axes, product(Read(acc.buffer, axes, dtype), c))

            block("score", lambda j: (Set(s.buffer, (j,), self.term(at(score, j))),))
            inside.append(Set(top.buffer, (), m))
            block("top", lambda j: (Set(top.buffer, (), element(j), "max="),))
            inside += [Set(c.buffer, (), weight(m)), Set(m.buffer, (), top)]
            inside.append(Set(total.buffer, (), product(total, c)))
            block(
                "weight",
                lambda j: (
                    Set(s.buffer, (j,), weight(element(j))),
                    Set(total.buffer, (), element(j), "+="),
                ),
            )
            inside += self.each("scale", along, scaled)
            block("mix", added)
        self.add(Loop(outer, blocks, tuple(inside)), level=level)
        ends = {"l": total, "acc": Read(acc.buffer, axes, dtype)}
        return exchanged(
            result, lambda part: ends[part.name] if isinstance(part, FoldState) else None
        )

    def each(
        self,
        word: str,
        along: list[tuple[Symbol, Dim]],
        write: Callable[[tuple[Symbol, ...]], Statement],
    ) -> Block:
        """Return a statement for each position along some axes, called by a word behind theirs."""
        axes = tuple(self.axis(Symbol(f"{axis.name}_{word}"), size) for axis, size in along)
        kept = self.levels
        for axis in axes:
            self.levels = [*self.levels, self.levels[-1].inner(axis)]
        block: Block = (write(axes),)
        for level, axis, (_, size) in reversed(
            [*zip(self.levels[len(kept) :], axes, along, strict=True)]
        ):
            block = (Loop(axis, size, (*level.statements, *block)),)
        self.levels = kept
        return block

    def scores(self, fold: Fold) -> str:
        """Return a name for the scores of a softmax: the name that they were written with."""
        score = self.asked[fold].score if fold in self.asked else None
        if isinstance(score, Read) and score.buffer in self.words:
            self.words.remove(score.buffer)
            self.taken.remove(score.buffer)
            return score.buffer
        return "s"

    def local(self, level: int, dtype: DType, word: str = "t", shape: Shape = ()) -> Read:
        """Return a new scalar, or array, declared at a level."""
        name = unique(word, self.taken)
        self.taken.add(name)
        space = "scratch" if shape else "registers"
        self.add(Local(name, TensorType(dtype, shape), space), level=level)
        return Read(name, (), dtype)

    def loop(self, fold: Fold, value: str, dtype: DType, level: int) -> Loop:
        """Return the loop that computes a fold, merged with a fold of its kind right inside it."""
        axis = self.axis(fold.axis, fold.size)
        body = replaced(fold.body, {fold.axis.name: axis})
        with self.inside(level, axis) as inside:
            same = isinstance(body, Fold) and (body.kind, body.dtype) == (fold.kind, fold.dtype)
            if isinstance(body, Fold) and same and axis.name in free(body):
                inside.append(self.loop(body, value, dtype, level + 1))
            else:
                term = widened(self.term(body), dtype)
                inside.append(Set(value, (), term, "+=" if fold.kind == "sum" else "max="))
        return Loop(axis, fold.size, tuple(inside))

    def guarded(self, guard: Guarded) -> Term:
        """Compute a guarded term with folds, which may only be evaluated where the guard holds."""
        level, floor = len(self.levels) - 1, self.floor
        value = self.local(level, guard.dtype)
        self.add(Set(value.buffer, (), Number(0, guard.dtype)))
        self.floor = level + 1
        with self.inside(level) as body:
            term = self.term(guard.term)
            body.append(Set(value.buffer, (), term))
        self.floor = floor
        self.add(When(guard.holds, tuple(body)))
        return value


def widened(term: Term, dtype: DType) -> Term:
    """Return a term in a wider dtype; factors widen before they multiply, without rounding."""
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
    values: list[Symbol] = []
    for axis in reversed(axes):
        if not folds or axis.name in scored:
            break
        values.append(axis)
    return values[::-1]
