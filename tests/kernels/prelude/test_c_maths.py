"""Hold the C maths to the interpreter's ops: compiled with and without fused products."""

import ctypes
import itertools
import platform
import re
import subprocess
import sys

import numpy as np
import pytest

from luminal_lab.core.dtypes import BY_NUMPY, INTEGERS, DType
from luminal_lab.core.op import OPS
from luminal_lab.core.ops import (
    Add,
    Cast,
    Exp2,
    Log2,
    Mod,
    Mul,
    Recip,
    ShiftLeft,
    ShiftRight,
    Sin,
    Sqrt,
)
from luminal_lab.core.ops.intrinsic import PREFIX, Gelu, GeluTanh, Intrinsic
from luminal_lab.kernels.prelude.files import definitions
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.prelude.rows import C_TYPES, rows
from tests.needs import need

F32, F64 = DType.float32, DType.float64
FLOATS = (F32, F64)
WHOLE = [dtype for dtype in DType if not dtype.is_float]
MATHS = prelude("c", definitions(["maths.c", "composed.c"], rows()))
COMPOSED = [op.name.removeprefix(PREFIX) for op in OPS.values() if issubclass(op, Intrinsic)]
FAR = {(name, dtype) for name in ("sin", "mod") for dtype in FLOATS} | {("cos", F64)}
"""The functions with a rare slow path."""
NORMAL = {"gelu": Gelu(), "gelu_tanh": GeluTanh()}
UNARY = {"exp2": Exp2(), "log2": Log2(), "sin": Sin(), "sqrt": Sqrt(), "recip": Recip()}
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wno-unused-function", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math"]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def special_values():
    """NumPy's warnings of them are not what is tested."""
    with np.errstate(all="ignore"):
        yield


# -- how C is called ---------------------------------------------------------------------------


def loop(name, call, result, *arguments, count="n"):
    """A C function that calls another one for each element of its arrays."""
    arrays = "".join(f"const {c} *restrict {v}, " for c, v in zip(arguments, "xy", strict=False))
    at = ", ".join(f"{v}[i]" for _, v in zip(arguments, "xy", strict=False))
    head = f"void {name}(long n, {arrays}{result} *restrict z)"
    return f"{head} {{ (void)n; for (long i = 0; i < {count}; i++) z[i] = {call}({at}); }}\n"


@pytest.fixture(scope="session")
def cc():
    """The system's C compiler."""
    return need("cc")


def library(cc, folder, text, *flags):
    """Compile the text, where no warning may come, and load it."""
    source, binary = folder / "maths.c", folder / "maths.so"
    source.write_text(text, encoding="utf-8")
    command = [cc, *FLAGS, *flags, "-shared", "-fPIC", "-o", binary, source, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return ctypes.CDLL(str(binary))


@pytest.fixture(
    scope="module",
    params=["-O3 -march=native -ffp-contract=fast", "-O3 -march=native -ffp-contract=off", "-O0"],
)
def floats(request, cc, tmp_path_factory):
    """The functions of float32 and float64, where it matters how products are fused."""
    text = MATHS
    for dtype in FLOATS:
        c, short = C_TYPES[dtype], dtype.short
        for name in UNARY:
            text += loop(f"{name}_{short}", f"lab_{name}_{short}", c, c)
            near = "_near" if (name, dtype) in FAR else ""
            text += f"static {c} {name}_xy_{short}({c} x, {c} y)"
            text += f" {{ return lab_{name}_{short}{near}(x * y); }}\n"
            text += loop(f"{name}_product_{short}", f"{name}_xy_{short}", c, c, c)
        for name in NORMAL:
            text += loop(f"{name}_{short}", f"lab_{name}_{short}", c, c)
        text += f"static {c} mod_xy_{short}({c} x, {c} y)"
        text += f" {{ return lab_mod_{short}_near(x * y, 3); }}\n"
        text += loop(f"mod_product_{short}", f"mod_xy_{short}", c, c, c)
        for suffix, result in (("", c), ("_near", c), ("_is_far", "int")):
            if suffix:
                text += loop(f"sin_{short}{suffix}", f"lab_sin_{short}{suffix}", result, c)
            text += loop(f"mod_{short}{suffix}", f"lab_mod_{short}{suffix}", result, c, c)
        text += loop(f"max_{short}", f"lab_max_{short}", c, c, c)
    folder = tmp_path_factory.mktemp("floats")
    return library(cc, folder, text, *request.param.split())


@pytest.fixture(scope="module")
def others(cc, tmp_path_factory):
    """All casts, and the arithmetic of integers and bools."""
    text = MATHS
    shifts = "shift_left", "shift_right"
    for dtype, name in itertools.product(WHOLE, ("add", "mul", "max", "mod", *shifts)):
        if dtype is not DType.bool_ or name not in ("mod", *shifts):
            c, key = C_TYPES[dtype], f"{name}_{dtype.short}"
            text += loop(key, f"lab_{key}", c, c, c)
    for x, y in itertools.product(DType, DType):
        key = f"cast_{x.short}_{y.short}"
        text += loop(key, f"lab_{key}", C_TYPES[y], C_TYPES[x])
        if x.itemsize == y.itemsize:
            text += loop(f"bit{key}", f"lab_bit{key}", C_TYPES[y], C_TYPES[x])
    return library(cc, tmp_path_factory.mktemp("others"), text, "-O1")


def called(library, name, dtype, *arrays):
    """What the C loop makes of the arrays, as an array of the dtype."""
    arrays = [np.ascontiguousarray(array) for array in arrays]
    result = np.empty(arrays[0].shape, dtype)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, result)]
    library[name](ctypes.c_long(result.size), *pointers)
    return result


def same(result, expected, *arrays):
    """Fail unless two arrays have the same bits, but for those of NaNs."""
    assert result.dtype == expected.dtype
    bits = f"u{result.dtype.itemsize}"
    wrong = result.view(bits) != expected.view(bits)
    if BY_NUMPY[result.dtype].is_float:
        wrong &= (result == result) | (expected == expected)
    rows = zip(*(array[wrong][:5] for array in (*arrays, result, expected)), strict=True)
    assert not wrong.any(), f"{wrong.sum()} differ, as {[tuple(map(str, row)) for row in rows]}"


# -- values ------------------------------------------------------------------------------------


def any_bits(dtype, count=40_000):
    """Numbers of every size, subnormals, infinities and NaNs too."""
    if dtype is DType.bool_:
        return np.array([False, True])
    if dtype.itemsize < 4:
        return np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    return np.frombuffer(RNG.bytes(count * dtype.itemsize), dtype.numpy)


def special(dtype):
    """Zeros, infinities, NaN, and what lies at the ends of ranges, all with both signs."""
    info = np.finfo(dtype.numpy)
    least, tiny, most = info.smallest_subnormal, info.tiny, info.max
    powers = 2.0 ** np.arange(info.minexp, info.maxexp)
    ends = [0, np.inf, np.nan, least, 2 * least, 3 * least, tiny - least, tiny, most, most / 2]
    small = [0.5, 1, 1.5, 2, 3, 10, 0.1, np.pi, np.sqrt(0.5), np.sqrt(2)]
    limits = [info.maxexp, info.minexp, info.minexp - info.nmant, info.minexp - info.nmant - 1]
    turns = np.arange(1, 200) * (np.pi / 2)
    # Where the sine changes its way, and near multiples of pi/2 that are hard to tell from them.
    hard = [2.0**20, 2.0**25, 16367173 * 2.0**72, 6381956970095103 * 2.0**797, 5.31937264832654e255]
    values = np.concatenate([ends, powers, small, limits, turns, hard])
    values = neighbours(values.astype(dtype.numpy))
    return np.concatenate([values, -values])


def neighbours(values):
    """The values with those just below and above."""
    ends = [values.dtype.type(end) for end in (-np.inf, np.inf)]
    return np.concatenate([values, *(np.nextafter(values, end) for end in ends)])


def samples(dtype):
    """Special values, any bits, and a dense grid where functions have their shape."""
    grid = [
        np.linspace(0, 2, 20_000),
        np.linspace(-160, 160, 20_000),
        RNG.normal(size=20_000) * 1e5,
    ]
    return np.concatenate([special(dtype), any_bits(dtype), *grid]).astype(dtype.numpy)


def pairs(dtype):
    """Any two special values, drawn ones, and quotients that are nearly whole."""
    some = RNG.permutation(special(dtype))[:400]
    x, y = (grid.ravel() for grid in np.meshgrid(some, some))
    bits = any_bits(dtype), any_bits(dtype)
    size = RNG.normal(size=20_000).astype(dtype.numpy)
    whole = (size * RNG.integers(-(2**26), 2**26, 20_000)).astype(dtype.numpy)
    near = np.nextafter(whole, size)
    left = [x, bits[0], size, whole, near, size * 1000]
    return np.concatenate(left), np.concatenate([y, bits[1], size[::-1], size, size, size[::-1]])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_are_within_two_ulp_of_the_interpreter(floats, name, dtype):
    x = samples(dtype)
    wide = UNARY[name].eval(x.astype(np.float64 if dtype is F32 else np.longdouble))
    result = called(floats, f"{name}_{dtype.short}", dtype.numpy, x)
    expected = wide.astype(dtype.numpy)
    ulps = np.abs(result - wide) / np.spacing(np.abs(expected))
    fine = (result == expected) | (ulps <= (0.5 if name in ("sqrt", "recip") else 2))
    fine |= np.isnan(result) & np.isnan(expected)
    assert fine.all(), [float(v).hex() for v in x[~fine][:5]]
    zero = (expected == 0) & (result == 0)
    assert (np.signbit(result) == np.signbit(expected))[zero].all()


@pytest.mark.parametrize("name", NORMAL)
def test_gelu_is_exact_in_its_far_tail_where_products_are_fused(floats, name, request):
    x = np.concatenate([samples(F32), np.linspace(-15, -4, 200_000)]).astype(np.float32)
    right = NORMAL[name].eval(x.astype(np.float64))
    result = called(floats, f"{name}_f32", np.float32, x)
    expected = right.astype(np.float32)
    fine = (result == expected) | (np.isnan(result) & np.isnan(expected))
    # Without a fused multiply-add, what rounding takes from the exponent is unknown.
    most = 10 if "native" in request.node.callspec.params["floats"] else 200
    fine |= np.abs(result - right) <= most * np.spacing(np.abs(expected))
    assert fine.all(), [float(v).hex() for v in x[~fine][:5]]


def test_gelu_of_float64_is_close_in_its_far_tail_where_products_are_fused(floats, request):
    x = np.linspace(-37, -4, 100_000)
    wide, root = x.astype(np.longdouble), np.longdouble("0.79788456080286535587989211987")
    power = np.exp(2 * root * wide * (1 + np.longdouble("0.044715") * wide * wide))
    right = wide * power / (1 + power)
    result = called(floats, "gelu_tanh_f64", np.float64, x)
    most = 64 if "native" in request.node.callspec.params["floats"] else 2000
    assert (np.abs(result - right) <= most * np.spacing(np.abs(right.astype(np.float64)))).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_two_are_exact(floats, dtype):
    info = np.finfo(dtype.numpy)
    whole = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype.numpy)
    powers = np.ldexp(dtype.numpy.type(1), whole.astype(np.int32))
    same(called(floats, f"exp2_{dtype.short}", dtype.numpy, whole), powers, whole)
    same(called(floats, f"log2_{dtype.short}", dtype.numpy, powers), whole, powers)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sine_is_odd_to_the_last_bit(floats, dtype):
    x = samples(dtype)
    sin = f"sin_{dtype.short}"
    same(called(floats, sin, dtype.numpy, -x), -called(floats, sin, dtype.numpy, x), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_near_sine_is_the_sine_wherever_it_is_not_far(floats, dtype):
    x, short = samples(dtype), dtype.short
    far = called(floats, f"sin_{short}_is_far", np.int32, x) != 0
    same(far, ~(np.abs(x) < (2.0**25 if dtype is F32 else 2.0**20)), x)
    near = called(floats, f"sin_{short}_near", dtype.numpy, x[~far])
    same(near, called(floats, f"sin_{short}", dtype.numpy, x[~far]), x[~far])


@pytest.mark.parametrize("dtype", FLOATS)
def test_mod_near_the_largest_numbers_has_a_product_beyond_them(floats, dtype):
    info = np.finfo(dtype.numpy)
    x = RNG.uniform(0.25, 1, 4000).astype(dtype.numpy) * info.max * RNG.choice([-1, 1], 4000)
    y = RNG.uniform(0.1, 1, 4000).astype(dtype.numpy) * info.max * RNG.choice([-1, 1], 4000)
    x, y = x.astype(dtype.numpy), y.astype(dtype.numpy)
    same(called(floats, f"mod_{dtype.short}", dtype.numpy, x, y), Mod().eval(x, y), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mod_is_the_interpreters_to_the_last_bit(floats, dtype):
    x, y = pairs(dtype)
    expected, short = Mod().eval(x, y), dtype.short
    same(called(floats, f"mod_{short}", dtype.numpy, x, y), expected, x, y)
    far = called(floats, f"mod_{short}_is_far", np.int32, x, y) != 0
    x, y = x[~far], y[~far]
    assert 60_000 < x.size < far.size
    same(called(floats, f"mod_{short}_near", dtype.numpy, x, y), expected[~far], x, y)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*UNARY, "mod"])
def test_a_product_is_rounded_before_a_function_reads_it(floats, name, dtype):
    x, y = RNG.normal(size=(2, 20_000)).astype(dtype.numpy) * dtype.numpy.type(300)
    result = called(floats, f"{name}_product_{dtype.short}", dtype.numpy, x, y)
    if name == "mod":
        expected = Mod().eval(x * y, np.full_like(x, 3))
    else:
        expected = called(floats, f"{name}_{dtype.short}", dtype.numpy, x * y)
    same(result, expected, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_of_floats_lets_nan_win(floats, dtype):
    x, y = pairs(dtype)
    result = called(floats, f"max_{dtype.short}", dtype.numpy, x, y)
    np.testing.assert_array_equal(result, np.maximum(x, y))


@pytest.mark.parametrize("name", ["add", "mul", "mod", "max"])
@pytest.mark.parametrize("dtype", WHOLE)
def test_integers_wrap_and_bools_are_or_and_and(others, name, dtype):
    low, high = dtype.limits
    ends = [
        v for v in (0, 1, 2, 3, 7, -1, -2, -7, low, low + 1, high, high - 1) if low <= v <= high
    ]
    some = np.concatenate([np.array(ends).astype(dtype.numpy), any_bits(dtype, 400)[:400]])
    some = np.concatenate([some, np.right_shift(some, 3) if dtype.kind == "int" else some])
    x, y = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(some, some))
    if (name, dtype) == ("mod", DType.bool_):
        assert "lab_mod_bool" not in MATHS
        return
    ops = {"add": Add().eval, "mul": Mul().eval, "mod": Mod().eval, "max": np.maximum}
    expected = ops[name](x, y)
    same(called(others, f"{name}_{dtype.short}", dtype.numpy, x, y), expected, x, y)


@pytest.mark.parametrize("op", [ShiftLeft(), ShiftRight()])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_are_the_interpreters(others, op, dtype):
    low, high = dtype.limits
    every = range(low, high + 1) if dtype.itemsize == 1 else [*range(-2, 67), low, high]
    places = np.array([v for v in every if low <= v <= high], dtype.numpy)
    some = places if dtype.itemsize == 1 else np.concatenate([places, any_bits(dtype, 400)[:400]])
    x, y = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(some, places))
    same(called(others, f"{op.name}_{dtype.short}", dtype.numpy, x, y), op.eval(x, y), x, y)


@pytest.mark.parametrize("target", DType)
@pytest.mark.parametrize("source", DType)
def test_bits_are_those_of_the_other_dtype(others, source, target):
    if source.itemsize == target.itemsize and target is not DType.bool_:
        x = any_bits(source)
        result = called(others, f"bitcast_{source.short}_{target.short}", target.numpy, x)
        assert result.tobytes() == x.tobytes()


@pytest.mark.parametrize("target", DType)
@pytest.mark.parametrize("source", DType)
def test_casts_are_the_interpreters_to_the_last_bit(others, source, target):
    x = any_bits(source)
    if source.itemsize > 2:
        whole = [bound + k for d in WHOLE for bound in d.limits for k in range(-3, 4)]
        if source.is_float:
            halves = np.arange(1 << 16).astype(np.uint16).view(np.float16).astype(source.numpy)
            ties = np.concatenate([(halves[1:] + halves[:-1]) / 2, halves])
            ends = np.array([*whole, *(v + 0.5 for v in whole)]).astype(source.numpy)
            ties = np.concatenate([ties, ends, special(source)])
            drawn = RNG.normal(size=9_000).astype(source.numpy) * 300
            x = np.concatenate([x, neighbours(ties), drawn])
        else:
            low, high = source.limits
            ends = np.array([v for v in whole if low <= v <= high], source.numpy)
            places = RNG.integers(0, 8 * source.itemsize, 40_000).astype(source.numpy)
            x = np.concatenate([x, ends, np.right_shift(any_bits(source), places)])
    result = called(others, f"cast_{source.short}_{target.short}", target.numpy, x)
    same(result, Cast(target).eval(x), x)


# Any bits, and in every fourth place two of 24 ends: each zero, infinity, NaN, least and most.
SWEEP = """
static lab_u64 drawn(lab_u64 n, lab_u64 k) {
    static const lab_u64 ends[24] = {0, 1, 0x7f, 0x7fff, 0x7fffffff, 0x7fffffffffffffff, 0x80000000,
        0x8000000000000000, ~(lab_u64)0, 0x7f800000, 0xff800000, 0x7fc00000, 0x7ff0000000000000,
        0xfff0000000000000, 0x7ff8000000000000, 0x7c00, 0x8000, 0x80, 0x4f000000, 0xcf000000,
        0x43e0000000000000, 0xc3e0000000000000, 0x41e0000000000000, 0xc1e0000000000000};
    lab_u64 mixed = (2 * n + k + 1) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 29;
    return n % 4 ? mixed : ends[(k ? n / 96 : n / 4) % 24];
}
static double sink;
"""


def test_nothing_is_undefined_whatever_the_values(cc, tmp_path):
    text, calls = MATHS + SWEEP, ""
    for name in re.findall(r"^static inline .*?(lab_(?!bits|from)\w+)\(", text, re.MULTILINE):
        head = re.search(rf"^static inline (\w+) {name}\(([^)]*)\)", text, re.MULTILINE)
        assert head
        types = [argument.split()[0] for argument in head[2].split(", ")]
        if "sum" in name or "_far" in name or types == ["lab_bool"] * len(types):
            continue  # what others call, on what they give it; bools are not any bits
        draws = "".join(
            f"{c} x{k}; u = drawn(i, {k}); __builtin_memcpy(&x{k}, &u, sizeof x{k}); "
            for k, c in enumerate(types)
        )
        arguments = ", ".join(f"x{k}" for k in range(len(types)))
        calls += f"    {{ {draws}sink += (double){name}({arguments}); }}\n"
    text += f"int main(void) {{ for (lab_u64 i = 0, u; i < 9000; i++) {{\n{calls}}} return 0; }}\n"
    source, binary = tmp_path / "sweep.c", tmp_path / "sweep"
    source.write_text(text, encoding="utf-8")
    # zig brings the sanitiser with it, where the system's compiler often lacks its library.
    zig = [sys.executable, "-m", "ziglang", "cc"]
    check = ["-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    for compiler in ([cc], zig):
        command = [*compiler, "-std=c99", *check, "-o", binary, source, "-lm"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if not built.returncode:
            break
    else:
        assert "ubsan" in built.stderr or "ziglang" in built.stderr, built.stderr
        pytest.skip("the C compiler has no sanitiser for undefined behaviour")
    done = subprocess.run([binary], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- machine code ------------------------------------------------------------------------------

SCALAR = re.compile(
    r"\bv?(?:(?:add|sub|mul|div|sqrt|fn?m(?:add|sub)\d+)s[sd]|cvtt?s[sdi]2)|\b(?:call|idiv|jmp\s+lab)"
)
PACKED = re.compile(r"\bv\w+.*%[xyz]mm")
COMPOSED_OF_ONE = [name for name in COMPOSED if name not in ("maximum", "minimum")]
VECTOR = [f"{name}_{d.short}" for d in FLOATS for name in (*UNARY, "max", *COMPOSED_OF_ONE)]
VECTOR = [f"{key}_near" if key in ("sin_f64", "cos_f64") else key for key in VECTOR] + [
    "sin_f32_near"
]
VECTOR += [f"mod_{short}" for short in ("f32_near", "f64_near", "i32", "i16", "i8", "u8")]
VECTOR += ["cast_f32_f16", "cast_f16_f32", "cast_f32_bf16", "cast_bf16_f32", "cast_f64_f32"]
VECTOR += ["cast_f32_i32", "cast_f32_i8", "cast_f32_u8", "cast_f64_i32", "cast_i32_f32"]
VECTOR += ["cast_i64_i8", "cast_f64_f16", "cast_f64_bf16", "cast_f16_bf16", "cast_f32_bool"]
SLOW = ["sin_f64", "cos_f64", "mod_f32", "mod_f64", "mod_i64"]


def c_type(short):
    return C_TYPES[DType.bool_ if short == "bool" else next(d for d in DType if d.short == short)]


@pytest.fixture(scope="module")
def assembly(cc, tmp_path_factory):
    """A loop of fixed length over each function, as an x86 of 2013 would run it."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"reads the assembly of x86-64, and this is {platform.machine()}")
    text = MATHS
    for key in VECTOR + SLOW:
        first, *more = re.findall(r"(?<=_)(?:[fiu]\d+|bf16|bool)", key)
        count = 2 if key.startswith(("mod", "max")) else 1
        result = c_type(more[0] if more else first)
        text += loop(f"run_{key}", f"lab_{key}", result, *[c_type(first)] * count, count="4096")
    source, target = (tmp_path_factory.mktemp("asm") / name for name in ("maths.c", "maths.s"))
    source.write_text(text, encoding="utf-8")
    flags = ["-O3", "-march=x86-64-v3", "-ffp-contract=off", "-S", "-o", target, source]
    subprocess.run([cc, *FLAGS, *flags], check=True)
    return target.read_text(encoding="utf-8")


def code_of(assembly, key):
    found = re.search(rf"^_?run_{key}:\n(.*?)^\s+\.cfi_endproc", assembly, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.parametrize("key", VECTOR)
def test_loops_become_vector_code(assembly, key):
    code = code_of(assembly, key)
    assert PACKED.search(code), "no vector instruction"
    assert not SCALAR.findall(code)


@pytest.mark.parametrize("key", SLOW)
def test_what_has_branches_is_not_taken_for_vector_code(assembly, key):
    assert SCALAR.search(code_of(assembly, key))


# -- the text ----------------------------------------------------------------------------------


def defined(text):
    return re.findall(r"^static inline .*?(lab_\w+)\(", text, re.MULTILINE)


def test_the_text_has_what_is_asked_and_what_that_calls():
    text = prelude("c", ["lab_sqrt_f32", "lab_exp2_f32"])
    assert defined(text) == [
        "lab_bits_f32",
        "lab_from_f32",
        "lab_within_f32",
        "lab_fma_f32",
        "lab_exp2_f32",
        "lab_sqrt_f32",
    ]
    assert "#include" not in MATHS


def test_the_text_does_not_depend_on_the_order_of_what_is_asked():
    names = ["lab_sin_f64", "lab_cast_i8_f16"]
    assert prelude("c", names) == prelude("c", names[::-1])


def test_a_function_with_a_far_path_comes_with_both_and_their_border():
    for name, dtype in FAR - {("sin", F32)}:
        key = f"lab_{name}_{dtype.short}"
        assert {key, f"{key}_near", f"{key}_is_far"} <= set(defined(prelude("c", [key])))


def test_nothing_is_defined_twice():
    names = defined(MATHS)
    assert len(names) == len(set(names)) > 150
