"""Steps stage and hold: what they make of a nest, the same values, and what they refuse."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.step import parse_step

PRODUCT = """\
nest f(a: f32[4, n], b: f32[n, 6]) -> (c: f32[4, 6])
  for i < 4:
    for j < 6:
      c[i, j] = 1.0
  for k < n:
    for p < 4:
      for q < 6:
        c[p, q] += a[p, k] * b[k, q]"""
ROWS = """\
nest f(x: f32[n, 5]) -> (y: f32[n])
  for i < n:
    y[i] = 0.5
    for j < 5:
      y[i] += x[i, j] * y[i]"""


def step(text: str, *steps: str) -> Nest:
    made = parse_nest(text)
    for one in steps:
        assert str(parse_step(one)) == one
        made = parse_step(one).apply(made)
    return made


def same(text: str, made: Nest) -> None:
    draw, before = np.random.default_rng(0), parse_nest(text)
    sizes = {"n": 3}
    inputs = {
        name: draw.standard_normal([evaluate(d, sizes) for d in type.shape]).astype(np.float32)
        for name, type in before.inputs
    }
    results: list[Any] = [evaluate_nest(one, inputs, sizes) for one in (before, made)]
    wanted, found = results
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_what_a_loop_adds_to_is_copied_there_and_back() -> None:
    made = step(PRODUCT, "stage c in k over p, q as s")
    assert (
        str(made)
        == """\
nest f(a: f32[4, n], b: f32[n, 6]) -> (c: f32[4, 6])
  for i < 4:
    for j < 6:
      c[i, j] = 1.0
  local s: f32[4, 6] in registers
  for s_p_start < 4:
    for s_q_start < 6:
      s[s_p_start, s_q_start] = c[s_p_start, s_q_start]
  for k < n:
    for p < 4:
      for q < 6:
        s[p, q] += a[p, k] * b[k, q]
  for s_p_end < 4:
    for s_q_end < 6:
      c[s_p_end, s_q_end] = s[s_p_end, s_q_end]"""
    )
    same(PRODUCT, made)


def test_a_tile_of_it_can_be_staged() -> None:
    steps = [
        "split q by 4",
        "reorder q.block, p",
        "reorder q.block, k",
        "stage c in k over p, q.own as s",
    ]
    made = step(PRODUCT, *steps)
    assert "for s_q_start.own < min(4, 6 - 4*q.block):" in str(made)
    same(PRODUCT, made)


def test_one_element_is_held() -> None:
    made = step(ROWS, "hold y in j as h")
    assert (
        str(made)
        == """\
nest f(x: f32[n, 5]) -> (y: f32[n])
  for i < n:
    y[i] = 0.5
    local h: f32[] in registers
    h = y[i]
    for j < 5:
      h += x[i, j] * h
    y[i] = h"""
    )
    same(ROWS, made)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (PRODUCT, "stage c in k over p as s", "where it is used depends on q, too"),
        (PRODUCT, "stage c in k over i, j as s", "i is not in k"),
        (PRODUCT, "stage c in k over p, q as a", "there is a a already"),
        (PRODUCT, "stage d in k over p, q as s", "k has no d in it"),
        (
            PRODUCT.replace("c[p, q] +=", "c[p, 0] +="),
            "stage c in k over p, q as s",
            "q does not tell the elements of c apart",
        ),
        (
            PRODUCT.replace("b[k, q]", "c[p, 0]"),
            "stage c in k over p, q as s",
            "it is used at c[p, 0] and c[p, q]: one copy cannot be both",
        ),
        (ROWS, "hold y in i as h", "where it is used depends on i, too"),
    ],
)
def test_what_is_refused(text: str, line: str, why: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_step(line).apply(parse_nest(text))
    assert caught.value.message == f"{line}: {why}"
