"""Letters in nodes, in the fonts that this machine has: whole, within their nodes, of one size."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import opened
from tests.viz.graphs import gpt2

# Of each node that has a name: what sticks out of its outline, and how large its letters are.
NAMES = """() => {
  const found = [...document.querySelectorAll(".ll-graph text.ll-name")].map((text) => [
    text.textContent, text.getBoundingClientRect(),
    text.parentElement.querySelector("path").getBoundingClientRect(),
    getComputedStyle(text).fontSize]);
  return {
    cut: found.filter(([name, inner, outer]) => inner.width > outer.width - 2 || name.includes("…"))
      .map(([name]) => name).filter((name) => !name.includes(" … ")),
    sizes: new Set(found.map(([, , , size]) => size)).size,
  };
}"""


@pytest.mark.parametrize("further", [0, 1, 2, 3])
def test_names_are_whole_and_of_one_size(page: Any, tmp_path: Path, further: int):
    opened(page, gpt2(2).explore(), tmp_path)
    picture = page.locator(".ll-graph")
    picture.focus()
    picture.press("E")
    picture.press("0")
    for _ in range(further):
        picture.press("-")
    # It is painted anew a little after the last step, and then as there is time.
    page.wait_for_timeout(400)
    page.locator(".ll-graph text.ll-name").nth(5).wait_for()
    found = page.evaluate(NAMES)
    assert (found["cut"], found["sizes"]) == ([], 1)
