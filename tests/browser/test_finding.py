"""What a pass has removed is found, and led to in the graph before, which stays in sight."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.axe import faults
from tests.browser.pages import opened, softmax


@pytest.mark.parametrize("wide", [1000, 1344, 1900])
def test_a_removed_node_is_led_to(page: Any, tmp_path: Path, wide: int):
    page.set_viewport_size({"width": wide, "height": 900})
    cx = softmax()
    cx.compile("simplify, dce")
    opened(page, cx.workbench(at="dce"), tmp_path)
    page.get_by_label("how before and after are shown").select_option("after only")
    field = page.get_by_role("searchbox")
    field.fill("op:mul name:p")
    found = page.locator(".ll-search")
    assert found.get_by_role("status").inner_text() == "1 of 15 nodes, 1 of them removed"
    row = found.locator(".ll-row")
    # Name, op, type and kind stand in one line, the scope below.
    name, kind, more = (part.bounding_box() for part in row.locator(".ll-found > *").all())
    assert name["x"] < kind["x"]
    assert abs(name["y"] - kind["y"]) < 6
    assert more["y"] >= name["y"] + name["height"]
    field.press("Enter")
    # Both as one, in a narrow pane.
    shown = ["before and after dce"] if wide == 1000 else ["before dce", "after dce"]
    captions = page.locator(".ll-caption").all_inner_texts()
    assert [caption.partition(":")[0] for caption in captions] == shown
    assert "%p" in page.locator(".ll-bench > .ll-bar .ll-one").inner_text()
    ring = page.locator(".ll-graph").first.locator(".ll-ring")
    page.wait_for_timeout(600)  # until the picture has moved
    box, list_ = ring.bounding_box(), found.bounding_box()
    assert box["width"] > 0
    assert box["x"] + box["width"] <= list_["x"] or box["x"] >= list_["x"] + list_["width"]
    assert faults(page) == []
