"""Chains: which calls may be one kernel, what that computes, and what programs say of them."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR
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
    sources_of,
)
from luminal_lab.passes.compile import compile_ir
from luminal_lab.session import Graph
from luminal_lab.tensor.lazy import Lazy
from tests.passes.running import check_values


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


def network() -> Lazy:
    cx = Graph()
    x, up, down = (cx.tensor((8, 8), name=name) for name in ("x", "up", "down"))
    return (x @ up).relu() @ down


def named(chain: Chain) -> str:
    return " ".join(call.op.body.name for call in chain if isinstance(call.op, Call))


def ending(ir: IR) -> list[Chain]:
    """Return the chains that end in the graph's first output."""
    return chains(ir, ir.outputs[0], {node.id for node in ir.nodes})


def test_all_chains_that_end_in_a_call():
    ir = apart(attention()[0])
    assert [named(chain) for chain in ending(ir)] == ["matmul softmax matmul", "softmax matmul"]
    assert [is_cascade(chain) for chain in ending(ir)] == [True, False]


def test_what_is_read_elsewhere_is_inside_no_chain():
    assert ending(apart(*attention())) == []


def test_dead_nodes_read_nothing():
    ir = apart(attention()[0])
    output = ir.outputs[0]
    assert chains(ir, output, {output.id}) == [
        chain for chain in ending(ir) if {call.id for call in chain}
    ]


def test_a_chain_is_one_graph_with_the_same_values():
    for result in (attention()[0], network()):
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
