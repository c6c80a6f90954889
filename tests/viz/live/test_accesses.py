"""Who touches what, alive: the columns that the page reads, and the value that a cell ends in."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.emulator import Call, emulate
from luminal_lab.viz.live import accesses as module
from luminal_lab.viz.live.accesses import AccessMap
from luminal_lab.viz.live.columns import read

SOURCE = """\
extern "C" __global__ void turned(const float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def seen() -> AccessMap:
    x, y = np.zeros((8, 8), np.float32), np.zeros(64, np.float32)
    trace = emulate(SOURCE, "cuda", [Call("turned", 1, 64, [x, y])], trace=True)
    assert trace is not None
    found = trace.explore()
    assert isinstance(found, AccessMap)
    return found


def test_each_access_is_an_entry_of_every_column(seen):
    bundle = read(seen.data)
    assert {len(column) for column in bundle.columns.values()} == {256}
    assert set(bundle.columns) == set(
        "phase line array kind thread offset bytes turn wait cost first".split()  # noqa: SIM905  # a list of names reads better so
    )
    header = bundle.header
    assert (header["what"], header["kernel"], header["phases"]) == ("accesses", "turned", 2)
    assert header["threads"] == [64, 1, 1]
    assert [(one["name"], one["space"], one["shape"]) for one in header["arrays"]] == [
        ("x", "global", [8, 8]),
        ("y", "global", [64]),
        ("tile", "shared", []),
    ]
    assert header["lines"] == {
        "3": "tile[threadIdx.x] = x[threadIdx.x];",
        "5": "y[threadIdx.x] = tile[63 - threadIdx.x];",
    }
    assert header["shown"] == "256 accesses"


def test_sums_are_those_of_the_lines(seen):
    columns = read(seen.data).columns
    for line in seen.trace.traffic:
        mine = (columns["line"] == line.line) & (
            columns["kind"] == ("read", "write").index(line.access)
        )
        assert columns["cost"][mine].sum() == line.sectors + line.conflicts
        assert columns["first"][mine].sum() == line.requests


def test_of_too_many_the_first_phases_are_there_and_that_is_said(seen, monkeypatch):
    monkeypatch.setattr(module, "MOST", 200)
    bundle = read(seen.data)
    assert set(bundle.columns["phase"].tolist()) == {0}
    assert bundle.header["shown"] == "128 of 256 accesses: those of the first 1 phases"
    monkeypatch.setattr(module, "MOST", 50)
    assert len(read(seen.data).columns["phase"]) == 50


def test_it_says_how_it_is_seen(seen):
    assert repr(seen) == (
        "<accesses of turned, block 0: 256 in 2 phases; a notebook shows them, "
        '.export("page.html") writes them as a page>'
    )


def test_a_kernel_of_ours_has_both(tmp_path):
    cx = ll.Graph()
    x = cx.tensor(("n", 40), name="x")
    (x * x).sum(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler())
    seen = cx.kernels[0].emulate(dims={"n": 2}, trace=True)
    assert str(seen.display(phase=0)).startswith("kernel_mul_sum: block 0 of ")
    assert isinstance(seen.explore(block=0), AccessMap)


@pytest.mark.needs("anywidget", "script")
def test_the_widget_has_the_same_bytes(seen):
    widget = seen.widget
    assert (widget.what, widget.data) == ("accesses", seen.data)
    assert widget.picture
    assert "data-ll-static" in seen.static("data-ll-static")
