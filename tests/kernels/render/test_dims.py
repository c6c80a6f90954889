"""Dims in C have the values that they have in Python."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from luminal_lab.core.dims import Dim, Symbol, evaluate, maximum, minimum, symbols
from luminal_lab.kernels.render.dims import render_c
from tests.core.test_dims import GOLDEN, SEQ, A, B, C, N, X, environments

PRELUDE = """#include <stdint.h>
static int64_t floordiv(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t floormod(int64_t a, int64_t b) { return a - floordiv(a, b) * b; }
"""


def test_c_has_the_same_values(tmp_path: Path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: `cc` is not on the PATH")
    dims: list[Dim] = [dim for dim, _ in GOLDEN] + [
        (3 * A - 7) // 4, (3 * C - 7) % 4, (A - B) // N, C // (2 * B) - C % N, 40_000_000 * A * N,
        minimum(A, C, B) + maximum(C, -1) * (A < B), 3_000_000_000 * (A < 3) + C,
    ]  # fmt: skip
    names = sorted({symbol.name for dim in dims for symbol in symbols(dim)})
    arguments = ", ".join(f"int64_t {name}" for name in names)
    bodies = "".join(
        f"int64_t f{index}({arguments}) {{ return {render_c(dim)}; }}\n"
        for index, dim in enumerate(dims)
    )
    source, library = tmp_path / "dims.c", tmp_path / "dims.so"
    source.write_text(PRELUDE + bodies)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    functions = ctypes.CDLL(str(library))
    fixed = {"x": 37, "y": 11, "seq": 48}
    for env in environments(A, B, C):
        full = {**env, **fixed, "m": 8, "n": 3, "i": env["b"] - 1, "j": 2, "k": 3 * env["b"] - 1}
        for index, dim in enumerate(dims):
            function = functions[f"f{index}"]
            function.restype = ctypes.c_int64
            got = function(*(ctypes.c_int64(full[name]) for name in names))
            assert got == evaluate(dim, full), (dim, render_c(dim), full)


def test_c_text():
    assert render_c(X // 4 + 768 * (X % 4)) == "(768*(x % 4) + (x / 4))"
    assert render_c(C // 4) == "floordiv(c, 4)"
    assert render_c(Symbol("vit.n") + 1) == "(vit_n + 1)"
    assert render_c(0) == "0"
    assert render_c(3 * SEQ) == "3*seq"
