"""The last run of workers: one lane a worker, what was sent joins lanes, bubbles are hatched."""

from __future__ import annotations

from luminal_lab.display import Theme
from luminal_lab.viz.figures import COLOURS, GRID
from luminal_lab.viz.markup import number, plain, written
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed
from luminal_lab.workers.lanes import Lanes

LEFT, TOP, WIDE, DEEP, GAP, SIZE = 70.0, 44.0, 640.0, 26.0, 14.0, 11.0
HATCHED = (
    '<defs><pattern id="bubble" width="6" height="6" patternUnits="userSpaceOnUse" '
    f'patternTransform="rotate(45)"><line y2="6" stroke="{COLOURS[6]}" stroke-width="1.5"/>'
    "</pattern></defs>"
)
PAINT = {"forward": COLOURS[5], "backward": COLOURS[4], "end": COLOURS[6]}
PAINT |= {"compute": COLOURS[5], "send": COLOURS[4]}


def lanes_picture(lanes: Lanes, *, theme: Theme = "auto") -> Picture:
    """Return the lanes as a picture."""
    turns = lanes.turns
    first = min((work.start for work in turns), default=0.0)
    scale = WIDE / (lanes.seconds or 1.0)

    def x(seconds: float) -> float:
        return LEFT + scale * (seconds - first)

    def y(worker: int) -> float:
        return TOP + worker * (DEEP + GAP)

    parts = [HATCHED, written(14, 24, f"{1e3 * lanes.seconds:.2f} ms, {lanes.told}", 13)]
    for worker in range(lanes.workers):
        parts.append(written(14, y(worker) + DEEP / 2 + 4, f"worker {worker}", SIZE))
        parts.append(
            f'<rect x="{LEFT}" y="{number(y(worker))}" width="{WIDE}" height="{DEEP}" '
            f'fill="url(#bubble)" stroke="{GRID}"><title>worker {worker} waits</title></rect>'
        )
    for work in turns:
        wide, place = max(1.0, x(work.end) - x(work.start)), (x(work.start), y(work.worker))
        said = f"{work.phase} {work.micro}: {1e3 * (work.end - work.start):.2f} ms"
        parts.append(
            f'<rect x="{number(place[0])}" y="{number(place[1])}" width="{number(wide)}" '
            f'height="{DEEP}" rx="2" fill="{PAINT[work.phase]}"><title>{plain(said)}</title></rect>'
        )
        width = text_width(work.label, SIZE)
        if width + 4 < wide:
            middle = place[0] + (wide - width) / 2
            label = written(middle, place[1] + DEEP / 2 + 4, work.label, SIZE)
            parts.append(label.replace("<text", '<text style="fill:#1f2328"', 1))
    for sent in lanes.sent:
        down = sent.to > sent.source
        edges = y(sent.source) + (DEEP if down else 0), y(sent.to) + (0 if down else DEEP)
        if sent.end <= first + lanes.seconds:
            said = f"{sent.value}, {sent.bytes:,} bytes, from worker {sent.source} to {sent.to}"
            parts.append(
                f'<path d="M{number(x(sent.start))} {number(edges[0])}L{number(x(sent.end))} '
                f'{number(edges[1])}" stroke="{COLOURS[0 if down else 1]}" fill="none" '
                f'stroke-width="1.2"><title>{plain(said)}</title></path>'
            )
    for met in lanes.met:
        ends = [number(y(worker) + DEEP / 2) for worker in (min(met.workers), max(met.workers))]
        said = f"{met.op} over {met.axis}: each worker sends {met.bytes:,} bytes"
        parts.append(
            f'<path d="M{number(x(met.start))} {ends[0]}V{ends[1]}" stroke="{COLOURS[0]}" '
            f'stroke-width="1.6"><title>{plain(said)}</title></path>'
        )
    height = y(lanes.workers) + 14
    phases = ("forward", "backward") if lanes.microbatches else ("compute", "send")
    keys = (*((phase, PAINT[phase]) for phase in phases), ("waits", ""))
    at = LEFT
    for name, colour in keys:
        fill = colour or "url(#bubble)"
        parts.append(
            f'<rect x="{number(at)}" y="{number(height - 8)}" width="14" height="10" '
            f'fill="{fill}"/>'
        )
        parts.append(written(at + 19, height + 1, name, SIZE))
        at += 40 + text_width(name, SIZE)
    many = f" and {lanes.microbatches} microbatches" if lanes.microbatches else ""
    text = f"Lanes of {lanes.workers} workers{many}: {lanes.told}."
    width = LEFT + WIDE + 16
    return Picture(
        framed("".join(parts), width, height + 14, theme, text), text, width, height + 14
    )
