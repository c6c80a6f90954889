"""A stand-in for PyObjC's Metal: it refuses what is not in the table, and runs in the emulator.

The table is Apple's documentation of each method as PyObjC's rules spell it: a colon is an
underscore, and an argument for an error makes the result a pair. What is committed is done when
somebody waits for it.
"""

import mmap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from luminal_lab.emulator import Call, emulate
from tests.devices.stand_ins.refusing import Refused, Stand, Table, bytes_at, checked

TABLE = """
Metal.MTLCreateSystemDefaultDevice()
Metal.MTLSizeMake(int width, int height, int depth)
MTLCompileOptions.alloc()
MTLCompileOptions.init()
MTLCompileOptions.setFastMathEnabled_(bool enabled)
MTLDevice.name()
MTLDevice.recommendedMaxWorkingSetSize()
MTLDevice.currentAllocatedSize()
MTLDevice.newCommandQueue()
MTLDevice.newLibraryWithSource_options_error_(str source, options, error)
MTLDevice.newComputePipelineStateWithFunction_error_(function, error)
MTLDevice.newBufferWithBytesNoCopy_length_options_deallocator_(pointer, int length, int options, deallocator)
MTLLibrary.newFunctionWithName_(str name)
MTLComputePipelineState.maxTotalThreadsPerThreadgroup()
MTLCommandQueue.commandBuffer()
MTLCommandBuffer.computeCommandEncoder()
MTLCommandBuffer.commit()
MTLCommandBuffer.waitUntilCompleted()
MTLCommandBuffer.status()
MTLCommandBuffer.error()
MTLCommandBuffer.GPUStartTime()
MTLCommandBuffer.GPUEndTime()
MTLComputeCommandEncoder.setComputePipelineState_(state)
MTLComputeCommandEncoder.setBuffer_offset_atIndex_(buffer, int offset, int index)
MTLComputeCommandEncoder.setBytes_length_atIndex_(bytes data, int length, int index)
MTLComputeCommandEncoder.dispatchThreadgroups_threadsPerThreadgroup_(groups, threads)
MTLComputeCommandEncoder.endEncoding()
"""  # noqa: E501  # a signature a line
PAGE = mmap.PAGESIZE
NOT_STARTED, COMMITTED, COMPLETED, FAILED = 0, 3, 4, 5


class Reason:
    """An NSError."""

    def __init__(self, text: str) -> None:
        self.text = text

    def localizedDescription(self) -> str:  # noqa: N802  # Apple's
        """Return what is wrong."""
        return self.text


class Metal:
    """A Mac's GPU as PyObjC shows it."""

    def __init__(self) -> None:
        self.table = Table(TABLE)
        self.most_threads = 1024
        self.refuses: str = ""
        """What the compiler says against any source."""
        self.stops: str = ""
        """What ends the next command buffer."""
        self.has_device = True
        self.sizes: dict[int, int] = {}
        """The bytes of values by address, as programs place them."""
        self.launched: list[tuple[str, int, int]] = []
        self.clock = 0.0
        self.module = Stand(
            self.table,
            "Metal",
            MTLResourceStorageModeShared=0,
            MTLCreateSystemDefaultDevice=self._call(
                "Metal.MTLCreateSystemDefaultDevice",
                lambda: self._device() if self.has_device else None,
            ),
            MTLSizeMake=self._call(
                "Metal.MTLSizeMake", lambda width, height, depth: (width, height, depth)
            ),
            MTLCompileOptions=self._of("MTLCompileOptions", alloc=self._options),
        )

    def _call(self, name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        return checked(self.table, name, does)

    def _of(self, kind: str, **calls: Callable[..., Any]) -> Any:
        made = {name: self._call(f"{kind}.{name}", does) for name, does in calls.items()}
        return Stand(self.table, kind, **made)

    def _options(self) -> Any:
        options = SimpleNamespace(fast=True)

        def set_fast(enabled: bool) -> None:
            options.fast = enabled

        def init() -> Any:
            made = self._of("MTLCompileOptions", setFastMathEnabled_=set_fast)
            made.__dict__["is_fast"] = lambda: options.fast
            return made

        return self._of("MTLCompileOptions", init=init)

    def _device(self) -> Any:
        return self._of(
            "MTLDevice",
            name=lambda: "Stand-in",
            recommendedMaxWorkingSetSize=lambda: 1 << 30,
            currentAllocatedSize=lambda: 1 << 20,
            newCommandQueue=lambda: self._of("MTLCommandQueue", commandBuffer=self._commands),
            newLibraryWithSource_options_error_=self._library,
            newComputePipelineStateWithFunction_error_=self._state,
            newBufferWithBytesNoCopy_length_options_deallocator_=self._buffer,
        )

    def _library(self, source: str, options: Any, error: None) -> Any:
        assert error is None, "PyObjC returns it"
        assert not options.is_fast(), "what is not a number must stay none"
        if self.refuses:
            return None, Reason(self.refuses)

        def named(name: str) -> Any:
            return (source, name) if f"kernel void {name}(" in source else None

        return self._of("MTLLibrary", newFunctionWithName_=named), None

    def _state(self, function: Any, error: None) -> Any:
        assert error is None, "PyObjC returns it"
        if function is None:
            return None, Reason("there is no such function")
        state = self._of(
            "MTLComputePipelineState", maxTotalThreadsPerThreadgroup=lambda: self.most_threads
        )
        state.__dict__["function"] = function
        return state, None

    def _buffer(self, pointer: Any, length: int, options: int, deallocator: Any) -> Any:
        address = int(np.frombuffer(pointer, np.uint8).ctypes.data)
        assert not address % PAGE
        assert not length % PAGE
        assert length == len(pointer)
        assert options == 0
        assert deallocator is None
        return SimpleNamespace(address=address, length=length, keeps=pointer)

    def _commands(self) -> Any:
        todo: list[Callable[[], None]] = []
        buffer = SimpleNamespace(status=NOT_STARTED, error=None, start=0.0, end=0.0, open=False)

        def encoder() -> Any:
            assert not buffer.open
            buffer.open = True
            return self._encoder(todo, buffer)

        def commit() -> None:
            assert not buffer.open, "its encoder has not ended"
            buffer.status = COMMITTED

        def wait() -> None:
            assert buffer.status == COMMITTED
            if self.stops:
                buffer.status, buffer.error, self.stops = FAILED, Reason(self.stops), ""
                return
            buffer.start = self.clock
            for does in todo:
                does()
                self.clock += 0.5
            buffer.status, buffer.end = COMPLETED, self.clock

        return self._of(
            "MTLCommandBuffer",
            computeCommandEncoder=encoder,
            commit=commit,
            waitUntilCompleted=wait,
            status=lambda: buffer.status,
            error=lambda: buffer.error,
            GPUStartTime=lambda: buffer.start,
            GPUEndTime=lambda: buffer.end,
        )

    def _encoder(self, todo: list[Callable[[], None]], buffer: Any) -> Any:
        now = SimpleNamespace(state=None, given={})

        def set_state(state: Any) -> None:
            now.state = state

        def set_buffer(buffer: Any, offset: int, index: int) -> None:
            assert 0 <= offset <= buffer.length
            now.given[index] = buffer, buffer.address + offset

        def set_bytes(data: bytes, length: int, index: int) -> None:
            assert len(data) == length <= 4096
            now.given[index] = np.frombuffer(data, {4: np.uint32, 8: np.int64}[length])[0]

        def dispatch(groups: tuple[int, ...], threads: tuple[int, ...]) -> None:
            assert groups[1:] == threads[1:] == (1, 1)
            assert groups[0] >= 1
            assert 1 <= threads[0] <= self.most_threads
            state, given = now.state, dict(now.given)
            todo.append(lambda: self._run(state, given, groups[0], threads[0]))

        def end() -> None:
            buffer.open = False

        return self._of(
            "MTLComputeCommandEncoder",
            setComputePipelineState_=set_state,
            setBuffer_offset_atIndex_=set_buffer,
            setBytes_length_atIndex_=set_bytes,
            dispatchThreadgroups_threadsPerThreadgroup_=dispatch,
            endEncoding=end,
        )

    def _run(self, state: Any, given: dict[int, Any], blocks: int, threads: int) -> None:
        source, name = state.function
        head = source[source.index(f"kernel void {name}(") :].partition("{")[0]
        count = head.count("[[buffer(")
        arguments: list[Any] = []
        for index in range(count):
            if index not in given:
                raise Refused(f"{name} is not given its argument {index}")
            one = given[index]
            if isinstance(one, tuple):
                memory, address = one
                size = self.sizes[address]
                assert address + size <= memory.address + memory.length
                one = bytes_at(address, size)
            arguments.append(one)
        self.launched.append((name, blocks, threads))
        emulate(source, "metal", [Call(name, blocks, threads, arguments)])
