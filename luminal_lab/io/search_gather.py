"""`search_facts`: collect everything known about a search, for charts, tables, pages and files."""

from __future__ import annotations

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.facts.probe import known_rates
from luminal_lab.io.derivation_facts import derivation_facts
from luminal_lab.io.search_facts import (
    CandidateFacts,
    KernelSearchFacts,
    RefusedFacts,
    SearchFacts,
)
from luminal_lab.machines.rates import PeakRates
from luminal_lab.search.candidates import Candidate
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch
from luminal_lab.timing.measure import limit_of
from luminal_lab.timing.work import work_of_definition


def search_facts(search: ProgramSearch | KernelSearch, *, whole: bool = False) -> SearchFacts:
    """Return what is known about a search now.

    Without `whole`, what would have to be made anew is left out: nests, sources and derivations.
    """
    is_program = isinstance(search, ProgramSearch)
    title = search.ir.name if is_program else search.definition.name
    searches = dict(search.kernels) if is_program else {title: search}
    counts = search.counts if is_program else {title: 1}
    rates = None
    if isinstance(search.device, CPUCompiler):
        rates = known_rates(search.device.threads)
    kernels = [_kernel(s, name, counts[name], rates, whole=whole) for name, s in searches.items()]
    rows = [
        _candidate(candidate, at, s, whole=whole)
        for at, s in enumerate(searches.values())
        for candidate in s.candidates
    ]
    skipped = dict(search.skipped) if is_program else {}
    return SearchFacts(title, tuple(kernels), tuple(rows), skipped, str(search.device))


def _candidate(
    candidate: Candidate, kernel: int, search: KernelSearch, *, whole: bool
) -> CandidateFacts:
    is_shown = whole and (candidate.number == 0 or candidate.is_best)
    trials = search.driver.trials
    nest, source = texts_of(candidate) if is_shown else ("", "")
    return CandidateFacts(
        kernel=kernel,
        number=candidate.number,
        state=candidate.state.removeprefix("modelled "),
        why=candidate.why,
        step=candidate.step,
        seconds=candidate.seconds or candidate.modelled,
        spread=candidate.spread,
        limit=candidate.limit,
        ratio=candidate.ratio,
        is_final=0 < candidate.number <= len(trials)
        and trials[candidate.number - 1].final is not None,
        form=search.forms.index(candidate.form),
        resources=candidate.resources,
        origin=candidate.origin,
        choices=dict(candidate.choices),
        schedule=candidate.text,
        nest=nest,
        source=source,
    )


def texts_of(candidate: Candidate) -> tuple[str, str]:
    """Return a candidate's nests after its steps, and its source."""
    nests = [str(kernel.nest) for kernel in candidate.kernels if kernel.nest is not None]
    return "\n\n".join(nests), candidate.source


def _kernel(
    search: KernelSearch, name: str, launches: int, rates: PeakRates | None, *, whole: bool
) -> KernelSearchFacts:
    work = work_of_definition(search.definition, search.dims)
    limit = None if rates is None else limit_of(work, rates, rates.threads)
    has_fused = len({len(form.stages) for form in search.forms}) > 1
    return KernelSearchFacts(
        name=name,
        definition=str(search.definition),
        launches=launches,
        dims=dict(search.dims),
        others=tuple(dict(dims) for dims in search.others),
        seed=search.driver.seed,
        seconds=search.seconds,
        ended=search.ended,
        limit=None if limit is None else limit.seconds or None,
        bound="" if limit is None else limit.bound,
        is_doubtful=rates is not None and rates.is_doubtful,
        refusals=dict(search.refusals),
        forms=search.forms,
        unfused=search.unfused.number if has_fused else None,
        model=search.target.model,
        answers=tuple(search.answers),
        noise=search.driver.noise,
        refused=tuple(RefusedFacts(str(p.definition), p.verdict.refusal) for p in search.refused),
        derivation=tuple(map(derivation_facts, search.derivation.parts)) if whole else (),
    )
