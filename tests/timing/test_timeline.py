"""When things happened in a run, and the file that Perfetto opens."""

import json
from itertools import pairwise

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.parse import parse
from luminal_lab.errors import RecordingError
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from luminal_lab.timing.timeline import TRACKS, Span, Timeline, laid, run_of
from luminal_lab.timing.timings import Timing, Timings
from tests.expect import error_of
from tests.needs import need

TEXT = """graph g(%x: f32[2]) -> (%c) {
  %a = exp2 %x : f32[2]
  %b = exp2 %a : f32[2]
  %c = exp2 %b : f32[2]
}"""
NODES = parse(TEXT).nodes[-3:]


def checked(text):
    """Return the events of a trace, once they keep the rules of Chrome's trace-event format."""
    trace = json.loads(text)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
        else:
            assert event["ph"] == "X"
            assert event["cat"] in TRACKS
            assert event["ts"] >= 0
            assert event["dur"] >= 0
    # Complete events of one thread lie in each other, or apart.
    for tid in {event["tid"] for event in trace["traceEvents"]}:
        spans = sorted(
            (e["ts"], e["ts"] + e["dur"])
            for e in trace["traceEvents"]
            if e["ph"] == "X" and e["tid"] == tid
        )
        for (start, end), (after, until) in pairwise(spans):
            assert after >= end - 0.002 or until <= end + 0.002, (start, end, after, until)
    return trace["traceEvents"]


def named(events, track):
    return [event["name"] for event in events if event["ph"] == "X" and event["cat"] == track]


def test_gaps_are_where_no_kernel_runs():
    line = Timeline(1.0, (), (Span(0.1, 0.2, 0), Span(0.25, 0.05, 1), Span(0.5, 0.5, 2)))
    assert line.gaps == (Span(0.0, 0.1), pytest.approx(Span(0.3, 0.2)))
    assert line.busy == pytest.approx(0.7)


def test_launches_of_one_call_lie_within_it():
    a, b, c = NODES
    call = 10.001, 10.004
    steps = [
        NodeStep(a, 0.001, 8, 10.0015, call),
        NodeStep(b, 0.0005, 8, 10.003, call),
        NodeStep(c, 0.0002, 8, 10.0045, (10.0045, 10.0047)),
    ]
    line = run_of(10.0, 10.005, steps, {a.id: 0, b.id: 1, c.id: 2})
    assert [span.row for span in line.calls] == [-1, 2]
    assert [round(span.start, 6) for span in line.kernels] == [0.0015, 0.003, 0.0045]
    assert line.note == ""


def test_a_clock_of_its_own_is_moved_to_the_call():
    a, b, _ = NODES
    call = 10.001, 10.004
    steps = [NodeStep(a, 0.001, 8, 77.0, call), NodeStep(b, 0.001, 8, 77.0015, call)]
    line = run_of(10.0, 10.005, steps, {a.id: 0, b.id: 1})
    assert [round(span.start, 6) for span in line.kernels] == [0.001, 0.0025]


def test_a_device_without_starts_has_its_kernels_in_a_row_and_says_so():
    a, b, _ = NODES
    steps = [NodeStep(n, 0.001, 8, None, (10.001, 10.004)) for n in (a, b)]
    line = run_of(10.0, 10.005, steps, {a.id: 0, b.id: 1})
    assert [round(span.start, 6) for span in line.kernels] == [0.001, 0.002]
    assert line.note == "the device does not say when each kernel began: one after the other"


def test_times_without_a_run_are_laid_out_and_say_so(tmp_path):
    rows = tuple(Timing(n, "launch", n, f"%{n}", (), (0.001,), how="modelled") for n in "ab")
    path = tmp_path / "t.json"
    Timings("main", rows, "modelled", "a machine").save_trace(path)
    events = checked(path.read_text("utf-8"))
    assert named(events, "kernels") == ["a %a", "b %b"]
    assert named(events, "gaps") == named(events, "launches") == []
    assert json.loads(path.read_text("utf-8"))["otherData"]["note"] == laid([0.001]).note


def test_a_run_is_written_as_a_trace(tmp_path, monkeypatch):
    need("cc")
    rates = PeakRates.stated("a machine", gflops=100, gbytes=10)
    monkeypatch.setattr(measure, "peak_rates", lambda: rates)
    cx = ll.Graph()
    x = cx.tensor((64, 64), name="x").set(np.ones((64, 64)))
    y = cx.function(np.sort, x, shape=(64, 64), name="sort")
    (y.softmax(-1) @ x).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    times = cx.time(rounds=3)
    path = tmp_path / "t.json"
    times.save_trace(path)
    events = checked(path.read_text("utf-8"))
    tracks = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks == set(TRACKS)
    assert named(events, "Python") == ["run main"]
    assert named(events, "launches") == ["host_call", "launch kernels"]
    assert named(events, "kernels") == list(times.labels)
    assert "no kernel runs" in named(events, "gaps")
    line = times.timeline
    assert line is not None
    for kernel in line.kernels[1:]:
        assert line.calls[1].start <= kernel.start
        assert kernel.end <= line.calls[1].end + 1e-6
    # It is kept with the times.
    assert Timings.from_json(times.to_json()).timeline == line


def test_the_interpreters_run_has_a_timeline_too(tmp_path):
    cx = ll.Graph()
    cx.tensor((4,), name="x").set([1, 2, 3, 4]).exp().sum(0).retrieve()
    times = cx.time(rounds=1, warm_up=0)
    times.save_trace(tmp_path / "t.json")
    events = checked((tmp_path / "t.json").read_text("utf-8"))
    assert named(events, "kernels") == list(times.labels)
    assert named(events, "launches") == []


def test_a_folder_that_is_not_there(tmp_path):
    path = tmp_path / "absent" / "t.json"
    error = error_of(lambda: Timings("main", ()).save_trace(path), RecordingError)
    assert error.message == f"trace: {path} cannot be written: there is no folder 'absent'"
