"""Devices side by side: the same written graph on each, segment by segment.

    print(ll.compare(cx, [ll.CPU(), ll.devices.specification("h200")]))

A time is measured here, recorded elsewhere (°), or modelled from a device's figures (~); a column
says which, and every time of it has the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final, Self, TypeVar, cast

from typing_extensions import override

from luminal_lab.display import DISPLAYS, Charted, Theme
from luminal_lab.errors import ArgumentError, GraphError, position, whole_number
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.rates import size_text
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.progress import progress
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.column import Column, Comparable, modelled_column
from luminal_lab.timing.measure import check_turns
from luminal_lab.timing.segments import Segment, count_text, figures, ms, segments
from luminal_lab.timing.subject import TimedSession, subject_of
from luminal_lab.timing.timings import MARK, spread_of

T = TypeVar("T")
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_SHOWN = 30
"""Rows that the text shows before it says how many more there are."""


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
        """Return a segment by its place, by the value that it ends in, or by a kernel in it."""
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
        """Return what is to be known of a column: what is assumed, ignored or missing."""
        gone: dict[str, list[str]] = {}
        for part in column.parts:
            if part.missing:
                gone.setdefault(part.missing, []).append(f"{part.kernel} {part.node}")
        missing = [f"{', '.join(parts)}: {why}" for why, parts in gone.items()]
        return [*missing, *column.notes]

    def _row(self, segment: Segment) -> list[str]:
        cells = [segment.name, segment.origin]
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

    def roofline(self, *, theme: Theme = "auto") -> Any:  # noqa: ANN401  # a figure of plotly's
        """Return each device's roof, and how close each segment came to it."""
        return DISPLAYS["SideBySide.roofline"](self, theme=theme)

    def to_pandas(self) -> Table:
        """Return a table of pandas: a row for each segment on each device."""
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
    """Return what a column is: its device, how its times were got, and when."""
    when = f", {column.date[:16].replace('T', ' ')}" if column.date else ""
    device = "" if column.device == column.label else f" ({column.device})"
    said = f"{column.label}{device}: {MARK[column.how]}{column.how}{when}"
    if not column.whole:
        return said
    middle, spread = ms(median(column.whole)), ms(spread_of(column.whole))
    return f"{said}; {middle} ± {spread} ms for a whole run"


HEADS: Final = heads("> ms < ± > bytes > flops > share < limit")


def said_of(column: Column, cells: Sequence[T]) -> list[T]:
    """Return what is said of a column: a modelled time has no spread and no share."""
    left_out = (1, 4) if column.how == "modelled" else ()
    return [cell for number, cell in enumerate(cells) if number not in left_out]


def together(labelled: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return notes, each once, behind those of whom it holds.

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
    """Compile what a session has written for each of several devices, and put the times together.

    A specification stands for the times that its figures allow. `dims` are sizes that no data
    gives, `passes` what runs before a device's own (the generic compiler). The session stays as it
    is.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((1000, 1000), name="x") * 2).retrieve()
    >>> found = ll.compare(cx, [ll.devices.specification("t4"), ll.devices.specification("h200")])
    >>> [f"{1e6 * found[0].seconds(k):.1f} µs" for k in range(2)]
    ['25.0 µs', '2.0 µs']
    """
    given: object = devices
    asked = list(devices) if isinstance(given, (list, tuple)) else [given]
    for device in asked:
        if not isinstance(device, Specification) and not hasattr(device, "column"):
            raise ArgumentError(
                f"compare: {device!r} is no device",
                hint='give ll.CPU(), ll.CUDA(), ll.Metal(), ll.Recorded("file.json"), or '
                f"ll.devices.specification({device if isinstance(device, str) else 'h200'!r})",
            )
    if not asked:
        raise ArgumentError(
            "compare: there are no devices", hint="give some, as in ll.compare(cx, [ll.CPU()])"
        )
    check_turns("compare", rounds, warm_up)
    subject = subject_of(cx, dims, passes)
    with progress(f"compare {subject.ir.name}", len(asked), "device") as bar:
        columns = _named(
            modelled_column(subject, device)
            if isinstance(device, Specification)
            else cast("Comparable", device).column(subject, rounds, warm_up)
            for device in bar.each(asked, _short)
        )
    return SideBySide(subject.ir.name, columns, segments(subject.ir, columns))


def _short(device: object) -> str:
    """Return what a device is called while it is waited for."""
    return str(getattr(device, "name", None) or type(device).__name__)


def _named(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns whose labels differ."""
    named: list[Column] = []
    for column in columns:
        same = sum(earlier.label.partition(" #")[0] == column.label for earlier in named)
        named.append(replace(column, label=f"{column.label} #{same + 1}") if same else column)
    return tuple(named)
