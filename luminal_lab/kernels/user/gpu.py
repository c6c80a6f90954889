"""A user's kernel in CUDA C++ or Metal's language: checked against its header, and as a kernel.

    // kernel scale(x: f32[n]) -> (y: f32[n])
    extern "C" __global__ void scale(const float *x, float *y, long long n) {
        const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }

The function is given the inputs, the outputs, and the dims in the order in which the header
mentions them; blocks= and threads= say how often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from luminal_lab.core.dims import Dim, parse_dim, substitute
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import Node
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import HostCall, UserKernel
from luminal_lab.errors import DefinitionError, DimError, DTypeError, LabError
from luminal_lab.kernels.definition.text import Header
from luminal_lab.kernels.emulated import Meaning
from luminal_lab.kernels.kernel import Kernel, Phase, comment, function_name
from luminal_lab.kernels.render.values import functions_in
from luminal_lab.kernels.user.c_text import (
    COMMENT,
    DEFINE,
    STRING,
    CArgument,
    Function,
    functions,
    names,
)
from luminal_lab.kernels.user.kernel import (
    check_arguments,
    check_text,
    function_of,
    header_dims,
    header_in,
    header_of,
    use_dims,
    use_of,
)
from luminal_lab.trust import mark

MOST_THREADS: Final = 1024
NAMES: Final[Mapping[str, Mapping[DType, tuple[str, ...]]]] = {
    "cuda": {
        DType.float32: ("float",),
        DType.float64: ("double",),
        DType.float16: ("unsigned short", "__half", "half", "ushort", "uint16_t"),
        DType.bfloat16: ("unsigned short", "__nv_bfloat16", "ushort", "uint16_t"),
        DType.int8: ("signed char", "char", "int8_t"),
        DType.int16: ("short", "int16_t", "short int"),
        DType.int32: ("int", "int32_t", "signed int"),
        DType.int64: ("long long", "int64_t", "long", "long int", "long long int"),
        DType.uint8: ("unsigned char", "uint8_t", "uchar"),
        DType.bool_: ("bool", "unsigned char", "uint8_t"),
    },
    "metal": {
        DType.float32: ("float",),
        DType.float16: ("half", "ushort", "uint16_t"),
        DType.bfloat16: ("bfloat", "ushort", "uint16_t"),
        DType.int8: ("char", "int8_t", "signed char"),
        DType.int16: ("short", "int16_t"),
        DType.int32: ("int", "int32_t"),
        DType.int64: ("long", "int64_t"),
        DType.uint8: ("uchar", "uint8_t", "unsigned char"),
        DType.bool_: ("bool", "uchar", "uint8_t"),
    },
}
"""The types that a language has for elements of an array, the usual one first."""
NUMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "cuda": {
        **dict.fromkeys(("int", "int32_t"), "int32"),
        **dict.fromkeys(("unsigned", "unsigned int", "uint", "uint32_t"), "uint32"),
        **dict.fromkeys(("long long", "long long int", "int64_t", "long", "long int"), "int64"),
        **dict.fromkeys(("unsigned long long", "uint64_t", "size_t", "unsigned long"), "uint64"),
    },
    "metal": {
        **dict.fromkeys(("int", "int32_t"), "int32"),
        **dict.fromkeys(("uint", "uint32_t", "unsigned", "unsigned int"), "uint32"),
        **dict.fromkeys(("long", "int64_t"), "int64"),
        **dict.fromkeys(("ulong", "uint64_t", "size_t", "unsigned long"), "uint64"),
    },
}
"""The types that a language has for a dim, and what is then passed."""
MARK: Final = {"cuda": "__global__", "metal": "kernel"}
NUMBER_OR_NAME = re.compile(r"\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*")
"""In `1.0f`, f is no name."""
BUILTIN = re.compile(r"\b\w+\s*\[\[\s*(?!buffer\b)\w+\s*(?:\([^()]*\))?\s*\]\]")
BOUND = re.compile(r"\b(\w+)\s*\[\[\s*buffer\s*\(\s*(\d+)\s*\)\s*\]\]")
ASIDE: Final = {
    "cuda": re.compile(
        r"__launch_bounds__\s*\([^()]*\)|__(?:global|device|host|forceinline)__|"
        r"\busing\s+namespace\b[^;]*;"
    ),
    "metal": re.compile(
        r"\b(?:kernel|device|constant|thread|threadgroup)\b|&|\busing\s+namespace\b[^;]*;"
    ),
}
GIVEN = "given__by_metal"
"""What parameters that Metal fills are called while a function is read."""


# -- the launch ------------------------------------------------------------------------------------


def launch_text(header: Header, blocks: object, threads: object) -> str:
    """Return how often a kernel's function is called as text, `blocks of threads`, checked."""
    for unit, text in (("blocks", blocks), ("threads", threads)):
        if text is None:
            raise DefinitionError(
                f"kernel {header.name}: nothing says how many {unit} it has",
                hint='as in blocks="(n + 255) // 256", threads=256',
            )
        try:
            parse_dim(str(text), header_dims(header))
        except LabError as error:
            dims = ", ".join(header_dims(header)) or "none"
            raise DefinitionError(
                f"kernel {header.name}: its {unit} are {text!r}, and its dims are {dims}",
                hint='give a number, or an expression in its dims such as "(n + 255) // 256"',
            ) from error
    count = parse_dim(str(threads), header_dims(header))
    if isinstance(count, int):
        _check_threads(header.name, count)
    return f"{blocks} of {threads}"


def _check_threads(name: str, count: int) -> None:
    if not 1 <= count <= MOST_THREADS:
        raise DefinitionError(
            f"kernel {name}: a block of it has {count:,} threads",
            hint=f"a block has 1 to {MOST_THREADS:,}; there can be more blocks",
        )


def launch_of(op: UserKernel, dims: Mapping[str, Dim]) -> tuple[Dim, int]:
    """Return how many blocks a kernel has in one use, and the threads of each."""
    header = header_of(op.header)
    blocks, _, threads = op.tasks.partition(" of ")
    known = header_dims(header)
    count = substitute(parse_dim(threads, known), dims)
    if not isinstance(count, int):
        raise DimError(
            f"kernel {header.name}: its threads are {threads}, which is {count} here: no number",
            hint="compile it for dims that are numbers, or give threads= a number",
        )
    _check_threads(header.name, count)
    return substitute(parse_dim(blocks, known), dims), count


# -- the function ----------------------------------------------------------------------------------


def check_gpu_function(
    header: Header, source: str, dialect: Literal["cuda", "metal"]
) -> tuple[CArgument, ...]:
    """Return the arguments of a kernel's function for its buffers and dims, or raise."""
    subject = f"kernel {header.name}"
    if dialect == "metal":
        for name, type in (*header.inputs, *header.outputs):
            if type.dtype is DType.float64:
                raise DTypeError(
                    f"{subject}: {name} is {type}, and Apple's GPUs have no float64",
                    hint="f32 in the header, and float in the source",
                )
    plain = _plain(source, dialect)
    check_text(subject, plain, shown=source)
    _check_shared(subject, source, dialect)
    usual = _prototype(header, dialect)
    function = function_of(header, functions(plain), "source", usual)
    if not _is_kernel(header.name, source, dialect):
        raise DefinitionError(
            f"{subject}: its function is no kernel: {function.prototype}",
            hint=f"write {usual}",
        )
    return _checked(header, function, source, dialect, usual)


def _plain(source: str, dialect: str) -> str:
    """Return a source in which functions look as in C, its lines where they were."""
    text = BUILTIN.sub(GIVEN, source) if dialect == "metal" else source
    text = BOUND.sub(r"\1", text)
    return ASIDE[dialect].sub(" ", text)


def _check_shared(subject: str, source: str, dialect: str) -> None:
    """Raise if the launch would have to say how much memory the threads of a block share."""
    pattern = r"\bextern\s+__shared__" if dialect == "cuda" else r"\[\[\s*threadgroup\s*\("
    if re.search(pattern, COMMENT.sub("", source)):
        word = "__shared__" if dialect == "cuda" else "threadgroup"
        raise DefinitionError(
            f"{subject}: nothing says how large the memory is that its threads share",
            hint=f"give it a size in the function: {word} float tile[256];",
        )


def _is_kernel(name: str, source: str, dialect: str) -> bool:
    head = re.search(rf"([^;{{}}]*)\b{name}\s*\(", re.sub(COMMENT.pattern, "", source))
    before = head[1] if head else ""
    is_marked = re.search(rf"\b{MARK[dialect]}\b", before) is not None
    return is_marked and (dialect == "metal" or re.search(r'extern\s+"C"', before) is not None)


def _checked(
    header: Header, function: Function, source: str, dialect: str, usual: str
) -> tuple[CArgument, ...]:
    subject, where = f"kernel {header.name}", f"  {usual}"
    given = tuple(parameter for parameter in function.arguments if parameter.name != GIVEN)
    arrays = [*header.inputs, *header.outputs]
    wanted = [*(name for name, _ in arrays), *header_dims(header)]
    check_arguments(subject, function.returns, given, wanted, usual)
    for index, (argument, (name, type)) in enumerate(zip(given, arrays, strict=False)):
        _check_array(subject, argument, name, type, dialect, is_input=index < len(header.inputs))
    for argument, name in list(zip(given, wanted, strict=True))[len(arrays) :]:
        if argument.is_pointer or argument.type not in NUMBERS[dialect]:
            raise DefinitionError(
                f"{subject}: {name} is a size, but in the source it is {argument.text}",
                where=where,
                hint=f"write {'long long ' if dialect == 'cuda' else 'constant long &'}{name}",
            )
    for name, at in BOUND.findall(source) if dialect == "metal" else ():
        places = [k for k, parameter in enumerate(given) if parameter.name == name]
        if places and int(at) != places[0]:
            raise DefinitionError(
                f"{subject}: {name} is bound to buffer {at}, and it is argument {places[0]}",
                hint=f"write [[buffer({places[0]})]], or nothing",
            )
    return given


def _check_array(
    subject: str, argument: CArgument, name: str, type: TensorType, dialect: str, *, is_input: bool
) -> None:
    # A type of the user's own is left to the compiler, which knows its size.
    known = {c for all_ in NAMES[dialect].values() for c in all_}
    is_other = argument.type in known and argument.type not in NAMES[dialect][type.dtype]
    if not argument.is_pointer or is_other or (not is_input and argument.is_const):
        head = "device " * (dialect == "metal") + "const " * is_input
        raise DefinitionError(
            f"{subject}: {name} is {type}{'' if is_input else ', an output'}, but in the source it "
            f"is {argument.text}",
            hint=f"write {head}{NAMES[dialect][type.dtype][0]} *{name}",
        )


def _prototype(header: Header, dialect: str) -> str:
    arrays = [(name, type, True) for name, type in header.inputs]
    arrays += [(name, type, False) for name, type in header.outputs]
    known = NAMES[dialect]
    parts = [
        f"{'device ' * (dialect == 'metal')}{'const ' * is_input}{known[type.dtype][0]} *{name}"
        for name, type, is_input in arrays
    ]
    dim = "long long {}" if dialect == "cuda" else "constant long &{}"
    parts += [dim.format(name) for name in header_dims(header)]
    if dialect == "cuda":
        return f'extern "C" __global__ void {header.name}({", ".join(parts)})'
    parts.append("uint i [[thread_position_in_grid]]")
    return f"kernel void {header.name}({', '.join(parts)})"


# -- the kernel ------------------------------------------------------------------------------------


def gpu_user_kernel(op: UserKernel, name: str) -> Kernel:
    """Return a user's kernel as a program for a GPU has it, for the types of one use."""
    assert op.dialect != "c"
    header = header_of(op.header)
    arguments = check_gpu_function(header, op.source, op.dialect)
    dims = use_dims(op)
    blocks, threads = launch_of(op, dims)
    use = use_of(op)
    arrays = len(use.inputs) + len(use.outputs)
    numbers = tuple(
        (dim, NUMBERS[op.dialect][argument.type])
        for dim, argument in zip(dims.values(), arguments[arrays:], strict=True)
    )
    function = function_name(name)
    source = _embedded(op, header, function)
    return Kernel(
        name,
        None,
        source,
        (Phase(function, blocks, threads),),
        given_dims=tuple(use.dims),
        given_names=tuple(name for name, _ in (*header.inputs, *header.outputs)),
        given_numbers=numbers,
        cost=use.cost,
        uses=frozenset(functions_in(source)),
        dialect=op.dialect,
        meaning=Meaning(use.inputs, use.outputs, _computing(op)),
    )


def _computing(
    op: UserKernel,
) -> Callable[[Sequence[Array], Mapping[str, int]], Sequence[Array]] | None:
    """Return what computes the outputs in NumPy; None where a session's function does."""
    body = op.body
    if any(isinstance(node.op, HostCall) for node in body):
        return None

    def compute(arrays: Sequence[Array], dims: Mapping[str, int]) -> list[Array]:
        data = dict(zip(body.input_ids, arrays, strict=True))

        def value(node: Node) -> Array:
            return data[node.id]

        values = interpret(body, Environment(value, dims))
        return [values[id] for id in body.output_ids]

    return compute


def _embedded(op: UserKernel, header: Header, function: str) -> str:
    """Return the source of a kernel within a program: nothing in it meets other names.

    The lines are the user's own, so that what is said of them is found.
    """
    own = {name: f"{function}__{name}" for name in names(_plain(op.source, op.dialect))}
    own[header.name] = function
    parts: list[str] = []
    at = 0
    for match in re.finditer(f"{COMMENT.pattern}|{STRING.pattern}", op.source, re.DOTALL):
        parts += [_renamed(op.source[at : match.start()], own), match[0]]
        at = match.end()
    parts.append(_renamed(op.source[at:], own))
    stated = [] if header_in(op.source) else [comment(op.header)]
    gone = [f"#undef {name}" for name in dict.fromkeys(DEFINE.findall(op.source))]
    return "\n".join([*stated, "".join(parts).strip("\n"), *gone, mark(op)])


def _renamed(text: str, own: Mapping[str, str]) -> str:
    def name(match: re.Match[str]) -> str:
        is_part = match[0] in "xyzw" and match.start() > 0 and text[match.start() - 1] == "."
        return match[0] if is_part else own.get(match[0], match[0])

    return NUMBER_OR_NAME.sub(name, text)
