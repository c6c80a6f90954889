"""Make the pictures of the project anew: what explorer, workbench and pages look like in a browser.

    python docs/pictures.py FOLDER            writes all ten into a folder
    python docs/pictures.py FOLDER roofline   writes those whose names begin so
    python docs/pictures.py                   renews the two in docs/images that the README shows

Needs Playwright (`pip install playwright`) and a Chromium, Chrome or Edge on the PATH. Letters are
those of the machine's fonts, and times those of the machine, so that no two machines make equal
bytes; a PNG has a palette of 256 colours and two pixels for each of the page's.
"""

import base64
import importlib
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.display import Theme
from luminal_lab.viz.live.alive import Live

IMAGES = Path(__file__).parent / "images"
SHOWN = ("workbench-softmax", "explorer-expanded")
"""The pictures that the README shows."""
MOST = 300_000
"""Bytes that one of them may have."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
# Playwright's own, which is looked for late.
Browser: TypeAlias = Any
Page: TypeAlias = Any
Shot: TypeAlias = "Callable[[Browser, Path], bytes]"

# A PNG as the 256 colours that say most and one byte a pixel: those that are there most often, and
# then always the one that is farthest from all of them.
PALETTE = """async (png) => {
  const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
  const { width, height } = image, canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.drawImage(image, 0, 0);
  const pixels = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const one of pixels) counts.set(one, (counts.get(one) ?? 0) + 1);
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  const parts = (one) => [one & 255, (one >> 8) & 255, (one >> 16) & 255];
  const away = ([r, g, b], [s, h, c]) => 2 * (r - s) ** 2 + 4 * (g - h) ** 2 + 3 * (b - c) ** 2;
  const chosen = all.slice(0, 160).map(([one]) => parts(one));
  const rest = all.slice(160).map(([one, count]) => ({ of: parts(one), weight: count ** 0.5 }));
  for (const it of rest) it.far = Math.min(...chosen.map((other) => away(it.of, other)));
  while (chosen.length < 256 && rest.length) {
    const next = rest.reduce((a, b) => (b.far * b.weight > a.far * a.weight ? b : a));
    if (!next.far) break;
    chosen.push(next.of);
    for (const it of rest) it.far = Math.min(it.far, away(it.of, next.of));
  }
  const place = new Map();
  for (const [one] of all) {
    const of = parts(one);
    place.set(one, chosen.reduce((a, b, at) => (away(of, b) < away(of, chosen[a]) ? at : a), 0));
  }
  const bytes = Uint8Array.from(pixels, (one) => place.get(one));
  const url = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(new Blob([bytes]));
  });
  return { width, height, colours: chosen.flat(), bytes: url.slice(url.indexOf(",") + 1) };
}"""


def main() -> None:
    """Write the pictures that were asked for."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    wanted = tuple(sys.argv[2:]) or (SHOWN if folder == IMAGES else ("",))
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as context, tempfile.TemporaryDirectory() as work:
        for name, shot in PICTURES.items():
            if name.startswith(wanted):
                data = shot(context, Path(work))
                (folder / f"{name}.png").write_bytes(data)
                print(f"{name}.png  {len(data):,} bytes", flush=True)
                if folder == IMAGES and len(data) > MOST:
                    sys.exit(f"{name}.png may have {MOST:,} bytes")


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit(f"no browser is on the PATH: none of {', '.join(BROWSERS)}")
    api = importlib.import_module("playwright.sync_api")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


# -- what is shown ---------------------------------------------------------------------------------


def softmax() -> ll.Graph:
    """Return a softmax as one writes it by hand."""
    cx = ll.Graph("softmax")
    x = cx.tensor((128, 512), name="x").set(values(128, 512))
    shifted = x - x.max(-1, keepdim=True)
    e = shifted.exp()
    (e / e.sum(-1, keepdim=True)).named("p").retrieve()
    return cx


def attention() -> ll.Graph:
    """Return a head of attention behind a normalisation: kernels of different kinds."""
    cx = ll.Graph("attention")
    x = cx.tensor((512, 512), name="x").set(values(512, 512))
    w = [cx.tensor((512, 64), name=name).set(values(512, 64)) for name in ("wq", "wk", "wv")]
    with cx.scope("norm"):
        h = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
    with cx.scope("attn"):
        q, k, v = (h @ one for one in w)
        ((q @ k.T * 0.125).softmax(-1) @ v).named("out").retrieve()
    return cx


def gate() -> ll.Graph:
    """Return a graph in which an algebraist finds something to do."""
    cx = ll.Graph("gate")
    x, w = (cx.tensor((4, 8), name=name) for name in "xw")
    product = -x * -w
    kept = x * 1 + 0
    (product + kept).recip().named("y").retrieve()
    return cx


def values(rows: int, columns: int) -> np.ndarray:
    """Return numbers to compute with, the same each time."""
    return np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)


def gpt2() -> ll.Graph:
    """Return GPT-2's graph, all twelve layers of it, small enough to compile in a moment."""
    cx = ll.Graph("gpt2")
    tokens = cx.tensor((1, 16), "int64", name="tokens")
    nn.models.GPT2(layers=12, heads=4, width=64, vocab=128, context=32)(tokens).retrieve()
    return cx


def llama() -> ll.Graph:
    """Return the graph of a Llama with more than ten thousand nodes."""
    cx = ll.Graph("llama")
    tokens = cx.tensor((1, 64), "int64", name="tokens")
    model = nn.models.Llama(
        layers=54, heads=32, kv_heads=8, width=4096, hidden=14336, vocab=128256, context=8192
    )
    model(tokens).retrieve()
    return cx


# -- how it is shown -------------------------------------------------------------------------------


@contextmanager
def opened(
    browser: Browser, url: str, width: int, height: int, theme: Theme = "light"
) -> Iterator[Page]:
    """Open a page in a window of a size."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2,
        color_scheme=theme,
        offline=True,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def alive(
    browser: Browser, live: Live, work: Path, size: tuple[int, int], theme: Theme = "light"
) -> AbstractContextManager[Page]:
    """Open a live picture as the page that it exports."""
    path = work / "page.html"
    live.export(path, theme=theme)
    return opened(browser, path.as_uri(), *size, theme)


def taken(browser: Browser, page: Page, area: str = "body") -> bytes:
    """Return what a page shows as a PNG with a palette."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur?.()")
    page.wait_for_timeout(400)
    png = page.locator(area).first.screenshot(animations="disabled")
    with opened(browser, "about:blank", 100, 100) as blank:
        blank.context.set_offline(False)
        found = blank.evaluate(PALETTE, base64.b64encode(png).decode())
    return packed(found)


def packed(found: dict[str, Any]) -> bytes:
    """Return a PNG of colours and one byte a pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    width, height = found["width"], found["height"]
    pixels = base64.b64decode(found["bytes"])
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, width * height, width))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    colours = chunk(b"PLTE", bytes(found["colours"]))
    data = zlib.compressobj(9, zlib.DEFLATED, 15, 9)
    body = data.compress(rows) + data.flush()
    parts = chunk(b"IHDR", head), colours, chunk(b"IDAT", body), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


# -- the pictures ----------------------------------------------------------------------------------


def inline(theme: Theme) -> Shot:
    """Return what takes the picture of a graph as a notebook has it inline."""

    def shot(browser: Browser, work: Path) -> bytes:
        cx = ll.Graph("softmax")
        x = cx.tensor((4, 8), name="x")
        x.softmax(-1).named("p").retrieve()
        cx.display(theme=theme).save(work / "inline.svg")
        with opened(browser, (work / "inline.svg").as_uri(), 700, 900, theme) as page:
            return taken(browser, page, "svg")

    return shot


def collapsed(browser: Browser, work: Path) -> bytes:
    """Take the picture of ten thousand nodes as they are at first: equal layers are one box."""
    with alive(browser, llama().explore(), work, (1280, 800)) as page:
        page.locator(".ll-graph").focus()
        page.keyboard.press("f")
        page.wait_for_timeout(300)
        return taken(browser, page)


def expanded(browser: Browser, work: Path) -> bytes:
    """Take the picture of ten thousand nodes with all boxes open, and what one search found."""
    with alive(browser, llama().explore(), work, (1280, 800)) as page:
        page.keyboard.press("E")
        page.get_by_role("searchbox").first.fill("op:max_reduce")
        page.keyboard.press("Enter")
        page.locator(".ll-graph").focus()
        page.keyboard.press("+")
        page.keyboard.press("a")
        page.wait_for_timeout(500)
        return taken(browser, page)


def workbench_softmax(browser: Browser, work: Path) -> bytes:
    """Take the picture of a softmax before and after what C has a function for is recognised."""
    cx = softmax()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    bench = cx.workbench(cx.time())
    bench.go("intrinsics")
    with alive(browser, bench, work, (1280, 800)) as page:
        return taken(browser, page)


def workbench_gpt2(browser: Browser, work: Path) -> bytes:
    """Take the picture of GPT-2's compile, where its rows become kernels."""
    cx = gpt2()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    bench = cx.workbench()
    bench.go("fuse-contractions")
    with alive(browser, bench, work, (1440, 900), "dark") as page:
        return taken(browser, page)


def tab(name: str, theme: Theme = "light") -> Shot:
    """Return what takes the picture of a tab of the workbench, with times of some devices."""

    def shot(browser: Browser, work: Path) -> bytes:
        cx = attention()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        devices = [ll.CPU(), *map(ll.devices.specification, ("t4", "h200"))]
        bench = cx.workbench(ll.compare(cx, devices), dialects=["cuda", "metal"])
        bench.go("fuse-rows")
        bench.select(cx.launches[0])
        with alive(browser, bench, work, (1280, 800), theme) as page:
            page.get_by_role("tab", name=name, exact=True).click()
            return taken(browser, page)

    return shot


def firings(browser: Browser, work: Path) -> bytes:
    """Take the picture of one firing of a pass: its rule, its two sides, what it changed."""
    cx = gate()
    simplified = cx.compile("simplify, cse, dce")["simplify"]
    rules = [one.rule for one in simplified.firings]
    at = rules.index("mul-negs")
    bench = cx.workbench()
    bench.go("simplify", firing=at + 1)
    bench.select(simplified.firings[at])
    with alive(browser, bench, work, (1280, 640)) as page:
        return taken(browser, page)


def exported(browser: Browser, work: Path) -> bytes:
    """Take the picture of an exported page with what costs most in colour."""
    with alive(browser, gpt2().explore(), work, (1280, 800), "dark") as page:
        page.get_by_role("searchbox").first.fill("scope:h.3 op:max")
        page.keyboard.press("Enter")
        page.get_by_label("Colour by").select_option(label="flops")
        page.wait_for_timeout(300)
        return taken(browser, page)


PICTURES: dict[str, Shot] = {
    "inline-light": inline("light"),
    "inline-dark": inline("dark"),
    "explorer-collapsed": collapsed,
    "explorer-expanded": expanded,
    "workbench-softmax": workbench_softmax,
    "workbench-gpt2": workbench_gpt2,
    "sources": tab("source"),
    "firings": firings,
    "roofline": tab("times"),
    "page": exported,
}

if __name__ == "__main__":
    main()
