"""The switch of a page that computes: by WebGPU its values are the same, or it says why not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from tests.browser.axe import faults
from tests.browser.conftest import ARGUMENTS, Watched, launched, watched_page
from tests.browser.pages import LIMIT
from tests.browser.test_running import (
    SET,
    check_values,
    digits,
    gain,
    opened,
    press,
    workbench,
)

pytestmark = pytest.mark.needs("cc", "ziglang")
SWIFTSHADER = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
SWITCHED = "() => document.querySelector('.ll-machine').machine.isByGpu"
rng = np.random.default_rng(4)


@pytest.fixture(scope="module")
def with_gpu(playwright: Any) -> Iterator[Any]:
    arguments = [word for word in ARGUMENTS if word != "--disable-gpu"]
    with launched(playwright, [*arguments, *SWIFTSHADER]) as browser:
        yield browser


@pytest.fixture
def gpu_page(with_gpu: Any, watched: Watched) -> Iterator[Any]:
    """A page in a browser that has an adapter; an error, a dialog or a request fails the test."""
    yield from watched_page(with_gpu, watched)


def switch(page: Any) -> None:
    """Turn it on, or skip where this Chromium has no adapter."""
    box = page.get_by_label("run by WebGPU")
    box.click()
    page.wait_for_function(
        "() => document.querySelector('.ll-machine input:disabled') === null", timeout=LIMIT
    )
    if "no adapter" in page.evaluate("document.querySelector('.ll-machine').machine.failure"):
        pytest.skip("this Chromium has no adapter for WebGPU")
    assert page.evaluate(SWITCHED)


def told(page: Any, text: str, **how: bool) -> Any:
    """Return where the pane says something: the lines of this file may be seen as well."""
    return page.locator(".ll-machine").get_by_text(text, **how)


def reader() -> ll.Graph:
    """Return a small GPT, for which not many kernels are compiled."""
    cx = ll.Graph("reader")
    words = cx.tensor((1, 4), "int64", name="words")
    model = nn.models.GPT2(layers=1, heads=2, width=4, vocab=9, context=4)
    model(words)[0, -1].softmax(-1).named("next").retrieve()
    words.set(rng.integers(0, 9, (1, 4)))
    return cx


def moving() -> ll.Graph:
    """Return a graph that updates, adds by index, draws, and reads one array in two shapes."""
    cx = ll.Graph("moving")
    x, at = cx.tensor((4, 6), name="x"), cx.tensor((3, 6), "int64", name="at")
    kept = x.update(cx.full((2, 6), 7.0), 1)
    added = x.scatter_add(0, at, x[:3]) + x.half().float() * cx.rand((4, 6))
    twice = (x.reshape(3, 8).sum() + x.reshape(6, 4)).reshape(4, 6) * x
    (kept + added + twice).named("y").retrieve()
    x.set(rng.random((4, 6), "float32"))
    at.set(rng.integers(0, 4, (3, 6)))
    return cx


@pytest.mark.parametrize("make", [digits, reader, moving])
def test_all_nodes_have_the_interpreters_values(gpu_page: Any, tmp_path: Path, make: Any) -> None:
    cx = make()
    live = workbench(cx)
    opened(gpu_page, live, tmp_path / "page.html")
    press(gpu_page)
    switch(gpu_page)
    check_values(gpu_page, live, {})
    name, shape = cx.ir.inputs[0].name, cx.ir.inputs[0].shape
    value = rng.integers(0, 9, shape) if make is reader else rng.random(shape, "float32")
    gpu_page.evaluate(SET, [0, value.reshape(-1).tolist()])
    check_values(gpu_page, live, {name: value})
    assert gpu_page.evaluate(SWITCHED)
    gpu_page.get_by_label("run by WebGPU").click()
    gpu_page.wait_for_function(f"() => !({SWITCHED})()")
    check_values(gpu_page, live, {name: value})


def test_a_slider_changes_the_result(gpu_page: Any, tmp_path: Path) -> None:
    opened(gpu_page, workbench(gain()), tmp_path / "page.html", {"gain": (0, 10)})
    assert gpu_page.get_by_label("run by WebGPU").count() == 0
    press(gpu_page)
    switch(gpu_page)
    gpu_page.get_by_role("slider", name="gain").fill("5")
    told(gpu_page, "30", exact=True).first.wait_for(timeout=LIMIT)
    told(gpu_page, "computed by WebGPU in").wait_for(timeout=LIMIT)
    # What changes while the GPU is at work is computed after it.
    assert (
        gpu_page.evaluate("""async () => {
      const {machine} = document.querySelector(".ll-machine"), {id} = machine.results[0];
      const at = machine.inputs.findIndex(({name}) => name === "gain");
      for (let gain = 0; gain < 8; gain++) {
        machine.set(at, 0, [gain]);
        machine.need([id]);
        await new Promise((done) => setTimeout(done, gain % 3));
      }
      await machine.settled();
      machine.need([id]);
      await machine.settled();
      return machine.value(id).numbers[0];
    }""")
        == 42
    )
    assert faults(gpu_page, ".ll-machine") == []


def test_an_index_out_of_range_is_said(gpu_page: Any, tmp_path: Path) -> None:
    cx = ll.Graph("rows")
    at = cx.tensor((2,), "int64", name="at")
    cx.tensor((3,), name="x").gather(0, at).named("y").retrieve()
    at.set([0, 2])
    opened(gpu_page, workbench(cx), tmp_path / "page.html")
    press(gpu_page)
    switch(gpu_page)
    number = [node.name for node in cx.ir.inputs].index("at")
    gpu_page.evaluate(SET, [number, [0, 3]])
    told(gpu_page, "An index in the inputs is out of range.").first.wait_for(timeout=LIMIT)
    gpu_page.evaluate(SET, [number, [1, 1]])
    told(gpu_page, "computed in").wait_for(timeout=LIMIT)  # by WebAssembly, which goes on


def test_a_device_that_is_lost_leaves_the_page_running(gpu_page: Any, tmp_path: Path) -> None:
    opened(gpu_page, workbench(gain()), tmp_path / "page.html", {"gain": (0, 10)})
    press(gpu_page)
    switch(gpu_page)
    gpu_page.evaluate("document.querySelector('.ll-machine').machine.gpu.device.destroy()")
    gpu_page.get_by_role("slider", name="gain").fill("5")
    told(gpu_page, "30", exact=True).first.wait_for(timeout=LIMIT)
    told(gpu_page, "WebGPU stays off: ").wait_for(timeout=LIMIT)
    assert not gpu_page.get_by_label("run by WebGPU").is_checked()


def test_a_kernel_without_wgsl_is_named(gpu_page: Any, tmp_path: Path) -> None:
    cx = ll.Graph("wide")
    cx.tensor((3,), "float64", name="x").exp().named("y").retrieve()
    opened(gpu_page, workbench(cx), tmp_path / "page.html")
    press(gpu_page)
    said = "Not by WebGPU: webgpu: %1 is computed in float64, and WGSL has none"
    told(gpu_page, said).wait_for(timeout=LIMIT)
    assert gpu_page.get_by_label("run by WebGPU").count() == 0


@pytest.mark.parametrize("gpu", ["undefined", "{requestAdapter: async () => null}"])
def test_without_an_adapter_there_is_no_switch_or_it_says_so(
    page: Any, tmp_path: Path, gpu: str
) -> None:
    page.add_init_script(f"Object.defineProperty(navigator, 'gpu', {{value: {gpu}}})")
    opened(page, workbench(gain()), tmp_path / "page.html")
    press(page)
    box = page.get_by_label("run by WebGPU")
    if gpu == "undefined":
        assert box.count() == 0
        return
    box.click()
    told(page, "WebGPU stays off: this browser has no adapter for WebGPU").wait_for()
    assert not box.is_checked()
