"""Whose turn it is: the region that gains has most of the batches, and nobody waits for ever."""

from collections import Counter

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.search.allocation import Claim, next_turn
from luminal_lab.search.assembled import apart
from luminal_lab.search.graph import search_program
from tests.search.planted import Gains

DEVICE = ll.CPUCompiler(threads=2)


def turns(gains: dict[int, float], weights: dict[int, float], count: int) -> Counter[int]:
    """Return who has how many of so many turns, if each gains the same every time."""
    had = Counter[int]()
    for _ in range(count):
        had[next_turn({key: Claim(weights[key], gains[key], had[key]) for key in gains})] += 1
    return had


def test_turns_are_in_proportion_to_time():
    assert turns({0: 0.0, 1: 0.0}, {0: 3.0, 1: 1.0}, 40) == {0: 30, 1: 10}


def test_and_to_what_is_gained():
    had = turns({0: 0.0, 1: 0.18}, {0: 1.0, 1: 1.0}, 66)
    assert had == {0: 6, 1: 60}


def test_who_had_no_turn_is_next_the_heaviest_first():
    order = [turns({0: 0.0, 1: 0.0, 2: 0.0}, {0: 1.0, 1: 3.0, 2: 2.0}, n) for n in (1, 2, 3)]
    assert [[*had] for had in order] == [[1], [1, 2], [1, 2, 0]]


@pytest.fixture(scope="module")
def fused() -> IR:
    """A graph of two products of the same size."""
    cx = ll.Graph()
    a, b = cx.tensor((70, 60), name="a"), cx.tensor((60, 50), name="b")
    (a @ b).retrieve()
    (b.T @ a.T).retrieve()
    return ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir


@pytest.mark.share("gaining, output", [("matmul", "f32[50, 70])"), ("matmul_2", "f32[70, 50])")], 1)
def test_the_region_that_gains_has_the_batches(fused: IR, gaining: str, output: str):
    """By recorded times: what gains a tenth with each batch, beside what has nothing to gain."""
    budget = ll.Budget(candidates=160)
    search = search_program(fused, DEVICE, budget=budget, worker=Gains(output))
    had = {name: region.driver.drawn for name, region in search.kernels.items()}
    other = had.pop(next(name for name in had if name != gaining))
    assert 2 <= other <= had[gaining] / 2
