"""A search in a recording: written by `search.save("s.lab")`, and looked at again as `run.search`.

    run = ll.open("s.lab")
    run.search                                            the chart and the tables, as they were
    cx.compile(ll.GenericCompiler(), run.search.best)     its schedules, in a graph of one's own

Opening measures and compiles nothing. A schedule is no code: each step is checked where it is
applied. A compiler that the file names is a program, which starts only if somebody trusts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored, Recorded
from luminal_lab.errors import RecordingError
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.recording import save_recording
from luminal_lab.io.search_facts import CandidateFacts, SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.search.candidates import Candidate, Candidates, as_modelled, seconds_text
from luminal_lab.search.forms import BETWEEN
from luminal_lab.search.graph import ProgramCandidate, ProgramSearch
from luminal_lab.search.loops import KernelSearch, begun, replayed
from luminal_lab.search.regions import Region
from luminal_lab.search.target import Target, target_of

AGAIN = 'save it again where it was made: search.save("s.lab")'


class RecordedSearch(Displayed, Explored, Recorded):
    """A search that was saved: its candidates, and what came of them where it ran."""

    def __init__(self, name: str, facts: SearchFacts, ir: IR) -> None:
        self.name = name
        """The file's name."""
        self.facts = facts
        self.ir = ir

    @cached_property
    def candidates(self) -> Candidates:
        """All that was tried, kernel by kernel; number 0 of each is its default."""
        target = target_of(self.device)
        return Candidates([self._candidate(one, target) for one in self.facts.candidates])

    def _candidate(self, facts: CandidateFacts, target: Target) -> Candidate:
        form = self.facts.kernels[facts.kernel].forms[facts.form]
        candidate = Candidate(
            *(facts.number, self._definitions[facts.kernel], form, target, facts.schedule),
            *(facts.state, facts.why, facts.step, facts.seconds, facts.ratio, facts.origin),
            choices=facts.choices,
            resources=facts.resources,
        )
        parts = len(facts.schedule.split(BETWEEN))
        if not parts == len(form.stages) == len(candidate.definitions):
            raise RecordingError(
                f"recording {self.name}: candidate {facts.number} has {parts} schedules for "
                f"{len(form.stages)} kernels",
                hint=AGAIN,
            )
        return as_modelled(candidate) if target.model else candidate

    @property
    def best(self) -> ProgramCandidate:
        """Each kernel by its fastest schedule; a pipeline takes it as its device."""
        return self._program([one.number for one in self.facts.best])

    @property
    def default(self) -> ProgramCandidate:
        """Each kernel by the schedule that it gets without a search."""
        return self._program([0] * len(self.facts.kernels))

    @property
    def device(self) -> DeviceCompiler:
        """The compiler that it searched for."""
        match parse_pipeline(self.facts.device):
            case DeviceCompiler() as device:
                return device
            case Pipeline(passes=(DeviceCompiler() as device,)):
                return device
            case passes:
                raise RecordingError(
                    f"recording {self.name}: its search is for {str(passes)!r}, which is no device",
                    hint=AGAIN,
                )

    def replay(self) -> Mapping[str, KernelSearch]:
        """Make the search of each kernel again from its answers, without measuring anything.

        Each comes to the same candidates, and goes on from there on this machine by `resume`.
        """
        searches: dict[str, KernelSearch] = {}
        for at, kernel in enumerate(self.facts.kernels):
            region = Region(self._definitions[at], kernel.forms)
            search = begun(region, self.device, seed=kernel.seed, dims=kernel.dims)
            search.answers, search.ended = [*kernel.answers], kernel.ended
            with suppress(AssertionError):  # other questions than those that were answered
                searches[kernel.name] = replayed(search)
            again = searches.get(kernel.name)
            if again is None or len(again.candidates) != len(self.facts.by_kernel[at]):
                raise RecordingError(
                    f"recording {self.name}: the search for {kernel.name} cannot be made again",
                    hint="it was found before it was saved, or asked for other schedules, as on "
                    "another machine; search.candidates has what came of it there",
                )
        return searches

    @cached_property
    def _definitions(self) -> list[Definition]:
        return [parse_definition(kernel.definition) for kernel in self.facts.kernels]

    def _program(self, numbers: list[int]) -> ProgramCandidate:
        """Return the kernels by the candidates of these numbers."""
        pairs = zip(self.facts.candidates, self.candidates, strict=True)
        by_place = {(facts.kernel, facts.number): candidate for facts, candidate in pairs}
        names = [kernel.name for kernel in self.facts.kernels]
        regions = {name: by_place[at, numbers[at]] for at, name in enumerate(names)}
        counts = {kernel.name: kernel.launches for kernel in self.facts.kernels}
        return ProgramCandidate(self.device, regions, counts, self.ir)

    @override
    def __str__(self) -> str:
        facts = self.facts
        lines = [f"search of {facts.title}, recorded: {len(facts.candidates)} candidates"]
        best, default = facts.best_seconds, facts.default_seconds
        if best is not None and default is not None:
            share = f"{best / default:.3f} of the default's time"
            lines.append(f"the best takes {'~' * bool(facts.model)}{seconds_text(best)}, {share}")
        if facts.model:
            lines.append(f"nothing was measured: times are those of a model of {facts.model}")
        for kernel, one in zip(facts.kernels, facts.best, strict=True):
            form = kernel.forms[one.form].name
            lines.append(
                f"  {kernel.name} ×{kernel.launches}: {form}, {one.origin}; {kernel.ended}"
            )
        return "\n".join(lines)

    @override
    def __repr__(self) -> str:
        title, count = self.facts.title, len(self.facts.candidates)
        return f"<RecordedSearch of {title}: {count} candidates; print(…) shows it>"


def save_search(search: ProgramSearch | RecordedSearch, path: str | Path) -> None:
    """Write a search, with the graph that it is for, to a file that `ll.open` reads."""
    facts = (
        search.facts
        if isinstance(search, RecordedSearch)
        else search_facts(search, with_source=True)
    )
    written = Snapshot(search.ir, search.ir, Record("written", ()))
    save_recording(path, [Subject(search.ir.name, (written,), Facts(search=facts))])


FORMATTERS = {"ProgramSearch.save": save_search, "RecordedSearch.save": save_search}
"""The function that saves each class, by the names of the class and of the method."""
