"""NumPy: every result into an existing array, BLAS for the products."""

from __future__ import annotations

# Results are of any type, those of lambdas too.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from luminal_lab.bench.peers.peer import NO_GRAPH, Peer, ReadyWorkload
from luminal_lab.bench.workload import Arrays, Sizes

Array: TypeAlias = Any
"""Floats of some dtype."""
SLOPE = np.float32(0.7978845608)  # sqrt(2 / pi)
CUBE = np.float32(0.044715)
NO_GRADIENTS = "NumPy derives no gradients"


def ready(call: Callable[[], Array]) -> ReadyWorkload:
    """Return a workload that runs a call and reads its one array."""
    return ReadyWorkload(call, lambda result: [np.array(result)])


class NumPy(Peer):
    """NumPy with `out=`."""

    package = "numpy"
    reasons = {
        "train_cnn": NO_GRADIENTS,
        "train_gpt": NO_GRADIENTS,
        "llama_q8": "NumPy has no product with blocks of int8: it would make floats of all of them",
        "build_gpt2": NO_GRAPH,
        "compile_gpt2": "NumPy compiles nothing",
    }

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty_like(d["x"])
        return ready(lambda: gelu(d["x"], out))

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty_like(d["x"])
        return ready(lambda: softmax(d["x"], out))

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty_like(d["x"])
        return ready(lambda: layer_norm(d["x"], d["weight"], d["bias"], out))

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty_like(d["x"])
        return ready(lambda: rms_norm(d["x"], d["weight"], out))

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        x, y, t = d["x"], d["y"], np.empty_like(d["x"])
        half, unit = np.float32(0.5), np.float32(1)

        def run() -> Array:
            np.multiply(x, np.float32(1.5), out=t)
            np.add(t, y, out=t)
            np.multiply(t, t, out=t)
            np.sqrt(t, out=t)
            np.subtract(t, x, out=t)
            np.maximum(t, np.float32(0), out=t)
            np.multiply(t, y, out=t)
            np.add(t, half, out=t)
            np.exp(t, out=t)
            np.add(t, unit, out=t)
            np.reciprocal(t, out=t)
            return np.multiply(t, x, out=t)

        return ready(run)

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty(sizes["rows"], np.float32)
        return ready(lambda: np.sum(d["x"], axis=1, out=out))

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty(sizes["columns"], np.float32)
        return ready(lambda: np.sum(d["x"], axis=0, out=out))

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        x, y, out = d["x"], d["y"], np.empty_like(d["x"])
        return ready(lambda: np.add(x, y, out=out))

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        x, out = d["x"], np.empty((sizes["columns"], sizes["rows"]), np.float32)

        def run() -> Array:
            np.copyto(out, x.T)
            return out

        return ready(run)

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty_like(d["x"])
        return ready(lambda: softmax(d["x"], out, axis=1))

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        x, out = d["x"], np.empty_like(d["x"])
        weight, bias = (d[name][:, None] for name in ("weight", "bias"))

        def run() -> Array:
            np.subtract(x, x.mean(1, keepdims=True), out=out)
            var = np.einsum("oai,oai->oi", out, out)[:, None] / np.float32(sizes["axis"])
            np.multiply(out, np.float32(1) / np.sqrt(var + np.float32(1e-5)), out=out)
            np.multiply(out, weight, out=out)
            return np.add(out, bias, out=out)

        return ready(run)

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty((sizes["outer"], sizes["inner"]), np.float32)
        return ready(lambda: np.sum(d["x"], axis=1, out=out))

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        out = np.empty((sizes["m"], sizes["n"]), np.float32)
        return ready(lambda: np.matmul(d["a"], d["b"], out=out))

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        hidden = np.empty((sizes["rows"], sizes["hidden"]), np.float32)
        bent, out = np.empty_like(hidden), np.empty_like(d["x"])

        def run() -> Array:
            np.matmul(d["x"], d["up"], out=hidden)
            np.add(hidden, d["up_bias"], out=hidden)
            np.matmul(gelu(hidden, bent), d["down"], out=out)
            return np.add(out, d["down_bias"], out=out)

        return ready(run)

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        hidden = np.empty((sizes["rows"], sizes["hidden"]), np.float32)
        out = np.empty_like(hidden)

        def run() -> Array:
            np.matmul(d["x"], d["weight"].T, out=hidden)
            np.add(hidden, d["bias"], out=hidden)
            return gelu(hidden, out)

        return ready(run)

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        length = sizes["length"]
        q, k, v = (d[name] for name in "qkv")
        scores = np.empty((sizes["heads"], length, length), np.float32)
        out, keys = np.empty_like(q), np.ascontiguousarray(k.transpose(0, 2, 1))
        factor = np.float32(sizes["size"] ** -0.5)
        hidden = np.triu(np.full((length, length), -np.inf, np.float32), 1)

        def run() -> Array:
            np.copyto(keys, k.transpose(0, 2, 1))
            np.matmul(q, keys, out=scores)
            np.multiply(scores, factor, out=scores)
            if sizes["causal"]:
                np.add(scores, hidden, out=scores)
            return np.matmul(softmax(scores, scores), v, out=out)

        return ready(run)

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        channels, side = sizes["channels"], sizes["side"]
        padded = np.zeros((channels, side + 2, side + 2), np.float32)
        patches = np.empty((channels, 3, 3, side, side), np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(1, 2))
        weight = d["weight"].reshape(channels, -1)
        out = np.empty((channels, side * side), np.float32)

        def run() -> Array:
            padded[:, 1:-1, 1:-1] = d["x"][0]
            np.copyto(patches, windows)
            np.matmul(weight, patches.reshape(9 * channels, -1), out=out)
            return out.reshape(1, channels, side, side)

        return ready(run)

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return ready(lambda: gpt2(sizes, d))

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        caches = {name: d[name].copy() for name in d if name.startswith("cache.")}
        return ready(lambda: llama(sizes, d, caches))


# -- the parts -------------------------------------------------------------------------------------


def gelu(x: Array, out: Array) -> Array:
    """Write gelu of x, by tanh, into `out`, which is not x."""
    np.multiply(x, x, out=out)
    np.multiply(out, CUBE, out=out)
    np.add(out, np.float32(1), out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, SLOPE, out=out)
    np.tanh(out, out=out)
    np.add(out, np.float32(1), out=out)
    np.multiply(out, x, out=out)
    return np.multiply(out, np.float32(0.5), out=out)


def softmax(x: Array, out: Array, axis: int = -1) -> Array:
    """Write the softmax of an axis into `out`, which may be x."""
    np.subtract(x, x.max(axis, keepdims=True), out=out)
    np.exp(out, out=out)
    return np.divide(out, out.sum(axis, keepdims=True), out=out)


def layer_norm(x: Array, weight: Array, bias: Array, out: Array) -> Array:
    """Write the layer norm of the last axis into `out`, which is not x."""
    np.subtract(x, x.mean(-1, keepdims=True), out=out)
    var = np.einsum("...i,...i->...", out, out)[..., None] / np.float32(x.shape[-1])
    np.multiply(out, np.float32(1) / np.sqrt(var + np.float32(1e-5)), out=out)
    np.multiply(out, weight, out=out)
    return np.add(out, bias, out=out)


def rms_norm(x: Array, weight: Array, out: Array) -> Array:
    """Write the RMS norm of the last axis into `out`, which is not x."""
    square = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
    np.multiply(x, np.float32(1) / np.sqrt(square + np.float32(1e-5)), out=out)
    return np.multiply(out, weight, out=out)


def gpt2(sizes: Sizes, d: Arrays) -> Array:
    """Return the logits of a GPT-2 for a text."""
    seq, heads, width = sizes["seq"], sizes["heads"], sizes["width"]
    hidden = np.triu(np.full((seq, seq), -np.inf, np.float32), 1)

    def norm(x: Array, name: str) -> Array:
        return layer_norm(x, d[f"{name}.weight"], d[f"{name}.bias"], np.empty_like(x))

    def linear(x: Array, name: str) -> Array:
        y = x @ d[f"{name}.weight"]
        return np.add(y, d[f"{name}.bias"], out=y)

    x = d["wte.weight"][d["tokens"]] + d["wpe.weight"][:seq]
    for layer in range(sizes["layers"]):
        at = f"h.{layer}"
        qkv = linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn")
        q, k, v = qkv.reshape(seq, 3, heads, -1).transpose(1, 2, 0, 3)
        scores = q @ k.transpose(0, 2, 1)
        scores *= np.float32((width // heads) ** -0.5)
        scores += hidden
        mixed = softmax(scores, scores) @ v
        x = x + linear(mixed.transpose(1, 0, 2).reshape(1, seq, width), f"{at}.attn.c_proj")
        up = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")
        x = x + linear(gelu(up, np.empty_like(up)), f"{at}.mlp.c_proj")
    return norm(x, "ln_f") @ d["wte.weight"].T


def turns(sizes: Sizes, position: int) -> tuple[Array, Array]:
    """Return cos and sin [size / 2] of the angles by which Llama turns a position."""
    size = sizes["width"] // sizes["heads"]
    angles = position * 500_000.0 ** (-np.arange(size // 2) * 2 / size)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def llama(sizes: Sizes, d: Arrays, caches: Arrays) -> Array:
    """Return the logits of a Llama for one token after a cache, whose last row it writes."""
    heads, kv_heads, capacity = sizes["heads"], sizes["kv_heads"], sizes["capacity"]
    size, last = sizes["width"] // heads, capacity - 1
    cos, sin = turns(sizes, last)

    def norm(x: Array, name: str) -> Array:
        return rms_norm(x, d[f"{name}.weight"], np.empty_like(x))

    def linear(x: Array, name: str) -> Array:
        return d[f"{name}.weight"] @ x

    def turned(x: Array) -> Array:
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = d["model.embed_tokens.weight"][d["tokens"][0, 0]]
    for layer in range(sizes["layers"]):
        at = f"model.layers.{layer}"
        keys, values = caches[f"cache.{layer}.keys"][0], caches[f"cache.{layer}.values"][0]
        y = norm(x, f"{at}.input_layernorm")
        q = turned(linear(y, f"{at}.self_attn.q_proj").reshape(heads, size))
        keys[:, last] = turned(linear(y, f"{at}.self_attn.k_proj").reshape(kv_heads, size))
        values[:, last] = linear(y, f"{at}.self_attn.v_proj").reshape(kv_heads, size)
        scores = q.reshape(kv_heads, -1, size) @ keys.transpose(0, 2, 1)
        scores *= np.float32(size**-0.5)
        mixed = softmax(scores, scores) @ values
        x = x + linear(mixed.reshape(-1), f"{at}.self_attn.o_proj")
        y = norm(x, f"{at}.post_attention_layernorm")
        gate = linear(y, f"{at}.mlp.gate_proj")
        gate /= np.float32(1) + np.exp(-gate)
        x = x + linear(gate * linear(y, f"{at}.mlp.up_proj"), f"{at}.mlp.down_proj")
    logits: Any = linear(norm(x, "model.norm"), "model.embed_tokens")
    return logits.reshape(1, 1, -1)
