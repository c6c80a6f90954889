"""`push-views`: views move, values keep their bits, and nothing moves back."""

from hypothesis import given

from luminal_lab.core.parse import parse
from tests.core.graphs import DIMS, along_an_axis, elementwise, graphs, views
from tests.passes.chains import chains
from tests.passes.running import check_pass, check_values, run_passes


@given(graphs())
def test_random_graphs_keep_their_bits(ir):
    check_pass(ir, "push-views", licence=(), dims=DIMS)


@given(chains(elementwise, views, views))
def test_random_chains_keep_their_bits(ir):
    check_pass(ir, "push-views", licence=(), dims=DIMS)


@given(chains(elementwise, views, views, along_an_axis))
def test_with_views_and_dce_it_comes_to_an_end(ir):
    check_pass(ir, "(push-views, views, dce){rounds = 20}", licence=(), dims=DIMS)


def test_a_chain_is_computed_on_what_is_left_of_it():
    ir = parse(
        "graph g(%x: f32[n, 1], %c: f32[1, 9]) -> (%f) {\n"
        "  %a = expand{shape = [n, 9]} %x : f32[n, 9]\n"
        "  %b = sqrt %a : f32[n, 9]\n"
        "  %c9 = expand{shape = [n, 9]} %c : f32[n, 9]\n"
        "  %d = add %b, %c9 : f32[n, 9]\n"
        "  %e = sin %d : f32[n, 9]\n"
        "  %f = slice{start = [0, 3], stop = [n, 4], step = [1, 1]} %e : f32[n, 1]\n}"
    )
    after = check_pass(ir, "(push-views, views, dce){rounds = 5}").ir
    assert {node.op.name: str(node.type) for node in after if len(node.sources) == 1} == {
        "sqrt": "f32[n, 1]",
        "slice": "f32[1, 1]",
        "expand": "f32[n, 1]",
        "sin": "f32[n, 1]",
    }


def test_each_firing_alone_keeps_values():
    ir = parse(
        "graph g(%x: f32[3, 4]) -> (%d) {\n"
        "  %a = permute{axes = [1, 0]} %x : f32[4, 3]\n"
        "  %b = sqrt %a : f32[4, 3]\n"
        "  %c = sin %b : f32[4, 3]\n"
        "  %d = permute{axes = [1, 0]} %c : f32[3, 4]\n}"
    )
    snapshot = run_passes(ir, "push-views").snapshots[-1]
    assert len(snapshot.firings) == 2
    for step in snapshot.steps():
        check_values(ir, step, ())
    assert [node.op.name for node in snapshot.ir] == ["input", "sqrt", "sin"]
