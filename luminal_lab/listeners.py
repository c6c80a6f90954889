"""Who is told of each graph and each compile as it is made: the traces that are open here.

What is open is a thread's own, or an asynchronous task's: a context variable holds it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """A trace that is open."""

    def wrote(self, graph: object) -> None:
        """Take note of a graph that somebody begins to write."""
        ...

    def compiles(self, graph: object, written: object) -> None:
        """Take note that a graph, which is so far what was written, is about to be compiled."""
        ...

    def compiled(self, made: object, error: BaseException | None) -> None:
        """Take note of a compile, or of how far it came before an error."""
        ...


LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("luminal_lab.listeners", default=())
"""The traces that are open, the outermost first."""
