"""Run kernels on the CPU: arrays go in and out, and each fault names the kernel and the line.

    emulate(source, "cuda", [Call("scale", 4, 256, [x, y, 1024])])

A kernel works on copies of its arrays, which lie between protected pages. If a call fails, its
arrays and those of later calls keep their old contents.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.emulator.failing import MOST_ACCESSES, Job, LaunchFacts, Status, failure
from luminal_lab.emulator.library import (
    KernelLibrary,
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
from luminal_lab.errors import ArgumentError, DeviceError, Interrupted, nearest
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.tile_map import BYTES, TileMap
from luminal_lab.progress import Progress, progress

Size: TypeAlias = int | tuple[int, ...]

MAP: Final = 0x70616D5F62616C
"""The last word of the emulator's tensor maps, as in bulk.h."""


@dataclass(frozen=True)
class Matrix:
    """An array that a kernel gets as a tensor map."""

    array: Array
    tile: TileMap


Argument: TypeAlias = Array | Matrix | np.generic | int | float

MOST_THREADS: Final = 1024
MOST_SHARED: Final[Mapping[DialectName, tuple[int, int]]] = {
    "cuda": (48 << 10, 227 << 10),
    "metal": (32 << 10, 32 << 10),
}
"""The bytes of shared memory that a block can declare, and that it can have on any card."""
LIMIT: Final = 60.0
"""The seconds that one call may take."""
ONE: Final = threading.Lock()
"""One kernel runs at a time: the runtime has one set of fibers."""
WAITING: Final = 0.05
"""The seconds between two checks for Ctrl-C while waiting."""


@dataclass(frozen=True)
class Call:
    """A launch: the kernel's name, the grid, the threads of a block, arguments in order.

    `fresh` lists the arguments that hold nothing yet: a trace reports reads of them before a write.
    `shared` is the size in bytes of the shared memory that the kernel declares without a size.
    """

    function: str
    blocks: Size
    threads: Size
    arguments: Sequence[Argument]
    shared: int | tuple[int, ...] = 0
    fresh: tuple[int, ...] = ()


class WatchedArray(ctypes.Structure):
    """An array that a trace watches."""

    _fields_ = (
        ("low", ctypes.c_void_p),
        ("at", ctypes.c_void_p),
        ("high", ctypes.c_void_p),
        ("bytes", ctypes.c_ulonglong),
        ("written", ctypes.c_void_p),
        ("element", ctypes.c_int),
        ("is_constant", ctypes.c_int),
    )


def emulate(
    source: str,
    dialect: DialectName,
    calls: Iterable[Call],
    *,
    trace: bool = False,
    limit: float = LIMIT,
    above: int = 0,
) -> Trace | None:
    """Run calls of a source's kernels in order; change their arrays in place.

    A call that would take longer than `limit` seconds is refused, with the size that would do.
    With `trace` each access is recorded and checked, and the findings come back. The lines of
    `above` the first that counts are the prelude's: what they do is told of the lines that call
    them, and lines are counted from behind them.
    """
    library = library_of(source, dialect, "traced" if trace else "plain", above)
    written: dict[tuple[int, int], Array] = {}
    traces: list[Trace] = []
    launches = [
        _Launch(source, library, call, trace=trace, limit=limit, above=above) for call in calls
    ]
    again = _Again(source, dialect, limit, above)
    with progress("emulate", sum(math.prod(launch.blocks) for launch in launches), "block") as bar:
        for launch in launches:
            bar.now(launch.call.function)
            if trace:
                again.prepare(launch.call)
            launch_trace = launch.run(written, bar)
            if launch_trace is not None:
                traces.append(again.compared(launch.call, launch_trace))
    return joined(traces) if trace else None


class _Again:
    """Repeats the launches of a trace with other bits in uninitialised locals.

    An output that then differs depends on such a local.
    """

    def __init__(self, source: str, dialect: DialectName, limit: float, above: int) -> None:
        self.source = source
        self.dialect: DialectName = dialect
        self.limit = limit
        self.above = above
        self.copies: dict[tuple[int, int], Array] = {}

    def prepare(self, call: Call) -> None:
        """Copy the arrays of a launch that is about to be run."""
        for value in call.arguments:
            array = value.array if isinstance(value, Matrix) else value
            if isinstance(array, np.ndarray):
                self.copies[_key(array)] = array.copy()

    def compared(self, call: Call, trace: Trace) -> Trace:
        """Return a launch's trace, with a finding if the copies hold something else after it."""
        if not can_fill():
            note = f"{call.function}: locals that nothing sets are not looked for: {compiler()}"
            return replace(trace, notes=(*trace.notes, f"{note} cannot fill them"))
        if trace.findings:
            return trace  # it would not come to its end, or not to the same one
        library = library_of(self.source, self.dialect, "unset as zero", self.above)
        twin = replace(call, arguments=[self._twin(value) for value in call.arguments])
        launch = _Launch(
            self.source, library, twin, trace=False, limit=self.limit, above=self.above
        )
        try:
            launch.run({}, Progress())
        except DeviceError:
            differs = ("", np.zeros(0, np.uint8), 0)
        else:
            differs = self._difference(launch, call)
        if differs is None:
            return trace
        line = max(0, unset_line(self.source, self.dialect, self.above))
        finding = unset(launch.source, call.function, *differs, line)
        return replace(trace, findings=(finding,))

    def _difference(self, launch: _Launch, call: Call) -> tuple[str, Array, int] | None:
        """Return the first array that differs from the copy that was launched, and the byte."""
        for parameter, value in zip(launch.takes, call.arguments, strict=True):
            if parameter.kind in "pc" and isinstance(value, np.ndarray):
                pair = [a.reshape(-1).view(np.uint8) for a in (value, self.copies[_key(value)])]
                positions = np.flatnonzero(pair[0] != pair[1])
                if positions.size:
                    return parameter.name, value, int(positions[0])
        return None

    def _twin(self, value: Argument) -> Argument:
        if isinstance(value, Matrix):
            return Matrix(self.copies[_key(value.array)], value.tile)
        return self.copies[_key(value)] if isinstance(value, np.ndarray) else value


def _key(array: Array) -> tuple[int, int]:
    return int(array.ctypes.data), array.nbytes


class _Launch:
    """One call, from its arguments to its outcome."""

    def __init__(
        self,
        source: str,
        library: KernelLibrary,
        call: Call,
        *,
        trace: bool,
        limit: float,
        above: int = 0,
    ) -> None:
        self.source = source.split("\n", above)[above] if above else source
        self.above = above
        self.library = library
        self.call = call
        self.trace = trace
        self.limit = limit
        self.subject = f"emulator: kernel {call.function}"
        if call.function not in library.takes:
            raise ArgumentError(
                f"emulator: the source has no kernel {call.function!r}; it has "
                f"{', '.join(library.takes) or 'none'}",
                hint=nearest(call.function, library.takes) or "name one of its kernels",
            )
        self.takes = [
            parameter for parameter in library.takes[call.function] if not parameter.is_shared
        ]
        self.blocks = self._size("blocks", call.blocks)
        self.threads = self._size("threads", call.threads)
        threads, blocks = math.prod(self.threads), math.prod(self.blocks)
        if not 0 < threads <= MOST_THREADS:
            raise ArgumentError(
                f"{self.subject}: a block has {tuple_text(self.threads)} = {threads:,} threads",
                hint=f"it can have 1 to {MOST_THREADS:,}",
            )
        if blocks * threads >= 1 << 31:
            raise ArgumentError(
                f"{self.subject}: {blocks:,} blocks of {threads:,} threads are more than an int "
                "counts",
                hint="the emulator is for small sizes",
            )
        if len(call.arguments) != len(self.takes):
            raise ArgumentError(
                f"{self.subject}: it takes {len(self.takes)} arguments, and is given "
                f"{len(call.arguments)}",
                hint="it takes "
                + (", ".join(parameter.name for parameter in self.takes) or "none"),
            )

    def _size(self, dimension: str, size: Size) -> tuple[int, int, int]:
        sizes = size if isinstance(size, tuple) else (size,)
        if not 0 < len(sizes) <= 3 or any(length < 0 for length in sizes):
            raise ArgumentError(
                f"{self.subject}: its {dimension} are {size!r}", hint="give one to three sizes"
            )
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    def run(self, written: dict[tuple[int, int], Array], bar: Progress) -> Trace | None:
        """Run the call, copy its results back, and return its trace."""
        blocks: dict[tuple[int, int], ArrayCopy] = {}
        with held(), _alone():
            try:
                c_arguments = [
                    self._passed(parameter, value, blocks)
                    for parameter, value in zip(self.takes, self.call.arguments, strict=True)
                ]
                pointers = (ctypes.c_void_p * (len(c_arguments) or 1))(
                    *(ctypes.addressof(value) for value in c_arguments)
                )
                job = self._job(pointers)
                if self.trace:
                    self._watch(blocks, written)
                self._go(job, bar)
                if self.trace and job.status == Status.OUTSIDE_OWN:
                    return self._seen(blocks, job)  # and its arrays are as they were
                if job.status:
                    raise failure(self._told(), job, blocks.values())
                self._back(blocks)
                return self._seen(blocks, job) if self.trace else None
            finally:
                runtime().unwatch()
                for block in blocks.values():
                    runtime().release(block.base, block.whole)

    # -- arguments ---------------------------------------------------------------------------------

    def _passed(
        self, parameter: TypedParameter, value: Argument, blocks: dict[tuple[int, int], ArrayCopy]
    ) -> ctypes.c_void_p | ctypes.Array[ctypes.c_char]:
        """Return an argument as C has it."""
        subject = f"{self.subject}: {parameter.name}"
        if parameter.kind in "pc":
            block = self._block(parameter, value, blocks)
            block.is_written |= parameter.kind == "p"
            return ctypes.c_void_p(block.at)
        if isinstance(value, Matrix):
            return self._map(parameter, value, blocks)
        if isinstance(value, np.ndarray) and value.nbytes == parameter.size:
            return ctypes.create_string_buffer(value.tobytes(), parameter.size)
        if isinstance(value, np.ndarray):
            raise ArgumentError(
                f"{subject} is a value of {parameter.size} bytes, but it is given an "
                f"array of {value.nbytes}",
                hint="pass a number",
            )
        if parameter.kind in "iub":
            number = int(value)
            bits = 8 * parameter.size
            low, high = (
                (-(1 << bits - 1), 1 << bits - 1) if parameter.kind == "i" else (0, 1 << bits)
            )
            if not low <= number < high:
                raise ArgumentError(
                    f"{subject} is an integer of {bits} bits, and {number} does not fit",
                    hint="give it a wider type in the source",
                )
            data = number.to_bytes(parameter.size, "little", signed=parameter.kind == "i")
        elif parameter.kind == "f":
            data = np.asarray(value, {2: np.float16, 4: np.float32, 8: np.float64}[parameter.size])
            data = data.tobytes()
        else:
            raise ArgumentError(
                f"{subject} is a struct of {parameter.size} bytes, but it is given {value!r}",
                hint="pass an array with its bytes",
            )
        return ctypes.create_string_buffer(data, parameter.size)

    def _map(
        self, parameter: TypedParameter, matrix: Matrix, blocks: dict[tuple[int, int], ArrayCopy]
    ) -> ctypes.Array[ctypes.c_char]:
        """Return the tensor map of the copy of an array."""
        subject = f"{self.subject}: {parameter.name}"
        if parameter.size != BYTES:
            raise ArgumentError(
                f"{subject} is no tensor map, but it is given one",
                hint="const __grid_constant__ lab_tensor_map is one",
            )
        tile = matrix.tile
        block = self._block(TypedParameter(parameter.name, "c", 1), matrix.array, blocks)
        words = (block.at, tile.width, tile.height, tile.pitch, tile.columns, tile.rows)
        words_of_map = np.zeros(BYTES // 8, np.uint64)
        words_of_map[:8] = (*words, tile.dtype.itemsize, MAP)
        return ctypes.create_string_buffer(words_of_map.tobytes(), BYTES)

    def _block(
        self, parameter: TypedParameter, value: Argument, blocks: dict[tuple[int, int], ArrayCopy]
    ) -> ArrayCopy:
        subject = f"{self.subject}: {parameter.name}"
        if not isinstance(value, np.ndarray):
            raise ArgumentError(
                f"{subject} is a pointer, but it is given {value!r}",
                hint="pass an array of NumPy's",
            )
        if not value.flags.c_contiguous or (parameter.kind == "p" and not value.flags.writeable):
            fault = "read-only" if value.flags.c_contiguous else "not contiguous"
            raise ArgumentError(
                f"{self.subject}: the array for {parameter.name} is {fault}",
                hint="pass a copy: array.copy()",
            )
        size = value.dtype.itemsize
        if parameter.size != 1 and parameter.size % size:
            raise ArgumentError(
                f"{subject} points to elements of {parameter.size} bytes, but the array "
                f"is of {value.dtype}, which has {size}",
                hint="array.astype(…) gives the other dtype",
            )
        start = int(value.ctypes.data)
        key = start, value.nbytes
        if key in blocks:
            return blocks[key]
        for (other, length), block in blocks.items():
            if other < start + value.nbytes and start < other + length:
                raise ArgumentError(
                    f"{self.subject}: the arrays for {block.name} and {parameter.name} overlap",
                    hint="in one call arrays are the same or apart",
                )
        blocks[key] = placed(self.subject, parameter.name, value, wide=self.trace)
        return blocks[key]

    def _back(self, blocks: dict[tuple[int, int], ArrayCopy]) -> None:
        for block in blocks.values():
            if block.is_overrun():
                raise DeviceError(
                    f"{self.subject}: it writes behind {block.name}, {block.type}",
                    hint="emulate with trace=True, which names the line",
                )
        for block in blocks.values():
            given = block.array.reshape(-1).view(np.uint8)
            if block.is_written:
                given[:] = block.inside()
            elif not self.trace and (block.inside() != given).any():
                raise DeviceError(
                    f"{self.subject}: it writes to {block.name}, which it takes as const",
                    hint="emulate with trace=True, which names the line",
                )

    # -- running -----------------------------------------------------------------------------------

    def _job(self, pointers: ctypes.Array[ctypes.c_void_p]) -> Job:
        job = Job()
        job.entry = ctypes.cast(
            self.library.loaded[f"lab_entry_{self.call.function}"], ctypes.c_void_p
        )
        job.arguments = ctypes.addressof(pointers)
        job.blocks = self.blocks
        job.threads = self.threads
        shared = self.call.shared
        sizes = shared if isinstance(shared, tuple) else (shared,)
        job.dynamic_bytes = (ctypes.c_ulonglong * 8)(*sizes)
        job.limit = self.limit
        job.most_static, job.most_shared = MOST_SHARED[self.library.dialect]
        # From Volta on a barrier of CUDA's waits for the threads that have not returned.
        job.waits_for_all = self.library.dialect == "metal"
        return job

    def _watch(
        self, blocks: dict[tuple[int, int], ArrayCopy], written: dict[tuple[int, int], Array]
    ) -> None:
        keys = list(blocks)
        regions = (WatchedArray * (len(blocks) or 1))()
        for argument in self.call.fresh:
            value = self.call.arguments[argument]
            if isinstance(value, np.ndarray):
                key = int(value.ctypes.data), value.nbytes
                written[key] = np.zeros(value.size, np.uint8)
        for region, key in zip(regions, keys, strict=False):
            block = blocks[key]
            region.low, region.high = block.base, block.base + block.whole
            region.at, region.bytes = block.at, block.array.nbytes
            region.element = block.array.dtype.itemsize
            region.is_constant = not block.is_written
            region.written = written[key].ctypes.data if key in written else None
        self._regions = regions
        at, count = self.library.lines
        status = runtime().watch(
            regions,
            len(blocks),
            ctypes.c_void_p(at),
            ctypes.c_longlong(count),
            ctypes.c_longlong(MOST_ACCESSES),
            ctypes.c_ulonglong(max(1, math.prod(self.blocks))),
        )
        if status:
            raise DeviceError(
                f"{self.subject}: there is no memory for a trace",
                hint="trace a smaller size",
            )

    def _go(self, job: Job, bar: Progress) -> None:
        """Run in a thread of its own, which this thread can stop."""
        library = runtime()
        library.clear()
        runner = _Runner(lambda: library.launch(ctypes.byref(job)))
        end, done = monotonic() + self.limit, 0
        try:
            threading.Thread(target=runner.run, daemon=True).start()
            while not runner.over.wait(max(0.001, min(WAITING, end - monotonic()))):
                look()
                if monotonic() > end:
                    library.stop()
                bar.step(job.blocks_done - done)
                done = job.blocks_done
            bar.step(job.blocks_done - done)
        except KeyboardInterrupt:
            while not runner.over.wait(0.01):
                library.stop()
            raise Interrupted(
                f"{self.subject}: it was stopped, and its arrays are as they were"
            ) from None

    # -- what came of it ---------------------------------------------------------------------------

    def _told(self) -> LaunchFacts:
        return LaunchFacts(
            self.subject,
            self.source,
            self.blocks,
            self.threads,
            self.limit,
            traced=self.trace,
            above=self.above,
        )

    def _seen(self, blocks: dict[tuple[int, int], ArrayCopy], job: Job) -> Trace:
        names = [(block.name, block.array) for block in blocks.values()]
        return launch_trace(
            self.source,
            self.call.function,
            names,
            self.blocks,
            self.threads,
            job.shared_bytes,
            self.library.shared,
            self._notes(job),
        )

    def _notes(self, job: Job) -> tuple[str, ...]:
        if not job.early_line:
            return ()
        line = max(0, job.early_line - self.above)
        many = "1 thread had" if job.early_threads == 1 else f"{job.early_threads:,} threads had"
        text = self.source.split("\n")[line - 1].strip()
        return (
            f"{self.call.function}: in block {job.early_block} {many} returned before a barrier, "
            "which waits for the others on cards from Volta (sm_70) on\n"
            f"  line {line}: {text}",
        )


class _Runner:
    """Something that is done in another thread."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.over = threading.Event()

    def run(self) -> None:
        """Do it."""
        try:
            self.work()
        finally:
            self.over.set()


@contextmanager
def _alone() -> Generator[None, None, None]:
    """Wait until no other thread runs a kernel."""
    while not ONE.acquire(timeout=WAITING):
        look()
    try:
        yield
    finally:
        ONE.release()
