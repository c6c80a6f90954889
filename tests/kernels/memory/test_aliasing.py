"""Which inputs a result may be written over, and which it is another name of."""

import pytest

from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.memory.aliasing import overwritable, same_bytes
from luminal_lab.kernels.nest.lowering import lower


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("y[i < 4, j < 4] = x[i, j] * z[i, j]", (0, 1)),
        ("y[i < 4, j < 4] = x[j, i] * z[i, j]", (1,)),
        ("y[i < 4, j < 4] = x[i, j] + x[i, 0]", ()),
        ("y[i < 4, j < 4] = x[i, j] * (sum k < 4: x[i, k])", ()),
        ("y[i < 4, j < 4] = x[i, j] + (sum k < 4: z[k, j])", (0,)),
        ("y[i < 4, j < 4] = [i < 2: x[i, j]] + z[3, 3]", (0,)),
    ],
)
def test_what_a_result_may_be_written_over(line, places):
    definition = parse_definition(
        f"kernel k(x: f32[4, 4], z: f32[4, 4]) -> (y: f32[4, 4])\n  {line}"
    )
    assert overwritable(definition, lower(definition)) == places
    if "sum" not in line:
        assert overwritable(definition) == places
    else:
        assert overwritable(definition) == ()


@pytest.mark.parametrize(
    ("header", "line", "place"),
    [
        ("(x: f32[2, n]) -> (y: f32[2, n, 1])", "y[i < 2, j < n, k < 1] = x[i, j]", 0),
        ("(x: f32[2, n]) -> (y: f32[n, 2])", "y[i < n, j < 2] = x[j, i]", None),
        ("(x: f32[6]) -> (y: f32[4])", "y[i < 4] = x[i]", None),
        ("(x: f32[4]) -> (y: f32[4])", "y[i < 4] = x[i] * 1.0", None),
        ("(x: f32[4]) -> (y: f64[4])", "y[i < 4] = f64(x[i])", None),
        ("(z: f32[4], x: f32[4]) -> (y: f32[2, 2])", "y[i < 2, j < 2] = x[2*i + j]", 1),
    ],
)
def test_what_is_another_name_of_an_input(header, line, place):
    assert same_bytes(parse_definition(f"kernel k{header}\n  {line}")) == place
