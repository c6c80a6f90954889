"""What kind of work kernels do."""

import pytest

from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.timing.families import family_of_definition

CASES = {
    "kernel k(a: f32[n, 8], b: f32[8, 4]) -> (c: f32[n, 4])\n"
    "  c[i < n, j < 4] = sum k < 8: a[i, k] * b[k, j]": "product",
    "kernel k(a: f32[n, 8]) -> (c: f32[n])\n  c[i < n] = sum k < 8: a[i, k] * a[i, k]": "reduction",
    "kernel k(a: f32[n]) -> (c: f32[n])\n  c[i < n] = a[i] + a[i]": "elementwise",
    "kernel k(a: f32[n, 3]) -> (c: f32[3, n])\n  c[i < 3, j < n] = a[j, i]": "copy",
}


@pytest.mark.parametrize("text", CASES)
def test_the_family_of_a_definition(text):
    assert family_of_definition(parse_definition(text)) == CASES[text]
