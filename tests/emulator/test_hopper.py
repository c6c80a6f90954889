"""What only Hopper has, in the emulator: products of four warps, bulk copies, counted barriers."""

import re
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.emulator import Call, Matrix, emulate
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.tile_map import TileMap
from tests.expect import error_of

WORD = re.compile(r"\b(?:lab|LAB)_\w+")


def run(
    body: str, blocks: int, threads: int, *given: Any, trace: bool = False, order: Any = "late"
):
    """Run a kernel's text with what it takes of the prelude."""
    source = prelude("cuda", {*WORD.findall(body), "lab_u8", "lab_f16"}) + body
    return emulate(source, "cuda", [Call("k", blocks, threads, given)], trace=trace, order=order)


SWIZZLED = """
extern "C" __global__ void k(const lab_f16 *x, lab_f16 *y, %s) {
    __shared__ __align__(1024) lab_f16 tile[64 * 16];
    __shared__ lab_u64 arrived;
    if (threadIdx.x == 0) {
        lab_barrier_init(&arrived, 1);
        lab_barrier_seen();
        lab_barrier_expect(&arrived, 2048);
        lab_bulk_tile(tile, &map, %s, &arrived);
    }
    lab_sync();
    lab_barrier_wait(&arrived, 0);
    for (int i = threadIdx.x; i < 1024; i += 32) {
        y[i] = tile[lab_swizzled_128(i / 64, 2 * (i %% 64)) / 2];
    }
}
"""
MAP = "const __grid_constant__ lab_tensor_map map"


@pytest.mark.parametrize(("x", "y"), [(0, 0), (64, 3), (96, 12), (130, 0), (0, 24), (-8, -3)])
def test_a_tile_lies_as_its_map_says_and_is_0_outside(x: int, y: int) -> None:
    data = np.random.default_rng(0).standard_normal((20, 128)).astype(np.float16)
    got = np.full((16, 64), np.nan, np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    found = run(SWIZZLED % (MAP, f"{x}, {y}"), 1, 32, data, got, matrix, trace=True)
    wide = np.zeros((60, 300), np.float16)
    wide[20:40, 100:228] = data
    want = wide[20 + y : 36 + y, 100 + x : 164 + x]
    assert np.array_equal(got, want)
    assert found is not None
    assert not found.findings


def test_a_map_is_given_where_one_is_taken() -> None:
    data, got = np.zeros((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    source = SWIZZLED % ("int map", "0, 0")
    error = error_of(lambda: run(source, 1, 32, data, got, matrix), ArgumentError)
    assert error.message == "emulator: kernel k: map is not a tensor map, but it is given one"
    error = error_of(
        lambda: run(SWIZZLED % (MAP, "0, 0"), 1, 32, data, got, np.zeros(16, np.uint64)),
        DeviceError,
    )
    assert "there is no such bulk copy" in error.message


PRODUCT = """
extern "C" __global__ void k(const {type} *x, const {type} *y, float *z) {{
    __shared__ __align__(1024) {type} a[64 * {piece}], b[64 * {piece}];
    for (int i = threadIdx.x; i < 64 * {depth}; i += 128) {{
        a[lab_swizzled_128(i / {depth}, i % {depth} * {size}) / {size}] = x[i];
    }}
    for (int i = threadIdx.x; i < {count} * {depth}; i += 128) {{
        b[lab_swizzled_128(i / {across}, i % {across} * {size}) / {size}] = y[i];
    }}
    lab_bulk_written();
    lab_sync();
    float c[{sums}];
    for (int e = 0; e < {sums}; e++) c[e] = 1.0f;
    const lab_u64 left = lab_wgmma_matrix(a, 16, 1024, 1), right = lab_wgmma_matrix(b, 16, 1024, 1);
    lab_wgmma_begin();
    lab_wgmma_{word}(c, left, right, {more});
    lab_wgmma_commit();
    lab_wgmma_wait(0);
    for (int e = 0; e < {sums}; e++) z[lab_group_row(e) * {count} + lab_group_column(e)] = c[e];
}}
"""

OF_HALVES: dict[str, Any] = {"word": "f16_n64", "type": "lab_f16", "size": 2, "depth": 16}
HALVES = PRODUCT.format(**OF_HALVES, piece=64, count=64, across=16, sums=32, more=0)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("word", "count"),
    [("f16_n64", 64), ("bf16_n24", 24), ("tf32_n8", 8), ("f16_n64_rows", 64)],
)
def test_a_product_of_four_warps(word: str, count: int, more: int) -> None:
    unit = word.partition("_")[0]
    size, depth = (4, 8) if unit == "tf32" else (2, 16)
    is_rows = "rows" in word
    random = np.random.default_rng(0)
    x, y = random.integers(-3, 4, (64, depth)), random.integers(-3, 4, (depth, count))
    type = "float" if unit == "tf32" else f"lab_{unit}"
    body = PRODUCT.format(
        word=word,
        type=type,
        size=size,
        depth=depth,
        piece=128 // size,
        count=count,
        across=count if is_rows else depth,
        sums=count // 2,
        more=more,
    )
    dtype = {"f16": DType.float16, "bf16": DType.bfloat16, "tf32": DType.float32}[unit].numpy
    given = [one.astype(dtype) for one in (x, y if is_rows else np.ascontiguousarray(y.T))]
    got = np.zeros((64, count), np.float32)
    run(body, 1, 128, *given, got)
    assert np.array_equal(got, x @ y + more)


COUNTED = """
extern "C" __global__ void k(const float *x, float *y) {{
    __shared__ __align__(16) float tile[2][64];
    __shared__ lab_u64 arrived, read;
    if (threadIdx.x == 0) {{
        lab_barrier_init(&arrived, 1);
        lab_barrier_init(&read, 64);
        lab_barrier_seen();
    }}
    lab_sync();
    float sum = 0.0f;
    for (int i = 0; i < 5; i++) {{
        if (threadIdx.x == 0) {{
            {before}
            lab_barrier_expect(&arrived, 256);
            lab_bulk_copy(tile[i % 2], x + 64 * i, 256, &arrived);
        }}
        lab_barrier_wait(&arrived, {phase});
        sum += tile[i % 2][63 - threadIdx.x];
        lab_barrier_arrive(&read);
    }}
    y[threadIdx.x] = sum;
}}
"""
BEFORE = "if (i) lab_barrier_wait(&read, (i + 1) % 2);"


@pytest.mark.parametrize("trace", [False, True])
def test_barriers_count_threads_and_bytes_in_phases(trace: bool) -> None:
    x, y = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32), np.zeros(64, "f4")
    found = run(COUNTED.format(before=BEFORE, phase="i % 2"), 1, 64, x, y, trace=trace)
    assert np.allclose(y, x[:, ::-1].sum(0), atol=1e-5)
    assert found is None or not found.findings


def test_a_phase_that_does_not_come_says_who_waits_where() -> None:
    x, y = np.zeros((5, 64), np.float32), np.zeros(64, np.float32)
    source = COUNTED.format(before=BEFORE, phase="i % 2").replace("256, &", "128, &")
    error = error_of(lambda: run(source, 1, 64, x, y), DeviceError)
    assert error.message == ("emulator: kernel k, block 0: what a barrier counts never arrives")
    assert "64 threads (0 to 63) wait for the bytes that a barrier counts in line" in (
        error.where or ""
    )


def test_who_does_not_know_the_barrier_races() -> None:
    x, y = np.ones((5, 64), np.float32), np.zeros(64, np.float32)
    source = COUNTED.format(before=BEFORE, phase="i % 2").replace("lab_sync();", "")
    trace = run(source, 1, 64, x, y, trace=True)
    assert trace is not None
    assert {one.kind for one in trace.findings} == {"race"}


def test_who_does_not_wait_for_a_copy_races_with_it() -> None:
    data, got = np.ones((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    source = (SWIZZLED % (MAP, "0, 0")).replace("lab_barrier_wait(&arrived, 0);", "")
    trace = run(source, 1, 32, data, got, matrix, trace=True)
    assert trace is not None
    (found,) = trace.findings
    lines = [found.text, found.other_text]
    assert "y[i] = tile[lab_swizzled_128(i / 64, 2 * (i % 64)) / 2];" in lines
    assert "lab_bulk_tile(tile, &map, 0, 0, &arrived);" in lines
    assert "which a copy of thread 0 writes, and it has not waited for that" in str(found)


def test_a_copy_of_what_is_not_there_is_the_kernels_fault() -> None:
    x, y = np.zeros((5, 64), np.float32), np.zeros(64, np.float32)
    source = COUNTED.format(before=BEFORE, phase="i % 2").replace("x + 64 * i", "x + 4096")
    error = error_of(lambda: run(source, 1, 64, x, y), DeviceError)
    assert "it touches memory 15,104 bytes behind the end of x" in error.message
    trace = run(source.replace("4096", "64 * (i + 1)"), 1, 64, x, y, trace=True)
    assert trace is not None
    assert [one.kind for one in trace.findings] == ["out of bounds"]


# -- alignment -------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", [False, True])
def test_a_tile_is_found_whose_declared_alignment_is_too_small(trace: bool) -> None:
    data, got = np.zeros((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    source = (SWIZZLED % (MAP, "0, 0")).replace("__align__(1024)", "__align__(16)")
    error = error_of(lambda: run(source, 1, 32, data, got, matrix, trace=trace), DeviceError)
    assert error.message.endswith("there is no such bulk copy")
    assert "a tile goes to a multiple of 1024 bytes" in (error.hint or "")


def test_four_warps_multiply_tiles_at_multiples_of_1024() -> None:
    body = HALVES
    given = np.zeros((64, 16), np.float16), np.zeros((64, 16), np.float16)
    run(body, 1, 128, *given, np.zeros((64, 64), np.float32))
    body = body.replace("__align__(1024)", "__align__(128)")
    error = error_of(lambda: run(body, 1, 128, *given, np.zeros((64, 64), np.float32)), DeviceError)
    assert error.message.endswith("four warps multiply what is not a tile for all of them")


def test_a_tensor_map_is_a_parameter_at_a_multiple_of_64() -> None:
    data, got = np.zeros((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    source = SWIZZLED % ("const __grid_constant__ words map", "0, 0")
    source = "struct words { lab_u64 all[16]; };" + source.replace("&map", "(lab_tensor_map *)&map")
    error = error_of(lambda: run(source, 1, 32, data, got, matrix), ArgumentError)
    assert error.message == ("emulator: kernel k: map is a tensor map at a multiple of 8 bytes")
    assert error.hint == "a GPU takes them at multiples of 64: alignas(64)"


LOADED = """
extern "C" __global__ void k(const float *x, float *y) {
    __shared__ float own[256];
    __shared__ __align__(16) float tile[256];
    %s
    y[threadIdx.x] = 0.0f;
}
"""


@pytest.mark.parametrize("trace", [False, True])
@pytest.mark.parametrize(
    ("line", "array"),
    [
        ("const lab_f32x4 v = LAB_LOAD(lab_f32x4, x, 4 * threadIdx.x + 2); y[0] = v.at[0];", "x"),
        ("LAB_STORE(lab_f32x4, y, 4 * threadIdx.x + 1, (lab_f32x4){});", "y"),
        (
            "const lab_f32x4 v = LAB_LOAD_SHARED(lab_f32x4, own, 4 * threadIdx.x); y[0] = v.at[0];",
            "own",
        ),
        ("LAB_STORE_SHARED(lab_f32x4, own, 4 * threadIdx.x, (lab_f32x4){});", "own"),
        ("lab_copy_async_16(own + 4 * threadIdx.x, x, 16); lab_copy_commit();", "own"),
        ("lab_copy_async_16(tile, x + 4 * threadIdx.x + 1, 16); lab_copy_commit();", "x"),
    ],
)
def test_a_misaligned_access_of_16_bytes_is_found(line: str, array: str, trace: bool) -> None:
    x, y = np.zeros(512, np.float32), np.zeros(512, np.float32)
    if trace:
        found = run(LOADED % line, 1, 32, x, y, trace=True)
        assert found is not None
        assert ("misaligned", array) in {(one.kind, one.array) for one in found.findings}
        return
    error = error_of(lambda: run(LOADED % line, 1, 32, x, y), DeviceError)
    assert "whose address is not a multiple of 16 bytes" in error.message


# -- two ways to memory ----------------------------------------------------------------------------


def product_findings(source: str) -> list[tuple[str, str]]:
    """What a trace finds in a product of four warps, by kind and array."""
    given = np.ones((64, 16), np.float16), np.ones((64, 16), np.float16)
    trace = run(source, 1, 128, *given, np.zeros((64, 64), np.float32), trace=True)
    assert trace is not None
    return [(one.kind, one.array) for one in trace.findings]


def test_products_do_not_know_what_is_written_without_a_fence() -> None:
    assert product_findings(HALVES) == []
    missing = HALVES.replace("lab_bulk_written();", "")
    assert {*product_findings(missing)} == {("unfenced", "a"), ("unfenced", "b")}


@pytest.mark.parametrize(
    ("fenced", "is_right"),
    [
        ("lab_sync();\n    lab_bulk_written();", True),
        ("lab_sync();\n    if (threadIdx.x == 7) lab_bulk_written();\n    lab_sync();", True),
        ("if (threadIdx.x == 0) lab_bulk_written();\n    lab_sync();", False),
        ("lab_sync();\n    if (threadIdx.x == 7) lab_bulk_written();", False),
    ],
    ids=["readers", "another for all", "not the writers", "not the readers"],
)
def test_a_fence_is_passed_by_those_who_write_or_read(fenced: str, is_right: bool) -> None:
    source = HALVES.replace("lab_bulk_written();\n    lab_sync();", fenced)
    assert source != HALVES
    kinds = {kind for kind, _ in product_findings(source)}
    assert kinds == (set() if is_right else {"unfenced"})


def test_a_write_after_the_fence_is_not_known() -> None:
    late = HALVES.replace(
        "lab_bulk_written();", "lab_bulk_written(); if (threadIdx.x == 3) a[0] = 0;"
    )
    given = np.ones((64, 16), np.float16), np.ones((64, 16), np.float16)
    # Once the other writers of that byte are ordered before it.
    late = late.replace("lab_bulk_written();", "lab_sync(); lab_bulk_written();")
    trace = run(late, 1, 128, *given, np.zeros((64, 64), np.float32), trace=True)
    assert trace is not None
    (found,) = trace.findings
    assert (found.kind, found.array, found.other_thread) == ("unfenced", "a", (3, 0, 0))
    assert str(found).startswith(
        "k: unfenced: a bulk copy or a product of thread 0 of block 0 reads a[0], which thread 3 "
        "wrote with no fence since: lab_bulk_written(), or lab_barrier_seen() for a barrier; a GPU "
        "may still have the old value there\n"
    )
    assert "a[0] = 0;" in found.other_text


def test_a_copy_does_not_know_a_barrier_nor_what_it_writes_over_without_a_fence() -> None:
    data, got = np.ones((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))

    def found(source: str) -> list[tuple[str, str]]:
        trace = run(source, 1, 32, data, got, matrix, trace=True)
        assert trace is not None
        return [(one.kind, one.array) for one in trace.findings]

    right = SWIZZLED % (MAP, "0, 0")
    assert found(right.replace("lab_barrier_seen();", "")) == [("unfenced", "arrived")]
    # Of what the fence for the barrier comes after, it makes the rest known, too.
    before = right.replace("lab_barrier_seen();", "tile[5] = 0; lab_barrier_seen();")
    after = right.replace("lab_barrier_seen();", "lab_barrier_seen(); tile[5] = 0;")
    assert found(before) == []
    assert found(after) == [("unfenced", "tile")]
    assert found(after.replace("tile[5] = 0;", "tile[5] = 0; lab_bulk_written();")) == []


def test_a_copy_does_not_know_what_the_block_has_written_to_memory() -> None:
    x, y = np.zeros((5, 64), np.float32), np.zeros(64, np.float32)
    source = COUNTED.format(before=BEFORE, phase="i % 2").replace("const float *x", "float *x")
    written = source.replace("lab_sync();", "x[threadIdx.x] = 1.0f;\n    lab_sync();")
    trace = run(written, 1, 64, x, y, trace=True)
    assert trace is not None
    assert [(one.kind, one.array) for one in trace.findings] == [("unfenced", "x")]


# -- what nobody announces or waits for ------------------------------------------------------------


def test_a_copy_that_nobody_announced_is_named() -> None:
    x, y = np.zeros((5, 64), np.float32), np.zeros(64, np.float32)
    source = COUNTED.format(before=BEFORE, phase="i % 2")
    source = source.replace("lab_barrier_expect(&arrived, 256);", "lab_barrier_arrive(&arrived);")
    error = error_of(lambda: run(source, 1, 64, x, y, order="early"), DeviceError)
    assert error.message == (
        "emulator: kernel k, block 0, thread 0: a bulk copy brings more bytes than its barrier "
        "expects, whose phase never ends"
    )
    assert "lab_bulk_copy(tile[i % 2], x + 64 * i, 256, &arrived);" in (error.where or "")
    # Whoever waits at once knows nothing of the copy, which the end of the block finds.
    error = error_of(lambda: run(source, 1, 64, x, y), DeviceError)
    assert error.message.endswith("a bulk copy is under way when its block ends") or (
        error.message.endswith("whose phase never ends")
    )


@pytest.mark.parametrize("order", ["late", 0, 1, 2])
def test_a_copy_for_which_nobody_waits_is_named(order: str | int) -> None:
    data, got = np.ones((20, 128), np.float16), np.zeros((16, 64), np.float16)
    matrix = Matrix(data, TileMap("x", 0, DType.float16, 128, 20, 16))
    source = (SWIZZLED % (MAP, "0, 0")).replace("lab_barrier_wait(&arrived, 0);", "")
    source = source.replace("lab_barrier_expect(&arrived, 2048);", "")
    error = error_of(lambda: run(source, 1, 32, data, got, matrix, order=order), DeviceError)
    assert error.message == (
        "emulator: kernel k, block 0, thread 0: a bulk copy is under way when its block ends"
    )


# -- when things are done --------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["late", "early", 0, 1, 2, 3])
@pytest.mark.parametrize("trace", [False, True])
def test_right_kernels_are_right_in_any_order(order: str | int, trace: bool) -> None:
    x, y = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32), np.zeros(64, "f4")
    source = COUNTED.format(before=BEFORE, phase="i % 2")
    found = run(source, 1, 64, x, y, trace=trace, order=order)
    assert np.allclose(y, x[:, ::-1].sum(0), atol=1e-5)
    assert found is None or not found.findings
    a, b = np.random.default_rng(1).integers(-3, 4, (2, 64, 16)).astype(np.float16)
    got = np.zeros((64, 64), np.float32)
    run(HALVES, 1, 128, a, b, got, order=order)
    assert np.array_equal(got, a.astype(np.float32) @ b.T.astype(np.float32))


TOO_EARLY = """
extern "C" __global__ void k(const float *x, float *y) {
    __shared__ __align__(16) float tile[64];
    __shared__ lab_u64 arrived;
    if (threadIdx.x == 0) {
        lab_barrier_init(&arrived, 1);
        lab_barrier_seen();
    }
    lab_sync();
    float sum = 0.0f;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) {
            lab_barrier_expect(&arrived, 256);
            lab_bulk_copy(tile, x + 64 * i, 256, &arrived);
        }
        if (i) {
            sum = tile[63 - threadIdx.x];
            lab_sync();
        }
        lab_barrier_wait(&arrived, i);
    }
    y[threadIdx.x] = sum + tile[63 - threadIdx.x];
}
"""


def test_a_place_that_is_read_while_it_is_copied_into_is_wrong_where_copies_are_early() -> None:
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)

    def is_right(order: str | int) -> bool:
        y = np.zeros(64, np.float32)
        run(TOO_EARLY, 1, 64, x, y, order=order)
        return np.array_equal(y, x[0, ::-1] + x[1, ::-1])

    assert is_right("late"), "only by chance"
    assert not is_right("early")
    assert not all(map(is_right, range(8)))
    trace = run(TOO_EARLY, 1, 64, x, np.zeros(64, np.float32), trace=True)
    assert trace is not None
    assert {one.kind for one in trace.findings} == {"race"}


OWN_COPIES = """
extern "C" __global__ void k(const float *x, float *y) {
    __shared__ __align__(16) float tile[2][128];
    for (int i = 0; i < 2; i++) {
        lab_copy_async_16(&tile[i][4 * threadIdx.x], x + 128 * i + 4 * threadIdx.x, 16);
        lab_copy_commit();
    }
    %s
    for (int i = 0; i < 4; i++) y[4 * threadIdx.x + i] = tile[1][4 * threadIdx.x + i];
}
"""


def test_a_thread_that_waits_for_too_few_of_its_copies_is_wrong_in_some_order() -> None:
    x = np.arange(256, dtype=np.float32)

    def is_right(wait: str, order: str | int) -> bool:
        y = np.zeros(128, np.float32)
        run(OWN_COPIES % wait, 1, 32, x, y, order=order)
        return np.array_equal(y, x[128:])

    orders: list[str | int] = ["late", "early", *range(6)]
    assert all(is_right("lab_copy_wait(0);", order) for order in orders)
    found = [is_right("lab_copy_wait(1);", order) for order in orders]
    assert found[:2] == [False, True], "only by chance is it right"
    assert not all(found[2:])


def test_an_order_is_late_early_or_a_seed() -> None:
    for order in ("latest", -1, True, 0.5):
        error = error_of(lambda given=order: run(HALVES, 1, 128, order=given), ArgumentError)
        assert error.message == f"emulator: order is {order!r}"


# -- registers -------------------------------------------------------------------------------------

REGISTERS = """
extern "C" __global__ void __launch_bounds__(384, 1) k(float *y) {
    if (threadIdx.x < 128) {
        %s
    } else {
        %s
    }
    y[threadIdx.x] = 1.0f;
}
"""


@pytest.mark.parametrize(
    ("producer", "consumers", "is_right"),
    [
        ("lab_registers_fall_40();", "lab_registers_rise_232();", True),
        ("lab_registers_fall_24();", "lab_registers_rise_240();", True),
        ("lab_registers_fall_40();", "lab_registers_rise_240();", False),
        ("", "lab_registers_rise_176();", False),
        ("lab_registers_fall_40();", "", True),
        ("if (threadIdx.x < 32) lab_registers_fall_40();", "", False),
        ("lab_registers_fall_40(); lab_registers_fall_48();", "", False),
        ("lab_registers_fall_40();", "lab_registers_rise_232(); lab_registers_rise_200();", False),
    ],
)
def test_warps_have_no_more_registers_than_their_block(
    producer: str, consumers: str, is_right: bool
) -> None:
    y = np.zeros(384, np.float32)
    source = REGISTERS % (producer, consumers)
    if is_right:
        run(source, 1, 384, y)
        assert y.all()
        return
    error = error_of(lambda: run(source, 1, 384, y), DeviceError)
    assert error.message.endswith("its warps would have more registers than their block")
