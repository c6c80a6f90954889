"""Who touches what as a picture: a map for each array between two barriers."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from luminal_lab.emulator import Call, Trace, emulate
from luminal_lab.errors import ArgumentError, RangeError
from luminal_lab.viz.accesses import COLUMNS, accesses
from luminal_lab.viz.accesses_svg import MOST_MAPS, accesses_picture
from tests.expect import error_of

SOURCE = """\
extern "C" __global__ void turned(const float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void raced(float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = y[threadIdx.x];
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void strided(float *y, int by) {
    __shared__ float tile[1024];
    tile[threadIdx.x * by] = 1.0f;
    y[threadIdx.x] = 2.0f;
}
extern "C" __global__ void many(const float *x, float *y) {
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += x[64 * k + threadIdx.x];
    for (int k = 0; k < 12; k++) { __syncthreads(); y[threadIdx.x] += sum; }
}
"""


def traced(function: str, threads: int, *arguments: object) -> Trace:
    call = Call(function, 1, threads, arguments)  # pyright: ignore[reportArgumentType]  # arrays and numbers
    trace = emulate(SOURCE, "cuda", [call], trace=True)
    assert trace is not None
    return trace


def floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.fixture(scope="module")
def turned() -> Trace:
    return traced("turned", 64, floats(8, 8), floats(64))


def test_the_payload_of_a_small_kernel(turned, golden):
    found = accesses(turned, phase=1)
    golden(json.dumps(found, indent=1) + "\n", "golden/accesses.json")
    assert json.loads(json.dumps(found)) == found


def test_a_map_for_each_array_in_each_phase(turned):
    found = accesses(turned)
    assert [(one["phase"], [each["array"] for each in one["maps"]]) for one in found["phases"]] == [
        (0, ["x", "tile"]),
        (1, ["y", "tile"]),
    ]
    x, tile = found["phases"][0]["maps"]
    assert (x["by"], tile["by"]) == ("transaction", "bank")
    # Eight neighbours are one transaction, and neighbours differ.
    assert [cell[2] for cell in x["cells"]] == [k // 8 for k in range(64)]
    assert [cell[2] for cell in tile["cells"]] == [k % 32 for k in range(64)]
    assert all(cell[0] == cell[1] for cell in x["cells"])
    turned_around = found["phases"][1]["maps"][1]["cells"]
    assert all(cell[0] == 63 - cell[1] for cell in turned_around)


def test_what_was_written_and_who_waits():
    tile = accesses(traced("strided", 32, floats(32), 32))["phases"][0]["maps"][1]
    assert {cell[3] for cell in tile["cells"]} == {2}  # written
    assert sorted(cell[4] for cell in tile["cells"]) == list(range(32))
    assert tile["gaps"] == list(range(1, 32))
    assert tile["lines"][0]["conflicts"] == 31
    svg = accesses_picture(traced("strided", 32, floats(32), 32)).svg
    assert "31 turns of waiting" in svg
    assert "a ring: it waits for its bank" in svg
    assert "a stroke: written" in svg
    # On a dark ground the first bank is as dark as that, but for its outline.
    assert all("stroke=" in path for path in re.findall(r"<path fill=[^>]*>", svg))


@pytest.mark.parametrize(
    ("chosen", "maps"),
    [
        ({"phase": 1}, ["y", "tile"]),
        ({"array": "tile"}, ["tile", "tile"]),
        ({"line": 3}, ["x", "tile"]),
        ({"line": 3, "array": "x"}, ["x"]),
    ],
)
def test_phases_lines_and_arrays_are_chosen(turned, chosen, maps):
    found = accesses(turned, **chosen)
    assert [each["array"] for one in found["phases"] for each in one["maps"]] == maps


def test_of_a_large_block_one_warp_is_shown_and_that_is_said():
    trace = traced("many", 128, floats(64 * 128), floats(128))
    found = accesses(trace)
    assert found["warp"] == 0
    assert {row for one in found["phases"] for each in one["maps"] for row in each["rows"]} == set(
        range(32)
    )
    assert accesses(trace, warp=3)["phases"][0]["maps"][0]["rows"][0] == 96
    assert accesses(trace, warp="all")["warp"] is None
    assert "one warp is shown" in accesses_picture(trace).svg
    assert "warp 0 of 128 threads" in str(accesses_picture(trace))


def test_what_is_too_much_is_put_together_and_that_is_said():
    trace = traced("many", 64, floats(64 * 64), floats(64))
    x = accesses(trace)["phases"][0]["maps"][0]
    assert len(x["columns"]) <= COLUMNS
    assert x["wide"] == 32
    assert accesses(trace, warp="all", by="bank")["phases"][0]["maps"][0]["by"] == "bank"
    picture = accesses_picture(trace)
    assert "32 to a column" in picture.svg
    assert "more phases" in picture.svg
    assert picture.svg.count("global memory") <= MOST_MAPS
    assert len(picture.svg) < 150_000


def test_a_finding_is_told_with_the_picture():
    picture = accesses_picture(traced("raced", 64, floats(64)))
    assert "1 finding" in str(picture)
    assert "race: thread" in picture.svg


def test_equal_traces_make_equal_pictures_without_a_script(turned):
    picture = turned.display(theme="light")
    assert picture.svg == turned.display(theme="light").svg
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(picture.svg).iter()}
    assert tags <= {"svg", "title", "style", "rect", "g", "path", "text"}
    assert picture.text == ("turned: block 0 of 1, 64 threads, 256 accesses; nothing found")


@pytest.mark.parametrize(
    ("chosen", "kind", "text"),
    [
        ({"phase": 2}, RangeError, "accesses: there is no phase 2; there are 2"),
        ({"line": 99}, RangeError, "accesses: line 99 touches nothing"),
        ({"array": "tiles"}, ArgumentError, "accesses: there is no array 'tiles'"),
        ({"warp": 2}, RangeError, "accesses: there is no warp 2; a block has 2"),
        ({"by": "sector"}, ArgumentError, "accesses: they cannot be coloured by 'sector'"),
        ({"block": 1}, ArgumentError, "trace: turned has no block 1; it has 1"),
    ],
)
def test_what_is_not_there_is_refused(turned, chosen, kind, text):
    assert error_of(lambda: accesses(turned, **chosen), kind).message == text
