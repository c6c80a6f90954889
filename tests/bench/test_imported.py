"""Turns of two sides in one process: when they begin, and who is first."""

from functools import partial
from unittest.mock import patch

from luminal_lab.bench.studies import imported


def test_a_turn_begins_once_no_thread_of_the_process_computes() -> None:
    clock = [0.0, 0.03, 0.03, 0.05, 0.05, 0.051, 0.051, 0.2]  # before and after each rest
    with patch.object(imported, "time") as time:
        time.process_time.side_effect = clock
        imported.settled()
    assert time.sleep.call_count == 3
    with patch.object(imported, "time") as time:
        time.process_time.side_effect = range(999)  # it never ends
        imported.settled()
    assert time.sleep.call_count == imported.RESTS


def test_each_side_is_first_in_turn() -> None:
    order: list[str] = []
    sides = {side: partial(order.append, side) for side in "abc"}
    with patch.multiple(imported, TURN=0.0, REST=0.0):
        times = imported.measured(sides, 3)
    assert "".join(order) == "aabbcc" + "bbccaa" + "ccaabb"  # one call wakes up, one is timed
    assert {side: len(each) for side, each in times.items()} == {"a": 3, "b": 3, "c": 3}
