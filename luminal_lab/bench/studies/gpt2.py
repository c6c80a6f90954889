"""GPT-2's forward pass, spelled for luminal_lab and for the peers that trace it beside it."""
# pyright: basic, reportMissingImports=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    """The sizes of a GPT-2; the defaults are those of the small one."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    positions: int = 1024


def weight_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight by its name."""
    d = config.width
    shapes: dict[str, tuple[int, ...]] = {
        "wte": (config.vocabulary, d),
        "wpe": (config.positions, d),
        "ln_f.weight": (d,),
        "ln_f.bias": (d,),
    }
    for layer in range(config.layers):
        for name, shape in {
            "ln_1.weight": (d,),
            "ln_1.bias": (d,),
            "attn.qkv.weight": (d, 3 * d),
            "attn.qkv.bias": (3 * d,),
            "attn.out.weight": (d, d),
            "attn.out.bias": (d,),
            "ln_2.weight": (d,),
            "ln_2.bias": (d,),
            "mlp.up.weight": (d, 4 * d),
            "mlp.up.bias": (4 * d,),
            "mlp.down.weight": (4 * d, d),
            "mlp.down.bias": (d,),
        }.items():
            shapes[f"h.{layer}.{name}"] = shape
    return shapes


def lab_logits(cx: Any, weights: Mapping[str, Any], tokens: Any, config: Config) -> Any:
    """Build the graph in luminal_lab: int64 tokens [batch, seq] to logits."""
    batch, seq = tokens.shape
    heads, size = config.heads, config.width // config.heads

    def norm(x: Any, name: str) -> Any:
        return x.layer_norm(-1, 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["wte"].embedding(tokens) + weights["wpe"][:seq]
    mask = cx.ones((seq, seq), "bool").tril()
    for layer in range(config.layers):
        block = f"h.{layer}"
        with cx.scope(f"h{layer}"):
            qkv = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.qkv")
            q, k, v = (
                part.reshape(batch, seq, heads, size).permute(0, 2, 1, 3)
                for part in qkv.split(config.width, -1)
            )
            scores = mask.where(q @ k.transpose(-2, -1) * size**-0.5, float("-inf"))
            mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, seq, config.width)
            x = x + linear(mixed, f"{block}.attn.out")
            up = linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.up").gelu("tanh")
            x = x + linear(up, f"{block}.mlp.down")
    return norm(x, "ln_f") @ weights["wte"].T


def jax_logits(config: Config) -> Callable[..., Any]:
    """Return the same function of (weights, tokens) in JAX."""
    import jax
    import jax.numpy as jnp

    heads, size = config.heads, config.width // config.heads

    def logits(weights: Mapping[str, Any], tokens: Any) -> Any:
        batch, seq = tokens.shape

        def norm(x: Any, name: str) -> Any:
            mean = x.mean(-1, keepdims=True)
            var = ((x - mean) ** 2).mean(-1, keepdims=True)
            unit = (x - mean) * jax.lax.rsqrt(var + 1e-5)
            return unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]

        def linear(x: Any, name: str) -> Any:
            return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

        x = weights["wte"][tokens] + weights["wpe"][:seq]
        mask = jnp.tril(jnp.ones((seq, seq), bool))
        for layer in range(config.layers):
            block = f"h.{layer}"
            qkv = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.qkv")
            q, k, v = (
                part.reshape(batch, seq, heads, size).transpose(0, 2, 1, 3)
                for part in jnp.split(qkv, 3, -1)
            )
            scores = jnp.where(mask, q @ k.swapaxes(-2, -1) * size**-0.5, -jnp.inf)
            mixed = jax.nn.softmax(scores, -1) @ v
            mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, seq, config.width)
            x = x + linear(mixed, f"{block}.attn.out")
            up = jax.nn.gelu(linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.up"))
            x = x + linear(up, f"{block}.mlp.down")
        return norm(x, "ln_f") @ weights["wte"].T

    return logits


def tinygrad_logits(weights: Mapping[str, Any], tokens: Any, config: Config) -> Any:
    """Build the same lazy graph in tinygrad."""
    from tinygrad.tensor import Tensor

    batch, seq = tokens.shape
    heads, size = config.heads, config.width // config.heads

    def norm(x: Any, name: str) -> Any:
        return x.layernorm(-1, 1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["wte"][tokens] + weights["wpe"][:seq]
    mask = Tensor.ones(seq, seq).tril() != 0
    for layer in range(config.layers):
        block = f"h.{layer}"
        qkv = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.qkv")
        q, k, v = (
            part.reshape(batch, seq, heads, size).permute(0, 2, 1, 3)
            for part in qkv.split(config.width, -1)
        )
        scores = mask.where(q @ k.transpose(-2, -1) * size**-0.5, float("-inf"))
        mixed = (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(batch, seq, config.width)
        x = x + linear(mixed, f"{block}.attn.out")
        x = x + linear(
            linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.up").gelu(), f"{block}.mlp.down"
        )
    return norm(x, "ln_f") @ weights["wte"].T
