"""One definition inside another: texts, names, refusals, and random pairs against two runs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.ir import IR
from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.definition.canonical import renamed
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.inline import inline
from luminal_lab.kernels.definition.text import parse_definition
from tests.core.graphs import DIMS, data_for
from tests.expect import error_of
from tests.kernels.judging import check_same, definable, sums

TWICE = parse_definition(
    "kernel twice(x: f32[n, 4]) -> (y: f32[n, 4])  y[i<n, j<4] = x[i, j] * 2.0"
)
SOFT = parse_definition("""
kernel soft(x: f32[n, 4]) -> (y: f32[n, 4])
  s[i < n] = sum j < 4: exp2(x[i, j])
  y[i < n, j < 4] = exp2(x[i, j]) * recip(s[i])
""")


def fused(into: str, producer: Definition = TWICE, **options: Any) -> list[str]:
    result = inline(producer, parse_definition(into), **options)
    assert parse_definition(str(result)) == result
    return str(result).splitlines()


def test_a_term_takes_the_place_of_a_read() -> None:
    assert fused("kernel f(y: f32[n, 4]) -> (z: f32[4, n])  z[i<4, j<n] = sin(y[j, 3 - i])") == [
        "kernel f(x: f32[n, 4]) -> (z: f32[4, n])",
        "  z[i < 4, j < n] = sin(x[j, 3 - i] * 2.0)",
    ]


def test_locals_come_along_under_free_names() -> None:
    into = """kernel f(c: f32[2], y: f32[n, 4]) -> (z: f32[n])
      s[i < n] = max j < 4: y[i, j]
      z[i < n] = s[i] + c[1]"""
    assert fused(into, SOFT) == [
        "kernel f(c: f32[2], x: f32[n, 4]) -> (z: f32[n])",
        "  s_2[i < n] = sum j < 4: exp2(x[i, j])",
        "  s[i < n] = max j < 4: exp2(x[i, j]) * recip(s_2[i])",
        "  z[i < n] = s[i] + c[1]",
    ]


def test_inputs_of_one_name_are_one_array() -> None:
    into = "kernel f(x: f32[n, 4], y: f32[n, 4]) -> (z: f32[n, 4]) z[i<n, j<4] = x[i, j] + y[i, j]"
    assert fused(into)[1:] == ["  z[i < n, j < 4] = x[i, j] + x[i, j] * 2.0"]


def test_an_output_may_be_kept_or_written_too() -> None:
    into = "kernel f(a: f32[n, 4]) -> (z: f32[n, 4])  z[i < n, j < 4] = sin(a[i, 3 - j])"
    assert fused(into, reads={"a": "y"}, keep=["y"]) == [
        "kernel f(x: f32[n, 4]) -> (z: f32[n, 4])",
        "  a[i < n, j < 4] = x[i, j] * 2.0",
        "  z[i < n, j < 4] = sin(a[i, 3 - j])",
    ]
    assert fused(into, reads={"a": "y"}, also=["y"]) == [
        "kernel f(x: f32[n, 4]) -> (z: f32[n, 4], y: f32[n, 4])",
        "  z[i < n, j < 4] = sin(x[i, 3 - j] * 2.0)",
        "  y[i < n, j < 4] = x[i, j] * 2.0",
    ]


def test_a_lookup_into_what_is_made() -> None:
    into = "kernel f(y: f32[n, 4], ids: i64[3]) -> (z: f32[3, 4])  z[i<3, j<4] = y[ids[i], j]"
    assert fused(into)[1:] == ["  z[i < 3, j < 4] = x[ids[i], j] * 2.0"]
    back = parse_definition(
        "kernel g(x: f32[n, 4]) -> (y: f32[n, 4])  y[i<n, j<4] = x[n - 1 - i, j]"
    )
    assert fused(into, back)[1:] == [
        "  y[i < n, j < 4] = x[n - i - 1, j]",
        "  z[k < 3, j < 4] = y[ids[k], j]",
    ]


def test_axes_keep_apart() -> None:
    """The index that comes in is named as the fold's axis, and an axis as the other's dim."""
    rows = parse_definition("kernel g(x: f32[n, 4]) -> (y: f32[n])  y[i < n] = sum j < 4: x[i, j]")
    into = "kernel f(y: f32[n]) -> (z: f32[2])  z[i < 2] = max j < n: y[j]"
    assert fused(into, rows)[1:] == ["  z[i < 2] = max j < n: sum k < 4: x[j, k]"]
    other = parse_definition("kernel g(x: f32[k]) -> (y: f32[4])  y[i < 4] = sum j < k: x[j]")
    into = "kernel f(y: f32[4]) -> (z: f32[])  z[] = max k < 4: y[k]"
    assert fused(into, other)[1:] == ["  z[] = max i < 4: sum j < k: x[j]"]


OTHER = "kernel f(y: f32[2]) -> (z: f32[2])  z[i < 2] = y[i]"
WRONG = [
    (
        OTHER.replace("y", "q"),
        {},
        "inline: f reads q, and twice makes y: none of them is the same\n"
        'hint: say which is which: reads={"input": "output"}',
    ),
    (
        OTHER,
        {"reads": {"yy": "y"}},
        "inline: 'yy' is not an input of f\nhint: did you mean 'y'?",
    ),
    (
        OTHER,
        {"reads": {"y": "q"}},
        "inline: 'q' is not an output of twice\nhint: it has y",
    ),
    (
        OTHER,
        {},
        "inline: f reads y as f32[2], but twice makes y as f32[n, 4]\n"
        "hint: define a view of it in between",
    ),
    (
        "kernel f(x: f32[2], y: f32[n, 4]) -> (z: f32[2])  z[i < 2] = y[i, 0] + x[i]",
        {},
        "inline: x is f32[n, 4] in twice, and another array, f32[2], in f\n"
        "hint: rename the buffers of one of them",
    ),
    (
        "kernel f(y: f32[n, 4]) -> (x: f32[2])  x[i < 2] = y[i, 0]",
        {},
        "inline: x is f32[n, 4] in twice, and another array, f32[2], in f\n"
        "hint: rename the buffers of one of them",
    ),
]


@pytest.mark.parametrize(("into", "options", "message"), WRONG)
def test_what_does_not_fit(into: str, options: dict[str, Any], message: str) -> None:
    assert str(error_of(lambda: fused(into, **options), DefinitionError)) == message


def apart(definition: Definition, mark: str) -> Definition:
    """Give inputs and outputs names that no other definition has."""
    ends = [*definition.inputs, *definition.outputs]
    return renamed(definition, {end.name: f"{mark}_{end.name}" for end in ends})


@st.composite
def pairs(draw: st.DrawFn) -> tuple[IR, IR]:
    first = draw(definable())
    return first, draw(definable(inputs=[output.type for output in first.outputs]))


@given(pairs(), st.booleans())
def test_random_pairs_mean_what_both_mean_one_after_the_other(
    both: tuple[IR, IR], kept: bool
) -> None:
    first, second = both
    front, back = apart(define(first), "front"), apart(define(second), "back")
    data = data_for(first)
    names = [buffer.name for buffer in front.inputs]
    given_data = dict(zip(names, [data[node.name] for node in first.inputs], strict=True))
    between = evaluate(front, given_data, DIMS)
    wires = dict(zip([b.name for b in back.inputs], [o.name for o in front.outputs], strict=True))
    theirs = evaluate(back, {name: between[made] for name, made in wires.items()}, DIMS)
    keep = front.outputs[:1] if kept else ()
    whole = inline(front, back, wires, keep=[output.name for output in keep])
    assert parse_definition(str(whole)) == whole
    ours = evaluate(whole, given_data, DIMS)
    with np.errstate(all="ignore"):
        for name, array in theirs.items():
            check_same(ours[name], array, exactly=not sums(first) and not sums(second))
