"""Chains: which calls may be one kernel, what that computes, and what programs say of them."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Call
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.fuse.chains import (
    Chain,
    FuseChains,
    chains,
    is_cascade,
    merged,
    places,
    sources_of,
    wiring,
)
from luminal_lab.passes.compile import compile_ir
from luminal_lab.session import Graph
from luminal_lab.tensor.lazy import Lazy
from tests.passes.running import check_values
from tests.search import written
from tests.search.written import SPELLINGS


def apart(*results: Lazy) -> IR:
    """Return a graph of kernels in which none is made of several."""
    for result in results:
        result.retrieve()
    passes = [made for made in ll.CPUCompiler().passes if not isinstance(made, FuseChains)]
    return compile_ir(results[0].graph.ir, ll.GenericCompiler(), ll.Pipeline(passes)).ir


def attention() -> list[Lazy]:
    cx = Graph()
    q, k, v = (cx.tensor((9, 8), name=name) for name in "qkv")
    weights = (q @ k.transpose(0, 1)).softmax(-1)
    return [weights @ v, weights]


def projected(order: str) -> Lazy:
    """Return attention of queries, keys and values that are products, written in some order."""
    cx = Graph()
    x = cx.tensor((9, 8), name="x")
    made = {name: x @ cx.tensor((8, 8), name=name) for name in order}
    return (made["q"] @ made["k"].transpose(0, 1)).softmax(-1) @ made["v"]


def network() -> Lazy:
    cx = Graph()
    x, up, down = (cx.tensor((8, 8), name=name) for name in ("x", "up", "down"))
    return (x @ up).relu() @ down


def named(chain: Chain) -> str:
    return " ".join(call.op.body.name for call in chain if isinstance(call.op, Call))


def ending(ir: IR) -> list[Chain]:
    """Return the chains that end in the graph's first output."""
    return chains(ir, ir.outputs[0], {node.id: place for place, node in enumerate(ir.nodes)})


def test_all_chains_that_end_in_a_call():
    ir = apart(attention()[0])
    assert [named(chain) for chain in ending(ir)] == ["matmul softmax matmul", "softmax matmul"]
    assert [is_cascade(chain) for chain in ending(ir)] == [True, False]


def test_what_is_read_elsewhere_is_inside_no_chain():
    assert ending(apart(*attention())) == []


def divided_last(*more: str) -> list[Lazy]:
    """Return attention whose softmax has two results: weights, and what divides their sum."""
    cx = Graph()
    q, k, v = (cx.tensor((9, 8), name=name) for name in "qkv")
    scores = q @ k.transpose(0, 1)
    weights = (scores - scores.max(-1, keepdim=True)).exp()
    total = weights.sum(-1, keepdim=True)
    return [(weights @ v) / total, *({"weights": weights, "total": total}[one] for one in more)]


def test_a_kernel_of_several_results_is_inside_if_all_of_them_are():
    ir = apart(*divided_last())
    assert [named(chain) for chain in ending(ir)] == [
        "matmul softmax matmul_mul",
        "softmax matmul_mul",
    ]
    for other in ("weights", "total"):
        ir = apart(*divided_last(other))
        assert [named(chain) for chain in ending(ir)] == []


def test_its_results_are_told_apart():
    ir = apart(*divided_last())
    *first, last = ending(ir)[0]
    swapped = Node(last.id, last.op, last.sources[::-1], last.type)
    assert wiring(ir, (*first, last)) == wiring(ir, ending(apart(*divided_last()))[0])
    assert wiring(ir, (*first, last)) != wiring(ir, (*first, swapped))


def test_dead_nodes_read_nothing():
    ir = apart(attention()[0])
    output = ir.outputs[0]
    assert chains(ir, output, places(ir)) == [
        chain for chain in ending(ir) if {call.id for call in chain}
    ]


def test_a_chain_is_one_graph_with_the_same_values():
    for result in (attention()[0], network(), divided_last()[0]):
        ir = apart(result)
        chain = ending(ir)[0]
        body, rng = merged(ir, chain), np.random.default_rng(0)
        sources = sources_of(ir, chain)
        data = {source.name: rng.standard_normal(ints(source.shape), "f4") for source in sources}
        inner = dict(zip([node.name for node in body.inputs], data.values(), strict=True))
        (expected,) = interpret(ir, Environment(lambda node: data[node.name])).values()  # noqa: B023  # called at once
        (found,) = interpret(body, Environment(lambda node: inner[node.name])).values()  # noqa: B023  # likewise
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("fused", "kernels"), [(None, 2), (True, 1), (False, 2)])
def test_programs_say_what_is_one_kernel(fused: bool | None, kernels: int):
    ir = apart(network())
    text = nameless(define(merged(ir, ending(ir)[0])))
    programs = () if fused is None else ((text, fused),)
    after = compile_ir(ir, FuseChains(programs), "dce").ir
    assert sum(isinstance(node.op, Call) for node in after) == kernels
    check_values(ir, after, ("no_signed_zero",))


def test_and_what_is_kept_apart():
    ir = apart(attention()[0])
    text = nameless(define(merged(ir, ending(ir)[0])))
    one, three = (
        compile_ir(ir, FuseChains(programs), "dce").ir for programs in ((), ((text, False),))
    )
    assert [sum(isinstance(node.op, Call) for node in each) for each in (one, three)] == [1, 3]


@pytest.mark.parametrize("order", ["qkv", "vkq", "kvq"])
def test_no_product_is_done_again_for_each_row_of_an_attention(order: str):
    ir = compile_ir(apart(projected(order)), FuseChains(), "dce").ir
    (whole,) = (node for node in ir if named((node,)).startswith("attention"))
    assert [named((ir[id],)) for id in whole.sources] == ["matmul"] * 3


@pytest.mark.parametrize("size", ["numbers", "symbols"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_attention_is_one_kernel_however_it_is_written(spelling: Any, size: str):
    sizes: dict[str, Any] = {"n": "n", "t": "t"} if size == "symbols" else {}
    cx = written.attention(**spelling, **sizes)
    ir = compile_ir(cx.ir, ll.GenericCompiler(), ll.Pipeline(ll.CPUCompiler().passes)).ir
    names = [node.op.body.name for node in ir if isinstance(node.op, Call)]
    assert [name for name in names if name != "recip"] in (["attention"], ["attention_causal"])
