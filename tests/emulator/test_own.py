"""Arrays that each thread has for itself: what is outside of one is found, and breaks nothing."""

import numpy as np
import pytest

from luminal_lab.emulator import Call, Trace, emulate
from luminal_lab.emulator.library import compiler, is_clang
from luminal_lab.errors import DeviceError
from tests.expect import error_of

SOURCE = """\
struct Pair { float first[2], second[2]; };
__device__ __forceinline__ void put(float *at, int k) { at[k] = 1.0f; }
extern "C" __global__ void constant_index(float *y, int k) {
    float acc[4] = {};
    acc[4] = 1.0f;
    y[threadIdx.x] = acc[0];
}
extern "C" __global__ void computed_index(float *y, int k) {
    float acc[4] = {};
    acc[k + threadIdx.x / 32] = 1.0f;
    y[threadIdx.x] = acc[k & 3];
}
extern "C" __global__ void loop(float *y, int k) {
    float acc[4] = {};
    for (int j = 0; j <= k; j++)
        acc[j] = j;
    y[threadIdx.x] = acc[1];
}
extern "C" __global__ void read_behind(float *y, int k) {
    float acc[4] = {};
    for (int j = 0; j < 4; j++) acc[j] = j;
    y[threadIdx.x] = acc[k];
}
extern "C" __global__ void before(float *y, int k) {
    float acc[4] = {};
    acc[k - 5] = 1.0f;
    y[threadIdx.x] = acc[k & 3];
}
extern "C" __global__ void rows(float *y, int k) {
    float acc[4][4] = {};
    acc[k][0] = 1.0f;
    y[threadIdx.x] = acc[1][k & 3];
}
extern "C" __global__ void member(float *y, int k) {
    Pair pair = {};
    pair.second[k - 2] = 1.0f;
    y[threadIdx.x] = pair.first[k & 1];
}
extern "C" __global__ void far(float *y, int k) {
    float acc[4] = {};
    acc[k * 10000] = 1.0f;
    y[threadIdx.x] = acc[k & 3];
}
extern "C" __global__ void behind_a_barrier(float *y, int k) {
    float acc[4] = {};
    __syncthreads();
    if (threadIdx.x == 40) acc[k] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = acc[k & 3];
}
extern "C" __global__ void sound(float *y, int k) {
    float acc[4][4] = {};
    __shared__ float tile[8][8];
    Pair pair = {};
    put(acc[0], 15);
    acc[0][k + 11] += 1.0f;
    pair.second[1] = 1.0f;
    tile[0][threadIdx.x] = acc[3][k - 1] + pair.second[k - 3];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x / 8][threadIdx.x % 8];
}
"""
FAULTS = {
    "constant_index": ("acc[4] = 1.0f;", True),
    "computed_index": ("acc[k + threadIdx.x / 32] = 1.0f;", True),
    "loop": ("acc[j] = j;", True),
    "read_behind": ("y[threadIdx.x] = acc[k];", False),
    "before": ("acc[k - 5] = 1.0f;", True),
    "rows": ("acc[k][0] = 1.0f;", True),
    "member": ("pair.second[k - 2] = 1.0f;", True),
    "far": ("acc[k * 10000] = 1.0f;", True),
    "behind_a_barrier": ("if (threadIdx.x == 40) acc[k] = 1.0f;", True),
}

if is_clang(compiler()):  # it does not look at addresses where nothing is optimised
    del FAULTS["member"]


def run(name: str, *, trace: bool) -> tuple[Trace | None, np.ndarray]:
    y = np.arange(64, dtype=np.float32)
    return emulate(SOURCE, "cuda", [Call(name, 1, 64, [y, 4])], trace=trace), y


@pytest.mark.parametrize("name", FAULTS)
def test_a_trace_finds_it(name: str):
    text, is_write = FAULTS[name]
    trace, y = run(name, trace=True)
    assert trace is not None
    (found,) = trace.findings
    assert (found.kind, found.text, found.is_write) == ("out of bounds", text, is_write)
    assert SOURCE.splitlines()[found.line - 1].strip() == text
    does = "writes" if is_write else "reads"
    thread = 40 if "barrier" in name else 0
    assert str(found) == (
        f"{name}: out of bounds: thread {thread} of block 0 {does} outside of an array that each "
        f"thread has for itself; it was stopped there\n  line {found.line}: {text}"
    )
    assert (y == np.arange(64)).all()


@pytest.mark.parametrize("name", FAULTS)
def test_without_a_trace_it_is_an_error(name: str):
    error = error_of(lambda: run(name, trace=False), DeviceError)
    text, is_write = FAULTS[name]
    assert error.message.endswith(
        f": it {'writes' if is_write else 'reads'} outside of an array that each thread has for "
        "itself"
    )
    assert error.where is not None
    assert any(line.startswith(">") and text in line for line in error.where.splitlines())
    run("sound", trace=False)


def test_what_stays_within_an_array_is_no_fault():
    trace, y = run("sound", trace=True)
    assert trace is not None
    assert not trace.findings
    assert (y == 3).all()
