"""Take the pictures of the workbench at all widths, in light and dark, and judge each of them.

    python -m tests.browser.pictures FOLDER               all of them
    python -m tests.browser.pictures FOLDER 08 block      those whose names begin so; 08$ is one
    python -m tests.browser.pictures FOLDER --widths 420,1344 --schemes dark

Prints a line a picture, and one for each fault that a machine can see (`judge.py`); the pictures
are PNGs in the folder. Notebooks are run in a real JupyterLab; as somebody else's, who is not
trusted, they show what is stored in them.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import luminal_lab as ll
from luminal_lab.testing.graphs import drawn_for
from luminal_lab.viz.live.alive import Live
from tests.browser.conftest import launched
from tests.browser.judge import judged
from tests.browser.jupyterlab import LONG, Notebook, Server, start
from tests.viz.models import MODELS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SIZES = {420: 900, 1000: 900, 1344: 900, 1900: 1000}
"""Widths and heights of windows: a phone, half a screen, a laptop, a desktop."""
TALL = 2600
"""The height of a JupyterLab, in which all of a picture is in sight."""
SCHEMES = "light", "dark"
SETTLED = 700
"""Milliseconds until nothing moves any more."""
PICTURES = ".ll-root, img[src^='data:image/svg+xml'], .jp-RenderedHTMLCommon:has(table, div, svg)"


class Look(NamedTuple):
    """How somebody looks at a picture."""

    width: int
    scheme: str


LOOKS = [Look(*one) for one in product(SIZES, SCHEMES)]
Seen = tuple[Look, str, Any]
"""A look, what is seen, and its element."""


@dataclass
class Place:
    """Where pictures are taken: a browser, a folder, and a JupyterLab if one is needed."""

    browser: Any
    folder: Path
    ends: ExitStack = field(default_factory=ExitStack)

    @cached_property
    def server(self) -> Server:
        """JupyterLab, which has all cells of a notebook in its page."""
        home = self.folder / "jupyterlab"
        home.mkdir()
        settings = home / "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text('{"windowingMode": "none"}', "utf-8")
        server = start(home)
        self.ends.callback(server.process.wait, 20)
        self.ends.callback(server.process.terminate)
        return server

    def page(self) -> Any:
        """Return a new page for a reader who wants nothing to move."""
        context = self.browser.new_context(reduced_motion="reduce")
        self.ends.callback(context.close)
        page = context.new_page()
        page.set_default_timeout(LONG)
        return page


# -- what is shown ---------------------------------------------------------------------------------


def live(name: str, place: Place, looks: Sequence[Look]) -> Iterator[Seen]:
    """Run a notebook, and show what its cells put out; widgets begin anew at each width."""
    notebook = _opened(name, f"{name}.ipynb", place)
    notebook.run(5 * LONG)
    for look in looks:
        _lab_looks(notebook.page, look)
        for cell in notebook.page.locator(".jp-CodeCell:has(.ll-root)").all():
            number = cell.evaluate("one => [...one.parentElement.children].indexOf(one)")
            notebook.run_cell(number)
        yield from _outputs(notebook.page, look)


def stored(name: str, place: Place, looks: Sequence[Look]) -> Iterator[Seen]:
    """Show what a notebook of somebody else has stored, whom nobody trusts."""
    notebook = _opened(name, f"{name}-stored.ipynb", place)
    notebook.ready()
    assert not notebook.is_trusted
    for look in looks:
        _lab_looks(notebook.page, look)
        yield from _outputs(notebook.page, look)


def block(place: Place, looks: Sequence[Look]) -> Iterator[Seen]:
    """Show a transformer block, compiled and timed, with each of its tabs."""
    cx = MODELS["block"]()
    for name, values in drawn_for(cx.ir, {}).items():
        cx[name].set(values)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    bench = cx.workbench(cx.time(rounds=3), cx.advise(), dialects=["cuda", "metal"])
    for look, page in _exported(bench, place, looks):
        yield look, "first", page.locator(".ll-root")
        for tab in page.locator("[role=tablist][aria-label=details] [role=tab]").all():
            tab.click()
            page.wait_for_timeout(SETTLED / 2)
            yield look, tab.inner_text().strip("?").replace(" ", "-"), page.locator(".ll-root")


def llama(place: Place, looks: Sequence[Look]) -> Iterator[Seen]:
    """Show a compiled Llama of some ten thousand nodes, in the workbench and alone."""
    cx = MODELS["large"]()
    cx.compile(ll.GenericCompiler())
    for look, page in _exported(cx.workbench(), place, looks):
        yield look, "first", page.locator(".ll-root")
    for look, page in _exported(cx.explore(), place, looks):
        yield look, "explorer", page.locator(".ll-root")
        page.locator(".ll-graph").focus()
        page.keyboard.press("Shift+E")
        page.wait_for_function(
            "() => !document.querySelector('.ll-extent').textContent.includes('closed')"
        )
        page.keyboard.press("f")
        page.wait_for_timeout(2 * SETTLED)
        yield look, "explorer-open", page.locator(".ll-root")


Case = Callable[[Place, Sequence[Look]], Iterator[Seen]]
CASES: dict[str, Case] = {
    "00": partial(live, "00_quickstart"),
    "04": partial(live, "04_stepping"),
    "08": partial(live, "08_cuda_and_metal"),
    "15": partial(live, "15_a_llama_from_a_file"),
    "00-stored": partial(stored, "00_quickstart"),
    "04-stored": partial(stored, "04_stepping"),
    "08-stored": partial(stored, "08_cuda_and_metal"),
    "15-stored": partial(stored, "15_a_llama_from_a_file"),
    "block": block,
    "llama": llama,
}


def _exported(shown: Live, place: Place, looks: Sequence[Look]) -> Iterator[tuple[Look, Any]]:
    path = place.folder / "page.html"
    shown.export(path)
    for look in looks:
        # One that remembers no tab of an earlier one.
        page = place.page()
        page.set_viewport_size({"width": look.width, "height": SIZES[look.width]})
        page.emulate_media(color_scheme=look.scheme)
        page.goto(path.as_uri())
        page.wait_for_selector(".ll-root svg")
        page.wait_for_timeout(SETTLED)
        yield look, page
        page.context.close()


def _opened(name: str, copy: str, place: Place) -> Notebook:
    shutil.copy(NOTEBOOKS / f"{name}.ipynb", place.server.folder / copy)
    page = place.page()
    page.set_viewport_size({"width": 1344, "height": TALL})
    notebook = Notebook(page, place.server, copy)
    page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    return notebook


def _lab_looks(page: Any, look: Look) -> None:
    page.set_viewport_size({"width": look.width, "height": TALL})
    page.emulate_media(color_scheme=look.scheme)
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
        f"JupyterLab {look.scheme.capitalize()}",
    )
    page.wait_for_timeout(SETTLED)


def _outputs(page: Any, look: Look) -> Iterator[Seen]:
    for cell in page.locator(".jp-CodeCell").all():
        output = cell.locator(".jp-Cell-outputWrapper")
        if not any(one.is_visible() for one in output.locator(PICTURES).all()):
            continue
        number = cell.evaluate("one => [...one.parentElement.children].indexOf(one)")
        output.scroll_into_view_if_needed()
        page.wait_for_timeout(SETTLED)
        yield look, f"cell{number}", output


# -- taking them -----------------------------------------------------------------------------------


def pictures(
    place: Place,
    names: Sequence[str] = (),
    looks: Sequence[Look] = LOOKS,
    shots: Path | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each picture and what is wrong with it; write it into a folder, if any."""
    for name, case in CASES.items():
        if names and not f"{name}$".startswith(tuple(names)):
            continue
        for look, state, element in case(place, looks):
            title = f"{name}-{state}-{look.width}-{look.scheme}"
            faults = judged(element)
            if shots is not None:
                element.screenshot(path=shots / f"{title}.png", animations="disabled")
            yield title, faults


def main(words: Sequence[str] | None = None) -> int:
    """Take those that are asked for; return how many have faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.pictures")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help=f"how names begin, of {', '.join(CASES)}")
    parser.add_argument("--widths", default=",".join(map(str, SIZES)))
    parser.add_argument("--schemes", default=",".join(SCHEMES))
    given = parser.parse_args(words)
    looks = [
        Look(int(width), scheme)
        for width, scheme in product(given.widths.split(","), given.schemes.split(","))
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    bad = 0
    with tempfile.TemporaryDirectory() as work, launched() as browser, ExitStack() as ends:
        place = Place(browser, Path(work), ends)
        for title, faults in pictures(place, given.names, looks, given.folder):
            print(f"{title:40} {f'{len(faults)} faults' if faults else 'ok'}", flush=True)
            for fault in faults:
                print(f"    {fault}", flush=True)
            bad += bool(faults)
    return bad


if __name__ == "__main__":
    sys.exit(min(1, main()))
