"""Attention on the CPU is one kernel that stores no scores and gives what the interpreter gives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.nn.cache import KVCache

pytestmark = pytest.mark.needs("cc")


def attended(
    shapes: list[tuple],
    dims: Mapping[str, int],
    *,
    compiled: bool,
    mask: str | None = None,
    dtype: str = "float32",
    threads: int = 1,
    **options: Any,
) -> tuple[np.ndarray, ll.Graph]:
    """Return an attention of drawn values, by the interpreter or compiled."""
    draw = np.random.default_rng(0)
    cx = ll.Graph()
    given = []
    for shape in shapes:
        data = draw.standard_normal([dims.get(size, size) for size in shape]).astype("f")
        given.append(cx.tensor(shape, dtype).set(data))
    query, keys, values = given
    if mask is not None:
        shape = (shapes[0][-2], shapes[1][-2])
        data = draw.standard_normal([dims.get(size, size) for size in shape])
        data[0] = -1.0  # a query that sees no key
        seen = data > 0 if mask == "bool" else np.where(data > 0, data, -np.inf).astype("f")
        options["attn_mask"] = cx.tensor(shape, mask).set(seen)
    result = query.scaled_dot_product_attention(keys, values, **options).retrieve()
    for name, value in dims.items():
        cx.set_dim(name, value)
    if compiled:
        cx.compile(ll.GenericCompiler(), CPUCompiler(threads=threads))
    cx.execute()
    return np.asarray(result.numpy(), np.float32), cx


CASES = {
    "plain": ([(2, 10, 16), (2, 130, 16), (2, 130, 16)], {}, {}),
    "one key": ([(2, 3, 8), (2, "t", 8), (2, "t", 8)], {"t": 1}, {}),
    "one row": ([(4, 1, 16), (4, "t", 16), (4, "t", 16)], {"t": 70}, {}),
    "one row, shared": (
        [(4, 1, 16), (2, "t", 16), (2, "t", 16)],
        {"t": 70},
        {"enable_gqa": True},
    ),
    "symbolic": ([(2, "n", 16), (2, "t", 16), (2, "t", 16)], {"n": 100, "t": 67}, {}),
    "causal": ([(2, 2, "n", 16)] * 3, {"n": 150}, {"is_causal": True}),
    "causal, 128": ([(2, 128, 32)] * 3, {}, {"is_causal": True}),
    "causal, wide": (
        [(2, "n", 8), (2, "t", 8), (2, "t", 8)],
        {"n": 5, "t": 80},
        {"is_causal": True},
    ),
    "shared": (
        [(4, "n", 16), (2, "n", 16), (2, "n", 16)],
        {"n": 97},
        {"enable_gqa": True, "is_causal": True},
    ),
    "odd features": ([(7, 5), (9, 5), (9, 3)], {}, {}),
    "batches": ([(3, 2, 20, 8)] * 3, {}, {}),
    "bool mask": ([(2, "n", 16), (2, "t", 16), (2, "t", 16)], {"n": 7, "t": 65}, {"mask": "bool"}),
    "float mask": ([(2, 7, 16), (2, 65, 16), (2, 65, 16)], {}, {"mask": "float32"}),
    "bfloat16": ([(2, "n", 16)] * 3, {"n": 33}, {"is_causal": True, "dtype": "bfloat16"}),
    "float16": ([(2, 33, 16)] * 3, {}, {"dtype": "float16"}),
    "float64": ([(2, 33, 16)] * 3, {}, {"is_causal": True, "dtype": "float64"}),
}


@pytest.mark.share("case", CASES, 6)
def test_it_is_one_kernel_that_gives_what_the_interpreter_gives(case):
    shapes, dims, options = CASES[case]
    wanted, _ = attended(shapes, dims, compiled=False, **options)
    found, cx = attended(shapes, dims, compiled=True, **options)
    kernel, *single = cx.kernels
    few = [f"{kernel.name}_n1", f"{kernel.name}_n_to_16"]
    assert {one.name for one in single} <= {*few}
    assert (few[0] in [one.name for one in single]) == ("n" in shapes[0])
    for one in cx.kernels:
        assert "where (m, l, acc) = fold" in str(one.definition)
        assert not any(local.name == "s" for local in one.locals), "the scores are in memory"
    error = {"bfloat16": 2e-2, "float16": 2e-3}.get(options.get("dtype", ""), 2e-6)
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)
    twice, _ = attended(shapes, dims, compiled=True, threads=2, **options)
    assert found.tobytes() == twice.tobytes(), "two threads give other bits"


def test_scores_are_not_in_memory():
    """Ten times the keys need no more memory between inputs and output than their copies take."""
    sizes = []
    for keys in (640, 6400):
        _, cx = attended([(1, 200, 16), (1, keys, 16), (1, keys, 16)], {}, compiled=True)
        (kernel,) = cx.kernels
        sizes.append(sum(one.bytes for one in kernel.locals) + kernel.scratch)
    assert sizes[1] < sizes[0] + 2 * 16 * 4 * (6400 - 640) + 1024


MODELS = {
    "gpt2": lambda: nn.models.GPT2(layers=2, heads=2, width=32, vocab=50, context=200),
    "llama": lambda: nn.models.Llama(layers=2, heads=4, kv_heads=2, width=32, hidden=64, vocab=50),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_decode_with_a_cache(name):
    tokens = np.random.default_rng(0).integers(0, 50, (1, 90))
    results = []
    for compiled in (False, True):
        model = MODELS[name]().initialise(0).eval()
        cx = ll.Graph()
        given = cx.tensor((1, "seq"), "int64", name="tokens")
        held = KVCache(cx, 100)
        logits = model(given, cache=held).retrieve()
        if compiled:
            cx.compile(ll.GenericCompiler(), CPUCompiler(threads=2))
            shown = "\n".join(str(one.definition) for one in cx.kernels)
            # One kernel for any number of rows, and one for a single row.
            assert shown.count("where (m, l, acc) = fold") == 2, shown
        past, found = 0, []
        for count in (70, 1, 1, 15, 1):
            cx.set_dim("past", past)
            given.set(tokens[:, past : past + count])
            cx.execute()
            found.append(logits.numpy().copy())
            past += count
        results.append(np.concatenate(found, axis=1))
    np.testing.assert_allclose(results[1], results[0], rtol=2e-4, atol=2e-5)
