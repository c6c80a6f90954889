"""Definition to nest: a loop for each axis, in the order in which the definition writes them.

    y[i < n] = (sum j < 8: x[i, j]) * 0.125    →    for i < n:
                                                      local t: f32[] in registers
                                                      t = 0.0
                                                      for j < 8:
                                                        t += x[i, j]
                                                      y[i] = t * 0.125

A fold becomes a local that a loop adds to, as far out as its axes allow; equal folds become one.
Directly nested folds of one kind become one sum. Definitions' locals become arrays in memory.

A pass whose sums follow maxima goes along its axis in blocks: the scores of a block, the largest so
far, the earlier sums scaled down to it, the weights, and what they add. Rows of sums are computed
side by side, and a local that only the scores read is computed where they are. A pass without
products has long blocks, and recomputes a cheap score when it needs it again. Any other pass is one
loop over its axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim, Shape, Symbol, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.printer import unique
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.running import Running, after, running, scores_inlined
from luminal_lab.kernels.definition.substitution import exchanged, replaced, stated
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    Guarded,
    Number,
    Read,
    States,
    Term,
    axis_of,
    free,
    passes,
    product,
    walk,
)
from luminal_lab.kernels.nest.nest import Block, Local, Loop, Nest, Set, Statement, When

NO_DIMS: Mapping[str, Dim] = {}
BLOCK, LONG = 64, 1024
"""The positions in a block of a pass, and in a block of a pass that only reads and adds."""
COSTLY, CHEAP = 10, 4
"""A function that costs this much, in additions, is not computed again for each element; a score
that costs more than `CHEAP` is stored for its weight."""


def lower(definition: Definition) -> Nest:
    """Return the simplest nest that computes a definition.

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
    for line in (*definition.locals, *_in_order(definition.outputs)):
        body += lowering.line(line)
    outputs = tuple(Buffer(line.name, line.type) for line in definition.outputs)
    return Nest(definition.name, definition.inputs, outputs, tuple(body))


Pass: TypeAlias = tuple[Symbol, States]
"""A pass without its result."""


class _Level(NamedTuple):
    """A loop around, or the level outside all loops."""

    statements: list[Statement]
    known: dict[Term, Term]
    """The folds computed so far."""
    ended: dict[Pass, Mapping[str, Term]]
    """The passes computed so far: the final values of each, by name."""
    axes: frozenset[str] = frozenset()
    """The axes that are known."""

    def inner(self, *axes: Symbol) -> _Level:
        """Return the level of an inner loop."""
        return _Level([], {}, {}, self.axes.union(axis.name for axis in axes))


class _Lowering:
    def __init__(self, definition: Definition, written: Definition) -> None:
        self.written = {line.name: line.term for line in written.lines}
        """The lines before scores became part of the passes that read them."""
        self.words = {*written.types} - {*definition.types}
        """The names of those scores, which are computed in blocks."""
        self.asked: dict[Term, Fold] = {}
        """The passes of a line as they were written."""
        self.taken = {*written.types, *written.dims}
        self.levels: list[_Level] = []
        """The loops around, the outermost first."""
        self.floor = 0
        """The outermost level that may be used: inside a condition, only the levels within it."""

    def line(self, line: Output) -> Block:
        axes = [
            self.axis(axis, size) for axis, size in zip(line.axes, line.type.shape, strict=True)
        ]
        pairs = list(zip(line.axes, axes, line.type.shape, strict=True))
        values: dict[str, Dim] = {old.name: 0 if size == 1 else new for old, new, size in pairs}
        loops = [(new, size) for _, new, size in pairs if size != 1]
        self.levels = [_Level([], {}, {})]
        for axis, _ in loops:
            self.levels.append(self.levels[-1].inner(axis))
        index = tuple(values[axis.name] for axis in line.axes)
        term = replaced(line.term, values)
        self.asked = dict(zip(passes(term), passes(self.written[line.name]), strict=False))
        level = len(loops) - len(_mixed(term, [axis for axis, _ in loops]))
        for fold in passes(term) if level < len(loops) else ():
            self.passed(fold, level, loops[level:])
        self.add(Set(line.name, index, self.term(term)))
        for axis, size in reversed(loops):
            block = self.levels.pop().statements
            self.add(Loop(axis, size, tuple(block)))
        return tuple(self.levels.pop().statements)

    def add(self, *statements: Statement, level: int = -1) -> None:
        """Add statements to those of a loop around, by default the innermost."""
        self.levels[level].statements.extend(statements)

    @contextmanager
    def inside(self, level: int, *axes: Symbol) -> Generator[list[Statement]]:
        """Collect the statements added meanwhile at a level where only its own axes are known."""
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
        """Compute a value that cannot be part of a term, and return the read that replaces it."""
        match term:
            case Fold():
                return self.fold(term)
            case Guarded(term=inner) if any(isinstance(part, Fold) for part in walk(inner)):
                return self.guarded(term)
            case _:
                return None

    def level(self, *terms: Term) -> int:
        """Return the outermost level at which all axes mentioned by terms are known."""
        mentioned = {name for term in terms for name in free(term)} & self.levels[-1].axes
        outermost = next(n for n, level in enumerate(self.levels) if mentioned <= level.axes)
        return max(outermost, self.floor)

    def fold(self, fold: Fold) -> Term:
        if fold.states is not None:
            level = self.level(*fold.inside)
            result = stated(fold.body, self.passed(fold, level, []))
            return self.term(exchanged(result, partial(self.once, level)))
        level = self.level(fold)
        for outer in self.levels[: level + 1]:
            if fold in outer.known:
                return outer.known[fold]
        known = self.levels[level].known
        dtype = DType.float32 if fold.dtype.is_half else fold.dtype
        value = self.local(level, dtype)
        start = Number(0, dtype) if fold.kind == "sum" else Number(least(dtype), dtype)
        self.add(Set(value.buffer, (), start), level=level)
        self.add(self.loop(fold, value.buffer, dtype, level), level=level)
        is_same = dtype is fold.dtype
        known[fold] = value if is_same else Apply(Cast(fold.dtype), (value,), fold.dtype)
        return known[fold]

    def once(self, level: int, term: Term) -> Term | None:
        """Compute a costly function of a pass's values after the pass, not for each element."""
        level = max(level, self.level(term))
        is_costly = isinstance(term, Apply) and term.op.cost >= COSTLY
        if not is_costly or level == len(self.levels) - 1:
            return None
        known = self.levels[level].known
        if term not in known:
            value = self.local(level, term.dtype)
            self.add(Set(value.buffer, (), self.term(term)), level=level)
            known[term] = value
        return known[term]

    def passed(self, fold: Fold, level: int, along: list[tuple[Symbol, Dim]]) -> Mapping[str, Term]:
        """Compute a pass for all positions along some axes; return its final values."""
        assert fold.states is not None
        for outer in self.levels[: level + 1]:
            if (fold.axis, fold.states) in outer.ended:
                return outer.ended[fold.axis, fold.states]
        values = running(fold)
        if any(value.ratio for value in values):
            ends = _Blocks(self, fold, level, along).computed()
        else:
            ends = self.steps(fold, fold.states, level)
        self.levels[level].ended[fold.axis, fold.states] = ends
        return ends

    def steps(self, fold: Fold, states: States, level: int) -> Mapping[str, Term]:
        """Compute a pass position by position."""
        ends = {state.name: self.local(level, state.dtype, state.name) for state in states.names}
        for end, start in zip(ends.values(), states.start, strict=True):
            self.add(Set(end.buffer, (), self.term(start)), level=level)
        axis = self.axis(fold.axis, fold.size)

        def here(term: Term) -> Term:
            return self.term(replaced(stated(term, ends), {fold.axis.name: axis}))

        with self.inside(level, axis) as inside:
            values = running(fold)
            for value in values:
                how = "+=" if value.is_sum else "max="
                inside.append(Set(ends[value.state.name].buffer, (), here(value.term), how))
            known: dict[Term, Term] = {}
            following: list[Read] = []
            for state, term in zip(states.names, () if values else states.next, strict=False):
                following.append(self.local(-1, state.dtype, "next"))
                inside.append(Set(following[-1].buffer, (), here(exchanged(term, known.get))))
                known.setdefault(term, following[-1])
            for end, new in zip(ends.values(), following, strict=False):
                inside.append(Set(end.buffer, (), new))
        self.add(Loop(axis, fold.size, tuple(inside)), level=level)
        return ends

    def each(
        self,
        word: str,
        along: list[tuple[Symbol, Dim]],
        write: Callable[[tuple[Symbol, ...]], Statement],
    ) -> Block:
        """Return a statement for each position along some axes; a word follows the axes' names."""
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
        """Return a name for the scores of a pass: the one with which they were written."""
        values = running(self.asked[fold]) if fold in self.asked else ()
        for score in [value.term for value in values if not value.is_sum]:
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
        """Compute a guarded term with folds, which may be evaluated only if the guard holds."""
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


class _Total(NamedTuple):
    """A value of a pass so far: a scalar, or an array along some axes."""

    value: Running
    array: Read
    along: list[tuple[Symbol, Dim]]


class _Blocks:
    """A pass computed block by block, so that its sums are scaled once per block."""

    def __init__(
        self, lowering: _Lowering, fold: Fold, level: int, along: list[tuple[Symbol, Dim]]
    ) -> None:
        self.lowering, self.fold, self.level, size = lowering, fold, level, fold.size
        totals = [self.total(value, along) for value in running(fold)]
        self.maxima = [total for total in totals if not total.value.is_sum]
        self.sums = [total for total in totals if total.value.is_sum]
        for total in totals:
            start = lowering.each("start", total.along, partial(_set, total, total.value.start))
            lowering.add(*start, level=level)
        is_plain = not any(total.along or has_fold(total.value.term) for total in totals)
        self.most = LONG if is_plain else BLOCK
        self.count: Dim = min(self.most, size) if isinstance(size, int) else self.most
        self.blocks = (size + self.most - 1) // self.most
        self.block = lowering.axis(Symbol(f"{fold.axis.name}.block"), self.blocks)
        is_whole = size % self.count == 0
        self.length = self.count if is_whole else minimum(self.count, size - self.most * self.block)
        self.known: dict[Term, Read] = {}
        """The maxima before and after a block, and the factors that scale sums."""
        self.arrays: dict[Term, Read] = {}
        """The scores of a block, and then its weights."""

    def computed(self) -> Mapping[str, Term]:
        """Add the loop over blocks; return the final values of the pass."""
        with self.lowering.inside(self.level, self.block) as inside:
            self.score()
            self.weigh()
            self.mix()
        self.lowering.add(Loop(self.block, self.blocks, tuple(inside)), level=self.level)
        return {
            total.value.state.name: at(total.array, *[axis for axis, _ in total.along])
            for total in (*self.maxima, *self.sums)
        }

    def total(self, value: Running, along: list[tuple[Symbol, Dim]]) -> _Total:
        """Declare a value of the pass."""
        mentioned = {name for factor in value.others for name in free(factor)}
        own = [(axis, size) for axis, size in along if axis.name in mentioned]
        shape, state = tuple(size for _, size in own), value.state
        return _Total(value, self.lowering.local(self.level, state.dtype, state.name, shape), own)

    def score(self) -> None:
        """Compute the scores of a block, the maxima after it, and the factors that scale sums."""
        for total in self.maxima:
            score, dtype = total.value.term, total.array.dtype
            if not is_cheap(score):
                name = self.lowering.scores(self.fold)
                self.arrays[score] = self.lowering.local(-1, dtype, name, (self.count,))
            self.known[after(total.value.state)] = self.lowering.local(-1, dtype, "top")
            self.known[total.value.state] = total.array
        scales = {
            ratio: self.lowering.local(-1, ratio.dtype, "c")
            for ratio in dict.fromkeys(total.value.ratio for total in self.sums)
            if ratio is not None
        }
        for score, array in self.arrays.items():
            self.loop("score", partial(self.scored, score, array))
        for total in self.maxima:
            top = self.known[after(total.value.state)]
            self.lowering.add(Set(top.buffer, (), total.array))
            self.loop("top", partial(self.largest, total.value.term, top))
        for ratio, scale in scales.items():
            self.lowering.add(Set(scale.buffer, (), exchanged(ratio, self.known.get)))
        for total in self.maxima:
            self.lowering.add(Set(total.array.buffer, (), self.known[after(total.value.state)]))
        self.known |= scales

    def scored(self, score: Term, array: Read, j: Symbol) -> list[Set]:
        """Return the statements that compute a score."""
        return [Set(array.buffer, (j,), self.lowering.term(self.at(score, j)))]

    def largest(self, score: Term, top: Read, j: Symbol) -> list[Set]:
        """Return the statements that include a score in a maximum."""
        return [Set(top.buffer, (), self.term(score, j), "max=")]

    def weigh(self) -> None:
        """Compute the weights of a block, and the sums of weights alone."""
        alone = [total for total in self.sums if total.value.term in total.value.weights]
        weights = dict.fromkeys(weight for total in self.sums for weight in total.value.weights)
        uses = Counter(weight for total in self.sums for weight in total.value.weights)
        lone = {total.value.term for total in alone}
        stored = {
            weight: self.array(weight, weights)
            for weight in weights
            if uses[weight] > 1 or weight not in lone
        }

        def weighed(j: Symbol) -> Iterator[Set]:
            for weight, array in stored.items():
                yield Set(array.buffer, (j,), self.term(weight, j))
            for total in alone:
                weight = total.value.term
                term = at(stored[weight], j) if weight in stored else self.term(weight, j)
                yield Set(total.array.buffer, (), term, "+=")

        for total in alone:
            self.lowering.add(*self.scaled(total))
        if weights:
            self.loop("weight", weighed)
        self.arrays = stored

    def array(self, weight: Term, weights: Iterable[Term]) -> Read:
        """Return the array of a weight: that of its score, unless another weight needs it."""
        scores = [score for score in self.arrays if score in walk(weight)]
        if len(scores) == 1 and sum(scores[0] in walk(other) for other in weights) == 1:
            return self.arrays[scores[0]]
        return self.lowering.local(-1, weight.dtype, "w", (self.count,))

    def mix(self) -> None:
        """Scale all other sums, and add the contributions of the block's positions."""
        mixed = [total for total in self.sums if total.value.term not in total.value.weights]
        for total in mixed:
            self.lowering.add(*self.scaled(total))

        def added(j: Symbol) -> Iterator[Statement]:
            for total in mixed:
                yield from self.lowering.each("mix", total.along, partial(self.added, total, j))

        if mixed:
            self.loop("mix", added)

    def added(self, total: _Total, j: Symbol, axes: tuple[Symbol, ...]) -> Set:
        """Return what one position adds to a sum, for one element of the sum."""
        own: dict[str, Dim] = {
            old.name: new for (old, _), new in zip(total.along, axes, strict=True)
        }
        return Set(total.array.buffer, axes, self.term(total.value.term, j, own), "+=")

    def scaled(self, total: _Total) -> Block:
        """Return the statements that scale a sum down."""
        ratio = total.value.ratio

        def scaled(axes: tuple[Symbol, ...]) -> Set:
            assert ratio is not None
            return _set(total, product(at(total.array, *axes), self.known[ratio]), axes)

        return self.lowering.each("scale", total.along, scaled) if ratio else ()

    def loop(self, word: str, body_of: Callable[[Symbol], Iterable[Statement]]) -> None:
        """Add a loop over a block, whose body may need further folds."""
        lowering = self.lowering
        j = lowering.axis(Symbol(f"{self.fold.axis.name}_{word}"), self.count)
        with lowering.inside(len(lowering.levels) - 1, j) as body:
            for statement in body_of(j):
                body.append(statement)  # each may add other statements before it
        lowering.add(Loop(j, self.length, tuple(body)))

    def term(self, term: Term, j: Symbol, own: Mapping[str, Dim] = NO_DIMS) -> Term:
        """Return a lowered term at a position of a block."""
        known = {**self.known, **{part: at(array, j) for part, array in self.arrays.items()}}
        return self.lowering.term(self.at(exchanged(term, known.get), j, own))

    def at(self, term: Term, j: Symbol, own: Mapping[str, Dim] = NO_DIMS) -> Term:
        """Return a term, not yet lowered, at a position of a block."""
        return replaced(term, {self.fold.axis.name: self.most * self.block + j, **own})


def _in_order(outputs: Sequence[Output]) -> Sequence[Output]:
    """Return elementwise results so that most of them may be written over inputs.

    The one that reads most is first: the others may then be written over what it reads, as the
    state of an optimiser is after the weight that is made from it.
    """
    if any(has_fold(output.term) for output in outputs):
        return outputs
    reads = [{part.buffer for part in walk(o.term) if isinstance(part, Read)} for o in outputs]
    most_first = sorted(range(len(outputs)), key=lambda at: -len(reads[at]))
    return [outputs[at] for at in most_first]


def has_fold(term: Term) -> bool:
    """Return whether a term contains a fold."""
    return any(isinstance(part, Fold) for part in walk(term))


def is_cheap(score: Term) -> bool:
    """Return whether recomputing a score is cheaper than storing and loading it."""
    costs = [part.op.cost for part in walk(score) if isinstance(part, Apply)]
    return not has_fold(score) and sum(costs) <= CHEAP


def _set(total: _Total, term: Term, axes: tuple[Symbol, ...]) -> Set:
    return Set(total.array.buffer, axes, term)


def at(array: Read, *axes: Symbol) -> Read:
    """Return an element of an array."""
    return Read(array.buffer, axes, array.dtype)


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


# -- passes ----------------------------------------------------------------------------------------


def _mixed(term: Term, axes: list[Symbol]) -> list[Symbol]:
    """Return the last axes that only the sums of passes have; none without such passes."""
    values = [value for fold in passes(term) for value in running(fold)]
    parts = [part for value in values for part in value.weights or (value.term,)]
    if not any(value.ratio for value in values):
        return []
    scored = {name for part in parts for name in free(part)}
    mixed: list[Symbol] = []
    for axis in reversed(axes):
        if axis.name in scored:
            break
        mixed.append(axis)
    return mixed[::-1]
