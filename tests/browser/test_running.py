"""Pages that compute: the values of all nodes are the interpreter's, and nothing runs unasked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.interpret import interpret
from luminal_lab.viz.live.computing import computed
from luminal_lab.viz.live.inputs import inputs_for
from luminal_lab.viz.live.statistics import statistics
from luminal_lab.viz.live.workbench import Workbench
from tests.browser.axe import faults
from tests.browser.pages import LIMIT

pytestmark = pytest.mark.needs("cc", "ziglang")
VALUES = """async () => {
  const {machine} = document.querySelector(".ll-machine");
  machine.need(machine.header.ids);
  await machine.settled();
  return Object.fromEntries(machine.header.ids.map((id) => [id, [...machine.value(id).numbers]]));
}"""
INPUT = """() => [...document.querySelector(".ll-machine").machine.input(0).numbers]"""
SET = """([at, numbers]) =>
  document.querySelector(".ll-machine").machine.set(at, 0, numbers)"""
rng = np.random.default_rng(3)


def digits() -> ll.Graph:
    """Return a small reader of images."""
    cx = ll.Graph("digits")
    image = cx.tensor((8, 8), name="image")
    hidden = nn.Linear(64, 16)(image.reshape(1, 64)).relu()
    nn.Linear(16, 10)(hidden).softmax(-1).reshape(10).named("digit").retrieve()
    image.set(rng.random((8, 8), "float32"))
    return cx


def gpt() -> ll.Graph:
    """Return a GPT of two layers, whose output is the next token's scores."""
    cx = ll.Graph("gpt")
    words = cx.tensor((1, 8), "int64", name="words")
    model = nn.models.GPT2(layers=2, heads=2, width=16, vocab=27, context=8)
    model(words)[0, -1].softmax(-1).named("next").retrieve()
    words.set(rng.integers(0, 27, (1, 8)))
    return cx


def gain() -> ll.Graph:
    """Return a graph with one number to slide."""
    cx = ll.Graph("gain")
    x = cx.tensor((3,), name="x")
    (cx.tensor((), name="gain") * x).sum().named("y").retrieve()
    x.set([1, 2, 3])
    cx["gain"].set(2)
    return cx


def workbench(cx: ll.Graph) -> Workbench:
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx.workbench()


def opened(page: Any, live: Workbench, path: Path, run: Any = True) -> None:
    live.export(path, run=run)
    page.goto(path.as_uri())
    page.wait_for_selector(".ll-root svg", timeout=LIMIT)


def press(page: Any) -> None:
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".ll-nodes .ll-noderow", timeout=LIMIT)


def check_values(page: Any, live: Workbench, data: dict[str, Any]) -> None:
    """Compare what the page has for all nodes of all graphs with what the interpreter has."""
    got, (backed,) = page.evaluate(VALUES), live.backed
    assert backed.session is not None
    for name, value in data.items():
        backed.session[name].set(value)
    seen = set[int]()
    for snapshot in backed.snapshots:
        ids = [node.id for node in snapshot.ir if not node.extra]
        wanted = interpret(
            snapshot.ir, inputs_for(backed, snapshot.ir, ids).environment, wanted=ids
        )
        for id in ids:
            want = wanted[id].astype("float64").reshape(-1)
            have = np.array(got[str(id)], "float64")
            assert have.shape == want.shape
            scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
            near = np.isclose(have, want, 0, 1e-5 * scale, equal_nan=True)
            assert near.all(), snapshot.ir[id]
        seen.update(ids)
    assert len(seen) > 10


def test_an_index_out_of_range_is_said_once_and_nothing_is_thrown(
    page: Any, tmp_path: Path
) -> None:
    cx = ll.Graph("rows")
    at = cx.tensor((2,), "int64", name="at").set([0, 2])
    cx.tensor((3,), name="x").gather(0, at).named("y").retrieve()
    opened(page, workbench(cx), tmp_path / "page.html")
    press(page)
    pane, number = page.locator(".ll-machine"), [node.name for node in cx.ir.inputs].index("at")
    for index in (1, 3):  # the picture would get its colours only now
        page.evaluate(SET, [number, [0, index]])
        page.wait_for_timeout(40)
    pane.get_by_role("alert").get_by_text("An index in the inputs is out of range.").wait_for()
    page.wait_for_timeout(200)
    page.evaluate("document.querySelector('.ll-machine').dispatchEvent(new Event('scroll'))")
    page.evaluate(SET, [number, [1, 1]])
    pane.get_by_text("computed in").wait_for(timeout=LIMIT)


def test_a_slider_changes_the_result(page: Any, tmp_path: Path) -> None:
    opened(page, workbench(gain()), tmp_path / "page.html", {"gain": (0, 10)})
    press(page)
    result = page.locator(".ll-resulted", has_text="y")
    assert result.locator(".ll-large").inner_text() == "12"
    slider = page.get_by_role("slider", name="gain")
    assert [slider.get_attribute(name) for name in ("min", "max")] == ["0", "10"]
    slider.fill("5")
    page.get_by_text("30", exact=True).first.wait_for(timeout=LIMIT)
    slider.press("ArrowRight")
    page.get_by_text("30.1", exact=True).first.wait_for(timeout=LIMIT)


def test_nothing_runs_before_the_button(page: Any, tmp_path: Path) -> None:
    page.add_init_script(
        "window.ran = []; for (const name of ['instantiate', 'compile', 'Module', 'Instance']) {"
        "const own = WebAssembly[name];"
        "WebAssembly[name] = function (...all) { window.ran.push(name);"
        "return new.target ? new own(...all) : own.apply(WebAssembly, all); } }"
    )
    opened(page, workbench(digits()), tmp_path / "page.html")
    page.get_by_role("tab", name="about").click()
    page.locator(".ll-graph [data-id], .ll-graph svg").first.click()
    page.wait_for_timeout(100)
    assert page.evaluate("window.ran") == []
    press(page)
    assert page.evaluate("window.ran") == ["instantiate"]


@pytest.mark.parametrize("make", [digits, gpt])
def test_all_nodes_have_the_interpreters_values(page: Any, tmp_path: Path, make: Any) -> None:
    cx = make()
    live = workbench(cx)
    opened(page, live, tmp_path / "page.html")
    press(page)
    check_values(page, live, {})
    name = cx.ir.inputs[0].name
    value = rng.integers(0, 27, (1, 8)) if make is gpt else rng.random((8, 8), "float32")
    page.evaluate(SET, [0, value.reshape(-1).tolist()])
    check_values(page, live, {name: value})


def test_what_is_drawn_is_read(page: Any, tmp_path: Path) -> None:
    opened(page, workbench(digits()), tmp_path / "page.html", {"digit": "0123456789"})
    press(page)
    pad, first = page.locator(".ll-pad"), page.locator(".ll-resulted").inner_text()
    page.get_by_role("button", name="clear").click()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 150, steps=4)
    page.mouse.up()
    image = page.evaluate(INPUT)
    assert max(image) == 1
    assert image[56] == image[7] == 0
    assert image[27] > 0.5
    pad.focus()
    for key in ("ArrowUp", " "):
        page.keyboard.press(key)
    assert page.evaluate(INPUT) != image
    assert page.locator(".ll-resulted").inner_text() != first
    page.get_by_role("button", name="as it was").click()
    page.wait_for_function(
        "(text) => document.querySelector('.ll-resulted').innerText === text", arg=first
    )


def test_what_is_typed_is_read(page: Any, tmp_path: Path) -> None:
    opened(page, workbench(gpt()), tmp_path / "page.html", {"words": " abcdefghijklmnopqrstuvwxyz"})
    press(page)
    field = page.get_by_role("textbox", name="words")
    field.fill("bad")
    assert page.evaluate(INPUT) == [0, 0, 0, 0, 0, 2, 1, 4]
    page.get_by_text("3 of 8 tokens").wait_for(timeout=LIMIT)
    field.fill("caf\u00e9")
    page.get_by_text("Not among its tokens: \u00e9").wait_for(timeout=LIMIT)
    best = page.locator(".ll-class.ll-most > :first-child").inner_text()
    page.get_by_role("button", name="go on").click()
    assert field.input_value() == f"caf\u00e9{best}".replace("\u2423", " ")


def test_statistics_are_those_of_python(page: Any, tmp_path: Path) -> None:
    cx = digits()
    live = workbench(cx)
    opened(page, live, tmp_path / "page.html")
    press(page)
    page.get_by_role("tab", name="about").click()
    page.locator(".ll-noderow .ll-link", has_text="%image").click()
    shown = page.locator(".ll-side").get_by_text("64 numbers, float32(8, 8)")
    want = str(statistics(cx["image"].numpy())["text"])
    assert shown.inner_text() == want
    page.get_by_role("button", name="clear").click()
    page.get_by_text("64 numbers, float32(8, 8): 0 to 0, mean 0 ± 0, 64 zeros").wait_for()


def test_only_rows_near_the_view_are_there_to_see(page: Any, tmp_path: Path) -> None:
    opened(page, workbench(gpt()), tmp_path / "page.html")
    press(page)
    near, rows = page.locator(".ll-noderow[data-near]"), page.locator(".ll-noderow")
    count, most = near.count(), rows.count()
    assert 5 < count < most
    assert not rows.last.is_visible()
    for _ in range(2 * most):  # what Tab reaches comes into view, and is drawn
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.ll-noderow:last-child') !== null"):
            break
        page.evaluate("new Promise(requestAnimationFrame)")
    rows.last.get_by_text(" … ").wait_for(timeout=LIMIT)
    assert near.count() < most


def test_the_page_is_accessible(page: Any, tmp_path: Path) -> None:
    opened(page, workbench(digits()), tmp_path / "page.html")
    assert faults(page, ".ll-machine") == []
    press(page)
    assert faults(page, ".ll-machine") == []


def test_a_narrow_page_has_its_parts_below_each_other(page: Any, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    opened(page, workbench(digits()), tmp_path / "page.html")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("group", name="Legend").wait_for(timeout=LIMIT)
    boxes = {
        name: page.locator(name).first.bounding_box()
        for name in (".ll-machine", ".ll-legend strong", ".ll-legend ul", ".ll-legend button")
    }
    assert boxes[".ll-machine"]["width"] > 400
    name, words, button = list(boxes.values())[1:]
    assert name["height"] < 24
    assert words["width"] > 380
    assert words["y"] >= button["y"] + button["height"]


def test_the_policy_lets_nothing_else_in(tmp_path: Path) -> None:
    live = workbench(gain())
    for run in (False, True):
        live.export(tmp_path / "page.html", run=run)
        text = (tmp_path / "page.html").read_text()
        policy = text.split('Policy" content="')[1].split('"')[0]
        assert ("'wasm-unsafe-eval'" in policy) == run
        assert "unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
        assert "default-src 'none'" in policy
        assert "connect-src" not in policy
        assert " 'unsafe-eval'" not in policy


@pytest.mark.parametrize("make", [digits, gpt])
def test_it_is_as_large_as_what_it_brings(tmp_path: Path, make: Any) -> None:
    live, plain, running = workbench(make()), tmp_path / "plain.html", tmp_path / "running.html"
    live.export(plain)
    live.export(running, run=True)
    made = computed(live.backed, True)
    most = 4 / 3 * (made.weights + made.wasm) + 40_000
    assert running.stat().st_size - plain.stat().st_size <= most
