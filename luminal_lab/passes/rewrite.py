"""The greedy rewriter: tries rules at each node until no rule matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node, NodeLookup
from luminal_lab.core.op import Op
from luminal_lab.passes.asking import Misfit, kind_of
from luminal_lab.passes.pattern import Match, Outlines, find, resembles, steps_of, why_not
from luminal_lab.passes.rule import FACTS, Rule, RuleSet
from luminal_lab.passes.walking import Walk, Walking


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
        if node is None or not (edit.readers.get(id) or id in edit.returned):
            continue
        before = len(edit.log)
        step(node)
        count += len(edit.log) > before
        for change in edit.log[before:]:
            for near in (*change.before, *change.after):
                for beside in (near.id, *near.sources, *edit.readers.get(near.id, ())):
                    if beside not in waiting:
                        waiting.add(beside)
                        todo.append(beside)


def rewrite(
    edit: Edit, rules: Iterable[Rule], nodes: Iterable[Node], limit: int | None = None
) -> None:
    """Apply rules from sources to users, and again to changed nodes, until none applies."""
    by_op: dict[type[Op], list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.pattern.cls, []).append(rule)

    fitting: dict[object, Sequence[Rule]] = {}
    """The rules for each outline: those of equal layers are looked up once."""
    outlines = Outlines(edit.table)

    def step(node: Node) -> None:
        near = by_op.get(type(node.op))
        if near is None:
            return
        outline = outlines.of(node)
        fit = fitting.get(outline)
        if fit is None:
            fit = [rule for rule in near if resembles(rule.pattern, node, edit)]
            fitting[outline] = fit
        if fit:
            _fire(edit, fit, node)

    roots = [node for node in nodes if type(node.op) in by_op]
    until_nothing_changes(edit, roots, step, limit)


def _fire(edit: Edit, rules: Sequence[Rule], node: Node) -> None:
    for rule in rules:
        for match, right in rule.matches(node, edit):
            missing = rule.needed(*match.dtypes) - edit.licence
            if missing:
                edit.refuse(rule.name, node, missing)
                break
            with edit.firing(rule.name):
                rule.apply(match, right, edit)
            return


def unmet(rule: Rule, node: Node, graph: NodeLookup) -> str:
    """Say why a rule does nothing at a node that its pattern fits."""
    match = Match(node, next(find(rule.pattern, node, graph)), graph)
    seen = ", ".join(f"{name} = {match.seen(name)}" for name in match.bindings)
    what = "its condition does not hold" if rule.condition else "it has nothing to put there"
    return f"{what} for {seen}"


SOME = 3
"""The most rules that are reported at a node."""


class RuleWalk(Walk):
    """Rules that are questioned at a node: those that come nearest are reported."""

    def __init__(self, edit: Edit, rules: Iterable[Rule], limit: int | None = None) -> None:
        super().__init__(edit)
        self.rules = tuple(rules)
        self.limit = limit

    @override
    def search(self, name: str, node: Node) -> None:
        assert self.inquiry is not None, "without a question `rewrite` tries the rules"
        near = [rule for rule in self.rules if rule.pattern.cls is type(node.op)]
        if not near:
            ends = ", ".join(sorted({rule.pattern.cls.name for rule in self.rules}))
            self.missed(node, "{} is {}, and its rules are about {}", node, kind_of(node), ends)
            return
        fits = [(self._fit(rule, node), rule) for rule in near]
        most = max(len(misfit.steps) for misfit, _ in fits)
        nearest = [(misfit, rule) for misfit, rule in fits if len(misfit.steps) == most]
        told = [f"{rule.name}, as {misfit.why}" for misfit, rule in nearest[:SOME]]
        more = len(nearest) - len(told)
        told += [f"{more} more rule{'s' * (more > 1)} likewise"] if more else []
        first, _ = nearest[0]
        self.inquiry.missed(first.node, "; ".join(told), first.steps)

    def _fit(self, rule: Rule, node: Node) -> Misfit:
        """Return how far a rule fits, and what keeps it from firing."""
        misfit = why_not(rule.pattern, node, self.edit)
        if misfit is not None:
            return misfit
        match, _ = next(rule.matches(node, self.edit), (None, None))
        if match is None:
            why = unmet(rule, node, self.edit)
        else:
            facts = [f"{fact} ({FACTS[fact]})" for fact in sorted(rule.needed(*match.dtypes))]
            why = f"it assumes {' and '.join(facts)}, which the licence does not grant"
            if self.limit is not None:
                why += f", if the limit of {self.limit} has not ended the pass"
            why = why if facts else "it fires now: the pass ended before"
        return Misfit(node, why, steps_of(rule.pattern, node, self.edit))


@dataclass(frozen=True)
class Rewriting(Walking):
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

    @override
    def walk(self, edit: Edit) -> RuleWalk:
        return RuleWalk(edit, self.rules(), self.limit)


@dataclass(frozen=True, eq=False)
class Rewrite(Walking):
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
    def searches(self) -> tuple[str, ...]:
        return (str(self),)

    @override
    def walk(self, edit: Edit) -> RuleWalk:
        return RuleWalk(edit, self.of)

    @override
    def __str__(self) -> str:
        return self.of.name
