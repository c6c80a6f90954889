"""Rows that are made right where they will be: when that is done, and what forbids it."""

import pytest
from hypothesis import given, strategies as st

from luminal_lab.errors import LabError
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.step import parse_step
from luminal_lab.machines.machine import Machine
from tests.kernels.steps.test_schedule import after, nest, refused, values

ROWS = """\
kernel rows(x: f32[n, m]) -> (y: f32[n, m])
  t[i < n, j < m] = exp2(x[i, j])
  u[i < n] = recip(sum k < m: t[i, k])
  y[i < n, j < m] = t[i, j] * u[i]"""
SHARED = ["fuse i_2 into i", "fuse i_3 into i", "shrink t", "shrink u"]


def test_a_row_is_made_where_it_will_be() -> None:
    made = after(ROWS, *SHARED, "reuse y for t")
    assert [name for name in made.locals if made.locals[name].type.shape] == []
    assert "      y[i, j] = exp2(x[i, j])\n" in str(made)
    assert str(made).endswith("      y[i, j_2] = y[i, j_2] * u")
    values(ROWS, made, n=3, m=5)


def test_a_whole_array_needs_no_memory_of_its_own() -> None:
    made = after(ROWS, "reuse y for t")
    assert "t" not in made.locals
    values(ROWS, made, n=3, m=5)


def changed(old: str, new: str) -> str:
    assert old in ROWS
    return ROWS.replace(old, new)


@pytest.mark.parametrize(
    ("text", "steps", "message"),
    [
        (ROWS, ["reuse x for t"], "reuse x for t: x is not an output"),
        (
            "kernel k(x: f64[8]) -> (y: f32[8])\n  t[i < 8] = exp2(x[i])\n  y[i < 8] = f32(t[i])",
            ["reuse y for t"],
            "reuse y for t: y is float32, and t is float64",
        ),
        (
            changed("= t[i, j] *", "= t[i, j] * t[i, 0] *"),
            ["reuse y for t"],
            "reuse y for t: y is not made of one element of t",
        ),
        (
            changed("= t[i, j] *", "= t[i, m - 1 - j] *"),
            ["reuse y for t"],
            "reuse y for t: where y reads t is not a place of loops",
        ),
        (
            "kernel k(x: f32[8]) -> (y: f32[8, 2])\n  t[i < 8] = x[i]\n  y[i < 8, j < 2] = t[i]",
            ["reuse y for t"],
            "reuse y for t: the loops that write y are not those of t",
        ),
        (
            "kernel k(x: f32[8]) -> (y: f32[4])\n  t[i < 8] = x[i]\n  y[i < 4] = t[i]",
            ["reuse y for t"],
            "reuse y for t: t may have more elements than y",
        ),
        (
            "kernel k(x: f32[8]) -> (y: f32[8], z: f32[8])\n  t[i < 8] = exp2(x[i])\n"
            "  y[i < 8] = t[i]\n  z[i < 8] = t[7 - i]",
            ["reuse y for t"],
            "reuse y for t: t is needed when y is written",
        ),
    ],
)
def test_it_is_refused_where_something_would_be_lost(
    text: str, steps: list[str], message: str
) -> None:
    assert refused(text, *steps).startswith(message)


@given(st.data())
def test_after_any_steps_it_computes_the_same_or_is_refused(data: st.DataObject) -> None:
    made = nest(ROWS)
    for _ in range(data.draw(st.integers(1, 6))):
        loop, other = (data.draw(st.sampled_from([*made.loops])) for _ in range(2))
        by = data.draw(st.integers(1, 5))
        steps = [
            f"split {loop} by {by}",
            f"fuse {loop} into {other}",
            f"fission {loop}",
            f"reorder {loop}, {other}",
            f"merge {loop}, {other}",
            "shrink t",
            "reuse y for t",
        ]
        try:
            made = parse_step(data.draw(st.sampled_from(steps))).apply(made)
        except LabError:
            continue
        values(ROWS, made, n=3, m=4)


def test_a_result_that_may_lie_in_place_of_an_input_is_left_alone() -> None:
    """Who trains a parameter wants it where it is, and not another array beside it."""
    text = """\
kernel step(x: f32[n, 64], w: f32[64]) -> (v: f32[64])
  s[i < 64] = sum k < n: x[k, i]
  v[i < 64] = w[i] - s[i]"""
    made = cpu_schedule(nest(text), Machine(vector_bytes=32, cores=2))
    assert "reuse" not in str(made.schedule)
    values(text, made.nest, n=5)
