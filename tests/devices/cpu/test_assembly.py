"""A CPU kernel's assembly: by its compiler, a disassembler, or a word of what is missing."""

import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu import assembly
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(autouse=True)
def _compiler(tmp_path, monkeypatch):
    need("cc")
    assembly._assembled.cache_clear()
    yield
    assembly._assembled.cache_clear()


@pytest.fixture
def kernel():
    cx = ll.Graph()
    cx.tensor((64,), name="x").exp().sum(0).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx.kernels[0]


def test_each_line_knows_its_line_of_c(kernel):
    found = kernel.assembly
    assert found.by.endswith(" -S")
    functions = [phase.function for phase in kernel.phases]
    assert all(
        any(f"{function}:" in line for line in found.text.splitlines()) for function in functions
    )
    source = kernel.source.splitlines()
    assert found.lines
    assert all(1 <= line <= len(source) for _, line in found.lines)
    assert "\t." not in found.text


def test_a_rescheduled_kernel_has_its_own(kernel):
    other = kernel.rescheduled(str(kernel.schedule))
    assert other.assembly.text == kernel.assembly.text


def test_without_the_compilers_own_a_disassembler_reads_the_library(kernel, monkeypatch):
    need("objdump")
    monkeypatch.setattr(assembly, "_by_compiler", lambda source, compiler: None)
    found = kernel.assembly
    assert found.by in assembly.DISASSEMBLERS
    assert found.lines == ()
    assert kernel.phases[0].function in found.text


def test_without_any_tool_it_says_what_was_looked_for(kernel, monkeypatch):
    monkeypatch.setattr(assembly, "_by_compiler", lambda source, compiler: None)
    monkeypatch.setattr(assembly.shutil, "which", lambda name: None)
    error = error_of(lambda: kernel.assembly, DeviceError)
    assert "there is no objdump and no llvm-objdump" in error.message
    assert error.hint == "install gcc, clang or binutils; print(kernel.source) shows the C"


def test_what_nobody_compiles_says_so():
    bare = Kernel("f", None, "", ())
    error = error_of(lambda: bare.assembly, DeviceError)
    assert error.message == "kernel f: nothing has been set to compile it"
