"""The keyboard alone: it reaches everything, does everything, and is never caught."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import LIMIT, WITH_TABS, compiled, opened, softmax

# What the mouse can act on: each is a stop of the keyboard, or in one whose own keys reach it. The
# roofline and the arena are images of what the lists beside them have.
UNREACHED = """() => {
  const stops = 'button, a[href], input, select, textarea, summary, [tabindex="0"]';
  const shown = (one) => one.checkVisibility({visibilityProperty: true});
  return [...document.querySelectorAll('.ll-root *')]
    .filter((one) => shown(one) && getComputedStyle(one).cursor === 'pointer')
    .filter((one) => !one.closest(stops) && !one.closest('[role=tablist], [role=img], label'))
    .map((one) => one.outerHTML.slice(0, 120));
}"""
HERE = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const name = one.getAttribute('aria-label') || one.title || one.textContent || one.tagName;
  return `${one.getAttribute('role') ?? one.localName} ${name.slice(0, 60)}`;
}"""
IS_NEW = """() => {
  const seen = (window.stopsSeen ??= new Set()), here = document.activeElement;
  return here !== document.body && !seen.has(here) && !!seen.add(here);
}"""
STOPS = """() => [...document.querySelectorAll('.ll-root *')]
  .filter((one) => one.matches('button, input, select, textarea, summary, [tabindex]'))
  .filter((one) => one.tabIndex >= 0 && !one.disabled && (one.type !== 'radio' || one.checked))
  .filter((one) => one.checkVisibility({visibilityProperty: true})).length"""


def walked(page: Any) -> list[str]:
    """Go through all stops of a page by Tab, from the start of the document to its end."""
    page.evaluate(
        """() => {
          window.stopsSeen = new Set();
          document.body.tabIndex = -1;
          document.body.focus();
          document.body.removeAttribute('tabindex');
        }"""
    )
    found: list[str] = []
    for _ in range(400):
        page.keyboard.press("Tab")
        if not page.evaluate(IS_NEW):
            return found
        found.append(here(page))
    raise AssertionError(f"the keyboard does not come out: {found[-4:]}")


def here(page: Any) -> str:
    """Return what has the focus."""
    return page.evaluate(HERE)


def test_every_part_of_the_explorer_is_a_stop(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    stops = walked(page)
    assert len(stops) == page.evaluate(STOPS)
    assert [one for one in stops if one.startswith("application Graph softmax")] != []
    for name in ("select Colour by", "input Search", "button Shortcuts (?)"):
        assert name in stops
    assert page.evaluate(UNREACHED) == []


def test_an_explorer_is_used_without_a_mouse(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    heading = page.locator(".ll-side h2")
    status = page.locator(".ll-root > [role=status]")
    # The picture: from node to node along edges, and out of and into boxes.
    page.keyboard.press("ArrowDown")
    assert heading.inner_text() == "%x · input"
    page.keyboard.press("ArrowDown")
    below = heading.inner_text()
    assert below != "%x · input"
    page.keyboard.press("ArrowUp")
    assert heading.inner_text() == "%x · input"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Backspace")
    assert heading.inner_text() == "scope head"
    page.keyboard.press("Enter")
    assert status.inner_text().startswith("Closed box head")
    page.keyboard.press("Enter")
    assert status.inner_text().startswith("Opened box head")
    # A search, its list, and away again.
    page.keyboard.press("/")
    page.keyboard.type("op:mul")
    page.keyboard.press("Enter")
    assert "· mul" in heading.inner_text()
    first = heading.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert here(page) == "listbox What was found"
    assert heading.inner_text() != first
    page.keyboard.press("Escape")
    assert page.locator(".ll-search").is_hidden()
    # The table in the picture's place.
    page.locator(".ll-graph").focus()
    page.keyboard.press("t")
    assert here(page) == "grid Nodes"
    page.keyboard.press("Home")
    assert heading.inner_text() == "%x · input"
    page.keyboard.press("End")
    assert heading.inner_text() == "%p · mul × 1"
    page.keyboard.press("t")
    assert here(page).startswith("application Graph")
    # Colours, the panel and its links.
    page.keyboard.press("o")
    assert here(page) == "select Colour by"
    page.keyboard.press("ArrowDown")
    page.locator(".ll-legend").wait_for(timeout=LIMIT)
    # Where what had the focus goes, the keys stay.
    page.get_by_role("button", name="Take the colours away").focus()
    page.keyboard.press("Enter")
    assert page.locator(".ll-legend").count() == 0
    # The page forbids eval, by which a condition in JavaScript would be polled: a locator waits.
    page.locator(".ll-root:focus-within").wait_for(timeout=LIMIT)
    page.keyboard.press("i")
    assert page.locator(".ll-side").is_hidden()
    page.keyboard.press("i")
    page.locator(".ll-side").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert heading.inner_text() != "%p · mul × 1"
    # The shortcuts: over all else, and back where one was.
    page.locator(".ll-graph").focus()
    page.keyboard.press("?")
    assert here(page) == "button Close the shortcuts"
    page.keyboard.press("Tab")
    assert here(page) == "button Close the shortcuts"
    page.keyboard.press("Escape")
    assert here(page).startswith("application Graph")


def test_every_part_of_the_workbench_is_a_stop(page: Any, tmp_path: Path):
    opened(page, compiled(), tmp_path)
    tabs = page.locator(".ll-tabs > .ll-tablist > [role=tab]").all_inner_texts()
    page.locator(".ll-tabs > .ll-tablist > [role=tab]").first.focus()
    for name in tabs:
        assert here(page) == f"tab {name}"
        stops = walked(page)
        assert len(stops) == page.evaluate(STOPS), name
        assert page.evaluate(UNREACHED) == [], name
        # From the tab into its panel, and back.
        page.get_by_role("tab", name=name, exact=True).focus()
        page.keyboard.press("Tab")
        inside = "document.activeElement.closest('.ll-tabs > [role=tabpanel]') !== null"
        assert page.evaluate(inside), name
        page.keyboard.press("Shift+Tab")
        assert here(page) == f"tab {name}"
        page.keyboard.press("ArrowRight")
    assert {"listbox passes", "application Graph softmax"} <= {
        one.split(",")[0] for one in stops if one
    }


@pytest.mark.parametrize("name", ["diff", "source", "times", "memory", "Python"])
def test_a_list_selects_by_its_keys(page: Any, tmp_path: Path, name: str):
    page.set_viewport_size(WITH_TABS)
    opened(page, compiled(), tmp_path)
    page.get_by_role("tab", name=name, exact=True).focus()
    page.keyboard.press("Enter")
    rows = page.locator(".ll-tabs > [role=tabpanel]:visible .ll-rows").first
    rows.focus()
    # A list may begin further down, where there is most to see.
    page.keyboard.press("Home")
    clear = page.get_by_role("button", name="select nothing")
    assert clear.is_hidden()
    # Some lines stand for nothing that can be selected: a title, a brace.
    for _ in range(60):
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        if clear.is_visible():
            break
    assert clear.is_visible()
    assert rows.locator(".ll-lit").count() > 0


def test_passes_and_firings_are_gone_through_without_a_mouse(page: Any, tmp_path: Path):
    opened(page, compiled(), tmp_path)
    page.get_by_role("listbox", name="passes").focus()
    # End is the last pass that changed more than an order; with Shift, it is the last.
    chosen = page.locator(".ll-pass[aria-selected=true]")
    page.keyboard.press("Shift+End")
    assert "depth-first" in chosen.inner_text()
    page.keyboard.press("End")
    assert "dce" in chosen.inner_text()
    page.keyboard.press("ArrowLeft")
    assert "fuse-rows" in chosen.inner_text()
    page.keyboard.press(".")
    page.keyboard.press(".")
    assert page.locator(".ll-tabs").get_by_text("2 of 5").first.is_visible()
    page.keyboard.press(",")
    assert page.locator(".ll-tabs").get_by_text("1 of 5").first.is_visible()
    page.keyboard.press("Home")
    assert "as written" in chosen.inner_text()
    page.keyboard.press("]")
    assert "simplify" in chosen.inner_text()
    # A rule's own source, at its own stop.
    page.get_by_role("tab", name="firings", exact=True).focus()
    page.get_by_role("group", name="what the firing did").focus()
    assert here(page) == "group what the firing did"
    # The bar between the areas: by arrow keys, and shut and open by Enter.
    bar = page.get_by_role("separator").last
    bar.focus()
    share = bar.get_attribute("aria-valuenow")
    page.keyboard.press("ArrowLeft")
    assert bar.get_attribute("aria-valuenow") != share
    times = page.get_by_role("heading", name="times", exact=True)
    page.keyboard.press("Enter")
    assert times.is_hidden()
    page.keyboard.press("Enter")
    assert times.is_visible()
