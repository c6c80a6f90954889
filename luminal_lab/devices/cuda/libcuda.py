"""An NVIDIA GPU through its driver's library, by ctypes: no CuPy, and no toolkit.

    void *memory, code, functions      cuMemAlloc_v2, cuModuleLoadData, cuModuleGetFunction
    one stream                         cuMemcpyAsync, cuLaunchKernel, cuEventRecord, cuGraphLaunch

`CALLS` has the type of each parameter, as cuda.h declares it; ctypes turns everything into these.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeAlias, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.cuda.calls import (
    NO_DEVICE,
    NO_MEMORY,
    NOT_READY,
    STILL,
    DeviceMemory,
    Driver,
    Graph,
    ManagedBlock,
    Sized,
)
from luminal_lab.devices.gpu.engine import Argument, Location, Mapped
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.kernels.tile_map import BYTES, TileMap

Kind: TypeAlias = Any
"""A type of ctypes."""
INT, UINT, WORD = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64
ADDRESS, SIZE, HANDLE = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
"""A place in the GPU's memory, a number of bytes, and what the driver's objects are known by."""


def to(kind: Kind) -> Kind:
    """Return a pointer to a type."""
    return cast("Kind", ctypes.POINTER(kind))


class NodeParams(ctypes.Structure):
    """A launch in a graph: CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", HANDLE),
        *((name, UINT) for name in ("blocks", "blocks_y", "blocks_z")),
        *((name, UINT) for name in ("threads", "threads_y", "threads_z", "shared")),
        ("arguments", to(HANDLE)),
        *((name, HANDLE) for name in ("extra", "kernel", "context")),
    )


CALLS: Final[dict[str, tuple[Kind, ...]]] = {
    "cuInit": (UINT,),
    "cuGetErrorName": (INT, to(ctypes.c_char_p)),
    "cuDriverGetVersion": (to(INT),),
    "cuDeviceGetCount": (to(INT),),
    "cuDeviceGet": (to(INT), INT),
    "cuDeviceGetName": (ctypes.c_char_p, INT, INT),
    "cuDeviceGetAttribute": (to(INT), INT, INT),
    "cuDevicePrimaryCtxRetain": (to(HANDLE), INT),
    "cuCtxSetCurrent": (HANDLE,),
    "cuMemAlloc_v2": (to(ADDRESS), SIZE),
    "cuMemAllocManaged": (to(ADDRESS), SIZE, UINT),
    "cuMemFree_v2": (ADDRESS,),
    "cuMemGetInfo_v2": (to(SIZE), to(SIZE)),
    "cuMemcpyAsync": (ADDRESS, ADDRESS, SIZE, HANDLE),
    "cuMemsetD8Async": (ADDRESS, ctypes.c_ubyte, SIZE, HANDLE),
    "cuStreamCreate": (to(HANDLE), UINT),
    "cuStreamDestroy_v2": (HANDLE,),
    "cuStreamQuery": (HANDLE,),
    "cuStreamSynchronize": (HANDLE,),
    "cuModuleLoadData": (to(HANDLE), ctypes.c_char_p),
    "cuModuleUnload": (HANDLE,),
    "cuModuleGetFunction": (to(HANDLE), HANDLE, ctypes.c_char_p),
    "cuFuncSetAttribute": (HANDLE, INT, INT),
    "cuLaunchKernel": (HANDLE, *[UINT] * 7, HANDLE, to(HANDLE), to(HANDLE)),
    "cuEventCreate": (to(HANDLE), UINT),
    "cuEventDestroy_v2": (HANDLE,),
    "cuEventRecord": (HANDLE, HANDLE),
    "cuEventElapsedTime": (to(ctypes.c_float), HANDLE, HANDLE),
    "cuGraphCreate": (to(HANDLE), UINT),
    "cuGraphDestroy": (HANDLE,),
    "cuGraphAddKernelNode_v2": (to(HANDLE), HANDLE, to(HANDLE), SIZE, to(NodeParams)),
    "cuGraphInstantiateWithFlags": (to(HANDLE), HANDLE, WORD),
    "cuGraphExecKernelNodeSetParams_v2": (HANDLE, HANDLE, to(NodeParams)),
    "cuGraphLaunch": (HANDLE, HANDLE),
    "cuGraphExecDestroy": (HANDLE,),
    "cuTensorMapEncodeTiled": (
        *(HANDLE, INT, UINT, HANDLE, to(WORD), to(WORD), to(UINT), to(UINT)),
        *[INT] * 4,
    ),
}
"""The calls, and the types of what they take, as in cuda.h; each returns a status."""
NAMES: Final = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
NOT_FOUND: Final = 500
CORES, MAJOR, MINOR, CONCURRENT = 16, 75, 76, 89
"""Attributes of a GPU."""
MOST_SHARED: Final = 8
"""The attribute of a function that says with how much shared memory it may be launched."""
NON_BLOCKING, FOR_ALL = 1, 1
"""A stream that waits for no other, and managed memory for any stream."""
KINDS: Final = {DType.float16: 6, DType.bfloat16: 9}
"""The numbers of dtypes in CUtensorMapDataType."""
SWIZZLE_128B, PROMOTION_256B = 3, 3
ALIGNED: Final = 128
"""Tensor maps begin at multiples of this: cuda.h asks for 64 bytes, and from 13.0 on for 128."""


class LibcudaError(RuntimeError):
    """A call of the driver's that has failed."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@functools.cache
def library() -> Any:  # noqa: ANN401  # ctypes'
    """Return the driver's library, or raise an error that there is none."""
    for name in NAMES:
        with suppress(OSError):
            return ctypes.CDLL(name)
    raise device_error(
        "cuda: there is no NVIDIA driver on this machine, and so no GPU to run on",
        hint=STILL,
    )


@functools.cache
def _typed(name: str) -> Any:  # noqa: ANN401  # as above
    """Return one of the library's functions, which takes what cuda.h says."""
    try:
        function = getattr(library(), name)
    except AttributeError:
        raise LibcudaError(NOT_FOUND, f"{name}: the driver is too old: it has none") from None
    function.argtypes, function.restype = CALLS[name], INT
    return function


def call(name: str, *given: object) -> None:
    """Call the driver, or raise its error."""
    status = int(_typed(name)(*given))
    if status:
        text = ctypes.c_char_p()
        _typed("cuGetErrorName")(status, ctypes.byref(text))
        said = (text.value or b"an error without a name").decode()
        raise LibcudaError(status, f"{name}: {said}: error {status}")


def got(kind: Kind, name: str, *given: object) -> Any:  # noqa: ANN401  # as above
    """Return what a call writes to its first parameter."""
    result = kind()
    call(name, ctypes.byref(result), *given)
    return result.value


@functools.lru_cache(maxsize=4096)
def tensor_map(address: int, tile: TileMap) -> Array:
    """Return the map of a matrix at an address of the GPU's, an array of one element."""
    room = np.zeros(BYTES + ALIGNED, np.uint8)
    begin: int = room.ctypes.data
    at = -begin % ALIGNED
    made = room[at : at + BYTES]
    encoded: int = made.ctypes.data
    try:
        call(
            "cuTensorMapEncodeTiled", encoded, KINDS[tile.dtype], 2, address,
            (WORD * 2)(tile.width, tile.height), (WORD * 1)(tile.pitch),
            (UINT * 2)(tile.columns, tile.rows), (UINT * 2)(1, 1),
            0, SWIZZLE_128B, PROMOTION_256B, 0,
        )  # fmt: skip
    except LibcudaError as error:
        raise device_error(
            f"cuda: the driver makes no tensor map of {tile.buffer}, {tile.height:,} rows of "
            f"{tile.width:,}: status {error.status}",
            hint='arch="sm_90" has kernels that need none',
        ) from error
    return made.view(np.dtype((np.void, BYTES)))


@functools.cache
def _context(number: int) -> int:
    """Return the context that all parts of a process share, CuPy and PyTorch included."""
    device = got(INT, "cuDeviceGet", number)
    return got(HANDLE, "cuDevicePrimaryCtxRetain", device)


_threads = threading.local()


class Held:
    """One of the driver's objects, released when nothing needs it any more."""

    def __init__(self, handle: int, release: str) -> None:
        self.handle = handle
        weakref.finalize(self, _typed(release), handle).atexit = False


class Libcuda(Driver):
    """The first GPU that the driver shows, and a stream of its own."""

    errors: tuple[type[Exception], ...] = (LibcudaError,)
    number = 0

    def __init__(self) -> None:
        library()

    @property
    @override
    def version(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # read alone
        return got(INT, "cuDriverGetVersion")

    @override
    def count(self) -> int:
        try:
            call("cuInit", 0)
            return got(INT, "cuDeviceGetCount")
        except LibcudaError as error:
            if error.status == NO_DEVICE:
                return 0
            fault = f"cuda: the driver finds no GPU that can be used: {error}"
            raise device_error(fault, hint=STILL) from error

    @override
    def find(self) -> None:
        call("cuInit", 0)
        device = got(INT, "cuDeviceGet", self.number)
        name = ctypes.create_string_buffer(128)
        call("cuDeviceGetName", name, len(name), device)

        def attribute(which: int) -> int:
            return got(INT, "cuDeviceGetAttribute", which, device)

        self.name = name.value.decode()
        self.capability = f"{attribute(MAJOR)}{attribute(MINOR)}"
        self.cores, self.can_share = attribute(CORES), bool(attribute(CONCURRENT))

    @override
    def begin(self) -> None:
        self._enter()
        stream = got(HANDLE, "cuStreamCreate", NON_BLOCKING)
        self._stream = Held(stream, "cuStreamDestroy_v2")
        self.stream = stream

    def _enter(self) -> None:
        """Make the context this thread's, once."""
        if not getattr(_threads, "has_entered", False):
            call("cuCtxSetCurrent", _context(self.number))
            _threads.has_entered = True

    # -- memory ------------------------------------------------------------------------------------

    @override
    def allocate(self, size: int) -> DeviceMemory:
        address = self._memory("cuMemAlloc_v2", size)
        return DeviceMemory(Held(address, "cuMemFree_v2"), address, size)

    @override
    def share(self, size: int) -> MemoryBlock:
        address = self._memory("cuMemAllocManaged", size, FOR_ALL)
        return ManagedBlock(Held(address, "cuMemFree_v2"), address, size)

    def _memory(self, name: str, size: int, *more: int) -> int:
        self._enter()
        try:
            return got(ADDRESS, name, max(1, size), *more)
        except LibcudaError as error:
            if error.status == NO_MEMORY:
                raise MemoryError(str(error)) from error
            raise

    @override
    def free_bytes(self) -> int:
        self._enter()
        free, total = SIZE(), SIZE()
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    @override
    def copy(self, to: int, of: int, size: int) -> None:
        self._enter()
        call("cuMemcpyAsync", to, of, size, self.stream)

    @override
    def fill(self, to: int, size: int) -> None:
        self._enter()
        call("cuMemsetD8Async", to, 0, size, self.stream)

    # -- the stream --------------------------------------------------------------------------------

    @override
    def is_busy(self) -> bool:
        self._enter()
        try:
            call("cuStreamQuery", self.stream)
        except LibcudaError as error:
            if error.status == NOT_READY:
                return True
            raise
        return False

    @override
    def wait(self) -> None:
        self._enter()
        call("cuStreamSynchronize", self.stream)

    @override
    def load(self, image: bytes) -> Held:
        self._enter()
        return Held(got(HANDLE, "cuModuleLoadData", image), "cuModuleUnload")

    @override
    def function(self, module: Held, name: str, shared: int | None) -> int:
        function: int = got(HANDLE, "cuModuleGetFunction", module.handle, name.encode())
        if shared is not None:
            call("cuFuncSetAttribute", function, MOST_SHARED, shared)
        return function

    @override
    def launch(self, launch: Sized) -> None:
        self._enter()
        given = Given(launch.arguments)
        blocks, threads = (launch.blocks, 1, 1), (launch.threads, 1, 1)
        sizes = *blocks, *threads, launch.shared
        call("cuLaunchKernel", launch.function, *sizes, self.stream, given.places, None)

    @override
    def event(self) -> Held:
        self._enter()
        return Held(got(HANDLE, "cuEventCreate", 0), "cuEventDestroy_v2")

    @override
    def note(self, event: Held) -> None:
        call("cuEventRecord", event.handle, self.stream)

    @override
    def seconds(self, first: Held, last: Held) -> float:
        return 1e-3 * got(ctypes.c_float, "cuEventElapsedTime", first.handle, last.handle)

    @override
    def graph(self, launches: Sequence[Sized]) -> Graph:
        self._enter()
        return LibcudaGraph(launches, self.stream)


class Given:
    """The arguments of a launch, and where each lies: the driver copies them from there."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self.held = [_bytes_of(argument) for argument in arguments]
        begins = [array.ctypes.data for array in self.held]
        self.places = (HANDLE * max(1, len(begins)))(*begins)


def _bytes_of(argument: Argument) -> Array:
    if isinstance(argument, Mapped):
        return tensor_map(argument.location.address, argument.tile)
    if isinstance(argument, Location):
        return np.array(argument.address, np.uint64)
    return np.array(argument)


class LibcudaGraph(Graph):
    """A chain of launches, whose grids and arguments can be changed one by one."""

    can_change: ClassVar[bool] = True

    def __init__(self, launches: Sequence[Sized], stream: int) -> None:
        self.stream = stream
        # It stays, since its nodes name those of what is made ready.
        self.whole = Held(got(HANDLE, "cuGraphCreate", 0), "cuGraphDestroy")
        whole, self.nodes = self.whole.handle, list[int]()
        for launch in launches:
            before = self.nodes[-1:]
            waits = (HANDLE * max(1, len(before)))(*before)
            given = Given(launch.arguments)
            params = ctypes.byref(_params(launch, given))
            node = got(HANDLE, "cuGraphAddKernelNode_v2", whole, waits, len(before), params)
            self.nodes.append(node)
        ready = got(HANDLE, "cuGraphInstantiateWithFlags", whole, 0)
        self.ready = Held(ready, "cuGraphExecDestroy")

    @override
    def launch(self) -> None:
        call("cuGraphLaunch", self.ready.handle, self.stream)

    @override
    def change(self, at: int, launch: Sized) -> None:
        given = Given(launch.arguments)
        params = ctypes.byref(_params(launch, given))
        call("cuGraphExecKernelNodeSetParams_v2", self.ready.handle, self.nodes[at], params)


def _params(launch: Sized, given: Given) -> NodeParams:
    sizes = launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared
    return NodeParams(launch.function, *sizes, given.places, None, None, None)
