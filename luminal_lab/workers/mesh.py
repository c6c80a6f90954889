"""A mesh: workers in a grid, whose axes have names.

ll.Mesh(data=2, model=2)      4 workers: (data 0, model 0), (data 0, model 1), (data 1, …
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from typing_extensions import override

from luminal_lab.errors import ArgumentError, nearest

MOST_WORKERS = 4096
"""The most workers of a mesh."""


@dataclass(frozen=True, init=False, repr=False)
class Mesh:
    """Workers in a grid; each axis has a name and a size.

    >>> mesh = Mesh(data=2, model=4)
    >>> mesh.workers, mesh.sizes["model"], mesh.coordinates(5)
    (8, 4, {'data': 1, 'model': 1})
    """

    axes: tuple[tuple[str, int], ...]

    def __init__(self, **axes: int) -> None:
        for name, size in axes.items():
            fault = f"Mesh: the axis {name} has {size!r} workers"
            ArgumentError.unless_number(size, fault, "give a whole number, 1 or more", low=1)
            if not name.isidentifier() or name in ("sum", "max"):  # words of layouts
                hint = "a name is a word such as data, and neither sum nor max"
                raise ArgumentError(f"Mesh: an axis is called {name!r}", hint=hint)
        if not axes:
            raise ArgumentError("Mesh: it has no axes", hint="as in ll.Mesh(data=2)")
        object.__setattr__(self, "axes", tuple((name, int(size)) for name, size in axes.items()))
        if self.workers > MOST_WORKERS:
            raise ArgumentError(
                f"{self}: it has {self.workers:,} workers", hint=f"at most {MOST_WORKERS:,}"
            )

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of workers along each axis."""
        return dict(self.axes)

    @property
    def workers(self) -> int:
        """The number of all workers."""
        return math.prod(size for _, size in self.axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return where a worker is: its position along each axis; the last axis is the fastest."""
        place: dict[str, int] = {}
        for name, size in reversed(self.axes):
            rank, place[name] = divmod(rank, size)
        return {name: place[name] for name, _ in self.axes}

    def group(self, rank: int, axis: str) -> tuple[int, ...]:
        """Return the workers that differ from a worker along one axis alone, in order.

        >>> Mesh(data=2, model=4).group(5, "data")
        (1, 5)
        """
        place, others = self.coordinates(rank), range(self.workers)
        same = [(self.coordinates(other) | {axis: 0}, other) for other in others]
        return tuple(other for at, other in same if at == place | {axis: 0})

    def unless_axes(self, subject: str, names: Iterable[object]) -> None:
        """Raise unless each name is that of an axis.

        >>> Mesh(data=2).unless_axes("x", ["data"])
        """
        for name in names:
            if name not in self.sizes:
                raise ArgumentError(
                    f"{subject}: {self} has no axis {name!r}",
                    hint=nearest(str(name), self.sizes) or f"its axes: {', '.join(self.sizes)}",
                )

    @override
    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.axes)})"
