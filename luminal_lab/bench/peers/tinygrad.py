"""tinygrad: every workload under `TinyJit`, its kernels compiled by clang, which may be zig's."""

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


class TinyGrad(Peer):
    """tinygrad on the CPU, without its search for better kernels, which takes minutes for each."""

    package = "tinygrad"
    reasons = {
        "build_gpt2": "tinygrad runs nothing here: JAX's tracing is the reference",
        "compile_gpt2": "tinygrad compiles kernel by kernel; the line is about whole graphs",
    }

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.tiny: Any = import_module("tinygrad")
        self.optim: Any = import_module("tinygrad.nn.optim")
        import_module("tinygrad.helpers").NUM_CPU_THREADS.value = threads
        self.device: Any = self.tiny.Device[self.tiny.Device.DEFAULT]

    def put(self, value: Any) -> Any:
        """Return a tensor with a copy of some data."""
        if value.dtype.name == "bfloat16":  # which NumPy has from another package
            wide = self.tiny.Tensor(value.astype(np.float32))
            return wide.cast(self.tiny.dtypes.bfloat16).realize()
        return self.tiny.Tensor(np.array(value)).realize()

    def jitted(self, call: Callable[..., Any], *given: Any) -> ReadyWorkload:
        """Return a workload that runs a recorded function; its result is then complete."""
        step = self.tiny.TinyJit(lambda: call(*given).realize())

        def run() -> Any:
            result = step()
            self.device.synchronize()
            return result

        return ReadyWorkload(run, lambda result: [result.float().numpy().copy()])

    def of(self, d: Arrays, spelling: Callable[..., Any], *names: str) -> ReadyWorkload:
        """Return a workload that runs a function of some inputs."""
        return self.jitted(spelling, *(self.put(d[name]) for name in names))

    # -- elementwise operations and reductions -----------------------------------------------------

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.gelu(), "x")

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.softmax(-1), "x")

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, self.normed, "x", "weight", "bias")

    def normed(self, x: Any, weight: Any, bias: Any) -> Any:
        """Return the layer norm of the last axis."""
        return x.layernorm(-1, 1e-5) * weight + bias

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, self.rms_normed, "x", "weight")

    def rms_normed(self, x: Any, weight: Any) -> Any:
        """Return the RMS norm of the last axis."""
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, y: Any) -> Any:
            t = x * 1.5 + y
            t = (t * t).sqrt() - x
            t = t.relu() * y + 0.5
            return (t.exp() + 1.0).reciprocal() * x

        return self.of(d, spelling, "x", "y")

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(0), "x")

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, y: x + y, "x", "y")

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.T.contiguous(), "x")

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.softmax(1), "x")

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return x.layernorm(1, 1e-5) * weight.reshape(-1, 1) + bias.reshape(-1, 1)

        return self.of(d, spelling, "x", "weight", "bias")

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda a, b: a @ b, "a", "b")

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
            return (x @ up + up_bias).gelu() @ down + down_bias

        return self.of(d, spelling, "x", "up", "up_bias", "down", "down_bias")

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return (x @ weight.T + bias).gelu()

        return self.of(d, spelling, "x", "weight", "bias")

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        is_causal = bool(sizes["causal"])
        return self.of(
            d, lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=is_causal), *"qkv"
        )

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, weight: x.conv2d(weight, padding=1), "x", "weight")

    # -- models ------------------------------------------------------------------------------------

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        weights = {name: self.put(w) for name, w in d.items() if name != "tokens"}
        tokens = self.put(d["tokens"].astype(np.int32))
        return self.jitted(self.gpt2_logits(sizes), weights, tokens)

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
                    part.reshape(batch, seq, heads, -1).transpose(1, 2)
                    for part in qkv.split(width, -1)
                )
                mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
                mixed = mixed.transpose(1, 2).reshape(batch, seq, width)
                x = x + linear(mixed, f"{at}.attn.c_proj")
                up = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc").gelu()
                x = x + linear(up, f"{at}.mlp.c_proj")
            return norm(x, "ln_f") @ w["wte.weight"].T

        return logits

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def product(x: Any, w: dict[str, Any], name: str) -> Any:
            return x @ w[f"{name}.weight"].T

        return self._decode(sizes, d, product)

    def llama_q8(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def product(x: Any, w: dict[str, Any], name: str) -> Any:
            q, scale = w[f"{name}.weight.q"], w[f"{name}.weight.scale"]
            blocks = q.reshape(*scale.shape, 32).float() * scale.float().unsqueeze(-1)
            return x @ blocks.reshape(q.shape).T

        return self._decode(sizes, d, product)

    def _decode(self, sizes: Sizes, d: Arrays, product: Callable[..., Any]) -> ReadyWorkload:
        last, heads, kv_heads = sizes["capacity"] - 1, sizes["heads"], sizes["kv_heads"]
        size, width = sizes["width"] // heads, sizes["width"]
        cos, sin = (self.put(part) for part in turns(sizes, last))
        weights = {n: self.put(w) for n, w in d.items() if n[:6] == "model."}
        tokens = self.put(d["tokens"].astype(np.int32))
        caches = [
            (self.put(d[f"cache.{n}.keys"]), self.put(d[f"cache.{n}.values"]))
            for n in range(sizes["layers"])
        ]

        def turned(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return (a * cos - b * sin).cat(b * cos + a * sin, dim=-1)

        def logits(w: dict[str, Any], tokens: Any) -> Any:
            def norm(x: Any, name: str) -> Any:
                return self.rms_normed(x, w[f"{name}.weight"])

            name = "model.embed_tokens.weight"
            if name in w:
                x = w[name][tokens[0]]
            else:
                scales = w[f"{name}.scale"][tokens[0]].float().reshape(-1, 1)
                x = (w[f"{name}.q"][tokens[0]].reshape(-1, 32).float() * scales).reshape(1, width)
            for layer, (keys, values) in enumerate(caches):
                at = f"model.layers.{layer}"
                y = norm(x, f"{at}.input_layernorm")
                q, k, v = (
                    product(y, w, f"{at}.self_attn.{c}_proj").reshape(1, -1, 1, size) for c in "qkv"
                )
                keys[:, :, last:].assign(turned(k).contiguous())
                values[:, :, last:].assign(v.contiguous())
                q = turned(q).reshape(kv_heads, heads // kv_heads, size)
                mixed = q.scaled_dot_product_attention(keys[0], values[0])
                x = x + product(mixed.reshape(1, width), w, f"{at}.self_attn.o_proj")
                y = norm(x, f"{at}.post_attention_layernorm")
                gate = product(y, w, f"{at}.mlp.gate_proj").silu()
                x = x + product(gate * product(y, w, f"{at}.mlp.up_proj"), w, f"{at}.mlp.down_proj")
            result = product(norm(x, "model.norm"), w, "model.embed_tokens")
            return result.reshape(1, 1, -1)

        return self.jitted(logits, weights, tokens)

    # -- training ----------------------------------------------------------------------------------

    def train_cnn(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def loss(w: dict[str, Any], images: Any, labels: Any) -> Any:
            x = images
            for layer in ("convolutions.0", "convolutions.1"):
                x = x.conv2d(w[f"{layer}.weight"], w[f"{layer}.bias"], padding=1)
                x = x.relu().max_pool2d((2, 2))
            x = x.flatten(1).linear(w["head.weight"].T, w["head.bias"])
            return x.sparse_categorical_crossentropy(labels)

        sgd: Any = self.optim.SGD
        return self._train(loss, lambda w: sgd(w, lr=0.01, momentum=0.9), d, ("images", "labels"))

    def train_gpt(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        logits = self.gpt2_logits(sizes)

        def loss(w: dict[str, Any], tokens: Any, following: Any) -> Any:
            return logits(w, tokens).sparse_categorical_crossentropy(following)

        adam: Any = self.optim.AdamW
        return self._train(
            loss, lambda w: adam(w, lr=1e-3, weight_decay=0.01), d, ("tokens", "following")
        )

    def _train(
        self,
        loss: Callable[..., Any],
        optimiser: Callable[..., Any],
        d: Arrays,
        given: tuple[str, str],
    ) -> ReadyWorkload:
        weights = {n: self.put(w) for n, w in d.items() if n not in given}
        for weight in weights.values():
            weight.requires_grad = True
        inputs = [
            self.put(d[n].astype(np.int32) if d[n].dtype == np.int64 else d[n]) for n in given
        ]
        steps = optimiser(list(weights.values()))

        def step() -> Any:
            steps.zero_grad()
            value = loss(weights, *inputs).backward()
            return value.realize(*steps.schedule_step())

        jitted = self.tiny.TinyJit(step)

        def run() -> Any:
            with self.tiny.Context(TRAINING=1):
                value = jitted()
            self.device.synchronize()
            return value

        return ReadyWorkload(run, lambda result: [np.array(result.numpy())])
