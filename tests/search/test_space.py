"""What the rules find, from what users write; no rule knows what any of it is called."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.search import RULES
from tests.search.written import along, attention, passes, right, searched

SPELLINGS: dict[str, dict[str, Any]] = {
    "scaled after": {"after": 0.125},
    "scaled before": {"before": 0.125},
    "scaled twice": {"before": 0.35, "after": 0.35},
    "scaled in the exponent": {"inside": 0.125},
    "not scaled": {},
    "exp2, scaled": {"power": "exp2", "after": 0.18},
    "bias": {"bias": True, "after": 0.125},
    "causal": {"mask": "causal", "after": 0.125},
    "windowed": {"mask": "window", "before": 0.125},
    "causal, bias": {"mask": "causal", "bias": True, "inside": 0.125},
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_attention_is_one_pass_over_the_keys_however_it_is_written(spelling: Any) -> None:
    space = right(attention(**spelling))
    assert passes(space, 17)[0] == 1
    assert len(space.egraph) <= 60
    assert not space.report.stopped


def test_attention_over_symbolic_sizes_is_one_pass() -> None:
    space = right(attention(after=0.125, n="n", t="t"), {"n": 5, "t": 9})
    assert along(space.programs()[0], space, space.definition.dims["t"]) == 1


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


# -- limits ----------------------------------------------------------------------------------------


def test_rules_without_end_stop_at_a_limit_and_say_so() -> None:
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    for _ in range(5):
        x = x - x.mean(-1, keepdim=True)
        x = x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()
    x.retrieve()
    space = searched(cx)
    assert len(space.egraph) < 10_000
    assert space.report.stopped <= {rule.name for rule in RULES if rule.grows}
