"""Bundles as bytes: what is written is read, small ones are golden, damaged ones are refused."""

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.edit import Edit
from luminal_lab.errors import RecordingError
from luminal_lab.io.facts import Facts, KernelFacts, LaunchFacts, Line, Subject
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.live.bundle import bundle_of
from luminal_lab.viz.live.columns import Columns, read
from tests.expect import error_of
from tests.viz.graphs import HOSTILE, hostile
from tests.viz.live.bundles import bare, run_of

SOFTMAX = """
graph softmax(%x: f32[4, 8]) -> (%p) {
  %m  = max_reduce{axis = 1} %x    : f32[4, 1]
  %mx = expand{shape = [4, 8]} %m  : f32[4, 8]
  %c  = constant{value = -1.0}            : f32[4, 8]
  %n  = mul %mx, %c                : f32[4, 8]
  %p  = add %x, %n                 : f32[4, 8]
}
"""


def plain(data: bytes) -> str:
    """Return a bundle as text that one can read: its columns as lists, its texts spelled out."""
    bundle = read(data)
    header = {key: value for key, value in bundle.header.items() if key not in ("columns", "made")}
    columns: dict[str, Any] = {}
    for name, numbers in bundle.columns.items():
        shown = [None if math.isnan(one) else round(one, 1) for one in numbers.tolist()]
        columns[name] = shown
    runs = header.pop("runs")
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in header.items()]
    lines += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in columns.items()]
    whole = json.dumps(runs, indent=1, ensure_ascii=False)
    return "{\n" + ",\n".join([*lines, f'"runs": {whole}']) + "\n}\n"


def rewritten() -> Subject:
    """Return a pass of two firings on a small graph."""
    before = ll.parse(SOFTMAX)
    edit = Edit(before)
    with edit.firing("negate", "a product with -1 is a negation"):
        new = edit.insert(ll.parse(SOFTMAX)["n"].op, "c", "mx", like="n", name="turned")
        edit.replace("n", new)
    edit.erase("n", rule="unused")
    first = Snapshot(before, before, Record("written", ()))
    second = Snapshot(before, edit.ir(), Record("negate{limit = 1}", edit.log), 1)
    return Subject("softmax", (first, second), pipeline="negate{limit = 1}")


def test_a_small_graph(golden: Any):
    golden(plain(bundle_of([bare(ll.parse(SOFTMAX))])), "golden/softmax.json")


def test_a_small_pass(golden: Any):
    golden(plain(bundle_of([rewritten()])), "golden/rewritten.json")


def test_columns_are_read_as_they_were_written():
    columns = Columns()
    columns.put("a", "u8", [1, 2, 255])
    columns.put("b", "f32", [0.5, -1.0])
    columns.put("empty", "i32", [])
    columns.put("c", "f64", [math.nan, 1e300])
    columns.put("names", "u32", columns.texts(["x", "", "y", "x"]))
    for compressed in (False, True):
        found = read(columns.to_bytes({"title": "ä"}, compressed=compressed))
        assert found.header["title"] == "ä"
        assert found.columns["a"].tolist() == [1, 2, 255]
        assert found.columns["b"].tolist() == [0.5, -1.0]
        assert found.columns["empty"].tolist() == []
        np.testing.assert_array_equal(found.columns["c"], [math.nan, 1e300])
        assert found.texts("names") == ["x", "", "y", "x"]


def test_every_column_begins_at_a_multiple_of_eight():
    data = bundle_of([rewritten()])
    (size,) = struct.unpack_from("<I", data, 4)
    assert (8 + size) % 8 == 0
    header = json.loads(data[8 : 8 + size])
    assert all(at % 8 == 0 for _, at, _ in header["columns"].values())
    assert header["strings"][0] == ""
    assert len(set(header["strings"])) == len(header["strings"])
    last = max(header["columns"].values(), key=lambda one: one[1])
    assert len(data) >= 8 + size + last[1] + last[2]


def test_a_compressed_bundle_is_the_same_one():
    subject = rewritten()
    data = bundle_of([subject], compressed=True)
    assert data[0] == 0x78
    assert zlib.decompress(data) == bundle_of([subject])


def test_several_runs_are_in_one_bundle():
    found = read(bundle_of([bare(ll.parse(SOFTMAX)), rewritten()], title="two"))
    assert found.header["title"] == "two"
    assert [len(run["stages"]) for run in found.header["runs"]] == [1, 2]
    assert {name.split("/")[0] for name in found.columns} == {"r0", "r1"}


def test_launches_have_the_name_of_their_kernel_and_their_lines():
    ir = ll.parse(SOFTMAX)
    facts = Facts(
        kernels=(KernelFacts("rows"),),
        launches=(LaunchFacts(0, "first", ir["p"].id, origins=(Line("cell 3", 7, "y = x"),)),),
    )
    run = run_of(Subject("softmax", (Snapshot(ir, ir, Record("written", ())),), facts))
    assert run.header["origins"] == [{"file": "cell 3", "line": 7, "code": "y = x"}]
    assert run.header["facts"]["launches"][0]["origins"] == [0]


def test_hostile_texts_are_only_texts():
    run = run_of(bare(hostile()))
    assert HOSTILE in run.texts("node.name")
    assert HOSTILE in run.texts("node.scope")
    assert run.header["origins"][0]["code"] == HOSTILE


def test_work_is_told_where_sizes_are_known():
    cx = ll.Graph()
    x = cx.tensor(("n", 4), name="x")
    y = cx.tensor((2, 4), name="y")
    (x.exp2()).retrieve()
    (y.exp2()).retrieve()
    run = run_of(bare(cx.ir))
    found = dict(zip(run.texts("node.type"), run.bundle.columns["r0/node.flops"], strict=True))
    assert found["f32[2, 4]"] == 8
    assert math.isnan(found["f32[n, 4]"])


def test_lone_surrogates_in_names_do_not_stop_anybody():
    data = Columns()
    data.text("a\ud800b")
    assert read(data.to_bytes({})).strings == ["", "a?b"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it does not begin with LLAB"),
        (b"PK\x03\x04 and so on", "it does not begin with LLAB"),
        (b"\x78\x9cnot zlib", "Error -3 while decompressing data: invalid block type"),
        (
            Columns().to_bytes({}).replace(b'"schema":1', b'"schema":7'),
            "its schema is 7, and this reads 1",
        ),
    ],
)
def test_what_is_no_bundle_is_refused(data: bytes, why: str):
    assert str(error_of(lambda: read(data), RecordingError)) == (
        f"bundle: these {len(data):,} bytes are none: {why}\nhint: bundle_of(...) makes one"
    )


def test_a_bundle_that_is_cut_off_is_refused():
    data = bundle_of([rewritten()])
    for size in (5, 12, 100, len(data) - 40):
        error_of(lambda size=size: read(data[:size]), RecordingError)
