"""Graphs as definitions: golden texts, what is kept, what has none; and random graphs."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given

from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.parse import parse
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import flops
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.terms import Fold, Read, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.session import Graph
from luminal_lab.tensor.lazy import Lazy
from tests.conftest import Golden
from tests.core.graphs import data_for
from tests.expect import error_of
from tests.kernels.judging import check_same, definable, defined, interpreted, sums


def matmul(cx: Graph) -> Lazy:
    return cx.tensor((64, 128), name="a") @ cx.tensor((128, 10), name="b")


def softmax(cx: Graph) -> Lazy:
    return cx.tensor((4, 8), name="x").softmax(-1)


def layer_norm(cx: Graph) -> Lazy:
    n = cx.dim("n", 1, 64)
    x, weight, bias = (
        cx.tensor(s, name=name) for s, name in (((n, 32), "x"), (32, "w"), (32, "b"))
    )
    return x.layer_norm(-1) * weight + bias


def convolution(cx: Graph) -> Lazy:
    image, weight = cx.tensor((2, 3, 8, 8), name="image"), cx.tensor((4, 3, 3, 3), name="weight")
    return image.conv(weight, stride=2, padding=1)


def scores(cx: Graph) -> Lazy:
    q, k = cx.tensor((4, "s", 16), name="q"), cx.tensor((4, "t", 16), name="k")
    return (q @ k.transpose(1, 2)) * 0.25


def causal_attention(cx: Graph) -> Lazy:
    q, k, v = (cx.tensor((1, 4, "s", 16), name=name) for name in "qkv")
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def embedding(cx: Graph) -> Lazy:
    return cx.tensor((100, 16), name="table").embedding(cx.tensor("n", "int64", name="ids"))


def losses(cx: Graph) -> Lazy:
    x, target = cx.tensor(("b", 10), name="x"), cx.tensor("b", "int64", name="target")
    return x.log_softmax(-1).gather(1, target.unsqueeze(1)).squeeze(1) * -1


def padded_concat(cx: Graph) -> Lazy:
    return cx.tensor((4, 6), name="x").concat(cx.tensor((4, 3), name="y"), axis=1).sin()


def padded(cx: Graph) -> Lazy:
    return cx.tensor(("n", 6), name="x").pad([(1, 2), (0, 1)])


def gelu(cx: Graph) -> Lazy:
    return cx.tensor("n", name="x").gelu()


def heads(cx: Graph) -> Lazy:
    return cx.tensor(("s", 64), name="x").reshape("s", 4, 16).permute(1, 0, 2)


def dropout(cx: Graph) -> Lazy:
    return cx.tensor((4, 6), name="x").dropout(0.5)


def cumulative(cx: Graph) -> Lazy:
    return cx.tensor((2, 8), "int32", name="x").cumsum(1)


def nothing(cx: Graph) -> Lazy:
    return cx.tensor((3, 0), name="x").sum(1) + cx.tensor((3, 0), name="y").sin().sum(1)


CASES = [
    matmul, softmax, layer_norm, convolution, scores, causal_attention, embedding, losses,
    padded_concat, padded, gelu, heads, dropout, cumulative, nothing,
]  # fmt: skip
SIZES = {"n": 3, "s": 4, "t": 5, "b": 2}


def built(case: Callable[[Graph], Lazy]) -> IR:
    cx = Graph()
    case(cx).retrieve()
    return cx.ir


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_text_of_a_definition(case: Callable[[Graph], Lazy], golden: Golden) -> None:
    definition = define(built(case))
    golden(f"{definition}\n", f"golden/{case.__name__}.kernel")
    assert parse_definition(str(definition)) == definition


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_it_means_what_the_graph_means(case: Callable[[Graph], Lazy]) -> None:
    ir = built(case)
    rng = np.random.default_rng(0)
    data: dict[str, Array] = {}
    for node in ir.inputs:
        numbers = rng.standard_normal([evaluate(dim, SIZES) for dim in node.shape])
        whole = node.dtype.kind == "int"
        data[node.name] = (numbers > 0 if whole else numbers).astype(node.dtype.numpy)
    for keep in (None, ()):
        (ours,) = defined(define(ir, keep=keep), ir, data, SIZES)
        (theirs,) = interpreted(ir, data, SIZES)
        check_same(ours, theirs, exactly=not sums(ir))


@given(definable())
def test_a_random_graph_means_the_same(ir: IR) -> None:
    data = data_for(ir)
    for ours, theirs in zip(defined(define(ir), ir, data), interpreted(ir, data), strict=True):
        check_same(ours, theirs, exactly=not sums(ir))


@given(definable())
def test_a_random_text_reads_back(ir: IR) -> None:
    for keep in (None, (), ir.output_ids[:1]):
        definition = define(ir, keep=keep)
        assert parse_definition(str(definition)) == definition
        assert canonical(definition) == definition


# -- what is kept ----------------------------------------------------------------------------------


def test_what_is_kept_can_be_said() -> None:
    ir = built(softmax)
    inline = define(ir, keep=())
    assert not inline.locals
    assert sum(isinstance(part, Fold) for part in walk(inline.outputs[0].term)) == 3
    exponential = next(node for node in ir if node.op.name == "exp2")
    (local,) = define(ir, keep=[exponential]).locals
    assert str(local) == ("s[i < 4, j < 8] = exp2((x[i, j] - (max k < 8: x[i, k])) * 1.442695)")


def test_a_reduction_read_once_for_each_element_is_no_local() -> None:
    text = """graph g(%x: f32[4, 6]) -> (%y) {
      %s = sum_reduce{axis = 1} %x : f32[4, 1]
      %r = sqrt %s : f32[4, 1]
      %y = reshape{shape = [4]} %r : f32[4]
    }"""
    assert str(define(parse(text)).outputs[0]) == "y[i < 4] = sqrt(sum j < 6: x[i, j])"
    twice = define(parse(text.replace("sqrt %s", "mul %s, %s")))
    (line,) = twice.lines
    assert str(line) == "y[i < 4] = (sum j < 6: x[i, j]) * (sum j < 6: x[i, j])"
    assert flops(twice) == 4 * (6 + 1)


def test_an_output_that_others_read_is_made_once() -> None:
    ir = parse("""graph g(%x: f32[4, 6]) -> (%s, %y) {
      %s = sum_reduce{axis = 1} %x : f32[4, 1]
      %y = sqrt %s : f32[4, 1]
    }""")
    assert str(define(ir)).splitlines()[1:] == [
        "  s_2[i < 4] = sum j < 6: x[i, j]",
        "  s[i < 4, k < 1] = s_2[i]",
        "  y[i < 4, k < 1] = sqrt(s_2[i])",
    ]


def test_long_and_deep_terms_are_cut() -> None:
    lines = [f"%y{k + 1} = add %y{k}, %y{k} : f32[2]" for k in range(40)]
    doubled = parse("graph g(%y0: f32[2]) -> (%y40) {" + "\n".join(lines) + "}")
    definition = define(doubled, keep=())
    assert 4 < len(definition.locals) < 10
    assert parse_definition(str(definition)) == definition
    lines = [f"%y{k + 1} = sin %y{k} : f32[2]" for k in range(500)]
    deep = parse("graph g(%y0: f32[2]) -> (%y500) {" + "\n".join(lines) + "}")
    assert len(define(deep).locals) == 9


def test_a_kept_node_may_be_a_call() -> None:
    text = """graph g(%x: f32[2]) -> (%y) {
      %c = call{body = twice} %x : f32[2]
      %y = sin %c : f32[2]
    }
    graph twice(%a: f32[2]) -> (%b) {
      %b = add %a, %a : f32[2]
    }"""
    assert [str(line) for line in define(parse(text), keep=["c"]).lines] == [
        "b[i < 2] = x[i] + x[i]",
        "y[i < 2] = sin(b[i])",
    ]


# -- names and lookups -----------------------------------------------------------------------------


def test_names_are_the_last_words_and_differ() -> None:
    ir = parse("""graph g(%h0.x: f32[n], %h1.x: f32[n], %sum: f32[n], %0: f32[n]) -> (%n, %9) {
      %n = add %h0.x, %h1.x : f32[n]
      %9 = mul %sum, %0 : f32[n]
    }""")
    assert str(define(ir)).splitlines() == [
        "kernel g(x: f32[n], x_2: f32[n], sum_2: f32[n], A: f32[n]) -> (n_2: f32[n], O: f32[n])",
        "  n_2[i < n] = x[i] + x_2[i]",
        "  O[i < n] = sum_2[i] * A[i]",
    ]


GATHER = """graph g(%x: f32[8, 4], %i: i64[3, 4]) -> (%y) {
  %s = {view} : f32[8, 4]
  %y = gather{axis = 0} %s, %i : f32[3, 4]
}"""


def test_a_lookup_goes_through_what_does_no_arithmetic_with_the_place() -> None:
    ir = parse(GATHER.replace("{view}", "exp2 %x"))
    assert str(define(ir).outputs[0]) == "y[j < 3, k < 4] = exp2(x[i[j, k], k])"


def test_else_what_is_looked_up_becomes_a_local() -> None:
    ir = parse(GATHER.replace("{view}", "flip{axes = [0]} %x"))
    assert [str(line) for line in define(ir).lines] == [
        "s[j < 8, k < 4] = x[7 - j, k]",
        "y[l < 3, k < 4] = s[i[l, k], k]",
    ]


def test_a_place_that_is_known_is_no_lookup() -> None:
    ir = parse("""graph g(%x: f32[8, 4]) -> (%y) {
      %i = constant{value = 5} : i64[3, 4]
      %y = gather{axis = 0} %x, %i : f32[3, 4]
    }""")
    term = define(ir).outputs[0].term
    assert isinstance(term, Read)
    assert str(term) == "x[5, j]"


# -- what has none ---------------------------------------------------------------------------------


def test_what_has_no_index_notation() -> None:
    ir = parse("""graph g(%x: f32[4], %i: i64[2], %v: f32[2]) -> (%y) {
      %y = scatter{axis = 0, mode = add} %x, %i, %v : f32[4]
    }""")
    assert str(error_of(lambda: define(ir), DefinitionError)) == (
        "define: scatter has no index notation, so g is not a definition\n"
        "  %y = scatter{axis = 0, mode = add} %x, %i, %v : f32[4]\n"
        "hint: scatter is a kernel of its own: define what is before and after it"
    )


def test_what_only_orders_the_work_is_not_looked_at() -> None:
    ir = parse("""graph g(%x: f32[4], %i: i64[2], %v: f32[2]) -> (%y) {
      %s = scatter{axis = 0, mode = add} %x, %i, %v : f32[4]
      %y = after %x, %s : f32[4]
    }""")
    assert str(define(ir).outputs[0]) == "y[j < 4] = x[j]"


def test_a_call_of_several_results_cannot_be_kept() -> None:
    ir = parse("""graph g(%x: f32[2]) -> (%y) {
      %c = call{body = two} %x : (f32[2], f32[2])
      %y = pick{index = 1} %c : f32[2]
    }
    graph two(%a: f32[2]) -> (%a, %b) {
      %b = add %a, %a : f32[2]
    }""")
    assert str(error_of(lambda: define(ir, keep=["c"]), GraphError)) == (
        "define: %c has 2 results, and one array cannot keep them\n"
        "hint: keep what picks one of them"
    )


# -- locals by cost --------------------------------------------------------------------------------

ROW = """graph g(%x: f32[4, 64]) -> (%y) {
  %s = sum_reduce{axis = 1} %x : f32[4, 1]
  %e = expand{shape = [4, 64]} %s : f32[4, 64]
  %d = add %x, %e : f32[4, 64]
  %c = OP %d : f32[4, 64]
  %t = sum_reduce{axis = 1} %c : f32[4, 1]
  %f = expand{shape = [4, 64]} %t : f32[4, 64]
  %y = mul %c, %f : f32[4, 64]
}"""


def test_what_is_costly_and_read_in_two_lines_is_kept_and_what_is_cheap_is_not() -> None:
    costly = define(parse(ROW.replace("OP", "exp2")))
    assert [str(line) for line in costly.lines] == [
        "s[i < 4] = sum j < 64: x[i, j]",
        "c[i < 4, j < 64] = exp2(x[i, j] + s[i])",
        "t[i < 4] = sum j < 64: c[i, j]",
        "y[i < 4, j < 64] = c[i, j] * t[i]",
    ]
    cheap = define(parse(ROW.replace("OP %d", "add %d, %d")))
    assert [line.name for line in cheap.locals] == ["s", "t"]


def test_an_operand_that_costs_one_multiplication_is_no_local() -> None:
    """Each of its elements is read for 32 results, and made anew for each of them."""
    ir = parse("""graph g(%x: f32[8, 16], %w: f32[32, 16], %h: f32[8, 16]) -> (%y) {
      %m = mul %x, %h : f32[8, 16]
      %a = reshape{shape = [8, 1, 16]} %m : f32[8, 1, 16]
      %b = expand{shape = [8, 32, 16]} %a : f32[8, 32, 16]
      %c = reshape{shape = [1, 32, 16]} %w : f32[1, 32, 16]
      %d = expand{shape = [8, 32, 16]} %c : f32[8, 32, 16]
      %p = mul %b, %d : f32[8, 32, 16]
      %y = sum_reduce{axis = 2} %p : f32[8, 32, 1]
    }""")
    assert not define(ir).locals
    powers = parse(str(ir).replace("mul %x, %h", "exp2 %x"))
    assert [line.name for line in define(powers).locals] == ["m"]
