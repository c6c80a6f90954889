"""The numbers that plans take unless others are asked for: winners of searches, as a table.

Each kind of machine has rows. A row says for which nests it was found, as a range of sizes, which
numbers won there, and by how much. `python -m luminal_lab.bench.studies.defaults` finds them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from math import log2, prod
from pathlib import Path
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.origin import warn
from luminal_lab.machines.machine import Machine
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json, read_plain

TABLE = Path(__file__).with_suffix(".json")
NEAR = 1.0
"""How far a machine may be from the kind whose rows it takes: one size doubled, in all."""
Range: TypeAlias = tuple[int, int]
"""The least and the greatest size."""


class Usual(NamedTuple):
    """The values that a plan takes for its open numbers, and where they come from."""

    values: Mapping[str, int]
    """Those that differ from the plan's own."""
    source: str


NO_USUAL = Usual({}, "")
OWN = Usual({}, "the plan's own")


class Shape(NamedTuple):
    """What is computed, and how large it is."""

    nest: str
    """The dtypes that it reads and along which axes: "f32 ik,kj" for a product."""
    rows: int
    sum: int
    columns: int


@dataclass(frozen=True)
class DefaultsRow:
    """What won for nests of one kind within some sizes."""

    nest: str
    rows: Range
    sum: Range
    columns: Range
    choices: Mapping[str, int]
    """The numbers that won; empty if the plan's own are the best."""
    ratio: float = 1.0
    """Their time as a share of that with the plan's own numbers: the largest of the sizes tried."""
    mean: float = 1.0
    """The same share, as the geometric mean over the sizes tried."""
    spread: float = 0.0
    """How much the times of one kernel differed meanwhile, as a share."""
    tried: tuple[str, ...] = ()
    """The sizes tried: rows × sum × columns."""
    date: str = ""
    load: float | None = None
    """How many cores other programs kept busy meanwhile; None if the system did not say."""

    def __post_init__(self) -> None:
        if not all(1 <= least <= most for least, most in self.ranges):
            raise ValueError(f"there is no size within {self}")

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        """The sizes for which it holds."""
        return self.rows, self.sum, self.columns

    def holds(self, shape: Shape) -> bool:
        """Return whether a nest is of its kind."""
        sizes = zip(self.ranges, shape[1:], strict=True)
        return self.nest == shape.nest and all(least <= n <= most for (least, most), n in sizes)

    @override
    def __str__(self) -> str:
        sizes = " × ".join(f"{low}–{high}" if low < high else str(low) for low, high in self.ranges)
        return f"{self.nest}, {sizes}"


@dataclass(frozen=True)
class Kind:
    """A kind of machine, and what won there."""

    machine: Machine
    rows: tuple[DefaultsRow, ...]

    def __post_init__(self) -> None:
        if min(astuple(self.machine)) < 1:
            raise ValueError(f"there is no {self.machine}")

    def row(self, shape: Shape) -> DefaultsRow | None:
        """Return the row for a nest; of several, the one for the narrowest range of sizes."""
        rows = [row for row in self.rows if row.holds(shape)]
        return min(rows, key=lambda row: prod(b / a for a, b in row.ranges), default=None)


@dataclass(frozen=True)
class Defaults:
    """The table: kinds of machines."""

    kinds: tuple[Kind, ...]

    def kind(self, machine: Machine) -> Kind | None:
        """Return the nearest kind of machine; None if it is not near enough."""
        near = [kind for kind in self.kinds if _distance(machine, kind.machine) <= NEAR]
        return min(near, key=lambda kind: _distance(machine, kind.machine), default=None)

    def usual(self, machine: Machine, of: Callable[[], Shape | None]) -> tuple[Usual, ...]:
        """Return the usual values for a nest on a machine, those to try first at the front.

        `of` returns its shape, which is only computed if there are rows.
        """
        kind = self.kind(machine)
        shape = of() if kind else None
        row = kind.row(shape) if kind and shape else None
        if kind is None or row is None:
            return (OWN,)
        where = "on such a machine" if kind.machine == machine else "on a similar machine"
        return Usual(row.choices, f"found {where} ({kind.machine.told}) for {row}"), OWN

    @override
    def __str__(self) -> str:
        """Return the table as JSON, one row a line."""
        kinds: list[str] = []
        for kind in self.kinds:
            rows = ",\n".join(json.dumps(plain(row), ensure_ascii=False) for row in kind.rows)
            machine = json.dumps(plain(kind.machine))
            kinds.append(f'{{"machine": {machine}, "rows": [\n{rows}\n]}}')
        return f'{{"kinds": [\n{", ".join(kinds)}\n]}}\n'


NONE = Defaults(())
"""No table: plans take their own numbers."""


def read_defaults(path: Path) -> Defaults:
    """Return the table in a file; if it cannot be read, an empty one, with a warning."""
    try:
        return read(Defaults, read_json(read_plain(path)), "defaults")
    except (OSError, ValueError) as error:
        warn(f"defaults: {path.name} is not read, and plans take their own numbers: {error}")
        return NONE


@cache
def shipped() -> Defaults:
    """Return the table of this package."""
    return read_defaults(TABLE)


def _distance(a: Machine, b: Machine) -> float:
    """Return how different two machines are: by how many doublings of cores and caches."""
    if a.vector_bytes != b.vector_bytes:
        return float("inf")
    sizes = (a.cores, b.cores), (a.l1, b.l1), (a.l2, b.l2)
    return sum(abs(log2(here / there)) for here, there in sizes)
