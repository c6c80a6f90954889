"""A launch: one use of a kernel in a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import NamedTuple, SupportsIndex, TypeAlias, overload

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import evaluate
from luminal_lab.core.ir import Node
from luminal_lab.core.op import TensorType
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import as_text
from luminal_lab.errors import GraphError, nearest, position
from luminal_lab.kernels.definition.cost import NO_DIMS
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.tables import Table, frame
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told_object

LAUNCHES = ("launch", "kernel", "node", "scope", "reads", "makes", "from", "flops", "bytes")


LaunchResult: TypeAlias = Tensor | Node
"""What a launch may make."""


class Argument(NamedTuple):
    """A value that a launch reads or makes."""

    name: str
    type: TensorType
    is_made: bool

    @override
    def __str__(self) -> str:
        return f"%{self.name}: {self.type}"


@told_object("launch")
@dataclass(frozen=True, repr=False)
class Launch:
    """One use of a kernel: what it reads and makes, and the user's lines that it comes from.

    Its text shows the kernel's name for each value: `%y: f32[8, 4] = matmul(a=%x, b=%w).O`.
    """

    number: int
    """Its place in the program's list of launches."""
    kernel: Kernel
    buffers: tuple[Argument, ...]
    node: int
    """The id of the node in the graph that it computes."""
    scope: str = ""
    find: Callable[[int], tuple[Origin, ...]] = field(default=lambda _: ())
    follow: Callable[[int], set[int]] = field(default=lambda id: {id})
    chosen: Callable[[], str] = field(default=lambda: "", compare=False)
    """What computes it instead of its kernel, and how that was chosen; usually empty."""

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """The user's lines that it computes."""
        return self.find(self.node)

    @property
    def name(self) -> str:
        """The name of the node in the graph."""
        return self.makes[0]

    @property
    def makes(self) -> tuple[str, ...]:
        """The names of the values that it makes."""
        return tuple(buffer.name for buffer in self.buffers if buffer.is_made)

    def flops(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return how many operations on numbers it takes."""
        return self.kernel.flops(dims)

    def bytes(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return the least bytes that it reads and writes."""
        return self.kernel.bytes(dims)

    @override
    def __str__(self) -> str:
        results = ", ".join(str(buffer) for buffer in self.buffers if buffer.is_made)
        read = [f"%{buffer.name}" for buffer in self.buffers if not buffer.is_made]
        names, chosen = self.kernel.names, self.chosen()
        by = f"  # {chosen}" if chosen else ""
        if not names:
            return f"{results} = {self.kernel.name}({', '.join(read)}){by}"
        given = ", ".join(f"{name}={value}" for name, value in zip(names, read, strict=False))
        return f"{results} = {self.kernel.name}({given}).{', '.join(names[len(read) :])}{by}"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Launch {self.number} {self}>"


@told_object("launches")
class Launches(tuple[Launch, ...]):
    """The launches of a run, in order: by place, by name, by kernel, or by what they make.

    A kernel, or its name, stands for its first launch.
    """

    __slots__ = ()

    @overload
    def __getitem__(self, which: str | SupportsIndex | Kernel | LaunchResult) -> Launch: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Launch, ...]: ...
    @override
    def __getitem__(
        self, which: str | SupportsIndex | Kernel | LaunchResult | slice
    ) -> Launch | tuple[Launch, ...]:
        if isinstance(which, slice):
            return super().__getitem__(which)
        if isinstance(which, SupportsIndex):
            hint = "they count from 0, in the order in which they run"
            missing = "launches: there is no launch"
            return super().__getitem__(position(index(which), len(self), missing, hint))
        if isinstance(which, Kernel):
            launches = [launch for launch in self if launch.kernel == which]
            label = f"of the kernel {which.name}"
        elif isinstance(which, str):
            bare = which.removeprefix("%")
            makers = [launch for launch in self if bare in launch.makes]
            launches = makers or [launch for launch in self if launch.kernel.name == which]
            label = f"called {which!r}"
        else:
            ids = self.nodes_of(which)
            launches = [launch for launch in self if launch.node in ids]
            label = f"that makes %{which.name}"
        if launches:
            return launches[0]
        known = dict.fromkeys([n for launch in self for n in (*launch.makes, launch.kernel.name)])
        near = nearest(which, known) if isinstance(which, str) else None
        raise GraphError(
            f"launches: there is none {label}",
            hint=near or f"print(cx.launches) shows all {len(self)}",
        )

    def nodes_of(self, tensor: LaunchResult) -> set[int]:
        """Return the ids of the nodes in the compiled graph that a tensor has become."""
        follow = self[0].follow if self else None
        return {tensor.id} if follow is None else follow(tensor.id)

    def to_pandas(self, dims: Mapping[str, int] = NO_DIMS) -> Table:
        """Return a pandas table with a row for each launch; `dims` are the sizes of symbolic dims.

        Operations and bytes are given if their sizes are known.
        """
        rows = (
            (
                *(launch.number, launch.kernel.name, launch.name, launch.scope),
                tuple(buffer.name for buffer in launch.buffers if not buffer.is_made),
                launch.makes,
                "; ".join(f"{origin.file}:{origin.line}" for origin in launch.origins),
                *launch.kernel.counts(dims),
            )
            for launch in self
        )
        return frame("launches", LAUNCHES, rows)

    @override
    def __str__(self) -> str:
        return "\n".join(f"{launch.number:>4}  {launch}" for launch in self) or "no launches"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        many = f"{len(self)} launch{'es' * (len(self) != 1)}"
        return f"<Launches: {many}; print(…) shows them>"


def numbers_of(kernel: Kernel, dims: Mapping[str, int]) -> tuple[np.generic, ...]:
    """Return the numbers that a kernel gets after its buffers, for sizes of dims."""
    if kernel.given_numbers is None:
        return tuple(np.int64(dims[name]) for name in kernel.dims)
    return tuple(np.dtype(kind).type(evaluate(dim, dims)) for dim, kind in kernel.given_numbers)
