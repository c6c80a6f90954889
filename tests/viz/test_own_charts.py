"""Charts of one thing: timings, a memory plan, a compile. What is drawn, by golden payloads."""

import json
from dataclasses import replace
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DimError
from luminal_lab.kernels.memory.plan import plan
from luminal_lab.kernels.memory.program import MemoryStep as Step, MemoryValue as Value
from luminal_lab.machines.rates import Limit, PeakRates
from luminal_lab.nn import models
from luminal_lab.timing.timings import Timing, Timings
from luminal_lab.viz.figures import CLEAR, LOOKS, layout
from luminal_lab.viz.history import curve_chart
from luminal_lab.viz.memory_chart import memory_chart
from luminal_lab.viz.pass_charts import MOST_RULES, pass_chart
from luminal_lab.viz.timings_charts import MOST, bars, roofs
from tests.expect import error_of
from tests.needs import need

RATES = PeakRates.stated("a machine", gflops=100, gbytes=10, threads=2)
GELU = Timing(
    "gelu", "launch", "gelu", "%y", ("cell 1:2",), (0.001, 0.0012, 0.0009, 0.001),
    4_000_000, 4_000_000, 4_000_000, limit=Limit(0.0008, "memory"),
)  # fmt: skip
SUM = Timing(
    "sum", "launch", "sum", "%z", (), (0.004, 0.004, 0.005), 1_000_000, 4_000_000, 4,
    limit=Limit(0.0004, "memory"),
)  # fmt: skip
SORT = Timing("sort", "host", "sort", "%w", (), (0.002,))
TIMES = Timings(
    "main", (GELU, SUM, SORT), device="a machine", threads=2, clock="c", date="2026", rates=RATES
)


def golden_json(golden: Any, payload: dict[str, Any], name: str) -> None:
    golden(json.dumps(payload, indent=1) + "\n", f"golden/{name}.json")


def modelled(times: Timings) -> Timings:
    rows = tuple(replace(row, how="modelled", samples=(row.seconds / 2,)) for row in times)
    return replace(times, how="modelled", rows=rows)


# -- timings ---------------------------------------------------------------------------------------


def test_bars_of_launches(golden):
    golden_json(golden, bars([TIMES]), "chart_timings")


def test_measured_recorded_and_modelled_look_different_side_by_side(golden):
    payload = bars([TIMES, TIMES.recorded(), modelled(TIMES)], "dark")
    golden_json(golden, payload, "chart_timings_three")
    measured, recorded, modelled_ = (one["marker"] for one in payload["data"])
    assert "pattern" not in measured
    assert recorded["pattern"]["shape"] == "/"
    assert (modelled_["color"], "pattern" in modelled_) == (CLEAR, False)
    names = [one["name"] for one in payload["data"]]
    assert [name.rpartition("(")[2] for name in names] == ["measured)", "°recorded)", "~modelled)"]
    assert [one["error_x"]["visible"] for one in payload["data"]] == [True, True, False]


def test_whiskers_end_at_the_quartiles():
    first = bars([TIMES])["data"][0]
    low, high = first["error_x"]["arrayminus"][0], first["error_x"]["array"][0]
    assert (low, high) == (pytest.approx(0.025), pytest.approx(0.05))
    assert (low + high) / 1e3 == pytest.approx(GELU.spread)
    assert first["error_x"]["array"][2] == 0  # of one sample


def test_launches_stand_side_by_side_by_their_node_and_of_two_graphs_by_their_label():
    renamed = replace(TIMES, rows=(replace(GELU, name="gelu_2", kernel="gelu_2"), SUM))
    same, other = bars([TIMES, renamed]), bars([TIMES, replace(renamed, graph="other")])
    assert same["data"][0]["y"] == ["gelu %y", "sum %z", "sort %w"]
    assert [one is not None for one in same["data"][1]["x"]] == [True, True, False]
    assert other["data"][0]["y"] == ["gelu %y", "sum %z", "sort %w", "gelu_2 %y"]


def test_of_many_launches_the_slowest_have_a_bar():
    rows = tuple(replace(GELU, node=f"%{k}", samples=(1e-3 * k,)) for k in range(1, 101))
    drawn = bars([replace(TIMES, rows=rows)])["data"][0]
    assert len(drawn["y"]) == MOST + 1
    assert drawn["y"][-1] == "60 faster ones"
    assert drawn["x"][-1] == pytest.approx(sum(range(1, 61)))
    assert drawn["y"][0] == "gelu #61"


def test_equal_launches_are_told_apart():
    twice = replace(TIMES, rows=(GELU, GELU))
    assert bars([twice])["data"][0]["y"] == ["gelu %y", "gelu %y #2"]


def test_what_has_no_times_is_refused():
    assert str(error_of(lambda: bars([TIMES, "more"]), ArgumentError)) == (  # pyright: ignore[reportArgumentType]  # what a user may give
        "plot: 'more' has no times\nhint: give other timings, as in before.plot(cx.time())"
    )


def test_a_roofline_of_launches(golden):
    payload = roofs(TIMES)
    golden_json(golden, payload, "chart_roofline")
    roof, points = payload["data"]
    assert max(roof["y"]) == pytest.approx(100)
    assert (points["x"][0], points["y"][0]) == (0.5, pytest.approx(4.0))
    assert "1 launch without" in payload["layout"]["title"]["text"]


def test_a_roofline_is_a_still_picture_too():
    picture = TIMES.roofline(still=True)
    assert picture.text.startswith("Roofline of ")
    assert all(f">{row.name}</text>" in picture.svg for row in TIMES if row.flops)


def test_a_roof_comes_from_the_specification_where_nothing_was_measured():
    known = replace(TIMES, rates=None, device="NVIDIA H200")
    roof = roofs(known)["data"][0]
    assert roof["name"] == "H200: the roof"
    nobody = replace(TIMES, rates=None, device="nobody's")
    assert [one["mode"] for one in roofs(nobody)["data"]] == ["markers+text"]
    assert "no roof" in roofs(nobody)["layout"]["title"]["text"]


# -- memory ----------------------------------------------------------------------------------------


def made(alignment: int = 64, reuse: bool = True) -> Any:
    values = [Value(0, 400, "input"), *(Value(k, 400 * k) for k in (1, 2, 3))]
    values.append(Value(4, 400, "output"))
    steps = [Step((0,), (1,)), Step((1,), (2,)), Step((2,), (3,)), Step((3,), (4,))]
    return plan(values, steps, in_place=[], alignment=alignment if reuse else 128)


def test_bytes_over_the_steps_with_the_peak(golden):
    payload = memory_chart(made())
    golden_json(golden, payload, "chart_memory")
    unshared, needed, arena = payload["data"]
    bound = made().bind()
    scale = 1 << 10
    assert max(needed["y"]) * scale == bound.least_bytes
    assert arena["y"][0] * scale == bound.arena_bytes
    assert unshared["y"][-1] * scale == bound.unshared_bytes
    (mark,) = payload["layout"]["annotations"]
    assert mark["y"] == max(needed["y"])
    assert mark["text"] == "peak: 2 KiB at step 2"


def test_another_plan_stands_beside():
    payload = memory_chart(made(), made(reuse=False))
    assert payload["data"][-1]["name"] == "needed before"
    assert "before: arena" in payload["layout"]["title"]["text"]


def test_symbolic_sizes_have_to_be_bound():
    cx = ll.Graph()
    cx.tensor(("n", 4), name="x").softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert cx.memory_plan is not None
    assert str(error_of(cx.memory_plan.plot, DimError)).endswith(
        'hint: give its dims sizes, as in plan.bind({"n": …}).plot()'
    )
    need("plotly")
    assert cx.memory_plan.bind({"n": 3}).plot().data


# -- passes ----------------------------------------------------------------------------------------


def compiled() -> ll.Compilation:
    cx = ll.Graph("small")
    x = cx.tensor((4, 8), name="x")
    ((x * 1 + 0).softmax(-1) + 0).retrieve()
    return cx.compile("dce, simplify, cse, dce")


def test_firings_by_rule_and_time_by_pass():
    compilation = compiled()
    payload = pass_chart(compilation)
    *rules, times = payload["data"]
    counts: dict[str, int] = {}
    for snapshot in compilation.snapshots:
        for rule, count in snapshot.counts.items():
            counts[rule] = counts.get(rule, 0) + count
    assert {one["name"]: sum(one["y"]) for one in rules} == counts
    idle = [one for one in compilation.snapshots[1:] if not one.firings]
    assert times["x"][-1] == f"{len(idle)} without a change"
    assert sum(times["y"]) == pytest.approx(1e3 * compilation.seconds, rel=0.2)
    assert times["yaxis"] == "y2"
    for payload_ in (payload, json.loads(json.dumps(payload))):
        assert payload_ == payload


def test_rules_look_different_and_the_rarest_are_one_bar():
    cx = ll.Graph("gpt2")
    tokens = cx.tensor((1, 16), dtype="int64", name="tokens")
    models.GPT2(layers=1, heads=2, width=32, vocab=50, context=32)(tokens).retrieve()
    compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    *rules, _ = pass_chart(compilation)["data"]
    looks = [
        (one["marker"]["color"], one["marker"].get("pattern", {}).get("shape")) for one in rules
    ]
    assert len(set(looks)) == len(looks) == MOST_RULES + 1
    assert rules[-1]["name"].endswith(" other rules")
    assert sum(sum(one["y"]) for one in rules) == sum(
        len(one.firings) for one in compilation.snapshots
    )


# -- all -------------------------------------------------------------------------------------------


def test_a_theme_has_its_ground_and_auto_has_none():
    assert {
        name: layout("t", theme=name)["paper_bgcolor"] for name in ("auto", "light", "dark")
    } == {
        "auto": CLEAR,
        "light": "#ffffff",
        "dark": "#0d1117",
    }
    assert str(error_of(lambda: layout("t", theme="pink"), ArgumentError)) == (  # pyright: ignore[reportArgumentType]  # what a user may give
        'plot: the theme is \'pink\'\nhint: give "light", "dark" or "auto"'
    )


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_what_is_written_can_be_read(theme):
    """On a ground of its own with much contrast; without one, on white and on a dark page."""

    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        lit = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]

    look = LOOKS[theme]
    for ground in ("#ffffff", "#111111") if look.ground == CLEAR else (look.ground,):
        pair = sorted((light(look.text), light(ground)))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= (4.1 if look.ground == CLEAR else 7)


def test_plotly_accepts_all_of_them():
    go = need("plotly.graph_objects")
    figures = [
        TIMES.plot(),
        TIMES.plot(TIMES.recorded(), theme="dark"),
        TIMES.roofline(),
        made().plot(),
        made().bind().plot(made(), theme="light"),
        compiled().plot(),
    ]
    assert all(isinstance(one, go.Figure) for one in figures)


def test_names_are_no_markup():
    bad = "</b><a href='javascript:alert(1)'>x"
    hostile = replace(TIMES, graph=bad, device=bad, rows=(replace(GELU, name=bad, origins=(bad,)),))
    for payload in (bars([hostile]), roofs(hostile)):
        assert "<a" not in json.dumps(payload)
    history = ll.History(bad)
    history.add(None, **{bad: 1.0})
    assert "<a" not in json.dumps(curve_chart(history))
    assert "<a" not in history.display().svg
