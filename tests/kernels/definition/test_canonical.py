"""Canonical names: what computes the same has the same text, whatever it was called."""

import pytest

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import Fold, Read, axis_of
from luminal_lab.kernels.definition.text import parse_definition


def test_axes_are_named_in_the_order_of_appearance() -> None:
    text = """
    kernel f(x: f32[n, 4], i: f32[4]) -> (y: f32[n, 2])
      s[row < n] = max q < 4: x[row, q]
      y[a < n, b < 2] = (sum z < 4: x[a, z] * i[z]) + (sum c < 2: max d < 4: x[c, d] * s[a])
    """
    assert str(canonical(parse_definition(text))).splitlines() == [
        "kernel f(x: f32[n, 4], i: f32[4]) -> (y: f32[n, 2])",
        "  s[j < n] = max k < 4: x[j, k]",
        "  y[j < n, l < 2] = (sum k < 4: x[j, k] * i[k]) + (sum m < 2: max o < 4: x[m, o] * s[j])",
    ]


def test_folds_that_compute_the_same_share_a_name() -> None:
    text = """
    kernel f(x: f32[n, 4]) -> (y: f32[n, 4])
      y[i < n, j < 4] =
        (x[i, j] - (max k < 4: x[i, k])) * (sum l < 4: x[i, l] - (max m < 4: x[i, m]))
    """
    definition = canonical(parse_definition(text))
    assert str(definition).splitlines()[1:] == [
        "  y[i < n, j < 4] = (x[i, j] - (max k < 4: x[i, k])) * "
        "(sum l < 4: x[i, l] - (max k < 4: x[i, k]))",
    ]
    assert canonical(definition) == definition


def test_nested_folds_do_not_take_each_others_axes() -> None:
    text = "kernel f(x: f32[3, 3]) -> (y: f32[])  y[] = sum {a} < 3: max {b} < 3: x[{a}, {b}]"
    names = [("i", "j"), ("j", "i"), ("_1", "_2"), ("_2", "_1"), ("__1", "_1")]
    texts = {str(canonical(parse_definition(text.format(a=a, b=b)))) for a, b in names}
    assert texts == {"kernel f(x: f32[3, 3]) -> (y: f32[])\n  y[] = sum i < 3: max j < 3: x[i, j]"}


def test_buffers_can_be_named_anew_too() -> None:
    text = """
    kernel f(a: f32[A], b: f32[A]) -> (c: f32[A])
      d[i < A] = a[i] * b[i]
      c[i < A] = d[i] + a[i]
    """
    assert str(canonical(parse_definition(text), buffers=True)).splitlines() == [
        "kernel f(B: f32[A], C: f32[A]) -> (O: f32[A])",
        "  s[i < A] = B[i] * C[i]",
        "  O[i < A] = s[i] + B[i]",
    ]


@pytest.mark.parametrize("name", ["i", "k"])
def test_what_comes_in_is_not_caught(name: str) -> None:
    """In the sum over k of x[i, k], i becomes k + 1: that k is another one."""
    axis, place = axis_of("k", 4), Symbol(name, 0, 8)
    total = Fold("sum", axis, 4, Read("x", (axis_of("i", 9), axis), DType.float32), DType.float32)
    expected = {"i": "sum k < 4: x[i + 1, k]", "k": "sum k_2 < 4: x[k + 1, k_2]"}
    assert str(replaced(total, {"i": place + 1})) == expected[name]
    assert replaced(total, {"k": place}) == total


def test_a_letter_is_for_axes_of_one_size_in_all_lines():
    text = """kernel attention(Q: f32[n, 64], K: f32[t, 64], V: f32[t, 64]) -> (O: f32[n, 64])
  s[i < n, j < t] = sum k < 64: Q[i, k] * K[j, k]
  O[i < n, j < 64] = sum k < t: s[i, k] * V[k, j]"""
    assert str(canonical(parse_definition(text))).splitlines()[1:] == [
        "  s[i < n, j < t] = sum k < 64: Q[i, k] * K[j, k]",
        "  O[i < n, k < 64] = sum j < t: s[i, j] * V[j, k]",
    ]
