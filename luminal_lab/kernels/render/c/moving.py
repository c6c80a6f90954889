"""Update and scatter as C: tasks that copy pieces, rows as they lie, columns side by side."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.kernels.dialect import C
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.prelude.c_maths import C_TYPES
from luminal_lab.kernels.render.index import PRODUCT
from luminal_lab.kernels.render.moving import AT, Moving, pieces
from luminal_lab.kernels.render.names import c_name

PIECE = 1 << 18
"""The bytes that one task copies."""
COLUMNS = 1024
"""The elements that one task scatters to side by side."""
UNUSED = "(void)lab_step; (void)lab_scratch; (void)lab_dims; (void)lab_fault; (void)lab_task;"


def moving_kernel(op: Update | Scatter, types: Sequence[TensorType], name: str) -> Kernel:
    """Return a kernel that puts rows into a buffer, or elements where an index says."""
    return CMoving(op, types, name, C).kernel()


class CMoving(Moving):
    """The functions of one kernel as C."""

    element = "*lab_to"

    def add(self, part: str, tasks: Dim, sizes: str, body: str, *names: str) -> None:
        """Write a function of as many tasks: sizes, these buffers, and what it does with them."""
        function = self.phase(part, tasks)
        dims = C.numbers(0, [("lab_i64", c_name(dim)) for dim in self.dims])
        lines = [f"\n    {line}" for line in dims]
        unused = "".join(f"(void){c_name(dim)}; " for dim in self.dims)
        lines.append(f"\n    {unused}{UNUSED}{sizes}")
        for place, (name, dtype) in enumerate(self.given):
            if name in names:
                lines.append(f"\n    {C.buffer(name, C_TYPES[dtype], place, is_alone=False)}")
        head = C.head.format(name=function)
        self.functions.append(f"{head} {{{''.join(lines)}{body}\n}}")

    @override
    def copy(self) -> None:
        size = size_of(self.whole.shape) * self.dtype.itemsize
        sizes = f"""
    const lab_i64 lab_whole = {self.code.index(size)}, lab_first = lab_task * {PIECE};
    const lab_i64 lab_size = lab_first + {PIECE} < lab_whole ? {PIECE} : lab_whole - lab_first;"""
        body = """
    if (lab_x != lab_y && lab_size > 0)
        __builtin_memcpy((char *)lab_y + lab_first, (char *)lab_x + lab_first, lab_size);"""
        self.add("copy", pieces(size, PIECE), sizes, body, "lab_x", "lab_y")

    @override
    def each(self, part: str, count: Dim, body: str) -> None:
        sizes = f"""
    const lab_i64 lab_whole = {self.code.index(count)}, lab_first = lab_task * {PIECE // 4};"""
        lines = f"""
    lab_i64 lab_last = lab_first + {PIECE // 4};
    if (lab_last > lab_whole) lab_last = lab_whole;
    for (lab_i64 lab_e = lab_first; lab_e < lab_last; lab_e++)
        {body}"""
        given = ("lab_x", "lab_wide") if part == "widen" else ("lab_wide", "lab_y")
        self.add(part, pieces(count * 4, PIECE), sizes, lines, *given)

    @override
    def rows(self, op: Update) -> None:
        shape, count = self.whole.shape, self.types[1].shape[op.axis]
        outer = size_of(shape[: op.axis])
        row = size_of(shape[op.axis + 1 :]) * self.dtype.itemsize
        tasks = pieces(outer * count * row, PIECE)
        sizes = f"""{self.sizes(outer=outer, row=row, tasks=tasks)}
    const lab_i64 lab_whole = {self.code.index(shape[op.axis], PRODUCT)} * lab_row;
    const lab_i64 lab_part = {self.code.index(count, PRODUCT)} * lab_row;"""
        body = f"""
    const char *lab_from = (char *)lab_rows;
    char *lab_to = (char *)lab_y + {self.code.index(op.at, PRODUCT)} * lab_row;
    const lab_i64 lab_each = (lab_outer + lab_tasks - 1) / lab_tasks;
    lab_i64 lab_last = (lab_task + 1) * lab_each;
    if (lab_last > lab_outer) lab_last = lab_outer;
    for (lab_i64 lab_i = lab_task * lab_each; lab_i < lab_last; lab_i++)
        __builtin_memcpy(lab_to + lab_i * lab_whole, lab_from + lab_i * lab_part, lab_part);"""
        self.add("", tasks, sizes, body, "lab_rows", "lab_y")

    @override
    def columns(self, op: Scatter, write: str) -> None:
        shape, count = self.whole.shape, self.types[1].shape[op.axis]
        inner = size_of(shape[op.axis + 1 :])
        blocks = pieces(inner, COLUMNS)
        to, type = ("lab_wide", "float") if self.is_wide else ("lab_y", C_TYPES[self.dtype])
        sizes = f"""{self.sizes(size=shape[op.axis], count=count, inner=inner, blocks=blocks)}
    const lab_i64 lab_i = lab_task / lab_blocks, lab_first = lab_task % lab_blocks * {COLUMNS};"""
        body = f"""
    const lab_i64 lab_last = lab_first + {COLUMNS} < lab_inner ? lab_first + {COLUMNS} : lab_inner;
    for (lab_i64 lab_k = 0; lab_k < lab_count; lab_k++) {{
        for (lab_i64 lab_j = lab_first; lab_j < lab_last; lab_j++) {{
            const lab_i64 lab_from = (lab_i * lab_count + lab_k) * lab_inner + lab_j;
            const lab_i64 lab_at = lab_index[lab_from];
            if ({AT}) {{
                *lab_fault = 1;
                continue;
            }}
            {type} *lab_to = &{to}[(lab_i * lab_size + lab_at) * lab_inner + lab_j];
            {write}
        }}
    }}"""
        tasks = size_of(shape[: op.axis]) * blocks
        self.add("", tasks, sizes, body, "lab_index", "lab_values", to)
