"""Charts, curves, accesses and progress bars in a real kernel: what a notebook gets and keeps."""

from collections.abc import Iterator

import pytest

from tests.needs import need
from tests.notebook import Notebook, notebook

need("ipywidgets")
SLOW = """\
import time
from luminal_lab import progress as module
module.AFTER, module.EVERY = 0.1, 0.0
def waits(count):
    with module.progress("wait", count, "step") as bar:
        for _ in bar.each(range(count)):
            time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with notebook(tmp_path_factory.mktemp("charts")) as one:
        yield one


def test_curves_grow_in_one_output_and_stay_as_a_picture(kernel):
    ran = kernel.run("""\
import luminal_lab as ll
from luminal_lab.viz import history as module
module.EVERY = 0.0
with ll.History("digits") as history:
    for step in range(5):
        history.add(loss=1 / (step + 1))
""")
    assert ran.status == "ok", ran.error
    shown = [*ran.outputs, *ran.updates]
    texts = [one["text/plain"] for one in shown]
    assert len(ran.outputs) == 1
    assert texts[0] == "digits: 0 steps"
    assert texts[-1] == "digits: 5 steps; loss 0.2, least 0.2 at step 4"
    assert all("text/html" in one and "image/svg+xml" in one for one in shown)
    assert "<script" not in shown[-1]["text/html"]
    last = kernel.run("history")
    assert last.outputs[-1]["text/plain"] == texts[-1]


def test_a_chart_is_a_figure_of_plotlys(kernel):
    need("plotly")
    ran = kernel.run("""\
cx = ll.Graph("g")
y = (cx.tensor((2, 8), name="x") * 1).softmax(-1).retrieve()
cx.compile("simplify, dce").plot()
""")
    assert ran.status == "ok", ran.error
    assert any("plotly" in kind for one in ran.outputs for kind in one)


def test_a_bar_is_a_widget_of_which_the_notebook_keeps_nothing(kernel):
    need("tqdm")
    ran = kernel.run(f"{SLOW}waits(20)")
    assert ran.status == "ok", ran.error
    (only,) = ran.outputs
    assert "application/vnd.jupyter.widget-view+json" in only
    assert ran.updates == [{"text/html": "", "text/plain": ""}]
    values = [
        one["data"]["state"]["value"]
        for one in ran.comms
        if isinstance(one.get("data", {}).get("state", {}).get("value"), (int, float))
    ]
    assert values == sorted(values)
    assert max(values) > 15


def test_what_is_stopped_takes_its_bar_with_it(kernel):
    need("tqdm")
    ran = kernel.run(f"""{SLOW}
import threading, signal
threading.Timer(0.4, lambda: signal.raise_signal(signal.SIGINT)).start()
waits(2000)
""")
    assert ran.status == "error"
    assert "KeyboardInterrupt" in ran.error
    assert ran.updates == [{"text/html": "", "text/plain": ""}]
    assert kernel.value("1 + 1") == 2


@pytest.mark.needs("anywidget", "script")
def test_accesses_are_a_picture_and_the_widget_below_it(kernel):
    ran = kernel.run("""\
import luminal_lab as ll
cx = ll.Graph()
x = cx.tensor((4, 40), name="x")
y = (x * x).sum(-1).retrieve()
_ = cx.compile(ll.GenericCompiler(), ll.CUDACompiler())
cx.kernels[0].emulate(trace=True).explore()
""")
    assert ran.status == "ok", ran.error
    picture, widget = ran.outputs[-2:]
    assert "data-ll-for" in picture["text/html"]
    assert picture["text/plain"].startswith("accesses of kernel_mul_sum, block 0")
    assert "application/vnd.jupyter.widget-view+json" in widget
