"""Update and scatter for GPUs: a thread for each of some elements, and one for each column."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.prelude.c_maths import C_TYPES
from luminal_lab.kernels.render.moving import AT, Moving, pieces
from luminal_lab.kernels.render.names import c_name

THREADS = 256
EACH = 16
"""How many elements a thread copies."""


def gpu_moving_kernel(
    op: Update | Scatter, types: Sequence[TensorType], name: str, dialect: Dialect
) -> Kernel:
    """Return a kernel that puts rows into a buffer, or elements where an index says."""
    return GPUMoving(op, types, name, dialect).kernel()


class GPUMoving(Moving):
    """The functions of one kernel for a GPU."""

    element = "{0}[lab_to]"

    def add(self, part: str, tasks: Dim, body: str, *, faults: bool = False) -> None:
        """Write a function of as many blocks."""
        dialect = self.code.dialect
        # What it reads may be what it writes.
        given = [
            dialect.buffer(name, C_TYPES[dtype], place, is_alone=False)
            for place, (name, dtype) in enumerate(self.given)
        ]
        given += dialect.numbers(len(given), [("lab_i64", c_name(dim)) for dim in self.dims])
        if faults:
            given.append(dialect.buffer("lab_fault", "int", len(given)))
        function = self.phase(part, tasks, THREADS, faults=faults)
        head = "\n".join(dialect.function(function, THREADS, given))
        self.functions.append(f"{head}{body}\n}}")

    def first(self, count: int) -> str:
        """Return which element a thread begins with, of as many of a block's, side by side."""
        dialect = self.code.dialect
        return f"(lab_i64){dialect.block} * {count} + {dialect.thread}"

    @override
    def number(self, dim: Dim) -> str:
        # A number has the type, what is more than one word brackets.
        return f"(lab_i64){dim}" if isinstance(dim, int) else f"({self.code.index(dim)})"

    @override
    def copy(self) -> None:
        body = "lab_y[lab_e] = lab_x[lab_e];"
        self.each("copy", size_of(self.whole.shape), body, "\n    if (lab_y == lab_x) return;")

    @override
    def each(self, part: str, count: Dim, body: str, before: str = "") -> None:
        lines = f"""{before}
    for (int lab_k = 0; lab_k < {EACH}; lab_k++) {{
        const lab_i64 lab_e = {self.first(THREADS * EACH)} + lab_k * {THREADS};
        if (lab_e >= {self.number(count)}) return;
        {body}
    }}"""
        self.add(part, pieces(count, THREADS * EACH), lines)

    @override
    def rows(self, op: Update) -> None:
        rows, shape = self.types[1].shape, self.whole.shape
        inner = size_of(shape[op.axis + 1 :])
        part, whole = (
            self.number(rows[op.axis] * inner),
            self.number(shape[op.axis] * inner),
        )
        at = f"lab_e / {part} * {whole} + {self.number(op.at * inner)} + lab_e % {part}"
        self.each("", size_of(rows), f"lab_y[{at}] = lab_rows[lab_e];")

    @override
    def columns(self, op: Scatter, write: str) -> None:
        shape, count = self.whole.shape, self.types[1].shape[op.axis]
        outer, inner = size_of(shape[: op.axis]), size_of(shape[op.axis + 1 :])
        body = f"""{self.sizes(inner=inner, size=shape[op.axis], count=count)}
    const lab_i64 lab_e = {self.first(THREADS)};
    if (lab_e >= {self.number(outer)} * lab_inner) return;
    const lab_i64 lab_i = lab_e / lab_inner, lab_j = lab_e % lab_inner;
    for (lab_i64 lab_k = 0; lab_k < lab_count; lab_k++) {{
        const lab_i64 lab_from = (lab_i * lab_count + lab_k) * lab_inner + lab_j;
        const lab_i64 lab_at = lab_index[lab_from];
        if ({AT}) {{
            *lab_fault = 1;
            return;
        }}
        const lab_i64 lab_to = (lab_i * lab_size + lab_at) * lab_inner + lab_j;
        {write}
    }}"""
        self.add("", pieces(outer * inner, THREADS), body, faults=True)
