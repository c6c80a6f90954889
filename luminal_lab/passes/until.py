"""`cx.compile(…, until=…)`: the firing at which a compile ends, found while its passes run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from luminal_lab.core.ir import nearest_node
from luminal_lab.core.origin import Origin
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.passes.compilation import Compilation, Following, is_line
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.snapshot import Firing, Snapshot
from luminal_lab.passes.stops import Stop, touched

Until: TypeAlias = "Following | Origin | Rule"
"""A node, a line, or a rule; as text "%y", "cell 1, line 4" or "rule add-zero"."""
RULE = "rule "
FORM = 'give a node, a line or a rule: until="%y", "cell 1, line 4" or "rule add-zero"'


class Breakpoint:
    """The node, line or rule that the awaited firing touches, as far as the passes have run."""

    def __init__(self, compilation: Compilation, until: Until) -> None:
        self.ids: set[int] = set()
        """The nodes that stand for the requested one; none if a pass has yet to make it."""
        self.name: str | int | None = None
        """The node that a pass has yet to make."""
        self.rule: str | None = None
        is_empty = isinstance(until, str) and until.strip() in ("", RULE.strip())
        if isinstance(until, bool) or is_empty:
            raise ArgumentError(f"compile: until is {until!r}", hint=FORM)
        if isinstance(until, Rule):
            self.rule, self.what = until.name, f"is by the rule {until.name}"
        elif isinstance(until, str) and until.startswith(RULE):
            self.rule = until.removeprefix(RULE).strip()
            self.what = f"is by the rule {self.rule}"
        elif isinstance(until, Origin) or is_line(until):
            (self.ids, _), self.what = compilation.meant("compile", until), f"touches {until}"
        else:
            node, written = compilation.node_of("compile", until), compilation.written
            if node in written:
                self.ids, self.what = {written[node].id}, f"touches {written[node]}"
            elif isinstance(node, str):
                self.name, self.rule = node.removeprefix("%"), node
                self.what = f"touches {node}"
            else:
                self.name = node if isinstance(node, int) else node.id
                self.what = f"touches %{self.name}"

    def stop(self, snapshot: Snapshot) -> Stop | None:
        """Return the first firing of a pass that touches it, or follow it through the pass."""
        after = {node.id for id in self.ids for node in snapshot.forward(id)}
        near = self.ids | after
        for number, firing in enumerate(snapshot.firings, 1):
            if firing.rule == self.rule or touched(firing) & near or self._is_made(firing):
                return Stop(snapshot, number, self.what)
        self.ids = after
        return None

    def _is_made(self, firing: Firing) -> bool:
        return self.name is not None and any(
            self.name in (node.name, node.id) for node in firing.after
        )

    def missed(self, snapshots: Sequence[Snapshot]) -> str:
        """Say that no firing of a compile touched it, and what comes nearest."""
        rules = {firing.rule for snapshot in snapshots for firing in snapshot.firings}
        names = {node.name for snapshot in snapshots for node in snapshot.ir.nodes}
        hint = None
        if self.rule and self.rule not in rules:
            hint = nearest(self.rule, rules)
        if self.name is not None and hint is None and self.name not in names:
            hint = nearest_node(str(self.name), names)
        said = f"compile: no firing {self.what}, so all passes have run"
        return said + (f"; {hint}" if hint else "")
