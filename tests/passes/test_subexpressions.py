"""`cse`: equal nodes become one; what must stay itself does."""

from hypothesis import given

from luminal_lab.core.ops import HostCall, Input, Random
from luminal_lab.core.parse import parse
from tests.core.graphs import DIMS, graphs
from tests.passes.running import check_pass, run_passes


@given(graphs())
def test_random_graphs_keep_their_values(ir):
    after = check_pass(ir, "cse", licence=(), dims=DIMS).ir
    keys = [
        (n.op, tuple(sorted(n.sources)) if n.op.commutative else n.sources)
        for n in after
        if not isinstance(n.op, Input)
    ]
    assert len(set(keys)) == len(keys)


@given(graphs())
def test_a_graph_twice_becomes_the_graph_once(ir):
    once = run_passes(ir, "dce, cse").ir
    twice = run_passes(doubled(once), "cse").ir
    assert len(twice) == len(once)


def doubled(ir):
    """Return a graph that computes all outputs of another twice."""
    table = ir.table.copy()
    into = {}
    for node in ir:
        if isinstance(node.op, Input):
            into[node.id] = node.id
            continue
        into[node.id] = table.size
        sources = tuple(into[id] for id in node.sources)
        meta = node.meta._replace(name=None)
        table.set(table.size, node._replace(id=table.size, sources=sources, meta=meta))
    outputs = (*ir.output_ids, *(into[id] for id in ir.output_ids))
    return type(ir)(table, ir.input_ids, outputs, name=ir.name, carries=ir.carries)


def test_two_outputs_that_become_one_keep_both_carries():
    ir = parse("""graph g(%a: f32[2], %b: f32[2]) -> (%p => %a, %q => %b) {
  %p = add %a, %b : f32[2]
  %q = add %b, %a : f32[2]
}""")
    after = run_passes(ir, "cse").ir
    p = ir["p"].id
    assert after.output_ids == (p, p)
    assert after.carries == ((p, ir["a"].id), (p, ir["b"].id))


def test_dropouts_of_two_call_sites_stay_two():
    ir = parse("""graph g() -> (%c) {
  %a = random{seed = 7, stream = 0} : f32[8]
  %b = random{seed = 7, stream = 1} : f32[8]
  %c = add %a, %b : f32[8]
}""")
    assert sum(isinstance(node.op, Random) for node in run_passes(ir, "cse").ir) == 2


def test_a_function_of_the_host_is_called_as_often_as_it_is_written():
    ir = parse("""graph g() -> (%a, %b) {
  %a = host_call{function = "now"} : f64[1]
  %b = host_call{function = "now"} : f64[1]
}""")
    after = run_passes(ir, "cse").ir
    assert after is ir
    assert sum(isinstance(node.op, HostCall) for node in after) == 2


def test_nodes_out_of_the_order_of_their_ids():
    ir = parse("""graph g(%x: f32[2]) -> (%9, %3) {
  %9 = sin %x : f32[2]
  %3 = sin %x : f32[2]
  %5 = sqrt %9 : f32[2]
}""")
    assert str(run_passes(ir, "cse").ir).splitlines()[1:] == [
        "  %9 = sin %x : f32[2]",
        "  %5 = sqrt %9 : f32[2]",
        "}",
    ]


def test_it_says_why_two_nodes_stay_two():
    ir = parse("""graph g(%x: f32[2], %y: f32[2]) -> (%d) {
  %a = add %x, %y : f32[2]
  %b = add %x, %x : f32[2]
  %s = sin %a : f32[2]
  %c = mul %b, %s : f32[2]
  %d = add %c, %y : f32[2]
}""")
    compiled = run_passes(ir, "cse")
    assert str(compiled.why_not("duplicate", "a")) == (
        "duplicate finds nothing equal to %a. %b comes nearest, but it reads %x and %x, and %a "
        "reads %x and %y."
    )
    assert str(compiled.why_not("cse", "s")) == "duplicate finds no node that is sin, but %s."
