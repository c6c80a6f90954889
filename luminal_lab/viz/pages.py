"""Kernels, schedules and timings as static HTML: no script, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Iterable

from luminal_lab.display import Theme
from luminal_lab.io.facts import Facts, TimeFacts
from luminal_lab.kernels.kernel import LANGUAGES, Kernel
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.rates import size_text
from luminal_lab.tables import aligned
from luminal_lab.timing.timings import MARK, Timing, Timings, is_named, unit_of
from luminal_lab.viz.markup import plain
from luminal_lab.viz.picture import Page

LINE = "1px solid rgba(128,128,128,.35)"
CODE = "margin:0;padding:8px 10px;overflow:auto;font-size:12px;line-height:1.4;"
CODE += f"border:{LINE};border-radius:4px;background:none;color:inherit;white-space:pre"
HEAD = "margin:10px 0 3px;font-size:13px;font-weight:600"
CELL = "padding:2px 9px;text-align:right;border:0;white-space:nowrap;vertical-align:middle;"
CUT = "opacity:.7;max-width:26em;overflow:hidden;text-overflow:ellipsis;"
LOOKS = {
    "measured": "",
    "recorded": "text-decoration:underline dotted;",
    "modelled": "font-style:italic;opacity:.8;",
}
BARS = {
    "measured": "border:1px solid #0072B2;background:#0072B2",
    "recorded": "border:1px solid #0072B2;background:"
    "repeating-linear-gradient(45deg,#0072B2 0 2px,transparent 2px 5px)",
    "modelled": "border:1px dashed #0072B2",
}
GROUNDS = {
    "light": "background:#fff;color:#1f2328;",
    "dark": "background:#0d1117;color:#e6edf3;",
    "auto": "",
}
FIGURES = "font-variant-numeric:tabular-nums;background:none;color:inherit;margin:0"
BAR = 120
"""The width of the slowest row's bar, in pixels."""
MOST = 60
"""The most rows of timings shown; the fastest ones are only counted."""


def kernel_page(kernel: Kernel, *, theme: Theme = "auto") -> Page:
    """Return a kernel's definition, schedule, nest, and source with the ops of each line."""
    parts = [head(f"kernel {kernel.name}", _counts(kernel))]
    if kernel.definition is not None:
        parts += [head("definition"), code(str(kernel.definition))]
    if kernel.schedule is not None and len(kernel.schedule):
        parts += [closed("schedule", f"{len(kernel.schedule)} steps", code(str(kernel.schedule)))]
    if kernel.nest is not None:
        parts += [closed("nest", "", code(str(kernel.nest)))]
    language = LANGUAGES.get(kernel.dialect, kernel.dialect)
    parts += [head(f"source, in {language}"), _source(kernel)]
    return Page(framed(parts, theme), str(kernel))


def schedule_page(schedule: Schedule, *, theme: Theme = "auto") -> Page:
    """Return the steps of a schedule as a numbered list."""
    rows = "".join(f"<li><code>{plain(str(step))}</code></li>" for step in schedule)
    many = f"{len(schedule)} step{'s' * (len(schedule) != 1)}"
    body = f'<ol start="0" style="margin:0;font-size:12px;line-height:1.6">{rows}</ol>'
    return Page(framed([head("schedule", many), body], theme), str(schedule))


def timings_page(timings: Timings, *, theme: Theme = "auto") -> Page:
    """Return times as a table with bars; measured, recorded and modelled ones look different."""
    slowest = max((row.seconds for row in timings), default=0.0)
    order = sorted(range(len(timings)), key=lambda at: -timings.rows[at].seconds)
    kept = sorted(order[:MOST])
    rows = [_row(timings, at, slowest) for at in kept]
    heads = [timings.unit, "", "±", "bytes", "GB/s", "GFLOP/s", "of the limit", "launch", "line"]
    names = "".join(
        f'<th style="{CELL}text-align:{"left" if at > 6 else "right"};opacity:.75">{name}</th>'
        for at, name in enumerate(heads)
    )
    whole = f"{timings.shown(timings.launches)} {timings.unit} in all of them"
    if timings.whole:
        whole += f", {timings.shown(timings.seconds)} {timings.unit} for a whole run"
    rest = len(timings) - len(kept)
    if rest:
        whole += f"; {rest:,} faster ones are not shown"
    note = {
        "measured": "medians of what was measured",
        "recorded": "° recorded, not measured here",
        "modelled": "~ modelled: the least time that the rates allow; nothing was run",
    }[timings.how]
    table = (
        f'<table style="border-collapse:collapse;border:0;font-size:12px;{FIGURES}">'
        f"<thead><tr>{names}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    title = f"{timings.graph}: {timings.how}{timings.where}"
    below = (
        f'<div style="font-size:12px;opacity:.8;margin-top:4px">{plain(f"{whole}; {note}")}</div>'
    )
    doubts = [
        f'<div style="font-size:12px;margin-top:4px">⚠ {plain(doubt)}</div>'
        for doubt in timings.doubts
    ]
    return Page(framed([head(title), table, below, *doubts], theme), str(timings))


def _row(timings: Timings, at: int, slowest: float) -> str:
    row = timings.rows[at]
    share = "" if row.share is None else f"{row.share:.0%}"
    if row.limit is not None and row.limit.seconds and share:
        share += f" {row.limit.bound}"
    more = f" and {len(row.origins) - 1} more" if row.origins[1:] else ""
    label = timings.labels[at] + (" (host)" if row.kind == "host" else "")
    cells = (
        (plain(timings.shown(row.seconds)), f"{LOOKS[row.how]}font-weight:600;"),
        (_bar(row, row.seconds / slowest if slowest else 0.0), ""),
        ("" if row.how == "modelled" else timings.shown(row.spread), "opacity:.7;"),
        ("" if row.bytes is None else size_text(row.bytes), ""),
        (f"{row.gbytes:.1f}" if row.gbytes else "", ""),
        (f"{row.gflops:.1f}" if row.gflops else "", ""),
        (plain(share), ""),
        (plain(label), "text-align:left;"),
        (plain(row.origins[0] + more) if row.origins else "", f"text-align:left;{CUT}"),
    )
    html_cells = "".join(f'<td style="{CELL}{style}">{text}</td>' for text, style in cells)
    return f"<tr>{html_cells}</tr>"


def _bar(row: Timing, share: float) -> str:
    """Return a bar: full if measured, hatched if recorded, an outline if modelled."""
    return (
        f'<div style="width:{BAR}px"><div style="width:{BAR * share:.1f}px;height:9px;'
        f'box-sizing:border-box;{BARS[row.how]}"></div></div>'
    )


def times_of_facts(facts: Facts) -> str:
    """Return what each launch takes on each device, the slowest first, if somebody timed them."""
    timed = [times for times in facts.times if times.rows]
    if not timed:
        return ""
    medians = [{row.launch: row.median for row in times.rows} for times in timed]
    order = sorted(medians[0], key=lambda launch: -medians[0][launch])
    header = [("<", "launch"), *((">", MARK[times.how] + times.device) for times in timed)]
    columns = list(zip(medians, timed, strict=True))
    rows = [
        [_launch(facts, at), *(_time(column.get(at), times) for column, times in columns)]
        for at in order[:MOST]
    ]
    rest = [f"{len(order) - MOST:,} faster ones"] if len(order) > MOST else []
    how = ", ".join(dict.fromkeys(f"{MARK[times.how]}{times.how}" for times in timed))
    return head("times", how) + code("\n".join([*aligned(header, rows), *rest]))


def _launch(facts: Facts, at: int) -> str:
    launch = facts.launches[at]
    kernel = facts.kernels[launch.kernel].name if launch.kernel >= 0 else ""
    is_own = launch.name != kernel and (is_named(launch.name) or not kernel)
    return f"{at}: " + " → ".join(filter(None, [kernel, launch.name if is_own else ""]))


def _time(seconds: float | None, times: TimeFacts) -> str:
    if seconds is None:
        return ""
    factor, unit = unit_of(seconds)
    return f"{MARK[times.how]}{seconds * factor:.3g} {unit}"


def source_of_facts(facts: Facts) -> str:
    """Return the source that a workbench shows first, in a part of its own that scrolls."""
    for kernel in facts.kernels:
        for source in kernel.sources[:1]:
            text = f'<pre style="{CODE};max-height:24em">{plain(source.text)}</pre>'
            return head(f"kernel {kernel.name}", source.title) + text
    return ""


def _source(kernel: Kernel) -> str:
    """Return the source, each line with the ops that it computes as its title."""
    lines = kernel.source.splitlines()
    html_lines: list[str] = []
    for at, line in enumerate(lines):
        ops = kernel.ops_of_line[at] if at < len(kernel.ops_of_line) else ()
        text = plain(line)
        if line.lstrip().startswith("//"):
            text = f'<span style="opacity:.6">{text}</span>'
        elif ops:
            text = f'<span title="{plain(", ".join(ops))}">{text}</span>'
        html_lines.append(text)
    return f'<pre style="{CODE}">{chr(10).join(html_lines)}</pre>'


def _counts(kernel: Kernel) -> str:
    phases = f"{len(kernel.phases)} phase{'s' * (len(kernel.phases) != 1)}"
    return f"{phases}, {len(kernel.source.splitlines()):,} lines"


def head(text: str, more: str = "") -> str:
    """Return a heading, with words beside it."""
    end = f' <span style="font-weight:400;opacity:.7">{plain(more)}</span>' if more else ""
    return f'<div style="{HEAD}">{plain(text)}{end}</div>'


def code(text: str) -> str:
    """Return a text as it is."""
    return f'<pre style="{CODE}">{plain(text)}</pre>'


def closed(name: str, more: str, body: str) -> str:
    """Return something long, folded until it is clicked."""
    extra = f' <span style="font-weight:400;opacity:.7">{plain(more)}</span>' if more else ""
    return f'<details><summary style="{HEAD}">{plain(name)}{extra}</summary>{body}</details>'


def framed(parts: Iterable[str], theme: Theme) -> str:
    """Return the parts of a page, on the ground of a theme."""
    space = "padding:8px 12px;border-radius:6px;" if theme != "auto" else ""
    return f'<div style="{GROUNDS[theme]}{space}">{"".join(parts)}</div>'
