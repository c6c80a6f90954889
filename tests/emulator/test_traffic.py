"""Who touches what: phases, turns, and costs that add up to those of the lines."""

import numpy as np
import pytest

from luminal_lab.emulator import Call, emulate
from luminal_lab.emulator.traffic import ACCESS, flat, touches, traffic_of, unflat
from luminal_lab.errors import ArgumentError
from tests.expect import error_of
from tests.needs import need

SOURCE = """\
extern "C" __global__ void turned(const float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[64 * blockIdx.x + threadIdx.x];
    __syncthreads();
    float v = tile[63 - threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 2; k++) y[128 * blockIdx.x + 2 * threadIdx.x + k] = v;
}
extern "C" __global__ void strided(float *y, int by) {
    __shared__ float tile[1024];
    tile[threadIdx.x * by] = 1.0f;
    y[threadIdx.x] = 2.0f;
}
extern "C" __global__ void wide(const float *x, float *y) {
    __shared__ float4 tile[32];
    tile[threadIdx.x] = ((const float4 *)x)[threadIdx.x];
    ((float4 *)y)[threadIdx.x] = tile[threadIdx.x];
}
extern "C" __global__ void idle(float *y) { }
"""


def traced(function, blocks, threads, *arguments, **more):
    found = emulate(SOURCE, "cuda", [Call(function, blocks, threads, arguments)], trace=True)
    assert found is not None
    return touches(found, **more)


def floats(count):
    return np.zeros(count, np.float32)


def turned(**more):
    return traced("turned", 2, 64, floats(128), floats(256), **more)


def test_a_phase_is_what_lies_between_two_barriers():
    found = turned()
    assert found.phases == 3
    by_line = {
        line: set(found.records["phase"][found.records["line"] == line].tolist())
        for line in (3, 5, 7)
    }
    assert by_line == {3: {0}, 5: {1}, 7: {2}}


def test_a_block_is_chosen_and_its_elements_are_counted_in_its_arrays():
    found = turned(block=1)
    assert found.block_place == (1, 0, 0)
    reads = found.where((found.records["line"] == 3) & ~found.is_shared)
    assert reads.element.tolist() == list(range(64, 128))
    assert found.array_of(int(reads.records["region"][0])).name == "x"


def test_turns_of_a_loop_count_from_the_last_meeting():
    found = turned()
    writes = found.where(found.records["line"] == 7)
    first = writes.where(writes.records["thread"] == 0)
    assert first.turn.tolist() == [0, 1]
    assert first.element.tolist() == [0, 1]
    assert len(np.unique(writes.request)) == 4  # two warps, two turns


@pytest.mark.parametrize(("by", "most"), [(1, 0), (2, 1), (32, 31)])
def test_who_waits_for_a_bank_and_how_long(by, most):
    found = traced("strided", 1, 32, floats(32), by)
    tile = found.where(found.is_shared)
    assert tile.wait.max() == most
    assert sorted(set(tile.wait.tolist())) == list(range(most + 1))
    assert found.wait[~found.is_shared].max() == 0
    assert (tile.bank == np.arange(32) * by % 32).all()


def test_lanes_that_ask_for_one_word_do_not_wait():
    found = traced("strided", 1, 32, floats(32), 0)
    assert found.wait.max() == 0


@pytest.mark.parametrize(
    ("function", "threads", "arguments"),
    [
        ("turned", 64, (floats(128), floats(256))),
        ("strided", 32, (floats(32), 32)),
        ("strided", 32, (floats(32), 3)),
        ("wide", 32, (floats(128), floats(128))),
    ],
)
def test_costs_add_up_to_those_of_the_lines(function, threads, arguments):
    found = traced(function, 1, threads, *arguments)
    cost, first = found.costs
    for line in traffic_of(found.records, "k", found.launch.lines, {}):
        mine = (found.records["line"] == line.line) & (
            found.records["kind"] == ACCESS.index(line.access)
        )
        mine &= found.is_shared == (line.space == "shared")
        assert cost[mine].sum() == line.sectors + line.conflicts
        assert first[mine].sum() == line.requests


def test_a_launch_that_touches_nothing():
    found = traced("idle", 1, 32, floats(4))
    assert (len(found), found.phases) == (0, 1)
    assert [part.tolist() for part in found.costs] == [[], []]


def test_launches_of_one_trace_are_told_apart():
    x, y = floats(128), floats(256)
    calls = [Call("turned", 2, 64, [x, y]), Call("strided", 1, 32, [floats(32), 1])]
    trace = emulate(SOURCE, "cuda", calls, trace=True)
    assert trace is not None
    assert [one.kernel for one in trace.launches] == ["turned", "strided"]
    assert touches(trace, 1).launch.kernel == "strided"
    assert len(touches(trace, 1)) == 64
    need("pandas")
    table = trace.to_pandas("accesses")
    assert len(table) == trace.accesses
    assert table["launch"].tolist() == trace.records["launch"].tolist()
    last = table.iloc[-1]
    assert (last["kernel"], last["array"], last["access"]) == ("strided", "y", "write")
    assert (last["element"], last["offset"], last["bytes"]) == (31, 124, 4)


def test_a_place_that_is_not_there_is_refused():
    assert error_of(lambda: turned(launch=1), ArgumentError).message == (
        "trace: there is no launch 1; there are 1"
    )
    assert str(error_of(lambda: turned(block=2), ArgumentError)) == (
        "trace: turned has no block 2; it has 2\nhint: they count from 0, along x first"
    )


def test_numbers_and_places_are_inverses():
    for sizes in ((4, 2, 3), (5, 1, 1), (1, 1, 7)):
        for number in range(sizes[0] * sizes[1] * sizes[2]):
            assert flat(unflat(number, sizes), sizes) == number
