"""The checks of `luminal-lab doctor`: a function for each, which tries things where it can."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

import luminal_lab
from luminal_lab.bfloat import MISSING
from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build import cache, toolchain
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.trial_build import CHECKS as SANITIZERS, builds
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.cuda.driver import gpu_count
from luminal_lab.devices.cuda.through_cupy import import_cupy
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.metal.engine import import_metal
from luminal_lab.devices.webgpu.compiler import WebGPUCompiler
from luminal_lab.devices.webgpu.engine import name_of, webgpu_device
from luminal_lab.devices.xla.compiler import XLACompiler
from luminal_lab.errors import DeviceError, LabError
from luminal_lab.machines import here as machine
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.viz.live.static import script

State: TypeAlias = Literal["works", "missing", "fails", "none"]
LAB = 'pip install "luminal-lab[lab]"'
LANGUAGE = 'pip install "luminal-lab[lm]"'
ONNX = 'pip install "luminal-lab[onnx]"'
SERVE = 'pip install "luminal-lab[serve]"'
CUDA = 'pip install "luminal-lab[cuda]"'
METAL = 'pip install "luminal-lab[metal]"'
WEBGPU = 'pip install "luminal-lab[webgpu]"'
XLA = 'pip install "luminal-lab[xla]"'
ZIG = "pip install ziglang"
DRIVERS = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
VECTORS = {64: "AVX-512", 32: "AVX2", 16: "SSE2"}


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    state: State
    """Works; could be here but is missing; is here but fails; impossible on this machine."""
    what: str
    """What was found, or the consequence of its absence."""
    mend: str = ""
    """The command that mends it."""


@dataclass(frozen=True)
class DoctorCheck:
    """A check."""

    name: str
    look: Callable[[], CheckResult]
    is_basic: bool = False
    """Whether nothing works without it."""

    def result(self) -> CheckResult:
        """Run the check; any error becomes its result."""
        try:
            return self.look()
        except LabError as error:
            hint = (error.hint or "").partition(";")[0]
            return CheckResult("fails", error.message.partition("\n")[0], hint)
        except Exception as error:  # a broken installation may raise anything
            return CheckResult(
                "fails", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            )


# -- the basics ------------------------------------------------------------------------------------


def python() -> CheckResult:
    """Look at the Python that runs this."""
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return CheckResult("works", f"{name}, {sys.executable}")


def packages() -> CheckResult:
    """Look at the required packages."""
    if MISSING is None:
        return CheckResult("works", _versions("numpy", "ml_dtypes", "typing_extensions"))
    said = f"{_versions('numpy', 'typing_extensions')}; no ml_dtypes, so no bfloat16"
    return CheckResult("works", said)


def interpreter() -> CheckResult:
    """Compute something without a compiler."""
    fault = _fault_of(Pipeline())
    return (
        CheckResult("fails", fault)
        if fault
        else CheckResult("works", "graphs run in NumPy, on any machine")
    )


def _fault_of(device: Pipeline) -> str:
    """Return what is wrong with a device's result for a small graph; mostly nothing."""
    cx = luminal_lab.Graph("doctor")
    x = cx.tensor((4, 8), name="x")
    y = (x * 2 + 1).softmax(-1).retrieve()
    data: Array = np.arange(32, dtype=np.float32).reshape(4, 8) / 16
    x.set(data)
    cx.compile(GenericCompiler(), device)
    cx.execute()
    powers = np.exp(data * 2 + 1)
    wanted = powers / powers.sum(-1, keepdims=True)
    off = float(np.abs(y.numpy() - wanted).max())
    return "" if off < 1e-5 else f"a softmax is off by {off:.2g}"


# -- the CPU ---------------------------------------------------------------------------------------


def compiler() -> CheckResult:
    """Compile something and run it."""
    try:
        compiler_found = toolchain.find_compiler()
    except DeviceError:
        return CheckResult("missing", "no C compiler: graphs run in the interpreter, slowly", ZIG)
    fault = _fault_of(CPUCompiler())
    return (
        CheckResult("fails", f"{compiler_found}: {fault}", ZIG)
        if fault
        else CheckResult("works", str(compiler_found))
    )


def trials() -> CheckResult:
    """Look for the tools that find faults in kernels before they run in this process."""
    try:
        compiler_found = toolchain.find_compiler()
    except DeviceError:
        return CheckResult("missing", "no C compiler: there are no kernels in C to try", ZIG)
    with warnings.catch_warnings(action="ignore"):  # the result says it
        build = builds(compiler_found)
    if build is None:
        return CheckResult("none", "no child process is possible: kernels are tried in this one")
    if not build.sanitizers:
        return CheckResult(
            "works", "kernels are tried in a child process, between guard pages alone"
        )
    named = " and ".join(SANITIZERS[sanitizer] for sanitizer in build.sanitizers)
    return CheckResult("works", f"kernels are tried in a child process, with {named}")


def emulator() -> CheckResult:
    """Look for a compiler for the GPU emulator."""
    try:
        compiler_found = toolchain.find_cpp_compiler()
    except DeviceError:
        return CheckResult("missing", "no C++ compiler: GPU kernels cannot be emulated", ZIG)
    return CheckResult("works", f"GPU kernels run on the CPU, by {compiler_found.command[0]}")


def cores() -> CheckResult:
    """Count the threads to be used."""
    usable, present = machine.usable_cores(), os.cpu_count() or 1
    return CheckResult("works", f"{usable}" + (f" of {present}" if present > usable else ""))


def simd() -> CheckResult:
    """Look at the processor's vectors."""
    this = machine.this_machine()
    name = VECTORS[this.vector_bytes] if _is_x86() else "NEON"
    return CheckResult(
        "works", f"{name}, {this.vector_bytes} bytes: {this.vector_bytes // 4} floats"
    )


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64", "i386", "i686", "x86")


def folder() -> CheckResult:
    """Look at the cache of compiled code."""
    folder_path = cache.user_folder()
    if folder_path is None:
        return CheckResult("missing", f"no home folder: kept in {cache.spare_folder()} meanwhile")
    nearest = next(parent for parent in (folder_path, *folder_path.parents) if parent.exists())
    if not os.access(nearest, os.W_OK):
        return CheckResult(
            "missing", f"{nearest} is read-only: kept in {cache.spare_folder()} meanwhile"
        )
    return CheckResult("works", f"kept in {folder_path}")


# -- GPUs ------------------------------------------------------------------------------------------


def nvidia() -> CheckResult:
    """Look for NVIDIA's driver and its GPUs, without CuPy."""
    if sys.platform == "darwin":
        return CheckResult("none", "Macs have none; recorded and modelled times stand in")
    driver = None
    for name in DRIVERS:
        with suppress(OSError):
            driver = ctypes.CDLL(name)
            break
    if driver is None:
        return CheckResult("none", "no NVIDIA driver; recorded and modelled times stand in")
    status = int(driver.cuInit(0))
    count, version = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if status or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return CheckResult("none", f"a driver, but no GPU that can be used (status {status})")
    names: list[str] = []
    for number in range(count.value):
        text = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(text, len(text), number)
        names.append(text.value.decode(errors="replace"))
    known = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return CheckResult("works", f"{', '.join(names)}; the driver knows {known}")


def cupy() -> CheckResult:
    """Run something on an NVIDIA GPU."""
    gpu = nvidia()
    if gpu.state != "works":
        return CheckResult("none", "runs kernels where there is an NVIDIA GPU")
    if find_spec("cupy") is None:
        return CheckResult(
            "missing", "there is a GPU, but CuPy, which runs kernels, is missing", CUDA
        )
    if not gpu_count():
        return CheckResult("fails", "CuPy finds no GPU")
    fault = _fault_of(CUDACompiler())
    shown = f"CuPy {import_cupy().__version__}"
    return CheckResult("fails", fault) if fault else CheckResult("works", f"{shown} runs kernels")


def ptx() -> CheckResult:
    """Look for NVRTC."""
    if sys.platform == "darwin":
        return CheckResult(
            "none", "NVIDIA has none for Macs; you can still read and emulate the source"
        )
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        return CheckResult("missing", "you can read CUDA's source, but not compile it to PTX", CUDA)
    try:
        major, minor = nvrtc.version()
    except DeviceError as error:
        return CheckResult("fails", error.message.partition("\n")[0], CUDA)
    known = nvrtc.architectures()
    return CheckResult(
        "works", f"NVRTC {major}.{minor}, for {known[0]} to {known[-1]}; it needs no GPU"
    )


def metal() -> CheckResult:
    """Run something on a Mac's GPU."""
    if sys.platform != "darwin":
        return CheckResult("none", "only Macs have it; you can still read and emulate the source")
    try:
        import_metal()
    except DeviceError:
        return CheckResult("missing", "PyObjC's Metal, which runs kernels, is missing", METAL)
    fault = _fault_of(MetalCompiler())
    return CheckResult("fails", fault) if fault else CheckResult("works", "runs kernels")


def webgpu() -> CheckResult:
    """Run something on this machine's adapter of WebGPU."""
    if find_spec("wgpu") is None:
        return CheckResult("missing", "wgpu, which runs kernels by WebGPU, is missing", WEBGPU)
    try:
        _, device = webgpu_device()
        fault = _fault_of(WebGPUCompiler())
    except DeviceError as error:
        return CheckResult("none", error.message.partition("\n")[0])
    name = name_of(device.adapter)
    return CheckResult("fails", fault) if fault else CheckResult("works", name)


def xla() -> CheckResult:
    """Run something by XLA."""
    if find_spec("jax") is None:
        return CheckResult("missing", "JAX, by which XLA runs graphs, is missing", XLA)
    fault = _fault_of(XLACompiler())
    return CheckResult("fails", fault) if fault else CheckResult("works", _versions("jax"))


# -- notebooks -------------------------------------------------------------------------------------


def jupyter() -> CheckResult:
    """Look for JupyterLab."""
    return _installed(["jupyterlab"], "no JupyterLab: luminal-lab open shows recordings without it")


def widgets() -> CheckResult:
    """Look for the packages of live pictures."""
    status = _installed(["anywidget", "ipywidgets"], "pictures are static, not live")
    if status.state != "works":
        return status
    try:
        size = len(script())
    except DeviceError:
        is_checkout = Path(luminal_lab.__file__).resolve().parents[1].joinpath("frontend").is_dir()
        mend = "make frontend" if is_checkout else "pip install --force-reinstall luminal-lab"
        return CheckResult("missing", "the script of live pictures is not built", mend)
    return CheckResult("works", f"{status.what}, and our script, {size / 1000:.0f} kB")


def tables() -> CheckResult:
    """Look for the packages of tables, charts and bars."""
    return _installed(["pandas", "plotly", "tqdm"], "no tables, charts or progress bars")


def models() -> CheckResult:
    """Look for the packages that read language models."""
    names = ["safetensors", "tokenizers", "jinja2"]
    return _installed(names, "no texts by language models", LANGUAGE)


def onnx() -> CheckResult:
    """Look for the package that reads ONNX files."""
    return _installed(["onnx"], "no models from ONNX files", ONNX)


def serve() -> CheckResult:
    """Look for the package by which models are served."""
    return _installed(["uvicorn"], "no endpoints by luminal-lab serve", SERVE)


def zig() -> CheckResult:
    """Look for the compiler for other machines."""
    without = "no exports for other machines, and no pages that compute"
    return _installed(["ziglang"], without, ZIG)


def layout() -> CheckResult:
    """Look for the layout engine for small graphs."""
    status = _installed(["pygraphviz"], "our own engine lays out graphs")
    return status if status.state == "works" else CheckResult("none", status.what)


def _installed(names: Iterable[str], without: str, mend: str = LAB) -> CheckResult:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        return CheckResult("missing", f"{' and '.join(missing)} not installed: {without}", mend)
    return CheckResult("works", _versions(*names))


def _versions(*names: str) -> str:
    """Return packages with their versions, where known."""
    versions: list[str] = []
    for name in names:
        known = ""
        with suppress(metadata.PackageNotFoundError):
            known = metadata.version(name)
        versions.append(f"{name} {known}".strip())
    return ", ".join(versions)


CHECKS = (
    DoctorCheck("python", python, is_basic=True),
    DoctorCheck("packages", packages, is_basic=True),
    DoctorCheck("interpreter", interpreter, is_basic=True),
    DoctorCheck("compiler", compiler),
    DoctorCheck("trials", trials),
    DoctorCheck("cores", cores),
    DoctorCheck("simd", simd),
    DoctorCheck("cache", folder),
    DoctorCheck("emulator", emulator),
    DoctorCheck("gpu", nvidia),
    DoctorCheck("cuda", cupy),
    DoctorCheck("nvrtc", ptx),
    DoctorCheck("metal", metal),
    DoctorCheck("webgpu", webgpu),
    DoctorCheck("xla", xla),
    DoctorCheck("jupyterlab", jupyter),
    DoctorCheck("widgets", widgets),
    DoctorCheck("tables", tables),
    DoctorCheck("models", models),
    DoctorCheck("onnx", onnx),
    DoctorCheck("serve", serve),
    DoctorCheck("zig", zig),
    DoctorCheck("layout", layout),
)
