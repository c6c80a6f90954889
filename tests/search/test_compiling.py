"""A device that searches while it compiles, and searches by rules and plans of one's own."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import Product, Ratio
from luminal_lab.core.ir import IR
from luminal_lab.devices.build import cache
from luminal_lab.errors import ArgumentError, PassError, ScheduleError
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.machine import Machine
from luminal_lab.search import RULES, compiling, measure, worker
from luminal_lab.search.assembled import apart
from luminal_lab.search.draws import PLANS
from luminal_lab.search.graph import ProgramSearch, search_program
from luminal_lab.search.winners import Winners
from tests.expect import error_of
from tests.needs import need
from tests.search.planted import by_form, guess, tiles
from tests.search.written import attention

DEVICE = ll.CPUCompiler(threads=2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"budget": 0}, "search: with a budget of 0 nothing can be measured"),
        ({"executor": 3}, "search: the executor is 3"),
        ({"seed": "one"}, "search: the seed is 'one'"),
        ({"dims": {"n": "many"}}, "search: dims gives the dim 'n' the size 'many'"),
    ],
)
def test_what_a_device_is_asked_for_is_looked_at_where_it_is_made(asked: Any, message: str):
    assert error_of(lambda: ll.Search(**asked), ArgumentError).message == message


def test_nothing_of_ones_own_is_cached():
    rules = list(RULES)
    error = error_of(lambda: ll.Search("cached", rules=rules), ArgumentError)
    assert error.message == "search: nothing is kept of what one's own rules or plan find"
    asked: Any = {"budget": "cashed"}
    assert error_of(lambda: ll.Search(**asked), ArgumentError).message == (
        "search: with a budget of 'cashed' nothing can be measured"
    )


def test_a_search_as_part_of_a_pipeline():
    given = ll.Search(DEVICE, budget=30, dims={"n": 4})
    assert repr(given) == "<Search cpu{threads = 2}>"
    assert str(ll.Pipeline([given])) == "(cpu{threads = 2})"
    assert ll.Pipeline([given]).is_device


# -- measured --------------------------------------------------------------------------------------


@pytest.fixture
def _measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile into a folder of this run's own, and measure little."""
    need("cc")
    folder = tmp_path_factory.mktemp("cache") / "libraries"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", lambda: folder)
        patch.setattr(worker, "spare_folder", lambda: folder)
        patch.setattr(measure, "MEASURING", 0.0)
        yield


@pytest.mark.usefixtures("_measured")
def test_a_session_searches_and_uses_what_it_found(monkeypatch: pytest.MonkeyPatch):
    cx = ll.Graph()
    x = cx.tensor(("n", 12), name="x").set(np.ones((9, 12)))
    y = (x @ cx.tensor((12, 10), name="w").set(np.ones((12, 10)))).retrieve()
    search = cx.search(DEVICE, budget=ll.Budget(candidates=3))
    assert search.kernels["matmul"].dims == {"n": 9}
    cx.compile(ll.GenericCompiler(), search.best)
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), np.full((9, 10), 12.0))
    monkeypatch.setattr(compiling, "search_program", None)  # what was found is not searched again
    compiled = cx.compile(ll.GenericCompiler(), ll.Search(DEVICE, dims={"n": 9}))
    assert compiled.runner is not None
    assert cx.kernels[0].schedule == search.best.schedules["matmul"]
    cx.compile(ll.GenericCompiler(), ll.Search(DEVICE, budget="cached", dims={"n": 9}))
    assert cx.kernels[0].schedule == search.best.schedules["matmul"]
    cx.compile(ll.GenericCompiler(), ll.Search("cached", dims={"n": 100}))  # nobody searched that
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), np.full((9, 10), 12.0))


@pytest.mark.usefixtures("_measured")
def test_a_compile_searches_for_what_was_not_found_before():
    cx = ll.Graph()
    x = cx.tensor(("n", 12), name="x").set(np.ones((9, 12)))
    y = (x @ cx.tensor((12, 10), name="w").set(np.ones((12, 10)))).retrieve()
    device = ll.Search(DEVICE, dims={"n": 9}, budget=ll.Budget(candidates=2))
    cx.compile(ll.GenericCompiler(), device, specialise={"n": 9})
    assert [kernel.name for kernel in cx.kernels] == ["matmul", "matmul_n9"]
    general, exact = (kernel.schedule for kernel in cx.kernels)
    assert str(exact) == str(general)
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), np.full((9, 10), 12.0))


@pytest.mark.usefixtures("_measured")
def test_what_a_device_has_searched_for_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch):
    """Even if it did not come to its end, and so is not kept for others."""
    device = ll.Search(DEVICE, budget=ll.Budget(candidates=2))
    monkeypatch.setattr(Winners, "keep", lambda *_: None)
    cx = product()
    cx.compile(ll.GenericCompiler(), device)
    found, schedule = device.searched, str(cx.kernels[0].schedule)
    monkeypatch.setattr(compiling, "search_program", None)
    cx.compile(ll.GenericCompiler(), device)
    assert device.searched is found
    assert str(cx.kernels[0].schedule) == schedule


# -- rules of one's own ----------------------------------------------------------------------------


def apart_of(cx: ll.Graph) -> IR:
    return ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir


def searched(cx: ll.Graph, **more: Any) -> ProgramSearch:
    budget = ll.Budget(candidates=8)
    return search_program(apart_of(cx), DEVICE, budget=budget, worker=by_form, **more)


def product() -> ll.Graph:
    cx = ll.Graph()
    (cx.tensor((40, 30), name="a") @ cx.tensor((30, 50), name="b")).retrieve()
    return cx


def test_a_rule_of_ones_own_is_in_the_derivation_of_what_it_found():
    @ll.search.rule("ratio[j](x * y)", "ratio[j](x) * ratio[j](y)", assumes={"no_nan", "no_inf"})
    def each_factor(egraph: EGraph, ratio: Ratio, value: int) -> Iterator[int]:
        for _, parts in egraph.looks(value, Product):
            yield egraph.product(1, [egraph.add(ratio, part) for part in parts], ratio.dtype)

    search = searched(attention(after=0.125), rules=[*RULES.without("ratio-product"), each_factor])
    rules = [step.rule for step in search.derivation]
    assert "each-factor" in rules
    assert "ratio-product" not in rules
    assert "each-factor" in [rule.name for rule in search.space.rules]


def test_without_a_rule_what_rests_on_it_is_not_found():
    (region,) = searched(attention(after=0.125), rules=RULES.without("cascade")).kernels.values()
    assert not any("cascade" in _rules(program) for program in region.programs.values())
    (region,) = searched(attention(after=0.125)).kernels.values()
    assert any("cascade" in _rules(program) for program in region.programs.values())


def test_without_any_rules_nothing_fires():
    (region,) = searched(attention(after=0.125), rules=()).kernels.values()
    assert not any(map(_rules, region.programs.values()))
    assert len(region.forms) > 1  # those of a compile


def _rules(program: Any) -> list[str]:
    return [firing.rule for firing in program.derivation]


def test_rules_are_put_to_the_test_before_anything_is_searched():
    wrong = ll.search.RULES["max-mul"]
    wrong = type(wrong)("mine", "max j: x", "sum j: x", wrong.fire)
    for search in (lambda: product().search(rules=[wrong]), lambda: ll.Search(rules=[wrong])):
        with pytest.raises(PassError, match="rule 'mine' has no proof"):
            search()


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (
            {"rules": 3},
            "search: the rules are 3",
            "ll.search.RULES + [mine] has one more",
        ),
        (
            {"rules": ["max-mul"]},
            "search: 'max-mul' is not a rule",
            "@ll.search.rule(before, after) makes one",
        ),
        (
            {"rules": "max-mul"},
            "search: the rules are 'max-mul'",
            "ll.search.RULES + [mine] has one more",
        ),
        (
            {"plan": "tiles"},
            "search: the plan is 'tiles'",
            PLANS,
        ),
        (
            {"device": ll.CUDACompiler(arch="sm_80"), "rules": ()},
            "search: on a GPU all programs are those of a compile, and no rules are tried",
            "leave rules out, or search for ll.CPUCompiler()",
        ),
    ],
)
def test_words_for_rules_and_plans(asked: dict[str, Any], message: str, hint: str):
    for search in (lambda: product().search(**asked), lambda: ll.Search(**asked)):
        error = error_of(search, ArgumentError)
        assert error.message == message
        assert error.hint == hint


# -- plans of one's own ----------------------------------------------------------------------------


def for_products(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
    """Cut products into tiles, and refuse all else."""
    if "max" in str(nest):
        raise ScheduleError(f"{nest.name} is not a product")
    return tiles(nest, machine, asked)


def test_a_plan_of_ones_own_is_drawn_from():
    search = searched(product(), plan=tiles)
    assert all(one.text.startswith("split i by") for one in search.candidates)
    assert search.default.regions["matmul"].choices.keys() == {"tile_i", "tile_j"}


def test_what_a_plan_refuses_is_not_searched_and_said():
    cx = product()
    cx.tensor((60, 70), name="x").softmax(-1).retrieve()
    search = searched(cx, plan=for_products)
    assert [*search.kernels] == ["matmul"]
    assert search.skipped == {"softmax": "the plan refuses softmax: softmax is not a product"}
    assert "softmax: not searched: the plan refuses softmax: softmax is not a product" in str(
        search
    )


def test_a_plan_that_refuses_all_regions_ends_the_search():
    cx = ll.Graph()
    cx.tensor((60, 70), name="x").softmax(-1).retrieve()
    error = error_of(lambda: searched(cx, plan=for_products), ScheduleError)
    assert error.message == "search: the plan refuses softmax: softmax is not a product"


def test_by_a_plan_of_ones_own_no_winner_is_taken_or_kept(tmp_path: Any):
    winners = Winners(tmp_path / "winners")
    searched(product(), plan=tiles, winners=winners)
    assert not winners.folder.exists()
    search_program(
        apart_of(product()), DEVICE, budget=ll.Budget(candidates=8), worker=guess, winners=winners
    )
    assert winners.folder.exists()
    again = searched(product(), plan=tiles, winners=winners)
    assert again.ended["matmul"] == "the budget is spent"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            lambda *_: 1 / 0,
            "search: the plan for matmul raised ZeroDivisionError: division by zero",
        ),
        (lambda *_: None, "search: the plan for matmul returned None"),
    ],
)
def test_a_plan_that_is_none_says_so(plan: Any, message: str):
    error = error_of(lambda: searched(product(), plan=plan), ArgumentError)
    assert error.message == message
    assert error.hint == PLANS


def test_what_a_plan_cannot_do_with_some_numbers_is_refused():
    def fragile(nest: Nest, machine: Machine, asked: Mapping[str, int]) -> Scheduling:
        if asked.get("tile_i", 0) > 9:
            raise LookupError("no such tile")
        return tiles(nest, machine, asked)

    (region,) = searched(product(), plan=fragile).kernels.values()
    assert len(region.candidates) == 9
    assert region.refusals["LookupError: no such tile"]


@pytest.mark.usefixtures("_measured")
def test_a_device_keeps_what_it_has_found_by_its_own_plan(monkeypatch: pytest.MonkeyPatch):
    device = ll.Search(DEVICE, plan=tiles, budget=ll.Budget(candidates=2))
    cx = product()
    cx.compile(ll.GenericCompiler(), device)
    found = str(cx.kernels[0].schedule)
    assert found.startswith("split i by")
    assert device.searched is not None
    monkeypatch.setattr(compiling, "search_program", None)
    cx.compile(ll.GenericCompiler(), device)
    assert str(cx.kernels[0].schedule) == found
