"""Errors of launches that ended early: which thread, where, where others wait, what would help."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from typing_extensions import override

from luminal_lab.devices.build.toolchain import window
from luminal_lab.emulator.library import LaunchedGrid, runtime
from luminal_lab.emulator.memory import ArrayCopy
from luminal_lab.errors import DeviceError

MOST_ACCESSES: Final = 1 << 23
FAR: Final = 1 << 30
OWN: Final = "an array that each thread has for itself"
SIGNALS: Final = {8: "it divides an integer by zero", 4: "it meets an illegal instruction"}
"""The meaning of signals other than wrong addresses, by their POSIX numbers."""


Status = IntEnum(
    "Status",
    "FINE DIVERGED FAULT STOPPED TOO_LONG TOO_MANY TRAPPED NO_SHARED NO_MEMORY BAD_BARRIER "
    "BAD_COPY BAD_TILE NOT_BEGUN MISALIGNED TOO_MUCH_STATIC OUTSIDE_OWN UNANNOUNCED NOT_WAITED_FOR "
    "BAD_REGISTERS",
    start=0,
)
"""How a launch ends, in the order of runtime.cpp."""
REFUSED: Final = {
    Status.BAD_BARRIER: (
        "it uses a barrier that counts bytes in a way that it was not made for",
        "lab_barrier_init says how many arrive in a phase, 64 barriers a block at most",
    ),
    Status.BAD_COPY: (
        "there is no such bulk copy",
        "it moves multiples of 16 bytes between places that are; a tile goes to a multiple of 1024 "
        "bytes, by its map, in rows of 128 bytes",
    ),
    Status.BAD_TILE: (
        "four warps multiply what is not a tile for all of them",
        "lab_wgmma_matrix(at, leading, stride, 1), alike in all threads of a warp",
    ),
    Status.NOT_BEGUN: (
        "four warps multiply before lab_wgmma_begin()",
        "it comes after the code that sets the registers that they add to",
    ),
    Status.UNANNOUNCED: (
        "a bulk copy brings more bytes than its barrier expects, whose phase never ends",
        "lab_barrier_expect(at, bytes) announces the bytes of all copies of a phase",
    ),
    Status.NOT_WAITED_FOR: (
        "a bulk copy is under way when its block ends",
        "wait for every phase of its barrier; a GPU gives the memory to another block",
    ),
    Status.BAD_REGISTERS: (
        "its warps would have more registers than their block",
        "32 times the registers of a thread, summed over the warps, are at most 65,536 and at most "
        "what the block began with; the four warps of a group have the same, fall before they "
        "rise no more, and rise no more than once",
    ),
}
"""Misuses of Hopper's functions, each with a hint."""
AT_A_THREAD: Final = {
    *(Status.FAULT, Status.STOPPED, Status.TRAPPED, Status.MISALIGNED, Status.OUTSIDE_OWN),
    *REFUSED,
}

FRESH, READY, AT_BARRIER, AT_WARP, DONE, AT_BYTES, ENDED = range(7)
OPERATIONS: Final = (
    *("a sync", "a shuffle", "a vote", "a sum", "a maximum", "a minimum", "an mma", "an mma"),
    *("an mma", "a matrix", "a product of four warps", "the beginning of products"),
    *("a group of products", "products that were begun", "a change of registers"),
)
"""The collective operations of a warp, in the order of interface.h."""
WAITING: Final = {
    AT_BARRIER: (
        "not all threads of the block reach a barrier",
        "put a barrier where all threads arrive, outside of branches that differ between them",
    ),
    AT_WARP: (
        "the lanes of a warp do not all do the same thing together",
        "all lanes that a mask names call it together, in one line, and none returns before that",
    ),
    AT_BYTES: (
        "what a barrier counts never arrives",
        "as many threads arrive as it was made for, they expect the bytes of all copies to it, and "
        "they wait for phases 0, 1, 0, …",
    ),
}
"""The states in which a thread waits for others: the fault if they never come, and a hint."""


class LaunchJob(ctypes.Structure):
    """A launch as the runtime has it, in the order of runtime.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("entry", "arguments")),
        *((name, ctypes.c_uint * 3) for name in ("blocks", "threads")),
        ("dynamic_bytes", ctypes.c_ulonglong * 8),
        *((name, ctypes.c_double) for name in ("limit", "seconds")),
        *((name, ctypes.c_ulonglong) for name in ("most_static", "most_shared")),
        *((name, ctypes.c_ulonglong) for name in ("static_bytes", "shared_bytes", "fault")),
        ("blocks_done", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("waits_for_all", "status", "signal")),
        *((name, ctypes.c_int) for name in ("is_store", "early_line")),
        *((name, ctypes.c_uint) for name in ("early_threads", "early_block", "alignment", "order")),
    )


def failure(launch: LaunchedGrid, job: LaunchJob, blocks: Iterable[ArrayCopy]) -> DeviceError:
    """Return the error that says why a launch ended early."""
    status = Status(job.status)
    if status is Status.DIVERGED:
        return divergence(launch)
    if status in AT_A_THREAD:
        return _at_a_thread(launch, job, status, list(blocks))
    text, hint = _too_large(launch, job, status)
    return launch.error("", text, hint=hint)


def _at_a_thread(
    launch: LaunchedGrid, job: LaunchJob, status: Status, blocks: list[ArrayCopy]
) -> DeviceError:
    standing, library = ThreadPosition.now(), launch.library
    line = library.source.line(standing.line())
    if status in (Status.FAULT, Status.STOPPED):
        line = runtime().last_line() if library.build == "traced" else 0
    match status:
        case Status.FAULT:
            text = SIGNALS.get(job.signal) or _touched(job.fault, blocks)
            named = "the line is the last that touched an array"
            hint = named if line else "emulate with trace=True, which names the line"
        case Status.STOPPED:
            done = f"{job.blocks_done:,} of {launch.grid:,} blocks done"
            text = f"it has not ended after {_duration(launch.limit)}, with {done}"
            hint = "a loop may never end; or give it a smaller size or a larger limit="
        case Status.TRAPPED:
            text, hint = "it stops itself", "an assert fails there, or it calls __trap()"
        case Status.MISALIGNED:
            text = _misaligned(job, blocks)
            hint = "a GPU stops there: a vector begins at a multiple of its size"
        case Status.OUTSIDE_OWN:
            text = f"it {'writes' if job.is_store else 'reads'} outside of {OWN}"
            hint = "a GPU goes on with whatever lies there; compare the index with the array's size"
        case _:
            text, hint = REFUSED[status]
    where = window("\n".join(library.source.texts), line) if line else None
    return launch.error(f", {standing}", text, where=where, hint=hint)


def _misaligned(job: LaunchJob, blocks: list[ArrayCopy]) -> str:
    """Return the address that lacks the alignment of its type."""
    does = "writes" if job.is_store else "reads"
    near = next((block for block in blocks if block.at <= job.fault < block.end), None)
    where = "an array of the block or of its own"
    if near is not None:
        element = near.array.dtype.itemsize
        offset = job.fault - near.at
        where = f"{near.name}[{offset // element}]" if offset % element == 0 else near.name
    wanted = f"a multiple of {job.alignment} bytes"
    return f"it {does} a vector at {where}, whose address is not {wanted}"


def _touched(address: int, blocks: list[ArrayCopy]) -> str:
    """Return the array next to an address."""

    def distance(block: ArrayCopy) -> int:
        return block.at - address if address < block.at else address - block.end + 1

    near = min(blocks, key=distance, default=None)
    if near is None or distance(near) > FAR:
        return "it touches memory that belongs to no array"
    if address < near.at:
        side = f"{near.at - address:,} bytes before"
    else:
        side = f"{address - near.end:,} bytes behind the end of"
    return f"it touches memory {side} {near.name}, {near.type}"


def _too_large(launch: LaunchedGrid, job: LaunchJob, status: Status) -> tuple[str, str]:
    """Return what is too large for the emulator, and which size would do."""
    done = job.blocks_done
    match status:
        case Status.TOO_LONG:
            whole = job.seconds / done * launch.grid
            fit = max(1, int(done * launch.limit / job.seconds))
            return (
                f"{launch.grid:,} blocks of {launch.block:,} threads would take about "
                f"{_duration(whole)} in the emulator, and its limit is {_duration(launch.limit)}",
                f"it is for small sizes: about {_rounded(fit):,} blocks would do; or give it a "
                "larger limit=",
            )
        case Status.TOO_MANY:
            return (
                f"its trace has more than {MOST_ACCESSES:,} accesses, after {done:,} of "
                f"{launch.grid:,} blocks",
                f"trace a smaller size: about {done:,} such blocks would do"
                if done
                else "trace a smaller size: one such block is too much",
            )
        case Status.TOO_MUCH_STATIC:
            return (
                f"its shared arrays take {job.static_bytes:,} bytes, and a block can declare "
                f"{job.most_static:,}",
                "up to what the card has for a block, take shared memory whose size the launch says"
                if job.most_shared > job.most_static
                else "no GPU of this kind has more for a block",
            )
        case Status.NO_SHARED:
            return (
                f"its shared arrays take {job.shared_bytes:,} bytes, and no card has more than "
                f"{job.most_shared:,} for a block",
                "use smaller tiles",
            )
        case _:
            return "there is no memory for its threads", "the emulator is for small sizes"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"


def _rounded(count: int) -> int:
    """Return a number rounded to two digits."""
    digits = max(0, len(str(count)) - 2)
    return count // 10**digits * 10**digits


# -- where threads stand ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ThreadPosition:
    """A thread: its block and its position there."""

    block: tuple[int, ...]
    thread: tuple[int, ...]
    number: int

    @classmethod
    def now(cls) -> ThreadPosition:
        """Return the thread that ran last."""
        seven = (ctypes.c_uint * 7)()
        runtime().standing(seven)
        return cls(tuple(seven[:3]), tuple(seven[3:6]), seven[6])

    @override
    def __str__(self) -> str:
        return f"block {place_text(self.block)}, thread {place_text(self.thread)}"

    def line(self) -> int:
        """Return the line that the thread last reported."""
        return _lane(self.number)[1]


def place_text(position: Sequence[int]) -> str:
    """Return a position without trailing axes that are 0: 3 or (0, 2).

    >>> place_text((3, 0, 0)), place_text((0, 2, 0))
    ('3', '(0, 2)')
    """
    coordinates = list(position)
    while len(coordinates) > 1 and not coordinates[-1]:
        coordinates.pop()
    return str(coordinates[0]) if len(coordinates) == 1 else f"({', '.join(map(str, coordinates))})"


def _lane(number: int) -> tuple[int, int, int, int]:
    """Return a thread's state, and the line, the operation and the mask that it waits with."""
    four = (ctypes.c_int * 4)()
    runtime().lane(number, four)
    state, line, kind, mask = four
    return state, line, kind, mask & 0xFFFFFFFF


def divergence(launch: LaunchedGrid) -> DeviceError:
    """Return the error about threads that wait for others in vain."""
    groups: defaultdict[tuple[int, int, int, int], list[int]] = defaultdict(list)
    for number in range(launch.block):
        state, line, kind, mask = _lane(number)
        line = launch.library.source.line(line) if state in WAITING else 0
        groups[state, line, *((kind, mask) if state == AT_WARP else (0, 0))].append(number)
    states = {state for state, *_ in groups}
    if AT_BYTES in states:
        text, hint = WAITING[AT_BYTES]
    else:
        text, hint = WAITING[AT_WARP if AT_WARP in states else AT_BARRIER]
    return launch.error(
        f", block {place_text(ThreadPosition.now().block)}",
        text,
        where="\n".join(_stand(launch, *group) for group in sorted(groups.items())),
        hint=hint,
    )


def _stand(
    launch: LaunchedGrid, position: tuple[int, int, int, int], members: Sequence[int]
) -> str:
    """Return where some threads stand, in words."""
    state, line, kind, mask = position
    is_one = len(members) == 1
    lanes = "" if mask == 0xFFFFFFFF else f" of lanes {mask:#x}"
    waited_for = {
        AT_BARRIER: "at the barrier",
        AT_WARP: f"for {OPERATIONS[kind]}{lanes}",
        AT_BYTES: "for the bytes that a barrier counts",
    }
    if state in waited_for:
        text = launch.library.source.text(line)[:80]
        does = f"wait{'s' * is_one} {waited_for[state]} in line {line}: {text}"
    else:
        came = {DONE: "returned", ENDED: "come to the end"}.get(state, "not come yet")
        does = f"{'has' if is_one else 'have'} {came}"
    many = "1 thread" if is_one else f"{len(members)} threads"
    return f"{many} ({ranges(members)}) {does}"


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers, with consecutive ones as `first to last`.

    >>> ranges([0, 1, 2, 5])
    '0 to 2, 5'
    """
    runs = np.split(np.asarray(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1)
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    shown = parts[:8]
    return ", ".join(shown) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
