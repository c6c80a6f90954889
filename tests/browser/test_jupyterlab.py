"""Pictures, explorers and workbenches in a real JupyterLab: run, clicked, saved, opened again."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import missing
from tests.browser.jupyterlab import LONG, Notebook, Server, start

SOFTMAX = """\
import luminal_lab as ll
cx = ll.Graph("softmax")
x = cx.tensor((4, 8), name="x").set([[1.0] * 8] * 4)
with cx.scope("head"):
    y = x.softmax(-1).retrieve()
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab, started once."""
    for name in ("jupyterlab", "anywidget", "ipywidgets"):
        if importlib.util.find_spec(name) is None:
            missing(f"{name} is not installed: .venv/bin/python -m pip install -e '.[lab]'")
    one = start(tmp_path_factory.mktemp("jupyterlab"))
    yield one
    one.process.terminate()
    one.process.wait(20)


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A page of a browser that knows nothing of other tests."""
    context = chromium.new_context(viewport={"width": 1500, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(LONG)
    yield page
    context.close()


def test_a_static_picture_where_nobody_trusts_the_notebook(server: Server, tab: Any):
    server.write("static.ipynb", [SOFTMAX + "cx.display()"])
    own = Notebook(tab, server, "static.ipynb")
    own.run()
    image = tab.locator(".jp-OutputArea img").first
    image.wait_for()
    own.save()
    # Under another name nobody has signed its outputs.
    shutil.copy(own.path, server.folder / "received.ipynb")
    Notebook(tab, server, "received.ipynb")
    image = tab.locator(".jp-OutputArea img").first
    image.wait_for()
    assert image.evaluate("one => one.naturalWidth") > 100
    assert "softmax" in image.get_attribute("alt")


def test_an_explorer_lives_in_a_notebook_and_talks_with_its_kernel(server: Server, tab: Any):
    server.write("explorer.ipynb", [SOFTMAX, "e = cx.explore()\ne"])
    notebook = Notebook(tab, server, "explorer.ipynb")
    notebook.run()
    root = tab.locator(".ll-root")
    root.locator("svg").first.wait_for()
    # The picture for those without a kernel is there, and hidden while the widget lives.
    static = tab.locator("img[data-ll-for]")
    assert static.count() == 1
    assert not static.is_visible()
    # From Python to the picture, and back.
    assert notebook.python('e.select("x"); print(e.selected[0].name)') == "x"
    root.get_by_role("heading", name="%x").first.wait_for()
    root.get_by_role("searchbox").first.fill("op:max_reduce")
    tab.keyboard.press("Enter")
    root.get_by_role("heading", name="max_reduce").first.wait_for()
    assert notebook.python("print(e.selected[0].op.name)") == "max_reduce"
    # What asks the kernel is answered.
    root.get_by_role("button", name="Compute values").first.click()
    root.get_by_text("mean", exact=False).first.wait_for()


def test_a_workbench_steps_and_selects_across_its_panes(server: Server, tab: Any):
    server.write(
        "workbench.ipynb",
        ["%load_ext luminal_lab", "%%lab\n" + SOFTMAX + 'cx.compile("recognise, dce")'],
    )
    notebook = Notebook(tab, server, "workbench.ipynb")
    notebook.run()
    root = tab.locator(".ll-root")
    root.get_by_text("as written").first.wait_for()
    root.get_by_role("option", name="recognise").first.click()
    root.get_by_role("tab", name="firings").click()
    root.locator(".ll-row:visible", has_text="softmax").first.click()
    # A line of the cell that built the graph lights up what it became, and the other way round.
    root.get_by_role("tab", name="cells").click()
    root.locator(".ll-lit:visible", has_text="softmax(-1)").first.click()
    root.get_by_role("tab", name="diff").click()
    root.locator(".ll-lit:visible").first.wait_for()
    # Saved, it has the picture, and no widget's state; reopened, the picture is there.
    found = notebook.save()
    assert "widgets" not in found["metadata"]
    text = notebook.path.read_text("utf-8")
    assert "data:image/svg+xml" in text
    assert len(text) < 400_000


def test_after_a_restart_the_saved_notebook_shows_its_picture(server: Server, tab: Any):
    server.write("again.ipynb", [SOFTMAX, "cx.explore()"])
    notebook = Notebook(tab, server, "again.ipynb")
    notebook.run()
    tab.locator(".ll-root svg").first.wait_for()
    notebook.save()
    kernel = "window.jupyterapp.shell.currentWidget.context.sessionContext"
    tab.evaluate(f"() => {kernel}.session.kernel.restart()")
    notebook.ready()
    # What is there needs no kernel.
    assert tab.locator(".ll-root svg").first.is_visible()
    tab.evaluate(f"() => {kernel}.shutdown()")
    Notebook(tab, server, "again.ipynb")
    tab.locator("img[data-ll-for]").first.wait_for(state="visible")


def test_a_page_is_exported_from_a_notebook(server: Server, tab: Any, tmp_path: Path):
    path = tmp_path / "page.html"
    server.write("export.ipynb", [SOFTMAX, f'cx.explore().export("{path}")'])
    Notebook(tab, server, "export.ipynb").run()
    tab.goto(path.as_uri())
    tab.locator(".ll-root svg").first.wait_for()
