"""GPT-2 beside a plain spelling in PyTorch; published sizes, names and files; decoding."""

import math
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, ShapeError
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.gpt2 import GPT2, published
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import beside, close, value_of

SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "vocab": 30, "context": 24}
TOKENS = np.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])


def witness_of(torch, layers, heads, width, vocab, context):
    """Return a GPT-2 in PyTorch, with the names of Hugging Face."""
    nn = torch.nn

    class Conv1D(nn.Module):
        def __init__(self, size, out):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(size, out) * 0.3)
            self.bias = nn.Parameter(torch.randn(out) * 0.3)

        def forward(self, x):
            return x @ self.weight + self.bias

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.mlp = nn.Module(), nn.Module()
            self.attn.c_attn = Conv1D(width, 3 * width)
            self.attn.c_proj = Conv1D(width, width)
            self.mlp.c_fc = Conv1D(width, 4 * width)
            self.mlp.c_proj = Conv1D(4 * width, width)

        def forward(self, x):
            parts = self.attn.c_attn(self.ln_1(x)).split(width, -1)
            q, k, v = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in parts)
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            mixed = scores.masked_fill(hidden, -math.inf).softmax(-1) @ v
            x = x + self.attn.c_proj(mixed.transpose(1, 2).flatten(2))
            up = self.mlp.c_fc(self.ln_2(x))
            bent = 0.5 * up * (1 + torch.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
            return x + self.mlp.c_proj(bent)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.h = nn.ModuleList([Block() for _ in range(layers)])
            self.ln_f = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
            for block in self.h:
                x = block(x)
            return self.ln_f(x) @ self.wte.weight.T

    torch.manual_seed(0)
    return Model()


def test_values_and_gradients(torch):
    beside(torch, GPT2(**SMALL), witness_of(torch, **SMALL), TOKENS, tolerance=1e-4)


def test_batch_and_sequence_may_be_symbolic():
    model, cx = GPT2(**SMALL).initialise(0), Graph()
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
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_published_sizes(name, count):
    parameters = GPT2(name).parameters()
    assert sum(math.prod(p.shape) for p in parameters.values()) == count
    assert not any(p.is_loaded for p in parameters.values())


def test_a_published_model_with_other_sizes():
    model = GPT2("gpt2-medium", layers=1, context=7)
    assert (model.config.layers, model.config.width, model.config.context) == (1, 1024, 7)


def test_the_graph_of_the_small_one():
    cx = Graph()
    GPT2("gpt2")(cx.tensor(("batch", "seq"), "int64", "tokens"))
    assert len(cx.parameters) == 2 + 12 * 12 + 2
    scopes = {node.meta.scope for node in cx.ir}
    assert {"gpt2.h.0.attn.c_attn", "gpt2.h.11.mlp.c_proj", "gpt2.ln_f"} <= scopes
    assert len(cx.ir) < 2300


def test_names_are_those_of_the_published_files(torch):
    ours = {name: value.shape for name, value in GPT2(**SMALL).state_dict().items()}
    theirs = {k: tuple(v.shape) for k, v in witness_of(torch, **SMALL).state_dict().items()}
    assert ours == theirs


def test_the_state_of_hugging_faces_model():
    model = GPT2(**SMALL).initialise(1)
    state = {f"transformer.{name}": value for name, value in model.state_dict().items()}
    state["lm_head.weight"] = state["transformer.wte.weight"]
    for k in range(2):
        state[f"transformer.h.{k}.attn.bias"] = np.ones((1, 1, 24, 24), bool)
        state[f"transformer.h.{k}.attn.masked_bias"] = np.array(-1e4, np.float32)
    other = GPT2(**SMALL)
    other.load_state_dict(published(state))
    np.testing.assert_array_equal(value_of(other, TOKENS), value_of(model, TOKENS))


def test_first_weights():
    model = GPT2(layers=8, heads=2, width=64, vocab=500, context=64).initialise(0)
    state = model.state_dict()
    for name, std in (
        ("wte.weight", 0.02),
        ("wpe.weight", 0.02),
        ("h.3.attn.c_attn.weight", 0.02),
        ("h.3.mlp.c_fc.weight", 0.02),
        ("h.3.attn.c_proj.weight", 0.005),
        ("h.3.mlp.c_proj.weight", 0.005),
    ):
        assert state[name].std() == pytest.approx(std, rel=0.05)
    assert not state["h.3.mlp.c_fc.bias"].any()
    assert (state["ln_f.weight"] == 1).all()


@pytest.mark.parametrize("shared", ["one graph", "two graphs"])
def test_greedy_decoding_with_a_cache_is_the_full_forward(shared):
    model = GPT2(**SMALL).initialise(3)
    full = Graph()
    text = full.tensor((1, "seq"), "int64")
    wanted = (model(text) * 10).retrieve()

    prefill = Graph("prefill")
    prompt = prefill.tensor((1, "seq"), "int64")
    first = KVCache(prefill, 24)
    logits = (model(prompt, cache=first) * 10).retrieve()
    steps, token, then = (prefill, prompt, first)
    next_logits = logits
    if shared == "two graphs":
        steps = Graph("decode")
        token, then = steps.tensor((1, 1), "int64"), KVCache(steps, 24)
        next_logits = (model(token, cache=then) * 10).retrieve()

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
        last = next_logits.numpy()
        said = np.concatenate([said, best], 1)
    assert said.shape == (1, 18)
    assert len(set(said[0].tolist())) > 4  # not one token again and again


def test_dropout():
    model = GPT2(**SMALL, dropout=0.3).initialise(0)
    trained = value_of(model, TOKENS)
    plain = GPT2(**SMALL)
    plain.load_state_dict(model.state_dict())
    assert np.abs(trained - value_of(plain, TOKENS)).max() > 1e-3
    close(value_of(model.eval(), TOKENS), value_of(plain, TOKENS), 1e-6, "the logits")


@pytest.mark.parametrize(
    ("call", "kind", "message", "hint"),
    [
        (
            lambda: GPT2("gpt2-meduim"),
            ArgumentError,
            "gpt2: no published model is called 'gpt2-meduim'",
            "did you mean 'gpt2-medium'?",
        ),
        (
            lambda: GPT2("bert"),
            ArgumentError,
            "gpt2: no published model is called 'bert'",
            "the names are gpt2, gpt2-medium, gpt2-large, gpt2-xl",
        ),
        (
            lambda: GPT2(heads=5),
            ShapeError,
            "gpt2_attention: heads is 5, which does not divide width, 768",
            "width must be a multiple of heads",
        ),
        (
            lambda: GPT2(**SMALL)(Graph().tensor((1, 25), "int64")),
            ShapeError,
            "gpt2: 25 tokens are given, and the context is 24",
            "a learned position is needed for each; give the model a larger context",
        ),
        (
            lambda: GPT2(**SMALL)((cx := Graph()).tensor((1, 1), "int64"), cache=KVCache(cx, 25)),
            ShapeError,
            "gpt2: 25 positions are in the cache, and the context is 24",
            "a learned position is needed for each; give the model a larger context",
        ),
    ],
)
def test_errors(call, kind, message, hint):
    error = error_of(call, kind)
    assert (error.message, error.hint) == (message, hint)
    assert "GPT2(" in str(error.where)
