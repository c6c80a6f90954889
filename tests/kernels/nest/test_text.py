"""Nests as text: `str` and `parse_nest` are inverses, and errors show where."""

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.ir import IR
from luminal_lab.errors import LabError, ParseError
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.step import parse_step
from luminal_lab.machines.machine import Machine
from tests.kernels.judging import definable
from tests.kernels.steps.test_schedule import CONVOLUTION, MATMUL, SMALL, SOFTMAX


def reads_back(nest: Nest) -> None:
    found = parse_nest(str(nest))
    assert str(found) == str(nest)
    assert found == nest


@given(definable(), st.sampled_from([SMALL, Machine(32, 2), Machine(64, 8)]))
def test_nests_of_random_graphs_read_back_before_and_after_each_step(
    ir: IR, machine: Machine
) -> None:
    nest = lower(define(ir))
    for one in cpu_schedule(nest, machine).schedule.nests(nest):
        reads_back(one)


@given(st.data())
def test_a_nest_after_steps_in_any_order_reads_back(data: st.DataObject) -> None:
    nest = lower(parse_definition(data.draw(st.sampled_from([MATMUL, SOFTMAX, CONVOLUTION]))))
    for _ in range(data.draw(st.integers(1, 6))):
        loops, arrays = [*nest.loops], [*nest.locals, *(name for name, _ in nest.inputs)]
        loop, other = (data.draw(st.sampled_from(loops)) for _ in range(2))
        array = data.draw(st.sampled_from(arrays))
        if loop == other:
            continue
        steps = [
            f"split {loop} by {data.draw(st.integers(1, 5))}",
            f"merge {loop}, {other}",
            f"reorder {loop}, {other}",
            f"fission {loop}",
            f"fuse {loop} into {other}",
            f"round {loop}",
            f"shrink {array}",
            f"pack {array} before {loop} over {loop}, {other} as p{len(arrays)}",
            f"partial {array} over {loop} as p{len(arrays)}",
        ]
        try:
            nest = parse_step(data.draw(st.sampled_from(steps))).apply(nest)
        except LabError:
            continue
        reads_back(nest)


def test_all_statements_and_terms() -> None:
    text = """\
nest a[n: 1..9](x: f32[n, h.n], t: i64[4], s: f32[], if: bf16[n]) -> (y: f32[n], for: f32[n])
  local d: f32[n + 1] in memory
  local b: f64[] in scratch
  b = 0.0_f64
  for i < n:
    local c: f32[8] in registers
    simd j < min(8, n - 8*i):
      vector k < 2 - 2*j of 4:
        c[j] max= [0 < i and j + k < 3: x[i, j]]
    for i//2 <= o < n:
      simd max(0, n - 3*i) <= o.own < min(8, n - 8*o):
        c[o.own] += x[i, o]
    unroll l < 2:
      if 1 < i + l:
        d[i + l] = let a = c[l] * s + 1.0; sin(a) + a
        b += f64(f32(if[i]) + x[i, t[i%4]] + random{3, 1}[i] + f32[i])
  parallel q < (n + 1)//2:
    y[q] = where(s < d[q], s, -inf)
    for[q] = s"""
    nest = parse_nest(text)
    assert str(nest) == text
    reads_back(nest)


START = "nest k(x: f32[n], t: i64[4]) -> (y: f32[n], z: f64[])\n"


def said(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse_nest(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  for i < n:\n    y[i] = x[j]", "there is no dim 'j'"),
        ("  for i < n:\n  y[0] = 1.0", "a block indented by more than 2 should be here"),
        ("  z = 0.0_f64\n    z += 1.0_f64", "this line is indented by 4, and those above by 2"),
        ("  z = 0.0_f64 z += 1.0_f64", "a new line should begin here"),
        ("  for x < n:\n    y[x] = 1.0", "'x' is the name of an input already"),
        ("  for i < n:\n    y[i] = 1.0\n  for i < n:\n    y[i] = 1.0", "'i' is the name of a loop"),
        ("  for i < n:\n    for j < n - i:\n      y[j] = 1.0", "is another for each axis around"),
        ("  for i < m:\n    y[i] = 1.0", "there is no dim 'm'"),
        ("  for i - 2 <= i < n:\n    y[i] = 1.0", "there is no dim 'i'"),
        ("  for n - 2 <= i < n:\n    y[i] = 1.0", "n - 2 may be below 0, where no loop begins"),
        ("  parallel 1 <= i < n:\n    y[i] = 1.0", "parallel loops begin at 0; those that may"),
        ("  at t[0] as 1 <= i < 4:\n    y[i] = 1.0", "an axis should be here"),
        ("  w[0] = 1.0", "there is no array 'w' here"),
        ("  x[0] = 1.0", "x is an input, which nothing writes"),
        ("  y[0, 0] = 1.0", "y is f32[n], so that it is written at 1 places, and not at 2"),
        ("  z = 1.0", "z is f64[], but the term is f32"),
        ("  y[0] = sum i < n: x[i]", "terms of nests have no folds"),
        ("  y[0] =: 1.0", "a term should be here"),
        ("  y[0] -= 1.0", "'=', '+=' or 'max=' and a term should be here"),
        ("  local a: f32[] in register", "a local is in memory, scratch, shared or registers"),
        ("  local x: f32[] in scratch", "'x' is the name of an input already"),
        ("  if 0 < n:\n    local a: f32[] in scratch\n  y[0] = a", "with its block"),
        ("  y[0] = cosine(x[0])", "there is no elementwise op 'cosine'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(body: str, message: str) -> None:
    assert message in said(START + body)


def test_what_is_wrong_is_shown_where_it_stands() -> None:
    assert (
        said(START + "  unroll i < 4:\n    y[i] = x[i] + x[t]\n")
        == """\
line 3, column 21: there is no dim 't'
      y[i] = x[i] + x[t]
                      ^
hint: declare it first"""
    )
    assert "a line such as: nest name(x: f32[2])" in said("kernel k(x: f32[2]) -> (y: f32[2])")
    assert "parse_nest: needs a text, and not a int" in said(3)  # pyright: ignore[reportArgumentType]  # on purpose
