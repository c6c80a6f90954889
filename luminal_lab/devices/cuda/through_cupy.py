"""An NVIDIA GPU through CuPy, which is imported when something is about to run, and only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build.located import device_error, optional
from luminal_lab.devices.cuda.calls import (
    NO_DEVICE,
    NOT_READY,
    OLD_DRIVER,
    STILL,
    DeviceMemory,
    Driver,
    Graph,
    ManagedBlock,
    Sized,
    version_text,
)
from luminal_lab.devices.cuda.libcuda import tensor_map
from luminal_lab.devices.gpu.engine import Argument, Location, Mapped
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.errors import DeviceError

CONCURRENT: Final = "cudaDevAttrConcurrentManagedAccess"


def import_cupy() -> Any:  # noqa: ANN401  # CuPy has no types
    """Return CuPy, or say that it is not there."""
    return optional("cupy", "cuda: CuPy", f'pip install "luminal-lab[cuda]"; {STILL}')


def is_installed() -> bool:
    """Return whether CuPy can be imported."""
    try:
        import_cupy()
    except DeviceError:
        return False
    return True


class CuPyDriver(Driver):
    """The GPU that CuPy uses, and a stream of its own."""

    has_cublas: ClassVar[bool] = True

    def __init__(self) -> None:
        self.cupy = import_cupy()
        cuda = self.cupy.cuda
        self.runtime = cuda.runtime
        self.errors = cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError

    @property
    @override
    def version(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # read alone
        return int(self.runtime.driverGetVersion())

    @override
    def count(self) -> int:
        driver = self.version
        if not driver:
            raise device_error(
                "cuda: there is no NVIDIA driver on this machine, and so no GPU to run on",
                hint=STILL,
            )
        try:
            return int(self.runtime.getDeviceCount())
        except self.runtime.CUDARuntimeError as error:
            if error.status == OLD_DRIVER:
                raise device_error(
                    f"cuda: the driver knows CUDA {version_text(driver)}, and CuPy is made for "
                    f"{version_text(self.runtime.runtimeGetVersion())}",
                    hint=f"install a newer driver, or CuPy for the older CUDA; {STILL}",
                ) from error
            if error.status == NO_DEVICE:
                return 0
            raise device_error(
                f"cuda: the driver finds no GPU that can be used: {error}", hint=STILL
            ) from error

    @override
    def find(self) -> None:
        self.device = self.cupy.cuda.Device()
        self.number = int(self.device.id)
        self.capability = str(self.device.compute_capability)
        self.cores = int(self.device.attributes["MultiProcessorCount"])
        properties: Mapping[str, bytes] = self.runtime.getDeviceProperties(self.number)
        self.name = properties["name"].decode()

    @override
    def begin(self) -> None:
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        shares = getattr(self.runtime, CONCURRENT)
        self.can_share = bool(self.runtime.deviceGetAttribute(shares, self.number))

    # -- memory ------------------------------------------------------------------------------------

    @override
    def allocate(self, size: int) -> DeviceMemory:
        owner = self._memory(self.cupy.cuda.Memory, size)
        return DeviceMemory(owner, int(owner.ptr), size)

    @override
    def share(self, size: int) -> MemoryBlock:
        owner = self._memory(self.cupy.cuda.malloc_managed, size)
        return ManagedBlock(owner, int(owner.ptr), size)

    def _memory(self, make: Any, size: int) -> Any:  # noqa: ANN401  # CuPy's
        try:
            return make(max(1, size))
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

    @override
    def free_bytes(self) -> int:
        free, _ = self.runtime.memGetInfo()
        return int(free)

    @override
    def copy(self, to: int, of: int, size: int) -> None:
        self.runtime.memcpyAsync(to, of, size, self.runtime.memcpyDefault, self.stream.ptr)

    @override
    def fill(self, to: int, size: int) -> None:
        self.runtime.memsetAsync(to, 0, size, self.stream.ptr)

    # -- the stream --------------------------------------------------------------------------------

    @override
    def is_busy(self) -> bool:
        return self.runtime.streamQuery(self.stream.ptr) == NOT_READY

    @override
    def wait(self) -> None:
        self.stream.synchronize()

    @override
    def load(self, image: bytes) -> Any:
        module = self.cupy.cuda.Module()
        module.load(image)
        return module

    @override
    def function(self, module: Any, name: str, shared: int | None) -> Any:
        function = module.get_function(name)
        if shared is not None:
            attributes = self.cupy.cuda.driver
            most = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            attributes.funcSetAttribute(function.ptr, most, shared)
        return function

    @override
    def launch(self, launch: Sized) -> None:
        sizes = (launch.blocks,), (launch.threads,)
        given = tuple(map(_passed, launch.arguments))
        launch.function(*sizes, given, shared_mem=launch.shared, stream=self.stream)

    @override
    def event(self) -> Any:
        return self.cupy.cuda.Event()

    @override
    def note(self, event: Any) -> None:
        event.record(self.stream)

    @override
    def seconds(self, first: Any, last: Any) -> float:
        return float(self.cupy.cuda.get_elapsed_time(first, last)) * 1e-3

    @override
    def graph(self, launches: Sequence[Sized]) -> Graph:
        self.stream.begin_capture()
        try:
            for launch in launches:
                self.launch(launch)
        finally:
            recorded = self.stream.end_capture()
        return CuPyGraph(recorded, self.stream)


class CuPyGraph(Graph):
    """A graph that CuPy has recorded; it has no call that changes one."""

    def __init__(self, recorded: Any, stream: Any) -> None:  # noqa: ANN401  # CuPy's
        self.recorded, self.stream = recorded, stream

    @override
    def launch(self) -> None:
        self.recorded.launch(self.stream)


def _passed(argument: Argument) -> np.generic | Array:
    if isinstance(argument, Mapped):  # CuPy passes an array of one element by its bytes
        return tensor_map(argument.location.address, argument.tile)
    return np.uint64(argument.address) if isinstance(argument, Location) else argument
