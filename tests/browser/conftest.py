"""A real Chromium for tests: a page of its own for each, of which nothing goes unnoticed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.needs import need

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session", autouse=True)
def _the_script_is_built():
    need("script")


@contextmanager
def launched(playwright: Any = None, arguments: Sequence[str] = ARGUMENTS) -> Iterator[Any]:
    """Start the browser, with a Playwright that runs already or with one of its own."""
    path = need("chromium")
    if playwright is None:
        with need("playwright.sync_api").sync_playwright() as own, launched(own) as browser:
            yield browser
        return
    browser = playwright.chromium.launch(executable_path=path, args=[*arguments])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def chromium(playwright: Any) -> Iterator[Any]:
    """The browser, for all tests; without it tests that ask are skipped."""
    with launched(playwright) as browser:
        yield browser


@dataclass
class Watched:
    """What a page has said and asked for that no page of ours should."""

    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Parts of complaints that a test expects."""

    def unexpected(self) -> list[str]:
        """Return the complaints that no test expects."""
        return [one for one in self.complaints if not any(part in one for part in self.allowed)]


@pytest.fixture
def watched() -> Watched:
    """What the page of this test complains of; a test may allow some of it."""
    return Watched()


@pytest.fixture
def page(chromium: Any, watched: Watched) -> Iterator[Any]:
    """A page without a network; an error in its console, a dialog or a request fails the test."""
    yield from watched_page(chromium, watched)


def watched_page(chromium: Any, watched: Watched, **how: Any) -> Iterator[Any]:
    """Yield a page without a network, and then hold it to account."""
    size = {"width": 1400, "height": 900}
    context = chromium.new_context(offline=True, viewport=size, **how)
    made = context.new_page()
    made.set_default_timeout(10_000)
    follow(made, watched)
    context.on("page", lambda other: watched.complaints.append(f"a window opened: {other.url}"))
    yield made
    context.close()
    assert watched.unexpected() == []
    assert watched.requests == []


def follow(page: Any, watched: Watched) -> None:
    """Write down what a page says and asks for."""

    def said(message: Any) -> None:
        if message.type in ("error", "warning"):
            watched.complaints.append(f"{message.type}: {message.text}")

    def asked(dialog: Any) -> None:
        watched.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def wants(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            watched.requests.append(request.url)

    page.on("console", said)
    page.on("dialog", asked)
    page.on("pageerror", lambda error: watched.complaints.append(f"thrown: {error}"))

    def failed(request: Any) -> None:
        # What the page's own policy stops was never sent.
        if request.failure == "csp":
            watched.requests.remove(request.url)

    page.on("request", wants)
    page.on("requestfailed", failed)
