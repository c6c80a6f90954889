"""Loops apart by the conditions in them: what becomes of them, and that their values stay."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.kernels.definition.terms import Read
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Block, Loop, Set, When
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.c.cases import MOST, Branched, Cases, InTurn, cases_of

HEAD = "nest f(x: f32[99], z: f32[99]) -> (y: f32[3, 64])\n  for i < 3:\n    simd j < 64:\n"


def loop_of(term: str) -> tuple[str, Loop]:
    text = f"{HEAD}      y[i, j] = {term}"
    return text, parse_nest(text).loops["j"]


def block_of(cases: Cases) -> Block:
    match cases:
        case Branched(holds=holds, then=then, otherwise=otherwise):
            return When(holds, block_of(then)), When(1 - holds, block_of(otherwise))
        case InTurn(parts=parts):
            return tuple(each for part in parts for each in block_of(part))
        case _:
            return (cases,)


def test_a_border_is_loops_before_and_behind() -> None:
    _, loop = loop_of("[2 < j and j < 60: x[j - 3]]")
    parts = block_of(cases_of(loop) or loop)
    ends = [(each.start, each.size) for each in parts if isinstance(each, Loop)]
    assert ends == [(0, 3), (3, 60), (60, 64)]


def test_what_does_not_depend_on_the_axis_is_a_branch() -> None:
    _, loop = loop_of("[0 < i and i < 2: x[j]]")
    cases = cases_of(loop)
    assert isinstance(cases, Branched)
    assert str(cases.holds) == "0 < i and i < 2"
    assert isinstance(cases.then, Loop)
    assert isinstance(cases.otherwise, Loop)


def test_branches_that_are_the_same_are_none() -> None:
    _, loop = loop_of("where([i < 1: true], [i < 1: x[j]], [0 < i: x[j]])")
    cases = cases_of(loop)
    assert isinstance(cases, Loop)
    (assignment,) = cases.body
    assert isinstance(assignment, Set)
    assert isinstance(assignment.term, Read)


@pytest.mark.parametrize(
    "term",
    [
        "x[j]",  # asks for nothing
        "[j % 3 < 1: x[j]]",  # not one place at which it begins to hold
        "[j*j < 50: x[j]]",
        "[j < i*i*9: x[j]] + " + " + ".join(f"[j < {3 * k}: x[j]]" for k in range(1, 9)),
    ],
)
def test_other_loops_stay(term: str) -> None:
    _, loop = loop_of(term)
    assert cases_of(loop) is None


CONDITIONS = st.builds(
    lambda step, other, least, is_up: (
        f"{step}*j + {other}*i < {least}" if is_up else f"{least} < {step}*j + {other}*i"
    ),
    st.integers(0, 3),
    st.integers(0, 40),
    st.integers(0, 150),
    st.booleans(),
)
GUARDS = st.lists(CONDITIONS, min_size=1, max_size=2).map(" and ".join)
READS = st.sampled_from(["x[j]", "z[j + 4]", "x[j + 9*i] * 2.0"])
TERMS = st.recursive(
    st.builds(lambda holds, read: f"[{holds}: {read}]", GUARDS, READS),
    lambda inner: st.builds(
        lambda holds, a, b: f"where([{holds}: true], {a}, {b})", GUARDS, inner, inner
    ),
    max_leaves=3,
)


@given(TERMS)
def test_values_stay(term: str) -> None:
    text, loop = loop_of(term)
    nest = parse_nest(text)
    cases = cases_of(loop)
    if cases is None:
        return
    block = block_of(cases)
    assert 1 <= len(block) <= 2 * MOST
    outer = nest.loops["i"]
    apart = replace(nest, body=(replace(outer, body=block),))
    data = {name: np.arange(99, dtype=np.float32) + at for at, name in enumerate("xz")}
    # Only what exists is read in them, without any condition.
    np.testing.assert_array_equal(evaluate_nest(apart, data)["y"], evaluate_nest(nest, data)["y"])
