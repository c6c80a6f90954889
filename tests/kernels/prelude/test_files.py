"""The files of C, CUDA and Metal: each compiles, and of them comes what is named and no more.

NVRTC compiles CUDA's in tests/devices/gpu/test_nvrtc.py; here both languages of GPUs go through the
emulator's front end.
"""

import shutil
import subprocess
from collections.abc import Iterator
from itertools import product

import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.devices.facts.probe import SOURCE
from luminal_lab.emulator.library import DialectName, KernelSource, library_of
from luminal_lab.kernels.prelude.files import HERE, NAME, WORD, definitions, paragraphs, whole
from luminal_lab.kernels.prelude.prelude import OWN, known_in, prelude
from luminal_lab.kernels.prelude.rows import rows, rows_of
from luminal_lab.kernels.render.c.program import pool_source, program_source, tried_source
from luminal_lab.kernels.user.kernel import OURS

STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
SHAPES = {f"lab_{d.short}x{n}" for d, n in product(DType, (2, 4, 8, 16))}
GROUPS = {
    f"lab_wgmma_{u}_n{n}{w}" for u, w in product(("f16", "bf16"), ("", "_rows")) for n in (8, 64)
} | {"lab_registers_fall_40", "lab_registers_rise_232"}
CPUS = ["", "-march=native", "-mavx2 -mfma -mf16c", "-mavx512f", "-mavx512vnni -mavx512vl"]


def compilers() -> Iterator[str]:
    """The C compilers that this machine has."""
    yield from filter(shutil.which, ("gcc", "clang"))


def check(text: str, *flags: str) -> None:
    """Fail if a compiler has anything to say about some C."""
    for compiler in compilers():
        command = [compiler, *STRICT, *flags, "-x", "c", "-"]
        done = subprocess.run(
            command, input=f"{text}\n", capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("cpu", CPUS)
def test_all_of_c_compiles_without_a_warning(cpu: str) -> None:
    check(prelude("c", {*known_in("c"), *SHAPES}), *cpu.split(), "-fopenmp-simd", "-Wno-psabi")


def test_what_stands_around_the_kernels_compiles_without_a_warning() -> None:
    check(tried_source(program_source([], [])))
    check(pool_source())


def test_the_probe_of_rates_compiles_without_a_warning() -> None:
    check(SOURCE, "-Wno-unused-parameter")  # ways to go through memory are of one type


@pytest.mark.parametrize("language", ["cuda", "metal"])
def test_all_that_gpus_call_passes_the_emulators_front_end(language: DialectName) -> None:
    uses = {*known_in(language), *SHAPES} | (GROUPS if language == "cuda" else set())
    if language == "metal":
        uses = {n for n in uses if "f64" not in n and "double" not in prelude(language, {n})}
    start = {"cuda": 'extern "C" __global__ void', "metal": "kernel void"}[language]
    given = {"cuda": "float *x", "metal": "device float *x [[buffer(0)]]"}[language]
    source = f"{prelude(language, uses)}\n\n{start} k({given}) {{ x[0] = 1.0f; }}\n"
    assert list(library_of(KernelSource(source, language), "plain").takes) == ["k"]


# -- paragraphs ------------------------------------------------------------------------------------

FILES = sorted(path.name for path in HERE.iterdir() if path.suffix in (".c", ".h", ".cu", ".metal"))


@pytest.mark.parametrize("file", FILES)
def test_a_file_says_what_it_is_for(file: str) -> None:
    head = (HERE / file).read_text("utf-8").partition("\n\n")[0]
    assert all(line.startswith("//") for line in head.splitlines())
    assert not whole(file).startswith("// ") or file in ("pool.c", "execute.c", "tried.c")


@pytest.mark.parametrize("language", OWN)
def test_every_word_stands_for_something_in_some_row(language: str) -> None:
    shapes = rows_of([*SHAPES, *GROUPS])
    every = [*rows(), *shapes]
    for file in (*OWN[language], "maths.c"):
        for paragraph in paragraphs(file):
            assert any(paragraph.words <= row.keys() for row in every), paragraph.names
    assert not any(WORD.search(one.text) for one in known_in(language).values())


def test_a_paragraph_that_defines_nothing_belongs_to_the_next() -> None:
    (types, *_) = paragraphs("metal.metal")
    assert types.text.startswith("#include <metal_stdlib>")
    assert types.names[0] == "lab_i8"


def test_what_languages_name_is_there_and_no_user_may_take_it() -> None:
    for language in OWN:
        known = known_in(language) | definitions(OWN[language], rows_of(SHAPES))
        for paragraph in known.values():
            assert paragraph.names
        names = [name for name in known if not name.startswith("reduction(")]
        assert all(NAME.fullmatch(name) for name in names)
        assert {n for n in names if not OURS.match(n)} == {"floordiv", "floormod"}  # renamed


def test_a_program_has_only_what_it_names() -> None:
    text = prelude("c", ["lab_recip_f32"])
    assert text.count("static inline") == 1
    assert "lab_recip_f32" in text
