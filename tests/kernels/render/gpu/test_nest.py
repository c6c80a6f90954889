"""Who runs what on a GPU: phases, regions, what is spread over threads, and where threads wait."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.dialect import CUDA
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.gpu.nest import Along, NestLaunch, phases
from luminal_lab.kernels.render.gpu.render import render_gpu
from tests.expect import error_of


def phase(body: str, result: str = "y: f32[64, 64]") -> NestLaunch:
    """Return the only phase of a nest."""
    (one,) = phases(parse_nest(nest(body, result)))
    one.check()
    return one


def nest(body: str, result: str = "y: f32[64, 64]") -> str:
    lines = "".join(f"  {line}\n" for line in body.strip("\n").splitlines())
    return f"nest t(x: f32[64, 64]) -> ({result})\n{lines}"


def source(body: str, result: str = "y: f32[64, 64]") -> str:
    return render_gpu(parse_nest(nest(body, result)), "t", (), CUDA).text


ROW = """
block i < 64:
  local part: f32[32] in registers
  thread l < 32:
    part[l] = x[i, l]
  local t: f32[] in registers
  t = 0.0
  across l_2 < 32:
    t += part[l_2]
  thread l_3 < 64:
    y[i, l_3] = t"""


def test_regions_threads_and_what_is_spread() -> None:
    one = phase(ROW)
    assert (str(one.tasks), one.threads) == ("64", 64)
    assert [region.size for region in one.regions.values()] == [32, 32, 64]
    assert one.spread["part"] == {0: Along(32, 1)}
    assert one.spread["t"] == {}


def test_any_axes_of_an_array_may_be_threads() -> None:
    one = phase("""
block i < 4:
  local acc: f32[4, 2, 8] in registers
  thread a < 4:
    thread b < 8:
      for r < 2:
        acc[a, r, b] = x[i, r]
  for r_2 < 2:
    thread b_2 < 8:
      thread a_2 < 4:
        y[4*a_2 + b_2, r_2 + i] = acc[a_2, r_2, b_2]""")
    assert one.spread["acc"] == {0: Along(4, 8), 2: Along(8, 1)}
    assert "const int b_2 = threadIdx.x % 8;" in source("""
block i < 4:
  local acc: f32[4, 8] in registers
  thread a < 4:
    thread b < 8:
      acc[a, b] = x[i, b]
  thread b_2 < 8:
    thread a_2 < 4:
      y[8*a_2 + b_2, i] = acc[a_2, b_2]""")


def test_an_axis_has_its_place_within_another_though_it_does_not_fill_it() -> None:
    body = """
block i < 2:
  local part: f32[4, 32] in registers
  thread a < 4:
    thread l < 32:
      part[a, l] = x[i, l]
  local t: f32[4] in registers
  thread a_2 < 4:
    t[a_2] = 0.0
  thread a_3 < 4:
    across l_2 < 32:
      t[a_3] += part[a_3, l_2]
  thread a_4 < 4:
    thread c < 17:
      y[a_4, c] = t[a_4]
  local kept: f32[4, 17] in registers
  thread a_5 < 4:
    thread c_2 < 17:
      kept[a_5, c_2] = t[a_5]"""
    one = phase(body)
    assert one.threads == 128
    assert one.spread["t"] == {0: Along(4, 32)}
    assert one.spread["kept"] == {0: Along(4, 32), 1: Along(17, 1, 32)}
    text = source(body)
    assert "if (threadIdx.x % 32 < 17) {" in text
    assert "const int c = threadIdx.x % 32;" in text
    # What is kept each thread has, also those that are beyond.
    assert "const int c_2 = threadIdx.x % 32 % 17;" in source(
        body.replace("= t[a_5]", "= x[0, c_2]+t[a_5]")
    )


def test_outside_of_blocks_is_a_launch_of_one_block() -> None:
    text = nest("""
local s: f32[64] in memory
block i < 64:
  s[i] = x[i, 0]
local t: f32[] in registers
t = 0.0
for i_2 < 64:
  t += s[i_2]
y[0, 0] = t""")
    assert [(str(one.tasks), one.threads) for one in phases(parse_nest(text))] == [
        ("64", 1),
        ("1", 1),
    ]


SHARED = """
block i < 64:
  local tile: f32[64] in shared
  thread l < 64:
    tile[l] = x[i, l]
  thread l_2 < 64:
    y[i, l_2] = tile[{place}]"""


@pytest.mark.parametrize(("place", "waits"), [("l_2", 0), ("63 - l_2", 1), ("0", 1)])
def test_threads_wait_for_what_others_wrote(place: str, waits: int) -> None:
    assert source(SHARED.format(place=place)).count("lab_sync();") == waits


def test_threads_wait_before_the_next_turn_writes_again() -> None:
    text = source("""
block i < 64:
  local tile: f32[64] in shared
  local part: f32[64] in registers
  thread l_4 < 64:
    part[l_4] = 0.0
  for k < 2:
    thread l < 64:
      tile[l] = x[i, l]
    thread l_2 < 64:
      part[l_2] += tile[63 - l_2]
  thread l_3 < 64:
    y[i, l_3] = part[l_3]""")
    assert text.count("lab_sync();") == 2
    assert text.index("for (int k") < text.index("lab_sync();") < text.index("tile[l] =")


def test_one_thread_of_several_alike_writes_what_others_see() -> None:
    text = source(
        """
block i < 64:
  local part: f32[32] in registers
  thread l < 32:
    part[l] = x[i, l]
  thread l_2 < 32:
    thread k < 2:
      y[i, 2*l_2 + k] = part[l_2]
  y[0, i] = 1.0""".replace("y[0, i] = 1.0", "y[i, 0] = 1.0")
    )
    assert "if (threadIdx.x == 0) {" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "for i < 4:\n  block j < 4:\n    y[i, j] = x[i, j]",
            "nest t: j is a loop over blocks inside of others\n"
            "hint: blocks are the outermost loops",
        ),
        (
            "block i < 4:\n  thread j < 4:\n    for k < 2:\n      thread l < 2:\n"
            "        y[i + k, j + l] = x[i, j]",
            "nest t: l is a loop over threads inside of what each thread does\n"
            "hint: threads' loops are right around each other",
        ),
        (
            "block i < 4:\n  local s: f32[4] in scratch\n  s[0] = x[i, 0]\n  y[i, 0] = s[0]",
            "nest t: s is in scratch, which GPUs lack\nhint: place s in shared",
        ),
        (
            "local s: f32[] in registers\nblock i < 4:\n  y[i, 0] = x[i, 0]\ns = y[0, 0]\n"
            "block j < 4:\n  y[j, 1] = s",
            "nest t: s is in registers, where one launch does not find what another left\n"
            "hint: place s in memory",
        ),
        (
            "block i < 4:\n  thread j < 4:\n    local s: f32[4] in shared\n    s[j] = x[i, j]\n"
            "    y[i, j] = s[j]",
            "nest t: s is in shared, and each thread has it alone\nhint: place s in registers",
        ),
        (
            "block i < 4:\n  local p: f32[8] in registers\n  thread j < 4:\n    p[2*j] = x[i, j]",
            "nest t: p is in the registers of each thread, and j is not one of its axes\n"
            "hint: place p in shared",
        ),
        (
            "block i < 4:\n  local p: f32[4] in registers\n  thread j < 4:\n    thread k < 2:\n"
            "      p[j] = x[i, k]",
            "nest t: p is in the registers of each thread, and one of k alone would set it\n"
            "hint: place p in shared",
        ),
        (
            "block i < 4:\n  local p: f32[4] in registers\n  thread j < 4:\n    p[j] = x[i, j]\n"
            "  y[i, 0] = p[0]",
            "nest t: p is in the registers of each thread, and used outside of their loops\n"
            "hint: place p in shared",
        ),
        (
            "block i < 4:\n  local t_1: f32[] in registers\n  for k < 4:\n    t_1 = x[i, k]\n"
            "    y[i, k] = t_1",
            "nest t: what is outside of threads sets t_1 in registers and y, which is not, in one "
            "loop\nhint: fission takes it apart",
        ),
        (
            "block i < 4:\n  local p: f32[4] in registers\n  local q: f32[4, 2] in registers\n"
            "  thread j < 4:\n    p[j] = x[i, j]\n  thread j_2 < 4:\n    thread k < 2:\n"
            "      q[j_2, k] = x[i, j_2]\n  thread k_2 < 2:\n    thread j_3 < 4:\n"
            "      q[j_3, k_2] = p[j_3]\n  thread j_4 < 2:\n    p[j_4] = 0.0",
            "nest t: p is in the registers of other threads than those of j_4\n"
            "hint: place p in shared",
        ),
    ],
)
def test_what_no_thread_could_do_is_refused(body: str, message: str) -> None:
    def check() -> None:
        for one in phases(parse_nest(nest(body))):
            one.check()

    assert str(error_of(check, ScheduleError)) == message


@pytest.mark.parametrize("words", [("new", "threadIdx"), ("thread", "uint"), ("half", "kernel")])
@pytest.mark.parametrize("dialect", ["cuda", "metal"])
def test_dims_may_have_the_names_of_words_of_the_language(dialect, words):
    cx = ll.Graph()
    x = cx.tensor(words, name="x").set(np.arange(6).reshape(2, 3))
    index = cx.tensor(words, "int64", name="index").set([[1, 0, 1], [1, 1, 0]])
    added, total = x.scatter_add(0, index, x).retrieve(), (x * 2).sum(0).retrieve()
    cuda, metal = ll.CUDACompiler(arch="sm_80", emulate=True), ll.MetalCompiler(emulate=True)
    cx.compile(ll.GenericCompiler(), cuda if dialect == "cuda" else metal)
    cx.execute()
    assert added.numpy().tolist() == [[0, 2, 7], [6, 8, 7]]
    assert total.numpy().tolist() == [6, 10, 14]


def test_blocks_are_counted_before_they_run() -> None:
    body = """
block i < 4:
  block j < min(16, 60 - 16*i):
    thread l < 64:
      y[16*i + j, l] = x[16*i + j, l]"""
    error = error_of(lambda: phase(body), ScheduleError)
    assert "j runs min(16, 60 - 16*i) times, not as often in each block" in error.message


def test_a_tile_of_a_tensor_loop_has_no_element_of_its_own() -> None:
    cx = ll.Graph()
    x, y = (cx.tensor((64, 64), "float16", name=name) for name in "xy")
    (x @ y).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_80"))
    kernel = cx.kernels[0]
    text = str(kernel.schedule).replace("bind i.own, j.own to tensor\n", "")
    error = error_of(lambda: kernel.rescheduled(text), ScheduleError)
    assert "as tiles of a tensor loop, and a loop that is none uses it" in error.message
