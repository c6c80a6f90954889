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
        "graph g(%x: f32[3, 4], %y: f32[3, 4]) -> (%e) {\n"
        "  %a = permute{axes = [1, 0]} %x : f32[4, 3]\n"
        "  %b = permute{axes = [1, 0]} %y : f32[4, 3]\n"
        "  %c = add %a, %b : f32[4, 3]\n"
        "  %d = sin %c : f32[4, 3]\n"
        "  %e = permute{axes = [1, 0]} %d : f32[3, 4]\n}"
    )
    snapshot = run_passes(ir, "push-views").snapshots[-1]
    assert len(snapshot.firings) == 2
    for step in snapshot.steps():
        check_values(ir, step, ())
    assert [node.op.name for node in snapshot.ir] == ["input", "input", "add", "sin"]


def test_a_view_that_meets_another_does_not_stop_half_way():
    """Before the cast it would be the view of both that `where` reads, and go back behind it."""
    ir = parse(
        "graph g(%x: f16[3, 4], %y: f32[4, 3], %c: bool[4, 3]) -> (%f) {\n"
        "  %a = permute{axes = [1, 0]} %x : f16[4, 3]\n"
        "  %b = cast{dtype = f32} %a : f32[4, 3]\n"
        "  %z = constant{value = 0.0} : f32[4, 3]\n"
        "  %d = where %c, %z, %b : f32[4, 3]\n"
        "  %f = permute{axes = [1, 0]} %d : f32[3, 4]\n}"
    )
    after = check_pass(ir, "push-views", licence=()).ir
    assert [node.op.name for node in after if node.sources] == ["permute", "cast", "where"]
