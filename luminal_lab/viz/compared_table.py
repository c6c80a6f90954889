"""A comparison as a static table of HTML: no script, and readable on light and on dark.

It takes its colours from what is around it. How a time was got is said three times: by the column's
head, by the mark before each time, and by how it is set (a modelled one leans and is paler).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from luminal_lab.machines.rates import size_text
from luminal_lab.timing.column import Column
from luminal_lab.timing.compare import Segment, SideBySide, count_text, ms, together, whole_run
from luminal_lab.timing.launches import LaunchTime
from luminal_lab.timing.timings import MARK

LINE = "1px solid rgba(128,128,128,.35)"
FRAME = "overflow-x:auto;font-variant-numeric:tabular-nums;font-size:13px;line-height:1.45"
TABLE = "border-collapse:collapse;border:0;margin:.5em 0;color:inherit;background:none;"
CELL = "padding:3px 6px;text-align:right;vertical-align:top;white-space:nowrap;border:0;"
NAME = "padding:3px 12px 3px 0;text-align:left;vertical-align:top;border:0;"
WRAPS = 'style="white-space:normal"'  # a device of many words takes no room from the others
SPREAD = "opacity:.65;font-size:85%"
LOOKS = {
    "measured": "font-weight:600",
    "recorded": "text-decoration:underline dotted;text-underline-offset:3px",
    "modelled": "font-style:italic;opacity:.75",
}
"""How a time is set, by how it was got."""
CHIPS = {
    "measured": "border:1px solid currentColor",
    "recorded": "border:1px dotted currentColor",
    "modelled": "border:1px dashed currentColor;font-style:italic;opacity:.8",
}
HEADS = ("ms", "bytes", "flops", "limit")


def html(compared: SideBySide) -> str:
    """Return the table; each row opens into the launches of every device."""
    columns = compared.columns
    head = _head(compared.graph, columns)
    parts = [f'<div style="{FRAME}"><table style="{TABLE}font-size:inherit">', head, "<tbody>"]
    parts += [_row(segment, columns) for segment in compared]
    notes = together((column.label, compared.notes(column)) for column in columns)
    parts += ["</tbody>", _foot(columns), "</table>", *map(_note, notes), "</div>"]
    return "".join(parts)


def _head(graph: str, columns: Sequence[Column]) -> str:
    top, under = [f'<th style="{NAME}">{escape(graph)}</th>'], [f'<th style="{NAME}">segment</th>']
    for column in columns:
        chip = (
            f'<span style="{CHIPS[column.how]};border-radius:8px;padding:0 7px;font-size:85%">'
            f"{MARK[column.how]}{column.how}</span>"
        )
        words = (_where(column), whole_run(column))
        when = "".join(f"<br><small {WRAPS}>{escape(text)}</small>" for text in words if text)
        top.append(
            f'<th colspan="{len(HEADS)}" style="{CELL}text-align:left;border-left:{LINE}">'
            f"{escape(column.label)} {chip}{when}</th>"
        )
        for k, name in enumerate(HEADS):
            side = f"border-left:{LINE};" if not k else ""
            under.append(f'<th style="{CELL}{side}opacity:.75">{name}</th>')
    rows = (f'<tr style="background:none">{"".join(top)}</tr>', _tr(under, last=True))
    return f"<thead>{''.join(rows)}</thead>"


def _where(column: Column) -> str:
    device = "" if column.device == column.label else column.device
    return ", ".join(word for word in (device, column.date[:16].replace("T", " ")) if word)


def _tr(cells: Sequence[str], *, last: bool = False) -> str:
    line = f"border-bottom:{LINE};" if last else ""
    return f'<tr style="{line}background:none">{"".join(cells)}</tr>'


def _row(segment: Segment, columns: Sequence[Column]) -> str:
    launches = sum(map(len, segment.parts))
    lines = escape(segment.origin)
    inner = "".join(_launches(segment, columns))
    name = (
        f'<td style="{NAME}"><details><summary style="cursor:pointer"><b>'
        f'{escape(segment.label)}</b> <small style="opacity:.7">{lines}</small></summary>'
        f'<small>{launches} launches</small><table style="{TABLE}font-size:85%">{inner}</table>'
        "</details></td>"
    )
    cells = [name]
    for number, column in enumerate(columns):
        cells += _cells(segment, number, column)
    return _tr(cells, last=True)


def _cells(segment: Segment, device: int, column: Column) -> Iterator[str]:
    seconds, share = segment.seconds(device), segment.share(device)
    is_model = column.how == "modelled"
    size, flops = segment.bytes(device), segment.flops(device)
    if seconds is None:
        why = "; ".join(segment.missing(device)) or "no launch"
        shown = f'<i title="{escape(why)}" style="opacity:.75">{escape(why.partition(":")[0])}</i>'
    else:
        shown = _time(seconds, column.how)
        shown += (
            "" if is_model else f'<br><span style="{SPREAD}">± {ms(segment.spread(device))}</span>'
        )
    limit = escape(segment.bound(device))
    if share is not None and not is_model:
        limit = f"{share:.0%} <small>{limit}</small>{_bar(share)}"
    texts = [
        shown,
        "" if size is None else size_text(size),
        "" if flops is None else count_text(flops),
        limit,
    ]
    for k, text in enumerate(texts):
        side = f"border-left:{LINE};" if not k else ""
        yield f'<td style="{CELL}{side}">{text}</td>'


def _time(seconds: float, how: str) -> str:
    return f'<span style="{LOOKS[how]}">{ms(seconds, MARK[how])}</span>'


def _bar(share: float) -> str:
    """Return how much of the limit is reached, as a bar under the number."""
    width = f"{min(share, 1):.0%}"
    return (
        '<div style="height:3px;min-width:48px;background:rgba(128,128,128,.25)">'
        f'<div style="height:3px;width:{width};background:currentColor;opacity:.6"></div></div>'
    )


def _launches(segment: Segment, columns: Sequence[Column]) -> Iterator[str]:
    for column, parts in zip(columns, segment.parts, strict=True):
        for part in parts:
            name = f"{escape(column.label)}: <code>{escape(part.kernel)}</code> {escape(part.node)}"
            cells = [
                f'<td style="{NAME}white-space:nowrap">{name}</td>',
                f'<td style="{CELL}">{_shown(part)}</td>',
            ]
            yield _tr(cells)


def _shown(part: LaunchTime) -> str:
    if part.seconds is None:
        why = escape(part.missing)
        return f'<div style="width:230px;white-space:normal;font-style:italic">{why}</div>'
    return f"{_time(part.seconds, part.how)} ms"


def _foot(columns: Sequence[Column]) -> str:
    cells = [f'<th style="{NAME}white-space:nowrap">all launches</th>']
    for column in columns:
        known = [part for part in column.parts if part.samples]
        gone = len(column.parts) - len(known)
        total = _time(sum(part.seconds or 0.0 for part in known), column.how) if known else "-"
        total += f"<br><small>without {gone}</small>" if gone else ""
        size = size_text(sum(part.bytes or 0 for part in column.parts))
        flops = count_text(sum(part.flops or 0 for part in column.parts))
        for k, text in enumerate((total, size, flops, "")):
            side = f"border-left:{LINE};" if not k else ""
            cells.append(f'<td style="{CELL}{side}">{text}</td>')
    return f"<tfoot>{_tr(cells)}</tfoot>"


def _note(text: str) -> str:
    return f'<div style="opacity:.75;font-size:12px">{escape(text)}</div>'
