"""Kernels are cached one by one, whatever their program calls them, and compiled in units."""

import os
import re
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.devices.build.cache import use_of
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu import libraries, planned
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.facts.cached import cached
from luminal_lab.errors import DeviceError, LabWarning
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.render.c.program import nameless_source
from luminal_lab.machines.machine import Machine
from tests.expect import error_of
from tests.kept import entries

pytestmark = pytest.mark.needs("cc")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache and a folder of temporary files of each test's own."""
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache"


@pytest.fixture
def compiler(tmp_path):
    """Return a compiler that notes the kernels of each source, and runs some lines before."""
    path = tmp_path / "noting-cc"
    real = find_compiler("cc").command[0]

    def make(lines: str = "") -> str:
        notes = f'echo $(grep -o "static void kernel_[a-z_0-9]*" program.c) >> "{tmp_path}/log"'
        asked = f'case "$1" in --version|-dumpmachine) ;; *) {notes}; {lines} : ;; esac'
        path.write_text(f'#!/bin/sh\n{asked}\nexec "{real}" "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def noted(folder: Path) -> list[list[str]]:
    """Return the kernels of each source that was compiled so far, most first; the pool has none."""
    log = folder.parent / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.write_text("")
    units = [sorted(re.findall(r"kernel_(\w+)", line)) for line in lines]
    return sorted(units, key=len, reverse=True)


def compiled(compiler: str, *factors: float) -> CPUProgram:
    """Compile a graph with a kernel for each factor, and check what it computes."""
    cx = ll.Graph()
    results: list[ll.Tensor] = []
    for factor in factors:
        x = cx.tensor((int(factor), 6), name=f"x{factor}").set(np.ones((int(factor), 6)))
        results.append((x * factor).sin().sum(-1).retrieve())
    cx.compile(ll.CPUCompiler(compiler=compiler))
    cx.execute()
    for result, factor in zip(results, factors, strict=True):
        np.testing.assert_allclose(result.numpy(), [6 * np.sin(factor)] * int(factor), rtol=1e-5)
    program = cx.compilation.program
    assert isinstance(program, CPUProgram)
    return program


def test_a_kernel_that_another_program_had_is_not_compiled_again(compiler, folder):
    one = compiled(compiler(), 2, 3)
    assert noted(folder) == [["mul_sin_sum", "mul_sin_sum_2"], []]
    two = compiled(compiler(), 3, 4)
    assert noted(folder) == [["mul_sin_sum_2"]]  # which was the other's name for the first
    assert one.libraries.kernels["mul_sin_sum_2"] == two.libraries.kernels["mul_sin_sum"]
    compiled(compiler(), 4, 2, 3)
    assert noted(folder) == []


def test_the_source_of_a_kernel_alone_does_not_depend_on_its_name(compiler):
    (_, second), (first,) = compiled(compiler(), 2, 3).kernels, compiled(compiler(), 3).kernels
    assert second.name != first.name
    assert second.source != first.source
    assert nameless_source(second) == nameless_source(first)


def test_missing_kernels_are_compiled_in_units(compiler, folder, monkeypatch):
    monkeypatch.setattr(libraries, "WORTH", 100)
    monkeypatch.setattr(libraries, "usable_cores", lambda: 1)
    compiled(compiler(), 2, 3, 4, 5, 6)
    units = noted(folder)
    assert len({name for unit in units for name in unit}) == sum(map(len, units)) == 5
    assert units.count([]) == 1  # the pool


def test_kernels_are_compiled_while_others_are_planned(compiler, folder, monkeypatch):
    monkeypatch.setattr(libraries, "WORTH", 1)
    monkeypatch.setattr(libraries, "usable_cores", lambda: 2)
    log, seen = folder.parent / "log", list[bool]()

    def planned_late(definition: Definition, name: str, machine: Machine) -> Kernel:
        end = monotonic() + 60
        while seen and not (log.exists() and "kernel_mul_sin_sum" in log.read_text()):
            assert monotonic() < end, "the first kernel is not compiled before the second is there"
            sleep(0.01)
        seen.append(True)
        return make_kernel(definition, name, machine)

    monkeypatch.setattr(planned, "make_kernel", planned_late)
    planned._planned.cache_clear()
    compiled(compiler(), 7, 8)
    assert len(seen) == 2
    assert sorted(map(len, noted(folder))) == [0, 1, 1]


def test_what_was_compiled_together_is_one_file(compiler, folder):
    program = compiled(compiler(), 2, 3, 4)
    files = [kernel.path for kernel in program.libraries.kernels.values()]
    assert len({file.parent for file in files}) == 3
    assert len({file.stat().st_ino for file in files}) == 1
    whole = sum(use_of(entry.path)[1] for entry in entries(folder))
    stored = {file.stat().st_ino: file.stat().st_size for file in folder.rglob("*.*")}
    assert abs(whole - sum(stored.values())) < 3


def test_a_disk_without_second_names_has_copies(compiler, monkeypatch):
    def link(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    files = [kernel.path for kernel in compiled(compiler(), 2, 3).libraries.kernels.values()]
    assert len({file.stat().st_ino for file in files}) == 2


def test_a_damaged_kernel_alone_is_made_again(compiler, folder):
    program = compiled(compiler(), 2, 3)
    noted(folder)
    library = program.libraries.kernels["mul_sin_sum"].path
    library.unlink()  # the other entry keeps the file
    library.write_bytes(b"no library")
    library.chmod(0o600)
    with pytest.warns(LabWarning, match="was damaged and is made again"):
        compiled(compiler(), 2, 3)
    assert noted(folder) == [["mul_sin_sum"]]


def test_the_first_unit_that_is_refused_is_the_error(compiler, folder, monkeypatch):
    monkeypatch.setattr(libraries, "WORTH", 100)
    monkeypatch.setattr(libraries, "usable_cores", lambda: 3)
    lines = """if grep -q "kernel_mul_sin_sum_2(" program.c; then sleep 0.2; kill -SEGV $$; fi
        if grep -q "kernel_mul_sin_sum_3(" program.c; then exit 3; fi;"""
    error = error_of(lambda: compiled(compiler(lines), 2, 3, 4, 5), DeviceError)
    assert error.message.endswith(" made no library, and was ended by signal 11")
    assert len(entries(folder)) < 4


def test_two_kernels_with_one_source_are_one_library(compiler, folder):
    program = compiled(compiler(), 2)
    (kernel,) = program.kernels
    twin = program.list.kernels["twin"] = kernel
    assert twin is kernel
    made = libraries.ProgramLibraries([kernel, kernel], find_compiler(compiler())).whole()
    assert made == program.libraries


@pytest.mark.skipif(sys.platform == "win32", reason="there are no child processes")
def test_a_child_process_gets_a_library_with_the_launches(compiler):
    program = compiled(compiler(), 2, 3)
    assert program.path.is_file()
    assert program.path == program.path
    text = (program.path.parent / cache.SOURCE).read_text()
    assert "static void kernel_" not in text
    assert all(kernel.export in text for kernel in program.libraries.kernels.values())


def test_what_is_listed_says_what_it_computes(compiler, folder):
    compiled(compiler(), 2)
    heads = [entry.about for entry in cached("libraries")]
    assert "// kernel kernel(a: f32[2, 6]) -> (O: f32[2])" in heads
