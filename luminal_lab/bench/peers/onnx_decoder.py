"""A Llama as an ONNX graph, by ONNX Runtime's fused operators, with the weights of a GGUF file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from luminal_lab.bench.model_files import BASE, EPS
from luminal_lab.bench.workload import Workload
from luminal_lab.core.dtypes import Array
from luminal_lab.nn.gguf import GGUF
from luminal_lab.tensor.blocks import Blocks

if TYPE_CHECKING:
    from luminal_lab.bench.peers.onnxruntime import GraphWriter

EMBEDDING = "token_embd.weight"
ENDS = "ends"
"""The input that says how many positions there are after a run, less one."""


class DecoderWriter:
    """Writes a decoder for some tokens behind a cache, which it extends in place."""

    def __init__(self, written: GraphWriter, workload: Workload, capacity: int) -> None:
        self.written, self.sizes, self.capacity = written, workload.sizes, capacity
        self.file = GGUF(workload.path)
        self.state: dict[str, str] = {}
        """The cache: what each output replaces."""

    def product(self, x: str, name: str) -> str:
        w, weight = self.written, self.file.value(f"{name}.weight")
        if not isinstance(weight, Blocks):
            # As a constant, the weight would be packed, and be in memory twice.
            return w.node("Gemm", x, w.input(f"{name}.weight", weight), transB=1)
        rows, columns = weight.shape
        raw: np.ndarray[Any, np.dtype[np.uint8]] = weight.raw.view(np.uint8).reshape(rows, -1, 34)
        scale = np.ascontiguousarray(raw[..., :2]).view(np.float16).astype(np.float32)
        # It takes unsigned bytes, with 128 as zero.
        parts = w.constant(raw[..., 2:] ^ np.uint8(128)), w.constant(scale.reshape(-1))
        options = {"N": rows, "K": columns, "bits": 8, "block_size": 32}
        return w.node("MatMulNBits", x, *parts, accuracy_level=4, **options)

    def norm(self, x: str, name: str) -> str:
        value = self.file.value(f"{name}.weight")
        assert not isinstance(value, Blocks)
        weight = self.written.constant(value, f"{name}.weight")
        return self.written.node("RMSNormalization", x, weight, axis=-1, epsilon=EPS)

    def embedded(self, tokens: Array) -> str:
        """Return the rows of tokens [seq]: widened already, if they are in blocks."""
        w, weight = self.written, self.file.value(EMBEDDING)
        if isinstance(weight, Blocks):
            return w.input("rows", np.ascontiguousarray(weight[tokens].value))
        return w.node("Gather", w.input(EMBEDDING, weight), w.input("tokens", tokens))

    def write(self, tokens: Array, end: int, caches: dict[str, Array]) -> str:
        """Return the logits [1, vocab] of the last of some tokens."""
        w, sizes = self.written, self.sizes
        size = sizes["width"] // sizes["heads"]
        angles = np.arange(self.capacity)[:, None] * BASE ** (-np.arange(0, size, 2) / size)
        cos, sin = (w.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        ends = w.input(ENDS, np.array([end - 1], np.int32))
        total = w.constant(np.array(self.capacity, np.int32))
        three, two = (
            w.constant(np.array([1, len(tokens), -1])),
            w.constant(np.array([-1, sizes["width"]])),
        )
        options = {
            "num_heads": sizes["heads"],
            "kv_num_heads": sizes["kv_heads"],
            "do_rotary": 1,
            "rotary_interleaved": 1,
        }
        x = self.embedded(tokens)
        for layer in range(sizes["layers"]):
            at = f"blk.{layer}"
            y = self.norm(x, f"{at}.attn_norm")
            qkv = [w.node("Reshape", self.product(y, f"{at}.attn_{c}"), three) for c in "qkv"]
            names = [f"cache.{layer}.{part}" for part in ("keys", "values")]
            held = [w.input(name, caches[name]) for name in names]
            mixed, *new = w.node(
                "GroupQueryAttention", *qkv, *held, ends, total, cos, sin, results=3, **options
            )
            self.state |= zip(new, held, strict=True)
            x = w.node("Add", x, self.product(w.node("Reshape", mixed, two), f"{at}.attn_output"))
            y = self.norm(x, f"{at}.ffn_norm")
            gate = self.product(y, f"{at}.ffn_gate")
            gate = w.node("Mul", gate, w.node("Sigmoid", gate))
            up = w.node("Mul", gate, self.product(y, f"{at}.ffn_up"))
            x = w.node("Add", x, self.product(up, f"{at}.ffn_down"))
        last = w.node("Gather", x, w.constant(np.array([len(tokens) - 1])))
        x = self.norm(last, "output_norm")
        if EMBEDDING in w.inputs:
            return w.node("Gemm", x, EMBEDDING, transB=1)
        return self.product(x, EMBEDDING.removesuffix(".weight"))


def empty_caches(sizes: Any, capacity: int) -> dict[str, Array]:
    """Return the keys and values of each layer, [1, heads, capacity, size]."""
    shape = 1, sizes["kv_heads"], capacity, sizes["width"] // sizes["heads"]
    return {
        f"cache.{layer}.{part}": np.zeros(shape, np.float32)
        for layer in range(sizes["layers"])
        for part in ("keys", "values")
    }
