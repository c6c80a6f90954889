"""Pages for tests: a graph with a scope, as written and compiled, exported and opened."""

from pathlib import Path
from typing import Any

import luminal_lab as ll
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.workbench import Workbench
from tests.needs import need

LIMIT = 6_000
"""Milliseconds that a page may take."""

WITH_TABS = {"width": 1000, "height": 900}
"""A window with room for tabs only; in a wider one the workbench has its panes side by side."""


def softmax() -> ll.Graph:
    """Return a small graph with a scope and something that passes remove."""
    cx = ll.Graph("softmax")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("head"):
        (x.softmax(-1) * 1).named("p").retrieve()
    return cx


def compiled() -> Workbench:
    """Return a workbench that knows all there is: kernels in three languages, times, memory."""
    need("cc")
    cx = softmax()
    cx["x"].set([[0.5] * 8] * 4)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx.workbench(cx.time(rounds=2), dialects=["cuda", "metal"])


def opened(page: Any, live: Live, folder: Path) -> None:
    """Export something and open it."""
    path = folder / "page.html"
    live.export(path)
    page.goto(path.as_uri())
    page.wait_for_selector(".ll-root svg", timeout=LIMIT)


LETTERS = """() => [...document.querySelectorAll('.ll-graph')]
  .filter((one) => one.checkVisibility()).map((one) => {
    const seen = one.getBoundingClientRect();
    return [...one.querySelectorAll('.ll-sheet text')].filter((text) => {
      const box = text.getBoundingClientRect();
      return box.right > seen.left && box.left < seen.right
        && box.bottom > seen.top && box.top < seen.bottom;
    }).map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
  })"""
"""The heights of the letters in sight, in pixels, of each picture."""
