"""The CPU with weights in fewer bits: the interpreter's values, in any order, for decoding too."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.core.ops import Call, Input, Stored
from luminal_lab.devices.toolchain import find_compiler
from luminal_lab.errors import LabError
from luminal_lab.nn.cache import KVCache
from luminal_lab.passes.stored import live

try:
    find_compiler(None)
except LabError as error:
    pytest.skip(f"no compiler: {error.message}", allow_module_level=True)

SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 64, "vocab": 50}
MODELS = {
    "gpt2": lambda: nn.models.GPT2(**SMALL, context=16),
    "llama": lambda: nn.models.Llama(**SMALL, kv_heads=1, hidden=96, tied=True),
}
LOSSY: dict[str, Any] = {
    "bfloat16": lambda: ll.HalfPrecision("bfloat16"),
    "float16": lambda: ll.HalfPrecision("float16"),
    "q8_0": ll.Quantised,
}


def decoded(model, passes, numbers=(3, 1, 4, 1, 5)):
    """Return the logits of a greedy walk, one token a run, and the compilation."""
    cx = Graph()
    token = cx.tensor((1, 1), "int64", "token")
    cache = KVCache(cx, 8)
    result = model(token, cache=cache).retrieve()
    compilation = cx.compile(*passes)
    cache.begin()
    rows = []
    for number in numbers:
        cache.advance()
        token.set([[number]])
        cx.execute()
        rows.append(result.numpy()[0, 0].copy())
    return np.stack(rows), compilation


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lossy", LOSSY)
def test_a_decode_step_is_the_interpreters_in_any_order(name, lossy):
    model = MODELS[name]().initialise(0).eval()
    if lossy == "q8_0":
        ll.quantise(model)
    half, generic, cpu = LOSSY[lossy](), ll.GenericCompiler(), ll.CPUCompiler()
    wanted, _ = decoded(model, [generic, half])
    ours, compilation = decoded(model, [generic, half, cpu])
    again, other = decoded(model, [generic, cpu, half])
    np.testing.assert_array_equal(again, ours)
    assert str(other.pipeline) == str(compilation.pipeline)
    # Another order of sums can round a half the other way.
    coarse = {"bfloat16": 1e-2, "float16": 1e-3, "q8_0": 1e-5}[lossy]
    assert np.abs(ours - wanted).max() < coarse * np.abs(wanted).max()
    ir = compilation.ir
    read = [ir[id] for id in live(ir, ir.output_ids)]
    matrices = {
        node.name
        for node in read
        if isinstance(node.op, Input) and len(node.shape) == 2 and node.dtype == "float32"
    }
    assert matrices <= {"wpe.weight"}, "a slice of it is read"
    for node in read:
        if isinstance(node.op, Stored):
            users = {type(user.op) for user in ir.users(node)}
            assert users == {Call}, "kernels read what is stored, and nothing makes it a whole"
            for user in ir.users(node):
                assert user.shape != node.shape


def test_a_weight_that_is_set_is_stored_anew():
    layer = nn.Linear(64, 32, bias=False).initialise(0)
    ll.quantise(layer)
    cx = Graph()
    y = layer(cx.tensor((1, 64), name="x").set(np.ones((1, 64)))).retrieve()
    cx.compile(ll.Quantised(), ll.CPUCompiler())
    for value in (1.0, 2.0):
        layer.weight.set(np.full((32, 64), value))
        cx.execute()
        np.testing.assert_allclose(y.numpy(), 64 * value, rtol=1e-3)
