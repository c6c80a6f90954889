"""The step that copies for later iterations: what it makes of a nest, and what it refuses."""

import numpy as np
import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.schedule import parse_schedule
from tests.kernels.judging import check_same

TURNED = """\
nest turned(x: f32[n, 64]) -> (y: f32[64])
  block b < 1:
    local part: f32[64] in registers
    thread l < 64:
      part[l] = 0.0
    for k < n:
      local s: f32[64] in shared
      thread l_2 < 16:
        vector c < 4:
          s[c + 4*l_2] = x[k, c + 4*l_2]
      thread l_3 < 64:
        part[l_3] += s[-l_3 + 63]
    thread l_4 < 64:
      y[l_4] = part[l_4]"""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_it_makes_computes_the_same(count: int) -> None:
    made = parse_schedule(f"ahead k by {count}").apply(parse_nest(TURNED))
    assert parse_nest(str(made)) == made
    for n in range(1, 6):
        x = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)
        y = evaluate_nest(made, {"x": x}, {"n": n})["y"]
        check_same(y, x[:, ::-1].sum(0), exactly=False)


def test_there_is_a_place_more_than_it_is_ahead() -> None:
    made = parse_schedule("ahead k by 2").apply(parse_nest(TURNED))
    assert str(made).splitlines()[5:-2] == [
        "    local s: f32[3, 64] in shared",
        "    for k_first < 2:",
        "      if k_first < n:",
        "        thread l_2_first < 16:",
        "          vector c_first < 4:",
        "            s[k_first, c_first + 4*l_2_first] = x[k_first, c_first + 4*l_2_first]",
        "    for k < n:",
        "      if k < n - 2:",
        "        thread l_2 < 16:",
        "          vector c < 4:",
        "            s[(k + 2)%3, c + 4*l_2] = x[k + 2, c + 4*l_2]",
        "      thread l_3 < 64:",
        "        part[l_3] += s[k%3, 63 - l_3]",
    ]


def test_what_comes_late_and_what_is_no_copy_stays() -> None:
    text = TURNED.replace(
        "local s: f32[64] in shared", "local s: f32[64] in shared\n      local u: f32[64] in shared"
    )
    text = text.replace(
        "part[l_3] += s[-l_3 + 63]",
        "u[l_3] = s[-l_3 + 63]\n      thread l_5 < 64:\n        part[l_5] += u[l_5]",
    )
    made = str(parse_schedule("ahead k by 1").apply(parse_nest(text)))
    assert "local s: f32[2, 64] in shared" in made
    assert "      local u: f32[64] in shared" in made
    assert "u[l_3] = s[k%2, 63 - l_3]" in made


@pytest.mark.parametrize(
    ("step", "change", "message"),
    [
        ("ahead l by 1", ("", ""), "it is a thread loop, whose iterations do not come in order"),
        (
            "ahead k by 0",
            ("", ""),
            "what is used now is not ahead\nhint: by 1 is the next iteration",
        ),
        (
            "ahead k by 3",
            ("k < n", "k < 3"),
            "k has 3 iterations, and that is all of them",
        ),
        (
            "ahead k by 1",
            ("in shared", "in scratch"),
            "k begins with no copies into shared memory\n"
            "hint: copy an array before a loop inside of it, and place it in shared",
        ),
        (
            "ahead k by 1",
            ("part[l_3] += s[-l_3 + 63]", "s[l_3] = s[l_3] + 1.0"),
            "k writes s after it has copied into it, too",
        ),
        (
            "ahead k by 1",
            ("= x[k, c + 4*l_2]", "= y[c + 4*l_2]"),
            None,
        ),
        (
            "ahead k by 1",
            ("= x[k, c + 4*l_2]", "+= x[k, c + 4*l_2]"),
            "k begins with sums, and not with copies",
        ),
    ],
)
def test_why_it_refuses(step: str, change: tuple[str, str], message: str | None) -> None:
    text = TURNED.replace(*change) if change[0] else TURNED
    if message is None:  # what it copies changes while it runs
        text = text.replace("part[l_3] += s[-l_3 + 63]", "y[l_3] = s[-l_3 + 63]")
        message = "k copies of y, which it writes itself"
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(step).apply(parse_nest(text))
    assert str(caught.value) == f"{step}: {message}"
