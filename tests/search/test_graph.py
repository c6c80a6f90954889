"""The search for a graph: each kernel once, a candidate for pipelines, winners that stay."""

import json
import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.core.origin import LabWarning
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    GraphError,
    Interrupted,
    ParseError,
)
from luminal_lab.kernels.fuse.chains import Chain
from luminal_lab.plain import plain
from luminal_lab.search import regions, target
from luminal_lab.search.assembled import apart
from luminal_lab.search.driver import Answer, Outcome
from luminal_lab.search.graph import ProgramSearch, search_program
from luminal_lab.search.loops import replayed
from luminal_lab.search.run import SPENT
from luminal_lab.search.winners import Winners
from tests.expect import error_of
from tests.search.planted import by_form, guess, job_of, refuse

DEVICE = ll.CPUCompiler(threads=2)


@pytest.fixture(scope="module")
def fused() -> IR:
    """A graph of two kernels, of which one is launched twice."""
    cx = ll.Graph()
    x, w = cx.tensor(("n", 24), name="x"), cx.tensor((24, 20), name="w")
    (x @ w).retrieve()
    ((x + 1).softmax(-1) @ w).retrieve()
    return ll.compile_ir(cx.ir, ll.GenericCompiler(), ll.Pipeline(DEVICE.passes, rounds=1)).ir


def searched(ir: IR, winners: Winners | None = None) -> ProgramSearch:
    budget = ll.Budget(candidates=32)
    return search_program(ir, DEVICE, budget=budget, dims={"n": 40}, winners=winners, worker=guess)


def test_each_region_is_searched_once(fused: IR):
    search = searched(fused)
    assert search.counts == {"matmul": 1, "softmax_matmul": 1} == dict.fromkeys(search.kernels, 1)
    assert all(one.dims == {"n": 40} for one in search.kernels.values())
    best, default = search.best, search.default
    assert best.seconds is not None
    assert default.seconds is not None
    assert best.seconds < default.seconds == pytest.approx(4e-4)
    assert best.error is None
    assert {*best.definitions} == {*best.schedules}
    assert {*default.definitions} == {*default.schedules} == {"matmul", "matmul_n1", "softmax"}
    assert "kernel_matmul" in best.source
    assert str(search).startswith("search of main: ")
    assert repr(default) == "<Program of 3 kernels: 400 µs; print(…) shows their schedules>"


def test_a_pipeline_takes_a_candidate_as_its_device(fused: IR):
    best = searched(fused).best
    runner: Any = ll.compile_ir(fused, best).runner
    made = {kernel.name: kernel.schedule for kernel in runner.kernels}
    assert made == best.schedules


def test_what_is_apart_and_what_rules_have_done_are_candidates_too():
    cx = ll.Graph()
    q, k, v = (cx.tensor((12, 8), name=name) for name in "qkv")
    q.scaled_dot_product_attention(k, v).retrieve()
    ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir
    search = search_program(ir, DEVICE, budget=ll.Budget(candidates=40), worker=by_form)
    (region,) = search.kernels.values()
    assert {candidate.form for candidate in region.candidates} == {*region.forms}
    assert [*search.default.definitions] == ["attention"]
    assert [*search.unfused.definitions] == ["matmul", "softmax", "matmul_2"]
    assert region.best.form.name == "attention, by rules"
    assert search.best.programs
    assert "cascade" in [firing.rule for firing in search.derivation]
    for firing in search.derivation:
        firing.check()


def test_a_search_says_what_was_refused():
    cx = ll.Graph()
    x = cx.tensor((6, 32), name="x")
    centred = x - x.mean(-1, keepdim=True)
    (centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()).retrieve()
    ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir
    told = str(search_program(ir, DEVICE, budget=ll.Budget(candidates=2), worker=guess))
    assert "programs by rules refused; the worst: O is off by " in told
    assert "where inputs are around 1000; as written, by " in told


def test_winners_are_not_searched_again(fused: IR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    winners = Winners(tmp_path / "winners")
    first = searched(fused, winners)

    def never(job: str) -> str:
        raise AssertionError("something was measured")

    monkeypatch.setattr(target, "work", never)
    again = search_program(fused, DEVICE, dims={"n": 40}, winners=winners, worker=never)
    assert again.best.schedules == first.best.schedules
    assert all("nothing was measured" in one.ended for one in again.kernels.values())


def test_kernels_that_are_not_searched_are_named(fused: IR, monkeypatch: pytest.MonkeyPatch):
    given = ll.CPUCompiler(threads=2, schedules={"softmax": "parallel i"})
    search = search_program(
        fused, given, budget=ll.Budget(candidates=2), dims={"n": 40}, worker=guess
    )
    assert search.skipped == {"softmax": "a schedule is given for it"}
    assert "softmax: not searched: a schedule is given for it" in str(search)
    assert str(dict(search.best.device.schedules)["softmax"]) == "parallel i"
    monkeypatch.setattr(regions, "parse_definition", unreadable)
    with pytest.raises(GraphError, match="matmul: its text cannot be read back, and workers"):
        search_program(fused, DEVICE, budget=1)


def interrupted_at(number: int, patch: pytest.MonkeyPatch) -> None:
    """Have Ctrl-C come while rules look at the region of a number."""
    whole, count = regions.SearchRegions.region, iter(range(100))

    def region(self: regions.SearchRegions, chain: Chain) -> regions.SearchRegion:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(self, chain)

    patch.setattr(regions.SearchRegions, "region", region)


def test_ctrl_c_before_anything_is_measured_keeps_what_has_begun(
    fused: IR, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    winners = Winners(tmp_path / "winners")
    with monkeypatch.context() as patch:
        interrupted_at(1, patch)
        search = searched(fused, winners)
    assert search.ended == {"softmax_matmul": "Ctrl-C"}
    assert search.skipped == {"matmul": "Ctrl-C"}
    assert "matmul: not searched: Ctrl-C" in str(search)
    assert not winners.folder.exists()
    search.resume(ll.Budget(candidates=32))
    whole = searched(fused)
    assert {*search.kernels} == {*whole.kernels}
    assert str(search.candidates) == str(whole.candidates)


def test_ctrl_c_before_that_is_ctrl_c(fused: IR, monkeypatch: pytest.MonkeyPatch):
    interrupted_at(0, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        searched(fused)


def test_a_session_says_that_nothing_was_found(monkeypatch: pytest.MonkeyPatch):
    cx = ll.Graph()
    (cx.tensor((8, 8), name="x") @ cx.tensor((8, 8), name="w")).retrieve()
    interrupted_at(0, monkeypatch)
    with pytest.raises(Interrupted, match="search: stopped by Ctrl-C before anything was found"):
        cx.search(DEVICE, budget=1)


def test_the_best_is_the_first_line_and_schedules_stand_under_their_kernels(fused: IR):
    search = searched(fused)
    ranked = search.candidates.ranked
    first = [one.is_best for one in ranked[: len(search.kernels) + 1]]
    assert first == [True] * len(search.kernels) + [False]
    heads = [line for line in str(search.default).splitlines() if line.startswith("#")]
    assert sorted(heads) == ["# matmul", "# matmul", "# softmax"]


def test_a_search_that_finds_nothing_faster_says_so(fused: IR):
    def slow(job: str) -> str:
        times = tuple(Outcome("measured", (1.0,)) for _ in job_of(job).schedules)
        return json.dumps(plain(Answer(Outcome("measured", (1e-3,)), times, "here")))

    budget = ll.Budget(candidates=8)
    search = search_program(fused, DEVICE, budget=budget, dims={"n": 40}, worker=slow)
    assert "none is faster than the default: 2 ms" in str(search)


def test_the_space_of_a_region(fused: IR):
    search = searched(fused)
    space = search.kernels["matmul"].space
    assert space.definition == search.kernels["matmul"].definition
    with pytest.raises(GraphError, match="each of 2 regions has a space of its own"):
        _ = search.space


def test_ctrl_c_keeps_what_all_regions_know(fused: IR):
    count = iter(range(100))

    def worker(job: str) -> str:
        if next(count) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return guess(job)

    search = search_program(
        fused, DEVICE, budget=ll.Budget(candidates=64), dims={"n": 40}, worker=worker
    )
    assert {*search.ended.values()} == {"Ctrl-C"}
    assert sum(region.driver.drawn for region in search.kernels.values()) == 4
    search.resume(ll.Budget(candidates=32))
    assert {*search.ended.values()} == {SPENT}
    for region in search.kernels.values():
        assert str(replayed(region).candidates) == str(region.candidates)


def test_what_one_region_cannot_do_ends_no_other(fused: IR):
    def worker(job: str) -> str:
        is_matmul = len(job_of(job).forms) == 1
        return refuse(job) if is_matmul else guess(job)

    why = "search: there is no compiler"
    with pytest.warns(LabWarning, match=f"it ended early, and what was found is kept: {why}"):
        search = search_program(
            fused, DEVICE, budget=ll.Budget(candidates=32), dims={"n": 40}, worker=worker
        )
    assert search.ended == {"matmul": why, "softmax_matmul": SPENT}
    with pytest.raises(DeviceError, match=why):
        search_program(fused, DEVICE, budget=ll.Budget(candidates=8), worker=refuse)


def unreadable(text: str) -> None:
    raise ParseError("no")


def test_words_for_what_cannot_be_searched(fused: IR):
    cx = ll.Graph()
    cx.tensor((3,), name="x").reshape(3, 1).retrieve()
    with pytest.raises(GraphError, match="search: main has no kernel whose schedule could be"):
        cx.search(budget=1)
    with pytest.raises(GraphError, match="search: nothing is retrieved"):
        ll.Graph().search()
    with pytest.raises(ArgumentError, match="search: with a budget of 0 nothing can be measured"):
        search_program(fused, DEVICE, budget=0)
    with pytest.raises(ArgumentError, match="search: the device is 3"):
        cast("Any", cx).search(3)
    with pytest.raises(DimError, match="search: main has no dim 'm'\nhint: it has n"):
        search_program(fused, DEVICE, dims={"m": 3})
    (cx.tensor((3, 3), name="y") @ cx.tensor((3, 3), name="z")).retrieve()
    with pytest.raises(DimError, match=r"has no dim 'm'[^?]*hint: all its sizes are numbers"):
        cx.search(dims={"m": 3})
    with pytest.raises(ArgumentError, match="give one whole number, or a list of them"):
        cx.search(dims={"m": []})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"executor": 3}, "search: the executor is 3"),
        ({"seed": "one"}, "search: the seed is 'one'"),
        ({"budget": 0}, "search: with a budget of 0 nothing can be measured"),
    ],
)
def test_what_is_asked_for_is_looked_at_before_anything_is_measured(
    asked: dict[str, Any], message: str
) -> None:
    cx = ll.Graph()
    (cx.tensor((8, 8), name="a") @ cx.tensor((8, 8), name="b")).retrieve()
    assert error_of(lambda: cx.search(**asked), ArgumentError).message == message
