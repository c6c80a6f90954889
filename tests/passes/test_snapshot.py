"""Snapshots: firings, steps, the maps across a pass, and that all of it is read off the log."""

from typing import Any

from hypothesis import given

import luminal_lab as ll
from luminal_lab.core.ops import Exp2
from luminal_lab.core.parse import parse
from luminal_lab.core.printer import op_text
from luminal_lab.core.verify import verify
from luminal_lab.passes.base import graph_pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.diff import diff
from luminal_lab.passes.pattern import recip, variables
from luminal_lab.passes.rule import Rule
from tests.core.graphs import graphs
from tests.expect import error_of
from tests.passes import running

assert running  # imports all passes
x, y, z = variables("x y z")
TEXT = """graph g(%x: f32[2], %y: f32[2]) -> (%r) {
  %one = constant{value = 1.0} : f32[2]
  %p = mul %x, %one : f32[2]
  %q = mul %p, %one : f32[2]
  %s = add %q, %y : f32[2]
  %r = mul %s, %one : f32[2]
}"""


def compiled(*passes):
    return compile_ir(parse(TEXT), *passes)


def test_steps_go_firing_by_firing():
    result = compiled(Rule("mul-one", x * 1, x), Rule("swap", x + y, (y * x) * 1), "dce")
    first, second, third = result.snapshots[1:]
    steps = first.steps()
    assert len(steps) == len(first.firings) + 1 == 4
    assert [list(map(str, f.before)) for f in first.firings] == [["%p"], ["%q"], ["%r"]]
    assert [list(map(str, f.after)) for f in first.firings] == [["%x"], ["%x"], ["%s"]]
    assert str(steps[0]) == str(result.snapshots[0].ir)
    assert str(steps[-1]) == str(first.ir)
    assert [str(step) for step in steps] == [str(steps[k]) for k in range(4)]
    assert [str(step) for step in steps[1:3]] == [str(steps[1]), str(steps[2])]
    assert "%q = mul %x, %one" in str(steps[1])
    assert "%s = add %x, %y" in str(steps[2])
    for step in [*steps, *second.steps(), *third.steps()]:
        verify(step)
    assert [str(f.before[0]) for f in third.firings] == ["%r", "%s", "%q", "%p", "%one"]
    assert {f.rule for f in third.firings} == {"unused"}


def test_maps_forward_and_back():
    double = Rule("double", x + y, (x * y) * 1)
    result = compiled(Rule("mul-one", x * 1, x), "dce", double)
    merged, cleaned, grown = result.snapshots[1:]
    names = [node.name for node in merged.before]
    assert {name: str(merged.forward(name)) for name in names} == {
        "x": "(%x,)",
        "y": "(%y,)",
        "one": "(%one,)",
        "p": "(%x,)",
        "q": "(%x,)",
        "s": "(%s,)",
        "r": "(%s,)",
    }
    assert str(merged.back("x")) == "(%x, %p, %q)"
    assert str(merged.back("s")) == "(%s, %r)"
    assert cleaned.forward("one") == ()
    (new,) = grown.forward("s")
    assert new.op.name == "mul"
    inner = grown.ir[new.sources[0]]
    assert str(grown.back(new)) == "(%s,)"
    assert str(grown.back(inner)) == "(%s,)"  # it took nobody's place, but was made from it


def test_what_comes_back_stands_for_itself():
    @graph_pass
    def there_and_back(ir, edit):
        """Replace a node, and put it back."""
        new = edit.insert(Exp2(), "x", like="p", rule="there")
        edit.replace("q", new, rule="there")
        edit.replace(new, "q", rule="back")

    snapshot = compiled(there_and_back).snapshots[1]
    assert str(snapshot.forward("q")) == "(%q,)"
    assert snapshot.diff().rewired == ()


def test_differences():
    result = compiled(Rule("mul-one", x * 1, x), "dce", Rule("swap", x + y, (y * x) * 1))
    assert repr(result.snapshots[1].diff()) == "<Diff: 0 added, 0 removed, 2 rewired, 5 kept>"
    assert repr(result.snapshots[2].diff()) == "<Diff: 0 added, 4 removed, 0 rewired, 3 kept>"
    assert repr(diff(result.written, result.ir)) == "<Diff: 3 added, 4 removed, 1 rewired, 2 kept>"
    assert str(result.snapshots[2].diff()) == (
        "--- before\n"
        "+++ after\n"
        "@@ -1,7 +1,3 @@\n"
        " graph g(%x: f32[2], %y: f32[2]) -> (%s) {\n"
        "-  %one = constant{value = 1.0} : f32[2]\n"
        "-  %p = mul %x, %one : f32[2]\n"
        "-  %q = mul %x, %one : f32[2]\n"
        "   %s = add %x, %y : f32[2]\n"
        "-  %r = mul %s, %one : f32[2]\n"
        " }"
    )
    same = diff(result.ir, result.ir)
    assert same.is_empty
    assert str(same) == "no difference"
    no_graph: Any = "graph"
    assert str(error_of(lambda: diff(result.ir, no_graph))).startswith("diff: needs an IR")


def test_nodes_of_two_graphs_with_one_id_are_not_taken_for_one():
    other = parse("graph g(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    found = diff(parse(TEXT), other)
    assert [str(node) for node in found.added] == ["%y"]
    assert "%y" in [str(node) for node in found.removed]


def test_a_cell_that_ends_in_one_shows_it_in_a_line():
    snapshot = compiled(Rule("mul-one", x * 1, x)).snapshots[1]
    assert repr(snapshot.firings[0]) == f"<Firing {snapshot.firings[0]}>"
    assert repr(snapshot.steps()) == "<Steps: 4 graphs, 3 firings between them>"


def test_text():
    result = compiled(Rule("mul-one", x * 1, x), Rule("r", recip(recip(x)), x))
    assert [str(snapshot) for snapshot in result.snapshots] == [
        "written: 7 → 7 nodes; well-formed",
        "mul-one: 7 → 7 nodes; mul-one ×3; well-formed",
        "r: 7 → 7 nodes; no change; well-formed",
    ]


@given(graphs())
def test_every_log_leads_from_the_graph_before_to_the_one_after(ir):
    double = Rule("double", x + y, (x * y) * 1)
    result = compile_ir(ir, "simplify", double, "cse, dce", "depth-first")
    for snapshot in result.snapshots:
        steps = list(snapshot.steps())
        assert str(steps[0]) == str(snapshot.before)
        assert str(steps[-1]) == str(snapshot.ir)
        for node in snapshot.ir:
            for old in snapshot.back(node):
                assert old in snapshot.before
        for node in snapshot.before:
            for new in snapshot.forward(node):
                assert node.id in {old.id for old in snapshot.back(new)}
                assert node.types == new.types


def test_what_was_replaced_by_what_became_part_of_a_call_is_that_call():
    cx = ll.Graph()
    cx.tensor((2, 3), name="x").softmax(-1).retrieve()
    shot = cx.compile("recognise")["recognise"]
    # The power of two becomes part of an exp, and that part of the softmax.
    (power,) = (node for node in shot.before if node.op.name == "exp2")
    (call,) = shot.forward(power)
    assert op_text(call.op) == "call{body = softmax}"
    assert power in shot.back(call)
