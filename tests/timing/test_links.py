"""Links that are measured here, between workers that share a machine."""

from __future__ import annotations

from luminal_lab.timing.links import LARGE, SMALL, shared_link, threads_link


def test_threads_are_measured() -> None:
    link = threads_link()
    assert link.is_shared
    assert link.bandwidth.how == link.latency.how == "measured"
    assert link.bandwidth.value > 0 < link.latency.value


def test_latency_is_of_a_message_and_bandwidth_of_what_much_takes_beyond_little() -> None:
    link = shared_link("processes", (4e-6, 2e-3))  # a pair sends two messages for each sum
    assert link.latency.value == 2e-6
    assert abs(link.bandwidth.value * (2e-3 - 4e-6) - 4 * LARGE) < 1
    assert SMALL * 1000 < LARGE
    assert "two processes, measured here" in link.bandwidth.source
