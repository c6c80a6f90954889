"""Matrix products: batches, transposes, several summed axes, and sums of products that are none."""

import pytest

from luminal_lab.core.ops import Call
from luminal_lab.tensor.product import einsum
from tests.passes.recognition.spelled import PIPELINE, all_of_it, recognised, spelled
from tests.passes.running import check_pass


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        (lambda x, y: x @ y, [(4, 8), (8, 3)]),
        (lambda x, y: x @ y, [(2, 4, 8), (2, 8, 3)]),
        (lambda x, y: x @ y, [("b", "n", 8), (8, "m")]),
        (lambda x, y: x @ y, [(4, 8), (8,)]),
        (lambda x, y: x @ y, [(8,), (8, 4)]),
        (lambda x, y: x @ y, [(1, 8), (8, 3)]),
        (lambda x, y: x @ y.T, [(4, 8), (3, 8)]),
        (lambda x, y: x.T @ y, [(8, 4), (8, 3)]),
        (lambda x, w: x.linear(w), [(2, "s", 8), (5, 8)]),
        (lambda x, y: x.tensordot(y, 2), [(4, 8, 3), (8, 3, 5)]),
        (lambda x, y: (x.unsqueeze(2) * y.unsqueeze(0)).sum(1), [(4, 8), (8, 3)]),
        (lambda x, y: (y.unsqueeze(0) * x.unsqueeze(2)).sum(1, keepdim=True), [(4, 8), (8, 3)]),
    ],
)
def test_spellings(formula, shapes, pipeline):
    assert all_of_it(spelled(formula, *shapes), pipeline) == "matmul"


def sources_of(formula, *shapes):
    """Return the shapes of the operands of the one matmul of a formula."""
    after = check_pass(spelled(formula, *shapes), PIPELINE).ir
    (call,) = (node for node in after if isinstance(node.op, Call))
    return [node.shape for node in after.sources(call)]


def test_a_transposed_matrix_is_an_operand():
    assert sources_of(lambda x, y: x @ y.mT, (2, 4, 8), (2, 3, 8)) == [(2, 4, 8), (2, 3, 8)]
    assert sources_of(lambda x, y: x.mT @ y, (2, 8, 4), (2, 8, 3)) == [(2, 8, 4), (2, 8, 3)]


def test_moved_heads_are_no_operand_but_the_view_of_them_is():
    def formula(x, y):
        return einsum("bqhd,bkhd->bhqk", x, y)

    assert sources_of(formula, (2, 5, 4, 8), (2, 7, 4, 8)) == [(2, 4, 5, 8), (2, 4, 7, 8)]


def test_a_batch_that_one_operand_lacks_is_repeated_inside():
    assert sources_of(lambda x, y: x @ y, (2, 5, 4, 8), (5, 8, 3)) == [(2, 5, 4, 8), (5, 8, 3)]
    assert sources_of(lambda x, y: x @ y, (2, 1, 4, 8), (2, 5, 8, 3)) == [
        (2, 1, 4, 8),
        (2, 5, 8, 3),
    ]


@pytest.mark.parametrize("pipeline", [PIPELINE, "generic"])
@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        # the axis that is summed is one along which an operand is repeated
        (lambda x, y: (x.unsqueeze(2) * y.unsqueeze(0)).sum(2), [(4, 8), (8, 3)]),
        # both have all axes
        (lambda x, y: (x * y).sum(1), [(4, 8), (4, 8)]),
        (lambda x: (x * x).sum(1), [(4, 8)]),
        # a number, another op, another reduction
        (lambda x: (x * 2.0).sum(1), [(4, 8)]),
        (lambda x, y: (x.unsqueeze(2) + y.unsqueeze(0)).sum(1), [(4, 8), (8, 3)]),
        (lambda x, y: (x.unsqueeze(2) * y.unsqueeze(0)).max(1), [(4, 8), (8, 3)]),
    ],
)
def test_near_misses(formula, shapes, pipeline):
    assert recognised(spelled(formula, *shapes), pipeline) == []


def test_an_axis_along_which_both_are_repeated_is_no_axis_of_a_product():
    ir = spelled(lambda x, y: (x.expand(5, 4, 8) * y.expand(5, 4, 8)).sum(2), (1, 4, 8), (1, 1, 8))
    assert recognised(ir) == []


def test_of_a_sum_over_rows_too_the_inner_sum_is_one():
    ir = spelled(lambda x, y: (x.unsqueeze(2) * y.unsqueeze(0)).sum((0, 1)), (4, 8), (8, 3))
    assert recognised(ir) == ["matmul"]


def test_a_product_that_others_read_is_left():
    def formula(x, y):
        product = x.unsqueeze(2) * y.unsqueeze(0)
        return product.sum(1), product

    assert recognised(spelled(formula, (4, 8), (8, 3))) == []


def test_a_sum_that_others_read_ends_the_region():
    def formula(x, y):
        total = (x.unsqueeze(2) * y.unsqueeze(0)).sum(1, keepdim=True)
        return total, total.squeeze(1)

    after = check_pass(spelled(formula, (4, 8), (8, 3)), PIPELINE).ir
    assert [node.op.name for node in after if node.sources] == ["call", "reshape"]
