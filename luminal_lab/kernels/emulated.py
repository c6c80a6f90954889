"""The outcome of a kernel in the emulator: its outputs, what they should be, what a trace saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.core.printer import as_text
from luminal_lab.display import Alive, Shown
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.definition import Buffer
from luminal_lab.passes.judge import differences
from luminal_lab.tables import Table
from luminal_lab.tensor.arguments import told_object


class Tracing(Protocol):
    """What is known about each access of a kernel; the emulator's `Trace`."""

    @property
    def findings(self) -> Sequence[object]:
        """What is wrong: races, reads of unwritten elements, accesses out of bounds."""
        ...

    @property
    def transactions(self) -> Mapping[int, int]:
        """The 32-byte sectors of global memory that each line of the source moves."""
        ...

    @property
    def conflicts(self) -> Mapping[int, int]:
        """The turns that each line of the source waits for banks of shared memory."""
        ...

    def to_pandas(self) -> Table:
        """Return the sums by line as a pandas table."""
        ...

    @property
    def display(self) -> Callable[..., Shown]:
        """Returns a picture of which threads touch what."""
        ...

    @property
    def explore(self) -> Callable[..., Alive]:
        """Returns a live picture of which threads touch what."""
        ...


@dataclass(frozen=True)
class Meaning:
    """What a kernel takes, returns and computes, if no definition says it."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    compute: Callable[[Sequence[Array], Mapping[str, int]], Sequence[Array]] | None = None
    """The outputs for inputs and sizes of dims; None if nobody said what they are."""
    limits: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    """For inputs that hold indices, how many positions there are."""


class EmulatedLaunch(NamedTuple):
    """A phase as it ran: how many blocks, of how many threads."""

    function: str
    blocks: int
    threads: int

    @override
    def __str__(self) -> str:
        many = "1 block" if self.blocks == 1 else f"{self.blocks:,} blocks"
        return f"{self.function}: {many} of {self.threads} threads"


@told_object("emulated")
@dataclass(frozen=True, repr=False, eq=False)
class Emulated:
    """The outcome of a kernel in the emulator; printed, or in a cell, it is described in lines."""

    kernel: str
    dialect: str
    dims: Mapping[str, int]
    launches: tuple[EmulatedLaunch, ...]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    """The outputs by the kernel's definition; empty if there is none."""
    trace: Tracing | None = None
    """Each access and what is wrong with it, if that was requested."""

    @cached_property
    def wrong(self) -> Mapping[str, Array]:
        """For each output with wrong elements, their positions, one per row."""
        wrong: dict[str, Array] = {}
        for name, want in self.expected.items():
            positions = np.argwhere(differences(want, self.outputs[name], scaled=True))
            if len(positions):
                wrong[name] = positions
        return wrong

    @property
    def agrees(self) -> bool:
        """Whether all outputs are right, up to rounding."""
        return not self.wrong

    @property
    def findings(self) -> tuple[object, ...]:
        """What a trace found wrong, each with its line and the threads."""
        return tuple(self._traced.findings)

    @property
    def transactions(self) -> Mapping[int, int]:
        """The 32-byte sectors of global memory that each line of the source moves."""
        return self._traced.transactions

    @property
    def conflicts(self) -> Mapping[int, int]:
        """The turns that each line of the source waits for banks of shared memory."""
        return self._traced.conflicts

    def to_pandas(self) -> Table:
        """Return what each line of the source does with memory, as a pandas table."""
        return self._traced.to_pandas()

    def display(self, **how: Any) -> Shown:
        """Return a picture of who touches what, threads by addresses; `trace.display` says how."""
        return self._traced.display(**how)

    def explore(self, **how: Any) -> Alive:
        """Return a live picture of who touches what, barrier by barrier."""
        return self._traced.explore(**how)

    @property
    def _traced(self) -> Tracing:
        if self.trace is None:
            raise DeviceError(
                f"kernel {self.kernel}: its accesses were not recorded",
                hint="kernel.emulate(trace=True) records them",
            )
        return self.trace

    @override
    def __str__(self) -> str:
        sizes = "".join(f", {name} = {size}" for name, size in self.dims.items())
        lines = [f"kernel {self.kernel} ({self.dialect}) in the emulator{sizes}"]
        lines += [f"  {launch}" for launch in self.launches] or ["  there is nothing to do"]
        lines += [f"  {self._judged(name)}" for name in self.outputs]
        return "\n".join([*lines, *([] if self.trace is None else [str(self.trace)])])

    def _judged(self, name: str) -> str:
        got = self.outputs[name]
        told = f"{name}: {got.dtype}{tuple_text(got.shape)}"
        if name not in self.expected:
            return f"{told}, and nothing says what it should be"
        if name not in self.wrong:
            return f"{told}, as it should be"
        positions = self.wrong[name]
        first = tuple(int(index) for index in positions[0])
        at = f"{name}[{', '.join(map(str, first))}]" if first else name
        return (
            f"{told}, of which {len(positions):,} of {got.size:,} are wrong: {at} is {got[first]}, "
            f"and should be {self.expected[name][first]}"
        )

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        is_right = "agrees" if self.agrees else f"{', '.join(self.wrong)} wrong"
        findings = "" if self.trace is None else f", {len(self.findings)} findings"
        return f"<Emulated {self.kernel}: {is_right}{findings}; print(…) shows it>"
