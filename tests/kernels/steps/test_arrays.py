"""Rows of a local array further apart; values that are shared; lanes of lanes."""

import numpy as np
import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.schedule import parse_schedule

TILE = """\
nest tile(x: f16[16, 32]) -> (y: f16[16, 32])
  block b < 1:
    local t: f16[16, 4, 8] in shared
    thread i < 16:
      for j < 4:
        for k < 8:
          t[i, j, k] = x[i, k + 8*j]
    thread i_2 < 16:
      for j_2 < 32:
        y[i_2, j_2] = t[i_2, j_2//8, j_2%8]"""


def test_rows_are_one_axis_with_room_behind_it() -> None:
    made = parse_schedule("widen t behind 1 by 8").apply(parse_nest(TILE))
    assert parse_nest(str(made)) == made
    lines = [line.strip() for line in str(made).splitlines()]
    assert "local t: f16[16, 40] in shared" in lines
    assert "t[i, 8*j + k] = x[i, 8*j + k]" in lines
    assert "y[i_2, j_2] = t[i_2, j_2]" in lines
    x = np.arange(512, dtype=np.float16).reshape(16, 32)
    np.testing.assert_array_equal(evaluate_nest(made, {"x": x}, {})["y"], x)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("widen t behind 3 by 8", "it has 3 axes, so that there are none behind 3"),
        ("widen x behind 1 by 8", "x is an input or output, and the step is for locals\nhint: "),
    ],
)
def test_why_it_refuses(step: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(step).apply(parse_nest(TILE))
    assert str(caught.value).startswith(f"{step}: {message}")


SCALED = """\
nest scaled(x: u8[8, 32], d: f16[8, 2]) -> (y: f32[8, 32])
  for i < 8:
    for j < 32:
      y[i, j] = f32(x[i, j]) * f32(d[i, 0]) + f32(d[i, 1])"""


def test_values_are_shared_one_by_one() -> None:
    steps = "share d in j as scale\nshare d in j as least"
    made = parse_schedule(steps).apply(parse_nest(SCALED))
    assert parse_nest(str(made)) == made
    lines = [line.strip() for line in str(made).splitlines()]
    assert {"scale = f32(d[i, 0])", "least = f32(d[i, 1])"} <= {*lines}
    assert "y[i, j] = f32(x[i, j]) * scale + least" in lines
    draw = np.random.default_rng(0)
    given = {"x": draw.integers(0, 256, (8, 32), np.uint8), "d": draw.normal(size=(8, 2))}
    given["d"] = given["d"].astype(np.float16)
    wanted = evaluate_nest(parse_nest(SCALED), given, {})["y"]
    np.testing.assert_array_equal(evaluate_nest(made, given, {})["y"], wanted)
    with pytest.raises(ScheduleError):
        parse_schedule(f"{steps}\nshare d in j as more").apply(parse_nest(SCALED))


DOT = """\
nest dot(x: f32[4, 64]) -> (y: f32[4])
  for i < 4:
    local t: f32[] in registers
    t = {start}
    for k < 64:
      t {how} x[i, k]
    y[i] = t"""


@pytest.mark.parametrize(("how", "start"), [("+=", "0.0"), ("max=", "-inf")])
def test_lanes_of_lanes_are_a_table(how: str, start: str) -> None:
    nest = parse_nest(DOT.format(how=how, start=start))
    made = parse_schedule("""split k by 16, 8 as block, side, each
lanes t over k.each within k.block as p
lanes p over k.side within k.block as q""").apply(nest)
    assert parse_nest(str(made)) == made
    assert str(made.locals["q"].type) == "f32[2, 8]"
    x = np.random.default_rng(0).integers(-9, 9, (4, 64)).astype(np.float32)
    wanted = x.sum(1) if how == "+=" else x.max(1)
    np.testing.assert_array_equal(evaluate_nest(made, {"x": x}, {})["y"], wanted)
