"""Sums of products of bytes: which loops are calls, and that they are right to the last bit."""

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from luminal_lab.devices.build.toolchain import compile_library, find_compiler, load
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.machines.machine import Machine
from tests.kernels.running import Running

SIZES = 1, 15, 16, 31, 32, 33, 47, 64, 100, 4096
CPUS = {
    "no vectors": ["-mno-avx2", "-mno-avx512f"],
    "words": ["-mavx2", "-mno-avx512f", "-mno-avx512vnni", "-mno-avxvnni"],
    "bytes": [],  # whatever this machine has
}


def nest(left: str = "i8", right: str = "i8", into: str = "i32", size: str = "64") -> str:
    term = "i32(a[l]) * i32(b[l])"
    return f"""\
nest dot(a: {left}[{size}], b: {right}[{size}]) -> (O: {into}[])
  local t: {into}[] in registers
  t = 0_{into}
  simd l < {size}:
    t += {f"i64({term})" if into == "i64" else term}
  O[] = t
"""


@pytest.mark.parametrize(
    ("given", "call"),
    [
        (nest(), "lab_dot_i8(a + 0, b + 0, 64)"),
        (nest("u8", "i8"), "lab_dot_u8(a + 0, b + 0, 64)"),
        (nest("i8", "u8"), "lab_dot_u8(b + 0, a + 0, 64)"),
        (nest(into="i64"), "lab_dot_i8(a + 0, b + 0, 64)"),
        (nest(into="i64", size="32768"), "lab_dot_i8(a + 0, b + 0, 32768)"),
        (nest(size="n"), "lab_dot_i8(a + 0, b + 0, n)"),
        (nest().replace("i32(a[l])", "i32(i8(a[l]))").replace("a: i8", "a: u8"), "lab_dot_i8("),
        (nest(into="i64", size="32769"), ""),  # more than 32 bits can hold
        (nest(into="i64", size="n"), ""),
        (nest("u8", "u8"), ""),
        (nest("i16", "i8"), ""),
        (nest().replace("b[l]", "b[2*l]").replace("b: i8[64]", "b: i8[128]"), ""),
        (nest().replace("simd l < 64", "for l < 64"), ""),
        (nest().replace("b[l])", "b[l]) + 1_i32"), ""),
    ],
)
def test_which_loops_are_calls(given: str, call: str) -> None:
    text = render_nest(parse_nest(given), "dot").text
    assert (f"t += {call}" in text) if call else ("lab_dot_" not in text)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_they_are_right_to_the_last_bit(dtype: str, cpu: str) -> None:
    name = f"lab_dot_{dtype}"
    source = f"{prelude('c', [name])}\n\nlab_i32 dot(const lab_{dtype} *x, const lab_i8 *y, "
    source += f"lab_i64 n) {{ return {name}(x, y, n); }}\n"
    compiler = find_compiler(None)
    dot: Any = load(
        compile_library(source, replace(compiler, flags=(*compiler.flags, *CPUS[cpu]))), "dot"
    )["dot"]
    draw, kind = np.random.default_rng(0), {"i8": np.int8, "u8": np.uint8}[dtype]
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    for size in SIZES:
        pairs = [(draw.integers(low, high + 1, size), draw.integers(-128, 128, size))]
        pairs += [(np.full(size, x), np.full(size, y)) for x in (low, high) for y in (-128, 127)]
        for x, y in pairs:
            a, b = x.astype(kind), y.astype(np.int8)
            places = (ctypes.c_void_p(each.ctypes.data) for each in (a, b))
            assert dot(*places, ctypes.c_int64(size)) == int(x @ y)


def sums(
    left: str = "u8[32]", first: str = "i32(a[4*j + k])", into: str = "i32", by: int = 4
) -> str:
    return f"""\
nest dots(a: {left}, b: i8[32]) -> (O: {into}[8])
  for j < 8:
    O[j] = 0_{into}
  for j_sum < 8:
    for k < {by}:
      O[j_sum] += {first.replace("j", "j_sum")} * i32(b[{by}*j_sum + k])
"""


HALVES = "i32(bit_and(shift_right(a[4*(j % 4) + k], u8[j // 4] * 4_u8), 15_u8))"


@pytest.mark.parametrize(
    ("given", "call"),
    [
        (sums(), "lab_dots_u8(O + 0, a + 0, b + 0, 8, 255)"),
        (sums("i8[32]"), "lab_dots_i8(O + 0, a + 0, b + 0, 8, 127)"),
        (
            sums(first="i32(i8(a[4*j + k]))"),
            "lab_dots_i8(O + 0, (const lab_i8 *)(a + 0), b + 0, 8, 127)",
        ),
        (sums(first="i32(bit_and(a[4*j + k], 15_u8))"), "lab_dots_u8(O + 0, (const lab_u8 *)v"),
        (
            sums("u8[16]", HALVES),
            "lab_dots_u8(O + 0, (const lab_u8 *)v",
        ),  # low bits, then high ones
        (sums("u8[16]", HALVES).replace("b[4*", "b[2*"), ""),
        (sums("u8[16]", HALVES.replace("j % 4", "j % 3")), ""),
        (sums(first="i32(bit_and(a[k], 15_u8))"), ""),  # the same four for all
        (sums(first="i32(bit_and(a[4*j + k], u8[k]))"), ""),  # by the place, which goes on
        (sums(first="i32([j < 3: a[4*j + k]])"), ""),  # not read everywhere
        (sums("i16[32]"), ""),
        (sums("u8[32]", "i32(a[2*j + k])", by=2), ""),
    ],
)
def test_which_loops_are_sums_side_by_side(given: str, call: str) -> None:
    text = render_nest(parse_nest(given), "dots").text
    assert call in text if call else "lab_dots_" not in text
    if "15_u8" in given and call:
        assert ", 8, 15);" in text  # products of two such bytes are added up in 16 bits


@pytest.mark.needs("cc")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("dtype", "most"), [("i8", 127), ("u8", 255), ("u8", 128), ("u8", 127)])
def test_sums_side_by_side_are_right_to_the_last_bit(dtype: str, most: int, cpu: str) -> None:
    name = f"lab_dots_{dtype}"
    source = f"{prelude('c', [name])}\n\nvoid dots(lab_i32 *to, const lab_{dtype} *x, "
    source += f"const lab_i8 *y, int n) {{ {name}(to, x, y, n, {most}); }}\n"
    compiler = find_compiler(None)
    dots: Any = load(
        compile_library(source, replace(compiler, flags=(*compiler.flags, *CPUS[cpu]))), "dots"
    )["dots"]
    draw, kind = np.random.default_rng(0), {"i8": np.int8, "u8": np.uint8}[dtype]
    low, high = np.iinfo(kind).min, most
    for count in (1, 4, 7, 8, 9, 12, 16, 24, 31):
        shape = count, 4
        pairs = [(draw.integers(low, high + 1, shape), draw.integers(-128, 128, shape))]
        pairs += [(np.full(shape, x), np.full(shape, y)) for x in (low, high) for y in (-128, 127)]
        for x, y in pairs:
            a, b = x.astype(kind), y.astype(np.int8)
            before = draw.integers(-(1 << 30), 1 << 30, count).astype(np.int32)
            after = before.copy()
            places = (ctypes.c_void_p(each.ctypes.data) for each in (after, a, b))
            dots(*places, count)
            assert after.tolist() == (before + (x * y).sum(1)).tolist()


@pytest.mark.needs("cc")
def test_sums_within_a_sum_are_what_the_definition_says() -> None:
    """A product of two matrices in bytes, with a scale for every 32."""
    text = """\
kernel product(a: i8[n, 3, 32], b: i8[m, 3, 32], c: f32[n, 3], d: f16[m, 3]) -> (y: f32[n, m])
  y[i < n, j < m] = sum k < 3: f32(sum l < 32: i32(a[i, k, l]) * i32(b[j, k, l])) * \
(c[i, k] * f32(d[j, k]))"""
    definition = parse_definition(text)
    kernel = make_kernel(definition, "product", Machine())
    assert "lab_dot_i8(" in kernel.source
    draw = np.random.default_rng(0)
    inputs = {
        "a": draw.integers(-128, 128, (5, 3, 32)).astype(np.int8),
        "b": draw.integers(-128, 128, (7, 3, 32)).astype(np.int8),
        "c": draw.standard_normal((5, 3)).astype(np.float32),
        "d": draw.standard_normal((7, 3)).astype(np.float16),
    }
    sizes = {"n": 5, "m": 7}
    expected: Any = evaluate(definition, inputs, sizes)["y"]
    np.testing.assert_allclose(Running(kernel)(inputs, sizes)["y"], expected, rtol=1e-5, atol=1e-2)
