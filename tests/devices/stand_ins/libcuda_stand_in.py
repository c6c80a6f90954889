"""A stand-in for NVIDIA's driver: calls come in as C's do, and kernels run in the emulator.

Each function has its parameters here as cuda.h declares them, and is a real function pointer, so
that what ctypes makes of the arguments is what the driver would see. Memory, streams, events and
graphs have lifetimes: what uses one that is gone, or memory that is not the GPU's, is refused.
"""

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from luminal_lab.core.dtypes import DType
from luminal_lab.emulator import Call, Matrix, emulate
from luminal_lab.kernels.tile_map import TileMap
from tests.devices.stand_ins.refusing import Refused, bytes_at

N, U, W, P = ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_void_p
"""Numbers and addresses: CUresult(*)(…) in terms of what a register or the stack holds."""
HEADER = {
    "cuInit": (U,),
    "cuGetErrorName": (N, P),
    "cuDriverGetVersion": (P,),
    "cuDeviceGetCount": (P,),
    "cuDeviceGet": (P, N),
    "cuDeviceGetName": (P, N, N),
    "cuDeviceGetAttribute": (P, N, N),
    "cuDevicePrimaryCtxRetain": (P, N),
    "cuCtxSetCurrent": (P,),
    "cuMemAlloc_v2": (P, W),
    "cuMemAllocManaged": (P, W, U),
    "cuMemFree_v2": (W,),
    "cuMemGetInfo_v2": (P, P),
    "cuMemcpyAsync": (W, W, W, P),
    "cuMemsetD8Async": (W, ctypes.c_ubyte, W, P),
    "cuStreamCreate": (P, U),
    "cuStreamDestroy_v2": (P,),
    "cuStreamQuery": (P,),
    "cuStreamSynchronize": (P,),
    "cuModuleLoadData": (P, P),
    "cuModuleUnload": (P,),
    "cuModuleGetFunction": (P, P, P),
    "cuFuncSetAttribute": (P, N, N),
    "cuLaunchKernel": (P, U, U, U, U, U, U, U, P, P, P),
    "cuEventCreate": (P, U),
    "cuEventDestroy_v2": (P,),
    "cuEventRecord": (P, P),
    "cuEventElapsedTime": (P, P, P),
    "cuGraphCreate": (P, U),
    "cuGraphDestroy": (P,),
    "cuGraphAddKernelNode_v2": (P, P, P, W, P),
    "cuGraphInstantiateWithFlags": (P, P, W),
    "cuGraphExecKernelNodeSetParams_v2": (P, P, P),
    "cuGraphLaunch": (P, P),
    "cuGraphExecDestroy": (P,),
    "cuTensorMapEncodeTiled": (P, N, U, P, P, P, P, P, N, N, N, N),
}
ERRORS = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    100: b"CUDA_ERROR_NO_DEVICE",
    201: b"CUDA_ERROR_INVALID_CONTEXT",
    209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
    400: b"CUDA_ERROR_INVALID_HANDLE",
    500: b"CUDA_ERROR_NOT_FOUND",
    600: b"CUDA_ERROR_NOT_READY",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    701: b"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    719: b"CUDA_ERROR_LAUNCH_FAILED",
    801: b"CUDA_ERROR_NOT_SUPPORTED",
}
FIELDS = np.dtype(
    [
        ("function", "u8"),
        *((name, "u4") for name in ("x", "y", "z", "tx", "ty", "tz", "shared", "pad")),
        *((name, "u8") for name in ("arguments", "extra", "kernel", "context")),
    ]
)
"""CUDA_KERNEL_NODE_PARAMS_v2, 72 bytes: a void pointer begins at a multiple of 8."""
TYPES = {
    "lab_i64": np.int64, "lab_u64": np.uint64, "lab_i32": np.int32, "lab_u32": np.uint32,
    "float": np.float32, "double": np.float64, "lab_bool": np.bool_, "int": np.int32,
    "unsigned": np.uint32, "long long": np.int64,
}  # fmt: skip
MAP_BYTES, MAP_ALIGNED = 128, 128
SIZES = {None: MAP_BYTES, "pointer": 8}
MOST_SHARED = 232_448


class Failed(Exception):  # noqa: N818  # a call returns its status
    """What a call returns in place of 0."""

    def __init__(self, status: int) -> None:
        self.status = status


class LibcudaStandIn:
    """A GPU as its driver's library shows it, on this machine's memory."""

    def __init__(
        self, *, capability: str = "90", shares: bool = True, memory: int = 1 << 30
    ) -> None:
        self.capability, self.shares, self.left = capability, shares, memory
        self.version, self.devices = 13_000, 1
        self.sizes: dict[tuple[str, int], int] = {}
        """The bytes of values, as programs place them: by functions and addresses."""
        self.memory: dict[int, int] = {}
        self.launched: list[tuple[str, int, int]] = []
        self.maps: list[tuple[int, ...]] = []
        self.map_status = 0
        self.given: list[str] = []
        """The calls that were made, in order."""
        self.fails: dict[str, list[int]] = {}
        """For calls the statuses that they end in, one after another; 0 lets one pass."""
        self.missing: set[str] = set()
        """Functions that this driver is too old for."""
        self.refused: list[BaseException] = []
        """What no driver takes; a test that ends with one fails."""
        self.hangs: Callable[[], int] = lambda: 0
        self.milliseconds = 0.0
        self._raw: dict[int, Any] = {}
        self._objects: dict[int, Any] = {}
        self._kinds: dict[int, str] = {}
        self._next = 0x10_0000_0000  # a handle needs more than 32 bits
        self._kept: dict[str, Any] = {}
        self._current = 0

    # -- being called ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name not in HEADER or name in self.missing:
            raise AttributeError(name)
        if name not in self._kept:
            kind = ctypes.CFUNCTYPE(N, *HEADER[name])
            real = kind(lambda *given: self._called(name, given))
            # As a library's function, it takes what the caller says that it takes.
            self._kept[name] = (real, ctypes.cast(real, ctypes.CFUNCTYPE(N)))
        return _Symbol(self._kept[name][0])

    def _called(self, name: str, given: tuple[Any, ...]) -> int:
        if name != "cuGetErrorName":
            self.given.append(name)
        waiting = self.fails.get(name)
        status = waiting.pop(0) if waiting else 0
        if status:
            return status
        try:
            getattr(self, f"_{name}")(*[0 if one is None else one for one in given])
        except Failed as failed:
            return failed.status
        except BaseException as error:  # ctypes would only print it
            self.refused.append(error)
            return 999
        return 0

    def count(self, name: str) -> int:
        """Return how often a call was made."""
        return self.given.count(name)

    def _make(self, kind: str, value: Any) -> int:
        self._next += 64
        self._objects[self._next], self._kinds[self._next] = value, kind
        return self._next

    def _of(self, kind: str, handle: int) -> Any:
        if self._kinds.get(handle) != kind:
            raise Refused(f"{handle:#x} is {self._kinds.get(handle, 'nothing')}, and no {kind}")
        return self._objects[handle]

    def _drop(self, kind: str, handle: int) -> None:
        self._of(kind, handle)
        del self._objects[handle], self._kinds[handle]

    def _entered(self) -> None:
        if not self._current:
            raise Failed(201)

    # Methods are named as the calls that they stand for.
    # ruff: noqa: N802

    # -- the GPU -----------------------------------------------------------------------------------

    def _cuInit(self, flags: int) -> None:
        if flags:
            raise Failed(1)
        if not self.devices:
            raise Failed(100)

    def _cuGetErrorName(self, status: int, text: int) -> None:
        said = ctypes.create_string_buffer(ERRORS.get(status, b"CUDA_ERROR_UNKNOWN"))
        self._kept[f"text {status}"] = said
        _put(text, W, ctypes.addressof(said))

    def _cuDriverGetVersion(self, version: int) -> None:
        _put(version, N, self.version)

    def _cuDeviceGetCount(self, count: int) -> None:
        _put(count, N, self.devices)

    def _cuDeviceGet(self, device: int, number: int) -> None:
        if not 0 <= number < self.devices:
            raise Failed(101)
        _put(device, N, number)

    def _cuDeviceGetName(self, name: int, size: int, device: int) -> None:
        assert device == 0
        ctypes.memmove(name, b"Stand-in\0"[:size], 9)

    def _cuDeviceGetAttribute(self, value: int, which: int, device: int) -> None:
        assert device == 0
        major, minor = int(self.capability[:-1]), int(self.capability[-1])
        _put(value, N, {16: 132, 75: major, 76: minor, 89: int(self.shares)}[which])

    def _cuDevicePrimaryCtxRetain(self, context: int, device: int) -> None:
        assert device == 0
        _put(context, W, self._make("context", None))

    def _cuCtxSetCurrent(self, context: int) -> None:
        self._of("context", context)
        self._current = context

    # -- memory ------------------------------------------------------------------------------------

    def _cuMemAlloc_v2(self, address: int, size: int) -> None:
        self._entered()
        if not size:
            raise Failed(1)
        if size > self.left:
            raise Failed(2)
        raw = ctypes.create_string_buffer(size + 256)
        at = ctypes.addressof(raw) + -ctypes.addressof(raw) % 256
        np.copyto(bytes_at(at, size), 0xCD)  # nobody has written there
        self.memory[at], self._raw[at] = size, raw
        self.left -= size
        _put(address, W, at)

    def _cuMemAllocManaged(self, address: int, size: int, flags: int) -> None:
        assert flags == 1
        self._cuMemAlloc_v2(address, size)

    def _cuMemFree_v2(self, address: int) -> None:
        if address not in self.memory:
            raise Refused(f"{address:#x} is freed, and was not allocated")
        for stream in self._all("stream"):
            self._done(stream)  # it waits for what is under way
        self.left += self.memory.pop(address)
        del self._raw[address]

    def _cuMemGetInfo_v2(self, free: int, total: int) -> None:
        self._entered()
        _put(free, W, self.left)
        _put(total, W, 1 << 30)

    def _is_mine(self, address: int, size: int) -> bool:
        return any(at <= address and address + size <= at + n for at, n in self.memory.items())

    def _cuMemcpyAsync(self, to: int, of: int, size: int, stream: int) -> None:
        self._entered()
        if not (self._is_mine(to, size) or self._is_mine(of, size)):
            raise Refused("neither end of a copy is on the GPU")

        def copied() -> None:
            ctypes.memmove(to, of, size)

        self._of("stream", stream).append(copied)

    def _cuMemsetD8Async(self, to: int, value: int, size: int, stream: int) -> None:
        if not self._is_mine(to, size):
            raise Refused("what is set is not on the GPU")

        def filled() -> None:
            ctypes.memset(to, value, min(size, 64))

        self._of("stream", stream).append(filled)

    # -- streams and events ------------------------------------------------------------------------

    def _all(self, kind: str) -> list[Any]:
        return [self._objects[handle] for handle, of in self._kinds.items() if of == kind]

    def _done(self, stream: list[Callable[[], None]]) -> None:
        todo, stream[:] = list(stream), []
        for does in todo:
            does()

    def _cuStreamCreate(self, stream: int, flags: int) -> None:
        self._entered()
        assert flags == 1
        _put(stream, W, self._make("stream", []))

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        self._drop("stream", stream)

    def _cuStreamQuery(self, stream: int) -> None:
        self._of("stream", stream)
        if status := self.hangs():
            raise Failed(status)

    def _cuStreamSynchronize(self, stream: int) -> None:
        self._done(self._of("stream", stream))

    def _cuEventCreate(self, event: int, flags: int) -> None:
        assert flags == 0
        _put(event, W, self._make("event", []))

    def _cuEventDestroy_v2(self, event: int) -> None:
        self._drop("event", event)

    def _cuEventRecord(self, event: int, stream: int) -> None:
        noted = self._of("event", event)

        def stamp() -> None:
            self.milliseconds += 0.25
            noted[:] = [self.milliseconds]

        self._of("stream", stream).append(stamp)

    def _cuEventElapsedTime(self, result: int, first: int, last: int) -> None:
        begin, end = self._of("event", first), self._of("event", last)
        if not begin or not end:
            raise Failed(600)
        _put(result, ctypes.c_float, end[0] - begin[0])

    # -- kernels -----------------------------------------------------------------------------------

    def _cuModuleLoadData(self, module: int, image: int) -> None:
        self._entered()
        _put(module, W, self._make("module", ctypes.string_at(image).decode()))

    def _cuModuleUnload(self, module: int) -> None:
        source = self._of("module", module)
        self._drop("module", module)
        for handle, kind in list(self._kinds.items()):
            if kind == "function" and self._objects[handle]["source"] is source:
                self._drop("function", handle)

    def _cuModuleGetFunction(self, function: int, module: int, name: int) -> None:
        source, text = self._of("module", module), ctypes.string_at(name).decode()
        found = re.search(rf"\b{text}\(([^{{]*?)\)\s*\{{", source)
        if not found:
            raise Failed(500)
        kinds = [_kind(one.strip()) for one in found[1].split(",")]
        known = {"source": source, "name": text, "kinds": kinds, "most": 48 << 10}
        _put(function, W, self._make("function", known))

    def _cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        if attribute != 8 or value > MOST_SHARED:
            raise Failed(1)
        self._of("function", function)["most"] = value

    def _taken(
        self, function: int, sizes: tuple[int, ...], shared: int, places: int
    ) -> Callable[[], None]:
        """Return a launch, whose arguments are copied now."""
        known = self._of("function", function)
        x, y, z, tx, ty, tz = sizes
        if min(sizes) < 1 or y * z * ty * tz != 1 or tx > 1024 or shared > known["most"]:
            raise Failed(1)
        each = bytes_at(places, 8 * len(known["kinds"])).view(np.uint64)
        given: list[Any] = []
        for kind, at in zip(known["kinds"], each, strict=True):
            size = SIZES[kind] if kind in SIZES else np.dtype(kind).itemsize
            given.append(bytes_at(int(at), size).copy())

        def run() -> None:
            arguments = [
                self._argument(known["name"], kind, data)
                for kind, data in zip(known["kinds"], given, strict=True)
            ]
            self.launched.append((known["name"], x, tx))
            launch = Call(known["name"], x, tx, arguments, shared=shared)
            emulate(known["source"], "cuda", [launch])

        return run

    def _argument(self, name: str, kind: Any, data: np.ndarray) -> Any:
        if kind is None:
            words = data.view(np.uint64)
            address, width, height, _, _, rows, _, is_half = map(int, words[:8])
            dtype = DType.float16 if is_half else DType.bfloat16
            array = bytes_at(address, height * int(words[3]))
            return Matrix(array, TileMap("matrix", 0, dtype, width, height, rows))
        if kind == "pointer":
            address = int(data.view(np.uint64)[0])
            if not self._is_mine(address, 0):
                raise Refused(f"a kernel is given {address:#x}, which is not the GPU's")
            return bytes_at(address, self.sizes[name, address])
        return data.view(kind)[0]

    def _cuLaunchKernel(self, function: int, *given: int) -> None:
        self._entered()
        *sizes, shared, stream, places, extra = given
        assert not extra
        run = self._taken(function, tuple(sizes), shared, places)
        self._of("stream", stream).append(run)

    # -- graphs ------------------------------------------------------------------------------------

    def _cuGraphCreate(self, graph: int, flags: int) -> None:
        assert flags == 0
        _put(graph, W, self._make("graph", []))

    def _cuGraphDestroy(self, graph: int) -> None:
        for node in self._of("graph", graph):
            self._drop("node", node)
        self._drop("graph", graph)

    def _params(self, at: int) -> Callable[[], None]:
        params = bytes_at(at, FIELDS.itemsize).view(FIELDS)[0]
        assert not params["extra"]
        assert not params["kernel"]
        sizes = tuple(int(params[name]) for name in ("x", "y", "z", "tx", "ty", "tz"))
        numbers = int(params["function"]), sizes, int(params["shared"]), int(params["arguments"])
        return self._taken(*numbers)

    def _cuGraphAddKernelNode_v2(
        self, node: int, graph: int, before: int, count: int, params: int
    ) -> None:
        nodes = self._of("graph", graph)
        waits = [int(one) for one in bytes_at(before, 8 * count).view(np.uint64)] if count else []
        assert waits == nodes[-1:], "each launch waits for the one before it"
        made = self._make("node", self._params(params))
        nodes.append(made)
        _put(node, W, made)

    def _cuGraphInstantiateWithFlags(self, ready: int, graph: int, flags: int) -> None:
        assert flags == 0
        nodes = {node: self._of("node", node) for node in self._of("graph", graph)}
        _put(ready, W, self._make("ready", nodes))

    def _cuGraphExecKernelNodeSetParams_v2(self, ready: int, node: int, params: int) -> None:
        self._of("node", node)
        nodes = self._of("ready", ready)
        assert node in nodes
        nodes[node] = self._params(params)

    def _cuGraphLaunch(self, ready: int, stream: int) -> None:
        self._of("stream", stream).extend(self._of("ready", ready).values())

    def _cuGraphExecDestroy(self, ready: int) -> None:
        self._drop("ready", ready)

    # -- tensor maps -------------------------------------------------------------------------------

    def _cuTensorMapEncodeTiled(self, made: int, kind: int, rank: int, *given: int) -> None:
        address, dims, strides, box, steps, interleave, swizzle, promotion, fill = given
        if made % MAP_ALIGNED:
            raise Refused(f"a tensor map is encoded at {made:#x}, no multiple of {MAP_ALIGNED}")
        width, height = (int(one) for one in bytes_at(dims, 16).view(np.uint64))
        (pitch,) = (int(one) for one in bytes_at(strides, 8).view(np.uint64))
        columns, rows = (int(one) for one in bytes_at(box, 8).view(np.uint32))
        assert bytes_at(steps, 8).view(np.uint32).tolist() == [1, 1]
        is_right = address % 16 == pitch % 16 == 0 and max(columns, rows) <= 256
        is_right &= columns * 2 == 128 and (interleave, swizzle, promotion, fill) == (0, 3, 3, 0)
        if not is_right or rank != 2 or kind not in (6, 9) or self.map_status:
            raise Failed(self.map_status or 1)
        matrix = (address, width, height, pitch, columns, rows, 2, int(kind == 6))
        self.maps.append(matrix)
        bytes_at(made, MAP_BYTES).view(np.uint64)[:] = [*matrix, *[0] * 8]


class _Symbol:
    """A function of a library: it takes what its user declares, by C's rules."""

    def __init__(self, real: Any) -> None:
        self.address = ctypes.cast(real, P).value or 0
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = N

    def __call__(self, *given: Any) -> int:
        return ctypes.CFUNCTYPE(self.restype, *self.argtypes)(self.address)(*given)


def _put(at: int, kind: Any, value: Any) -> None:
    if not at:
        raise Refused("a result has no place to go")
    kind.from_address(at).value = value


def _kind(parameter: str) -> Any:
    """Return what a parameter is: an address, a number's type, or None for a tensor map."""
    if "*" in parameter:
        return "pointer"
    if "lab_tensor_map" in parameter:
        return None
    words = [word for word in parameter.split()[:-1] if word not in ("const", "__grid_constant__")]
    return TYPES[" ".join(words)]
