"""Update and scatter for GPUs: a copy of the whole, unless it is done in place, and then the rows.

As in C, both find out by themselves whether they are in place. Of what a scatter writes each column
is one thread's, which goes through the indices in order: so the result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.dims import Dim, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Kernel, Local, Phase, comment, function_name
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.names import c_dim, c_name

THREADS = 256
EACH = 16
"""How many elements a thread copies."""
PIECE = THREADS * EACH


def gpu_moving_kernel(
    op: Update | Scatter, types: Sequence[TensorType], name: str, dialect: Dialect
) -> Kernel:
    """Return a kernel that puts rows into a buffer, or elements where an index says."""
    made = _Update(op, types, name, dialect) if isinstance(op, Update) else None
    made = made or _Scatter(op, types, name, dialect)  # pyright: ignore[reportArgumentType]  # it is no update
    source = f"{comment(made.title)}\n" + "\n\n".join(made.functions)
    return Kernel(
        name,
        None,
        source,
        tuple(made.phases),
        made.locals,
        given_dims=made.dims,
        cost=made.cost,
        dialect=dialect.name,
    )


class _Moving:
    """The functions of one kernel, as they are written."""

    title: str
    cost: tuple[Dim, Dim]

    def __init__(self, name: str, dialect: Dialect, given: Sequence[tuple[str, DType]]) -> None:
        self.name = function_name(name)
        self.dialect = dialect
        self.given = given
        """The buffers in order, the result last."""
        self.locals: tuple[Local, ...] = ()
        self.dims: tuple[str, ...] = ()
        self.functions: list[str] = []
        self.phases: list[Phase] = []

    def add(self, part: str, tasks: Dim, body: str, *, faults: bool = False) -> None:
        """Write a function of as many blocks as `tasks` says."""
        dialect, given = self.dialect, list[str]()
        for name, dtype in self.given:
            text = dialect.pointer.format(
                const="", type=C_TYPES[dtype], name=name, place=len(given)
            )
            # What it reads may be what it writes.
            given.append(text.replace("*__restrict__ ", "*"))
        for dim in self.dims:
            given.append(dialect.dim.format(type="lab_i64", name=c_name(dim), place=len(given)))
        if faults:
            given.append(
                dialect.pointer.format(const="", type="int", name="lab_fault", place=len(given))
            )
        given += dialect.positions
        function = f"{self.name}_{part}" if part else self.name
        head = dialect.head.format(name=function, threads=THREADS)
        lines = "".join(f"\n    {one}," for one in given)[:-1]
        self.functions.append(f"{head}({lines}\n) {{{body}\n}}")
        self.phases.append(Phase(function, tasks, THREADS))

    def each(self, count: Dim, body: str) -> str:
        """Return a loop over a thread's share of some elements, the block's side by side."""
        where = f"(lab_i64){self.dialect.block} * {PIECE} + {self.dialect.thread}"
        return f"""
    for (int lab_k = 0; lab_k < {EACH}; lab_k++) {{
        const lab_i64 lab_e = {where} + lab_k * {THREADS};
        if (lab_e >= {_dim(count)}) return;
        {body}
    }}"""

    def copy(self, type: TensorType, result: str) -> None:
        """Write the function that copies the first buffer to the result, unless they are one."""
        count = size_of(type.shape)
        loop = self.each(count, f"{result}[lab_e] = {self.given[0][0]}[lab_e];")
        self.add("copy", _pieces(count), f"\n    if ({result} == {self.given[0][0]}) return;{loop}")


class _Update(_Moving):
    def __init__(
        self, op: Update, types: Sequence[TensorType], name: str, dialect: Dialect
    ) -> None:
        buffer, rows = types
        dtype, axis = buffer.dtype, op.axis
        super().__init__(name, dialect, [("lab_x", dtype), ("lab_rows", dtype), ("lab_y", dtype)])
        self.title = f"update along axis {axis}: {buffer} gets {rows} at {op.at}"
        self.dims = _dims(buffer.shape, rows.shape, (op.at,))
        inner = size_of(buffer.shape[axis + 1 :])
        part, whole = rows.shape[axis] * inner, buffer.shape[axis] * inner
        count = size_of(rows.shape)
        self.cost = 0, 2 * count * dtype.itemsize
        self.copy(buffer, "lab_y")
        at = f"lab_e / {_dim(part)} * {_dim(whole)} + {_dim(op.at * inner)} + lab_e % {_dim(part)}"
        self.add("", _pieces(count), self.each(count, f"lab_y[{at}] = lab_rows[lab_e];"))


class _Scatter(_Moving):
    def __init__(
        self, op: Scatter, types: Sequence[TensorType], name: str, dialect: Dialect
    ) -> None:
        x, index, _ = types
        axis, dtype = op.axis, x.dtype
        wide = op.mode == "add" and dtype.is_half
        given = [("lab_x", dtype), ("lab_index", index.dtype), ("lab_values", dtype)]
        given += [("lab_wide", DType.float32)] * wide + [("lab_y", dtype)]
        super().__init__(name, dialect, given)
        self.title = f"scatter {op.mode} along axis {axis}: {x} by {index}"
        self.dims = _dims(x.shape, index.shape)
        count = size_of(x.shape)
        moved = size_of(index.shape) * (index.dtype.itemsize + 2 * dtype.itemsize)
        self.cost = (size_of(index.shape) if op.mode == "add" else 0, moved)
        columns = size_of(x.shape[:axis]) * size_of(x.shape[axis + 1 :])
        tasks = (columns + (THREADS - 1)) // THREADS
        if not wide:
            self.copy(x, "lab_y")
            self.add("", tasks, self.columns(op, x, index, "lab_y"), faults=True)
            return
        # 16-bit floats are added up in float32, and rounded once.
        self.locals = (Local("wide", count * 4),)
        short = dtype.short
        widen = f"lab_wide[lab_e] = lab_cast_{short}_f32(lab_x[lab_e]);"
        narrow = f"lab_y[lab_e] = lab_cast_f32_{short}(lab_wide[lab_e]);"
        self.add("widen", _pieces(count), self.each(count, widen))
        self.add("", tasks, self.columns(op, x, index, "lab_wide"), faults=True)
        self.add("narrow", _pieces(count), self.each(count, narrow))

    def columns(self, op: Scatter, x: TensorType, index: TensorType, to: str) -> str:
        """Return what the thread of one column does."""
        axis, dtype, dialect = op.axis, x.dtype, self.dialect
        size, count = x.shape[axis], index.shape[axis]
        outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
        value, place = "lab_values[lab_from]", f"{to}[lab_to]"
        if to == "lab_wide":
            value = f"lab_cast_{dtype.short}_f32({value})"
        write = f"{place} = {value};"
        if op.mode == "add" and dtype is DType.bool_:
            write = f"{place} = {place} || {value};"
        elif op.mode == "add" and dtype.is_float:
            write = f"{place} += {value};"
        elif op.mode == "add":
            write = f"{place} = lab_add_{dtype.short}({place}, {value});"
        return f"""
    const lab_i64 lab_inner = {_dim(inner)}, lab_size = {_dim(size)}, lab_count = {_dim(count)};
    const lab_i64 lab_e = (lab_i64){dialect.block} * {THREADS} + {dialect.thread};
    if (lab_e >= {_dim(outer)} * lab_inner) return;
    const lab_i64 lab_i = lab_e / lab_inner, lab_j = lab_e % lab_inner;
    for (lab_i64 lab_k = 0; lab_k < lab_count; lab_k++) {{
        const lab_i64 lab_from = (lab_i * lab_count + lab_k) * lab_inner + lab_j;
        const lab_i64 lab_at = lab_index[lab_from];
        if (lab_at < 0 || lab_at >= lab_size) {{
            *lab_fault = 1;
            return;
        }}
        const lab_i64 lab_to = (lab_i * lab_size + lab_at) * lab_inner + lab_j;
        {write}
    }}"""


def _dim(dim: Dim) -> str:
    """Return a dim in 64 bits, in brackets where it is more than one word."""
    return f"(lab_i64){c_dim(dim)}" if isinstance(dim, int) else f"({c_dim(dim)})"


def _dims(*shapes: Sequence[Dim]) -> tuple[str, ...]:
    return tuple(sorted({s.name for shape in shapes for dim in shape for s in symbols(dim)}))


def _pieces(count: Dim) -> Dim:
    return (count + (PIECE - 1)) // PIECE
