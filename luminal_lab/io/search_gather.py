"""`search_facts`: collect all that is known of a search, for charts, tables, pages and files."""

from __future__ import annotations

from collections.abc import Mapping

from luminal_lab.devices.facts.probe import known_rates
from luminal_lab.io.search_facts import CandidateFacts, KernelSearchFacts, SearchFacts
from luminal_lab.machines.rates import PeakRates
from luminal_lab.search.candidates import Candidate
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch
from luminal_lab.timing.measure import limit_of
from luminal_lab.timing.work import work_of_definition


def search_facts(search: ProgramSearch | KernelSearch, *, with_source: bool = False) -> SearchFacts:
    """Return what is known of a search now.

    Without `with_source`, nests and sources are left out, which have to be made anew.
    """
    device, rates = search.device, known_rates(search.device.threads)
    if isinstance(search, KernelSearch):
        name = search.definition.name
        kernel = _kernel(search, 1, rates)
        rows = [_candidate(one, {name: 0}, with_source) for one in search.candidates]
        return SearchFacts(name, (kernel,), tuple(rows), device=str(device))
    kernels = [
        _kernel(one, search.counts[name], rates, name) for name, one in search.kernels.items()
    ]
    numbers = {name: number for number, name in enumerate(search.kernels)}
    rows = [_candidate(one, numbers, with_source) for one in search.candidates]
    return SearchFacts(
        search.ir.name, tuple(kernels), tuple(rows), dict(search.skipped), str(device)
    )


def _candidate(
    candidate: Candidate, kernels: Mapping[str, int], with_source: bool
) -> CandidateFacts:
    is_shown = with_source and (candidate.number == 0 or candidate.state == "fastest")
    nest, source = texts_of(candidate) if is_shown else ("", "")
    return CandidateFacts(
        kernel=kernels[candidate.definition.name],
        number=candidate.number,
        state=candidate.state,
        why=candidate.why,
        step=candidate.step,
        seconds=candidate.seconds,
        ratio=candidate.ratio,
        origin=candidate.origin,
        choices=dict(candidate.choices),
        schedule=candidate.text,
        nest=nest,
        source=source,
    )


def texts_of(candidate: Candidate) -> tuple[str, str]:
    """Return a candidate's nest after its steps, and its C."""
    kernel = candidate.kernel
    return "" if kernel.nest is None else str(kernel.nest), kernel.source


def _kernel(
    search: KernelSearch, launches: int, rates: PeakRates | None, name: str = ""
) -> KernelSearchFacts:
    work = work_of_definition(search.definition, search.dims)
    limit = None if rates is None else limit_of(work, rates, search.device.threads)
    return KernelSearchFacts(
        name=name or search.definition.name,
        definition=str(search.definition),
        launches=launches,
        dims=dict(search.dims),
        seed=search.driver.seed,
        seconds=search.seconds,
        ended=search.ended,
        limit=None if limit is None else limit.seconds or None,
        bound="" if limit is None else limit.bound,
        refusals=dict(search.refusals),
        answers=tuple(search.answers),
    )
