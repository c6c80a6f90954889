"""The step `widen`: rows of a local array lie further apart, so that they are in other banks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.views import row_major
from luminal_lab.kernels.nest.nest import Nest, accesses, declared, moved
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

        wider = replace(local, type=TensorType(local.type.dtype, wide))
        body = declared(nest.body, self.array, (wider,))
        return with_body(nest, moved(body, {self.array}, index))
