"""Traces: planted faults are found, sound kernels report nothing, traffic is counted."""

import numpy as np
import pytest

from luminal_lab.emulator import Call, Trace, emulate
from tests.needs import need

SOURCE = """\
extern "C" __global__ void sound(const float *x, float *y, int n) {
    __shared__ float tile[64];
    const int i = blockIdx.x * 64 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    float v = tile[63 - threadIdx.x];
    __syncthreads();
    tile[threadIdx.x] = v;
    v += __shfl_xor_sync(~0u, v, 1);
    __syncwarp();
    v += tile[threadIdx.x ^ 1];
    if (i < n) y[i] = v;
}
extern "C" __global__ void behind(const float *x, float *y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = x[i + 1];
}
extern "C" __global__ void shared_behind(float *y) {
    __shared__ float tile[32], other[32];
    other[threadIdx.x] = 0.0f;
    tile[threadIdx.x + 1] = 1.0f;
    y[threadIdx.x] = other[threadIdx.x];
}
extern "C" __global__ void unwritten(float *y, float *z) {
    __shared__ float tile[32];
    if (threadIdx.x < 31) tile[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
    z[threadIdx.x] += 1.0f;
}
extern "C" __global__ void no_barrier(float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void no_sync_warp(float *y) {
    __shared__ float tile[32];
    tile[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
extern "C" __global__ void loop_without_second_barrier(const float *x, float *y) {
    __shared__ float tile[32];
    float sum = 0.0f;
    for (int k = 0; k < 2; k++) {
        tile[threadIdx.x] = x[32 * k + threadIdx.x];
        __syncthreads();
        sum += tile[31 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void between_blocks(float *y) { y[threadIdx.x] = blockIdx.x; }
extern "C" __global__ void atomics(int *y) { atomicAdd(y, 1); }
extern "C" __global__ void begun(int *y) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    atomicAdd(&count, 1);
    __syncthreads();
    *y = count;
}
extern "C" __global__ void last_block(const float *x, float *part, float *y, int *turn) {
    part[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    if (atomicAdd(turn, 1) == gridDim.x - 1) {
        float sum = 0.0f;
        for (int k = 0; k < gridDim.x; k++) sum += part[k];
        y[0] = sum;
    }
}
extern "C" __global__ void strided(const float *x, float *y, int by) {
    y[threadIdx.x] = x[threadIdx.x * by];
}
extern "C" __global__ void vectors(const float *x, float *y) {
    ((float4 *)y)[threadIdx.x] = ((const float4 *)x)[threadIdx.x];
}
extern "C" __global__ void banks(float *y, int by) {
    __shared__ float tile[1024];
    tile[threadIdx.x * by] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = tile[0];
}
extern "C" __global__ void endless(volatile int *y) { while (y[0] == 0) {} }
"""
LINES = SOURCE.split("\n")


def traced(function: str, blocks: int, threads: int, *arguments: object, **more: object) -> Trace:
    call = Call(function, blocks, threads, arguments, **more)  # pyright: ignore
    trace = emulate(SOURCE, "cuda", [call], trace=True)
    assert trace is not None
    return trace


def line(text: str, after: str = "") -> int:
    """The number of the first line with a text, behind one with another."""
    start = next(k for k, one in enumerate(LINES) if after in one)
    return next(k for k, one in enumerate(LINES[start:], start + 1) if text in one)


def zeros(n: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


def test_a_sound_kernel_reports_nothing_and_computes_the_same():
    x = np.arange(100, dtype=np.float32)
    y, again = zeros(100), zeros(100)
    trace = traced("sound", 2, 64, x, y, 100, fresh=(1,))
    assert trace.findings == ()
    emulate(SOURCE, "cuda", [Call("sound", 2, 64, [x, again, 100])])
    np.testing.assert_array_equal(y, again)
    assert repr(trace).startswith("<Trace: ")
    assert trace.accesses == 100 + 128 * 4 + 100


def test_out_of_bounds_is_found_and_not_done():
    memory = np.zeros(64 * 2 + 8, np.float32)
    x = np.arange(128, dtype=np.float32)
    y = memory[:128]
    trace = traced("behind", 2, 64, x, y, 128)
    (found,) = trace.findings
    assert str(found) == (
        "behind: out of bounds: thread 63 of block 1 reads x[128], and x has 128 elements\n"
        f"  line {line('x[i + 1]')}: y[i] = x[i + 1];"
    )
    assert y[127] == 0
    assert y[126] == 127


def test_out_of_bounds_in_shared_memory_leaves_its_neighbour_alone():
    y = np.ones(32, np.float32)
    (found,) = traced("shared_behind", 1, 32, y).findings
    assert (found.kind, found.array, found.offset, found.thread) == (
        *("out of bounds", "tile", 128, (31, 0, 0)),
    )
    assert found.is_write
    assert found.line == line("tile[threadIdx.x + 1]")
    assert not y.any()


def test_reads_of_what_nobody_wrote():
    y, z = zeros(32), zeros(32)
    shared, output = sorted(
        traced("unwritten", 1, 32, y, z, fresh=(0, 1)).findings, key=lambda f: f.line
    )
    assert (shared.array, shared.offset, shared.thread, shared.count) == (
        *("tile", 124, (31, 0, 0)),
        1,
    )
    assert shared.line == line("= tile[threadIdx.x]", "void unwritten")
    assert (output.array, output.kind, output.count) == ("z", "unwritten", 32)
    # What somebody has given, or an earlier call has written, is no fault.
    assert {f.array for f in traced("unwritten", 1, 32, y, z).findings} == {"tile"}
    calls = [
        Call("between_blocks", 1, 32, [z], fresh=(0,)),
        Call("unwritten", 1, 32, [y, z]),
    ]
    found = emulate(SOURCE, "cuda", calls, trace=True)
    assert found is not None
    assert {f.array for f in found.findings} == {"tile"}


def test_a_race_without_a_barrier_names_both_lines_and_threads():
    (found,) = traced("no_barrier", 1, 64, zeros(64)).findings
    write, read = line("= threadIdx.x;", "no_barrier"), line("63 - threadIdx.x", "no_barrier")
    assert found.kind == "race"
    assert {found.line, found.other_line} == {write, read}
    assert found.thread[0] == 63 - found.other_thread[0]
    assert str(found).endswith(
        f"  line {read}: y[threadIdx.x] = tile[63 - threadIdx.x];\n"
        f"  line {write}: tile[threadIdx.x] = threadIdx.x;"
    ) or str(found).endswith(f"  line {read}: y[threadIdx.x] = tile[63 - threadIdx.x];")


@pytest.mark.parametrize("name", ["no_sync_warp", "loop_without_second_barrier"])
def test_races_within_a_warp_and_around_a_loop(name: str):
    arguments = [zeros(32)] if name == "no_sync_warp" else [zeros(64), zeros(32)]
    found = traced(name, 1, 32, *arguments).findings
    assert {(one.kind, one.array) for one in found} == {("race", "tile")}


def test_blocks_race_and_atomics_do_not():
    (found,) = traced("between_blocks", 2, 32, zeros(32)).findings
    assert str(found).startswith(
        "between_blocks: race: thread 0 of block 1 writes y[0], which thread 0 of block 0 writes "
        "with no barrier between (32 times)"
    )
    y = zeros(1, np.int32)
    assert traced("atomics", 3, 32, y).findings == ()
    assert y[0] == 96


def test_a_write_races_with_atomics_even_if_its_thread_does_one_next():
    y = np.zeros(1, np.int32)
    first, *_ = traced("begun", 1, 64, y).findings
    assert first.kind == "race"
    assert "count" in str(first)


def test_a_fence_and_an_atomic_order_blocks():
    y = zeros(1)
    x = np.arange(4, dtype=np.float32)
    trace = traced("last_block", 4, 1, x, zeros(4), y, zeros(1, np.int32), fresh=(1, 2))
    assert trace.findings == ()
    assert y[0] == 6


@pytest.mark.parametrize(
    ("by", "sectors", "lines"), [(1, 4, 1), (2, 8, 2), (8, 32, 8), (32, 32, 32)]
)
def test_sectors_of_a_strided_read(by: int, sectors: int, lines: int):
    trace = traced("strided", 1, 32, zeros(32 * by), zeros(32), by)
    read = next(one for one in trace.traffic if one.access == "read")
    assert (read.requests, read.sectors, read.lines_128, read.best_sectors) == (
        1,
        sectors,
        lines,
        4,
    )
    assert trace.transactions == {read.line: sectors + 4}


def test_vector_accesses_are_one_request():
    trace = traced("vectors", 1, 32, zeros(128), zeros(128))
    assert [(one.access, one.count, one.bytes, one.sectors) for one in trace.traffic] == [
        ("read", 32, 512, 16),
        ("write", 32, 512, 16),
    ]


@pytest.mark.parametrize(("by", "turns"), [(0, 0), (1, 0), (2, 1), (3, 0), (8, 7), (32, 31)])
def test_conflicts_of_banks(by: int, turns: int):
    trace = traced("banks", 1, 32, zeros(32), by)
    assert trace.conflicts == ({line("= 1.0f;", "banks"): turns} if turns else {})


def test_a_table_of_pandas():
    need("pandas")
    table = traced("strided", 1, 32, zeros(32), zeros(32), 1).to_pandas()
    assert list(table["access"]) == ["read", "write"]
    assert list(table["array"]) == ["x", "y"]
    assert list(table["text"]) == ["y[threadIdx.x] = x[threadIdx.x * by];"] * 2


def test_records_have_each_access():
    records = traced("strided", 1, 32, zeros(64), zeros(32), 2).records
    reads = records[records["kind"] == 0]
    np.testing.assert_array_equal(np.sort(reads["offset"]), 8 * np.arange(32))
    assert set(reads["bytes"]) == {4}


def test_a_traced_kernel_that_never_ends_is_stopped_at_its_line():
    call = Call("endless", 1, 1, [np.zeros(1, np.int32)])
    with pytest.raises(RuntimeError) as caught:
        emulate(SOURCE, "cuda", [call], trace=True, limit=0.05)
    assert "void endless" in str(caught.value)
