"""A search in a file: opened it shows the same, and measures, compiles and starts nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.devices.build import toolchain
from luminal_lab.errors import GraphError, LabError, RecordingError, TrustError
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.recorded_search import RecordedSearch
from luminal_lab.io.recording import save_recording
from luminal_lab.io.search_facts import SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.machines.rates import PeakRates
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.search import loops, target, worker
from luminal_lab.search.assembled import apart
from luminal_lab.search.driver import FormLimit
from luminal_lab.search.graph import ProgramSearch, search_program
from tests.expect import error_of
from tests.needs import need
from tests.search.planted import tiles
from tests.viz.searches import mixed, of_a_kernel, of_a_program


@pytest.fixture(scope="module")
def search() -> ProgramSearch:
    return of_a_program()


@pytest.fixture
def saved(search: ProgramSearch, tmp_path: Path) -> RecordedSearch:
    search.save(tmp_path / "s.lab")
    return ll.open(tmp_path / "s.lab").search


def opened(search: ProgramSearch, facts: SearchFacts, folder: Path, **how: Any) -> RecordedSearch:
    """Save other facts of a search, and open them."""
    written = Snapshot(search.ir, search.ir, Record("written", ()))
    save_recording(folder / "s.lab", [Subject("s", (written,), Facts(search=facts))])
    return ll.open(folder / "s.lab", **how).search


def test_it_shows_what_the_search_showed(search: ProgramSearch, saved: RecordedSearch):
    assert str(saved.candidates) == str(search.candidates)
    shown = [one._repr_mimebundle_()["text/html"] for one in (search, saved)]
    assert shown[0] == shown[1]
    assert saved.best.seconds == pytest.approx(search.best.seconds)
    for ours, theirs in zip(search.candidates, saved.candidates, strict=True):
        assert (theirs.state, theirs.spread, theirs.limit) == (ours.state, ours.spread, ours.limit)
    assert saved.best.schedules == search.best.schedules
    assert saved.default.schedules == search.default.schedules
    assert str(saved).startswith("search of head, recorded: ")
    assert (
        repr(saved)
        == f"<RecordedSearch of head: {len(search.candidates)} candidates; print(…) shows it>"
    )


def test_nothing_is_compiled_or_measured(
    search: ProgramSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    search.save(tmp_path / "s.lab")
    for module, name in ((toolchain, "compile_library"), (toolchain, "load"), (worker, "answered")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("it is run"))
    saved = ll.open(tmp_path / "s.lab").search
    assert "<img" in saved.display().html
    assert saved.best.source
    assert saved.best.regions["softmax"].source
    assert saved.replay().kernels.keys() == search.kernels.keys()
    assert str(saved.derivation) == str(search.derivation)


def test_it_is_made_again_from_its_answers(search: ProgramSearch, saved: RecordedSearch):
    again = saved.replay()
    assert str(again) == str(search)
    assert str(again.derivation) == str(search.derivation)
    assert again.best.schedules == search.best.schedules
    assert search_facts(again) == search_facts(search)


def test_limits_are_those_of_the_machine_that_measured(
    saved: RecordedSearch, monkeypatch: pytest.MonkeyPatch
):
    rates = PeakRates.stated("here", gflops=100, gbytes=20)
    monkeypatch.setattr(loops, "rates_of", lambda *_: rates)
    again = saved.replay()
    assert [one.limit for one in again.candidates] == [one.limit for one in saved.candidates]
    table = saved.facts
    told = replace(table, candidates=tuple(replace(c, limit=1e-6) for c in table.candidates))
    monkeypatch.setattr(saved, "facts", told)
    kernels = [one for one in saved.replay().kernels.values() if not one.driver.limits]
    assert kernels
    assert {one.limit for kernel in kernels for one in kernel.candidates} == {1e-6}


def test_what_was_found_before_has_no_answers_and_is_taken_as_it_was_found(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    kernels = tuple(replace(kernel, answers=()) for kernel in saved.facts.kernels)
    again = opened(search, replace(saved.facts, kernels=kernels), tmp_path).replay()
    assert str(again.candidates) == str(search.candidates)
    assert again.best.schedules == search.best.schedules


def test_answers_to_other_questions_are_refused(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    kernels = tuple(replace(kernel, seed=7) for kernel in saved.facts.kernels)
    other = opened(search, replace(saved.facts, kernels=kernels), tmp_path)
    error = error_of(other.replay, RecordingError)
    assert "recording s.lab: the search for matmul cannot be repeated: batch 0 asks for" in str(
        error
    )


def test_answers_that_are_missing_are_refused(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    for answers in (slice(1, None), slice(0, 1)):
        kernels = tuple(replace(one, answers=one.answers[answers]) for one in saved.facts.kernels)
        other = opened(search, replace(saved.facts, kernels=kernels), tmp_path)
        if answers.start:
            assert "cannot be repeated" in str(error_of(other.replay, RecordingError))
        else:
            assert len(other.replay().candidates) < len(search.candidates)


def test_limits_of_other_forms_are_refused(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    kernel = saved.facts.kernels[0]
    (batch, answer), *rest = kernel.answers
    limits = (*batch.limits, FormLimit(1.0, None, ""))
    answers = ((replace(batch, limits=limits), answer), *rest)
    damaged = (replace(kernel, answers=answers), *saved.facts.kernels[1:])
    other = opened(search, replace(saved.facts, kernels=damaged), tmp_path)
    assert "cannot be repeated: its forms are different" in str(
        error_of(other.replay, RecordingError)
    )


def test_times_of_another_kind_are_refused(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    kernels = tuple(replace(kernel, model="M3 Max") for kernel in saved.facts.kernels)
    other = opened(search, replace(saved.facts, kernels=kernels), tmp_path)
    error = error_of(other.replay, RecordingError)
    assert "its times are those of a model of M3 Max, and here measured" in str(error)


def test_it_has_all_sizes_that_were_measured(tmp_path: Path):
    cx = ll.Graph("total")
    cx.tensor(("n", 7), name="x").sum(axis=1).retrieve()
    ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(ll.CPUCompiler())).ir
    budget = ll.Budget(candidates=4)
    search = search_program(ir, ll.CPUCompiler(), budget=budget, dims={"n": [3, 90]}, worker=mixed)
    search.save(tmp_path / "s.lab")
    (made,), (again,) = (
        one.kernels.values() for one in (search, ll.open(tmp_path / "s.lab").search.replay())
    )
    assert made.others == ({"n": 3},)
    assert (again.others, again.dims, again.question) == (made.others, made.dims, made.question)


def test_a_search_for_one_kernel_is_made_again_by_its_plan(tmp_path: Path):
    search = of_a_kernel(20)
    search.save(tmp_path / "k.lab")
    saved = ll.open(tmp_path / "k.lab").search
    assert str(saved.candidates) == str(search.candidates)
    again = saved.replay(plan=tiles).kernels["mm"]
    assert str(again) == str(search)
    with pytest.raises(RecordingError, match="schedules that nobody has measured"):
        saved.replay()


def test_a_session_saves_its_last_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(target, "work", mixed)
    cx = ll.Graph("rows")
    cx.tensor((40, 30), name="x").softmax(-1).retrieve()
    search = cx.search(ll.CPUCompiler(), budget=ll.Budget(candidates=4))
    cx.save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    assert str(run.search.candidates) == str(search.candidates)
    assert [part.title for part in run] == ["rows", "search of rows"]
    cx.compile(ll.GenericCompiler(), search.best)
    cx.save(tmp_path / "run.lab")
    run = ll.open(tmp_path / "run.lab")
    assert run.snapshots[-1].name == "derivation"
    assert run.search.best.schedules == search.best.schedules
    assert [each.title for each in run.workbench().subjects] == ["rows"]
    need("script")
    run.export(tmp_path / "page.html")
    run.search.explore().export(tmp_path / "search.html")


def test_a_session_saves_what_was_found_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(target, "work", mixed)
    for number in range(2):
        cx = ll.Graph("rows")
        cx.tensor((40, 30), name="x").softmax(-1).retrieve()
        cx.compile(ll.GenericCompiler(), ll.Search(budget=ll.Budget(candidates=4)))
        cx.save(tmp_path / f"{number}.lab")
    first, second = (ll.open(tmp_path / f"{number}.lab").search for number in range(2))
    assert str(first.candidates) == str(second.candidates)
    assert "found before" in str(second)
    assert str(second.replay().best) == str(first.best)


def test_a_pipeline_takes_its_best(search: ProgramSearch, saved: RecordedSearch):
    runner: Any = ll.compile_ir(search.ir, saved.best).runner
    made = {kernel.name: kernel.schedule for kernel in runner.kernels}
    assert made == search.best.schedules


def test_it_is_saved_again(saved: RecordedSearch, tmp_path: Path):
    saved.save(tmp_path / "again.lab")
    run = ll.open(tmp_path / "again.lab")
    assert run.search.facts == saved.facts
    assert repr(run).endswith(f" nodes, {len(saved.candidates)} candidates>")


def test_what_only_a_search_has_that_runs_says_where_it_is(
    saved: RecordedSearch, search: ProgramSearch, tmp_path: Path
):
    with pytest.raises(AttributeError, match=r"no 'resume'\nhint: write .*replay.*resume"):
        cast("Any", saved).resume()
    with pytest.raises(AttributeError, match=r"no 'kernels'\nhint: write .*replay.*kernels"):
        _ = cast("Any", saved).kernels
    with pytest.raises(AttributeError, match="no 'bset'\nhint: did you mean 'best'"):
        _ = cast("Any", saved).bset
    search.save(tmp_path / "run.lab")
    run = cast("Any", ll.open(tmp_path / "run.lab"))
    with pytest.raises(AttributeError, match=r"no 'best'\nhint: it is the search's: run\.search"):
        _ = run.best
    with pytest.raises(AttributeError, match="no 'snapshot'\nhint: did you mean 'snapshots'"):
        _ = run.snapshot


def test_a_recording_without_a_search_says_so(tmp_path: Path):
    cx = ll.Graph()
    (cx.tensor((2,), name="x") + 1).retrieve()
    cx.save(tmp_path / "run.lab")
    with pytest.raises(GraphError, match=r"recording run\.lab: there is no search in it"):
        _ = ll.open(tmp_path / "run.lab").search


def test_a_strangers_compiler_is_not_started(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    program = tmp_path / "own-compiler"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'mark'}\n", encoding="utf-8")
    program.chmod(0o755)
    facts = replace(saved.facts, device=f"cpu{{compiler = {program.name}}}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        with pytest.raises(TrustError):
            _ = opened(search, facts, tmp_path).best
        assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "device", ["", "dce", "cpu{threads = 2}, dce", "generic", "cpu{threads = x}"]
)
def test_a_device_that_is_none_is_refused_where_it_is_asked_for(
    device: str, search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    facts = replace(saved.facts, device=device)
    other = opened(search, facts, tmp_path)
    assert other.display().html == saved.display().html
    assert str(other) == str(saved)
    with pytest.raises(LabError):
        _ = other.best


@pytest.mark.parametrize(
    "text", ["kernel", "kernel mm(a: f32[n]) -> (c: f32[n])\n  c[i < n] = b[i]"]
)
def test_a_definition_that_is_none_is_refused_where_it_is_asked_for(
    text: str, search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    kernels = tuple(replace(kernel, definition=text) for kernel in saved.facts.kernels)
    other = opened(search, replace(saved.facts, kernels=kernels), tmp_path)
    with pytest.raises(LabError):
        _ = other.candidates


def test_schedules_for_other_kernels_are_refused(
    search: ProgramSearch, saved: RecordedSearch, tmp_path: Path
):
    rows = [replace(one, schedule=f"{one.schedule}\n\n") for one in saved.facts.candidates]
    other = opened(search, replace(saved.facts, candidates=tuple(rows)), tmp_path)
    with pytest.raises(RecordingError, match="candidate 0 has 2 schedules for 1 kernels"):
        _ = other.best
