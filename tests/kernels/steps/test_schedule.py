"""Schedules: the text of each step, what it makes of a nest, and why it refuses."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from luminal_lab.core.dims import evaluate
from luminal_lab.core.ir import IR
from luminal_lab.errors import LabError, ParseError, ScheduleError
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.evaluate import evaluate as value_of
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.kinds import Unroll
from luminal_lab.kernels.steps.loops import Split
from luminal_lab.kernels.steps.schedule import Schedule, Scheduling, parse_schedule
from luminal_lab.kernels.steps.step import parse_step, steps, with_body
from luminal_lab.machines.machine import Machine
from tests.conftest import Golden
from tests.core.graphs import DIMS, data_for
from tests.kernels.judging import check_same, definable, interpreted, sums

MATMUL = """\
kernel matmul(a: f32[n, 5], b: f32[5, 10]) -> (c: f32[n, 10])
  c[i < n, j < 10] = (sum k < 5: fused(a[i, k] * b[k, j])) * 2.0"""
SOFTMAX = """\
kernel softmax(x: f32[n, m]) -> (y: f32[n, m])
  s[i < n] = max j < m: x[i, j]
  y[i < n, j < m] = exp2(x[i, j] - s[i]) * recip(sum k < m: exp2(x[i, k] - s[i]))"""
CONVOLUTION = """\
kernel conv(x: f32[2, 5, 6], w: f32[3, 2, 3, 3]) -> (y: f32[3, 5, 6])
  y[o < 3, i < 5, j < 6] = sum c < 2: sum p < 3: sum q < 3: fused(w[o, c, p, q] * \
[0 < i + p and i + p < 6 and 0 < j + q and j + q < 7: x[c, i + p - 1, j + q - 1]])"""
SMALL = Machine(vector_bytes=16, cores=2)


def nest(text: str) -> Nest:
    return lower(parse_definition(text))


def values(text: str, made: Nest, **dims: int) -> None:
    """Check that a nest computes what a definition says."""
    definition = parse_definition(text)
    random = np.random.default_rng(0)
    given = {
        name: random.standard_normal([evaluate(d, dims) for d in type.shape]).astype(np.float32)
        for name, type in definition.inputs
    }
    want = value_of(definition, given, dims)
    for name, got in evaluate_nest(made, given, dims).items():
        ours, theirs = (array.astype(np.float64) for array in (got, want[name]))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def after(text: str, *steps: str) -> Nest:
    scheduling = Scheduling(nest(text))
    for step in steps:
        scheduling.do(step)
    assert parse_schedule(str(scheduling.schedule)).apply(nest(text)) == scheduling.nest
    return scheduling.nest


def refused(text: str, *steps: str) -> str:
    *before, last = steps
    made = after(text, *before)
    with pytest.raises(ScheduleError) as caught:
        parse_step(last).apply(made)
    return str(caught.value)


@pytest.mark.parametrize("text", [MATMUL, SOFTMAX, CONVOLUTION], ids=["matmul", "softmax", "conv"])
def test_the_default_schedule_and_its_nest(text: str, golden: Golden) -> None:
    scheduling = cpu_schedule(nest(text), SMALL)
    name = text.split("(", 1)[0].removeprefix("kernel ")
    shown = f"{text}\n# ---\n{scheduling.schedule}\n# ---\n{scheduling.nest}\n"
    golden(shown, f"golden/nests/{name}.nest")
    for n, m in ((1, 1), (7, 5), (12, 8)):
        values(text, scheduling.nest, n=n, m=m)


def test_each_step_leaves_a_nest_that_computes_the_same() -> None:
    scheduling = cpu_schedule(nest(MATMUL), SMALL)
    nests = scheduling.schedule.nests(nest(MATMUL))
    assert len(nests) == len(scheduling.schedule) + 1
    for one in nests:
        values(MATMUL, one, n=7)


@given(definable(), st.sampled_from([SMALL, Machine(32, 2), Machine(64, 8)]))
def test_the_default_schedule_of_a_random_graph(ir: IR, machine: Machine) -> None:
    data = data_for(ir)
    definition = define(ir)
    names = [buffer.name for buffer in definition.inputs]
    given = {name: data[node.name] for name, node in zip(names, ir.inputs, strict=True)}
    scheduling = cpu_schedule(lower(definition), machine)
    assert parse_schedule(str(scheduling.schedule)) == scheduling.schedule
    found = evaluate_nest(scheduling.nest, given, DIMS)
    for output, theirs in zip(definition.outputs, interpreted(ir, data), strict=True):
        check_same(found[output.name], theirs, exactly=not sums(ir))


@given(st.data())
def test_steps_in_any_order_compute_the_same_or_are_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([MATMUL, SOFTMAX, CONVOLUTION]))
    made = nest(text)
    for _ in range(data.draw(st.integers(1, 6))):
        loops, arrays = [*made.loops], [*made.locals, *(name for name, _ in made.inputs)]
        loop, other = (data.draw(st.sampled_from(loops)) for _ in range(2))
        array = data.draw(st.sampled_from(arrays))
        step = data.draw(
            st.sampled_from(
                [
                    f"split {loop} by {data.draw(st.integers(1, 5))}",
                    f"cut {loop} by {data.draw(st.integers(1, 5))}",
                    f"clamp {loop}",
                    f"merge {loop}, {other}",
                    f"reorder {loop}, {other}",
                    f"fission {loop}",
                    f"fuse {loop} into {other}",
                    f"round {loop}",
                    f"parallel {loop}",
                    f"simd {loop}",
                    f"shrink {array}",
                    f"pack {array} before {loop} over {loop}, {other} as p{len(arrays)}",
                    f"copy {array} before {loop} over {other} as p{len(arrays)}",
                    f"partial {array} over {loop} as p{len(arrays)}",
                    f"lanes {array} over {loop} within {other} as p{len(arrays)}",
                ]
            )
        )
        try:
            made = parse_step(step).apply(made)
        except LabError:
            continue
        values(text, made, n=3, m=4)


def test_a_text_reads_back_and_every_step_has_a_form() -> None:
    text = "split i by 6\nreorder i.own, j\npack a before i over i, k as p"
    assert str(parse_schedule(text)) == text
    assert parse_schedule("") == Schedule()
    for word, step in steps().items():
        assert step.form.startswith(word)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "steps", "message"),
    [
        (MATMUL, ["split l by 6"], "split l by 6: there is no loop l\nhint: its loops are i, j, k"),
        (MATMUL, ["split i by 0"], "split i by 0: a block has at least one iteration"),
        (MATMUL, ["merge i, k"], "merge i, k: in i there is j"),
        (
            MATMUL,
            ["reorder k, j"],
            "reorder k, j: the body of j is not one loop but local t, an assignment to t, loop k, "
            "an assignment to c\nhint: fission j takes it apart",
        ),
        (MATMUL, ["parallel j"], "parallel j: it is inside i, and tasks are outermost"),
        (MATMUL, ["unroll i"], "unroll i: its size, n, is not known before it runs"),
        (MATMUL, ["vector j"], "vector j: its size is 10, and lanes are a power of two"),
        (MATMUL, ["simd j"], "simd j: it is not innermost: k is in it"),
        (MATMUL, ["fission k"], "fission k: the body of k is one statement"),
        (MATMUL, ["shrink t"], "shrink t: each iteration needs all of it"),
        (
            MATMUL,
            ["pack a before i over k as p"],
            "pack a before i over k as p: what i reads of it depends on more than these axes",
        ),
        (MATMUL, ["pack a before i over i, k as b"], "there is a b already"),
        (MATMUL, ["place c in scratch"], "c is an input or output, and the step is for locals"),
        (MATMUL, ["place t in water"], "a space is one of memory, scratch, shared, tiles, "),
        (SOFTMAX, ["fuse j into i"], "fuse j into i: the size of i is n, and that of j is m"),
        (
            "kernel k(x: f32[8]) -> (z: f32[8])\n  y[i < 8] = x[i]\n  z[i < 8] = y[i] + x[i]",
            ["fuse i_2 into i", "split i by 3", "round i.own"],
            "round i.own: x[3*i.block + i.own] may be beyond its end, 8",
        ),
        (
            "kernel k(x: f32[8]) -> (z: f32[8])\n  y[i < 8] = x[i]\n  z[i < 8] = y[7 - i]",
            ["fuse i_2 into i"],
            "an iteration of i_2 reads y where a later one of i writes it",
        ),
        (
            "kernel k(x: f32[8, 8]) -> (y: f32[])\n  y[] = sum i < 8: sum j < 8: x[i, j]",
            ["reorder j, i"],
            "reorder j, i: t would be summed in another order",
        ),
        (
            "kernel k(x: f32[8]) -> (y: f32[])\n  y[] = sum i < 8: x[i]",
            ["parallel i"],
            "parallel i: one iteration writes t where another",
        ),
        (MATMUL, ["fuse i into i"], "fuse i into i: i is one loop"),
        (
            "kernel k(x: f32[8]) -> (y: f32[])\n  y[] = sum i < 8: x[i]",
            ["place t in memory", "simd i"],
            "simd i: one iteration writes t where another writes it",
        ),
        (
            "kernel k(x: f32[8]) -> (y: f32[])\n  y[] = sum i < 8: x[i]",
            ["simd i", "place t in memory"],
            "place t in memory: the lanes of i add it up, each for itself",
        ),
    ],
)
def test_a_refused_step_says_why(text: str, steps: list[str], message: str) -> None:
    assert message in refused(text, *steps)


def test_text_that_is_no_step() -> None:
    with pytest.raises(LabError, match="there is no step 'splt'") as caught:
        parse_schedule("splt i by 4")
    assert caught.value.hint == "did you mean 'split'?"
    with pytest.raises(ParseError, match="'by' should be here, but the text ends") as caught:
        parse_schedule("split i")
    assert caught.value.hint == "its form is split {loops} by {by}[ as {words}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fetch a in i ahead of j", "line 1, column 20: a number should be here"),
        ("fetch a in i ahead 2, 3 of j", "line 1, column 21: 'of' should be here"),
        ("fetch a in i ahead two of j", "line 1, column 20: a number should be here"),
        ("split i by -4", "line 1, column 12: a number should be here"),
        ("split i by 4\nsplit i.own, by 2", "line 2, column 17: 'by' should be here"),
        ("reorder i j", "line 1, column 11: a step ends with its line"),
        ("# all\n, k", "line 2, column 1: a step should be here"),
        ("stop i where s is -inf", "line 1, column 8: a step ends with its line"),
        ("merge i, j as", "line 1, column 14: a name should be here, but the text ends"),
        ("simd " + "i, " * 1000 + "i", "line 1, column 3006: a list has at most 1,000 items"),
    ],
)
def test_text_that_is_no_schedule_says_where(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_schedule(text)
    assert caught.value.message == message


def test_a_long_list_may_go_on_in_the_next_line() -> None:
    text = "reorder i.block,  # rows\n  j.block, k"
    assert str(parse_schedule(text)) == "reorder i.block, j.block, k"


def test_a_single_step_is_no_schedule() -> None:
    assert str(parse_step("split i by 4  # four")) == "split i by 4"
    with pytest.raises(ParseError, match="line 2, column 1: one step should be here"):
        parse_step("split i by 4\nparallel i.block")


@pytest.mark.parametrize(
    "step",
    [
        "split i by {}",
        "split i by {}, 8",
        "cut i by {}",
        "ahead i by {}",
        "fetch x in i ahead {} of j",
        "widen t behind {} by 8",
        "widen t behind 1 by {}",
    ],
)
def test_a_number_that_no_loop_has_is_called_too_large(step: str):
    line = step.format(10**20)
    with pytest.raises(ParseError) as caught:
        parse_schedule(line)
    assert f": {10**20} is too large\n  {line}\n" in str(caught.value)
    assert caught.value.hint == "the numbers of a step are at most 1,000,000,000,000"
    with pytest.raises(ScheduleError, match=f"^split i by 8, {10**20}: {10**20} is too large\n"):
        Split(("i",), (8, 10**20))


class Twice(Unroll):
    """A wrong step, which repeats what it should unroll."""

    @override
    def apply(self, nest: Nest) -> Nest:
        named = {**nest.loops, **nest.locals}
        return with_body(nest, (*nest.body, *(named[name] for name in self.loops)))


@pytest.mark.parametrize(("name", "things"), [("i", "loops"), ("t", "arrays")])
def test_no_step_gives_two_things_one_name(name: str, things: str) -> None:
    twice = Twice((name,))
    plain = parse_nest("""\
nest f(x: f32[4]) -> (y: f32[4])
  local t: f32[] in registers
  for i < 4:
    y[i] = x[i]""")
    message = f"unroll {name}: it would make two {things} called {name}"
    with pytest.raises(ScheduleError, match=f"^{message}"):
        Schedule((twice,)).apply(plain)
    with pytest.raises(ScheduleError, match=f"^{message}"):
        Scheduling(plain).do(twice)
