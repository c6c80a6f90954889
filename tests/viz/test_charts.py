"""Charts of a comparison: what is drawn, and that the three kinds of times look different."""

import builtins
import json
import math
from dataclasses import replace

import pytest

import luminal_lab as ll
from luminal_lab.errors import DeviceError
from luminal_lab.viz.charts import bars, roofs
from luminal_lab.viz.figures import figure
from tests.devices.made_up import Unfused, recording, rescheduled, written
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(scope="module")
def found():
    known = rescheduled(recording(written()), 0)
    h200 = ll.devices.specification("h200")
    return ll.compare(written(), [Unfused(), ll.Recorded(known), h200])


def test_a_bar_for_each_segment_on_each_device(found):
    drawn = bars(found)["data"]
    assert [one["name"] for one in drawn] == [
        "unfused (measured)",
        "a made-up machine (°recorded)",
        "H200 (~modelled)",
    ]
    assert [len(one["x"]) for one in drawn] == [3, 3, 3]
    assert drawn[0]["x"] == drawn[1]["x"] == drawn[2]["x"]
    assert drawn[1]["y"] == [None, *(pytest.approx(1e3 * found[k].seconds(1)) for k in (1, 2))]
    assert "no recording: the schedule differs" in drawn[1]["hovertext"][0]


def test_measured_recorded_and_modelled_look_different(found):
    measured, recorded, modelled = (one["marker"] for one in bars(found)["data"])
    clear = "rgba(0,0,0,0)"
    assert measured["color"] != clear
    assert "pattern" not in measured
    assert recorded["pattern"]["shape"] == "/"
    assert (modelled["color"], "pattern" in modelled) == (clear, False)
    shown = [one["error_y"]["visible"] for one in bars(found)["data"]]
    assert shown == [True, True, False]
    points = [one for one in roofs(found)["data"] if one["mode"] != "lines"]
    assert [one["marker"]["symbol"] for one in points] == ["circle", "diamond", "circle-open"]
    assert all("~" in text for text in points[2]["hovertext"])


def test_times_far_apart_are_drawn_on_a_logarithmic_axis(found):
    assert bars(found)["layout"]["yaxis"]["type"] == "log"
    alone = ll.compare(written(), [ll.Recorded(recording(written()))])
    assert bars(alone)["layout"]["yaxis"]["type"] == "linear"


def test_a_roof_rises_with_the_bandwidth_and_ends_at_the_peak(found):
    lines = [one for one in roofs(found)["data"] if one["mode"] == "lines"]
    (roof,) = lines  # the others have no figures
    assert roof["name"] == "H200: the roof"
    assert max(roof["y"]) == pytest.approx(66_900)
    rising = [(x, y) for x, y in zip(roof["x"], roof["y"], strict=True) if y < 66_899]
    assert all(math.isclose(y, 4800 * x) for x, y in rising)
    modelled = next(one for one in roofs(found)["data"] if one["name"].startswith("H200 ("))
    # No model is above its own roof.
    for x, y in zip(modelled["x"], modelled["y"], strict=True):
        assert y <= min(66_900, 4800 * x) * 1.0001


def test_roofs_that_lie_over_each_other_are_one_line_with_both_names(found):
    measured, recorded, modelled = found.columns
    limits = modelled.specification
    assert limits is not None
    bandwidth = limits.bandwidth
    near, far = (
        replace(limits, bandwidth=bandwidth._replace(value=by * bandwidth.value))
        for by in (1.01, 1.2)
    )
    for own, names in (
        (near, ["a made-up machine, H200: the roof"]),
        (far, ["a made-up machine: the roof", "H200: the roof"]),
    ):
        columns = (measured, replace(recorded, specification=own), modelled)
        drawn = roofs(replace(found, columns=columns))["data"]
        assert [one["name"] for one in drawn if one["mode"] == "lines"] == names


def test_payloads_are_plain(found):
    for payload in (bars(found), roofs(found)):
        assert json.loads(json.dumps(payload)) == payload


def test_equal_names_are_told_apart(found):
    twice = ll.compare(written(), [ll.devices.specification("t4")])
    both = type(twice)(twice.graph, twice.columns, twice.segments[:1] * 2)
    names = bars(both)["data"][0]["x"]
    assert names[1] == f"{names[0]} #2"


def test_without_plotly_there_is_a_hint(found, monkeypatch):
    known = builtins.__import__

    def refusing(name, *rest):
        if name.startswith("plotly"):
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    error = error_of(found.plot, DeviceError)
    assert str(error) == (
        "plot: a chart needs plotly, which is not installed\n"
        "hint: pip install plotly; print(…) and the table show the numbers without it"
    )


def test_plotly_accepts_them(found):
    go = need("plotly.graph_objects")
    for drawn in (found.plot(), found.roofline(), figure(bars(found))):
        assert isinstance(drawn, go.Figure)
    assert len(found.plot().data) == 3
