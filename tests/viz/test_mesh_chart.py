"""Steps on meshes as bars: what is on paper is an outline, and each axis has its own stripes."""

import pytest

import luminal_lab as ll
from luminal_lab.viz.mesh_chart import mesh_chart
from tests.timing.test_outlook import CUT, step


def test_bars_add_up_to_the_step_and_are_outlines() -> None:
    mesh = ll.Mesh(data=2, model=2)
    plan = ll.plan(step(), mesh, CUT, links="nvlink-4", device="h200", memory=1)
    payload = mesh_chart(plan, "dark")
    computing, data, model = payload["data"]
    assert [trace["name"] for trace in payload["data"]] == [
        *("computing, modelled", "sent along data, on paper", "sent along model, on paper"),
    ]
    sums = [sum(xs) for xs in zip(computing["x"], data["x"], model["x"], strict=True)]
    assert sums == pytest.approx([1e3 * row.seconds for row in reversed(plan.estimates)], rel=1e-5)
    assert computing["marker"]["color"] == "rgba(0,0,0,0)"
    assert data["marker"]["pattern"] != model["marker"]["pattern"]
    assert all(name.endswith("⚠") for name in computing["y"])
    assert "on paper" in payload["layout"]["title"]["text"]
