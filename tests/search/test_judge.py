"""Programs are judged in float32 against float64: what no proof over real numbers can see."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.language import Sum
from luminal_lab.search.judge import drawn, judged, shorter
from luminal_lab.search.program import judged_programs
from tests.search.written import along, attention, searched


def test_the_cheapest_attention_is_as_exact_as_what_was_written() -> None:
    for mask in ("", "causal", "window"):
        space = searched(attention(after=0.125, mask=mask))
        verdict = judged(space, space.programs()[0])
        assert not verdict.refusal
        assert verdict.error < 1e-6


def test_a_scale_multiplied_into_a_maximum_that_begins_with_the_lowest_number_is_refused() -> None:
    space = searched(attention(after=0.125, mask="window"))
    refusals = {judged(space, pick).refusal for pick in space.programs()}
    assert any("no number where inputs are ordinary" in refusal for refusal in refusals)


def test_what_is_no_number_on_the_way_of_a_pass_is_wrong_and_not_the_pass() -> None:
    cx = ll.Graph()
    q, k, v = (cx.tensor((2, 3, n, 4), name=f) for f, n in (("q", 13), ("k", 17), ("v", 17)))
    distances = cx.arange(17).reshape(1, 17) - cx.arange(13).reshape(13, 1)
    scores = (q @ k.transpose(-1, -2)) * 0.5 + distances.cast("float32") * 0.1
    (scores.softmax(-1) @ v).retrieve()
    space = searched(cx)
    refused, best = judged_programs(space)
    assert "no number where inputs are -inf here and there in k" in refused.verdict.refusal
    assert refused.verdict.wrong is not None
    _, node = refused.verdict.wrong
    assert isinstance(node.operator, Sum)  # the maximum, below all numbers once it is multiplied
    assert along(best.pick, space, 17) == 1


def test_a_number_alone_is_drawn_too() -> None:
    space = searched(attention(divisor="tensor"))
    assert {draw.data["c"].shape for draw in drawn(space)} == {()}
    assert any(draw.data["c"] == -np.inf for draw in drawn(space))
    assert not judged(space, space.programs()[0]).refusal


def test_a_difference_that_is_multiplied_out_is_refused_where_inputs_are_large() -> None:
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").softmax(-1).retrieve()
    space = searched(cx)
    verdicts = [judged(space, pick) for pick in space.programs()]
    assert not verdicts[0].refusal
    assert any("where inputs are around 1000" in verdict.refusal for verdict in verdicts)


def test_layer_norm_in_one_pass_is_the_form_that_is_right_far_from_zero() -> None:
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").layer_norm(-1).retrieve()
    space = searched(cx)
    *refused, best = judged_programs(space)
    assert along(best.pick, space, 17) == 2  # the moments, and what is stored
    assert not best.is_refused
    assert best.verdict.error < 2e-4
    assert "x[i, 0]" in str(best)
    assert any(firing.rule == "centre" for firing in best.derivation)
    naive = refused[0].verdict
    assert str(refused[0]).endswith(f"refused: {naive.refusal}")
    assert naive.error > 1e-2
    assert naive.refusal.startswith("O is off by 0.0")
    assert "where inputs are around 1000; as written, by 3e-05" in naive.refusal


def test_long_axes_are_shorter_where_the_length_says_nothing() -> None:
    assert shorter(searched(attention(n=512, t=700, mask="causal")).definition) == {
        512: 33,
        700: 33,
    }
    assert not shorter(searched(attention()).definition)
    window = attention(n=512, t=700, mask="window")
    assert shorter(searched(window).definition)  # five keys: those are hidden in 33, too
    cx = ll.Graph()
    i = cx.arange(512)
    ((i + 64 < cx.arange(512).reshape(512, 1)).where(0.0, cx.tensor((512, 512)))).retrieve()
    assert shorter(searched(cx).definition) == {512: 129}  # those beyond are seen, too
    cx = ll.Graph()
    cx.tensor((512,))[::2].retrieve()
    assert not shorter(searched(cx).definition)
    cx = ll.Graph()
    words, table = cx.tensor((6,), "int64"), cx.tensor((50257, 40))
    table.embedding(words).layer_norm(-1).retrieve()
    assert shorter(searched(cx).definition) == {50257: 33, 40: 33}  # positions are drawn small


def test_and_so_it_is_beside_a_table_that_is_too_long_for_that() -> None:
    cx = ll.Graph()
    words, table = cx.tensor((6,), "int64", name="words"), cx.tensor((50257, 100), name="table")
    table.embedding(words).layer_norm(-1).retrieve()
    *_, best = judged_programs(searched(cx))
    assert not best.is_refused
    assert any(firing.rule == "centre" for firing in best.derivation)


@pytest.mark.parametrize("method", ["softmax", "layer_norm"])
def test_what_rules_make_of_a_length_is_judged_at_that_length(method: str) -> None:
    cx = ll.Graph()
    getattr(cx.tensor((6, 100), name="x"), method)(-1).retrieve()
    space = searched(cx)
    assert shorter(space.definition)
    *refused, best = judged_programs(space)
    assert not best.is_refused
    if method == "layer_norm":  # its form adds 100 times a square
        assert any(firing.rule == "centre" for firing in best.derivation)
        assert "where inputs are around 1000" in refused[0].verdict.refusal
    else:
        refusals = {judged(space, pick).refusal for pick in space.programs()}
        assert any("where inputs are around 1000" in refusal for refusal in refusals)
