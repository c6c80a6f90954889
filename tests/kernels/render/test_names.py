"""Names in C: no word that C or a header has, never one for two, and compilers agree."""

import itertools
import subprocess

import pytest

from luminal_lab.core.dims import Symbol, parse_dim
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.errors import ShapeError
from luminal_lab.kernels.render.index import index_c
from luminal_lab.kernels.render.names import BEYOND_C, KEYWORDS, TAKEN, c_name
from tests.expect import error_of

BAD = [
    *sorted(KEYWORDS | BEYOND_C | TAKEN),
    "_Bool",
    "__func__",
    "__INT8_TYPE__",
    "I",
    "NULL",
    "INFINITY",
    "EOF",
    "LAB_GIVEN",
    "lab_step",
    "lab_i64",
]


@pytest.mark.parametrize("name", ["n", "N", "seq", "batch", "t0", "i", "x_1", "_x"])
def test_ordinary_names_stay(name):
    assert c_name(name) == name


@pytest.mark.share(60)
@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_taken_gets_another(name):
    assert c_name(name) == f"{name}_"


def test_different_names_stay_different():
    parts = ["a", "int", "b_1", "_", "dot0", "dot1_a", "lab_f32"]
    names = {*BAD, *(f"{name}_" for name in BAD)}
    for length in (1, 2, 3):
        for words in itertools.product(parts, repeat=length):
            names |= {".".join(words), "_".join(words), "_".join(words) + "_"}
            names |= {".".join(words) + "_", "__".join(words)}
    names |= {c_name(name) for name in names}
    assert len({c_name(name) for name in names}) == len(names) > 1_000


def test_what_comes_out_is_a_name_in_c(tmp_path):
    names = [c_name(name) for name in [*BAD, "h.n", "a.b.c", "n", "_x"]]
    headers = ["stdio", "stdlib", "stdint", "math", "complex", "string", "stdatomic", "errno"]
    lines = [f"#include <{header}.h>" for header in headers]
    lines += ["long long f(const long long *dims) {", "    long long sum = 0;"]
    lines += [f"    const long long {name} = dims[{k}];" for k, name in enumerate(names)]
    lines += [f"    sum += {name};" for name in names]
    (tmp_path / "names.c").write_text("\n".join([*lines, "    return sum;", "}", ""]))
    command = [*find_compiler().command, "-std=gnu11", "-fsyntax-only", str(tmp_path / "names.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_dims_are_renamed_with_their_bounds():
    table = {"int": Symbol("int", 1, 8, 2), "h.n": Symbol("h.n", 0), "n": Symbol("n")}
    dim = parse_dim("int*h.n + (int + n) // 2", table)
    text = index_c(dim)
    assert "floordiv" not in text
    assert set(text.replace("(", " ").replace(")", " ").replace("*", " ").split()) == {
        *["int_", "dot1_h_n", "n", "+", "/", "2"]
    }
    assert index_c(7) == "7"


def test_words_of_python_are_no_names_of_dims():
    error_of(lambda: Symbol("for"), ShapeError)
