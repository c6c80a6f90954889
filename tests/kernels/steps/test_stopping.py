"""The step stop: where a loop over blocks of scores may end, and what it refuses."""

import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.step import parse_step

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
        s[j] = where(i32[i] < i32[8*o + j], -inf, x[i, 8*o + j])
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
LINE = "stop o where s is -inf"


def size(text: str) -> str:
    """Return the size of the loop over blocks after the step."""
    made = parse_step(LINE).apply(parse_nest(text))
    assert str(parse_step(LINE)) == LINE
    return str(made.loops["o"].size)


def test_it_ends_behind_the_last_block_that_is_seen() -> None:
    # Row i sees keys up to i: blocks up to i//8.
    assert size(BLOCKS) == "min((t + 7)//8, i//8 + 1)"


def test_what_is_seen_may_be_said_as_well() -> None:
    seen = "where(i32[8*o + j] < i32[i + 3], x[i, 8*o + j], -inf)"
    text = BLOCKS.replace("where(i32[i] < i32[8*o + j], -inf, x[i, 8*o + j])", seen)
    # Key i + 2 is the last: it is in block (i + 2)//8.
    assert size(text) == "min((i + 2)//8 + 1, (t + 7)//8)"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "i32[i] < i32[8*o + j]",
            "x[i, 0] < x[i, 1]",
            "s is not said to be -inf by a comparison of indices",
        ),
        (
            "-inf, x[i, 8*o + j])",
            "-5.0, x[i, 8*o + j])",
            "s is not said to be -inf by a comparison of indices",
        ),
        ("i32[i] < i32[8*o + j]", "i32[8*o + j] < i32[i]", "what is hidden does not grow with o"),
        ("l[i] += s[p]", "l[i] += s[p] + 1.0", "l changes where all s are -inf"),
        ("acc[i] = acc[i] * c", "acc[i] = acc[i] * 0.5", "acc changes where all s are -inf"),
        ("m[i] = top\n", "m[i] = top * 2.0\n", "m changes where all s are -inf"),
        ("exp2((s[p] - top) * 1.5)", "(s[p] - top) * 1.5", "l changes where all s are -inf"),
    ],
)
def test_what_is_refused(old: str, new: str, why: str) -> None:
    assert old in BLOCKS
    with pytest.raises(ScheduleError) as caught:
        parse_step(LINE).apply(parse_nest(BLOCKS.replace(old, new)))
    assert caught.value.message == f"{LINE}: {why}"


def test_scores_must_be_made_in_the_loop() -> None:
    with pytest.raises(ScheduleError, match="o makes no x anew in each iteration"):
        parse_step("stop o where x is -inf").apply(parse_nest(BLOCKS))
