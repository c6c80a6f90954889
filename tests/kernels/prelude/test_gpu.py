"""What kernels of GPUs call: only what is needed of it, and its numbers, as the emulator runs them.

One source is one compile: the kernels of a language stand together.
"""

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.random import uniform
from luminal_lab.emulator import Call, emulate
from luminal_lab.errors import DTypeError
from luminal_lab.kernels.dialect import CUDA, METAL
from luminal_lab.kernels.prelude.files import HERE
from luminal_lab.kernels.prelude.prelude import prelude
from tests.conftest import Golden
from tests.expect import error_of

RNG = np.random.default_rng(0)
USED = re.compile(r"\b(?:lab|LAB)_\w+")
WHOLE = [dtype for dtype in DType if dtype.kind == "int"]
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}
DEPTH = {("cuda", "tf32"): 8, ("cuda", "f16"): 16, ("cuda", "bf16"): 16}


@pytest.fixture(autouse=True)
def _special_values() -> Iterator[None]:
    """NumPy's warnings of them are not what is tested."""
    with np.errstate(all="ignore"):
        yield


# -- kernels of tests ------------------------------------------------------------------------------


def loop(name: str, expression: str, result: str, *types: str) -> str:
    """A kernel in which one thread calls a function for each element of its arrays."""
    given = [f"GIVEN const {c} *{v}" for c, v in zip(types, "xw", strict=False)]
    given += [f"GIVEN {result} *y", "COUNT"]
    body = f"for (int i = 0; i < (int)n; i++) y[i] = {expression};"
    return f"START each_{name}({', '.join(given)} END) {{\n    {body}\n}}"


def tiles(unit: str, dialect: str) -> str:
    """A kernel that adds a product to a tile, of which each lane has some elements."""
    lab = "float" if unit == "tf32" else f"lab_{unit}"
    k, rows, own = DEPTH.get((dialect, unit), 8), 16, 4
    if dialect == "metal":
        rows, own = 8, 2
    return f"""START tile_{unit}(GIVEN const {lab} *x, GIVEN const {lab} *w, GIVEN float *y END) {{
    SHARED {lab} a[{rows * k}];
    SHARED {lab} b[{8 * k}];
    for (int i = THREAD; i < {rows * k}; i += 32) a[i] = x[i];
    for (int i = THREAD; i < {8 * k}; i += 32) b[i] = w[i];
    lab_sync();
    float c[{own}];
    for (int e = 0; e < {own}; e++) c[e] = y[lab_tile_row(e) * 8 + lab_tile_column(e)];
    lab_u32 left[4], right[2];
    lab_tile_a_{unit}(left, a, {k});
    lab_tile_b_{unit}(right, b, 8, 1);
    lab_mma_{unit}(c, left, right);
    lab_tile_b_{unit}(right, b, 1, {k});
    lab_mma_{unit}(c, left, right);
    for (int e = 0; e < {own}; e++) y[lab_tile_row(e) * 8 + lab_tile_column(e)] = c[e];
}}"""


EXCHANGES = """\
START exchanges_{short}(GIVEN const {type} *x, GIVEN {type} *y END) {{
    SHARED {type} shared[8];
    const {type} v = x[THREAD];
    y[THREAD] = lab_warp_sum_{short}(v, 8);
    y[256 + THREAD] = lab_warp_max_{short}(v, 2);
    y[512 + THREAD] = lab_block_sum_{short}(v, shared, 256);
    y[768 + THREAD] = lab_block_max_{short}(v, shared, 256);
    y[1024 + THREAD] = lab_shuffle_xor_{short}(v, 5);
}}"""
VECTORS = """\
START vectors(GIVEN const float *x, GIVEN lab_f16 *y END) {
    SHARED float tile[8];
    if (THREAD == 0) {
        LAB_STORE_SHARED(lab_f32x4, tile, 4, LAB_LOAD(lab_f32x4, x, 8));
        const lab_f32x4 v = LAB_LOAD_SHARED(lab_f32x4, tile, 4);
        lab_f16x4 h;
        LAB_UNROLL(4)
        for (int i = 0; i < 4; i++) h.at[i] = lab_cast_f32_f16(2.0f * v.at[i]);
        LAB_STORE(lab_f16x4, y, 4, h);
    }
}"""
WORDS = {
    "cuda": {
        "START": 'extern "C" __global__ void',
        "GIVEN": "",
        "COUNT": "const lab_i64 n",
        "END": "",
        "SHARED": "__shared__ __align__(16)",
        "THREAD": "(int)threadIdx.x",
    },
    "metal": {
        "START": "kernel void",
        "GIVEN": "device",
        "COUNT": "constant lab_i64 &n",
        "END": ", uint lab_thread [[thread_position_in_threadgroup]]",
        "SHARED": "threadgroup __attribute__((aligned(16)))",
        "THREAD": "(int)lab_thread",
    },
}


def source_of(dialect: Any) -> str:
    """All kernels of this file in a language, with what they call."""
    kernels = [loop(f, f"lab_{f}_f32(x[i])", "float", "float") for f in ("sin", "cos", "exp2")]
    kernels.append(loop("mod_f32", "lab_mod_f32(x[i], w[i])", "float", "float", "float"))
    for dtype in WHOLE:
        c = f"lab_{dtype.short}"
        kernels.append(loop(f"mod_{dtype.short}", f"lab_mod_{dtype.short}(x[i], w[i])", c, c, c))
    for half in ("f16", "bf16"):
        cast = f"lab_cast_f32_{half}(x[i])"
        kernels.append(loop(f"to_{half}", cast, f"lab_{half}", "float"))
        kernels.append(loop(f"from_{half}", f"lab_cast_{half}_f32(x[i])", "float", f"lab_{half}"))
        truth = f"lab_cast_{half}_bool(x[i])"
        kernels.append(loop(f"bool_{half}", truth, "lab_bool", f"lab_{half}"))
    kernels.append(loop("random", "lab_random(7u, 9u, i, 3u)", "float"))
    shorts = ["f32", "i32", "i64", *(["f64"] if dialect.has_float64 else [])]
    types = {"f32": "float", "f64": "double"}
    kernels += [EXCHANGES.format(short=s, type=types.get(s, f"lab_{s}")) for s in shorts]
    kernels += [tiles(unit, dialect.name) for unit in NUMPY]
    kernels.append(VECTORS)
    text = "\n\n".join(kernels)
    if dialect is CUDA:  # what sm_75 does where it has no units
        for unit, halves in (("bf16", 1), ("tf32", 0)):
            passed = tiles(unit, "cuda").replace(f"tile_{unit}", f"passed_{unit}")
            passed = re.sub(r"lab_mma_\w+\((.*)\)", rf"lab_mma_passed(\1, {halves})", passed)
            text += "\n\n" + passed
    for word, meaning in WORDS[dialect.name].items():
        text = re.sub(rf"\b{word}\b", meaning, text)
    return f"{prelude(dialect.name, set(USED.findall(text)))}\n\n{text}\n"


@pytest.fixture(scope="module", params=[CUDA, METAL], ids=["cuda", "metal"])
def run(request: pytest.FixtureRequest) -> Any:
    """Call a kernel of this file with arrays and numbers; with its language's name as `.name`."""
    source = source_of(request.param)

    def run(name: str, threads: int, *arguments: Any) -> None:
        emulate(source, request.param.name, [Call(name, 1, threads, list(arguments))])

    run.name = request.param.name
    return run


def each(run: Any, name: str, result: Any, *arrays: np.ndarray) -> np.ndarray:
    """What the kernel of a loop makes of arrays."""
    y = np.zeros(arrays[0].shape, result)
    run(f"each_{name}", 1, *arrays, y, y.size)
    return y


def any_floats(count: int) -> np.ndarray:
    """Floats of every size, subnormals, infinities and NaNs among them."""
    return np.frombuffer(RNG.bytes(4 * count), np.float32)


def special() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of what lies at the ends of ranges."""
    ends = [0, np.inf, np.nan, 1, 3, 1e-45, 1.1754944e-38, 3.4028235e38, 5e-39, 2.5]
    both = np.array([*ends, *(-x for x in ends)], np.float32)
    x, y = np.meshgrid(both, both)
    return np.ascontiguousarray(x.ravel()), np.ascontiguousarray(y.ravel())


def same(result: np.ndarray, expected: np.ndarray) -> None:
    """Fail unless two arrays have the same bits, but for those of NaNs."""
    wrong = result.view("u4") != expected.view("u4")
    wrong &= ~(np.isnan(result) & np.isnan(expected))
    assert not wrong.any(), [*zip(result[wrong][:5], expected[wrong][:5], strict=True)]


# -- what is there ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=["cuda", "metal"])
def test_a_prelude_is_what_is_named_and_what_that_names(dialect: Any, golden: Golden) -> None:
    uses = {"lab_sigmoid_f32", "lab_block_max_f32", "lab_mma_f16", "lab_tile_a_f16", "lab_f16x8"}
    suffix = {"cuda": "cu", "metal": "metal"}[dialect.name]
    golden(prelude(dialect.name, uses) + "\n", f"golden/gpu/prelude.{suffix}")


def test_what_is_not_known_is_left_alone() -> None:
    assert prelude("cuda", {"lab_fault", "lab_step", "x"}) == prelude("cuda", set())


def test_a_prelude_does_not_depend_on_the_order_of_names() -> None:
    names = ["lab_tanh_f32", "lab_warp_sum_f32", "lab_cast_f32_bf16", "lab_mod_i8"]
    assert prelude("metal", names) == prelude("metal", names[::-1])


def test_metal_refuses_float64() -> None:
    error = error_of(lambda: prelude("metal", {"lab_cast_f32_f64", "lab_exp2_f64"}), DTypeError)
    assert str(error) == (
        "metal: there is no float64 on Apple's GPUs, and a kernel calls lab_cast_f32_f64\n"
        "hint: cast to float32 for this device"
    )


def test_no_prelude_for_metal_has_a_hexadecimal_float_or_a_builtin_of_c() -> None:
    text = source_of(METAL)
    assert not re.search(r"0x[\da-f.]+p|__builtin|\bdouble\b|\bfmaf\b", text)


# -- maths -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "exact"), [("sin", np.sin), ("cos", np.cos)])
def test_sines_of_all_finite_floats_are_right_to_two_ulp(run: Any, name: str, exact: Any) -> None:
    near = (np.arange(1, 4_000) * np.pi / 2).astype(np.float32)  # where most digits cancel
    edges = np.array([0, -0.0, 32768, 32767.998, 33554432, 3.4028235e38, 1e-45], np.float32)
    x = np.concatenate([any_floats(60_000), near, -near, edges])
    found, wide = each(run, name, np.float32, x), exact(x.astype(np.float64))
    rounded = wide.astype(np.float32)
    assert np.array_equal(np.isnan(found), np.isnan(rounded))
    known = np.isfinite(x)
    ulp = np.spacing(np.abs(rounded[known])).astype(np.float64)
    assert (np.abs(found[known] - wide[known]) / ulp).max() <= 2
    assert np.array_equal(np.signbit(found[x == 0]), np.signbit(rounded[x == 0]))


def test_remainders_of_floats_are_exact(run: Any) -> None:
    x, w = any_floats(20_000), any_floats(20_000)
    ratio = RNG.uniform(-(2.0**24), 2.0**24, 20_000).astype(np.float32)
    ends, others = special()
    x, w = np.concatenate([x, x, ends]), np.concatenate([w, x / ratio, others])
    same(each(run, "mod_f32", np.float32, x, w), np.mod(x, w))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
def test_remainders_of_integers_are_the_interpreters(run: Any, dtype: DType) -> None:
    low, most = dtype.limits
    ends = [low, low + 1, 0, 1, 2, 3, most - 1, most, *([-1, -2, -3] if low else [])]
    x, w = (np.ravel(a).astype(dtype.numpy) for a in np.meshgrid(ends, ends))
    expected = np.where(w == 0, 0, np.mod(x, np.where((w == 0) | (w == -1), 1, w)))
    found = each(run, f"mod_{dtype.short}", dtype.numpy, x, w)
    assert np.array_equal(found, expected.astype(dtype.numpy))


def test_random_numbers_are_the_interpreters(run: Any) -> None:
    y = np.zeros(1000, np.float32)
    run("each_random", 1, y, y.size)
    assert np.array_equal(y, uniform(7, 9, 3, np.arange(1000)))


@pytest.mark.parametrize(("half", "numpy"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_halves_are_rounded_as_numpy_does(run: Any, half: str, numpy: Any) -> None:
    bits = np.arange(1 << 16).astype(np.uint16)
    wide = bits.view(numpy).astype(np.float32)
    given = bits if half == "bf16" or run.name == "cuda" else bits.view(np.float16)
    same(each(run, f"from_{half}", np.float32, given), wide)
    assert np.array_equal(each(run, f"bool_{half}", np.uint8, given), (wide != 0).astype(np.uint8))
    between = (wide[:-1] + wide[1:]) / 2  # ties
    x = np.concatenate([any_floats(20_000), between])
    kind = np.float16 if half == "f16" and run.name == "metal" else np.uint16
    found = each(run, f"to_{half}", kind, x).view(numpy).astype(np.float32)
    same(found, x.astype(numpy).astype(np.float32))


# -- warps and blocks ------------------------------------------------------------------------------


def test_lanes_and_warps_exchange_values(run: Any) -> None:
    for dtype in (np.float32, np.int32, np.int64, *([np.float64] if run.name == "cuda" else [])):
        short = f"{np.dtype(dtype).kind}{8 * np.dtype(dtype).itemsize}"
        x = RNG.integers(-(2**20), 2**20, 256).astype(dtype)
        x *= 2**35 if short == "i64" else 1
        y = np.zeros((5, 256), dtype)
        run(f"exchanges_{short}", 256, x, y)
        assert np.array_equal(y[0], x.reshape(32, 8).sum(1).repeat(8))
        assert np.array_equal(y[1], x.reshape(128, 2).max(1).repeat(2))
        assert np.array_equal(y[2], np.full(256, x.sum()))
        assert np.array_equal(y[3], np.full(256, x.max()))
        assert np.array_equal(y[4], x[np.arange(256) ^ 5])


def test_the_largest_is_nan_if_one_is(run: Any) -> None:
    x, y = np.zeros(256, np.float32), np.zeros((5, 256), np.float32)
    x[77] = np.nan
    run("exchanges_f32", 256, x, y)
    assert np.isnan(y[3]).all()
    assert np.flatnonzero(np.isnan(y[1])).tolist() == [76, 77]


def test_the_largest_of_a_block_may_be_the_least_there_is(run: Any) -> None:
    x, y = np.full(256, np.iinfo(np.int64).min), np.zeros((5, 256), np.int64)
    run("exchanges_i64", 256, x, y)
    assert np.array_equal(y[3], x)


def test_vectors_are_loaded_and_stored_as_one(run: Any) -> None:
    x = np.arange(16, dtype=np.float32)
    y = np.zeros(8, np.uint16 if run.name == "cuda" else np.float16)
    run("vectors", 32, x, y)
    assert y.view(np.float16).tolist() == [0, 0, 0, 0, 16, 18, 20, 22]


# -- tensor units ----------------------------------------------------------------------------------


def test_tiles_are_multiplied(run: Any) -> None:
    for unit in NUMPY:
        check_tiles(run, unit, f"tile_{unit}")
    # Where sm_75 has no unit, its lanes pass each other what they need.
    for unit in ("bf16", "tf32") if run.name == "cuda" else ():
        check_tiles(run, unit, f"passed_{unit}")


def check_tiles(run: Any, unit: str, kernel: str) -> None:
    k, rows = DEPTH.get((run.name, unit), 8), 8 if run.name == "metal" else 16
    a = RNG.integers(-4, 5, (rows, k)).astype(np.float32)
    b = RNG.integers(-4, 5, (k, 8)).astype(np.float32)
    c = RNG.integers(-4, 5, (rows, 8)).astype(np.float32)
    # The second time the same memory is read as the transposed.
    wanted = c + a @ b + a @ b.reshape(8, k).T
    given = [x.astype(NUMPY[unit]) for x in (a, b)]
    if unit == "bf16" or (unit == "f16" and run.name == "cuda"):
        given = [x.view(np.uint16) for x in given]
    run(kernel, 32, *given, c)
    assert np.array_equal(c, wanted)


# -- the names -------------------------------------------------------------------------------------


def test_the_list_of_names_is_that_of_what_there_is() -> None:
    text = (HERE / "cuda.cu").read_text("utf-8")
    listed = re.findall(r"^//     ((?:lab|LAB)_.*)$", text, re.MULTILINE)
    lines = [line for line in listed if "…" not in line.split("  ")[0]]  # Hopper's are elsewhere
    assert len(lines) > 20
    for line in lines:
        names, is_both, _ = re.split(r"( \*(?: |$)|  )", line, maxsplit=1)
        for name in re.findall(r"(?:lab|LAB)_\w+", names):
            written = re.sub(r"_D\b", "_i32", name.replace("_F_D", "_exp2_f32"))
            written = re.sub(r"_U\b", "_f16", written.replace("cast_D_E", "cast_f32_i8"))
            written = written.replace("lab_Dx4", "lab_f32x4")
            assert prelude("cuda", {written}) != prelude("cuda", set()), name
            is_metals = prelude("metal", {written}) != prelude("metal", set())
            assert is_metals is ("*" in is_both), name
