"""Sentences about a node's history, and about a rule that did not fire."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Self

from typing_extensions import override

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DefinitionError, nearest, visible
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pattern import why_not
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.rewrite import unmet
from luminal_lab.passes.rule import FACTS, Rule
from luminal_lab.passes.snapshot import Firing, Snapshot, followed
from luminal_lab.passes.walking import Walking
from luminal_lab.tensor.arguments import told_object


@told_object("story")
class Story(str):
    """Text that a cell shows verbatim."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Return the text without unsafe characters."""
        return super().__new__(cls, visible(text))

    @override
    def __repr__(self) -> str:
        return str(self)


def told(snapshots: Sequence[Snapshot], node: Node) -> Story:
    """Say where a node comes from, and what became of it."""
    home = next(s.ir for s in reversed(snapshots) if node.id in s.ir)
    sentences = [print_node(home, home[node.id])]
    sentences += _birth(snapshots, node)
    for snapshot in snapshots[1:]:
        for number, firing in enumerate(snapshot.firings, 1):
            what = _part(node, firing)
            if what:
                sentences.append(f"{_heading(snapshot, number)}, {what}{_reason(firing)}.")
        for refusal in snapshot.refusals:
            if refusal.node == node.id and refusal.because:
                heading = f"Pass {snapshot.index}, {snapshot.title}"
                sentences.append(f"{heading}, made no {refusal.rule} with it: {refusal.because}.")
    last = snapshots[-1].ir
    if node.id not in last:
        gone = next(s for s in snapshots if s.index and node.id in s.before and node.id not in s.ir)
        sentences.append(f"It has been gone since {gone.title}.")
    else:
        users = ", ".join(map(str, last.users(node.id)))
        ends = ["an output"] * last.is_output(node.id) + [f"read by {users}"] * bool(users)
        sentences.append(f"In the last graph it is {' and '.join(ends) or 'read by nothing'}.")
    return Story("\n".join(sentences))


def _birth(snapshots: Sequence[Snapshot], node: Node) -> Iterator[str]:
    origin, scope, derivation = node.meta.origin, node.meta.scope, node.meta.derivation
    sites = [f"in the scope {scope}"] * bool(scope) + [f"in {origin}"] * (origin is not None)
    site = " ".join(["", *sites])
    if node.id not in snapshots[0].ir:
        if site:
            yield f"What it was made from was written{site}"
    elif derivation is not None:
        parents = ", ".join(f"%{id}" for id in derivation.parents)
        yield f"{derivation.rule} made it from {parents}, written{site}"
    else:
        yield f"You wrote it{site}" if site else "It was in the given graph."


def _part(node: Node, firing: Firing) -> str:
    """Return a sentence about a node's part in a firing."""
    olds = [old for old in firing.before if old.id != node.id]
    listed = ", ".join(map(str, olds))
    if any(change.kind == "insert" and change.node == node.id for change in firing.changes):
        return f"{firing.rule} made {node}" + (f" in place of {listed}" if olds else "")
    for change in firing.changes:
        if change.kind == "replace" and change.into == node.id:
            return f"{firing.rule} put {node} in place of {listed}"
        if change.node == node.id and change.kind == "replace":
            news = [new for new in firing.after if new.id == change.into]
            return f"{firing.rule} put {', '.join(map(str, news))} in place of {node}"
        if change.node == node.id and change.kind == "erase":
            return f"{firing.rule} erased {node}"
    return ""


def _heading(snapshot: Snapshot, number: int) -> str:
    return f"Pass {snapshot.index}, {snapshot.title}, firing {number}"


def _reason(firing: Firing) -> str:
    return f", because {firing.because}" if firing.because else ""


def rules_of(pipeline: Pipeline) -> dict[str, Rule]:
    """Return the rules that the passes of a pipeline try, by name."""
    return {
        rule.name: rule for p in pipeline.flat() for rule in p.rules() if isinstance(rule, Rule)
    }


def told_why_not(
    snapshots: Sequence[Snapshot], pipeline: Pipeline, rule: Rule | str, node: Node
) -> Story:
    """Say which part of a rule kept it from firing, or how far a search written as code got."""
    known = rules_of(pipeline)
    if not isinstance(rule, str):
        return _told_rule(snapshots, rule, node, known=rule.name in known)
    searched = _searched(snapshots, pipeline, rule, node)
    if searched:
        return Story("\n".join(searched))
    reasons = [
        refusal.because
        for snapshot in snapshots
        for refusal in snapshot.refusals
        if (refusal.rule, refusal.node) == (rule, node.id) and refusal.because
    ]
    if reasons:
        return Story(f"{rule}\nNot at {node}: {reasons[-1]}.")
    if rule in known:
        return _told_rule(snapshots, known[rule], node, known=True)
    steps = {firing.rule: s.title for s in snapshots for firing in s.firings}
    if rule in steps:
        raise DefinitionError(
            f"why_not: {rule!r} is a step of {steps[rule]}, which is written as code and does not "
            "tell why it leaves a node alone",
            hint=f'compilation["{steps[rule]}"].firings are where it fired, and why',
        )
    names = {name for p in pipeline.flat() for name in (p.name, *p.searches()) if p.searches()}
    raise DefinitionError(
        f"why_not: no pass of this compile has a rule or a search {rule!r}",
        hint=nearest(rule, {*known, *names}) or "give the Rule itself",
    )


def _searched(
    snapshots: Sequence[Snapshot], pipeline: Pipeline, name: str, node: Node
) -> list[str]:
    """Say how far the searches of a name, or of a pass, got where the node last existed."""
    passes = {str(each): each for each in pipeline.flat() if each.searches()}
    told: dict[str, str] = {}
    start = next(s.index for s in snapshots if node.id in s.ir)
    rows = followed(snapshots, start, {node.id}) if passes else []
    for snapshot in snapshots[1:]:
        by = passes.get(snapshot.title)
        if by is None:
            continue
        then = _as_it_was(snapshot, rows[snapshot.index - 1], node)
        for group in _asked(name, by, snapshot):
            label = group[0] if len(group) == 1 else by.name
            fired = None if then is None else _fired(snapshot, _rules_of(group, by), then)
            if fired is not None:
                told[label] = f"{label} did fire: {fired}."
            elif then is None:
                absent = f"{label}: {node} was not there when {by.name} ran, pass {snapshot.index}."
                told.setdefault(label, absent)
            elif " did fire: " not in told.get(label, ""):
                told[label] = _missed(snapshot, by, group, then)
    return [*told.values()]


def _asked(name: str, by: Pass, snapshot: Snapshot) -> list[list[str]]:
    """Return the searches that a name means, grouped by those that share one answer.

    A name is that of a search, a pass, or several passes ("fuse", "fuse-rows"), or of a step that
    fires in a pass's only search.
    """
    searches = [search for search in by.searches() if _is_asked(name, search, by, snapshot)]
    if isinstance(by, Walking):
        return [searches] if searches else []
    return [[search] for search in searches]


def _is_asked(name: str, search: str, by: Pass, snapshot: Snapshot) -> bool:
    if any(isinstance(rule, Rule) and rule.name == name for rule in by.rules()):
        return False  # a rule is asked itself
    if name in (search, by.name, str(by)) or by.name.startswith(f"{name}-"):
        return True
    return _rules_of([search], by) is None and name in snapshot.counts


def _rules_of(searches: Sequence[str], by: Pass) -> Set[str] | None:
    """Return the rules by which searches fire; None if all firings of their pass are theirs."""
    return None if {by.name, str(by)} & {*searches} else {*searches}


def _missed(snapshot: Snapshot, by: Pass, searches: Sequence[str], node: Node) -> str:
    """Say how far searches got at a node that existed before their pass."""
    if not isinstance(by, Walking):
        return by.why_not(snapshot.before, searches[0], node)
    now = snapshot.ir.table.get(snapshot.standing_for(node.id))
    if now is None:
        last = next(f for f in reversed(snapshot.firings) if node.id in {n.id for n in f.before})
        return f"{by.name}: {node} is gone by then: {last}."
    was = "" if now.id == node.id else f"{node} is {now} by then. "
    return was + by.told(snapshot.ir, searches, now)


def _as_it_was(snapshot: Snapshot, row: Set[int], node: Node) -> Node | None:
    """Return a node as it was before a pass: for a call, its namesake in it, or the last node."""
    before = snapshot.before
    if node.id in before:
        return before[node.id]
    olds = [old for old in reversed(before.nodes) if old.id in row]
    return next((old for old in olds if old.name == node.name), olds[0] if olds else None)


def _fired(snapshot: Snapshot, rules: Set[str] | None, node: Node) -> str | None:
    """Say where some rules, or any, removed a node."""
    for number, firing in enumerate(snapshot.firings, 1):
        if rules is not None and firing.rule not in rules:
            continue
        if any(old.id == node.id for old in firing.before):
            by = "" if rules is not None and len(rules) == 1 else f": {firing.rule}"
            return f"{_heading(snapshot, number)}{by}{_reason(firing)}"
    return None


def _told_rule(snapshots: Sequence[Snapshot], rule: Rule, node: Node, *, known: bool) -> Story:
    subject = f"{rule}\n"
    for snapshot in snapshots[1:]:
        fired = _fired(snapshot, {rule.name}, node)
        if fired is not None:
            return Story(f"{subject}It did fire: {fired}.")
    facts = [
        refusal.facts
        for snapshot in snapshots
        for refusal in snapshot.refusals
        if refusal.rule == rule.name and refusal.node == node.id
    ]
    if facts:
        said = " and ".join(f"{fact} ({FACTS[fact]})" for fact in sorted(facts[0]))
        return Story(
            f"{subject}It matches {node}, but assumes {said}, which the licence does not grant."
        )
    home = next(s.ir for s in reversed(snapshots) if node.id in s.ir)
    return Story(subject + _told_misfit(rule, home[node.id], home, known=known))


def _told_misfit(rule: Rule, node: Node, home: IR, *, known: bool) -> str:
    misfit = why_not(rule.pattern, node, home)
    if misfit is not None:
        return f"The pattern does not match: {misfit.why}."
    if next(rule.matches(node, home), None) is None:
        return f"The pattern matches {node}, but {unmet(rule, node, home)}."
    if not known:
        return f"It matches {node}, but no pass of this compile has it."
    if not home.users(node) and not home.is_output(node):
        return f"It matches {node}, but nothing reads {node}: rules leave it to dce."
    return f"It matches {node} now; no pass that has it ran after the graph became so."
