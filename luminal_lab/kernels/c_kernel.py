"""One kernel as a C function: a loop for each axis, a statement for each op, lanes for each fold.

    y[i < 4] = sum j < 6: x[i, j]      →    for (lab_i64 i = 0; i < 4; i++) {
                                                float t0[16] = {0};
                                                …            (x[6*i + j] is added to lane j % 16)
                                                y[i] = t0[0];
                                            }

Sums and maxima go over sixteen lanes, which are joined in pairs at the end: they become vector
code, round about as little as NumPy's, and are the same however the outer loops are cut. 16-bit
floats are computed in float32, and rounded where they are stored or cast.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from luminal_lab.core.dims import Dim, Symbol, render_c, substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.ops import Add, Cast, LessThan, Mul, Where
from luminal_lab.core.views import row_major
from luminal_lab.kernels.c_maths import C_TYPES, PRIMITIVE
from luminal_lab.kernels.c_maths_composed import COMPOSED
from luminal_lab.kernels.definition import (
    Apply,
    Count,
    Definition,
    Draw,
    Fold,
    Guard,
    Lookup,
    Number,
    Output,
    Read,
    Term,
    walk,
)
from luminal_lab.kernels.intrinsic_ops import PREFIX, Intrinsic
from luminal_lab.kernels.terms import worked_out

LANES = 16
"""How many partial sums a fold has."""
COLUMNS = 128
"""How many results are folded side by side, where memory lies so."""


@dataclass
class Body:
    """Lines of C, as deep as the loops are."""

    lines: list[str] = field(default_factory=list[str])
    depth: int = 1

    def add(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Generator[None, None, None]:
        """Put what is added inside into braces."""
        self.add(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.add("}")


def c_type(dtype: DType) -> str:
    """Return the C type of a value while it is computed with."""
    return "float" if dtype.is_half else C_TYPES[dtype]


def render(definition: Definition, name: str) -> str:
    """Return a kernel as a C function.

    It is given its buffers, inputs first, then locals, then outputs; the dims that it mentions,
    in the order of `definition.dims`; the count of runs; and where to report an index out of range.

    >>> from luminal_lab.core.parse import parse
    >>> from luminal_lab.kernels.define import define
    >>> body = parse("graph double(%x: f32[4]) -> (%y) { %y = add %x, %x : f32[4] }")
    >>> print(render(define(body), "k0"))
    static void k0(LAB_GIVEN) {
        const float *restrict x = lab_buffers[0];
        float *restrict y = lab_buffers[1];
        for (lab_i64 i = 0; i < 4; i++) {
            const float t0 = x[i];
            const float t1 = t0 + t0;
            y[i] = t1;
        }
        (void)lab_dims, (void)lab_step, (void)lab_fault, (void)lab_task, (void)lab_scratch;
    }
    """
    body = Body()
    inputs = {buffer.name for buffer in definition.inputs}
    made = [line.name for line in definition.lines]
    for place, buffer in enumerate([*inputs_of(definition), *made]):
        type = definition.types[buffer]
        const = "const " if buffer in inputs else ""
        body.add(f"{const}{C_TYPES[type.dtype]} *restrict {buffer} = lab_buffers[{place}];")
    for place, dim in enumerate(definition.dims):
        body.add(f"const lab_i64 {c_name(dim)} = lab_dims[{place}];")
    for line in definition.lines:
        with body.block("") if len(definition.lines) > 1 else nullcontext():
            _Line(definition, line, body).write()
    body.add("(void)lab_dims, (void)lab_step, (void)lab_fault, (void)lab_task, (void)lab_scratch;")
    return "\n".join([f"static void {name}(LAB_GIVEN) {{", *body.lines, "}"])


def inputs_of(definition: Definition) -> list[str]:
    """Return the names of the inputs in order."""
    return [buffer.name for buffer in definition.inputs]


def c_name(dim: str) -> str:
    """Return what C calls a dim, as `render_c` does."""
    return dim.replace(".", "_")


def maths_of(definitions: Iterable[Definition]) -> tuple[set[str], set[DType]]:
    """Return the functions and dtypes that kernels need of the C maths."""
    names, dtypes = {"cast", "add", "mul", "max"}, {DType.float32, DType.int64, DType.bool_}
    for definition in definitions:
        dtypes |= {type.dtype for type in definition.types.values()}
        for term in walk(*(step for line in definition.lines for step in worked_out(line.term))):
            dtypes.add(term.dtype)
            function = function_of(term.op) if isinstance(term, Apply) else None
            names |= set() if function is None else {function}
    return names, dtypes


class _Line:
    """The loops that make one array."""

    def __init__(self, definition: Definition, line: Output, body: Body) -> None:
        self.types: Mapping[str, TensorType] = definition.types
        self.line = line
        self.body = body
        self.count = 0

    def write(self) -> None:
        """Write the line: axes of size 1 are no loops."""
        pairs = list(zip(self.line.axes, self.line.type.shape, strict=True))
        for axis, size in pairs:
            if size == 1:
                self.body.add(f"const lab_i64 {axis.name} = 0;")
        self._loops([(axis, size) for axis, size in pairs if size != 1])

    def _loops(self, axes: list[tuple[Symbol, Dim]]) -> None:
        line, term = self.line, self.line.term
        if not axes:
            value = self.value(term, {})
            place = render_c(row_major(line.type.shape, line.axes))
            self.body.add(f"{line.name}[{place}] = {stored(value, line.type.dtype)};")
            return
        (axis, size), *rest = axes
        if not rest and isinstance(term, Fold) and self._is_by_columns(term, axis):
            self._columns(term, axis, size)
            return
        name = axis.name
        with self.body.block(f"for (lab_i64 {name} = 0; {name} < {render_c(size)}; {name}++)"):
            self._loops(rest)

    # -- many results of a fold side by side -----------------------------------------------------

    def _is_by_columns(self, fold: Fold, last: Symbol) -> bool:
        """Return whether neighbours along the last axis lie together, and along the fold do not."""
        reads = [term for term in walk(fold.body) if isinstance(term, Read)]
        if any(isinstance(term, (Fold, Lookup, Guard)) for term in walk(fold.body)):
            return False
        along = [self._stride(read, last) for read in reads]
        folded = [self._stride(read, fold.axis) for read in reads]
        far = [stride for stride in folded if stride not in (0, 1)]
        return bool(far) and all(stride in (0, 1) for stride in along)

    def _stride(self, read: Read, axis: Symbol) -> Dim:
        """Return how far apart in memory neighbours along an axis are."""
        flat = row_major(self.types[read.buffer].shape, read.index)
        return substitute(flat, {axis.name: axis + 1}) - flat

    def _columns(self, fold: Fold, axis: Symbol, size: Dim) -> None:
        """Fold for a block of neighbours at a time, each in a lane of its own."""
        line, body, name = self.line, self.body, axis.name
        sums, dtype = self.fresh(), fold.dtype
        start = "0" if fold.kind == "sum" else least(dtype)
        block, lane, width = f"{name}_block", f"{name}_lane", f"{name}_width"
        head = f"for (lab_i64 {block} = 0; {block} < {render_c(size)}; {block} += {COLUMNS})"
        lanes = f"for (int {lane} = 0; {lane} < {width}; {lane}++)"
        with body.block(head):
            rest = f"{render_c(size)} - {block}"
            body.add(f"const int {width} = {rest} < {COLUMNS} ? (int)({rest}) : {COLUMNS};")
            body.add(f"{c_type(dtype)} {sums}[{COLUMNS}];")
            body.add(f"{lanes} {sums}[{lane}] = {start};")
            folded = fold.axis.name
            loop = f"for (lab_i64 {folded} = 0; {folded} < {render_c(fold.size)}; {folded}++)"
            with body.block(loop), body.block(lanes):
                body.add(f"const lab_i64 {name} = {block} + {lane};")
                value = self.value(fold.body, {})
                body.add(f"{sums}[{lane}] = {self._joined(fold, f'{sums}[{lane}]', value)};")
            with body.block(lanes):
                body.add(f"const lab_i64 {name} = {block} + {lane};")
                place = render_c(row_major(line.type.shape, line.axes))
                body.add(f"{line.name}[{place}] = {stored(f'{sums}[{lane}]', line.type.dtype)};")

    def fresh(self) -> str:
        """Return a name for a temporary."""
        self.count += 1
        return f"t{self.count - 1}"

    def put(self, dtype: DType, value: str) -> str:
        """Give a value a name, and return it."""
        name = self.fresh()
        self.body.add(f"const {c_type(dtype)} {name} = {value};")
        return name

    # -- terms -------------------------------------------------------------------------------------

    def value(self, term: Term, known: dict[Term, str]) -> str:
        """Write what a term needs, and return its name; `known` are those written around here."""
        if term not in known:
            known[term] = self._value(term, known)
        return known[term]

    def _value(self, term: Term, known: dict[Term, str]) -> str:
        match term:
            case Number(value=value, dtype=dtype):
                return number(value, dtype)
            case Read(buffer=buffer, index=index, dtype=dtype):
                return self.put(dtype, self.element(buffer, index))
            case Lookup():
                return self._lookup(term, known)
            case Count(at=at, dtype=dtype):
                return self.put(dtype, converted(f"(lab_i64)({render_c(at)})", DType.int64, dtype))
            case Draw(seed=seed, stream=stream, at=at):
                key = f"{seed & 0xFFFFFFFF}u, {key_word(seed, stream)}u"
                return self.put(DType.float32, f"lab_random({key}, {render_c(at)}, lab_step)")
            case Apply(args=args, dtype=dtype):
                values = [self.value(arg, known) for arg in args]
                return self.put(dtype, applied(term, values))
            case Fold():
                return self._fold(term, known)
            case Guard(holds=holds, term=inner, dtype=dtype):
                name = self.fresh()
                self.body.add(f"{c_type(dtype)} {name} = 0;")
                with self.body.block(f"if ({render_c(holds)})"):
                    self.body.add(f"{name} = {self.value(inner, dict(known))};")
                return name
            case _:
                raise AssertionError(term)

    def element(self, buffer: str, index: Iterable[Dim]) -> str:
        """Return an element of a buffer, as a value to compute with."""
        type = self.types[buffer]
        read = f"{buffer}[{render_c(row_major(type.shape, tuple(index)))}]"
        return f"lab_cast_{type.dtype.short}_f32({read})" if type.dtype.is_half else read

    def _lookup(self, term: Lookup, known: dict[Term, str]) -> str:
        """Read where a value says, and report one that is no position."""
        place, size = self.fresh(), render_c(term.size)
        self.body.add(f"lab_i64 {place} = {self.value(term.position, known)};")
        wrong = f"if ({place} < 0 || {place} >= {size}) {{ *lab_fault = 1; {place} = 0; }}"
        self.body.add(wrong)
        shape = self.types[term.buffer].shape
        stride = render_c(row_major(shape, [int(k == term.axis) for k in range(len(shape))]))
        rest = render_c(row_major(shape, term.index))
        read = f"{term.buffer}[{rest} + {place} * {stride}]"
        # Of an empty axis there is nothing to read.
        if term.dtype.is_half:
            read = f"lab_cast_{term.dtype.short}_f32({read})"
        return self.put(term.dtype, f"{size} > 0 ? {read} : 0")

    def _fold(self, term: Fold, known: dict[Term, str]) -> str:
        lanes, axis, size = self.fresh(), term.axis.name, render_c(term.size)
        type = c_type(term.dtype)
        start = "0" if term.kind == "sum" else least(term.dtype)
        self.body.add(f"{type} {lanes}[{LANES}];")
        self.body.add(f"for (int l = 0; l < {LANES}; l++) {lanes}[l] = {start};")
        block, lane = f"{axis}_block", f"{axis}_lane"
        self.body.add(f"lab_i64 {block} = 0;")
        outer = known
        with (
            self.body.block(f"for (; {block} + {LANES} <= {size}; {block} += {LANES})"),
            self.body.block(f"for (int {lane} = 0; {lane} < {LANES}; {lane}++)"),
        ):
            self._add_up(term, lanes, lane, f"{block} + {lane}", dict(outer))
        with self.body.block(f"for (int {lane} = 0; {lane} < {size} - {block}; {lane}++)"):
            self._add_up(term, lanes, lane, f"{block} + {lane}", dict(outer))
        width = LANES // 2
        while width:
            joined = self._joined(term, f"{lanes}[l]", f"{lanes}[l + {width}]")
            self.body.add(f"for (int l = 0; l < {width}; l++) {lanes}[l] = {joined};")
            width //= 2
        return self.put(term.dtype, f"{lanes}[0]")

    def _add_up(self, term: Fold, lanes: str, lane: str, at: str, known: dict[Term, str]) -> None:
        self.body.add(f"const lab_i64 {term.axis.name} = {at};")
        value = self.value(term.body, known)
        self.body.add(f"{lanes}[{lane}] = {self._joined(term, f'{lanes}[{lane}]', value)};")

    def _joined(self, term: Fold, a: str, b: str) -> str:
        dtype = DType.float32 if term.dtype.is_half else term.dtype
        if term.kind == "max":
            return f"lab_max_{dtype.short}({a}, {b})"
        return f"{a} + {b}" if dtype.is_float else f"lab_add_{dtype.short}({a}, {b})"


# -- pieces ----------------------------------------------------------------------------------------


def number(value: bool | int | float, dtype: DType) -> str:
    """Return a number in C."""
    if dtype.is_float:
        text = repr(float(value))
        known = {"inf": "__builtin_inf()", "-inf": "-__builtin_inf()", "nan": '__builtin_nan("")'}
        if text in known:
            return f"(({c_type(dtype)}){known[text]})"
        return f"({text})" if dtype is DType.float64 else f"({text}f)"
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    return f"(({C_TYPES[dtype]}){int(value)}LL)"


def least(dtype: DType) -> str:
    """Return the least value of a dtype."""
    return number(-float("inf") if dtype.is_float else dtype.limits[0], dtype)


def converted(value: str, source: DType, target: DType) -> str:
    """Return a value in another dtype; a 16-bit float is one that its dtype has, in a float."""
    near = DType.float32 if source.is_half else source
    if target.is_half:
        return f"lab_cast_{target.short}_f32(lab_cast_{near.short}_{target.short}({value}))"
    return value if near is target else f"lab_cast_{near.short}_{target.short}({value})"


def stored(value: str, dtype: DType) -> str:
    """Return a value as it is put into memory."""
    return f"lab_cast_f32_{dtype.short}({value})" if dtype.is_half else value


def applied(term: Apply, values: list[str]) -> str:
    """Return an op on values."""
    op, dtype = term.op, DType.float32 if term.dtype.is_half else term.dtype
    match op:
        case Add() | Mul():
            if dtype.is_float:
                return f"{values[0]} {'+' if isinstance(op, Add) else '*'} {values[1]}"
            return f"lab_{op.name}_{dtype.short}({', '.join(values)})"
        case LessThan():
            return f"{values[0]} < {values[1]}"
        case Where():
            return f"{values[0]} ? {values[1]} : {values[2]}"
        case Cast():
            return converted(values[0], term.args[0].dtype, term.dtype)
        case _:
            function = function_of(op)
            if function is None:
                return op.c_form.format(*values)
            return f"lab_{function}_{dtype.short}({', '.join(values)})"


def function_of(op: Op) -> str | None:
    """Return which C function computes an op, as `c_maths` calls it; None for a user's own op."""
    name = op.name.removeprefix(PREFIX) if isinstance(op, Intrinsic) else op.name
    return name if name in (COMPOSED if isinstance(op, Intrinsic) else PRIMITIVE) else None


def key_word(seed: int, stream: int) -> int:
    """Return the second word of a random stream's key, as `core/random.py` has it."""
    high = seed >> 32 & 0xFFFFFFFF
    return (stream & 0xFFFFFFFF) ^ (high * 0x9E3779B9 & 0xFFFFFFFF)


RANDOM = """\
static inline float lab_random(lab_u32 k0, lab_u32 k1, lab_i64 at, lab_u32 step) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const lab_u32 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    lab_u32 x = (lab_u32)at + k0, y = step + k1;
    for (lab_u32 group = 0; group < 5; group++) {
        for (int turn = 0; turn < 4; turn++) {
            const int by = turns[group % 2][turn];
            x += y;
            y = (y << by | y >> (32 - by)) ^ x;
        }
        x += keys[(group + 1) % 3];
        y += keys[(group + 2) % 3] + group + 1;
    }
    return (float)(x >> 8) * 0x1p-24f;
}"""
"""Threefry-2x32 of 20 rounds, as in `core/random.py`."""

INDICES = """\
static inline lab_i64 floordiv(lab_i64 a, lab_i64 b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline lab_i64 floormod(lab_i64 a, lab_i64 b) {
    return a - b * floordiv(a, b);
}"""
"""What `render_c` calls where signs are not known."""
