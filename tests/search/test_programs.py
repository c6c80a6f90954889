"""Programs as definitions: what they say is what was written, and kernels are made of them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.defining import defined
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.running import running
from luminal_lab.kernels.definition.terms import Fold, passes, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import apple, gpu_of
from luminal_lab.kernels.make import make_gpu_kernel, make_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.machines.machine import Machine
from luminal_lab.search.program import judged_programs
from luminal_lab.search.space import Space
from tests.kernels.running import run_together
from tests.search.test_space import SPELLINGS
from tests.search.written import attention, drawn, searched

NO_DIMS: Mapping[str, int] = {}


def rows(method: str) -> ll.Graph:
    cx = ll.Graph()
    getattr(cx.tensor((6, 17), name="x"), method)(-1).retrieve()
    return cx


def cross_entropy() -> ll.Graph:
    cx = ll.Graph()
    x, labels = cx.tensor((6, 17), name="x"), cx.tensor((6,), "int64", name="labels")
    ll.nn.losses.cross_entropy(x, labels).retrieve()
    return cx


def rms_norm() -> ll.Graph:
    cx = ll.Graph()
    x, w = cx.tensor((6, 17), name="x"), cx.tensor((17, 5), name="w")
    ((x * (x * x).mean(-1, keepdim=True).rsqrt()) @ w).retrieve()
    return cx


def layer_norm() -> ll.Graph:
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").layer_norm(-1).retrieve()
    return cx


WRITTEN: dict[str, Callable[[], ll.Graph]] = {
    **{
        name: lambda spelling=spelling: attention(**spelling)
        for name, spelling in SPELLINGS.items()
    },
    **{name: lambda name=name: rows(name) for name in ("softmax", "log_softmax", "logsumexp")},
    "cross entropy": cross_entropy,
    "RMS norm, product": rms_norm,
    "layer norm": layer_norm,
}


def best(space: Space) -> Definition:
    """Return the first program that is right, as a definition."""
    *_, program = judged_programs(space)
    assert not program.is_refused
    return program.definition


def result(cx: ll.Graph, data: Mapping[str, Any], dims: Mapping[str, int] = NO_DIMS) -> Any:
    values = interpret(cx.ir, Environment(lambda node: data[node.name], dims))
    (output,) = cx.ir.outputs
    return values[output.id]


@pytest.mark.parametrize("name", WRITTEN)
def test_every_program_says_what_was_written(name: str) -> None:
    cx = WRITTEN[name]()
    space, data = searched(cx), drawn(cx.ir, {})
    expected = result(cx, data)
    for pick in space.programs(5):
        definition = defined(space.definition, pick)
        assert parse_definition(str(definition)) == definition
        given = {buffer.name: data[buffer.name] for buffer in definition.inputs}
        by_nest: Any
        (by_nest,) = evaluate_nest(lower(definition), given).values()
        np.testing.assert_allclose(by_nest, expected, rtol=3e-5, atol=3e-5)
    definition = best(space)
    given = {buffer.name: data[buffer.name] for buffer in definition.inputs}
    value: Any
    (value,) = evaluate(definition, given).values()
    np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-5)


def test_attention_is_one_pass_that_blocks_share() -> None:
    definition = best(searched(attention(after=0.125)))
    assert str(definition).partition("\n")[2] == (
        "  O[i < 13, j < 4] = recip(l) * acc where (m, l, acc) = "
        "fold n < 17 from (-3.4028235e+38, 0.0, 0.0): "
        "let a = math.maximum(m, sum o < 4: fused(q[i, o] * k[n, o])); "
        "let b = exp2((m - a) * 0.18033688); "
        "let c = exp2(((sum o < 4: fused(q[i, o] * k[n, o])) - a) * 0.18033688); "
        "(a, l * b + c, acc * b + fused(c * v[n, j]))"
    )
    (fold,) = passes(definition.outputs[0].term)
    assert [value.is_sum for value in running(fold)] == [False, True, True]
    assert "n.block" in str(lower(definition))


def test_folds_that_read_one_array_are_one_pass() -> None:
    """Layer norm's three sums go along a row together."""
    (line,) = best(searched(layer_norm())).outputs
    (fold,) = [part for part in walk(line.term) if isinstance(part, Fold)]
    assert fold.states is not None
    assert len(fold.states.names) == 3
    assert [value.ratio for value in running(fold)] == [None] * 3


def test_passes_may_be_in_passes() -> None:
    """The mean over rows is one pass, and so is each row's logarithm of a sum."""
    (line,) = best(searched(cross_entropy())).outputs
    folds = [part for part in walk(line.term) if isinstance(part, Fold) and part.states]
    assert len(folds) == 2


def test_products_stay_products() -> None:
    """What reads an array again and again is no sum of a pass: its loops are cut into tiles."""
    (line,) = best(searched(rms_norm())).outputs
    assert all(part.states is None for part in walk(line.term) if isinstance(part, Fold))


def test_symbolic_sizes() -> None:
    cx = attention(after=0.125, n="n", t="t")
    space, dims = searched(cx), {"n": 5, "t": 70}
    data = drawn(cx.ir, dims)
    expected = result(cx, data, dims)
    value: Any
    (value,) = evaluate(best(space), data, dims).values()
    np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-5)


def test_kernels_of_programs_compute_the_same() -> None:
    graphs = {name.replace(" ", "_").replace(",", ""): make() for name, make in WRITTEN.items()}
    kernels = [make_kernel(best(searched(cx)), name, Machine(32, 2)) for name, cx in graphs.items()]
    for kernel, run in zip(kernels, run_together(kernels), strict=True):
        data = drawn(graphs[kernel.name].ir, {})
        expected = result(graphs[kernel.name], data)
        value: Any
        (value,) = run(data).values()
        np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("gpu", [gpu_of("sm_80"), apple()], ids=["cuda", "metal"])
@pytest.mark.parametrize("name", ["causal", "softmax", "RMS norm, product"])
def test_gpus_compute_the_same(gpu: Any, name: str) -> None:
    cx = WRITTEN[name]()
    data = drawn(cx.ir, {})
    expected = result(cx, data)
    kernel = make_gpu_kernel(best(searched(cx)), "found", gpu)
    assert kernel.nest is not None
    value: Any
    (value,) = evaluate_nest(kernel.nest, data).values()
    np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-5)
