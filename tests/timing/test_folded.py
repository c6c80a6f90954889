"""Times folded by module, line and kind: the parts add up, and who wrote more takes more."""

from dataclasses import replace

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from luminal_lab.timing.folded import Part
from luminal_lab.timing.timings import Timing, Timings
from tests.expect import error_of
from tests.needs import need

MS = 1e-3
FUSED = Timing(
    "matmul_relu",
    "launch",
    "matmul_relu",
    "%4",
    ("a.py:1", "a.py:2"),
    (4 * MS,),
    family="product",
    parts=(Part("h.0.mlp", "a.py:1", 0.75), Part("h.1", "a.py:2", 0.25)),
)
OLD = Timing("softmax", "launch", "softmax", "%9", ("a.py:2",), (1 * MS,))
TIMES = Timings("main", (FUSED, OLD), device="a machine")


def test_a_kernel_of_several_lines_is_divided_by_what_each_has_written():
    lines = TIMES.by("line")
    assert [(row.name, row.seconds) for row in lines] == [
        ("a.py:1", pytest.approx(3 * MS)),
        ("a.py:2", pytest.approx(2 * MS)),
    ]
    assert lines["a.py:2"].launches == (0, 1)
    assert lines[0].share == pytest.approx(0.6)


@pytest.mark.parametrize("by", ["scope", "line", "kind"])
def test_the_parts_are_the_whole(by):
    assert TIMES.by(by).seconds == pytest.approx(TIMES.launches)
    assert sum(row.share for row in TIMES.by(by)) == pytest.approx(1.0)


def test_scopes_fold_to_a_depth():
    assert [row.name for row in TIMES.by("scope")] == ["h.0.mlp", "h.1", "(no scope)"]
    assert [row.name for row in TIMES.by("scope", depth=1)] == ["h", "(no scope)"]
    assert TIMES.by("module") == TIMES.by("scope")
    assert [row.name for row in TIMES.by("kind")] == ["product", "other"]


def test_the_table():
    text = str(replace(TIMES, busy=1.5).by("line")).splitlines()
    assert text[:4] == [
        "main by line, measured on a machine, 1 thread",
        "   ms  share  launches  line",
        "3.000    60%         1  a.py:1",
        "2.000    40%         2  a.py:2",
    ]
    assert text[-1] == "measured while other programs kept 1.5 cores busy"
    need("pandas")
    table = TIMES.by("kind").to_pandas()
    assert list(table["kind"]) == ["product", "other"]


def test_what_cannot_be_asked():
    error = error_of(lambda: TIMES.by("modul"), ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "timings: by is 'modul'"
    assert error.hint == 'give "module", "line" or "kind", as in times.by("line")'
    error = error_of(lambda: TIMES.by("scope", depth=0), ArgumentError)
    assert error.message == "timings: depth is 0"
    error = error_of(lambda: TIMES.by("kind")["copy"], GraphError)
    assert error.message == "timings: by kind there is no 'copy'"


def test_a_model_is_folded_by_its_modules_and_what_it_does(tmp_path, monkeypatch):
    need("cc")
    rates = PeakRates.stated("a machine", gflops=100, gbytes=10)
    monkeypatch.setattr(measure, "peak_rates", lambda: rates)
    cx = ll.Graph()
    x = cx.tensor((64, 64), name="x").set(np.ones((64, 64)))
    w = cx.tensor((64, 64), name="w").set(np.ones((64, 64)))
    with cx.scope("first"):
        h = x @ w
        h = h.relu()
    with cx.scope("second"):
        h.softmax(-1).retrieve()
        cx.function(np.sort, x, shape=(64, 64), name="sort").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    times = cx.time(rounds=2)
    assert {row.name for row in times.by("scope")} == {"first", "second"}
    assert {row.name for row in times.by("kind")} == {"product", "reduction", "Python"}
    fused = next(row for row in times if row.family == "product")
    # Of the product and its relu, nearly all is the product's line.
    assert [part.share > 0.9 for part in fused.parts] == [True, False]
    for by in ("scope", "line", "kind"):
        assert times.by(by).seconds == pytest.approx(times.launches)


def test_the_interpreters_nodes_have_kinds():
    cx = ll.Graph()
    x = cx.tensor((3, 4), name="x").set(np.ones((3, 4)))
    (x.exp().sum(-1)).retrieve()
    x.gather(1, cx.tensor((3, 1), "int32", name="i").set([[0], [1], [2]])).retrieve()
    kinds = {row.name: row.family for row in cx.time(rounds=1, warm_up=0)}
    assert kinds["sum_reduce"] == "reduction"
    assert kinds["gather"] == "gather"
