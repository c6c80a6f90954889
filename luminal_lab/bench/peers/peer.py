"""What every library is asked: to make a workload ready to run, in its best ordinary form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, cast

from luminal_lab.bench.workload import Arrays, Sizes, Workload


class ReadyWorkload(NamedTuple):
    """A workload that can be run again and again, and what it returns as arrays."""

    run: Callable[[], Any]
    """Compute once; when it returns, the result is there."""
    read: Callable[[Any], list[Any]]
    """Turn what `run` returned into arrays of NumPy's."""
    facts: Callable[[], dict[str, float]] = dict
    """Count what is worth knowing beside the time."""


class Peer:
    """A library; a method for each kind of workload maps sizes and data to a `ReadyWorkload`."""

    package: ClassVar[str]
    """What pip calls it."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """Kinds of workloads that it cannot do, and why."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @classmethod
    def spells(cls, kind: str) -> bool:
        """Return whether it has a form of a kind of workload."""
        return hasattr(cls, kind)

    def prepare(self, workload: Workload, data: Arrays) -> ReadyWorkload:
        """Make a workload ready that it has a form of."""
        spelled = cast("Callable[[Sizes, Arrays], ReadyWorkload]", getattr(self, workload.kind))
        return spelled(workload.sizes, data)
