"""What every library is asked to do: make a workload ready to run, in its best ordinary form."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

from luminal_lab.bench.workload import Arrays, Sizes, Workload

NO_GRAPH = "it computes at once, or starts from a file: it writes no graph"
MEMORY = "MB of memory at most"


class ReadyWorkload(NamedTuple):
    """A workload that can be run again and again, and what it returns as arrays."""

    run: Callable[[], Any]
    """Computes once; when it returns, the result is there."""
    read: Callable[[Any], list[Any]]
    """Turns what `run` returned into NumPy arrays."""
    facts: Callable[[], dict[str, float]] = dict
    """Counts what is worth knowing besides the time."""
    inner: Callable[[], float] | None = None
    """Returns the seconds of the last run that do not count, where only the rest is measured."""


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
        spelled = cast(
            "Callable[[Sizes | Workload, Arrays], ReadyWorkload]", getattr(self, workload.kind)
        )
        return spelled(workload if workload.path else workload.sizes, data)


def memory() -> dict[str, float]:
    """Return the most memory that this process has had, mapped files included."""
    status = Path("/proc/self/status")
    if status.exists():
        # What `getrusage` says may be of the process that has started this one.
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM"))
        return {MEMORY: float(line.split()[1]) * 1.024e-3}
    resource: Any = import_module("resource")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {MEMORY: most / (1e6 if sys.platform == "darwin" else 1e3)}
