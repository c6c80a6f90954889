"""Small models in PyTorch's own layers, each with what it is called with.

PyTorch is no dependency, so each function gets it as its argument.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TypeAlias

Made: TypeAlias = tuple[Any, tuple[Any, ...]]
MODELS: Final[dict[str, Callable[[Any], Made]]] = {}
"""What makes each module and its arguments, by name."""


def model(make: Callable[[Any], Made]) -> Callable[[Any], Made]:
    """Enter a function that makes a model."""
    MODELS[make.__name__] = make
    return make


def wrapped(torch: Any, forward: Callable[..., Any], **parts: Any) -> Any:
    """Return a module of parts, whose forward is a function of it."""

    class Wrapped(torch.nn.Module):
        """Parts, and what is made of them."""

        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, *given: Any) -> Any:
            return forward(self, *given)

    return Wrapped()


def residual(torch: Any, *inner: Any) -> Any:
    """Return a block whose input is added to its result."""
    return wrapped(torch, lambda m, x: x + m.inner(x), inner=torch.nn.Sequential(*inner))


def tokens(torch: Any, *shape: int) -> Any:
    """Return random tokens of 64."""
    return torch.randint(0, 64, shape)


# -- rows ------------------------------------------------------------------------------------------


@model
def mlp(torch: Any) -> Made:
    nn = torch.nn
    layers = nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    return nn.Sequential(*layers), (torch.randn(32, 64),)


@model
def gelu_mlp(torch: Any) -> Made:
    nn = torch.nn
    blocks = [
        residual(torch, nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))
        for _ in range(3)
    ]
    return nn.Sequential(*blocks, nn.LayerNorm(128), nn.Linear(128, 10)), (torch.randn(32, 128),)


@model
def autoencoder(torch: Any) -> Made:
    nn = torch.nn
    sizes = 256, 64, 16, 64, 256
    layers: list[Any] = []
    for inner, outer in pairwise(sizes):
        layers += [nn.Linear(inner, outer), nn.SiLU()]
    return nn.Sequential(*layers[:-1], nn.Sigmoid()), (torch.randn(32, 256),)


@model
def factorisation(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, ids: Any) -> Any:
        rows = m.rows(ids)
        pairs = (rows.sum(1).square() - rows.square().sum(1)).sum(-1, keepdim=True) / 2
        return torch.sigmoid(pairs + m.single(ids).sum(1) + m.deep(rows.flatten(1)))

    deep = nn.Sequential(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 1))
    parts = {"rows": nn.Embedding(64, 16), "single": nn.Embedding(64, 1), "deep": deep}
    return wrapped(torch, forward, **parts), (tokens(torch, 32, 8),)


@model
def graph_convolution(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, x: Any, edges: Any) -> Any:
        scale = edges.sum(-1).clamp(min=1).rsqrt()
        edges = scale[:, None] * edges * scale
        return m.second(edges @ m.first(edges @ x).relu()).log_softmax(-1)

    module = wrapped(torch, forward, first=nn.Linear(32, 64), second=nn.Linear(64, 7))
    return module, (torch.randn(128, 32), (torch.rand(128, 128) < 0.1).float())


# -- images ----------------------------------------------------------------------------------------


def images(torch: Any, size: int = 32, channels: int = 3) -> tuple[Any, ...]:
    return (torch.randn(4, channels, size, size),)


def conv_norm(torch: Any, inner: int, outer: int, size: int = 3, **more: Any) -> Any:
    nn = torch.nn
    conv = nn.Conv2d(inner, outer, size, padding=size // 2, bias=False, **more)
    return nn.Sequential(conv, nn.BatchNorm2d(outer), nn.ReLU())


@model
def lenet(torch: Any) -> Made:
    nn = torch.nn
    body = nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh()
    head = nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10)
    return nn.Sequential(*body, *head), images(torch, 32, 1)


@model
def vgg(torch: Any) -> Made:
    nn = torch.nn
    layers: list[Any] = []
    for inner, outer in ((3, 16), (16, 32), (32, 64)):
        layers += [conv_norm(torch, inner, outer), conv_norm(torch, outer, outer), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10)), images(torch)


@model
def resnet(torch: Any) -> Made:
    nn = torch.nn
    blocks: list[Any] = []
    for inner, outer in ((16, 32), (32, 64)):
        norm = nn.Conv2d(inner, inner, 3, 1, 1, bias=False), nn.BatchNorm2d(inner)
        blocks += [residual(torch, conv_norm(torch, inner, inner), *norm), nn.ReLU()]
        blocks += [conv_norm(torch, inner, outer, stride=2)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    return nn.Sequential(conv_norm(torch, 3, 16), *blocks, *head), images(torch)


@model
def mobilenet(torch: Any) -> Made:
    nn = torch.nn

    def gated(m: Any, x: Any) -> Any:
        return x * m.gate(x.mean((2, 3), keepdim=True))

    def block(width: int) -> Any:
        gate = nn.Conv2d(width, 8, 1), nn.ReLU(), nn.Conv2d(8, width, 1), nn.Hardsigmoid()
        deep = nn.Conv2d(width, width, 3, padding=1, groups=width), nn.Hardswish()
        gates = wrapped(torch, gated, gate=nn.Sequential(*gate))
        return residual(torch, *deep, gates, nn.Conv2d(width, width, 1))

    stem = nn.Conv2d(3, 24, 3, 2, 1), nn.Hardswish()
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
    return nn.Sequential(*stem, block(24), block(24), *head), images(torch)


@model
def densenet(torch: Any) -> Made:
    nn = torch.nn

    def joined(m: Any, x: Any) -> Any:
        return torch.cat([x, m.inner(x)], 1)

    layers = [wrapped(torch, joined, inner=conv_norm(torch, 16 + 8 * k, 8)) for k in range(3)]
    head = nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10)
    return nn.Sequential(conv_norm(torch, 3, 16, stride=2), *layers, *head), images(torch)


@model
def unet(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, x: Any) -> Any:
        wide = m.first(x)
        deep = m.inner(m.down(wide))
        return m.last(torch.cat([wide, nn.functional.interpolate(deep, scale_factor=2)], 1))

    parts = {
        "first": conv_norm(torch, 3, 8),
        "down": conv_norm(torch, 8, 16, stride=2),
        "inner": conv_norm(torch, 16, 16),
        "last": nn.Conv2d(24, 4, 3, padding=1),
    }
    return wrapped(torch, forward, **parts), images(torch)


@model
def convnext(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, x: Any) -> Any:
        return x + m.mix(m.norm(m.deep(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

    def block() -> Any:
        mix = nn.Sequential(nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24))
        deep = nn.Conv2d(24, 24, 7, padding=3, groups=24)
        return wrapped(torch, forward, deep=deep, norm=nn.LayerNorm(24), mix=mix)

    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10)
    return nn.Sequential(nn.Conv2d(3, 24, 4, 4), block(), block(), *head), images(torch)


@model
def generator(torch: Any) -> Made:
    nn = torch.nn
    layers: list[Any] = [nn.Linear(32, 256), nn.Unflatten(1, (16, 4, 4))]
    for inner, outer in ((16, 16), (16, 8)):
        layers += [nn.ConvTranspose2d(inner, outer, 4, 2, 1), nn.BatchNorm2d(outer), nn.LeakyReLU()]
    last = nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()
    return nn.Sequential(*layers, *last), (torch.randn(4, 32),)


@model
def mixer(torch: Any) -> Made:
    nn = torch.nn

    def across(m: Any, x: Any) -> Any:
        return m.inner(x.transpose(1, 2)).transpose(1, 2)

    blocks: list[Any] = []
    for _ in range(2):
        inner = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        blocks.append(residual(torch, nn.LayerNorm(24), wrapped(torch, across, inner=inner)))
        within = nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24)
        blocks.append(residual(torch, nn.LayerNorm(24), *within))
    stem = nn.Conv2d(3, 24, 8, 8)
    module = wrapped(
        torch,
        lambda m, x: m.blocks(m.stem(x).flatten(2).transpose(1, 2)).mean(1),
        stem=stem,
        blocks=nn.Sequential(*blocks),
    )
    return module, images(torch)


# -- sequences -------------------------------------------------------------------------------------


def attention(torch: Any, width: int, heads: int, causal: bool) -> Any:
    nn = torch.nn

    def forward(m: Any, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, heads, -1).transpose(1, 2) for part in m.inner(x).chunk(3, -1)
        )
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return m.outer(seen.transpose(1, 2).flatten(2))

    parts = {"inner": nn.Linear(width, 3 * width), "outer": nn.Linear(width, width)}
    return wrapped(torch, forward, **parts)


def layers(torch: Any, count: int, width: int, causal: bool) -> Any:
    nn = torch.nn
    blocks: list[Any] = []
    for _ in range(count):
        wide = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        blocks.append(residual(torch, nn.LayerNorm(width), attention(torch, width, 4, causal)))
        blocks.append(residual(torch, nn.LayerNorm(width), *wide))
    return nn.Sequential(*blocks, nn.LayerNorm(width))


@model
def vit(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, x: Any) -> Any:
        x = m.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([m.first.expand(x.shape[0], 1, -1), x], 1) + m.places
        return m.head(m.body(x)[:, 0])

    parts = {
        "patches": nn.Conv2d(3, 32, 8, 8),
        "first": nn.Parameter(torch.randn(1, 1, 32)),
        "places": nn.Parameter(torch.randn(17, 32)),
        "body": layers(torch, 2, 32, causal=False),
        "head": nn.Linear(32, 10),
    }
    return wrapped(torch, forward, **parts), images(torch)


@model
def encoder(torch: Any) -> Made:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return module, (torch.randn(4, 16, 32),)


@model
def gpt(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, ids: Any) -> Any:
        x = m.words(ids) + m.places(torch.arange(ids.shape[1]))
        return m.body(x) @ m.words.weight.T

    parts = {"words": nn.Embedding(64, 32), "places": nn.Embedding(32, 32)}
    module = wrapped(torch, forward, **parts, body=layers(torch, 2, 32, causal=True))
    return module, (tokens(torch, 4, 16),)


@model
def llama(torch: Any) -> Made:
    nn = torch.nn

    def turned(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[2])[:, None] / 100 ** (torch.arange(half) / half)
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def attend(m: Any, x: Any) -> Any:
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, 8).transpose(1, 2) for part in (m.q, m.k, m.v))
        k, v = (part.repeat_interleave(2, 1) for part in (turned(k), v))
        scores = turned(q) @ k.transpose(-1, -2) / 8**0.5
        after = torch.ones(length, length, dtype=torch.bool).triu(1)
        shares = scores.masked_fill(after, float("-inf")).softmax(-1)
        return m.o((shares @ v).transpose(1, 2).flatten(2))

    def gated(m: Any, x: Any) -> Any:
        return m.down(nn.functional.silu(m.gate(x)) * m.up(x))

    def linear(inner: int, outer: int) -> Any:
        return nn.Linear(inner, outer, bias=False)

    blocks: list[Any] = []
    for _ in range(2):
        parts = {"q": linear(32, 32), "k": linear(32, 16), "v": linear(32, 16), "o": linear(32, 32)}
        wide = {"gate": linear(32, 64), "up": linear(32, 64), "down": linear(64, 32)}
        blocks.append(residual(torch, nn.RMSNorm(32), wrapped(torch, attend, **parts)))
        blocks.append(residual(torch, nn.RMSNorm(32), wrapped(torch, gated, **wide)))
    module = nn.Sequential(nn.Embedding(64, 32), *blocks, nn.RMSNorm(32), linear(32, 64))
    return module, (tokens(torch, 4, 16),)


@model
def dilated(torch: Any) -> Made:
    nn = torch.nn
    blocks = [
        residual(torch, nn.Conv1d(16, 16, 3, padding=2**k, dilation=2**k), nn.ELU())
        for k in range(4)
    ]
    return nn.Sequential(nn.Conv1d(1, 16, 1), *blocks, nn.Conv1d(16, 1, 1)), (
        torch.randn(4, 1, 256),
    )


@model
def gru(torch: Any) -> Made:
    nn = torch.nn

    def forward(m: Any, ids: Any) -> Any:
        x = m.words(ids)
        state = x.new_zeros(x.shape[0], 32)
        for step in range(x.shape[1]):
            state = m.cell(x[:, step], state)
        return m.head(state)

    parts = {"words": nn.Embedding(64, 16), "cell": nn.GRUCell(16, 32), "head": nn.Linear(32, 5)}
    return wrapped(torch, forward, **parts), (tokens(torch, 8, 6),)
