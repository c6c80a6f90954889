"""`single-reductions`: values survive, down to the sign of zeros where no licence is given."""

from hypothesis import given

from luminal_lab.core.parse import parse
from tests.core.graphs import DIMS, along_an_axis, elementwise, graphs
from tests.passes.chains import chains
from tests.passes.running import check_pass, run_passes


@given(graphs())
def test_random_graphs_keep_their_values(ir):
    check_pass(ir, "single-reductions", dims=DIMS)


@given(chains(along_an_axis, elementwise))
def test_random_reductions_keep_their_bits_without_a_licence(ir):
    check_pass(ir, "single-reductions", licence=(), dims=DIMS)


def test_a_size_that_is_1_only_sometimes_is_reduced():
    ir = parse(
        "graph g[n: 1..2](%x: f32[4, n]) -> (%y) { %y = max_reduce{axis = 1} %x : f32[4, 1] }"
    )
    assert run_passes(ir, "single-reductions").ir is ir
