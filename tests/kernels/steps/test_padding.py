"""The step pad: what it makes of a nest, the same values, and what it refuses."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.step import parse_step

WINDOWS = """\
nest f(x: f32[n]) -> (y: f32[n])
  for i < n:
    y[i] = 0.0
    for p < 3:
      y[i] += [0 < i + p and i + p < n + 1: exp2(x[i + p - 1])]"""


def step(text: str, *steps: str) -> Nest:
    made = parse_nest(text)
    for one in steps:
        assert str(parse_step(one)) == one
        made = parse_step(one).applied_to(made)
    return made


def same(text: str, made: Nest) -> None:
    draw, before = np.random.default_rng(0), parse_nest(text)
    sizes = {"n": 5}
    inputs = {
        name: draw.standard_normal([evaluate(d, sizes) for d in type.shape]).astype(np.float32)
        for name, type in before.inputs
    }
    results: list[Any] = [evaluate_nest(one, inputs, sizes) for one in (before, made)]
    wanted, found = results
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_what_windows_see_is_copied_once() -> None:
    made = step(WINDOWS, "pad x before i as f")
    assert (
        str(made)
        == """\
nest f(x: f32[n]) -> (y: f32[n])
  local f: f32[n + 2] in memory
  for f_i < n + 2:
    f[f_i] = [0 < f_i and f_i < n + 1: exp2(x[f_i - 1])]
  for i < n:
    y[i] = 0.0
    for p < 3:
      y[i] += f[i + p]"""
    )
    same(WINDOWS, made)


def test_a_border_of_other_values_is_copied_too() -> None:
    holds, read = "0 < i + p and i + p < n + 1", "x[i + p - 1]"
    text = WINDOWS.replace(
        f"[{holds}: exp2({read})]", f"where([{holds}: true], [{holds}: {read}], 9.0)"
    )
    made = step(text, "pad x before i as f")
    assert "f[i + p]" in str(made)
    same(text, made)


def test_every_second_place_can_be_a_part_of_the_copy() -> None:
    text = WINDOWS.replace("i + p", "2*i + p").replace("i < n:", "i < n // 2:")
    text = text.replace("y: f32[n]", "y: f32[n // 2]")
    made = step(text, "pad x before i as f in 2 parts")
    assert "y[i] += f[p%2, i + p//2]" in str(made)
    same(text, made)


@pytest.mark.parametrize(
    ("index", "holds", "copy"),
    [
        ("2*i + p", "2*i + p < n", "[f_p < n: x[f_p]]"),
        ("i - p + 1", "p < i + 2 and i < n + p - 1", "[0 < f_i and f_i < n + 1: x[f_i - 1]]"),
        # Places between those that are read are no places of the array.
        ("5*i + p", "i < 1", "[f_p < n: x[f_p]]"),
        ("i + p - 1", "0 < i + 2*p and 0 < i + p and i + p < n + 1", "f_i < n + 1: x[f_i - 1]]"),
    ],
    ids=["stride", "flipped", "gaps", "condition of its own"],
)
def test_whatever_is_read_keeps_its_value(index: str, holds: str, copy: str) -> None:
    text = WINDOWS.replace("exp2(x[i + p - 1])", f"x[{index}]")
    text = text.replace("0 < i + p and i + p < n + 1", holds)
    made = step(text, "pad x before i as f")
    assert copy in str(made)
    same(text, made)


def test_a_block_reads_no_further_than_the_array_goes() -> None:
    text = """\
nest f(x: f32[7]) -> (y: f32[5])
  for i < 5:
    y[i] = 0.0
    for p < 3:
      y[i] += x[i + p]"""
    made = step(text, "split i by 2", "pad x before i.own as f")
    assert "local f: f32[4] in scratch" in str(made)
    assert "f[f_i.own] = [f_i.own + 2*i.block < 7: x[f_i.own + 2*i.block]]" in str(made)
    same(text, made)


def refused(text: str, one: str) -> str:
    with pytest.raises(ScheduleError) as caught:
        step(text, one)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[i + p - 1]", "[2*i + 2*p]", "neighbours along no axis are neighbours in x"),
        ("[i + p - 1]", "[i*p]", "x is not read along i in equal steps: at i*p"),
        ("exp2(x[i + p - 1])", "x[i] * x[p]", "i reads it as x[i] and x[p]: one copy cannot be"),
        (
            "exp2(x[i + p - 1])",
            "exp2(x[i + p - 1]) * y[i] + x[i + p - 1]",
            "i reads it as exp2(x[i + p - 1]) and x",
        ),
        ("exp2(x[i + p - 1])", "2.0", "i does not read x"),
    ],
)
def test_what_is_no_window_is_refused(old: str, new: str, message: str) -> None:
    assert f"pad x before i as f: {message}" in refused(
        WINDOWS.replace(old, new), "pad x before i as f"
    )


def test_a_name_is_used_once() -> None:
    assert "there is a y already" in refused(WINDOWS, "pad x before i as y")


def test_a_diagonal_is_copied_by_one_loop() -> None:
    text = """\
nest f(x: f32[n, n]) -> (y: f32[n])
  for i < n:
    y[i] = exp2(x[i, i]) + x[i, i]"""
    made = step(text.replace(" + x[i, i]", ""), "pad x before i as w")
    assert (
        str(made)
        == """\
nest f(x: f32[n, n]) -> (y: f32[n])
  local w: f32[n] in memory
  for w_i < n:
    w[w_i] = exp2(x[w_i, w_i])
  for i < n:
    y[i] = w[i]"""
    )
    for window in ("x[i, i + 2]", "x[n - i - 1, i]"):
        moved = text.replace("exp2(x[i, i]) + x[i, i]", window).replace("n, n", "n, n + 2")
        same(moved, step(moved, "pad x before i as w"))


def test_windows_of_one_array_after_another_are_refused() -> None:
    both = "where([j < n + 1: true], [j < n + 1: x[j - 1]], [n < j: z[j - 1 - n]])"
    text = f"""\
nest f(x: f32[n], z: f32[n]) -> (y: f32[2*n])
  for i < 2*n:
    y[i] = 0.0
    for p < 3:
      y[i] += [0 < j and j < 2*n + 1: {both}]""".replace("j", "i + p")
    with pytest.raises(ScheduleError, match="what is read of x comes with other arrays"):
        step(text, "pad x before i as f")
