"""By how much the clocks of workers differ, told by when they came to exchanges and left."""

import random

import pytest

import luminal_lab as ll
from luminal_lab.workers.clocks import Clocks, Reading, clocks_of


def exchanges(mesh: ll.Mesh, ahead: list[float], draw: random.Random) -> list[list[Reading]]:
    """Return what workers would read: each is late now and then, and hears of the last one late."""
    seen = [list[Reading]() for _ in ahead]
    now = [draw.random() for _ in ahead]
    for axis in [axis for axis in mesh.sizes for _ in range(4)]:
        came = [at + draw.random() for at in now]
        for rank, clock in enumerate(ahead):
            all_there = max(came[other] for other in mesh.group(rank, axis))
            now[rank] = all_there + draw.random() / 10
            seen[rank].append(Reading(axis, came[rank] + clock, now[rank] + clock))
    return seen


@pytest.mark.parametrize("axes", [{"data": 2}, {"data": 5}, {"data": 2, "model": 3}])
def test_planted_differences_are_found_as_exactly_as_is_said(axes: dict[str, int]) -> None:
    mesh, draw = ll.Mesh(**axes), random.Random(4)
    for _ in range(20):
        ahead = [0.0, *(draw.uniform(-1e3, 1e3) for _ in range(mesh.workers - 1))]
        found = clocks_of(mesh, exchanges(mesh, ahead, draw))
        assert found.within is not None
        assert 0 < found.within < 3
        for clock, planted in zip(found.ahead, ahead, strict=True):
            assert abs(clock - planted) <= found.within


def test_the_tightest_of_some_exchanges_counts() -> None:
    wide, tight = (0.0, 9.0), (20.0, 21.0)
    one, other = [[Reading("data", *times) for times in (wide, tight)] for _ in range(2)]
    assert clocks_of(ll.Mesh(data=2), [one, other]) == Clocks((0.0, 0.0), 1.0)


def test_threads_have_one_clock() -> None:
    assert clocks_of(ll.Mesh(data=2), [[], []]) == Clocks((0.0, 0.0), None)
