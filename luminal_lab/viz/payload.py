"""A graph as the plain parts of a picture: nodes, boxes of scopes, links between them.

Views are folded into the links, scopes close where there is too much, equal neighbours are shown
once; the payload counts what that hides. It has neither positions nor colours, and equal graphs
have equal `to_json()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from luminal_lab.errors import counted
from luminal_lab.viz.entries import Status

Kind: TypeAlias = Literal[
    "input", "parameter", "constant", "source", "view", "op", "reduce", "call", "kernel", "launch",
    "host", "sent", "class", "outside"
]  # fmt: skip
"""A node's kind, which determines its shape."""
Mark: TypeAlias = Literal["retrieved", "kept", "recomputed", "unused", "left"]
"""What is left is used before a pass, and by nothing after it."""
SCHEMA = 2
"""The version of `to_json`, raised with each change."""


@dataclass(frozen=True)
class Item:
    """A visible node."""

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
    """Its text in the overlay."""
    amount: float | None = None
    """Its number in the overlay."""
    heat: float | None = None
    """Its share of the largest number, from 0 to 1."""


@dataclass(frozen=True)
class Box:
    """A scope, open or closed."""

    id: int
    name: str
    path: str
    box: int | None
    is_open: bool
    nodes: int
    """The number of nodes in it, or in each of several equal scopes."""
    times: int = 1
    members: tuple[str, ...] = ()
    """The paths of all equal scopes, if there are several."""
    added: int = 0
    removed: int = 0
    rewired: int = 0
    highlighted: bool = False


@dataclass(frozen=True)
class Link:
    """A node or box that reads another; between boxes, with a count."""

    source: int
    target: int
    views: tuple[str, ...] = ()
    count: int = 1
    status: Status = ""


@dataclass(frozen=True)
class Payload:
    """The contents of a picture, and counts of what it hides."""

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
    """Nodes in scopes equal to a visible one."""
    left_out: int
    """Nodes that were not selected, or are too many."""
    scalars: int = 0
    """Constants that stand in the ops that read them."""
    is_pair: bool = False
    added: int = 0
    removed: int = 0
    rewired: int = 0
    """What became of all nodes of a pair, shown or not."""
    overlay: str = ""
    """The title of the numbers on nodes."""
    note: str = ""
    """The version of the graph."""
    schema: int = field(default=SCHEMA)

    @property
    def title(self) -> str:
        """The graph's name and version."""
        return f"{self.name} {self.note}".strip()

    @property
    def shown(self) -> str:
        """A summary of what is shown and hidden.

        Every node of the graph counts in one of the numbers.
        """
        nodes = sum(item.kind != "outside" for item in self.items)
        text = f"{nodes:,} of {counted(self.total, 'node')}"
        rest = [
            f"{counted(self.folded, 'view')} in the edges" if self.folded else "",
            f"{counted(self.scalars, 'scalar')} in the ops" if self.scalars else "",
            f"{self.closed:,} in closed scopes" if self.closed else "",
            f"{self.repeated:,} in repeated ones" if self.repeated else "",
            f"{self.left_out:,} left out" if self.left_out else "",
        ]
        return f"{text} ({', '.join(filter(None, rest))})" if any(rest) else text

    def to_json(self) -> dict[str, Any]:
        """Return the payload as plain lists and dicts."""
        return asdict(self)


@dataclass(frozen=True)
class PictureRequest:
    """The request for a picture."""

    views: bool = False
    """Whether views are shown as nodes."""
    depth: int | None = None
    """The depth down to which scopes are open; None opens what fits."""
    select: AbstractSet[int] | None = None
    """The keys of the nodes to show, if not all."""
    highlight: AbstractSet[int] = frozenset()
    named: AbstractSet[int] = frozenset()
    """Nodes selected one by one, which are shown even if they are views."""
    parameters: AbstractSet[int] = frozenset()
    kept: AbstractSet[int] = frozenset()
    kernels: Mapping[int, str] = field(default_factory=dict[int, str])
    """The names of the kernels that nodes launch."""
    context: bool = True
    """Whether the outside sources of selected nodes are shown, faintly."""
