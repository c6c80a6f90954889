"""Counts of arithmetic and bytes."""

import pytest

from luminal_lab.kernels.definition.cost import bytes_moved, flops
from luminal_lab.kernels.definition.text import parse_definition

CASES = [
    # a product and a sum for each of 3 * 5 * 4
    (
        "(a: f32[n, 4], b: f32[4, 5]) -> (c: f32[n, 5])  c[i<n, j<5] = sum k<4: a[i, k] * b[k, j]",
        120,
        4 * (12 + 20 + 15),
    ),
    # a - b is one operation, a cast and a choice are none, a comparison is one
    (
        "(a: f32[n], b: f16[n]) -> (c: f32[n])  c[i<n] = where(a[i] < 0.0, a[i] - f32(b[i]), 0.0)",
        6,
        4 * 3 + 2 * 3 + 4 * 3,
    ),
    # what is written twice counts once, but not if it is made again for each k
    (
        "(a: f32[n]) -> (c: f32[n])  c[i<n] = sin(a[i]) * sin(a[i])",
        6,
        24,
    ),
    (
        "(a: f32[n]) -> (c: f32[n])  c[i<n] = sin(a[i]) * (sum k < 5: sin(a[i]))",
        3 * (1 + 1 + 5 + 5),
        24,
    ),
    # a sum of sums is one, but not a sum of maxima
    (
        "(a: f32[n, 4, 5]) -> (c: f32[n])  c[i<n] = sum j < 4: sum k < 5: a[i, j, k]",
        3 * 20,
        4 * 60 + 12,
    ),
    (
        "(a: f32[n, 4, 5]) -> (c: f32[n])  c[i<n] = sum j < 4: max k < 5: a[i, j, k]",
        3 * (4 + 20),
        4 * 60 + 12,
    ),
    # locals are no traffic, inputs that nobody reads neither
    (
        "(a: f32[n], b: f32[99]) -> (c: f32[n])  s[i<n] = sin(a[i])  c[i<n] = s[2 - i] + s[i]",
        6,
        24,
    ),
    # 6 elements of 400 are looked up; of a small table no more than it has
    (
        "(w: f32[100, 4], i: i64[n]) -> (c: f32[n, 2])  c[k < n, j < 2] = w[i[k], j]",
        0,
        4 * 6 + 8 * 3 + 4 * 6,
    ),
    (
        "(w: f32[1, 4], i: i64[n]) -> (c: f32[n, 2])  c[k < n, j < 2] = w[i[k], j]",
        0,
        4 * 4 + 8 * 3 + 4 * 6,
    ),
    # of a cache the rows that are filled; of what is read in two ways no more than there is
    (
        "(q: f32[8], k: f32[100, 8]) -> (s: f32[n])  s[i < n] = sum j < 8: q[j] * k[i, j]",
        2 * 8 * 3,
        4 * 8 + 4 * 8 * 3 + 4 * 3,
    ),
    ("(a: f32[n]) -> (c: f32[n, 9])  c[i < n, j < 9] = a[i] + a[2 - i]", 27, 4 * 3 + 4 * 27),
    (
        "(a: f32[0, n]) -> (c: f32[0])  c[i < 0] = sum j < n: a[i, j]",
        0,
        0,
    ),
]


@pytest.mark.parametrize(("text", "work", "traffic"), CASES)
def test_counts(text: str, work: int, traffic: int) -> None:
    definition = parse_definition(f"kernel f{text}")
    assert flops(definition, {"n": 3}) == work
    assert bytes_moved(definition, {"n": 3}) == traffic
