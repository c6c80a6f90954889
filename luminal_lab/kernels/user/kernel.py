"""A user's kernel as a kernel of a program: its C, checked against its header, and its caller.

    // kernel scale(x: f32[n]) -> (y: f32[n])
    void scale(const float *x, float *y, long n) {
        for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    }

The function is given the inputs, the outputs, the dims in the order in which the header mentions
them and, if there are tasks, the number of the task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from luminal_lab.core.dims import (
    Dim,
    Symbol,
    bounds,
    evaluate,
    known,
    parse_dim,
    substitute,
    symbols as symbols_of,
)
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Elementwise, Reduce, TensorType, mentioned, size_of, tuple_text
from luminal_lab.core.ops import Cast, StopGradient, UserKernel, Where
from luminal_lab.errors import DefinitionError, DimError, LabError, ShapeError
from luminal_lab.kernels.definition.definition import Buffer
from luminal_lab.kernels.definition.text import Header, parse_header
from luminal_lab.kernels.kernel import Kernel, Phase, comment, function_name
from luminal_lab.kernels.render.index import index_c
from luminal_lab.kernels.render.names import KEYWORDS, c_name
from luminal_lab.kernels.render.values import functions_in
from luminal_lab.kernels.user.c_text import (
    DEFINE,
    INCLUDE,
    CFunction,
    bare,
    functions,
    marked,
    names,
    unbalanced,
)
from luminal_lab.trust import mark

STATED = re.compile(r"^\s*(?://|\*|/\*)\s*(kernel\s+[\w.]+[^\n]*?)\s*(?:\*/)?\s*$", re.MULTILINE)
C_ELEMENTS: Mapping[DType, tuple[str, ...]] = {
    DType.float32: ("float",),
    DType.float64: ("double",),
    DType.float16: ("_Float16", "__fp16", "uint16_t", "unsigned short"),
    DType.bfloat16: ("__bf16", "uint16_t", "unsigned short"),
    DType.int8: ("signed char", "int8_t", "char"),
    DType.int16: ("short", "int16_t", "short int"),
    DType.int32: ("int", "int32_t", "signed int"),
    DType.int64: ("long long", "int64_t", "long", "long int", "long long int"),
    DType.uint64: ("unsigned long long", "uint64_t", "unsigned long", "size_t"),
    DType.uint32: ("unsigned int", "uint32_t", "unsigned"),
    DType.uint16: ("unsigned short", "uint16_t"),
    DType.uint8: ("unsigned char", "uint8_t"),
    DType.bool_: ("bool", "_Bool", "unsigned char", "uint8_t"),
}
C_NUMBERS = frozenset(
    [
        *("int", "long", "long int", "long long", "long long int", "short", "unsigned"),
        *("unsigned int", "unsigned long", "unsigned long long", "size_t", "ptrdiff_t"),
        *("int32_t", "int64_t", "uint32_t", "uint64_t"),
    ]
)
OURS = re.compile(r"lab_|LAB_")
"""The prefixes of names in the program around a kernel."""


class Language(NamedTuple):
    """How a language writes the function of a kernel."""

    name: str
    """The name of a source in errors."""
    elements: Mapping[DType, tuple[str, ...]]
    """The types that an array's elements may have, the usual one first."""
    head: str
    number: str
    is_number: Callable[[str], bool]
    """Whether a dim or a task may have a type."""
    space: str = ""
    """The text before the type of an array."""
    others: frozenset[str] = frozenset()
    """Known types besides those of elements."""

    def array(self, name: str, dtype: DType, *, is_input: bool) -> str:
        """Return the usual parameter for an array."""
        return f"{self.space}{'const ' * is_input}{self.elements[dtype][0]} *{name}"

    def prototype(self, header: Header, numbers: Iterable[str]) -> str:
        """Return the usual first line of a kernel's function."""
        parts = [self.array(name, type.dtype, is_input=True) for name, type in header.inputs]
        parts += [self.array(name, type.dtype, is_input=False) for name, type in header.outputs]
        parts += [self.number.format(name) for name in numbers]
        return self.head.format(header.name, ", ".join(parts))


def _is_whole(type: str) -> bool:
    return type not in ("float", "double", "bool", "_Bool")


C_LANGUAGE = Language("C", C_ELEMENTS, "void {}({})", "long {}", _is_whole, others=C_NUMBERS)


# -- the header ------------------------------------------------------------------------------------


@cache
def header_of(text: str) -> Header:
    """Return the header of a kernel."""
    return parse_header(text)


def header_dims(header: Header) -> dict[str, Symbol]:
    """Return the dims of a header by name, in the order in which it mentions them."""
    dims = dict(header.dims)
    for _, type in (*header.inputs, *header.outputs):
        for dim in type.shape:
            # Within one expression they are sorted by name.
            dims |= {s.name: dims.get(s.name, s) for s in symbols_of(dim)}
    return dims


def solved(
    header: Header, given: Iterable[TensorType], dims: Mapping[str, Dim], labels: Iterable[str]
) -> dict[str, Dim]:
    """Return the dims of a header, for the types of its inputs in one use."""
    subject = f"kernel {header.name}"
    wanted = header_dims(header)
    sizes = dict(dims)
    pairs = list(zip(header.inputs, given, labels, strict=True))
    for (name, type), other, label in pairs:
        count = len(type.shape)
        if count != len(other.shape):
            raise ShapeError(
                f"{subject}: {name} is {type}, but it is given {label}",
                hint=f"give it {count} {'axis' if count == 1 else 'axes'}, with reshape, expand or "
                "unsqueeze",
            )
        for dim, size in zip(type.shape, other.shape, strict=True):
            if isinstance(dim, Symbol):
                sizes.setdefault(dim.name, size)
    missing = [name for name in wanted if name not in sizes]
    if missing:
        raise DimError(
            f"{subject}: no input says what the dim {missing[0]!r} is",
            hint=f"give it at the call, as in {header.name}(…, {missing[0]}=4)",
        )
    for (name, type), other, label in pairs:
        shape = tuple(substitute(dim, sizes) for dim in type.shape)
        if shape != other.shape:
            said = ", ".join(f"{dim} = {sizes[dim]}" for dim in wanted)
            raise ShapeError(
                f"{subject}: {name} is {type} with {said}, which is {tuple_text(shape)}, but it is "
                f"given {label}",
                hint="all inputs of a kernel agree on its dims",
            )
    for name, symbol in wanted.items():
        _check_bounds(subject, symbol, sizes[name])
    return {name: sizes[name] for name in wanted}


def _check_bounds(subject: str, symbol: Symbol, size: Dim) -> None:
    low, high = bounds(size)
    top = symbol.high
    if (symbol.low, top, symbol.multiple_of) == (1, None, 1):
        return  # nothing was declared; a kernel without elements does no harm
    fits = low is not None and low >= symbol.low
    fits = fits and (not isinstance(top, int) or (high is not None and high <= top))
    if symbol.multiple_of > 1:
        fits = fits and known((size % symbol.multiple_of) < 1) is True
    if not fits:
        by = f" by {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        raise DimError(
            f"{subject}: {symbol.name} is {symbol.low}..{'' if top is None else top}{by}, and here "
            f"it is {size}",
            hint="a dim of the graph has bounds too: cx.dim(name, low, high, multiple_of=…)",
        )


def instantiated(header: Header, dims: Mapping[str, Dim]) -> tuple[list[Buffer], list[Buffer]]:
    """Return the inputs and the outputs with their types in one use."""

    def at(buffer: Buffer) -> Buffer:
        shape = tuple(substitute(dim, dims) for dim in buffer.type.shape)
        return Buffer(buffer.name, buffer.type.with_shape(shape))

    return [at(buffer) for buffer in header.inputs], [at(buffer) for buffer in header.outputs]


# -- the function ----------------------------------------------------------------------------------


def check_function(header: Header, source: str, *, with_tasks: bool) -> CFunction:
    """Return the function of a kernel's C, or raise if it does not fit the header."""
    check_text(f"kernel {header.name}", source)
    numbers = [*header_dims(header), *["task"] * with_tasks]
    return check_signature(header, C_LANGUAGE, functions(source), numbers)


def check_signature(
    header: Header, language: Language, defined: Mapping[str, CFunction], numbers: Sequence[str]
) -> CFunction:
    """Return a kernel's function among those that its source defines, or raise if it is not right.

    It takes the inputs and the outputs of the header, and then some numbers.
    """
    subject, usual = f"kernel {header.name}", language.prototype(header, numbers)
    generated = function_name(header.name)
    if header.name not in defined and any(name.startswith(generated) for name in defined):
        raise DefinitionError(
            f"{subject}: its source is one that luminal_lab has generated: {generated} takes "
            "arguments, and calls functions, of the program around it",
            hint=f"to write it yourself, begin with {usual} {{ … }}; to change the generated one, "
            "give its kernel another schedule, kernel.rescheduled(…)",
        )
    fault = f"{subject}: its {language.name} has no function {header.name!r}; the functions it has"
    fault += f": {', '.join(defined) or 'none'}"
    DefinitionError.unless_known(header.name, defined, fault, f"write {usual} {{ … }}")
    function = defined[header.name]
    for problem, hint in _problems(header, language, function, numbers):
        raise DefinitionError(f"{subject}: {problem}", where=f"  {function.prototype}", hint=hint)
    return function


def _problems(
    header: Header, language: Language, function: CFunction, numbers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a function, each with a hint."""
    arrays, given = [*header.inputs, *header.outputs], function.arguments
    wanted = [*(name for name, _ in arrays), *numbers]
    if "@" in function.returns:
        yield "its function is WGSL's", "write it in C, CUDA or Metal: ll.kernel takes no WGSL"
    if function.returns != "void":
        yield (
            f"its function returns {function.returns}, and must return void",
            "what it computes goes into its outputs",
        )
    if len(given) != len(wanted):
        arguments = f"{len(given)} argument{'s' * (len(given) != 1)}"
        yield (
            f"its function takes {arguments}, and the header asks for {len(wanted)}: "
            f"{', '.join(wanted)}",
            f"write {language.prototype(header, numbers)}",
        )
    for argument, name in zip(given, wanted, strict=False):
        if argument.name != name and argument.name in wanted:
            yield (
                f"its argument {argument.name!r} stands where {name!r} belongs",
                "inputs, outputs, dims, in the header's order",
            )
    text = f"but in {'C' if language.name == 'C' else 'the source'} it is {{}}"
    # The user's own types are left to the compiler, which knows their sizes.
    known_types = language.others.union(*language.elements.values())
    for number, (argument, (name, type)) in enumerate(zip(given, arrays, strict=False)):
        is_input, said = number < len(header.inputs), text.format(argument.text)
        is_other = argument.type in known_types - {*language.elements[type.dtype]}
        if not argument.is_pointer or is_other or (argument.is_const and not is_input):
            usual = language.array(name, type.dtype, is_input=is_input)
            yield f"{name} is {type}{', an output' * (not is_input)}, {said}", f"write {usual}"
    for argument, name in zip(given[len(arrays) :], numbers, strict=False):
        if argument.is_pointer or not language.is_number(argument.type):
            what = "a size" if name in header_dims(header) else "the number of a task"
            usual = language.number.format(name)
            yield f"{name} is {what}, {text.format(argument.text)}", f"write {usual}"


def count_of(header: Header, unit: str, text: object, example: str) -> Dim:
    """Return how many tasks, blocks or threads a kernel has, in its dims, or raise."""
    dims = header_dims(header)
    try:
        return parse_dim(str(text), dims)
    except LabError as error:
        raise DefinitionError(
            f"kernel {header.name}: its {unit} are {text!r}, and its dims are "
            f"{', '.join(dims) or 'none'}",
            hint=f"give a number, or an expression in its dims such as {example}",
        ) from error


def check_text(subject: str, source: str, shown: str | None = None) -> None:
    """Raise if a brace has no partner, or if a name is a word of C's or of our own source's.

    `shown` has the lines as the user wrote them.
    """
    alone_ = unbalanced(source)
    if alone_ is not None:
        brace, line = alone_
        other = "}" if brace == "{" else "{"
        raise DefinitionError(
            f"{subject}: a {brace} in line {line} has no {other}",
            where=marked(shown or source, line),
            hint=f"lines are counted from the first of the source; add the {other}",
        )
    named = [*names(source), *DEFINE.findall(source)]
    named += [
        argument.name for function in functions(source).values() for argument in function.arguments
    ]
    for name in named:
        if name in KEYWORDS or OURS.match(name):
            before = re.split(rf"\b{name}\b", bare(source), maxsplit=1)
            at = before[0].count("\n") + 1 if len(before) > 1 else 1
            kind = "a word of C" if name in KEYWORDS else "a name of the program around it"
            raise DefinitionError(
                f"{subject}: its C calls something {name}, which is {kind}",
                where=marked(shown or source, at),
                hint="choose another name; those that begin with lab_ or LAB_ are the program's",
            )


# -- the kernel ------------------------------------------------------------------------------------


def user_kernel(op: UserKernel, name: str) -> Kernel:
    """Return a user's kernel as a program has it, for the types of one use."""
    header = header_of(op.header)
    dims = use_dims(op)
    tasks = tasks_of(op, dims)
    function, given = function_name(name), [*use_of(op).dims]
    source = _embedded(op, header, function, dims, given)
    return embedded_kernel(op, name, source, Phase(function, tasks))


def embedded_kernel(op: UserKernel, name: str, source: str, phase: Phase) -> Kernel:
    """Return a user's kernel whose source is already embedded in a program."""
    header, use = header_of(op.header), use_of(op)
    return Kernel(
        name,
        None,
        source,
        (phase,),
        given_dims=tuple(use.dims),
        given_names=tuple(name for name, _ in (*header.inputs, *header.outputs)),
        cost=use.cost,
        uses=frozenset(functions_in(source)),
        dialect=op.dialect,
    )


class KernelTypes(NamedTuple):
    """What one use of a kernel takes and returns, and its cost."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    dims: Mapping[str, Symbol]
    """The symbolic dims, including those that occur only in a number of elements."""
    cost: tuple[Dim, Dim]
    """Operations, and bytes moved."""


def use_of(op: UserKernel) -> KernelTypes:
    """Return what one use of a kernel takes and returns, after checking it."""
    inputs, outputs = instantiated(header_of(op.header), use_dims(op))
    check_use(op, inputs, outputs)
    types = [type for _, type in (*inputs, *outputs)]
    moved: Dim = 0
    for type in types:
        moved = moved + size_of(type.shape) * type.dtype.itemsize
    given = mentioned([*types, TensorType(DType.int64, op.dims)], ())
    return KernelTypes(tuple(inputs), tuple(outputs), given, (operations_of(op.body), moved))


def use_dims(op: UserKernel) -> dict[str, Dim]:
    """Return the values of a kernel's header dims in one use."""
    header = header_of(op.header)
    known = header_dims(header)
    if len(known) != len(op.dims):
        raise DimError(
            f"kernel {header.name}: its dims are {', '.join(known) or 'none'}, and the graph gives "
            f"{len(op.dims)} sizes",
            hint=f"it is {op.header}",
        )
    return dict(zip(known, op.dims, strict=True))


def check_use(op: UserKernel, inputs: Iterable[Buffer], outputs: Iterable[Buffer]) -> None:
    """Raise unless what a graph gives a kernel agrees with its header for these sizes.

    A graph from a file may say anything, and a trusted kernel writes as far as it is told.
    """
    header = header_of(op.header)
    pairs = [(name, type) for name, type in (*inputs, *outputs)]
    nodes = (*op.body.inputs, *op.body.outputs)
    if len(pairs) != len(nodes):
        raise DefinitionError(
            f"kernel {header.name}: its header has {len(pairs)} inputs and outputs, and the graph "
            f"of what it means has {len(nodes)}",
            hint=f"it is {op.header}",
        )
    for (name, type), node in zip(pairs, nodes, strict=True):
        if type != node.type:
            raise ShapeError(
                f"kernel {header.name}: {name} is {type} for these sizes, and the graph has "
                f"{node.type}",
                hint=f"it is {op.header}",
            )
    for symbol, size in zip(header_dims(header).values(), op.dims, strict=True):
        _check_bounds(f"kernel {header.name}", symbol, size)


def tasks_of(op: UserKernel, dims: Mapping[str, Dim]) -> Dim:
    """Return how many tasks a kernel has in one use; on a GPU, how many blocks."""
    return substitute(
        parse_dim(op.tasks.partition(" of ")[0], header_dims(header_of(op.header))), dims
    )


def check_tasks(op: UserKernel, sizes: Mapping[str, int]) -> None:
    """Raise if a kernel with outputs is never called for some sizes of the graph's dims."""
    dims = use_dims(op)
    count = evaluate(tasks_of(op, dims), sizes)
    if count >= 1 or all(evaluate(size_of(o.type.shape), sizes) == 0 for o in op.body.outputs):
        return
    header = header_of(op.header)
    tasks, _, threads = op.tasks.partition(" of ")
    used = symbols_of(parse_dim(tasks, header_dims(header)))
    said = ", ".join(f"{symbol.name} = {evaluate(dims[symbol.name], sizes)}" for symbol in used)
    with_ = f", which with {said} is {count}" if used else ""
    raise never_called(header, "blocks" if threads else "tasks", f"{tasks}{with_}", DimError)


def never_called(
    header: Header, unit: str, tasks: str, kind: type[LabError] = DefinitionError
) -> LabError:
    """Return the error for a kernel whose function is never called."""
    return kind(
        f"kernel {header.name}: its {unit} are {tasks}: nothing would write "
        f"{' and '.join(name for name, _ in header.outputs)}",
        hint=CALLED if unit == "tasks" else "blocks= says how many there are: at least one",
    )


def operations_of(body: IR) -> Dim:
    """Return the operations of a kernel's meaning; 0 if only a function of NumPy gives it."""
    total: Dim = 0
    for node in body.nodes:
        match node.op:
            case Cast() | Where() | StopGradient():
                pass
            case Elementwise():
                total = total + size_of(node.shape)
            case Reduce():
                total = total + size_of(body[node.sources[0]].shape)
            case _:
                pass
    return total


CALLED = "tasks= says how often the function is called: at least once"
OWN_NAMES = "// All kernels are one source: within it the names of this one are its own."


def _embedded(
    op: UserKernel, header: Header, function: str, dims: Mapping[str, Dim], given: list[str]
) -> str:
    """Return the C of a kernel inside a program, where its names meet no others."""
    own = names(op.source)
    includes = [line.strip() for line in INCLUDE.findall(op.source)]
    body = INCLUDE.sub("", op.source).strip("\n")
    arrays = len(header.inputs) + len(header.outputs)
    passed = [f"lab_buffers[{index}]" for index in range(arrays)]
    passed += [index_c(dim) for dim in dims.values()]
    passed += ["lab_task"] * (op.tasks != "1")
    lines = [f"    const lab_i64 {c_name(dim)} = lab_dims[{k}];" for k, dim in enumerate(given)]
    return "\n".join(
        [
            *([] if header_in(op.source) else [comment(op.header)]),
            *includes,
            *([OWN_NAMES] if own else []),
            *(f"#define {name} {function}__{name}" for name in own),
            body,
            f"static void {function}(LAB_GIVEN) {{",
            *lines,
            f"    {header.name}({', '.join(passed)});",
            "    (void)lab_dims, (void)lab_step, (void)lab_fault, (void)lab_task;",
            "    (void)lab_scratch;",
            "}",
            *(f"#undef {name}" for name in dict.fromkeys([*own, *DEFINE.findall(op.source)])),
            mark(op),
        ]
    )


def as_written(op: UserKernel, program: str, line: int) -> tuple[str, int] | None:
    """Return a user's source and its line for a program's line; None if that line is around it."""
    source, lines = INCLUDE.sub("", op.source), program.split("\n")
    body = source.strip("\n").split("\n")
    before = len(source) - len(source.lstrip("\n"))
    for first in range(max(0, line - len(body)), line):
        if lines[first : first + len(body)] == body:
            return op.source, line - first + before
    return None


def alone(op: UserKernel) -> str:
    """Return C that compiles by itself: the user's first, so that its lines keep their numbers.

    `lab_alone` takes the buffers, the dims in the header's order, and the task.
    """
    header = header_of(op.header)
    function = check_function(header, op.source, with_tasks=op.tasks != "1")
    buffers = (*header.inputs, *header.outputs)
    lines = [op.source.rstrip("\n")]
    for (name, type), argument in zip(buffers, function.arguments, strict=False):
        size = f"sizeof(*({argument.type} *)0) == {type.dtype.itemsize}"
        message = f"{name} is {type}, but the size of {argument.type} is another"
        lines.append(f'_Static_assert({size}, "{message}");')
    passed = [f"lab_buffers[{k}]" for k in range(len(buffers))]
    passed += [f"lab_dims[{k}]" for k in range(len(header_dims(header)))]
    passed += ["lab_task"] * (op.tasks != "1")
    given = "void *const *lab_buffers, const long long *lab_dims, long long lab_task"
    lines += [f"void lab_alone({given}) {{", f"    {header.name}({', '.join(passed)});", "}"]
    return "\n".join([*lines, mark(op)]) + "\n"


def header_in(source: str) -> str | None:
    """Return the header that a source states in a comment, `// kernel name(…) -> (…)`."""
    match = STATED.search(source)
    return match[1] if match else None
