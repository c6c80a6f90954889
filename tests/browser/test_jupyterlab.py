"""Pictures, explorers and workbenches in a real JupyterLab: run, clicked, saved, opened again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.judge import judged
from tests.browser.jupyterlab import LONG, Notebook, Server, start
from tests.foreign import Foreign
from tests.needs import need

SOFTMAX = """\
import luminal_lab as ll
cx = ll.Graph("softmax")
x = cx.tensor((4, 8), name="x").set([[1.0] * 8] * 4)
with cx.scope("head"):
    y = x.softmax(-1).retrieve()
"""
MLP = """\
import numpy as np
import luminal_lab as ll
cx = ll.Graph("mlp")
x, w1, w2 = (cx.tensor(shape, name=name) for name, shape in
             (("x", (8, 16)), ("w1", (16, 32)), ("w2", (32, 4))))
for one in (x, w1, w2):
    one.set(np.full([int(str(dim)) for dim in one.shape], 0.5, "float32"))
((x @ w1).relu() @ w2).retrieve()
plan = ll.sharding(ll.Mesh(data=2, model=2), {"w1": (None, "model"), "w2": ("model", None)})
compiled = cx.compile(ll.Sharded(plan))
cx.execute()
w = cx.workbench()
w
"""
ENDS = "one => one.getBoundingClientRect().bottom"
SEARCH = """\
import luminal_lab as ll
from tests.viz.searches import of_a_kernel
search = of_a_kernel(32)
explorer = search.explore()
explorer
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab, started once."""
    need("jupyterlab", "anywidget", "ipywidgets")
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
    server.receive(own.path, "received.ipynb")
    received = Notebook(tab, server, "received.ipynb")
    image = tab.locator(".jp-OutputArea img").first
    image.wait_for()
    assert not received.is_trusted
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
    root.get_by_role("tab", name="Python").click()
    root.locator(".ll-lit:visible", has_text="softmax(-1)").first.click()
    root.get_by_role("tab", name="diff").click()
    root.locator(".ll-lit:visible").first.wait_for()
    # Saved, it has the picture, and no widget's state; reopened, the picture is there.
    found = notebook.save()
    assert "widgets" not in found["metadata"]
    text = notebook.path.read_text("utf-8")
    assert "data:image/svg+xml" in text
    assert len(text) < 400_000


def test_after_a_restart_it_says_what_is_gone_and_the_saved_notebook_has_its_picture(
    server: Server, tab: Any
):
    server.write("again.ipynb", [SOFTMAX, "cx.explore()"])
    notebook = Notebook(tab, server, "again.ipynb")
    notebook.run()
    root = tab.locator(".ll-root")
    root.locator("svg").first.wait_for()
    notebook.save()
    notebook.restart()
    # What is there needs no kernel, and what needs one says so.
    root.get_by_role("searchbox").fill("op:max_reduce")
    tab.keyboard.press("Enter")
    root.get_by_role("heading", name="max_reduce").wait_for()
    root.get_by_role("button", name="Compute values").click()
    root.locator(".ll-side").get_by_text("run the cell again").wait_for()
    kernel = "window.jupyterapp.shell.currentWidget.context.sessionContext"
    tab.evaluate(f"() => {kernel}.shutdown()")
    reopened = Notebook(tab, server, "again.ipynb")
    tab.locator("img[data-ll-for]").first.wait_for(state="visible")
    assert reopened.is_trusted
    # JupyterLab's own words about a widget that is not there are not seen.
    assert tab.get_by_text("widget", exact=False).locator("visible=true").count() == 0
    server.receive(notebook.path, "others.ipynb")
    others = Notebook(tab, server, "others.ipynb")
    tab.locator(".jp-OutputArea img").first.wait_for(state="visible")
    tab.get_by_text("run the cell to have it here").wait_for()
    assert not others.is_trusted


@pytest.fixture(scope="module")
def bench(server: Server, chromium: Any) -> Iterator[tuple[Notebook, Any]]:
    """A workbench of kernels in a notebook, in two views, with a kernel that answers."""
    context = chromium.new_context(viewport={"width": 1500, "height": 1000})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(LONG)
    compiled = SOFTMAX + "cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))\n"
    server.write("bench.ipynb", [compiled + "w = cx.workbench()\nw", "w", "'last'"])
    notebook = Notebook(page, server, "bench.ipynb")
    notebook.run()
    page.locator(".ll-root").nth(1).locator("svg").first.wait_for()
    yield notebook, page
    context.close()


def test_the_keys_of_the_picture_are_not_jupyterlabs(bench: tuple[Notebook, Any]):
    notebook, page = bench
    before = notebook.cells()
    root = page.locator(".ll-root").first
    places = [".ll-graph", "[role=listbox]", "[role=tab][tabindex='0']", "[role=separator]"]
    for place in places:
        root.locator(place).first.focus()
        for key in (*"ddaabbxxzzjkmyrvcloq", "0", "0", "Enter", "Escape", "Shift+Enter", "Delete"):
            page.keyboard.press(key)
            if not root.evaluate("one => one.contains(document.activeElement)"):
                root.locator(place).first.focus()
    assert notebook.cells() == before
    # None was run, and none became a cell of text.
    prompts = page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()
    assert [one.strip() for one in prompts] == ["[1]:", "[2]:", "[3]:"]
    # Saving is JupyterLab's.
    stamp = notebook.path.stat().st_mtime_ns
    root.locator(".ll-graph").first.focus()
    page.keyboard.press("Control+s")
    page.wait_for_function(
        "() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=LONG
    )
    assert notebook.path.stat().st_mtime_ns > stamp


def test_the_wheel_scrolls_the_notebook_until_the_widget_has_the_focus(
    bench: tuple[Notebook, Any],
):
    notebook, page = bench
    page.locator(".jp-CodeCell .jp-InputPrompt").first.click()
    graph = page.locator(".ll-root").first.locator(".ll-graph").first
    graph.scroll_into_view_if_needed()
    box = graph.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    was = notebook.scrolled()
    page.mouse.wheel(0, 40)
    page.wait_for_timeout(300)
    assert notebook.scrolled() != was
    graph.focus()
    page.wait_for_timeout(100)
    was = notebook.scrolled()
    box = graph.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 60)
    page.mouse.wheel(0, 40)
    page.wait_for_timeout(300)
    assert notebook.scrolled() == was


def test_several_views_agree_and_python_hears(bench: tuple[Notebook, Any]):
    notebook, page = bench
    one, other = page.locator(".ll-root").first, page.locator(".ll-root").nth(1)
    assert notebook.python('w.go(0); w.select("%x"); print(w.selected)') == "(%x,)"
    for root in (one, other):
        root.locator(".ll-pass[aria-selected=true]", has_text="as written").wait_for()
        root.locator(".ll-bar").first.get_by_text("%x: f32[4, 8]").wait_for()
    one.get_by_role("option", name="recognise").first.click()
    other.locator(".ll-pass[aria-selected=true]", has_text="recognise").wait_for()
    assert notebook.python("print(w.stage.name)") == "recognise"
    page.keyboard.press("Escape")
    # Heard by the kernel, and so by the other view, before the next test selects something.
    other.locator(".ll-bar").first.get_by_text("%x: f32[4, 8]").wait_for(state="hidden")


def test_a_kernel_answers_all_that_a_workbench_asks(bench: tuple[Notebook, Any]):
    notebook, page = bench
    root = page.locator(".ll-root").first

    def tab(name: str) -> None:
        root.get_by_role("tab", name=name, exact=True).click()

    notebook.python('w.go(0); w.select("%x")')
    tab("about")
    root.get_by_role("button", name="Compute values").click()
    root.get_by_text("32 numbers").first.wait_for()
    notebook.python('w.go("simplify")')
    tab("firings")
    root.get_by_role("combobox", name="rule to look at").select_option("add-zero")
    root.get_by_role("button", name="Why did it not fire here?").click()
    root.get_by_text("The pattern does not match").first.wait_for()
    tab("source")
    root.get_by_role("tab", name="CUDA").click()
    root.get_by_role("button", name="write the CUDA").click()
    root.get_by_text("__global__").first.wait_for()
    root.get_by_role("tab", name="PTX").click()
    root.get_by_role("button", name="compile to PTX").click()
    root.get_by_text(".version").first.wait_for()
    # Again without a pass: another run, its times, and the Python that does it.
    tab("re-run")
    root.get_by_role("checkbox", name="run fuse-rows").click()
    root.get_by_role("button", name="Run again").click()
    root.get_by_text("4 launches instead of 1").wait_for()
    root.get_by_role("button", name="Time it").click()
    root.get_by_text("s together").wait_for()
    root.get_by_role("button", name="Copy the Python").click()
    root.get_by_text("Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith("ll.CPUCompiler(threads=1).alone(),\n)")
    again = copied.replace("cx.compile(", "c = ll.compile_ir(cx.ir, ", 1)
    assert notebook.python(f"{again}\nprint(len(c.runner.launches))") == "4"
    tab("times")
    root.get_by_text("measured here").first.wait_for()
    # The session's own compile is as it was.
    assert notebook.python("print(len(cx.launches))") == "1"


def test_another_cut_is_tried_and_the_kernel_says_what_would_be_sent(server: Server, tab: Any):
    server.write("workers.ipynb", [MLP])
    notebook = Notebook(tab, server, "workers.ipynb")
    notebook.run()
    root = tab.locator(".ll-root")
    root.get_by_role("tab", name="workers").click()
    root.locator(".ll-workers-lanes svg").wait_for()
    assert "each worker sends 128 B in a run" in root.locator(".ll-workers-head").inner_text()
    rows, columns = (root.get_by_role("combobox", name=f"axis {at} of x") for at in (0, 1))
    rows.select_option("data")
    told = root.locator(".ll-tried")
    told.wait_for()
    assert told.inner_text().startswith("128 B → 64 B from each worker in a run")
    assert told.locator(".ll-fell").count() == 1
    columns.select_option("model")  # of which the first product needs all
    told.get_by_text("128 B → 192 B from each worker in a run").wait_for()
    assert "all_gather of %x over model, 128 B: " in told.inner_text()
    assert told.evaluate(ENDS) <= root.evaluate(ENDS) + 1  # who asks sees the answer
    assert not judged(root)
    rows.select_option("model")
    sorry = root.locator(".ll-tryit ~ .ll-answer .ll-sorry")
    sorry.wait_for()
    assert sorry.inner_text().splitlines() == [
        "sharding: x: (model, model) cuts two axes over model",
        "hint: an axis of the mesh can cut one axis of a value",
    ]
    root.get_by_role("button", name="As it was").click()
    assert rows.input_value() == columns.input_value() == "-"
    # The session's own compile is as it was.
    assert notebook.python("print(compiled.communication.bytes)") == "128"


def test_a_page_is_exported_from_a_notebook(server: Server, tab: Any, tmp_path: Path):
    path = tmp_path / "page.html"
    server.write("export.ipynb", [SOFTMAX, f'cx.explore().export("{path}")'])
    Notebook(tab, server, "export.ipynb").run()
    tab.goto(path.as_uri())
    tab.locator(".ll-root svg").first.wait_for()


def test_a_recordings_code_is_shown_and_runs_when_somebody_says_so(
    server: Server, tab: Any, tmp_path: Path
):
    given = Foreign(tmp_path)
    show = f"import luminal_lab as ll\nw = ll.open({str(given.recording())!r}).workbench()\nw"
    server.write("foreign.ipynb", [show])
    notebook = Notebook(tab, server, "foreign.ipynb")
    notebook.run()
    root = tab.locator(".ll-root")
    root.get_by_role("tab", name="re-run").click()
    root.get_by_role("textbox", name="pass 1").fill("cpu")
    for answer, said in (
        ("Do not run it", "Nothing was run."),
        ("Run it", "1 launch instead of 0"),
    ):
        root.get_by_role("button", name="Run again").click()
        asked = root.locator(".ll-trust")
        asked.wait_for()
        assert "kernel evil in C" in asked.inner_text()
        assert "__attribute__((constructor))" in asked.locator("pre").inner_text()
        assert not given.was_run
        if answer == "Run it":
            tab.screenshot(path=tmp_path / "asked.png")
        asked.get_by_role("button", name=answer, exact=True).click()
        root.get_by_text(said).first.wait_for()
    assert given.was_run


def test_a_search_lives_in_a_notebook(server: Server, tab: Any):
    here = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})"
    server.write("search.ipynb", [here, SEARCH])
    notebook = Notebook(tab, server, "search.ipynb")
    notebook.run()
    picture = tab.locator(".ll-sv svg").first
    picture.wait_for()
    assert not tab.locator("[data-ll-for] img").first.is_visible()
    # From Python to the page, and back.
    heading = tab.locator(".ll-sv-detail h2")
    notebook.python("explorer.select(search.candidates[4])")
    tab.get_by_text("candidate 4: ").first.wait_for()
    picture.press("Home")
    assert heading.inner_text().startswith("candidate 0: ")
    assert notebook.python("print(explorer.selected.number)") == "0"
    # The kernel makes what it is asked for.
    picture.press("ArrowRight")
    tab.get_by_role("tab", name="Source", exact=True).click()
    tab.get_by_text("kernel_mm").first.wait_for()
    # What comes later comes to the page.
    notebook.python("_ = search.resume(ll.Budget(candidates=16)); explorer.renew()")
    tab.get_by_text("48 candidates").first.wait_for()
