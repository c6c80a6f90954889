"""No picture of the workbench has a fault that a machine can see, at any width, light or dark."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.browser.judge import judged
from tests.browser.pictures import LOOKS, SCHEMES, SIZES, Look, Place, pictures

BAD = """
<style>
  body { margin: 0; font: 16px/20px monospace }
  div { position: relative }
  .narrow { width: 60px; overflow: hidden; white-space: nowrap }
  .short { text-overflow: ellipsis }
</style>
<div id="root" style="width: 300px">
  <div style="height: 20px"><i style="position: absolute">above</i><i>below</i></div>
  <div class="narrow">much too long</div>
  <div class="narrow short">nobody tells</div>
  <div class="narrow short" title="the rest">told here</div>
  <div style="font-size: 8px">tiny</div>
  <div class="ll-area" style="width: 200px; height: 100px"></div>
  <div style="left: 250px; width: 100px">outside</div>
  <div class="ll-graph" style="width: 300px; height: 120px">
    <svg width="300" height="120">
      <g><path d="M10 10h80v40h-80z"/><text x="20" y="30">node</text></g>
      <text x="60" y="40">label</text>
    </svg>
    <div class="ll-map" style="position: absolute; inset: 40px 240px 40px 20px"></div>
  </div>
</div>
"""


@pytest.fixture
def place(chromium: Any, tmp_path: Path) -> Iterator[Place]:
    """Where pictures are taken; what was started for them ends with the test."""
    with ExitStack() as ends:
        yield Place(chromium, tmp_path, ends)


def faults(place: Place, name: str, *looks: Look) -> dict[str, list[str]]:
    """Return what is wrong with pictures, by their titles; some were taken."""
    found = dict(pictures(place, [name], looks))
    assert found
    return {title: told for title, told in found.items() if told}


def test_the_judge_sees_each_kind_of_fault(page: Any):
    page.set_content(BAD)
    assert sorted(judged(page.locator("#root"))) == [
        'covers: ll-map "" the node "node"',
        'cut: narrow "much too long"',
        'cut: narrow.short "nobody tells"',
        'cut: sideways "much too long"',
        "empty: ll-area",
        'outside: DIV "outside" by 50px',
        'overlap: "above" and "below"',
        'overlap: "label" over the node "node"',
        'small: 8.0px "tiny"',
    ]


@pytest.mark.share("name, look", list(product(["block$", "llama"], LOOKS)), 2)
def test_a_page_of_ones_own(place: Place, name: str, look: Look):
    assert faults(place, name, look) == {}


@pytest.mark.share("name", ["00-stored", "04-stored", "08-stored"], 1)
def test_a_notebook_of_somebody_else(place: Place, name: str, long: bool, seed: int):
    assert faults(place, name, *drawn(long, seed)) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["00$", "04$", "08$"])
def test_a_notebook_that_is_run(place: Place, name: str, long: bool, seed: int):
    if not long:
        pytest.skip("make test-long runs notebooks and looks at them")
    assert faults(place, name, *drawn(long, seed)) == {}


def drawn(long: bool, seed: int) -> list[Look]:
    """Return all looks, or one."""
    return LOOKS if long else random.Random(seed).sample(LOOKS, 1)


def test_each_width_is_looked_at_in_light_and_dark():
    assert set(LOOKS) == set(product(SIZES, SCHEMES))
