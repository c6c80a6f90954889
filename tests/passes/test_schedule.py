"""`depth-first`: an order that takes less memory, or the one that was; and what it says of it."""

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Table
from luminal_lab.core.ops import Add, Contiguous, Expand, Input, SumReduce
from luminal_lab.core.parse import parse
from luminal_lab.passes.memory import peak_bytes
from luminal_lab.passes.schedule import Plan
from tests.core.graphs import DIMS, graphs
from tests.passes.running import check_pass, run_passes


@given(graphs())
def test_random_graphs_keep_their_bits_and_take_no_more(ir):
    after = check_pass(ir, "depth-first", licence=(), dims=DIMS).ir
    assert {node.id: node for node in after} == {node.id: node for node in ir}
    assert peak_bytes(after, DIMS).bytes <= peak_bytes(ir, DIMS).bytes


@given(graphs())
def test_a_plan_counts_as_the_model_of_memory_does(ir):
    plan = Plan(ir)
    sizes = plan.sizes(DIMS)
    assert sizes is not None
    assert plan.peak(plan.ids, sizes) == peak_bytes(ir, DIMS).bytes
    for order in (plan.depth_first(sizes), plan.freeing_first(sizes)):
        assert sorted(order) == sorted(plan.ids)
        in_order = IR(ir.table, ir.input_ids, ir.output_ids, schedule=(*order, *plan.rest))
        assert [node.id for node in in_order][: len(order)] == order
        assert plan.peak(order, sizes) == peak_bytes(in_order, DIMS).bytes


@st.composite
def trees(draw):
    """Draw a tree of sums of copies of a size, as a graph that begins with one number."""
    edit = Edit(IR(Table(), (), ()))
    x = edit.insert(Input(DType.float32, (1,)))

    def grow(depth):
        if not depth or not draw(st.integers(0, 3)):
            return x
        number = edit.insert(Add(), grow(depth - 1), grow(depth - 1))
        wide = edit.insert(Expand((draw(st.integers(1, 9)),)), number)
        return edit.insert(SumReduce(0), edit.insert(Contiguous(), wide))

    return IR(edit.table, (x.id,), (grow(3).id,))


@given(trees())
def test_no_other_order_of_a_tree_in_which_a_node_follows_its_sources_takes_less(ir):
    plan = Plan(ir)
    sizes = plan.sizes({})
    assert sizes is not None

    def orders(id):
        """Yield every order that finishes one source before it begins the next."""
        for ids in permutations(plan.sources[id]):
            ways = [[]]
            for source in ids:
                ways = [
                    way + [n for n in more if n not in way]
                    for way in ways
                    for more in orders(source)
                ]
            yield from ([*way, id] for way in ways)

    every = [plan.peak(order, sizes) for order in orders(ir.output_ids[0])]
    assert plan.peak(plan.depth_first(sizes), sizes) == min(every)


def test_each_value_is_used_up_before_the_next_is_made():
    lines = [f"%{k} = random{{seed = 0, stream = {k}}} : f32[64]" for k in range(1, 6)]
    lines += [f"%{k + 10} = max_reduce{{axis = 0}} %{k} : f32[1]" for k in range(1, 6)]
    outputs = ", ".join(f"%{k + 10}" for k in range(1, 6))
    ir = parse(f"graph g() -> ({outputs}) {{\n" + "\n".join(lines) + "\n}")
    snapshot = run_passes(ir, "depth-first").snapshots[-1]
    (firing,) = snapshot.firings
    because = "at most 276 bytes are taken at once, and 1,284 were before"
    assert (firing.rule, firing.because) == ("less-memory", because)
    assert peak_bytes(snapshot.ir).bytes == 256 + 5 * 4


@pytest.mark.parametrize(("bounds", "said"), [("", "n = 1,024"), ("[n: 2..24 by 16]", "n = 16")])
def test_symbols_count_as_large_as_they_may_be(bounds, said):
    ir = parse(f"""graph g{bounds}(%x: f32[1], %y: f32[n]) -> (%e) {{
  %a = contiguous %y : f32[n]
  %r = random{{seed = 0, stream = 0}} : f32[n]
  %b = sum_reduce{{axis = 0}} %a : f32[1]
  %c = sum_reduce{{axis = 0}} %r : f32[1]
  %e = add %b, %c : f32[1]
}}""")
    (firing,) = run_passes(ir, "depth-first").snapshots[-1].firings
    assert firing.because.startswith(f"with {said}, at most ")


@pytest.mark.parametrize(("least", "taken"), [(1, False), (15, False), (16, True)])
def test_an_order_that_is_worse_where_dims_are_small_is_not_taken(least, taken):
    # The 8 numbers that are left of n wait for the 9, or the one that is left of 9 waits for n.
    ir = parse(f"""graph g[n: {least}..1024]() -> (%one, %eight) {{
  %nine = random{{seed = 0, stream = 0}} : f32[9]
  %one = max_reduce{{axis = 0}} %nine : f32[1]
  %large = random{{seed = 0, stream = 1}} : f32[n]
  %most = max_reduce{{axis = 0}} %large : f32[1]
  %wide = expand{{shape = [8]}} %most : f32[8]
  %eight = contiguous %wide : f32[8]
}}""")
    snapshot = run_passes(ir, "depth-first").snapshots[-1]
    said = "with n = 1,024, at most 4,100 bytes are taken at once, and 4,104 were before"
    assert [firing.because for firing in snapshot.firings] == ([said] if taken else [])


def test_dims_that_fit_no_sizes_leave_the_order():
    ir = parse("""graph g[m: 4000..5000](%x: f32[1]) -> (%e) {
  %a = random{seed = 0, stream = 0} : f32[n - m]
  %b = random{seed = 0, stream = 1} : f32[n - m]
  %c = sum_reduce{axis = 0} %a : f32[1]
  %d = sum_reduce{axis = 0} %b : f32[1]
  %e = add %c, %d : f32[1]
}""")
    assert run_passes(ir, "depth-first").ir is ir
