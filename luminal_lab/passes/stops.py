"""Breakpoints: the firings that touch a node, a line or a rule, and the graphs around each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import SupportsIndex, overload

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.core.printer import as_text
from luminal_lab.errors import position
from luminal_lab.passes.diff import Diff, diff
from luminal_lab.passes.snapshot import Firing, Snapshot
from luminal_lab.tensor.arguments import told_object


@told_object("stop")
@dataclass(frozen=True, repr=False)
class Stop:
    """A firing at which a compile is examined: what a compile that ends here has made."""

    snapshot: Snapshot
    number: int
    """The number of the firing in its pass, from 1."""
    asked: str = field(default="", compare=False)
    """What a compile waited for that ended here, as in "touches %y"; empty for others."""

    @property
    def firing(self) -> Firing:
        """The firing: its rule, the reason, and the nodes before and after."""
        return self.snapshot.firings[self.number - 1]

    @property
    def before(self) -> IR:
        """The graph before the firing."""
        return self.snapshot.steps()[self.number - 1]

    @property
    def after(self) -> IR:
        """The graph after the firing."""
        return self.snapshot.steps()[self.number]

    @property
    def reason(self) -> str:
        """Where a compile stopped, and at what."""
        first = f" at the first firing that {self.asked}" if self.asked else ""
        return f"stopped{first}: {self}"

    def diff(self) -> Diff:
        """Return the changes of the firing."""
        return diff(self.before, self.after)

    @override
    def __str__(self) -> str:
        at = f"Pass {self.snapshot.index}, {self.snapshot.title}, firing {self.number}"
        return f"{at}: {self.firing}"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Stop: {self}>"


@told_object("stops")
class Stops(tuple[Stop, ...]):
    """The firings that touch something, in order; `stops[0]` is the first."""

    __slots__ = ()

    @overload
    def __getitem__(self, which: SupportsIndex) -> Stop: ...
    @overload
    def __getitem__(self, which: slice) -> Stops: ...
    @override
    def __getitem__(self, which: SupportsIndex | slice) -> Stop | Stops:
        if isinstance(which, slice):
            return Stops(super().__getitem__(which))
        hint = "they count from 0" if self else "no firing touches it; print(compilation) has all"
        return super().__getitem__(position(which, len(self), "stops: there is no stop", hint))

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no firing touches it"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        many = f"{len(self)} firing{'s' * (len(self) != 1)}"
        return f"<Stops: {many}; print(…) shows them, [0] is the first>"


def stops_of(
    snapshots: Sequence[Snapshot], rows: Sequence[set[int]] | None, wanted: Callable[[Firing], bool]
) -> Stops:
    """Return the wanted firings; of these, those that touch the nodes of `rows`, if given."""
    stops: list[Stop] = []
    for snapshot in snapshots[1:]:
        near = set[int]() if rows is None else rows[snapshot.index - 1] | rows[snapshot.index]
        for number, firing in enumerate(snapshot.firings, 1):
            if wanted(firing) and (rows is None or touched(firing) & near):
                stops.append(Stop(snapshot, number))
    return Stops(stops)


def touched(firing: Firing) -> set[int]:
    """Return the nodes that a firing makes, replaces, erases, or gives other sources."""
    changed = (node for c in firing.changes for node in (*c.before, *c.after))
    return {node.id for node in (*firing.before, *firing.after, *changed)}
