"""Products by several checkouts, in turns: a side's process, and what is made of its times."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from luminal_lab.bench.paired import package_root
from luminal_lab.bench.studies.sides import CheckoutSide, gain, turns
from luminal_lab.errors import DeviceError


@pytest.fixture
def side(tmp_path: Path) -> Iterator[CheckoutSide]:
    side = CheckoutSide("ours", package_root(), tmp_path)
    yield side
    side.end()


def test_a_side_computes_a_product_by_some_schedule(side: CheckoutSide):
    side.prepare((5, 6, 7))
    assert side.turn(2) > 0
    side.prepare((5, 6, 7), "parallel i")
    assert side.turn(1) > 0
    with pytest.raises(DeviceError, match="the side 'ours' has ended"):
        side.prepare((5, 6, 7), "parallel nothing")


def test_turns_change_their_order_and_gains_are_of_minima_and_of_pairs():
    order: list[str] = []

    class Known(CheckoutSide):
        def __init__(self, name: str) -> None:
            self.name = name

        def turn(self, rounds: int | None = None) -> float:
            order.append(self.name)
            return {"old": 3.0, "default": 2.0, "best": 1.0}[self.name] + len(order) % 3

    times = turns({name: Known(name) for name in ("old", "default", "best")})
    assert order[:6] == ["old", "default", "best", "default", "best", "old"]
    assert {len(seconds) for seconds in times.values()} == {40}
    times = {"old": [4.0, 6.0, 8.0], "best": [2.0, 2.0, 8.0]}
    assert gain(times, "best") == (2.0, 2.0)
    assert gain({"old": [4.0, 6.0, 8.0], "best": [4.0, 2.0, 2.0]}, "best") == (2.0, 3.0)
