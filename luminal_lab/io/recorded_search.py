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
from math import inf
from pathlib import Path

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.display import Displayed, Explored, Recorded
from luminal_lab.errors import RecordingError
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.recording import save_recording
from luminal_lab.io.search_facts import SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.search.candidates import SHOWN, Candidate, Candidates, seconds_text, table_of
from luminal_lab.search.graph import ProgramCandidate, ProgramSearch, scheduled
from luminal_lab.search.loops import KernelSearch, begun, replayed


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
        return Candidates(
            [
                Candidate(
                    *(one.number, self._definitions[one.kernel], one.schedule, one.state, one.why),
                    *(one.step, one.seconds, one.ratio, one.origin, one.choices),
                )
                for one in self.facts.candidates
            ]
        )

    @property
    def best(self) -> ProgramCandidate:
        """Each kernel by its fastest schedule; a pipeline takes it as its device."""
        return self._program([one.number for one in self.facts.best])

    @property
    def default(self) -> ProgramCandidate:
        """Each kernel by the schedule that it gets without a search."""
        return self._program([0] * len(self.facts.kernels))

    @property
    def device(self) -> CPUCompiler:
        """The compiler that it searched for."""
        match parse_pipeline(self.facts.device):
            case CPUCompiler() as device:
                return device
            case Pipeline(passes=(CPUCompiler() as device,)):
                return device
            case passes:
                raise RecordingError(
                    f"recording {self.name}: its search is for {str(passes)!r}, which is no device",
                    hint="search.candidates has what came of it",
                )

    def replay(self) -> Mapping[str, KernelSearch]:
        """Make the search of each kernel again from its answers, without measuring anything.

        Each comes to the same candidates, and goes on from there on this machine by `resume`.
        """
        searches: dict[str, KernelSearch] = {}
        for at, kernel in enumerate(self.facts.kernels):
            search = begun(self._definitions[at], self.device, seed=kernel.seed, dims=kernel.dims)
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
        definitions = [parse_definition(kernel.definition) for kernel in self.facts.kernels]
        for kernel, definition in zip(self.facts.kernels, definitions, strict=True):
            if kernel.name != definition.name:
                raise RecordingError(
                    f"recording {self.name}: kernel {kernel.name!r} has the definition of "
                    f"{definition.name!r}",
                    hint='save it again where it was made: search.save("s.lab")',
                )
        return definitions

    def _program(self, numbers: list[int]) -> ProgramCandidate:
        """Return the kernels by the candidates of these numbers."""
        kernels: dict[str, Candidate] = {}
        pairs = zip(self.facts.candidates, self.candidates, strict=True)
        by_place = {(facts.kernel, facts.number): candidate for facts, candidate in pairs}
        for place in enumerate(numbers):
            kernels[self.facts.kernels[place[0]].name] = by_place[place]
        schedules = {name: one.schedules[name] for name, one in kernels.items()}
        counts = {kernel.name: kernel.launches for kernel in self.facts.kernels}
        return ProgramCandidate(scheduled(self.device, schedules), kernels, counts, self.ir)

    @override
    def __str__(self) -> str:
        facts, candidates = self.facts, self.candidates
        ordered = sorted(candidates, key=lambda one: inf if one.ratio is None else one.ratio)
        lines = [f"search of {facts.title}, recorded: {len(candidates)} candidates"]
        best, default = facts.best_seconds, facts.default_seconds
        if best is not None and default is not None:
            share = f"{best / default:.3f} of the default's time"
            lines.append(f"the best takes {seconds_text(best)}, {share}")
        return "\n".join([*lines, "", *table_of(ordered[:SHOWN])])

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
