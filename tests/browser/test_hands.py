"""The same hands in explorer and workbench: each key that the help lists does what it says."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

import luminal_lab as ll
from luminal_lab.viz.live.workbench import Workbench
from tests.browser.pages import LIMIT, opened

# What keys change, part by part.
STATE = """() => {
  const all = (what) => [...document.querySelectorAll(what)], here = document.activeElement;
  const seen = (what) => all(what).filter((one) => one.checkVisibility({visibilityProperty: true}));
  const graph = here.closest('.ll-graph') ?? seen('.ll-graph')[0];
  const words = (what) => seen(what).map((one) => one.textContent).join();
  return {
    focus: here.outerHTML.slice(0, 90),
    row: here.getAttribute('aria-activedescendant'),
    dialog: seen('[role=dialog]').length,
    table: seen('[role=grid]').length,
    details: seen('.ll-side').length,
    window: !!document.fullscreenElement,
    type: getComputedStyle(seen('.ll-button')[0]).fontSize,
    selected: seen('.ll-marks .ll-ring, .ll-marks .ll-near').length + words('.ll-nodes .ll-lit'),
    cursor: graph?.querySelector('.ll-cursor').getAttribute('aria-label'),
    boxes: graph?.querySelectorAll('.ll-sheet .ll-title').length,
    legend: words('.ll-legend'),
    camera: graph?.querySelector('.ll-sheet').style.transform
      + graph?.querySelector('.ll-sheet g').getAttribute('transform'),
    pass: words('.ll-pass[aria-selected=true]'),
    firing: words('.ll-place b'),
    play: all('.ll-button').filter((one) => /^(Play|Pause)$/.test(one.textContent)).length
      + words('.ll-bar .ll-button'),
  };
}"""


class Case(NamedTuple):
    """Keys pressed first, in the picture, and which part of the state the key then changes."""

    changes: str
    first: str = ""


EVERYWHERE = {
    "?": Case("dialog"),
    "/": Case("focus"),
    "t": Case("table"),
    "o": Case("focus"),
    "i": Case("details"),
    "w": Case("window"),
    "P": Case("type"),
    "Escape": Case("selected", "ArrowDown"),
}
TOP = "ArrowUp " * 11
"""To the graph's input, from wherever the keyboard is."""
PICTURE = {
    "ArrowUp": Case("cursor", TOP + "ArrowDown"),
    "ArrowDown": Case("cursor", TOP),
    "ArrowLeft": Case("cursor", TOP + "ArrowDown ArrowRight"),
    "ArrowRight": Case("cursor", TOP + "ArrowDown ArrowLeft"),
    "Enter": Case("boxes", TOP + "ArrowDown Backspace"),
    "Space": Case("boxes", TOP + "ArrowDown Backspace"),
    "Backspace": Case("cursor", TOP + "ArrowDown"),
    "e": Case("boxes", "C"),
    "E": Case("boxes", "C"),
    "c": Case("boxes", "E"),
    "C": Case("boxes", "E"),
    "a": Case("legend", TOP + "ArrowDown"),
    "d": Case("legend", TOP + "ArrowDown"),
    "f": Case("camera", "- -"),
    "+": Case("camera"),
    "=": Case("camera"),
    "-": Case("camera"),
    "0": Case("camera", "- -"),
}
LISTS = {
    "ArrowDown": Case("row", "t Home"),
    "ArrowUp": Case("row", "t End"),
    "Enter": Case("selected", "t"),
    "Space": Case("selected", "t"),
}
PASSES = {
    "[": Case("pass"),
    "]": Case("pass"),
    "{": Case("pass"),
    "}": Case("pass"),
    ",": Case("firing", "."),
    ".": Case("firing"),
    "<": Case("firing", "] " + TOP + "ArrowDown ArrowDown ArrowDown"),
    ">": Case("firing", "[ " + TOP + "ArrowDown ArrowDown ArrowDown"),
    "p": Case("play"),
}
SHARED = {"Everywhere": EVERYWHERE, "Picture": PICTURE, "Lists and tables": LISTS}
PARTS = {"explorer": SHARED, "workbench": {**SHARED, "Passes and firings": PASSES}}
SIGNS = {"↑": "ArrowUp", "↓": "ArrowDown", "←": "ArrowLeft", "→": "ArrowRight"}
SIGNS |= {"Esc": "Escape", "⌫": "Backspace"}


def branched() -> ll.Graph:
    """Return a graph in which nodes have neighbours."""
    cx = ll.Graph("branched")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("head"):
        (x.sin() * x.exp2() * 1).named("p").retrieve()
    return cx


def compiled() -> Workbench:
    """Return a workbench of a compile without a device."""
    cx = branched()
    cx.compile(ll.GenericCompiler())
    return cx.workbench()


def begun(page: Any, what: str, folder: Path) -> None:
    """Open an explorer or a workbench, with its first picture in focus."""
    live = branched().explore() if what == "explorer" else compiled()
    opened(page, live, folder)
    page.locator(".ll-graph").first.focus()


def listed(page: Any) -> dict[str, list[str]]:
    """Return the keys that the help lists, by where they work."""
    page.keyboard.press("?")
    found: dict[str, list[str]] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('.ll-help h3')].map((one) => [
          one.textContent,
          [...one.nextElementSibling.querySelectorAll('kbd')].map((key) => key.textContent)]))"""
    )
    page.keyboard.press("Escape")
    return {where: [SIGNS.get(key, key) for key in keys] for where, keys in found.items()}


@pytest.mark.parametrize("what", PARTS)
def test_the_help_lists_what_is_tried_here(page: Any, tmp_path: Path, what: str):
    begun(page, what, tmp_path)
    assert listed(page) == {where: list(keys) for where, keys in PARTS[what].items()}


@pytest.mark.share("what, where", [(what, where) for what in PARTS for where in PARTS[what]], 2)
def test_each_key_does_something_where_it_is_listed(
    page: Any, tmp_path: Path, what: str, where: str
):
    begun(page, what, tmp_path)
    for key, case in PARTS[what][where].items():
        for one in case.first.split():
            page.keyboard.press(one)
            page.wait_for_timeout(60)
        before = settled(page)[case.changes]
        page.keyboard.press(key)
        for _ in range(LIMIT // 50):
            after = page.evaluate(STATE)[case.changes]
            if after != before:
                break
            page.wait_for_timeout(50)
        assert after != before, f"{key} changes no {case.changes}: {before}"
        settled(page)
        undone(page, key)


def settled(page: Any) -> dict[str, Any]:
    """Return the state once nothing moves any more."""
    last = None
    while (now := page.evaluate(STATE)) != last:
        last = now
        page.wait_for_timeout(200)
    return now


def undone(page: Any, key: str) -> None:
    """Go back to the picture, with nothing selected, all open and the first pass."""
    if key in "wPp":
        page.keyboard.press(key)
    for _ in range(4):
        page.keyboard.press("Escape")
    if page.evaluate(STATE)["table"]:
        page.keyboard.press("t")
    if page.get_by_role("tab", name="firings", exact=True).count():
        page.get_by_role("tab", name="firings", exact=True).click()
    back = {"[": "]", "]": "[", "{": "}", "}": "{"}
    page.locator(".ll-graph").first.focus()
    for one in (back.get(key, ""), "E", "f"):
        if one:
            page.keyboard.press(one)
    page.wait_for_timeout(300)
