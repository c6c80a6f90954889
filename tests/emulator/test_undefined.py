"""What a GPU leaves undefined: planted faults are named, with the line and the threads."""

import numpy as np
import pytest

from luminal_lab.emulator import Call, Finding, Trace, emulate
from luminal_lab.emulator.library import compiler, is_clang
from luminal_lab.errors import DeviceError

WHOLE = pytest.mark.skipif(
    is_clang(compiler()), reason="clang checks the members of a vector, and no copy of a whole one"
)

SOURCE = """\
extern "C" __global__ void wide_read(const float *x, float *y) {
    const float4 v = *(const float4 *)(x + 4 * threadIdx.x + 1);
    y[threadIdx.x] = v.x + v.w;
}
extern "C" __global__ void wide_write(float *y) {
    *(float2 *)(y + 3 * threadIdx.x) = make_float2(1.0f, 2.0f);
}
extern "C" __global__ void wide_shared(float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = tile[threadIdx.x + 32] = threadIdx.x;
    __syncwarp();
    const float2 v = *(float2 *)(tile + threadIdx.x);
    y[threadIdx.x] = v.y;
}
extern "C" __global__ void aligned(const float *x, float *y) {
    const float4 v = *(const float4 *)(x + 4 * threadIdx.x);
    *(float2 *)(y + 2 * threadIdx.x) = make_float2(v.x + v.y, v.z + v.w);
}
extern "C" __global__ void into_const(const float *x, float *y) {
    y[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 3) const_cast<float *>(x)[3] = 0.0f;
}
extern "C" __global__ void outside_mask(float *y) {
    float v = threadIdx.x;
    if (threadIdx.x < 16) v = __shfl_down_sync(0xffff, v, 8);
    y[threadIdx.x] = v;
}
extern "C" __global__ void returned(float *y) {
    if (threadIdx.x >= 20) return;
    y[threadIdx.x] = __shfl_xor_sync(~0u, (float)threadIdx.x, 4);
}
extern "C" __global__ void returned_unasked(float *y) {
    if (threadIdx.x >= 16) return;
    y[threadIdx.x] = __shfl_xor_sync(~0u, (float)threadIdx.x, 8);
}
extern "C" __global__ void summed(float *y, int n) {
    if (threadIdx.x >= n) return;
    y[threadIdx.x] = __reduce_add_sync(~0u, 1);
}
extern "C" __global__ void much_static(float *y) {
    __shared__ float one[8192], other[8192];
    one[threadIdx.x] = 1.0f;
    other[threadIdx.x] = 2.0f;
    y[threadIdx.x] = one[threadIdx.x] + other[threadIdx.x];
}
extern "C" __global__ void much_dynamic(float *y) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = 1.0f;
    y[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void unset(float *y) {
    float v;
    if (threadIdx.x > 4) v = 1.0f;
    y[threadIdx.x] = v;
}
extern "C" __global__ void unset_array(float *y) {
    float v[4];
    for (int k = 0; k < 3; k++) v[k] = k;
    y[threadIdx.x] = v[threadIdx.x % 4];
}
extern "C" __global__ void unset_unused(float *y) {
    float v;
    if (threadIdx.x > 4) v = 1.0f;
    y[threadIdx.x] = threadIdx.x > 4 ? v : 0.0f;
}
"""
LINES = SOURCE.split("\n")
METAL = """\
kernel void wide_read(device const float *x, device float *y, uint i [[thread_position_in_grid]]) {
    const float4 v = *(device const float4 *)(x + 4 * i + 1);
    y[i] = v.x + v.w;
}
kernel void into_const(device const float *x, device float *y, uint i [[thread_position_in_grid]]) {
    y[i] = x[i];
    if (i == 3) ((device float *)x)[3] = 0.0f;
}
kernel void unset(device float *y, uint i [[thread_position_in_grid]]) {
    float v;
    if (i > 4) v = 1.0f;
    y[i] = v;
}
kernel void much_static(device float *y, uint i [[thread_position_in_grid]]) {
    threadgroup float one[8192], other[1];
    one[i] = 1.0f;
    other[0] = 2.0f;
    y[i] = one[i];
}
"""


def arrays(*sizes: int) -> list[np.ndarray]:
    return [np.arange(size, dtype=np.float32) for size in sizes]


def traced(function: str, threads: int, *arguments: object, shared: int = 0) -> Trace:
    call = Call(function, 1, threads, arguments, shared=shared)  # pyright: ignore
    trace = emulate(SOURCE, "cuda", [call], trace=True)
    assert trace is not None
    return trace


def run(function: str, threads: int, *arguments: object, shared: int = 0) -> None:
    call = Call(function, 1, threads, arguments, shared=shared)  # pyright: ignore
    emulate(SOURCE, "cuda", [call])


def line(text: str, after: str) -> int:
    start = next(k for k, one in enumerate(LINES) if f"void {after}(" in one)
    return next(k for k, one in enumerate(LINES[start:], start + 1) if text in one)


def only(trace: Trace) -> Finding:
    assert len(trace.findings) == 1, str(trace)
    return trace.findings[0]


# -- vectors ---------------------------------------------------------------------------------------


@WHOLE
def test_a_misaligned_vector_is_found_with_its_line_and_thread():
    found = only(traced("wide_read", 8, *arrays(40, 8)))
    assert (found.kind, found.array, found.offset, found.count) == ("misaligned", "x", 4, 8)
    assert str(found) == (
        "wide_read: misaligned: thread 0 of block 0 reads a vector at x[1], whose address is not "
        "a multiple of 16 bytes; a GPU stops there (8 times)\n"
        f"  line {line('float4', 'wide_read')}: const float4 v = *(const float4 *)(x + 4 * "
        "threadIdx.x + 1);"
    )


@WHOLE
def test_every_second_vector_may_be_aligned():
    found = only(traced("wide_write", 8, *arrays(24)))
    assert (found.kind, found.array, found.offset, found.count) == ("misaligned", "y", 12, 4)
    assert found.is_write
    assert found.thread == (1, 0, 0)
    assert found.line == line("float2 *", "wide_write")


@WHOLE
def test_a_misaligned_vector_in_shared_memory():
    found = only(traced("wide_shared", 32, *arrays(32)))
    assert (found.kind, found.array, found.count) == ("misaligned", "tile", 16)
    assert found.offset % 8 == 0, "it begins at a multiple of 4, as it declares, and not of 8"


def test_aligned_vectors_are_no_finding():
    assert traced("aligned", 8, *arrays(32, 16)).findings == ()
    run("aligned", 8, *arrays(32, 16))


@WHOLE
def test_without_a_trace_a_misaligned_vector_is_an_error_as_on_a_gpu():
    with pytest.raises(DeviceError) as caught:
        run("wide_read", 8, *arrays(40, 8))
    assert str(caught.value).startswith(
        "emulator: kernel wide_read, block 0, thread 0: it reads a vector at x[1], whose address "
        "is not a multiple of 16 bytes\n"
    )
    assert "hint: a GPU stops there: a vector begins at a multiple of its size" in str(caught.value)
    assert "  > 2 |     const float4" in str(caught.value)


# -- const -----------------------------------------------------------------------------------------


def test_a_write_to_a_const_input_is_found():
    x, y = arrays(8, 8)
    found = only(traced("into_const", 8, x, y))
    assert str(found) == (
        "into_const: const: thread 3 of block 0 writes x[3], which the kernel takes as const; a "
        "GPU does it, and reads may still give the old value\n"
        f"  line {line('const_cast', 'into_const')}: if (threadIdx.x == 3) const_cast<float *>"
        "(x)[3] = 0.0f;"
    )
    assert x[3] == 3


def test_without_a_trace_a_changed_const_input_is_an_error():
    with pytest.raises(DeviceError, match="it writes to x, which it takes as const"):
        run("into_const", 8, *arrays(8, 8))


# -- lanes -----------------------------------------------------------------------------------------


def test_a_lane_that_the_mask_does_not_name_gives_nothing():
    (y,) = arrays(32)
    found = only(traced("outside_mask", 32, y))
    assert str(found) == (
        "outside_mask: no lane: thread 15 of block 0 takes a value from the lane of thread 23, "
        "which gives none: the mask does not name it, or it has returned; a GPU goes on with any "
        "value (8 times)\n"
        f"  line {line('__shfl', 'outside_mask')}: if (threadIdx.x < 16) v = __shfl_down_sync"
        "(0xffff, v, 8);"
    )
    assert np.isnan(y[8:16]).all()
    assert not np.isnan(np.delete(y, range(8, 16))).any()


def test_a_lane_that_has_returned_gives_nothing():
    (y,) = arrays(32)
    found = only(traced("returned", 32, y))
    assert (found.kind, found.thread, found.other_thread) == ("no lane", (16, 0, 0), (20, 0, 0))
    assert found.count == 4
    assert found.line == line("__shfl", "returned")


def test_lanes_that_have_returned_are_not_waited_for():
    (y,) = arrays(32)
    assert traced("returned_unasked", 32, y).findings == ()
    np.testing.assert_array_equal(y[:16], np.arange(16) ^ 8)
    z = np.zeros(32, np.float32)
    assert traced("summed", 32, z, 5).findings == ()
    np.testing.assert_array_equal(z[:5], 5)


# -- shared memory ---------------------------------------------------------------------------------


def test_more_static_shared_memory_than_a_block_can_declare():
    with pytest.raises(DeviceError) as caught:
        run("much_static", 32, *arrays(32))
    assert str(caught.value) == (
        "emulator: kernel much_static: its shared arrays take 65,536 bytes, and a block can "
        "declare 49,152\nhint: up to what the card has for a block, take shared memory whose size "
        "the launch says"
    )


def test_shared_memory_whose_size_the_launch_says_may_be_larger():
    (y,) = arrays(32)
    run("much_dynamic", 32, y, shared=100 << 10)
    assert (y == 1).all()
    with pytest.raises(DeviceError, match="no card has more than 232,448 for a block"):
        run("much_dynamic", 32, y, shared=300 << 10)


# -- locals ----------------------------------------------------------------------------------------


def test_a_local_that_nothing_has_set():
    found = only(traced("unset", 32, *arrays(32)))
    assert (found.kind, found.array, found.offset) == ("unset", "y", 0)
    assert "depends on a local that nothing has set" in str(found)
    where = line("= v;", "unset"), line("if", "unset")
    assert found.line == where[is_clang(compiler())]


def test_an_element_of_a_local_array_that_nothing_has_set():
    found = only(traced("unset_array", 32, *arrays(32)))
    assert (found.kind, found.array, found.offset) == ("unset", "y", 12)


MEMBERS = {
    "a member": "struct pair { float a, b; } p; p.a = 1.0f; y[i] = p.b;",
    "a member of a member": "struct { struct { float a, b; } q; } p; p.q.a = 1; y[i] = p.q.b;",
    "a member behind a constructor": "struct P { float a, b; __device__ P() {} } p; y[i] = p.b;",
    "a component": "float4 v; v.x = 1.0f; y[i] = v.w;",
    "an element's member": "struct { float a, b; } p[2]; p[1].a = 2.0f; y[i] = p[i % 2].b;",
    "a condition": "struct { int on; } p; y[i] = p.on ? 1.0f : 2.0f;",
    "a pointer that is compared": "float *p; y[i] = p < y ? 1.0f : 2.0f;",
    "a pointer that may be null": "float *p; y[i] = p ? 1.0f : 2.0f;",
}


@pytest.mark.parametrize("body", MEMBERS.values(), ids=MEMBERS)
def test_a_member_or_a_pointer_that_nothing_has_set(body: str):
    source = f'extern "C" __global__ void f(float *y) {{ const int i = threadIdx.x; {body} }}'
    trace = emulate(source, "cuda", [Call("f", 1, 8, arrays(8))], trace=True)
    assert trace is not None
    assert only(trace).kind == "unset"


def test_a_local_that_is_not_used_where_it_is_not_set_is_no_finding():
    assert traced("unset_unused", 32, *arrays(32)).findings == ()


# -- Metal -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "sizes", "kind"),
    [
        ("wide_read", (40, 8), "misaligned"),
        ("into_const", (8, 8), "const"),
        ("unset", (8,), "unset"),
    ],
)
def test_metal(function: str, sizes: tuple[int, ...], kind: str):
    trace = emulate(METAL, "metal", [Call(function, 1, 8, arrays(*sizes))], trace=True)
    assert trace is not None
    assert only(trace).kind == kind


def test_metal_has_less_shared_memory():
    with pytest.raises(DeviceError, match="take 32,772 bytes, and a block can declare 32,768"):
        emulate(METAL, "metal", [Call("much_static", 1, 8, arrays(8))])
