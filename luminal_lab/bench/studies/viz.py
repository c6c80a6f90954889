"""What pictures cost: static ones in Python, and live ones in a real, headless Chromium.

    python -m luminal_lab.bench.studies.viz [FOLDER]

Needs `playwright` and a Chromium on the PATH. Every figure is measured in this one run, and printed
beside its goal; with a folder, the measured pages are left there. Waiting times are counted from a
key or a click, which are real ones, to the frame in which the last visible part has been drawn;
nothing glides, as for a user who prefers reduced motion.
"""
# pyright: basic

import gc
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.machines.load import Load
from luminal_lab.passes.collector import uncollected
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import LICENCE, Pipeline
from luminal_lab.viz.layered import layered
from luminal_lab.viz.layers import PlacedBlock, Wire
from luminal_lab.viz.live.export import Exported, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

    from luminal_lab.viz.live.alive import Live

SIZE: "ViewportSize" = {"width": 1400, "height": 900}
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
LONG = 60_000
ITEMS = 2_000
"""How many nodes and boxes should be visible during panning."""
Made = TypeVar("Made")
Figure: TypeAlias = tuple[str, str, str]
"""What was measured, the result, and the goal."""
SCRIPT = Path(__file__).with_suffix(".js")
"""Watches a page: when something was done, and when its last frame was there."""


def main() -> None:
    """Print one line for each figure."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    tell("", loaded())
    browser, stop = chromium()
    try:
        for name, make in (("GPT-2", gpt2), ("Llama", llama)):
            cx = make()
            page = folder / f"{name.lower()}.html"
            for part in (drawn(cx), explored(cx, browser, page), compiled(cx, browser, page)):
                tell(f"{name}, {len(cx.ir):,} nodes: ", chain(busy(), part))
        tell("wide graph: ", spread(browser, folder / "wide.html"))
    finally:
        stop()


def tell(name: str, figures: Iterable[Figure]) -> None:
    """Print figures, each as soon as it is known."""
    for title, value, goal in figures:
        print(f"{name + title:<66} {value:>17}  {f'(goal: {goal})' if goal else ''}", flush=True)


def busy() -> Iterator[Figure]:
    """Say how many cores other programs keep busy."""
    with Load() as load:
        time.sleep(0.3)
    if load.others is not None:
        yield "cores that others keep busy", f"{load.others:.1f}", "none: else all is slower"


def gpt2() -> ll.Graph:
    """Return GPT-2's graph: 12 layers."""
    return model("gpt2", nn.models.GPT2(layers=12, heads=12, width=768, vocab=50257, context=1024))


def llama() -> ll.Graph:
    """Return the graph of a Llama as large as those with eight billion weights."""
    module = nn.models.Llama(
        layers=54, heads=32, kv_heads=8, width=4096, hidden=14336, vocab=128256, context=8192
    )
    return model("llama", module)


def wide() -> ll.Graph:
    """Return a graph much of which is visible at once: chains beside each other."""
    cx = ll.Graph("wide")
    for row in range(80):
        x = cx.tensor((4,), name=f"x{row}")
        for _ in range(40):
            x = x.sin() + x
        x.retrieve()
    return cx


def model(name: str, module: nn.Module) -> ll.Graph:
    """Return the graph of a model that reads 64 tokens."""
    cx = ll.Graph(name)
    module(cx.tensor((1, 64), "int64", name="tokens")).retrieve()
    return cx


def chromium() -> "tuple[Browser, Callable[[], None]]":
    """Start the browser; return it, and how to end it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # some parts need no browser

    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        sys.exit(f"no browser is on the PATH: none of {', '.join(names)}")
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
    return browser, lambda: (browser.close(), playwright.stop())[0]


def seconds(call: Callable[[], Made]) -> tuple[float, Made]:
    """Return how long a call took, and its result."""
    gc.collect()
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def ms(took: float) -> str:
    """Write seconds as milliseconds."""
    return f"{1e3 * took:,.0f} ms"


def loaded() -> Iterator[Figure]:
    """Measure a first picture of next to nothing, which loads what makes pictures."""
    cx = ll.Graph()
    cx.tensor((4,)).sin().retrieve()
    took, _ = seconds(cx.display)
    yield "a first picture in a process loads what makes it", ms(took), ""
    took, _ = seconds(lambda: with_data(cx.explore()))
    yield "a first live one", ms(took), ""


# -- without a browser -----------------------------------------------------------------------------


def drawn(cx: ll.Graph) -> Iterator[Figure]:
    """Measure the static picture, and the layout of the graph as if it had no scopes."""
    took, bundle = seconds(lambda: cx.display()._repr_mimebundle_())
    yield "static picture, collapsed", ms(took), "300 ms"
    yield "  its bytes, HTML and SVG", f"{len(json.dumps(bundle)):,}", "300,000"
    # This includes views: the cost of a graph without information about scopes.
    nodes = cx.ir.nodes[:3516]
    index = {node.id: at for at, node in enumerate(nodes)}
    blocks = [PlacedBlock(40.0 + 6 * len(node.op.name), 40.0) for node in nodes]
    ends = [(index[id], index[node.id]) for node in nodes for id in dict.fromkeys(node.sources)]
    wires = [Wire(*end) for end in ends]
    lay = uncollected(layered)  # as pictures do
    took = min(seconds(lambda: lay(blocks, wires))[0] for _ in range(5))
    yield f"layout of {len(nodes):,} nodes in one frame", ms(took), "150 ms"


def unrecorded(ir: IR, pipeline: Pipeline) -> tuple[IR, bool]:
    """Run passes as a compile does, but keep no record of them."""
    any_change = False
    for _ in range(pipeline.rounds):
        changed = False
        for pass_ in pipeline.passes:
            if isinstance(pass_, Pipeline):
                ir, did = unrecorded(ir, pass_)
            else:
                edit = Edit(ir, licence=LICENCE)
                pass_.run(ir, edit)
                did, after = bool(edit.log), edit.ir()
                ir = ir if after is ir else after.bare()
            changed |= did
        any_change |= changed
        if not changed:
            break
    return ir, any_change


def recorded(ir: IR) -> None:
    """Compile with everything that a recording needs: snapshots, and every firing."""
    with ll.trace() as traced:
        compilation = compile_ir(ir, ll.GenericCompiler(), verifying=False)
    assert traced.compilations
    for snapshot in compilation.snapshots:
        assert snapshot.firings is not None


def passes_alone(ir: IR) -> None:
    """Run the same passes, with the collector of cycles held off as in a compile."""
    gc.disable()
    unrecorded(ir.bare(), ll.GenericCompiler())
    gc.enable()


# -- the explorer ----------------------------------------------------------------------------------


def explored(cx: ll.Graph, browser: "Browser", path: Path) -> Iterator[Figure]:
    """Measure the explorer."""
    took, live = seconds(lambda: with_data(cx.explore()))
    live.export(path)
    page, painted, whole = opened(browser, path)
    yield "explore(): data made", ms(took), ""
    yield "  its bytes", f"{len(live.data):,}", ""
    yield "explore() to first paint, data and page", ms(took + painted), "1 s"
    yield "  until all in sight is drawn", ms(took + whole), ""
    keys(page, "Cf")
    page.mouse.dblclick(*page.evaluate("bench.box()"))
    yield "open one box", ms(settled(page)), "100 ms"
    yield "open all boxes one level further", ms(max(keys(page, "eee"))), "100 ms"
    page.keyboard.press("/")
    yield "search, the slowest letter of attn", ms(max(keys(page, "attn"))), "60 ms"
    page.keyboard.press("Control+a")
    yield (
        "search, the slowest letter of /attn|mlp/",
        ms(max(keys(page, "/attn|mlp/"))),
        "60 ms",
    )
    yield "go to what was found first", ms(max(keys(page, ["Enter"]))), ""
    page.keyboard.press("Escape")
    page.focus(".ll-graph")
    keys(page, "Cf")
    yield "open all boxes", ms(max(keys(page, "E"))), ""
    yield "fit all of it", ms(max(keys(page, "ff"))), ""
    keys(page, "0")
    yield from panned(page, "panning at actual size")
    page.close()


def spread(browser: "Browser", path: Path) -> Iterator[Figure]:
    """Measure the movement of a picture in which this many nodes are visible at once."""
    cx = wide()
    cx.explore().export(path)
    page, *_ = opened(browser, path)
    keys(page, "Eff0")
    while (before := page.evaluate("bench.items()")) < ITEMS:
        keys(page, "-")
        assert page.evaluate("bench.items()") > before
    yield from panned(page, "panning, all open")
    page.close()


def panned(page: "Page", how: str) -> Iterator[Figure]:
    """Measure the movement of a picture that is dragged."""
    items = page.evaluate("bench.items()")
    page.hover(".ll-graph")
    page.mouse.down()
    rate, slowest = page.evaluate("bench.pan(4, 1500, 1000)")
    page.mouse.up()
    settled(page)
    yield f"{how}, {items:,} items in sight", f"{rate:.0f} frames/s", "50"
    yield "  its slowest frame", ms(slowest / 1e3), ""


# -- the workbench ---------------------------------------------------------------------------------


def compiled(cx: ll.Graph, browser: "Browser", path: Path) -> Iterator[Figure]:
    """Measure a compile with its recording, and the workbench on it."""
    pairs = [
        (seconds(lambda: passes_alone(cx.ir))[0], seconds(lambda: recorded(cx.ir))[0])
        for _ in range(9)
    ]
    alone, kept = (min(column) for column in zip(*pairs, strict=True))
    yield "passes alone", ms(alone), ""
    yield "snapshots and every firing add", f"{(kept - alone) / alone:+.0%}", "at most 20%"
    drawn_in, _ = seconds(lambda: cx.display()._repr_mimebundle_())
    compiled_in, compilation = seconds(lambda: cx.compile(ll.GenericCompiler()))
    took, (live, first) = seconds(lambda: begun(cx.workbench()))
    path = path.with_stem(f"{path.stem}-workbench")
    state = json.dumps({"place": {"run": 0, "stage": live._stage}})
    write_page(path, Exported(live.what, live.title, first, "", state=state))
    page, painted, whole = opened(browser, path)
    page.close()
    yield "workbench(): what is sent at first is made", ms(took), ""
    yield "  its bytes", f"{len(first):,}", ""
    yield "workbench() to first paint, data and page", ms(took + painted), "1.5 s"
    ratio = (took + painted) / (drawn_in + compiled_in)
    yield "  over static picture and generic compile", f"{ratio:.1f} times", "4 times"
    yield "  until all in sight is drawn", ms(took + whole), ""
    took, _ = seconds(lambda: live.data)
    yield "  the rest, made while one looks", ms(took), ""
    yield "  all its bytes", f"{len(live.data):,}", ""
    live.export(path)
    page, *_ = opened(browser, path)
    lab = path.with_suffix(".lab")
    took, _ = seconds(lambda: cx.save(lab))
    yield "save() with every firing", ms(took), "1 s"
    yield "  its bytes", f"{lab.stat().st_size:,}", "2,000,000"
    took, _ = seconds(lambda: ll.open(lab))
    yield "open() of it", ms(took), ""
    firings = [len(snapshot.firings) for snapshot in compilation.snapshots]
    steps = sum(count > 0 for count in firings)
    passes = keys(page, "[" * steps + "]" * steps)
    yield f"step one pass, median of {len(passes)}", ms(statistics.median(passes)), "100 ms"
    yield "  the slowest", ms(max(passes)), "100 ms"
    most = max(range(len(firings)), key=firings.__getitem__)
    page.locator(".ll-pass").nth(most).click()
    settled(page)
    back = keys(page, "," * 8)
    page.get_by_title("before the first firing").click()
    settled(page)
    took = [*back, *keys(page, "." * 8)]
    title = f"step one of {firings[most]:,} firings"
    yield f"{title}, median of {len(took)}", ms(statistics.median(took)), "100 ms"
    yield "  the slowest", ms(max(took)), "100 ms"
    page.close()


# -- a page ----------------------------------------------------------------------------------------


def begun(live: "Live") -> "tuple[Live, bytes]":
    """Return what is shown, and the data that are sent first."""
    return live, live.first_data


def with_data(live: "Live") -> "Live":
    """Return what is shown, with its data made."""
    assert live.data
    return live


def opened(browser: "Browser", path: Path) -> "tuple[Page, float, float]":
    """Open a page from disk; return it, the seconds to its first paint, and until it was drawn."""
    page = browser.new_page(viewport=SIZE, reduced_motion="reduce")
    page.add_init_script(path=SCRIPT)
    page.goto(path.resolve().as_uri())
    page.wait_for_function("bench.told.painted", timeout=LONG)
    _, drawn = page.evaluate("bench.settled()")
    return page, page.evaluate("bench.told.painted") / 1e3, drawn / 1e3


def settled(page: "Page") -> float:
    """Return the seconds from the last action to the last frame that it changed."""
    return page.evaluate("bench.settled()")[0] / 1e3


def keys(page: "Page", pressed: Iterable[str]) -> list[float]:
    """Press keys, and return what each took."""
    took: list[float] = []
    for key in pressed:
        page.keyboard.press(key)
        took.append(settled(page))
    return took


if __name__ == "__main__":
    main()
