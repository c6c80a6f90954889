"""`advise`: find what may be slow, try what would help, and report what did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from luminal_lab.advice.apart import breaks, copies, stored
from luminal_lab.advice.compiling import low_shares, recompiled, sizes, uncompiled
from luminal_lab.advice.finding import MOST, Advice, Finding, Gain
from luminal_lab.advice.forms import gathers, one_hots, orders
from luminal_lab.advice.host import calls, probes
from luminal_lab.advice.loops import loops
from luminal_lab.advice.numbers import doubles, inverses
from luminal_lab.advice.suspect import Case, Suspect
from luminal_lab.advice.trial import tried
from luminal_lab.progress import progress
from luminal_lab.timing.launches import lines_text
from luminal_lab.timing.timings import Timings
from luminal_lab.timing.turns import Turns

LOOKING: Sequence[Callable[[Case], Iterator[Suspect]]] = (
    recompiled,
    uncompiled,
    breaks,
    stored,
    copies,
    doubles,
    inverses,
    one_hots,
    gathers,
    orders,
    loops,
    calls,
    probes,
    sizes,
    low_shares,
)
"""All checks for something slow."""
WORTH = 1.05
"""The ratio below which a change is not worth mentioning."""


def suspects(case: Case) -> list[Suspect]:
    """Return everything that may be slow, sorted by the time it takes."""
    slow = [suspect for look in LOOKING for suspect in look(case)]

    def weight(suspect: Suspect) -> float:
        return sum(case.touched.get(id, 0.0) for id in set(suspect.nodes))

    return sorted(slow, key=weight, reverse=True)


def advise(case: Case, budget: float) -> Advice:
    """Return at most five things that are slow; each is tried while the budget of seconds lasts.

    Ctrl-C stops it and keeps what was found by then.
    """
    findings: list[Finding] = []
    notes: list[str] = []
    count, skipped = 0, 0
    unsure: list[Suspect] = []
    started = monotonic()
    try:
        asked = suspects(case)
        with progress(f"advise {case.written.name}", len(asked), "change") as bar:
            for suspect in bar.each(asked, lambda suspect: suspect.kind):
                turns = None
                if suspect.variant is not None:
                    if monotonic() - started > budget:
                        skipped += 1
                        continue
                    variant = suspect.variant()
                    turns = None if variant is None else tried(case, variant)
                    count += turns is not None
                    unsure += [suspect] if turns is not None and not turns.is_sure else []
                gain = gain_of(suspect, turns, best(case))
                if gain is not None:
                    findings.append(finding_of(case, suspect, gain))
    except KeyboardInterrupt:
        notes.append("stopped by Ctrl-C: what was found by then is here")
    if skipped:
        notes.append(
            f"{skipped} more could not be tried within {budget:g} s: "
            "cx.advise(budget=…) allows more"
        )
    if unsure:
        many = "1 change was" if len(unsure) == 1 else f"{len(unsure)} changes were"
        named = ", ".join(_named(case, suspect) for suspect in unsure)
        notes.append(f"{many} tried and left out, too close, or too busy to say: {named}")
    timings = case.timings
    shown = chosen(findings)
    if not shown:
        notes += _longest(timings)
    return Advice(timings.graph, timings.device, best(case), shown, count, tuple(notes))


def _named(case: Case, suspect: Suspect) -> str:
    """Return the name of a suspect, and its first line."""
    lines = lines_text([case.written[id].meta.origin for id in suspect.nodes])
    return f"{suspect.kind} at {lines[0]}" if lines else suspect.kind


def _longest(timings: Timings) -> Iterator[str]:
    """Yield a note on what takes most of a run, if anything does."""
    for kernel, seconds in [*timings.by_kernel().items()][:1]:
        share = seconds / timings.launches if timings.launches else 0.0
        lines = next(row.origins for row in timings if row.kernel == kernel)
        at = f" at {lines[0]}" if lines else ""
        yield f"most of a run: {kernel}{at}, {share:.0%} of all launches; cx.time() shows the rest"


def best(case: Case) -> float:
    """Return how long a run takes when nothing disturbs it."""
    return min(case.timings.whole)


def chosen(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return what saves most: measured findings first, then one that is modelled.

    A modelled finding is left out if a measured one is on the same line.
    """
    order = sorted(findings, key=lambda finding: finding.gain.seconds, reverse=True)
    tried = [finding for finding in order if finding.gain.how == "measured"]
    known = {line for finding in tried for line in finding.lines}
    modelled = [f for f in order if f.gain.how == "modelled" and not known & set(f.lines)]
    return tuple([*tried, *modelled[:1]][:MOST])


def gain_of(suspect: Suspect, turns: Turns | None, total: float) -> Gain | None:
    """Return what a change gains, if it is worth mentioning."""
    if turns is not None:
        bounds = turns.bounds
        if not turns.is_sure or turns.ratio < WORTH:
            return None
        low, high = bounds or (None, None)
        return Gain("measured", turns.ratio, total * (1 - 1 / turns.ratio), low, high, turns.busy)
    if suspect.saved is not None:
        return Gain("measured", 1 + suspect.saved / total, suspect.saved)
    if suspect.variant is not None or suspect.ratio is None or suspect.ratio < WORTH:
        return None
    return Gain("modelled", suspect.ratio, total * (1 - 1 / suspect.ratio))


def finding_of(case: Case, suspect: Suspect, gain: Gain) -> Finding:
    """Return a suspect with its place and its gain."""
    nodes = [case.written[id] for id in suspect.nodes]
    origins = [node.meta.origin for node in nodes]
    first = next((origin for origin in origins if origin is not None), None)
    return Finding(
        suspect.kind,
        suspect.title,
        suspect.why,
        suspect.change,
        lines_text(origins),
        "" if first is None else first.text,
        nodes[0].meta.scope if nodes else "",
        suspect.nodes,
        gain,
    )
