"""Outlines: what they tell of a node is enough to leave out rules, and never too much."""

from hypothesis import given

from luminal_lab.core.ir import IR
from luminal_lab.core.parse import parse
from luminal_lab.passes.pattern import Outlines, find, resembles, variables
from luminal_lab.passes.reassociation import REASSOCIATE
from luminal_lab.passes.simplify import SIMPLIFY
from tests.core.graphs import graphs

RULES = (*SIMPLIFY, *REASSOCIATE)
x, y, z = variables("x y z")


@given(graphs())
def test_a_node_that_matches_resembles_the_pattern(ir: IR) -> None:
    for node in ir:
        for rule in RULES:
            if next(find(rule.pattern, node, ir), None) is not None:
                assert resembles(rule.pattern, node, ir), (rule, node)


@given(graphs())
def test_nodes_of_one_outline_resemble_the_same_patterns(ir: IR) -> None:
    outlines, known = Outlines(ir.table), dict[object, list[bool]]()
    for node in ir:
        fits = [resembles(rule.pattern, node, ir) for rule in RULES]
        assert known.setdefault(outlines.of(node), fits) == fits


def test_an_outline_tells_one_node_from_two_equal_ones() -> None:
    ir = parse("""graph g(%x: f32[2], %y: f32[2]) -> (%a, %b, %c) {
      %p = mul %x, %y : f32[2]
      %q = mul %x, %y : f32[2]
      %r = mul %y, %y : f32[2]
      %a = add %p, %q : f32[2]
      %b = add %p, %p : f32[2]
      %c = add %p, %r : f32[2]
    }""")
    outlines = Outlines(ir.table)
    assert len({outlines.of(ir[name]) for name in "abc"}) == 3
    twice = [name for name in "abc" if resembles(x + x, ir[name], ir)]
    shared = [name for name in "abc" if resembles(x * y + x * z, ir[name], ir)]
    assert (twice, shared) == (["b"], ["a", "b", "c"])
    assert not resembles((x * y) * z, ir["a"], ir)


def test_an_outline_tells_zeros_apart() -> None:
    ir = parse("""graph g(%x: f32[2]) -> (%a, %b) {
      %p = constant{value = 0.0} : f32[2]
      %q = constant{value = -0.0} : f32[2]
      %a = add %x, %p : f32[2]
      %b = add %x, %q : f32[2]
    }""")
    outlines = Outlines(ir.table)
    assert outlines.of(ir["a"]) != outlines.of(ir["b"])
    assert [resembles(x + -0.0, ir[name], ir) for name in "ab"] == [False, True]
