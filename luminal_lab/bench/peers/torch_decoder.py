"""A Llama in PyTorch, with the weights of a GGUF file, in their dtype, where they are."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from luminal_lab.bench.model_files import BASE, EPS
from luminal_lab.bench.workload import Workload
from luminal_lab.nn.gguf import GGUF
from luminal_lab.tensor.blocks import Blocks


class TorchDecoder(NamedTuple):
    """Weights by their names, tables of the turns by position, and a cache for each layer."""

    weights: dict[str, Any]
    turns: tuple[Any, Any]
    caches: list[tuple[Any, Any]]
    places: Any
    """The positions of the cache, [capacity]."""


def decoder_of(workload: Workload, capacity: int) -> TorchDecoder:
    """Return a decoder with an empty cache."""
    torch: Any = import_module("torch")
    sizes, file = workload.sizes, GGUF(workload.path)
    size = sizes["width"] // sizes["heads"]
    dtype: Any = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[workload.form]
    weights: dict[str, Any] = {}
    for name in file.tensors:
        value = file.value(name)
        raw = value.raw if isinstance(value, Blocks) else value
        if raw.dtype.name == "bfloat16":
            weight = torch.from_numpy(raw.view(np.int16)).view(dtype)
        else:
            weight = torch.from_numpy(raw).to(dtype)
        if "attn_q." in name or "attn_k." in name:  # neighbours are turned in the file, not here
            weight = weight.view(-1, size // 2, 2, sizes["width"]).transpose(1, 2)
            weight = weight.reshape(-1, sizes["width"])
        weights[name] = weight
    slow = BASE ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(capacity, dtype=torch.float64)[:, None] * slow.repeat(2)
    shape = 1, sizes["kv_heads"], capacity, size
    return TorchDecoder(
        weights,
        (angles.cos().to(dtype), angles.sin().to(dtype)),
        [
            (torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
            for _ in _layers(sizes)
        ],
        torch.arange(capacity),
    )


def _layers(sizes: Any) -> range:
    return range(sizes["layers"])


def last_logits(workload: Workload) -> Callable[..., Any]:
    """Return the function of a decoder, tokens [1, seq] and their positions [seq].

    It takes keys and values from what is given of the caches; `places` are those of their rows
    where some are to be hidden, and None where the last token sees all.
    """
    F: Any = import_module("torch.nn.functional")  # noqa: N806  # as everybody calls it
    torch: Any = import_module("torch")
    sizes = workload.sizes
    width, heads = sizes["width"], sizes["heads"]

    def logits(
        w: dict[str, Any], turns: Any, caches: Any, places: Any, tokens: Any, at: Any
    ) -> Any:
        cos, sin = (part[at] for part in turns)
        seq = tokens.shape[1]
        mask = None if places is None else places <= at[:, None]

        def norm(x: Any, name: str) -> Any:
            return F.rms_norm(x, (width,), w[f"{name}.weight"], EPS)

        def turned(x: Any) -> Any:
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        x = F.embedding(tokens, w["token_embd.weight"])
        for layer, (keys, values) in enumerate(caches):

            def product(x: Any, name: str, layer: int = layer) -> Any:
                return F.linear(x, w[f"blk.{layer}.{name}.weight"])

            y = norm(x, f"blk.{layer}.attn_norm")
            q, k, v = (
                product(y, f"attn_{part}").view(1, seq, -1, width // heads).transpose(1, 2)
                for part in "qkv"
            )
            keys.index_copy_(2, at, turned(k))
            values.index_copy_(2, at, v)
            mixed = F.scaled_dot_product_attention(
                turned(q),
                keys,
                values,
                mask,
                is_causal=mask is None and seq > 1,
                enable_gqa=True,
            )
            x = x + product(mixed.transpose(1, 2).reshape(1, seq, width), "attn_output")
            y = norm(x, f"blk.{layer}.ffn_norm")
            x = x + product(F.silu(product(y, "ffn_gate")) * product(y, "ffn_up"), "ffn_down")
        return F.linear(norm(x[0, -1], "output_norm"), w["token_embd.weight"])

    return logits
