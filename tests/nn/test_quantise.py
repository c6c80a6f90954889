"""Weights packed in few bits: which, into what, how near, and back."""

import copy
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError
from luminal_lab.nn.gguf import GGUF
from luminal_lab.tensor.blocks import Blocks
from tests.expect import error_of
from tests.needs import need

WRONG: Any = "q8"
FORMS = {"q8_0": 0.006, "q4_0": 0.1, "q4_k": 0.085, "q6_k": 0.02}
"""The forms, each with the error of weights from a normal distribution, relative to their size."""


def model():
    return nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.Linear(32, 64, layout="in,out"))


def test_matrices_of_layers_are_packed_and_nothing_else():
    layers = model()
    assert list(ll.quantise(layers)) == ["0.weight", "2.weight"]
    forms = {path: one.form for path, one in layers.parameters().items() if one.form}
    assert forms == {"0.weight": "q8_0", "2.weight": "q8_0"}
    assert list(ll.quantise(layers, None)) == ["0.weight", "2.weight"]
    assert not any(one.form for one in layers.parameters().values())


@pytest.mark.parametrize(
    ("more", "is_cross"), [({}, False), ({}, True), ({"kdim": 64}, True)], ids=["", "cross", "kdim"]
)
def test_the_projections_of_an_attention_are_packed_and_compute_the_same(more, is_cross):
    layer = nn.MultiheadAttention(32, 4, num_kv_heads=2, **more).initialise(0)
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if more else ["in_proj_weight"]
    assert list(ll.quantise(layer)) == [*names, "out_proj.weight"]
    rng = np.random.default_rng(1)
    size = layer.features[1]
    x, y = rng.standard_normal((2, 3, 32)), rng.standard_normal((2, 5, size))

    def result():
        cx = Graph()
        query = cx.tensor(x.shape).set(x)
        key = cx.tensor(y.shape).set(y) if is_cross else query
        value = None if not more else cx.tensor((2, 5, 32)).set(y[..., :32])
        mixed = layer(query, key, value).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        return mixed.numpy()

    few = result()
    assert list(ll.quantise(layer, None)) == [*names, "out_proj.weight"]
    np.testing.assert_allclose(few, result(), rtol=1e-5, atol=1e-6)


def test_a_shared_table_is_packed_once():
    llama = nn.models.Llama(layers=1, heads=2, width=32, hidden=64, vocab=40, tied=True)
    assert "lm_head.weight" not in ll.quantise(llama)


def test_parameters_can_be_named():
    layers = model()
    one, two = layers.parameters()["0.weight"], nn.Parameter((4, 32), value=np.ones((4, 32)))
    assert ll.quantise([one, two]) == {"sequential.0.weight": one, "1": two}
    assert one.form == two.form == "q8_0"
    assert ll.quantise(one, None) == {"sequential.0.weight": one}
    assert one.form == ""


def test_what_has_no_whole_blocks_gets_others_or_stays():
    layers = nn.Sequential(nn.Linear(256, 96), nn.Linear(96, 20), nn.Linear(20, 7))
    assert {path: p.form for path, p in ll.quantise(layers, "q4_k").items()} == {
        "0.weight": "q4_k",
        "1.weight": "q8_0",
    }
    assert layers.parameters()["2.weight"].form == ""
    assert ll.quantise(nn.Linear(64, 32).to("float16")) == {}


def test_a_copy_keeps_the_blocks_and_a_conversion_has_their_values():
    layers = model().initialise(0)
    ll.quantise(layers)
    weight = layers.parameters()["0.weight"]
    assert copy.deepcopy(layers).parameters()["0.weight"].form == "q8_0"
    half = weight.cast("float16")
    assert half.form == ""
    np.testing.assert_array_equal(half.value, weight.value.astype(np.float16))


@pytest.mark.parametrize("form", FORMS)
def test_values_are_near(form):
    value = np.random.default_rng(0).normal(size=(32, 512)).astype(np.float32)
    value[0], value[1], value[2, :32] = 0, 1, 0
    value[3], value[4] = np.abs(value[3]), -np.abs(value[4])
    weight = nn.Parameter(value.shape, value=value)
    ll.quantise(weight, form)
    assert weight.form == form
    near: Any = weight.value
    error = near - value
    assert np.sqrt(np.square(error[5:]).mean()) < FORMS[form]
    assert not weight.value[0].any()
    assert np.abs(error[1]).max() < 1e-2
    weight.set(np.array([np.inf, np.nan, -np.inf, 1e38] * 128 * 32).reshape(32, 512))
    ll.quantise(weight, form)  # nothing fails, whatever the values


@pytest.mark.parametrize("form", FORMS)
def test_blocks_are_those_of_the_package_where_it_packs(form):
    gguf: Any = need("gguf")
    value = np.random.default_rng(1).normal(size=(64, 512)).astype(np.float32)
    value[0], value[1, :32], value[2, 3] = 0, 0, 80
    weight = nn.Parameter(value.shape, value=value)
    ll.quantise(weight, form)
    assert weight.blocks is not None
    kind = gguf.GGMLQuantizationType(weight.blocks.form.number)
    if form in ("q8_0", "q4_0"):
        np.testing.assert_array_equal(weight.blocks.raw, gguf.quants.quantize(value, kind))
    theirs = gguf.quants.dequantize(weight.blocks.raw, kind)
    np.testing.assert_array_equal(weight.value, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_the_best_of_many_scales_is_nearer_than_the_plain_one(form):
    """An outlier makes the scale that just covers all values a bad one."""
    rng = np.random.default_rng(2)
    value = rng.standard_t(3, size=(64, 512)).astype(np.float32)
    weight = nn.Parameter(value.shape, value=value)
    ll.quantise(weight, form)
    size = {"q8_0": 32, "q4_0": 32, "q4_k": 32, "q6_k": 16}[form]
    levels = {"q8_0": 254, "q4_0": 16, "q4_k": 15, "q6_k": 63}[form]
    each = value.reshape(-1, size)
    low, high = np.minimum(each.min(1), 0)[:, None], each.max(1)[:, None]
    if form in ("q8_0", "q6_k", "q4_0"):
        high = np.abs(each).max(1)[:, None]
        low = -high
    step = (high - low) / levels
    plain = np.rint((each - low) / step) * step + low - each
    near: Any = weight.value
    ours = near - value
    assert np.square(ours).mean() < 1.1 * np.square(plain).mean()


def test_a_model_is_written_and_read_in_its_forms(tmp_path):
    layers = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 4)).initialise(0)
    ll.quantise(layers, "q6_k")
    layers.save(tmp_path / "model.gguf")
    forms = {name: tensor.form for name, tensor in GGUF(tmp_path / "model.gguf").tensors.items()}
    assert forms == {
        "0.weight": "q6_k",
        "0.bias": "float32",
        "2.weight": "q8_0",
        "2.bias": "float32",
    }
    again = nn.Sequential(nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 4))
    again.load(tmp_path / "model.gguf")
    ours, theirs = layers.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value)
    assert all(isinstance(p.blocks, Blocks) for p in ll.quantise(again, "q6_k").values())


def test_a_graph_computes_with_the_packed_values():
    layers = model().initialise(0)
    ll.quantise(layers)
    cx, other = Graph(), model()
    y = layers(cx.tensor((2, 64)).set(np.ones((2, 64)))).retrieve()
    cx.execute()
    other.load_state_dict(layers.state_dict())
    cx = Graph()
    z = other(cx.tensor((2, 64)).set(np.ones((2, 64)))).retrieve()
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), z.numpy())


def test_what_is_no_weight_and_no_form_is_said():
    error = error_of(lambda: ll.quantise(model(), WRONG), ArgumentError)
    assert error.message == "quantise: there is no form 'q8'"
    assert error.hint == "did you mean 'q8_0'?"
    error = error_of(lambda: ll.quantise([1]), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert error.message == "quantise: 1 is not a parameter"
    assert error.hint == "give a module, a parameter such as layer.weight, or a list of them"


def test_what_is_no_weight_is_named_in_one_line():
    x = ll.Graph().tensor((2, 2), name="x")
    wrong: list[Any] = [(x, "%x (2, 2)"), ("model", "'model'"), (3, "3"), ([x], "%x (2, 2)")]
    for given, shown in wrong:
        error = error_of(lambda: ll.quantise(given), ArgumentError)  # noqa: B023  # called at once
        assert error.message == f"quantise: {shown} is not a parameter"
