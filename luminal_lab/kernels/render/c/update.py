"""Update and scatter as C: a copy of the whole, unless it is done in place, and then the rows.

Both find out by themselves whether they are in place: the result is then the buffer they read.
"""

from collections.abc import Sequence

from luminal_lab.core.dims import Dim, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.kernels.kernel import Kernel, Local, Phase, comment, function_name
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.names import c_dim, c_name

PIECE = 1 << 18
"""The bytes that one task copies."""
COLUMNS = 1024
"""The elements that one task scatters to side by side."""


def update_kernel(op: Update, types: Sequence[TensorType], name: str) -> Kernel:
    """Return a kernel that copies a buffer and puts rows into it."""
    buffer, rows = types
    item, axis = buffer.dtype.itemsize, op.axis
    size, count = buffer.shape[axis], rows.shape[axis]
    outer = size_of(buffer.shape[:axis])
    row = size_of(buffer.shape[axis + 1 :]) * item
    tasks = _pieces(outer * count * row)
    function = function_name(name)
    dims = _dims(buffer.shape, rows.shape, (op.at,))
    body = f"""
    const lab_i64 lab_outer = {c_dim(outer)}, lab_row = {c_dim(row)}, lab_tasks = {c_dim(tasks)};
    const lab_i64 lab_whole = {c_dim(size)} * lab_row, lab_rows = {c_dim(count)} * lab_row;
    const char *lab_from = lab_buffers[1];
    char *lab_to = (char *)lab_buffers[2] + ({c_dim(op.at)}) * lab_row;
    const lab_i64 lab_each = (lab_outer + lab_tasks - 1) / lab_tasks;
    lab_i64 lab_last = (lab_task + 1) * lab_each;
    if (lab_last > lab_outer) lab_last = lab_outer;
    for (lab_i64 lab_i = lab_task * lab_each; lab_i < lab_last; lab_i++)
        __builtin_memcpy(lab_to + lab_i * lab_whole, lab_from + lab_i * lab_rows, lab_rows);"""
    text = f"update along axis {axis}: {buffer} gets {rows} at {op.at}"
    source = "\n\n".join(
        [_copy(f"{function}_copy", buffer, dims, text), _function(function, dims, body)]
    )
    return Kernel(
        name,
        None,
        source,
        (Phase(f"{function}_copy", _pieces(size_of(buffer.shape) * item)), Phase(function, tasks)),
        given_dims=dims,
        cost=(0, 2 * outer * count * row),
    )


def scatter_kernel(op: Scatter, types: Sequence[TensorType], name: str) -> Kernel:
    """Return a kernel that copies values and sets, or adds to, those that an index names."""
    x, index, _ = types
    axis, dtype = op.axis, x.dtype
    size, count = x.shape[axis], index.shape[axis]
    outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
    blocks = (inner + (COLUMNS - 1)) // COLUMNS
    function = function_name(name)
    dims = _dims(x.shape, index.shape)
    wide = op.mode == "add" and dtype.is_half
    place = len(types) + wide
    kind = "float" if wide else C_TYPES[dtype]
    value = "lab_values[lab_from * lab_inner + lab_j]"
    if wide:
        value = f"lab_cast_{dtype.short}_f32({value})"
    if op.mode == "set":
        write = f"*lab_to = {value};"
    elif dtype is DType.bool_:
        write = f"*lab_to = *lab_to || {value};"
    elif dtype.is_float:
        write = f"*lab_to += {value};"
    else:
        write = f"*lab_to = lab_add_{dtype.short}(*lab_to, {value});"
    body = f"""
    const lab_i64 lab_size = {c_dim(size)}, lab_count = {c_dim(count)};
    const lab_i64 lab_inner = {c_dim(inner)}, lab_blocks = {c_dim(blocks)};
    const lab_i64 lab_i = lab_task / lab_blocks, lab_block = lab_task % lab_blocks;
    const {C_TYPES[index.dtype]} *lab_index = lab_buffers[1];
    const {C_TYPES[dtype]} *lab_values = lab_buffers[2];
    {kind} *lab_result = lab_buffers[{len(types) if wide else place}];
    const lab_i64 lab_first = lab_block * {COLUMNS};
    const lab_i64 lab_last = lab_first + {COLUMNS} < lab_inner ? lab_first + {COLUMNS} : lab_inner;
    for (lab_i64 lab_k = 0; lab_k < lab_count; lab_k++) {{
        const lab_i64 lab_from = lab_i * lab_count + lab_k;
        for (lab_i64 lab_j = lab_first; lab_j < lab_last; lab_j++) {{
            const lab_i64 lab_at = lab_index[lab_from * lab_inner + lab_j];
            if (lab_at < 0 || lab_at >= lab_size) {{
                *lab_fault = 1;
                continue;
            }}
            {kind} *lab_to = &lab_result[(lab_i * lab_size + lab_at) * lab_inner + lab_j];
            {write}
        }}
    }}"""
    text = f"scatter {op.mode} along axis {axis}: {x} by {index}"
    parts: list[str] = []
    phases: list[Phase] = []
    whole, elements = _pieces(size_of(x.shape) * 4), c_dim(size_of(x.shape))
    if wide:
        # 16-bit floats are added up in float32, and rounded once.
        short = dtype.short
        for step, to, of, made in (
            ("widen", "float", C_TYPES[dtype], f"lab_cast_{short}_f32"),
            ("narrow", C_TYPES[dtype], "float", f"lab_cast_f32_{short}"),
        ):
            source, target = (0, 3) if step == "widen" else (3, 4)
            lines = f"""
    const {of} *lab_from = lab_buffers[{source}];
    {to} *lab_to = lab_buffers[{target}];
    const lab_i64 lab_whole = {elements}, lab_first = lab_task * {PIECE // 4};
    lab_i64 lab_last = lab_first + {PIECE // 4};
    if (lab_last > lab_whole) lab_last = lab_whole;
    for (lab_i64 lab_i = lab_first; lab_i < lab_last; lab_i++)
        lab_to[lab_i] = {made}(lab_from[lab_i]);"""
            parts.append(_function(f"{function}_{step}", dims, lines))
            phases.append(Phase(f"{function}_{step}", whole))
        parts.insert(1, _function(function, dims, body))
        phases.insert(1, Phase(function, outer * blocks))
        parts.insert(0, comment(text))
    else:
        parts = [_copy(f"{function}_copy", x, dims, text, 3), _function(function, dims, body)]
        copies = _pieces(size_of(x.shape) * dtype.itemsize)
        phases = [Phase(f"{function}_copy", copies), Phase(function, outer * blocks)]
    moved = size_of(index.shape) * (index.dtype.itemsize + 2 * dtype.itemsize)
    return Kernel(
        name,
        None,
        "\n\n".join(parts),
        tuple(phases),
        (Local("wide", size_of(x.shape) * 4),) if wide else (),
        given_dims=dims,
        cost=(size_of(index.shape) if op.mode == "add" else 0, moved),
    )


def _copy(function: str, type: TensorType, dims: Sequence[str], text: str, result: int = 2) -> str:
    """Return a function that copies the first buffer to the result, unless they are one."""
    whole = c_dim(size_of(type.shape) * type.dtype.itemsize)
    body = f"""
    const lab_i64 lab_whole = {whole}, lab_first = lab_task * {PIECE};
    const lab_i64 lab_size = lab_first + {PIECE} < lab_whole ? {PIECE} : lab_whole - lab_first;
    const char *lab_from = lab_buffers[0];
    char *lab_to = lab_buffers[{result}];
    if (lab_from != lab_to && lab_size > 0)
        __builtin_memcpy(lab_to + lab_first, lab_from + lab_first, lab_size);"""
    return f"{comment(text)}\n{_function(function, dims, body)}"


def _function(name: str, dims: Sequence[str], body: str) -> str:
    given = "".join(
        f"\n    const lab_i64 {c_name(dim)} = lab_dims[{place}];" for place, dim in enumerate(dims)
    )
    unused = "".join(f" (void){c_name(dim)};" for dim in dims)
    unused += " (void)lab_step; (void)lab_scratch; (void)lab_dims; (void)lab_fault; (void)lab_task;"
    return f"static void {name}(LAB_GIVEN) {{{given}\n   {unused}{body}\n}}"


def _dims(*shapes: Sequence[Dim]) -> tuple[str, ...]:
    return tuple(sorted({s.name for shape in shapes for dim in shape for s in symbols(dim)}))


def _pieces(size: Dim) -> Dim:
    return (size + (PIECE - 1)) // PIECE
