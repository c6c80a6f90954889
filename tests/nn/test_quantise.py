"""Marks on weights: which, how they are taken away, and that they change nothing by themselves."""

import copy
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.errors import ArgumentError
from tests.expect import error_of

WRONG: Any = "q8"


def model():
    return nn.Sequential(nn.Linear(64, 32), nn.LayerNorm(32), nn.Linear(32, 64, layout="in,out"))


def test_matrices_of_layers_are_marked_and_nothing_else():
    layers = model()
    assert list(ll.quantise(layers)) == ["0.weight", "2.weight"]
    forms = {path: one.form for path, one in layers.parameters().items() if one.form}
    assert forms == {"0.weight": "q8_0", "2.weight": "q8_0"}
    ll.quantise(layers, None)
    assert not any(one.form for one in layers.parameters().values())


def test_a_shared_table_is_marked_once():
    llama = nn.models.Llama(layers=1, heads=2, width=32, hidden=64, vocab=40, tied=True)
    assert "lm_head.weight" not in ll.quantise(llama)


def test_parameters_can_be_named():
    layers = model()
    one, two = layers.parameters()["0.weight"], nn.Parameter((4, 32))
    assert ll.quantise([one, two]) == {"sequential.0.weight": one, "1": two}
    assert one.form == two.form == "q8_0"
    assert ll.quantise(one, None) == {"sequential.0.weight": one}
    assert one.form == ""


def test_a_copy_keeps_the_mark_and_a_conversion_does_too():
    layers = model()
    ll.quantise(layers)
    assert copy.deepcopy(layers).parameters()["0.weight"].form == "q8_0"
    assert layers.parameters()["0.weight"].cast("float16").form == "q8_0"


def test_values_and_states_stay_as_they_are():
    layers = model().initialise(0)
    before = {path: np.array(value) for path, value in layers.state_dict().items()}
    ll.quantise(layers)
    after = layers.state_dict()
    assert all(np.array_equal(before[path], np.array(after[path])) for path in before)
    cx = Graph()
    y = layers(cx.tensor((2, 64)).set(np.ones((2, 64)))).retrieve()
    cx.compile()
    cx.execute()
    ll.quantise(layers, None)
    assert y.numpy().dtype == np.float32


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
