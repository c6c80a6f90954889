"""Sums of two products of bfloat16 numbers in each lane: where they are, and what they compute."""

import ctypes
import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dims import Symbol
from luminal_lab.core.op import ints
from luminal_lab.devices.build.toolchain import compile_library, find_compiler, load
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.pairs import pairs_of
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.pipeline import LICENCE
from tests.kernels.running import Running

HALF = ml_dtypes.bfloat16
HERE = Machine(vector_bytes=64, cores=2, l2=1 << 20, dot=2)
CPUS = {"floats": ["-mno-avx512bf16"], "whatever this machine has": []}
NEST = """\
nest sums(a: bf16[2], b: bf16[16, 2]) -> (O: f32[16])
  local t: f32[16] in scratch
  for s < 16:
    t[s] = 0.0
  for j < 16:
    for k < 2:
      t[j] += flushed(f32(a[k]) * f32(b[j, k]))
  for e < 16:
    O[e] = t[e]
"""
PRODUCT = """\
kernel product(a: {left}[37, {depth}], b: bf16[{right}]) -> (y: f32[37, 90])
  y[i < 37, j < 90] = sum k < {depth}: flushed(f32({a}) * f32(b[{at}]))"""


def product(depth: int = 48, *, along: bool = True, rounds: bool = False) -> str:
    shape, at = (f"90, {depth}", "j, k") if along else (f"{depth}, 90", "k, j")
    left, a = ("f32", "bf16(a[i, k])") if rounds else ("bf16", "a[i, k]")
    return PRODUCT.format(left=left, depth=depth, right=shape, a=a, at=at)


def drawn(kernel: Kernel) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    assert kernel.definition is not None
    return {
        name: draw.standard_normal(ints(type.shape)).astype(type.dtype.numpy)
        for name, type in kernel.definition.inputs
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("flushed(", "fused("),  # subnormals may not count as 0
        ("for k < 2", "for k < 1"),
        ("f32(b[j, k])", "f32(b[j, 1 - k])"),
        ("b[j, k]", "b[j, 0]"),
        ("f32(a[k])", "f32(b[j, k])"),
    ],
)
def test_which_loops_are_pairs(old: str, new: str) -> None:
    nest = parse_nest(NEST.replace(old, new) if old else NEST)
    loop = nest.loops["j"]
    assert (pairs_of(nest, Symbol("j", 0, 15), loop.body[0]) is not None) == (not old)
    steps = parse_schedule("vector j")
    if old:
        with pytest.raises(ScheduleError, match="vector j: "):
            applied(steps, nest, "sums")
        return
    assert (
        "lab_f32x16_pairs(a + 0, b + 0, "
        in render_nest(applied(steps, nest, "sums").end, "sums").text
    )


@pytest.mark.needs("cc")
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lanes_add_up_their_pairs(lanes: int, cpu: str) -> None:
    """The second of a pair comes first, with each sum rounded once."""
    kind = f"lab_f32x{lanes}"
    source = f"{prelude('c', [kind, f'{kind}_pairs'])}\n\nlab_i32 sums(const lab_bf16 *x, "
    source += "const lab_bf16 *y, float *z) { "
    source += f"*({kind}_at *)z = {kind}_pairs(x, y, *({kind}_at *)z); return 0; }}\n"
    compiler = find_compiler(None)
    flags = (*compiler.flags, *CPUS[cpu])
    sums: Any = load(compile_library(source, replace(compiler, flags=flags)), "sums")["sums"]
    draw = np.random.default_rng(0)
    for _ in range(20):
        x = draw.standard_normal(2).astype(HALF)
        y = draw.standard_normal((lanes, 2)).astype(HALF)
        z = draw.standard_normal(lanes).astype(np.float32)
        wide = x.astype(np.float64) * y.astype(np.float64)
        second = (z + wide[:, 1]).astype(np.float32)
        expected = (second + wide[:, 0]).astype(np.float32)
        sums(*(ctypes.c_void_p(each.ctypes.data) for each in (x, y, z)))
        np.testing.assert_allclose(z, expected, rtol=2e-7, atol=1e-7)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("along", [False, True])
def test_products_are_what_the_definition_says(along: bool, rounds: bool) -> None:
    kernel = make_kernel(parse_definition(product(along=along, rounds=rounds)), "product", HERE)
    assert "_pairs(" in kernel.source
    inputs = drawn(kernel)
    assert kernel.definition is not None
    expected: Any = evaluate(kernel.definition, inputs)["y"]
    np.testing.assert_allclose(Running(kernel)(inputs, {})["y"], expected, rtol=1e-5, atol=1e-5)
    # A wrong pair is seen.
    place = re.compile(r"(2\*columns_[ij]_own\s+\+) (columns_k_pair)")
    swapped = place.sub(r"\1 1 - \2", kernel.source)
    assert swapped != kernel.source
    wrong = Running(replace(kernel, source=swapped))(inputs, {})["y"]
    assert abs(wrong - expected).max() > 0.1


def test_the_nest_is_what_the_definition_says() -> None:
    text = product(4).replace("37", "3").replace("90", "5")
    kernel = make_kernel(parse_definition(text), "product", HERE)
    assert kernel.nest is not None
    assert kernel.definition is not None
    inputs = drawn(kernel)
    expected: Any = evaluate(kernel.definition, inputs)["y"]
    found: Any = evaluate_nest(kernel.nest, inputs)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        (product(), replace(HERE, dot=1)),
        (product(47), HERE),  # a product without a partner
        (product().replace("flushed", "fused"), HERE),
    ],
)
def test_elsewhere_halves_are_widened(text: str, machine: Machine) -> None:
    assert "_pairs(" not in make_kernel(parse_definition(text), "product", machine).source


@pytest.mark.parametrize("licence", [LICENCE, (*LICENCE, "no_subnormal")])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_licence_decides(licence: tuple[str, ...], dtype: str) -> None:
    cx = ll.Graph()
    a, b = cx.tensor((24, 32), dtype, name="a"), cx.tensor((32, 40), dtype, name="b")
    (a @ b).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), licence=licence)
    is_flushed = "flushed(" in str(cx.kernels[-1].definition)
    assert is_flushed == (dtype == "bfloat16" and "no_subnormal" in licence)
