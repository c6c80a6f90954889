"""A user's kernel in CUDA C++ or Metal's language: checked against its header, and as a kernel.

    // kernel scale(x: f32[n]) -> (y: f32[n])
    extern "C" __global__ void scale(const float *x, float *y, long long n) {
        const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }

The function is given the inputs, the outputs, and the dims in the order in which the header
mentions them; blocks= and threads= say how many times it runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Literal

from luminal_lab.core.dims import Dim, parse_dim, substitute
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import HostCall, UserKernel
from luminal_lab.errors import DefinitionError, DimError, DTypeError
from luminal_lab.kernels.definition.text import Header
from luminal_lab.kernels.emulated import Meaning
from luminal_lab.kernels.kernel import Kernel, Phase, comment, function_name
from luminal_lab.kernels.user.c_text import (
    COMMENT,
    DEFINE,
    STRING,
    CArgument,
    CFunction,
    functions,
    names,
)
from luminal_lab.kernels.user.kernel import (
    C_ELEMENTS,
    Language,
    check_signature,
    check_text,
    count_of,
    embedded_kernel,
    header_dims,
    header_in,
    header_of,
    tasks_of,
    use_dims,
    use_of,
)
from luminal_lab.trust import mark

MOST_THREADS: Final = 1024
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
"""The types that a language has for a dim, and what is passed for each."""
LANGUAGES: Final[Mapping[str, Language]] = {
    "cuda": Language(
        "source",
        {
            **C_ELEMENTS,
            DType.float16: ("unsigned short", "__half", "half", "ushort", "uint16_t"),
            DType.bfloat16: ("unsigned short", "__nv_bfloat16", "ushort", "uint16_t"),
            DType.uint32: (*C_ELEMENTS[DType.uint32], "uint"),
            DType.uint16: (*C_ELEMENTS[DType.uint16], "ushort"),
            DType.uint8: ("unsigned char", "uint8_t", "uchar"),
            DType.bool_: ("bool", "unsigned char", "uint8_t"),
        },
        'extern "C" __global__ void {}({})',
        "long long {}",
        NUMBERS["cuda"].__contains__,
    ),
    "metal": Language(
        "source",
        {
            **{dtype: C_ELEMENTS[dtype] for dtype in (DType.float32, DType.int16, DType.int32)},
            DType.float16: ("half", "ushort", "uint16_t"),
            DType.bfloat16: ("bfloat", "ushort", "uint16_t"),
            DType.int8: ("char", "int8_t", "signed char"),
            DType.int64: ("long", "int64_t"),
            DType.uint64: ("ulong", "uint64_t", "unsigned long"),
            DType.uint32: ("uint", "uint32_t", "unsigned int", "unsigned"),
            DType.uint16: ("ushort", "uint16_t", "unsigned short"),
            DType.uint8: ("uchar", "uint8_t", "unsigned char"),
            DType.bool_: ("bool", "uchar", "uint8_t"),
        },
        "kernel void {}({}, uint i [[thread_position_in_grid]])",
        "constant long &{}",
        NUMBERS["metal"].__contains__,
        "device ",
    ),
}
MARK: Final = {"cuda": "__global__", "metal": "kernel"}
PIECE = re.compile(
    rf"{COMMENT.pattern}|{STRING.pattern}|\.?\d(?:[eEpP][+-]|[\w.])*|[A-Za-z_]\w*", re.DOTALL
)
"""A comment, a string, a number or a name: in `1.0f`, f is not a name."""
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
"""The name for parameters that Metal fills in, while a function is read."""


# -- the launch ------------------------------------------------------------------------------------


def launch_text(header: Header, blocks: object, threads: object) -> str:
    """Return how often a kernel's function runs as text, `blocks of threads`, after checking it."""
    for unit, text in (("blocks", blocks), ("threads", threads)):
        if text is None:
            raise DefinitionError(
                f"kernel {header.name}: nothing says how many {unit} it has",
                hint='as in blocks="(n + 255) // 256", threads=256',
            )
        count = count_of(header, unit, text, '"(n + 255) // 256"')
        if unit == "threads" and isinstance(count, int):
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
    threads = op.tasks.partition(" of ")[2]
    count = substitute(parse_dim(threads, header_dims(header)), dims)
    if not isinstance(count, int):
        raise DimError(
            f"kernel {header.name}: its threads are {threads}, which is {count} here: no number",
            hint="compile it for dims that are numbers, or give threads= a number",
        )
    _check_threads(header.name, count)
    return tasks_of(op, dims), count


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
    language, numbers = LANGUAGES[dialect], [*header_dims(header)]
    defined = {name: _asked(function) for name, function in functions(plain).items()}
    function = check_signature(header, language, defined, numbers)
    if not _is_kernel(header.name, source, dialect):
        raise DefinitionError(
            f"{subject}: its function is not a kernel: {function.prototype}",
            hint=f"write {language.prototype(header, numbers)}",
        )
    given = [argument.name for argument in function.arguments]
    for name, at in BOUND.findall(source) if dialect == "metal" else ():
        if name in given and int(at) != (number := given.index(name)):
            raise DefinitionError(
                f"{subject}: {name} is bound to buffer {at}, and it is argument {number}",
                hint=f"write [[buffer({number})]], or nothing",
            )
    return function.arguments


def _asked(function: CFunction) -> CFunction:
    """Return a function without the parameters that Metal fills in."""
    given = tuple(argument for argument in function.arguments if argument.name != GIVEN)
    return function._replace(arguments=given)


def _plain(source: str, dialect: str) -> str:
    """Return a source in which functions look as in C, with its lines in place."""
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
    is_by_host = any(isinstance(node.op, HostCall) for node in op.body)
    source = _embedded(op, header, function)
    kernel = embedded_kernel(op, name, source, Phase(function, blocks, threads))
    # What a session's own function computes is not known here.
    compute = None if is_by_host else partial(outputs_of, op.body)
    meaning = Meaning(use.inputs, use.outputs, compute)
    return replace(kernel, given_numbers=numbers, meaning=meaning)


def outputs_of(body: IR, arrays: Sequence[Array], dims: Mapping[str, int]) -> list[Array]:
    """Return the results of a graph, which is a kernel's meaning, for arrays."""
    data = dict(zip(body.input_ids, arrays, strict=True))

    def value(node: Node) -> Array:
        return data[node.id]

    values = interpret(body, Environment(value, dims))
    return [values[id] for id in body.output_ids]


def _embedded(op: UserKernel, header: Header, function: str) -> str:
    """Return the source of a kernel inside a program, where its names meet no others.

    The lines are the user's own, so that messages about them point to the right place.
    """
    own = {name: f"{function}__{name}" for name in names(_plain(op.source, op.dialect))}
    own[header.name] = function

    def renamed(match: re.Match[str]) -> str:
        is_part = match[0] in "xyzw" and op.source[: match.start()].endswith(".")
        return match[0] if is_part else own.get(match[0], match[0])

    stated = [] if header_in(op.source) else [comment(op.header)]
    gone = [f"#undef {name}" for name in dict.fromkeys(DEFINE.findall(op.source))]
    return "\n".join([*stated, PIECE.sub(renamed, op.source).strip("\n"), *gone, mark(op)])
