"""How many bytes a graph takes at once, counted by hand."""

import pytest

from luminal_lab.core.parse import parse
from luminal_lab.errors import DimError
from luminal_lab.passes.memory import peak_bytes


def test_values_are_freed_after_their_last_reader():
    ir = parse("""
    graph g(%x: f32[100]) -> (%d) {
      %a = sin %x : f32[100]
      %b = sqrt %a : f32[100]
      %c = log2 %b : f32[100]
      %d = add %c, %a : f32[100]
    }
    """)
    peak = peak_bytes(ir)
    assert (peak.bytes, peak.node, peak.given) == (1200, ir["c"], 400)
    assert str(peak) == (
        "1,200 bytes at once, at %c = log2; inputs and constants: 400\n"
        "           400  %a = sin : f32[100]\n"
        "           400  %b = sqrt : f32[100]\n"
        "           400  %c = log2 : f32[100]"
    )


def test_views_and_their_like_are_their_source():
    ir = parse("""
    graph g(%x: f32[10, 10]) -> (%e) {
      %a = sin %x : f32[10, 10]
      %b = permute{axes = [1, 0]} %a : f32[10, 10]
      %c = after %b, %x : f32[10, 10]
      %f = stop_gradient %c : f32[10, 10]
      %d = expand{shape = [10, 10]} %f : f32[10, 10]
      %e = sqrt %d : f32[10, 10]
    }
    """)
    assert peak_bytes(ir).bytes == 800


def test_a_product_that_is_summed_is_never_there():
    ir = parse("""
    graph g(%x: f32[50, 60], %k: f32[50, 60]) -> (%s) {
      %a = sin %x : f32[50, 60]
      %p = mul %a, %k : f32[50, 60]
      %s = sum_reduce{axis = 0} %p : f32[1, 60]
    }
    """)
    peak = peak_bytes(ir)
    assert (peak.bytes, peak.node) == (4 * (50 * 60 + 60), ir["s"])  # %a is read by the sum


def test_what_no_output_needs_is_not_made():
    ir = parse("""
    graph g(%x: f32[10]) -> (%a) {
      %a = sin %x : f32[10]
      %dead = sqrt %a : f32[10]
      %y = reshape{shape = [1, 10]} %x : f32[1, 10]
      %big = expand{shape = [1000, 10]} %y : f32[1000, 10]
      %c = contiguous %big : f32[1000, 10]
    }
    """)
    assert (peak_bytes(ir).bytes, peak_bytes(ir).given) == (40, 40)
    assert str(peak_bytes(parse("graph g(%x: f32[2]) -> (%x) {}"))) == (
        "0 bytes at once; inputs and constants: 8"
    )


def test_a_call_has_several_results_each_with_its_own_readers():
    ir = parse("""
    graph g(%x: f32[100]) -> (%d) {
      %c = call{body = two} %x : (f32[100], f32[100])
      %a = pick{index = 0} %c : f32[100]
      %b = pick{index = 1} %c : f32[100]
      %e = sqrt %a : f32[100]
      %f = sqrt %e : f32[100]
      %d = add %f, %b : f32[100]
    }

    graph two(%x: f32[100]) -> (%s, %t) {
      %s = sin %x : f32[100]
      %t = sqrt %x : f32[100]
    }
    """)
    assert peak_bytes(ir).bytes == 1200


def test_symbolic_dims_need_a_size():
    ir = parse("graph g(%x: f32[n]) -> (%y) { %y = sin %x : f32[n] }")
    assert peak_bytes(ir, {"n": 7}).bytes == 28
    with pytest.raises(DimError):
        peak_bytes(ir)


def test_many_values_are_shown_in_one_line():
    lines = "\n".join(f"%a{k} = sin %x : f32[10]" for k in range(12))
    names = ", ".join(f"%a{k}" for k in range(12))
    peak = peak_bytes(parse(f"graph g(%x: f32[10]) -> ({names}) {{ {lines} }}"))
    assert str(peak).splitlines()[-1] == "           160  4 more"
