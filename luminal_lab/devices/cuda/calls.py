"""What an engine calls of an NVIDIA GPU: memory, copies, code, launches, graphs and events."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from luminal_lab.devices.gpu.engine import Argument
from luminal_lab.devices.runtime.blocks import MemoryBlock

STILL: Final = (
    "the source, PTX and resources of kernels are available without it; emulate=True runs small "
    "sizes on the CPU"
)
"""What works where nothing runs."""
NO_DEVICE, OLD_DRIVER, NO_MEMORY, NOT_READY = 100, 35, 2, 600
"""Statuses: no GPU, a driver that is too old, no memory left, and work still to be done."""


class DeviceMemory:
    """Memory of the GPU alone, released when nothing needs it any more."""

    def __init__(self, owner: object, address: int, size: int) -> None:
        self.owner, self.address, self.bytes = owner, address, size


class ManagedBlock(MemoryBlock):
    """Memory that host and GPU see, and whose pages lie where they were last used."""

    __slots__ = ("owner",)

    def __init__(self, owner: object, address: int, size: int) -> None:
        self.owner = owner
        seen: Any = (ctypes.c_ubyte * max(1, size)).from_address(address)
        seen.owner = owner  # an array in it keeps the memory
        self.lie_in(np.frombuffer(seen, np.uint8), size)


class Sized(NamedTuple):
    """What one launch is: a function, its grid, its shared memory and its arguments."""

    function: Any
    blocks: int
    threads: int
    shared: int
    arguments: Sequence[Argument]


class Driver(ABC):
    """A GPU and a stream on it. Whatever fails raises one of `errors`, or a MemoryError."""

    clock: ClassVar[str] = "CUDA events"
    """What measures times."""
    has_cublas: ClassVar[bool] = False
    """Whether it brings cuBLAS along."""
    version: int
    """The newest CUDA that the driver knows, as 13020."""
    errors: tuple[type[Exception], ...]
    """What calls raise; they have a `status`."""
    name: str
    number: int
    capability: str
    """As in "90"."""
    cores: int
    """Its multiprocessors."""
    can_share: bool
    """Whether there is memory that host and GPU may use at the same time."""

    @abstractmethod
    def __init__(self) -> None:
        """Load what calls the driver, or raise a DeviceError."""

    @abstractmethod
    def count(self) -> int:
        """Return how many GPUs there are, or raise a DeviceError about why none can be used."""

    @abstractmethod
    def find(self) -> None:
        """Find the GPU, and what it is."""

    @abstractmethod
    def begin(self) -> None:
        """Make the stream, on the GPU that was found."""

    @abstractmethod
    def allocate(self, size: int) -> DeviceMemory:
        """Return memory of the GPU's."""

    @abstractmethod
    def share(self, size: int) -> MemoryBlock:
        """Return memory whose pages move to where they are used."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory is left."""

    @abstractmethod
    def copy(self, to: int, of: int, size: int) -> None:
        """Copy from one address to another, on the host or the GPU."""

    @abstractmethod
    def fill(self, to: int, size: int) -> None:
        """Set bytes of the GPU's to 0."""

    @abstractmethod
    def is_busy(self) -> bool:
        """Return whether the stream has work left."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until the stream has no work left."""

    @abstractmethod
    def load(self, image: bytes) -> Any:  # noqa: ANN401  # of a binding without types
        """Return machine code or PTX as a module."""

    @abstractmethod
    def function(self, module: Any, name: str, shared: int | None) -> Any:  # noqa: ANN401  # as above
        """Return a module's function, which may be launched with so much shared memory."""

    @abstractmethod
    def launch(self, launch: Sized) -> None:
        """Put a launch on the stream."""

    @abstractmethod
    def event(self) -> Any:  # noqa: ANN401  # as above
        """Return an event, which notes when the stream comes to it."""

    @abstractmethod
    def note(self, event: Any) -> None:  # noqa: ANN401  # as above
        """Put an event on the stream."""

    @abstractmethod
    def seconds(self, first: Any, last: Any) -> float:  # noqa: ANN401  # as above
        """Return the time between two events that have been waited for."""

    @abstractmethod
    def graph(self, launches: Sequence[Sized]) -> Graph:
        """Return launches that can be repeated as one."""


class Graph(ABC):
    """Launches that are repeated as one."""

    can_change: ClassVar[bool] = False
    """Whether launches of the same functions can take the places of its own."""

    @abstractmethod
    def launch(self) -> None:
        """Put all launches on the stream."""

    def change(self, at: int, launch: Sized) -> None:
        """Give one of the launches another grid and other arguments, from the next launch on."""
        raise NotImplementedError


def version_text(number: int) -> str:
    """Return a version as people write it.

    >>> version_text(13020)
    '13.2'
    """
    return f"{number // 1000}.{number % 1000 // 10}"
