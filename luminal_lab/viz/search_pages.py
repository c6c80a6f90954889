"""Searches, candidates and programs as static HTML: no script, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from luminal_lab.display import Theme
from luminal_lab.errors import counted
from luminal_lab.io.recorded_search import RecordedSearch
from luminal_lab.io.search_facts import CandidateFacts, SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.search.assembled import ProgramCandidate
from luminal_lab.search.candidates import Candidate, Candidates, seconds_text
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch
from luminal_lab.search.program import Program
from luminal_lab.viz.derivation_page import found_page
from luminal_lab.viz.markup import plain
from luminal_lab.viz.pages import CELL, FIGURES, closed, code, framed, head
from luminal_lab.viz.picture import Page
from luminal_lab.viz.search_chart import search_chart

FASTEST, REASONS = 10, 8
"""The rows of a table of candidates, and of one of reasons."""
MOST = 60
"""The most rows of a table of all candidates."""
PLAIN = "# no steps: plain loops"
LONGEST = 130
"""The most characters of an edit or a reason in a row."""
LEFT = "text-align:left;"
WRAPPED = "text-align:left;white-space:normal;min-width:min(24em,40vw);"
WORDS = "font-size:13px;line-height:1.5;margin:0 0 2px"


def search_page(
    search: ProgramSearch | KernelSearch | RecordedSearch, *, theme: Theme = "auto"
) -> Page:
    """Return a search: what it came to, its candidates as a chart, the fastest and the refused."""
    facts = search.facts if isinstance(search, RecordedSearch) else search_facts(search, whole=True)
    return facts_page(facts, str(search), theme=theme)


def facts_page(facts: SearchFacts, text: str, *, theme: Theme = "auto") -> Page:
    """Return the page of a search's facts."""
    chart = search_chart(facts, theme)
    image = chart.html.replace("max-width:none", "max-width:100%;min-width:560px;height:auto")
    parts = [head(f"search of {facts.title}"), *(_words(line) for line in headline(facts))]
    parts += [f'<div style="overflow-x:auto;margin:6px 0">{image}</div>']
    parts += [head("the fastest"), fastest_table(facts)]
    if facts.errors:
        parts += [head("failed or refused", counted(_errors(facts), "candidate"))]
        parts += [_reasons(facts)]
    if facts.refusals:
        count = counted(facts.refusals.total(), "schedule")
        parts += [closed("refused by a step before they were candidates", count, _steps(facts))]
    for at, best in enumerate(facts.best):
        kernel = facts.kernels[at]
        told = "default" if best.number == 0 else f"candidate {best.number}"
        title = f"the best {kernel.name}" if len(facts.kernels) > 1 else "the best"
        definitions = [stage.text for stage in kernel.forms[best.form].stages]
        body = "\n\n".join([*definitions, best.schedule or PLAIN])
        steps = counted(len(best.schedule.splitlines()), "step")
        parts.append(closed(f"{title}: definition and schedule", f"{told}, {steps}", code(body)))
    if facts.derivations:
        rules = counted(sum(len(one.rules) for one in facts.derivations), "rule")
        steps = counted(sum(len(one.steps) for one in facts.derivations), "step")
        body = found_page(facts.derivations)
        parts.append(closed("the derivation of the best", f"{rules}, {steps}", body))
    refused = [one for kernel in facts.kernels for one in kernel.refused]
    if refused:
        body = "\n\n".join(f"# refused: {one.why}\n{one.definition}" for one in refused)
        count = counted(len(refused), "program")
        parts.append(closed("programs by rules that are less exact", count, code(body)))
    return Page(framed(parts, theme), text)


def candidates_page(candidates: Candidates, *, theme: Theme = "auto") -> Page:
    """Return candidates as a table, in the order of measuring."""
    heads = ["kernels", "candidate", "time", "±", "limit", "of the default", "what it is", "state"]
    sides = ["left", *["right"] * 5, *["left"] * 2]
    lines = [
        [
            (plain(one.form.name), LEFT),
            (str(one.number), ""),
            (_seconds(one.seconds, one.modelled), ""),
            (_seconds(one.spread), ""),
            (_seconds(one.limit), ""),
            ("" if one.ratio is None else f"{one.ratio:.3f}", ""),
            (plain(cut(one.origin)), WRAPPED),
            (plain(cut(f"{one.state}: {one.why}" if one.error else one.state)), WRAPPED),
        ]
        for one in candidates[:MOST]
    ]
    body = table(zip(heads, sides, strict=True), lines)
    body += _rest(len(candidates) - len(lines), "more candidate")
    parts = [head("candidates", f"{len(candidates):,}"), body]
    return Page(framed(parts, theme), str(candidates))


def candidate_page(candidate: Candidate, *, theme: Theme = "auto") -> Page:
    """Return a candidate: what became of it, what it computes, and its steps."""
    parts = [head(f"candidate {candidate.number} of {candidate.definition.name}", candidate.told)]
    if candidate.step:
        parts.append(_words(f"after `{candidate.step}` its values are wrong"))
    for name, definition in candidate.definitions.items():
        schedule = str(candidate.schedules[name])
        steps = counted(len(schedule.splitlines()), "step")
        parts += [head(f"definition of {name}"), code(str(definition))]
        parts += [head(f"schedule of {name}", steps), code(schedule or PLAIN)]
    return Page(framed(parts, theme), str(candidate))


def program_candidate_page(candidate: ProgramCandidate, *, theme: Theme = "auto") -> Page:
    """Return all regions of a program, each by its candidate."""
    heads = (("region", "left"), ("times", "right"), ("kernels", "left"))
    heads += (("candidate", "right"), ("time", "right"))
    lines = [
        [
            (plain(name), LEFT),
            (str(candidate.counts[name]), ""),
            (plain(region.form.name), LEFT),
            (str(region.number), ""),
            (_seconds(region.seconds, region.modelled), ""),
        ]
        for name, region in candidate.regions.items()
    ]
    parts = [head("program", candidate.told), table(heads, lines)]
    for name, region in candidate.regions.items():
        body = "\n\n".join((*map(str, region.definitions.values()), region.text or PLAIN))
        parts.append(closed(f"{name}: definition and schedule", region.told, code(body)))
    return Page(framed(parts, theme), str(candidate))


def _seconds(seconds: float | None, modelled: float | None = None) -> str:
    if modelled is not None:
        return f"~{seconds_text(modelled)}"
    return "" if seconds is None else seconds_text(seconds)


def program_page(program: Program, *, theme: Theme = "auto") -> Page:
    """Return a program of a space: what it computes, and why it is refused, if it is."""
    cost = f"{program.cost:,.0f} additions by the model"
    refused = [_words(f"refused: {program.verdict.refusal}")] if program.is_refused else []
    parts = [head("program", cost), *refused, code(str(program.definition))]
    return Page(framed(parts, theme), str(program))


FORMATTERS: dict[str, Callable[..., Page]] = {
    "Candidate": candidate_page,
    "Candidates": candidates_page,
    "KernelSearch": search_page,
    "Program": program_page,
    "ProgramCandidate": program_candidate_page,
    "ProgramSearch": search_page,
    "RecordedSearch": search_page,
}
"""The function that draws each class of search, by the class's name."""


def headline(facts: SearchFacts) -> Iterator[str]:
    """Yield the sentences above a search's chart."""
    best, default = facts.best_seconds, facts.default_seconds
    if best is not None and default is not None:
        mark = "~" * bool(facts.model)
        times = f"{mark}{seconds_text(default)} → {mark}{seconds_text(best)}"
        factor = default / best
        yield (
            f"{times}: {factor:.2f} × as fast as the default"
            if factor > 1
            else f"{mark}{seconds_text(best)}: nothing is faster than the default"
        ) + _beside(facts)
    if facts.model:
        yield f"nothing was measured: times are those of a model of {facts.model}"
    count = len(facts.candidates) - len(facts.kernels)
    has_ended = all(kernel.ended for kernel in facts.kernels)
    is_timed = has_ended and facts.seconds > 0
    rate = f", {60 * count / facts.seconds:,.0f} a minute" if is_timed and count else ""
    took = f" in {seconds_text(facts.seconds)}" if is_timed else ""
    yield f"{counted(count, 'candidate')}{took}{rate}{_without_result(facts)}"
    ended = list(dict.fromkeys(kernel.ended for kernel in facts.kernels if kernel.ended))
    if has_ended:
        yield "ended: " + "; ".join([*ended[:2], *(["…"] if ended[2:] else [])])
    for name, why in facts.skipped.items():
        yield f"{name} is not searched: {why}"


def _without_result(facts: SearchFacts) -> str:
    """Return how many candidates have no result, with the commonest reasons."""
    count = _errors(facts)
    common = [f"{len(own):,} × {cut(why, 50)}" for (_, why), own in [*facts.errors.items()][:2]]
    verb = "was" if count == 1 else "were"
    return f"; {count:,} failed or {verb} refused: {'; '.join(common)}" if count else ""


def _beside(facts: SearchFacts) -> str:
    """Return what the times stand beside: kernels that are all apart, and the machine's limit."""
    limit, unfused = facts.limit_seconds, facts.unfused_seconds
    apart = "" if unfused is None else f"; all apart {seconds_text(unfused)}"
    if limit is None:
        return apart
    best, told = facts.best_seconds, f"{apart}; the machine's limit is {seconds_text(limit)}"
    if best is not None and best < limit:
        return f"{told}, which is in doubt: the best is faster"
    if any(kernel.is_doubtful for kernel in facts.kernels):
        return f"{told}, which is in doubt: something else ran while its rates were measured"
    return told


def _errors(facts: SearchFacts) -> int:
    return sum(map(len, facts.errors.values()))


# -- tables ----------------------------------------------------------------------------------------


def fastest_table(facts: SearchFacts, most: int = FASTEST) -> str:
    """Return the candidates that take the least of their default's time, and the defaults."""
    timed = [one for one in facts.candidates if one.ratio is not None]
    timed.sort(key=lambda one: one.ratio or 0.0)
    shown = [one for one in timed if one.number][:most] + [one for one in timed if not one.number]
    shown = sorted(shown[: 2 * most], key=lambda one: one.ratio or 0.0)
    longest = max((one.ratio or 0.0 for one in shown), default=1.0)
    heads = ["candidate", "time", "ratio", "", "state", "what it is"]
    sides = [*["right"] * 3, *["left"] * 3]
    if len(facts.kernels) > 1:
        heads, sides = ["kernel", *heads], ["left", *sides]
    return table(zip(heads, sides, strict=True), (_row(facts, one, longest) for one in shown))


def _row(facts: SearchFacts, candidate: CandidateFacts, longest: float) -> list[tuple[str, str]]:
    ratio = candidate.ratio or 0.0
    strong = "font-weight:600;" if candidate.state == "fastest" else ""
    seconds = "~" * bool(facts.model and candidate.seconds) + _seconds(candidate.seconds)
    cells = [
        (str(candidate.number), strong),
        (seconds, strong),
        (f"{ratio:.3f}", ""),
        (_bar(ratio / longest), LEFT),
        (plain(candidate.state), LEFT),
        (plain(cut(what(facts, candidate))), WRAPPED),
    ]
    if len(facts.kernels) > 1:
        cells.insert(0, (plain(facts.kernels[candidate.kernel].name), LEFT))
    return cells


def what(facts: SearchFacts, candidate: CandidateFacts) -> str:
    """Return the edit that made a candidate, or the numbers it was drawn with."""
    usual = facts.defaults[candidate.kernel].choices
    own = {n: value for n, value in candidate.choices.items() if usual.get(n) != value}
    numbers = numbers_of(facts, candidate, own)
    told = numbers if candidate.origin == "draw" and numbers else candidate.origin
    forms = facts.kernels[candidate.kernel].forms
    form = forms[candidate.form].name if len(forms) > 1 else ""
    return "; ".join(filter(None, (form, told, candidate.resources)))


def numbers_of(facts: SearchFacts, candidate: CandidateFacts, choices: Mapping[str, int]) -> str:
    """Return numbers in words, those of each kernel behind its name where there are several."""
    form, words, last = facts.kernels[candidate.kernel].forms[candidate.form], list[str](), ""
    for name, value in choices.items():
        stage, dot, own = name.partition(".")
        kernel = ""
        if dot and stage.isdigit() and int(stage) < len(form.stages):
            name, kernel = own, form.stages[int(stage)].name
        words.append(f"{kernel}: " * (kernel != last) + f"{name} = {value}")
        last = kernel
    return ", ".join(words)


def _bar(share: float) -> str:
    """Return a time as a bar, as a share of the longest."""
    return (
        '<div style="width:clamp(20px,9vw,90px);height:7px;background:rgba(128,128,128,.25)">'
        f'<div style="width:{100 * share:.0f}%;height:7px;background:#0072B2"></div></div>'
    )


def _reasons(facts: SearchFacts) -> str:
    heads = (("candidates", "right"), ("state", "left"), ("why", "left"), ("first", "left"))
    shown = [
        [
            (f"{len(own):,}", ""),
            (plain(state), LEFT),
            (plain(cut(why)) + _step(own), WRAPPED),
            (plain(_first(facts, own[0])), LEFT),
        ]
        for (state, why), own in list(facts.errors.items())[:REASONS]
    ]
    return table(heads, shown) + _rest(len(facts.errors) - len(shown), "other reason")


def _step(candidates: Sequence[CandidateFacts]) -> str:
    """Return the first step after which values are wrong, where one is known."""
    step = next((one.step for one in candidates if one.step), "")
    return f", from <code>{plain(cut(step))}</code> on" if step else ""


def _first(facts: SearchFacts, candidate: CandidateFacts) -> str:
    name = f"{facts.kernels[candidate.kernel].name} " if len(facts.kernels) > 1 else ""
    return f"{name}{candidate.number}"


def _steps(facts: SearchFacts) -> str:
    common = facts.refusals.most_common(REASONS)
    shown = [[(f"{count:,}", ""), (plain(cut(why)), WRAPPED)] for why, count in common]
    rest = _rest(len(facts.refusals) - len(common), "other reason")
    return table((("times", "right"), ("why", "left")), shown) + rest


def table(heads: Iterable[tuple[str, str]], lines: Iterable[Sequence[tuple[str, str]]]) -> str:
    """Return a table of heads with their sides, and of cells with their styles."""
    top = "".join(
        f'<th style="{CELL}text-align:{side};opacity:.75">{plain(name)}</th>'
        if name
        else "<td></td>"
        for name, side in heads
    )
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}{style}">{cell}</td>' for cell, style in line) + "</tr>"
        for line in lines
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;border:0;'
        f'font-size:12px;{FIGURES}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _rest(count: int, noun: str) -> str:
    return _words(f"and {counted(count, noun)}") if count > 0 else ""


def _words(text: str) -> str:
    return f'<div style="{WORDS}">{plain(text)}</div>'


def cut(text: str, most: int = LONGEST) -> str:
    """Return the first line of a text, cut to fit into a row."""
    line = text.partition("\n")[0]
    return line if len(line) <= most else f"{line[: most - 1]}…"
