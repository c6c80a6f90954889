"""Steps about arrays: pack, copy, stage, hold, pad, shrink, place, widen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, TypeVar, cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, both, bounds, known, substitute, symbols
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.substitution import exchanged, guarded, replaced
from luminal_lab.kernels.definition.terms import (
    Guarded,
    Read,
    Term,
    free,
    read_by,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    accesses,
    arrays_in,
    arrays_written,
    axes_in,
    declared,
    every,
    moved,
    nested,
    paths,
    private,
    reads_of,
)
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.steps.step import (
    ForEach,
    Step,
    apart,
    around,
    axes_around,
    extent,
    is_small,
    least_of,
    over,
    replaced_loop,
    with_body,
    with_copy,
    within,
)

T = TypeVar("T", bound=Term)


@dataclass(frozen=True)
class Pack(Step):
    """Before a loop, copy the elements of an array that it reads into a local with axes in order.

    for j: for k: … b[k, j] …   →   for p_j: for p_k: p[p_j, p_k] = b[p_k, p_j]
                                     for j: for k: … p[j, k] …

    Any work on an element before it is multiplied or stored happens during the copy. Beyond the end
    of a loop the copy is 0. What is cast from a dtype afterwards can be copied in that dtype.
    """

    form: ClassVar[str] = "pack {array} before {loop} over {axes} as {into}[ in {dtype}]"
    array: str
    loop: str
    axes: tuple[str, ...]
    into: str
    dtype: str = ""

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop, later=True)
        axes = [self.find(nest, name) for name in self.expanded(nest, self.axes, loop)]
        self.check_free(nest, self.into)
        for axis in axes:
            if axis.name not in {loop.name, *axes_in(loop.body)}:
                raise self.refuse(
                    f"{axis.name} is not in {loop.name}",
                    f"those in it are {', '.join([loop.name, *sorted(axes_in(loop.body))])}",
                )
        outside = axes_around(nest, loop.name)
        known = {*outside, *(axis.name for axis in axes), *nest.dims}
        statements = every(loop.body, Set)
        # An array that the loop itself writes has other values before the loop.
        changing = {statement.name for statement in statements} - {self.array}
        terms = [
            term for statement in statements for term in self.read(statement.term, known, changing)
        ]
        if not terms and self.array in arrays_in(loop.body):
            raise self.refuse(
                f"what {loop.name} reads of it depends on more than these axes",
                "name all loops inside by which it is read; those outside need not be named",
            )
        if not terms:
            raise self.refuse(
                f"{loop.name} does not read {self.array}",
                f"it reads {', '.join(sorted(arrays_in(loop.body))) or 'nothing'}",
            )
        term = self.one(loop, terms)
        if any(access.how != "read" and access.name == self.array for access in accesses((loop,))):
            raise self.refuse(
                f"{loop.name} writes {self.array} too",
                "pack before a loop that only reads it; fission can make one",
            )
        new = self.copied(nest, self.into, [(axis.name, extent(axis.axis)) for axis in axes])
        values = {axis.name: own for axis, own in zip(axes, new, strict=True)}
        value = replaced(term, values)
        if not self.reaches(nest, value):
            conditions = [*_conditions(statements, term, known), *_ends(axes, new)]
            for holds in conditions:
                value = guarded(substitute(holds, values), value)
        copy = Read(self.into, tuple(axis.axis for axis in axes), term.dtype)
        block = copy_of(self.into, new, value, top=not outside)
        return replaced_loop(nest, loop.name, (*block, *with_copy(loop, term, copy)))

    def one(self, loop: Loop, terms: Sequence[Term]) -> Term:
        """Return what is copied of all that the loop reads; several refuse the step."""
        hint = "pack it before a loop inside, in which it is read in one way"
        return only(self, loop, {*terms}, hint)

    def read(self, term: Term, known: set[str], changing: set[str]) -> Iterator[Term]:
        """Yield the largest parts of a term that read the array and depend on nothing but these."""
        return parts_of(term, self.array, lambda part: self.fits(part, known, changing))

    def fits(self, term: Term, known: set[str], changing: set[str]) -> bool:
        """Return whether a term that reads the array can be copied: it depends on nothing else."""
        is_asked = self.dtype in ("", term.dtype.short)
        return is_asked and free(term).keys() <= known and read_by(term).isdisjoint(changing)

    def reaches(self, nest: Nest, term: Term) -> bool:
        """Return whether everything that a term reads exists, beyond the ends of loops too."""
        return all(
            index is not None
            and all(
                within(at, size) for at, size in zip(index, nest.types[name].shape, strict=True)
            )
            for name, index in reads_of(term)
        )


@dataclass(frozen=True)
class Copy(Pack):
    """Before a loop, copy the elements of an array that it reads, unchanged.

    for j: y[j] = exp2(t[j])   →   for c_j: c[c_j] = t[c_j];   for j: y[j] = exp2(c[j])
    """

    form: ClassVar[str] = "copy {array} before {loop} over {axes} as {into}"

    @override
    def fits(self, term: Term, known: set[str], changing: set[str]) -> bool:
        # A guard that skips it if it does not exist comes with it.
        inner = term.term if isinstance(term, Guarded) else term
        is_read = isinstance(inner, Read) and inner.buffer == self.array
        return is_read and free(term).keys() <= known


@dataclass(frozen=True)
class Share(Pack):
    """Before a loop, compute once what it makes of an array, if that is the same in each iteration.

    for k: y[k] = q[k] * f32(d[0])   →   s = f32(d[0]);   for k: y[k] = q[k] * s

    If there are several such values, the first is shared.
    """

    form: ClassVar[str] = "share {array} in {loop} as {into}"
    axes: tuple[str, ...] = field(init=False, default=())

    @override
    def one(self, loop: Loop, terms: Sequence[Term]) -> Term:
        return terms[0]


@dataclass(frozen=True)
class Shrink(ForEach):
    """Keep only the part of a local that one iteration of the loops around all its uses needs.

    local t: f32[n]; for i: t[i] = …; y[i] = t[i]   →   for i: local t: f32[]; t = …; y[i] = t
    """

    form: ClassVar[str] = "shrink {arrays}"
    arrays: tuple[str, ...]

    @override
    def change(self, nest: Nest) -> Nest:
        local = self.find_local(nest, *self.arrays)
        uses = [access for access in accesses(nest.body) if access.name == local.name]
        if any(use.index is None for use in uses):
            raise self.refuse("it is looked up, so that all of it is needed")
        path = _common(nest, local.name)
        if not path:
            raise self.refuse("no loop is around all its uses")
        bound = {loop.name for loop in path}
        shape: list[Dim] = []
        bases: list[Dim] = []
        for axis, size in enumerate(local.type.shape):
            origins = {_outer(use, axis, bound) for use in uses}
            if len(origins) > 1:
                raise self.refuse(f"it is used at {' and '.join(sorted(map(str, origins)))}")
            (base,) = origins
            bases.append(base)
            shape.append(size if base == 0 else self.length(uses, axis, base, size))
        if all(base == 0 for base in bases):
            raise self.refuse("each iteration needs all of it")
        kept = [axis for axis, size in enumerate(shape) if size != 1 or bases[axis] == 0]

        type = TensorType(local.type.dtype, tuple(shape[axis] for axis in kept))
        space: Space = "registers" if size_of(type.shape) == 1 else "scratch"

        def index(old: Shape) -> Shape:
            return tuple(old[axis] - bases[axis] for axis in kept)

        changed = with_body(nest, moved(declared(nest.body, local.name, ()), {local.name}, index))
        loop = changed.loops[path[-1].name]
        body = (Local(local.name, type, space), *loop.body)
        return replaced_loop(changed, loop.name, replace(loop, body=body))

    def length(self, uses: list[Access], axis: int, base: Dim, size: Dim) -> Dim:
        """Return how many positions one iteration uses."""
        most: Dim = 0
        for use in uses:
            assert use.index is not None
            rest = use.index[axis] - base
            high = bounds(rest)[1]
            if high is None and isinstance(rest, Symbol):
                high = rest.high
            if high is None:
                return size
            if known(most < high) is not False:
                most = high
        return most + 1


@dataclass(frozen=True)
class Place(ForEach):
    """Choose where a local array lives: in memory for all tasks, in a task's scratch, or registers.

    local t: f32[16] in memory   →   local t: f32[16] in registers

    On a GPU also in shared memory, which the threads of a block share, or there in tiles, the form
    that four warps multiply: only bulk copies write tiles, and only products read them.
    """

    form: ClassVar[str] = "place {arrays} in {space}"
    arrays: tuple[str, ...]
    space: str

    @override
    def change(self, nest: Nest) -> Nest:
        local = self.find_local(nest, *self.arrays)
        if self.space not in get_args(Space):
            raise self.refuse(f"a space is one of {', '.join(get_args(Space))}")
        if self.space == "registers":
            self.number(size_of(local.type.shape))
        path = around(nest, local.name)
        if self.space == "memory" and path:
            raise self.refuse("it is made anew in each iteration, and memory is there once")
        for loop in nest.loops.values() if self.space == "memory" else ():
            if loop.kind == "simd" and any(
                access.name == local.name and access.how in ("+=", "max=") and access.index == ()
                for access in accesses(loop.body)
            ):
                raise self.refuse(f"the lanes of {loop.name} add it up, each for itself")

        placed = replace(local, space=cast(Space, self.space))
        return with_body(nest, declared(nest.body, local.name, (placed,)))


@dataclass(frozen=True)
class Widen(Step):
    """Flatten the axes after the first few into rows, each followed by some free elements.

    local t: f16[16, 4, 8] in shared; t[i, j, k] = …   →   local t: f16[16, 40] in shared
                                                           t[i, k + 8*j] = …

    GPUs read shared memory from 32 banks of 4 bytes, and places in the same bank one after another:
    if 8 rows begin in different banks, a warp reads a column of them at once.
    """

    form: ClassVar[str] = "widen {array} behind {axes} by {count}"
    array: str
    axes: int
    count: int

    @override
    def apply(self, nest: Nest) -> Nest:
        local = self.find_local(nest, self.array)
        shape = local.type.shape
        if self.axes >= len(shape):
            raise self.refuse(
                f"it has {len(shape)} axes, so that there are none behind {self.axes}"
            )
        if any(use.index is None for use in accesses(nest.body) if use.name == self.array):
            raise self.refuse("it is looked up, as one row of all that it has")
        wide = (*shape[: self.axes], size_of(shape[self.axes :]) + self.count)

        def index(old: Shape) -> Shape:
            return (*old[: self.axes], row_major(shape[self.axes :], old[self.axes :]))

        wider = replace(local, type=TensorType(local.type.dtype, wide))
        body = declared(nest.body, self.array, (wider,))
        return with_body(nest, moved(body, {self.array}, index))


@dataclass(frozen=True)
class Stage(Step):
    """Copy the elements that a loop changes into a local before it, and back after it.

    for k: for i: c[i] += …   →   for s_i_start: s[s_i_start] = c[s_i_start]
                                  for k: for i: s[i] += …
                                  for s_i_end: c[s_i_end] = s[s_i_end]
    """

    form: ClassVar[str] = "stage {array} in {loop} over {axes} as {into}"
    array: str
    loop: str
    axes: tuple[str, ...]
    into: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop, later=True)
        axes = [self.find(nest, name) for name in self.expanded(nest, self.axes, loop)]
        self.check_free(nest, self.into)
        for axis in axes:
            if axis.name not in axes_in(loop.body):
                raise self.refuse(f"{axis.name} is not in {loop.name}")
        used_at = self.index(nest, loop, axes)
        dtype = nest.types[self.array].dtype
        own: Shape = tuple(axis.axis for axis in axes)

        changed = moved((loop,), {self.array}, lambda _: own, self.into)
        shape = tuple(extent(axis.axis) for axis in axes)
        space: Space = "registers" if is_small(shape) else "scratch"
        copy_in = self.copies(nest, axes, used_at, is_back=False)
        copy_out = self.copies(nest, axes, used_at, is_back=True)
        local = Local(self.into, TensorType(dtype, shape), space)
        return replaced_loop(nest, loop.name, (local, copy_in, *changed, copy_out))

    def index(self, nest: Nest, loop: Loop, axes: list[Loop]) -> Shape:
        """Return the index of the array's uses, which must be the same for all of them."""
        uses = [access for access in accesses(loop.body) if access.name == self.array]
        if not uses:
            raise self.refuse(f"{loop.name} has no {self.array} in it")
        if self.array in private(loop.body):
            raise self.refuse(f"{self.array} is made anew in {loop.name}")
        indices = {use.index for use in uses}
        if None in indices:
            raise self.refuse(f"{self.array} is looked up there")
        if len(indices) > 1:
            shown = " and ".join(sorted(_at(self.array, at) for at in indices if at is not None))
            raise self.refuse(f"it is used at {shown}: one copy cannot be both")
        (index,) = indices
        assert index is not None
        outside = axes_around(nest, loop.name)
        allowed = outside | {axis.name for axis in axes} | set(nest.dims)
        for axis in axes:
            left = {s.name for s in symbols(axis.size)} - outside - set(nest.dims)
            if left:
                raise self.refuse(f"the size of {axis.name} depends on {', '.join(sorted(left))}")
            if not apart(nest, uses[0], uses[0], axis.axis, outside):
                raise self.refuse(f"{axis.name} does not tell the elements of {self.array} apart")
        left = {s.name for dim in index for s in symbols(dim)} - allowed
        if left:
            raise self.refuse(f"where it is used depends on {', '.join(sorted(left))}, too")
        return index

    def copies(self, nest: Nest, axes: list[Loop], index: Shape, *, is_back: bool) -> Statement:
        """Return the loops that copy the elements into the local, or back."""
        dtype, sizes = nest.types[self.array].dtype, [(a.name, extent(a.axis)) for a in axes]
        new = self.copied(nest, self.into, sizes, "end" if is_back else "start")
        values = {axis.name: own for axis, own in zip(axes, new, strict=True)}
        there = self.array, tuple(substitute(dim, values) for dim in index)
        here = self.into, tuple[Dim, ...](new)
        target, source = (there, here) if is_back else (here, there)
        loops = [replace(axis, axis=own, kind="for") for axis, own in zip(axes, new, strict=True)]
        return nested(loops, Set(*target, Read(*source, dtype)))


@dataclass(frozen=True)
class Hold(Stage):
    """Keep one element that a loop changes in a scalar while the loop runs.

    for j: l[i] += s[j]   →   h = l[i];  for j: h += s[j];  l[i] = h
    """

    form: ClassVar[str] = "hold {array} in {loop} as {into}"
    axes: tuple[str, ...] = field(init=False, default=())


def _at(name: str, index: Shape) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


@dataclass(frozen=True)
class _Span:
    """The span that a loop reads along one axis: its first position, and the axes that move it."""

    first: Dim
    added: Dim
    size: Dim
    """How many positions the span has, from the first to the last."""
    pivot: Symbol
    """An axis that moves the position by one."""


_Spanned: TypeAlias = tuple[_Span, Dim, tuple[Symbol, ...]]


@dataclass(frozen=True)
class Pad(Step):
    """Before a loop, copy all elements of an array that it reads, and the border, each one once.

    for i: for p: … [0 < i + p: x[i + p - 1]] …
    →   for f_i < n + 2: f[f_i] = [0 < f_i: x[f_i - 1]];   for i: for p: … f[i + p] …

    Any work on an element before it is multiplied or stored happens during the copy. Along the last
    axis the copy can be in parts: with 2, those at even positions, and then those at odd ones.
    """

    form: ClassVar[str] = "pad {array} before {loop} as {into}[ in {parts} parts]"
    array: str
    loop: str
    into: str
    parts: int = 0

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
        self.check_free(nest, self.into)
        read = only(self, loop, self.reads(loop))
        axes = {name: nest.loops[name] for name in (loop.name, *axes_in(loop.body))}
        spans = [self.span(nest, dim, axes) for dim in read.index]
        own = self.own(nest, spans)
        # Each pivot is the position in the span, less what the span's other axes add.
        values: dict[str, Dim] = {}
        for span, position, _ in own:
            step = slope(span.added, span.pivot)
            values[span.pivot.name] = step * (position - span.added) + span.pivot

        inside = set(axes)
        changing = arrays_written(loop.body)
        sets = every(loop.body, Set)

        def fits(term: Term) -> bool:
            """Return whether a term depends on nothing inside but the index of the array."""
            left = free(replaced(term, values)).keys() & inside
            return not left and read_by(term).isdisjoint(changing)

        terms = {term for statement in sets for term in parts_of(statement.term, self.array, fits)}
        term = only(self, loop, terms)
        value = replaced(term, values)
        # The loop need not read every position between the first and the last.
        there: Dim = 1
        for at, size in zip(read.index, nest.types[self.array].shape, strict=True):
            position = substitute(at, values)
            if not within(position, size):
                there = both(there, both(position >= 0, position < size))
        if there != 1 and read_by(value) != {self.array}:  # where it ends, the others need not
            raise self.refuse(f"what is read of {self.array} comes with other arrays")
        parts = [part for part in walk_terms(value) if isinstance(part, Guarded)]
        if parts and not isinstance(value, Guarded):  # what is not there may have another value
            value = exchanged(value, lambda part: guarded(there, part) if _is_read(part) else None)
        else:
            value = guarded(there, value)
        top = not around(nest, loop.name)
        axes_of_copy = [axis for _, _, each in own for axis in each]
        block = copy_of(self.into, axes_of_copy, value, top=top)
        index = [span.added for span, _, _ in own]
        if self.parts > 1:
            index[-1:] = [index[-1] % self.parts, index[-1] // self.parts]
        copy = Read(self.into, tuple(index), term.dtype)
        return replaced_loop(nest, loop.name, (*block, *with_copy(loop, term, copy)))

    def reads(self, loop: Loop) -> set[Read]:
        """Return the elements of the array that a loop reads and does not write."""
        used = [access for access in accesses((loop,)) if access.name == self.array]
        if not used:
            raise self.refuse(f"{loop.name} does not read {self.array}")
        if any(access.how != "read" for access in used):
            raise self.refuse(f"{loop.name} writes {self.array} too")
        if any(access.index is None for access in used):
            raise self.refuse(f"{self.array} is looked up there")
        return {
            part
            for access in used
            for part in walk_terms(access.statement.term)
            if isinstance(part, Read) and part.buffer == self.array
        }

    def span(self, nest: Nest, at: Dim, axes: Mapping[str, Loop]) -> _Span | None:
        """Return the span of a position that axes move, or None if they do not."""
        first, pivot = at, None
        size: Dim = 1
        for axis in symbols(at):
            if axis.name not in axes:
                continue
            step, length = slope(at, axis), extent(axis)
            if not isinstance(step, int):
                raise self.refuse(f"{self.array} is not read along {axis} in equal steps: at {at}")
            if any(s.name in nest.loops for s in symbols(length)):
                raise self.refuse(f"the size of {axis}, {length}, depends on other loops")
            first = substitute(first, {axis.name: 0 if step > 0 else length - 1})
            size = size + abs(step) * (length - 1)
            if abs(step) == 1 and pivot is None:
                pivot = axis
        if first == at:
            return None
        if pivot is None:
            raise self.refuse(f"neighbours along no axis are neighbours in {self.array}")
        return _Span(first, at - first, size, pivot)

    def own(self, nest: Nest, spans: list[_Span | None]) -> list[_Spanned]:
        """Return the spans that the copy has, each with its position by its new axes, and them."""
        # An axis that moves two positions, as in x[i, i], is one axis of the copy.
        moved = [*{span.pivot: span for span in spans if span is not None}.values()]
        sizes = [(span.pivot.name, span.size) for span in moved]
        if self.parts > 1 and sizes:
            name, size = sizes[-1]
            length = (size + self.parts - 1) // self.parts
            sizes[-1:] = [(f"{name}.part", self.parts), (f"{name}.place", length)]
        new = self.copied(nest, self.into, sizes)
        own: list[_Spanned] = [(span, axis, (axis,)) for span, axis in zip(moved, new)]  # noqa: B905
        if self.parts > 1 and own:
            part, place = new[-2:]
            own[-1] = moved[-1], self.parts * place + part, (part, place)
        return own


# -- pieces ----------------------------------------------------------------------------------------


def parts_of(term: Term, array: str, fits: Callable[[Term], bool]) -> Iterator[Term]:
    """Yield the largest parts of a term that read an array and are fit for a copy."""
    if array in read_by(term):
        if fits(term):
            yield term
        else:
            for part in term.parts:
                yield from parts_of(part, array, fits)


def _ends(axes: Sequence[Loop], new: Sequence[Symbol]) -> Iterator[Dim]:
    """Yield the conditions under which axes of a copy are before the ends of loops."""
    values = {axis.name: own for axis, own in zip(axes, new, strict=True)}
    for axis, own in zip(axes, new, strict=True):
        yield from (own < most for most in least_of(substitute(axis.size, values)))


def _conditions(statements: Iterable[Set], part: Term, known: Collection[str]) -> list[Dim]:
    """Return the conditions, on what is known, under which all readers read a part of a term."""
    around = [conditions for s in statements if (conditions := _around(s.term, part)) is not None]
    first, *others = [
        [holds for holds in one if {symbol.name for symbol in symbols(holds)} <= {*known}]
        for one in around
    ]
    return [holds for holds in first if all(holds in other for other in others)]


def _around(term: Term, part: Term) -> list[Dim] | None:
    """Return the conditions around a part of a term; None if it is not there."""
    if term == part:
        return []
    for inner in term.parts:
        found = _around(inner, part)
        if found is not None:
            return [term.holds, *found] if isinstance(term, Guarded) else found
    return None


def _is_read(term: Term) -> bool:
    return isinstance(term, Read)


def only(step: Step, loop: Loop, terms: Collection[T], hint: str | None = None) -> T:
    """Return the one way in which a loop reads an array, or refuse several."""
    if len(terms) != 1:
        shown = " and ".join(sorted(map(str, terms))[:2])
        raise step.refuse(f"{loop.name} reads it as {shown}: one copy cannot be both", hint)
    (term,) = terms
    return term


def copy_of(into: str, axes: Sequence[Symbol], value: Term, *, top: bool) -> Block:
    """Return a local, and the loops that fill it."""
    type = TensorType(value.dtype, tuple(map(extent, axes)))
    space: Space = "memory" if top else "scratch"
    return Local(into, type, space), over(axes, Set(into, tuple(axes), value))


def _common(nest: Nest, name: str) -> list[Loop]:
    """Return the loops that are around all uses of an array."""
    around_uses = [
        path
        for path, statement in paths(nest.body)
        if isinstance(statement, Set)
        and (statement.name == name or name in read_by(statement.term))
    ]
    common: list[Loop] = []
    for level in zip(*around_uses, strict=False):
        if any(loop.name != level[0].name for loop in level):
            break
        common.append(level[0])
    return common


def _outer(use: Access, axis: int, bound: set[str]) -> Dim:
    """Return the part of an index that depends only on the loops around."""
    assert use.index is not None
    index = use.index[axis]
    inner = {s.name: 0 for s in symbols(index) if s.name not in bound and s.high is not None}
    rest = substitute(index, dict(inner))
    return rest if any(s.name in bound for s in symbols(rest)) else 0
