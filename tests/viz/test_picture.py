"""Pictures as values: what a notebook gets, and the files they are written to."""

import base64
from html.parser import HTMLParser
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DeviceError, RecordingError
from luminal_lab.viz import picture as module
from tests.expect import error_of
from tests.viz.graphs import gpt2, hostile, softmax


class Tags(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_a_notebook_gets_an_image_the_svg_and_words_without_an_address():
    shown = softmax().display()
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert list(bundle) == ["text/html", "image/svg+xml", "text/plain"]
    ((tag, attributes),) = Tags(bundle["text/html"]).found
    head, _, data = attributes["src"].partition(",")
    assert (tag, head) == ("img", "data:image/svg+xml;base64")
    assert base64.b64decode(data).decode() == bundle["image/svg+xml"] == shown.svg
    assert attributes["alt"] == bundle["text/plain"] == str(shown)
    assert "0x" not in bundle["text/plain"]
    assert repr(shown) == f"<GraphPicture: {shown}>"


def test_the_image_of_a_hostile_graph_is_one_image():
    ((tag, attributes),) = Tags(ll.diff(hostile(), hostile()).display().html).found
    assert tag == "img"
    assert set(attributes) == {"src", "alt", "width", "height", "style"}


def test_a_gpt2_is_small():
    bundle = gpt2().display()._repr_mimebundle_()
    assert len(bundle["text/html"]) + len(bundle["image/svg+xml"]) < 300_000


def test_files_have_what_their_name_says(tmp_path):
    shown = softmax().display()
    shown.to_svg(tmp_path / "a.svg")
    shown.save(tmp_path / "b.svg")
    shown.save(tmp_path / "c.html")
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text() == shown.svg
    page = (tmp_path / "c.html").read_text()
    assert shown.html in page
    assert "<h1" in page
    assert page.startswith("<!doctype html>")
    assert str(error_of(lambda: shown.save("d.gif"), ArgumentError)) == (
        "display: 'd.gif' does not say what kind of picture it is\n"
        "hint: give a name that ends in .svg, .png or .html"
    )
    where = tmp_path / "none" / "a.svg"
    assert str(error_of(lambda: shown.to_svg(where), RecordingError)) == (
        f"display: {where} cannot be written: there is no folder 'none'\n"
        "hint: give a file in a folder that is there and may be written to"
    )


def test_a_png_needs_a_browser(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert str(error_of(softmax().display().to_png, DeviceError)) == (
        "display: a PNG needs a browser that draws it, and none of chromium, chromium-browser, "
        "google-chrome, chrome, msedge is there\n"
        "hint: install chromium; to_svg(path) needs nothing"
    )


def test_a_browser_that_draws_nothing_is_named(monkeypatch, tmp_path):
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    browser.chmod(0o755)
    monkeypatch.setattr(module.shutil, "which", lambda name: str(browser))
    assert str(error_of(softmax().display().to_png, DeviceError)) == (
        f"display: {browser} made no PNG, and ended with 3\n  no display\n"
        "hint: to_svg(path) needs no browser"
    )


@pytest.mark.needs("chromium")
def test_a_png_is_drawn_by_a_browser(tmp_path):  # it starts one, which takes a second
    shown = softmax().display(theme="light")
    data = shown.to_png(tmp_path / "a.png")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(data[at : at + 4]) for at in (16, 20))
    assert abs(width - 2 * shown.width) <= 3
    assert abs(height - 2 * shown.height) <= 3
    assert Path(tmp_path / "a.png").read_bytes() == data
