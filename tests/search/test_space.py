"""What the rules find, from what users write; no rule knows what any of it is called."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.egraph import MOST_NODES, EGraph
from luminal_lab.algebra.extract import solved
from luminal_lab.algebra.language import Applied, ENode, Folded, Leaf, Online, Sum
from luminal_lab.algebra.reading import read_definition
from luminal_lab.algebra.rules.rule import FINITE, equation
from luminal_lab.algebra.saturate import saturate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ops import Exp2
from luminal_lab.errors import ArgumentError, GraphError, PassError
from luminal_lab.kernels.definition.terms import Read, axis_of
from luminal_lab.search import RULES, judged_programs
from luminal_lab.search.space import LICENCE, space_of
from tests.expect import error_of
from tests.search.written import SPELLINGS, along, attention, block, drawn, passes, right, searched

F = DType.float32


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_attention_is_one_pass_over_the_keys_however_it_is_written(spelling: Any) -> None:
    space = right(attention(**spelling))
    assert passes(space, 17)[0] == 1
    assert len(space.egraph) <= 80
    assert not space.report.stopped


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_and_so_it_is_over_symbolic_sizes(spelling: Any) -> None:
    space = right(attention(**spelling, n="n", t="t"), {"n": 5, "t": 9})
    assert along(space.programs()[0], space, space.definition.dims["t"]) == 1
    assert len(space.egraph) <= 80


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_and_so_is_what_the_judge_leaves_of_it(spelling: Any) -> None:
    *_, best = judged_programs(searched(attention(**spelling)))
    assert along(best.pick, best.space, 17) == 1
    assert not best.is_refused


FOLDING: dict[str, tuple[str, int]] = {
    "softmax": ("softmax", 2),
    "log-softmax": ("log_softmax", 2),
    "logsumexp": ("logsumexp", 1),
}


@pytest.mark.parametrize(("method", "count"), FOLDING.values(), ids=[*FOLDING])
def test_sum_and_maximum_of_a_row_share_a_pass(method: str, count: int) -> None:
    cx = ll.Graph()
    x = cx.tensor((6, 17), name="x")
    getattr(x, method)(-1).retrieve()
    space = right(cx)
    assert min(passes(space, 17)) == passes(space, 17)[0] == count  # the last one stores


def test_cross_entropy_is_one_pass() -> None:
    cx = ll.Graph()
    x, labels = cx.tensor((6, 17), name="x"), cx.tensor((6,), "int64", name="labels")
    ll.nn.losses.cross_entropy(x, labels).retrieve()
    assert passes(right(cx), 17)[0] == 1


def test_the_scale_of_an_rms_norm_comes_after_the_product() -> None:
    cx = ll.Graph()
    x, w = cx.tensor((6, 17), name="x"), cx.tensor((17, 5), name="w")
    ((x * (x * x).mean(-1, keepdim=True).rsqrt()) @ w).retrieve()
    space = right(cx)
    assert passes(space, 17)[0] == 1
    assert space.report.firings["sum-factor"]


@pytest.mark.parametrize(("rows", "inner"), [(2, 30), (30, 2)])
def test_products_of_three_go_the_shorter_way(rows: int, inner: int) -> None:
    cx = ll.Graph()
    shapes = {"a": (rows, 31), "b": (31, inner), "c": (inner, 32)}
    a, b, c = (cx.tensor(shape, name=name) for name, shape in shapes.items())
    ((a @ b) @ c).retrieve()
    pick = right(cx).programs()[0]
    left, right_ = rows * 31 * inner + rows * inner * 32, 31 * inner * 32 + rows * 31 * 32
    assert pick.cost == pytest.approx(2 * min(left, right_), rel=0.3)


# -- near misses -----------------------------------------------------------------------------------


def test_a_maximum_over_another_axis_is_left_where_it_is() -> None:
    cx = ll.Graph()
    q, k, v = (cx.tensor((s, 4), name=n) for s, n in ((13, "q"), (17, "k"), (17, "v")))
    scores = q @ k.T
    weights = (scores - scores.max(0, keepdim=True)).exp2()
    (weights @ v).retrieve()
    space = right(cx)
    assert "cascade" not in space.report.firings


def test_weights_that_are_read_elsewhere_are_still_computed() -> None:
    cx = ll.Graph()
    x, v = cx.tensor((6, 17), name="x"), cx.tensor((17, 3), name="v")
    weights = x.softmax(-1)
    weights.retrieve()
    (weights @ v).retrieve()
    space = right(cx)
    assert passes(space, 17)[0] == 2


def test_a_sum_whose_terms_change_each_in_its_way_stays_in_its_pass() -> None:
    cx = ll.Graph()
    x = cx.tensor((6, 17), name="x")
    top = x.max(-1, keepdim=True)
    ((x * top).sin().sum(-1)).retrieve()
    space = right(cx)
    assert set(passes(space, 17)) == {2}


def test_halves_and_integers_are_not_regrouped() -> None:
    for dtype in ("float16", "int32"):
        cx = ll.Graph()
        x, y = cx.tensor((6, 17), dtype, name="x"), cx.tensor((6, 1), dtype, name="y")
        (x * y).sum(-1).retrieve()
        assert not searched(cx).report.firings


# -- whose rules ---------------------------------------------------------------------------------


def test_a_rule_of_ones_own_is_one_more() -> None:
    @ll.search.rule("recip(exp2(x))", "exp2(0 - x)", assumes={"no_nan", "no_inf"})
    def recip_exp2(egraph: EGraph, recip: Applied, power: int) -> Iterator[int]:
        exponent = egraph.argument(power, Applied(Exp2(), recip.dtype))
        if exponent is not None:
            opposite = egraph.sum(0, [(exponent, -1)], recip.dtype)
            yield egraph.add(Applied(Exp2(), recip.dtype), opposite)

    cx = ll.Graph()
    x = cx.tensor((6, 17), name="x")
    (1 / x.exp2()).retrieve()
    assert searched(cx).report.firings == {}
    assert space_of(searched(cx).definition, [*RULES, recip_exp2]).report.firings["recip-exp2"]


def test_a_rule_beyond_the_licence_is_refused() -> None:
    definition = searched(attention()).definition
    with pytest.raises(PassError) as caught:
        space_of(definition, licence=LICENCE - {"no_inf"})
    assert str(caught.value) == (
        "search: rule 'distribute' assumes that no value is infinite, which the licence does not "
        "grant\nhint: grant it, or leave the rule out: RULES.without('distribute')"
    )
    with pytest.raises(PassError, match="the order of roundings does not matter, which the"):
        space_of(definition, licence=LICENCE - {"reassociate"})


def test_a_rule_without_a_proof_is_refused() -> None:
    @equation("exp2(a + b)", "exp2(a) * exp2(b)", assumes=FINITE)
    def split(egraph: EGraph, applied: Applied, exponent: int) -> Iterator[int]:
        for _, parts in egraph.looks(exponent, Sum):
            powers = [egraph.add(applied, part) for part in parts]
            yield egraph.product(1, powers, applied.dtype)

    with pytest.raises(PassError, match=r"rule split: .*\nis not safe"):
        space_of(searched(attention()).definition, [*RULES, split])


def test_what_is_known_of_finished_folds_alone_stays_out_of_a_pass() -> None:
    @equation("max j: x", "max j: x", whole=True)
    def equal_in_the_end(egraph: EGraph, fold: Folded, body: int) -> Iterator[int]:
        if egraph.entered[body] == ENode(Leaf(Read("x", (axis_of("i", 6), fold.axis), F)), ()):
            other = egraph.add(Leaf(Read("of_equal_maximum", (axis_of("i", 6), fold.axis), F)))
            yield egraph.add(fold, other)

    cx = ll.Graph()
    x = cx.tensor((6, 17), name="x")
    (x - x.max(-1, keepdim=True)).exp2().sum(-1).retrieve()
    assert passes(searched(cx), 17)[0] == 1
    egraph = EGraph()
    read_definition(egraph, searched(cx).definition)
    saturate(egraph, [*RULES, equal_in_the_end])
    nodes = [node for nodes in solved(egraph).values() for node in nodes]
    assert any(isinstance(node.operator, Online) for _, node in egraph.each())
    assert not any(isinstance(node.operator, Online) for node in nodes)


# -- limits ----------------------------------------------------------------------------------------


def test_rules_without_end_stop_at_a_limit_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("luminal_lab.algebra.saturate.MOST_NODES", 40)
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").layer_norm(-1).retrieve()
    report = right(cx).report
    assert "sum-push" in report.stopped


def test_two_norms_in_a_row_come_to_an_end() -> None:
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    for _ in range(2):
        x = x - x.mean(-1, keepdim=True)
        x = x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()
    x.retrieve()
    assert len(searched(cx).egraph) < 1_000


def test_the_space_of_a_block_keeps_to_its_budget_and_its_program_is_right() -> None:
    cx = block()
    space, data = searched(cx), drawn(cx.ir, {})
    assert len(space.egraph) <= 2 * MOST_NODES
    assert len(space.egraph.entered) <= 2.5 * MOST_NODES
    assert {"sum-push", "distribute"} <= space.report.stopped
    (pick,) = space.programs(1)
    assert along(pick, space, 16) <= 3  # one over the queries, the rest over the keys
    assert space.report.firings["cascade"]
    expected: Any = interpret(cx.ir, Environment(lambda node: data[node.name]))[cx.ir.output_ids[0]]
    values = space.values(pick, data)["O"]
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)


def test_a_space_is_of_a_graph_a_definition_or_its_text() -> None:
    cx = ll.Graph("rows")
    cx.tensor((6, 17), name="x").logsumexp(-1).retrieve()
    space = ll.search.space_of(cx.ir)
    assert repr(space) == "<Space of rows: 27 nodes in 19 classes>"
    assert str(ll.search.space_of(str(space.definition))) == str(space)
    assert "shift-sum ×2" in str(space)


def test_what_has_no_space_is_told() -> None:
    cx = ll.Graph()
    cx.tensor((3,), name="x")
    assert error_of(lambda: ll.search.space_of(cx.ir), GraphError).hint == (
        "results are marked by x.retrieve()"
    )
    wrong: Any = cx
    said = error_of(lambda: ll.search.space_of(wrong), ArgumentError)
    assert said.message.endswith("is neither a graph nor a definition")
