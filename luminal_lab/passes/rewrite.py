"""The greedy rewriter: tries rules at each node until no rule matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op
from luminal_lab.passes.base import Pass
from luminal_lab.passes.rule import Rule, RuleSet


def until_nothing_changes(
    edit: Edit, nodes: Iterable[Node], step: Callable[[Node], None], limit: int | None = None
) -> None:
    """Try a step at each node, and again near every change, until nothing changes.

    With a limit it ends after that many changes.
    """
    todo = deque(node.id for node in nodes)
    waiting = set(todo)
    count = 0
    while todo and count != limit:
        id = todo.popleft()
        waiting.discard(id)
        node = edit.table.get(id)
        # Another pass removes unread nodes.
        if node is None or not (edit.readers.get(id) or edit.is_output(node)):
            continue
        before = len(edit.log)
        step(node)
        count += len(edit.log) > before
        for change in edit.log[before:]:
            for near in (*change.before, *change.after):
                for other in (near.id, *near.sources, *edit.readers.get(near.id, ())):
                    if other not in waiting:
                        waiting.add(other)
                        todo.append(other)


def rewrite(
    edit: Edit, rules: Iterable[Rule], nodes: Iterable[Node], limit: int | None = None
) -> None:
    """Apply rules from sources to users, and again to changed nodes, until none applies."""
    by_op: dict[type[Op], list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.pattern.cls, []).append(rule)

    def step(node: Node) -> None:
        _fire(edit, by_op.get(type(node.op), ()), node)

    fitting = [node for node in nodes if type(node.op) in by_op]
    until_nothing_changes(edit, fitting, step, limit)


def _fire(edit: Edit, rules: Sequence[Rule], node: Node) -> None:
    below = [type(source.op) for source in edit.sources(node)] if rules else ()
    for rule in rules:
        if not rule.pattern.needs.issubset(below):
            continue
        for match, right in rule.matches(node, edit):
            missing = rule.needed(*match.dtypes) - edit.licence
            if missing:
                edit.refuse(rule.name, node, missing)
                break
            with edit.firing(rule.name):
                rule.apply(match, right, edit)
            return


@dataclass(frozen=True)
class Rewriting(Pass):
    """The base of passes that apply a set of rules: a subclass names the set."""

    rule_set: ClassVar[RuleSet]
    without: tuple[str, ...] = ()
    """The names of disabled rules."""
    limit: int | None = None
    """The most firings; None: until no rule matches."""

    @override
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self.rule_set.without(*self.without))

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        rewrite(edit, self.rules(), ir.nodes, self.limit)


@dataclass(frozen=True, eq=False)
class Rewrite(Pass):
    """The pass that wraps a set of rules."""

    name: ClassVar[str] = "rewrite"
    of: RuleSet

    @override
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self.of)

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        rewrite(edit, self.of, ir.nodes)

    @override
    def __str__(self) -> str:
        return self.of.name
