"""What all charts share: colours, signs, axes, and the only function that makes plotly figures.

Measured, recorded and modelled are told apart in every chart: a measured bar is full and a measured
point a disc; a recorded bar is hatched and its point a diamond; a modelled bar is an outline, and
its point a ring.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, DeviceError

if TYPE_CHECKING:
    import plotly.graph_objects as go

Payload = dict[str, Any]
"""The payload of a plotly figure: `data`, a list of traces, and `layout`."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Colours distinct for people with any colour vision (Okabe and Ito)."""
SYMBOLS = {"measured": "circle", "recorded": "diamond", "modelled": "circle-open"}
DASHES = {"measured": "solid", "recorded": "dot", "modelled": "dash"}
PATTERNS = ("", "/", "x", "-", "\\", "|", "+", ".")
"""Patterns that tell bars of one colour apart."""
CLEAR = "rgba(0,0,0,0)"
GRID = "rgba(128,128,128,0.25)"
FONT = 'Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif'


class Look(NamedTuple):
    """The colours of a chart's background and text."""

    ground: str
    text: str
    hover: str


LOOKS = {
    "auto": Look(CLEAR, "#777777", "#ffffff"),
    "light": Look("#ffffff", "#1f2328", "#ffffff"),
    "dark": Look("#0d1117", "#e6edf3", "#161b22"),
}
"""A chart cannot know whether its page is dark: by default it has no background, and grey text."""


def with_doubts(below: str, doubts: Iterable[str]) -> str:
    """Return the line under a title, with why the numbers may be wrong, each reason once."""
    warned = [f"⚠ {doubt}" for doubt in dict.fromkeys(doubts)]
    return "\n".join(
        [*([below] if below else []), *(line for text in warned for line in wrap(text, 96))]
    )


def layout(title: str, *, below: str = "", height: float = 420, theme: Theme = "auto") -> Payload:
    """Return the layout that all charts share; `below` is a smaller line under the title."""
    if theme not in LOOKS:
        raise ArgumentError(f"plot: the theme is {theme!r}", hint='give "light", "dark" or "auto"')
    look = LOOKS[theme]
    lines = below.split("\n") if below else []
    text = "<br>".join([safe(title), *(f"<sub>{safe(line)}</sub>" for line in lines)])
    return {
        "title": {"text": text, "x": 0, "xref": "paper", "font": {"size": 15}},
        "template": "none",
        "font": {"family": FONT, "size": 12, "color": look.text},
        "paper_bgcolor": look.ground,
        "plot_bgcolor": look.ground,
        "hoverlabel": {
            "namelength": -1,
            "bgcolor": look.hover,
            "font": {"color": "#e6edf3" if theme == "dark" else "#1f2328"},
        },
        "legend": {
            "orientation": "h",
            "y": -0.18,
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        "margin": {"l": 60, "r": 20, "t": 50 + 14 * len(lines), "b": 40},
        "height": round(height),
        "colorway": list(COLOURS),
    }


def axis(title: str = "", **more: object) -> Payload:
    """Return an axis with a quiet grid."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": GRID,
        "linecolor": GRID,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def logarithmic(title: str) -> Payload:
    """Return an axis of powers of ten."""
    return axis(title, type="log", dtick=1, exponentformat="power")


def safe(text: str) -> str:
    """Return text escaped for a chart: plotly interprets some tags in titles and labels.

    >>> safe("a <b> & c")
    'a &lt;b> &amp; c'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;")


def rounded(value: float) -> float:
    """Return a number with the digits that a chart can show.

    >>> rounded(0.1 + 0.2), rounded(123456.789)
    (0.3, 123457.0)
    """
    return float(f"{value:.6g}")


def bar(how: str, colour: str, pattern: str = "") -> Payload:
    """Return a bar's style: full if measured, hatched if recorded, else an outline."""
    line = {"color": colour, "width": 1.5}
    if how == "modelled":
        return {"color": CLEAR, "line": line}
    if how == "recorded":
        hatched = {"shape": "/", "fgcolor": colour, "bgcolor": CLEAR, "size": 6}
        return {"color": colour, "line": line, "pattern": hatched}
    if pattern:
        return {"color": colour, "line": line, "pattern": {"shape": pattern, "size": 5}}
    return {"color": colour, "line": line}


def point(how: str, colour: str) -> Payload:
    """Return a point's style: a disc if measured, a diamond if recorded, else a ring."""
    line = {"color": colour, "width": 2}
    return {"color": colour, "symbol": SYMBOLS[how], "size": 10, "line": line}


def figure(payload: Payload) -> go.Figure:
    """Return a plotly figure, which a notebook shows."""
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise DeviceError(
            "plot: a chart needs plotly, which is not installed",
            hint="pip install plotly; print(…) and the table show the numbers without it",
        ) from error
    return go.Figure(payload)
