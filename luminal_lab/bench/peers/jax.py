"""JAX: one jitted function, whose result goes into the memory of the last one, which is donated."""

from __future__ import annotations

# Tensors are of any type, those of lambdas too.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from luminal_lab.bench.peers.numpy import turns
from luminal_lab.bench.peers.peer import Peer, ReadyWorkload
from luminal_lab.bench.workload import Arrays, Sizes


class JAX(Peer):
    """JAX on the CPU."""

    package = "jax"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.jax: Any = import_module("jax")
        self.jax.config.update("jax_platforms", "cpu")
        self.np: Any = import_module("jax.numpy")
        self.nn: Any = import_module("jax.nn")
        self.lax: Any = import_module("jax.lax")

    def put(self, value: Any) -> Any:
        """Return a JAX array, which shares memory if possible."""
        if value.dtype == np.int64:
            value = value.astype(np.int32)
        return self.jax.device_put(value, may_alias=True)

    def of(self, d: Arrays, spelling: Callable[..., Any], *names: str) -> ReadyWorkload:
        """Return a workload that runs a jitted function of some inputs."""
        given = [self.put(d[name]) for name in names]
        shape = self.jax.eval_shape(spelling, *given)
        step = self.jax.jit(
            lambda old, *given: spelling(*given), donate_argnums=0, keep_unused=True
        )
        state = self.np.zeros(shape.shape, shape.dtype)

        def run() -> Any:
            nonlocal state
            state = step(state, *given)
            return state.block_until_ready()

        return ReadyWorkload(run, lambda result: [np.array(result)])

    # -- elementwise operations and reductions -----------------------------------------------------

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: self.nn.gelu(x, approximate=True), "x")

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: self.nn.softmax(x, -1), "x")

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, self.normed, "x", "weight", "bias")

    def normed(self, x: Any, weight: Any, bias: Any) -> Any:
        """Return the layer norm of the last axis."""
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * self.lax.rsqrt(var + 1e-5) * weight + bias

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, self.rms_normed, "x", "weight")

    def rms_normed(self, x: Any, weight: Any) -> Any:
        """Return the RMS norm of the last axis."""
        return x * self.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        jnp = self.np

        def spelling(x: Any, y: Any) -> Any:
            t = x * 1.5 + y
            t = jnp.sqrt(t * t) - x
            t = jnp.maximum(t, 0.0) * y + 0.5
            return 1.0 / (jnp.exp(t) + 1.0) * x

        return self.of(d, spelling, "x", "y")

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(0), "x")

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, y: x + y, "x", "y")

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.T, "x")

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: self.nn.softmax(x, 1), "x")

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return self.normed(x.mT, weight, bias).mT

        return self.of(d, spelling, "x", "weight", "bias")

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda a, b: a @ b, "a", "b")

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
            return self.nn.gelu(x @ up + up_bias) @ down + down_bias

        return self.of(d, spelling, "x", "up", "up_bias", "down", "down_bias")

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return self.nn.gelu(x @ weight.T + bias, approximate=True)

        return self.of(d, spelling, "x", "weight", "bias")

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        is_causal = bool(sizes["causal"])
        return self.of(d, lambda q, k, v: self.attended(q, k, v, is_causal), *"qkv")

    def attended(self, q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        """Return attention of [..., length, size]."""
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        if is_causal:
            seen = self.np.tril(self.np.ones(scores.shape[-2:], bool))
            scores = self.np.where(seen, scores, -self.np.inf)
        return self.nn.softmax(scores, -1) @ v

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, self.convolved, "x", "weight")

    def convolved(self, x: Any, weight: Any) -> Any:
        """Return a convolution 3x3 that keeps the image's size."""
        return self.lax.conv_general_dilated(x, weight, (1, 1), "SAME")

    # -- models ------------------------------------------------------------------------------------

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        weights = {n: self.put(w) for n, w in d.items() if n != "tokens"}
        tokens, step = self.put(d["tokens"]), self.jax.jit(self.gpt2_logits(sizes))
        return ReadyWorkload(
            lambda: step(weights, tokens).block_until_ready(), lambda result: [np.array(result)]
        )

    def compile_gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def run() -> Any:
            ready = self.gpt2(sizes, d)
            return ready.read(ready.run())

        return ReadyWorkload(run, lambda result: result)

    def build_gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        weights = {n: self.put(w) for n, w in d.items() if n != "tokens"}
        tokens = self.put(d["tokens"])

        def run() -> Any:
            # A new function each time: JAX remembers what it has traced.
            return self.jax.make_jaxpr(self.gpt2_logits(sizes))(weights, tokens)

        return ReadyWorkload(run, lambda _: [], lambda: {"equations": len(run().eqns)})

    def gpt2_logits(self, sizes: Sizes) -> Callable[..., Any]:
        """Return the function from weights and tokens to logits."""
        heads, width = sizes["heads"], sizes["width"]

        def logits(w: dict[str, Any], tokens: Any) -> Any:
            batch, seq = tokens.shape

            def norm(x: Any, name: str) -> Any:
                return self.normed(x, w[f"{name}.weight"], w[f"{name}.bias"])

            def linear(x: Any, name: str) -> Any:
                return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

            x = w["wte.weight"][tokens] + w["wpe.weight"][:seq]
            for layer in range(sizes["layers"]):
                at = f"h.{layer}"
                qkv = linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn")
                q, k, v = (
                    part.reshape(batch, seq, heads, -1).transpose(0, 2, 1, 3)
                    for part in self.np.split(qkv, 3, -1)
                )
                mixed = self.attended(q, k, v, True).transpose(0, 2, 1, 3)
                x = x + linear(mixed.reshape(batch, seq, width), f"{at}.attn.c_proj")
                up = self.nn.gelu(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"))
                x = x + linear(up, f"{at}.mlp.c_proj")
            return norm(x, "ln_f") @ w["wte.weight"].T

        return logits

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def product(x: Any, w: dict[str, Any], name: str) -> Any:
            return w[f"{name}.weight"] @ x

        return self._decode(sizes, d, product)

    def llama_q8(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def product(x: Any, w: dict[str, Any], name: str) -> Any:
            q, scale = w[f"{name}.weight.q"], w[f"{name}.weight.scale"]
            blocks = q.reshape(*scale.shape, 32).astype(self.np.float32)
            parts = (blocks * x.reshape(1, -1, 32)).sum(-1)
            return (parts * scale.astype(self.np.float32)).sum(-1)

        return self._decode(sizes, d, product)

    def _decode(self, sizes: Sizes, d: Arrays, product: Callable[..., Any]) -> ReadyWorkload:
        jnp, last = self.np, sizes["capacity"] - 1
        heads, kv_heads, size = sizes["heads"], sizes["kv_heads"], sizes["width"] // sizes["heads"]
        cos, sin = (self.put(part) for part in turns(sizes, last))

        def turned(x: Any) -> Any:
            a, b = jnp.split(x, 2, -1)
            return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        def logits(caches: list[tuple[Any, Any]], w: dict[str, Any], tokens: Any) -> Any:
            def norm(x: Any, name: str) -> Any:
                return self.rms_normed(x, w[f"{name}.weight"])

            name, token = "model.embed_tokens.weight", tokens[0, 0]
            if name in w:
                x = w[name][token]
            else:
                scales = w[f"{name}.scale"][token].astype(jnp.float32)
                x = (w[f"{name}.q"][token].reshape(-1, 32) * scales[:, None]).reshape(-1)
            new: list[tuple[Any, Any]] = []
            for layer, (keys, values) in enumerate(caches):
                at = f"model.layers.{layer}"
                y = norm(x, f"{at}.input_layernorm")
                q, k, v = (
                    product(y, w, f"{at}.self_attn.{c}_proj").reshape(-1, size) for c in "qkv"
                )
                keys = keys.at[0, :, last].set(turned(k))
                values = values.at[0, :, last].set(v)
                new.append((keys, values))
                q = turned(q).reshape(kv_heads, heads // kv_heads, size)
                mixed = self.attended(q, keys[0], values[0], False)
                x = x + product(mixed.reshape(-1), w, f"{at}.self_attn.o_proj")
                y = norm(x, f"{at}.post_attention_layernorm")
                gate = self.nn.silu(product(y, w, f"{at}.mlp.gate_proj"))
                x = x + product(gate * product(y, w, f"{at}.mlp.up_proj"), w, f"{at}.mlp.down_proj")
            return new, product(norm(x, "model.norm"), w, "model.embed_tokens").reshape(1, 1, -1)

        weights = {n: self.put(w) for n, w in d.items() if n[:6] == "model."}
        tokens = self.put(d["tokens"])
        names = [(f"cache.{n}.keys", f"cache.{n}.values") for n in range(sizes["layers"])]
        caches = [(jnp.array(d[keys]), jnp.array(d[values])) for keys, values in names]
        step = self.jax.jit(logits, donate_argnums=0)

        def run() -> Any:
            nonlocal caches
            caches, result = step(caches, weights, tokens)
            return result.block_until_ready()

        return ReadyWorkload(run, lambda result: [np.array(result)])

    # -- training ----------------------------------------------------------------------------------

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """Return the mean of -log of the probability of the labels."""
        logs = self.nn.log_softmax(logits, -1)
        return -self.np.take_along_axis(logs, labels[..., None], -1).mean()

    def train_cnn(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        lax = self.lax

        def loss(w: dict[str, Any], images: Any, labels: Any) -> Any:
            x = images
            for layer in ("convolutions.0", "convolutions.1"):
                x = self.convolved(x, w[f"{layer}.weight"]) + w[f"{layer}.bias"][:, None, None]
                window = 1, 1, 2, 2
                x = lax.reduce_window(
                    self.np.maximum(x, 0), -self.np.inf, lax.max, window, window, "VALID"
                )
            x = x.reshape(len(images), -1) @ w["head.weight"].T + w["head.bias"]
            return self.cross_entropy(x, labels)

        def update(w: Any, state: Any, g: Any) -> Any:
            velocity = 0.9 * state + g
            return w - 0.01 * velocity, velocity

        return self._train(loss, update, lambda w: self.np.zeros_like(w), d, ("images", "labels"))

    def train_gpt(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        logits = self.gpt2_logits(sizes)

        def loss(w: dict[str, Any], tokens: Any, following: Any) -> Any:
            return self.cross_entropy(logits(w, tokens), following)

        def update(w: Any, state: Any, g: Any) -> Any:
            mean, square, step = state
            mean, square, step = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g, step + 1
            root = self.np.sqrt(square / (1 - 0.999**step)) + 1e-8
            moved = w * (1 - 1e-3 * 1e-2) - 1e-3 * (mean / (1 - 0.9**step)) / root
            return moved, (mean, square, step)

        def start(w: Any) -> Any:
            return self.np.zeros_like(w), self.np.zeros_like(w), self.np.zeros(())

        return self._train(loss, update, start, d, ("tokens", "following"))

    def _train(
        self,
        loss: Callable[..., Any],
        update: Callable[..., Any],
        start: Callable[[Any], Any],
        d: Arrays,
        given: tuple[str, str],
    ) -> ReadyWorkload:
        derive = self.jax.value_and_grad(loss)

        def step(weights: dict[str, Any], state: dict[str, Any], *inputs: Any) -> Any:
            value, slopes = derive(weights, *inputs)
            new = {n: update(w, state[n], slopes[n]) for n, w in weights.items()}
            return value, {n: w for n, (w, _) in new.items()}, {n: s for n, (_, s) in new.items()}

        jitted = self.jax.jit(step, donate_argnums=(0, 1))
        inputs = [self.put(d[name]) for name in given]
        weights = {n: self.np.array(w) for n, w in d.items() if n not in given}
        state = {n: start(w) for n, w in weights.items()}

        def run() -> Any:
            nonlocal weights, state
            value, weights, state = jitted(weights, state, *inputs)
            self.jax.block_until_ready(weights)
            return value

        return ReadyWorkload(run, lambda result: [np.array(result)])
