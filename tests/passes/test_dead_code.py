"""`dce`: what no output needs is gone, and nothing else."""

from hypothesis import given

from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from tests.core.graphs import DIMS, graphs
from tests.passes.running import check_pass, run_passes


@given(graphs())
def test_what_is_left_is_what_the_outputs_reach_and_the_inputs(ir):
    after = check_pass(ir, "dce", dims=DIMS).ir
    assert {n.id for n in after} == ir.ancestors(ir.outputs) | set(ir.input_ids)
    assert all(node is ir[node.id] for node in after)
    assert (after.signature, after.next_id) == (ir.signature, ir.next_id)


def test_each_node_that_goes_is_a_step_of_its_own():
    ir = parse(
        "graph g(%x: f32[2]) -> (%x) {\n  %a = sin %x : f32[2]\n  %b = add %a, %a : f32[2]\n}"
    )
    snapshot = run_passes(ir, "dce").snapshots[-1]
    assert [str(firing) for firing in snapshot.firings] == [
        "unused: erased %b",
        "unused: erased %a",
    ]
    for step in snapshot.steps():
        verify(step)


def test_it_says_what_a_node_is_needed_for():
    ir = parse(
        "graph g(%x: f32[2], %z: f32[2]) -> (%b) {\n"
        "  %a = sin %x : f32[2]\n  %b = add %a, %a : f32[2]\n  %d = sin %a : f32[2]\n}"
    )
    compiled = run_passes(ir, "dce")
    assert [str(compiled.why_not("unused", name)) for name in "abz"] == [
        "unused leaves %a: an output needs it, by way of %b.",
        "unused leaves %b: it is an output.",
        "unused leaves %z: it is an input, which the signature promises.",
    ]
    assert str(compiled.why_not("unused", "d")) == "unused did fire: Pass 1, dce, firing 1."
