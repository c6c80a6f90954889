"""What every library is asked to do: make a workload ready to run, in its best ordinary form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, cast

from luminal_lab.bench.workload import Arrays, Sizes, Workload


class ReadyWorkload(NamedTuple):
    """A workload that can be run again and again, and what it returns as arrays."""

    run: Callable[[], Any]
    """Computes once; when it returns, the result is there."""
    read: Callable[[Any], list[Any]]
    """Turns what `run` returned into NumPy arrays."""
    facts: Callable[[], dict[str, float]] = dict
    """Counts what is worth knowing besides the time."""


class Peer:
    """A library; a method for each kind of workload maps sizes and data to a `ReadyWorkload`."""

    package: ClassVar[str]
    """Its name for pip."""
    reasons: ClassVar[Mapping[str, str]] = {}
    """Kinds of workloads that it cannot do, and why."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @classmethod
    def spells(cls, kind: str) -> bool:
        """Return whether it has a form of a kind of workload."""
        return hasattr(cls, kind)

    def prepare(self, workload: Workload, data: Arrays) -> ReadyWorkload:
        """Make a workload ready for which it has a form."""
        spelled = cast("Callable[[Sizes, Arrays], ReadyWorkload]", getattr(self, workload.kind))
        return spelled(workload.sizes, data)
