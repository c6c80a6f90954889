"""How exact and how fast the C functions of CPU kernels are, compared with the C library's.

    python -m luminal_lab.bench.studies.maths [exp2 tanh ...]

float32: every finite value, against the C library's double. float64: 10^8 drawn values, against its
long double. An error of 0.5 ulp is correct rounding. Every figure is measured in this one run, on
one core; all of it takes about ten minutes.
"""
# pyright: basic

import ctypes
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.prelude.prelude import known_in, prelude
from luminal_lab.kernels.prelude.rows import C_TYPES

NAMES = ("exp2", "log2", "sin", "sqrt", "recip")
NAMES += ("exp", "expm1", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "erf", "cos")
FLAGS = ["-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math", "-fPIC", "-shared"]
EVERY, DRAWN, STEP = 1 << 32, 10**8, 1 << 26
SPEED_RANGE = {"exp2": (-20, 20), "exp": (-20, 20), "expm1": (-20, 20), "sin": (-10, 10)}
SPEED_RANGE |= dict.fromkeys(("cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh"), (-5, 5))
# The values drawn for float64, each kind in turn, always mixed with arbitrary bit patterns.
KINDS = {
    "exp2": "-1080 + 2110 * unit",
    "log2": "0.5 + 1.5 * unit",
    "sin": "(draw & 1 ? 20 : 2097152) * (unit - 0.5)",
    "sqrt": "4 * unit",
    "recip": "4 * unit",
}
KINDS |= dict.fromkeys(("exp", "expm1"), "-746 + 1456 * unit")
KINDS |= dict.fromkeys(("tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "erf"), "40 * (unit - 0.5)")
KINDS["cos"] = KINDS["sin"]
TURN = "-({1}) * (1.5957691216057307117597842397375L + 0.07135481627260024876L * ({1}) * ({1}))"
THEIRS = {
    "recip": "(1 / {1})",
    "sigmoid": "(1 / (1 + exp{0}(-({1}))))",
    "silu": "({1} / (1 + exp{0}(-({1}))))",
    "gelu": "({1} * 0.5 * erfc{0}({1} * -0.70710678118654752440L))",
    "gelu_tanh": f"({{1}} / (1 + exp{{0}}({TURN})))",
}

HEAD = """
#include <math.h>
#include <float.h>
#if LDBL_MANT_DIG < 64
#error the reference for float64 needs a long double of 64 bits or more
#endif
enum { BLOCK = 4096 };
static double gap(double r, int digits, int least) {  /* one ulp at r */
    int e;
    frexp(r, &e);
    e = e - digits > least ? e - digits : least;
    return ldexp(1.0, e);
}
static lab_u64 mixed(lab_u64 n) {  /* splitmix64 */
    n = (n + 1) * 0x9e3779b97f4a7c15;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return n ^ n >> 31;
}
static double off(double y, long double r, double rounded, double most, int digits, int least) {
    if (r != r) return y != y ? 0 : INFINITY;
    if (rounded == 0 && y == 0) return signbit(y) == signbit(rounded) ? fabsl(r) / gap(0, 0, least)
                                                                     : INFINITY;
    if (isinf(rounded) || isinf(y)) {
        if (y == rounded) return 0;
        return fabs(y) == most || fabs(rounded) == most ? 1 : INFINITY;
    }
    return y != y ? INFINITY : (double)(fabsl(y - r) / gap(rounded, digits, least));
}
"""

# One function: a block at once, its greatest error over a range of values, and its speed.
BODY = """
static void ours_{key}(int n, const {c} *restrict x, {c} *restrict y) {{
    {loop}
}}
static void theirs_{key}(int n, const {c} *restrict x, {c} *restrict y) {{
    for (int i = 0; i < n; i++) y[i] = {theirs};
}}
double worst_{key}(lab_u64 first, lab_u64 count, double *at) {{
    {c} x[BLOCK], y[BLOCK];
    double worst = 0;
    for (lab_u64 start = first; start < first + count; start += BLOCK) {{
        for (int i = 0; i < BLOCK; i++) {{
            lab_u64 draw = mixed(start + i);
            double unit = (draw >> 11) * 0x1p-53;
            (void)unit;
            x[i] = {value};
        }}
        ours_{key}(BLOCK, x, y);
        for (int i = 0; i < BLOCK; i++) {{
            {wide} r = {reference};
            double error = off(y[i], r, ({c})r, {most}, {digits}, {least});
            if (error > worst) worst = error, *at = x[i];
        }}
    }}
    return worst;
}}
void run_{key}(int ours, int rounds, {c} *x, {c} *y) {{
    for (int i = 0; i < rounds; i++) (ours ? ours_{key} : theirs_{key})(BLOCK, x, y);
}}
"""
NEAR = "for (int i = 0; i < n; i++) y[i] = lab_{0}(x[i]);"
BLOCKS = """for (int from = 0; from < n; from += 256) {{
        int far = 0, to = from + 256 < n ? from + 256 : n;
        for (int i = from; i < to; i++) {{
            far |= lab_{0}_is_far(x[i]);
            y[i] = lab_{0}_near(x[i]);
        }}
        if (far) for (int i = from; i < to; i++) y[i] = lab_{0}(x[i]);
    }}"""


def main() -> None:
    """Print one line for each function and dtype."""
    names = sys.argv[1:] or NAMES
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        for dtype in (DType.float32, DType.float64):
            for name in names:
                report(library, name, dtype)


def source() -> str:
    text = prelude("c", known_in("c")) + HEAD
    for dtype, suffix, letter, wide in (
        (DType.float32, "f", "", "double"),
        (DType.float64, "", "l", "long double"),
    ):
        single = dtype is DType.float32
        for name in NAMES:
            key = f"{name}_{dtype.short}"
            form = THEIRS.get(name, f"{name}{{0}}({{1}})")
            drawn = f"start + i & 1 ? lab_from_f64(draw) : {KINDS[name]}"
            text += BODY.format(
                key=key,
                c=C_TYPES[dtype],
                loop=(BLOCKS if f"lab_{key}_near" in known_in("c") else NEAR).format(key),
                theirs=form.format(suffix, "x[i]"),
                value="lab_from_f32((lab_u32)start + i)" if single else drawn,
                wide=wide,
                reference=form.format(letter, f"({wide})x[i]"),
                most="FLT_MAX" if single else "DBL_MAX",
                digits=24 if single else 53,
                least=-149 if single else -1074,
            )
    return text


def compiled(folder: Path) -> ctypes.CDLL:
    path = folder / "maths.c"
    path.write_text(source(), encoding="utf-8")
    subprocess.run(["cc", *FLAGS, "-o", folder / "maths.so", path, "-lm"], check=True)
    return ctypes.CDLL(str(folder / "maths.so"))


def report(library: ctypes.CDLL, name: str, dtype: DType) -> None:
    key = f"{name}_{dtype.short}"
    measure = library[f"worst_{key}"]
    measure.restype = ctypes.c_double
    worst_at, worst, where = ctypes.c_double(), 0.0, 0.0
    count = EVERY if dtype is DType.float32 else DRAWN
    for first in range(0, count, STEP):
        size = min(STEP, count - first)
        error = measure(ctypes.c_uint64(first), ctypes.c_uint64(size), ctypes.byref(worst_at))
        if error > worst:
            worst, where = error, worst_at.value
    ours, theirs = (speed(library, name, dtype, ours=ours) for ours in (1, 0))
    tried = "all" if dtype is DType.float32 else f"{DRAWN:.0e}"
    print(
        f"{name:<9} {dtype:<8} {tried:<6} at most {worst:.4f} ulp, at {where.hex():<24} "
        f"{ours / 1e6:6.0f} M/s, libm {theirs / 1e6:6.0f} M/s, {ours / theirs:5.1f} times",
        flush=True,
    )


def speed(library: ctypes.CDLL, name: str, dtype: DType, *, ours: int) -> float:
    """Return the values per second in the fastest of several runs."""
    low, high = SPEED_RANGE.get(name, (0.01, 100))
    x = np.random.default_rng(0).uniform(low, high, 4096).astype(dtype.numpy)
    y = np.empty_like(x)
    run, rounds, best = library[f"run_{name}_{dtype.short}"], 500, float("inf")
    for _ in range(7):
        start = time.perf_counter()
        run(ours, rounds, ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
        best = min(best, time.perf_counter() - start)
    return rounds * x.size / best


if __name__ == "__main__":
    main()
