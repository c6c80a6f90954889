"""The phases of a nest: what comes before a parallel loop, what waits, what phases share."""

from dataclasses import replace

import pytest

from luminal_lab.kernels.nest.nest import Block, Local
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.c.phases import parts_of

HEADER = "nest k(a: f32[4], b: f32[4], h: f16[4]) -> (y: f32[4], z: f32[])"


def phases(text: str) -> str:
    """Return what phases share, and for each its number of tasks and what they do."""
    nest, parts = parts_of(parse_nest(f"{HEADER}\n{text}"))
    shared = tuple(one for one in nest.body if isinstance(one, Local) and one.space == "memory")

    def lines(body: Block) -> list[str]:
        return [line[2:] for line in str(replace(nest, body=body)).splitlines()[1:]]

    found = lines(shared)
    for part in parts:
        found += [f"tasks: {part.tasks}", *lines((*shared, *part.block))[len(shared) :]]
    return "\n".join(found)


# Before, and after.
WAITS = """\
  local t: f32[] in registers
  t = 0.0
  parallel i < 4:
    y[i] = b[i] * a[0]
  t += y[3]
  z = t""", """\
tasks: 4
parallel i < 4:
  y[i] = b[i] * a[0]
tasks: 1
local t: f32[] in registers
t = 0.0
t += y[3]
z = t"""  # fmt: skip
COMES_BEFORE = """\
  local t: f32[4] in memory
  local u: f32[] in registers
  u = 1.0
  for j < 4:
    t[j] = a[j]
  z = u
  parallel i < 4:
    y[i] = t[i]""", """\
local t: f32[4] in memory
tasks: 1
for j < 4:
  t[j] = a[j]
tasks: 4
parallel i < 4:
  y[i] = t[i]
tasks: 1
local u: f32[] in registers
u = 1.0
z = u"""  # fmt: skip
SHARED = """\
  local s: f16[] in registers
  s = h[0]
  parallel i < 4:
    y[i] = b[i] * f32(s)
  s += h[1]
  z = f32(s) + y[0]""", """\
local s_2: f32[] in memory
tasks: 1
local s: f16[] in registers
s = h[0]
s_2 = s
tasks: 4
parallel i < 4:
  local s: f16[] in registers
  s = s_2
  y[i] = b[i] * f32(s)
tasks: 1
local s: f16[] in registers
s = s_2
s += h[1]
z = f32(s) + y[0]
s_2 = s"""  # fmt: skip
AN_ARRAY = """\
  local t: f32[4] in scratch
  for j < 4:
    t[j] = a[j]
  parallel i < 4:
    y[i] = t[i]
  z = t[3]""", """\
local t: f32[4] in memory
tasks: 1
for j < 4:
  t[j] = a[j]
tasks: 4
parallel i < 4:
  y[i] = t[i]
tasks: 1
z = t[3]"""  # fmt: skip
BOTH_WAYS = """\
  z = y[0]
  parallel i < 4:
    y[i] = b[i]""", """\
tasks: 1
z = y[0]
tasks: 4
parallel i < 4:
  y[i] = b[i]"""  # fmt: skip


@pytest.mark.parametrize(
    ("text", "after"),
    [
        pytest.param(*WAITS, id="waits"),
        pytest.param(*COMES_BEFORE, id="comes-before"),
        pytest.param(*SHARED, id="shared"),
        pytest.param(*AN_ARRAY, id="an-array"),
        pytest.param(*BOTH_WAYS, id="both-ways"),
    ],
)
def test_the_phases_of_a_nest(text: str, after: str) -> None:
    assert phases(text) == after


def test_what_phases_share_is_given_to_each() -> None:
    found = render_nest(parse_nest(f"{HEADER}\n{SHARED[0]}"), "k")
    assert [(one.name, one.bytes) for one in found.locals] == [("s_2", 4)]
    lines = [line.strip() for line in found.text.splitlines()]
    assert lines.count("float s = s_2[0];") == 2
    assert lines.count("s_2[0] = s;") == 2
    assert lines.count("float *restrict s_2 = lab_buffers[3];") == 2
    assert lines.count("const float *restrict s_2 = lab_buffers[3];") == 1
