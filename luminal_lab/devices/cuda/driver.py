"""Whether there is an NVIDIA GPU, who calls its driver for us, and code on it.

    cupy      through_cupy.py: CuPy, which brings cuBLAS along
    driver    libcuda.py: NVIDIA's driver by ctypes, which needs nothing else

Both are a `Driver` (calls.py); engine.py does with either what a program needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.cuda.calls import NO_MEMORY, STILL, Driver
from luminal_lab.devices.cuda.libcuda import Libcuda
from luminal_lab.devices.cuda.through_cupy import CuPyDriver, is_installed
from luminal_lab.devices.gpu.nvrtc import compile_cuda
from luminal_lab.errors import DeviceError

Calls: TypeAlias = Literal["cupy", "driver"]
"""Who calls the driver."""
CALLS: Final[tuple[Calls, ...]] = "cupy", "driver"


def driver_class(calls: Calls | None) -> type[Driver]:
    """Return who calls the driver: whoever is asked for, or else CuPy if it is installed."""
    if calls == "driver" or (calls is None and not is_installed()):
        return Libcuda
    return CuPyDriver


def gpu_count(calls: Calls | None = None) -> int:
    """Return how many GPUs there are, or say why none can be used."""
    return driver_class(calls)().count()


def unless_present(calls: Calls | None = None) -> None:
    """Raise a DeviceError if there is no GPU to run on."""
    if not gpu_count(calls):
        raise device_error("cuda: there is no NVIDIA GPU on this machine", hint=STILL)


class Present(NamedTuple):
    """The GPU that is here."""

    arch: str
    cores: int
    """Its multiprocessors."""


def present(calls: Calls | None = None) -> Present | None:
    """Return the GPU that is here, if there is one."""
    driver = None
    try:
        driver = driver_class(calls)()
        if not driver.count():
            return None
        driver.find()
    except DeviceError:
        return None
    # Features of only this generation, such as products of whole warp groups, need an a.
    is_new = int(driver.capability) >= 90
    return Present(f"sm_{driver.capability}{'a' * is_new}", driver.cores)


Image: TypeAlias = Callable[[str, str, str], bytes]
"""Returns machine code or PTX for a source, an architecture and the GPU's capability."""


def compiled_image(source: str, arch: str, capability: str) -> bytes:
    """Return what a GPU loads of a source, compiled by NVRTC."""
    compiled = compile_cuda(source, arch)
    plain = arch.removeprefix("sm_").rstrip("af")
    # Machine code is for one generation; PTX is for all later ones, and compiled by the driver.
    same = plain[:-1] == capability[:-1] and int(plain) <= int(capability)
    return compiled.cubin if same else compiled.ptx.encode()


@functools.lru_cache(maxsize=64)
def load_module(
    driver: type[Driver], device: int, capability: str, arch: str, source: str, image: Image
) -> Any:  # noqa: ANN401  # of a binding without types
    """Return a source compiled and loaded; equal sources share one module."""
    calls = driver()
    try:
        return calls.load(image(source, arch, capability))
    except calls.errors as error:
        if getattr(error, "status", 0) == NO_MEMORY:
            raise MemoryError(str(error)) from error
        raise device_error(
            f"cuda: the kernels are for {arch}, the GPU is sm_{capability}, and the driver does "
            f"not take them: {error}",
            hint=f'give arch="sm_{capability}", or leave it out; {STILL}',
        ) from error
