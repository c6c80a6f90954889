"""The CPU with weights in fewer bits: the interpreter's values, in any order, for decoding too."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.core.ops import Call, Input, Stored
from luminal_lab.nn.cache import KVCache
from luminal_lab.passes.stored import live

pytestmark = pytest.mark.needs("cc")
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


@pytest.mark.share(2)
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
    cx = Graph()
    y = layer(cx.tensor((1, 64), name="x").set(np.ones((1, 64)))).retrieve()
    cx.compile(ll.Quantised(weights=["weight"]), ll.CPUCompiler())
    for value in (1.0, 2.0):
        layer.weight.set(np.full((32, 64), value))
        cx.execute()
        np.testing.assert_allclose(y.numpy(), 64 * value, rtol=1e-3)


BYTES = "int8", "uint8"


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [*((name, np.uint16) for name in ("float16", "bfloat16")), *((n, np.uint8) for n in BYTES)],
)
def test_every_narrow_value_is_widened_as_numpy_does(dtype: str, bits: type[np.generic]):
    kind = ll.DType(dtype)
    count = 1 << 8 * kind.itemsize
    every = np.arange(count, dtype=bits).view(kind.numpy)
    matrix = np.zeros((count, 64), kind.numpy)
    matrix[np.arange(count), np.arange(count) % 64] = every
    cx = Graph()
    w = cx.tensor(matrix.shape, dtype, "w").set(matrix)
    x = cx.tensor((1, 64), name="x").set(np.ones((1, 64)))
    y = (x @ w.cast("float32").T).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert f"lab_widen_{kind.short}" in cx.kernels[-1].source
    cx.execute()
    np.testing.assert_array_equal(y.numpy()[0], every.astype(np.float32))


@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("dtype", BYTES)
def test_a_few_bytes_become_the_integers_that_they_are(dtype: str, count: int):
    every = np.arange(256, dtype=np.uint8).view(dtype).reshape(-1, count)
    cx = Graph()
    x = cx.tensor(every.shape, dtype, "x").set(every)
    y = ((x.cast("int32") | 256) >> 1).cast("float32").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), (every.astype("i4") | 256) >> 1)


def test_one_half_at_a_time_is_widened_as_numpy_does():
    every = np.arange(1 << 16, dtype=np.uint16)
    raw = np.ones((1 << 16, 2, 34), np.uint8)
    raw[..., :2] = every.view(np.uint8).reshape(-1, 1, 2)
    layer = ll.nn.Linear(64, 1 << 16, bias=False)
    layer.weight.set(ll.Blocks("q8_0", raw.reshape(1 << 16, 68), (1 << 16, 64)))
    cx = Graph()
    y = layer(cx.tensor((1, 64), name="x").set(np.ones((1, 64)))).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert "lab_one_f16_f32" in cx.kernels[-1].source
    cx.execute()
    with np.errstate(invalid="ignore"):  # some are signalling NaNs
        wanted = 64 * every.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(y.numpy()[0], wanted)


def test_relu_is_one_function_and_keeps_what_is_not_a_number():
    cx = Graph()
    special = [np.nan, -np.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, np.inf]
    x = cx.tensor((9,), name="x").set(special)
    y = x.relu().retrieve()
    cx.execute()
    wanted = y.numpy()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert [kernel.name for kernel in cx.kernels] == ["relu"]
    assert "math.relu(a[i])" in str(cx.kernels[0].definition)
    cx.execute()
    np.testing.assert_array_equal(y.numpy().view(np.int32), wanted.view(np.int32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_another_dtype_is_made_of_is_the_half_and_not_what_it_was_computed_from(dtype):
    x = np.array([3e38 if dtype == "bfloat16" else 60000, 1 / 3, 0.1])

    def values(cx, *, compiled):
        a = cx.tensor((3,), dtype, name="a").set(x)
        doubled = a * 1.1 + a
        small = [doubled, doubled.cast("float32"), (a * 3.3).cast("int32"), a.sum().cast("float32")]
        outputs = [tensor.retrieve() for tensor in small]
        if compiled:
            cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        return [tensor.numpy().astype(np.float64) for tensor in outputs]

    with np.errstate(over="ignore"):
        wanted, found = values(Graph(), compiled=False), values(Graph(), compiled=True)
    np.testing.assert_array_equal(found[1], found[0])  # one value, however it is kept
    assert np.isinf(found[1][0])
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2 ** -(7 if dtype == "bfloat16" else 10))


@pytest.mark.parametrize("count", [16, 48, 64, 128])
def test_each_of_the_neighbours_is_added_once(count: int):
    given = np.concatenate([np.eye(count), np.arange(count)[None]]).astype(np.float32)
    cx = Graph()
    y = cx.tensor(given.shape, name="x").set(given).sum(1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert "lab_joined_f32" in cx.kernels[-1].source
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), given.sum(1))
