"""The step `reuse`: a row of the output holds a local's elements until it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol, substitute, symbols
from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.nest import (
    Access,
    Loop,
    Nest,
    Set,
    When,
    accesses,
    arrays_in,
    declared,
    moved,
    reads_of,
    walk,
)
from luminal_lab.kernels.nest.sizes import stride
from luminal_lab.kernels.steps.loops import blocks
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import Step, apart, around, extent, with_body, within


def reuse_outputs(scheduling: Scheduling) -> None:
    """Compute rows right in the output's memory, if they are contiguous there."""
    for output, _ in scheduling.nest.outputs:
        end = [use.statement for use in accesses(scheduling.nest.body) if use.name == output][-1]
        rows: list[str] = []
        for name, index in reads_of(end.term):
            if index == end.index and name not in scheduling.nest.locals:
                return  # the array read there may share its memory, which saves more
            last = index[-1] if index else 0
            written = Read(output, end.index, end.term.dtype)
            if isinstance(last, Symbol) and stride(scheduling.nest, written, last.name) == 1:
                rows.append(name)
        for row in rows:
            hows = {use.how for use in accesses(scheduling.nest.body) if use.name == row}
            # Sums of columns are better kept in a separate array, which is small.
            if row in scheduling.nest.locals and hows == {"=", "read"}:
                scheduling.attempted(Reuse(output, row))


@dataclass(frozen=True)
class Reuse(Step):
    """Keep a local's elements in the memory of the output elements that are computed from them.

    local t: f32[n]                             for j: y[i, j] = …
    for j: t[j] = …                         →   for j: s += y[i, j]
    for j: s += t[j]                            for j: y[i, j] = y[i, j] * s
    for j: y[i, j] = t[j] * s

    The output is then in the cache when it is written, and the local needs no memory.
    """

    form: ClassVar[str] = "reuse {output} for {array}"
    output: str
    array: str

    @override
    def apply(self, nest: Nest) -> Nest:
        local = self.find_local(nest, self.array)
        types = dict(nest.outputs)
        if self.output not in types:
            raise self.refuse(f"{self.output} is not an output")
        if types[self.output].dtype is not local.type.dtype:
            raise self.refuse(
                f"{self.output} is {types[self.output].dtype}, and {self.array} is "
                f"{local.type.dtype}"
            )
        write, axes = self.last(nest)
        ends = (*types[self.output].shape, *(extent(axis) for axis in axes))
        names = [axis.name for axis in axes]

        def index_of(index: Shape) -> Shape:
            """Return where in the output an element of the local is."""
            values = dict(zip(names, index, strict=True))
            return tuple(substitute(dim, values) for dim in write.index)

        for access in accesses(nest.body):
            if access.name == self.array and access.index is None:
                raise self.refuse(f"{self.array} is looked up")
            if access.name == self.array and not all(
                map(within, (*index_of(access.index or ()), *(access.index or ())), ends)
            ):
                raise self.refuse(f"{self.array} may have more elements than {self.output}")
        body = declared(nest.body, self.array, ())
        return with_body(nest, moved(body, {self.array}, index_of, self.output))

    def last(self, nest: Nest) -> tuple[Set, list[Symbol]]:
        """Return the statement that writes the output, and the axes at which it reads the local.

        Nothing needs the local after it, and no two elements map to one of the output.
        """
        uses = [access for access in accesses(nest.body) if access.name == self.output]
        if len(uses) != 1 or uses[0].how != "=":
            raise self.refuse(f"{self.output} is not only written, and at one place")
        write = uses[0].statement
        reads = [access for access in accesses((write,)) if access.name == self.array]
        indices = {read.index for read in reads}
        if len(indices) != 1:
            raise self.refuse(f"{self.output} is not made of one element of {self.array}")
        index = indices.pop()
        axes = [dim for dim in index or () if isinstance(dim, Symbol)]
        if index is None or len({*axes}) != len(index) or not axes:
            raise self.refuse(f"where {self.output} reads {self.array} is not a place of loops")
        block = next(block for block in blocks(nest.body) if nest.locals[self.array] in block)
        loops = [statement for statement in block if self.array in arrays_in((statement,))]
        whole = loops[-1]
        inside = [access for access in accesses((whole,)) if access.name == self.array]
        if not isinstance(whole, Loop) or len(inside) != len(reads) or inside[0].statement != write:
            raise self.refuse(f"{self.array} is needed when {self.output} is written")
        own = {whole.name, *(inner.name for inner in walk(whole.body) if isinstance(inner, Loop))}
        outer = around(nest, whole.name)
        is_plain = not any(isinstance(inner, When) for inner in walk(whole.body))
        if own != {axis.name for axis in axes} or not is_plain:
            raise self.refuse(f"the loops that write {self.output} are not those of {self.array}")
        self.check_apart(nest, uses[0], [*(loop.axis for loop in outer), *axes])
        return write, axes

    def check_apart(self, nest: Nest, write: Access, axes: list[Symbol]) -> None:
        """Refuse axes that do not tell the output's elements apart."""
        fixed: set[str] = set()
        used = {symbol.name for dim in write.index or () for symbol in symbols(dim)}
        for axis in axes:
            if axis.name not in used or not apart(nest, write, write, axis, fixed):
                raise self.refuse(f"{axis} does not tell the elements of {self.output} apart")
            fixed.add(axis.name)
