"""Update and scatter: a copy of the whole, unless it is done in place, and then rows or elements.

Both find out by themselves whether they are in place: the result is then the buffer they read. What
a scatter writes is written in the order of its indices: so the result is the same in every run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from luminal_lab.core.dims import Dim, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Kernel, Phase, WorkingArray, comment, function_name
from luminal_lab.kernels.render.code import Code

AT = "lab_at < 0 || lab_at >= lab_size"
"""What a scatter's index is that is no position."""


class Moving(ABC):
    """The functions of one kernel, as a language writes them."""

    element: ClassVar[str]
    """What a scatter writes to, in an array."""

    def __init__(
        self, op: Update | Scatter, types: Sequence[TensorType], name: str, dialect: Dialect
    ) -> None:
        self.op, self.types, self.name = op, types, name
        self.code = Code(dialect)
        self.whole = types[0]
        self.axis, self.dtype = op.axis, self.whole.dtype
        self.is_wide = isinstance(op, Scatter) and op.mode == "add" and self.dtype.is_half
        """Whether 16-bit floats are added up in float32, and rounded once."""
        names = ("lab_rows",) if isinstance(op, Update) else ("lab_index", "lab_values")
        given = list(zip(names, (type.dtype for type in types[1:]), strict=True))
        wide = [("lab_wide", DType.float32)] * self.is_wide
        self.given = [("lab_x", self.dtype), *given, *wide, ("lab_y", self.dtype)]
        """The buffers in order, the result last."""
        dims = [*self.whole.shape, *types[1].shape, op.at if isinstance(op, Update) else 0]
        self.dims = tuple(sorted({symbol.name for dim in dims for symbol in symbols(dim)}))
        self.functions: list[str] = []
        self.phases: list[Phase] = []

    # -- what a language writes --------------------------------------------------------------------

    @abstractmethod
    def copy(self) -> None:
        """Write the function that copies the first buffer to the result, unless they are one."""

    @abstractmethod
    def each(self, part: str, count: Dim, body: str) -> None:
        """Write a function that does something for each of some elements, `lab_e`."""

    @abstractmethod
    def rows(self, op: Update) -> None:
        """Write the function that puts rows into the result."""

    @abstractmethod
    def columns(self, op: Scatter, write: str) -> None:
        """Write the function that goes through the indices: from `lab_from`, to `lab_to`."""

    def number(self, dim: Dim) -> str:
        """Return a dim in 64 bits."""
        return self.code.index(dim)

    # -- what all languages share ------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """Return the kernel."""
        op, count = self.op, size_of(self.types[1].shape)
        if isinstance(op, Update):
            buffer, rows = self.types
            title = f"update along axis {op.axis}: {buffer} gets {rows} at {op.at}"
            cost = 0, 2 * count * self.dtype.itemsize
            self.copy()
            self.rows(op)
        else:
            x, index, _ = self.types
            title = f"scatter {op.mode} along axis {op.axis}: {x} by {index}"
            moved = count * (index.dtype.itemsize + 2 * x.dtype.itemsize)
            cost = count if op.mode == "add" else 0, moved
            self.scatter(op)
        source = f"{comment(title)}\n" + "\n\n".join(self.functions)
        whole = size_of(self.whole.shape)
        return Kernel(
            self.name,
            None,
            source,
            tuple(self.phases),
            (WorkingArray("wide", whole * DType.float32.itemsize),) if self.is_wide else (),
            given_dims=self.dims,
            cost=cost,
            dialect=self.code.dialect.name,
            uses=frozenset(self.code.uses),
        )

    def scatter(self, op: Scatter) -> None:
        """Write the functions of a scatter."""
        code, dtype, count = self.code, self.dtype, size_of(self.whole.shape)
        value = "lab_values[lab_from]"
        if not self.is_wide:
            self.copy()
            self.columns(op, self.put(op, self.element.format("lab_y"), value))
            return
        place = self.element.format("lab_wide")
        self.each("widen", count, f"lab_wide[lab_e] = {code.widened('lab_x[lab_e]', dtype)};")
        self.columns(op, f"{place} += {code.widened(value, dtype)};")
        self.each("narrow", count, f"lab_y[lab_e] = {code.stored('lab_wide[lab_e]', dtype)};")

    def sizes(self, **dims: Dim) -> str:
        """Return the declaration of some sizes."""
        listed = ", ".join(f"lab_{name} = {self.number(dim)}" for name, dim in dims.items())
        return f"\n    const lab_i64 {listed};"

    def put(self, op: Scatter, place: str, value: str) -> str:
        """Return how an element gets a value, or has it added."""
        if op.mode == "set":
            return f"{place} = {value};"
        if self.dtype is DType.bool_:
            return f"{place} = {place} || {value};"
        if self.dtype.is_float:
            return f"{place} += {value};"
        return f"{place} = {self.code.call(f'lab_add_{self.dtype.short}', place, value)};"

    def phase(self, part: str, tasks: Dim, threads: int = 0, *, faults: bool = False) -> str:
        """Note a function that is run for each of some tasks, and return its name."""
        function = function_name(self.name) + f"_{part}" * bool(part)
        self.phases.append(Phase(function, tasks, threads, faults=faults))
        return function


def pieces(size: Dim, piece: int) -> Dim:
    """Return how many pieces a size has, the last of which may be less."""
    return (size + (piece - 1)) // piece
