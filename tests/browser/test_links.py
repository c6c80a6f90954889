"""Links to an exact place: a page's fragment leads there and follows; it is a stranger's text."""

from pathlib import Path
from typing import Any

import pytest

from luminal_lab.viz.live.workbench import Workbench
from tests.browser.pages import compiled, opened

STRANGE = (
    ("recognize", "There is no pass “recognize” here: did you mean “recognise”?"),
    ("recognise/99", "recognise has 2 firings, not 99."),
    ("recognise/%25pp", "There is no node “%pp” here: did you mean “%p”?"),
    ("dce/kernel softmx", "There is no kernel “softmx” here: did you mean “softmax”?"),
    ("dce/<img src=x onerror=alert(1)>", "“<img src=x onerror=alert(1)>” selects nothing"),
    ("9:dce", "There is no run 9: they go from 0 to 0."),
    ("dce%E2%80%AE", "The link names no place."),
    ("x" * 500, "The link names no place."),
)


@pytest.fixture
def bench(page: Any, tmp_path: Path) -> Workbench:
    made = compiled()
    opened(page, made, tmp_path)
    return made


def fragment(page: Any) -> str:
    """Return the fragment of the page's address, once it has caught up."""
    page.wait_for_timeout(300)
    return page.evaluate("decodeURIComponent(location.hash)")


def looked_at(page: Any) -> str:
    """Return the pass that the page shows."""
    return page.locator(".ll-pass[aria-selected=true]").inner_text().split()[0]


def test_the_fragment_follows_and_leads_back(page: Any, bench: Workbench):
    assert fragment(page) == ""  # until one walks
    first = f"#at={bench.at}"
    assert looked_at(page) == bench.stage.name
    page.locator(".ll-graph").first.focus()
    page.keyboard.press("[")
    page.keyboard.press(".")
    bench.at = fragment(page).removeprefix("#at=")
    assert f"#at={bench.at}" != first
    assert bench.firing is not None
    page.get_by_text("softmax(-1)").first.click()
    at = fragment(page).removeprefix("#at=")
    bench.at = at
    assert bench.at == at
    assert "pages.py, line " in at


def test_python_and_the_page_mean_the_same(page: Any, bench: Workbench):
    names = [f"%{node.name}" for node in bench.subjects[0].snapshots[0].ir][:4]
    texts = ["dce@16" if len(bench.subjects[0].snapshots) > 16 else "dce", "recognise/1"]
    texts += [f"recognise/{name}" for name in names]
    texts += ["recognise/0/scope head", "dce/kernel softmax", "dce/rule unused", "written/launch 0"]
    texts += ["/%p", "/1/rule unused", ""]  # one stays
    for text in texts:
        try:
            bench.at = text
        except Exception:  # what is not a pass here is not compared
            continue
        page.evaluate("(at) => { location.hash = 'at=' + encodeURIComponent(at); }", text)
        page.evaluate("() => dispatchEvent(new HashChangeEvent('hashchange'))")
        assert fragment(page) == f"#at={bench.at}", text


def test_a_link_opens_where_it_says(page: Any, bench: Workbench, tmp_path: Path):
    address = (tmp_path / "page.html").as_uri()
    page.goto("about:blank")
    page.goto(f"{address}#at=recognise/1/%25p")
    page.wait_for_selector(".ll-root svg")
    assert fragment(page) == "#at=recognise/1/%p"
    assert "%p" in page.locator(".ll-bench > .ll-bar .ll-one").inner_text()
    page.get_by_role("button", name="link", exact=True).click()
    assert page.locator(".ll-bench code").inner_text() == f"{address}#at=recognise/1/%25p"


@pytest.mark.parametrize("text", ["/%p", "/rule unused", "/kernel softmax"])
def test_a_link_without_a_pass_begins_where_python_does(
    page: Any, bench: Workbench, tmp_path: Path, text: str
):
    page.goto("about:blank")
    page.goto(f"{(tmp_path / 'page.html').as_uri()}#at={text.replace('%', '%25')}")
    page.wait_for_selector(".ll-root svg")
    bench.at = text
    assert looked_at(page) == bench.stage.name
    selected = text.removeprefix("/").rpartition(" ")[2]
    assert selected in page.locator(".ll-bench > .ll-bar .ll-one").inner_text()


@pytest.mark.parametrize(("text", "sentence"), STRANGE)
def test_a_wrong_link_is_answered_in_words(
    page: Any, bench: Workbench, tmp_path: Path, text: str, sentence: str
):
    page.goto("about:blank")
    page.goto(f"{(tmp_path / 'page.html').as_uri()}#at={text}")
    page.wait_for_selector(".ll-root svg")
    assert page.get_by_role("alert").inner_text().startswith(sentence)
    assert page.locator(".ll-root img").count() == 0
