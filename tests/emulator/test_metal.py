"""Metal in the emulator: its types and library, simdgroups, matrices, and no float64."""

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.emulator import Call, emulate
from luminal_lab.errors import DeviceError
from tests.expect import error_of

SOURCE = """\
#include <metal_stdlib>
using namespace metal;
typedef long lab_i64;

kernel void sums(
    device const float *x [[buffer(0)]], device float *y [[buffer(1)]],
    constant lab_i64 &n [[buffer(2)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]) {
    threadgroup alignas(16) float part[4];
    const uint i = lab_block * 128 + lab_thread;
    const float v = simd_sum(i < n ? x[i] * 1.0 : 0.0);
    if (lab_thread % 32 == 0) part[lab_thread / 32] = v;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lab_thread == 0) {
        float4 all = *(threadgroup float4 *)part;
        y[lab_block] = all.x + all.y + dot(all.zw, float2(1.0));
    }
}
kernel void types(
    device const half4 *x, device half *y, device const bfloat *b, device float *c,
    uint3 at [[thread_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
    threadgroup float *own [[threadgroup(0)]]) {
    half4 v = x[at.x] * 2.0h + half4(1.0h);
    v.xy = v.yx;
    y[at.x] = max(v.x, v.w);
    own[lane] = exp2(float(b[at.x]));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    c[at.x] = clamp(own[lane ^ 1], 0.0f, 8.0f) + select(0.0f, 100.0f, lane == 3)
        + as_type<float>(as_type<uint>(1.0f))
        + simd_shuffle_xor(float(lane), 1) + precise::sqrt(4.0);
}
kernel void product(device const half *a, device const half *b, device float *c) {
    simdgroup_half8x8 x, y;
    auto sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k = 0; k < 16; k += 8) {
        simdgroup_load(x, a + k, 16);
        simdgroup_load(y, b + k, 16, ulong2(0), true);
        simdgroup_multiply_accumulate(sum, x, y, sum);
    }
    simdgroup_store(sum, c, 8);
}
kernel void counted(
    device atomic_uint *n, device const uint *x, uint i [[thread_position_in_grid]]) {
    atomic_fetch_add_explicit(n, x[i], memory_order_relaxed);
}
kernel void wrong_memory(device float *x, device float *y, uint i [[thread_position_in_grid]]) {
    x[i] = 1.0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = x[i ^ 1];
}
kernel void halves(device float *x, uint i [[thread_position_in_threadgroup]]) {
    if (i >= 32) return;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[i] = 1.0;
}
kernel void right_memory(device float *x, device float *y, uint i [[thread_position_in_grid]]) {
    x[i] = 1.0;
    threadgroup_barrier(mem_flags::mem_device);
    y[i] = x[i ^ 1];
}
"""


def run(function: str, blocks: int, threads: int, *arguments: object, **more: object) -> None:
    emulate(SOURCE, "metal", [Call(function, blocks, threads, arguments, **more)])  # pyright: ignore


def test_a_sum_by_simdgroups():
    x = np.random.default_rng(1).normal(size=300).astype(np.float32)
    y = np.zeros(3, np.float32)
    run("sums", 3, 128, x, y, 300)
    np.testing.assert_allclose(y, np.pad(x, (0, 84)).reshape(3, 128).sum(1), rtol=1e-4, atol=1e-5)


def test_its_types():
    x = np.random.default_rng(2).normal(size=(32, 4)).astype(np.float16)
    b = np.linspace(-2, 4, 32).astype(ml_dtypes.bfloat16)
    y, c = np.zeros(32, np.float16), np.zeros(32, np.float32)
    run("types", 1, 32, x, y, b, c, shared=128)
    v = x * np.float16(2) + np.float16(1)
    np.testing.assert_array_equal(y, np.maximum(v[:, 1], v[:, 3]))
    lane = np.arange(32)
    want = np.clip(np.exp2(b.astype(np.float32))[lane ^ 1], 0, 8) + (lane ^ 1) + 3
    want[3] += 100
    np.testing.assert_allclose(c, want, rtol=1e-6)


def test_matrices_of_a_simdgroup():
    a = np.random.default_rng(3).normal(size=(8, 16)).astype(np.float16)
    b = np.random.default_rng(4).normal(size=(8, 16)).astype(np.float16)
    c = np.zeros((8, 8), np.float32)
    run("product", 1, 32, a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, atol=1e-5)


def test_atomics():
    n, x = np.zeros(1, np.uint32), np.arange(128, dtype=np.uint32)
    trace = emulate(SOURCE, "metal", [Call("counted", 2, 64, [n, x])], trace=True)
    assert trace is not None
    assert trace.findings == ()
    assert n[0] == x.sum()


def test_a_barrier_orders_the_memory_that_it_names():
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    wrong = emulate(SOURCE, "metal", [Call("wrong_memory", 1, 64, [x, y])], trace=True)
    right = emulate(SOURCE, "metal", [Call("right_memory", 1, 64, [x, y])], trace=True)
    assert wrong is not None
    assert right is not None
    assert {(one.kind, one.array) for one in wrong.findings} == {("race", "x")}
    assert right.findings == ()


def test_threads_that_have_returned_come_to_no_barrier():
    # Metal's specification (6.9.1): all threads of the threadgroup have to come to it.
    error = error_of(lambda: run("halves", 1, 64, np.zeros(64, np.float32)), DeviceError)
    assert "not all threads of the block reach a barrier" in error.message
    assert "32 threads (32 to 63) have returned" in error.where


@pytest.mark.parametrize(
    ("statement", "line"), [("double y = x[0];", 2), ("x[0] = (double)x[1];", 2)]
)
def test_float64_is_refused(statement: str, line: int):
    source = f"kernel void k(device float *x) {{\n  {statement}\n}}\n"
    error = error_of(lambda: emulate(source, "metal", []), DeviceError)
    assert f"the kernel:{line}:" in error.message
    assert error.hint == "Metal has no float64: cast to float32 on this device"
