"""Rooflines: points have names, names cover nothing, and the still picture needs no plotly."""

import builtins
import re
from html import unescape

import pytest

import luminal_lab as ll
from luminal_lab.viz.charts import roofs
from luminal_lab.viz.figures import layout
from luminal_lab.viz.rooflines import SIZE, _boxes, name_points, still_roofline
from tests.devices.made_up import Unfused, recording, rescheduled, written


@pytest.fixture(scope="module")
def compared():
    known = rescheduled(recording(written()), 0)
    h200 = ll.devices.specification("h200")
    return ll.compare(written(), [Unfused(), ll.Recorded(known), h200])


def payload(*points):
    """Return a roofline of some points (operations a byte, rate, name), without a roof."""
    x, y, text = zip(*points, strict=True)
    trace = {"mode": "markers", "x": list(x), "y": list(y), "text": list(text)}
    return {"data": [trace], "layout": {}}


@pytest.mark.needs("plotly")
def test_each_point_has_its_name(compared):
    named = [trace.text for trace in compared.roofline().data if trace.mode == "markers+text"]
    assert [list(names) for names in named] == [
        ["%h", "%y", "%z"],
        ["%y", "%z"],
        ["%h", "%y", "%z"],
    ]


def test_names_never_cover_each_other_or_a_point():
    crowd = [(1 + k / 50, 10 + k % 3, f"kernel {k}") for k in range(30)]
    (trace,) = name_points(payload(*crowd))["data"]
    shown = [name for name in trace["text"] if name]
    assert 0 < len(shown) < len(crowd)


def test_points_in_one_place_share_a_name():
    (trace,) = name_points(payload((1, 10, "softmax"), (1, 10, "softmax"), (1, 10, "gelu")))["data"]
    assert trace["text"] == ["softmax", "", "gelu"]
    assert trace["textposition"][0] != trace["textposition"][2]


def test_a_name_keeps_off_the_roof_where_it_can():
    (trace, _) = name_points(
        {
            "data": [
                *payload((1, 10, "softmax"))["data"],
                {"mode": "lines", "x": [1, 10], "y": [10, 10]},
            ],
            "layout": {},
        }
    )["data"]
    assert trace["textposition"] == ["middle left"]


def test_a_name_stands_beside_its_point():
    right, left, above, below = _boxes(100, 100, 40)
    assert right.left > 100 > left.right
    assert above.bottom < 100 < below.top
    assert right.bottom - right.top > SIZE


def test_the_still_picture_needs_no_plotly(compared, monkeypatch):
    known = builtins.__import__

    def refusing(name, *rest):
        assert not name.startswith("plotly")
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    picture = compared.roofline(still=True, theme="light")
    assert picture.text == (
        "Roofline of small: what is reached, and the roof: unfused (measured); "
        "a made-up machine (°recorded); H200 (~modelled)."
    )
    texts = re.findall(r"<text[^>]*>([^<]*)<", picture.svg)
    assert texts.count("%y") == 3
    assert {"GFLOP/s", "operations for each byte", "H200: the roof"} <= set(texts)
    circles = re.findall("<circle( class=.g.)?", picture.svg)
    # Of what is measured each point is set off from what is below it; the rest are the legend's.
    assert (circles.count(""), len(set(circles))) == (3 + 3 + 2, 2)


def test_what_is_said_below_the_title_has_a_line_each(compared):
    drawn = roofs(compared)
    heights = list[float]()
    for lines in ("roofs are of float32", "roofs are of float32\n⚠ one: under load\n⚠ two & three"):
        picture = still_roofline(
            {**drawn, "layout": {**drawn["layout"], **layout("softmax", below=lines)}}
        )
        texts = [unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)<", picture.svg)]
        assert texts[: lines.count("\n") + 2] == ["softmax", *lines.split("\n")]
        heights.append(picture.height)
    assert heights[1] == heights[0] + 28
