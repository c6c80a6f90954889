"""Modules: what they hold, how they are called, what their nodes know, modes and first values."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.nn.module import snake
from tests.nn.tiny import Attention, TinyGPT
from tests.tensor.against import draw


def scopes(cx):
    """The scopes of what the nodes compute, in order, each once."""
    return list(dict.fromkeys(node.meta.scope for node in cx.ir))


def test_parameters_are_found_in_attributes_lists_tuples_and_dicts_and_tied_ones_once():
    model = TinyGPT(layers=2)
    assert list(model.parameters()) == [
        "scale",
        "embed.weight",
        "blocks.0.q.weight",
        "blocks.0.q.bias",
        "blocks.0.k.weight",
        "blocks.1.q.weight",
        "blocks.1.q.bias",
        "blocks.1.k.weight",
        "heads.first.weight",
        "heads.first.bias",
        "heads.again.1.weight",
        "heads.again.1.bias",
    ]
    assert list(model.buffers()) == ["seen"]
    assert {*model.state_dict()} == {*model.parameters(), "seen"}
    assert list(model.own()) == ["scale", "seen"]
    assert list(model.children()) == [
        "embed", "blocks.0", "blocks.1", "heads.first", "heads.again.0", "heads.again.1", "tied",
    ]  # fmt: skip
    assert list(model.named_modules())[:4] == ["", "embed", "blocks.0", "blocks.0.q"]
    assert "tied" not in model.named_modules()
    for path, parameter in model.parameters().items():
        assert parameter.name == path


def test_what_is_frozen_is_no_longer_trained_but_saved():
    model: Any = nn.Linear(2, 2)
    model.bias.trainable = False
    assert list(model.parameters()) == ["weight"]
    assert list(model.buffers()) == ["bias"]
    assert list(model.state_dict()) == ["weight", "bias"]


def test_a_module_that_holds_itself_is_walked_once():
    model: Any = Attention(2)
    model.parent = model
    model.q.parent = model
    assert list(model.parameters()) == ["q.weight", "q.bias", "k.weight"]
    assert list(model.named_modules()) == ["", "q", "k"]
    assert model.path_of(nn.ReLU()) is None


def test_nodes_know_the_path_of_the_module_that_made_them():
    cx, model = Graph(), TinyGPT()
    y = model(cx.tensor((2, 5), "int64", "tokens"))
    assert scopes(cx) == [
        "",
        "tiny_gpt.embed",
        "tiny_gpt",
        "tiny_gpt.blocks.0.q",
        "tiny_gpt.blocks.0.k",
        "tiny_gpt.blocks.0",
        "tiny_gpt.blocks.1.q",
        "tiny_gpt.blocks.1.k",
        "tiny_gpt.blocks.1",
        "tiny_gpt.blocks.2.q",
        "tiny_gpt.blocks.2.k",
        "tiny_gpt.blocks.2",
        "tiny_gpt.heads.first",
    ]
    assert y.node.meta.scope == "tiny_gpt.heads.first"
    assert cx.parameters["blocks.2.q.weight"] is model.blocks[2].q.weight
    assert "heads.again.1.weight" not in cx.parameters  # it was not used
    assert ll.parse(str(cx)) == cx.ir


def test_scopes_outside_of_a_tree():
    cx = Graph()
    x = cx.tensor((2, 4), name="x")
    lone = nn.Linear(4, 4)

    class Outer(nn.Module):
        def __init__(self):
            self.inner = Attention(4)

        def forward(self, x):
            return self.inner.q(x) + lone(x)

    with cx.scope("run"):
        Outer()(x)
    assert scopes(cx) == ["", "run.outer.inner.q", "run.outer.linear", "run.outer"]
    assert list(cx.parameters) == ["inner.q.weight", "inner.q.bias", "weight", "bias"]


def test_what_a_module_calls_on_another_graph_is_not_in_its_scope():
    one, two = Graph(), Graph()

    class Both(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            return self.layer(x), self.layer(y)

    x, y = Both()(one.tensor((2, 4)), two.tensor((2, 4)))
    assert (x.node.meta.scope, y.node.meta.scope) == ("both.layer", "linear")
    assert (x.graph, y.graph) == (one, two)


def test_a_module_called_twice_borrows_its_parameters_once():
    cx, layer = Graph(), nn.Linear(3, 3)
    x = cx.tensor((2, 3), name="x")
    layer(layer(x))
    assert list(cx.parameters) == ["weight", "bias"]
    assert len(cx.ir.inputs) == 3


def test_the_graph_is_found_in_nested_arguments_or_in_the_caller():
    class Inner(nn.Module):
        def __init__(self):
            self.table = nn.Parameter((2, 3), value=np.ones((2, 3)))

        def forward(self, things, *, more=None):
            return (things["x"][0] if things else more) + self.table

    class Positions(nn.Module):
        def forward(self, cx):
            return cx.arange(4)

    class Outer(nn.Module):
        def __init__(self):
            self.positions = Positions()
            self.length = Length()

        def forward(self, x):
            return x + self.length(4, x.graph)

    class Length(nn.Module):
        def forward(self, count, graph):
            return graph.arange(count)

    cx = Graph()
    x = cx.tensor((2, 3), name="x").set(np.zeros((2, 3)))
    assert Inner()({"x": [x]}).node.meta.scope == "inner"
    assert Inner()(None, more=x).node.meta.scope == "inner"
    assert Positions()(cx).node.meta.scope == "positions"
    assert Outer()(cx.tensor((4,))).node.meta.scope == "outer"


def test_parameters_are_operands_of_all_operations():
    cx = Graph()
    x = cx.tensor((2, 3), name="x").set([[1, 2, 3], [4, 5, 6]])
    w = nn.Parameter((3, 3), value=np.arange(9).reshape(3, 3), name="w")
    b = nn.Parameter((3,), value=[1, 2, 3], name="b")
    rows: Any = nn.Parameter((1, 3), value=[[7, 8, 9]], name="rows")
    cases = {
        "x @ w + b": x @ w + b,
        "b * x": b * x,
        "w @ x.T": w @ x.T,
        "b - x": b - x,
        "x.linear": x.linear(w, b),
        "concat": ll.concat([rows, x]),
        "where": ll.where(x > b, x, b),
        "b < x": b < x,
        "einsum": ll.einsum("ij,kj->ik", x, rows),
    }
    cx.retrieve(cases)
    cx.execute()
    array, weight, bias = x.numpy(), w.value, b.value
    wanted = {
        "x @ w + b": array @ weight + bias,
        "b * x": bias * array,
        "w @ x.T": weight @ array.T,
        "b - x": bias - array,
        "x.linear": array @ weight.T + bias,
        "concat": np.concatenate([rows.value, array]),
        "where": np.where(array > bias, array, bias),
        "b < x": bias < array,
        "einsum": array @ rows.value.T,
    }
    for name, value in cases.items():
        np.testing.assert_allclose(value.numpy(), wanted[name], err_msg=name)
    assert list(cx.parameters) == ["w", "b", "rows"]


def test_two_graphs_share_one_set_of_weights():
    model: Any = nn.Linear(3, 2)
    runs = []
    for batch in (2, 5):
        cx = Graph()
        x = cx.tensor((batch, 3), name="x").set(draw((batch, 3)))
        runs.append((cx, x, model(x).retrieve()))
    for value in (np.ones((2, 3)), np.full((2, 3), 2.0)):
        model.weight.set(value)
        for cx, x, y in runs:
            cx.execute()
            np.testing.assert_allclose(
                y.numpy(), x.numpy() @ value.T + model.bias.value, rtol=1e-5, atol=1e-5
            )


def test_a_graph_of_a_large_model_takes_no_memory():
    class Large(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding(128_256, 4096, dtype="bfloat16")
            self.blocks = [
                nn.Sequential(
                    nn.RMSNorm(4096, dtype="bfloat16"),
                    nn.Linear(4096, 28_672, bias=False, dtype="bfloat16"),
                    nn.SiLU(),
                    nn.Linear(28_672, 4096, bias=False, dtype="bfloat16"),
                )
                for _ in range(32)
            ]

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = x + block(x)
            return self.embed.head(x)

    model, cx = Large(), Graph()
    logits = model(cx.tensor((1, "seq"), "int64", "tokens"))
    assert [str(dim) for dim in logits.shape] == ["1", "seq", "128256"]
    assert sum(int(np.prod(p.shape)) for p in model.parameters().values()) > 8e9
    assert not any(p.is_loaded for p in cx.parameters.values())
    assert len(cx.parameters) == 97


# -- modes and values ------------------------------------------------------------------------------


def test_train_and_eval_reach_all_modules():
    model = TinyGPT()
    assert all(module.training for module in model.named_modules().values())
    assert model.eval() is model
    assert not any(module.training for module in model.named_modules().values())
    model.train()
    assert all(module.training for module in model.named_modules().values())


def test_the_same_seed_and_path_draw_the_same_values():
    first = {path: value.copy() for path, value in TinyGPT().initialise(5).state_dict().items()}
    model = TinyGPT()
    again = model.initialise(5).state_dict()
    for path, value in first.items():
        np.testing.assert_array_equal(value, again[path])
    assert not np.array_equal(first["blocks.0.k.weight"], first["blocks.1.k.weight"])
    other = model.initialise(6).state_dict()
    assert not np.array_equal(first["embed.weight"], other["embed.weight"])


def test_unseeded_values_differ_from_module_to_module_and_stay_as_they_are():
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    assert not np.array_equal(one.weight.value, two.weight.value)
    before = one.weight.value.copy()
    one.weight.unload()
    assert not one.weight.is_loaded
    np.testing.assert_array_equal(one.weight.value, before)


def test_initialise_is_seen_by_graphs():
    cx, model = Graph(), nn.Linear(2, 2)
    y = model(cx.tensor((1, 2)).set([[1, 1]])).retrieve()
    found = []
    for seed in (1, 2, 1):
        model.initialise(seed)
        cx.execute()
        found.append(y.numpy())
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])


def test_to_makes_other_parameters_and_keeps_ties():
    class Pair(NamedTuple):
        a: Any
        b: Any

    model: Any = TinyGPT()
    model.pair = Pair(model.scale, [model.scale])
    cx = Graph()
    y = model(cx.tensor((1, 2), "int64").set([[1, 2]])).retrieve()
    old = model.embed.weight
    wanted = old.value.astype(ll.DType.bfloat16.numpy)
    assert model.to("bfloat16") is model
    assert {str(p.dtype) for p in model.parameters().values()} == {"bfloat16"}
    assert str(model.seen.dtype) == "int64"
    assert model.tied.weight is model.embed.weight is not old
    assert model.pair == Pair(model.scale, [model.scale])
    np.testing.assert_array_equal(model.embed.weight.value, wanted)
    cx.execute()
    assert y.dtype == "float32"
    assert str(model(Graph().tensor((1, 2), "int64")).dtype) == "bfloat16"
    model.initialise(3)
    assert str(model.scale.value.dtype) == "bfloat16"


# -- text ------------------------------------------------------------------------------------------


def test_a_module_is_shown_as_a_tree(golden):
    golden(f"{TinyGPT()}\n", "tiny_gpt.txt")


def test_attributes_may_have_any_name():
    class Options(nn.Module):
        def __init__(self):
            vars(self).update(options={"a": 1}, children=[nn.ReLU()], own=2, members=3)
            self.layer = nn.Linear(2, 2, bias=False)

        def forward(self, x):
            return self.layer(x)

    model = Options()
    y = model(Graph().tensor((1, 2)))
    assert y.node.meta.scope == "options.layer"
    assert list(model.parameters()) == ["layer.weight"]
    assert str(model).splitlines()[:2] == ["Options()  4 parameters", "  children.0: ReLU()"]


def test_names_of_classes():
    names = "GPT2 GPT2Block LayerNorm RMSNorm MLP BatchNorm1d LeakyReLU SiLU GELU LSTMCell TinyGPT"
    assert [snake(type(name, (), {})) for name in names.split()] == [
        "gpt2", "gpt2_block", "layer_norm", "rms_norm", "mlp", "batch_norm1d", "leaky_relu",
        "silu", "gelu", "lstm_cell", "tiny_gpt",
    ]  # fmt: skip
    assert snake(type("Größe", (), {})) == "gr__e"


@pytest.mark.parametrize("name", ["nn"])
def test_it_loads_when_it_is_first_used(name):
    assert getattr(ll, name) is nn
    assert name in ll.__all__
