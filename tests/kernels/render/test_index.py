"""Index arithmetic in C has the values that it has in Python."""

import ctypes
import subprocess
from pathlib import Path

from luminal_lab.core.dims import Dim, evaluate, maximum, minimum, symbols
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.index import index_c
from tests.core.test_dims import GOLDEN, A, B, C, N, environments
from tests.needs import need


def test_c_has_the_same_values(tmp_path: Path):
    compiler = need("cc")
    dims: list[Dim] = [dim for dim, _ in GOLDEN] + [
        (3 * A - 7) // 4, (3 * C - 7) % 4, (A - B) // N, C // (2 * B) - C % N, 40_000_000 * A * N,
        minimum(A, C, B) + maximum(C, -1) * (A < B), 3_000_000_000 * (A < 3) + C,
    ]  # fmt: skip
    names = sorted({symbol.name for dim in dims for symbol in symbols(dim)})
    arguments = ", ".join(f"lab_i64 {name}" for name in names)
    bodies = "".join(
        f"lab_i64 f{index}({arguments}) {{ return {index_c(dim)}; }}\n"
        for index, dim in enumerate(dims)
    )
    source, library = tmp_path / "dims.c", tmp_path / "dims.so"
    called = prelude("c", ["floordiv", "floormod", "lab_min", "lab_max"])
    source.write_text(f"{called}\n\n{bodies}")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    functions = ctypes.CDLL(str(library))
    fixed = {"x": 37, "y": 11, "seq": 48}
    for env in environments(A, B, C):
        full = {**env, **fixed, "m": 8, "n": 3, "i": env["b"] - 1, "j": 2, "k": 3 * env["b"] - 1}
        for index, dim in enumerate(dims):
            function = functions[f"f{index}"]
            function.restype = ctypes.c_int64
            got = function(*(ctypes.c_int64(full[name]) for name in names))
            assert got == evaluate(dim, full), (dim, index_c(dim), full)
