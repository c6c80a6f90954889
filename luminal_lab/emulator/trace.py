"""What a traced run saw: faults with their lines and threads, and how each line uses memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Alive, Shown, Theme
from luminal_lab.emulator.failing import OWN
from luminal_lab.emulator.library import runtime
from luminal_lab.emulator.reading import SHARED
from luminal_lab.emulator.standing import place_text
from luminal_lab.emulator.touches import unflat
from luminal_lab.emulator.traffic import ACCESS, Records, Traffic, traffic_of
from luminal_lab.errors import ArgumentError
from luminal_lab.tables import Table, aligned, frame

Kind: TypeAlias = Literal[
    "out of bounds", "unwritten", "race", "misaligned", "const", "no lane", "unset"
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""What can be wrong, in the order of watch.h; `unset` locals are found by a second run."""
EVENT: Final = np.dtype(
    [
        ("offset", "i8"),
        ("block", "u4"),
        ("sync", "u4"),
        ("pc", "u4"),
        ("line", "i4"),
        ("thread", "u2"),
        ("bytes", "u2"),
        ("region", "i2"),
        ("kind", "u1"),
        ("pad", "u1"),
        ("phase", "u4"),
        ("launch", "u4"),
    ]
)
"""An access as the runtime notes it; its phase is how many barriers the block has met at before."""
FAULT: Final = "lab_fault"
"""The buffer in which our kernels report that an index is out of range."""
COLUMNS: Final = (
    *("kernel", "line", "text", "array", "space", "access", "count", "bytes", "requests"),
    *("sectors", "lines_128", "best_sectors", "conflicts"),
)


ACCESSES: Final = (
    *("kernel", "launch", "block", "phase", "thread", "line"),
    *("array", "space", "access", "element", "offset", "bytes"),
)


class CFinding(ctypes.Structure):
    """A finding as the runtime notes it."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("kind", "region", "line", "other_line")),
        *((name, ctypes.c_int) for name in ("is_write", "is_other_write")),
        *((name, ctypes.c_uint) for name in ("block", "other_block", "thread", "other_thread")),
        *((name, ctypes.c_longlong) for name in ("offset", "bytes", "length", "count")),
        ("name", ctypes.c_char * 64),
    )
    kind: int
    region: int
    line: int
    other_line: int
    is_write: int
    is_other_write: int
    block: int
    other_block: int
    thread: int
    other_thread: int
    offset: int
    bytes: int
    length: int
    count: int
    name: bytes


@dataclass(frozen=True)
class Finding:
    """A fault: where it is, its thread, and the other thread of a race; `count` says how often."""

    kind: Kind
    kernel: str
    array: str
    space: Literal["shared", "global"]
    line: int
    text: str
    """The line of the source."""
    block: tuple[int, ...]
    thread: tuple[int, ...]
    offset: int
    """Bytes from the start of the array."""
    size: int
    """Bytes that the array has."""
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
    """Whether the other access is an asynchronous copy, which a barrier waits for."""

    @override
    def __str__(self) -> str:
        where = f"{self.array}[{self._index}]" if self.array else "memory"
        does = "writes" if self.is_write else "reads"
        who = f"thread {place_text(self.thread)} of block {place_text(self.block)}"
        more = f" ({self.count:,} times)" if self.count > 1 else ""
        at = f"line {self.line}: {self.text}"
        match self.kind:
            case "out of bounds":
                unit = "elements" if self.element > 1 else "bytes"
                held = f"{self.size // self.element:,} {unit}"
                past = f"{where}, and {self.array} has {held}"
                own = f"outside of {OWN}; it was stopped there"
                event = f"{who} {does} {past if self.array else own}"
            case "unwritten":
                event = f"{who} reads {where}, which nobody has written"
            case "race":
                other = "writes" if self.is_other_write else "reads"
                them = f"thread {place_text(self.other_thread)}"
                if self.other_block != self.block:
                    them += f" of block {place_text(self.other_block)}"
                event = f"{who} {does} {where}, which {them} {other} with no barrier between"
                if self.is_by_copy:
                    event = (
                        f"{who} {does} {where}, which a copy of {them} writes, and it has not "
                        "waited for that"
                    )
                at += f"\n  line {self.other_line}: {self.other_text}"
            case "misaligned":
                event = (
                    f"{who} {does} a vector at {where}, whose address is no multiple of "
                    f"{self.alignment} bytes; a GPU stops there"
                )
            case "const":
                event = (
                    f"{who} writes {where}, which the kernel takes as const; a GPU does it, and "
                    "reads may still give the old value"
                )
            case "no lane":
                them = place_text(self.other_thread)
                event = (
                    f"{who} takes a value from the lane of thread {them}, which gives none: the "
                    "mask does not name it, or it has returned; a GPU goes on with any value"
                )
            case "unset":
                event = (
                    f"what it writes to {where} depends on a local that nothing has set; a GPU "
                    "takes what a register holds"
                )
                at = f"line {self.line}: {self.text}" if self.line else "no line is known"
        return f"{self.kernel}: {self.kind}: {event}{more}\n  {at}"

    @property
    def _index(self) -> str:
        whole = self.offset % self.element == 0
        return str(self.offset // self.element) if whole else f"byte {self.offset}"


class TracedArray(NamedTuple):
    """An array that a traced launch has used."""

    name: str
    space: Literal["shared", "global"]
    element: int
    """The bytes of an element."""
    shape: tuple[int, ...] = ()
    """Unknown for shared memory."""


@dataclass(frozen=True)
class TracedLaunch:
    """A launch that was traced: who ran, on what, and the lines of the source."""

    kernel: str
    blocks: tuple[int, int, int]
    threads: tuple[int, int, int]
    arrays: Mapping[int, TracedArray]
    """By the number of their region in the records."""
    lines: tuple[str, ...]


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
        """Return the sums by line as a table of pandas, or all accesses, a row each."""
        if of == "accesses":
            return frame("trace", ACCESSES, self._each())
        if of != "lines":
            raise ArgumentError(
                f"trace: there is no table of {of!r}", hint="give 'lines' or 'accesses'"
            )
        return frame(
            "trace", COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in self.traffic)
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
        """Return who touches what as a picture: threads by addresses, a map for each array.

        It is of one block of a launch, and of a large block one warp. Between two barriers is a
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
        """Return who touches what in one block as a picture that is alive, barrier by barrier."""
        return DISPLAYS["accesses.explore"](self, launch=launch, block=block)

    @override
    def __str__(self) -> str:
        header = [
            *(
                (">", head)
                for head in ("line", "accesses", "bytes", "sectors", "best", "conflicts")
            ),
            ("<", "access"),
            ("<", "source"),
        ]
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
        return "\n".join(
            [self._title, *map(str, self.findings), *self.notes, *aligned(header, rows)]
        )

    @override
    def __repr__(self) -> str:
        return f"<Trace: {self._title}; print(…) shows it>"

    _repr_mimebundle_ = as_text

    @property
    def _title(self) -> str:
        count = len(self.findings)
        summary = (
            "nothing found" if not count else "1 finding" if count == 1 else f"{count} findings"
        )
        return f"{self.accesses:,} accesses, {summary}"


def _by_line(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for line, count in pairs:
        sums[line] = sums.get(line, 0) + count
    return {line: count for line, count in sorted(sums.items()) if count}


def launch_trace(
    source: str,
    kernel: str,
    arrays: Sequence[tuple[str, Array]],
    blocks: tuple[int, int, int],
    threads: tuple[int, int, int],
    shared: int,
    shared_names: Mapping[int, str],
    notes: tuple[str, ...] = (),
) -> Trace:
    """Return what the runtime has just seen."""
    lines = source.split("\n")
    events = _events()
    findings = [
        _finding(finding, kernel, lines, arrays, blocks, threads) for finding in _findings()
    ]
    findings = [
        finding
        for finding in findings
        if not _is_explained(finding, findings) and not _is_agreed(finding)
    ]
    names = {region_id: name for region_id, (name, _) in enumerate(arrays)}
    names |= shared_names
    rows = traffic_of(events, kernel, lines, names)
    known = {
        region_id: TracedArray(name, "global", array.dtype.itemsize, array.shape)
        for region_id, (name, array) in enumerate(arrays)
    }
    for region in map(int, np.unique(events["region"])):
        if region >= SHARED:
            element = max(1, int(runtime().element(region)))
            known[region] = TracedArray(names.get(region, "?"), "shared", element)
    launch = TracedLaunch(kernel, blocks, threads, known, tuple(lines))
    return Trace(tuple(findings), tuple(rows), events, (shared,), notes, (launch,))


def unset(source: str, kernel: str, name: str, array: Array, byte: int, line: int) -> Finding:
    """Return the finding that what a kernel makes depends on a local that nothing has set."""
    element = array.dtype.itemsize
    return Finding(
        "unset",
        kernel,
        name,
        "global",
        line,
        _line(source.split("\n"), line),
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


def _events() -> Records:
    count = ctypes.c_longlong()
    at = runtime().events(ctypes.byref(count))
    if not count.value:
        return np.zeros(0, EVENT)
    raw = (ctypes.c_ubyte * (count.value * EVENT.itemsize)).from_address(at)
    return np.frombuffer(memoryview(raw), EVENT, count.value).copy()


def _findings() -> list[CFinding]:
    count = ctypes.c_int()
    at = runtime().findings(ctypes.byref(count))
    recorded = (CFinding * count.value).from_address(at)
    return [CFinding.from_buffer_copy(finding) for finding in recorded]


def _finding(
    raw: CFinding,
    kernel: str,
    lines: Sequence[str],
    arrays: Sequence[tuple[str, Array]],
    blocks: tuple[int, int, int],
    threads: tuple[int, int, int],
) -> Finding:
    is_shared = raw.region >= SHARED
    name, count = raw.name.decode(), raw.count
    element = 1
    if is_shared:
        element = max(1, int(runtime().element(raw.region)))
        if KINDS[raw.kind] != "misaligned":
            count = max(1, count // element)  # there each byte is looked at
    elif raw.region >= 0:
        name, array = arrays[raw.region]
        element = array.dtype.itemsize
    kind = KINDS[raw.kind]
    is_race = kind == "race"
    return Finding(
        kind,
        kernel,
        name,
        "shared" if is_shared else "global",
        raw.line,
        _line(lines, raw.line),
        unflat(raw.block, blocks),
        unflat(raw.thread, threads),
        raw.offset,
        raw.length,
        bool(raw.is_write),
        count,
        raw.other_line if is_race else None,
        _line(lines, raw.other_line) if is_race else "",
        unflat(raw.other_block, blocks) if is_race else (),
        unflat(raw.other_thread, threads) if is_race or kind == "no lane" else (),
        bool(raw.is_other_write),
        element,
        raw.bytes if kind == "misaligned" else 1,
        raw.is_other_write == 2,
    )


def _is_explained(finding: Finding, findings: Sequence[Finding]) -> bool:
    """Return whether an unwritten read is explained by a race with the thread that writes."""
    return finding.kind == "unwritten" and any(
        other.kind == "race"
        and other.array == finding.array
        and finding.line in (other.line, other.other_line)
        for other in findings
    )


def _is_agreed(finding: Finding) -> bool:
    """Return whether racing threads write the same: that an index is out of range."""
    return (
        finding.kind == "race"
        and finding.array == FAULT
        and finding.is_write
        and finding.is_other_write
    )


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
