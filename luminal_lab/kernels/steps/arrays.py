"""Steps about arrays: pack, shrink, place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar, cast, get_args

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, Symbol, bounds, known, substitute, symbols
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.kernels.definition.substitution import guarded, replaced
from luminal_lab.kernels.definition.terms import Guarded, Read, Term, free, read_by
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Space,
    accesses,
    arrays_in,
    axes_in,
    declared,
    every,
    moved,
    paths,
    reads_of,
)
from luminal_lab.kernels.steps.step import (
    ForEach,
    Step,
    around,
    axes_around,
    copied,
    extent,
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
    of a loop the copy is 0.
    """

    form: ClassVar[str] = "pack {array} before {loop} over {axes} as {into}"
    array: str
    loop: str
    axes: tuple[str, ...]
    into: str

    @override
    def apply(self, nest: Nest) -> Nest:
        loop = self.find(nest, self.loop)
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
        terms = {
            term for statement in statements for term in self.read(statement.term, known, changing)
        }
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
        hint = "pack it before a loop inside, in which it is read in one way"
        term = only(self, loop, terms, hint)
        if any(access.how != "read" and access.name == self.array for access in accesses((loop,))):
            raise self.refuse(
                f"{loop.name} writes {self.array} too",
                "pack before a loop that only reads it; fission can make one",
            )
        names = copied([axis.name for axis in axes], self.into)
        new = [
            self.named(nest, name, extent(axis.axis))
            for axis, name in zip(axes, names, strict=True)
        ]
        values: dict[str, Dim] = {axis.name: own for axis, own in zip(axes, new, strict=True)}
        value = replaced(term, values)
        if not self.reaches(nest, value):
            for axis, own in zip(axes, new, strict=True):
                for most in least_of(substitute(axis.size, values)):
                    value = guarded(own < most, value)
        copy = Read(self.into, tuple(axis.axis for axis in axes), term.dtype)
        block = copy_of(self.into, new, value, top=not outside)
        return replaced_loop(nest, loop.name, (*block, *with_copy(loop, term, copy)))

    def read(self, term: Term, known: set[str], changing: set[str]) -> Iterator[Term]:
        """Yield the largest parts of a term that read the array and depend on nothing but these."""
        return parts_of(term, self.array, lambda part: self.fits(part, known, changing))

    def fits(self, term: Term, known: set[str], changing: set[str]) -> bool:
        """Return whether a term that reads the array can be copied: it depends on nothing else."""
        return free(term).keys() <= known and read_by(term).isdisjoint(changing)

    def reaches(self, nest: Nest, term: Term) -> bool:
        """Return whether all that a term reads is there, beyond the ends of loops too."""
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
        # A guard that skips it where it does not exist comes with it.
        inner = term.term if isinstance(term, Guarded) else term
        is_read = isinstance(inner, Read) and inner.buffer == self.array
        return is_read and free(term).keys() <= known


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
    """Say where a local array is: in memory for all tasks, in a task's scratch, or registers.

    local t: f32[16] in memory   →   local t: f32[16] in registers

    On a GPU also in shared memory, which the threads of a block share; or there in tiles, the form
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


# -- pieces ----------------------------------------------------------------------------------------


def parts_of(term: Term, array: str, fits: Callable[[Term], bool]) -> Iterator[Term]:
    """Yield the largest parts of a term that read an array and are fit for a copy."""
    if array in read_by(term):
        if fits(term):
            yield term
        else:
            for part in term.parts:
                yield from parts_of(part, array, fits)


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
    """Return the part of an index that only the loops around decide."""
    assert use.index is not None
    index = use.index[axis]
    inner = {s.name: 0 for s in symbols(index) if s.name not in bound and s.high is not None}
    rest = substitute(index, dict(inner))
    return rest if any(s.name in bound for s in symbols(rest)) else 0
