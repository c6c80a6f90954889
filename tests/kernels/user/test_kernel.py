"""A user's kernel against its header: what its function must be, and what it is in a program."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core.dims import Symbol
from luminal_lab.core.ops import UserKernel
from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.kernel import Phase
from luminal_lab.kernels.user.c_text import functions
from luminal_lab.kernels.user.kernel import alone, header_in, header_of, user_kernel
from luminal_lab.passes.compile import compile_ir
from tests.expect import error_of

HEADER = "kernel scale(x: f32[n], k: i32[m]) -> (y: f32[n])"
RIGHT = "void scale(const float *x, const int *k, float *y, long n, long m) { }"

WRONG = {
    "void other(void) { }": (
        "kernel scale: its C has no function 'scale'; the functions it has: other",
        f"write {RIGHT.replace('{ }', '{ … }')}",
    ),
    "void scaled(void) { }": (
        "kernel scale: its C has no function 'scale'; the functions it has: scaled",
        "did you mean 'scaled'?",
    ),
    "void scale(const float *x, const int *k, float *y, long n) { }": (
        "kernel scale: its function takes 4 arguments, and the header asks for 5: x, k, y, n, m",
        f"write {RIGHT.removesuffix(' { }')}",
    ),
    "@compute @workgroup_size(64) fn scale() { }": (
        "kernel scale: its function is WGSL's",
        "write it in C, CUDA or Metal: ll.kernel takes no WGSL",
    ),
    RIGHT.replace("void", "static int"): (
        "kernel scale: its function returns int, and must return void",
        "what it computes goes into its outputs",
    ),
    RIGHT.replace("float *x", "double *x"): (
        "kernel scale: x is f32[n], but in C it is const double *x",
        "write const float *x",
    ),
    RIGHT.replace("const float *x", "float x"): (
        "kernel scale: x is f32[n], but in C it is float x",
        "write const float *x",
    ),
    RIGHT.replace("float *y", "const float *y"): (
        "kernel scale: y is f32[n], an output, but in C it is const float *y",
        "write float *y",
    ),
    RIGHT.replace("long n", "float n"): (
        "kernel scale: n is a size, but in C it is float n",
        "write long n",
    ),
    RIGHT.replace("long n, long m", "long m, long n"): (
        "kernel scale: its argument 'm' stands where 'n' belongs",
        "inputs, outputs, dims, in the header's order",
    ),
}


@pytest.mark.parametrize("source", WRONG)
def test_a_function_that_is_not_what_the_header_says(source):
    message, hint = WRONG[source]
    error = error_of(lambda: ll.kernel(source, HEADER), DefinitionError)
    assert (error.message, error.hint) == (message, hint)
    if functions(source).get("scale"):
        assert error.where == f"  {functions(source)['scale'].prototype}"
    else:
        assert "test_kernel.py" in error.where


def test_types_of_the_users_own_are_left_to_the_compiler():
    source = "typedef float real;\n" + RIGHT.replace("float", "real")
    assert ll.kernel(source, HEADER).name == "scale"


def test_the_header_may_stand_in_a_comment():
    for line in (f"// {HEADER}", f"/* {HEADER} */", f"/*\n * {HEADER}\n */"):
        assert header_in(f"#include <math.h>\n{line}\n{RIGHT}") == HEADER
        assert ll.kernel(f"{line}\n{RIGHT}").header == HEADER
    assert header_in(RIGHT) is None


SOURCE = """\
// kernel half(x: f32[n, 4]) -> (y: f32[n, 4])
#include <stddef.h>
#define PART 0.5f
static float part(float x) { return PART * x; }
void half(const float *x, float *y, long n, long task) {
    for (long i = 0; i < 4; i++) y[4 * task + i] = part(x[4 * task + i]);
}"""


def op_of(tensor: ll.Tensor) -> UserKernel:
    assert isinstance(tensor.node.op, UserKernel)
    return tensor.node.op


def test_in_a_program_its_names_meet_no_others(golden):
    call = ll.kernel(SOURCE, meaning=lambda x: x * 0.5, tasks="n")
    op = op_of(call(ll.Graph().tensor(("seq", 4), name="x")))
    kernel = user_kernel(op, "half_2")
    golden(kernel.source, "golden/user_kernel.c")
    assert kernel.definition is None
    assert kernel.phases == (Phase("kernel_half_2", Symbol("seq")),)
    assert kernel.dims == ("seq",)
    assert kernel.flops({"seq": 10}) == 40
    assert kernel.bytes({"seq": 10}) == 2 * 4 * 40


def test_alone_its_lines_are_numbered_as_the_users(golden):
    op = op_of(ll.kernel(SOURCE, tasks="n")(ll.Graph().tensor((3, 4), name="x")))
    text = alone(op)
    assert text.startswith(SOURCE)
    golden(text, "golden/user_kernel_alone.c")


def test_equal_uses_are_one_kernel():
    cx = ll.Graph()
    call = ll.kernel(SOURCE, meaning=lambda x: x * 0.5, tasks="n")
    x = cx.tensor((3, 4), name="x")
    assert op_of(call(x)) == op_of(call(x + 1))
    assert op_of(call(x)) != op_of(call(cx.tensor((2, 4))))


def test_headers_are_read_by_themselves():
    header = header_of("kernel f[n: 1..8 by 2](a: f32[n]) -> (b: f32[n], c: i64[2])")
    assert header.name == "f"
    assert header.dims["n"].multiple_of == 2
    assert [name for name, _ in header.outputs] == ["b", "c"]


WORDS = {
    "void lab_task(const float *x, float *y, long n) { }": (
        "kernel lab_task: its C calls something lab_task, which is a name of the program around it"
    ),
    "#define LAB_GIVEN 3\nvoid f(const float *x, float *y, long n) { }": (
        "kernel f: its C calls something LAB_GIVEN, which is a name of the program around it"
    ),
    "static int lab_size;\nvoid f(const float *x, float *y, long n) { }": (
        "kernel f: its C calls something lab_size, which is a name of the program around it"
    ),
    "void f(const float *int, float *y, long n) { }": (
        "kernel f: its C calls something int, which is a word of C"
    ),
}


@pytest.mark.parametrize("source", WORDS)
def test_names_that_c_or_the_program_has(source):
    name = "lab_task" if "void lab_task" in source else "f"
    header = f"kernel {name}(x: f32[n]) -> (y: f32[n])"
    error = error_of(lambda: ll.kernel(source, header), DefinitionError)
    assert error.message == WORDS[source]
    line = "> 2 | void f(" if "int," in source and "\n" in source else "> 1 | "
    assert error.where.startswith(line)


def test_a_brace_that_stands_alone_is_marked():
    source = "// a kernel\nvoid f(const float *x, float *y, long n) {\n  if (n) { y[0] = 1;\n}\n"
    header = "f(x: f32[n]) -> (y: f32[n])"
    error = error_of(lambda: ll.kernel(source, header), DefinitionError)
    assert error.message == "kernel f: a { in line 2 has no }"
    assert error.where == "> 2 | void f(const float *x, float *y, long n) {"
    error = error_of(lambda: ll.kernel(source + "}\n}\n", header), DefinitionError)
    assert error.message == "kernel f: a } in line 6 has no {"
    assert error.where == "> 6 | }"


@pytest.mark.parametrize(
    "before",
    [
        "static inline __attribute__((noinline)) void ",
        '__attribute__((target_clones("default", "avx2"))) void\n',
        "void \\\n",
    ],
)
def test_ways_to_write_a_function(before):
    source = f"{before}f(const float *x, float *y, long n) {{ y[0] = 1; }}"
    assert ll.kernel(source, "f(x: f32[n]) -> (y: f32[n])").name == "f"


@pytest.mark.parametrize(
    ("dialect", "first"), [("c", "void"), ("cuda", 'extern "C" __global__ void')]
)
def test_a_generated_kernel_is_no_source_of_a_kernel_of_ones_own(dialect: Any, first: str):
    cx = ll.Graph()
    (cx.tensor((8,), name="x") * 2).softmax(0).retrieve()
    device = "cpu" if dialect == "c" else dialect
    program: Any = compile_ir(cx.ir, "generic", device).runner
    (kernel,) = program.kernels
    launch: Any = {} if dialect == "c" else {"blocks": 1, "threads": 32}
    error = error_of(lambda: ll.kernel(kernel.source, dialect=dialect, **launch), DefinitionError)
    assert error.message == (
        "kernel softmax: its source is one that luminal_lab has generated: kernel_softmax takes "
        "arguments, and calls functions, of the program around it"
    )
    assert error.hint == (
        f"to write it yourself, begin with {first} softmax(const float *a, float *O) {{ … }}; to "
        "change the generated one, give its kernel another schedule, kernel.rescheduled(…)"
    )
