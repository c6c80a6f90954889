"""A user's kernels in CUDA and Metal: read, refused, and run among ours in the emulator."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DefinitionError, DeviceError, LabError
from luminal_lab.kernels.dialect import CUDA as CUDA_DIALECT
from luminal_lab.kernels.render.gpu.program import gpu_source
from tests.expect import error_of, stopped_at_work

HEADER = "f(x: f32[n]) -> (y: f32[n])"
ARGUMENTS = {
    "cuda": "const float *x, float *y, long long n",
    "metal": "device const float *x, device float *y, constant long &n",
}
CUDA = """
// kernel turned(x: f32[n, k]) -> (y: f32[k, n], most: f32[k])
#define TILE 16
struct best { float value; };  // turned in a comment, and a "turned" text, stay
__device__ float larger(float a, float b) { return a < b ? b : a; }
extern "C" __global__ void __launch_bounds__(TILE * TILE) turned(
    const float *__restrict__ x, float *__restrict__ y, float *most, int n, unsigned int k) {
    __shared__ float tile[TILE][TILE + 1];
    const int row = threadIdx.x / TILE, column = threadIdx.x % TILE, left = blockIdx.x * TILE;
    best found = {-1e30f};
    for (int top = 0; top < n; top += TILE) {
        if (top + row < n && left + column < k)
            tile[row][column] = x[(top + row) * k + left + column];
        __syncthreads();
        if (left + row < k && top + column < n)
            y[(left + row) * n + top + column] = tile[column][row];
        if (row == 0 && left + column < k)
            for (int r = 0; r < TILE && top + r < n; r++)
                found.value = larger(found.value, tile[r][column]);
        __syncthreads();
    }
    if (row == 0 && left + column < k) most[left + column] = found.value;
}
"""
METAL = """
// kernel turned(x: f32[n, k]) -> (y: f32[k, n], most: f32[k])
#include <metal_stdlib>
using namespace metal;
constant int TILE = 16;
kernel void turned(device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
                   device float *most, constant int &n, constant uint &k [[buffer(4)]],
                   uint block [[threadgroup_position_in_grid]],
                   uint lane [[thread_position_in_threadgroup]]) {
    const int left = block * TILE + lane;
    if (left >= k) return;
    float found = -INFINITY;
    for (int row = 0; row < n; row++) {
        y[left * n + row] = x[row * k + left];
        found = max(found, x[row * k + left]);
    }
    most[left] = found;
}
"""
SOURCES = {
    "cuda": (CUDA, "(k + 15) // 16", 256, ll.CUDACompiler),
    "metal": (METAL, "(k + 15) // 16", 16, ll.MetalCompiler),
}


def turned(dialect: str) -> Any:
    source, blocks, threads, _ = SOURCES[dialect]
    return ll.kernel(
        source,
        dialect=dialect,  # pyright: ignore[reportArgumentType]
        blocks=blocks,
        threads=threads,
        meaning=lambda x: (x.T * 1.0, x.max(0)),
    )


@pytest.mark.parametrize("dialect", SOURCES)
def test_it_runs_within_a_program(dialect: str):
    call, compiler = turned(dialect), SOURCES[dialect][3]
    cx = ll.Graph()
    x = cx.tensor(("rows", 20), name="x").set(np.arange(600.0).reshape(30, 20) % 7)
    y, most = call(x + 1)
    again, _ = call(y[:, :18].contiguous())  # another size: the same source a second time
    results = [one.retrieve() for one in (y * 3, most, again)]
    cx.execute()
    wanted = [one.numpy() for one in results]
    cx.compile(ll.GenericCompiler(), compiler(emulate=True))
    cx.execute()
    for one, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(one.numpy(), want)
    kernel = cx.kernels["turned"]
    assert "kernel turned: CUDA that no" in str(cx.kernels) or dialect == "metal"
    assert kernel.source.startswith(
        "// kernel turned(x: f32[n, k]) -> (y: f32[k, n], most: f32[k])"
    )
    seen = kernel.emulate(dims={"rows": 33}, trace=True)
    assert seen.agrees
    assert not seen.findings
    assert seen.outputs["y"].shape == (20, 33)
    wrong = next(
        k
        for k, line in enumerate(kernel.source.splitlines(), 1)
        if "y[(left" in line or "y[left" in line
    )
    assert wrong in seen.transactions


UNSIGNED = {
    "cuda": (
        'extern "C" __global__ void high(const unsigned short *a, const uint32_t *b, '
        "const unsigned long long *c, ushort *x, unsigned int *y, uint64_t *z, int n) {\n"
        "    const int i = threadIdx.x;\n"
    ),
    "metal": (
        "kernel void high(device const ushort *a, device const uint *b, device const ulong *c, "
        "device uint16_t *x, device unsigned int *y, device uint64_t *z, constant int &n,\n"
        "                 uint i [[thread_position_in_threadgroup]]) {\n"
    ),
}


@pytest.mark.parametrize("dialect", SOURCES)
def test_unsigned_elements(dialect: str):
    body = "    if (i < n) { x[i] = a[i] >> 3; y[i] = b[i] >> 3; z[i] = c[i] >> 3; }\n}\n"
    high = ll.kernel(
        UNSIGNED[dialect] + body,
        "high(a: u16[n], b: u32[n], c: u64[n]) -> (x: u16[n], y: u32[n], z: u64[n])",
        meaning=lambda a, b, c: (a >> 3, b >> 3, c >> 3),
        dialect=dialect,  # pyright: ignore[reportArgumentType]
        blocks="1",
        threads=32,
    )
    cx = ll.Graph()
    arrays = [np.array([0, 9, 2**bits - 1], f"u{bits // 8}") for bits in (16, 32, 64)]
    given = [cx.tensor((3,), array.dtype).set(array) for array in arrays]
    results = [one.retrieve() for one in high(*given)]
    cx.compile(ll.GenericCompiler(), SOURCES[dialect][3](emulate=True))
    cx.execute()
    for one, array in zip(results, arrays, strict=True):
        np.testing.assert_array_equal(one.numpy(), array >> 3)


def test_what_it_calls_of_the_prelude_comes_with_it():
    summed = ll.kernel(
        """
        // kernel summed(x: f32[64]) -> (y: f32[1])
        extern "C" __global__ void summed(const float *x, float *y) {
            __shared__ float parts[2];
            const float all = lab_block_sum_f32(x[threadIdx.x], parts, 64);
            if (threadIdx.x == 0) y[0] = all;
        }
        """,
        dialect="cuda",
        blocks=1,
        threads=64,
        meaning=lambda x: x.sum(0, keepdims=True),
    )
    cx = ll.Graph()
    summed(cx.tensor((64,), name="x")).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_80"))
    kernel = cx.kernels["summed"]
    assert "float lab_block_sum_in_f32(" in gpu_source([kernel], CUDA_DIALECT)
    seen = kernel.emulate(trace=True)
    assert seen.agrees
    assert not seen.findings


@pytest.mark.parametrize("dialect", SOURCES)
def test_other_devices_take_the_meaning(dialect: str):
    other = {"cuda": ll.MetalCompiler(emulate=True), "metal": ll.CUDACompiler(emulate=True)}
    for device in (ll.CPUCompiler(), other[dialect]):
        cx = ll.Graph()
        x = cx.tensor((3, 2), name="x").set(np.arange(6.0).reshape(3, 2))
        y, _ = turned(dialect)(x)
        y.retrieve()
        cx.compile(device)
        cx.execute()
        np.testing.assert_array_equal(y.numpy(), np.arange(6.0).reshape(3, 2).T)


def test_without_a_meaning_other_devices_say_who_runs_it():
    cx = ll.Graph()
    source = f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ y[0] = x[0]; }}'
    f = ll.kernel(source, HEADER, dialect="cuda", blocks=1, threads=1)
    y = f(cx.tensor((1,), name="x").set([4.0])).retrieve()
    cx.compile(ll.CPUCompiler())
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        "kernel f: NumPy cannot run it: it is in cuda, and nothing says what it means"
    )
    assert error.hint.startswith(
        "ll.CUDACompiler() on an NVIDIA GPU, or with emulate=True anywhere,"
    )
    cx.compile(ll.CUDACompiler(emulate=True))
    cx.execute()
    assert y.tolist() == [4.0]


def test_ctrl_c_in_the_emulator_leaves_a_session_that_goes_on():
    source = f"""extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{
        const volatile float *at = x;
        while (at[0] > 0) {{}}
        y[threadIdx.x] = x[threadIdx.x];
    }}"""
    f = ll.kernel(source, HEADER, dialect="cuda", blocks=1, threads="n")
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([0.0, 2.0, 3.0, 4.0])
    y = (f(x * 1.5) + 1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(emulate=True))
    cx.execute()
    x.set([1.0, 2.0, 3.0, 4.0])
    stopped_at_work(cx.execute)
    x.set([-1.0, 2.0, 3.0, 4.0])
    cx.execute()
    assert y.tolist() == [-0.5, 4.0, 5.5, 7.0]


# -- what is refused -------------------------------------------------------------------------------


def refused(source: str, dialect: str = "cuda", **options: Any) -> LabError:
    given = {"dialect": dialect, "blocks": "n", "threads": 32, **options}
    return error_of(lambda: ll.kernel(source, HEADER, **given))


WRONG: dict[str, tuple[str, str, str]] = {
    "name": (
        'extern "C" __global__ void g(float *y) { }',
        "cuda",
        "kernel f: its source has no function 'f'; the functions it has: g",
    ),
    "no kernel": (
        f"__device__ void f({ARGUMENTS['cuda']}) {{ }}",
        "cuda",
        f"kernel f: its function is not a kernel: void f({ARGUMENTS['cuda']})",
    ),
    "name in C++": (
        f"__global__ void f({ARGUMENTS['cuda']}) {{ }}",
        "cuda",
        f"kernel f: its function is not a kernel: void f({ARGUMENTS['cuda']})",
    ),
    "count": (
        'extern "C" __global__ void f(const float *x, float *y) { }',
        "cuda",
        "kernel f: its function takes 2 arguments, and the header asks for 3: x, y, n",
    ),
    "order": (
        'extern "C" __global__ void f(float *y, const float *x, int n) { }',
        "cuda",
        "kernel f: its argument 'y' stands where 'x' belongs",
    ),
    "dtype": (
        'extern "C" __global__ void f(const double *x, float *y, int n) { }',
        "cuda",
        "kernel f: x is f32[n], but in the source it is const double *x",
    ),
    "constant output": (
        'extern "C" __global__ void f(const float *x, const float *y, int n) { }',
        "cuda",
        "kernel f: y is f32[n], an output, but in the source it is const float *y",
    ),
    "size": (
        'extern "C" __global__ void f(const float *x, float *y, float n) { }',
        "cuda",
        "kernel f: n is a size, but in the source it is float n",
    ),
    "shared": (
        f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ extern __shared__ float t[]; }}',
        "cuda",
        "kernel f: nothing says how large the memory is that its threads share",
    ),
    "ours": (
        f'__device__ void lab_sync() {{ }} extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ }}',
        "cuda",
        "kernel f: its C calls something lab_sync, which is a name of the program around it",
    ),
    "brace": (
        f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ if (n) {{ }}',
        "cuda",
        "kernel f: a { in line 1 has no }",
    ),
    "binding": (
        "kernel void f(device const float *x [[buffer(1)]], device float *y [[buffer(0)]], "
        "constant long &n) { }",
        "metal",
        "kernel f: x is bound to buffer 1, and it is argument 0",
    ),
    "given by Metal": (
        f"kernel void f({ARGUMENTS['metal']}, uint i) {{ }}",
        "metal",
        "kernel f: its function takes 4 arguments, and the header asks for 3: x, y, n",
    ),
    "empty": ("", "metal", "kernel f: its source has no function 'f'; the functions it has: none"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_function_that_is_not_what_the_header_says(wrong: str):
    source, dialect, message = WRONG[wrong]
    error = refused(source, dialect)
    assert isinstance(error, DefinitionError)
    assert error.message == message
    assert error.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": None}, "kernel f: nothing says how many blocks it has"),
        ({"threads": None}, "kernel f: nothing says how many threads it has"),
        ({"threads": 2000}, "kernel f: a block of it has 2,000 threads"),
        ({"threads": 0}, "kernel f: a block of it has 0 threads"),
        ({"blocks": "m"}, "kernel f: its blocks are 'm', and its dims are n"),
        ({"blocks": "n of 3"}, "kernel f: its blocks are 'n of 3', and its dims are n"),
        ({"blocks": 0}, "kernel f: its blocks are 0: nothing would write y"),
        ({"tasks": "n"}, "kernel f: tasks= is for C, and it is in cuda"),
    ],
)
def test_launches_that_cannot_be(options: dict[str, Any], message: str):
    source = f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ }}'
    error = refused(source, **options)
    assert isinstance(error, (DefinitionError, ArgumentError))
    assert error.message == message
    assert error.hint


def test_threads_that_are_no_number_here():
    source = f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{ }}'
    f = ll.kernel(source, HEADER, dialect="cuda", blocks=1, threads="n")
    cx = ll.Graph()
    f(cx.tensor(("m",), name="x")).retrieve()
    error = error_of(lambda: cx.compile(ll.CUDACompiler()))
    assert error.message.endswith("kernel f: its threads are n, which is m here: no number")
    error = error_of(
        lambda: ll.kernel("void f(const float *x, float *y, long n) { }", HEADER, threads=3)
    )
    assert error.message == "kernel f: blocks= and threads= are for GPUs, and it is in C"


def test_metal_has_no_float64():
    source = "kernel void f(device const double *x, device double *y, constant long &n) { }"
    error = error_of(
        lambda: ll.kernel(
            source, HEADER.replace("f32", "f64"), dialect="metal", blocks=1, threads=1
        )
    )
    assert error.message == "kernel f: x is f64[n], and Apple's GPUs have no float64"


def test_what_the_compiler_refuses_is_said_with_the_users_line():
    source = f'extern "C" __global__ void f({ARGUMENTS["cuda"]}) {{\n    y[0] = z;\n}}'
    f = ll.kernel(source, HEADER, dialect="cuda", blocks=1, threads=1)
    error = error_of(lambda: ll.devices.check_kernel(f, [1.0]), DeviceError)
    assert "> 3 |     y[0] = z;" in error.where  # behind the header
