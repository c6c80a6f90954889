"""An A/B board as static HTML: each try with its time, its interval and its schedule."""

from __future__ import annotations

from luminal_lab.display import Theme
from luminal_lab.search.board import FIRST, Interval, Tries, Try, row_of
from luminal_lab.viz.markup import plain
from luminal_lab.viz.pages import FIGURES, closed, code, framed, head
from luminal_lab.viz.picture import Page
from luminal_lab.viz.search_pages import table

HEADS = ("try", "time", "", "of the first", "interval", "state")
SIDES = ("left", "right", "left", "right", "right", "left")
WIDTH = 160
"""The width of the axis of times, in pixels."""
COLOURS = {"faster": "#009E73", "slower": "#D55E00"}
WRAPPED = "text-align:left;white-space:normal;min-width:min(20em,40vw);"


def board_page(board: Tries, *, theme: Theme = "auto") -> Page:
    """Return a board: a row and a bar for each try, then their schedules, folded."""
    longest = max((one.seconds.high for one in board if one.seconds is not None), default=0.0)
    lines = [_cells(one, longest) for one in board]
    where = ", ".join(filter(None, [f"on {board.device_name}", board.sizes]))
    parts = [head(f"board of {board.name}", where)]
    parts += [table(zip(HEADS, SIDES, strict=True), lines)]
    note = (
        f"~ modelled for {board.model}: nothing was measured; values were checked in the emulator"
        if board.model
        else "each timed in turns with the first: the median and where, with 95 % certainty, that "
        "of more rounds would lie; a difference below 2 % counts as none"
    )
    parts += [f'<div style="font-size:12px;opacity:.8;margin-top:4px">{plain(note)}</div>']
    for one in board:
        parts.append(closed(one.name, one.told, code(one.text or "# no steps: plain loops")))
    return Page(framed(parts, theme), str(board))


def try_page(tried: Try, *, theme: Theme = "auto") -> Page:
    """Return a try: what came of it, its schedule, and the Python that makes its kernel."""
    parts = [head(f"{tried.name}, of {tried.kernel_name}", tried.told), code(tried.text)]
    parts += [closed("the Python that makes it", "", code(tried.python))]
    return Page(framed(parts, theme), str(tried))


def _cells(tried: Try, longest: float) -> list[tuple[str, str]]:
    name, time, _, ratio, within, state = row_of(tried)
    bar = "" if tried.seconds is None else _bar(tried.seconds, tried.state, longest)
    cells = [(plain(name), "text-align:left;"), (plain(time), "font-weight:600;"), (bar, "")]
    cells += [(plain(ratio), ""), (plain(within), "opacity:.8;"), (plain(state), WRAPPED)]
    return cells


def _bar(seconds: Interval, state: str, longest: float) -> str:
    """Return a bar to the median, with the interval as a line over it."""

    def at(time: float) -> float:
        return WIDTH * time / longest if longest else 0.0

    colour = COLOURS.get(state, "#6e7781" if state == FIRST else "#0072B2")
    left, width = at(seconds.low), max(1.0, at(seconds.high) - at(seconds.low))
    return (
        f'<div style="position:relative;width:{WIDTH}px;height:11px;{FIGURES}">'
        f'<div style="position:absolute;top:1px;height:9px;width:{at(seconds.middle):.1f}px;'
        f'background:{colour};opacity:.75"></div>'
        f'<div style="position:absolute;top:5px;height:2px;left:{left:.1f}px;'
        f'width:{width:.1f}px;background:currentColor"></div></div>'
    )
