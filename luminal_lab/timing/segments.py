"""Which launches of several devices compute the same: the rows of a comparison.

Devices fuse differently. A row is the segment of the written graph between values that all of them
materialise: launches that share a written node are in one row, with whatever shares one with those.

    written   a  b  c  d          device 1   [a b] [c] [d]      rows   [a b]  [c d]
                                  device 2   [a] [b] [c d]             1: 1, 2 launches   2: 2, 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.core.op import Source, View
from luminal_lab.core.printer import as_text
from luminal_lab.machines.rates import size_text
from luminal_lab.tables import aligned, heads
from luminal_lab.timing.column import Column
from luminal_lab.timing.launches import LaunchTime, lines_text
from luminal_lab.timing.timings import MARK, How
from luminal_lab.timing.work import Number, known_sum


@dataclass(frozen=True, repr=False)
class Segment:
    """What all devices have done when all of them hold the same values again."""

    name: str
    """The written value that it ends in, as in "%y"."""
    scope: str
    """The part of a model that wrote it."""
    lines: tuple[str, ...]
    """The user's lines that wrote it."""
    parts: tuple[tuple[LaunchTime, ...], ...]
    """For each device its launches."""
    labels: tuple[str, ...]
    """What the devices are called."""

    @property
    def origin(self) -> str:
        """The part of a model that wrote it, and the user's lines."""
        more = f" and {len(self.lines) - 2} more" if len(self.lines) > 2 else ""
        return f"{self.scope}  {'; '.join(self.lines[:2])}{more}".strip()

    def seconds(self, device: int) -> float | None:
        """Return the medians of a device's launches together; None where one has no time."""
        return known_sum(part.seconds for part in self.parts[device])

    def spread(self, device: int) -> float:
        """Return the spreads of a device's launches together."""
        return sum(part.spread for part in self.parts[device])

    def bytes(self, device: int) -> int | None:
        """Return the bytes that a device's launches move at least."""
        return _sum(part.bytes for part in self.parts[device])

    def flops(self, device: int) -> int | None:
        """Return the operations of a device's launches."""
        return _sum(part.flops for part in self.parts[device])

    def share(self, device: int) -> float | None:
        """Return the least time that a device's figures allow, through the time that it took."""
        seconds, least = self.seconds(device), _sum(part.least for part in self.parts[device])
        return least / seconds if seconds and least is not None else None

    def bound(self, device: int) -> str:
        """Return which figures set the least times of a device's launches, the longest first."""
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
        return "\n".join([f"{self.name}  {self.origin}".strip(), *aligned(HEADER, rows)])

    @override
    def __repr__(self) -> str:
        launches = sum(map(len, self.parts))
        return f"<Segment {self.name}: {launches} launches; print(…) shows them>"

    _repr_mimebundle_ = as_text


HEADER = heads("< device < launch > ms < ± > bytes > flops > share < limit")


def cells(part: LaunchTime) -> list[str]:
    """Return what a table says of a launch."""
    name = f"{part.kernel} {part.node}" + (" (host)" if part.is_host else "")
    if part.seconds is None:
        return [name, "-", part.missing, "", "", "", ""]
    alone = Segment(part.node, "", (), ((part,),), ("",))
    return [name, *figures(alone, 0, part.how)]


def figures(segment: Segment, device: int, how: How) -> list[str]:
    """Return what a table says of launches that have a time, or of none."""
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
    """Return a time in ms, with the mark of how it was got.

    >>> ms(0.00123456), ms(2e-6, "~"), ms(1.5, "°")
    ('1.235', '~0.0020', '°1500')
    """
    value = 1e3 * seconds
    digits = 0 if value >= 1000 else 1 if value >= 100 else 3 if value >= 0.1 else 4
    return f"{mark}{value:.{digits}f}"


def count_text(count: float) -> str:
    """Return a number of operations, as short as can be.

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
    groups = _joined(columns, owned)
    rows: dict[object, list[list[int]]] = {}
    for column_number, covers in enumerate(owned):
        for number in range(len(covers)):
            row = rows.setdefault(groups.of((column_number, number)), [[] for _ in columns])
            row[column_number].append(number)
    ordered: list[tuple[int, Segment]] = []
    for row in rows.values():
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
        lines = lines_text(ir[id].meta.origin for id in sorted(nodes))
        segment = Segment(name, scope, lines, parts, labels)
        ordered.append((max(nodes, default=-1), segment))
    return tuple(segment for _, segment in sorted(ordered, key=lambda pair: pair[0]))


def _joined(columns: Sequence[Column], owned: Sequence[list[frozenset[int]]]) -> _Groups:
    """Return the launches of all devices in groups, each named by its device and its place."""
    groups = _Groups()
    users = [_users(column) for column in columns]
    launches = [(k, n, nodes) for k, covers in enumerate(owned) for n, nodes in enumerate(covers)]
    for device, number, nodes in launches:
        groups.join((device, number), *(("node", id) for id in nodes))
        for other, id in product(range(len(columns)), nodes):
            # What one launches and another folds away (a view, copied) is no row of its own.
            folded = users[other].get(id, ()) if other != device else ()
            if len(folded) == 1:
                groups.join((device, number), (other, folded[0]))
    return groups


def _owned(ir: IR, column: Column) -> list[frozenset[int]]:
    """Return for each launch the written nodes that it alone computes on its device.

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
    """Return those of some written nodes that compute something; if none does, those that move."""
    known = [ir[id] for id in covers if id in ir]
    work = [node.id for node in known if not isinstance(node.op, (Source, View))]
    views = [node.id for node in known if isinstance(node.op, View)]
    return frozenset(work or views or [node.id for node in known])


def _end(ir: IR, parts: Sequence[Sequence[LaunchTime]]) -> int | None:
    """Return the last written value that a segment leaves in memory, and that others read."""
    inside = {id for device in parts for part in device for id in part.covers}
    values = [part.value for device in parts for part in device]
    known = sorted({id for id in values if id is not None and id in ir})
    read = [
        id
        for id in known
        if id in ir.output_ids or any(user.id not in inside for user in ir.users(id))
    ]
    return max(read or known, default=None)


class _Groups:
    """Sets that are joined by what they share (union-find)."""

    def __init__(self) -> None:
        self.parent: dict[object, object] = {}

    def of(self, member: object) -> object:
        """Return what stands for the group of something."""
        while (parent := self.parent.setdefault(member, member)) != member:
            self.parent[member] = self.parent[parent]  # the next one who asks has half the way
            member = parent
        return member

    def join(self, first: object, *others: object) -> None:
        """Put things into one group."""
        for other in others:
            self.parent[self.of(other)] = self.of(first)
        self.of(first)


def _sum(numbers: Iterable[Number | None]) -> Number | None:
    """Return a sum; None of nothing, and where a number is not known."""
    listed = [*numbers]
    return known_sum(listed) if listed else None
