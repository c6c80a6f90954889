"""A trial: kernels that are not trusted yet run in a child process, which can be killed.

    room ─┬─ a page that nobody may touch
          ├─ less than a page that stays as it is     a store before the array is found
          ├─ the array                                inputs cannot be written
          └─ a page that nobody may touch             a store, or a load, behind it is found

The child is a program of its own (trial.c), which loads a library and is told which launches to
run. Both processes share the memory of the arrays. A child that dies, or takes too much time or
memory, is a `Death`; trial_report.py says in words what it means. Nothing is left when the block
ends, however it ends: no process, no file.
"""

from __future__ import annotations

import mmap
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from time import monotonic, sleep
from typing import Final, Literal, Self, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build.toolchain import end_children, end_with_children, has_ended
from luminal_lab.devices.cpu.trial_build import Builds
from luminal_lab.errors import DeviceError
from luminal_lab.interrupts import InterruptHold, held, look
from luminal_lab.machines.here import available_memory

FILLS: Final = 0xFF, 0x3F
"""The byte of unwritten memory in the first and the second run: as floats NaN, and about 0.5."""
SECONDS: Final = 15.0
"""The seconds that a run may take, plus those for its operations; longer counts as endless."""
FLOPS: Final = 2e7
"""The least operations per second of a checked kernel; large kernels get the time for theirs."""
BYTES: Final = 4 << 30
"""How much memory a child may take in addition to its arrays."""
GUARD: Final = 16 << 20
"""The protected bytes before and after each array."""
PAGE: Final = mmap.PAGESIZE
POLL: Final = 0.05
"""The seconds between two checks of a child that runs."""
STACKS: Final = 1 << 30
"""Address space for other uses: the threads' stacks, libraries."""
DYING: Final = 10.0
"""The seconds that a child may take to say why it dies."""
ASKED: Final = 2.0
"""The seconds that a child may take to say where it is."""
SAID: Final = 1 << 16
"""How many of the last bytes of a child's messages are read."""
FIELDS: Final = (
    *("areas", "areas_at", "values", "values_at", "launches", "launches_at", "tasks_at", "dims_at"),
    *("writes_at", "written_at", "scratch", "scratch_bytes", "threads", "step", "no_return"),
    *("seconds_at", "guard"),
    *("begun", "launch", "phase", "task", "fault", "signal", "address", "access", "left"),
)
"""The numbers that both processes know, in the order of trial.c."""
PLACE: Final = {name: number for number, name in enumerate(FIELDS)}
EACH: Final = 5
RUN, TIME = 1, 2
FAULTS: Final = signal.SIGSEGV, getattr(signal, "SIGBUS", 0)  # Windows has only one
Access: TypeAlias = Literal["reaches", "reads", "writes"]
ACCESSES: Final[tuple[Access, ...]] = "reaches", "reads", "writes"
Bytes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass(frozen=True)
class Area:
    """An array of a trial: its bytes, and whether kernels may write it."""

    bytes: int
    writable: bool = True


@dataclass(frozen=True)
class TrialJob:
    """What a child should do: a library, its arguments, and its limits."""

    library: Path
    areas: Sequence[Area]
    values: Sequence[tuple[int, int] | None]
    """The area and the offset of each of the program's values."""
    launches: Sequence[int]
    """The numbers of the launches, in order."""
    tasks: Sequence[int]
    """How many tasks each phase of each launch has."""
    dims: Sequence[int] = ()
    writes: Sequence[Sequence[int]] | None = None
    """The only areas that each launch may write; None if it may write all."""
    scratch: int | None = None
    """The area of the threads' own memory."""
    scratch_bytes: int = 0
    threads: int = 1
    step: int = 0
    no_return: int = 0
    seconds: float = SECONDS
    bytes: int = BYTES


@dataclass(frozen=True)
class Death:
    """How a child died, and where it was."""

    cause: Literal["signal", "seconds", "bytes", "report", "status", "left"]
    number: float
    """The signal, the seconds or bytes of the limit, the status, or what the kernel left behind."""
    launch: int
    phase: int
    task: int
    said: str = ""
    """Its messages, such as a sanitizer's."""
    access: Access = "reaches"
    area: int | None = None
    """The area in or next to which it touched forbidden memory."""
    offset: int = 0
    """The position, in bytes from the beginning of the array."""
    is_null: bool = False


class Died(Exception):  # noqa: N818  # a child's end is reported by its caller
    """A child has died."""

    def __init__(self, death: Death) -> None:
        super().__init__(death)
        self.death = death


@dataclass
class TrialProcess:
    """A child process that lives for a `with` block; Ctrl-C is noticed while it is waited for."""

    builds: Builds
    job: TrialJob
    checked: bool = True
    """Whether it is the child with the sanitizers; the library must be of the same kind."""
    rounds: int = 0
    """The most rounds that `seconds` will request."""
    _file: int = field(default=-1, init=False, repr=False)
    _map: mmap.mmap | None = field(default=None, init=False, repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _pipes: list[int] = field(default_factory=list[int], init=False, repr=False)
    _hold: InterruptHold = field(default_factory=held, init=False, repr=False)

    # -- beginning and end -------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._hold.__enter__()
        try:
            self._lay_out()
            self._start()
        except OSError as error:
            self._leave()
            raise DeviceError(
                f"trial: the child process could not begin: {error.strerror or error}",
                hint="without check= kernels run in this process",
            ) from error
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            self._end()
        finally:
            self._hold.__exit__()

    def _lay_out(self) -> None:
        """Make the memory that both processes share."""
        job = self.job
        launches = np.array([*job.launches, 0, 0][: len(job.launches) // 2 * 2 + 2], np.int32)
        writes = [len(FIELDS), *(len(areas) for areas in job.writes or ())]
        lists: dict[str, Sequence[int]] = {
            "areas_at": [0] * (EACH * len(job.areas)),
            "values_at": [n for value in job.values for n in (value or (-1, 0))],
            "launches_at": launches.view(np.int64).tolist(),
            "tasks_at": job.tasks,
            "dims_at": [*job.dims, 0],
            "writes_at": [] if job.writes is None else [*accumulate(writes[1:], initial=0)],
            "written_at": [*chain.from_iterable(job.writes or ())],
            "seconds_at": [0] * self.rounds,
        }
        header = dict.fromkeys(FIELDS, 0)
        numbers: list[int] = []
        for name, listed in lists.items():
            header[name] = len(FIELDS) + len(numbers)
            numbers += listed
        header |= {name: len(getattr(job, name)) for name in ("areas", "values", "launches")}
        plain = ("scratch_bytes", "threads", "step", "no_return")
        header |= {name: getattr(job, name) for name in plain}
        header |= {"scratch": -1 if job.scratch is None else job.scratch, "guard": GUARD}
        if job.writes is None:
            header["writes_at"] = 0
        at = _pages(8 * (len(FIELDS) + len(numbers)))
        self._begins: list[int] = []
        for number, area in enumerate(job.areas):
            size = _pages(area.bytes)
            writable = area.writable and job.writes is None
            numbers[EACH * number : EACH * number + EACH] = (at, size, area.bytes, int(writable), 0)
            at += size
            self._begins.append(at - area.bytes)
        available = available_memory()
        if available is not None and at > available:
            raise MemoryError(f"{at:,} bytes, and {available:,} are there")
        self._size = at
        self._file = _nameless()
        os.ftruncate(self._file, at)
        self._map = mmap.mmap(self._file, at)
        self._numbers = np.frombuffer(self._memory(), np.int64, len(FIELDS) + len(numbers))
        self._numbers[:] = [*header.values(), *numbers]

    def _start(self) -> None:
        job, builds = self.job, self.builds
        program = builds.child if self.checked else builds.plain
        has_shadow = self.checked and "address" in builds.sanitizers  # which takes up all addresses
        guards = 2 * GUARD * len(job.areas)
        room = 0 if has_shadow else job.bytes + self._size + guards + STACKS
        processor = int(job.seconds * job.threads) + 10  # in case nobody is there to kill it
        taken, commands = os.pipe()
        self._pipes += (taken, commands)
        answers, given = os.pipe()
        self._pipes += (answers, given)
        self._commands, self._answers = commands, answers
        with tempfile.TemporaryFile() as said:
            self._said = os.dup(said.fileno())
            self._pipes.append(self._said)
            self._process = subprocess.Popen(
                [
                    *(str(builds.plain), str(program), str(self._file), str(taken), str(given)),
                    *(str(processor), str(room), str(job.library)),
                ],
                stdin=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(self._file, taken, given),
                start_new_session=True,
            )
        for own in (taken, given):
            self._pipes.remove(own)
            os.close(own)

    def _end(self) -> None:
        """Release the process, its pipes and its memory."""
        try:
            if self._process is not None:
                end_with_children(self._process)
        finally:
            self._process = None
            # It is released with the last array that uses it.
            self._map, self._numbers = None, np.empty(0, np.int64)
            left, self._pipes = self._pipes, []
            if self._file >= 0:
                left.append(self._file)
                self._file = -1
            for descriptor in left:
                with suppress(OSError):
                    os.close(descriptor)

    @property
    def process(self) -> int:
        """The number of the child."""
        assert self._process is not None, "a trial runs within its block"
        return self._process.pid

    def _memory(self) -> mmap.mmap:
        assert self._map is not None, "a trial has memory within its block"
        return self._map

    # -- memory ------------------------------------------------------------------------------------

    def raw(self, area: int) -> Bytes:
        """Return the bytes of an array, as both processes see them."""
        return np.frombuffer(
            self._memory(), np.uint8, self.job.areas[area].bytes, self._begins[area]
        )

    def array(
        self, area: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], offset: int = 0
    ) -> Array:
        """Return an array as both processes see it."""
        return np.ndarray(shape, dtype, self._memory(), self._begins[area] + offset)

    def _before(self, area: int) -> Bytes:
        """Return the bytes between an array and the protected page before it."""
        size = self.job.areas[area].bytes
        left = _pages(size) - size
        return np.frombuffer(self._memory(), np.uint8, left, self._begins[area] - left)

    def fill(self, byte: int) -> None:
        """Fill all arrays with a byte, and what is before each with another."""
        for area in range(len(self.job.areas)):
            self.raw(area)[:] = byte
            # Guards differ, so that a value read from one shows if it is written into another.
            self._before(area)[:] = (byte ^ 0x11) - area % 16

    def prepare(self, byte: int, given: Iterable[tuple[int, Array]]) -> None:
        """Fill memory with meaningless bytes, and put arrays into their areas."""
        self.fill(byte)
        for area, array in given:
            self.raw(area)[:] = array.reshape(-1).view(np.uint8)

    def overwritten(self, byte: int) -> int | None:
        """Return an area before which something was written after `fill`."""
        for area in range(len(self.job.areas)):
            if (self._before(area) != (byte ^ 0x11) - area % 16).any():
                return area
        return None

    # -- running -----------------------------------------------------------------------------------

    def run(
        self, first: int, last: int, *, backwards: bool = False, within: float | None = None
    ) -> int:
        """Run launches; return how many are done: fewer if an index was out of range."""
        return self._ask(RUN, first, last, int(backwards), within=within)

    def seconds(
        self,
        rounds: int,
        first: int = 0,
        last: int | None = None,
        *,
        within: float | None = None,
    ) -> tuple[float, ...]:
        """Run all launches, or a range, several times, and return the seconds of each."""
        assert rounds <= self.rounds
        last = len(self.job.launches) if last is None else last
        self._ask(TIME, first, last, rounds, within=within)
        at = self._told("seconds_at")
        return tuple(float(nanoseconds) * 1e-9 for nanoseconds in self._numbers[at : at + rounds])

    def _told(self, name: str) -> int:
        return int(self._numbers[PLACE[name]])

    def _ask(self, *command: int, within: float | None = None) -> int:
        """Return the answer to a command, or end the child if it has none within some seconds."""
        process = self._process
        assert process is not None, "a trial runs within its block"
        with suppress(BrokenPipeError):  # it has died, and said why
            os.write(self._commands, np.array(command, np.int64).tobytes())
        patience = self.job.seconds if within is None else within
        end = monotonic() + patience
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._answers, selectors.EVENT_READ)
            while not waiting.select(min(POLL, max(0.0, end - monotonic()))):
                look()
                if has_ended(process.pid):  # processes that it started may still hold the pipe
                    break
                if monotonic() >= end:
                    raise Died(self._death("seconds", patience))
                if _resident(process.pid) > self.job.bytes + self._size:
                    raise Died(self._death("bytes", self.job.bytes))
            answer = os.read(self._answers, 8) if waiting.select(0) else b""
        done = int(np.frombuffer(answer, np.int64)[0]) if len(answer) == 8 else None
        if done is None or done < 0:
            raise Died(self._death("signal" if done is None else "left"))
        return done

    def _death(
        self, cause: Literal["signal", "seconds", "bytes", "left"], most: float = 0
    ) -> Death:
        """Return how the child died, as it has unless it was killed for a limit, `most`."""
        process = self._process
        assert process is not None
        told = cause == "signal" or (cause == "seconds" and self._asked_where(process.pid))
        end = monotonic() + (DYING if cause == "signal" else ASKED)
        while told and not has_ended(process.pid) and monotonic() < end:
            sleep(POLL / 10)
        end_with_children(process)
        status = process.returncode
        where = self._told("launch"), self._told("phase"), self._told("task")
        if self._told("left"):
            return Death("left", self._told("left"), *where)
        said = os.pread(self._said, SAID, max(0, os.fstat(self._said).st_size - SAID)).decode(
            "utf-8", "replace"
        )
        if cause != "signal":
            return Death(cause, most, *where, said)
        if status == 85 and not self._told("begun"):
            raise DeviceError(
                f"trial: the child process could not begin: {said.strip()}",
                hint="without check= kernels run in this process",
            )
        if -status == getattr(signal, "SIGXCPU", 0):
            return Death("seconds", self.job.seconds, *where)
        signal_number = self._told("signal")
        address = self._told("address") if signal_number in FAULTS else 0
        if "Sanitizer" in said or "runtime error:" in said or "panic:" in said:
            return Death("report", status, *where, said, *self.located(0, 0))
        if status < 0:
            location = self.located(address, self._told("access"))
            return Death(
                "signal",
                -status,
                *where,
                said,
                *location,
                signal_number in FAULTS and 0 <= address < PAGE,
            )
        return Death("status", status, *where, said)

    def _asked_where(self, process: int) -> bool:
        """Make the child say which line it is in, as AddressSanitizer does when it is aborted."""
        can_say = self.checked and "address" in self.builds.sanitizers
        if can_say:
            end_children(process)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGABRT)
        return can_say

    def located(self, address: int, access: int) -> tuple[Access, int | None, int]:
        """Return the area with an address, or the nearest, and the offset from its beginning."""
        least, nearest, where = GUARD, None, 0
        for number, area in enumerate(self.job.areas):
            at = len(FIELDS) + EACH * number  # the areas come first
            begin = int(self._numbers[at + EACH - 1])
            offset = address - begin
            away = max(0, -offset, offset - area.bytes + 1)
            if begin and away < least:
                least, nearest, where = away, number, offset
        return ACCESSES[access], nearest, where


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


def _nameless() -> int:
    """Return a file without a name, in memory if the system has such files."""
    if sys.platform == "linux":
        return os.memfd_create("luminal_lab")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _resident(process: int) -> int:
    """Return the memory that a process uses; 0 if the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) * PAGE
    return 0


def difference(name: str, first: Array, other: Array, writer: str) -> tuple[str, str] | None:
    """Say how two runs on memory filled with FILLS differ, with a hint; None if they do not.

    `writer` is what should have written all elements.
    """
    size = first.dtype.itemsize
    a, b = (
        np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(*x.shape, size)
        for x in (first, other)
    )
    left = (a == FILLS[0]).all(-1) & (b == FILLS[1]).all(-1)
    apart = left if left.any() else (a != b).any(-1)
    if not apart.any():
        return None
    where = ", ".join(map(str, np.argwhere(apart)[0].tolist()))
    element = f"{name}[{where}]" if where else name
    if left.any():
        return f"{element} is not written", f"{writer} writes its part of all outputs"
    before = "outputs may hold anything before, and tasks run in any order"
    return f"{element} is different when it runs again", before
