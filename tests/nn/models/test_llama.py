"""Llama beside a plain spelling in PyTorch; published sizes and names; decoding."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, ShapeError
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.llama import PUBLISHED, Llama
from luminal_lab.nn.rope import Llama3Scaling
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import beside, close, value_of
from tests.nn.test_rope import frequencies, rotated

SMALL: dict[str, Any] = {
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "width": 16,
    "hidden": 24,
    "vocab": 30,
    "context": 64,
    "base": 100.0,
}
TOKENS = np.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
SCALING = Llama3Scaling(8.0, context=16)


def witness_of(torch, scaling=None, tied=False):
    """Return a Llama in PyTorch, with the names of Hugging Face."""
    nn = torch.nn
    layers, heads, kv_heads, width = (SMALL[k] for k in ("layers", "heads", "kv_heads", "width"))
    hidden, vocab, base = (SMALL[k] for k in ("hidden", "vocab", "base"))
    size = width // heads
    turn = frequencies(torch, size, base, scaling)

    def linear(a, b):
        layer = nn.Linear(a, b, bias=False)
        nn.init.normal_(layer.weight, 0, 0.3)
        return layer

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(1 + 0.3 * torch.randn(width))

        def forward(self, x):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
            self.self_attn, self.mlp = nn.Module(), nn.Module()
            self.self_attn.q_proj = linear(width, heads * size)
            self.self_attn.k_proj = linear(width, kv_heads * size)
            self.self_attn.v_proj = linear(width, kv_heads * size)
            self.self_attn.o_proj = linear(heads * size, width)
            self.mlp.gate_proj, self.mlp.up_proj = linear(width, hidden), linear(width, hidden)
            self.mlp.down_proj = linear(hidden, width)

        def forward(self, x):
            y, attn, mlp = self.input_layernorm(x), self.self_attn, self.mlp
            q, k, v = (
                p(y).unflatten(-1, (-1, size)).transpose(1, 2)
                for p in (attn.q_proj, attn.k_proj, attn.v_proj)
            )
            q, k = (rotated(torch, z, turn, 0, False).float() for z in (q, k))
            k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + attn.o_proj(mixed.transpose(1, 2).flatten(2))
            y = self.post_attention_layernorm(x)
            return x + mlp.down_proj(nn.functional.silu(mlp.gate_proj(y)) * mlp.up_proj(y))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Module()
            self.model.embed_tokens = nn.Embedding(vocab, width)
            self.model.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.model.norm = Norm()
            self.lm_head = linear(width, vocab)
            if tied:
                self.lm_head.weight = self.model.embed_tokens.weight

        def forward(self, tokens):
            x = self.model.embed_tokens(tokens)
            for layer in self.model.layers:
                x = layer(x)
            return self.lm_head(self.model.norm(x))

    torch.manual_seed(0)
    return Model()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "scaled"])
def test_values_and_gradients(torch, tied, scaling):
    model = Llama(**SMALL, tied=tied, scaling=scaling)
    beside(torch, model, witness_of(torch, scaling, tied), TOKENS, tolerance=1e-4)


def test_batch_and_sequence_may_be_symbolic():
    model, cx = Llama(**SMALL).initialise(0), Graph()
    tokens = cx.tensor(("batch", "seq"), "int64", "tokens")
    logits = model(tokens).retrieve()
    assert str(logits.shape) == "(batch, seq, 30)"
    for given in (TOKENS, TOKENS[:1, :1], TOKENS[:, :4]):
        tokens.set(given)
        cx.execute()
        close(logits.numpy(), value_of(model, given), 1e-6, "the logits")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("llama-3.3-70b", 70_553_706_496),
        ("tinyllama", 1_100_048_384),
        ("smollm2-135m", 134_515_008),
        ("smollm2-360m", 361_821_120),
    ],
)
def test_published_sizes(name, count):
    parameters = Llama(name).parameters()
    assert sum(math.prod(p.shape) for p in parameters.values()) == count


def test_every_published_model_is_counted():
    mark = test_published_sizes.pytestmark[0]
    assert {name for name, _ in mark.args[1]} == set(PUBLISHED)


@pytest.mark.parametrize(
    ("name", "context", "base", "scaling"),
    [
        ("llama-2-7b", 4096, 1e4, None),
        ("llama-3-8b", 8192, 5e5, None),
        ("llama-3.1-8b", 131_072, 5e5, Llama3Scaling(8.0, 1.0, 4.0, 8192)),
        ("llama-3.2-1b", 131_072, 5e5, Llama3Scaling(32.0, 1.0, 4.0, 8192)),
        ("llama-3.3-70b", 131_072, 5e5, Llama3Scaling(8.0, 1.0, 4.0, 8192)),
        ("tinyllama", 2048, 1e4, None),
        ("smollm2-135m", 8192, 1e5, None),
    ],
)
def test_published_positions(name, context, base, scaling):
    config = PUBLISHED[name]
    assert (config.context, config.base, config.scaling, config.eps) == (
        context,
        base,
        scaling,
        1e-5,
    )


def test_eight_billion_parameters_cost_no_memory():
    tracemalloc.start()
    cx = Graph()
    model = Llama("llama-3.1-8b")
    logits = model(cx.tensor(("batch", "seq"), "int64"), cache=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(logits.shape) == "(batch, seq, 128256)"
    assert peak < 50e6
    assert not any(p.is_loaded for p in cx.parameters.values())
    assert len(cx.ir) < 6500


def test_positions_are_turned_into_angles_once():
    counts: list[int] = []
    for layers in (1, 3):
        cx = Graph()
        Llama(**{**SMALL, "layers": layers})(cx.tensor((1, 5), "int64"))
        counts.append(sum(node.op.name == "sin" for node in cx.ir))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    model = Llama(**SMALL, dtype=dtype).initialise(0)
    state = {name: value.astype(np.float32) for name, value in model.state_dict().items()}
    other = Llama(**SMALL)
    other.load_state_dict(state)
    wanted = value_of(other, TOKENS)
    found = value_of(model, TOKENS)
    assert str(found.dtype) == dtype
    close(found.astype(np.float32), wanted, 2e-2, "the logits")


@pytest.mark.parametrize("tied", [False, True])
def test_names_are_those_of_the_published_files(torch, tied):
    model, witness = Llama(**SMALL, tied=tied), witness_of(torch, tied=tied)
    theirs = {name: tuple(value.shape) for name, value in witness.state_dict().items()}
    if tied:
        del theirs["lm_head.weight"]  # as in the files
    state = model.state_dict()
    assert {name: value.shape for name, value in state.items()} == theirs
    # Both what a file holds and what `state_dict` in PyTorch says can be loaded.
    for given in (state, witness.state_dict()):
        model.load_state_dict(given)


@pytest.mark.parametrize("shared", ["one graph", "two graphs"])
@pytest.mark.parametrize("scaling", [None, SCALING], ids=["plain", "scaled"])
def test_greedy_decoding_with_a_cache_is_the_full_forward(shared, scaling):
    model = Llama(**SMALL, scaling=scaling).initialise(3)
    full = Graph()
    text = full.tensor((1, "seq"), "int64")
    wanted = model(text).retrieve()

    prefill = Graph("prefill")
    prompt = prefill.tensor((1, "seq"), "int64")
    first = KVCache(prefill, 24)
    logits = model(prompt, cache=first).retrieve()
    steps, token, then, after = prefill, prompt, first, logits
    if shared == "two graphs":
        steps = Graph("decode")
        token, then = steps.tensor((1, 1), "int64"), KVCache(steps, 24)
        after = model(token, cache=then).retrieve()

    said = TOKENS[:1, :4]
    prefill.set_dim("past", 0)
    prompt.set(said)
    prefill.execute()
    last = logits.numpy()[:, -1:]
    if steps is not prefill:
        steps.transfer(first.buffers, then.buffers)
    for _ in range(14):
        text.set(said)
        full.execute()
        close(last, wanted.numpy()[:, -1:], 5e-5, f"logits after {said.shape[1]} tokens")
        best = last.argmax(-1)
        steps.set_dim("past", said.shape[1])
        token.set(best)
        steps.execute()
        last = after.numpy()
        said = np.concatenate([said, best], 1)
    assert len(set(said[0].tolist())) > 4  # not one token again and again


def test_sizes_that_follow_from_others():
    config = Llama(layers=1, heads=4, width=64).config
    assert (config.kv_heads, config.features, config.vocab) == (None, 256, 32_000)
    model = Llama(layers=1, heads=4, width=64)
    assert model.model.layers[0].self_attn.k_proj.weight.shape == (64, 64)


@pytest.mark.parametrize(
    ("call", "kind", "message", "hint"),
    [
        (
            lambda: Llama("llama-3.2-1B-instruct"),
            ArgumentError,
            "llama: no published model is called 'llama-3.2-1B-instruct'",
            "did you mean 'llama-3.2-1b'?",
        ),
        (
            lambda: Llama(layers=1, heads=4, kv_heads=3, width=64),
            ShapeError,
            "llama: kv_heads is 3, which does not divide heads, 4",
            "heads must be a multiple of kv_heads",
        ),
    ],
)
def test_errors(call, kind, message, hint):
    error = error_of(call, kind)
    assert (error.message, error.hint) == (message, hint)
    assert "Llama(" in str(error.where)
