"""`merge-reductions`: what is merged computes the same, for empty axes and special values too."""

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.ops import Expand, MaxReduce, Reshape, SumReduce
from luminal_lab.core.parse import parse
from tests.core.graphs import DIMS, N, graphs
from tests.passes.chains import chains
from tests.passes.running import check_pass, run_passes


def reductions(draw, graph, x):
    """Draw a reduction, or a reshape or expand that may stand before or between two."""
    axis = draw(st.integers(0, max(len(x.shape) - 1, 0)))
    ones = tuple(dim for dim in x.shape if dim != 1)
    shapes = [ones, (*ones, 1), (1, *ones), (*ones[:1], 1, *ones[1:])]
    wide = tuple(draw(st.sampled_from([2, 3, 0, N])) if dim == 1 else dim for dim in x.shape)
    op = draw(st.sampled_from([SumReduce(axis), MaxReduce(axis), MaxReduce(axis)]))
    views = Reshape(draw(st.sampled_from(shapes))), Expand(wide)
    return draw(st.sampled_from([op, op, *views])), [x]


@given(graphs())
def test_random_graphs_keep_their_values(ir):
    check_pass(ir, "merge-reductions", dims=DIMS)


@given(chains(reductions))
def test_random_reductions_keep_their_values(ir):
    check_pass(ir, "merge-reductions", dims=DIMS)


@pytest.mark.parametrize("size", [2, 9, 33])
def test_of_three_maxima_one_is_left(size):
    ir = parse(
        f"graph g(%x: f32[{size}, 3, n]) -> (%c) {{\n"
        f"  %a = max_reduce{{axis = 2}} %x : f32[{size}, 3, 1]\n"
        f"  %b = max_reduce{{axis = 1}} %a : f32[{size}, 1, 1]\n"
        f"  %c = max_reduce{{axis = 0}} %b : f32[1, 1, 1]\n}}"
    )
    after = check_pass(ir, "merge-reductions, views, dce").ir
    assert [node.op.name for node in after] == ["input", "reshape", "max_reduce"]


def test_a_reduction_that_is_an_output_stays():
    ir = parse(
        "graph g(%x: f32[2, 3]) -> (%a, %b) {\n"
        "  %a = max_reduce{axis = 1} %x : f32[2, 1]\n"
        "  %b = max_reduce{axis = 0} %a : f32[1, 1]\n}"
    )
    assert run_passes(ir, "merge-reductions").ir is ir
