"""Stories and runs beside each other, as a reader of a page walks through them."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from tests.browser.axe import faults
from tests.browser.behind import Behind
from tests.browser.pages import opened, softmax

STEPS = [
    ("written/%p", "The last line multiplies by `1`."),
    ("simplify", "<img src=x onerror=alert(1)> is text."),
    ("dce/scope head", "The rest is gone."),
]


@pytest.fixture
def cx() -> ll.Graph:
    cx = softmax()
    cx.compile("simplify, dce")
    return cx


def test_a_story_is_walked_through_in_a_page(page: Any, cx: ll.Graph, tmp_path: Path):
    ll.story(cx, STEPS).save(tmp_path / "run.lab")
    opened(page, ll.open(tmp_path / "run.lab").story, tmp_path)
    bar = page.get_by_role("region", name="story")
    assert bar.inner_text().startswith("1 of 3")
    assert "%p" in page.locator(".ll-bench > .ll-bar .ll-one").inner_text()
    assert faults(page) == []
    page.locator(".ll-graph").first.focus()
    page.keyboard.press("N")
    assert "<img src=x onerror=alert(1)> is text." in bar.inner_text()
    bar.get_by_role("button", name="Next").click()
    page.wait_for_url(lambda url: url.endswith("#at=dce/scope%20head"))
    page.locator(".ll-graph").first.focus()
    page.keyboard.press("[")
    bar.get_by_role("button", name="Look here").click()
    page.wait_for_url(lambda url: url.endswith("#at=dce/scope%20head"))


def test_two_runs_are_beside_each_other_in_a_page(page: Any, cx: ll.Graph, tmp_path: Path):
    both = ll.beside(cx.compile("dce"), cx.compile("simplify, dce"), names=["plain", "simpler"])
    opened(page, both, tmp_path)
    assert page.locator(".ll-twins .ll-graph").count() == 2
    assert page.locator(".ll-differs").all_inner_texts()[-1].split() == (
        ["dce", "15", "15", "→", "13", "−2,", "×2", "≠"]
    )
    caption = page.locator(".ll-twins .ll-caption").first
    assert "only here" in caption.inner_text()
    page.set_viewport_size({"width": 700, "height": 900})
    assert caption.evaluate("at => at.scrollWidth <= at.clientWidth")  # it wraps, and is whole
    page.set_viewport_size({"width": 1344, "height": 900})
    page.get_by_role("button", name="as written").click()
    assert "only here" not in page.locator(".ll-twins").inner_text()
    assert faults(page) == []


def test_a_run_made_again_is_beside_the_first(page: Any, cx: ll.Graph, tmp_path: Path):
    page.set_viewport_size({"width": 1000, "height": 900})
    Behind(page, cx.workbench(), tmp_path)
    assert page.get_by_role("tab", name="beside").count() == 0
    page.get_by_role("tab", name="re-run").click()
    page.get_by_role("checkbox", name="run simplify").uncheck()
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("tab", name="beside").click()
    assert page.locator("[data-pass=simplify]").inner_text().split()[-2:] == ["only", "here"]
