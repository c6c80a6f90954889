"""Exported pages, opened from disk in a real browser without a network."""

from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.explorer import explorer
from luminal_lab.viz.live.workbench import workbench
from tests.browser.conftest import Watched
from tests.browser.hostile import hostile_subject
from tests.browser.pages import LIMIT, compiled, opened, softmax
from tests.needs import need


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
    assert "pages.py" in body  # the line that wrote it


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
    assert "after simplify" in body.inner_text()
    page.get_by_role("tab").first.focus()
    page.keyboard.press("]")
    page.get_by_text("after dce").first.wait_for(timeout=LIMIT)
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert tab.get_attribute("aria-selected") == "true"


def test_kernels_and_sources_are_there(page: Any, tmp_path: Path):
    opened(page, compiled(), tmp_path)
    page.locator(".ll-root").get_by_text("lab_buffers").first.wait_for(timeout=LIMIT)


def test_nbconverts_page_has_the_picture(chromium: Any, tmp_path: Path):
    nbformat, nbconvert = need("nbformat"), need("nbconvert")
    shown = nbformat.v4.new_output("display_data", softmax().display()._repr_mimebundle_())
    cell = nbformat.v4.new_code_cell("cx.display()", outputs=[shown])
    html, _ = nbconvert.HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    (tmp_path / "notebook.html").write_text(html, "utf-8")
    # Its own scripts come from elsewhere, and are not needed.
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto((tmp_path / "notebook.html").as_uri(), wait_until="commit")
    image = page.get_by_role("img", name="Graph softmax")
    image.wait_for(timeout=LIMIT)
    assert image.evaluate("one => one.naturalWidth") > 100
    context.close()


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


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: data[: len(data) // 2], "it cannot be unpacked"),
        (lambda data: data[: len(data) // 8 * 4 + 1], "the page was cut off, or changed"),
        (lambda data: "", "This is not the data of a picture"),
        (lambda data: "AAAA" + data, "This is not the data of a picture"),
        (lambda data: data[:400] + "A" * 80 + data[480:], "it cannot be unpacked"),
        (lambda data: "\u00fc" + data, "the page was cut off, or changed"),
    ],
)
def test_a_damaged_page_says_so_below_its_picture(
    page: Any, tmp_path: Path, damage: Any, sentence: str
):
    softmax().explore().export(tmp_path / "page.html")
    whole = (tmp_path / "page.html").read_text("utf-8")
    before, head, rest = whole.partition('id="ll-data">')
    data, tail, after = rest.partition("</script>")
    (tmp_path / "damaged.html").write_text(f"{before}{head}{damage(data)}{tail}{after}", "utf-8")
    page.goto((tmp_path / "damaged.html").as_uri())
    page.get_by_role("alert").get_by_text(sentence).wait_for(timeout=LIMIT)
    assert page.locator("img[data-ll-static]").is_visible()


HOSTILE_SEARCHES = [
    "/(/", "/[/", "/*/", "/(?<a>/", "/\\/", "/(a+)+$/", "/(\\w|_)*\\d!/", "/./", "/^/", "/$/",
    "\"", "-", "--", "op:", "op:op:op:", ":::", "%", "%%", "-%x", "/", "//", "///", "op:/",
    "<img src=x onerror=alert(1)>", "\u202e\u0000\ud800", "x" * 100_000, "a " * 50_000,
    "constructor", "__proto__", "name:__proto__",
]  # fmt: skip
"""What somebody may type: bad expressions, those that never end, huge texts, signs alone."""


def test_whatever_is_searched_for_is_answered_at_once(page: Any, tmp_path: Path):
    opened(page, softmax().explore(), tmp_path)
    field, summary = page.get_by_role("searchbox"), page.locator(".ll-search [role=status]")
    for typed in HOSTILE_SEARCHES:
        field.fill(typed)
        page.keyboard.press("Enter")
        assert summary.inner_text() != "", typed
    field.fill("op:exp2")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="exp2").wait_for(timeout=LIMIT)


def test_a_long_name_and_a_long_line_do_not_break_it(page: Any, tmp_path: Path):
    cx = ll.Graph("g" * 5_000)
    x = cx.tensor((4,), name="x" * 20_000)
    scope = ".".join(["deep"] * 60)
    with cx.scope(scope):
        y = (x + 1).named("y" * 20_000)
    y.retrieve()
    cx.compile("dce")
    opened(page, cx.workbench(), tmp_path)
    size = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert size[0] == size[1]
    page.keyboard.press("ArrowDown")
    page.get_by_role("tab", name="about", exact=True).click()
    page.locator(".ll-side h2").wait_for(timeout=LIMIT)


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
