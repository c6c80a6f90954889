"""Every table that is shown is one of pandas, too: a row for each thing."""

import builtins
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import DeviceError, UnknownNameError
from luminal_lab.tables import frame
from tests.expect import error_of
from tests.needs import need

pd = need("pandas")


@pytest.fixture(scope="module")
def cx() -> Any:
    cx = ll.Graph("small")
    x = cx.tensor(("n", 8), name="x").set(np.ones((4, 8)))
    with cx.scope("head"):
        y = (x * 1 + 0).softmax(-1) * 2
    y.retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    cx.execute()
    return cx


def test_a_table_has_its_columns_without_rows_and_says_what_holds_for_all():
    table = frame("things", ("a", "b"), [], {"graph": "g"})
    assert list(table.columns) == ["a", "b"]
    assert table.attrs == {"graph": "g"}
    assert len(table) == 0


def test_without_pandas_the_error_says_what_wanted_it(cx, monkeypatch):
    known = builtins.__import__

    def refusing(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    for make, what in (
        (cx.kernels.to_pandas, "kernels"),
        (cx.launches.to_pandas, "launches"),
        (cx.memory_plan.to_pandas, "memory plan"),
        (cx.compilation.to_pandas, "compilation"),
        (cx.to_pandas, "graph"),
        (ll.History().to_pandas, "history"),
    ):
        error = error_of(make, DeviceError)
        assert error.message == f"{what}: a table needs pandas, which is not installed"
        assert error.hint == "pip install pandas; print(…) shows the rows without it"


def test_passes_firings_and_rules_agree(cx):
    compilation = cx.compilation
    passes, firings, rules = (compilation.to_pandas(of) for of in ("passes", "firings", "rules"))
    assert len(passes) == len(compilation.snapshots)
    assert list(passes["nodes_after"])[:-1] == list(passes["nodes_before"])[1:]
    assert passes["firings"].sum() == len(firings) == rules["firings"].sum() > 0
    assert passes.attrs == {"graph": "small"}
    one = compilation["simplify"]
    mine = firings[firings["index"] == one.index]
    assert list(mine["rule"]) == [firing.rule for firing in one.firings]
    pd.testing.assert_frame_equal(one.to_pandas(), mine.reset_index(drop=True))
    assert "mul-one" in set(rules["rule"])


def test_a_table_of_something_else_is_refused_with_the_nearest(cx):
    error = error_of(lambda: cx.compilation.to_pandas("firing"), UnknownNameError)
    assert str(error) == (
        "compilation: there is no table of 'firing'\nhint: did you mean 'firings'?"
    )


def test_a_graph_has_a_row_for_each_node_in_the_order_of_its_text(cx):
    table: Any = cx.compilation.written.to_pandas()
    ir = cx.compilation.written
    assert list(table["id"]) == [node.id for node in ir]
    assert set(table["text"]) >= {line.strip() for line in str(ir).splitlines()[1:-1]}
    x = table.set_index("name").loc["x"]
    assert (x["op"], x["dtype"], x["shape"]) == ("input", "float32", ("n", 8))
    assert bool(x["is_input"])
    assert x["code"].startswith("x = cx.tensor")
    mul = table[table["op"] == "mul"].iloc[0]
    assert mul["scope"] == "head"
    assert mul["sources"][0] == "x"
    assert table["is_output"].sum() == 1


def test_operations_and_bytes_are_there_where_sizes_are_known(cx):
    written: Any = cx.compilation.written.to_pandas()
    assert written[written["op"] == "mul"]["flops"].isna().all()
    bound = ll.Graph()
    ((bound.tensor((4, 8), name="x")) * 2).retrieve()
    assert flops_of_mul(bound.to_pandas()) == [32]
    symbolic = ll.Graph()
    ((symbolic.tensor(("n", 8), name="x")) * 2).retrieve()
    assert flops_of_mul(symbolic.to_pandas({"n": 4})) == [32]


def flops_of_mul(table: Any) -> list[int]:
    return list(table[table["op"] == "mul"]["flops"])


def test_a_diff_says_of_each_node_what_became_of_it(cx):
    difference = ll.diff(cx.compilation.written, cx.compilation.ir)
    table: Any = difference.to_pandas()
    counts: Any = table["status"].value_counts()
    assert counts["added"] == len(difference.added)
    assert counts["removed"] == len(difference.removed)
    assert counts["kept"] == len(difference.kept)


def test_kernels_and_launches(cx):
    kernels, launches = cx.kernels.to_pandas({"n": 4}), cx.launches.to_pandas({"n": 4})
    assert list(kernels["kernel"]) == [kernel.name for kernel in cx.kernels]
    assert list(kernels["flops"]) == [kernel.flops({"n": 4}) for kernel in cx.kernels]
    assert cx.kernels.to_pandas()["flops"].isna().all()
    assert list(launches["kernel"]) == [launch.kernel.name for launch in cx.launches]
    assert list(launches["makes"]) == [launch.makes for launch in cx.launches]
    assert launches["from"].iloc[-1]
    assert cx.launches.to_pandas()["bytes"].isna().all()


def test_a_memory_plan_has_a_row_for_each_value(cx):
    plan = cx.memory_plan
    assert list(plan.to_pandas()["value"]) == [row["value"] for row in plan.rows()]
    bound = plan.bind({"n": 4})
    assert list(bound.to_pandas()["bytes"]) == [row["bytes"] for row in bound.rows()]


def test_two_timings_side_by_side(cx):
    times = cx.time(rounds=2, warm_up=0)
    table = times.beside(times).to_pandas()
    assert list(table["kernel"]) == list(times.by_kernel())
    assert list(table["ratio"]) == [1.0] * len(table)
