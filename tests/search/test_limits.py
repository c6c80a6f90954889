"""What cannot win is never compiled; a limit that is in doubt prunes nothing."""

from dataclasses import replace

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.machines.rates import PeakRates, Rate
from luminal_lab.search.assembled import apart
from luminal_lab.search.driver import FormLimit
from luminal_lab.search.forms import alone
from luminal_lab.search.graph import regions_of
from luminal_lab.search.limits import least_seconds, least_work, limits_of
from luminal_lab.search.loops import Budget, KernelSearch, begun, replayed
from luminal_lab.search.regions import SearchRegion
from tests.search.planted import guess, job_of, matmul

DEVICE = ll.CPUCompiler(threads=2)
RATES = PeakRates.stated("a laptop", gflops=100, gbytes=20)


# -- limits ----------------------------------------------------------------------------------------


def work(body: str, inputs: str = "x: f32[8, 16]", output: str = "f32[8]") -> tuple[int, int]:
    text = f"kernel k({inputs}) -> (y: {output})\n  {body}"
    return least_work(parse_definition(text), {"n": 32})


@pytest.mark.parametrize(
    ("body", "inputs", "read", "operations"),
    [
        ("y[i < 8] = sum k < 16: x[i, k]", "x: f32[8, 16]", 512, 128),
        ("y[i < 8] = sum k < 16: x[i, k] * x[i, k]", "x: f32[8, 16]", 512, 256),
        ("y[i < 8] = sum k < 16: x[0, k] * w[k]", "x: f32[8, 16], w: f32[16]", 64, 32),
        ("y[i < 8] = max k < n: x[i, k]", "x: f32[8, n]", 1024, 256),
        ("y[i < 8] = x[i, 2 * i]", "x: f32[8, 16]", 0, 0),
        ("y[i < 8] = sum k < 16: [k < i + 1: x[i, k]]", "x: f32[8, 16]", 0, 0),
    ],
)
def test_only_what_no_schedule_can_do_without_counts(
    body: str, inputs: str, read: int, operations: int
):
    assert work(body, inputs) == (read, operations)


def test_a_product_takes_as_long_as_its_arithmetic_at_least():
    product = parse_definition(matmul(512, 512, 512))
    assert least_seconds(product, {}, RATES) == pytest.approx(2 * 512**3 / 100e9)


def test_rates_measured_under_load_say_nothing():
    forms = [alone(parse_definition(matmul(n, 60, 50))) for n in (70, 140)]
    sure, half = limits_of(forms, {}, RATES, "here")
    assert sure.seconds is not None
    assert half.work > sure.work
    busy = tuple(replace(rate, busy=2.0) for rate in RATES.rates)
    doubtful = limits_of(forms, {}, replace(RATES, rates=busy), "here")
    assert [limit.seconds for limit in doubtful] == [None, None]
    assert [limit.work for limit in doubtful] == [sure.work, half.work]
    assert limits_of(forms[:1], {}, RATES, "here") == ()


def test_the_better_of_one_thread_and_of_all_counts():
    product = parse_definition(matmul(64, 64, 64))
    rates = PeakRates(
        "odd",
        2,
        tuple(
            rate
            for threads, gflops in ((1, 200.0), (2, 100.0))
            for rate in (
                Rate("fma", threads, gflops, dtype="float32"),
                Rate("read", threads, 1000.0),
            )
        ),
    )
    assert least_seconds(product, {}, rates) == pytest.approx(2 * 64**3 / 200e9)


# -- pruning ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def region() -> SearchRegion:
    """An attention in six forms."""
    cx = ll.Graph()
    q, k, v = (cx.tensor((64, 32), name=name) for name in "qkv")
    q.scaled_dot_product_attention(k, v).retrieve()
    ir: IR = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir
    regions = regions_of(ir, DEVICE)
    ((chain, _),) = regions
    return regions.region(chain)


def searched(region: SearchRegion, *limits: FormLimit) -> tuple[KernelSearch, set[int]]:
    """Return a search by times that depend on texts alone, and the forms that were compiled."""
    compiled: set[int] = set()

    def worker(job: str) -> str:
        compiled.update(job_of(job).form_of)
        return guess(job)

    search = begun(region, DEVICE, worker=worker)
    rest = (limits[-1],) * (len(region.forms) - len(limits))
    search.driver.limits = (*limits, *rest)
    return search.resume(Budget(candidates=22)), compiled


FAST = FormLimit(1.0, 1e-6, "here")
"""What may be faster than anything that `guess` answers, which is 100 µs at least."""
SLOW = FormLimit(100.0, 1.0, "here")


def test_a_form_that_cannot_win_is_never_compiled(region: SearchRegion):
    search, compiled = searched(region, FAST, FAST, SLOW)
    assert compiled == {0, 1}
    pruned = [one for one in search.candidates if one.state == "pruned"]
    assert [one.form for one in pruned] == [*region.forms[2:]]
    assert {one.told for one in pruned} == {
        "pruned: it takes 1 s at least, by the rates of this machine"
    }
    assert all(one.seconds is None and one.error is None for one in pruned)
    assert "pruned: it takes 1 s at least" in str(search.candidates)
    assert [one.number for one in search.candidates] == [*range(len(search.candidates))]
    assert str(replayed(search).candidates) == str(search.candidates)


@pytest.mark.parametrize(
    "limit",
    [
        FormLimit(100.0, None),  # not known
        FormLimit(100.0, 1.0, "there"),  # of another machine
        FormLimit(100.0, 1.2e-4, "here"),  # above the best time, but not by enough
    ],
)
def test_a_limit_that_is_in_doubt_prunes_nothing(region: SearchRegion, limit: FormLimit):
    search, compiled = searched(region, FAST, limit)
    assert compiled == {*range(len(region.forms))}
    assert not search.driver.pruned


def test_rates_that_a_candidate_beats_prune_nothing(region: SearchRegion):
    impossible = FormLimit(1.0, 1e-3, "here")
    search, compiled = searched(region, impossible, impossible, SLOW)
    assert compiled == {*range(len(region.forms))}
    assert not search.driver.pruned


def test_heavy_forms_wait_for_a_time_to_compare_with(region: SearchRegion):
    search, _ = searched(region, FormLimit(1.0), FormLimit(100.0))
    first, second, third = ({d.form for d in batch.drafts} for batch, _ in search.answers[:3])
    assert first == second == {0}
    assert third >= {*range(1, len(region.forms))}
