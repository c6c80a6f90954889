"""Advice in the workbench: given, asked for, kept in recordings, and in nobody's way."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.advice.finding import RECORDED, Advice, Finding, Gain
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.replies import Replies
from tests.needs import need

FOUND = Advice(
    "main",
    "a machine",
    0.002,
    (
        Finding(
            "graph-break",
            "graph_break() keeps two kernels apart",
            "why",
            "take it out",
            ("a.py:3",),
            "h = x.graph_break()",
            "mlp",
            (1,),
            Gain("measured", 2.0, 0.001, 1.9, 2.1, 0.0),
        ),
    ),
    1,
)


@pytest.fixture
def session(tmp_path, monkeypatch):
    need("cc")
    cx = ll.Graph()
    with cx.scope("mlp"):
        y = (cx.tensor((8, 8), name="x").set(np.ones((8, 8))) * 2).softmax(-1)
    y.retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx


def test_a_workbench_takes_advice_with_times(session):
    bench = session.workbench(session.time(rounds=1), FOUND)
    facts = bench.subjects[0].facts
    assert facts.advice == FOUND
    assert len(facts.times) == 1


def test_launches_know_who_wrote_them(session):
    (launch,) = session.workbench().subjects[0].facts.launches
    assert sum(launch.shares) == pytest.approx(1, abs=1e-3)
    assert len(launch.shares) == len(launch.origins)
    assert launch.scopes == (("mlp", 1.0),)
    assert launch.family == "reduction"


def test_a_recording_keeps_advice_and_says_that_it_is_recorded(session, tmp_path):
    session.save(tmp_path / "run.lab", FOUND)
    (subject,) = ll.open(tmp_path / "run.lab").workbench().subjects
    assert subject.facts.advice is not None
    assert subject.facts.advice.findings == FOUND.findings
    assert subject.facts.advice.notes == (RECORDED,)


def test_the_page_asks_and_gets_the_sessions_advice(session, monkeypatch):
    monkeypatch.setattr(type(session), "advise", lambda self: FOUND)
    held = Held([session._backed("workbench")])
    shown: list[int] = []
    replies = Replies(held, lambda: shown.append(1))
    reply: Any = replies.answer({"ask": "advise", "run": 0})
    assert reply == {"text": "main: 2 ms a run on a machine"}
    assert held.all[0].subject.facts.advice == FOUND
    assert shown == [1]


def test_another_run_than_the_sessions_own_is_refused(session):
    held = Held([session._backed("workbench")])
    session.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    reply = Replies(held, lambda: None).answer({"ask": "advise", "run": 0})
    assert "this run is not the last compile of its session" in reply["error"]


def test_the_page_asks_for_assembly(session):
    held = Held([session._backed("workbench")])
    reply = Replies(held, lambda: None).answer({"ask": "assembly", "run": 0, "kernel": 0})
    assert reply["of"] == "c"
    assert reply["lines"]
    assert "ret" in reply["text"]
