"""Colours of pictures, light and dark, as the style sheet that each picture carries.

Rules name their colours outright, since not every SVG viewer knows variables. A node's kind shows
in its shape, its status in its outline and sign; colours only repeat that.
"""

from __future__ import annotations

from collections.abc import Iterable, Set as AbstractSet

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError

FONT = 'Helvetica,Arial,"Liberation Sans","DejaVu Sans Condensed","DejaVu Sans",sans-serif'
MONO = 'Menlo,Consolas,"DejaVu Sans Mono",monospace'
# Fill and outline of each kind of node, light and dark.
KINDS = {
    "input": ("#ddf4ff", "#0969da", "#0c2d4d", "#58a6ff"),
    "parameter": ("#e7e9ff", "#4f5bd5", "#1d2150", "#8f9bff"),
    "constant": ("#f0f0f0", "#6e7781", "#22262c", "#9198a1"),
    "source": ("#dff5e6", "#1a7f37", "#10301b", "#3fb950"),
    "view": ("#ffffff", "#8c959f", "#0d1117", "#8b949e"),
    "op": ("#f6f8fa", "#6e7781", "#1b2129", "#8b949e"),
    "reduce": ("#fff1e5", "#bc4c00", "#33200f", "#f0883e"),
    "call": ("#fbefff", "#8250df", "#2a1a45", "#b48bff"),
    "kernel": ("#ffeff7", "#bf3989", "#3a1530", "#f778ba"),
    "launch": ("#fff8c5", "#8a6100", "#322808", "#d9a520"),
    "host": ("#ffebe9", "#a4343a", "#3a1716", "#ff8f85"),
    "sent": ("#f6ece3", "#7a4b20", "#2d2015", "#d0a073"),
    "class": ("#fbefff", "#8250df", "#2a1a45", "#b48bff"),
    "outside": ("#ffffff", "#8c959f", "#0d1117", "#7d8590"),
    "box": ("#eaeef2", "#6e7781", "#21262d", "#8b949e"),
}
# Outline and fill of each status, light and dark.
STATUSES = {
    "added": ("#1a7f37", "#dafbe1", "#3fb950", "#12361f"),
    "removed": ("#cf222e", "#ffebe9", "#ff7b72", "#3d1715"),
    "rewired": ("#9a6700", "#fff8c5", "#e3b341", "#362a07"),
}
# Ground, text, faint text, edges, ground of open boxes, highlight; heat is the colour of overlays.
LIGHT = ("#ffffff", "#1f2328", "#57606a", "#6e7781", "#f6f8fa", "#0b7285", "#fb8f44")
DARK = ("#0d1117", "#e6edf3", "#9aa4af", "#8b949e", "#13181f", "#3bc9db", "#db6d28")


def style_sheet(theme: Theme, used: AbstractSet[str]) -> str:
    """Return the rules of a picture with such classes; `auto` follows the reader's preference."""
    if theme not in ("auto", "light", "dark"):
        raise ArgumentError(
            f"display: the theme is {theme!r}", hint='give "light", "dark" or "auto"'
        )
    root = f".ll-{theme}"

    def written(rules: Iterable[tuple[str, str]]) -> str:
        return "".join(
            f"{root} {name}{{{rule}}}" for name, rule in rules if used >= set(name.split(".")[1:])
        )

    rules = written(SHARED) + written(_colours(theme == "dark"))
    if theme == "auto":
        rules += f"@media (prefers-color-scheme:dark){{{written(_colours(True))}}}"
    return rules


SHARED = (
    ("text", f"font-family:{FONT};font-size:12.5px"),
    (".b", "font-weight:bold"),
    (".m", f"font-family:{MONO};font-size:11px;white-space:pre"),
    (".t", "font-size:10.5px"),
    (".i", "font-size:10px"),
    (".v", "font-size:9.5px;font-style:italic"),
    (".s", "stroke-width:1.2"),
    (".e", "fill:none;stroke-width:1.2"),
    (".d", "stroke-dasharray:5 3"),
    (".p", "stroke-dasharray:.1 4;stroke-linecap:round;stroke-width:2"),
    (".x", "text-decoration:line-through"),
    (".w", "stroke-width:2"),
    (".f", "opacity:.55"),
)
"""The rules shared by light and dark."""


def _colours(dark: bool) -> list[tuple[str, str]]:
    ground, text, faint, edge, open_box, high, heat = DARK if dark else LIGHT
    rules = [
        (".g", f"fill:{ground}"),
        ("text", f"fill:{text}"),
        (".q", f"fill:{faint}"),
        (".h", f"stroke:{ground};stroke-width:3px;paint-order:stroke"),
        (".e", f"stroke:{edge}"),
        (".a", f"fill:{edge}"),
        (".o", f"fill:{open_box};stroke:{edge}"),
        (".r", f"fill:none;stroke:{high};stroke-width:3"),
        (".z", f"fill:{heat}"),
        (".l", f"stroke:{edge};stroke-opacity:.35"),
    ]
    rules += [
        (f".{kind}", f"fill:{of[2 * dark]};stroke:{of[2 * dark + 1]}") for kind, of in KINDS.items()
    ]
    for status, (stroke, fill, dark_stroke, dark_fill) in STATUSES.items():
        line, ground_of = (dark_stroke, dark_fill) if dark else (stroke, fill)
        rules += [
            (f".s.{status}", f"fill:{ground_of};stroke:{line};stroke-width:2"),
            (f".e.{status}", f"stroke:{line};stroke-width:1.8"),
            (f".a.{status}", f"fill:{line}"),
            (f"text.{status}", f"fill:{line}"),
        ]
    return rules
