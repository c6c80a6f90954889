"""`cx.advise()`: what is planted is named at its line, and what is tried computes the same."""

import linecache
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.advice import advise as advising, trial
from luminal_lab.advice.finding import NOTHING, Gain
from luminal_lab.bench.studies.advice import PLANTED, planted
from luminal_lab.errors import ArgumentError, InputError, LabWarning
from luminal_lab.timing.turns import Turns
from tests.expect import error_of, state
from tests.needs import need

SMALL = 32
FASTER = Turns((0.002,) * 8, (0.001,) * 8)
SAME = Turns((0.001, 0.002) * 4, (0.002, 0.001) * 4)


@pytest.fixture
def case_of(monkeypatch):
    """Return the case of a session, as `advise` is given it."""

    def case(cx) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(advising, "advise", lambda case, budget: case)
            return cx.advise()

    return case


def named(suspects, kind):
    return next(suspect for suspect in suspects if suspect.kind == kind)


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_named_at_its_line_and_mended_with_the_same_values(name, case_of):
    one = PLANTED[name]
    case = case_of(planted(one.slow, SMALL, threads=1))
    suspect = named(advising.suspects(case), one.kind)
    origins = [case.written[id].meta.origin for id in suspect.nodes]
    texts = [linecache.getline(line.file, line.line) for line in origins if line is not None]
    assert any(one.marked in text for text in texts), texts
    assert suspect.variant is not None
    variant: Any = suspect.variant()
    other = trial.Running(trial._compiled(case, variant), trial._environment(case, variant))
    now = trial.Running(case.compilation, case.environment)
    assert trial._agree(now.values(), other.values())
    # It is another program: what was planted is gone.
    programs: list[Any] = [run.compilation.runner for run in (now, other)]
    assert programs[0].source != programs[1].source


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_mended_by_hand_has_no_such_suspect(name, case_of):
    one = PLANTED[name]
    case = case_of(planted(one.mended, SMALL, one.specialise, threads=1))
    assert one.kind not in [suspect.kind for suspect in advising.suspects(case)]


def test_a_finding_has_its_place_its_change_and_its_gain(monkeypatch):
    monkeypatch.setattr(trial, "in_turns", lambda first, second: FASTER)
    cx = planted(PLANTED["break"].slow, SMALL, threads=1)
    before = state(cx)
    advice = cx.advise()
    assert state(cx) == before
    (finding,) = [one for one in advice if one.kind == "graph-break"]
    assert finding.code == "h = (x * 2.0).graph_break()  # planted"
    assert finding.lines[0].startswith("planted.py:")
    assert finding.change == "take out graph_break()"
    assert (finding.gain.how, finding.gain.ratio) == ("measured", 2.0)
    assert (finding.gain.low, finding.gain.high) == (2.0, 2.0)
    text = str(advice)
    assert "1. graph_break() keeps two kernels apart: 2.00×" in text
    assert "(measured in turns, 2.00 to 2.00)" in text
    assert f"at      {finding.lines[0]}:  h = (x * 2.0).graph_break()  # planted" in text
    assert repr(advice) == "<Advice on planted: 1 finding; print(…) shows them>"
    need("pandas")
    assert list(advice.to_pandas()["kind"]) == ["graph-break"]


def test_what_is_not_surely_faster_is_no_advice(monkeypatch):
    monkeypatch.setattr(trial, "in_turns", lambda first, second: SAME)
    advice = planted(PLANTED["break"].slow, SMALL, threads=1).advise()
    assert len(advice) == 0
    assert f"{NOTHING}: 1 change was tried" in str(advice)
    left_out, longest = advice.notes
    start = "1 change was tried and left out, too close, or too busy to say: graph-break at planted"
    assert left_out.startswith(start)
    assert re.fullmatch(
        r"most of a run: \w+ at planted.py:\d+, \d+% of all launches; cx.time\(\) shows the rest",
        longest,
    )


def test_nothing_is_said_of_what_has_nothing():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set(np.ones(4))
    (x * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    advice = cx.advise()
    assert len(advice) == 0
    assert f"{NOTHING}: nothing was tried" in str(advice)


def test_bits_do_not_undo_each_other(case_of):
    cx = ll.Graph()
    x = cx.tensor((8,), "uint32", name="x").set(np.arange(8, dtype=np.uint32))
    (((x >> 4) << 4) ^ x.exp2().bitcast("uint32")).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert "undone" not in {suspect.kind for suspect in advising.suspects(case_of(cx))}


def test_a_change_of_values_is_no_advice(monkeypatch):
    monkeypatch.setattr(trial, "in_turns", lambda first, second: FASTER)
    monkeypatch.setattr(trial, "_close", lambda one, other: False)
    assert len(planted(PLANTED["break"].slow, SMALL, threads=1).advise()) == 0


def test_ctrl_c_keeps_what_was_found(monkeypatch):
    calls = []

    def turns(first, second):
        calls.append(first)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return FASTER

    monkeypatch.setattr(trial, "in_turns", turns)
    cx = ll.Graph()
    x = cx.tensor((64,), name="x").set(np.ones(64))
    h = (x * 2).graph_break()
    ((h + 1).graph_break() * x).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    advice = cx.advise()
    assert [finding.kind for finding in advice] == ["graph-break"]
    assert advice.notes[0] == "stopped by Ctrl-C: what was found by then is here"
    assert (x + 1).retrieve() is not None  # the session goes on


def test_a_budget_of_nothing_tries_nothing():
    advice = planted(PLANTED["break"].slow, SMALL, threads=1).advise(budget=0)
    assert advice.tried == 0
    assert "1 more could not be tried within 0 s: cx.advise(budget=…) allows more" in advice.notes
    error = error_of(lambda: planted(PLANTED["break"].slow, SMALL).advise(budget=-1), ArgumentError)
    assert error.message == "advise: budget is -1"


def test_a_graph_that_is_not_compiled_is_told_to(case_of):
    cx = ll.Graph()
    cx.tensor((4,), name="x").set(np.ones(4)).exp().retrieve()
    suspect = named(advising.suspects(case_of(cx)), "not-compiled")
    assert suspect.change == "cx.compile(ll.GenericCompiler(), ll.CPUCompiler())"


def test_a_probe_is_named_and_not_called(monkeypatch):
    monkeypatch.setattr(trial, "in_turns", lambda first, second: (first(), second(), FASTER)[2])
    seen = []
    cx = ll.Graph()
    h = cx.tensor((64,), name="x").set(np.ones(64)) * 2
    cx.probe(h, seen.append)
    (h + 1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    (finding,) = cx.advise()
    assert finding.kind == "probe"
    assert "* 2" in finding.code
    assert seen == []


def test_a_compile_again_is_named_with_the_line_that_made_it_old(monkeypatch):
    monkeypatch.setattr(trial, "in_turns", lambda first, second: SAME)
    cx = ll.Graph()
    x = cx.tensor((64,), name="x").set(np.ones(64))
    (x * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    (x * 3).retrieve()
    with pytest.warns(LabWarning, match="has changed since it was compiled"):
        advice = cx.advise()
    (finding,) = advice
    assert (finding.kind, finding.gain.how) == ("recompile", "measured")
    assert finding.code == "(x * 3).retrieve()"
    assert finding.gain.seconds > 0


def test_a_kernel_far_from_its_roof_is_only_modelled(case_of):
    cx = ll.Graph()
    (cx.tensor((64, 64), name="x").set(np.ones((64, 64))) * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    case = case_of(cx)
    (row,) = case.timings.rows
    slow = replace(row, samples=(1000 * row.limit.seconds,) * 5)
    case = replace(case, timings=replace(case.timings, rows=(slow,), whole=slow.samples))
    suspect = named(advising.suspects(case), "low-share")
    assert "cx.search" in suspect.change
    gain = advising.gain_of(suspect, None, slow.seconds)
    assert gain is not None
    assert gain.how == "modelled"
    assert gain.ratio == pytest.approx(1000, rel=1e-6)
    assert "at most" in str(gain)
    # Samples that do not agree say nothing.
    noisy = replace(slow, samples=tuple(slow.seconds * k for k in (1, 2, 3, 4)))
    case = replace(case, timings=replace(case.timings, rows=(noisy,)))
    assert "low-share" not in [one.kind for one in advising.suspects(case)]


def test_a_slow_kernel_is_at_the_line_of_most_of_its_work(case_of):
    cx = ll.Graph()
    x = cx.tensor((64, 64), name="x").set(np.ones((64, 64)))
    product = x @ x
    (product.reshape(8, 512) + 1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    case = case_of(cx)
    (row,) = case.timings.rows
    slow = replace(row, samples=(1000 * row.limit.seconds,) * 5)
    case = replace(case, timings=replace(case.timings, rows=(slow,), whole=slow.samples))
    suspect = named(advising.suspects(case), "low-share")
    gain = advising.gain_of(suspect, None, slow.seconds)
    assert gain is not None
    finding = advising.finding_of(case, suspect, gain)
    assert finding.code == "product = x @ x"
    assert finding.lines == slow.origins


def test_a_function_that_needs_arrays_is_named_and_not_tried(case_of):
    cx = ll.Graph()
    x = cx.tensor((8, 8), name="x").set(np.ones((8, 8)))
    cx.function(np.linalg.inv, x + np.eye(8, dtype="float32"), shape=(8, 8)).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    suspect = named(advising.suspects(case_of(cx)), "host-call")
    assert suspect.variant is None
    assert suspect.change == "write it with tensors, if you can"


def test_equal_lines_are_one_finding(case_of):
    cx = ll.Graph()
    x = cx.tensor((64,), name="x").set(np.ones(64))
    for _ in range(3):
        x = (x * 2).graph_break()
    x.retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    breaks = [s for s in advising.suspects(case_of(cx)) if s.kind == "graph-break"]
    assert [len(suspect.nodes) for suspect in breaks] == [3]


def test_data_is_needed():
    cx = ll.Graph()
    cx.tensor((4,), name="x").exp().retrieve()
    error = error_of(cx.advise, InputError)
    assert error.message == "execute: the input %x was never set; it is f32[4]"


def test_a_gain_in_words():
    gain = Gain("measured", 2.0, 0.001, 1.9, 2.1, 1.8)
    assert str(gain) == (
        "2.00×, 1 ms a run (measured in turns, 1.90 to 2.10, while other programs kept 1.8 cores "
        "busy)"
    )
    assert str(Gain("modelled", 3.0, 2e-5)) == "~3.00× at most, ~20 µs a run (modelled)"
