"""SASS where a disassembler is there, PTX otherwise, and a word where neither can be."""

import os
import stat

import pytest

import luminal_lab as ll
from luminal_lab.devices.gpu import sass
from luminal_lab.errors import DeviceError
from luminal_lab.machines.resources import CompiledCUDA
from tests.expect import error_of


@pytest.fixture
def kernel(monkeypatch):
    cx = ll.Graph()
    (cx.tensor((64,), name="x") * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_80"))
    kernel = cx.kernels[0]
    compiled = CompiledCUDA("sm_80", "// PTX", b"cubin", "", {})
    monkeypatch.setattr(type(kernel), "compiled", property(lambda self: compiled))
    return kernel


def test_ptx_where_there_is_no_disassembler(kernel, monkeypatch):
    monkeypatch.setattr(sass.shutil, "which", lambda name: None)
    found = kernel.assembly
    assert found.text == "// PTX"
    assert found.by == "NVRTC: PTX, as there is no nvdisasm and no cuobjdump to read SASS with"


@pytest.mark.skipif(os.name != "posix", reason="the tool that stands in is a shell script")
def test_sass_where_there_is_one(kernel, monkeypatch, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text('#!/bin/sh\necho "options $1"\ncat "$2"\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = kernel.assembly
    assert (found.text, found.by) == ("options -c\ncubin", "nvdisasm")


def test_metal_has_none():
    cx = ll.Graph()
    (cx.tensor((64,), name="x") * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.MetalCompiler())
    error = error_of(lambda: cx.kernels[0].assembly, DeviceError)
    assert "Apple documents no assembly" in error.message
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    error = error_of(lambda: cx.kernels[0].assembly, DeviceError)
    assert error.message == "assembly: mul is in WGSL, which each driver compiles by itself"
