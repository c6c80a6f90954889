"""`views`: chains of views keep their values, and read what they read before."""

import numpy as np
from hypothesis import given

from luminal_lab.core.ops import Slice
from luminal_lab.core.parse import parse
from luminal_lab.core.views import view_of
from luminal_lab.errors import ShapeError
from tests.core.graphs import DIMS, graphs, views
from tests.expect import error_of
from tests.passes.chains import chains
from tests.passes.running import check_pass, run_passes, values_of


@given(graphs())
def test_random_graphs_keep_their_bits(ir):
    check_pass(ir, "views", licence=(), dims=DIMS)


@given(chains(views))
def test_chains_of_views_keep_their_bits(ir):
    check_pass(ir, "views", licence=(), dims=DIMS)


@given(chains(views))
def test_a_composition_reads_where_the_chain_read(ir):
    after = run_passes(ir, "views").ir
    for old, new in zip(ir.outputs, after.outputs, strict=True):
        (base, chain), (same, view) = view_of(ir, old), view_of(after, new)
        assert base.id == same.id
        if 0 not in chain.base + chain.shape:  # of nothing an index says nothing
            assert chain.index == view.index


def test_an_error_that_only_a_run_can_find_is_still_found():
    ir = parse(
        "graph g(%x: f32[8], %y: f32[n]) -> (%b, %y) {\n"
        "  %a = slice{start = [0], stop = [5], step = [1]} %x : f32[5]\n"
        "  %b = slice{start = [0], stop = [n], step = [1]} %a : f32[n]\n}"
    )
    data = {"x": np.zeros(8, np.float32), "y": np.zeros(6, np.float32)}
    for graph in (ir, check_pass(ir, "views, push-views, dce").ir):
        error = error_of(lambda graph=graph: values_of(graph, data, {"n": 6}), ShapeError)
        assert error.message == "slice: 0:6:1 is not within axis 0 of (5,)"


def test_slices_of_slices_are_one_however_deep():
    lines = "".join(
        f"  %s{k + 1} = slice{{start = [1], stop = [{32 - k}], step = [1]}} %s{k} : f32[{31 - k}]\n"
        for k in range(8)
    )
    ir = parse(f"graph g(%s0: f32[32]) -> (%s8) {{\n{lines}}}")
    after = check_pass(ir, "views, dce").ir
    (cut,) = (node for node in after if node.sources)
    assert cut.op == Slice((8,), (32,), (1,))
