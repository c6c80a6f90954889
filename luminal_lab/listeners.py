"""The open traces, which are told about each graph and each compile as it is made.

Each thread and each asynchronous task has its own, in a context variable.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """An open trace."""

    def wrote(self, graph: object) -> None:
        """Note a new graph."""
        ...

    def compiles(self, graph: object, written: object) -> None:
        """Note that a graph, as written so far, is about to be compiled."""
        ...

    def compiled(self, compilation: object, error: BaseException | None) -> None:
        """Note a compile, or how far it got before an error."""
        ...


LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("luminal_lab.listeners", default=())
"""The open traces, the outermost first."""
