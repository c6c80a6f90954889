"""Why a search found nothing: how far its questions led, and the node where they ended.

A search written as code asks a graph one question after another: is this a product, is a factor of
it a reciprocal, … A yes is one more step; if there are several answers, each is tried from the
question on. Of all the misses, the one after the most steps is reported. Patterns of rules report
the same (`pattern.why_not`).

Nobody listens while a graph is compiled: a miss is then a call that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op

T = TypeVar("T")


class Misfit(NamedTuple):
    """Where a search stopped: the node, why, and the answers that led there."""

    node: Node
    why: str
    """A sentence without its full stop, about the node."""
    steps: tuple[str, ...] = ()

    def told(self, subject: str) -> str:
        """Say how far a search got, and where it stopped."""
        count = len(self.steps)
        if not count:
            return f"{subject} stops at once: {self.why}."
        far = f"{count} step{'s' * (count > 1)}"
        steps = "; ".join(self.steps)
        return f"{subject} gets through {far}: {steps}.\nIt stops there: {self.why}."


class Inquiry:
    """The answers of a search so far, and the furthest miss."""

    def __init__(self) -> None:
        self.path: list[str] = []
        self.furthest: Misfit | None = None

    def step(self, text: str) -> None:
        """Note an answer that lets the search go on."""
        self.path.append(text)

    def back(self, length: int) -> None:
        """Go back to where the path had this length."""
        del self.path[length:]

    def missed(self, node: Node, why: str, steps: Iterable[str] = ()) -> None:
        """Note a miss, after these further steps."""
        path = (*self.path, *steps)
        if self.furthest is None or len(path) > len(self.furthest.steps):
            self.furthest = Misfit(node, why, path)

    def each(self, answers: Iterable[T], step: str, node: Node, why: str) -> Iterator[T]:
        """Yield answers, each a step from here; if there are none, note a miss at the node."""
        length, count = len(self.path), 0
        for count, answer in enumerate(answers, 1):  # noqa: B007  # the last one counts
            self.back(length)
            self.step(step)
            yield answer
        self.back(length)
        if not count:
            self.missed(node, why)


class Asking:
    """A view of a graph that searches question; somebody may listen."""

    inquiry: Inquiry | None = None

    def missed(self, node: Node, why: str, *of: object) -> None:
        """Say why a search does not go on at a node.

        Each `{}` in the reason stands for an `of`, and `{kind}` for what the node is.
        """
        if self.inquiry is not None:
            self.inquiry.missed(node, why.format(*of, kind=kind_of(node)))

    def reached(self, step: str, *of: object) -> None:
        """Note what a search has found on its way."""
        if self.inquiry is not None:
            self.inquiry.step(step.format(*of))

    def mark(self) -> int:
        """Return how far a search has got, in order to return there."""
        return 0 if self.inquiry is None else len(self.inquiry.path)

    def back(self, mark: int) -> None:
        """Return to where a search was, to try something else."""
        if self.inquiry is not None:
            self.inquiry.back(mark)

    def holds(self, fact: bool, node: Node, why: str, *of: object) -> bool:
        """Return a fact that a search needs to go on; the reason is for when it is false."""
        if self.inquiry is not None and not fact:
            self.inquiry.missed(node, why.format(*of))
        return fact


SILENT = Asking()
"""The questions when nobody listens."""


def kind_of(node: Node) -> str:
    """Return what a node is, in a word or two: its op, a call's body, a constant's number."""
    body = node.op.body_of()
    if body is not None:
        return f"a call of {body.name}"
    value: object = getattr(node.op, "value", None)
    return f"{node.op.name}" if value is None else f"the number {value}"


def is_not(node: Node, op: type[Op]) -> str:
    """Say that a node has another op than the wanted one."""
    return f"{node} is {kind_of(node)}, not {op.name}"
