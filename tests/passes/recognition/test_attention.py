"""Attention: scales, masks and heads, and products around a softmax that are none."""

import pytest

from luminal_lab.core.ops import Call
from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled
from tests.passes.running import check_pass

ATTENTION = "attention(matmul, matmul, softmax(exp))"
QKV = [(2, "s", 8), (2, "t", 8), (2, "t", 8)]


def method(q, k, v, *masks, **options):
    return q.scaled_dot_product_attention(k, v, *masks, **options)


def by_hand(q, k, v):
    return ((q @ k.mT) * 0.125).softmax(-1) @ v


def hidden(q, k, v, mask):
    return (mask < 0.5).where(float("-inf"), q @ k.mT).softmax(-1) @ v


def transposed(q, k, v):
    return (k @ q.mT).softmax(-2).mT @ v


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        (method, QKV),
        (method, [(5, 8), (7, 8), (7, 3)]),
        (method, [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8)]),
        (method, [*QKV, ("s", "t")]),
        (method, [*QKV, (2, "s", "t")]),
        (lambda q, k, v: method(q, k, v, is_causal=True), QKV),
        (lambda q, k, v: method(q, k, v, scale=1.0), QKV),
        (by_hand, QKV),
        (transposed, QKV),
    ],
)
def test_spellings(formula, shapes, pipeline):
    assert all_of_it(spelled(formula, *shapes), pipeline) == ATTENTION


def inputs_of(formula, *shapes):
    """Return the names and shapes of what the attention in a formula reads."""
    after = check_pass(spelled(formula, *shapes), PIPELINE).ir
    body = next(n.op.body for n in after if isinstance(n.op, Call) and "att" in n.op.body.name)
    return {node.name: node.shape for node in body.inputs}


def test_a_mask_that_is_data_is_read_as_it_was_given():
    assert list(inputs_of(method, *QKV, ("s", "t"))) == ["q", "k", "v", "mask"]
    shapes = [(2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8), (5, 7)]
    assert inputs_of(method, *shapes)["mask"] == (5, 7)
    assert inputs_of(hidden, *shapes)["mask"] == (5, 7)


def test_a_causal_mask_is_part_of_it():
    found = inputs_of(lambda q, k, v: method(q, k, v, is_causal=True), *QKV)
    assert list(found) == ["q", "k", "v"]


def test_heads_that_share_keys():
    def formula(q, k, v):
        return method(q, k, v, enable_gqa=True)

    shapes = (2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)
    assert recognised(spelled(formula, *shapes)) == [ATTENTION]


def test_a_tensor_with_itself():
    assert recognised(spelled(lambda x: method(x, x, x), (5, 8))) == [ATTENTION]


def test_scaled_queries_that_others_read_are_its_input():
    def formula(q, k, v):
        scaled = q * 0.5
        return (scaled @ k.mT).softmax(-1) @ v, scaled

    found = recognised(spelled(formula, *QKV))
    assert found == [ATTENTION]


def over_queries(q, k, v):
    return (q @ k.mT).softmax(-2) @ v


def over_batches(q, k, v):
    return (q @ k.mT).softmax(0) @ v


def of_no_product(q, k, v):
    return (q + k).softmax(-1) @ v


def behind_another_function(q, k, v):
    return (q @ k.mT).exp().softmax(-1) @ v


def before_another_function(q, k, v):
    return (q @ k.mT).softmax(-1).sqrt() @ v


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    "formula",
    [over_queries, over_batches, of_no_product, behind_another_function, before_another_function],
)
def test_near_misses(formula, pipeline):
    found = recognised(spelled(formula, *[(4, 4, 4)] * 3), pipeline)
    assert "softmax(exp)" in found
    assert not any("attention" in one for one in found)


def test_dropout_comes_between():
    ir = spelled(lambda q, k, v: method(q, k, v, dropout_p=0.5), *[(2, 5, 8)] * 3)
    assert recognised(ir) == ["matmul", "matmul", "softmax(exp)"]
