"""Steps that keep repeatedly changed elements close while a loop runs: stage, hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Dim, Shape, substitute, symbols
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import (
    Local,
    Loop,
    Nest,
    Set,
    Space,
    Statement,
    accesses,
    axes_in,
    moved,
    nested,
    private,
)
from luminal_lab.kernels.steps.step import (
    Step,
    apart,
    axes_around,
    copied,
    extent,
    is_small,
    part,
    replaced_loop,
)


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
        """Return the loops that copy the elements there, or back."""
        dtype = nest.types[self.array].dtype
        names = copied([axis.name for axis in axes], self.into)
        new = [
            self.named(nest, part(name, "end" if is_back else "start"), extent(axis.axis))
            for axis, name in zip(axes, names, strict=True)
        ]
        values: dict[str, Dim] = {axis.name: own for axis, own in zip(axes, new, strict=True)}
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
