"""The step that puts rows of a local array further apart: its nest, its banks, its refusals."""

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
