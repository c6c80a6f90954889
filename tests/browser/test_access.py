"""Pages and pictures as axe judges them: no violation of any impact, in light and in dark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from luminal_lab.emulator import Call, emulate
from tests.browser.axe import faults
from tests.browser.conftest import Watched, watched_page
from tests.browser.pages import WITH_TABS, compiled, opened, softmax

TURNED = """\
extern "C" __global__ void turned(const float *x, float *y) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, chromium: Any, watched: Watched) -> Iterator[Any]:
    """A page for a reader who prefers light or dark."""
    yield from watched_page(chromium, watched, color_scheme=request.param)


def test_the_explorer(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    assert faults(page) == []
    page.get_by_role("searchbox").fill("op:/mul|exp2/")
    page.keyboard.press("Enter")
    page.get_by_label("Colour by").select_option("flops")
    page.get_by_role("group", name="Legend").wait_for()
    assert faults(page) == []
    page.get_by_role("searchbox").fill("/(/")
    assert faults(page) == []
    page.get_by_role("button", name="Table").click()
    assert faults(page) == []
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    assert faults(page) == []


def test_every_tab_of_the_workbench(page: Any, tmp_path: Path):
    opened(page, compiled(), tmp_path)
    assert faults(page) == []
    page.get_by_role("listbox", name="passes").focus()
    page.keyboard.press("[")
    page.keyboard.press(".")
    for way in ("slider", "union"):
        page.get_by_label("how before and after are shown").select_option(way)
        assert faults(page) == [], way
    page.set_viewport_size(WITH_TABS)
    page.get_by_role("tab", name="source").wait_for()
    for name in tabs_of(page):
        page.get_by_role("tab", name=name, exact=True).click()
        row = page.locator(".ll-tabs [role=tabpanel]:visible .ll-row").first
        if row.count():
            row.click()
        assert faults(page, ".ll-tabs") == [], name


def tabs_of(page: Any) -> list[str]:
    """Return the names of the workbench's own tabs."""
    return page.locator(".ll-tabs > .ll-tablist > [role=tab]").all_inner_texts()


def test_who_touches_what(page: Any, tmp_path: Path):
    x, y = np.zeros((8, 8), np.float32), np.zeros(64, np.float32)
    trace = emulate(TURNED, "cuda", [Call("turned", 1, 64, [x, y])], trace=True)
    assert trace is not None
    trace.explore().export(tmp_path / "page.html")
    page.goto((tmp_path / "page.html").as_uri())
    page.get_by_role("button", name="Table").wait_for()
    assert faults(page) == []
    page.get_by_role("button", name="Table").click()
    assert faults(page) == []


def test_a_picture_and_a_page_without_a_script(page: Any, tmp_path: Path):
    picture = softmax().display()
    picture.save(tmp_path / "picture.html")
    page.goto((tmp_path / "picture.html").as_uri())
    assert faults(page) == []
    # An image's own text is read where it is opened alone.
    page.set_content(f"<main><h1>softmax</h1>{picture.svg}</main>")
    assert faults(page, "svg") == []
    softmax().explore().export(tmp_path / "page.html")
    whole = (tmp_path / "page.html").read_text("utf-8")
    still, scripts = re.subn(r"<script type=.module.>.*?</script>", "", whole, flags=re.DOTALL)
    assert scripts == 1
    (tmp_path / "still.html").write_text(still, "utf-8")
    page.goto((tmp_path / "still.html").as_uri())
    assert faults(page) == []


def test_an_exported_page_begins_in_its_picture(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    assert page.get_by_role("heading", level=1).inner_text() == "softmax"
    assert page.evaluate("document.activeElement.getAttribute('aria-roledescription')") == "graph"
    page.keyboard.press("ArrowDown")
    page.locator(".ll-side h2", has_text="%x").wait_for()
