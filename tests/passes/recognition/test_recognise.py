"""`recognise` as a pass: values, closed regions, shared bodies, options; shapes have their own."""

from dataclasses import replace

import pytest
from hypothesis import given

from luminal_lab.core.dims import Symbol
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Call
from luminal_lab.core.parse import parse
from luminal_lab.errors import PassError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.recognition.recognise import RECOGNISERS, Recognise, Search
from tests.core.graphs import DIMS, graphs
from tests.expect import error_of
from tests.passes.recognition.spelled import calls, recognised, spelled
from tests.passes.running import check_pass, run_passes


def block(x, weight, bias, project):
    """Return x after a norm, attention with itself, and a product."""
    normal = x.layer_norm(-1, weight=weight, bias=bias)
    mixed = normal.scaled_dot_product_attention(normal, normal, is_causal=True)
    return x + (mixed @ project).gelu()


SHAPES = ("batch", "seq", 8), (8,), (8,), (8, 8)


@given(graphs())
def test_random_graphs_keep_their_bits(ir):
    check_pass(ir, "recognise", licence=(), dims=DIMS)


@given(graphs())
def test_regions_are_looked_for_wherever_they_may_be(ir):
    check_near(ir)


FUNCTIONS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "rms_norm": lambda x: x.rms_norm(-1, 1e-5, x[0]),
    "layer_norm": lambda x: x.layer_norm(-1),
    "gelu": lambda x: x.gelu(),
    "gelu_tanh": lambda x: x.gelu("tanh"),
    "silu": lambda x: x.silu(),
    "sigmoid": lambda x: x.sigmoid(),
    "cos": lambda x: x.cos(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_regions_are_looked_for_wherever_a_function_is(name: str):
    check_near(run_passes(spelled(FUNCTIONS[name], ("batch", 8)), "cse, dce").ir)


def test_regions_are_looked_for_wherever_a_block_may_be():
    ir = run_passes(spelled(block, *SHAPES), "cse, dce").ir
    check_near(ir)
    for count in range(1, len(RECOGNISERS)):
        before = Recognise(tuple(recogniser.name for recogniser in RECOGNISERS[:count]))
        check_near(compile_ir(ir, before).ir)


def check_near(ir: IR):
    """Check that a recogniser finds nothing at a root that it does not look at."""
    search = Search(ir, Edit(ir))
    for recogniser in RECOGNISERS:
        looked = set(search.places_of(recogniser))
        for index in set(search.places_of(replace(recogniser, near={}))) - looked:
            node = ir[search.ids[index]]
            assert not [*recogniser.find(search.reading, node)], (recogniser.name, node)


def test_inlining_gives_the_graph_back():
    ir = run_passes(spelled(block, *SHAPES), "cse, dce").ir
    after = check_pass(ir, "recognise", licence=()).ir
    assert sum(1 for _ in calls(after)) == 4
    assert run_passes(after, "inline, cse, dce").ir == ir


def test_equal_layers_have_one_body():
    def model(x, *weights):
        for _ in range(3):
            x = block(x, *weights)
        return x

    after = check_pass(spelled(model, *SHAPES), "cse, dce, recognise").ir
    bodies = {}
    for node in after:
        if isinstance(node.op, Call):
            bodies.setdefault(node.op.body.name, []).append(node.op.body)
    assert {name: len(found) for name, found in bodies.items()} == {
        "layer_norm": 3,
        "attention": 3,
        "matmul": 3,
        "gelu": 3,
    }
    assert all(body is found[0] for found in bodies.values() for body in found)
    assert str(after).count("\ngraph softmax") == 1


def test_the_call_comes_from_all_that_it_stands_for():
    ir = run_passes(spelled(lambda x: x.softmax(-1), (2, 3)), "cse, dce").ir
    call = run_passes(ir, "recognise{only = [softmax]}").ir.outputs[0]
    assert call.meta.origin == ir.outputs[0].meta.origin
    inside = {node.id for node in ir} - {node.id for node in ir.inputs}
    assert call.meta.derivation == ("softmax", tuple(sorted(inside, reverse=True)))


def test_small_shapes_are_parts_of_large_ones():
    ir = spelled(block, *SHAPES)
    assert recognised(ir) == [
        "attention(matmul, matmul, softmax(exp))",
        "gelu",
        "layer_norm(mean_norm(mean), std_norm(mean))",
        "matmul",
    ]


def test_only_what_is_named_is_recognised():
    ir = spelled(block, *SHAPES)
    assert recognised(ir, "cse, dce, recognise{only = [attention]}") == ["attention"]
    some = "cse, dce, recognise{only = [softmax, layer_norm]}"
    assert recognised(ir, some) == ["layer_norm", "softmax"]


@pytest.mark.parametrize("one", [r.name for r in RECOGNISERS])
def test_each_can_be_asked_for_alone(one):
    pipeline = f"cse, dce, recognise{{only = [{one}]}}"
    found = recognised(spelled(block, ("batch", "seq", 8), (8,), (8,), (8, 8)), pipeline)
    assert {*found} <= {one}


def test_a_larger_shape_is_found_in_calls_of_smaller_ones():
    pipeline = "cse, dce, recognise{only = [softmax]}, recognise{only = [matmul]}, recognise"
    ir = spelled(lambda q, k, v: q.scaled_dot_product_attention(k, v), *[(4, 8)] * 3)
    assert recognised(ir, pipeline) == ["attention(matmul, matmul, softmax)"]


def test_what_is_asked_for_must_exist():
    error = error_of(lambda: Recognise(only=("softmx",)), PassError)
    assert str(error) == (
        "recognise: there is no recogniser 'softmx'\nhint: did you mean 'softmax'?"
    )


# -- closed regions --------------------------------------------------------------------------------


def test_a_region_whose_inside_is_read_is_left_and_its_parts_are_not():
    def formula(x):
        powers = (x - x.max(-1, keepdim=True)).exp()
        return powers / powers.sum(-1, keepdim=True), powers

    assert recognised(spelled(formula, (4, 8))) == ["exp"]


def test_weights_that_are_asked_for_leave_attention_open():
    def formula(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return weights @ v, weights

    assert recognised(spelled(formula, *[(4, 8)] * 3)) == ["matmul", "matmul", "softmax(exp)"]


def test_dead_readers_do_not_count():
    ir = spelled(lambda x: x.softmax(-1), (4, 8))
    text = str(ir).removesuffix("}") + "  %dead = sin %8 : f32[4, 8]\n}"
    assert recognised(parse(text), "recognise, dce") == ["softmax(exp)"]


def test_a_mask_that_many_layers_share_is_copied_into_each():
    def formula(x, y):
        for _ in range(2):
            x = x.scaled_dot_product_attention(y, y, is_causal=True)
        return x

    after = check_pass(spelled(formula, ("seq", 8), ("seq", 8)), "cse, dce, recognise, dce").ir
    assert [node.op.name for node in after if node.sources] == ["call", "call"]


def test_what_random_numbers_are_part_of_is_no_region():
    ir = spelled(lambda x, y: x.softmax(-1).dropout(0.5) @ y, (4, 8), (8, 3))
    assert recognised(ir) == ["matmul", "softmax(exp)"]


def test_a_region_that_reads_one_value_twice_has_one_input():
    after = check_pass(spelled(lambda x: x @ x, (4, 4)), "cse, dce, recognise").ir
    body = after.outputs[0].op.body_of()
    assert body is not None
    assert [node.name for node in body.inputs] == ["a"]


def test_empty_axes():
    for shape in ((0, 8), (4, 0)):
        assert recognised(spelled(lambda x: x.softmax(-1), shape)) == ["softmax(exp)"]
    assert recognised(spelled(lambda x, y: x @ y, (4, 0), (0, 3))) == ["matmul"]
    assert recognised(spelled(lambda x: x.mean(0), (0, 3))) == []


def test_sizes_that_may_be_1():
    n = Symbol("n", 1, 4)
    assert recognised(spelled(lambda x: x.softmax(-1), (4, n))) == ["softmax(exp)"]
    assert recognised(spelled(lambda x, y: x @ y, (n, n), (n, n))) == ["matmul"]
