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
from luminal_lab.kernels.render.gpu.given import Given
from luminal_lab.kernels.render.moving import AT, Moving, pieces
from luminal_lab.kernels.render.names import c_dim, c_name

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
        given = Given(self.code.dialect)
        for name, dtype in self.given:
            # What it reads may be what it writes.
            given.buffer(name, C_TYPES[dtype], is_alone=False)
        for dim in self.dims:
            given.dim("lab_i64", c_name(dim))
        if faults:
            given.buffer("lab_fault", "int")
        head = "\n".join(given.head(self.phase(part, tasks, THREADS, faults=faults), THREADS))
        self.functions.append(f"{head}{body}\n}}")

    def first(self, count: int) -> str:
        """Return which element a thread begins with, of as many of a block's, side by side."""
        dialect = self.code.dialect
        return f"(lab_i64){dialect.block} * {count} + {dialect.thread}"

    @override
    def copy(self) -> None:
        body = "lab_y[lab_e] = lab_x[lab_e];"
        self.each("copy", size_of(self.whole.shape), body, "\n    if (lab_y == lab_x) return;")

    @override
    def each(self, part: str, count: Dim, body: str, before: str = "") -> None:
        lines = f"""{before}
    for (int lab_k = 0; lab_k < {EACH}; lab_k++) {{
        const lab_i64 lab_e = {self.first(THREADS * EACH)} + lab_k * {THREADS};
        if (lab_e >= {_dim(count)}) return;
        {body}
    }}"""
        self.add(part, pieces(count, THREADS * EACH), lines)

    @override
    def rows(self, op: Update) -> None:
        rows, shape = self.types[1].shape, self.whole.shape
        inner = size_of(shape[op.axis + 1 :])
        part, whole = _dim(rows[op.axis] * inner), _dim(shape[op.axis] * inner)
        at = f"lab_e / {part} * {whole} + {_dim(op.at * inner)} + lab_e % {part}"
        self.each("", size_of(rows), f"lab_y[{at}] = lab_rows[lab_e];")

    @override
    def columns(self, op: Scatter, write: str) -> None:
        shape, count = self.whole.shape, self.types[1].shape[op.axis]
        outer, inner = size_of(shape[: op.axis]), size_of(shape[op.axis + 1 :])
        size = shape[op.axis]
        body = f"""
    const lab_i64 lab_inner = {_dim(inner)}, lab_size = {_dim(size)}, lab_count = {_dim(count)};
    const lab_i64 lab_e = {self.first(THREADS)};
    if (lab_e >= {_dim(outer)} * lab_inner) return;
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


def _dim(dim: Dim) -> str:
    """Return a dim in 64 bits, in brackets where it is more than one word."""
    return f"(lab_i64){c_dim(dim)}" if isinstance(dim, int) else f"({c_dim(dim)})"
