"""GGUF files of Llamas with drawn weights, in the forms in which models are published.

Values are cut out of a pool at random places; every second layer has the same ones, so that this
takes little memory. A vocabulary of the right size comes along, with its merges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from luminal_lab.bench.model_data import POOL
from luminal_lab.bench.workload import Sizes
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.nn.packing import fitting, packed
from luminal_lab.tensor.blocks import Blocks, form_of

Value: TypeAlias = "Array | Blocks"
BASE: Final = 500_000.0
"""The base of the rotary positions."""
EPS: Final = 1e-5
SHAPES: Final[Mapping[str, Sizes]] = {
    "1b": {
        "layers": 16, "heads": 32, "kv_heads": 8, "width": 2048, "hidden": 8192, "vocab": 128_256,
    },
    "half": {
        "layers": 24, "heads": 16, "kv_heads": 4, "width": 1024, "hidden": 4096, "vocab": 65_536,
    },
    "small": {
        "layers": 30, "heads": 8, "kv_heads": 2, "width": 512, "hidden": 1536, "vocab": 49_152,
    },
    "tiny": {
        "layers": 2, "heads": 4, "kv_heads": 2, "width": 256, "hidden": 512, "vocab": 1024,
    },
}  # fmt: skip
"""Llama's with 1.2, 0.5 and 0.1 billion weights, and one for a quick look."""
FILE_TYPES: Final = {"f32": 0, "f16": 1, "q8_0": 7, "q4_k_m": 15, "bf16": 32}
"""The forms of files, and their numbers in GGUF."""


def more_bits(layer: int, layers: int) -> bool:
    """Return whether q4_k_m gives more bits to some of a layer's matrices, as llama.cpp does."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def form_of_matrix(form: str, name: str, shape: tuple[int, ...], layers: int) -> str:
    """Return the form of a matrix in a file of some form.

    >>> from luminal_lab.bench.model_files import form_of_matrix
    >>> [form_of_matrix("q4_k_m", f"blk.{k}.ffn_down.weight", (512, 512), 16) for k in (0, 2, 4)]
    ['q6_k', 'q4_k', 'q6_k']
    """
    if form != "q4_k_m":
        return form
    is_head = name == "token_embd.weight"
    is_chosen = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", name)
    has_more = is_head or (is_chosen and more_bits(int(is_chosen[1]), layers))
    return fitting("q6_k" if has_more else "q4_k", shape)


def shapes_of(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor by its name; the head is the embedding."""
    d, hidden = sizes["width"], sizes["hidden"]
    shared = d // sizes["heads"] * sizes["kv_heads"]
    parts = {
        "attn_norm": (d,),
        "attn_q": (d, d),
        "attn_k": (shared, d),
        "attn_v": (shared, d),
        "attn_output": (d, d),
        "ffn_norm": (d,),
        "ffn_gate": (hidden, d),
        "ffn_up": (hidden, d),
        "ffn_down": (d, hidden),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (sizes["vocab"], d)}
    for layer in range(sizes["layers"]):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return shapes | {"output_norm.weight": (d,)}


def bytes_of(sizes: Sizes, form: str) -> int:
    """Return the bytes of all tensors, each of which a step reads once."""
    total = 0
    for name, shape in shapes_of(sizes).items():
        kind = form_of_matrix(form, name, shape, sizes["layers"]) if len(shape) > 1 else "f32"
        values, size = (1, 4) if kind == "f32" else (form_of(kind).values, form_of(kind).bytes)
        total += prod(shape) // values * size
    return total


def write_model(path: Path, sizes: Sizes, form: str) -> None:
    """Write the file of a model."""
    rng, pools = np.random.default_rng(0), dict[str, Array]()
    drawn: dict[tuple[str, int, str], Value] = {}
    values: dict[str, Value] = {}
    for name, shape in shapes_of(sizes).items():
        _, _, part = name.partition(".")
        layer = int(part.split(".")[0]) if name.startswith("blk.") else 0
        kind = form_of_matrix(form, name, shape, sizes["layers"]) if len(shape) > 1 else "f32"
        key = name if not name.startswith("blk.") else part.partition(".")[2], layer % 2, kind
        if key not in drawn:
            drawn[key] = _drawn(shape, kind, rng, pools)
        values[name] = drawn[key]
    write_gguf(path, values, _keys(sizes, form))


def _drawn(
    shape: tuple[int, ...], form: str, rng: np.random.Generator, pools: dict[str, Array]
) -> Value:
    """Return a norm near 1, or a matrix of small values."""
    if len(shape) == 1:
        return (1 + 0.02 * rng.standard_normal(shape)).astype(np.float32)
    if form not in pools:
        pools[form] = _pool(form)
    pool, count = pools[form], prod(shape) // (1 if form == "f32" else form_of(form).values)
    whole = np.empty((count, *pool.shape[1:]), pool.dtype)
    for at in range(0, count, len(pool) // 2):
        part, start = whole[at : at + len(pool) // 2], int(rng.integers(len(pool) // 2))
        part[:] = pool[start : start + len(part)]
    if form == "f32":
        return whole.reshape(shape)
    kind = form_of(form)
    return Blocks(kind, whole.reshape(kind.raw_shape(shape)), shape)


def _pool(form: str) -> Array:
    """Return values, or blocks of them, twice one behind the other."""
    values = np.random.default_rng(1).standard_normal(POOL, np.float32) * np.float32(0.02)
    if form in ("f32", "f16", "bf16"):
        dtype = {"f32": np.float32, "f16": np.float16, "bf16": DType.bfloat16.numpy}[form]
        return np.concatenate([values.astype(dtype)] * 2)
    kind = form_of(form)
    raw = packed(form, values.reshape(-1, kind.values)).raw
    return np.concatenate([raw.reshape(-1, kind.bytes)] * 2)


# -- keys ------------------------------------------------------------------------------------------


def _keys(sizes: Sizes, form: str) -> dict[str, object]:
    vocabulary = vocabulary_of(sizes["vocab"])
    told: dict[str, object] = {
        "vocab_size": sizes["vocab"],
        "context_length": 8192,
        "embedding_length": sizes["width"],
        "block_count": sizes["layers"],
        "feed_forward_length": sizes["hidden"],
        "rope.dimension_count": sizes["width"] // sizes["heads"],
        "rope.freq_base": BASE,
        "attention.head_count": sizes["heads"],
        "attention.head_count_kv": sizes["kv_heads"],
        "attention.layer_norm_rms_epsilon": EPS,
    }
    return {
        "general.architecture": "llama",
        "general.name": "drawn",
        "general.file_type": FILE_TYPES[form],
        "general.quantization_version": 2,
        **{f"llama.{name}": value for name, value in told.items()},
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": vocabulary.tokens,
        "tokenizer.ggml.token_type": np.array(
            [1] * (len(vocabulary.tokens) - len(SPECIAL)) + [3] * len(SPECIAL), np.int32
        ),
        "tokenizer.ggml.merges": vocabulary.merges,
        "tokenizer.ggml.bos_token_id": len(vocabulary.tokens) - 2,
        "tokenizer.ggml.eos_token_id": len(vocabulary.tokens) - 1,
        "tokenizer.ggml.add_bos_token": False,
    }


SPECIAL: Final = ("<|begin|>", "<|end|>")


class Vocabulary(NamedTuple):
    """The tokens of a tokenizer of pairs of bytes, and what it merges into them."""

    tokens: list[str]
    merges: list[str]


def vocabulary_of(size: int) -> Vocabulary:
    """Return a vocabulary of some size: the bytes, what is merged of them, and two more.

    >>> from luminal_lab.bench.model_files import vocabulary_of
    >>> tokens, merges = vocabulary_of(1024)
    >>> len(tokens), tokens[256:258], merges[:2]
    (1024, ['!!', '!"'], ['! !', '! "'])
    """
    letters = [*_letters()]

    def pairs() -> Iterator[tuple[str, str]]:
        level = letters
        while True:
            longer = list[str]()
            for first in level:
                for letter in letters:
                    longer.append(first + letter)
                    yield first, letter
            level = longer

    merged = [*islice(pairs(), size - len(letters) - len(SPECIAL))]
    tokens = [*letters, *(first + second for first, second in merged), *SPECIAL]
    return Vocabulary(tokens, [f"{first} {second}" for first, second in merged])


def _letters() -> Iterator[str]:
    """Yield what stands for each byte in such a vocabulary, as GPT-2 has it: a visible letter."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    yield from map(chr, visible)
    yield from (chr(256 + k) for k in range(256 - len(visible)))


def tokens_of(sizes: Sizes, count: int) -> Array:
    """Return a text of drawn tokens."""
    return np.random.default_rng(count).integers(0, sizes["vocab"] - len(SPECIAL), count)
