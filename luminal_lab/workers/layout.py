"""Layouts: which worker has which part of a value, and what is sent to change that.

A layout has a word for each axis of the value: an axis of the mesh, over which it is cut; `-`,
where each worker has all of it; `*`, where each worker can make the part that is asked for. Behind
`sum` or `max` stand the axes of the mesh over which the workers' values have yet to be joined:

    data, -              rows are cut over data
    -, - sum data        each worker has a term of the sum
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.workers.mesh import Mesh

FREE = "*"
WHOLE = "-"
Kind: TypeAlias = Literal["sum", "max"]
Sent: TypeAlias = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "own_part"]


class Layout(NamedTuple):
    """A word for each axis of a value, and the axes of the mesh over which it is not yet joined."""

    dims: tuple[str, ...]
    partial: tuple[str, ...] = ()
    kind: Kind = "sum"

    @override
    def __str__(self) -> str:
        left = ", ".join(self.dims)
        return f"{left} {self.kind} {', '.join(self.partial)}".strip() if self.partial else left

    def at(self, axis: str) -> int | None:
        """Return the axis of the value that is cut over an axis of the mesh."""
        return self.dims.index(axis) if axis in self.dims else None

    def filled(self, wanted: Sequence[str]) -> Layout:
        """Return this layout with its free axes as wanted, and whole where nobody minds.

        An axis of the mesh that cuts another axis, or has terms, cannot cut a free one as well.
        """
        used = {FREE, *self.dims, *self.partial}
        pairs = zip(self.dims, wanted, strict=True)
        dims = [have if have != FREE else WHOLE if word in used else word for have, word in pairs]
        return self._replace(dims=tuple(dims))

    def fits(self, wanted: Layout) -> bool:
        """Return whether a reader that wants a layout can read this one."""
        if self.partial != wanted.partial or (self.partial and self.kind != wanted.kind):
            return False
        pairs = zip(self.dims, wanted.dims, strict=True)
        return all(FREE in pair or pair[0] == pair[1] for pair in pairs)


def whole(rank: int) -> Layout:
    """Return the layout in which each worker has everything."""
    return Layout((WHOLE,) * rank)


def parse_layout(text: str) -> Layout:
    """Return the layout of a text, the inverse of `str`.

    >>> parse_layout("-, data sum model")
    Layout(dims=('-', 'data'), partial=('model',), kind='sum')
    """
    for kind in ("sum", "max"):
        left, word, right = f" {text} ".partition(f" {kind} ")
        if word:
            return Layout(_words(left), _words(right), kind)
    return Layout(_words(text))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def local_type(type: TensorType, layout: Layout, mesh: Mesh) -> TensorType:
    """Return the type of a worker's part."""
    return type.with_shape(local_shape(type.shape, layout, mesh))


def local_shape(shape: Shape, layout: Layout, mesh: Mesh) -> Shape:
    """Return the shape of a worker's part."""
    sizes = mesh.sizes
    pairs = zip(shape, layout.dims, strict=True)
    return tuple(dim // sizes[word] if word in sizes else dim for dim, word in pairs)


class Step(NamedTuple):
    """One thing that is sent: over an axis of the mesh, from one axis of the value to another."""

    sent: Sent
    axis: str
    dim: int = 0
    """The axis of the value that is cut, from now on or until now."""
    other: int = 0
    """For all_to_all: the axis that was cut before."""


def steps(old: Layout, new: Layout) -> Iterator[tuple[Step, Layout]]:
    """Yield what is sent to get from one layout to another, each with the layout before it."""
    now = old
    moves: list[str] = []
    for axis in dict.fromkeys((*old.partial, *(word for word in old.dims if word != WHOLE))):
        is_partial, dim, into = axis in now.partial, now.at(axis), new.at(axis)
        if (is_partial and axis in new.partial) or (not is_partial and dim == into):
            continue
        if into is not None and now.dims[into] == WHOLE:
            moves.append(axis)
        elif is_partial:
            yield Step("all_reduce", axis), now
            now = _joined(now, axis)
        else:
            assert dim is not None, "an axis of a layout is partial, or cuts an axis"
            yield Step("all_gather", axis, dim), now
            now = _cut(now, dim, WHOLE)
    for axis in moves:
        into, dim = new.at(axis), now.at(axis)
        assert into is not None, "only axes with a place move"
        if dim is None:
            yield Step("reduce_scatter", axis, into), now
            now = _cut(_joined(now, axis), into, axis)
        else:
            yield Step("all_to_all", axis, into, dim), now
            now = _cut(_cut(now, dim, WHOLE), into, axis)
    for dim, word in enumerate(new.dims):
        if word != WHOLE and now.dims[dim] == WHOLE:
            yield Step("own_part", word, dim), now
            now = _cut(now, dim, word)
    assert now.fits(new), f"{old} does not become {new}, but {now}"


def _joined(layout: Layout, axis: str) -> Layout:
    return layout._replace(partial=tuple(a for a in layout.partial if a != axis))


def _cut(layout: Layout, dim: int, word: str) -> Layout:
    return layout._replace(dims=(*layout.dims[:dim], word, *layout.dims[dim + 1 :]))


def bytes_sent(step: Step, type: TensorType, before: Layout, mesh: Mesh) -> Dim:
    """Return the bytes that each worker sends, if all of them send around a ring."""
    size = size_of(local_shape(type.shape, before, mesh)) * type.dtype.itemsize
    return around_a_ring(step.sent, size, mesh.sizes[step.axis])


def around_a_ring(sent: Sent, size: Dim, parts: int) -> Dim:
    """Return the bytes that each of some workers sends of a value of its own."""
    match sent:
        case "all_reduce":
            return 2 * size * (parts - 1) // parts
        case "reduce_scatter" | "all_to_all":
            return size * (parts - 1) // parts
        case "all_gather":
            return size * (parts - 1)
        case "own_part":
            return 0
