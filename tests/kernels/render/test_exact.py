"""Which products are fused with sums; which 16-bit floats are rounded op by op."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.exact import exact_names
from luminal_lab.machines.here import this_machine
from tests.kernels.running import run_together

HEADER = "nest k(a: {0}[n], b: {0}[n], c: {0}[n]) -> (y: {0}[n], z: {0}[], k: bool[n], l: i64[n])"


def lines(text: str, dtype: str = "f32") -> list[str]:
    """Return the lines of the loop that a nest is."""
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    nest = parse_nest(f"{HEADER.format(dtype)}\n  for i < n:\n{body}")
    found = [line.strip() for line in render_nest(nest, "k").text.splitlines()]
    return found[found.index("for (lab_i64 i = 0; i < n; i++) {") + 1 : -2]


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("y[i] = a[i] * b[i] + c[i]", "y[i] = a[i] * b[i] + c[i];"),
        ("z max= a[i] * b[i] + c[i]", "z[0] = lab_max_f32(a[i] * b[i] + c[i], z[0]);"),
        ("z += a[i] * b[i]", "z[0] += a[i] * b[i];"),
        ("z += fused(a[i] * b[i])", "z[0] = lab_fma_f32(a[i], b[i], z[0]);"),
        ("z += fused(a[i] * b[i] * c[i])", "z[0] = lab_fma_f32(a[i] * b[i], c[i], z[0]);"),
        ("z += fused((a[i] + 1.0) * -1.0)", "z[0] = lab_fma_f32(a[i] + 1.0f, -1.0f, z[0]);"),
        # Only what is added to the sum itself can be rounded with it.
        ("z += fused(a[i] * b[i]) + c[i]", "z[0] += a[i] * b[i] + c[i];"),
        ("y[i] = fused(a[i] * b[i])", "y[i] = a[i] * b[i];"),
        ("z max= fused(a[i] * b[i])", "z[0] = lab_max_f32(a[i] * b[i], z[0]);"),
    ],
)  # fmt: skip
def test_a_product_is_fused_where_it_says_so_and_a_sum_takes_it(text: str, c: str) -> None:
    assert "\n".join(lines(text)) == c


R, W = "lab_cast_f16_f32", "lab_cast_f32_f16"


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("k[i] = a[i] < b[i]", f"k[i] = {R}(a[i]) < {R}(b[i]);"),
        ("k[i] = a[i] * 0.5_f16 < 1.0_f16", f"k[i] = {R}({W}({R}(a[i]) * 0.5f)) < 1.0f;"),
        ("k[i] = a[i] * -1.0_f16 < b[i]", f"k[i] = -{R}(a[i]) < {R}(b[i]);"),
        # The largest of what is not rounded, rounded, is the largest of what is.
        ("z max= a[i] * 0.5_f16", f"z[0] = {W}(lab_max_f32({R}(a[i]) * 0.5f, {R}(z[0])));"),
        ("y[i] = a[i] * b[i]", f"y[i] = {W}({R}(a[i]) * {R}(b[i]));"),
    ],
)
def test_16_bit_floats_are_rounded_before_they_are_compared(text: str, c: str) -> None:
    assert "\n".join(lines(text, "f16")) == c


@pytest.mark.parametrize("dtype", ["f16", "i32"])
def test_only_float32_and_float64_have_sums_that_take_products_as_they_are(dtype: str) -> None:
    (line, *more) = lines("z += fused(a[i] * b[i])", dtype)
    assert "fma" not in " ".join([line, *more])


def test_what_is_behind_a_comparison_is_followed_through_arrays_but_not_through_sums() -> None:
    nest = parse_nest(
        f"{HEADER.format('f16')}\n"
        "  local s: f16[] in registers\n  s = 0.0_f16\n"
        "  for i < n:\n    s += a[i]\n"
        "  local t: f16[n] in memory\n"
        "  for j < n:\n    t[j] = b[j] + s\n"
        "  for q < n:\n    y[q] = c[q] * 2.0_f16\n    k[q] = t[q] < 1.0_f16"
    )
    assert exact_names(nest) == {"t", "b", "s"}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_vectors_round_as_single_numbers_do(dtype: str) -> None:
    given = f"a: {dtype}[512], b: {dtype}[512], c: {dtype}[512], d: {dtype}[512]"
    term = "a[{0}] * b[{0}] + c[{0}] * d[{0}]"
    nest = parse_nest(
        f"nest k({given}) -> (x: {dtype}[512], y: {dtype}[512], k: bool[512])\n"
        "  for o < 64:\n    vector l < 8:\n"
        f"      x[l + 8*o] = {term.format('l + 8*o')}\n"
        f"  for i < 512:\n    y[i] = {term.format('i')}\n    k[i] = x[i] < y[i]"
    )
    c = render_nest(nest, "kernel_k")
    definition = parse_definition(
        f"kernel k({given}) -> (x: {dtype}[512], y: {dtype}[512], k: bool[512])\n"
        f"  x[i < 512] = {term.format('i')}\n  y[i < 512] = {term.format('i')}\n"
        f"  k[i < 512] = {term.format('i')} < {term.format('i')}"
    )
    kernel = Kernel("k", definition, c.text, c.phases, c.locals, c.scratch, nest, uses=c.uses)
    rng = np.random.default_rng(0)
    numpy = (DType.float32 if dtype == "f32" else DType.float64).numpy
    data: dict[str, Any] = {name: rng.standard_normal(512).astype(numpy) for name in "abcd"}
    (running,) = run_together([kernel])
    found = running(data)
    wanted = data["a"] * data["b"] + data["c"] * data["d"]
    assert found["x"].tolist() == found["y"].tolist() == wanted.tolist()
    assert not found["k"].any()


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_fused_products_of_vectors_have_the_bits_of_single_ones(dtype: str, width: int) -> None:
    size = width * (4 if dtype == "f32" else 8)
    given = f"a: {dtype}[64], b: {dtype}[64]"
    nest = parse_nest(
        f"nest k({given}) -> (x: {dtype}[{width}], y: {dtype}[{width}])\n"
        f"  local s: {dtype}[{width}] in registers\n"
        f"  vector p < {width}:\n    s[p] = 0.0{'' if dtype == 'f32' else '_f64'}\n"
        f"  for o < {64 // width}:\n    vector l < {width}:\n"
        f"      s[l] += fused(a[l + {width}*o] * b[l + {width}*o])\n"
        f"  for q < {width}:\n    x[q] = s[q]\n"
        f"  for i < {width}:\n    y[i] = 0.0{'' if dtype == 'f32' else '_f64'}\n"
        f"    for j < {64 // width}:\n      y[i] += fused(a[i + {width}*j] * b[i + {width}*j])"
    )
    c = render_nest(nest, "kernel_k")
    assert f"LAB_FMA(lab_{dtype}x{width}, " in c.text
    assert f"lab_fma_{dtype}(" in c.text
    definition = parse_definition(
        f"kernel k({given}) -> (x: {dtype}[{width}], y: {dtype}[{width}])\n"
        + "\n".join(
            f"  {name}[i < {width}] = sum j < {64 // width}: "
            f"fused(a[i + {width}*j] * b[i + {width}*j])"
            for name in "xy"
        )
    )
    kernel = Kernel("k", definition, c.text, c.phases, c.locals, c.scratch, nest, uses=c.uses)
    rng = np.random.default_rng(0)
    numpy = (DType.float32 if dtype == "f32" else DType.float64).numpy
    data: dict[str, Any] = {name: rng.standard_normal(64).astype(numpy) for name in "ab"}
    (running,) = run_together([kernel])
    found = running(data)
    np.testing.assert_allclose(found["x"], found["y"], rtol=1e-4)
    if 16 <= size <= this_machine().vector_bytes:  # for others there is no instruction
        assert found["x"].tolist() == found["y"].tolist()
