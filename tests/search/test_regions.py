"""Regions of a graph: their kernels, their forms, and that each form computes the same."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.core.op import ints
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.search.assembled import apart, programs_of
from luminal_lab.search.forms import Form
from luminal_lab.search.regions import SearchRegions

DEVICE = ll.CPUCompiler(threads=2)


def attention(cx: ll.Graph, *, causal: bool = False) -> ll.Tensor:
    q, k, v = (cx.tensor((21, 8), name=name) for name in "qkv")
    return q.scaled_dot_product_attention(k, v, is_causal=causal)


def network(cx: ll.Graph) -> ll.Tensor:
    x, up, down = (cx.tensor((8, 8), name=name) for name in ("x", "up", "down"))
    return (x @ up).relu() @ down


def product_of_products(cx: ll.Graph) -> ll.Tensor:
    """The first product is read for all rows at once."""
    a, b, c = (cx.tensor((8, 8), name=name) for name in "abc")
    return a @ (b @ c)


def normed(cx: ll.Graph) -> ll.Tensor:
    x, w = cx.tensor((6, 32), name="x"), cx.tensor((32, 5), name="w")
    return (x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()) @ w


def divided_last(cx: ll.Graph) -> ll.Tensor:
    """A softmax of two results, both of which the product reads."""
    q, k, v = (cx.tensor((21, 8), name=name) for name in "qkv")
    scores = q @ k.transpose(0, 1)
    weights = (scores - scores.max(-1, keepdim=True)).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True)


CASES = [attention, network, product_of_products, normed, divided_last]


def kernels_of(cx: ll.Graph) -> IR:
    return ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(DEVICE)).ir


def forms_of(cx: ll.Graph) -> list[tuple[Form, ...]]:
    regions = SearchRegions(kernels_of(cx))
    return [regions.region(chain).forms for chain, _ in regions]


def test_the_forms_of_an_attention():
    cx = ll.Graph()
    attention(cx).retrieve()
    (forms,) = forms_of(cx)
    assert [form.name for form in forms] == [
        "attention",
        "attention, by rules",
        "matmul + softmax + matmul_2",
        "matmul + softmax + matmul_2, by rules",
        "matmul + softmax_matmul",
        "matmul_softmax + matmul",
    ]
    assert forms[0].programs == ()
    assert [len(form.stages) for form in forms] == [1, 1, 3, 3, 2, 2]
    assert [stage.arrays for stage in forms[2].stages] == [(0, 1, 4), (4, 5), (5, 2, 3)]
    assert len(forms[2].inner) == 2


def test_each_result_of_a_kernel_is_an_array_of_a_form():
    cx = ll.Graph()
    divided_last(cx).retrieve()
    (forms,) = forms_of(cx)
    assert forms[2].name == "matmul + softmax + matmul_mul"
    assert [stage.arrays for stage in forms[2].stages] == [(0, 1, 4), (4, 5, 6), (5, 2, 6, 3)]
    assert len(forms[2].inner) == 3


def test_rows_of_two_products_may_be_one_kernel():
    cx = ll.Graph()
    network(cx).retrieve()
    (forms,) = forms_of(cx)
    assert [form.name for form in forms][:2] == ["matmul_relu + matmul", "matmul_relu_matmul"]


def test_what_all_rows_read_is_a_region_of_its_own():
    cx = ll.Graph()
    product_of_products(cx).retrieve()
    assert [[form.name for form in forms] for forms in forms_of(cx)] == [["matmul"], ["matmul"]]


def test_two_products_are_one_region_if_another_order_costs_far_less():
    cx = ll.Graph()
    a, b, c = cx.tensor((8, 128), name="a"), cx.tensor((128, 8), name="b"), cx.tensor((8, 128))
    (a @ (b @ c)).retrieve()
    ((form, *others),) = forms_of(cx)
    assert form.name == "matmul + matmul_2"
    (regrouped,) = [other for other in others if other.name.endswith("by rules")]
    (definition,) = regrouped.definitions
    assert "[i < 8, j < 8] = sum k < 128" in str(definition)


def test_a_kernel_that_is_to_stay_is_in_no_other_ones_region():
    cx = ll.Graph()
    network(cx).retrieve()
    ir = kernels_of(cx)
    whole = SearchRegions(ir)
    first = whole.defined(next(node.op.body_of() for node in ir if node.op.body_of()))  # pyright: ignore[reportArgumentType]  # of those that have one
    assert len(whole.chains) == 1
    assert len(SearchRegions(ir, {nameless(first)}).chains) == 2


def test_what_rules_make_less_exact_is_refused_with_the_reason():
    cx = ll.Graph()
    x = cx.tensor((6, 32), name="x")
    centred = x - x.mean(-1, keepdim=True)
    (centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt()).retrieve()
    regions = SearchRegions(kernels_of(cx))
    (region,) = [regions.region(chain) for chain, _ in regions]
    assert "where inputs are around 1000" in region.refused[0].verdict.refusal
    assert [form.name for form in region.forms] == ["layer_norm", "layer_norm, by rules"]
    (program,) = region.programs.values()
    assert not program.is_refused


@pytest.mark.needs("cc")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_form_computes_what_is_written(case: object):
    cx = ll.Graph()
    result = case(cx).retrieve()  # pyright: ignore[reportCallIssue]  # a case is a function
    rng = np.random.default_rng(0)
    for node in cx.ir.inputs:
        cx[node.name].set(rng.standard_normal(ints(node.shape), np.float32))
    cx.execute()
    expected = result.numpy().copy()
    for forms in forms_of(cx):
        for form in forms:
            device = ll.CPUCompiler(threads=2, programs=programs_of(form))
            cx.compile(ll.GenericCompiler(), device)
            cx.execute()
            np.testing.assert_allclose(result.numpy(), expected, rtol=2e-5, atol=2e-5)
            made = {nameless(kernel.definition) for kernel in cx.kernels if kernel.definition}
            assert made >= {nameless(definition) for definition in form.definitions}
