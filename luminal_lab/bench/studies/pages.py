"""What pages that compute cost: their size, and the time from a changed input to the next frame.

    python -m luminal_lab.bench.studies.pages [FOLDER]

Needs `playwright`, a Chromium on the PATH and `ziglang`. The work is what the browser does for one
frame: kernels, numbers, pictures, style, layout and paint. One also waits for the screen.
"""
# pyright: basic

import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench.studies.viz import SIZE, busy, chromium, seconds, tell
from luminal_lab.viz.live.computing import computed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from luminal_lab.bench.studies.viz import Figure

ROUNDS = 60
WORK = """async (rounds) => {
  const {machine} = document.querySelector(".ll-machine"), {shape, control} = machine.inputs[0];
  const many = shape.reduce((all, one) => all * one, 1), took = [], computed = [];
  const calm = () => new Promise((done) => setTimeout(done, 30));
  for (let round = 0; round < rounds; round++) {
    await calm();
    let begin = 0;
    await new Promise((done) => {
      requestAnimationFrame(() => { begin = performance.now(); });
      machine.set(0, round % many, [round % 2 ? control.low : control.high]);
      requestAnimationFrame(() => {
        const {port1, port2} = new MessageChannel();
        port1.onmessage = done;
        port2.postMessage(0);
      });
    });
    took.push(performance.now() - begin);
    computed.push(machine.spent);
  }
  return [took, computed];
}"""


def main() -> None:
    """Print one line for each figure."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    browser, stop = chromium()
    try:
        tell("", busy())
        for make in (mlp, gpt):
            cx = make()
            cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
            tell(f"{cx.ir.name}: ", page_of(cx, browser, folder / f"{cx.ir.name}.html"))
    finally:
        stop()


def mlp() -> ll.Graph:
    """Return a reader of digits, 784 → 256 → 10."""
    cx = ll.Graph("mlp")
    image = cx.tensor((28, 28), name="image")
    hidden = nn.Linear(784, 256)(image.reshape(1, 784)).relu()
    nn.Linear(256, 10)(hidden).softmax(-1).named("digit").retrieve()
    image.set(np.random.default_rng(0).random((28, 28), dtype=np.float32))
    return cx


def gpt() -> ll.Graph:
    """Return a GPT of two layers that reads 32 tokens."""
    cx = ll.Graph("gpt")
    words = cx.tensor((1, 32), "int64", name="words")
    model = nn.models.GPT2(layers=2, heads=4, width=64, vocab=96, context=32)
    model(words)[0, -1].softmax(-1).named("next").retrieve()
    words.set(np.random.default_rng(0).integers(0, 96, (1, 32)))
    return cx


def page_of(cx: ll.Graph, browser: "Browser", path: Path) -> "Iterator[Figure]":
    """Measure one page."""
    live = cx.workbench()
    live.export(path)
    plain = path.stat().st_size
    took, made = seconds(lambda: computed(live.backed, True))
    live.export(path, run=True)
    more = path.stat().st_size - plain
    most = 4 / 3 * (made.weights + made.wasm) + 40_000
    nodes = len(
        {node.id for backed in live.backed for shot in backed.snapshots for node in shot.ir}
    )
    yield "nodes with a value", f"{nodes:,}", ""
    yield "WebAssembly; weights, bytes", f"{made.wasm:,}; {made.weights:,}", ""
    yield "what it adds to a page, bytes", f"{more:,}", f"{most:,.0f}"
    yield "made in", f"{took:.1f} s", ""
    page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
    page.goto(path.resolve().as_uri())
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_selector(".ll-noderow")
    page.wait_for_timeout(500)
    for stage in ("telling", "last"):
        if stage == "last":
            page.locator(".ll-pass").last.click()
            page.wait_for_timeout(500)
        page.evaluate(WORK, 5)
        frames, kernels = page.evaluate(WORK, ROUNDS)
        yield f"{stage} pass: kernels, median", f"{statistics.median(kernels):.2f} ms", ""
        yield (
            "  a changed input until painted, median",
            f"{statistics.median(frames):.1f} ms",
            "16 ms",
        )
        yield "  the slowest", f"{max(frames):.1f} ms", ""
    page.close()


if __name__ == "__main__":
    main()
