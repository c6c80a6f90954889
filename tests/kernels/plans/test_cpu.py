"""What any default schedule for a CPU leaves out, and in which order it reads what is far apart."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate as number_of
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.machines.machine import Machine
from tests.kernels.running import Running

WINDOWS = {
    "a sum": (
        "kernel k(a: f32[n, t]) -> (y: f32[n])\n"
        "  y[i < n] = sum j < t: where(i64[i] - i64[j] < 20, a[i, j], 0.0)",
        "skip",
    ),
    "sums so far": (
        "kernel k(a: f32[n, t]) -> (y: f32[n])\n"
        "  y[i < n] = sum j < t: where(i64[i] < i64[j], 0.0, a[i, j])",
        "stop",
    ),
    "a maximum": (
        "kernel k(a: f32[n, t]) -> (y: f32[n])\n"
        "  y[i < n] = max j < t: where(i64[i] < i64[j + 9], a[i, j], -inf)",
        "skip",
    ),
    "a product with a band": (
        "kernel k(a: f32[n, t], b: f32[t, 48]) -> (y: f32[n, 48])\n"
        "  y[i < n, d < 48] = sum j < t: fused("
        "where((i64[j] < i64[i + 9]) * (i64[i] < i64[j + 30]), a[i, j], 0.0) * b[j, d])",
        "skip",
    ),
    "a product with a triangle": (
        "kernel k(a: f32[n, t], b: f32[t, 48]) -> (y: f32[n, 48])\n"
        "  y[i < n, d < 48] = sum j < t: fused(where(i64[i] < i64[j], 0.0, a[i, j]) * b[j, d])",
        "stop",
    ),
    "the sum of a part": (
        "kernel k(a: f32[n, t]) -> (y: f32[n])\n  y[i < n] = sum j < t: [j < i + 1: a[i, j]] * 2.0",
        "stop",
    ),
}


@pytest.mark.needs("cc")
@pytest.mark.parametrize("kind", WINDOWS)
def test_what_is_outside_of_a_window_is_left_out(
    kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, word = WINDOWS[kind]
    definition = parse_definition(text)
    kernel = make_kernel(definition, "k", Machine())
    assert f"\n{word} " in str(kernel.schedule)
    run = Running(kernel)
    for n, t in [(1, 1), (7, 90), (150, 130), (200, 40)]:
        sizes, draw = {"n": n, "t": t}, np.random.default_rng(0)
        inputs = {
            name: draw.standard_normal([number_of(size, sizes) for size in type.shape]).astype("f4")
            for name, type in definition.inputs
        }
        expected: Any = evaluate(definition, inputs, sizes)["y"]
        np.testing.assert_allclose(run(inputs, sizes)["y"], expected, rtol=1e-4, atol=1e-5)


def test_short_loops_and_those_without_windows_stay_as_they_are() -> None:
    for text in (
        "kernel k(a: f32[n, 8]) -> (y: f32[n])\n"
        "  y[i < n] = sum j < 8: where(i64[i] < i64[j], 0.0, a[i, j])",
        "kernel k(a: f32[n, t]) -> (y: f32[n])\n"
        "  y[i < n] = sum j < t: where(i64[i] < i64[j], 1.0, a[i, j])",
        "kernel k(a: f32[n, t]) -> (y: f32[n, t])\n"
        "  y[i < n, j < t] = where(i64[i] < i64[j], 0.0, a[i, j])",
    ):
        schedule = str(make_kernel(parse_definition(text), "k", Machine()).schedule)
        assert "stop" not in schedule
        assert "skip" not in schedule


TURNED = {
    "a maximum": (
        "kernel k(a: f32[n, t]) -> (y: f32[t])\n  y[i < t] = max j < n: a[j, i]",
        "reorder j, i_sum",
    ),
    "a transposed copy": (
        "kernel k(a: f32[n, t]) -> (y: f32[t, n])\n  y[i < t, j < n] = a[j, i]",
        "reorder j.block, i.own",
    ),
    "what is computed of a transposed array": (
        "kernel k(a: f32[n, t]) -> (y: f32[t, n])\n  y[i < t, j < n] = a[j, i] * 2.0 + 1.0",
        "reorder j.block, i.own",
    ),
}


@pytest.mark.needs("cc")
@pytest.mark.parametrize("kind", TURNED)
def test_neighbours_are_read_while_they_are_at_hand(kind: str) -> None:
    definition = parse_definition(TURNED[kind][0])
    kernel = make_kernel(definition, "k", Machine())
    assert TURNED[kind][1] in str(kernel.schedule)
    run = Running(kernel)
    for n, t in [(1, 1), (7, 90), (150, 131), (1000, 40), (129, 2001)]:
        a = np.random.default_rng(0).standard_normal((n, t)).astype("f4")
        sizes = {"n": n, "t": t}
        expected: Any = evaluate(definition, {"a": a}, sizes)["y"]
        np.testing.assert_array_equal(run({"a": a}, sizes)["y"], expected)


COLUMNS = """kernel k(a: f32[p, q, r]) -> (y: f32[p, r])
  y[i < p, j < r] = {how} k < q: a[i, k, j]"""


@pytest.mark.needs("cc")
@pytest.mark.parametrize("how", ["sum", "max"])
def test_several_rows_at_once_are_added_to_sums_of_columns(how: str) -> None:
    definition = parse_definition(COLUMNS.format(how=how))
    kernel = make_kernel(definition, "k", Machine())
    assert "\ncut k by 4 as block, each, rest\nreorder j_sum, k.each\n" in str(kernel.schedule)
    assert "unroll k.each" in str(kernel.schedule)
    once = kernel.rescheduled(choices={"at_once": 1})
    for run in (Running(kernel), Running(once)):
        for p, q, r in [(1, 1, 1), (3, 9, 70), (2, 3, 33), (5, 128, 130)]:
            a = np.random.default_rng(0).standard_normal((p, q, r)).astype("f4")
            wanted: Any = evaluate(definition, {"a": a}, {"p": p, "q": q, "r": r})["y"]
            made = run({"a": a}, {"p": p, "q": q, "r": r})["y"]
            np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)


def test_what_costs_more_than_loads_takes_one_row_after_another() -> None:
    text = COLUMNS.format(how="sum").replace("a[i, k, j]", "math.tanh(a[i, k, j])")
    assert "cut" not in str(make_kernel(parse_definition(text), "k", Machine()).schedule)
