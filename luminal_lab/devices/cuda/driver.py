"""Whether there is an NVIDIA GPU that CuPy can use, its memory, code on it, and tensor maps."""

from __future__ import annotations

import ctypes
import functools
import importlib
from typing import Any, Final, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.gpu.nvrtc import compile_cuda
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.tile_map import BYTES, TileMap

STILL: Final = (
    "the source, PTX and resources of kernels are available without it; emulate=True runs small "
    "sizes on the CPU"
)
"""What works where nothing runs."""
NO_DEVICE, OLD_DRIVER, NO_MEMORY = 100, 35, 2
KINDS: Final = {DType.float16: "FLOAT16", DType.bfloat16: "BFLOAT16"}
"""The names of dtypes in CUtensorMapDataType."""


def import_cupy() -> Any:  # noqa: ANN401  # CuPy has no types
    """Return CuPy, or say that it is not there."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        fault = f"cuda: CuPy, which runs kernels, is not installed ({error})"
        raise device_error(fault, hint=f'pip install "luminal-lab[cuda]"; {STILL}') from error


def gpu_count() -> int:
    """Return how many GPUs there are, or say why none can be used."""
    runtime = import_cupy().cuda.runtime
    driver: int = runtime.driverGetVersion()
    if not driver:
        raise device_error(
            "cuda: there is no NVIDIA driver on this machine, and so no GPU to run on", hint=STILL
        )
    try:
        return int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if error.status == OLD_DRIVER:
            raise device_error(
                f"cuda: the driver knows CUDA {version_text(driver)}, and CuPy is made for "
                f"{version_text(runtime.runtimeGetVersion())}",
                hint=f"install a newer driver, or CuPy for the older CUDA; {STILL}",
            ) from error
        if error.status == NO_DEVICE:
            return 0
        raise device_error(
            f"cuda: the driver finds no GPU that can be used: {error}", hint=STILL
        ) from error


def unless_present() -> None:
    """Raise a DeviceError if there is no GPU to run on."""
    if not gpu_count():
        raise device_error("cuda: there is no NVIDIA GPU on this machine", hint=STILL)


def version_text(number: int) -> str:
    """Return a version as people write it.

    >>> version_text(13020)
    '13.2'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


class Present(NamedTuple):
    """The GPU that is here."""

    arch: str
    cores: int
    """Its multiprocessors."""


def present() -> Present | None:
    """Return the GPU that is here, if there is one."""
    try:
        if not gpu_count():
            return None
    except DeviceError:
        return None
    device = import_cupy().cuda.Device()
    capability = str(device.compute_capability)
    # Features of only this generation, such as products of whole warp groups, need an a.
    arch = f"sm_{capability}a" if int(capability) >= 90 else f"sm_{capability}"
    return Present(arch, int(device.attributes["MultiProcessorCount"]))


class DeviceMemory:
    """Memory of the GPU alone, released when nothing needs it any more."""

    def __init__(self, owner: Any, size: int) -> None:  # noqa: ANN401  # CuPy's
        self.owner = owner
        self.bytes = size
        self.address = int(owner.ptr)


class ManagedBlock(MemoryBlock):
    """Memory that host and GPU see, and whose pages lie where they were last used."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any, size: int) -> None:  # noqa: ANN401  # CuPy's
        self.owner = owner
        seen: Any = (ctypes.c_ubyte * max(1, size)).from_address(int(owner.ptr))
        seen.owner = owner  # an array in it keeps the memory
        self.lie_in(np.frombuffer(seen, np.uint8), size)


@functools.lru_cache(maxsize=64)
def load_module(device: int, capability: str, arch: str, source: str) -> Any:  # noqa: ANN401  # CuPy's
    """Return a source compiled and loaded; equal sources share one module."""
    compiled = compile_cuda(source, arch)
    cupy = import_cupy()
    module = cupy.cuda.Module()
    plain = arch.removeprefix("sm_").rstrip("af")
    # Machine code is for one generation; PTX is for all later ones, and compiled by the driver.
    same = plain[:-1] == capability[:-1] and int(plain) <= int(capability)
    image = compiled.cubin if same else compiled.ptx.encode()
    try:
        module.load(image)
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        status = int(getattr(error, "status", 0))
        if status == NO_MEMORY:
            raise MemoryError(str(error)) from error
        raise device_error(
            f"cuda: the kernels are for {arch}, the GPU is sm_{capability}, and the driver does "
            f"not take them: {error}",
            hint=f'give arch="sm_{capability}", or leave it out; {STILL}',
        ) from error
    return module


@functools.lru_cache(maxsize=4096)
def tensor_map(address: int, tile: TileMap) -> Array:
    """Return the map of a matrix at an address of the GPU's, as a kernel's argument.

    CuPy passes an array of one element by its bytes.
    """
    driver: Any = importlib.import_module("cuda.bindings.driver")
    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    status, encoded = driver.cuTensorMapEncodeTiled(
        getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{KINDS[tile.dtype]}"),
        2,
        address,
        [driver.cuuint64_t(tile.width), driver.cuuint64_t(tile.height)],
        [driver.cuuint64_t(tile.pitch)],
        [driver.cuuint32_t(tile.columns), driver.cuuint32_t(tile.rows)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzles.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status):
        raise device_error(
            f"cuda: the driver makes no tensor map of {tile.buffer}, {tile.height:,} rows of "
            f"{tile.width:,}: status {int(status)}",
            hint='arch="sm_90" has kernels that need none',
        )
    words = np.array([int(word) for word in encoded.opaque], np.uint64)
    return words.view(np.dtype((np.void, BYTES)))
