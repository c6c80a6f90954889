"""Turns of two sides in one process: when they begin, and who is first."""

import threading
import time
from functools import partial
from unittest.mock import patch

from luminal_lab.bench.studies import imported


def test_a_turn_begins_once_no_thread_of_the_process_computes() -> None:
    stop = time.monotonic() + 0.3

    def look_for_work() -> None:
        while time.monotonic() < stop:
            pass

    spinning = threading.Thread(target=look_for_work)
    spinning.start()
    imported.settled()
    assert not spinning.is_alive()


def test_each_side_is_first_in_turn() -> None:
    order: list[str] = []
    sides = {side: partial(order.append, side) for side in "abc"}
    with patch.multiple(imported, TURN=0.0, REST=0.0):
        times = imported.measured(sides, 3)
    assert "".join(order) == "aabbcc" + "bbccaa" + "ccaabb"  # one call wakes up, one is timed
    assert {side: len(each) for side, each in times.items()} == {"a": 3, "b": 3, "c": 3}
