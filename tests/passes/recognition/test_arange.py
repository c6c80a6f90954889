"""Counting: in steps, in floats, by a running sum; and iotas that something else is made of."""

import pytest

from luminal_lab.session import Graph
from tests.passes.recognition.spelled import all_of_it, recognised, spelled
from tests.passes.running import check_pass


def counted(*arguments, **options):
    cx = Graph()
    cx.arange(*arguments, **options).retrieve()
    return cx.ir


@pytest.mark.parametrize(
    "ir",
    [
        counted(2, 11, 3),
        counted(1, "n"),
        counted(0, 10, 2),
        counted(0.5, 4.0, 0.5),
        counted(2, 11, 3, dtype="float16"),
    ],
)
def test_spellings(ir):
    assert all_of_it(ir, "recognise") == "arange"


def test_a_running_sum_of_ones():
    ir = spelled(lambda x: x + x.full_like(1.0).cumsum(0), (6,))
    assert recognised(ir) == ["arange"]
    check_pass(ir, "recognise")


def test_near_misses():
    assert recognised(counted(5)) == []
    assert recognised(spelled(lambda x: x.cumsum(0), (6,))) == []
    assert recognised(spelled(lambda x: x + x.full_like(2.0).cumsum(0), (6,))) == []
    assert recognised(spelled(lambda x: x * x.graph.arange(3), (3,))) == []
