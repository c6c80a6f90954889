"""A graph as the plain things that a picture shows: nodes, boxes of scopes, links between them.

Views are folded into the links, scopes are closed where there is too much, equal neighbours are
shown once; the payload says how much that hides. It has no places and no colours, and `to_json` of
equal graphs is equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from luminal_lab.viz.entries import Status

Kind: TypeAlias = Literal[
    "input", "parameter", "constant", "source", "view", "op", "reduce", "call", "kernel", "launch",
    "host", "outside"
]  # fmt: skip
"""What a node is, which its shape in a picture says."""
Mark: TypeAlias = Literal["retrieved", "kept", "recomputed", "unused"]
SCHEMA = 1
"""What `to_json` has; one more whenever that changes."""


@dataclass(frozen=True)
class Item:
    """A node that is shown."""

    id: int
    key: int
    name: str
    op: str
    label: str
    type: str
    kind: Kind
    marks: tuple[Mark, ...] = ()
    box: int | None = None
    scope: str = ""
    origin: str = ""
    rule: str = ""
    status: Status = ""
    highlighted: bool = False
    value: str = ""
    """What an overlay says of it."""
    amount: float | None = None
    """The same as a number."""
    heat: float | None = None
    """How much of the most there is, from 0 to 1."""


@dataclass(frozen=True)
class Box:
    """A scope, open or closed."""

    id: int
    name: str
    path: str
    box: int | None
    is_open: bool
    nodes: int
    """How many nodes are in it, in each of its like."""
    times: int = 1
    members: tuple[str, ...] = ()
    """The paths of all of its like, if there are several."""
    added: int = 0
    removed: int = 0
    rewired: int = 0
    highlighted: bool = False


@dataclass(frozen=True)
class Link:
    """What is read by what; between boxes, how often."""

    source: int
    target: int
    views: tuple[str, ...] = ()
    count: int = 1
    status: Status = ""


@dataclass(frozen=True)
class Payload:
    """All that a picture shows, and how much it hides."""

    name: str
    items: tuple[Item, ...]
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    total: int
    folded: int
    """Views that are in the links."""
    closed: int
    """Nodes in closed scopes."""
    repeated: int
    """Nodes in scopes like one that is shown."""
    left_out: int
    """Nodes that were not asked for, or are too many."""
    is_pair: bool = False
    overlay: str = ""
    """What the numbers on nodes are."""
    note: str = ""
    """Which version of the graph it is."""
    schema: int = field(default=SCHEMA)

    @property
    def title(self) -> str:
        """The graph's name, and which version of it this is."""
        return f"{self.name} {self.note}".strip()

    @property
    def shown(self) -> str:
        """What is shown and what is not, in words.

        Every node of the graph is in one of the numbers.
        """
        nodes = sum(item.kind != "outside" for item in self.items)
        text = f"{nodes:,} of {counted(self.total, 'node')}"
        rest = [
            f"{counted(self.folded, 'view')} in the edges" if self.folded else "",
            f"{self.closed:,} in closed scopes" if self.closed else "",
            f"{self.repeated:,} in repeated ones" if self.repeated else "",
            f"{self.left_out:,} left out" if self.left_out else "",
        ]
        return f"{text} ({', '.join(filter(None, rest))})" if any(rest) else text

    def to_json(self) -> dict[str, Any]:
        """Return the payload as plain lists and dicts."""
        return asdict(self)


@dataclass(frozen=True)
class Asked:
    """What somebody wants to see."""

    views: bool = False
    """Whether views are nodes, too."""
    depth: int | None = None
    """Down to which depth scopes are open; None opens what fits."""
    select: AbstractSet[int] | None = None
    """The keys of the nodes to show, if not all."""
    highlight: AbstractSet[int] = frozenset()
    named: AbstractSet[int] = frozenset()
    """Nodes that were asked for one by one, which are shown even if they are views."""
    parameters: AbstractSet[int] = frozenset()
    kept: AbstractSet[int] = frozenset()
    kernels: Mapping[int, str] = field(default_factory=dict[int, str])
    """The names of the kernels that nodes are launches of."""
    context: bool = True
    """Whether what selected nodes read from outside is shown, faintly."""


def counted(count: int, what: str) -> str:
    """Return how many there are of what, in words."""
    return f"{count:,} {what}{'s' * (count != 1)}"
