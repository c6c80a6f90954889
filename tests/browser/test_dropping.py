"""A served page in a real browser: it is live, and a file that is dropped opens as another run."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.cli.serving import Serving
from tests.browser.pages import compiled

DROP = """({name, text}) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(text), sign => sign.charCodeAt(0))], name));
    const root = document.querySelector(".ll-root");
    const how = {dataTransfer: data, bubbles: true, cancelable: true};
    for (const type of ["dragenter", "dragover", "drop"])
        root.dispatchEvent(new DragEvent(type, how));
}"""


@pytest.fixture
def served(chromium: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page whose questions are answered, and what it has asked for."""
    live = compiled()
    with Serving(live.served_page().encode(), live=live) as serving:
        context = chromium.new_context(viewport={"width": 1344, "height": 800})
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(serving.address)
        page.locator(".ll-graph").first.wait_for()
        yield page, asked
        assert all(url.startswith(serving.address) for url in asked)
        context.close()


def drop(page: Any, path: Path) -> None:
    page.evaluate(DROP, {"name": path.name, "text": b64encode(path.read_bytes()).decode()})


def test_a_dropped_recording_opens_beside_the_first(served: Any, tmp_path: Path):
    page, _ = served
    cx = ll.Graph("dropped")
    (cx.tensor((3,), name="x") * 2 + 0).retrieve()
    cx.compile("simplify, dce")
    cx.save(tmp_path / "run.lab")
    drop(page, tmp_path / "run.lab")
    page.get_by_text("of 2").first.wait_for()
    page.locator("option:checked", has_text="dropped").first.wait_for(state="attached")
    assert page.locator(".ll-bench > .ll-bar > strong").inner_text() == "dropped"
    assert page.locator(".ll-over").count() == 0


def test_what_cannot_be_opened_is_said_above(served: Any, tmp_path: Path):
    page, _ = served
    (tmp_path / "notes.txt").write_text("hello")
    drop(page, tmp_path / "notes.txt")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "open: notes.txt is nothing that is known here" in alert.inner_text()
    alert.get_by_role("button").click()
    assert page.get_by_role("alert").count() == 0


def test_a_served_page_computes_values(served: Any):
    page, _ = served
    page.get_by_role("button", name="open", exact=True).wait_for()
    page.locator(".ll-graph").first.focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("tab", name="about").click()
    page.get_by_role("button", name="values", exact=False).first.click()
    page.get_by_text("numbers").first.wait_for()
