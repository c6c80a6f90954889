"""`inline`: the nodes of a body take the place of its call, and come from where the call did."""

from hypothesis import given

from luminal_lab.core import edit
from luminal_lab.core.ir import IR, in_order
from luminal_lab.core.ops import Call, Sin
from luminal_lab.core.origin import Origin
from luminal_lab.core.parse import parse
from luminal_lab.passes.inlining import Inlining
from tests.core.graphs import DIMS, graphs
from tests.passes.running import check_pass, run_passes

TEXT = """graph g(%x: f32[2]) -> (%y) {
  %y = call{body = outer} %x : f32[2] @ block "cell 3":7 "y = f(x)"
}

graph outer(%p: f32[2]) -> (%q) {
  %s = sin %p : f32[2] @ elsewhere "other":1 "s"
  %q = call{body = inner} %s : f32[2]
}

graph inner(%p: f32[2]) -> (%r) {
  %r = sqrt %p : f32[2]
}"""


@given(graphs())
def test_random_graphs_keep_their_bits(ir):
    after = check_pass(ir, "inline", licence=(), dims=DIMS).ir
    calls = [node for node in after if isinstance(node.op, Call)]
    assert not any(after.users(call) or after.is_output(call) for call in calls)


def test_one_level_is_one_step_and_origins_are_those_of_the_call():
    ir = parse(TEXT)
    snapshot = run_passes(ir, "inline").snapshots[-1]
    assert [str(firing) for firing in snapshot.firings] == [
        "body-of-outer: %y → %s, %q",
        "body-of-inner: %q → %r",
    ]
    line = Origin("cell 3", 7, "y = f(x)")
    for node in snapshot.ir:
        if node.sources:
            assert (node.meta.origin, node.meta.scope) == (line, "block")
    assert [str(step).count(" = call") for step in snapshot.steps()] == [2, 1, 0]


def doubled(levels: int) -> IR:
    """Return a call of two calls of two calls …, and at last of `sin`."""
    text = "graph g(%x: f32[2]) -> (%y) { %y = call{body = b0} %x : f32[2] }\n"
    for level in range(levels):
        op = "sin" if level == levels - 1 else f"call{{body = b{level + 1}}}"
        text += f"graph b{level}(%p: f32[2]) -> (%r) {{ %q = {op} %p : f32[2]\n"
        text += f"  %r = {op} %q : f32[2] }}\n"
    return parse(text)


def test_calls_that_double_many_times_end():
    after = run_passes(doubled(10), "inline").ir
    assert [node.op for node in after.nodes if node.sources] == [Sin()] * 1024


def test_what_is_behind_a_call_is_lifted_a_few_times_only(monkeypatch):
    sorts: list[int] = []

    def counted(table, schedule):
        sorts.append(table.size)
        return in_order(table, schedule)

    monkeypatch.setattr(edit, "in_order", counted)
    run_passes(doubled(11), "inline")
    assert sum(sorts) < 100 * 2048


def test_only_what_is_named():
    ir = parse(TEXT)
    assert run_passes(ir, "inline{only = [inner]}").ir is ir
    after = run_passes(ir, "inline{only = [outer]}").ir
    assert [n.op.body.name for n in after if isinstance(n.op, Call)] == ["inner"]


def test_what_is_to_be_one_kernel_stays():
    """By its name, with the number that text gives to bodies of one name."""
    assert [Inlining().takes(name) for name in ("q4_k_by_int8", "q4_k_by_int8_12")] == [False] * 2
    assert Inlining().takes("times_by_int8")
    assert Inlining(only=("q4_k_by_int8",)).takes("q4_k_by_int8_2")
