"""Drawn weights and inputs of the measured models, and the least cost of their runs.

Weights have the names that our models give them, so that `load_state_dict` accepts them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from luminal_lab.bench.workload import Arrays, Cost, Sizes

T = TypeVar("T", bound=np.generic)
POOL = 1 << 22
"""Large weights are cut out of this many drawn numbers at different places: drawing is slower."""


def drawn(shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> Arrays:
    """Return weights of given shapes: norms near 1, all others small."""
    pool = np.tile(rng.standard_normal(POOL, np.float32) * np.float32(0.02), 2)
    weights: Arrays = {}
    for name, shape in shapes.items():
        whole = cut(pool, int(np.prod(shape)), rng)
        if len(shape) == 1 and name.endswith("weight"):
            whole += 1
        weights[name] = whole.reshape(shape)
    return weights


def cut(pool: NDArray[T], count: int, rng: np.random.Generator) -> NDArray[T]:
    """Return `count` numbers from a doubled pool, each part from a random position."""
    whole = np.empty(count, pool.dtype)
    for at in range(0, count, POOL):
        part, start = whole[at : at + POOL], int(rng.integers(POOL))
        part[:] = pool[start : start + part.size]
    return whole


# -- GPT -------------------------------------------------------------------------------------------


def gpt2_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight of a GPT-2 by its name."""
    d = sizes["width"]
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (sizes["vocab"], d),
        "wpe.weight": (sizes["context"], d),
    }
    for layer in range(sizes["layers"]):
        shapes |= {
            f"h.{layer}.{name}": shape
            for name, shape in {
                "ln_1.weight": (d,),
                "ln_1.bias": (d,),
                "attn.c_attn.weight": (d, 3 * d),
                "attn.c_attn.bias": (3 * d,),
                "attn.c_proj.weight": (d, d),
                "attn.c_proj.bias": (d,),
                "ln_2.weight": (d,),
                "ln_2.bias": (d,),
                "mlp.c_fc.weight": (d, 4 * d),
                "mlp.c_fc.bias": (4 * d,),
                "mlp.c_proj.weight": (4 * d, d),
                "mlp.c_proj.bias": (d,),
            }.items()
        }
    return shapes | {"ln_f.weight": (d,), "ln_f.bias": (d,)}


def gpt2(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    """Draw the weights of a GPT-2, and a text [1, seq]."""
    tokens = rng.integers(0, sizes["vocab"], (1, sizes["seq"]))
    return {**drawn(gpt2_shapes(sizes), rng), "tokens": tokens}


def gpt2_cost(sizes: Sizes) -> Cost:
    """Return the cost of one forward run."""
    seq, d, layers = sizes["seq"], sizes["width"], sizes["layers"]
    flops = 2 * seq * (12 * d * d * layers + d * sizes["vocab"])
    flops += layers * 4 * d * seq * (seq + 1) // 2
    weights = 12 * d * d * layers + d * (sizes["vocab"] + seq)
    return Cost(flops, 4 * weights, 4 * seq * sizes["vocab"])


def gpt(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    """Draw the weights of a GPT for training, and texts with what follows them."""
    tokens = rng.integers(0, sizes["vocab"], (sizes["batch"], sizes["context"] + 1))
    weights = drawn(gpt2_shapes(sizes), rng)
    return {**weights, "tokens": tokens[:, :-1].copy(), "following": tokens[:, 1:].copy()}


def gpt_cost(sizes: Sizes) -> Cost:
    """Return the cost of a training step: a forward run, twice that for gradients, AdamW."""
    forward = gpt2_cost({**sizes, "seq": sizes["context"]})
    count = sum(int(np.prod(shape)) for shape in gpt2_shapes(sizes).values())
    # AdamW reads a weight and two averages, and writes them; the gradient lives in between.
    return Cost(3 * sizes["batch"] * forward.flops + 12 * count, 12 * count, 12 * count)


# -- Llama -----------------------------------------------------------------------------------------


def llama_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight of a Llama by its name; the head is the embedding."""
    d, hidden = sizes["width"], sizes["hidden"]
    shared = d // sizes["heads"] * sizes["kv_heads"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (sizes["vocab"], d)}
    for layer in range(sizes["layers"]):
        shapes |= {
            f"model.layers.{layer}.{name}.weight": shape
            for name, shape in {
                "input_layernorm": (d,),
                "self_attn.q_proj": (d, d),
                "self_attn.k_proj": (shared, d),
                "self_attn.v_proj": (shared, d),
                "self_attn.o_proj": (d, d),
                "post_attention_layernorm": (d,),
                "mlp.gate_proj": (hidden, d),
                "mlp.up_proj": (hidden, d),
                "mlp.down_proj": (d, hidden),
            }.items()
        }
    return shapes | {"model.norm.weight": (d,)}


def llama(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    """Draw the weights of a Llama, a token, and a cache that is full except for one position."""
    return {**drawn(llama_shapes(sizes), rng), **_cache(sizes, rng)}


def _cache(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    shared = sizes["kv_heads"], sizes["capacity"], sizes["width"] // sizes["heads"]
    arrays: Arrays = {"tokens": rng.integers(0, sizes["vocab"], (1, 1))}
    for layer in range(sizes["layers"]):
        arrays[f"cache.{layer}.keys"] = rng.standard_normal((1, *shared), np.float32)
        arrays[f"cache.{layer}.values"] = rng.standard_normal((1, *shared), np.float32)
    return arrays


def llama_q8(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    """Draw the same with its matrices in Q8_0: int8 and, for every 32 in a row, one float16.

    The largest magnitude of each block is 127, as after a conversion from floats.
    """
    pool = np.tile(rng.integers(-127, 128, POOL, np.int8), 2)
    shapes = llama_shapes(sizes)
    weights = drawn({n: shape for n, shape in shapes.items() if len(shape) == 1}, rng)
    for name, (rows, columns) in ((n, shape) for n, shape in shapes.items() if len(shape) == 2):
        blocks = cut(pool, rows * columns, rng).reshape(-1, 32)
        blocks[::2, 0], blocks[1::2, 0] = 127, -127
        weights[f"{name}.q"] = blocks.reshape(rows, columns)
        scale = rng.random((rows, columns // 32), np.float32) * np.float32(2e-4)
        weights[f"{name}.scale"] = (scale + np.float32(1e-4)).astype(np.float16)
    return {**weights, **_cache(sizes, rng)}


def llama_cost(sizes: Sizes, *, weight_bytes: float) -> Cost:
    """Return the cost of decoding one token with a full cache."""
    d, layers, length = sizes["width"], sizes["layers"], sizes["capacity"]
    shared = d // sizes["heads"] * sizes["kv_heads"]
    weights = layers * (2 * d * d + 2 * d * shared + 3 * d * sizes["hidden"])
    weights += d * sizes["vocab"]
    read = int(weights * weight_bytes) + 4 * layers * 2 * shared * length
    flops = 2 * weights + layers * 4 * d * length
    return Cost(flops, read, 4 * (sizes["vocab"] + layers * 2 * shared))


# -- the digits' CNN -------------------------------------------------------------------------------

CNN_SHAPES: dict[str, tuple[int, ...]] = {
    "convolutions.0.weight": (16, 1, 3, 3),
    "convolutions.0.bias": (16,),
    "convolutions.1.weight": (32, 16, 3, 3),
    "convolutions.1.bias": (32,),
    "head.weight": (10, 128),
    "head.bias": (10,),
}


def cnn(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    """Draw the weights of the digits' CNN, images, and the digits that they show."""
    arrays = {
        name: rng.standard_normal(shape, np.float32) * np.float32(0.2)
        for name, shape in CNN_SHAPES.items()
    }
    images = rng.random((sizes["batch"], 1, 8, 8), np.float32)
    return {**arrays, "images": images, "labels": rng.integers(0, 10, sizes["batch"])}


def cnn_cost(sizes: Sizes) -> Cost:
    """Return the cost of a training step: forward, gradients of everything but the images, SGD."""
    first, second, head = 64 * 16 * 9, 16 * 32 * 16 * 9, 128 * 10
    flops = sizes["batch"] * 2 * (2 * first + 3 * second + 3 * head)
    count = sum(int(np.prod(shape)) for shape in CNN_SHAPES.values())
    return Cost(flops, 4 * (64 * sizes["batch"] + 2 * count), 8 * count)
