"""A launch: one use of a kernel in a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.core.op import TensorType
from luminal_lab.core.origin import Origin
from luminal_lab.kernels.cost import NO_DIMS
from luminal_lab.kernels.kernel import Kernel


class Argument(NamedTuple):
    """A value that a launch reads or makes."""

    name: str
    type: TensorType
    is_made: bool

    @override
    def __str__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(frozen=True)
class Launch:
    """One use of a kernel: what it reads and makes, and the lines of the user's it comes from."""

    number: int
    """Its place in the program's list of launches."""
    kernel: Kernel
    buffers: tuple[Argument, ...]
    node: int
    """The id of the graph's node that it computes."""
    scope: str = ""
    find: Callable[[int], tuple[Origin, ...]] = field(default=lambda _: (), repr=False)

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """The lines of the user's that it computes."""
        return self.find(self.node)

    @property
    def name(self) -> str:
        """The name of the graph's node."""
        return next(buffer.name for buffer in self.buffers if buffer.is_made)

    def flops(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return how many operations on numbers it takes."""
        return self.kernel.flops(dims)

    def bytes(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return the bytes that it reads and writes at least."""
        return self.kernel.bytes(dims)

    @override
    def __str__(self) -> str:
        made = ", ".join(str(buffer) for buffer in self.buffers if buffer.is_made)
        read = ", ".join(f"%{buffer.name}" for buffer in self.buffers if not buffer.is_made)
        return f"{made} = {self.kernel.name}({read})"
