"""What a traced run saw: faults with their lines and threads, and how each line uses memory."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Alive, Shown, Theme
from luminal_lab.emulator.failing import OWN, place_text
from luminal_lab.emulator.library import LaunchedGrid, runtime
from luminal_lab.emulator.reading import SHARED
from luminal_lab.emulator.traffic import ACCESS, Records, Space, Traffic, traffic_of, unflat
from luminal_lab.errors import ArgumentError
from luminal_lab.tables import Table, aligned, frame
from luminal_lab.tensor.arguments import told_object

Kind: TypeAlias = Literal[
    "out of bounds", "unwritten", "race", "misaligned", "const", "no lane", "unfenced", "unset"
]
Position: TypeAlias = tuple[int, ...]
"""The position of a block or a thread."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""The kinds of faults, in the order of watch.h; `unset` locals are found by a second run."""
EVENT: Final = np.dtype(
    [
        ("offset", "i8"),
        *((name, "u4") for name in ("block", "sync", "pc")),
        ("line", "i4"),
        *((name, "u2") for name in ("thread", "bytes")),
        ("region", "i2"),
        *((name, "u1") for name in ("kind", "pad")),
        *((name, "u4") for name in ("phase", "launch")),
    ]
)
"""An access as the runtime notes it; its phase is how many barriers its block has passed."""
FAULT: Final = "lab_fault"
"""The buffer in which our kernels report an index out of range."""
ACCESSES: Final = (
    *("kernel", "launch", "block", "phase", "thread", "line"),
    *("array", "space", "access", "element", "offset", "bytes"),
)


FINDING: Final = np.dtype(
    [
        *((name, "i4") for name in ("kind", "region", "line", "other_line")),
        *((name, "i4") for name in ("is_write", "is_other_write")),
        *((name, "u4") for name in ("block", "other_block", "thread", "other_thread")),
        *((name, "i8") for name in ("offset", "bytes", "length", "count")),
        ("name", "S64"),
    ]
)
"""A finding as the runtime notes it."""


EVENTS: Final[Mapping[Kind, str]] = {
    "out of bounds": "{who} {does} {where}, and {0.array} has {held}",
    "unwritten": "{who} reads {where}, which nobody has written",
    "race": "{who} {does} {where}, which {racing}",
    "misaligned": "{who} {does} a vector at {where}, whose address is not a multiple of "
    "{0.alignment} bytes; a GPU stops there",
    "const": "{who} writes {where}, which the kernel takes as const; a GPU does it, and reads may "
    "still give the old value",
    "no lane": "{who} takes a value from the lane of thread {other}, which gives none: the mask "
    "does not name it, or it has returned; a GPU goes on with any value",
    "unfenced": "a bulk copy or a product of {who} {does} {where}, which thread {other} wrote with "
    "no fence since: lab_bulk_written(), or lab_barrier_seen() for a barrier; a GPU may still have "
    "the old value there",
    "unset": "what it writes to {where} depends on a local that nothing has set; a GPU takes what "
    "a register holds",
}
OF_TWO: Final[tuple[Kind, ...]] = ("race", "unfenced")
"""The kinds that are about two accesses."""
BESIDE: Final = f"{{who}} {{does}} outside of {OWN}; it was stopped there"


@dataclass(frozen=True)
class Finding:
    """A fault: where it is, its thread, and the other thread of a race; `count` says how often."""

    kind: Kind
    kernel: str
    array: str
    space: Space
    line: int
    text: str
    """The line of the source."""
    block: tuple[int, ...]
    thread: tuple[int, ...]
    offset: int
    """Bytes from the start of the array."""
    size: int
    """The size of the array in bytes."""
    is_write: bool
    count: int
    other_line: int | None = None
    other_text: str = ""
    other_block: tuple[int, ...] = ()
    other_thread: tuple[int, ...] = ()
    is_other_write: bool = False
    element: int = 1
    alignment: int = 1
    """The alignment that a misaligned address lacks."""
    is_by_copy: bool = False
    """Whether the other access is an asynchronous copy, for which a barrier waits."""

    @override
    def __str__(self) -> str:
        where = f"{self.array}[{self._index}]" if self.array else "memory"
        more = f" ({self.count:,} times)" if self.count > 1 else ""
        at = f"line {self.line}: {self.text}" if self.line else "no line is known"
        at += f"\n  line {self.other_line}: {self.other_text}" if self.kind in OF_TWO else ""
        is_beside = self.kind == "out of bounds" and not self.array
        event = (BESIDE if is_beside else EVENTS[self.kind]).format(
            self,
            who=f"thread {place_text(self.thread)} of block {place_text(self.block)}",
            does="writes" if self.is_write else "reads",
            where=where,
            racing=self._racing,
            held=f"{self.size // self.element:,} {'elements' if self.element > 1 else 'bytes'}",
            other=place_text(self.other_thread),
        )
        return f"{self.kernel}: {self.kind}: {event}{more}\n  {at}"

    @property
    def _racing(self) -> str:
        """What the other thread of a race does."""
        them = f"thread {place_text(self.other_thread)}"
        if self.other_block != self.block:
            them += f" of block {place_text(self.other_block)}"
        if self.is_by_copy:
            return f"a copy of {them} writes, and it has not waited for that"
        return f"{them} {'writes' if self.is_other_write else 'reads'} with no barrier between"

    @property
    def _index(self) -> str:
        whole = self.offset % self.element == 0
        return str(self.offset // self.element) if whole else f"byte {self.offset}"


class TracedArray(NamedTuple):
    """An array that a traced launch has used."""

    name: str
    space: Space
    element: int
    """The bytes of an element."""
    shape: tuple[int, ...] = ()
    """Unknown for shared memory."""


@dataclass(frozen=True)
class TracedLaunch:
    """A traced launch: its threads, its arrays, and the lines of the source."""

    kernel: str
    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    arrays: Mapping[int, TracedArray]
    """The arrays by the numbers of their regions in the records."""
    lines: tuple[str, ...]


@told_object("trace")
@dataclass(frozen=True, repr=False)
class Trace:
    """A traced run; `records` has each access, `traffic` the sums by line."""

    findings: tuple[Finding, ...]
    traffic: tuple[Traffic, ...]
    records: Records = field(compare=False)
    """A row for each access: launch, block, phase, thread, line, region, offset, bytes, kind."""
    shared: tuple[int, ...] = ()
    """The bytes of shared memory of a block, for each launch."""
    notes: tuple[str, ...] = ()
    """Remarks that are not faults."""
    launches: tuple[TracedLaunch, ...] = field(default=(), compare=False)

    @property
    def accesses(self) -> int:
        """How many loads and stores there were."""
        return len(self.records)

    @property
    def transactions(self) -> dict[int, int]:
        """The 32-byte sectors of global memory that each line moves."""
        return _by_line((row.line, row.sectors) for row in self.traffic)

    @property
    def conflicts(self) -> dict[int, int]:
        """The turns that each line waits for banks of shared memory."""
        return _by_line((row.line, row.conflicts) for row in self.traffic)

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        """Return the findings of a kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def to_pandas(self, of: Literal["lines", "accesses"] = "lines") -> Table:
        """Return the sums by line as a pandas table, or all accesses, one per row."""
        if of == "accesses":
            return frame("trace", ACCESSES, self._each())
        if of != "lines":
            raise ArgumentError(
                f"trace: there is no table of {of!r}", hint="give 'lines' or 'accesses'"
            )
        return frame(
            "trace", [f.name for f in fields(Traffic)], (astuple(row) for row in self.traffic)
        )

    def _each(self) -> Iterator[tuple[object, ...]]:
        for record in cast("list[tuple[int, ...]]", self.records.tolist()):
            offset, block, _, _, line, thread, size, region, kind, _, phase, number = record
            launch = self.launches[number]
            array = launch.arrays[region]
            element = offset // array.element
            yield (
                *(launch.kernel, number, block, phase, thread, line),
                *(array.name, array.space, ACCESS[kind], element, offset, size),
            )

    def display(
        self,
        *,
        launch: int = 0,
        block: int | None = None,
        phase: int | None = None,
        line: int | None = None,
        array: str | None = None,
        warp: int | Literal["all"] | None = None,
        by: Literal["transaction", "bank", "access"] | None = None,
        theme: Theme = "auto",
    ) -> Shown:
        """Return a picture of who touches what: threads by addresses, with a map for each array.

        It shows one block of a launch, and one warp of a large block. Between two barriers is a
        phase; `phase`, `line` and `array` choose some of the maps. Colours are transactions of
        global memory and banks of shared memory, or what `by` says.
        """
        return DISPLAYS["accesses"](
            self,
            launch=launch,
            block=block,
            phase=phase,
            line=line,
            array=array,
            warp=warp,
            by=by,
            theme=theme,
        )

    def explore(self, *, launch: int = 0, block: int | None = None) -> Alive:
        """Return a live picture of who touches what in one block, barrier by barrier."""
        return DISPLAYS["accesses.explore"](self, launch=launch, block=block)

    @override
    def __str__(self) -> str:
        counts = ("line", "accesses", "bytes", "sectors", "best", "conflicts")
        header = [*((">", head) for head in counts), ("<", "access"), ("<", "source")]
        rows = [
            [
                str(row.line),
                f"{row.count:,}",
                f"{row.bytes:,}",
                f"{row.sectors:,}" if row.space == "global" else "",
                f"{row.best_sectors:,}" if row.space == "global" else "",
                f"{row.conflicts:,}" if row.space == "shared" else "",
                f"{row.access} {row.array}",
                row.text[:60],
            ]
            for row in self.traffic
        ]
        lines = [self._title, *map(str, self.findings), *self.notes]
        return "\n".join([*lines, *aligned(header, rows)])

    @override
    def __repr__(self) -> str:
        return f"<Trace: {self._title}; print(…) shows it>"

    _repr_mimebundle_ = as_text

    @property
    def _title(self) -> str:
        count = len(self.findings)
        summary = f"{count} finding{'s' * (count != 1)}" if count else "nothing found"
        return f"{self.accesses:,} accesses, {summary}"


def _by_line(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    sums: Counter[int] = Counter()
    for line, count in pairs:
        sums[line] += count
    return {line: count for line, count in sorted(sums.items()) if count}


def launch_trace(
    launch: LaunchedGrid,
    arrays: Sequence[tuple[str, Array]],
    shared: int,
    notes: tuple[str, ...] = (),
) -> Trace:
    """Return what the runtime has just recorded."""
    library = launch.library
    events = _noted(runtime().events, ctypes.c_longlong(), EVENT)
    raw = _noted(runtime().findings, ctypes.c_int(), FINDING)
    rows = (dict(zip(FINDING.names or (), row, strict=True)) for row in raw.tolist())
    all_of_them = [_finding(row, launch, arrays) for row in rows]
    left = (f for f in all_of_them if not _is_explained(f, all_of_them) and not _is_agreed(f))
    names = {region: name for region, (name, _) in enumerate(arrays)} | {**library.shared}
    known = {
        region: TracedArray(name, "global", array.dtype.itemsize, array.shape)
        for region, (name, array) in enumerate(arrays)
    }
    for region in map(int, np.unique(events["region"])):
        if region >= SHARED:
            known[region] = TracedArray(names.get(region, "?"), "shared", _element(region))
    traffic = traffic_of(events, launch.kernel, library.source.texts, names)
    traced = TracedLaunch(launch.kernel, launch.blocks, launch.threads, known, library.source.texts)
    return Trace(tuple(left), tuple(traffic), events, (shared,), notes, (traced,))


def unset(launch: LaunchedGrid, name: str, array: Array, byte: int, line: int) -> Finding:
    """Return the finding that a kernel's result depends on a local that nothing has set."""
    element = array.dtype.itemsize
    return Finding(
        "unset",
        launch.kernel,
        name,
        "global",
        line,
        launch.library.source.text(line),
        (),
        (),
        byte - byte % element,
        array.nbytes,
        is_write=True,
        count=1,
        element=element,
    )


def joined(traces: Sequence[Trace]) -> Trace:
    """Return the traces of several launches as one."""
    findings = tuple(finding for trace in traces for finding in trace.findings)
    traffic = tuple(row for trace in traces for row in trace.traffic)
    records = [trace.records for trace in traces] or [np.zeros(0, EVENT)]
    for number, events in enumerate(records):
        events["launch"] = number
    shared = tuple(bytes_ for trace in traces for bytes_ in trace.shared)
    notes = tuple(note for trace in traces for note in trace.notes)
    launches = tuple(launch for trace in traces for launch in trace.launches)
    return Trace(findings, traffic, np.concatenate(records), shared, notes, launches)


def _noted(ask: Callable[[object], int], count: Any, dtype: np.dtype[Any]) -> Records:  # noqa: ANN401  # of ctypes
    """Return the runtime's notes of one kind; `ask` returns their address and sets `count`."""
    at = ask(ctypes.byref(count))
    if not count.value:
        return np.zeros(0, dtype)
    raw = (ctypes.c_ubyte * (count.value * dtype.itemsize)).from_address(at)
    return np.frombuffer(memoryview(raw), dtype, count.value).copy()


def _element(region: int) -> int:
    """Return the bytes of an element of a shared array."""
    return max(1, int(runtime().element(region)))


def _finding(
    raw: Mapping[str, Any], launch: LaunchedGrid, arrays: Sequence[tuple[str, Array]]
) -> Finding:
    kind: Kind = KINDS[int(raw["kind"])]
    region: int = raw["region"]
    count: int = raw["count"]
    is_shared = region >= SHARED
    name, element = str(raw["name"], "utf-8"), 1
    if is_shared:
        element = _element(region)
        if kind != "misaligned":
            count = max(1, count // element)  # there each byte is checked
    elif region >= 0:
        name, array = arrays[region]
        element = array.dtype.itemsize
    other: tuple[int | None, str, Position, Position] = _side(raw, launch, "other_")
    if kind not in OF_TWO:
        other = None, "", (), other[3] if kind == "no lane" else ()
    space: Space = "shared" if is_shared else "global"
    does = raw["offset"], raw["length"], bool(raw["is_write"]), count
    alignment = raw["bytes"] if kind == "misaligned" else 1
    more = bool(raw["is_other_write"]), element, alignment, raw["is_other_write"] == 2
    named = kind, launch.kernel, name, space
    return Finding(*named, *_side(raw, launch), *does, *other, *more)


def _side(
    raw: Mapping[str, Any], launch: LaunchedGrid, which: Literal["", "other_"] = ""
) -> tuple[int, str, Position, Position]:
    """Return the line of one of two accesses with its text, its block and its thread."""
    line, block, thread = (raw[which + name] for name in ("line", "block", "thread"))
    text = launch.library.source.text(line)
    return line, text, unflat(block, launch.blocks), unflat(thread, launch.threads)


def _is_explained(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether an unwritten read is explained by a race with the thread that writes."""
    return finding.kind == "unwritten" and any(
        other.kind == "race"
        and other.array == finding.array
        and finding.line in (other.line, other.other_line)
        for other in findings
    )


def _is_agreed(finding: Finding) -> bool:
    """Return whether racing threads write the same value, as when they report an index."""
    both_write = finding.is_write and finding.is_other_write
    return finding.kind == "race" and finding.array == FAULT and both_write
