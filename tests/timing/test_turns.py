"""Two things in turns: who goes first alternates, and what is too close to say is said."""

import pytest

from luminal_lab.timing import turns as timed
from luminal_lab.timing.turns import Turns, bounds_of, in_turns


def test_the_ratio_and_its_bounds():
    turns = Turns((2.0, 4.0, 3.0, 2.2, 2.1, 2.0), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0))
    assert turns.ratio == pytest.approx(2.15)
    assert turns.bounds == (2.0, 4.0)
    assert turns.is_sure
    assert not Turns((1.0,) * 6, (1.1, 0.9) * 3).is_sure
    assert Turns((1.0,) * 3, (0.5,) * 3).bounds is None


def test_few_samples_have_no_bounds():
    assert bounds_of([1.0] * 5) is None
    assert bounds_of([float(k) for k in range(6)]) == (0.0, 5.0)


def test_what_it_says():
    turns = Turns((0.002,) * 8, (0.001,) * 8, busy=1.5)
    assert str(turns) == (
        "2 ms and 1 ms: 2.00× (2.00 to 2.00); measured while other programs kept 1.5 cores busy, "
        "in turns"
    )
    assert str(Turns((2e-6, 1e-6) * 4, (1e-6, 2e-6) * 4)).endswith(
        "; too close, or too disturbed, to say which is faster"
    )


def test_both_run_in_each_turn_and_the_first_alternates(monkeypatch):
    monkeypatch.setattr(timed, "TURN", 0.0)
    calls = []
    turns = in_turns(lambda: calls.append("a"), lambda: calls.append("b"), seconds=0.0)
    assert len(turns.first) == len(turns.second) == timed.FEWEST
    runs = "".join(calls)[4:]  # without those that warm up
    assert runs[: 4 * timed.LEAST] == "bbbaaaaaabbb"


def test_a_turn_is_its_best_run(monkeypatch):
    clock = iter([0.0, 0.0, 5.0, 5.0, 6.0, 6.0, 9.0])
    monkeypatch.setattr(timed, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(timed, "sleep", lambda seconds: None)
    assert timed._turn(lambda: None) == 1.0
