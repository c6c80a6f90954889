"""Times folded: how much of a run each part of the model, each line, or each kind of work takes.

    matmul_relu   2 ms    x @ w  cell 1:4  63 parts of 64        cell 1:4   1.97 ms
                          relu   cell 1:5   1 part of 64    →    cell 1:5   0.03 ms

A kernel has one time, and may do the work of several lines. The time is divided among them by the
operations of each, so that the parts add up to the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, GraphError, position, whole_number
from luminal_lab.machines.load import load_text
from luminal_lab.tables import Table, aligned, frame, heads
from luminal_lab.tensor.arguments import told_object

if TYPE_CHECKING:
    from luminal_lab.timing.timings import Timing, Timings

By: TypeAlias = Literal["scope", "line", "kind"]
Asked: TypeAlias = By | Literal["module"]
"""What times may be folded by; the scopes of a model are its modules."""
NOWHERE: Final = {"scope": "(no scope)", "line": "(no line)", "kind": "other"}
WIDEST = 60
"""The most characters of a line's text in a table."""
HEADS: Final[Mapping[By, str]] = {"scope": "module", "line": "line", "kind": "kind"}


class Part(NamedTuple):
    """What a launch does for one line in one scope."""

    scope: str
    line: str
    """As `file:line`; empty if unknown."""
    share: float
    """Its share of the launch's operations, from 0 to 1."""
    code: str = ""
    """The text of the line, as it was when it ran; empty if unknown."""


@told_object("row")
@dataclass(frozen=True)
class FoldedRow:
    """A part of the model, a line or a kind, and the time it takes in a run."""

    name: str
    seconds: float
    share: float
    """Its share of all launches."""
    launches: tuple[int, ...]
    """The rows of the timings that count towards it."""
    code: str = ""
    """The text of a line, as it was when it ran; empty if unknown."""


@told_object("times")
@dataclass(frozen=True, repr=False)
class Folded:
    """Times by module, by line or by kind: a sequence of rows, the longest first."""

    timings: Timings
    by: By
    rows: tuple[FoldedRow, ...]

    def __iter__(self) -> Iterator[FoldedRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: int | str) -> FoldedRow:
        """Return a row by its position or its name."""
        if not isinstance(name, str):
            if whole_number(name) is None:
                raise ArgumentError(
                    f"timings: {name!r} names no row", hint="give its place or name"
                )
            return self.rows[position(name, len(self), f"timings by {self.by}: there is no row")]
        named = {row.name: row for row in self.rows}
        fault = f"timings: by {self.by} there is no {name!r}"
        GraphError.unless_known(name, named, fault, "print(…) shows all")
        return named[name]

    @property
    def seconds(self) -> float:
        """The sum of all rows, which equals that of the launches."""
        return sum(row.seconds for row in self.rows)

    @override
    def __str__(self) -> str:
        timings = self.timings
        unit = timings.unit
        has_code = any(row.code for row in self.rows)
        cells = [
            [
                timings.shown(row.seconds, unit),
                f"{row.share:.0%}",
                f"{len(row.launches)}",
                row.name,
                *([_short(row.code)] if has_code else []),
            ]
            for row in self.rows
        ]
        header = [(">", unit), *heads("> share > launches"), ("<", HEADS[self.by])]
        header += heads("< code") if has_code else []
        title = f"{timings.graph} by {HEADS[self.by]}, {timings.how}{timings.where}"
        lines = [title, *aligned(header, cells)]
        lines.append(f"  {timings.shown(self.seconds, unit)} {unit} in all launches")
        if self.by != "kind" and any(len(row.parts) > 1 for row in timings.rows):
            lines.append(SPLIT)
        lines += [load_text(timings.busy)] if load_text(timings.busy) else []
        return "\n".join(lines)

    @override
    def __repr__(self) -> str:
        return f"<Folded: {len(self.rows)} rows by {self.by}; print(…) shows them>"

    _repr_mimebundle_ = as_text

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each module, line or kind."""
        code = ("code",) if self.by == "line" else ()
        rows = (
            (row.name, row.seconds, row.share, len(row.launches), row.code)[: 4 + len(code)]
            for row in self.rows
        )
        columns = (HEADS[self.by], "seconds", "share", "launches", *code)
        return frame("timings", columns, rows, {"how": self.timings.how})


SPLIT = "a kernel that does the work of several is divided by the operations that each has written"


def folded(timings: Timings, by: object, depth: object = None) -> Folded:
    """Return times by scope, line or kind; `depth` is how many levels of scopes count."""
    by = "scope" if by == "module" else by
    if by not in get_args(By):
        raise ArgumentError(
            f"timings: by is {by!r}", hint='give "module", "line" or "kind", as in times.by("line")'
        )
    how: By = by  # pyright: ignore[reportAssignmentType]  # it was just checked
    if depth is not None:
        hint = "give how many levels of scopes count: 1 or more"
        ArgumentError.unless_number(depth, f"timings: depth is {depth!r}", hint, 1, 1_000)
    levels = None if depth is None else whole_number(depth)
    seconds: dict[str, float] = {}
    launches: dict[str, dict[int, None]] = {}
    codes: dict[str, dict[str, None]] = {}  # two files of one name have a line of one number
    for part in (part for row in timings.rows for part in row.parts if part.code):
        codes.setdefault(part.line, {})[part.code] = None
    for number, row in enumerate(timings.rows):
        for name, share in _shares(row, how, levels):
            seconds[name] = seconds.get(name, 0.0) + share * row.seconds
            launches.setdefault(name, {})[number] = None
    total = timings.launches
    rows = [
        FoldedRow(
            name,
            part,
            part / total if total else 0.0,
            tuple(launches[name]),
            " / ".join(codes.get(name, ())) if how == "line" else "",
        )
        for name, part in sorted(seconds.items(), key=lambda item: -item[1])
    ]
    return Folded(timings, how, tuple(rows))


def _shares(row: Timing, by: By, depth: int | None) -> Iterator[tuple[str, float]]:
    """Yield what a row's time belongs to, with the seconds of each."""
    if by == "kind":
        yield row.family or NOWHERE[by], 1.0
        return
    parts: Sequence[Part] = row.parts or _alone(row)
    for part in parts:
        name = part.line if by == "line" else _upper(part.scope, depth)
        yield name or NOWHERE[by], part.share


def _alone(row: Timing) -> list[Part]:
    """Return the parts of a row that only knows its lines, such as one from an older file."""
    lines = row.origins or ("",)
    return [Part("", line, 1 / len(lines)) for line in lines]


def _upper(scope: str, depth: int | None) -> str:
    return scope if depth is None else ".".join(scope.split(".")[:depth])


def _short(code: str) -> str:
    return code if len(code) <= WIDEST else f"{code[: WIDEST - 2]} …"


def parts_of(weights: Mapping[tuple[str, str, str], float]) -> tuple[Part, ...]:
    """Return the parts of a launch, by the work of its written nodes in each scope and line.

    >>> for part in parts_of({("h0", "a.py:3", "x @ w"): 3.0, ("h0", "a.py:4", ""): 1.0}):
    ...     print(part)
    Part(scope='h0', line='a.py:3', share=0.75, code='x @ w')
    Part(scope='h0', line='a.py:4', share=0.25, code='')
    """
    total = sum(weights.values())
    share: Callable[[float], float] = lambda weight: (  # noqa: E731  # shorter than a function
        weight / total if total else 1 / len(weights)
    )
    return tuple(
        Part(scope, line, share(weight), code)
        for (scope, line, code), weight in weights.items()
        if weight or not total
    )
