"""Times folded by module, line and kind: the parts add up, and who wrote more takes more."""

import json
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
    parts=(Part("h.0.mlp", "a.py:1", 0.75, "h = x @ w"), Part("h.1", "a.py:2", 0.25)),
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
        "   ms  share  launches  line    code",
        "3.000    60%         1  a.py:1  h = x @ w",
        "2.000    40%         2  a.py:2",
    ]
    assert text[-1] == "measured while other programs kept 1.5 cores busy"
    need("pandas")
    table = TIMES.by("kind").to_pandas()
    assert list(table["kind"]) == ["product", "other"]
    assert "code" not in table
    assert list(TIMES.by("line").to_pandas()["code"]) == ["h = x @ w", ""]


def test_the_text_of_a_line_is_the_one_that_its_nodes_were_made_with(tmp_path):
    file = tmp_path / "model.py"
    code = "y = (x * 2).exp().sum().retrieve()"
    file.write_text(f"import luminal_lab as ll\n{code}\n", encoding="utf-8")
    cx = ll.Graph()
    names = {"x": cx.tensor((3,), name="x").set([1, 2, 3])}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), names)
    file.write_text("# another text\n" * 3, encoding="utf-8")
    times = cx.time(rounds=1)
    row = times.by("line")["model.py:2"]
    assert row.code == code
    assert code in str(times.by("line"))
    assert times.by("kind")[0].code == ""
    again = Timings.from_json(times.to_json())
    assert again.by("line")["model.py:2"].code == code


def test_a_file_without_texts_and_one_that_a_terminal_would_obey(tmp_path):
    stored = json.loads(TIMES.to_json())
    for part in stored["rows"][0]["parts"]:
        del part[3:]
    assert [row.code for row in Timings.from_json(json.dumps(stored)).by("line")] == ["", ""]
    stored["rows"][0]["parts"][0] += ["\x1b[2J" + "x" * 5_000]
    stored["rows"][0]["name"] = "\x1b[2J"
    times = Timings.from_json(json.dumps(stored))
    for text in (str(times), str(times.by("line")), str(times.by("scope")), repr(times[0])):
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) < 200


def test_two_files_of_one_name_have_lines_of_one_name():
    parts = Part("", "a.py:1", 0.5, "x + 1"), Part("", "a.py:1", 0.5, "x + 2")
    rows = replace(FUSED, parts=parts)
    assert replace(TIMES, rows=(rows,)).by("line")[0].code == "x + 1 / x + 2"


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
