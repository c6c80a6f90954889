"""And if? A person edits a kernel's schedule in the page, and the board says what came of it."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.search import measure
from luminal_lab.search.board import Board
from luminal_lab.viz.live.workbench import Workbench
from tests.browser.axe import faults
from tests.browser.behind import Behind
from tests.browser.pages import compiled, opened

EIGHTS = "split i by 2 as task, own\nparallel i.task\nsimd j"


@pytest.fixture
def bench(page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behind:
    monkeypatch.setattr(measure, "LAST_ROUNDS", 8)
    page.set_viewport_size({"width": 1000, "height": 900})
    cx = ll.Graph("sums")
    x = cx.tensor((64, 40), name="x")
    (x * x).sum(-1).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    if not hasattr(cx.compilation.runner, "compiler"):
        compiled()  # which skips without a compiler
    behind = Behind(page, cx.workbench(), tmp_path)
    page.get_by_role("tab", name="and if?").click()
    return behind


def board_of(bench: Behind) -> Board:
    """Return the board of the page's kernel."""
    assert isinstance(bench.live, Workbench)
    return bench.live.board("mul_sum")


def test_a_schedule_is_tried_named_kept_and_dropped(page: Any, bench: Behind, tmp_path: Path):
    text = page.get_by_role("textbox", name="a schedule to try")
    assert text.input_value() == bench.live.subjects[0].facts.kernels[0].schedule
    text.fill(EIGHTS)
    page.get_by_role("textbox", name="name of the try", exact=True).fill("twos")
    text.press("Control+Enter")
    row = page.locator("[data-try=twos]")
    row.wait_for()
    assert page.locator("[data-try]").count() == 2
    tried = board_of(bench)["twos"]
    assert tried.text == EIGHTS
    assert tried.state in row.inner_text()
    assert " ± " in row.inner_text()
    row.get_by_role("checkbox").check()
    page.wait_for_function("document.querySelector('[data-try=twos] [type=checkbox]').checked")
    row.get_by_role("textbox").fill("pairs")
    row.get_by_role("textbox").press("Enter")
    page.locator("[data-try=pairs]").wait_for()
    assert board_of(bench)["pairs"].is_kept
    page.get_by_role("combobox", name="compare pairs with").select_option(label="first")
    assert "split i by 2" in page.locator(".ll-code .ll-is-new").first.inner_text()
    page.get_by_role("button", name="Python", exact=True).last.click()
    assert "rescheduled" in page.locator(".ll-code").last.inner_text()
    assert faults(page) == []
    page.get_by_role("button", name="drop pairs").click()
    page.wait_for_function("document.querySelectorAll('[data-try]').length === 1")


def test_what_is_wrong_is_said_at_its_line_and_column(page: Any, bench: Behind):
    text = page.get_by_role("textbox", name="a schedule to try")
    text.fill("split i by 2 as task, own\nsplat j")
    page.get_by_role("button", name="Try it").click()
    alert = page.locator(".ll-wrong")
    alert.wait_for()
    assert alert.inner_text().startswith("line 2, column 1: ")
    assert page.locator(".ll-editor .ll-is-wrong").inner_text() == "2"
    assert page.evaluate("document.activeElement.selectionStart") == 26
    text.fill("split i by 2 as task, own\n  parallel i.tusk")
    page.get_by_role("button", name="Try it").click()
    page.locator("[data-try='try 1']").wait_for()
    assert alert.inner_text() == "line 2, column 3: parallel i.tusk: there is no loop i.tusk"
    assert "refused in line 2" in page.locator("[data-try='try 1']").inner_text()


def test_a_page_and_a_recording_have_what_was_tried(page: Any, bench: Behind, tmp_path: Path):
    board_of(bench).add(EIGHTS, name="twos")
    folder = tmp_path / "page"
    folder.mkdir()
    opened(page, bench.live, folder)
    page.get_by_role("tab", name="and if?").click()
    assert page.locator("[data-try]").count() == 2
    page.get_by_role("button", name="Try it").click()
    assert "This needs a kernel" in page.locator(".ll-answer").inner_text()
    bench.live.compilations[0].save(tmp_path / "run.lab")
    recorded = ll.open(tmp_path / "run.lab").workbench()
    assert isinstance(recorded, Workbench)
    opened(page, recorded, folder)
    page.get_by_role("tab", name="and if?").click()
    assert page.locator("[data-try]").count() == 2
    twos = page.locator("[data-try=twos]")
    assert twos.inner_text().strip().startswith("twos")
    assert "°" in twos.inner_text()
    assert twos.get_by_role("textbox").count() == 0
    assert page.get_by_role("button", name="drop twos").count() == 0
    assert page.locator(".ll-boarded h2").inner_text().startswith("° recorded, not measured here:")
    assert faults(page) == []
