"""Runs that do nothing but launch return what other runs return, and nothing else."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu import straight
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.cpu.straight import StraightRun
from tests.needs import need


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[StraightRun]:
    """Return a list that straight runs are added to."""
    need("cc")
    runs: list[StraightRun] = []
    run = StraightRun.run

    def noted(self: StraightRun, environment: Any) -> Any:
        runs.append(self)
        return run(self, environment)

    monkeypatch.setattr(StraightRun, "run", noted)
    return runs


def compiled(cx: ll.Graph, **options: Any) -> CPUProgram:
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(**options))
    program = cx.compilation.runner
    assert isinstance(program, CPUProgram)
    return program


def test_values_that_are_kept_stay_what_they_were(runs):
    cx = ll.Graph()
    x = cx.tensor((3,), name="x")
    doubled, squared = (x * 2).retrieve(), (x * x).retrieve()
    compiled(cx)
    seen = []
    for step in range(4):
        x.set([step, 1, 2])
        cx.execute()
        seen.append((doubled.numpy(), squared.numpy()))
    assert len(runs) == 4
    assert len(set(runs)) == 1
    for step, (twice, square) in enumerate(seen):
        np.testing.assert_array_equal(twice, [2 * step, 2, 4])
        np.testing.assert_array_equal(square, [step * step, 1, 4])


def test_sizes_of_dims_have_runs_of_their_own(runs):
    cx = ll.Graph()
    x = cx.tensor(("n",), name="x")
    y = (x.exp() / x.exp().sum()).retrieve()
    compiled(cx)
    for size in (3, 5, 3):
        x.set(np.zeros(size))
        cx.execute()
        np.testing.assert_allclose(y.numpy(), 1 / size, rtol=1e-6)
    assert runs[0] is runs[2] is not runs[1]


def test_an_index_out_of_range_is_told_as_always(runs):
    cx = ll.Graph()
    table = cx.tensor((4, 2), name="table").set(np.arange(8).reshape(4, 2))
    at = cx.tensor((2,), "int64", "at").set([1, 3])
    y = (table[at] * 1.5).retrieve()
    compiled(cx)
    cx.execute()
    at.set([1, 9])
    with pytest.raises(ll.RangeError, match=r"the index at \(1, 0\) is 9"):
        cx.execute()
    at.set([0, 3])
    cx.execute()
    assert y.tolist() == [[0, 1.5], [9, 10.5]]
    assert len(runs) == 3


def test_too_little_memory_is_told_as_always(runs, monkeypatch):
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    y = (x * 2).retrieve()
    program = compiled(cx)
    cx.execute()

    def full(size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(program.blocks, "take", full)
    x.set([4, 5, 6])
    with pytest.raises(ll.DeviceError, match=r"out of memory: the program needs") as error:
        cx.execute()
    assert "the largest values" in str(error.value)
    monkeypatch.undo()
    cx.execute()
    assert y.tolist() == [8, 10, 12]


def carried(cx: ll.Graph, x: ll.Tensor) -> None:
    cx.carry(x + 1, x)


def probed(cx: ll.Graph, x: ll.Tensor) -> None:
    cx.probe((x * 3).retrieve(), lambda value: None)


def passed(cx: ll.Graph, x: ll.Tensor) -> None:
    x.retrieve()


def twice(cx: ll.Graph, x: ll.Tensor) -> None:
    (x * 5).retrieve()
    (x * 5).retrieve()


@pytest.mark.parametrize("more", [carried, probed, passed, twice])
def test_whatever_needs_more_than_launches_runs_as_always(runs, more):
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).retrieve()
    more(cx, x)
    compiled(cx)
    cx.execute()
    assert y.tolist() == [2, 4]
    assert not runs or more is twice  # which fusion may make one value of


@pytest.mark.parametrize("options", [{"reuse_outputs": True}])
def test_memory_that_is_used_again_is_found_as_always(runs, options):
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 2).retrieve()
    compiled(cx, **options)
    cx.execute()
    assert y.tolist() == [2, 4]
    assert not runs


def test_a_planted_fault_is_seen(runs, monkeypatch):
    launch = straight.launch
    monkeypatch.setattr(straight, "launch", lambda *given: None)
    cx = ll.Graph()
    x = cx.tensor((64,), name="x").set(np.arange(64))
    y = (x * 2).retrieve()
    compiled(cx)
    cx.execute()
    assert y.tolist() != list(range(0, 128, 2))
    monkeypatch.setattr(straight, "launch", launch)
    x.set(np.arange(64))
    cx.execute()
    assert y.tolist() == list(range(0, 128, 2))
