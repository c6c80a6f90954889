"""CUDA in the emulator: values, barriers, warps, tensor units, and what goes wrong by name."""

import re
import sys

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.emulator import Call, emulate, failing
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.kernels.prelude.prelude import prelude
from tests.expect import error_of, stopped_at_work

# One source is one compile: the kernels of this file stand together.
SOURCE = """\
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
extern "C" __global__ void both_sides(float *y) {
    if (threadIdx.x < 32) {
        y[0] = 1.0f;
        __syncthreads();
    } else {
        __syncthreads();
    }
}
extern "C" __global__ void late(float *y, int n) {
    __shared__ float first;
    if (threadIdx.x == 40) first = 3.0f;
    if (threadIdx.x >= n) return;
    __syncthreads();
    y[threadIdx.x] = first;
}
extern "C" __global__ void skipped(float *y, int n) {
    y[threadIdx.x] = 1.0f;
    if (threadIdx.x < n) __syncthreads();
    y[threadIdx.x] = 2.0f;
}
extern "C" __global__ void too_shared(float *y) {
    __shared__ float tile[1 << 18];
    tile[threadIdx.x] = 1.0f;
    y[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void copies(const float *x, float *y, int waits, int known) {
    __shared__ __align__(16) float tile[2][128];
    const int i = 4 * threadIdx.x;
    lab_copy_async_16(tile[0] + i, x + i, 16);
    lab_copy_commit();
    lab_copy_async_16(tile[1] + i, x + 128 + i, 4 * min(max(known - i, 0), 4));
    lab_copy_commit();
    if (waits) lab_copy_wait(1);
    __syncthreads();
    y[i] = tile[0][124 - i];
    if (waits) lab_copy_wait(0);
    __syncthreads();
    for (int k = 0; k < 4; k++) y[128 + i + k] = tile[1][i + k];
}
extern "C" __global__ void rounded(const float *x, float *y) {
    const float a = x[0], b = x[1], c = x[2];
    y[0] = __fadd_rn(a * b, -0.0f) + c;
    y[1] = __fmul_rn(a, b) + c;
    y[2] = __fadd_rn(a * b, c);
    y[3] = a * b + c;
}
extern "C" __global__ void rounded_wide(const double *x, double *y) {
    y[0] = __dadd_rn(x[0] * x[1], -0.0) + x[2];
    y[1] = __dmul_rn(x[0], x[1]) + x[2];
    y[2] = x[0] * x[1] + x[2];
}
extern "C" __global__ void odd_lanes(float *y) {
    if (threadIdx.x % 2) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    __syncthreads();
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
SOURCE = prelude("cuda", re.findall(r"\blab_\w+", SOURCE)) + "\n" + SOURCE


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
    error = error_of(lambda: run("both_sides", 2, 64, y), DeviceError)
    line = 1 + SOURCE[: SOURCE.index("y[0] = 1.0f;\n        __syncthreads();")].count("\n") + 1
    assert str(error) == (
        "emulator: kernel both_sides, block 0: not all threads of the block reach a barrier\n"
        f"  32 threads (0 to 31) wait at the barrier in line {line}: __syncthreads();\n"
        f"  32 threads (32 to 63) wait at the barrier in line {line + 2}: __syncthreads();\n"
        "hint: put a barrier where all threads arrive, outside of branches that differ between them"
    )
    assert y[0] == 0


@pytest.mark.parametrize("traced", [False, True])
def test_a_barrier_does_without_threads_that_have_returned(traced: bool):
    y = np.zeros(64, np.float32)
    call = Call("late", 3, 64, [y, 33])
    trace = emulate(SOURCE, "cuda", [call, Call("late", 1, 64, [y, 64])], trace=traced)
    assert (y == 3).all()
    if trace is None:
        return
    line = 1 + SOURCE[: SOURCE.index("__syncthreads();\n    y[threadIdx.x] = first")].count("\n")
    note = (
        "late: in block 0 31 threads had returned before a barrier, which waits for the others on "
        f"cards from Volta (sm_70) on\n  line {line}: __syncthreads();"
    )
    assert trace.notes == (note,)
    assert note in str(trace)
    assert {one.kind for one in trace.findings} == {"race"}  # the blocks write the same place


@pytest.mark.parametrize("traced", [False, True])
def test_a_barrier_that_threads_skip_and_go_on_to_the_end(traced: bool):
    y = np.zeros(64, np.float32)
    call = Call("skipped", 1, 64, [y, 32])
    error = error_of(lambda: emulate(SOURCE, "cuda", [call], trace=traced), DeviceError)
    line = 1 + SOURCE[: SOURCE.index("if (threadIdx.x < n) __syncthreads();")].count("\n")
    assert error.message == (
        "emulator: kernel skipped, block 0: not all threads of the block reach a barrier"
    )
    assert error.where == (
        f"32 threads (0 to 31) wait at the barrier in line {line}: "
        "if (threadIdx.x < n) __syncthreads();\n"
        "32 threads (32 to 63) have come to the end"
    )
    for all_or_none in (64, 0):
        emulate(SOURCE, "cuda", [Call("skipped", 1, 64, [y, all_or_none])], trace=traced)
    assert (y == 2).all()


def test_asynchronous_copies_bring_what_is_waited_for():
    x, y = floats(256), np.zeros(256, np.float32)
    run("copies", 1, 32, x, y, 1, 50)
    np.testing.assert_array_equal(y[:128:4], x[124::-4])
    np.testing.assert_array_equal(y[128:178], x[128:178])
    assert not y[178:].any()
    calls = [Call("copies", 1, 32, [x, y, waits, 128], fresh=(1,)) for waits in (1, 0)]
    trace = emulate(SOURCE, "cuda", calls[:1], trace=True)
    assert trace is not None
    assert trace.findings == ()
    (line,) = [one.line for one in trace.traffic if one.access == "write" and one.array == "y"][:1]
    assert {one.line for one in trace.traffic if one.array == "x"} == {line - 6, line - 4}
    trace = emulate(SOURCE, "cuda", calls[1:], trace=True)
    assert trace is not None
    assert {one.kind for one in trace.findings} == {"unwritten"}


def test_what_says_how_it_rounds_is_fused_with_nothing():
    x = np.array([1 + 2**-12, 1 + 2**-12, -1 - 2**-11], np.float32)
    y = np.ones(4, np.float32)
    run("rounded", 1, 1, x, y)
    assert (y[:3] == 0).all()
    wide = np.array([1 + 2**-27, 1 + 2**-27, -1 - 2**-26])
    z = np.ones(3)
    run("rounded_wide", 1, 1, wide, z)
    assert (z[:2] == 0).all()


def test_lanes_that_do_not_come_to_a_shuffle():
    error = error_of(lambda: run("odd_lanes", 1, 32, np.zeros(32, np.float32)), DeviceError)
    assert "the lanes of a warp do not all do the same thing together" in error.message
    assert "16 threads (1, 3, 5, 7, 9, 11, 13, 15 and 8 more) wait for a shuffle in" in error.where
    assert "16 threads (0, 2, 4, 6, 8, 10, 12, 14 and 8 more) wait at the barrier" in error.where


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


def test_ctrl_c_stops_a_kernel_and_leaves_its_arrays():
    y, before = np.zeros(1, np.int32), np.full(4, 7, np.float32)
    calls = [Call("far_away", 1, 4, [before, 0]), Call("endless", 1, 32, [y])]
    error = stopped_at_work(lambda: emulate(SOURCE, "cuda", calls))
    assert error.message == (
        "emulator: kernel endless: it was stopped, and its arrays are as they were"
    )
    assert isinstance(error, KeyboardInterrupt)
    assert (before == 1).all()  # the call before it was done
    run("far_away", 1, 2, before, 2)


def test_a_trace_with_too_many_accesses_is_refused(monkeypatch: pytest.MonkeyPatch):
    emulating = sys.modules[emulate.__module__]  # its name is the function's in the package
    for module in (emulating, failing):
        monkeypatch.setattr(module, "MOST_ACCESSES", 1 << 14)
    x, y = floats(1 << 16), np.zeros(1 << 16, np.float32)
    call = Call("scale", 256, 256, [x, y, x.size])
    error = error_of(lambda: emulate(SOURCE, "cuda", [call], trace=True), DeviceError)
    assert str(error) == (
        "emulator: kernel scale: its trace has more than 16,384 accesses, after 32 of 256 blocks\n"
        "hint: trace a smaller size: about 32 such blocks would do"
    )
    assert not y.any()
    call = Call("scale", 32, 256, [x, y, x.size])
    assert emulate(SOURCE, "cuda", [call], trace=True)


def test_more_shared_memory_than_any_gpu_has():
    error = error_of(lambda: run("too_shared", 1, 32, np.zeros(32, np.float32)), DeviceError)
    assert str(error) == (
        "emulator: kernel too_shared: its shared arrays take 1,048,576 bytes, and a block can "
        "declare 49,152\nhint: up to what the card has for a block, take shared memory whose size "
        "the launch says"
    )


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
