"""The step that lets a row of the result be what it is made of, until it is written: reuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol, substitute, symbols
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Read, Term
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Local,
    Loop,
    Nest,
    Set,
    Statement,
    When,
    accesses,
    arrays_in,
    mapped,
    walk,
)
from luminal_lab.kernels.steps.step import Step, apart, around, extent, with_body, within


@dataclass(frozen=True)
class Reuse(Step):
    """Keep a local's elements where those of an output will be that are made of them.

    local t: f32[n]                             for j: y[i, j] = …
    for j: t[j] = …                         →   for j: s += y[i, j]
    for j: s += t[j]                            for j: y[i, j] = y[i, j] * s
    for j: y[i, j] = t[j] * s

    So the output is in the cache when it is written, and there is no array beside it.
    """

    form: ClassVar[str] = "reuse {output} for {array}"
    output: str
    array: str

    @override
    def apply(self, nest: Nest) -> Nest:
        local = self.find_local(nest, self.array)
        types = dict(nest.outputs)
        if self.output not in types:
            raise self.refuse(f"{self.output} is no output")
        if types[self.output].dtype is not local.type.dtype:
            raise self.refuse(
                f"{self.output} is {types[self.output].dtype}, and {self.array} is "
                f"{local.type.dtype}"
            )
        made, axes = self.last(nest)
        ends = (*types[self.output].shape, *(extent(axis) for axis in axes))
        names = [axis.name for axis in axes]

        def moved(index: Shape) -> Shape:
            """Return where in the output an element of the local is."""
            values = dict(zip(names, index, strict=True))
            return tuple(substitute(dim, values) for dim in made.index)

        for one in accesses(nest.body):
            if one.name == self.array and one.index is None:
                raise self.refuse(f"{self.array} is looked up")
            if one.name == self.array and not all(
                map(within, (*moved(one.index or ()), *(one.index or ())), ends)
            ):
                raise self.refuse(f"{self.array} may have more elements than {self.output}")
        return self.exchanged(nest, moved)

    def exchanged(self, nest: Nest, moved: Callable[[Shape], Shape]) -> Nest:
        """Return the nest without the local, whose elements are where `moved` says."""

        def at_output(term: Term) -> Term | None:
            if isinstance(term, Read) and term.buffer == self.array:
                return Read(self.output, moved(term.index), term.dtype)
            return None

        def change(one: Statement) -> Statement | Block:
            if isinstance(one, Local) and one.name == self.array:
                return ()
            if not isinstance(one, Set):
                return one
            if one.name == self.array:
                one = replace(one, name=self.output, index=moved(one.index))
            return replace(one, term=exchanged(one.term, at_output))

        return with_body(nest, mapped(nest.body, change))

    def last(self, nest: Nest) -> tuple[Set, list[Symbol]]:
        """Return what writes the output, and the axes at which it reads the local.

        Nothing needs the local after it, and no two elements go to one of the output.
        """
        uses = [one for one in accesses(nest.body) if one.name == self.output]
        if len(uses) != 1 or uses[0].how != "=":
            raise self.refuse(f"{self.output} is not only written, and at one place")
        made = uses[0].statement
        reads = [one for one in accesses((made,)) if one.name == self.array]
        indices = {one.index for one in reads}
        if len(indices) != 1:
            raise self.refuse(f"{self.output} is not made of one element of {self.array}")
        index = indices.pop()
        axes = [place for place in index or () if isinstance(place, Symbol)]
        if index is None or len({*axes}) != len(index) or not axes:
            raise self.refuse(f"where {self.output} reads {self.array} is not a place of loops")
        block = self.block(nest)
        loops = [one for one in block if self.array in arrays_in((one,))]
        whole = loops[-1]
        inside = [one for one in accesses((whole,)) if one.name == self.array]
        if not isinstance(whole, Loop) or len(inside) != len(reads) or inside[0].statement != made:
            raise self.refuse(f"{self.array} is needed when {self.output} is written")
        own = {whole.name, *(one.name for one in walk(whole.body) if isinstance(one, Loop))}
        outer = around(nest, whole.name)
        is_plain = not any(isinstance(one, When) for one in walk(whole.body))
        if own != {axis.name for axis in axes} or not is_plain:
            raise self.refuse(f"the loops that write {self.output} are not those of {self.array}")
        self.check_apart(nest, uses[0], [*(one.axis for one in outer), *axes])
        return made, axes

    def check_apart(self, nest: Nest, made: Access, axes: list[Symbol]) -> None:
        """Refuse axes that do not tell the output's elements apart."""
        fixed: set[str] = set()
        used = {symbol.name for place in made.index or () for symbol in symbols(place)}
        for axis in axes:
            if axis.name not in used or not apart(nest, made, made, axis, fixed):
                raise self.refuse(f"{axis} does not tell the elements of {self.output} apart")
            fixed.add(axis.name)

    def block(self, nest: Nest) -> Block:
        """Return the block that the local stands in."""

        def search(block: Block) -> Block | None:
            for one in block:
                if one == nest.locals[self.array]:
                    return block
                if isinstance(one, (Loop, When)):
                    found = search(one.body)
                    if found is not None:
                        return found
            return None

        found = search(nest.body)
        assert found is not None
        return found
