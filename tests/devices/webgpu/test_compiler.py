"""The WebGPU compiler: its text, the conformance kit, models, its licence, what is refused."""

import re
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.errors import ArgumentError, DeviceError, RangeError
from luminal_lab.nn.models.gpt2 import GPT2
from luminal_lab.passes.pipeline import LICENCE
from luminal_lab.testing.conformance import cases
from tests.expect import error_of

needs = pytest.mark.needs("wgpu", "vulkan")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agrees(cx: ll.Graph, *outputs: Any, within: float = 1e-5) -> None:
    """Compare results with the interpreter's."""
    cx.execute()
    wanted = [output.numpy() for output in outputs]
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    cx.execute()
    for output, value in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(output.numpy(), value, rtol=within, atol=within)


def test_its_text_reads_back():
    for compiler in (ll.WebGPUCompiler(), ll.WebGPUCompiler(float16=False)):
        assert str(ll.parse_pipeline(str(compiler)).passes[0]) == str(compiler)


@needs
@pytest.mark.share("family", sorted({case.family for case in cases()}), 5)
def test_conformance(family):
    found = ll.devices.conformance(ll.WebGPUCompiler(), only=family)
    assert found.ok, found
    assert {row.reason for row in found.unsupported} <= {"float64: WGSL has none"}


def test_its_licence_says_what_wgsl_takes_for_granted():
    more = {"no_nan", "no_inf", "no_subnormal"}
    assert set(ll.WebGPUCompiler().licence or ()) == {*LICENCE, *more}


@needs
def test_rows_and_columns_are_summed():
    cx = ll.Graph()
    x = cx.tensor((70, 300), name="x").set(random(70, 300))
    agrees(cx, x.softmax(-1).retrieve(), x.sum(0).retrieve(), x.sum().retrieve())


@needs
def test_products_are_tiled():
    cx = ll.Graph()
    a = cx.tensor((130, 70), name="a").set(random(130, 70))
    b = cx.tensor((70, 90), name="b").set(random(70, 90))
    agrees(cx, (a @ b).retrieve())
    assert "var<workgroup>" in cx.kernels[0].source


@needs
def test_attention_is_one_kernel():
    cx = ll.Graph()
    q, k, v = (cx.tensor((2, 3, 64, 16), name=name).set(random(2, 3, 64, 16)) for name in "qkv")
    agrees(cx, ((q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v).retrieve())
    assert len(cx.kernels) == 1
    # The program of the algebra: one pass, whose maximum and sums run along.
    assert "where (m, l, acc) = fold " in str(cx.kernels[0].definition)


@needs
def test_a_convolution():
    cx = ll.Graph()
    x = cx.tensor((2, 3, 12, 12), name="x").set(random(2, 3, 12, 12))
    agrees(cx, nn.Conv2d(3, 8, 3, padding=1).initialise(seed=1)(x).relu().retrieve())


@needs
def test_a_small_gpt_and_its_gradients():
    cx = ll.Graph()
    tokens = cx.tensor(("batch", "seq"), "int64", "tokens")
    tokens.set(np.random.default_rng(0).integers(0, 50, (2, 12)))
    model = GPT2(layers=2, heads=2, width=32, vocab=50, context=16)
    model.initialise(seed=1)
    logits = model(tokens)
    loss = (logits * logits).mean()
    (slope,) = ll.grad(loss, [next(iter(model.parameters().values()))])
    agrees(cx, logits.retrieve(), slope.retrieve())


@needs
def test_whole_numbers_of_64_bits_are_exact():
    cx = ll.Graph()
    given = np.array([2**40 + 3, -(2**40) - 5, 7, -1, 2**62, -(2**63)])
    x = cx.tensor((6,), "int64", "x").set(given)
    outputs = [(x + x), (x * x), (x * -3), (x % 1000), (x < 7), x.max(), x.cast("float32")]
    agrees(cx, *(output.retrieve() for output in outputs), within=0)


@needs
def test_an_index_out_of_range_is_found():
    cx = ll.Graph()
    table = cx.tensor((4, 2), name="table").set(random(4, 2))
    index = cx.tensor((3,), "int64", "index").set([1, 3, 2**33])
    table.take(index, 0).retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    error = error_of(cx.execute, RangeError)
    assert re.search(r"the index at .* is 8589934592", error.message)
    assert "table.take(index, 0)" in str(error.where)


def halves() -> tuple[ll.Graph, Any]:
    """Return arithmetic of 16-bit floats: two operators, a function, a sum."""
    cx = ll.Graph()
    x = cx.tensor((40, 64), "float16", "x").set(random(40, 64))
    return cx, ((x * 2 + 1).exp() * x).softmax(-1).retrieve()


def test_16_bit_floats_are_a_type_or_bits_of_words():
    cx, _ = halves()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=True))
    typed = "".join(kernel.source for kernel in cx.kernels)
    assert "O: array<f16>;" in typed
    assert " * 2.0h" in typed
    assert "atomic" not in typed
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=False))
    packed = "".join(kernel.source for kernel in cx.kernels)
    assert "O: array<atomic<u32>>;" in packed
    assert "f16>" not in packed


def test_only_graphs_of_16_bit_floats_ask_the_adapter(monkeypatch: pytest.MonkeyPatch):
    asked: list[bool] = []

    def answer() -> bool:
        asked.append(True)
        return True

    monkeypatch.setattr("luminal_lab.devices.webgpu.compiler.has_float16", answer)
    cx = ll.Graph()
    (cx.tensor((4,), name="x") + 1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    assert not asked
    cx, _ = halves()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    assert asked
    assert "array<f16>" in cx.kernels[0].source


def test_kernels_that_want_their_bits_have_bits():
    cx = ll.Graph()
    cx.tensor((4,), "float16", "x").bitcast("int16").retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=True))
    assert "array<f16>" not in cx.kernels[0].source


@needs
@pytest.mark.parametrize("float16", [None, False], ids=["as the adapter has it", "bits"])
def test_16_bit_floats_are_right_either_way(float16):
    cx, y = halves()
    cx.execute()
    wanted = y.numpy()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=float16))
    cx.execute()
    np.testing.assert_allclose(y.numpy(), wanted, rtol=2**-9)
    found = ll.devices.conformance(ll.WebGPUCompiler(float16=float16), dtypes="float16")
    assert found.ok, found


def test_what_float16_may_be():
    error = error_of(lambda: ll.WebGPUCompiler(float16="yes"), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert error.message == "webgpu: float16 is 'yes'"
    assert error.hint == "give True, False, or None, which asks the adapter"


def test_float64_is_refused():
    cx = ll.Graph()
    (cx.tensor((4,), "float64", "x") + 1).retrieve()
    error = error_of(lambda: cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler()), DeviceError)
    assert error.message.startswith("webgpu: ")
    assert "is computed in float64, and WGSL has none" in error.message
    assert error.hint == 'x.cast("float32") of its inputs, or ll.CPUCompiler(), which has it'
