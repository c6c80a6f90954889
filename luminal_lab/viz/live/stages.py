"""Stages: the graph as written and after each pass, as rows taken out and put in.

Each firing lists the rows that it takes out and puts in; lines that change only by a new name go
with the last firing. A stage that changed anything has a view of its own, in which shared nodes
stand once. Views are drawn when they are asked for, each as similar as possible to the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.snapshot import Firing, Snapshot
from luminal_lab.viz.entries import GraphEntries, entries_of
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.live.frames import GraphView, view_of
from luminal_lab.viz.live.layouts import Layouts
from luminal_lab.viz.live.rows import LineNames, Rows
from luminal_lab.viz.live.steps import RecordChange, links, splices, step_of
from luminal_lab.viz.live.unions import entries_between
from luminal_lab.viz.live.views import offsets, put_view


class Stages:
    """The stages of one run, and their views."""

    def __init__(self, columns: Columns, prefix: str, rows: Rows) -> None:
        self.columns = columns
        self.prefix = prefix
        self.rows = rows
        self.stages: list[dict[str, Any]] = []
        """The header's entry for each stage."""
        self.views: list[dict[str, Any] | None] = []
        """The header's entry for each view; None for those that are not drawn yet."""
        self._seen: list[_Seen] = []
        self._drawn: dict[int, GraphView] = {}
        self._layouts = Layouts()
        self._lines: list[int] = []
        """The rows of the current graph, in order."""
        self._names: LineNames | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add the stage of a snapshot."""
        ir, number = snapshot.ir, len(self.stages)
        prefix = f"{self.prefix}s{number}/"
        # A pass that changed nothing returned the same graph.
        last = self._names if ir is snapshot.before else None
        names = last or LineNames.of(ir)
        before = self._names or names
        is_first = not number
        firings = () if is_first else snapshot.firings
        steps = [step_of(firing.changes) for firing in firings]
        born = [node for step in steps for node in step.new]
        gone, new = self._stepped(steps, names.beside(before, born), snapshot.before, ir)
        lines = self._lines if last else self._lines_of(ir, names, before, snapshot.before)
        if gone:
            _settle(self._lines, lines, gone, new)
        self._put_splices(prefix, lines)
        text, put = self.columns.text, self.columns.put
        put(f"{prefix}firing.rule", "u32", [text(firing.rule) for firing in firings])
        reasons = map(_reason, firings, gone, new)
        put(f"{prefix}firing.because", "u32", [text(reason) for reason in reasons])
        for name, parts in (("gone", gone), ("new", new)):
            put(f"{prefix}firing.{name}_at", "u32", offsets(map(len, parts)))
            put(f"{prefix}{name}", "u32", [row for part in parts for row in part])
        pairs = [] if is_first else links(snapshot)
        put(f"{prefix}link.old", "i32", [old for old, _ in pairs])
        put(f"{prefix}link.new", "i32", [new for _, new in pairs])
        old, self._lines, self._names = self._lines, lines, names
        if is_first:
            self._see(_Seen(snapshot, None, [], [], lines))
        elif any(map(any, (gone, new))) or _ends(snapshot.before) != _ends(ir):
            met = [self.rows.met[node] for node in born]
            self._see(_Seen(snapshot, born, old, met, lines))
        self.stages.append(self._said(snapshot, is_first))

    # -- rows --------------------------------------------------------------------------------------

    def _stepped(
        self, steps: Iterable[RecordChange], names: LineNames, before: IR, after: IR
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the rows that each firing takes out and puts in."""
        gone: list[list[int]] = []
        new: list[list[int]] = []
        for step in steps:
            gone.append([self.rows.row(node, names, before) for node in step.gone])
            new.append(
                [
                    self.rows.row(node, names, after if after.table.get(node.id) is node else None)
                    for node in step.new
                ]
            )
        return gone, new

    def _lines_of(self, ir: IR, names: LineNames, before: LineNames, base: IR) -> list[int]:
        """Return the rows of a graph; rows whose lines changed are rewritten."""
        renamed = {id for id, name in names.nodes.items() if before.nodes.get(id, name) != name}
        called = {
            body for body, name in names.bodies.items() if before.bodies.get(body, name) != name
        }
        if renamed or called:
            stale = [
                node
                for node in base.table
                if node.op.body_of() in called or not renamed.isdisjoint(node.sources)
            ]
            self.rows.forget(stale)
        return [self.rows.row(node, names, ir) for node in ir.nodes]

    def _put_splices(self, prefix: str, lines: list[int]) -> None:
        numbers: list[int] = []
        rows: list[int] = []
        for position, out, new in splices(self._lines, lines):
            numbers += position, out, len(new), len(rows)
            rows += new
        self.columns.put(f"{prefix}splice", "i32", numbers)
        self.columns.put(f"{prefix}splice_rows", "u32", rows)

    # -- what is seen ------------------------------------------------------------------------------

    def _see(self, seen: _Seen) -> None:
        self._seen.append(seen)
        self.views.append(None)

    def draw(self, number: int) -> None:
        """Draw a view, unless it is drawn."""
        if self.views[number] is not None:
            return
        seen, rows = self._seen[number], self.rows
        was, met = _by_id(rows, seen.old), _by_id(rows, seen.met)
        standing = _Standing(was, {**was, **met, **_by_id(rows, seen.lines)})
        before = max((other for other in self._drawn if other < number), default=-1)
        view = view_of(seen.entries, rows, self._layouts, self._drawn.get(before))
        self._drawn[number] = view
        prefix = f"{self.prefix}v{number}/"
        self.views[number] = put_view(self.columns, prefix, view, self._layouts, standing)

    def _said(self, snapshot: Snapshot, is_first: bool) -> dict[str, Any]:
        return {
            "title": snapshot.title,
            "name": snapshot.name,
            "seconds": snapshot.seconds,
            "verified": snapshot.verified,
            "checked": snapshot.checked,
            "round": snapshot.round,
            "before": len(snapshot.before),
            "after": len(snapshot.ir),
            "effect": not is_first and bool(snapshot.firings),
            "firings": 0 if is_first else len(snapshot.firings),
            "counts": {} if is_first else snapshot.counts,
            "refusals": [
                {
                    "rule": refusal.rule,
                    "node": refusal.node,
                    "because": refusal.because,
                    "needs": sorted(refusal.facts),
                }
                for refusal in snapshot.refusals
            ],
            "view": len(self.views) - 1,
            "outputs": snapshot.ir.output_ids,
            "inputs": snapshot.ir.input_ids,
        }


def _reason(firing: Firing, gone: list[int], new: list[int]) -> str:
    """Return why a rule fired, or what it did if it changed no row, only an output."""
    is_fact = firing.because and not firing.before
    if gone or new or is_fact:
        return firing.because
    return str(firing).removeprefix(f"{firing.rule}: ")


def _ends(ir: IR) -> tuple[frozenset[int], frozenset[int]]:
    return frozenset(ir.input_ids), frozenset(ir.output_ids)


def _by_id(rows: Rows, lines: Iterable[int]) -> dict[int, int]:
    return {rows.nodes[row].id: row for row in lines}


def _settle(old: list[int], lines: list[int], gone: list[list[int]], new: list[list[int]]) -> None:
    """Give the last firing the remaining changes, so that all together make the new rows."""
    alive = set(old)
    for out, put in zip(gone, new, strict=True):
        alive.difference_update(out)
        alive.update(put)
    wanted = set(lines)
    gone[-1] += sorted(alive - wanted)
    new[-1] += sorted(wanted - alive)


class _Seen(NamedTuple):
    """What a view is drawn from: a stage's snapshot, and rows."""

    snapshot: Snapshot
    born: Sequence[Node] | None
    """The nodes that its firings put in; None for the graph as written."""
    old: Sequence[int]
    """The rows of the graph before."""
    met: Sequence[int]
    """The rows of those that were born."""
    lines: Sequence[int]
    """The rows of the graph."""

    @property
    def entries(self) -> GraphEntries:
        """The nodes on show: those of the graph, or of the graphs before and after."""
        if self.born is None:
            return entries_of(self.snapshot.ir)
        return entries_between(self.snapshot, self.born)


class _Standing:
    """The rows of a view by the keys of its entries, which are ids."""

    def __init__(self, was: dict[int, int], now: dict[int, int]) -> None:
        self._was = was
        self._now = now

    def now(self, key: int) -> int:
        return self._now[key]

    def old(self, key: int) -> int:
        was = self._was.get(key, -1)
        return was if was != self._now[key] else -1
