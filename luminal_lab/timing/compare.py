"""Devices side by side: the same written graph on each, segment by segment.

    print(ll.compare(cx, [ll.CPU(), ll.devices.specification("h200")]))

A time is measured here, recorded elsewhere (°), or modelled from a device's figures (~); a column
says which, and every time in it has the mark.

Devices fuse differently. A row is the segment of the written graph between values that all of them
store in memory: launches that share a written node are in one row, with whatever shares a node with
those.

    written   a  b  c  d          device 1   [a b] [c] [d]      rows   [a b]  [c d]
                                  device 2   [a] [b] [c d]             1: 1, 2 launches   2: 2, 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median
from typing import Any, Final, Self, TypeVar, cast

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.core.op import Source, View
from luminal_lab.core.origin import here, warn
from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Charted, Theme
from luminal_lab.errors import ArgumentError, DeviceError, GraphError, position, whole_number
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.load import BUSY, is_crowded
from luminal_lab.machines.rates import size_text
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.progress import progress
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.column import Column, Comparable, modelled_column
from luminal_lab.timing.launches import LaunchTime, lines_text
from luminal_lab.timing.measure import check_turns
from luminal_lab.timing.subject import ComparedGraph, TimedSession, subject_of
from luminal_lab.timing.timings import MARK, How, is_named, spread_of
from luminal_lab.timing.work import Number, known_sum

T = TypeVar("T")
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_SHOWN = 30
"""How many rows the text shows before it only counts the rest."""


@told_object("compared")
@dataclass(frozen=True, repr=False)
class SideBySide(Charted):
    """A graph on several devices: a sequence of segments, with a column for each device."""

    graph: str
    columns: tuple[Column, ...]
    segments: tuple[Segment, ...]

    # -- rows --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, which: int | str) -> Segment:
        """Return a segment by its position, by the value that it ends in, or by a kernel in it."""
        if not isinstance(which, str):
            return self.segments[position(which, len(self), "compare: there is no segment")]
        names: dict[str, Segment] = {}
        for segment in reversed(self.segments):
            parts = [part for device in segment.parts for part in device]
            keys = [segment.name, *(name for p in parts for name in (p.node, p.kernel))]
            names.update({key.removeprefix("%"): segment for key in reversed(keys)})
        bare = which.removeprefix("%")
        fault = f"compare: there is no segment {which!r}"
        GraphError.unless_known(bare, names, fault, "print(…) shows them all")
        return names[bare]

    def slowest(self, device: int | str = 0) -> Self:
        """Return the same with the segments that take longest on a device first."""
        column = self._place(device)
        rows = sorted(self.segments, key=lambda segment: -(segment.seconds(column) or 0.0))
        return replace(self, segments=tuple(rows))

    def _place(self, device: int | str) -> int:
        index = whole_number(device)
        if index is not None and -len(self.columns) <= index < len(self.columns):
            return index % len(self.columns)
        labels = {c.label: k for k, c in enumerate(self.columns)} | {
            LETTERS[k]: k for k in range(len(self.columns))
        }
        hint = f"they are {', '.join(column.label for column in self.columns)}"
        fault = f"compare: {device!r} is none of the devices"
        ArgumentError.unless_known(device, labels, fault, hint)
        return labels[str(device)]

    # -- shown -------------------------------------------------------------------------------------

    @override
    def __str__(self) -> str:
        many = "1 segment" if len(self) == 1 else f"{len(self)} segments"
        lettered = list(zip(LETTERS, self.columns, strict=False))
        header = [("<", "segment"), ("<", "from")]
        for letter, column in lettered:
            first = (">", f"{letter} {MARK[column.how]}ms")
            header += said_of(column, [first, *HEADS[1:]])
        rows = [self._row(segment) for segment in self.segments[:MOST_SHOWN]]
        lines = [f"  {letter}  {title(column)}" for letter, column in lettered]
        lines += aligned(header, [*rows, self._totals()])
        if len(self) > MOST_SHOWN:
            lines.append(f"  and {len(self) - MOST_SHOWN} more segments, which the totals count")
        notes = together((letter, self.notes(column)) for letter, column in lettered)
        return "\n".join([f"{self.graph}: {many}", *lines, *notes])

    def notes(self, column: Column) -> list[str]:
        """Return the notes on a column: what is assumed, ignored or missing."""
        gone: dict[str, list[str]] = {}
        for part in column.parts:
            if part.missing:
                gone.setdefault(part.missing, []).append(f"{part.kernel} {part.node}")
        missing = [f"{', '.join(parts)}: {why}" for why, parts in gone.items()]
        return [*self.doubts(column), *missing, *column.notes]

    def doubts(self, column: Column) -> list[str]:
        """Return why a column's times, shares and ratios to others may be wrong."""
        timed = [c for c in self.columns if c.how == "measured"]
        is_unsure = len(timed) > 1 and column in timed and is_crowded(column.busy)
        return [*column.doubts, *([BUSY] if is_unsure else [])]

    def _row(self, segment: Segment) -> list[str]:
        cells = [segment.label, segment.origin]
        for number, column in enumerate(self.columns):
            cells += said_of(column, figures(segment, number, column.how))
        return cells

    def _totals(self) -> list[str]:
        cells = ["all launches", ""]
        for column in self.columns:
            known = [part for part in column.parts if part.samples]
            gone = len(column.parts) - len(known)
            size = size_text(sum(part.bytes or 0 for part in column.parts))
            flops = count_text(sum(part.flops or 0 for part in column.parts))
            shown = ms(sum(part.seconds or 0.0 for part in known), MARK[column.how])
            without = f"without {gone}" if gone else ""
            last = without if column.how == "modelled" else ""
            total = shown if known else "-"
            cells += said_of(column, [total, without, size, flops, "", last])
        return cells

    @override
    def __repr__(self) -> str:
        labels = ", ".join(column.label for column in self.columns)
        return f"<SideBySide of {self.graph}: {len(self)} segments on {labels}; print(…) shows it>"

    def _repr_html_(self) -> str:
        return DISPLAYS["SideBySide.html"](self)

    def roofline(self, *, theme: Theme = "auto", still: bool = False) -> Any:  # noqa: ANN401  # a figure of plotly's, or a picture
        """Return each device's roof, and how close each segment comes to it.

        It is a plotly figure, or with `still=True` a picture that a saved notebook keeps.
        """
        return DISPLAYS["SideBySide.roofline"](self, theme=theme, still=still)

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each segment on each device."""
        rows = (
            [cell(segment, number, column) for cell in COLUMNS.values()]
            for segment in self.segments
            for number, column in enumerate(self.columns)
        )
        return frame("compare", list(COLUMNS), rows, {"graph": self.graph})


COLUMNS: Final[Mapping[str, Callable[[Segment, int, Column], object]]] = {
    "segment": lambda segment, _number, _column: segment.name,
    "scope": lambda segment, _number, _column: segment.scope,
    "from": lambda segment, _number, _column: "; ".join(segment.lines),
    "device": lambda _segment, _number, column: column.label,
    "how": lambda _segment, _number, column: column.how,
    "seconds": lambda segment, number, _: segment.seconds(number),
    "spread": lambda segment, number, column: (
        None if column.how == "modelled" else segment.spread(number)
    ),
    "bytes": lambda segment, number, _: segment.bytes(number),
    "flops": lambda segment, number, _: segment.flops(number),
    "share": lambda segment, number, _: segment.share(number),
    "bound": lambda segment, number, _: segment.bound(number),
    "launches": lambda segment, number, _: len(segment.parts[number]),
    "kernels": lambda segment, number, _: tuple(part.kernel for part in segment.parts[number]),
    "missing": lambda segment, number, _: "; ".join(segment.missing(number)),
}


def title(column: Column) -> str:
    """Return a column's title: its device, how its times were obtained, and when."""
    when = f", {column.date[:16].replace('T', ' ')}" if column.date else ""
    device = "" if column.device == column.label else f" ({column.device})"
    said = f"{column.label}{device}: {MARK[column.how]}{column.how}{when}"
    return "; ".join(filter(None, (said, whole_run(column))))


def whole_run(column: Column) -> str:
    """Return what a whole run took, with everything between launches; empty if nobody knows."""
    if not column.whole:
        return ""
    return f"{ms(median(column.whole))} ± {ms(spread_of(column.whole))} ms for a whole run"


HEADS: Final = heads("> ms < ± > bytes > flops > share < limit")


def said_of(column: Column, cells: Sequence[T]) -> list[T]:
    """Return a column's cells; a modelled time has no spread and no share."""
    left_out = (1, 4) if column.how == "modelled" else ()
    return [cell for number, cell in enumerate(cells) if number not in left_out]


def together(labelled: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return notes, each once, after the labels to which it applies.

    >>> together([("A", ["cold"]), ("B", ["cold", "wet"])])
    ['A, B: cold', 'B: wet']
    """
    notes: dict[str, list[str]] = {}
    for who, lines in labelled:
        for line in lines:
            notes.setdefault(line, []).append(who)
    return [f"{', '.join(who)}: {line}" for line, who in notes.items()]


def compare(
    cx: TimedSession,
    devices: Sequence[Comparable | Specification],
    *,
    dims: Mapping[str, int] | None = None,
    passes: Iterable[PassLike] | None = None,
    rounds: int = 10,
    warm_up: int = 2,
) -> SideBySide:
    """Compile what a session has written for each of several devices, and compare the times.

    A specification gives the times that its figures allow. `dims` are sizes that no data gives,
    `passes` what runs before a device's own (the generic compiler). The session does not change.
    A device that is not here has no column, and a warning says why.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((1000, 1000), name="x") * 2).retrieve()
    >>> times = ll.compare(cx, [ll.devices.specification("t4"), ll.devices.specification("h200")])
    >>> [f"{1e6 * times[0].seconds(k):.1f} µs" for k in range(2)]
    ['25.0 µs', '2.0 µs']
    """
    given: object = devices
    asked = list(devices) if isinstance(given, (list, tuple)) else [given]
    for device in asked:
        if not isinstance(device, Specification) and not hasattr(device, "column"):
            raise ArgumentError(
                f"compare: {device!r} is not a device",
                hint="two sessions are compared by first.time().beside(second.time()), and their "
                "passes by ll.beside(first, second)"
                if hasattr(device, "snapshots")
                else "give ll.CPU(), ll.CUDA(), ll.Metal(), ll.WebGPU(), ll.XLA(), "
                'll.Recorded("file.json"), or '
                f"ll.devices.specification({device if isinstance(device, str) else 'h200'!r})",
            )
    if not asked:
        raise ArgumentError(
            "compare: there are no devices", hint="give some, as in ll.compare(cx, [ll.CPU()])"
        )
    check_turns("compare", rounds, warm_up)
    subject = subject_of(cx, dims, passes)
    with progress(f"compare {subject.ir.name}", len(asked), "device") as bar:
        columns = _named(_columns(subject, bar.each(asked, _short), rounds, warm_up))
    return SideBySide(subject.ir.name, columns, segments(subject.ir, columns))


def _columns(
    subject: ComparedGraph, devices: Iterable[object], rounds: int, warm_up: int
) -> Iterator[Column]:
    """Yield the columns of the devices that are here, and warn of the others.

    If none is here, the first one's error is raised.
    """
    failures: list[tuple[object, DeviceError]] = []
    count = 0
    for device in devices:
        try:
            if isinstance(device, Specification):
                column = modelled_column(subject, device)
            else:
                column = cast("Comparable", device).column(subject, rounds, warm_up)
        except DeviceError as error:
            error.where = error.where or str(here() or "") or None
            failures.append((device, error))
        else:
            count += 1
            yield column
    if failures and not count:
        raise failures[0][1]
    for device, error in failures:
        hint = f"\nhint: {error.hint}" if error.hint else ""
        warn(f"compare: {_short(device)} has no column: {error.message}{hint}")


def _short(device: object) -> str:
    """Return the name of a device while it is waited for."""
    return str(getattr(device, "name", None) or type(device).__name__)


def _named(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns with different labels."""
    named: list[Column] = []
    for column in columns:
        same = sum(earlier.label.partition(" #")[0] == column.label for earlier in named)
        named.append(replace(column, label=f"{column.label} #{same + 1}") if same else column)
    return tuple(named)


@told_object("segment")
@dataclass(frozen=True, repr=False)
class Segment:
    """What all devices have done by the time they all hold the same values again."""

    name: str
    """The written value that it ends in, as in "%y"."""
    scope: str
    """The part of a model that wrote it."""
    lines: tuple[str, ...]
    """The user's lines that wrote it."""
    parts: tuple[tuple[LaunchTime, ...], ...]
    """For each device its launches."""
    labels: tuple[str, ...]
    """The names of the devices."""

    @property
    def label(self) -> str:
        """Its name: the user's name for the value, or else the kernels that make it."""
        parts = next((parts for parts in self.parts if parts), ())
        if is_named(self.name) or not parts:
            return self.name
        kernels = list(dict.fromkeys(part.kernel for part in parts))
        return ", ".join(kernels[:2]) + (f" and {len(kernels) - 2} more" if kernels[2:] else "")

    @property
    def origin(self) -> str:
        """The part of a model that wrote it, and the user's lines."""
        more = f" and {len(self.lines) - 2} more" if len(self.lines) > 2 else ""
        return f"{self.scope}  {'; '.join(self.lines[:2])}{more}".strip()

    def seconds(self, device: int) -> float | None:
        """Return the sum of the medians of a device's launches; None if one has no time."""
        return known_sum(part.seconds for part in self.parts[device])

    def spread(self, device: int) -> float:
        """Return the sum of the spreads of a device's launches."""
        return sum(part.spread for part in self.parts[device])

    def bytes(self, device: int) -> int | None:
        """Return the least bytes that a device's launches move."""
        return _sum(part.bytes for part in self.parts[device])

    def flops(self, device: int) -> int | None:
        """Return the operations of a device's launches."""
        return _sum(part.flops for part in self.parts[device])

    def share(self, device: int) -> float | None:
        """Return the least time that a device's figures allow divided by the time it took."""
        seconds, least = self.seconds(device), _sum(part.least for part in self.parts[device])
        return least / seconds if seconds and least is not None else None

    def bound(self, device: int) -> str:
        """Return the figures that limit a device's launches, the longest first."""
        longest = sorted(self.parts[device], key=lambda part: -(part.least or 0))
        return ", ".join(dict.fromkeys(part.bound for part in longest if part.bound))

    def missing(self, device: int) -> tuple[str, ...]:
        """Return why launches of a device have no time."""
        return tuple(dict.fromkeys(part.missing for part in self.parts[device] if part.missing))

    @override
    def __str__(self) -> str:
        rows = [
            [label if not number else "", *cells(part)]
            for label, parts in zip(self.labels, self.parts, strict=True)
            for number, part in enumerate(parts)
        ]
        return "\n".join([f"{self.label}  {self.origin}".strip(), *aligned(HEADER, rows)])

    @override
    def __repr__(self) -> str:
        launches = sum(map(len, self.parts))
        return f"<Segment {self.name}: {launches} launches; print(…) shows them>"

    _repr_mimebundle_ = as_text


HEADER = heads("< device < launch > ms < ± > bytes > flops > share < limit")


def cells(part: LaunchTime) -> list[str]:
    """Return the cells of a launch in a table."""
    name = f"{part.kernel} {part.node}" if is_named(part.node) else part.kernel
    name += " (host)" if part.is_host else ""
    if part.seconds is None:
        return [name, "-", part.missing, "", "", "", ""]
    alone = Segment(part.node, "", (), ((part,),), ("",))
    return [name, *figures(alone, 0, part.how)]


def figures(segment: Segment, device: int, how: How) -> list[str]:
    """Return the cells of launches that have a time, or of none."""
    seconds, share, mark = segment.seconds(device), segment.share(device), MARK[how]
    size, flops, is_model = segment.bytes(device), segment.flops(device), how == "modelled"
    time, spread = "no launch", ""
    if segment.parts[device]:
        time = "no time" if seconds is None else ms(seconds, mark)
        spread = "" if seconds is None or is_model else f"± {ms(segment.spread(device), mark)}"
    return [
        time,
        spread,
        "" if size is None else size_text(size),
        "" if flops is None else count_text(flops),
        "" if is_model or not share else f"{share:.0%}",
        segment.bound(device),
    ]


def ms(seconds: float, mark: str = "") -> str:
    """Return a time in ms, with the mark for how it was obtained.

    >>> ms(0.00123456), ms(2e-6, "~"), ms(1.5, "°"), ms(3e-8)
    ('1.235', '~0.0020', '°1500', '0.00003')
    """
    value = 1e3 * seconds
    digits = 0 if value >= 1000 else 1 if value >= 100 else 3 if value >= 0.1 else 4
    digits += 0 < value < 0.001  # a spread is never shown as 0
    return f"{mark}{value:.{digits}f}"


def count_text(count: float) -> str:
    """Return a number of operations, written as briefly as possible.

    >>> count_text(1_234), count_text(3_200_000_000)
    ('1.23k', '3.2G')
    """
    power = 0
    while count >= 1000 and power < 4:
        count, power = count / 1000, power + 1
    return f"{count:.3g}{' kMGT'[power].strip()}"


def segments(ir: IR, columns: Sequence[Column]) -> tuple[Segment, ...]:
    """Return the rows of a comparison, in the order in which they run."""
    owned = [_owned(ir, column) for column in columns]
    rows = [
        [sorted(number for k, number in group if k == column) for column in range(len(columns))]
        for group in _joined(columns, owned)
    ]
    ordered: list[tuple[int, Segment]] = []
    for row in rows:
        parts = tuple(
            tuple(column.parts[number] for number in numbers)
            for column, numbers in zip(columns, row, strict=True)
        )
        nodes = {
            id
            for covers, numbers in zip(owned, row, strict=True)
            for number in numbers
            for id in covers[number]
        }
        labels = tuple(column.label for column in columns)
        end = _end(ir, parts) or max(nodes, default=None)
        name, scope = ("(nothing)", "") if end is None else (str(ir[end]), ir[end].meta.scope)
        told = dict.fromkeys(line for device in parts for part in device for line in part.lines)
        lines = tuple(told) or lines_text(ir[id].meta.origin for id in sorted(nodes))
        segment = Segment(name, scope, lines, parts, labels)
        ordered.append((max(nodes, default=-1), segment))
    return tuple(segment for _, segment in sorted(ordered, key=lambda pair: pair[0]))


def _joined(
    columns: Sequence[Column], owned: Sequence[list[frozenset[int]]]
) -> list[set[tuple[int, int]]]:
    """Return the launches of all devices in groups, each given by its device and its position.

    The written nodes that tie them together are included, as belonging to no device.
    """
    groups: dict[tuple[int, int], set[tuple[int, int]]] = {}
    users = [_users(column) for column in columns]
    launches = [(k, n, nodes) for k, covers in enumerate(owned) for n, nodes in enumerate(covers)]
    for device, number, nodes in launches:
        tied = {(device, number), *((-1, node) for node in nodes)}
        for beside, node in product(range(len(columns)), nodes):
            # What one device launches and another folds away (a copied view) is not a row of its
            # own.
            folded = users[beside].get(node, ()) if beside != device else ()
            if len(folded) == 1:
                tied.add((beside, folded[0]))
        group = tied.union(*(groups.get(member, ()) for member in tied))
        groups |= dict.fromkeys(group, group)
    return [*{id(group): group for group in groups.values()}.values()]


def _owned(ir: IR, column: Column) -> list[frozenset[int]]:
    """Return for each launch the written nodes that only it computes on its device.

    What several launches compute (a mask, an index) ties none of them together, unless a launch
    computes nothing else.
    """
    works = [_works(ir, part.covers) for part in column.parts]
    often = Counter(id for nodes in works for id in nodes)
    alone = [frozenset(id for id in nodes if often[id] == 1) for nodes in works]
    return [own or frozenset(sorted(nodes)[-1:]) for own, nodes in zip(alone, works, strict=True)]


def _users(column: Column) -> dict[int, list[int]]:
    """Return for each written node the launches of a device that compute it."""
    users: dict[int, list[int]] = {}
    for number, part in enumerate(column.parts):
        for id in part.covers:
            users.setdefault(id, []).append(number)
    return users


def _works(ir: IR, covers: frozenset[int]) -> frozenset[int]:
    """Return those of some written nodes that compute; if none does, those that move elements."""
    known = [ir[id] for id in covers if id in ir]
    work = [node.id for node in known if not isinstance(node.op, (Source, View))]
    views = [node.id for node in known if isinstance(node.op, View)]
    return frozenset(work or views or [node.id for node in known])


def _end(ir: IR, parts: Sequence[Sequence[LaunchTime]]) -> int | None:
    """Return the last written value that a segment leaves in memory and that others read."""
    inside = {id for device in parts for part in device for id in part.covers}
    values = [part.value for device in parts for part in device]
    known = sorted({id for id in values if id is not None and id in ir})
    read = [
        id
        for id in known
        if id in ir.output_ids or any(user.id not in inside for user in ir.users(id))
    ]
    return max(read or known, default=None)


def _sum(numbers: Iterable[Number | None]) -> Number | None:
    """Return a sum; None if it is empty or a number is unknown."""
    listed = [*numbers]
    return known_sum(listed) if listed else None
