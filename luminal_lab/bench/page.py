"""The page of a run: its table and chart between two marks, and the rows in a file beside it.

docs/performance.md             what is written by hand stays; the rest is written anew
docs/performance.json           the rows, with which the next run is compared
docs/images/performance.svg     the chart
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from luminal_lab.bench.rows import OURS, SCHEMA, BenchRow, Report, read_report, slowed
from luminal_lab.bench.table import (
    LEAST_RATIO,
    means,
    number,
    ratio,
    share,
    shortfalls,
    versions,
)
from luminal_lab.bench.workloads import workloads
from luminal_lab.errors import ArgumentError
from luminal_lab.machines.load import LOADED
from luminal_lab.plain import Json, plain
from luminal_lab.viz.theme import DARK, FONT, LIGHT
from luminal_lab.writing import write_bytes

BEGIN = "<!-- measured by luminal-lab bench --page -->"
END = "<!-- up to here -->"
UNSHOWN = "runs", "first_ms", "unable", "facts", "tolerance"
"""Fields of rows that the page does not show, nor a comparison read."""
DIGITS = 4


def write_page(path: Path, report: Report) -> None:
    """Write a report into a page, with its chart and rows; rows of other workloads stay."""
    text = (
        path.read_text(encoding="utf-8") if path.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    )
    if BEGIN not in text or END not in text:
        raise ArgumentError(
            f"bench: {path} has no place for the table",
            hint=f"put {BEGIN} and {END} where it belongs, each on a line of its own",
        )
    kept = path.with_suffix(".json")
    report = joined(report, read_report(kept) if kept.exists() else None)
    # The page says what its file says, whose numbers are shorter.
    report = Report.from_json(record(report))
    image = path.parent / "images" / f"{path.stem}.svg"
    image.parent.mkdir(exist_ok=True)
    write_bytes("bench", kept, record(report).encode())
    write_bytes("bench", image, chart(report).encode())
    measured = page(report, image.relative_to(path.parent).as_posix())
    write_bytes("bench", path, placed(text, measured).encode())


def placed(text: str, measured: str, begin: str = BEGIN) -> str:
    """Return a page with other lines between two of its marks."""
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n\n{measured}\n{END}{rest.partition(END)[2]}"


def joined(now: Report, then: Report | None) -> Report:
    """Return a report with the rows of now, compared with those of then, which stay otherwise."""
    old = {} if then is None else {row.name: row for row in then.rows}
    new = {row.name: row for row in now.rows}
    for name, row in new.items():
        row.slower = ""
        sentence = slowed(row, old[name]) if name in old else ""
        if sentence:
            row.slower = f"{sentence}; measured {old[name].date}"
    order = [workload.name for workload in workloads()]
    missing = now.missing if then is None or not old.keys() - new.keys() else then.missing
    rows = [row for name in order if (row := new.get(name) or old.get(name)) is not None]
    left_out = [name for name in order if name not in old.keys() | new.keys()]
    return replace(now, rows=rows, missing=missing, left_out=left_out)


def record(report: Report) -> str:
    """Return the rows as JSON, a line each, without what neither page nor comparison reads."""
    usual = asdict(BenchRow("", ""))
    rows = [
        {
            name: _short(plain(value))
            for name, value in asdict(row).items()
            if name not in UNSHOWN and value != usual[name]
        }
        for row in report.rows
    ]
    head = {"schema": SCHEMA, **asdict(replace(report, rows=[]))}
    head["rates"] = json.loads(report.rates.to_json())
    del head["rows"]
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{json.dumps(head)[:-1]}, "rows": [\n{lines}\n]}}\n'


def _short(value: Json) -> Json:
    """Return JSON with numbers of four digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [_short(part) for part in value]
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    return value


# -- the page --------------------------------------------------------------------------------------


def page(report: Report, image: str) -> str:
    """Return what stands between the marks."""
    parts = [_machine(report), f"![Our speed beside the fastest library's, row by row]({image})"]
    parts.append("\n".join(f"- {text}" for text in means(report)))
    for family in dict.fromkeys(row.family for row in report.rows):
        rows = [row for row in report.rows if row.family == family and row.best_peer]
        if rows:
            parts.append(f"### {family[0].upper()}{family[1:]}\n\n{_table(rows)}")
    alone = [row for row in report.rows if not row.best_peer]
    if alone:
        parts.append(f"### Without a peer\n\n{_alone(alone)}")
    parts.append(f"### What falls short\n\n{_items(map(': '.join, shortfalls(report)))}")
    slower = (f"{row.name}: {row.slower}" for row in report.rows if row.slower)
    parts.append(f"### What became slower since the last run\n\n{_items(slower)}")
    return "\n\n".join(parts) + "\n"


def _items(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or "Nothing."


def _machine(report: Report) -> str:
    rates, dates = report.rates, sorted(row.date for row in report.rows)
    busy = [row.busy for row in report.rows if row.busy is not None]
    threads = "1 thread" if report.threads == 1 else f"{report.threads} threads"
    load = (
        f"Other programs kept at most {max(busy):.1f} cores busy; rows where they kept more than "
        f"{LOADED:g} busy have a `*`."
        if busy
        else "The load was not measured."
    )
    left_out = ", ".join(f"`{name}`" for name in report.left_out)
    later = f" Not measured yet: {left_out}." if left_out else ""
    missing = f" Not installed there: {', '.join(report.missing)}." if report.missing else ""
    return (
        f"luminal_lab {report.version} on {rates.device}, {threads}, "
        f"{_span(dates[0], dates[-1])}. {load} "
        f"The machine reaches {rates.gflops():.0f} GFLOP/s in float32, reads "
        f"{rates.gbytes():.1f} GB/s from memory and copies {rates.gbytes('copy'):.1f} GB/s. "
        f"Beside {versions(report)}.{missing}{later}"
    )


def _span(first: str, last: str) -> str:
    begin, end = (datetime.fromisoformat(text) for text in (first, last))
    same = "%H:%M" if begin.date() == end.date() else "%Y-%m-%d %H:%M"
    return f"{begin:%Y-%m-%d %H:%M} to {end:{same}} UTC"


def _table(rows: Iterable[BenchRow]) -> str:
    lines = [
        "| workload | what | ours, ms | least | peer, ms | least | which "
        "| ratio | of minima | limit |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    for row in rows:
        assert row.best_peer is not None
        cells = [
            _named(row),
            row.about,
            number(row.ours_ms),
            number(row.minima.get(OURS)),
            number(row.peers[row.best_peer]),
            number(row.minima.get(row.best_peer)),
            row.best_peer,
            ratio(row.best_peer_ratio),
            ratio(row.least_ratio),
            share(row.limit_share),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _alone(rows: Iterable[BenchRow]) -> str:
    lines = ["| workload | what | ours, ms | least |", "|---|---|---:|---:|"]
    for row in rows:
        cells = [_named(row), row.about, number(row.ours_ms), number(row.minima.get(OURS))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(row: BenchRow) -> str:
    return f"{row.name}{' `*`' if (row.busy or 0.0) > LOADED else ''}"


# -- the chart -------------------------------------------------------------------------------------

LEFT, RIGHT, LINE, TOP = 172, 40, 15, 34
WIDTH = 720
LEAST, MOST = 1 / 32, 8
"""The ratios at the ends of the axis; what lies beyond is drawn at the end, with its number."""


def chart(report: Report) -> str:
    """Return an SVG with a dot for each row: the ratio of medians, and of minima as a ring."""
    rows = [row for row in report.rows if row.best_peer_ratio]
    families = [*dict.fromkeys(row.family for row in rows)]
    height = TOP + LINE * (len(rows) + 2 * len(families)) + 8
    body = [*_axis(height)]
    y = TOP
    for family in families:
        y += LINE
        body.append(f'<text class="f" x="8" y="{y + 4}">{html.escape(family)}</text>')
        for row in rows:
            if row.family == family:
                y += LINE
                body += _dots(row, y)
        y += LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        "<title>The time of the fastest library divided by ours, for each row</title>"
        f"<style>{_style()}</style>\n" + "\n".join(body) + "\n</svg>\n"
    )


def _place(value: float) -> str:
    """Return where a ratio lies on the axis, which is logarithmic."""
    part = math.log(min(max(value, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return f"{LEFT + part * (WIDTH - LEFT - RIGHT):.1f}"


def _axis(height: int) -> Iterator[str]:
    for power in range(-5, 4):
        value = 2.0**power
        text = f"{value:g}" if value >= 1 else f"1/{1 / value:g}"
        x, name = _place(value), "one" if value == 1 else "grid"
        yield f'<path class="{name}" d="M{x} {TOP - 8}V{height - 8}"/>'
        yield f'<text class="m" x="{x}" y="{TOP - 14}">{text}</text>'


def _dots(row: BenchRow, y: int) -> Iterator[str]:
    value = row.best_peer_ratio or LEAST
    name = "bad" if value < LEAST_RATIO else "good"
    yield f'<text x="{LEFT - 10}" y="{y + 4}" class="e">{html.escape(row.name)}</text>'
    if row.least_ratio:
        yield f'<circle class="{name} ring" cx="{_place(row.least_ratio)}" cy="{y}" r="4.5"/>'
    yield f'<circle class="{name}" cx="{_place(value)}" cy="{y}" r="3"/>'
    if not LEAST <= value <= MOST:
        at = WIDTH - RIGHT + 8 if value > MOST else LEFT + 8
        yield f'<text x="{at}" y="{y + 4}">{value:.2g}</text>'


def _style() -> str:
    def colours(theme: tuple[str, ...], good: str, bad: str) -> str:
        ground, text, faint, edge = theme[:4]
        return (
            f"svg{{background:{ground}}}text{{fill:{text}}}.m{{fill:{faint}}}"
            f".grid{{stroke:{edge};stroke-opacity:.25}}.one{{stroke:{edge}}}"
            f".good{{fill:{good};stroke:{good}}}.bad{{fill:{bad};stroke:{bad}}}.ring{{fill:none}}"
        )

    return (
        f"text{{font:11px {FONT}}}.e{{text-anchor:end}}.m{{text-anchor:middle}}"
        f".f{{font-weight:bold}}{colours(LIGHT, '#1a7f37', '#bc4c00')}"
        f"@media (prefers-color-scheme:dark){{{colours(DARK, '#3fb950', '#f0883e')}}}"
    )
