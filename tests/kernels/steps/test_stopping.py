"""The steps stop and skip: where a loop may end and begin, what they refuse, and what comes out."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from luminal_lab.core.dims import Dim, Shape, evaluate as number_of, substitute
from luminal_lab.core.ops import Mul
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Loop
from luminal_lab.kernels.nest.sizes import slope
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps import unchanged
from luminal_lab.kernels.steps.ahead import Ahead
from luminal_lab.kernels.steps.kinds import Clamp, Unroll
from luminal_lab.kernels.steps.loops import Cut, Split
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.kernels.steps.step import parse_step
from luminal_lab.kernels.steps.stopping import Skip, Stop, shorten

BLOCKS = """\
nest f(x: f32[n, t], v: f32[t]) -> (m: f32[n], l: f32[n], acc: f32[n])
  for i < n:
    m[i] = -1000.0
    l[i] = 0.0
    acc[i] = 0.0
    for o < (t + 7)//8:
      local s: f32[8] in scratch
      local top: f32[] in registers
      local c: f32[] in registers
      for j < min(8, t - 8*o):
        s[j] = where(i64[i] < i64[8*o + j], -inf, x[i, 8*o + j])
      top = m[i]
      for k < min(8, t - 8*o):
        top max= s[k]
      c = exp2(m[i] - top)
      m[i] = top
      l[i] = l[i] * c
      acc[i] = acc[i] * c
      for p < min(8, t - 8*o):
        s[p] = exp2((s[p] - top) * 1.5)
        l[i] += s[p]
        acc[i] += s[p] * v[8*o + p]"""
SCORE = "where(i64[i] < i64[8*o + j], -inf, x[i, 8*o + j])"


def ends(text: str, *steps: str) -> Shape:
    """Return where the loop over blocks begins and ends after some steps."""
    nest = parse_nest(text)
    for line in steps:
        step = parse_step(line)
        assert str(step) == line
        nest = step.applied_to(nest)
    assert parse_nest(str(nest)) == nest
    return nest.loops["o"].ends


INF = float("inf")
WINDOW = "where((i64[i] < i64[8*o + j]) + (i64[8*o + j] + 9 < i64[i]), -inf, x[i, 8*o + j])"
NO_COMPARISON = "no comparison of indices holds in all later iterations"
WAYS = {
    "what is hidden": ("where(i64[i] < i64[J], -inf, X)", lambda i, j: j <= i),
    "what is seen": ("where(i64[J] < i64[i] + 1, X, -inf)", lambda i, j: j <= i),
    "the other end": ("where(i64[J] + 9 < i64[i], -inf, X)", lambda i, j: i - 10 < j),
    "another dtype": ("where(i32[J + 9] < i32[i], -inf, X)", lambda i, j: i - 10 < j),
    "either": (
        "where((i64[i] < i64[J]) + (i64[J] + 9 < i64[i]), -inf, X)",
        lambda i, j: i - 10 < j <= i,
    ),
    "both": (
        "where((i64[J] < i64[i + 1]) * (i64[i] < i64[J + 10]), X, -inf)",
        lambda i, j: i - 10 < j <= i,
    ),
    "one in the other": (
        "where(i64[i] < i64[J], -inf, where(i64[i] < i64[J] + 10, X, -inf))",
        lambda i, j: i - 10 < j <= i,
    ),
    "not": (
        "where((i64[i] - i64[J] < 10) < true, -inf, X)",
        lambda i, j: i - 10 < j,
    ),
    "a difference": (
        "where(9 < i64[i] + i64[J] * -1, -inf, X)",
        lambda i, j: i - 10 < j,
    ),
    "a distance": (
        "where(let d = i64[i] - i64[J]; d * where(d < 0, -1, i64(0 < d)) < 10, X, -inf)",
        lambda i, j: abs(i - j) < 10,
    ),
    "a free window": (
        "where(i64[J + n] < i64[i + 1], -inf, X)",
        lambda i, j: i - N < j,
    ),
    "a prefix that all see": (
        "where((i64[i] < i64[J]) * (13 < i64[J]), -inf, X)",
        lambda i, j: j <= i or j <= 13,
    ),
    "a bias": ("where(i64[i] < i64[J], -inf, X * 2.0 + v[J])", lambda i, j: j <= i),
    "data as well": (
        "where((i64[i] < i64[J]) + (v[J] < 0.0), -inf, X)",
        lambda i, j: j <= i,
    ),
    "an added mask": ("X + where(i64[i] < i64[J], -inf, 0.0)", lambda i, j: j <= i),
}
N, T = 60, 50


@pytest.mark.parametrize("way", WAYS)
def test_windows_are_said_in_many_ways(way: str) -> None:
    score, sees = WAYS[way]
    text = BLOCKS.replace(SCORE, score.replace("X", "x[i, J]").replace("J", "8*o + j"))
    seen = [[j // 8 for j in range(T) if sees(i, j)] for i in range(N)]
    steps = []
    if any(row and max(row) < T // 8 for row in seen):
        steps.append("stop o")
    if any(row and min(row) > 0 for row in seen):
        steps.append("skip o")
    start, end = ends(text, *steps)
    for i, row in enumerate(seen):
        if row:
            at = {"i": i, "n": N, "t": T}
            assert (number_of(start, at), number_of(end, at)) == (min(row), max(row) + 1)


# -- what comes out --------------------------------------------------------------------------------

FOLDS = {
    "sum": ("0.0", "y[i] += {}", 0.0),
    "maximum": ("-5.0", "y[i] max= {}", -INF),
    "product": ("1.0", "y[i] = y[i] * {}", 1.0),
    "sum of squares": ("0.0", "y[i] += let a = {}; a * a", 0.0),
    "sum of powers": ("0.0", "y[i] += exp2({} - 1.0)", -INF),
}
"""How a fold begins, what it does with each value, and the value that changes nothing."""
MASKS = {
    "what is hidden": "where((i32[i + c] < i32[J]) + (i32[J + w] < i32[i + 1]), FILL, X)",
    "what is seen": "where((i32[J] < i32[i + c + 1]) * (i32[i] < i32[J + w]), X, FILL)",
    "one in the other": "where(i32[i + c] < i32[J], FILL, where(i32[i] < i32[J + w], X, FILL))",
}
Problem: TypeAlias = "tuple[str, dict[str, int], bool]"
"""The text of a nest, its dims, and whether what is hidden changes nothing."""


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw folds over windows: any sizes of rows, of blocks and of windows, and any fill."""
    fold, mask = draw(st.sampled_from([*FOLDS])), draw(st.sampled_from([*MASKS]))
    start, update, neutral = FOLDS[fold]
    fill = draw(st.sampled_from([neutral, neutral, 0.0, 1.0, -INF, -5.0]))
    by, rows = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    dims = {name: draw(st.integers(1, 24)) for name in ("n", "t", "w")}
    dims |= {"c": draw(st.integers(0, 4)), "by": by, "rows": rows}
    value = MASKS[mask].replace("FILL", str(fill)).replace("X", "x[i, J]").replace("J", "BY*o + j")
    inner = update.format(value).replace("[i", "[ROWS*b + r")
    for name, number in (("w", dims["w"]), ("c", dims["c"])):
        inner = re.sub(rf"\b{name}\b", str(number), inner)
    text = f"""\
nest rows(x: f32[n, t]) -> (y: f32[n])
  for i < n:
    y[i] = {start}
  for b < (n + ROWS - 1)//ROWS:
    for o < (t + BY - 1)//BY:
      for r < min(ROWS, n - ROWS*b):
        for j < min(BY, t - BY*o):
          {inner}"""
    return text.replace("ROWS", str(rows)).replace("BY", str(by)), dims, fill == neutral


def check(problem: Problem) -> None:
    """Check that the steps leave out all blocks that they can, and that all values stay."""
    text, dims, is_neutral = problem
    written = nest = parse_nest(text)
    for step in (Stop("o"), Skip("o")):
        with suppress(ScheduleError):
            nest = step.applied_to(nest)
    x = np.random.default_rng(0).standard_normal((dims["n"], dims["t"])).astype(np.float32)
    inputs, sizes = {"x": x}, {name: dims[name] for name in "nt"}
    expected: Any = evaluate_nest(written, inputs, sizes)["y"]
    actual: Any = evaluate_nest(nest, inputs, sizes)["y"]
    assert actual.tobytes() == expected.tobytes()
    if is_neutral:
        check_tight(nest.loops["o"], dims)


def check_tight(loop: Loop, dims: Mapping[str, int]) -> None:
    """Check that the first and the last block that a loop still has are seen by some row."""
    rows, by = dims["rows"], dims["by"]
    for block in range(-(-dims["n"] // rows)):
        # As many rows as in a whole block: a short one need not end later or begin earlier.
        seen = [
            j // by
            for i in range(block * rows, (block + 1) * rows)
            for j in range(dims["t"])
            if i - dims["w"] < j <= i + dims["c"]
        ]
        start, end = (number_of(dim, {**dims, "b": block}) for dim in loop.ends)
        assert not seen or (start, end) == (min(seen), max(seen) + 1)


@given(problems())
def test_windows_of_any_size_give_the_same_values(problem: Problem) -> None:
    check(problem)


def at_least(iteration: unchanged.Iteration, dim: Dim) -> Dim:
    """Take the first position of each inner loop, whichever way a dim grows along it."""
    return substitute(dim, dict.fromkeys(iteration.inner, 0))


start, end = Skip.start, Stop.end
FAULTS: dict[str, tuple[object, str, object]] = {
    "it begins one too late": (Skip, "start", lambda *of: start(*of) + 1),
    "it begins one too early": (Skip, "start", lambda *of: start(*of) - 1),
    "its start is rounded up": (
        Skip,
        "start",
        lambda skip, fact, loop: start(skip, fact - slope(fact, loop.axis) - 1, loop),
    ),
    "it ends one too early": (Stop, "end", lambda *of: end(*of) - 1),
    "it ends one too late": (Stop, "end", lambda *of: end(*of) + 1),
    "not all positions are asked": (unchanged.Iteration, "everywhere", at_least),
    "another least value": (unchanged, "least", lambda dtype: 1.0),
    "another identity": (unchanged, "RULES", ((Mul, 0, 1),)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    search = settings(max_examples=300, database=None, phases=[Phase.generate])
    with pytest.raises(AssertionError):
        search(given(problems())(check))()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("i64[i] < i64[8*o + j]", "x[i, 0] < x[i, 1]", NO_COMPARISON),
        ("i64[i] < i64[8*o + j]", "i64[8*o + j] < i64[i]", "m changes even where "),
        ("i64[i] < i64[8*o + j]", "i64[8*j] < i64[i*j*o]", NO_COMPARISON),
        ("i64[i] < i64[8*o + j]", "i8[i] < i8[8*o + j]", NO_COMPARISON),
        ("i64[i] < i64[8*o + j]", "i64[i] < i64[o]*6000000000000000000", NO_COMPARISON),
        ("-inf, x[i, 8*o + j])", "-5.0, x[i, 8*o + j])", "m changes even where i < 8*o"),
        ("l[i] += s[p]", "l[i] += s[p] + 1.0", "l changes even where i < 8*o"),
        ("acc[i] = acc[i] * c", "acc[i] = acc[i] * 0.5", "acc changes even where i < 8*o"),
        ("m[i] = top\n", "m[i] = top * 2.0\n", "m changes even where i < 8*o"),
        ("exp2((s[p] - top) * 1.5)", "(s[p] - top) * 1.5", "l changes even where i < 8*o"),
        # A value of an earlier iteration, or of some elements alone.
        ("l[i] += s[p]", "l[i] += top\n        top = 1.0", "l changes even where i < 8*o"),
        ("p < min(8, t - 8*o)", "p < 4", "l changes even where i < 8*o"),
        ("top = m[i]\n", "top = m[0]\n", "m changes even where i < 8*o"),
        (
            "      top = m[i]\n",
            "      if 2 < i:\n        top = m[i]\n",
            "m changes even where i < 8*o",
        ),
    ],
)
def test_what_is_refused(old: str, new: str, why: str) -> None:
    assert old in BLOCKS
    with pytest.raises(ScheduleError) as caught:
        Stop("o").apply(parse_nest(BLOCKS.replace(old, new)))
    assert caught.value.message.startswith(f"stop o: {why}")


def test_what_ends_there_already_is_said() -> None:
    for step in ("stop", "skip"):
        with pytest.raises(ScheduleError, match="already"):
            ends(BLOCKS.replace(SCORE, WINDOW), f"{step} o", f"{step} o")


def test_values_at_positions_are_not_told_apart() -> None:
    text = """\
nest f(x: f32[n, t], p: i64[n], q: i64[n]) -> (y: f32[n])
  for i < n:
    y[i] = 0.0
    for o < t:
      local s: f32[8] in scratch
      at p[i] as a < 8:
        s[a] = x[i, o]
      at q[i] as b < 8:
        s[b] = where(i64[i] < i64[o], 0.0, x[i, o])
      for j < 8:
        y[i] += s[j]"""
    with pytest.raises(ScheduleError, match="y changes even where"):
        ends(text, "stop o")


def test_loops_all_of_whose_iterations_run_stay_whole() -> None:
    for kind in ("unroll", "parallel"):
        with pytest.raises(ScheduleError, match=f"it is a {kind} loop"):
            ends(BLOCKS.replace("for o", f"{kind} o"), "skip o")


def test_other_steps_take_loops_that_begin_at_0() -> None:
    nest = Skip("o").apply(parse_nest(BLOCKS.replace(SCORE, WINDOW)))
    for step in (Split(("o",), (4,)), Unroll(("o",)), Cut("o", 4), Clamp(("o",)), Ahead("o", 1)):
        with pytest.raises(ScheduleError) as caught:
            step.applied_to(nest)
        assert "o begins at " in caught.value.message
        assert caught.value.hint == "skip o after it"


# -- copies ----------------------------------------------------------------------------------------

COPIED = """\
nest f(x: f32[n, t], v: f32[t]) -> (y: f32[n])
  for b < (n + 3)//4:
    local s: f32[4, t] in scratch
    for p_i < min(4, n - 4*b):
      for p_j < t:
        s[p_i, p_j] = where(i64[4*b + p_i] < i64[p_j], 0.0, x[4*b + p_i, p_j])
    for i < min(4, n - 4*b):
      y[4*b + i] = 0.0
      for o < t:
        y[4*b + i] += s[i, o] * v[o]"""


def test_copies_are_looked_through() -> None:
    assert str(ends(COPIED, "stop o")[1]) == "min(4*b + i + 1, t)"


LOCAL = "    local s: f32[4, t] in scratch\n"
NO_COPIES = {
    "set twice": COPIED.replace("    for i <", "    s[0, 0] = 1.0\n    for i <"),
    "set in part": COPIED.replace("s[p_i, p_j] =", "s[p_i, p_i] ="),
    "set at a dim": COPIED.replace("s[p_i, p_j] =", "s[p_i, t - 1] ="),
    "set by the loop": COPIED.replace("* v[o]", "* v[o]\n        s[i, o] = 1.0"),
    "left from before": COPIED.replace(LOCAL, "").replace("  for b", f"{LOCAL[2:]}  for b"),
}


@pytest.mark.parametrize("what", NO_COPIES)
def test_what_may_be_no_copy_is_not_looked_through(what: str) -> None:
    assert NO_COPIES[what] != COPIED
    with pytest.raises(ScheduleError, match="no comparison of indices holds"):
        ends(NO_COPIES[what], "stop o")


def test_copies_of_copies_are_followed_to_an_end() -> None:
    # Written out, the last of them has 3^40 elements of the first.
    chain = [
        f"""  local a{k}: f32[9, 9] in scratch
  for i{k} < 9:
    for j{k} < 9:
      a{k}[i{k}, j{k}] = {before}[i{k}, j{k}] + {before}[i{k}, {k % 9}] * {before}[{k % 9}, j{k}]"""
        for k, before in enumerate(["x", *[f"a{k}" for k in range(39)]])
    ]
    text = "\n".join(
        [
            "nest f(x: f32[9, 9]) -> (y: f32[9])",
            *chain,
            "  for b < 9:",
            "    y[b] = 0.0",
            "    for o < 9:",
            "      y[b] += a39[b, o]",
        ]
    )
    with pytest.raises(ScheduleError, match="no comparison of indices holds"):
        ends(text, "stop o")


def test_levels_inside_of_a_shorter_loop_stay_as_they_are() -> None:
    text = BLOCKS.replace(SCORE, WINDOW).replace("(t + 7)//8", "64").replace("t - 8*o", "8")
    scheduling = shorten(Scheduling(parse_nest(text)))
    assert str(scheduling.schedule) == "stop o\nskip o"
