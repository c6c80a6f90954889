"""Memory accesses drawn: a map for each array between two barriers, as SVG without a script."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from luminal_lab.display import Theme
from luminal_lab.emulator.trace import Trace
from luminal_lab.viz.accesses import By, Map, Warp, accesses
from luminal_lab.viz.markup import number, written
from luminal_lab.viz.metrics import shortened, text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed

SECTORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
"""Colours of neighbouring transactions, distinct for people with any colour vision."""
KINDS = ("#0072B2", "#D55E00", "#E69F00")
"""The colours of a read, a write, and an atomic."""
RAMP = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
"""From the first bank to the last, from dark to light."""
OUTLINE = "#848d97"
"""What the darkest and the lightest of these have around them, seen on dark and on light."""
HEAT = ("#a9c9e2", "#5b9bc8", "#1f6da3", "#083b66")
"""From few accesses to many."""
MOST_MAPS = 8
WIDE, DEEP = 720.0, 256.0
LEFT, GAP = 74.0, 3.0
LEGEND = {
    "transaction": "neighbours of one colour are one transaction of 32 bytes",
    "bank": "a colour is a bank of shared memory, dark for 0 and light for 31",
    "access": "blue is read, red is written, yellow is an atomic",
    "count": "darker cells have more accesses",
}


def accesses_picture(
    trace: Trace,
    *,
    launch: int = 0,
    block: int | None = None,
    phase: int | None = None,
    line: int | None = None,
    array: str | None = None,
    warp: Warp = None,
    by: By | None = None,
    theme: Theme = "auto",
) -> Picture:
    """Return a picture of memory accesses."""
    payload = accesses(
        trace,
        launch=launch,
        block=block,
        phase=phase,
        line=line,
        array=array,
        warp=warp,
        by=by,
    )
    parts: list[str] = []
    y, widest, drawn, left_out = 26.0, 420.0, 0, 0
    for phase_map in payload["phases"]:
        if drawn == MOST_MAPS:
            left_out += len(phase_map["maps"])
            continue
        heading = _phase_text(phase_map["phase"], payload["barriers"])
        parts.append(written(0, y + 10, heading, 11.5, "b"))
        y += 20
        for access_map in phase_map["maps"]:
            if drawn == MOST_MAPS:
                left_out += 1
                continue
            drawn += 1
            text, width, height = _drawn(access_map, y)
            parts.append(text)
            widest = max(widest, width)
            y += height
    notes = []
    if payload["hidden"] or left_out:
        later = f"{payload['hidden']:,} more phases" if payload["hidden"] else ""
        maps = f"{left_out:,} more maps" if left_out else ""
        more = " and ".join(filter(None, [later, maps]))
        notes.append(f"{more} are not shown; phase=…, array=… or line=… chooses")
    if payload["warp"] is not None:
        notes.append('one warp is shown; warp=1 is another, warp="all" all of them')
    used = {access_map["by"] for phase_map in payload["phases"] for access_map in phase_map["maps"]}
    notes += [LEGEND[by] for by in LEGEND if by in used]
    flags = [
        cell
        for phase_map in payload["phases"]
        for access_map in phase_map["maps"]
        for cell in access_map["cells"]
    ]
    signs = ["a row is a thread, a column an element"]
    signs += ["a stroke: written"] if any(cell[3] & 6 for cell in flags) else []
    signs += ["a ring: it waits for its bank"] if any(cell[4] for cell in flags) else []
    notes += ["; ".join(signs)]
    for note in [*payload["findings"][:3], *notes]:
        parts.append(written(0, y + 8, shortened(note, 150), 10, "i q"))
        widest = max(widest, text_width(shortened(note, 150), 10))
        y += 14
    title = _title(payload)
    parts.insert(0, written(0, 10, title, 12.5, "b"))
    width, height = max(widest, text_width(title, 12.5)) + 28, y + 24
    inner = f'<g transform="translate(14 14)">{"".join(parts)}</g>'
    return Picture(framed(inner, width, height, theme, title), title, width, height)


def _title(payload: Map) -> str:
    x, y, z = payload["blocks"]
    threads = f"{math.prod(payload['threads']):,} threads"
    if payload["warp"] is not None:
        threads = f"warp {payload['warp']} of {threads}"
    position = payload["block"][0] if y * z == 1 else tuple(payload["block"])
    wrong = len(payload["findings"])
    judged = "nothing found" if not wrong else "1 finding" if wrong == 1 else f"{wrong} findings"
    return (
        f"{payload['kernel']}: block {position} of {x * y * z:,}, {threads}, "
        f"{payload['accesses']:,} accesses; {judged}"
    )


def _phase_text(phase: int, barriers: int) -> str:
    if not barriers:
        return "the whole block, which has no barrier"
    if phase == 0:
        return "phase 0: before the first barrier"
    where = f"between barriers {phase} and {phase + 1}"
    return f"phase {phase}: {'after the last barrier' if phase == barriers else where}"


def _drawn(access_map: Map, y: float) -> tuple[str, float, float]:
    """Return a map drawn from `y` down, with its width and height."""
    columns, rows = access_map["columns"], access_map["rows"]
    room = WIDE - GAP * len(access_map["gaps"])
    across = max(min(room / max(len(columns), 1), 12.0), 2.0)
    down = max(min(DEEP / max(len(rows), 1), 11.0), 4.0)
    gaps, xs, x = set(access_map["gaps"]), [], LEFT
    for at in range(len(columns)):
        x += GAP if at in gaps else 0
        xs.append(x)
        x += across
    size = f"{access_map['element']} byte{'s' * (access_map['element'] != 1)}"
    head = f"{access_map['array']}, {access_map['space']} memory, elements of {size}"
    if access_map["wide"] > 1:
        head += f"; {access_map['wide']} to a column"
    if access_map["high"] > 1:
        head += f"; {access_map['high']} threads to a row"
    parts = [written(0, y + 10, head, 10.5, "t")]
    top = y + 30
    parts += _labels(access_map, xs, across, top)
    parts.append(_cells(access_map, xs, across, down, top))
    low = top + down * len(rows)
    warps = [at for at in range(1, len(rows)) if rows[at] // 32 != rows[at - 1] // 32]
    parts += [
        f'<path class="l" d="M{number(LEFT)} {number(top + at * down)}H{number(x)}"/>'
        for at in warps
    ]
    every = max(1, -(-12 // int(down)), -(-len(rows) // 16))
    for at in range(0, len(rows), every):
        label = f"thread {rows[at]}" if at == 0 else str(rows[at])
        parts.append(
            written(LEFT - 5, top + at * down + min(down, 10) - 1, label, 9.5, "v q", end=True)
        )
    widest = x
    for caption in _captions(access_map):
        low += 13
        parts.append(written(LEFT, low, caption, 10, "i q"))
        widest = max(widest, LEFT + text_width(caption, 10))
    return "".join(parts), widest, low + 14 - y


def _labels(access_map: Map, xs: Sequence[float], across: float, top: float) -> list[str]:
    """Return the indices above some columns."""
    parts: list[str] = []
    free = 0.0
    for at, x in enumerate(xs):
        label = index_text(access_map["columns"][at], access_map["shape"])
        width = text_width(label, 9)
        is_start = at == 0 or at in access_map["gaps"] or access_map["columns"][at] % 8 == 0
        if is_start and x >= free and x + width <= max(xs[-1] + across, LEFT + 60):
            parts.append(written(x, top - 4, label, 9, "v q"))
            free = x + width + 8
    return parts


def index_text(element: int, shape: Sequence[int]) -> str:
    """Return the indices of an element in an array.

    >>> index_text(7, (2, 5)), index_text(7, ())
    ('[1, 2]', '[7]')
    """
    position: list[int] = []
    rest = element
    for size in reversed(shape):
        position.append(rest % max(size, 1))
        rest //= max(size, 1)
    return f"[{', '.join(map(str, reversed(position)))}]" if position else f"[{element}]"


def _cells(access_map: Map, xs: Sequence[float], across: float, down: float, top: float) -> str:
    """Return all cells: a path for each colour, one for strokes, one for rings."""
    paths: dict[str, list[str]] = {}
    strokes: list[str] = []
    rings: list[str] = []
    inset = 0.5 if min(across, down) > 4 else 0.0
    wide, high = across - 2 * inset, down - 2 * inset
    most = max((cell[2] for cell in access_map["cells"]), default=1)
    for row, column, colour, kinds, wait in access_map["cells"]:
        x, y = xs[column] + inset, top + row * down + inset
        box = f"M{number(x)} {number(y)}h{number(wide)}v{number(high)}h-{number(wide)}z"
        paths.setdefault(_colour(access_map["by"], colour, most), []).append(box)
        if kinds & 6 and wide >= 3:
            strokes.append(f"M{number(x)} {number(y + high)}l{number(wide)} -{number(high)}")
        if wait and wide >= 3:
            rings.append(box)
    outline = f' stroke="{OUTLINE}" stroke-width="0.7"' if inset else ""
    parts = [f'<path fill="{fill}"{outline} d="{"".join(of)}"/>' for fill, of in paths.items()]
    if strokes:
        parts.append(f'<path stroke="#fff" fill="none" stroke-width="1.4" d="{"".join(strokes)}"/>')
    if rings:
        parts.append(f'<path class="r" style="stroke-width:1.6" d="{"".join(rings)}"/>')
    return "".join(parts)


def _colour(by: str, colour: int, most: int) -> str:
    if by == "transaction":
        return SECTORS[colour % len(SECTORS)]
    if by == "bank":
        return ramp(colour / 31)
    if by == "access":
        return KINDS[colour]
    return HEAT[min(len(HEAT) * (colour - 1) // max(most, 1), len(HEAT) - 1)]


def ramp(share: float) -> str:
    """Return a colour between the ends of the ramp of banks.

    >>> ramp(0), ramp(0.5), ramp(1)
    ('#440154', '#21918c', '#fde725')
    """
    position = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    at = min(int(position), len(RAMP) - 2)
    low, high = (tuple(bytes.fromhex(RAMP[k][1:])) for k in (at, at + 1))
    mixed = (round(a + (b - a) * (position - at)) for a, b in zip(low, high, strict=True))
    return f"#{bytes(mixed).hex()}"


def _captions(access_map: Map) -> Iterator[str]:
    """Yield a caption for each source line that touches the array."""
    for line in access_map["lines"]:
        requests = f"{line['requests']:,} request{'s' * (line['requests'] != 1)} of warps"
        cost = (
            f"{line['conflicts']:,} turns of waiting"
            if access_map["space"] == "shared"
            else f"{line['sectors']:,} transaction{'s' * (line['sectors'] != 1)}, "
            f"{line['best']:,} at best"
        )
        does = {"read": "reads", "write": "writes", "atomic": "changes"}[line["access"]]
        text = shortened(line["text"], 64)
        yield f"line {line['line']} {does}: {requests}, {cost}: {text}"
