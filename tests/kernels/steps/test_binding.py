"""The steps that give loops to the parts of a GPU: what they make of a nest, what they refuse."""

import numpy as np
import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.schedule import parse_schedule

ROWS = """\
nest rows(x: f32[n, 8]) -> (y: f32[n])
  for i < n:
    local t: f32[] in registers
    t = 0.0
    for j < 8:
      t += x[i, j]
    y[i] = t"""
DOUBLE = """\
nest double(x: f32[n]) -> (y: f32[n])
  for i < n:
    y[i] = x[i] * 2.0"""


TILE = """\
nest tile(x: f16[4, 8, 64]) -> (y: f16[8, 64])
  block b < 1:
    for k < 4:
      local s: f16[8, 64] in shared
      for r < 8:
        for c < 64:
          s[r, c] = x[k, r, c]
      for r_2 < 8:
        for c_2 < 64:
          y[r_2, c_2] = s[r_2, c_2]"""


def after(text: str, *steps: str) -> Nest:
    made = parse_schedule("\n".join(steps)).apply(parse_nest(text))
    assert parse_nest(str(made)) == made
    return made


def test_bind_gives_loops_to_blocks_and_threads() -> None:
    made = after(
        DOUBLE,
        "split i by 64",
        "guard i.own in i.own",
        "bind i.block to block",
        "bind i.own to thread",
    )
    assert (
        str(made)
        == """\
nest double(x: f32[n]) -> (y: f32[n])
  block i.block < (n + 63)//64:
    thread i.own < 64:
      if 64*i.block + i.own < n:
        y[64*i.block + i.own] = x[64*i.block + i.own] * 2.0"""
    )


def test_bind_makes_one_copy_of_loops_that_copy_a_tile() -> None:
    made = after(TILE, "place s in tiles", "bind r to bulk", "bind c to bulk", "ahead k by 1")
    assert str(made).splitlines()[2:9] == [
        "    local s: f16[2, 8, 64] in tiles",
        "    for k_first < 1:",
        "      bulk r_first < 8:",
        "        bulk c_first < 64:",
        "          s[k_first, r_first, c_first] = x[k_first, r_first, c_first]",
        "    for k < 4:",
        "      if k < 3:",
    ]
    x = np.random.default_rng(0).standard_normal((4, 8, 64)).astype(np.float16)
    assert np.array_equal(evaluate_nest(made, {"x": x}, {})["y"], x[3])


def test_guard_asks_where_it_is_told() -> None:
    text = """\
nest pairs(x: f32[n, 4]) -> (y: f32[n, 4])
  for i < n:
    for j < 4:
      y[i, j] = x[i, j]"""
    made = after(text, "split i by 8", "guard i.own in j")
    assert str(made).splitlines()[2:] == [
        "    for i.own < 8:",
        "      for j < 4:",
        "        if 8*i.block + i.own < n:",
        "          y[8*i.block + i.own, j] = x[8*i.block + i.own, j]",
    ]


def test_mask_reads_0_beyond_the_end_and_writes_nothing() -> None:
    made = after(ROWS, "split i by 4", "mask i.own", "split j by 3", "mask j.own")
    assert (
        str(made)
        == """\
nest rows(x: f32[n, 8]) -> (y: f32[n])
  for i.block < (n + 3)//4:
    for i.own < 4:
      local t: f32[] in registers
      t = 0.0
      for j.block < 3:
        for j.own < 3:
          t += [3*j.block + j.own < 8 and 4*i.block + i.own < n: \
x[4*i.block + i.own, 3*j.block + j.own]]
      if 4*i.block + i.own < n:
        y[4*i.block + i.own] = t"""
    )
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    assert np.array_equal(evaluate_nest(made, {"x": x}, {"n": 3})["y"], x.sum(1))


@pytest.mark.parametrize(
    ("text", "steps", "message"),
    [
        (DOUBLE, ["bind i to warp"], "bind i to warp: a loop is bound to one of block, thread, "),
        (DOUBLE, ["bind k to block"], "bind k to block: there is no loop k"),
        (ROWS, ["bind j to block"], "bind j to block: it is inside i, and blocks are outermost"),
        (
            DOUBLE,
            ["bind i to thread"],
            "bind i to thread: its size, n, is not known before it runs\n"
            "hint: split i by a number of threads, and guard what is inside",
        ),
        (
            DOUBLE.replace("n", "4096").replace("4096est", "nest"),
            ["bind i to thread"],
            "bind i to thread: its size is 4096, and a block has at most 1024 threads\n"
            "hint: split i by fewer",
        ),
        (
            ROWS,
            ["bind j to thread"],
            "bind j to thread: one iteration writes t where another writes it",
        ),
        (
            DOUBLE.replace("[n]", "[8]").replace("< n", "< 8"),
            ["bind i to across"],
            "bind i to across: i does more than adding up what each thread has\n"
            "hint: partial makes a loop that does only that",
        ),
        (
            DOUBLE.replace("[n]", "[8]").replace("< n", "< 8"),
            ["bind i to tensor"],
            "bind i to tensor: it is inside no loop over threads, which would say how many warps "
            "there are\nhint: bind a loop around i to thread",
        ),
        (
            TILE,
            ["bind r to bulk"],
            "bind r to bulk: it copies into s, which is not in tiles\n"
            "hint: only locals that are placed in tiles are copied at one go",
        ),
        (
            TILE.replace("x[k, r, c]", "x[k, r, c] * x[k, r, c]"),
            ["place s in tiles", "bind r to bulk"],
            "bind r to bulk: it does more than copying elements of one array, as they are",
        ),
        (
            TILE.replace("block b", "thread b"),
            ["place s in tiles", "bind r to bulk"],
            "bind r to bulk: it is inside b, a thread loop, and one thread begins a copy",
        ),
        (DOUBLE, ["bind i to bulk"], "bind i to bulk: its size, n, is not known before it runs"),
        (DOUBLE, ["guard i in i"], "guard i in i: its size is always n"),
        (DOUBLE, ["mask i"], "mask i: its size is always n"),
        (
            DOUBLE,
            ["split i by 8", "split i.own by 4 as tile, lane", "mask i.tile"],
            "mask i.tile: the size of i.lane, ",
        ),
    ],
)
def test_a_refused_step_says_why(text: str, steps: list[str], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        after(text, *steps)
    assert str(caught.value).startswith(message)
