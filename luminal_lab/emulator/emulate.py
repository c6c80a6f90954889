"""Run kernels on the CPU: arrays go in and out, and each fault names the kernel and the line.

    emulate(source, "cuda", [Call("scale", 4, 256, [x, y, 1024])])

A kernel works on copies of its arrays, which lie between protected pages. If a call fails, its
arrays and those of later calls keep their old contents.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Literal, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.emulator.failing import MOST_ACCESSES, LaunchJob, Status, failure
from luminal_lab.emulator.library import (
    KernelLibrary,
    KernelSource,
    LaunchedGrid,
    TypedParameter,
    can_fill,
    compiler,
    library_of,
    runtime,
    unset_line,
)
from luminal_lab.emulator.memory import ArrayCopy, placed
from luminal_lab.emulator.reading import DialectName
from luminal_lab.emulator.trace import Trace, joined, launch_trace, unset
from luminal_lab.errors import ArgumentError, DeviceError, Interrupted
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.kernel import Phase
from luminal_lab.kernels.tile_map import BYTES, TileMap
from luminal_lab.progress import Progress, progress

Size: TypeAlias = int | tuple[int, ...]
ArrayKey: TypeAlias = tuple[int, int]
"""The address of an array, and its bytes."""

ALIGNED: Final = 64
"""The alignment that a GPU asks of a tensor map among a kernel's parameters."""
MAP: Final = 0x70616D5F62616C
"""The last word of the emulator's tensor maps, as in bulk.h."""


@dataclass(frozen=True)
class Matrix:
    """An array that a kernel gets as a tensor map."""

    array: Array
    tile: TileMap


Order: TypeAlias = Literal["late", "early"] | int
"""When what is asynchronous is done: as late as can be, at once, or drawn with this seed."""
Argument: TypeAlias = Array | Matrix | np.generic | int | float

MOST_THREADS: Final = 1024
MOST_SHARED: Final[Mapping[DialectName, tuple[int, int]]] = {
    "cuda": (48 << 10, 227 << 10),
    "metal": (32 << 10, 32 << 10),
}
"""The bytes of shared memory that a block can declare, and that it can have on any card."""
ORDERS: Final = {"late": 0, "early": 1}
DRAWN: Final = (1 << 32) - 2
"""The orders by their numbers in the runtime; the others are seeds, and this many."""
LIMIT: Final = 60.0
"""The most seconds that one call may take."""
ONE: Final = threading.Lock()
"""One kernel runs at a time: the runtime has one set of fibers."""
WAITING: Final = 0.05
"""The seconds between two checks for Ctrl-C while waiting."""


@dataclass(frozen=True)
class Call:
    """A launch: the kernel's name, the grid, the threads of a block, arguments in order.

    `fresh` lists the arguments without contents: a trace reports reads of them before a write.
    `shared` is the size in bytes of the shared memory that the kernel declares without a size.
    """

    function: str
    blocks: Size
    threads: Size
    arguments: Sequence[Argument]
    shared: int | tuple[int, ...] = 0
    fresh: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, phase: Phase, blocks: int, arguments: Sequence[Argument], fresh: tuple[int, ...] = ()
    ) -> Call:
        """Return the launch of a phase of one of our kernels."""
        return cls(phase.function, blocks, phase.threads, arguments, phase.shared, fresh)


REGION: Final = np.dtype("u8, u8, u8, u8, u8, i4, i4")
"""An array that a trace watches, as in watch.h."""


def emulate(
    source: str,
    dialect: DialectName,
    calls: Iterable[Call],
    *,
    trace: bool = False,
    limit: float = LIMIT,
    above: int = 0,
    order: Order = "late",
) -> Trace | None:
    """Run calls of a source's kernels in order; change their arrays in place.

    A call that would take longer than `limit` seconds is refused, and the error names a size that
    would do. `order` says when asynchronous copies and products are done: as "late" as can be, at
    once ("early"), or at moments drawn with a seed, in any order. With `trace` each access is
    recorded and checked, and the findings are returned. The
    first `above` lines are the prelude: what they do is attributed to the lines that call them, and
    line numbers start after them.
    """
    if not is_order(order):
        fault = f"emulator: order is {order!r}"
        raise ArgumentError(
            fault, hint='give "late", "early", or a seed that draws one: 0, 1, 2, …'
        )
    kernels = KernelSource(source, dialect, above)
    library = library_of(kernels, "traced" if trace else "plain")
    written: dict[ArrayKey, Array] = {}
    traces: list[Trace] = []
    launches = [_CallRun(library, call, limit, order) for call in calls]
    with progress("emulate", sum(launch.facts.grid for launch in launches), "block") as bar:
        for launch in launches:
            bar.now(launch.call.function)
            twin = launch.twin() if trace else launch.call
            launch_trace = launch.run(written, bar)
            if launch_trace is not None:
                traces.append(launch.compared(twin, launch_trace))
    return joined(traces) if trace else None


def is_order(order: object) -> bool:
    """Return whether this is an order of asynchronous copies and products."""
    if isinstance(order, str):
        return order in ORDERS
    return isinstance(order, int) and not isinstance(order, bool) and order >= 0


def _key(array: Array) -> ArrayKey:
    return int(array.ctypes.data), array.nbytes


class _CallRun:
    """One call, from its arguments to its outcome."""

    def __init__(self, library: KernelLibrary, call: Call, limit: float, order: Order) -> None:
        self.library = library
        self.call = call
        self.order: Order = order
        self.blocks: dict[ArrayKey, ArrayCopy] = {}
        """The copies of its arrays, while it runs."""
        self.trace = library.build == "traced"
        self.subject = f"emulator: kernel {call.function}"
        own = ", ".join(library.takes) or "none"
        fault = f"emulator: the source has no kernel {call.function!r}; it has {own}"
        ArgumentError.unless_known(call.function, library.takes, fault, "name one of its kernels")
        self.takes = [p for p in library.takes[call.function] if not p.is_shared]
        sizes = self._size("blocks", call.blocks), self._size("threads", call.threads)
        self.facts = LaunchedGrid(library, call.function, *sizes, limit)
        threads, blocks = self.facts.block, self.facts.grid
        sides = tuple_text(self.facts.threads)
        if not 0 < threads <= MOST_THREADS:
            fault = f"a block has {sides} = {threads:,} threads"
            raise self._wrong(fault, f"it can have 1 to {MOST_THREADS:,}")
        if blocks * threads >= 1 << 31:
            fault = f"{blocks:,} blocks of {threads:,} threads are more than an int counts"
            raise self._wrong(fault, "the emulator is for small sizes")
        if len(call.arguments) != len(self.takes):
            fault = f"it takes {len(self.takes)} arguments, and is given {len(call.arguments)}"
            names = ", ".join(parameter.name for parameter in self.takes)
            raise self._wrong(fault, f"it takes {names or 'none'}")

    def _wrong(self, text: str, hint: str) -> ArgumentError:
        return ArgumentError(f"{self.subject}: {text}", hint=hint)

    def _size(self, dimension: str, size: Size) -> tuple[int, int, int]:
        sizes = size if isinstance(size, tuple) else (size,)
        if not 0 < len(sizes) <= 3 or any(length < 0 for length in sizes):
            raise self._wrong(f"its {dimension} are {size!r}", "give one to three sizes")
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def run(self, written: dict[ArrayKey, Array], bar: Progress) -> Trace | None:
        """Run the call, copy its results back, and return its trace."""
        with held(), _alone():
            try:
                passed = list(map(self._passed, self.takes, self.call.arguments))
                pointers = (ctypes.c_void_p * (len(passed) or 1))(*map(ctypes.addressof, passed))
                job = self._job(pointers)
                if self.trace:
                    self._watch(written)
                self._go(job, bar)
                # What lies outside a thread's own array was found by the trace.
                is_found = self.trace and job.status == Status.OUTSIDE_OWN
                if job.status and not is_found:
                    raise failure(self.facts, job, self.blocks.values())
                if not is_found:
                    self._back()
                if not self.trace:
                    return None
                arrays = [(block.name, block.array) for block in self.blocks.values()]
                return launch_trace(self.facts, arrays, job.shared_bytes, self._notes(job))
            finally:
                runtime().unwatch()
                for block in self.blocks.values():
                    runtime().release(block.base, block.whole)

    # -- the same again, with other bits in locals that nothing sets -------------------------------

    def twin(self) -> Call:
        """Return the call with copies of its arrays as they are before it runs."""
        copies: dict[ArrayKey, Array] = {}

        def copied(value: Argument) -> Argument:
            if isinstance(value, Matrix):
                return Matrix(copies.setdefault(_key(value.array), value.array.copy()), value.tile)
            if isinstance(value, np.ndarray):
                return copies.setdefault(_key(value), value.copy())
            return value

        return replace(self.call, arguments=[copied(value) for value in self.call.arguments])

    def compared(self, twin: Call, trace: Trace) -> Trace:
        """Return the call's trace, with a finding if its twin gives a different result.

        An output that differs depends on a local that nothing sets.
        """
        name, library = self.call.function, self.library
        if not can_fill():
            note = f"{name}: locals that nothing sets are not checked for: {compiler()}"
            return replace(trace, notes=(*trace.notes, f"{note} cannot fill them"))
        if trace.findings:
            return trace  # the twin would not finish, or not in the same way
        other = library_of(library.source, "unset as zero")
        try:
            _CallRun(other, twin, self.facts.limit, self.order).run({}, Progress())
        except DeviceError:
            differs = ("", np.zeros(0, np.uint8), 0)
        else:
            differs = self._difference(twin)
        if differs is None:
            return trace
        line = unset_line(library.source)
        return replace(trace, findings=(unset(self.facts, *differs, line),))

    def _difference(self, twin: Call) -> tuple[str, Array, int] | None:
        """Return the first array that differs from the twin's, and the byte."""
        values = zip(self.takes, self.call.arguments, twin.arguments, strict=True)
        for parameter, *pair in values:
            if parameter.kind in "pc" and isinstance(pair[0], np.ndarray):
                own, other = (np.asarray(array).reshape(-1).view(np.uint8) for array in pair)
                positions = np.flatnonzero(own != other)
                if positions.size:
                    return parameter.name, pair[0], int(positions[0])
        return None

    # -- arguments ---------------------------------------------------------------------------------

    def _passed(
        self, parameter: TypedParameter, value: Argument
    ) -> ctypes.c_void_p | ctypes.Array[ctypes.c_char]:
        """Return an argument in the form that C takes."""
        name = parameter.name
        if parameter.kind in "pc":
            block = self._block(parameter, value)
            block.is_written |= parameter.kind == "p"
            return ctypes.c_void_p(block.at)
        if isinstance(value, Matrix):
            return self._map(parameter, value)
        size = parameter.size
        if isinstance(value, np.ndarray):
            if value.nbytes != size:
                fault = f"{name} is a value of {size} bytes, but it is given an array of"
                raise self._wrong(f"{fault} {value.nbytes}", "pass a number")
            return ctypes.create_string_buffer(value.tobytes(), size)
        if parameter.kind not in "iubf":
            fault = f"{name} is a struct of {size} bytes, but it is given {value!r}"
            raise self._wrong(fault, "pass an array with its bytes")
        dtype = np.dtype(f"{parameter.kind.replace('b', 'u')}{size}")
        if dtype.kind != "f":
            value = int(value)
            if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                fault = f"{name} is an integer of {8 * size} bits, and {value} does not fit"
                raise self._wrong(fault, "give it a wider type in the source")
        return ctypes.create_string_buffer(np.asarray(value, dtype).tobytes(), size)

    def _map(self, parameter: TypedParameter, matrix: Matrix) -> ctypes.Array[ctypes.c_char]:
        """Return the tensor map of the copy of an array."""
        name = parameter.name
        if parameter.size != BYTES:
            hint = "const __grid_constant__ lab_tensor_map is one"
            raise self._wrong(f"{name} is not a tensor map, but it is given one", hint)
        if parameter.alignment < ALIGNED:
            fault = f"{name} is a tensor map at a multiple of {parameter.alignment} bytes"
            raise self._wrong(
                fault, f"a GPU takes them at multiples of {ALIGNED}: alignas({ALIGNED})"
            )
        tile = matrix.tile
        block = self._block(TypedParameter(name, "c", 1), matrix.array)
        words = (block.at, tile.width, tile.height, tile.pitch, tile.columns, tile.rows)
        words_of_map = np.zeros(BYTES // 8, np.uint64)
        words_of_map[:8] = (*words, tile.dtype.itemsize, MAP)
        return ctypes.create_string_buffer(words_of_map.tobytes(), BYTES)

    def _block(self, parameter: TypedParameter, value: Argument) -> ArrayCopy:
        name, blocks = parameter.name, self.blocks
        if not isinstance(value, np.ndarray):
            fault = f"{name} is a pointer, but it is given {value!r}"
            raise self._wrong(fault, "pass an array of NumPy's")
        if not value.flags.c_contiguous or (parameter.kind == "p" and not value.flags.writeable):
            fault = "read-only" if value.flags.c_contiguous else "not contiguous"
            raise self._wrong(f"the array for {name} is {fault}", "pass a copy: array.copy()")
        size = value.dtype.itemsize
        if parameter.size != 1 and parameter.size % size:
            raise self._wrong(
                f"{name} points to elements of {parameter.size} bytes, but the array "
                f"is of {value.dtype}, which has {size}",
                "array.astype(…) gives the other dtype",
            )
        key = start, _ = _key(value)
        if key in blocks:
            return blocks[key]
        for (other, length), block in blocks.items():
            if other < start + value.nbytes and start < other + length:
                fault = f"the arrays for {block.name} and {name} overlap"
                raise self._wrong(fault, "two arrays of one call are either the same or apart")
        blocks[key] = placed(self.subject, name, value, wide=self.trace)
        return blocks[key]

    def _back(self) -> None:
        hint = "emulate with trace=True, which names the line"
        for block in self.blocks.values():
            if block.is_overrun():
                event = f"it writes behind {block.name}, {block.type}"
                raise DeviceError(f"{self.subject}: {event}", hint=hint)
        for block in self.blocks.values():
            given = block.array.reshape(-1).view(np.uint8)
            if block.is_written:
                given[:] = block.inside()
            elif not self.trace and (block.inside() != given).any():
                event = f"it writes to {block.name}, which it takes as const"
                raise DeviceError(f"{self.subject}: {event}", hint=hint)

    # -- running -----------------------------------------------------------------------------------

    def _job(self, pointers: ctypes.Array[ctypes.c_void_p]) -> LaunchJob:
        entry = self.library.loaded[f"lab_entry_{self.call.function}"]
        shared = self.call.shared
        dialect = self.library.source.dialect
        most_static, most_shared = MOST_SHARED[dialect]
        return LaunchJob(
            entry=ctypes.cast(entry, ctypes.c_void_p),
            arguments=ctypes.addressof(pointers),
            blocks=self.facts.blocks,
            threads=self.facts.threads,
            dynamic_bytes=shared if isinstance(shared, tuple) else (shared,),
            limit=self.facts.limit,
            # From Volta on, a barrier in CUDA waits for the threads that have not returned.
            waits_for_all=dialect == "metal",
            most_static=most_static,
            most_shared=most_shared,
            order=ORDERS[self.order] if isinstance(self.order, str) else 2 + self.order % DRAWN,
        )

    def _watch(self, written: dict[ArrayKey, Array]) -> None:
        for argument in self.call.fresh:
            value = self.call.arguments[argument]
            if isinstance(value, np.ndarray):
                written[_key(value)] = np.zeros(value.size, np.uint8)
        rows = [
            (
                *(block.base, block.at, block.base + block.whole, block.array.nbytes),
                written[key].ctypes.data if key in written else 0,
                *(block.array.dtype.itemsize, not block.is_written),
            )
            for key, block in self.blocks.items()
        ]
        self._regions = np.array(rows, REGION)
        grid = max(1, self.facts.grid)
        at = self._regions.ctypes.data
        if runtime().watch(at, len(rows), *self.library.lines, MOST_ACCESSES, grid):
            fault = f"{self.subject}: there is no memory for a trace"
            raise DeviceError(fault, hint="trace a smaller size")

    def _go(self, job: LaunchJob, bar: Progress) -> None:
        """Run the job in a thread of its own, which this thread can stop."""
        library = runtime()
        library.clear()
        runner = threading.Thread(target=library.launch, args=[ctypes.byref(job)], daemon=True)
        end, done = monotonic() + self.facts.limit, 0
        runner.start()
        try:
            while runner.is_alive():
                runner.join(max(0.001, min(WAITING, end - monotonic())))
                look()
                if monotonic() > end:
                    library.stop()
                bar.step(job.blocks_done - done)
                done = job.blocks_done
            bar.step(job.blocks_done - done)
        except KeyboardInterrupt:
            while runner.is_alive():
                library.stop()
                runner.join(0.01)
            stopped = f"{self.subject}: it was stopped, and its arrays are as they were"
            raise Interrupted(stopped) from None

    def _notes(self, job: LaunchJob) -> tuple[str, ...]:
        if not job.early_line:
            return ()
        source = self.library.source
        line = source.line(job.early_line)
        many = "1 thread had" if job.early_threads == 1 else f"{job.early_threads:,} threads had"
        return (
            f"{self.call.function}: in block {job.early_block} {many} returned before a barrier, "
            "which waits for the others on cards from Volta (sm_70) on\n"
            f"  line {line}: {source.text(line)}",
        )


@contextmanager
def _alone() -> Generator[None, None, None]:
    """Wait until no other thread runs a kernel."""
    while not ONE.acquire(timeout=WAITING):
        look()
    try:
        yield
    finally:
        ONE.release()
