"""Weights in Q8_0: the format's numbers, whole models, decoding, and what is left alone."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Input, Stored
from luminal_lab.errors import PassError
from luminal_lab.nn.cache import KVCache
from luminal_lab.passes.quantised import BLOCK, quants_of, scales_of
from luminal_lab.passes.stored import live
from tests.expect import error_of

LLAMA: dict[str, Any] = {
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "width": 64,
    "hidden": 128,
    "vocab": 90,
}
GPT2: dict[str, Any] = {"layers": 2, "heads": 4, "width": 64, "vocab": 90, "context": 32}
TOKENS = np.array([[1, 5, 3, 89, 0], [7, 7, 2, 1, 64]])


def orders(names):
    """The pass alone, and on either side of the others."""
    rounded = ll.Quantised(weights=names)
    return [rounded], [ll.GenericCompiler(), rounded], [rounded, ll.GenericCompiler()]


def blocks(weight):
    """The quants and scales of rows, as the format says in words."""
    rows, columns = weight.shape
    each = weight.reshape(rows, columns // BLOCK, BLOCK)
    scale = np.abs(each).max(-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(scale > 0, each / scale, 0)
    quants = np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)
    return quants.astype(np.int8).reshape(weight.shape), scale[..., 0].astype(np.float16)


def rounded(weight):
    """What the quants and scales of rows stand for."""
    quants, scales = blocks(weight)
    return quants.astype(np.float32) * np.repeat(scales.astype(np.float32), BLOCK, axis=1)


def made(ir, weight):
    (value,) = interpret(ir, Environment(lambda _: weight)).values()
    return value


@pytest.mark.parametrize("axis", [0, 1])
def test_quants_and_scales_are_those_of_the_format(axis):
    weight = np.random.default_rng(0).normal(size=(6, 96)).astype(np.float32)
    weight[1, 32:64] = 0
    weight[2] *= 1e-6
    weight[3, 5] = 50
    quants, scales = blocks(weight)
    given = weight if axis else np.ascontiguousarray(weight.T)
    ours = made(quants_of(given.shape, axis), given)
    # A reciprocal rounds otherwise than a division: at a half, one up or down.
    assert ours.dtype == np.int8
    assert np.abs(ours.astype(int) - quants).max() <= 1
    assert np.mean(ours != quants) < 0.01
    np.testing.assert_array_equal(made(scales_of(given.shape, axis), given), scales)
    assert np.abs(quants).max() == 127
    assert not ours[1, 32:64].any()


def logits(model, *passes, tokens=TOKENS):
    cx = Graph()
    result = model(cx.tensor(tokens.shape, "int64", "tokens").set(tokens)).retrieve()
    compilation = cx.compile(*passes) if passes else None
    cx.execute()
    return result.numpy(), compilation


def matrices_of(model):
    """The parameters that products and look-ups read, by the names of their inputs."""
    modules = model.named_modules().values()
    matrices = [matrix for module in modules for matrix in type(module).matrices(module)]
    return {p.name: p for p in model.parameters().values() if any(p is m for m in matrices)}


MODELS = {
    "llama, tied": lambda: nn.models.Llama(**LLAMA, tied=True),
    "llama": lambda: nn.models.Llama(**LLAMA),
    "gpt2": lambda: nn.models.GPT2(**GPT2),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", range(3))
def test_a_model_with_rounded_weights_is_the_model_of_their_values(model, order):
    model = MODELS[model]().initialise(0).eval()
    named = matrices_of(model)
    exact, _ = logits(model)
    ours, compilation = logits(model, *orders(list(named))[order])
    assert compilation is not None
    positions = [p for p in named.values() if p.name == "wpe.weight"]
    for parameter in named.values():
        if parameter not in positions:  # a slice reads these
            is_first = parameter.name and ".c_" in parameter.name  # [in, out]
            value = parameter.value
            parameter.set(rounded(value.T).T if is_first else rounded(value))
    theirs, _ = logits(model)
    size = np.abs(exact).max()
    assert np.abs(ours - theirs).max() < 2e-3 * size, "a few quants are one up or down"
    assert 1e-4 * size < np.abs(ours - exact).max() < 2e-2 * size
    ir = compilation.ir
    matrices = {
        ir[id].name
        for id in live(ir, ir.output_ids)
        if isinstance(ir[id].op, Input) and len(ir[id].shape) == 2 and ir[id].dtype == "float32"
    }
    assert matrices == {p.name for p in positions}


def test_a_table_that_is_the_head_too_is_stored_once():
    model = nn.models.Llama(**LLAMA, tied=True).initialise(0)
    passes = orders(list(matrices_of(model)))[1]
    _, compilation = logits(model, *passes)
    assert compilation is not None
    ir = compilation.ir
    table = ir["model.embed_tokens.weight"]
    stored = ir.users(table)
    assert [(type(node.op), str(node.type)) for node in stored] == [
        (Stored, "i8[90, 64]"),
        (Stored, "f16[90, 2]"),
    ]


def test_a_decode_step_reads_integers_alone():
    """With one row and a cache; the bytes of the weights are those of the format."""
    model = nn.models.Llama(**LLAMA, tied=True).initialise(0)
    weights = matrices_of(model)
    said = []
    for passes in ([], orders(list(weights))[1]):
        cx = Graph()
        token = cx.tensor((1, 1), "int64", "token")
        cache = KVCache(cx, 16)
        result = model(token, cache=cache).retrieve()
        if passes:
            compilation = cx.compile(*passes)
            ir = compilation.ir
            read = [ir[id] for id in live(ir, ir.output_ids)]
            floats = [n for n in read if isinstance(n.op, Input) and n.dtype == "float32"]
            assert {len(node.shape) for node in floats} == {1, 4}, "norms and the cache"
            bytes_read = sum(
                np.prod(ints(node.shape), dtype=int) * node.dtype.itemsize
                for node in read
                if isinstance(node.op, Stored)
            )
            count = sum(np.prod(p.shape, dtype=int) for p in weights.values())
            assert bytes_read == count * 34 // 32
        cache.begin()
        rows = []
        for number in (3, 1, 4, 1, 5):
            cache.advance()
            token.set([[number]])
            cx.execute()
            rows.append(result.numpy()[0, 0])
        said.append(np.stack(rows))
    exact, ours = said
    assert 0 < np.abs(ours - exact).max() < 2e-2 * np.abs(exact).max()


def compiled(write, *passes):
    """Compile what is written with a layer, and return the compilation and the layer's weight."""
    cx = Graph()
    layer = nn.Linear(64, 32, bias=False).initialise(0)
    x = cx.tensor((3, 64), name="x").set(np.ones((3, 64)))
    write(cx, layer, x)
    passes = passes or (ll.Quantised(weights=["weight"]),)
    return cx.compile(*passes), cx.parameter(layer.weight).node


def why_not(write, *passes):
    compilation, weight = compiled(write, *passes)
    assert not compilation["q8_0"].firings
    return str(compilation.why_not("q8_0", weight))


def test_why_not_says_why_a_weight_was_left_alone():
    def plain(cx, layer, x):
        layer(x).retrieve()

    assert why_not(plain, ll.Quantised()) == (
        "q8_0\nNot at %weight: it holds numbers; ll.quantise packs weights."
    )

    def trained(cx, layer, x):
        nn.SGD(0.1).minimise(layer(x).sum(), layer)

    assert why_not(trained) == (
        "q8_0\nNot at %weight: this graph trains it, so it is different in each run."
    )

    def read(cx, layer, x):
        layer(x).retrieve()
        cx.parameter(layer.weight).sin().named("s").retrieve()

    assert why_not(read) == (
        "q8_0\nNot at %weight: its reader %s = sin is neither a matmul nor an embedding."
    )

    def derived(cx, layer, x):
        layer(x).exp().sum().backward()
        x.grad.retrieve()

    assert "%weight: " in why_not(derived)
    assert "reads it along its axis 0, and" in why_not(derived)


def test_a_weight_that_is_read_in_the_way_of_the_format_is_not_refused():
    compilation, _ = compiled(lambda cx, layer, x: layer(x).retrieve())
    (firing,) = compilation["q8_0"].firings
    assert compilation["q8_0"].refusals == ()
    assert firing.rule == "q8_0"
    assert firing.because == "%9 read 2,176 bytes of %weight, and not 8,192"


def test_inputs_that_are_named_are_rounded():
    cx = Graph()
    w = cx.tensor((32, 64), name="w").set(np.ones((32, 64)))
    y = (cx.tensor((3, 64), name="x").set(np.ones((3, 64))) @ w.T).retrieve()
    compilation = cx.compile(ll.Quantised(weights=["w"]))
    assert [node.op.name for node in compilation.ir.users("w")] == ["stored", "stored"]
    cx.execute()
    np.testing.assert_allclose(y.numpy(), 64, rtol=1e-3)
    w.set(np.full((32, 64), 2.0))
    cx.execute()
    np.testing.assert_allclose(y.numpy(), 128, rtol=1e-3)
    error = error_of(lambda: cx.compile(ll.Quantised(weights="v")), PassError)
    assert error.message == "pass q8_0{weights = [v]}: there is no input %v"


def test_a_check_of_values_begins_anew_behind_it():
    compilation, _ = compiled(
        lambda cx, layer, x: layer(x).retrieve(),
        ll.Quantised(weights=["weight"]),
        ll.GenericCompiler(),
    )
    cx = Graph()
    layer = nn.Linear(64, 32).initialise(0)
    layer(cx.tensor((3, 64), name="x").set(np.ones((3, 64)))).retrieve()
    rounded = ll.Quantised(weights=["weight"])
    checked = cx.compile(rounded, ll.GenericCompiler(), check="values")
    assert len(checked.snapshots) == len(compilation.snapshots)
    assert "values equal" not in str(checked["q8_0"])
    assert "values equal" in str(checked["recognise"])


# -- parameters that hold blocks -------------------------------------------------------------------


def test_blocks_are_taken_apart_and_their_values_stay():
    layer = nn.Linear(64, 32, bias=False).initialise(0)
    ll.quantise(layer)
    cx = Graph()
    y = layer(cx.tensor((3, 64), name="x").set(np.ones((3, 64)))).retrieve()
    cx.execute()
    wanted = y.numpy()
    for passes in ([ll.Quantised()], [ll.GenericCompiler(), ll.Quantised()]):
        compilation = cx.compile(*passes, check="values")
        stored = compilation.ir.users("weight")
        assert [str(node.type) for node in stored] == ["i8[32, 64]", "f16[32, 2]"]
        (firing,) = compilation["q8_0"].firings
        assert firing.because == "2,048 integers and 64 scales lie apart"
        cx.execute()
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_blocks_that_are_looked_up_stay_together():
    table = nn.Embedding(50, 64).initialise(0)
    ll.quantise(table)
    cx = Graph()
    rows = table(cx.tensor((3,), "int64", "tokens").set([1, 2, 3]))
    table.head(rows).retrieve()
    compilation = cx.compile(ll.Quantised())
    assert str(compilation.why_not("q8_0", "%weight")) == (
        "q8_0\nNot at %weight: its rows are looked up, or a part of it is read."
    )
