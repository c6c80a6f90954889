"""Products of four warps: what is chosen, how it reads, what it computes, and what goes wrong."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.emulator import Call, Matrix, Trace, emulate
from luminal_lab.errors import DeviceError, ScheduleError
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.dialect import HOPPER
from luminal_lab.kernels.gpu import GPU, gpu_of, webgpu
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans.gpu_contraction import group_plan
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.kernels.render.gpu.render import render_gpu
from luminal_lab.kernels.steps.schedule import Scheduling, parse_schedule
from luminal_lab.kernels.tile_map import TileMap
from tests.conftest import Golden
from tests.expect import error_of
from tests.kernels.judging import check_same

H200 = gpu_of("sm_90a")
FEW = replace(H200, cores=1)
"""A card so small that one block is enough for it."""


def product(m: int, n: int, k: int, rest: str = "") -> str:
    """Return a product as a definition."""
    more = f", z: f16[{n}]" if rest else ""
    return (
        f"kernel product(a: f16[{m}, {k}], b: f16[{k}, {n}]{more}) -> (c: f16[{m}, {n}])\n"
        f"  c[i < {m}, j < {n}] = (sum k < {k}: a[i, k] * b[k, j]){rest}"
    )


BATCHED = """\
kernel product(a: bf16[2, 64, 128], b: bf16[2, 128, 64]) -> (c: f32[2, 64, 64])
  c[h < 2, i < 64, j < 64] = sum k < 128: f32(a[h, i, k]) * f32(b[h, k, j])"""
CASES = {
    "columns side by side": product(128, 128, 128, " + z[j]"),
    "k side by side": "kernel product(a: bf16[64, 192], b: bf16[128, 192]) -> (c: f32[64, 128])\n"
    "  c[i < 64, j < 128] = sum k < 192: f32(a[i, k]) * f32(b[j, k])",
    "a batch": BATCHED,
    "itself": "kernel product(a: f16[64, 128]) -> (c: f16[64, 64])\n"
    "  c[i < 64, j < 64] = sum k < 128: a[i, k] * a[j, k]",
    "heads": "kernel product(a: f16[2, 3, 64, 64], b: f16[64, 192]) -> (c: f32[2, 64, 64])\n"
    "  c[h < 2, i < 64, j < 64] = sum k < 192: f32(a[h, k//64, i, k%64]) * f32(b[j, k])",
    "a part": "kernel product(a: f16[3, 64, 128], b: f16[128, 192]) -> (c: f16[64, 64])\n"
    "  c[i < 64, j < 64] = sum k < 128: a[2, i, k] * b[k, j + 64]",
}


def made(text: str, gpu: GPU = FEW) -> Kernel:
    return make_gpu_kernel(parse_definition(text), "product", gpu)


def run(kernel: Kernel, source: str, *, trace: bool = False) -> tuple[Trace | None, bool]:
    """Run a source of a kernel; return what a trace saw, and whether its result is right."""
    definition = kernel.definition
    assert definition is not None
    random = np.random.default_rng(0)
    given = {
        one.name: random.standard_normal([*map(int, map(str, one.type.shape))]).astype(
            one.type.dtype.numpy
        )
        for one in definition.inputs
    }
    want = evaluate(definition, given, {})["c"]
    got = np.full_like(want, np.nan)
    (phase,) = kernel.phases
    arrays = [*given.values(), got]
    maps = [Matrix(arrays[tile.number], tile) for tile in phase.maps]
    assert isinstance(phase.tasks, int)
    call = Call(phase.function, phase.tasks, phase.threads, [*arrays, *maps], shared=phase.shared)
    above = source.partition("// kernel product")[0].count("\n")
    seen = emulate(source, "cuda", [call], trace=trace, above=above)
    try:
        check_same(got, want, exactly=False)
    except AssertionError:
        return seen, False
    return seen, True


# -- what is right ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_definition_says(name: str) -> None:
    kernel = made(CASES[name])
    assert {"lab_bulk_tile", "lab_wgmma_wait"} <= kernel.uses
    assert run(kernel, gpu_source([kernel]))[1]


def test_a_trace_finds_nothing_and_no_bank_conflict() -> None:
    kernel = made(product(64, 64, 256))
    trace, is_right = run(kernel, gpu_source([kernel]), trace=True)
    assert trace is not None
    assert not trace.findings
    assert is_right
    assert not trace.conflicts


def test_how_the_nest_and_the_source_read(golden: Golden) -> None:
    kernel = made(CASES["columns side by side"])
    assert kernel.nest is not None
    assert kernel.schedule is not None
    golden(f"{kernel.nest}\n", "golden/gpu/group_matmul.nest")
    golden(f"{kernel.source}\n", "golden/gpu/group_matmul.cu")
    assert parse_nest(str(kernel.nest)) == kernel.nest
    again = kernel.rescheduled(str(parse_schedule(str(kernel.schedule))))
    assert again.source == kernel.source
    assert len(kernel.ops_of_line) == len(kernel.source.splitlines())
    assert {op for ops in kernel.ops_of_line for op in ops} >= {"mul", "sum_reduce", "add"}


def test_what_a_launch_is_asked_for() -> None:
    (phase,) = made(CASES["columns side by side"]).phases
    # Two places of 128 by 64 and 64 by 128, of two bytes each, and a barrier for each place.
    assert (phase.threads, phase.shared) == (256, 2 * 2 * 2 * 128 * 64 + 16)
    assert phase.maps == (
        TileMap("a", 0, DType.float16, 128, 128, 128),
        TileMap("b", 1, DType.float16, 128, 128, 64),
    )
    assert len(made(CASES["itself"]).phases[0].maps) == 1


# -- what is chosen --------------------------------------------------------------------------------


def plan(text: str, gpu: GPU = FEW) -> Callable[[], bool]:
    return lambda: group_plan(Scheduling(lower(parse_definition(text))), gpu)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (product(100, 128, 128), "100 rows are not whole tiles of 64"),
        (product(128, 96, 128), "96 columns are not whole tiles of 64"),
        (product(128, 128, 96), "96 steps of the sum are not two or more times 64"),
        (product(128, 128, 64), "64 steps of the sum are not two or more times 64"),
        (
            product(128, 128, 128).replace("a: f16[128, 128]", "a: f16[n, 128]").replace(
                "c[i < 128", "c[i < n"
            ).replace("c: f16[128, 128]", "c: f16[n, 128]"),
            "its sizes, n, 128 and 128, are not all known",
        ),
    ],
)  # fmt: skip
def test_what_is_no_whole_tiles_is_for_single_warps(text: str, why: str) -> None:
    assert error_of(plan(text), ScheduleError).message == f"nest product: {why}"
    kernel = made(text)
    assert "lab_mma_f16" in kernel.uses
    assert kernel.source.splitlines()[2] == f"// not by four warps together: {why}"
    assert len(kernel.ops_of_line) == len(kernel.source.splitlines())
    assert "four warps" not in made(text, gpu_of("sm_90")).source


def test_operands_that_lie_otherwise_are_for_single_warps() -> None:
    text = (
        "kernel product(a: f16[128, 64], b: f16[128, 64]) -> (c: f16[64, 64])\n"
        "  c[i < 64, j < 64] = sum k < 128: a[k, i] * b[k, j]"
    )
    assert error_of(plan(text), ScheduleError).message == (
        "nest product: its operands do not lie as tiles are copied"
    )
    assert "lab_mma_f16" in made(text).uses


def test_what_is_too_small_for_the_card_is_for_single_warps() -> None:
    text = product(128, 128, 128)
    assert error_of(plan(text, H200), ScheduleError).message == (
        "nest product: it has 4 tiles of 64 by 64, which 132 cores would wait for"
    )
    assert "lab_mma_f16" in made(text, H200).uses
    large = product(1024, 1024, 1024)
    assert made(large, H200).phases[0].tasks == 256
    assert made(product(8192, 8192, 8192), H200).phases[0].tasks == 64 * 64


def test_only_sm_90a_has_them() -> None:
    text = product(1024, 1024, 128)
    assert not plan(text, gpu_of("sm_90"))()
    assert not any("wgmma" in one for one in made(text, gpu_of("sm_90")).uses)
    assert any("wgmma" in one for one in made(text, H200).uses)
    assert not any("wgmma" in one for one in made(text.replace("f16", "f32"), H200).uses)


def test_other_cards_refuse_the_schedule() -> None:
    kernel = made(product(64, 64, 128))
    other = made(product(64, 64, 128), gpu_of("sm_80"))
    assert error_of(lambda: other.rescheduled(str(kernel.schedule)), ScheduleError).message == (
        "nest product: tensor i_start_own is not two loops of (16, 8), or three around a sum"
    )


def test_a_gpu_without_tensor_units_says_so() -> None:
    kernel = made(product(64, 64, 128), gpu_of("sm_80"))
    other = made(product(64, 64, 128), webgpu())
    error = error_of(lambda: other.rescheduled(str(kernel.schedule)), ScheduleError)
    assert error.message == (
        "nest product: tensor i_start_own is for tensor units, and kernels for this GPU have none"
    )
    assert error.hint == "leave that step out, or plan for this GPU: without schedules="


def test_threads_do_not_touch_tiles() -> None:
    nest = parse_nest("""\
nest turned(x: f16[4, 8, 64]) -> (y: f16[8, 64])
  block b < 1:
    for k < 4:
      local s: f16[8, 64] in tiles
      bulk r < 8:
        bulk c < 64:
          s[r, c] = x[k, r, c]
      thread l < 64:
        y[0, l] = s[0, 63 - l]""")
    made = parse_schedule("ahead k by 1").apply(nest)
    vector = str(made).replace("thread l < 64", "vector l < 4").replace("63 - l", "l")
    for one in (made, parse_nest(vector)):
        error = error_of(lambda one=one: render_gpu(one, "turned", (), HOPPER), ScheduleError)
        assert error.message == (
            "nest turned: s is in tiles, which bulk copies write and four warps multiply, and here "
            "a thread uses it"
        )
    assert error_of(lambda: render_gpu(nest, "turned", (), HOPPER), ScheduleError).message == (
        "nest turned: s is in tiles, and no loop copies into it ahead by bulk copies"
    )


def test_tiles_that_do_not_fit_are_refused() -> None:
    kernel = made(product(128, 128, 1024))
    text = str(kernel.schedule).replace("ahead k.step by 2", "ahead k.step by 8")
    assert error_of(lambda: kernel.rescheduled(text), ScheduleError).message == (
        "kernel product: a block has 294,984 bytes of shared memory, 294,984 of them for tiles, "
        "and on sm_90a it may have 232,448"
    )


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lab_barrier_wait(&lab_arrived[k_step % 3], k_step / 3);", ""),
        ("k_step / 3);", "k_step / 3 + 1);"),
        ("&rows[4096*((k_step + 2) % 3)]", "&rows[4096*((k_step + 1) % 3)]"),
    ],
    ids=["no wait", "another phase", "another place"],
)
def test_a_race_with_a_copy_is_found(old: str, new: str) -> None:
    kernel = made(product(64, 64, 256))
    source = gpu_source([kernel])
    assert old in source
    trace, _ = run(kernel, source.replace(old, new, 1), trace=True)
    assert trace is not None
    first = trace.findings[0]
    assert first.kind == "race"
    assert {word for word in ("wgmma", "bulk") if word in first.text + first.other_text}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lab_wgmma_wait(0);", ""),
        ("lab_wgmma_commit();", ""),
        ("  1024, 1),", "  512, 1),"),
        ("8192, 1024, 1)", "8192, 2048, 1)"),
        ("&lab_map_a, 64*k_step + 128,", "&lab_map_a, 64*k_step + 64,"),
    ],
    ids=["no wait", "no group", "rows' stride", "columns' stride", "another tile"],
)
def test_a_wrong_product_is_wrong(old: str, new: str) -> None:
    kernel = made(product(64, 64, 256))
    source = gpu_source([kernel])
    assert old in source.partition("kernel_product(")[2], source
    head, name, body = source.partition("kernel_product(")
    assert not run(kernel, head + name + body.replace(old, new, 1))[1]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("lab_wgmma_begin();", "", "four warps multiply before lab_wgmma_begin()"),
        (
            "1024, 1), 1);",
            "1024, 0), 1);",
            "four warps multiply what is not a tile for all of them",
        ),
        (
            "&rows[4096*k_first_step]",
            "&rows[4096*k_first_step + 64]",
            "there is no such bulk copy",
        ),
        (
            "lab_barrier_init(",
            "if (!a) lab_barrier_init(",
            "it uses a barrier that counts bytes in a way",
        ),
        (
            "lab_arrived[k_first_step], 8192",
            "lab_arrived[k_first_step], 4096",
            "a bulk copy brings more bytes than its barrier expects",
        ),
        ("lab_arrived[lab_i], 2", "lab_arrived[lab_i], 3", "what a barrier counts never arrives"),
        (
            "[(k_step + 2) % 3], 8192",
            "[(k_step + 1) % 3], 8192",
            "what a barrier counts never arrives",
        ),
        ("        lab_sync();", "", "what a barrier counts never arrives"),
    ],
)
def test_what_cannot_be_is_an_error(old: str, new: str, text: str) -> None:
    kernel = made(product(64, 64, 256))
    head, name, body = gpu_source([kernel]).partition("kernel_product(")
    assert old in body
    source = head + name + body.replace(old, new, 1)
    assert text in error_of(lambda: run(kernel, source), DeviceError).message
