"""PyTorch, eager and by `torch.compile`: into existing memory, by its fused operations."""

from __future__ import annotations

# Tensors are of any type, those of lambdas too.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from collections.abc import Callable
from importlib import import_module
from itertools import cycle
from typing import Any

import numpy as np
from typing_extensions import override

from luminal_lab.bench.peers.numpy import turns
from luminal_lab.bench.peers.peer import NO_GRAPH, Peer, ReadyWorkload
from luminal_lab.bench.peers.torch_decoder import decoder_of, last_logits
from luminal_lab.bench.workload import Arrays, Sizes, Workload

NO_FILES = "PyTorch reads no GGUF files"


class Torch(Peer):
    """PyTorch's operations, one after another, with `out=` or in place if they allow it."""

    package = "torch"
    is_compiled = False

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.torch: Any = import_module("torch")
        self.F: Any = import_module("torch.nn.functional")
        self.torch.set_num_threads(threads)

    # -- how a function of tensors is made ready ---------------------------------------------------

    def tensors(self, d: Arrays, *names: str) -> list[Any]:
        """Return tensors that share the memory of the data."""
        return [self.tensor(d[name]) for name in names or d]

    def tensor(self, array: Any) -> Any:
        """Return a tensor that shares an array's memory; NumPy's bfloat16 is not PyTorch's."""
        if array.dtype.name != "bfloat16":
            return self.torch.from_numpy(array)
        return self.torch.from_numpy(array.view(np.int16)).view(self.torch.bfloat16)

    def plain(self, call: Callable[..., Any], *given: Any) -> ReadyWorkload:
        """Return a workload that calls a function without derivatives."""
        torch = self.torch

        def run() -> Any:
            with torch.inference_mode():
                return call(*given)

        return ReadyWorkload(run, self.read)

    def read(self, result: Any) -> list[Any]:
        """Copy a result to NumPy."""
        return [result.detach().float().numpy().copy()]

    def into(
        self, eager: Callable[..., Any], fused: Callable[..., Any], *given: Any
    ) -> ReadyWorkload:
        """Return a workload with its own result tensor: `eager(out, …)`, or `fused(…)` compiled."""
        with self.torch.inference_mode():
            out = self.torch.empty_like(fused(*given))
        return self.plain(eager, out, *given)

    def step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function as this library runs it best."""
        return call

    # -- elementwise operations and reductions -----------------------------------------------------

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        gelu: Any = self.F.gelu
        return self.into(
            lambda out, x: gelu(x, approximate="tanh", out=out),
            lambda x: gelu(x, approximate="tanh"),
            *self.tensors(d, "x"),
        )

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        softmax: Any = self.torch.softmax
        return self.into(
            lambda out, x: softmax(x, -1, out=out),
            lambda x: softmax(x, -1),
            *self.tensors(d, "x"),
        )

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        shape, norm = (sizes["columns"],), self.F.layer_norm

        def fused(x: Any, weight: Any, bias: Any) -> Any:
            return norm(x, shape, weight, bias, 1e-5)

        names = "x", "weight", "bias"
        return self.into(lambda out, *given: fused(*given), fused, *self.tensors(d, *names))

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        shape, norm = (sizes["columns"],), self.F.rms_norm

        def fused(x: Any, weight: Any) -> Any:
            return norm(x, shape, weight, 1e-5)

        return self.into(lambda out, x, weight: fused(x, weight), fused, *self.tensors(d))

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        torch = self.torch

        def eager(t: Any, x: Any, y: Any) -> Any:
            torch.mul(x, 1.5, out=t).add_(y)
            torch.mul(t, t, out=t).sqrt_().sub_(x).relu_()
            return t.mul_(y).add_(0.5).exp_().add_(1.0).reciprocal_().mul_(x)

        def fused(x: Any, y: Any) -> Any:
            t = x * 1.5 + y
            t = (t * t).sqrt() - x
            t = t.relu() * y + 0.5
            return (t.exp() + 1.0).reciprocal() * x

        return self.into(eager, fused, *self.tensors(d, "x", "y"))

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._sum(d, 1)

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._sum(d, 0)

    def _sum(self, d: Arrays, axis: int) -> ReadyWorkload:
        add: Any = self.torch.sum
        return self.into(
            lambda out, x: add(x, axis, out=out), lambda x: add(x, axis), *self.tensors(d, "x")
        )

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        add: Any = self.torch.add
        return self.into(
            lambda out, x, y: add(x, y, out=out), lambda x, y: x + y, *self.tensors(d, "x", "y")
        )

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.into(
            lambda out, x: out.copy_(x.T),
            lambda x: x.T.contiguous(),
            *self.tensors(d, "x"),
        )

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        softmax: Any = self.torch.softmax
        return self.into(
            lambda out, x: softmax(x, 1, out=out), lambda x: softmax(x, 1), *self.tensors(d, "x")
        )

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        shape, norm = (sizes["axis"],), self.F.layer_norm

        def fused(x: Any, weight: Any, bias: Any) -> Any:
            return norm(x.mT, shape, weight, bias, 1e-5).mT

        names = "x", "weight", "bias"
        return self.into(
            lambda out, *given: out.copy_(fused(*given)), fused, *self.tensors(d, *names)
        )

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._sum(d, 1)

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        matmul: Any = self.torch.matmul
        return self.into(
            lambda out, a, b: matmul(a, b, out=out), matmul, *self.tensors(d, "a", "b")
        )

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        torch, gelu = self.torch, self.F.gelu

        def fused(x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
            y = gelu(torch.addmm(up_bias, x, up), approximate="tanh")
            return torch.addmm(down_bias, y, down)

        dtype = self.tensor(d["x"]).dtype
        hidden, bent = torch.empty(2, sizes["rows"], sizes["hidden"], dtype=dtype)

        def eager(out: Any, x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
            torch.addmm(up_bias, x, up, out=hidden)
            gelu(hidden, approximate="tanh", out=bent)
            return torch.addmm(down_bias, bent, down, out=out)

        names = "x", "up", "up_bias", "down", "down_bias"
        return self.into(eager, fused, *self.tensors(d, *names))

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        torch, gelu, linear = self.torch, self.F.gelu, self.F.linear
        dtype = self.tensor(d["x"]).dtype
        hidden = torch.empty(sizes["rows"], sizes["hidden"], dtype=dtype)

        def fused(x: Any, weight: Any, bias: Any) -> Any:
            return gelu(linear(x, weight, bias), approximate="tanh")

        def eager(out: Any, x: Any, weight: Any, bias: Any) -> Any:
            torch.addmm(bias, x, weight.T, out=hidden)
            return gelu(hidden, approximate="tanh", out=out)

        return self.into(eager, fused, *self.tensors(d, "x", "weight", "bias"))

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        attend, is_causal = self.F.scaled_dot_product_attention, bool(sizes["causal"])

        def fused(q: Any, k: Any, v: Any) -> Any:
            # With a batch of one it uses its own fused kernel, which it does not for three axes.
            return attend(q[None], k[None], v[None], is_causal=is_causal)[0]

        return self.into(lambda out, *qkv: fused(*qkv), fused, *self.tensors(d, *"qkv"))

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        conv: Any = self.F.conv2d

        def fused(x: Any, weight: Any) -> Any:
            return conv(x, weight, padding=1)

        return self.into(lambda out, *given: fused(*given), fused, *self.tensors(d, "x", "weight"))

    # -- models ------------------------------------------------------------------------------------

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        weights = dict(zip(d, self.tensors(d), strict=True))
        tokens = weights.pop("tokens")
        return self.plain(self.step(self.gpt2_logits(sizes)), weights, tokens)

    def gpt2_logits(self, sizes: Sizes) -> Callable[..., Any]:
        """Return the function from weights and tokens to logits."""
        F, torch, heads, width = self.F, self.torch, sizes["heads"], sizes["width"]  # noqa: N806  # as everybody calls it

        def logits(w: dict[str, Any], tokens: Any) -> Any:
            batch, seq = tokens.shape

            def norm(x: Any, name: str) -> Any:
                return F.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

            def linear(x: Any, name: str) -> Any:
                flat = x.reshape(-1, x.shape[-1])
                y = torch.addmm(w[f"{name}.bias"], flat, w[f"{name}.weight"])
                return y.view(batch, seq, -1)

            x = F.embedding(tokens, w["wte.weight"]) + w["wpe.weight"][:seq]
            for layer in range(sizes["layers"]):
                at = f"h.{layer}"
                q, k, v = (
                    part.view(batch, seq, heads, -1).transpose(1, 2)
                    for part in linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn").split(width, -1)
                )
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                mixed = mixed.transpose(1, 2).reshape(batch, seq, width)
                x = x + linear(mixed, f"{at}.attn.c_proj")
                up = F.gelu(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), approximate="tanh")
                x = x + linear(up, f"{at}.mlp.c_proj")
            return F.linear(norm(x, "ln_f"), w["wte.weight"])

        return logits

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        F = self.F  # noqa: N806  # as everybody calls it
        return self._decode(sizes, d, lambda x, w, name: F.linear(x, w[f"{name}.weight"]))

    def llama_q8(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def product(x: Any, w: dict[str, Any], name: str) -> Any:
            q, scale = w[f"{name}.weight.q"], w[f"{name}.weight.scale"]
            weight = q.view(*scale.shape, 32).float() * scale.float()[..., None]
            return (weight * x.view(1, -1, 32)).sum((1, 2)).view(1, 1, -1)

        return self._decode(sizes, d, product)

    def _decode(self, sizes: Sizes, d: Arrays, product: Callable[..., Any]) -> ReadyWorkload:
        F, torch, last = self.F, self.torch, sizes["capacity"] - 1  # noqa: N806  # as everybody calls it
        heads, kv_heads, width = sizes["heads"], sizes["kv_heads"], sizes["width"]
        cos, sin = (torch.from_numpy(np.tile(part, 2)) for part in turns(sizes, last))

        def turned(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        def logits(w: dict[str, Any], caches: list[tuple[Any, Any]], tokens: Any) -> Any:
            def norm(x: Any, name: str) -> Any:
                return F.rms_norm(x, (width,), w[f"{name}.weight"], 1e-5)

            name = "model.embed_tokens.weight"
            if name in w:
                x = F.embedding(tokens, w[name])
            else:
                rows, scales = w[f"{name}.q"][tokens[0]], w[f"{name}.scale"][tokens[0]]
                x = (rows.view(1, -1, 32) * scales.float()[..., None]).view(1, 1, width)
            for layer, (keys, values) in enumerate(caches):
                at = f"model.layers.{layer}"
                y = norm(x, f"{at}.input_layernorm")
                q, k, v = (
                    product(y, w, f"{at}.self_attn.{c}_proj").view(1, 1, count, -1).transpose(1, 2)
                    for c, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
                )
                keys[:, :, last:] = turned(k)
                values[:, :, last:] = v
                mixed = F.scaled_dot_product_attention(turned(q), keys, values, enable_gqa=True)
                x = x + product(mixed.reshape(1, 1, width), w, f"{at}.self_attn.o_proj")
                y = norm(x, f"{at}.post_attention_layernorm")
                gate = F.silu(product(y, w, f"{at}.mlp.gate_proj"))
                x = x + product(gate * product(y, w, f"{at}.mlp.up_proj"), w, f"{at}.mlp.down_proj")
            return product(norm(x, "model.norm"), w, "model.embed_tokens")

        weights = dict(zip(d, self.tensors(d), strict=True))
        tokens = weights.pop("tokens")
        caches = [
            (weights.pop(f"cache.{n}.keys").clone(), weights.pop(f"cache.{n}.values").clone())
            for n in range(sizes["layers"])
        ]
        return self.plain(self.step(logits), weights, caches, tokens)

    def prefill(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        count = len(d["tokens"])
        model, tokens = decoder_of(workload, count), self.torch.from_numpy(d["tokens"][None])
        call = self.step(last_logits(workload))
        return self.plain(call, *model[:3], None, tokens, model.places)

    def decode(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        torch, begin, steps = self.torch, workload.sizes["past"], workload.sizes["steps"]
        model, tokens = decoder_of(workload, begin + steps), torch.from_numpy(d["tokens"][None])
        call, positions = last_logits(workload), cycle(model.places[begin:].split(1))
        prompt = [tuple(part[:, :, :begin] for part in pair) for pair in model.caches]
        with torch.inference_mode():
            call(*model[:2], prompt, None, tokens[:, :-1], model.places[:begin])
        call, token = self.step(call), tokens[:, -1:]

        def run() -> Any:
            at, caches, places = next(positions), model.caches, model.places
            if not self.is_compiled:  # the rows that there are, and no others
                end = int(at) + 1
                caches = [tuple(part[:, :, :end] for part in pair) for pair in caches]
                places = None
            with torch.inference_mode():
                return call(*model[:2], caches, places, token, at)

        return ReadyWorkload(run, self.read)

    # -- training ----------------------------------------------------------------------------------

    def train_cnn(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        F = self.F  # noqa: N806  # as everybody calls it

        def loss(w: dict[str, Any], images: Any, labels: Any) -> Any:
            x = images
            for layer in ("convolutions.0", "convolutions.1"):
                x = F.conv2d(x, w[f"{layer}.weight"], w[f"{layer}.bias"], padding=1)
                x = F.max_pool2d(F.relu(x), 2)
            x = F.linear(x.flatten(1), w["head.weight"], w["head.bias"])
            return F.cross_entropy(x, labels)

        sgd: Any = self.torch.optim.SGD
        given = "images", "labels"
        return self._train(loss, lambda w: sgd(w, lr=0.01, momentum=0.9, foreach=True), d, given)

    def train_gpt(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        F, logits = self.F, self.gpt2_logits(sizes)  # noqa: N806  # as everybody calls it

        def loss(w: dict[str, Any], tokens: Any, following: Any) -> Any:
            return F.cross_entropy(logits(w, tokens).flatten(0, 1), following.flatten())

        adam: Any = self.torch.optim.AdamW
        given = "tokens", "following"
        return self._train(loss, lambda w: adam(w, lr=1e-3, fused=True), d, given)

    def _train(
        self,
        loss: Callable[..., Any],
        optimiser: Callable[..., Any],
        d: Arrays,
        given: tuple[str, str],
    ) -> ReadyWorkload:
        weights = {
            name: self.torch.from_numpy(value.copy()).requires_grad_()
            for name, value in d.items()
            if name not in given
        }
        inputs, steps = self.tensors(d, *given), optimiser(list(weights.values()))
        forward = self.step(loss)

        def run() -> Any:
            steps.zero_grad(set_to_none=True)
            value = forward(weights, *inputs)
            value.backward()
            steps.step()
            return value

        return ReadyWorkload(run, self.read)

    reasons = {
        "build_gpt2": NO_GRAPH,
        "compile_gpt2": "eager PyTorch compiles nothing",
        "first_token": NO_FILES,
    }


class TorchCompile(Torch):
    """The same functions, each compiled as a whole; results go into a tensor of their own."""

    is_compiled = True

    @override
    def prepare(self, workload: Workload, data: Arrays) -> ReadyWorkload:
        # A function shared by workloads would be compiled again and again, until PyTorch gives up.
        self.torch.compiler.reset()
        return super().prepare(workload, data)

    @override
    def step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        return self.torch.compile(call, fullgraph=True, dynamic=False)

    @override
    def into(
        self, eager: Callable[..., Any], fused: Callable[..., Any], *given: Any
    ) -> ReadyWorkload:
        with self.torch.inference_mode():
            result = fused(*given)
            out = self.torch.empty_like(result, memory_format=self.torch.contiguous_format)
        return self.plain(self.step(lambda out, *given: out.copy_(fused(*given))), out, *given)

    def compile_gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def run() -> Any:
            ready = self.gpt2(sizes, d)
            return ready.read(ready.run())

        return ReadyWorkload(run, lambda result: result)
