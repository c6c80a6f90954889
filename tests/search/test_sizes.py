"""Several sizes of a dim: one schedule for all, by the geometric mean of its times."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.errors import ArgumentError, DimError
from luminal_lab.search import measure, worker
from luminal_lab.search.deadline import SKIPPED
from luminal_lab.search.driver import WRONG, Outcome
from luminal_lab.search.loops import Budget, begun, search_kernel
from luminal_lab.search.winners import Winners
from luminal_lab.search.worker import joined
from tests.needs import need
from tests.search.planted import guess, job_of

TOTAL = "kernel total(x: f32[n, m]) -> (y: f32[n])\n  y[i < n] = sum k < m: x[i, k]"


def all_of(*outcomes: Outcome) -> Outcome:
    """Return what came of a candidate at sizes of n that count up from 1."""
    known = None
    for n, outcome in enumerate(outcomes, 1):
        known = joined(known, outcome, {"n": n}, len(outcomes))
    assert known is not None
    return known


def test_a_time_is_the_geometric_mean_of_each_round():
    told = all_of(Outcome("measured", (1.0, 4.0, 9.0)), Outcome("measured", (4.0, 9.0)))
    assert told.state == "measured"
    assert told.samples == pytest.approx((2.0, 6.0))


def test_what_goes_wrong_at_a_size_is_wrong():
    fine = Outcome("measured", (1.0,))
    wrong = Outcome("failed", (), WRONG + "y[0] is 1, and should be 2")
    for outcomes in ((wrong, fine), (fine, wrong), (fine, wrong, fine)):
        told = all_of(*outcomes)
        assert told.is_wrong
        assert told.why == f"{WRONG}at n = {1 + outcomes.index(wrong)}: y[0] is 1, and should be 2"
        assert told.compared is None
    assert all_of(fine, Outcome("failed", (), "it takes too long")).why == (
        "at n = 2: it takes too long"
    )


def test_what_is_skipped_or_stopped_at_a_size_is():
    fine, slow = Outcome("measured", (1.0,)), Outcome("stopped", (4.0,))
    assert all_of(fine, SKIPPED).state == all_of(SKIPPED, fine).state == "skipped"
    assert all_of(fine, slow) == all_of(slow, fine) == Outcome("stopped", (2.0,))


def test_a_job_has_all_sizes(tmp_path: Path):
    sizes: list[Sequence[object]] = []

    def noted(job: str) -> str:
        sizes.append([*job_of(job).others, job_of(job).dims])
        return guess(job)

    winners, budget = Winners(tmp_path / "winners"), Budget(candidates=8)
    dims = {"n": [4, 2048], "m": 12}
    search = search_kernel(TOTAL, worker=noted, budget=budget, dims=dims, winners=winners)
    assert sizes[0] == [{"n": 4, "m": 12}, {"n": 2048, "m": 12}]
    assert search.dims == {"n": 2048, "m": 12}
    keys = [
        begun(TOTAL, worker=noted, dims={"n": n, "m": 12}).question.key
        for n in ([4, 2048], [5, 2050], [4, 4096], [2048], 2048)
    ]
    assert keys[0] == keys[1] == search.question.key  # sizes by powers of two
    assert len({*keys}) == 3
    again = search_kernel(TOTAL, worker=noted, budget=budget, dims=dims, winners=winners)
    assert again.ended.startswith("found before")


def test_words_for_sizes():
    with pytest.raises(DimError, match="search: n is 'x'\nhint: give a whole number"):
        begun(TOTAL, dims={"n": cast("Any", "x")})
    with pytest.raises(DimError, match="search: dims say 9 sizes, and 8 are measured at most"):
        begun(TOTAL, dims={"n": [1, 2, 3], "m": [1, 2, 3]})
    with pytest.raises(ArgumentError, match="a GPU's kernels are measured at one size of each dim"):
        begun(TOTAL, ll.MetalCompiler(chip="m3-max"), dims={"n": [1, 2]})
    cx = ll.Graph()
    (cx.tensor(("n", 12), name="x") * 2).retrieve()
    with pytest.raises(ArgumentError, match="dims gives the dim 'n' the size 'many'"):
        cx.search(budget=1, dims={"n": [4, cast("Any", "many")]})


@pytest.fixture
def _measured(tmp_path: Path) -> Iterator[None]:
    need("cc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", lambda: tmp_path / "libraries")
        patch.setattr(worker, "spare_folder", lambda: tmp_path)
        patch.setattr(measure, "MEASURING", 0.0)
        yield


@pytest.mark.usefixtures("_measured")
def test_a_graph_is_measured_at_each():
    cx = ll.Graph()
    (cx.tensor(("n", 12), name="x") @ cx.tensor((12, 10), name="w")).retrieve()
    device, budget = ll.CPUCompiler(threads=2), Budget(candidates=2)
    search = cx.search(device, budget=budget, dims={"n": [3, 70]})
    (region,) = search.kernels.values()
    assert (region.others, region.dims) == (({"n": 3},), {"n": 70})
    assert region.default.seconds is not None
    assert search.best.error is None
    known = ll.Search(device, dims={"n": [3, 70]}, budget=budget)
    cx.compile(ll.GenericCompiler(), known)
    assert cx.kernels[0].schedule == search.best.schedules["matmul"]
