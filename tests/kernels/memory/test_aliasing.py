"""Which inputs a result may be written over, and which it is another name of."""

import pytest

from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.memory.aliasing import overwritable, same_bytes
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest


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
    pairs = tuple((0, place) for place in places)
    nest = lower(definition)
    assert overwritable(definition, nest) == pairs
    assert nest.shared == set()  # one statement reads and writes
    if "sum" not in line:
        assert overwritable(definition) == pairs
    else:
        assert overwritable(definition) == ()


def nest_of(*lines: str) -> Nest:
    """Return a nest of two results in loops over all elements."""
    head = "nest k(x: f32[4, 4], z: f32[4, 4]) -> (y: f32[4, 4], w: f32[4, 4])"
    return parse_nest("\n".join([head, *(f"  {line}" for line in lines)]))


LOOPS = "for i < 4:", "  for j < 4:", "    local t: f32[] in registers"


@pytest.mark.parametrize(
    ("lines", "pairs", "shared"),
    [
        # Each result over what only its own local needs.
        (
            (*LOOPS, "    t = x[i, j] + z[i, j]", "    y[i, j] = t", "    w[i, j] = t * t"),
            {("y", "x"), ("y", "z"), ("w", "x"), ("w", "z")},
            {"x", "y", "z", "w"},
        ),
        # What a later statement needs may not be written over by an earlier one.
        (
            (*LOOPS, "    t = z[i, j]", "    y[i, j] = t + x[i, j]", "    w[i, j] = x[i, j]"),
            {("w", "x"), ("y", "z"), ("w", "z")},
            {"x", "y", "z", "w"},
        ),
        # Nor may what is read in another place, or in another block.
        (
            (*LOOPS, "    t = x[j, i] + z[i, j]", "    y[i, j] = t", "    w[i, j] = x[i, j]"),
            {("y", "z"), ("w", "z")},
            {"z", "y", "w"},
        ),
        (
            (
                *("for i < 4:", "  local t: f32[] in registers", "  t = 0.0"),
                *("  for k < 4:", "    t += x[i, k]", "  for j < 4:"),
                *("    y[i, j] = t + z[i, j]", "    w[i, j] = t"),
            ),
            {("y", "z"), ("w", "z")},
            {"z", "w"},
        ),
        # A loop that no place mentions would meet the same element again.
        (
            (
                *("for k < 2:", *(f"  {line}" for line in LOOPS)),
                *("      t = x[i, j]", "      y[i, j] = t", "      w[i, j] = z[i, j]"),
            ),
            {("w", "z")},
            set(),
        ),
    ],
)
def test_which_of_several_results_may_be_written_over_which_input(lines, pairs, shared):
    nest = nest_of(*lines)
    assert nest.overwritable.keys() == pairs
    assert nest.shared == shared


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
