"""CUDA in the emulator: values, barriers, warps, tensor units, and what goes wrong by name."""

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.devices.emulator import Call, emulate
from luminal_lab.errors import ArgumentError, DeviceError
from tests.expect import error_of

# One source is one compile: the kernels of this file stand together.
SOURCE = """\
typedef unsigned short lab_f16;
typedef unsigned short lab_bf16;
typedef unsigned int lab_u32;
typedef long long lab_i64;

__device__ __forceinline__ float lab_cast_f16_f32(lab_f16 h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
__device__ __forceinline__ float lab_warp_sum_f32(float v, int n) {
    for (int m = n / 2; m; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m);
    return v;
}

extern "C" __global__ void __launch_bounds__(256) scale(
    const float *__restrict__ x, float *__restrict__ y, const lab_i64 n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
extern "C" __global__ void places(int *__restrict__ out) {
    const dim3 b(blockIdx.x, blockIdx.y, blockIdx.z);
    const int block = (b.z * gridDim.y + b.y) * gridDim.x + b.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    out[block * threads + thread] = 10000 * b.z + 1000 * b.y + 100 * b.x
        + 50 * threadIdx.z + 10 * threadIdx.y + threadIdx.x;
}
extern "C" __global__ void turned(const float *x, float *y, int n) {
    __shared__ __align__(16) float tile[32][33], unused;
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8) tile[threadIdx.y + r][threadIdx.x] = x[(row + r) * n + column];
    __syncthreads();
    for (int r = 0; r < 32; r += 8)
        y[(blockIdx.x * 32 + threadIdx.y + r) * n + blockIdx.y * 32 + threadIdx.x]
            = tile[threadIdx.x][threadIdx.y + r];
}
extern "C" __global__ void sums(const float *x, float *y) {
    extern __shared__ float part[];
    const float v = lab_warp_sum_f32(x[blockIdx.x * 128 + threadIdx.x], 32);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    lab_sync();
    if (threadIdx.x == 0) y[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
extern "C" __global__ void reduced(const double *x, double *all, double *most) {
    __shared__ double scratch[8];
    all[threadIdx.x] = lab_block_sum_f64(x[threadIdx.x], scratch, 96);
    most[threadIdx.x] = lab_block_max_f64(x[threadIdx.x], scratch, 96);
}
extern "C" __global__ void warps(int *out) {
    const int lane = threadIdx.x;
    out[lane] = __shfl_up_sync(~0u, lane, 1);
    out[32 + lane] = __shfl_down_sync(~0u, lane, 2, 8);
    out[64 + lane] = __shfl_sync(~0u, lane, 5);
    out[96 + lane] = __ballot_sync(~0u, lane % 2);
    out[128 + lane] = __any_sync(~0u, lane == 7) + 2 * __all_sync(~0u, lane == 7);
    if (lane < 16) out[160 + lane] = __shfl_xor_sync(0xffffu, lane, 8);
    __syncwarp();
    atomicAdd(&out[176], lane);
}
extern "C" __global__ void half_types(const __half *x, const lab_f16 *bits, float *y, __half *z) {
    const int i = threadIdx.x;
    y[i] = __half2float(x[i]) + lab_cast_f16_f32(bits[i]);
    z[i] = __float2half(y[i] / 3.0f);
}
extern "C" __global__ void vectors(const float *x, float *y) {
    const float4 v = *reinterpret_cast<const float4 *>(x + 4 * threadIdx.x);
    *(float4 *)(y + 4 * threadIdx.x) = make_float4(v.w, v.z, v.y, v.x);
}
extern "C" __global__ void halves(const float *x, float *y) {
    if (threadIdx.x < 32) {
        y[0] = x[0];
        __syncthreads();
    }
}
extern "C" __global__ void odd_lanes(float *y) {
    if (threadIdx.x % 2) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
extern "C" __global__ void far_away(float *y, int at) { y[at + threadIdx.x] = 1.0f; }
extern "C" __global__ void divided(int *y, int by) { y[0] = 7 / by; }
extern "C" __global__ void endless(volatile int *y) { while (y[0] == 0) {} }
extern "C" __global__ void slow(float *y, int turns) {
    float v = y[0];
    for (int k = 0; k < turns; k++) v = v * 0.5f + 1.0f;
    y[blockIdx.x] = v;
}
"""

PRODUCT = """\
extern "C" __global__ void product_DTYPE(const ELEMENT *a, const ELEMENT *b, float *c, int turned) {
    __shared__ ELEMENT left[16 * DEPTH], right[DEPTH * 8];
    for (int k = threadIdx.x; k < 16 * DEPTH; k += 32) left[k] = a[k];
    for (int k = threadIdx.x; k < 8 * DEPTH; k += 32) right[k] = b[k];
    __syncthreads();
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    lab_u32 x[4], y[2];
    lab_tile_a_DTYPE(x, left, DEPTH);
    lab_tile_b_DTYPE(y, right, turned ? 1 : 8, turned ? DEPTH : 1);
    lab_mma_DTYPE(acc, x, y);
    for (int e = 0; e < 4; e++) c[lab_tile_row(e) * 8 + lab_tile_column(e)] = acc[e];
}
"""
for dtype, element, depth in [
    ("f16", "lab_f16", 16),
    ("bf16", "lab_bf16", 16),
    ("tf32", "float", 8),
]:
    text = PRODUCT.replace("DTYPE", dtype).replace("ELEMENT", element)
    SOURCE += text.replace("DEPTH", str(depth))


def run(function: str, blocks: object, threads: object, *arguments: object, **more: object) -> None:
    emulate(SOURCE, "cuda", [Call(function, blocks, threads, arguments, **more)])  # pyright: ignore


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def test_a_million_elements():
    x = np.arange(1 << 20, dtype=np.float32)
    y = np.full_like(x, -1)
    run("scale", 4096, 256, x, y, x.size - 3)
    np.testing.assert_array_equal(y[:-3], 2 * x[:-3])
    assert (y[-3:] == -1).all()


def test_blocks_and_threads_have_three_axes():
    out = np.zeros((3, 2, 4, 2, 3, 5), np.int32)
    run("places", (4, 2, 3), (5, 3, 2), out)
    z, y, x, tz, ty, tx = np.indices(out.shape)
    np.testing.assert_array_equal(out, 10000 * z + 1000 * y + 100 * x + 50 * tz + 10 * ty + tx)


def test_shared_memory_and_a_barrier():
    x = floats(64, 64)
    y = np.zeros_like(x)
    run("turned", (2, 2), (32, 8), x, y, 64)
    np.testing.assert_array_equal(y, x.T)


def test_a_warp_sum_and_shared_memory_of_a_size_that_the_call_says():
    x, y = floats(5, 128), np.zeros(5, np.float32)
    run("sums", 5, 128, x, y, shared=16)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-5)


def test_reductions_of_a_block_in_float64():
    x = floats(96).astype(np.float64)
    total, most = np.zeros(96), np.zeros(96)
    run("reduced", 1, 96, x, total, most)
    np.testing.assert_allclose(total, x.sum())
    np.testing.assert_array_equal(most, x.max())


def test_warp_operations():
    out = np.zeros(177, np.int32)
    run("warps", 1, 32, out)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:32], np.maximum(lane - 1, 0))
    np.testing.assert_array_equal(out[32:64], np.where(lane % 8 < 6, lane + 2, lane))
    assert (out[64:96] == 5).all()
    assert (out[96:128].view(np.uint32) == 0xAAAAAAAA).all()
    assert (out[128:160] == 1).all()
    np.testing.assert_array_equal(out[160:176], lane[:16] ^ 8)
    assert out[176] == lane.sum()


def test_every_half_is_read_and_rounded_as_numpy_does():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for part in x.reshape(-1, 1024)[::7]:
        y, z = np.zeros(1024, np.float32), np.zeros(1024, np.float16)
        run("half_types", 1, 1024, part, part, y, z)
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(y, 2 * part.astype(np.float32))
            np.testing.assert_array_equal(z, (y / np.float32(3)).astype(np.float16))


def test_vectors_of_four():
    x, y = floats(8, 4), np.zeros((8, 4), np.float32)
    run("vectors", 1, 8, x, y)
    np.testing.assert_array_equal(y, x[:, ::-1])


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize(
    ("name", "dtype", "depth"),
    [
        ("product_f16", np.float16, 16),
        ("product_bf16", ml_dtypes.bfloat16, 16),
        ("product_tf32", np.float32, 8),
    ],
)
def test_tensor_units_with_their_lane_maps(name: str, dtype: type, depth: int, turned: int):
    a, b = floats(16, depth).astype(dtype), floats(depth, 8).astype(dtype)
    c = np.zeros((16, 8), np.float32)
    run(name, 1, 32, a, np.ascontiguousarray(b.T if turned else b), c, turned)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, atol=1e-5 if depth == 16 else 8e-3)
    if name == "product_tf32":  # ten bits of fraction, not twenty-three
        assert np.abs(c - want).max() > 1e-5


def test_a_barrier_that_not_all_threads_reach():
    y = np.zeros(1, np.float32)
    error = error_of(lambda: run("halves", 2, 64, floats(1), y), DeviceError)
    line = SOURCE[: SOURCE.index("        __syncthreads();\n    }\n}")].count("\n") + 1
    assert str(error) == (
        "emulator: kernel halves, block 0: not all threads of the block reach a barrier\n"
        f"  32 threads (0 to 31) wait at the barrier in line {line}: __syncthreads();\n"
        "  32 threads (32 to 63) have returned\n"
        "hint: a barrier stands where all threads come, outside of what differs between them"
    )
    assert y[0] == 0


def test_lanes_that_do_not_come_to_a_shuffle():
    error = error_of(lambda: run("odd_lanes", 1, 32, np.zeros(32, np.float32)), DeviceError)
    assert "not all lanes of a warp do the same together" in error.message
    assert "16 threads (1, 3, 5, 7, 9, 11, 13, 15 and 8 more) wait for a shuffle in" in error.where
    assert "16 threads (0, 2, 4, 6, 8, 10, 12, 14 and 8 more) have returned" in error.where


def test_memory_that_is_not_the_kernels_own_is_an_error_and_no_crash():
    y = np.zeros(4, np.float32)
    error = error_of(lambda: run("far_away", 1, 32, y, 100), DeviceError)
    assert error.message == (
        "emulator: kernel far_away, block 0, thread 0: it touches memory 384 bytes behind the end "
        "of y, float32[4]"
    )
    assert error.hint == "emulate with trace=True, which names the line"
    error = error_of(lambda: run("far_away", 1, 1, np.zeros(5, np.float32), 5), DeviceError)
    assert error.message == "emulator: kernel far_away: it writes behind y, float32[5]"
    run("far_away", 1, 4, y, 0)
    assert (y == 1).all()


def test_a_division_by_zero():
    error = error_of(lambda: run("divided", 1, 1, np.zeros(1, np.int32), 0), DeviceError)
    assert error.message.endswith("thread 0: it divides an integer by zero")


def test_a_kernel_that_never_ends_is_stopped():
    call = Call("endless", 3, 32, [np.zeros(1, np.int32)])
    error = error_of(lambda: emulate(SOURCE, "cuda", [call], limit=0.05), DeviceError)
    assert error.message == (
        "emulator: kernel endless, block 0, thread 0: it has not ended after 0.05 s, with 0 of 3 "
        "blocks done"
    )
    out = np.zeros(177, np.int32)
    run("warps", 1, 32, out)  # and the next one runs
    assert out[176] == 496


def test_what_would_take_long_is_refused_with_the_size_that_would_do():
    y = np.zeros(1 << 20, np.float32)
    call = Call("slow", 1 << 20, 1, [y, 20_000])
    error = error_of(lambda: emulate(SOURCE, "cuda", [call], limit=0.5), DeviceError)
    assert "1,048,576 blocks of 1 threads would take about " in error.message
    assert error.hint.startswith("it is for small sizes: about ")
    assert not y.any()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        pytest.param(
            Call("scal", 1, 1, []),
            "emulator: the source has no kernel 'scal'; it has scale, places,",
            id="name",
        ),
        pytest.param(
            Call("divided", 1, 2048, [np.zeros(1, np.int32), 1]),
            "emulator: kernel divided: a block has (2048, 1, 1) = 2,048 threads",
            id="threads",
        ),
        pytest.param(
            Call("divided", 1 << 24, 128, [np.zeros(1, np.int32), 1]),
            "emulator: kernel divided: 16,777,216 blocks of 128 threads are more than an int",
            id="grid",
        ),
        pytest.param(
            Call("divided", 1, 1, [np.zeros(1, np.int32)]),
            "emulator: kernel divided: it takes 2 arguments, and is given 1",
            id="arguments",
        ),
        pytest.param(
            Call("divided", 1, 1, [np.zeros(1, np.int32), 1 << 31]),
            "emulator: kernel divided: by is an integer of 32 bits, and 2147483648 does not fit",
            id="integer",
        ),
        pytest.param(
            Call("divided", 1, 1, [np.zeros(1, np.int64), 1]),
            "emulator: kernel divided: y points to elements of 4 bytes, but the array is of int64",
            id="dtype",
        ),
    ],
)
def test_calls_that_do_not_fit(call: Call, text: str):
    assert error_of(lambda: emulate(SOURCE, "cuda", [call]), ArgumentError).message.startswith(text)


def test_ptx_that_has_no_stand_in():
    source = '__device__ void f() {\n  asm("nop;");\n}\n'
    error = error_of(lambda: emulate(source, "cuda", []), DeviceError)
    assert error.message == (
        "emulator: line 2: f is written in PTX, which the emulator does not run"
    )


def test_source_that_does_not_compile_is_shown_with_its_own_lines():
    source = "__global__ void f(float *y) {\n  __shared__ float t[4];\n  y[0] = z;\n}\n"
    error = error_of(lambda: emulate(source, "cuda", []), DeviceError)
    assert "the kernel:3:" in error.message
    assert error.where == (
        "  1 | __global__ void f(float *y) {\n"
        "  2 |   __shared__ float t[4];\n"
        "> 3 |   y[0] = z;\n"
        "  4 | }"
    )
