"""What a program needs from a GPU: memory, copies, launches, times; and the emulator as a GPU.

An engine belongs to one program. Memory that the host also sees is a `Block`, as the CPU's is: if
all memory is like that, only data from outside is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.emulator import Call, Matrix, emulate
from luminal_lab.emulator.emulate import Order
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.kernel import Kernel, Kernels, Phase
from luminal_lab.kernels.tile_map import TileMap
from luminal_lab.machines.here import available_memory

BYTE: Final = np.dtype(np.uint8)


class Memory(Protocol):
    """Bytes on a device."""

    bytes: int
    address: int
    """Its address on the device."""


class Location(NamedTuple):
    """The location of a value."""

    memory: Memory
    offset: int
    bytes: int

    @property
    def address(self) -> int:
        """Its address on the device."""
        return self.memory.address + self.offset


class Mapped(NamedTuple):
    """A value passed as the tensor map of a matrix, by which bulk copies find its tiles."""

    location: Location
    tile: TileMap


Argument: TypeAlias = Location | Mapped | np.generic


class PlacedLaunch(NamedTuple):
    """A launch; its arguments are added once the locations of its values are known."""

    kernel: Kernel
    phase: Phase
    blocks: int
    work: int
    """The program's work that it belongs to."""
    slots: tuple[int, ...]
    numbers: tuple[np.generic, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    """The sizes of its kernel's dims."""
    arguments: tuple[Argument, ...] = ()
    """All its arguments, in the order in which its function takes them."""


Caches: TypeAlias = Literal["run", "hot", "cold"]
"""What lies in the device's cache: what the run left there, what the launch itself did, nothing."""


class Engine(ABC):
    """What runs the kernels of one program; the host sees all memory unless an engine differs."""

    name: str
    """What it runs on, as shown beside times."""
    clock: str
    """What measures its times."""
    sees_all = True
    """Whether the host sees all of its memory."""
    can_share = True
    """Whether there is memory that the host also sees."""
    can_flush = False
    """Whether it can empty the device's cache before what it times."""
    caches: Caches = "run"
    """What lies in the device's cache when a launch is timed."""

    @abstractmethod
    def reserve(self, size: int) -> Memory:
        """Return memory of the device, or raise MemoryError."""

    def shared(self, size: int) -> MemoryBlock:
        """Return memory that host and device see, or raise MemoryError."""
        memory = self.reserve(size)
        assert isinstance(memory, MemoryBlock)
        return memory

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Return how much memory is left, if that is known."""

    def upload(self, location: Location, array: Array) -> None:
        """Copy an array to where kernels see it, after all launches so far."""
        self.wait()
        bytes_of(location)[...] = array.reshape(-1).view(BYTE)

    def download(self, location: Location, array: Array) -> None:
        """Copy from the device into an array, once everything launched is done."""
        self.wait()
        array.reshape(-1).view(BYTE)[...] = bytes_of(location)

    def launch(self, launches: Sequence[PlacedLaunch], key: Hashable, *, careful: bool) -> None:
        """Launch in order. Careful: wait for each, so that a failure has a name.

        Launches with the same key are the same range of a program, and may be kept for a replay.
        """
        for group in [[launch] for launch in launches] if careful else [launches]:
            if group:
                self.commit(group)
            if careful:
                self.wait()

    def commit(self, launches: Sequence[PlacedLaunch]) -> object:
        """Give the device launches, which run one after another."""
        raise NotImplementedError

    @abstractmethod
    def wait(self) -> None:
        """Wait until all is done, and raise an error if something went wrong."""

    def seconds(self, groups: Sequence[Sequence[PlacedLaunch]]) -> list[float]:
        """Launch all in order, and return how long each group took, by the host's clock.

        An engine whose device has a clock reads that one. `caches` says what lies in its cache
        then; if "hot", each group is launched twice.
        """
        seconds: list[float] = []
        self.wait()
        for group in groups:
            start = perf_counter()
            self.launch(group, None, careful=False)
            self.wait()
            seconds.append(perf_counter() - start)
        return seconds

    def chosen(self, kernel: str) -> str:
        """Return what computes a kernel instead of its own code, and why; usually nothing."""
        return ""


FindEngine: TypeAlias = Callable[[str, Kernels], Engine]
"""Returns an engine for a source with these kernels, or raises the error that there is none."""


class EmulatorEngine(Engine):
    """The emulator, which runs a GPU's kernels on the CPU."""

    name = "emulator"
    clock = "perf_counter, of the emulator: no GPU's time"
    order: Order = "late"
    """When asynchronous copies and products are done."""

    def __init__(self, source: str, dialect: Dialect) -> None:
        self.source = source
        self.dialect = dialect

    @override
    def reserve(self, size: int) -> MemoryBlock:
        return MemoryBlock(size)

    @override
    def free_bytes(self) -> int | None:
        return available_memory()

    @override
    def launch(self, launches: Sequence[PlacedLaunch], key: Hashable, *, careful: bool) -> None:
        calls = [
            Call.of(launch.phase, launch.blocks, [*map(_given, launch.arguments)])
            for launch in launches
        ]
        dialect = "cuda" if self.dialect.name == "cuda" else "metal"
        emulate(self.source, dialect, calls, order=self.order)

    @override
    def wait(self) -> None:
        """Do nothing: a launch is done when the emulator returns."""


def _given(argument: Argument) -> Array | Matrix | np.generic:
    if isinstance(argument, Mapped):
        return Matrix(bytes_of(argument.location), argument.tile)
    return bytes_of(argument) if isinstance(argument, Location) else argument


def bytes_of(location: Location) -> Array:
    """Return the bytes of a value that the host sees."""
    assert isinstance(location.memory, MemoryBlock)
    return location.memory.array((location.bytes,), BYTE, location.offset)
