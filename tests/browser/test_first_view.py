"""What is seen first can be read, also of what is large; edges that leave the screen lead on."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from tests.browser.pages import LETTERS, LIMIT, opened
from tests.viz.models import MODELS


def settle(page: Any) -> None:
    page.wait_for_timeout(400)


def legible(page: Any) -> bool:
    """Return whether every picture has words, and all of them can be read."""
    settle(page)
    return all(sizes and min(sizes) > 8.9 for sizes in page.evaluate(LETTERS))


@pytest.mark.parametrize("width", [420, 1344])
@pytest.mark.parametrize("name", ["cnn", "llama", "without_scopes", "deep", "equal_layers"])
def test_names_are_legible_at_first_and_when_it_is_fitted(
    page: Any, tmp_path: Path, name: str, width: int
):
    page.set_viewport_size({"width": width, "height": 800})
    opened(page, MODELS[name]().explore(), tmp_path)
    assert legible(page)
    page.locator(".ll-graph").focus()
    page.keyboard.press("f")
    assert legible(page)
    page.keyboard.press("Shift+E")
    page.keyboard.press("f")
    assert legible(page)


def test_the_panes_of_a_workbench_are_legible_at_first(page: Any, tmp_path: Path):
    cx = MODELS["block"]()
    cx.compile(ll.GenericCompiler())
    page.set_viewport_size({"width": 1344, "height": 800})
    opened(page, cx.workbench(), tmp_path)
    assert legible(page)


def test_ten_thousand_nodes_with_all_boxes_open_are_no_sliver(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1344, "height": 800})
    opened(page, MODELS["large"]().explore(), tmp_path)
    page.locator(".ll-graph").focus()
    page.keyboard.press("Shift+E")
    page.wait_for_function(
        "() => !document.querySelector('.ll-extent').textContent.includes('closed')",
        timeout=4 * LIMIT,
    )
    page.keyboard.press("f")
    assert legible(page)


def test_a_llama_with_all_boxes_open_is_no_wider_than_a_window(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1344, "height": 800})
    opened(page, MODELS["llama"]().explore(), tmp_path)
    page.locator(".ll-graph").focus()
    page.keyboard.press("Shift+E")
    page.keyboard.press("f")
    settle(page)
    # Its outermost box, at a scale at which types can be read, too.
    assert min(page.evaluate(LETTERS)[0]) > 9
    boxes = page.locator(".ll-graph svg .ll-title").count()
    assert boxes > 0
    widest = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('.ll-graph svg g > path')]"
        ".map((one) => one.getBoundingClientRect().width))"
    )
    assert widest <= page.locator(".ll-graph").bounding_box()["width"]


def test_an_edge_that_leaves_the_screen_leads_to_its_other_end(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1000, "height": 600})
    opened(page, MODELS["gpt2"]().explore(), tmp_path)
    settle(page)
    stub = page.locator(".ll-stubs > button").first
    words = stub.inner_text()
    stub.click()
    page.wait_for_selector(".ll-marks .ll-ring, .ll-marks .ll-near", state="attached")
    settle(page)
    name = words.split()[-1]
    if name.startswith("%"):
        assert name in page.locator(".ll-side").inner_text()
    # From there the keys lead back.
    page.keyboard.press("ArrowUp")
    settle(page)
    assert legible(page)


def test_what_a_search_finds_stands_in_rows_of_its_own(page: Any, tmp_path: Path):
    page.set_viewport_size({"width": 1344, "height": 800})
    opened(page, MODELS["gpt2"]().explore(), tmp_path)
    page.get_by_role("searchbox").fill("op:max_reduce")
    page.locator(".ll-found").first.wait_for()
    cut = page.evaluate(
        "() => [...document.querySelectorAll('.ll-search .ll-row')].filter((row) => {"
        " const {top, bottom} = row.getBoundingClientRect();"
        " return [...row.querySelectorAll('*')].map((one) => one.getBoundingClientRect())"
        " .some((one) => one.top < top - 1 || one.bottom > bottom + 1); }).length"
    )
    assert cut == 0
