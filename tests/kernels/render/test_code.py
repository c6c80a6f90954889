"""The statement tree: how each dialect prints it, and what it knows of the functions it calls."""

import re

import pytest

from luminal_lab.core.dims import Symbol, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.dialect import CUDA, METAL, C
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.code import Code, printed
from luminal_lab.kernels.render.gpu.render import render_gpu


def text(code: Code) -> list[str]:
    return [line.text.removeprefix("    ") for line in printed(code.block, code.dialect)]


def test_a_table_for_each_dialect():
    found = {}
    for dialect in (C, CUDA, METAL):
        code = Code(dialect)
        code.array("float", "t", 4, "aligned" if dialect is C else "shared")
        with code.repeat("int", "j", 4, ("unroll", "4")), code.branch("j < n"):
            code.assign("t[j]", "x[j]", "+=", ["sum_reduce"])
        found[dialect.name] = text(code)[:2]
        assert text(code)[2:] == [
            "for (int j = 0; j < 4; j++) {",
            "    if (j < n) {",
            "        t[j] += x[j];",
            "    }",
            "}",
        ]
    assert found == {
        "c": ["float t[4] LAB_ALIGNED;", "LAB_UNROLL(4)"],
        "cuda": ["__shared__ __align__(16) float t[4];", "#pragma unroll"],
        "metal": ["threadgroup __attribute__((aligned(16))) float t[4];", "#pragma unroll"],
    }


def test_a_scalar_is_declared_with_its_first_value_if_only_constants_come_between():
    code = Code(C)
    code.declare("float", "t")
    code.constant("int", "i", "lab_task")
    assert code.undeclared("t", len(code.block)) == "float"
    code.declare("float", "u")
    code.assign("x", "0")
    assert not code.undeclared("u", len(code.block))
    assert text(code) == ["const int i = lab_task;", "float u;", "x = 0;"]


def test_what_is_written_aside_leaves_only_the_functions_that_it_calls():
    code = Code(CUDA, {"v0"})
    with code.aside():
        code.declare("float", code.fresh(), code.cast("h", DType.int8, DType.float16))
    assert not code.block
    assert code.fresh() == "v1"
    code.index(minimum(Symbol("n"), 4))
    assert code.uses == {"lab_cast_i8_f16", "lab_cast_f16_f32", "lab_min"}


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=lambda one: one.name)
def test_a_kernel_hands_over_what_it_calls(dialect):
    nest = parse_nest("""\
nest k(x: f16[n, 64], i: i64[n]) -> (y: f16[n])
  block b < n:
    local t: f32[64] in registers
    thread l < 64:
      t[l] = f32(x[i[b], l]) * 2.0
    local m: f32[] in registers
    m = -inf
    across k < 64:
      m max= t[k]
    y[b] = f16(exp2(m))
""")
    made = render_gpu(nest, "k", ("n",), dialect)
    (phase,) = made.phases
    assert (phase.draws, phase.faults) == (False, True)
    named = {*re.findall(r"\b(?:lab|LAB)_\w+|\bfloor(?:div|mod)\b", made.text)}
    assert prelude(dialect.name, made.uses) == prelude(dialect.name, named)


def test_sums_and_maxima_of_16_bit_floats_in_memory():
    nest = parse_nest("""\
nest k(x: f16[n]) -> (y: f16[n])
  for i < n:
    y[i] = x[i]
    y[i] += x[i]
    y[i] max= f16(1.0)
""")
    lines = [line.strip() for line in render_nest(nest, "k").text.splitlines()]
    assert lines[5:7] == [
        "y[i] = x[i];",
        "y[i] = lab_cast_f32_f16(lab_cast_f16_f32(y[i]) + lab_cast_f16_f32(x[i]));",
    ]
    assert "".join(lines[7:9]).startswith("y[i] =lab_cast_f32_f16(lab_max_f32(lab_cast_f16_f32(")
    assert "".join(lines[7:10]).endswith("lab_cast_f16_f32(y[i])));")
