"""A stand-in for CuPy 14: it refuses what CuPy does not take, and runs kernels in the emulator.

The table is that of CuPy's own signatures, which `test_cuda_engine` compares with the package where
it is installed. What is put on a stream waits there until somebody waits for it, as on a GPU.
"""

import ctypes
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from luminal_lab.core.dtypes import DType
from luminal_lab.emulator import Call, Matrix, emulate
from luminal_lab.kernels.tile_map import TileMap
from tests.devices.stand_ins.libcuda_stand_in import LibcudaStandIn
from tests.devices.stand_ins.refusing import Refused, Stand, Table, bytes_at, checked

TABLE = """
cuda.runtime.driverGetVersion()
cuda.runtime.runtimeGetVersion()
cuda.runtime.getDeviceCount()
cuda.runtime.getDeviceProperties(int device)
cuda.runtime.deviceGetAttribute(int attrib, int device)
cuda.runtime.memGetInfo()
cuda.runtime.memcpyAsync(int dst, int src, int size, int kind, int stream)
cuda.runtime.memsetAsync(int ptr, int value, int size, int stream)
cuda.runtime.streamQuery(int stream)
cuda.Memory(int size)
cuda.malloc_managed(int size)
cuda.Device(device=None)
cuda.Stream(null=False, non_blocking=False, ptds=False, priority=None)
cuda.Stream.begin_capture(self, mode=None)
cuda.Stream.end_capture(self)
cuda.Stream.synchronize(self)
cuda.Event(block=False, disable_timing=False, interprocess=False)
cuda.Event.record(self, stream=None)
cuda.get_elapsed_time(start_event, end_event)
cuda.graph.Graph.launch(self, stream=None)
cuda.driver.funcSetAttribute(int f, int attribute, int value)
cuda.Module()
cuda.Module.load(self, bytes cubin)
cuda.Module.get_function(self, name)
cuda.Function.__call__(self, tuple grid, tuple block, args, int shared_mem=0, stream=None)
cublas.gemmEx(int handle, int transa, int transb, int m, int n, int k, int alpha, int A, int Atype, int lda, int B, int Btype, int ldb, int beta, int C, int Ctype, int ldc, int computeType, int algo)
cublas.gemmStridedBatchedEx(int handle, int transa, int transb, int m, int n, int k, int alpha, int A, int Atype, int lda, int strideA, int B, int Btype, int ldb, int strideB, int beta, int C, int Ctype, int ldc, int strideC, int batchCount, int computeType, int algo)
"""  # noqa: E501  # a signature a line
SCALARS = (np.int64, np.uint64, np.int32, np.uint32, np.float32, np.float64, np.bool_)
"""Of what an argument of a kernel may be exactly, those that are used; others CuPy refuses."""
DATA = {0: np.float32, 1: np.float64, 2: np.float16, 14: bfloat16}


class CUDARuntimeError(RuntimeError):
    """As CuPy's: with a status."""

    def __init__(self, status: int, name: str = "cudaError") -> None:
        super().__init__(f"{name}: error {status}")
        self.status = status


class CUDADriverError(CUDARuntimeError):
    """As CuPy's."""


class CUBLASError(RuntimeError):
    """As CuPy's: no error of the runtime's."""

    def __init__(self, status: int, name: str) -> None:
        super().__init__(f"{name}: error {status}")
        self.status = status


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class CuPy:
    """A GPU as CuPy shows it, on this machine's memory."""

    def __init__(
        self, *, capability: str = "90", shares: bool = True, memory: int = 1 << 30
    ) -> None:
        self.table = Table(TABLE)
        self.shares, self.capability = shares, capability
        self.left = memory
        self.driver, self.devices = 13_000, 1
        self.memory: dict[int, int] = {}
        """The bytes of each allocation, by address."""
        self.sizes: dict[Any, int] = {}
        """The bytes of values by address, as programs place them."""
        self.capturing: Any = None
        self.current: Any = None
        self.launched: list[tuple[str, int, int]] = []
        """What was run: functions, blocks, threads."""
        self.milliseconds = 0.0
        self.hangs: Callable[[], int] = lambda: 0
        """What a stream says that is asked whether all is done."""
        self.allowed: dict[int, int] = {}
        """The bytes of shared memory that functions may be launched with, by their addresses."""
        self.library = LibcudaStandIn()
        """The driver's library, which makes tensor maps."""
        self.module = SimpleNamespace(cuda=self._cuda())
        self.cublas = self._cublas()

    def imported(self, name: str) -> Any:
        """Return a module as `importlib.import_module` does."""
        if name == "cupy":
            return self.module
        if name == "cupy_backends.cuda.libs.cublas":
            if self.cublas is None:
                raise ImportError("no libcublas.so")
            return self.cublas
        raise Refused(f"import {name}")

    def _call(self, name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        return checked(self.table, name, does)

    def _cuda(self) -> Stand:
        calls = {
            "driverGetVersion": lambda: self.driver,
            "runtimeGetVersion": lambda: 13_020,
            "getDeviceCount": lambda: self.devices,
            "getDeviceProperties": lambda device: {"name": b"Stand-in", "id": device},
            "deviceGetAttribute": lambda attrib, device: (
                int(self.shares) if attrib == 89 else 1 / 0
            ),
            "memGetInfo": lambda: (self.left, 1 << 30),
            "memcpyAsync": self._copy,
            "memsetAsync": self._set,
            "streamQuery": lambda stream: self.hangs(),
        }
        runtime = Stand(
            self.table,
            "cuda.runtime",
            CUDARuntimeError=CUDARuntimeError,
            memcpyDefault=4,
            cudaDevAttrConcurrentManagedAccess=89,
            **{name: self._call(f"cuda.runtime.{name}", does) for name, does in calls.items()},
        )
        return Stand(
            self.table,
            "cuda",
            runtime=runtime,
            driver=Stand(
                self.table,
                "cuda.driver",
                CUDADriverError=CUDADriverError,
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=self._call("cuda.driver.funcSetAttribute", self._allow),
            ),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            Memory=self._call("cuda.Memory", self._allocate),
            malloc_managed=self._call("cuda.malloc_managed", self._allocate),
            Device=self._call("cuda.Device", lambda: self._device()),
            Stream=self._call("cuda.Stream", lambda **_: self._stream()),
            Event=self._call("cuda.Event", lambda: self._event()),
            Module=self._call("cuda.Module", lambda: self._module()),
            get_elapsed_time=self._call("cuda.get_elapsed_time", self._elapsed),
        )

    # -- memory and copies -------------------------------------------------------------------------

    def _allocate(self, size: int) -> Any:
        self._no_capture("an allocation")
        if size > self.left:
            raise CUDARuntimeError(2, "cudaErrorMemoryAllocation")
        raw = ctypes.create_string_buffer(size + 64)
        address = ctypes.addressof(raw) + -ctypes.addressof(raw) % 64
        np.copyto(bytes_at(address, size), 0xCD)  # nobody has written there
        self.memory[address] = size
        self.left -= size
        owner = _Owner(address, raw)
        weakref.finalize(owner, self._free, address)
        return owner

    def _free(self, address: int) -> None:
        self.left += self.memory.pop(address)

    def _is_mine(self, address: int, size: int) -> bool:
        return any(
            begin <= address and address + size <= begin + most
            for begin, most in self.memory.items()
        )

    def _copy(self, dst: int, src: int, size: int, kind: int, stream: int) -> None:
        self._no_capture("a copy")
        assert kind == 4
        if not (self._is_mine(dst, size) or self._is_mine(src, size)):
            raise Refused("neither end of a copy is on the GPU")
        self.streams[stream].waiting.append(lambda: ctypes.memmove(dst, src, size))

    def _set(self, ptr: int, value: int, size: int, stream: int) -> None:
        self._no_capture("a set")
        if not self._is_mine(ptr, size):
            raise Refused("what is set is not on the GPU")
        self.streams[stream].waiting.append(lambda: ctypes.memset(ptr, value, min(size, 64)))

    def _no_capture(self, what: str) -> None:
        if self.capturing is not None:
            raise CUDARuntimeError(900, f"cudaErrorStreamCaptureUnsupported, for {what}")

    # -- streams, graphs, events -------------------------------------------------------------------

    @property
    def streams(self) -> dict[int, Any]:
        """The streams by their addresses."""
        return self.__dict__.setdefault("_streams", {})

    def _device(self) -> Any:
        return Stand(
            self.table,
            "cuda.Device",
            id=0,
            compute_capability=self.capability,
            attributes={"MultiProcessorCount": 132},
            cublas_handle=77,
        )

    def _stream(self) -> Any:
        stream = _Stream(self, len(self.streams) + 1)
        self.streams[stream.ptr] = stream
        return stream

    def _event(self) -> Any:
        event = SimpleNamespace(at=None)

        def record(stream: Any) -> None:
            def stamp() -> None:
                self.milliseconds += 0.25
                event.at = self.milliseconds

            stream.waiting.append(stamp)

        event.record = self._call("cuda.Event.record", record)
        return event

    def _elapsed(self, start_event: Any, end_event: Any) -> float:
        if start_event.at is None or end_event.at is None:
            raise CUDARuntimeError(600, "cudaErrorNotReady")
        return end_event.at - start_event.at

    # -- kernels -----------------------------------------------------------------------------------

    def _module(self) -> Any:
        loaded: dict[str, str] = {}

        def load(cubin: bytes) -> None:
            loaded["source"] = cubin.decode()

        def get_function(name: str) -> Any:
            if f" {name}(" not in loaded["source"]:
                raise CUDADriverError(500, "CUDA_ERROR_NOT_FOUND")
            return self._function(loaded["source"], name)

        return Stand(
            self.table,
            "cuda.Module",
            load=self._call("cuda.Module.load", load),
            get_function=self._call("cuda.Module.get_function", get_function),
        )

    def _function(self, source: str, name: str) -> Any:
        def call(grid: Any, block: Any, args: Any, shared_mem: int, stream: Any) -> None:
            if shared_mem > self.allowed.get(id(loaded), 48 << 10):
                raise CUDADriverError(1, "CUDA_ERROR_INVALID_VALUE")
            for size in (*grid, *block):
                if type(size) is not int or size < 1:
                    raise Refused(f"{name}: {grid} blocks of {block} threads")
            for one in args:
                if type(one) not in SCALARS and not (type(one) is np.ndarray and one.size == 1):
                    raise Refused(f"{name}: CuPy passes no {type(one).__name__}")
            stream.add(lambda: self._run(source, name, grid[0], block[0], args, shared_mem))

        loaded = _Function(self._call("cuda.Function.__call__", call))
        return loaded

    def _allow(self, f: int, attribute: int, value: int) -> None:
        if attribute != 8 or value > 232_448:
            raise CUDADriverError(1, "CUDA_ERROR_INVALID_VALUE")
        self.allowed[f] = value

    def _matrix_of(self, given: np.ndarray) -> Matrix:
        address, width, height, _, _, rows, _, is_half = map(int, given.view(np.uint64)[:8])
        dtype = DType.float16 if is_half else DType.bfloat16
        array = bytes_at(address, self.sizes[address])
        return Matrix(array, TileMap("matrix", 0, dtype, width, height, rows))

    def _run(
        self, source: str, name: str, blocks: int, threads: int, args: Any, shared: int
    ) -> None:
        given: list[Any] = []
        for one in args:
            if type(one) is np.uint64:
                address, size = int(one), self.sizes[int(one)]
                assert self._is_mine(address, size), f"{name} is given memory that is not the GPU's"
                given.append(bytes_at(address, size))
            else:
                given.append(self._matrix_of(one) if isinstance(one, np.ndarray) else one)
        self.launched.append((name, blocks, threads))
        emulate(source, "cuda", [Call(name, blocks, threads, given, shared=shared)])

    # -- cuBLAS ------------------------------------------------------------------------------------

    def _cublas(self) -> Any:
        def batched(**given: Any) -> None:
            if self.capturing is not None:
                raise NotImplementedError("calling cuBLAS API during stream capture")
            assert self.current is not None, "cuBLAS takes the current stream"
            assert given["handle"] == 77
            assert given["algo"] == -1
            self.current.waiting.append(lambda: self._multiply(**given))

        def plain(**given: Any) -> None:
            batched(**given, batchCount=1, strideA=0, strideB=0, strideC=0)

        return Stand(
            self.table,
            "cublas",
            CUBLASError=CUBLASError,
            gemmEx=self._call("cublas.gemmEx", plain),
            gemmStridedBatchedEx=self._call("cublas.gemmStridedBatchedEx", batched),
        )

    def _multiply(self, **g: Any) -> None:
        m, n, k = g["m"], g["n"], g["k"]
        number = np.float64 if g["computeType"] == 70 else np.float32
        for batch in range(g["batchCount"]):
            a = self._matrix("A", m, k, g["transa"], batch, g)
            b = self._matrix("B", k, n, g["transb"], batch, g)
            c = self._matrix("C", m, n, 0, batch, g)
            c[...] = (a.astype(number) @ b.astype(number)).astype(c.dtype)
        self.launched.append(("cublas", m, n))

    def _matrix(self, name: str, rows: int, columns: int, op: int, batch: int, g: Any) -> Any:
        dtype = np.dtype(DATA[g[f"{name}type"]])
        step, item = g[f"ld{name.lower()}"], dtype.itemsize
        assert step >= (columns if op else rows), f"ld{name.lower()} is {step}"
        down, across = (step, 1) if op else (1, step)
        address = g[name] + batch * g[f"stride{name}"] * item
        size = ((rows - 1) * down + (columns - 1) * across + 1) * item
        assert self._is_mine(address, size), f"{name} is not the GPU's"
        raw = bytes_at(address, size).view(dtype)
        return np.lib.stride_tricks.as_strided(raw, (rows, columns), (down * item, across * item))


class _Function:
    """A kernel's function, with its address."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.ptr = call, id(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.call(*args, **named)


class _Owner:
    """Who has memory, which is free again when it goes."""

    def __init__(self, ptr: int, raw: Any) -> None:
        self.ptr, self.raw = ptr, raw


class _Stream:
    """A stream: what is put there is done when somebody waits."""

    def __init__(self, gpu: CuPy, ptr: int) -> None:
        self.gpu, self.ptr = gpu, ptr
        self.waiting: list[Callable[[], Any]] = []
        for name in ("begin_capture", "end_capture", "synchronize"):
            setattr(self, name, gpu._call(f"cuda.Stream.{name}", getattr(self, f"_{name}")))

    def add(self, does: Callable[[], Any]) -> None:
        """Put a launch on the stream, or into the graph that is being recorded."""
        (self.waiting if self.gpu.capturing is None else self.gpu.capturing).append(does)

    def _begin_capture(self) -> None:
        assert self.gpu.capturing is None
        self.gpu.capturing = []

    def _end_capture(self) -> Any:
        recorded, self.gpu.capturing = self.gpu.capturing, None

        def launch(stream: Any) -> None:
            stream.waiting += recorded

        return Stand(
            self.gpu.table,
            "cuda.graph.Graph",
            launch=self.gpu._call("cuda.graph.Graph.launch", launch),
        )

    def _synchronize(self) -> None:
        self.gpu._no_capture("a wait")
        todo, self.waiting = self.waiting, []
        for does in todo:
            does()

    def __enter__(self) -> None:
        self.gpu.current = self

    def __exit__(self, *_: object) -> None:
        self.gpu.current = None
