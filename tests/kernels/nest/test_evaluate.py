"""The meaning of nests: what was never written is no value, but a copy may take it along."""

import numpy as np
import pytest

from luminal_lab.errors import RangeError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.text import parse_nest

NEST = """nest f(x: f32[2]) -> (y: f32[2])
  local t: f32[4] in registers
  for i < 2:
    t[i] = x[i]
  local u: f32[4] in scratch
  for j < 4:
    u[j] = t[j]
  for k < 2:
    y[k] = u[k]"""


def test_a_copy_takes_along_what_nobody_reads() -> None:
    x = np.array([1, 2], np.float32)
    assert evaluate_nest(parse_nest(NEST), {"x": x})["y"].tolist() == [1, 2]


def test_what_was_never_written_is_no_value_after_a_copy_either() -> None:
    x = np.array([1, 2], np.float32)
    with pytest.raises(RangeError, match=r"nest f: u\[2\] is read and never written"):
        evaluate_nest(parse_nest(NEST.replace("= u[k]", "= u[k + 1] * 1.0")), {"x": x})
    with pytest.raises(RangeError, match=r"nest f: u\[2\] is read and never written"):
        evaluate_nest(parse_nest(NEST.replace("= u[k]", "= u[k + 1]")), {"x": x})  # a result
    with pytest.raises(RangeError, match=r"nest f: t\[2\] is read and never written"):
        evaluate_nest(parse_nest(NEST.replace("= t[j]", "= t[j] * 2.0")), {"x": x})
