"""A search as a picture: each candidate by its time, in the order of measuring.

Times are logarithmic. One kernel has its times in seconds; of several each has a band of its own,
with times as shares of its default's. What has no time stands in a row below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil, exp, floor, log, log10
from statistics import median
from typing import NamedTuple, TypeAlias

from luminal_lab.display import Theme
from luminal_lab.io.search_facts import STATES, CandidateFacts, KernelSearchFacts, SearchFacts
from luminal_lab.search.candidates import seconds_text
from luminal_lab.viz.figures import COLOURS
from luminal_lab.viz.markup import number, rows, written
from luminal_lab.viz.metrics import shortened, text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed

WIDE, DEEP, LEFT, TOP = 480.0, 220.0, 58.0, 26.0
RIGHT = 108.0
"""The room for the names of lines."""
STRIP = 22.0
"""The height of the row for what has no time."""
MOST = 4000
"""The most candidates drawn; of more, some that are no winners are left out."""
FAR = 8.0
"""What is so many times below or above all that matters is not worth the room on the way."""
BLUE, RED, GREEN, PINK, AMBER, _, GREY = COLOURS
STATE_COLOURS: Mapping[str, str] = dict(
    zip(STATES, (GREEN, "", BLUE, GREY, AMBER, RED, GREY), strict=True)
)
"""The colour of each state; the default's is that of the text."""
LINES = {
    "best": f'fill="none" stroke="{GREEN}"',
    "default": 'class="e d"',
    "unfused": f'fill="none" stroke="{PINK}" stroke-dasharray="7 3 2 3"',
    "limit": f'fill="none" stroke="{RED}" stroke-dasharray="1.5 3"',
}
"""How each line is drawn, as attributes of a path."""
NAMES = {"unfused": "apart"}
"""What a line is called where it ends, if that is another word."""
STEPS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))
"""Round numbers within a power of ten."""


Value: TypeAlias = "Callable[[CandidateFacts], float | None]"
"""What a candidate's height stands for."""


class Band(NamedTuple):
    """A kernel's part of the chart."""

    kernel: KernelSearchFacts
    candidates: Sequence[CandidateFacts]
    begin: int
    """How many candidates are left of it."""


class Scale(NamedTuple):
    """How values and places become points."""

    low: float
    high: float
    count: int
    is_share: bool
    """Whether values are shares of the default's time."""

    def x(self, at: float) -> float:
        """Return where a candidate is, by its place among all."""
        return LEFT + (at + 0.5) / max(self.count, 1) * WIDE

    def y(self, value: float) -> float:
        """Return where a value is."""
        share = log(value / self.low) / log(self.high / self.low)
        return TOP + DEEP * (1 - min(max(share, 0.0), 1.0))

    def text(self, value: float) -> str:
        """Return a value as an axis has it."""
        return f"{value:g}" if self.is_share else seconds_text(value)


def search_chart(facts: SearchFacts, theme: Theme = "auto") -> Picture:
    """Return the candidates of a search as SVG."""
    begins = accumulate((len(own) for own in facts.by_kernel), initial=0)
    bands = [Band(*band) for band in zip(facts.kernels, facts.by_kernel, begins, strict=False)]
    value = _value_of(facts)
    scale = _scale(facts, bands, value)
    strip = STRIP if any(candidate.is_error for candidate in facts.candidates) else 0.0
    parts = [*_axes(scale, strip), *_bands(bands, scale, strip), *_points(bands, scale, value)]
    parts += _lines(bands, scale, value)
    legend, bottom = _legend(facts, TOP + DEEP + strip + 34)
    inner = f'<g transform="translate(14 14)">{"".join(parts)}{legend}</g>'
    text = alt_of(facts)
    width, height = LEFT + WIDE + RIGHT + 28, bottom + 28
    return Picture(framed(inner, width, height, theme, text), text, width, height)


def alt_of(facts: SearchFacts) -> str:
    """Return the picture in words."""
    states = [candidate.state for candidate in facts.candidates]
    counts = [f"{states.count(state)} {state}" for state in STATES if state in states]
    return f"Candidates of {facts.title} by time: {', '.join(counts)}."


# -- what is drawn where ---------------------------------------------------------------------------


def _value_of(facts: SearchFacts) -> Value:
    """Return what a candidate's height stands for: seconds, or with several kernels a share."""
    if len(facts.kernels) == 1:
        return lambda candidate: candidate.seconds
    return lambda candidate: candidate.ratio


def _limit(band: Band, scale_is_share: bool) -> float | None:
    """Return a kernel's limit on the scale of its candidates."""
    default = band.candidates[0].seconds
    if band.kernel.limit is None or not scale_is_share:
        return band.kernel.limit
    return None if default is None else band.kernel.limit / default


def _scale(facts: SearchFacts, bands: Sequence[Band], value: Value) -> Scale:
    is_share = len(facts.kernels) > 1
    values = [known for one in facts.candidates if (known := value(one)) is not None] or [1.0]
    defaults = [known for one in facts.defaults if (known := value(one)) is not None]
    usual = max([median(values), *defaults])
    low, high = min(values), min(max(values), FAR * usual)
    limits = [limit for band in bands if (limit := _limit(band, is_share)) is not None]
    low = min([low, *(limit for limit in limits if limit > low / FAR)])
    room = max(log(high / low), log(1.2)) * 0.06
    return Scale(low * exp(-room), high * exp(room), len(facts.candidates), is_share)


def ticks(low: float, high: float) -> list[float]:
    """Return some round numbers between two, evenly spread by their logarithms.

    >>> ticks(0.9, 120.0)
    [1.0, 10.0, 100.0]
    >>> ticks(0.45, 1.1)
    [0.5, 0.7, 1.0]
    """
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for mantissas in STEPS:
        numbers = [round(m * 10.0**k, 12 - k) for k in powers for m in mantissas]
        shown = [n for n in numbers if low <= n <= high]
        if len(shown) >= 3:
            return shown
    step = 10.0 ** floor(log10(high - low))
    step = next(step * part for part in (1, 0.5, 0.2, 0.1) if (high - low) / (step * part) >= 3)
    first = ceil(low / step)
    digits = max(0, 2 - floor(log10(step)))
    return [round(step * k, digits) for k in range(first, floor(high / step) + 1)]


def _axes(scale: Scale, strip: float) -> Iterator[str]:
    title = "time, as a share of the default's" if scale.is_share else "time"
    yield written(0, 8, f"{title} (logarithmic)", 10, "i q")
    for value in ticks(scale.low, scale.high):
        y = scale.y(value)
        yield f'<path class="l" d="M{number(LEFT)} {number(y)}h{number(WIDE)}"/>'
        yield written(LEFT - 6, y + 3.5, scale.text(value), 10, "i q", end=True)
    bottom = TOP + DEEP + strip
    if strip:
        yield written(LEFT - 6, bottom - STRIP / 2 + 6.5, "no time", 10, "i q", end=True)
    every = max(1, 10 ** ceil(log10(max(scale.count, 1) / 20)))
    every = next(k for k in (every, 2 * every, 5 * every) if scale.count / k <= 10)
    for at in range(0, scale.count, every):
        shown = f"{at:,}"
        x = scale.x(at) - text_width(shown, 10) / 2
        yield written(x, bottom + 15, shown, 10, "i q")
    word = "candidate, in the order of measuring"
    x = LEFT + (WIDE - text_width(word, 10)) / 2
    yield written(x, bottom + 29, word, 10, "i q")


def _bands(bands: Sequence[Band], scale: Scale, strip: float) -> Iterator[str]:
    """Yield the names of kernels, and the borders between them."""
    for band in bands if len(bands) > 1 else ():
        left, right = scale.x(band.begin - 0.5), scale.x(band.begin + len(band.candidates) - 0.5)
        if band.begin:
            yield f'<path class="l" d="M{number(left)} {TOP:g}v{number(DEEP + strip)}"/>'
        most = int((right - left - 6) / text_width("n", 10))
        if most >= 4:
            yield written(left + 4, TOP - 5, shortened(band.kernel.name, most), 10, "i")


def _points(bands: Sequence[Band], scale: Scale, value: Value) -> Iterator[str]:
    every = max(1, -(-scale.count // MOST))
    for state in reversed(STATES):
        data: list[str] = []
        for band in bands:
            for at, candidate in enumerate(band.candidates, band.begin):
                if candidate.state != state or (at % every and state not in STATES[:2]):
                    continue
                known = value(candidate)
                if known is None and not candidate.is_error:
                    continue
                y = TOP + DEEP + STRIP / 2 + 3 if known is None else scale.y(known)
                data.append(sign(state, scale.x(at), y))
        if data:
            yield f'<path {look(state)} d="{"".join(data)}"/>'


def sign(state: str, x: float, y: float) -> str:
    """Return a candidate's sign as the data of a path."""
    match state:
        case "fastest":  # a diamond
            return f"M{number(x)} {number(y - 6)}l6 6l-6 6l-6 -6z"
        case "default":  # a square
            return f"M{number(x - 4)} {number(y - 4)}h8v8h-8z"
        case "stopped":  # a ring
            return f"M{number(x - 2.5)} {number(y)}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0"
        case "failed":  # a cross
            return f"M{number(x - 3)} {number(y - 3)}l6 6m0 -6l-6 6"
        case "refused" | "pruned":  # a bar
            return f"M{number(x)} {number(y - 4)}v8"
        case _:  # a disc
            return f"M{number(x)} {number(y)}h0"


def look(state: str) -> str:
    """Return how the signs of a state are drawn, as attributes of a path."""
    colour = STATE_COLOURS[state]
    match state:
        case "fastest":
            return f'fill="{colour}"'
        case "default":
            return 'class="e w"'
        case "slower":
            return f'fill="none" stroke="{colour}" stroke-width="5.5" stroke-linecap="round"'
        case _:
            return f'fill="none" stroke="{colour}" stroke-width="1.5"'


def _lines(bands: Sequence[Band], scale: Scale, value: Value) -> Iterator[str]:
    """Yield the lines through each band, and their names where there is one."""
    names: list[tuple[float, str]] = []
    for band in bands:
        left, right = scale.x(band.begin - 0.5), scale.x(band.begin + len(band.candidates) - 0.5)
        yield _best_so_far(band, scale, value)
        apart = next((one for one in band.candidates if one.number == band.kernel.unfused), None)
        for name, known in (
            ("default", value(band.candidates[0])),
            ("unfused", None if apart is None else value(apart)),
            ("limit", _limit(band, scale.is_share)),
        ):
            if known is None:
                continue
            is_below, y = known < scale.low, scale.y(known)
            if not is_below:
                yield f'<path {LINES[name]} d="M{number(left)} {number(y)}H{number(right)}"/>'
            names.append((y, f"{NAMES.get(name, name)} {scale.text(known)}{' ↓' * is_below}"))
        best = next((one for one in band.candidates if one.state == "fastest"), None)
        if best is not None and best.number and (known := value(best)) is not None:
            names.append((scale.y(known), f"best {scale.text(known)}"))
    free = TOP - 12
    for y, text in () if scale.is_share else sorted(names):
        free = max(y + 3.5, free + 13)
        yield written(LEFT + WIDE + 6, free, text, 10.5, "t")


def _best_so_far(band: Band, scale: Scale, value: Value) -> str:
    """Return the least value up to each candidate, as a stepped line."""
    data, least = "", None
    for at, candidate in enumerate(band.candidates, band.begin):
        known = None if candidate.state == "stopped" else value(candidate)
        if known is not None and (least is None or known < least):
            x, y = number(scale.x(at)), number(scale.y(known))
            data += f"H{x}V{y}" if data else f"M{x} {y}"
            least = known
    end = number(scale.x(band.begin + len(band.candidates) - 0.5))
    return f'<path {LINES["best"]} d="{data}H{end}"/>' if data else ""


def _legend(facts: SearchFacts, y: float) -> tuple[str, float]:
    """Return what signs and lines mean, and where that ends."""
    states = [candidate.state for candidate in facts.candidates]
    entries = [
        (f'<path {look(state)} d="{sign(state, 6, -3.5)}"/>', f"{state} {states.count(state)}")
        for state in STATES
        if state in states
    ]
    names = {"best so far": "best", "default": "default"}
    if any(facts.unfused):
        names["the fastest with kernels apart"] = "unfused"
    bounds = dict.fromkeys(kernel.bounded_by for kernel in facts.kernels if kernel.limit)
    if bounds:
        names[f"the machine's limit ({', '.join(bounds)})"] = "limit"
    entries += [(f'<path {LINES[line]} d="M0 -3.5h16"/>', words) for words, line in names.items()]
    texts = [
        (text_width(words, 10) + 36, f"{shape}{written(20, 0, words, 10, 'i q')}")
        for shape, words in entries
    ]
    widths = {text: width for width, text in texts}
    parts: list[str] = []
    for row in rows(texts, LEFT + WIDE + RIGHT):
        y += 16
        x = 0.0
        for entry in row:
            parts.append(f'<g transform="translate({number(x)} {number(y)})">{entry}</g>')
            x += widths[entry]
    return "".join(parts), y + 4
