"""What passes made of a graph, kept for later compiles, whose passes run when somebody looks.

    written graph, passes, facts  →  the graph after the last pass

Only what is said in full by a text can be kept: the package's own passes, with options that their
text has, on graphs of the package's own ops. A class of a user's may change while its name stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from luminal_lab.core.ir import IR
from luminal_lab.core.ops import HostCall
from luminal_lab.errors import LabError
from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
from luminal_lab.passes.snapshot import Snapshot


class Keeper(Protocol):
    """Where graphs are kept."""

    def find(self, written: IR, asked: str) -> Made | None:
        """Return what passes made of a graph, if it was kept."""
        ...

    def keep(self, written: IR, asked: str, made: Made) -> None:
        """Keep what passes made of a graph, if a text can have all of it."""
        ...


class Made(NamedTuple):
    """What passes made of a graph."""

    last: IR
    """The graph after the last pass."""
    changing: frozenset[str]
    """The names of the passes that changed something."""


@dataclass(frozen=True)
class Kept:
    """What passes made in an earlier compile, and what runs them again."""

    made: Made
    passed: Callable[[], Sequence[Snapshot]]


def asked_text(
    written: IR, pipeline: Pipeline, facts: Collection[str], weights: Mapping[int, str]
) -> str | None:
    """Return all that decides what becomes of a graph; None if a text cannot say it.

    >>> asked_text(cx.ir, ll.Pipeline(["simplify", "dce"]), ["contract"], {})
    'simplify, dce; simplify, dce; contract; '
    """
    try:
        read = parse_pipeline(str(pipeline))
        is_whole = pipeline in (read, Pipeline([read]))  # a text does not bracket a single one
    except LabError:  # it has parts that no text names
        return None
    if not (is_whole and all(map(_is_ours, _parts(pipeline))) and _has_only_ours(written, set())):
        return None
    forms = ", ".join(f"{id} {form}" for id, form in sorted(weights.items()))
    # The passes of a device depend on what it is, which its name does not always say.
    passes = ", ".join(map(str, pipeline.flat()))
    return f"{pipeline}; {passes}; {', '.join(sorted(facts))}; {forms}"


def _parts(pipeline: Pipeline) -> Sequence[object]:
    parts: list[object] = [pipeline]
    for part in parts:
        if isinstance(part, Pipeline):
            parts += part.passes
    return parts


def _has_only_ours(ir: IR, seen: set[int]) -> bool:
    """Return whether all ops of a graph, and of the bodies in it, are the package's own."""
    seen.add(id(ir))
    ops = {node.op for node in ir.table}
    bodies = [body for op in ops if (body := op.body_of()) is not None and id(body) not in seen]
    are_ours = all(_is_ours(op) and not isinstance(op, HostCall) for op in ops)
    return are_ours and all(_has_only_ours(body, seen) for body in bodies)


def _is_ours(part: object) -> bool:
    return type(part).__module__.startswith("luminal_lab.")
