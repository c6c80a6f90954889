"""Runs that follow each other: what is asked for between them, compiled or not."""

import warnings
from copy import deepcopy

import pytest

import luminal_lab as ll
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


# -- what runs have in common ----------------------------------------------------------------------


def prepared() -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """Return a graph that has run, so that its next run is prepared."""
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).retrieve()
    cx.compile("simplify")
    cx.execute()
    x.set([3, 4])
    cx.execute()
    assert y.tolist() == [6, 8]
    assert cx._prepared is not None
    return cx, x, y


def test_equal_runs_share_what_was_prepared():
    cx, x, y = prepared()
    before = cx._prepared
    for step in range(3):
        x.set([step, 1])
        cx.execute()
        assert y.tolist() == [2 * step, 2]
        assert cx._prepared is before


def more_is_retrieved(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    z = (x + 1).retrieve()
    with pytest.warns(ll.LabWarning, match="has changed"):
        cx.execute()
    return z.tolist() == [6, 7]


def known_is_retrieved(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    x.retrieve()
    with pytest.warns(ll.LabWarning, match="has changed"):
        cx.execute()
    return x.tolist() == [5, 6]


def nothing_is_retrieved(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    y.drop()
    with pytest.raises(ll.GraphError, match="nothing is retrieved"):
        cx.execute()
    y.retrieve()
    cx.execute()
    return True


def something_is_probed(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    seen: list[list[float]] = []
    cx.probe(y, lambda value: seen.append(value.tolist()))
    cx.execute()
    return seen == [[10, 12]]


def something_is_carried(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    cx.carry(y, x)
    with pytest.warns(ll.LabWarning, match="has changed"):
        cx.execute()
    was = y.tolist()
    cx.execute()
    ok = (was, y.tolist()) == ([10, 12], [20, 24])
    x.set([5, 6])
    cx.execute()
    return ok


def it_is_compiled_again(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    before = cx.compilation
    cx.compile("dce")
    cx.execute()
    return cx._prepared is not None and cx._prepared.program is cx.compilation is not before


def a_compile_failed(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    with pytest.raises(ll.LabError):
        cx.compile("no such pass")
    with pytest.warns(ll.LabWarning, match="the last compile of the graph"):
        cx.execute()
    return True


def it_is_written_on(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    z = x - 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ll.LabWarning)
        cx.execute()
    return z.id in cx.ir


def everything_is_kept(cx: ll.Graph, x: ll.Tensor, y: ll.Tensor) -> bool:
    cx.execute(keep_all=True)
    return True


@pytest.mark.parametrize(
    "change",
    [
        more_is_retrieved,
        known_is_retrieved,
        nothing_is_retrieved,
        something_is_probed,
        something_is_carried,
        it_is_compiled_again,
        a_compile_failed,
        it_is_written_on,
        everything_is_kept,
    ],
)
def test_what_was_prepared_is_not_used_after(change):
    cx, x, y = prepared()
    before = cx._prepared
    x.set([5, 6])
    assert change(cx, x, y)
    assert y.tolist() == [10, 12]
    assert cx._prepared is not before


def test_a_copy_prepares_its_own_runs():
    cx, x, y = prepared()
    copy = deepcopy(cx)
    assert copy._prepared is None
    copy.execute()
    x.set([5, 6])
    cx.execute()
    assert y.tolist() == [10, 12]
    assert copy._prepared is not cx._prepared
