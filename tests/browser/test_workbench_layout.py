"""How the workbench lays itself out by the room there is, as a reader of any screen sees it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from tests.browser.axe import faults
from tests.browser.conftest import Watched, watched_page
from tests.browser.judge import judged
from tests.browser.pages import LETTERS, compiled, opened, softmax
from tests.browser.pictures import SIZES
from tests.viz.models import MODELS

ROWS = """() => {
  const middles = [...document.querySelectorAll('.ll-hands > *, .ll-hands > .ll-rest > *')]
    .filter((one) => one.checkVisibility({visibilityProperty: true}) && one.offsetHeight > 0)
    .map((one) => one.getBoundingClientRect()).map(({top, bottom}) => (top + bottom) / 2)
    .sort((one, other) => one - other);
  return middles.filter((one, at) => !at || one - middles[at - 1] > 8).length;
}"""

PANES = """() => [...document.querySelectorAll('.ll-area')]
  .filter((one) => !one.querySelector('.ll-area'))
  .filter((one) => one.checkVisibility({visibilityProperty: true})).length"""


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, chromium: Any, watched: Watched) -> Iterator[Any]:
    """A page for a reader who prefers light or dark."""
    yield from watched_page(chromium, watched, color_scheme=request.param)


def test_no_width_cuts_or_overlaps_or_leaves_a_pane_empty(page: Any, tmp_path: Path):
    opened(page, compiled(), tmp_path)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        # Twice: laying out waits for a frame.
        page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))"
        )
        assert judged(page.locator(".ll-root")) == [], width
        assert page.evaluate(PANES) >= (5 if width >= 1200 else 2), width
        assert faults(page) == [], width


@pytest.mark.parametrize("what", ["workbench", "explorer"])
def test_the_tools_of_a_picture_take_one_row_or_two(page: Any, tmp_path: Path, what: str):
    cx = softmax()
    cx.compile(ll.GenericCompiler())
    opened(page, cx.workbench() if what == "workbench" else cx.explore(), tmp_path)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        most = 1 if what == "workbench" or width > 1000 else 2
        page.wait_for_function(f"most => ({ROWS})() <= most", arg=most)
    page.set_viewport_size({"width": 420, "height": 900})
    page.get_by_role("button", name="More").click()
    page.get_by_role("button", name="Table").wait_for()
    assert judged(page.locator(".ll-root")) == []
    page.get_by_role("button", name="More").click()
    assert page.get_by_role("button", name="Table").is_hidden()


def test_the_colours_of_workers_are_named_whole(page: Any, tmp_path: Path):
    cx = softmax()
    plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
    cx.compile(ll.GenericCompiler(), ll.Sharded(plan, ll.CPUCompiler(threads=1)))
    opened(page, cx.workbench(), tmp_path)
    page.set_viewport_size({"width": 1200, "height": 800})
    select = page.get_by_label("Colour by")
    assert select.evaluate("(one) => one.selectedOptions[0].text") == "how it is cut"
    assert select.bounding_box()["width"] > 104  # of which its words take 84


def test_no_stub_of_a_wire_no_map_and_no_words_lie_over_a_node(page: Any, tmp_path: Path):
    cx = MODELS["block"]()
    cx.compile(ll.GenericCompiler())
    stubs = 0
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        opened(page, cx.workbench(), tmp_path)
        page.wait_for_timeout(600)
        stubs += page.locator(".ll-stubs > button").count()
        assert judged(page.locator(".ll-root")) == [], width
    assert stubs > 0


def test_where_there_is_room_all_is_in_sight_and_lit_by_one_selection(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1344, "height": 900})
    opened(page, compiled(), tmp_path)
    assert page.locator(".ll-heading h2").all_inner_texts() == ["Python", "source", "times"]
    page.get_by_text("softmax(-1)").first.click()
    # The line, nodes on both sides, lines of the kernel, the kernel's time.
    assert page.locator(".ll-lit:visible").count() >= 4


def test_panes_fold_by_their_button_and_by_their_border_and_are_resized(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1344, "height": 900})
    opened(page, compiled(), tmp_path)
    for name, border in {
        "Python": "between Python and graphs",
        "source": "between graphs and kernel",
        "times": "between times and details",
    }.items():
        heading = page.get_by_role("heading", name=name, exact=True)
        bar = page.get_by_role("separator", name=border)
        page.get_by_role("button", name=f"Fold {name}").click()
        assert heading.is_hidden(), name
        assert page.locator(".ll-graph").first.is_visible()
        bar.focus()
        page.keyboard.press("Enter")
        assert heading.is_visible(), name
        wide = heading.bounding_box()["width"]
        page.keyboard.press("ArrowRight")
        assert heading.bounding_box()["width"] != wide
        # By hand: the border follows the mouse, and a double click folds.
        box = bar.bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 60, box["y"] + 60)
        page.mouse.up()
        assert abs(bar.bounding_box()["x"] - box["x"] - 56) < 8
        bar.dblclick(position={"x": 4, "y": 60})
        assert heading.is_hidden(), name
        bar.dblclick(position={"x": 4, "y": 60})
        assert heading.is_visible(), name


def test_a_key_fills_the_window_and_another_enlarges_the_type(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1280, "height": 800})
    opened(page, compiled(), tmp_path)
    page.locator(".ll-graph").first.focus()
    size = "parseFloat(getComputedStyle(document.querySelector('.ll-caption')).fontSize)"
    was = page.evaluate(size)
    for is_full in (True, False):
        page.keyboard.press("w")
        page.wait_for_function(f"!!document.fullscreenElement === {str(is_full).lower()}")
    page.keyboard.press("P")
    assert page.evaluate(size) == pytest.approx(2 * was)
    assert judged(page.locator(".ll-root")) == []
    # From the last row one reads the graph: it is what has most of the room.
    page.wait_for_timeout(600)
    box = page.locator(".ll-graph").bounding_box()
    assert box["width"] > 1280 / 2
    assert box["height"] > 800 * 0.45
    assert min(min(sizes) for sizes in page.evaluate(LETTERS)) > 17.9
    page.keyboard.press("P")
    assert page.evaluate(size) == was
