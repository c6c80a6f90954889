"""Runs that follow each other: what is asked for between them, compiled or not."""

import warnings

import pytest

from luminal_lab import Graph
from luminal_lab.errors import LabWarning, NotComputedError


@pytest.mark.parametrize("compiles", [False, True])
def test_what_is_asked_for_between_runs_counts_from_the_next_on(compiles: bool):
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    a = x * 2
    y = (a + 1).retrieve()
    if compiles:
        cx.compile()
    seen: list[float] = []

    def run(value: float, **options: bool) -> float:
        x.set([value, value])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabWarning)  # that it is compiled again
            cx.execute(**options)
        return float(y.numpy()[0])

    assert [run(1), run(2)] == [3, 5]
    a.keep()
    assert (run(3), a.numpy()[0]) == (7, 6)
    a.drop()
    assert run(4) == 9
    with pytest.raises(NotComputedError):
        a.numpy()
    assert run(5, keep_all=True) == 11
    assert run(6) == 13
    cx.probe(y, lambda value: seen.append(float(value[0])))
    assert [run(7), run(8), *seen] == [15, 17, 15, 17]
    cx.execute()
    assert len(seen) == 2  # nothing was newer
