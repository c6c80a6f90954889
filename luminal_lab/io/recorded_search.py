"""A search in a recording: written by `search.save("s.lab")`, and opened again as `run.search`.

    run = ll.open("s.lab")
    run.search                                            the chart and the tables, as they were
    cx.compile(ll.GenericCompiler(), run.search.best)     its schedules, in a graph of one's own

Opening measures and compiles nothing. A schedule is not code: each step is checked when it is
applied. A compiler that the file names is a program, which starts only if it is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from typing_extensions import override

from luminal_lab.core.ir import IR, Table
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.display import Displayed, Explored, Recorded
from luminal_lab.errors import (
    ArgumentError,
    LabError,
    RecordingError,
    TrustError,
    UnknownNameError,
    nearest,
)
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.recording import save_recording
from luminal_lab.io.search_facts import CandidateFacts, SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.reading import shown
from luminal_lab.search.assembled import ProgramCandidate
from luminal_lab.search.candidates import Candidate, Candidates, as_modelled, seconds_text
from luminal_lab.search.derived import JoinedDerivation, derivation_of
from luminal_lab.search.draws import Plan, ScheduleDraft
from luminal_lab.search.driver import DraftTrial, Outcome, State
from luminal_lab.search.forms import BETWEEN
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch, begun, each_size
from luminal_lab.search.regions import SearchRegion
from luminal_lab.search.target import Target, target_of
from luminal_lab.tensor.arguments import told_object

WITHOUT_TIME: Mapping[str, State] = {
    "stopped": "stopped",
    "refused": "refused",
    "failed": "failed",
}
AGAIN = 'save it again where it was made: search.save("s.lab")'


@told_object("search")
class RecordedSearch(Displayed, Explored, Recorded):
    """A search that was saved: its candidates, and their outcomes where it ran."""

    def __init__(self, name: str, facts: SearchFacts, ir: IR) -> None:
        self.name = name
        """The file's name."""
        self.facts = facts
        self.ir = ir

    def __getattr__(self, name: str) -> NoReturn:
        """Raise for what only a running search has, and for an unknown name."""
        if name[:2] == "__":
            raise AttributeError(name)
        live = name in {*dir(ProgramSearch), *ProgramSearch.__annotations__}
        raise UnknownNameError(
            f"a recorded search has no {name!r}",
            hint=f"write run.search.replay().{name}: that measures nothing"
            if live
            else nearest(name, PUBLIC),
        )

    @cached_property
    def candidates(self) -> Candidates:
        """All candidates, kernel by kernel; number 0 of each is its default."""
        target = target_of(self.device)
        return Candidates([self._candidate(c, target) for c in self.facts.candidates])

    def _candidate(self, facts: CandidateFacts, target: Target) -> Candidate:
        form = self.facts.kernels[facts.kernel].forms[facts.form]
        candidate = Candidate(
            *(facts.number, self._definitions[facts.kernel], form, target, facts.schedule),
            *(facts.state, facts.why, facts.step, facts.seconds, facts.spread, facts.limit),
            *(facts.ratio, facts.origin),
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
        return as_modelled(candidate) if self.facts.kernels[facts.kernel].model else candidate

    @property
    def best(self) -> ProgramCandidate:
        """Each kernel by its fastest schedule; a pipeline takes it as its device."""
        return self._program([c.number for c in self.facts.best])

    @property
    def default(self) -> ProgramCandidate:
        """Each kernel by the schedule that it gets without a search."""
        return self._program([0] * len(self.facts.kernels))

    @property
    def derivation(self) -> JoinedDerivation:
        """How the kernels of the best came from what was written, by the rules of this version."""
        regions = zip(self.best.regions.values(), self._definitions, strict=True)
        parts = (derivation_of(candidate, written).parts for candidate, written in regions)
        return JoinedDerivation(tuple(part for own in parts for part in own))

    @property
    def device(self) -> DeviceCompiler:
        """The compiler for which it searched."""
        try:
            passes = parse_pipeline(self.facts.device)
        except TrustError:
            raise
        except LabError as error:
            raise RecordingError(f"{self._no_device}: {error.message}", hint=AGAIN) from error
        match passes:
            case DeviceCompiler() as device:
                return device
            case Pipeline(passes=(DeviceCompiler() as device,)):
                return device
            case _:
                raise RecordingError(self._no_device, hint=AGAIN)

    @property
    def _no_device(self) -> str:
        return f"recording {self.name}: its search is for {shown(self.facts.device)}, no device"

    def replay(self, plan: Plan | None = None) -> ProgramSearch:
        """Return the search made again from its answers, without measuring anything.

        It ends with the same candidates, and can be continued on this machine with `resume`. What
        was found before it was saved has no answers, and is taken as it was found. A search with a
        plan of its own is made again with that plan.
        """
        device, kernels = self.device, dict[str, KernelSearch]()
        for at, facts in enumerate(self.facts.kernels):
            region = SearchRegion(self._definitions[at], facts.forms)
            search = begun(region, device, seed=facts.seed, dims=facts.dims, plan=plan)
            sizes = (each_size(region.definition, dims) for dims in facts.others)
            search.others = tuple(own for (own,) in sizes)
            least = {candidate.form: candidate.limit for candidate in self.facts.by_kernel[at]}
            search.told_limits = [least.get(form) for form in range(len(facts.forms))]
            kernels[facts.name] = search
            search.ended, search.seconds = facts.ended, facts.seconds
            try:
                if search.target.model != facts.model:
                    here = _kind(search.target.model)
                    raise ArgumentError(f"its times are {_kind(facts.model)}, and here {here}")
                if facts.answers:
                    search.replay(facts.answers)
                else:
                    search.driver.adopt(*self._told(at))
            except (ArgumentError, AssertionError) as error:
                why = str(error).partition("\n")[0].removeprefix("search: ")
                raise RecordingError(
                    f"recording {self.name}: the search for {facts.name} cannot be repeated: "
                    f"{why or 'its answers are to other questions'}",
                    hint="it was made by another plan or version, or on another machine; "
                    "search.candidates has its results",
                ) from error
        return ProgramSearch(device, kernels, self._counts, self.ir, dict(self.facts.skipped))

    def _told(self, at: int) -> tuple[list[DraftTrial], list[float], float]:
        """Return what the search for a kernel was told, as far as its candidates say."""
        default, *others = self.facts.by_kernel[at]
        known = [] if default.seconds is None else [default.seconds]
        kernel = self.facts.kernels[at]
        trials = [_trial(c, kernel.model) for c in others if c.state != "pruned"]
        return trials, known, kernel.noise

    @cached_property
    def _definitions(self) -> list[Definition]:
        try:
            return [parse_definition(kernel.definition) for kernel in self.facts.kernels]
        except LabError as error:
            raise RecordingError(
                f"recording {self.name}: a definition in it is damaged: {error.message}", hint=AGAIN
            ) from error

    def _program(self, numbers: list[int]) -> ProgramCandidate:
        """Return the kernels by the candidates with these numbers."""
        pairs = zip(self.facts.candidates, self.candidates, strict=True)
        by_place = {(facts.kernel, facts.number): candidate for facts, candidate in pairs}
        names = [kernel.name for kernel in self.facts.kernels]
        regions = {name: by_place[at, numbers[at]] for at, name in enumerate(names)}
        return ProgramCandidate(self.device, regions, self._counts, self.ir, self)

    @property
    def _counts(self) -> Mapping[str, int]:
        return {kernel.name: kernel.launches for kernel in self.facts.kernels}

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


def _kind(model: str) -> str:
    return f"those of a model of {model}" if model else "measured"


def _trial(facts: CandidateFacts, model: str) -> DraftTrial:
    """Return a candidate's outcome, as it was told to the search."""
    draft = ScheduleDraft(facts.schedule, tuple(facts.choices.items()), facts.origin, facts.form)
    state = WITHOUT_TIME.get(facts.state, "modelled" if model else "measured")
    samples = () if model or facts.seconds is None else (facts.seconds,)
    told = Outcome(
        state, samples, facts.why, facts.step, facts.seconds if model else None, facts.resources
    )
    return DraftTrial(draft, told, facts.ratio, facts.ratio if facts.is_final else None)


def subject_of_search(search: Recorded) -> Subject:
    """Return a search in the form that recordings hold: its facts, and the graph it is for."""
    match search:
        case RecordedSearch(facts=facts, ir=ir):
            pass
        case ProgramSearch(ir=ir):
            facts = search_facts(search, whole=True)
        case _:
            assert isinstance(search, KernelSearch), "there are no other searches"
            facts = search_facts(search, whole=True)
            ir = IR(Table(), (), (), name=search.definition.name)
    written = Snapshot(ir, ir, Record("written", ()))
    return Subject(f"search of {ir.name}", (written,), Facts(search=facts))


def save_search(search: Recorded, path: str | Path) -> None:
    """Write a search, with the graph it is for, to a file that `ll.open` reads."""
    save_recording(path, [subject_of_search(search)])


FORMATTERS = {
    "KernelSearch.save": save_search,
    "ProgramSearch.save": save_search,
    "RecordedSearch.save": save_search,
}
"""The function that saves each class, by the names of the class and of the method."""


PUBLIC = [name for name in dir(RecordedSearch) if name[0] != "_"]
