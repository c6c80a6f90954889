"""The graphs that a first view is tried on: models, and what is no model but somebody's code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.nn import models
from luminal_lab.passes.snapshot import Snapshot


def mlp() -> ll.Graph:
    cx = ll.Graph("mlp")
    models.MLP(16, 64, 10)(cx.tensor((8, 16), name="x")).retrieve()
    return cx


def cnn() -> ll.Graph:
    cx = ll.Graph("cnn")
    models.CNN()(cx.tensor((2, 8, 8), name="image")).retrieve()
    return cx


def gpt2() -> ll.Graph:
    return _reads_tokens("gpt2", models.GPT2(layers=6, heads=4, width=64, vocab=50, context=32))


def llama() -> ll.Graph:
    """Return a Llama of six layers, in little."""
    return _reads_tokens("llama", _llama(6))


def large() -> ll.Graph:
    """Return the graph of a Llama of some ten thousand nodes."""
    return _reads_tokens("llama", _llama(54))


def _llama(layers: int) -> nn.Module:
    return models.Llama(
        layers=layers, heads=4, kv_heads=2, width=64, hidden=128, vocab=50, context=64
    )


def _reads_tokens(name: str, model: nn.Module) -> ll.Graph:
    cx = ll.Graph(name)
    model(cx.tensor((1, 16), "int64", name="tokens")).retrieve()
    return cx


class LinearBlock(nn.Module):
    """A transformer block of layers, three of which are equal neighbours."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: ll.Tensor) -> ll.Tensor:
        batch, rows, width = 2, 16, 32
        y, size = self.n1(x), width // self.heads
        q, k, v = (
            w(y).reshape(batch, rows, self.heads, size).permute(0, 2, 1, 3)
            for w in (self.wq, self.wk, self.wv)
        )
        scores = (q @ k.permute(0, 1, 3, 2)) * size**-0.5
        mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, rows, width)
        x = x + self.wo(mixed)
        return x + self.down(self.up(self.n2(x)).gelu())


def linear_block() -> ll.Graph:
    cx = ll.Graph("block")
    LinearBlock()(cx.tensor((2, 16, 32), name="x")).named("y").retrieve()
    return cx


class Block(nn.Module):
    """A transformer block, all of it in one `forward`."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        self.heads = heads
        self.qkv = nn.Parameter((width, 3 * width))
        self.out = nn.Parameter((width, width))
        self.up = nn.Parameter((width, 4 * width))
        self.down = nn.Parameter((4 * width, width))

    def forward(self, x: ll.Tensor) -> ll.Tensor:
        batch, length, width = x.shape
        normal = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        parts = (normal @ self.qkv).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = (parts[:, :, at].permute(0, 2, 1, 3) for at in range(3))
        scores = q @ k.permute(0, 1, 3, 2) * 0.5
        mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, length, width)
        x = x + mixed @ self.out
        normal = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
        hidden = (normal @ self.up).gelu()
        return x + hidden @ self.down


def block() -> ll.Graph:
    cx = ll.Graph("block")
    Block()(cx.tensor((2, 16, 32), name="x")).retrieve()
    return cx


def one_scope() -> ll.Graph:
    """Return a model whose nodes all stand in one scope, without parameters of its own."""
    cx = ll.Graph("one_scope")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("model"):
        for _ in range(3):
            x = x.softmax(-1) * 2 + x.gelu()
    x.retrieve()
    return cx


def without_scopes() -> ll.Graph:
    """Return what somebody writes without modules: some lines, and a loop."""
    cx = ll.Graph("script")
    x = cx.tensor((4, 8, 16), name="x")
    first = cx.tensor((16, 32), name="first")
    second = cx.tensor((32, 16), name="second")
    mean = x.mean(-1, keepdim=True)
    normal = (x - mean) / (x.var(-1, keepdim=True) + 1e-5).sqrt()
    for _ in range(6):
        hidden = (normal @ first).gelu()
        normal = normal + hidden @ second
        normal = normal * normal.sigmoid()
    scores = normal @ normal.permute(0, 2, 1) * 0.25
    weights = scores.softmax(-1)
    (weights @ normal).retrieve()
    return cx


def tiny() -> ll.Graph:
    cx = ll.Graph("tiny")
    x = cx.tensor((4,), name="x")
    (x * x).sin().retrieve()
    return cx


def lone() -> ll.Graph:
    """Return a box in a box in a box, each alone in the one around it."""
    cx = ll.Graph("lone")
    x = cx.tensor((4, 8), name="x")
    with cx.scope("outer"), cx.scope("inner"), cx.scope("core"):
        x.softmax(-1).retrieve()
    return cx


def deep() -> ll.Graph:
    """Return scopes in scopes, ten deep, each with a few nodes of its own."""
    cx = ll.Graph("deep")

    def within(x: ll.Tensor, depth: int) -> ll.Tensor:
        with cx.scope(f"level{depth}"):
            x = (x * 0.5).sin() + x
            return within(x, depth + 1).exp2() if depth < 10 else x.softmax(-1)

    within(cx.tensor((4, 8), name="x"), 1).retrieve()
    return cx


def equal_layers() -> ll.Graph:
    """Return forty layers that are all alike."""
    cx = ll.Graph("layers")
    x = cx.tensor((4, 8), name="x")
    for k in range(40):
        with cx.scope(f"layers.{k}"):
            weight = cx.tensor((8, 8), name=f"w{k}")
            x = (x @ weight).relu() + x
    x.retrieve()
    return cx


MODELS: dict[str, Callable[[], ll.Graph]] = {
    "mlp": mlp, "cnn": cnn, "gpt2": gpt2, "llama": llama, "large": large, "block": block,
    "one_scope": one_scope, "without_scopes": without_scopes, "tiny": tiny, "lone": lone,
    "deep": deep, "equal_layers": equal_layers,
}  # fmt: skip


@cache
def snapshots(name: str) -> tuple[Snapshot, ...]:
    """Return what the passes for a CPU make of a graph, compiled once for all tests."""
    cx = MODELS[name]()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    return cx.snapshots
