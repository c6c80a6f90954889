"""Definitions as plain loops: the texts, and the same values, element by element."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.ir import IR
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from tests.core.graphs import DIMS, data_for
from tests.kernels.judging import check_same, definable, interpreted, sums


def nest(text: str) -> Nest:
    return lower(parse_definition(text))


def test_a_fold_is_worked_out_as_far_out_as_its_axes_allow():
    text = """\
kernel softmax(x: f32[n, m]) -> (y: f32[n, m])
  y[i < n, j < m] = exp2(x[i, j]) * recip(sum k < m: exp2(x[i, k]))"""
    assert (
        str(nest(text))
        == """\
nest softmax(x: f32[n, m]) -> (y: f32[n, m])
  for i < n:
    local t: f32[] in registers
    t = 0.0
    for k < m:
      t += exp2(x[i, k])
    for j < m:
      y[i, j] = exp2(x[i, j]) * recip(t)"""
    )


def test_a_fold_of_a_fold_is_one_sum_and_locals_are_arrays():
    text = """\
kernel both(x: f32[2, 3, 4]) -> (y: f32[2])
  m[i < 2, j < 3] = max k < 4: x[i, j, k]
  y[i < 2] = sum j < 3: sum k < 4: x[i, j, k] - m[i, j]"""
    assert (
        str(nest(text))
        == """\
nest both(x: f32[2, 3, 4]) -> (y: f32[2])
  local m: f32[2, 3] in memory
  for i < 2:
    for j < 3:
      local t: f32[] in registers
      t = -inf
      for k < 4:
        t max= x[i, j, k]
      m[i, j] = t
  for i_2 < 2:
    local t_2: f32[] in registers
    t_2 = 0.0
    for j_2 < 3:
      for k_2 < 4:
        t_2 += x[i_2, j_2, k_2] - m[i_2, j_2]
    y[i_2] = t_2"""
    )


def test_what_is_guarded_is_only_looked_at_where_it_holds():
    text = """\
kernel padded(x: f32[4, 3]) -> (y: f32[6])
  y[i < 6] = [i < 4: (sum j < 3: x[i, j]) * 2.0]"""
    assert (
        str(nest(text))
        == """\
nest padded(x: f32[4, 3]) -> (y: f32[6])
  for i < 6:
    local t: f32[] in registers
    t = 0.0
    if i < 4:
      local t_2: f32[] in registers
      t_2 = 0.0
      for j < 3:
        t_2 += x[i, j]
      t = t_2 * 2.0
    y[i] = t"""
    )


def test_sums_of_half_floats_are_in_float32_and_products_are_not_rounded():
    text = """\
kernel dot(x: bf16[4], y: bf16[4]) -> (z: bf16[])
  z[] = sum i < 4: x[i] * y[i]"""
    assert "t += f32(x[i]) * f32(y[i])" in str(nest(text))
    assert "z = bf16(t)" in str(nest(text))


@given(definable())
def test_a_random_graph_comes_out_the_same(ir: IR) -> None:
    data = data_for(ir)
    definition = define(ir)
    names = [buffer.name for buffer in definition.inputs]
    given = {name: data[node.name] for name, node in zip(names, ir.inputs, strict=True)}
    found = evaluate_nest(lower(definition), given, DIMS)
    for output, theirs in zip(definition.outputs, interpreted(ir, data), strict=True):
        check_same(found[output.name], theirs, exactly=not sums(ir))


def test_a_place_outside_and_an_element_never_written_are_found():
    wrong = nest("kernel k(x: f32[4]) -> (y: f32[4])\n  y[i < 4] = x[i + 1]")
    with pytest.raises(IndexError, match=r"x\[4\] is outside"):
        evaluate_nest(wrong, {"x": np.zeros(4, np.float32)})


def test_the_scores_of_a_softmax_keep_their_name():
    definition = parse_definition(
        """kernel attention(Q: f32[n, 8], K: f32[t, 8], V: f32[t, 8]) -> (O: f32[n, 8])
  t[i < n, j < t] = sum k < 8: Q[i, k] * K[j, k]
  u[i < n] = max j < t: t[i, j]
  v[i < n] = sum j < t: exp2((t[i, j] - u[i]) * 1.442695)
  O[i < n, k < 8] = sum j < t: exp2((t[i, j] - u[i]) * 1.442695) * recip(v[i]) * V[j, k]""".replace(
            "[t, 8]", "[m, 8]"
        ).replace("j < t", "j < m")
    )
    nest = lower(one_pass(definition))
    assert str(nest.locals["t"].type) == "f32[64]"
    assert nest.locals["t_2"].space == "registers"


LOG_SOFTMAX = """\
kernel rows(x: f32[4, n]) -> (O: f32[4, n])
  O[i < 4, j < n] = x[i, j] - m + log2(l) * -0.6931472 where (m, l) = \
fold k < n from (-3.4028235e+38, 0.0): let a = math.maximum(m, {0}); \
(a, l * exp2((a - m) * -1.442695) + exp2(({0} - a) * 1.442695))"""


def test_a_cheap_score_is_read_again_and_a_function_of_the_result_computed_once():
    assert (
        str(lower(parse_definition(LOG_SOFTMAX.format("x[i, k]")))).partition("\n")[2]
        == """\
  for i < 4:
    local m: f32[] in registers
    local l: f32[] in registers
    m = -3.4028235e+38
    l = 0.0
    for k.block < (n + 1023)//1024:
      local top: f32[] in registers
      local c: f32[] in registers
      top = m
      for k_top < min(1024, n - 1024*k.block):
        top max= x[i, 1024*k.block + k_top]
      c = exp2((top - m) * -1.442695)
      m = top
      l = l * c
      for k_weight < min(1024, n - 1024*k.block):
        l += exp2((x[i, 1024*k.block + k_weight] - top) * 1.442695)
    local t: f32[] in registers
    t = log2(l)
    for j < n:
      O[i, j] = x[i, j] - m + t * -0.6931472"""
    )


def test_a_costly_score_is_stored_for_its_weight():
    assert "s[k_score] = exp2(" in str(lower(parse_definition(LOG_SOFTMAX.format("exp2(x[i, k])"))))


@pytest.mark.parametrize("score", ["x[i, k]", "exp2(x[i, k])"])
@pytest.mark.parametrize("n", [1, 1023, 2500])
def test_a_pass_in_blocks_is_the_sum_of_all(score: str, n: int):
    definition = parse_definition(LOG_SOFTMAX.format(score))
    data = {"x": np.random.default_rng(n).standard_normal((4, n)).astype(np.float32)}
    found: Any = evaluate_nest(lower(definition), data, {"n": n})["O"]
    power = data["x"].astype(np.float64)
    scores = np.exp2(power) if "exp2" in score else power
    expected = power - np.log(np.exp(scores).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_of_elementwise_results_the_one_that_reads_most_is_first():
    text = """\
kernel step(w: f32[4], m: f32[4], g: f32[4]) -> (n: f32[4], v: f32[4])
  n[i < 4] = m[i] * 0.9 + g[i]
  v[j < 4] = (m[j] * 0.9 + g[j]) * -0.1 + w[j]"""
    assert (
        str(nest(text))
        == """\
nest step(w: f32[4], m: f32[4], g: f32[4]) -> (n: f32[4], v: f32[4])
  for j < 4:
    v[j] = (m[j] * 0.9 + g[j]) * -0.1 + w[j]
  for i < 4:
    n[i] = m[i] * 0.9 + g[i]"""
    )
