"""The step `widen`: rows of a local array lie further apart, so that they are in other banks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.views import row_major
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Read, Term
from luminal_lab.kernels.nest.nest import Local, Nest, Set, Statement, accesses, mapped
from luminal_lab.kernels.steps.step import Step, with_body


@dataclass(frozen=True)
class Widen(Step):
    """Flatten the axes behind the first few into rows, each followed by some free elements.

    local t: f16[16, 4, 8] in shared; t[i, j, k] = …   →   local t: f16[16, 40] in shared
                                                           t[i, k + 8*j] = …

    GPUs read shared memory from 32 banks of 4 bytes, and places in one bank one after another:
    where 8 rows begin in different banks, a warp reads a column of them at once.
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

        def term(term: Term) -> Term | None:
            if isinstance(term, Read) and term.buffer == self.array:
                return Read(self.array, index(term.index), term.dtype)
            return None

        def change(statement: Statement) -> Statement:
            match statement:
                case Local(name=name) if name == self.array:
                    return replace(statement, type=TensorType(statement.type.dtype, wide))
                case Set():
                    at = index(statement.index) if statement.name == self.array else statement.index
                    return replace(statement, index=at, term=exchanged(statement.term, term))
                case _:
                    return statement

        return with_body(nest, mapped(nest.body, change))
