"""Advice: at most five things that are slow, each with its place, the change, and the gain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.display import Displayed
from luminal_lab.errors import position
from luminal_lab.machines.load import load_text
from luminal_lab.tables import Table, frame
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.timings import unit_of

MOST = 5
"""How many things are shown."""
NOTHING = "nothing was found that would make a run faster"


@dataclass(frozen=True)
class Gain:
    """How much faster a run would be, and how that is known."""

    how: Literal["measured", "modelled"]
    """Measured by trying both in turns, or modelled: then it is only an upper bound."""
    ratio: float
    """The current time of a run divided by its new time."""
    seconds: float
    """What a run would save."""
    low: float | None = None
    """The ratio lies above this, and below `high`, 19 times out of 20; None for a model."""
    high: float | None = None
    busy: float | None = None
    """How many cores other programs kept busy during the measurement."""

    @override
    def __str__(self) -> str:
        factor, unit = unit_of(abs(self.seconds))
        saved = f"{factor * self.seconds:.3g} {unit} a run"
        if self.how == "modelled":
            return f"~{self.ratio:.2f}× at most, ~{saved} (modelled)"
        within = "" if self.low is None else f", {self.low:.2f} to {self.high:.2f}"
        load = load_text(self.busy).removeprefix("measured ")
        return f"{self.ratio:.2f}×, {saved} (measured in turns{within}{load and f', {load}'})"


@told_object("finding")
@dataclass(frozen=True)
class Finding:
    """One thing that is slow."""

    kind: str
    """Its name, as in "graph-break"."""
    title: str
    """What is slow, in a sentence."""
    why: str
    """Why it is slow."""
    change: str
    """The line to change, or the call to make."""
    lines: tuple[str, ...]
    """The user's lines, as `file:line`."""
    code: str
    """The text of the first of those lines."""
    scope: str
    """The part of the model that it is in."""
    nodes: tuple[int, ...]
    """The nodes of the graph as written."""
    gain: Gain

    @property
    def place(self) -> str:
        """The part of the model and the lines."""
        more = f" and {len(self.lines) - 2} more" if len(self.lines) > 2 else ""
        return f"{self.scope}  {', '.join(self.lines[:2])}{more}".strip()

    @override
    def __str__(self) -> str:
        lines = [f"{self.title}: {self.gain}"]
        where = f"{self.place}:  {self.code}" if self.code else self.place
        lines += [f"  at      {where}"] if where else []
        return "\n".join([*lines, f"  why     {self.why}", f"  change  {self.change}"])

    _repr_mimebundle_ = as_text


@told_object("advice")
@dataclass(frozen=True, repr=False)
class Advice(Displayed):
    """What is slow in a graph: a sequence of findings, the one that saves most first.

    >>> print(Advice("main", "a machine", 0.002, (), 4))
    main: 2 ms a run on a machine
    nothing was found that would make a run faster: 4 changes were tried
    """

    graph: str
    device: str
    seconds: float
    """What a run takes now."""
    findings: tuple[Finding, ...]
    tried: int
    """How many changes were compiled and timed."""
    notes: tuple[str, ...] = ()
    """What was not tried, and why the numbers may be wrong."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, number: int) -> Finding:
        return self.findings[position(number, len(self), "advice: there is no finding")]

    @override
    def __str__(self) -> str:
        factor, unit = unit_of(self.seconds)
        lines = [f"{self.graph}: {factor * self.seconds:.3g} {unit} a run on {self.device}"]
        for number, finding in enumerate(self.findings, 1):
            first, *rest = str(finding).splitlines()
            lines += [f"{number}. {first}", *(f" {line}" for line in rest)]
        if not self.findings:
            many = {0: "nothing was tried", 1: "1 change was tried"}
            lines.append(f"{NOTHING}: {many.get(self.tried, f'{self.tried} changes were tried')}")
        elif len(self.findings) > 1:
            lines.append(ALONE)
        return "\n".join([*lines, *self.notes])

    @override
    def __repr__(self) -> str:
        many = f"{len(self)} finding{'s' * (len(self) != 1)}"
        return f"<Advice on {self.graph}: {many}; print(…) shows them>"

    def recorded(self) -> Advice:
        """Return the same advice as read from a file: nothing in it was measured here."""
        return self if RECORDED in self.notes else replace(self, notes=(RECORDED, *self.notes))

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each finding."""
        rows = (
            (f.kind, f.place, f.code, f.gain.ratio, f.gain.seconds, f.gain.how, f.title, f.change)
            for f in self.findings
        )
        columns = ("kind", "place", "code", "ratio", "seconds", "how", "title", "change")
        return frame("advice", columns, rows, {"graph": self.graph, "device": self.device})


RECORDED = "recorded: found and measured where the recording was made"
ALONE = "each gain is that of one change alone; several together may give more, or less"
