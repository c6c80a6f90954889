"""What definitions mean, by hand: folds of nothing, guards, lookups, random numbers, mistakes."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.ops import Random
from luminal_lab.errors import InputError, LabError, RangeError
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from tests.expect import error_of


def value(text: str, dims: dict[str, int] | None = None, **inputs: Any) -> Any:
    (found,) = evaluate(parse_definition(f"kernel f{text}"), inputs, dims or {}).values()
    return found


def test_folds_of_nothing() -> None:
    assert value("() -> (y: f32[])  y[] = sum i < 0: 1.0") == 0
    assert value("() -> (y: f32[])  y[] = max i < 0: 1.0") == -np.inf
    assert value("() -> (y: u8[])  y[] = max i < 0: 1_u8") == 0
    assert value("() -> (y: bool[2])  y[j < 2] = max i < 0: true").tolist() == [False, False]


def test_halves_are_summed_in_float32() -> None:
    text = "(x: f16[n]) -> (y: f16[])  y[] = sum i < n: x[i]"
    assert value(text, {"n": 4096}, x=np.ones(4096, np.float16)) == 4096


def test_what_a_guard_hides_is_not_looked_at() -> None:
    text = "(x: f32[3]) -> (y: f32[5])  y[i < 5] = [0 < i and i < 4: x[i - 1]] + 1.0"
    assert value(text, x=[1, 2, 3]).tolist() == [1, 2, 3, 4, 1]
    nothing = "(x: f32[0]) -> (y: f32[2])  y[i < 2] = [i < 0: x[i]]"
    assert value(nothing, x=np.empty(0)).tolist() == [0, 0]


def test_indices_are_values_too() -> None:
    text = "() -> (y: f32[n])  y[i < n] = f32[i // 2] + f32[n]"
    assert value(text, {"n": 4}).tolist() == [4, 4, 5, 5]


def test_random_numbers_are_those_of_the_op() -> None:
    definition = parse_definition(
        "kernel f() -> (y: f32[2, 3])  y[i < 2, j < 3] = random{7, 1}[3*i + j]"
    )
    for step in (0, 5):
        ours = evaluate(definition, {}, step=step)["y"]
        assert np.array_equal(ours, Random(7, 1, (2, 3)).eval(step))


def test_outputs_are_in_order_and_locals_are_gone() -> None:
    definition = parse_definition("""
    kernel f(x: f32[2]) -> (a: f32[2], b: f32[])
      s[i < 2] = x[i] * x[i]
      a[i < 2] = s[1 - i]
      b[] = s[0] + s[1]
    """)
    found = evaluate(definition, {"x": [2, 3]})
    assert {name: array.tolist() for name, array in found.items()} == {"a": [9, 4], "b": 13}


OUTSIDE = "(x: f32[n], ids: i64[2]) -> (y: f32[2])  y[i < 2] = {}"
WRONG = [
    (
        OUTSIDE.format("x[i + 2]"),
        "kernel f: y reads x[i + 2] at 3 along axis 0, but x is (3,)\n"
        "hint: a guard keeps a term from being looked at: [0 <= i - 1: x[i - 1]]",
    ),
    (
        OUTSIDE.format("x[i - 1]"),
        "kernel f: y reads x[i - 1] at -1 along axis 0, but x is (3,)\n"
        "hint: a guard keeps a term from being looked at: [0 <= i - 1: x[i - 1]]",
    ),
    (
        OUTSIDE.format("x[ids[i]]"),
        "kernel f: y reads x[ids[i]] at 7 along axis 0, but x is (3,)\n"
        "hint: a guard keeps a term from being looked at: [0 <= i - 1: x[i - 1]]",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_read_outside_of_a_buffer(text: str, message: str) -> None:
    error = error_of(lambda: value(text, {"n": 3}, x=[1, 2, 3], ids=[0, 7]), RangeError)
    assert str(error) == message


def test_data_that_is_not_there_or_does_not_fit() -> None:
    text = "(x: f32[n]) -> (y: f32[n])  y[i < n] = x[i]"
    error = error_of(lambda: value(text, {"n": 3}, y=[1, 2, 3]), InputError)
    assert str(error) == "kernel f: x has no data\nhint: it is given y"
    error = error_of(lambda: value(text, {"n": 4}, x=[1, 2, 3]), LabError)
    assert str(error).startswith("kernel f: x is (4,), but the data is (3,)")
