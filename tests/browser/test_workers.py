"""Workers in a real browser: how values are cut, what is sent, lanes; and another annotation."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from tests.browser.judge import judged
from tests.browser.pages import opened
from tests.io.test_worker_facts import megatron
from tests.workers.test_pipelined import layers


def test_a_mesh_is_seen_in_colours_bytes_and_lanes(page: Any, tmp_path: Path):
    cx, cut = megatron()
    cx.compile(ll.Sharded(ll.sharding(ll.Mesh(model=2), cut)))
    cx.execute()
    page.set_viewport_size({"width": 1400, "height": 900})
    opened(page, cx.workbench(), tmp_path)
    legend = page.locator(".ll-legend").inner_text()
    assert legend.startswith("how it is cut")
    assert "cut over model" in legend
    assert "whole" in legend
    assert "shard" in page.locator(".ll-place").inner_text()
    head = page.locator(".ll-workers-head").inner_text()
    assert "2 workers: model 2" in head
    assert "each worker sends 128 B in a run" in head
    assert page.locator(".ll-workers-lanes svg > .ll-bubble").count() == 2
    assert "And if a value were cut otherwise? This needs a kernel" in page.content()
    assert not judged(page.locator(".ll-root"))
    page.locator(".ll-meets").dispatch_event("click")
    page.get_by_role("tab", name="about").click()
    about = page.locator(".ll-side").inner_text()
    assert "Sent in each run" in about
    assert "which is cut" in about
    bar = page.locator(".ll-graph .ll-sent-bar").last
    bar.wait_for(state="attached")
    assert float(bar.get_attribute("width")) > 20
    # What each worker runs, with its collective and the sources of its kernels.
    page.get_by_role("combobox", name="run").select_option("mlp, on each worker")
    assert "on each worker" in page.locator(".ll-root").inner_text()
    page.locator(".ll-graph text", has_text="all_reduce").last.wait_for(state="attached")


@pytest.mark.parametrize("width", [420, 1400])
def test_a_pipeline_has_a_lane_for_each_stage(page: Any, tmp_path: Path, width: int):
    cx, _ = layers(2)
    stages = {"layer0": 0, "layer1": 1, "loss": 1}
    cx.compile(ll.Pipelined(stages, batch=("x", "t"), microbatches=2))
    cx.execute()
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, cx.workbench(), tmp_path)
    if width < 1000:
        page.get_by_role("tab", name="workers").click()
    assert "% if stages took equally long" in page.locator(".ll-workers-head").inner_text()
    assert "stage 0" in page.locator(".ll-legend").inner_text()
    svg = page.locator(".ll-workers-lanes svg")
    assert svg.locator(".ll-turn.ll-forward").count() == 4
    # The last stage goes back within its turn.
    assert svg.locator(".ll-turn.ll-backward").count() == 2
    assert svg.locator(".ll-meets").count() == 4
    assert not judged(page.locator(".ll-root"))
