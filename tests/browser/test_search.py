"""A search as a page in a real browser, and as axe judges it."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.cli.open import page_of
from tests.browser.axe import faults
from tests.browser.conftest import Watched, watched_page
from tests.browser.pages import LIMIT
from tests.viz.searches import of_a_kernel, of_a_program


def shown(page: Any, search: Any, folder: Path) -> None:
    """Export a search and open it."""
    search.explore().export(folder / "page.html")
    page.goto((folder / "page.html").as_uri())
    page.wait_for_selector(".ll-sv svg", timeout=LIMIT)


def test_a_candidate_is_chosen_by_a_click_and_all_of_it_is_said(page: Any, tmp_path: Path):
    search = of_a_kernel()
    shown(page, search, tmp_path)
    assert page.locator("[data-ll-static]:visible").count() == 0
    heading = page.locator(".ll-sv-detail h2")
    assert heading.inner_text().startswith(f"candidate {search.best.number}: fastest")
    for tab in ("Schedule", "Diff", "Definition", "Nest", "C"):
        page.get_by_role("tab", name=tab, exact=True).click()
        assert page.locator(".ll-sv-detail pre").inner_text().strip()
    page.get_by_role("listbox", name="candidates").press("End")
    assert [one.why for one in search.candidates if one.error][-1] in heading.inner_text()
    page.get_by_text("needs a kernel").wait_for(timeout=LIMIT)
    chart = page.locator(".ll-sv svg").first
    box = chart.bounding_box()
    page.mouse.click(box["x"] + 58, box["y"] + 60)
    chart.press("Home")
    assert heading.inner_text().startswith("candidate 0: default")


@pytest.mark.parametrize("width", [420, 1000, 1400])
def test_nothing_hangs_over_the_edge(page: Any, tmp_path: Path, width: int):
    page.set_viewport_size({"width": width, "height": 900})
    shown(page, of_a_program(), tmp_path)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide == width
    assert page.evaluate("document.querySelector('.ll-sv').scrollWidth") <= width


def test_a_recording_opens_as_a_page(page: Any, tmp_path: Path):
    search = of_a_program()
    search.save(tmp_path / "s.lab")
    (tmp_path / "s.html").write_bytes(page_of(ll.open(tmp_path / "s.lab")))
    page.goto((tmp_path / "s.html").as_uri())
    page.wait_for_selector(".ll-sv svg", timeout=LIMIT)
    page.get_by_role("tab", name="C", exact=True).click()
    assert "kernel_matmul" in page.locator(".ll-sv-detail pre").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_by_everybody(chromium: Any, watched: Watched, tmp_path: Path, scheme: str):
    for page in watched_page(chromium, watched, color_scheme=scheme):
        shown(page, of_a_program(), tmp_path)
        for tab in ("Diff", "C"):
            page.get_by_role("tab", name=tab, exact=True).click()
            assert faults(page) == []
        of_a_program().display().save(tmp_path / "static.html")
        page.goto((tmp_path / "static.html").as_uri())
        assert faults(page) == []
