"""What is printed: a line for each workload, and which goals were reached."""

from __future__ import annotations

import textwrap
from typing import NamedTuple

from luminal_lab.bench.rows import OURS, BenchRow, Report, geometric_mean
from luminal_lab.bench.workload import GRAPHS, USUAL
from luminal_lab.machines.load import load_text

WIDTH = 100
LEAST_RATIO = 0.95
"""No line should be below this ratio to the fastest library."""
FREE = 0.7
"""If the fastest library has less than this share of the limit, there is room to be faster."""
LEAST_MEAN = 1.5
"""The geometric mean of the ratios on those lines."""
LEAST_SHARE = 0.7
"""The share of the limit on lines limited by memory, and in large products."""
LEAST_FAMILY_MEAN = 1.15
"""The geometric mean of the ratios of the usual sizes, and of all others."""
HEADER = (
    "workload              ours, ms     least      peer     least which         ratio least limit"
)


class Shortfall(NamedTuple):
    """A row that does not reach a goal."""

    name: str
    reason: str


def line(row: BenchRow) -> str:
    """Return the line of a row."""
    best = None if row.best_peer is None else row.peers[row.best_peer]
    note = f"±{row.spread:.0%}" if row.spread is not None and row.spread > 0.1 else ""
    if row.failed:
        note = "FAILED" if row.ours_ms is None else "below"
    theirs = None if row.best_peer is None else row.minima.get(row.best_peer)
    return (
        f"{row.name:<20} {number(row.ours_ms):>9} {number(row.minima.get(OURS)):>9} "
        f"{number(best):>9} {number(theirs):>9} {row.best_peer or '-':<13} "
        f"{ratio(row.best_peer_ratio):>5} {ratio(row.least_ratio):>5} {share(row.limit_share):>5}"
        f"  {note}"
    ).rstrip()


def extras(row: BenchRow) -> list[str]:
    """Return the lines under a row: our other forms, and failures."""
    lines = [f"  {name + ':':<31} {number(ms):>10} ms" for name, ms in row.variants.items()]
    if row.tokens and row.ours_ms:
        rates = {"ours": row.ours_ms, **row.peers}
        said = ", ".join(f"{who} {_rate(1e3 * row.tokens / ms)}" for who, ms in rates.items())
        lines.append(f"  tokens/s: {said}")
    lines += [f"  {name}: {value:,.0f}" for name, value in row.facts.items()]
    if row.tries > 1:
        lines.append(f"  the calmest of {row.tries} tries, for the rounds of one were far apart")
    if load_text(row.busy):
        lines.append(f"  {load_text(row.busy)}")
    if row.modelled_ms and row.ours_ms:
        name, ratio = "modelled, our launches:", row.ours_ms / row.modelled_ms
        lines.append(
            f"  {name:<31} {'~' + number(row.modelled_ms):>10} ms; measured is {ratio:.2f}x"
        )
    for text in row.failed:
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ! ", subsequent_indent="    ")
    return lines


def ratio(value: float | None) -> str:
    """Return a ratio, or a dash."""
    return "-" if value is None else f"{value:.2f}"


def share(value: float | None) -> str:
    """Return a share of the limit, or a dash."""
    return "-" if value is None else f"{value:.0%}"


def number(ms: float | None) -> str:
    """Return milliseconds with four significant digits.

    >>> number(0.012345), number(123456.7), number(None)
    ('0.01235', '123457', '-')
    """
    if ms is None:
        return "-"
    return f"{ms:.0f}" if ms >= 1000 else f"{ms:.4g}"


def head(report: Report) -> str:
    """Return the head of the table."""
    rates = report.rates
    many = "1 thread" if report.threads == 1 else f"{report.threads} threads"
    limits = (
        f"{rates.gflops():.1f} GFLOP/s, reads {rates.gbytes():.1f} GB/s, "
        f"copies {rates.gbytes('copy'):.1f} GB/s ({rates.how})"
    )
    title = f"luminal_lab {report.version} on {rates.device}, {many}"
    text = [title + ("; small sizes, for a quick look" if report.is_quick else ""), limits]
    text += textwrap.wrap(f"beside {versions(report)}", WIDTH)
    for name, missing in report.missing.items():
        text += textwrap.wrap(f"without {name}: {missing}", WIDTH)
    return "\n".join([*text, "", HEADER, "-" * WIDTH])


def versions(report: Report) -> str:
    """Return the libraries that were measured, with their versions."""
    return ", ".join(f"{name} {version}" for name, version in report.versions.items()) or "nothing"


def foot(report: Report) -> str:
    """Return the foot of the table: means, and the rows that fall short."""
    text = ["-" * WIDTH, *means(report)]
    short = shortfalls(report)
    if report.is_quick:
        text.append("the sizes of a quick run say nothing about the goals")
    elif short:
        text.append("what falls short:")
        text += [part for name, reason in short for part in listed(f"{name}: {reason}")]
    elif report.rows:
        text.append("every line reaches its goals")
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        for name, why in row.unable.items():
            if name not in report.missing and not why.startswith("failed: "):
                reasons.setdefault(f"{name}: {why}", []).append(row.name)
    if reasons:
        text.append("what was not done:")
    for why, names in reasons.items():
        where = "everywhere" if len(names) == len(report.rows) > 1 else ", ".join(names)
        text += listed(f"{why} ({where})")
    if report.left_out:
        text += listed(f"there was no time for {', '.join(report.left_out)}")
    text.append(f"{report.seconds:.0f} s in all")
    return "\n".join(text)


def means(report: Report) -> list[str]:
    """Return the lines about geometric means."""
    rows = [row for row in report.rows if row.best_peer_ratio]
    usual = [row for row in rows if row.family == USUAL]
    others = [row for row in rows if row.family not in (USUAL, GRAPHS)]
    families = ", ".join(dict.fromkeys(row.family for row in others))
    room = [row for row in rows if (row.best_peer_limit_share or 1) < FREE]
    parts = [
        (f"geometric mean of the ratios, {USUAL}", usual, LEAST_FAMILY_MEAN),
        (families, others, LEAST_FAMILY_MEAN),
        (f"where the best peer is below {FREE:.0%} of the limit", room, LEAST_MEAN),
    ]
    return [
        f"{name}, {counted(part)}: {geometric_mean(row.best_peer_ratio or 0 for row in part):.2f}"
        f", of minima {ratio(geometric_mean(row.least_ratio or 1 for row in part))} (goal: {goal})"
        for name, part, goal in parts
        if part
    ]


def counted(rows: list[BenchRow]) -> str:
    """Return how many lines there are, in words."""
    return "1 line" if len(rows) == 1 else f"{len(rows)} lines"


def listed(text: str) -> list[str]:
    """Return a sentence as an entry of a list, wrapped."""
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")


def shortfalls(report: Report) -> list[Shortfall]:
    """Return the rows that do not reach a goal, each with what limits it."""
    misses: list[Shortfall] = []
    for row in report.rows:
        if row.ours_ms is None:
            misses.append(Shortfall(row.name, "it failed"))
            continue
        said = [*_missed(row)]
        if said:
            misses.append(Shortfall(row.name, "; ".join(said) + _why(row)))
    return misses


def _missed(row: BenchRow) -> list[str]:
    assert row.ours_ms is not None
    said: list[str] = []
    for name, goal in (row.goals or _usual_goals(row)).items():
        if name == "limit":
            if row.limit_share is not None and row.limit_share < goal:
                said.append(f"{row.limit_share:.0%} of the limit, goal {goal:.0%}")
        elif name == "ms":
            if row.ours_ms > goal:
                said.append(f"{_span(row.ours_ms)}, goal {_span(goal)}")
        elif name in row.facts:
            if row.facts[name] > goal:
                said.append(f"{row.facts[name]:,.0f} {name}, goal {goal:,.0f}")
        elif name in row.peers and row.peers[name] / row.ours_ms < goal:
            said.append(f"{row.peers[name] / row.ours_ms:.2f} of {name}, goal {goal:g}")
    return said


def _usual_goals(row: BenchRow) -> dict[str, float]:
    """Return the goals of a row that has none of its own."""
    goals = {} if row.best_peer is None else {row.best_peer: LEAST_RATIO}
    if row.bound == "memory" or row.name in ("matmul-1024", "matmul-2048"):
        goals["limit"] = LEAST_SHARE
    return goals


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _span(ms: float) -> str:
    return f"{ms / 1e3:.3g} s" if ms >= 1e3 else f"{ms:.3g} ms"


def _why(row: BenchRow) -> str:
    """Return the origin of a row's limit, and the rate reached."""
    if row.limit_ms is None or row.ours_ms is None:
        return ""
    resource = "arithmetic" if row.bound == "FMA" else f"bytes from {row.bound}"
    gflops, gbytes = row.flops / row.ours_ms / 1e6, (row.read + row.written) / row.ours_ms / 1e6
    reached = f"{gflops:.1f} GFLOP/s" if row.bound == "FMA" else f"{gbytes:.1f} GB/s"
    text = f" (limited by {resource}: {number(row.limit_ms)} ms at least; reached {reached}"
    if row.best_peer_limit_share is not None:
        text += f"; {row.best_peer} is at {row.best_peer_limit_share:.0%} of the limit"
    return text + ")"
