"""Predict, then reveal: somebody picks what will go, and the page says what the pass does."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.viz.live.predict import Prediction
from tests.browser.axe import faults
from tests.browser.behind import Behind
from tests.browser.pages import opened


@pytest.fixture
def quiz() -> Prediction:
    """Return the question of what two rules will do to five nodes."""
    cx = ll.Graph("quiz")
    x = cx.tensor((4,), name="x")
    ((x * 1).sin().named("s") + 0).named("y").retrieve()
    cx.compile("simplify, dce")
    return ll.predict(cx, "dce")


def picked(page: Any) -> list[str]:
    """Return the nodes that are said to go."""
    return page.locator(".ll-asked fieldset button").all_inner_texts()


def click(page: Any, label: str) -> None:
    """Click at a node of the picture."""
    box = page.locator(".ll-graph text", has_text=label).first.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def revealed(page: Any) -> list[list[str]]:
    """Return what was said and what is, question by question."""
    rows = page.locator(".ll-asked tbody tr").all()
    return [[cell.inner_text() for cell in row.locator("td").all()[1:]] for row in rows]


def test_what_is_said_stands_beside_what_happens(page: Any, quiz: Prediction, tmp_path: Path):
    opened(page, quiz, tmp_path)
    before = len(quiz.snapshot.before)
    assert page.locator("h2").inner_text() == f"What will dce do to these {before} nodes?"
    assert page.locator(".ll-caption").inner_text().startswith("before dce: ")
    assert page.locator(".ll-asked table").count() == 0
    # What the pass does is nowhere to be read.
    assert "removed" not in page.locator(".ll-root").inner_text()
    page.get_by_role("spinbutton").fill("3")
    page.get_by_role("checkbox", name="unused").check()
    click(page, "sin")
    assert picked(page) == ["%s ×"]
    page.get_by_role("button", name="Reveal").click()
    went = [str(one) for one in quiz.gone]
    number, nodes, rules = revealed(page)
    assert number == ["✓ 3" if len(quiz.snapshot.ir) == 3 else "✗ 3", f"{len(quiz.snapshot.ir)}"]
    assert nodes == ["✗ %s", ", ".join(went)]
    assert rules == ["✓ unused", f"unused ×{quiz.rules['unused']}"]
    assert page.locator(".ll-caption").inner_text().startswith("before and after dce: ")
    assert faults(page) == []
    # Nothing more is picked once it is known.
    click(page, "sin")
    assert picked(page) == ["%s ×"]
    page.get_by_role("button", name="Hide it again").click()
    assert page.locator(".ll-asked table").count() == 0
    assert page.locator(".ll-caption").inner_text().startswith("before dce: ")


def test_nodes_are_picked_and_taken_back_by_mouse_and_keys(
    page: Any, quiz: Prediction, tmp_path: Path
):
    opened(page, quiz, tmp_path)
    click(page, "sin")
    assert picked(page) == ["%s ×"]
    page.wait_for_timeout(600)  # a second click at once would be a double one
    click(page, "sin")
    assert picked(page) == []
    assert "click nodes in the graph, or press Enter" in page.locator(".ll-asked").inner_text()
    # To drag the picture picks nothing.
    box = page.locator(".ll-graph").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 50, steps=4)
    page.mouse.up()
    assert picked(page) == []
    page.locator(".ll-graph").focus()
    page.keyboard.press("ArrowUp")
    assert picked(page) == []
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert picked(page) == ["%x ×", "%2 ×"]
    page.get_by_role("button", name="%x stays").click()
    assert picked(page) == ["%2 ×"]
    assert faults(page) == []


def test_without_an_answer_nothing_is_judged(page: Any, quiz: Prediction, tmp_path: Path):
    Behind(page, quiz, tmp_path)
    page.get_by_role("button", name="Reveal").click()
    assert [said for said, _ in revealed(page)] == ["", "", ""]
    page.get_by_role("checkbox", name="none").check()
    page.get_by_role("button", name="Reveal").click()
    assert revealed(page)[2][0] == "✗ none"
    assert page.locator(".ll-asked .ll-is-right").count() == 0
