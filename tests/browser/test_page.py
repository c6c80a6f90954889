"""Exported pages, opened from disk in a real browser without a network."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.devices.toolchain import find_compiler
from luminal_lab.errors import DeviceError
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.explorer import explorer
from luminal_lab.viz.live.static import script
from luminal_lab.viz.live.workbench import workbench
from tests.browser.conftest import Watched, missing
from tests.browser.hostile import hostile_subject

LIMIT = 6_000


@pytest.fixture(autouse=True)
def _the_script_is_built():
    try:
        script()
    except DeviceError as error:
        missing(error.message)


def softmax() -> ll.Graph:
    cx = ll.Graph("softmax")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("head"):
        (x.softmax(-1) * 1).named("p").retrieve()
    return cx


def opened(page: Any, live: Live, folder: Path) -> None:
    """Export something and open it."""
    path = folder / "page.html"
    live.export(path)
    page.goto(path.as_uri())
    page.wait_for_selector(".ll-root svg", timeout=LIMIT)


def test_an_explorer_opens_without_a_network(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    assert page.title() == "softmax"
    assert page.locator("[data-ll-static]:visible").count() == 0
    assert page.get_by_text("max_reduce").first.is_visible()
    # Nothing hangs over the edge.
    size = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
    )
    assert size == [1400, 900]


def test_it_can_be_searched_and_asked(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    page.get_by_role("searchbox").first.fill("op:sum_reduce")
    page.keyboard.press("Enter")
    page.get_by_text("sum_reduce").first.wait_for(timeout=LIMIT)
    body = page.locator("body").inner_text()
    assert "test_page.py" in body  # the line that wrote it


def test_what_needs_a_kernel_says_so(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    page.get_by_role("searchbox").first.fill("op:sum_reduce")
    page.keyboard.press("Enter")
    page.get_by_text("needs a kernel").first.wait_for(timeout=LIMIT)


def test_a_workbench_steps_through_passes(page: Any, tmp_path: Path):
    cx = softmax()
    cx.compile("simplify, dce")
    opened(page, cx.workbench(), tmp_path)
    body = page.locator("body")
    assert "after dce" in body.inner_text()
    page.get_by_role("tab").first.focus()
    page.keyboard.press("[")
    page.get_by_text("after simplify").first.wait_for(timeout=LIMIT)
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert tab.get_attribute("aria-selected") == "true"


def test_kernels_and_sources_are_there(page: Any, tmp_path: Path):
    try:
        find_compiler()
    except DeviceError as error:
        pytest.skip(str(error))
    cx = softmax()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    opened(page, cx.workbench(dialects=["cuda", "metal"]), tmp_path)
    page.get_by_role("tab", name="source").click()
    page.get_by_text("lab_buffers").first.wait_for(timeout=LIMIT)


def test_where_no_script_runs_the_picture_is_there(chromium: Any, tmp_path: Path):
    cx = softmax()
    cx.compile("simplify, dce")
    cx.workbench().export(tmp_path / "page.html")
    context = chromium.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("img").evaluate("i => i.naturalWidth") > 100
    assert page.locator("img").is_visible()
    text = page.locator("body").inner_text()
    assert "simplify" in text
    assert "This page is alive where scripts may run" in text
    context.close()


@pytest.mark.parametrize("what", [explorer, workbench])
def test_no_text_of_the_users_runs(page: Any, watched: Watched, tmp_path: Path, what: Any):
    opened(page, what([Backed(hostile_subject())]), tmp_path)
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(50)
    page.get_by_role("button", name="Table").click() if what is explorer else None
    for key in ("e", "f", "/", "Escape", "?", "Escape"):
        page.locator("body").press(key)
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    # Whatever was made of these texts, it is text.
    made = page.evaluate(
        "[...document.querySelectorAll('script, iframe, img, object, embed, a[href]')]"
        ".map(e => e.tagName + ' ' + (e.id || e.type || e.getAttribute('href') || ''))"
    )
    assert [one for one in made if one not in ("SCRIPT module", "IMG ")] == []
    handlers = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
        ".filter(a => a.name.startsWith('on')).map(a => a.name)"
    )
    assert handlers == []


def test_no_text_of_the_users_runs_where_no_script_is_ours(chromium: Any, tmp_path: Path):
    """The static part alone: as if the policy were not there, and our script had failed."""
    live = workbench([Backed(hostile_subject())])
    path = tmp_path / "static.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{live.static('data-x')}", "utf-8", "replace"
    )
    context = chromium.new_context(offline=True)
    page = context.new_page()
    dialogs: list[str] = []
    page.on("dialog", lambda one: (dialogs.append(one.message), one.dismiss()))
    page.goto(path.as_uri())
    page.wait_for_timeout(200)
    assert (dialogs, page.evaluate("window.hit")) == ([], None)
    assert page.evaluate("document.querySelectorAll('script, iframe').length") == 0
    context.close()


def test_the_policy_forbids_other_scripts_and_all_requests(
    page: Any, watched: Watched, tmp_path: Path
):
    watched.allowed += ["Content Security Policy", "violates", "Failed to fetch", "blocked"]
    opened(page, softmax().explore(), tmp_path)
    assert page.evaluate(
        """async () => {
            const script = document.createElement("script");
            script.textContent = "window.hit = 1";
            document.body.append(script);
            const image = new Image();
            image.src = "https://example.org/x.png";
            const done = [() => "answered", () => "refused"];
            const asked = await fetch("https://example.org/").then(...done);
            await new Promise((done) => setTimeout(done, 200));
            return [window.hit ?? null, asked];
        }"""
    ) == [None, "refused"]
    assert any("Content Security Policy" in one for one in watched.complaints)
