"""Blocks of few bits: what each form means, by its own package; held, drawn, written, compiled."""

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.core.ops import Call, Input
from luminal_lab.errors import ArgumentError, DTypeError, InputError, ShapeError
from luminal_lab.nn.gguf import GGUF
from luminal_lab.nn.gguf_writing import write_gguf
from luminal_lab.tensor.blocks import FORMS, Blocks, form_of
from tests.expect import error_of
from tests.needs import need

PACKED = [name for name, form in FORMS.items() if form.dtype == "uint8"]
HALVES = {
    **dict.fromkeys(["q4_0", "q5_0", "q8_0", "iq4_nl"], (0,)),
    **dict.fromkeys(["q4_1", "q5_1", "q4_k", "q5_k"], (0, 2)),
    "q2_k": (80, 82),
    "q3_k": (108,),
    "q6_k": (208,),
}
"""Where each form has its 16-bit floats."""


def drawn(name: str, shape: tuple[int, int], seed: int = 0) -> Blocks:
    """Random blocks whose scales are of the size of those of weights."""
    rng, form = np.random.default_rng(seed), form_of(name)
    if form.dtype != "uint8":
        return Blocks(form, rng.normal(size=shape).astype(form.dtype.numpy), shape)
    count = shape[1] // form.values
    raw = rng.integers(0, 256, (shape[0], count, form.bytes), np.uint8)
    for at in HALVES[name]:
        scales = rng.normal(size=(shape[0], count, 1)).astype(np.float16) / np.float16(64)
        raw[..., at : at + 2] = scales.view(np.uint8)
    return Blocks(form, raw.reshape(shape[0], -1), shape)


def theirs(blocks: Blocks) -> Any:
    gguf: Any = need("gguf")
    kind = gguf.GGMLQuantizationType(blocks.form.number)
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(np.ascontiguousarray(blocks.raw).view(np.uint8), kind)


def assert_same_bits(ours: Any, wanted: Any) -> None:
    assert ours.dtype == wanted.dtype == np.float32
    both = np.isnan(ours) & np.isnan(wanted)
    np.testing.assert_array_equal(
        np.where(both, 0, ours.view(np.uint32)), np.where(both, 0, wanted.view(np.uint32))
    )


# -- what blocks mean ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
def test_the_value_of_random_blocks_is_the_packages_bit_for_bit(name):
    form = FORMS[name]
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, (40, 3 * form.bytes), np.uint8).view(form.dtype.numpy)
    blocks = Blocks(form, raw, (40, 3 * form.values))
    assert_same_bits(blocks.value, theirs(blocks))


@pytest.mark.share("name", PACKED, 3)
def test_each_byte_of_a_block_in_turn_has_all_its_values(name):
    """One byte after the other runs through 0 to 255, over blocks of 0, of 1s and of 255."""
    form = FORMS[name]
    rows = []
    for base in (0, 0b01010101, 255):
        raw = np.full((form.bytes, 256, form.bytes), base, np.uint8)
        for at in range(form.bytes):
            raw[at, :, at] = np.arange(256)
        rows.append(raw.reshape(-1, form.bytes))
    blocks = Blocks(form, np.concatenate(rows), (3 * 256 * form.bytes, form.values))
    assert_same_bits(blocks.value, theirs(blocks))


@given(st.sampled_from(PACKED), st.data())
@settings(max_examples=40)
def test_the_value_of_any_block_is_the_packages(name, data):
    form = FORMS[name]
    raw = data.draw(hnp.arrays(np.uint8, (2, form.bytes)))
    blocks = Blocks(form, raw, (2, form.values))
    assert_same_bits(blocks.value, theirs(blocks))


@pytest.mark.parametrize("name", FORMS)
def test_graphs_compute_the_value_bit_for_bit(name):
    form = FORMS[name]
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 256, (6, 2 * form.bytes), np.uint8).view(form.dtype.numpy)
    blocks = Blocks(form, raw, (6, 2 * form.values))
    weight = nn.Parameter(blocks.shape, value=blocks, name="weight")
    cx = Graph()
    y = (cx.parameter(weight) * 1.0).retrieve()
    cx.execute()
    assert_same_bits(y.numpy(), blocks.value)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("name", FORMS)
def test_compiled_kernels_compute_the_value_bit_for_bit(name):
    form = FORMS[name]
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 256, (6, 2 * form.bytes), np.uint8).view(form.dtype.numpy)
    blocks = Blocks(form, raw, (6, 2 * form.values))
    cx = Graph()
    y = (cx.parameter(nn.Parameter(blocks.shape, value=blocks)) * 1.0).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    assert_same_bits(y.numpy(), blocks.value)


@pytest.mark.needs("c++")
@pytest.mark.parametrize("name", ["q4_k", "q5_0", "q6_k"])
@pytest.mark.parametrize("device", [ll.CUDACompiler, ll.MetalCompiler])
def test_emulated_gpus_multiply_with_blocks(device, name):
    layer = nn.Linear(256, 4, bias=False)
    layer.weight.set(drawn(name, (4, 256)))
    x = np.random.default_rng(3).normal(size=(2, 256)).astype(np.float32)
    cx = Graph()
    y = layer(cx.tensor((2, 256), name="x").set(x)).retrieve()
    cx.compile(ll.GenericCompiler(), device(emulate=True))
    cx.execute()
    weight: Any = layer.weight.value
    wanted = x @ weight.T
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-5 * np.abs(wanted).max())
    assert [launch.kernel.name for launch in cx.launches] == ["matmul"]


@pytest.mark.needs("c++")
@pytest.mark.parametrize("device", [ll.CUDACompiler, ll.MetalCompiler])
def test_emulated_gpus_compute_the_value(device):
    blocks = drawn("q4_k", (2, 256))
    cx = Graph()
    y = (cx.parameter(nn.Parameter(blocks.shape, value=blocks)) * 1.0).retrieve()
    cx.compile(ll.GenericCompiler(), device(emulate=True))
    cx.execute()
    assert_same_bits(y.numpy(), blocks.value)


# -- what a graph makes of them --------------------------------------------------------------------


def test_a_graph_reads_the_raw_bytes_through_a_region():
    layer = nn.Linear(256, 4, bias=False)
    layer.weight.set(drawn("q4_k", (4, 256)))
    cx = Graph()
    layer(cx.tensor((1, 256), name="x")).retrieve()
    raw = cx.ir["weight"]
    assert isinstance(raw.op, Input)
    assert str(raw.type) == "u8[4, 144]"
    (region,) = cx.ir.users(raw)
    assert isinstance(region.op, Call)
    assert (region.op.body.name, str(region.type)) == ("q4_k", "f32[4, 256]")
    assert cx.parameters == {"weight": layer.weight}


@pytest.mark.needs("cc")
@pytest.mark.parametrize("name", FORMS)
def test_a_product_reads_the_raw_bytes_in_its_own_kernel(name):
    layer = nn.Linear(512, 8, bias=False)
    layer.weight.set(drawn(name, (8, 512)))
    x = np.random.default_rng(3).normal(size=(1, 512)).astype(np.float32)
    cx = Graph()
    y = layer(cx.tensor((1, 512), name="x").set(x)).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    weight: Any = layer.weight.value
    wanted = x @ weight.T
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-5 * np.abs(wanted).max())
    assert [launch.kernel.name for launch in cx.launches] == ["matmul"]


def llama(form: str) -> nn.Module:
    sizes: dict[str, Any] = {"layers": 1, "heads": 4, "width": 256, "hidden": 256, "vocab": 50}
    model = nn.models.Llama(**sizes, tied=True).initialise(0)
    for number, module in enumerate(model.named_modules().values()):
        for matrix in type(module).matrices(module):
            if matrix.blocks is None:
                matrix.set(drawn(form, matrix.shape, number))  # pyright: ignore[reportArgumentType]
    return model


@pytest.mark.needs("cc")
@pytest.mark.parametrize("passes", [[], [ll.Quantised()]], ids=["plain", "quantised"])
def test_a_model_with_blocks_is_the_model_with_their_values(passes):
    model, plain = (
        llama("q8_0"),
        nn.models.Llama(layers=1, heads=4, width=256, hidden=256, vocab=50, tied=True),
    )
    plain.load_state_dict(model.state_dict())
    results = []
    for each in (model, plain):
        cx = Graph()
        tokens = cx.tensor((1, "seq"), "int64", "tokens").set([[1, 2, 49]])
        y = each(tokens).retrieve()
        cx.execute()
        results.append(y.numpy())
        if each is model:
            cx.compile(ll.GenericCompiler(), *passes, ll.CPUCompiler(), check="values")
            cx.execute()
            results.append(y.numpy())
    ours, compiled, wanted = results
    np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_allclose(compiled, wanted, atol=1e-5 * np.abs(wanted).max())


def test_an_embedding_looks_up_raw_rows():
    """The table is never widened as a whole: only the rows of tokens are."""
    table = nn.Embedding(1000, 256)
    table.weight.set(drawn("q6_k", (1000, 256)))
    cx = Graph()
    y = table(cx.tensor((2, "n"), "int64", "tokens").set([[3, 999], [0, 3]])).retrieve()
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), table.weight.value[[[3, 999], [0, 3]]])
    widened = [node for node in cx.ir if node.dtype == "float32" and node.shape[0] == 1000]
    assert widened == []
    head = table.head(y).retrieve()
    cx.execute()
    wanted = y.numpy() @ np.array(table.weight.value).T
    np.testing.assert_allclose(head.numpy(), wanted, atol=1e-4 * np.abs(wanted).max())


def test_half_precision_leaves_blocks_as_they_are():
    layer = nn.Linear(256, 4, bias=False)
    layer.weight.set(drawn("q4_k", (4, 256)))
    cx = Graph()
    layer(cx.tensor((3, 256), name="x")).retrieve()
    compilation = cx.compile(ll.GenericCompiler(), ll.HalfPrecision())
    region = next(node for node in compilation.ir if node.op == cx.ir.users(cx.ir["weight"])[0].op)
    assert [user.op.name for user in compilation.ir.users(region)] == ["call"]


# -- held by parameters ----------------------------------------------------------------------------


def test_a_parameter_holds_mapped_blocks_and_nothing_is_widened(tmp_path):
    shape = (1024, 4096)
    write_gguf(tmp_path / "a.gguf", {"w": drawn("q4_0", shape)}, {})
    layer = nn.Linear(4096, 1024, bias=False)
    x = np.ones((1, 4096), np.float32)
    tracemalloc.start()
    blocks = GGUF(tmp_path / "a.gguf").value("w")
    assert isinstance(blocks, Blocks)
    layer.weight.set(blocks)
    cx = Graph()
    y = layer(cx.tensor((1, 4096), name="x").set(x)).retrieve()
    _, written = tracemalloc.get_traced_memory()
    if need("cc"):
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        cx.execute()
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < blocks.nbytes, "16 MB are the values, 2 MB are the blocks"
    tracemalloc.stop()
    assert written < blocks.nbytes
    values: Any = blocks.value
    np.testing.assert_allclose(y.numpy(), x @ values.T, rtol=1e-3, atol=1e-2)


def test_a_copy_and_a_pickle_keep_the_blocks():
    weight = nn.Parameter((2, 32), value=drawn("q5_0", (2, 32)))
    for again in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))):
        assert again.blocks is not None
        assert again.blocks.form is FORMS["q5_0"]
        np.testing.assert_array_equal(again.value, weight.value)


def test_what_does_not_fit_is_said():
    error = error_of(lambda: nn.Parameter((2, 64), value=drawn("q8_0", (2, 32))), ShapeError)
    assert error.message == (
        "a parameter: the value is q8_0 of (2, 32), whose numbers are float32, and must be "
        "f32[2, 64]"
    )
    weight = nn.Parameter((2, 32), "float16")
    assert "must be f16[2, 32]" in error_of(lambda: weight.set(drawn("q8_0", (2, 32)))).message
    raw = np.zeros((2, 34), np.uint8)
    error = error_of(lambda: Blocks("q8_1", raw, (2, 32)), ArgumentError)
    assert error.message == "blocks: there is no form 'q8_1'"
    error = error_of(lambda: Blocks("q8_0", raw, (2, 33)), ShapeError)
    assert error.message == (
        "blocks: rows of (2, 33) are not whole blocks of q8_0, which have 32 values"
    )
    error = error_of(lambda: Blocks("q8_0", raw, (2, 64)), ShapeError)
    assert error.message == ("blocks: the raw array is (2, 34), and q8_0 of (2, 64) takes (2, 68)")
    error = error_of(lambda: Blocks("q8_0", raw.view(np.int8), (2, 32)), DTypeError)
    assert error.message == "blocks: the raw array is int8, and q8_0 is uint8"


def test_a_graph_that_was_written_with_blocks_says_when_they_are_gone():
    layer = nn.Linear(32, 2, bias=False)
    layer.weight.set(drawn("q8_0", (2, 32)))
    cx = Graph()
    y = layer(cx.tensor((1, 32), name="x").set(np.ones((1, 32)))).retrieve()
    cx.execute()
    layer.weight.set(drawn("q8_0", (2, 32), seed=9))
    cx.execute()
    np.testing.assert_allclose(y.numpy(), layer.weight.value.sum(1)[None], rtol=1e-4, atol=1e-4)
    layer.weight.set(np.ones((2, 32)))
    error = error_of(cx.execute, InputError)
    assert error.message == (
        "parameter weight: this graph reads it as u8[2, 34], and it holds an array now"
    )


def test_what_holds_blocks_is_not_trained_and_the_rest_is():
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 2)).initialise(0)
    frozen = model.parameters()["0.weight"]
    ll.quantise(frozen)
    before = frozen.value
    cx = Graph()
    loss = model(cx.tensor((3, 32), name="x").set(np.ones((3, 32)))).square().sum()
    assert list(nn.SGD(0.01).minimise(loss, model)) == ["0.bias", "1.weight", "1.bias"]
    first = cx.execute() or loss.item()
    cx.execute()
    assert loss.item() < first
    np.testing.assert_array_equal(frozen.value, before)
    error = error_of(lambda: nn.SGD(0.01).minimise(loss, [frozen]), DTypeError)
    assert error.message == (
        "SGD: sequential.0.weight holds blocks of q8_0, and only float32 values can be trained"
    )


def test_a_gradient_of_what_blocks_mean():
    layer = nn.Linear(32, 2, bias=False)
    layer.weight.set(drawn("q8_0", (2, 32)))
    cx = Graph()
    loss = layer(cx.tensor((3, 32), name="x").set(np.ones((3, 32)))).sum()
    slopes = ll.grad(loss, layer.weight).retrieve()
    cx.execute()
    np.testing.assert_array_equal(slopes.numpy(), np.full((2, 32), 3.0))


# -- parts -----------------------------------------------------------------------------------------


def test_rows_are_taken_without_widening():
    blocks = drawn("q4_k", (6, 512))
    value = blocks.value
    assert np.shares_memory(blocks[2:4].raw, blocks.raw)
    for key in (slice(1, 5, 2), [5, 0, 0], np.array([True, False] * 3)):
        np.testing.assert_array_equal(blocks[key].value, value[key])
    np.testing.assert_array_equal(blocks.reshape(2, 3, 512)[1].value, value[3:])
    np.testing.assert_array_equal(blocks[4].value, value[4])
    error = error_of(lambda: blocks[:, :3], ShapeError)
    assert "takes rows of (6, 512) apart" in error.message
    error = error_of(lambda: blocks.reshape(12, 256), ShapeError)
    assert error.message == "blocks: (6, 512) cannot become (12, 256)"
