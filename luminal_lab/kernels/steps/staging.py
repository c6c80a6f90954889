"""Steps that keep what a loop changes again and again close while it runs: stage, hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, substitute, symbols
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Read, Term
from luminal_lab.kernels.nest.nest import (
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    accesses,
    axes_in,
    mapped,
)
from luminal_lab.kernels.steps.step import (
    Step,
    apart,
    around,
    copied,
    extent,
    part,
    private,
    replaced_loop,
)

FEW = 256
"""The most elements of an array that may be in registers."""


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
        loop = self.find(nest, self.loop)
        axes = [self.find(nest, name) for name in self.expanded(nest, self.axes, loop)]
        if self.into in nest.names:
            raise self.refuse(f"there is a {self.into} already", "give another name behind as")
        for axis in axes:
            if axis.name not in axes_in(loop.body):
                raise self.refuse(f"{axis.name} is not in {loop.name}")
        index = self.place(nest, loop, axes)
        dtype = nest.types[self.array].dtype
        own: Shape = tuple(axis.axis for axis in axes)

        def read(one: Term) -> Term | None:
            if isinstance(one, Read) and one.buffer == self.array:
                return Read(self.into, own, dtype)
            return None

        def change(one: Statement) -> Statement:
            if not isinstance(one, Set):
                return one
            name, at = (self.into, own) if one.name == self.array else (one.name, one.index)
            return Set(name, at, exchanged(one.term, read), one.how)

        changed = mapped((loop,), change)
        shape = tuple(extent(axis.axis) for axis in axes)
        size = size_of(shape)
        space: Space = "registers" if isinstance(size, int) and size <= FEW else "scratch"
        there, back = (self.copies(nest, axes, index, is_back=is_back) for is_back in (False, True))
        local = Local(self.into, TensorType(dtype, shape), space)
        return replaced_loop(nest, loop.name, (local, there, *changed, back))

    def place(self, nest: Nest, loop: Loop, axes: list[Loop]) -> Shape:
        """Return where the array is read and written, which must be one place for the axes."""
        found = [one for one in accesses(loop.body) if one.name == self.array]
        if not found:
            raise self.refuse(f"{loop.name} has no {self.array} in it")
        if self.array in private(loop.body):
            raise self.refuse(f"{self.array} is made anew in {loop.name}")
        places = {one.index for one in found}
        if None in places:
            raise self.refuse(f"{self.array} is looked up there")
        if len(places) > 1:
            shown = " and ".join(
                sorted(_at(self.array, place) for place in places if place is not None)
            )
            raise self.refuse(f"it is used at {shown}: one copy cannot be both")
        (index,) = places
        assert index is not None
        outside = {one.name for one in around(nest, loop.name)}
        allowed = outside | {axis.name for axis in axes} | set(nest.dims)
        for axis in axes:
            left = {s.name for s in symbols(axis.size)} - outside - set(nest.dims)
            if left:
                raise self.refuse(f"the size of {axis.name} depends on {', '.join(sorted(left))}")
            if not apart(nest, found[0], found[0], axis.axis, outside):
                raise self.refuse(f"{axis.name} does not tell the elements of {self.array} apart")
        left = {s.name for place in index for s in symbols(place)} - allowed
        if left:
            raise self.refuse(f"where it is used depends on {', '.join(sorted(left))}, too")
        return index

    def copies(self, nest: Nest, axes: list[Loop], index: Shape, *, is_back: bool) -> Statement:
        """Return the loops that copy the elements there, or back."""
        dtype = nest.types[self.array].dtype
        values: dict[str, Dim] = {}
        names = self.distinct(copied([axis.name for axis in axes], self.into))
        for axis, name in zip(axes, names, strict=True):
            own_name = part(name, "end" if is_back else "start")
            values[axis.name] = self.named(nest, own_name, extent(axis.axis))
        own: Shape = tuple(values[axis.name] for axis in axes)
        there: Shape = tuple(substitute(place, values) for place in index)
        made: Statement
        if is_back:
            made = Set(self.array, there, Read(self.into, own, dtype))
        else:
            made = Set(self.into, own, Read(self.array, there, dtype))
        for axis in reversed(axes):
            new = values[axis.name]
            assert not isinstance(new, int)
            made = replace(axis, axis=new, body=(made,), kind="for")  # type: ignore[arg-type]
        return made


@dataclass(frozen=True)
class Hold(Stage):
    """Let one element that a loop changes be a scalar while it runs.

    for j: l[i] += s[j]   →   h = l[i];  for j: h += s[j];  l[i] = h
    """

    form: ClassVar[str] = "hold {array} in {loop} as {into}"
    axes: tuple[str, ...] = field(init=False, default=())


def _at(name: str, index: Shape) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name
