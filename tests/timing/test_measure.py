"""`cx.time()`: what is timed, what stays as it was, and what the model says without a run."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DimError, GraphError, InputError, LabWarning
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from tests.expect import error_of, state
from tests.needs import need

RATES = PeakRates.stated("a machine", gflops=100, gbytes=10, threads=2)


@pytest.fixture(autouse=True)
def _rates(monkeypatch):
    """Measure no rates: that takes a second."""
    monkeypatch.setattr(measure, "peak_rates", lambda: RATES)


@pytest.fixture
def _compiler():
    need("cc")


def written():
    cx = ll.Graph()
    x = cx.tensor((8, 16), name="x").set(np.ones((8, 16)))
    y = (x.exp() * 2).sum(-1).retrieve()
    return cx, x, y


def test_the_interpreter_is_timed_node_by_node_and_says_so():
    cx, _, _ = written()
    times = cx.time(rounds=3, warm_up=1)
    assert {row.kind for row in times} == {"node"}
    assert [row.name for row in times][-1] == "sum_reduce"
    assert all(len(row.samples) == 3 for row in times)
    assert len(times.whole) == 3
    assert times.how == "measured"
    assert times.note.startswith("the interpreter: NumPy computes node by node")
    assert times["sum_reduce"].flops == 128
    assert times["sum_reduce"].bytes == 4 * (128 + 8)
    assert times["sum_reduce"].origins[0].startswith("test_measure.py:")


def test_nothing_but_the_clock_moves():
    cx, _, y = written()
    before = state(cx)
    cx.time(rounds=2)
    assert state(cx) == before
    cx.execute()
    before = state(cx)
    cx.time(rounds=2)
    assert state(cx) == before
    assert y.numpy().shape == (8,)


def test_missing_inputs_are_the_usual_error():
    cx = ll.Graph()
    cx.tensor((3,), name="x").exp().retrieve()
    error = error_of(cx.time, InputError)
    assert error.message == "execute: the input %x was never set; it is f32[3]"
    error = error_of(ll.Graph().time, GraphError)
    assert error.message == "time: nothing is retrieved, so there is nothing to compute"
    assert not cx.running


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ({"rounds": 0}, "time: rounds is 0", "give a whole number, 1 to 1,000,000"),
        (
            {"rounds": 10**30},
            f"time: rounds is {10**30}",
            "give a whole number, 1 to 1,000,000",
        ),
        ({"warm_up": -1}, "time: warm_up is -1", "give a whole number, 0 to 1,000,000"),
        (
            {"dims": {"n": 3}},
            "time: dims are sizes for a model, and here the data has them",
            "give data of that size, or the rates of a machine as model=",
        ),
    ],
)
def test_arguments_that_cannot_be(given, message, hint):
    cx, _, _ = written()
    error = error_of(lambda: cx.time(**given), ArgumentError)
    assert (error.message, error.hint) == (message, hint)
    assert "test_measure.py" in error.where


def test_the_model_needs_no_data_but_sizes():
    cx = ll.Graph()
    x = cx.tensor(("n", 1000), name="x")
    (x + x).retrieve()
    error = error_of(lambda: cx.time(model=RATES), DimError)
    assert error.message == "time: the dim 'n' has no size, and without data none is known"
    assert error.hint == 'give it one, as in time(model=…, dims={"n": 128})'
    times = cx.time(model=RATES, dims={"n": 1000})
    (row,) = times
    assert (row.how, times.how, times.device) == ("modelled", "modelled", "a machine")
    assert row.seconds == pytest.approx(8_000_000 / 10e9)
    assert row.share == pytest.approx(1.0)
    assert "~0.800" in str(times) or "~800.000" in str(times)


def test_the_size_of_data_counts_in_a_model():
    cx = ll.Graph()
    x = cx.tensor(("n",), name="x").set(np.ones(1000))
    (x + x).retrieve()
    cx.execute()
    assert cx.time(model=RATES)[0].bytes == 8000


def test_the_model_of_a_compiled_graph_has_its_launches():
    cx = ll.Graph()
    x = cx.tensor((64, 64), name="x")
    x.softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler())
    assert "launch" in {row.kind for row in cx.time(model=RATES)}


@pytest.mark.usefixtures("_compiler")
def test_a_compiled_program_is_timed_launch_by_launch():
    cx, x, _ = written()
    cx.function(np.sort, x, shape=(8, 16), name="sort").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=2))
    times = cx.time(rounds=3)
    kinds = {row.name: row.kind for row in times}
    assert kinds.pop("host_call") == "host"
    assert set(kinds.values()) == {"launch"}
    assert {row.name for row in times if row.kind == "launch"} == {k.name for k in cx.kernels}
    assert times.threads == 2
    assert times.clock == "monotonic, read in C"
    launch: Any = next(row for row in times if row.kind == "launch")
    assert launch.limit.seconds > 0
    assert launch.flops > 0
    assert launch.origins[0].startswith("test_measure.py:")
    assert len(times.whole) == 3


@pytest.mark.usefixtures("_compiler")
def test_a_launch_knows_all_lines_that_it_comes_from():
    cx = ll.Graph()
    x = cx.tensor((8,), name="x").set(np.ones(8))
    y = x.sin()
    z = y * 3
    z.retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (row,) = cx.time(rounds=1)
    lines = [int(origin.partition(":")[2]) for origin in row.origins]
    written: list[Any] = [y.node.meta.origin, z.node.meta.origin]
    assert lines == [origin.line for origin in written]


@pytest.mark.usefixtures("_compiler")
def test_a_graph_that_has_changed_is_compiled_again():
    cx, x, _ = written()
    cx.compile(ll.CPUCompiler())
    (x * 3).retrieve()
    with pytest.warns(LabWarning, match="is compiled again"):
        times = cx.time(rounds=1)
    assert len(times) == 2


@pytest.mark.usefixtures("_compiler")
def test_what_is_carried_is_not_written_over():
    cx = ll.Graph()
    old = cx.tensor((4, 3), name="cache").set(np.zeros((4, 3)))
    row = cx.tensor((1, 3), name="row").set(np.ones((1, 3)))
    new = cx.carry(old.update(row, "p"), old)
    cx.set_dim("p", 1)
    cx.compile(ll.CPUCompiler())
    cx.execute()
    cx.set_dim("p", 2)
    before = old.numpy().copy()
    times = cx.time(rounds=3)
    np.testing.assert_array_equal(old.numpy(), before)
    assert "copy what is carried" in times.note
    cx.execute()
    np.testing.assert_array_equal(new.numpy()[:, 0], [0, 1, 1, 0])


@pytest.mark.usefixtures("_compiler")
def test_a_run_above_the_roof_measures_the_roof_anew(monkeypatch):
    low = PeakRates.stated("a machine", gflops=1e-9, gbytes=1e9)
    high = PeakRates.stated("a machine", gflops=1e9, gbytes=1e9)
    asked: list[PeakRates] = []
    monkeypatch.setattr(measure, "peak_rates", lambda: low)
    monkeypatch.setattr(measure, "better_rates", lambda known: asked.append(known) or high)
    cx, _, _ = written()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    times = cx.time(rounds=1)
    assert asked == [low]
    assert times.rates is high
    assert all((row.share or 0) <= 1 for row in times)


@pytest.mark.usefixtures("_compiler")
def test_what_is_still_above_the_roof_says_that_the_roof_is_in_doubt(monkeypatch):
    low = PeakRates.stated("a machine", gflops=1e-9, gbytes=1e9)
    monkeypatch.setattr(measure, "peak_rates", lambda: low)
    cx, _, _ = written()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    times = cx.time(rounds=1)
    assert any((row.share or 0) > 1 for row in times)
    assert any("that roof is in doubt" in doubt for doubt in times.doubts)
    found = ll.compare(cx, [ll.CPU(threads=1)], rounds=1)
    assert "that roof is in doubt" in str(found)
