"""When things happened in a run, and the file that Perfetto opens."""

import json
import random
import re
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import NodeStep
from luminal_lab.core.parse import parse
from luminal_lab.errors import RecordingError
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from luminal_lab.timing.timeline import TRACKS, Span, Timeline, chrome_trace, laid, run_of
from luminal_lab.timing.timings import Timing, Timings
from tests.expect import error_of
from tests.needs import need

TEXT = """graph g(%x: f32[2]) -> (%c) {
  %a = exp2 %x : f32[2]
  %b = exp2 %a : f32[2]
  %c = exp2 %b : f32[2]
}"""
NODES = parse(TEXT).nodes[-3:]


ARGUMENTS = {"process_name": {"name"}, "thread_name": {"name"}, "thread_sort_index": {"sort_index"}}
FIELDS = {
    "M": {"ph", "name", "pid", "tid", "args"},
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
}
READERS = {
    "digits, as Perfetto reads ts": lambda value: int(Decimal(str(value)) * 1000),
    "doubles cut off, as Perfetto reads dur": lambda value: int(value * 1000.0),
    "doubles": lambda value: value * 1000.0,
}
"""What programs make of a number of microseconds, in nanoseconds."""


def refuse(word):
    raise AssertionError(word)


def checked(text):
    """Return the events of a trace, once they keep the rules of Chrome's trace-event format.

    The rules are those of its specification, and what Perfetto's reader wants beyond them: it drops
    an event that overlaps another of its thread, and its older versions read no escapes of
    Unicode, and took `displayTimeUnit` for the unit of the times.
    """
    assert text.startswith('{"traceEvents": [{"ph": ')
    assert text.isprintable()
    assert "\\u" not in text.replace("\\\\", "")
    trace = json.loads(text, parse_constant=refuse)
    assert set(trace) == {"traceEvents", "otherData"}
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    threads = {}
    for event in trace["traceEvents"]:
        assert set(event) == FIELDS[event["ph"]]  # and so no B, E, flow or asynchronous event
        assert next(iter(event)) == "ph"
        assert isinstance(event["name"], str)
        assert type(event["pid"]) is type(event["tid"]) is int
        assert 0 < event["pid"] < 1 << 32 > event["tid"] > 0
        args, thread = event["args"], (event["pid"], event["tid"])
        if event["ph"] == "M":
            assert set(args) == ARGUMENTS[event["name"]]
            # A name comes once, and before what it is the name of.
            assert (event["name"], *thread) not in threads
            threads[event["name"], *thread] = args
            assert thread not in threads
            assert args.get("name", "one")
            assert type(args.get("sort_index", 1)) is int
        else:
            assert ("thread_name", *thread) in threads
            assert event["cat"] in TRACKS
            assert threads["thread_name", *thread]["name"].startswith(event["cat"])
            for time in (event["ts"], event["dur"]):
                assert isinstance(time, float)
                assert 0 <= time < float("inf")
                assert round(time, 3) == time
            assert all(isinstance(value, (str, int, float, bool)) for value in args.values())
            threads.setdefault(thread, []).append(event)
    assert ("process_name", 1, 1) in threads
    for events in (events for thread, events in threads.items() if len(thread) == 2):
        assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
        for read in READERS.values():
            spans = [(read(e["ts"]), read(e["ts"]) + read(e["dur"])) for e in events]
            for (_, end), (start, _) in pairwise(spans):
                assert start >= end
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


def written(line, *names):
    """Return the text of a trace with rows of some names."""
    rows = tuple(Timing(n, "launch", n, f"%{n}", (), (0.001,)) for n in names)
    return chrome_trace(Timings("main", rows, device="a machine", timeline=line))


def test_what_runs_at_once_has_lanes_of_its_own():
    spans = (Span(0.0, 0.5, 0), Span(0.2, 0.5, 1), Span(0.5, 0.1, 2), Span(0.2, 0.1, 3))
    events = checked(written(Timeline(1.0, (Span(0.0, 0.9),), spans), *"abcd"))
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(threads.values()) == [
        *("Python", "launches", "kernels", "kernels 2", "kernels 3", "gaps"),
    ]
    lanes = {e["name"]: threads[e["tid"]] for e in events if e.get("cat") == "kernels"}
    assert lanes == {
        "a %a": "kernels",
        "b %b": "kernels 3",
        "c %c": "kernels",
        "d %d": "kernels 2",
    }


def test_neighbours_stay_apart_whatever_digits_a_reader_cuts_off():
    drawn = random.Random(7)
    for _ in range(50):
        now, spans = 0.0, []
        for number in range(40):
            taken = drawn.choice([0.0, 1e-9, 3.3e-10, drawn.random() * 1e-6, drawn.random() * 1e-3])
            spans.append(Span(now, taken, number % 2))
            now += taken
        checked(written(Timeline(now, tuple(spans[::7]), tuple(spans)), *"ab"))


def test_names_are_written_so_that_every_reader_has_them():
    names = ['"quoted"', "back\\slash", "µs \u00e9 漢字 😀", "\x1b[2J\u202e", "two\tparts", ""]
    line = Timeline(1.0, (), tuple(Span(0.1 * at, 0.05, at) for at in range(len(names))))
    events = checked(written(line, *names))
    kernels = named(events, "kernels")
    assert kernels[2] == "µs é 漢字 😀 %µs é 漢字 😀"
    assert kernels[3] == r"\u001b[2J\u202e %\u001b[2J\u202e"


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([[-1.0, 1.0, 0]], "something took 1.0 s from -1.0 s on"),
        ([[0.0, -1.0, 0]], "something took -1.0 s from 0.0 s on"),
        ([[1e300, 1.0, 0]], "something took 1.0 s from 1e+300 s on"),
        ([[0.0, 1.0, 9]], "row 9 is timed, and there are 1"),
        ([[0.0, 1.0, -2]], "row -2 is timed, and there are 1"),
        ([[0.0, 1.0]], "a kernel belongs to no row"),
        ([[0.0]], "timings.timeline.kernels[0] is [0.0], not a list of 2"),
        ([[0.0, 1.0, 0, 0]], "not a list of 3"),
        ([["0", 1.0, 0]], "is '0', not a number"),
    ],
)
def test_a_timeline_from_a_file_that_cannot_be_is_refused(spans, said):
    row = Timing("a", "launch", "a", "%a", (), (0.001,))
    times = Timings("main", (row,), timeline=Timeline(1.0, (), (Span(0.0, 1.0, 0),)))
    stored = json.loads(times.to_json())
    assert Timings.from_json(json.dumps(stored)).timeline == times.timeline
    stored["timeline"]["kernels"] = spans
    with pytest.raises(RecordingError, match=re.escape(said)):
        Timings.from_json(json.dumps(stored))
