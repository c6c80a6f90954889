"""What `luminal-lab doctor` looks at: a function for each thing, which tries it where it can."""

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
from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build import cache, toolchain
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.cpu.trial_build import CHECKS as SANITIZERS, builds
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.cuda.driver import gpu_count, import_cupy
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.metal.engine import import_metal
from luminal_lab.errors import DeviceError, LabError
from luminal_lab.machines import here as machine
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.viz.live.static import script

State: TypeAlias = Literal["works", "missing", "fails", "none"]
LAB = 'pip install "luminal-lab[lab]"'
CUDA = 'pip install "luminal-lab[cuda]"'
METAL = 'pip install "luminal-lab[metal]"'
ZIG = "pip install ziglang"
DRIVERS = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
VECTORS = {64: "AVX-512", 32: "AVX2", 16: "SSE2"}


@dataclass(frozen=True)
class Found:
    """What became of one check."""

    state: State
    """It works; it could be here and is not; it is here and fails; this machine cannot have it."""
    what: str
    """What was found, or what is so without it."""
    mend: str = ""
    """The one command that mends it."""


@dataclass(frozen=True)
class Check:
    """One thing to look at."""

    name: str
    look: Callable[[], Found]
    is_basic: bool = False
    """Whether nothing works without it."""

    def found(self) -> Found:
        """Look at it; whatever goes wrong meanwhile is what was found."""
        try:
            return self.look()
        except LabError as error:
            hint = (error.hint or "").partition(";")[0]
            return Found("fails", error.message.partition("\n")[0], hint)
        except Exception as error:  # a broken installation may raise anything
            return Found("fails", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")


# -- what all needs --------------------------------------------------------------------------------


def python() -> Found:
    """Look at the Python that runs this."""
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return Found("works", f"{name}, {sys.executable}")


def packages() -> Found:
    """Look at the packages that all needs."""
    return Found("works", _versions("numpy", "ml_dtypes", "typing_extensions"))


def interpreter() -> Found:
    """Compute something without a compiler."""
    fault = _fault_of(Pipeline())
    return Found("fails", fault) if fault else Found("works", "graphs run in NumPy, on any machine")


def _fault_of(device: Pipeline) -> str:
    """Return what is wrong with what a device computes of a small graph; mostly nothing."""
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


def compiler() -> Found:
    """Compile something and run it."""
    try:
        found = toolchain.find_compiler()
    except DeviceError:
        return Found("missing", "no C compiler: graphs run in the interpreter, slowly", ZIG)
    fault = _fault_of(CPUCompiler())
    return Found("fails", f"{found}: {fault}", ZIG) if fault else Found("works", str(found))


def trials() -> Found:
    """Look for what finds faults in kernels before they run in this process."""
    try:
        found = toolchain.find_compiler()
    except DeviceError:
        return Found("missing", "no C compiler: there are no kernels in C to be tried", ZIG)
    with warnings.catch_warnings(action="ignore"):  # it is said here
        build = builds(found)
    if build is None:
        return Found("none", "there can be no child process: kernels are tried in this one")
    if not build.sanitizers:
        return Found("works", "kernels are tried in a child process, between guard pages alone")
    named = " and ".join(SANITIZERS[one] for one in build.sanitizers)
    return Found("works", f"kernels are tried in a child process, with {named}")


def emulator() -> Found:
    """Look for what compiles the emulator of GPUs."""
    try:
        found = toolchain.find_cpp_compiler()
    except DeviceError:
        return Found("missing", "no C++ compiler: GPU kernels cannot be emulated", ZIG)
    return Found("works", f"GPU kernels run on the CPU, by {found.command[0]}")


def cores() -> Found:
    """Look at how many threads there will be."""
    usable, there = machine.usable_cores(), os.cpu_count() or 1
    return Found("works", f"{usable}" + (f" of {there}" if there > usable else ""))


def simd() -> Found:
    """Look at the vectors of the processor."""
    this = machine.this_machine()
    name = VECTORS[this.vector_bytes] if _is_x86() else "NEON"
    return Found("works", f"{name}, {this.vector_bytes} bytes: {this.vector_bytes // 4} floats")


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64", "i386", "i686", "x86")


def folder() -> Found:
    """Look at where compiled code is kept."""
    place = cache.user_folder()
    if place is None:
        return Found("missing", f"no home folder: kept in {cache.spare_folder()} meanwhile")
    nearest = next(one for one in (place, *place.parents) if one.exists())
    if not os.access(nearest, os.W_OK):
        return Found("missing", f"{nearest} is read-only: kept in {cache.spare_folder()} meanwhile")
    return Found("works", f"kept in {place}")


# -- GPUs ------------------------------------------------------------------------------------------


def nvidia() -> Found:
    """Look for NVIDIA's driver and its GPUs, without CuPy."""
    if sys.platform == "darwin":
        return Found("none", "Macs have none; recorded and modelled times stand in")
    driver = None
    for name in DRIVERS:
        with suppress(OSError):
            driver = ctypes.CDLL(name)
            break
    if driver is None:
        return Found("none", "no NVIDIA driver; recorded and modelled times stand in")
    status = int(driver.cuInit(0))
    count, version = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if status or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return Found("none", f"a driver, but no GPU that can be used (status {status})")
    names: list[str] = []
    for number in range(count.value):
        text = ctypes.create_string_buffer(128)
        driver.cuDeviceGetName(text, len(text), number)
        names.append(text.value.decode(errors="replace"))
    known = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return Found("works", f"{', '.join(names)}; the driver knows {known}")


def cupy() -> Found:
    """Run something on an NVIDIA GPU."""
    gpu = nvidia()
    if gpu.state != "works":
        return Found("none", "runs kernels where there is an NVIDIA GPU")
    if find_spec("cupy") is None:
        return Found("missing", "there is a GPU, and CuPy, which runs kernels, is not here", CUDA)
    if not gpu_count():
        return Found("fails", "CuPy finds no GPU")
    fault = _fault_of(CUDACompiler())
    shown = f"CuPy {import_cupy().__version__}"
    return Found("fails", fault) if fault else Found("works", f"{shown} runs kernels")


def ptx() -> Found:
    """Look for NVRTC."""
    if sys.platform == "darwin":
        return Found("none", "NVIDIA makes none for Macs; the source can be read and emulated")
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        return Found("missing", "CUDA's source can be read, but not compiled to PTX", CUDA)
    try:
        major, minor = nvrtc.version()
    except DeviceError as error:
        return Found("fails", error.message.partition("\n")[0], CUDA)
    known = nvrtc.architectures()
    return Found("works", f"NVRTC {major}.{minor}, for {known[0]} to {known[-1]}; it needs no GPU")


def metal() -> Found:
    """Run something on a Mac's GPU."""
    if sys.platform != "darwin":
        return Found("none", "is on Macs; the source can be read and emulated")
    try:
        import_metal()
    except DeviceError:
        return Found("missing", "PyObjC's Metal, which runs kernels, is not here", METAL)
    fault = _fault_of(MetalCompiler())
    return Found("fails", fault) if fault else Found("works", "runs kernels")


# -- notebooks -------------------------------------------------------------------------------------


def jupyter() -> Found:
    """Look for JupyterLab."""
    return _installed(["jupyterlab"], "no JupyterLab: luminal-lab open shows recordings without")


def widgets() -> Found:
    """Look for what is alive in a notebook."""
    found = _installed(["anywidget", "ipywidgets"], "pictures are there, but not alive")
    if found.state != "works":
        return found
    try:
        size = len(script())
    except DeviceError:
        is_checkout = Path(luminal_lab.__file__).resolve().parents[1].joinpath("frontend").is_dir()
        mend = "make frontend" if is_checkout else "pip install --force-reinstall luminal-lab"
        return Found("missing", "the script of live pictures is not built", mend)
    return Found("works", f"{found.what}, and our script, {size / 1000:.0f} kB")


def tables() -> Found:
    """Look for what tables, charts and bars need."""
    return _installed(["pandas", "plotly", "tqdm"], "no tables, charts or progress bars")


def layout() -> Found:
    """Look for what lays out small graphs."""
    found = _installed(["pygraphviz"], "graphs are laid out by our own engine")
    return found if found.state == "works" else Found("none", found.what)


def _installed(names: Iterable[str], without: str) -> Found:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        return Found("missing", f"{' and '.join(missing)} not installed: {without}", LAB)
    return Found("works", _versions(*names))


def _versions(*names: str) -> str:
    """Return packages with their versions, as far as these are known."""
    found: list[str] = []
    for name in names:
        known = ""
        with suppress(metadata.PackageNotFoundError):
            known = metadata.version(name)
        found.append(f"{name} {known}".strip())
    return ", ".join(found)


CHECKS = (
    Check("python", python, is_basic=True),
    Check("packages", packages, is_basic=True),
    Check("interpreter", interpreter, is_basic=True),
    Check("compiler", compiler),
    Check("trials", trials),
    Check("cores", cores),
    Check("simd", simd),
    Check("cache", folder),
    Check("emulator", emulator),
    Check("gpu", nvidia),
    Check("cuda", cupy),
    Check("nvrtc", ptx),
    Check("metal", metal),
    Check("jupyterlab", jupyter),
    Check("widgets", widgets),
    Check("tables", tables),
    Check("layout", layout),
)
