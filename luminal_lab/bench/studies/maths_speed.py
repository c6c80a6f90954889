"""How fast elementwise loops are: the nanoseconds per element of each function, on data in L1.

    python -m luminal_lab.bench.studies.maths_speed [tanh cast ...]

Each is a plain loop with `#pragma omp simd`, as in kernels, compiled by gcc and by zig's clang. For
functions that tensors compose, the spelled form is measured too, beside the one function that
replaces it. `-` stands where a compiler made no vector code of a loop, as it reports itself.
"""
# pyright: basic

import ctypes
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import OPS
from luminal_lab.core.ops import Add, LessThan, Mul, Where
from luminal_lab.core.ops.intrinsic import PREFIX, Intrinsic
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.terms import Apply, Number, Read, Term
from luminal_lab.kernels.fuse.intrinsics import spelled
from luminal_lab.kernels.prelude.prelude import known_in, prelude
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.values import FUNCTIONS, c_type, function_of, number

NAMES = [*(name for name in FUNCTIONS if not name.startswith("shift_")), "fma"]
NAMES += [op.name.removeprefix(PREFIX) for op in OPS.values() if issubclass(op, Intrinsic)]
FLAGS = ["-std=gnu99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math", "-fopenmp-simd", "-fPIC", "-shared", "-w"]
COMPILERS = {
    "gcc": (
        ["gcc", "-fno-ipa-icf"],
        "-fopt-info-vec",
        re.compile(r":(\d+):\d+: optimized: loop vectorized"),
    ),
    "zig": (
        [sys.executable, "-m", "ziglang", "cc"],
        "-Rpass=loop-vectorize",
        re.compile(r":(\d+):\d+: remark: vectorized loop"),
    ),
}
SIZE, ROUNDS, TRIES = 1024, 400, 7
CASTS = "f16_f32 f32_f16 bf16_f32 f32_bf16 f64_f32 f32_f64 f64_f16 f32_i8 f32_u8 f32_i16 f32_i32"
CASTS += " f32_i64 f64_i32 f64_i64 i8_f32 u8_f32 i16_f32 i32_f32 i64_f32 i64_f64 bool_f32 f32_bool"
CASTS += " i32_i64 i64_i32 i64_i8"
OF_TWO = ("add", "mul", "mod", "max", "maximum", "minimum")


class BenchmarkLoop(NamedTuple):
    """One loop: its name, and the expression of an element in x[i] and y[i]."""

    name: str
    kind: str
    source: DType
    result: DType
    value: str
    before: str = ""


def main() -> None:
    """Print a line for each function and dtype."""
    loops = [
        case for case in every_loop() if not sys.argv[1:] or case.name in ("copy", *sys.argv[1:])
    ]
    with tempfile.TemporaryDirectory() as folder:
        timed = {name: measured(name, loops, Path(folder)) for name in COMPILERS}
    print(f"{'':24}" + "".join(f"{name:>10}" for name in COMPILERS) + "   ns an element")
    for index, case in enumerate(loops):
        times = [timed[name][index] for name in COMPILERS]
        cells = "".join(f"{ns:9.3f}{' ' if vector else '-'}" for ns, vector in times)
        print(f"{case.name:12}{case.kind:12}{cells}")


def every_loop() -> Iterator[BenchmarkLoop]:
    named = {dtype.short: dtype for dtype in DType}
    for dtype in (DType.float32, DType.float64):
        yield BenchmarkLoop("copy", dtype.short, dtype, dtype, "x[i]")
        composed = dict(spelled(dtype))
        for name in NAMES:
            near = f"lab_{name}_{dtype.short}_near" in known_in("c")
            for suffix in ("", "_near") if near else ("",):
                given = "x[i], y[i]" if name in OF_TWO else "x[i]"
                call = f"lab_{name}_{dtype.short}{suffix}({given})"
                yield BenchmarkLoop(name, dtype.short + suffix, dtype, dtype, call)
            if name in composed:
                lines: list[str] = []
                value = written(define(composed[name]).outputs[0].term, lines, {})
                before = " ".join(lines)
                yield BenchmarkLoop(name, f"{dtype.short} spelled", dtype, dtype, value, before)
    for short in ("i8", "u8", "i16", "i32", "i64"):
        for name in ("add", "mul", "max", "mod"):
            call = f"lab_{name}_{short}(x[i], y[i])"
            yield BenchmarkLoop(name, short, named[short], named[short], call)
    for key in CASTS.split():
        of, to = (named[short] for short in key.split("_"))
        yield BenchmarkLoop("cast", key, of, to, f"lab_cast_{key}(x[i])")


def applied(term: Apply, values: list[str]) -> str:
    """Return an op on floats in C."""
    match term.op:
        case Add():
            return " + ".join(values)
        case Mul():
            return " * ".join(values)
        case LessThan():
            return " < ".join(values)
        case Where():
            return f"{values[0]} ? {values[1]} : {values[2]}"
        case op:
            return f"lab_{function_of(op)}_{term.dtype.short}({', '.join(values)})"


def written(term: Term, lines: list[str], known: dict[Term, str]) -> str:
    """Write the parts of a term, and return its name."""
    if isinstance(term, Number):
        return number(term.value, term.dtype)
    if term not in known:
        if isinstance(term, Read):
            value = "y[i]" if term.buffer == "b" else "x[i]"
        else:
            assert isinstance(term, Apply)
            value = applied(term, [written(arg, lines, known) for arg in term.args])
        known[term] = f"t{len(known)}"
        lines.append(f"const {c_type(term.dtype)} {known[term]} = {value};")
    return known[term]


def measured(compiler: str, loops: list[BenchmarkLoop], folder: Path) -> list[tuple[float, bool]]:
    """Return the time of each loop, and whether it became vector code."""
    command, remarks, pattern = COMPILERS[compiler]
    text = prelude("c", known_in("c"))
    lines: dict[int, int] = {}
    for index, case in enumerate(loops):
        x, z = C_TYPES[case.source], C_TYPES[case.result]
        given = f"const {x} *restrict x, const {x} *restrict y, {z} *restrict z"
        text += f"static __attribute__((noinline)) void loop_{index}({given}) {{"
        text += "\n#pragma omp simd\n"
        # gcc reports the loop's line, clang that of the pragma above it.
        lines |= dict.fromkeys((text.count("\n"), text.count("\n") + 1), index)
        text += f"for (long i = 0; i < {SIZE}; i++) {{ {case.before} z[i] = {case.value}; }} }}\n"
        call = f"for (int k = 0; k < {ROUNDS}; k++) loop_{index}(x, y, z);"
        text += f"void run_{index}({given}) {{ {call} }}\n"
    source, library = folder / f"{compiler}.c", folder / f"{compiler}.so"
    source.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*command, *FLAGS, remarks, "-o", library, source, "-lm"],
        capture_output=True,
        text=True,
        check=True,
    )
    vector = {lines.get(int(line)) for line in pattern.findall(done.stderr)}
    runs = ctypes.CDLL(str(library))
    return [(speed(runs[f"run_{p}"], case), p in vector) for p, case in enumerate(loops)]


def speed(run: Callable[..., object], case: BenchmarkLoop) -> float:
    """Return the nanoseconds per element, of the fastest of several tries."""
    rng = np.random.default_rng(0)
    room = SIZE * 8 + 512  # arrays 4096 bytes apart get in each other's way
    memory = np.zeros(4 * room, np.uint8)
    pointers: list[ctypes.c_void_p] = []
    for index, (low, high) in enumerate(((0.1, 5), (1, 7), (0, 1))):
        dtype = (case.source if index < 2 else case.result).numpy
        array = memory[index * room :][: SIZE * dtype.itemsize].view(dtype)
        array[:] = rng.uniform(low, high, SIZE).astype(dtype)
        pointers.append(ctypes.c_void_p(array.ctypes.data))
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        run(*pointers)
        best = min(best, time.perf_counter() - start)
    return best / ROUNDS / SIZE * 1e9


if __name__ == "__main__":
    main()
