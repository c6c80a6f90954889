"""Rules as facts: their text, their Python, and both sides as small graphs."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePath
from typing import NamedTuple

from luminal_lab.core.origin import has_run
from luminal_lab.io.cells import typed_cells
from luminal_lab.io.facts import RuleFacts, Sketch, SketchNode
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.pattern import SIGNS, OpPattern, Pattern
from luminal_lab.passes.rule import FACTS, Rule


class RuleSource(NamedTuple):
    """A piece of Python text and its position."""

    file: str
    line: int
    text: str


NOWHERE = RuleSource("", 0, "")
RULE = re.compile(r"\bRule\(")


def rule_facts(compilation: Compilation) -> dict[str, RuleFacts]:
    """Return all rules that a compile tried, and the steps that passes take by their own code.

    A step named like a rule, or like another pass's step, gets its pass's name as a prefix.
    """
    facts: dict[str, RuleFacts] = {}
    typed = _typed(compilation)
    owners = {member.name: member for member in compilation.pipeline.flat()}
    rules = {name: _names(owner) for name, owner in owners.items()}
    homes: dict[str, str] = {}
    for member in compilation.pipeline.flat():
        for rule in member.rules():
            if isinstance(rule, Rule) and rule.name not in facts:
                facts[rule.name] = _rule(rule, typed)
        for name in _searches(member):  # these can be asked about, even if they found nothing
            facts.setdefault(name, _step(member))
            homes.setdefault(name, member.name)
    for shot in compilation.snapshots:
        names = dict.fromkeys([*shot.counts, *(refusal.rule for refusal in shot.refusals)])
        for name in names:
            if shot.name not in owners or name in rules[shot.name]:
                continue
            if name not in facts:
                homes[name] = shot.name
            if homes.get(name) == shot.name:
                facts.setdefault(name, _step(owners[shot.name]))
            else:
                facts.setdefault(f"{shot.name}/{name}", _step(owners[shot.name]))
    return facts


def _searches(member: Pass) -> list[str]:
    """Return what a pass searches for; the only search of a pass fires under other names."""
    return [name for name in member.searches() if name not in (member.name, str(member))]


def askable(compilation: Compilation) -> tuple[str, ...]:
    """Return the passes that can say why they found nothing at a node, by name."""
    passes = compilation.pipeline.flat()
    return tuple(dict.fromkeys(_asked_as(p) for p in passes if p.searches()))


def _asked_as(member: Pass) -> str:
    """Return the name under which a pass is asked; for rules in a cell, that of their set."""
    return str(member) if str(member) in member.searches() else member.name


def _names(owner: Pass) -> set[str]:
    return {rule.name for rule in owner.rules() if isinstance(rule, Rule)}


def _rule(rule: Rule, typed: Mapping[str, RuleSource]) -> RuleFacts:
    written = _written(rule, typed)
    right = rule.replacement if isinstance(rule.replacement, Pattern) else None
    return RuleFacts(
        str(rule).removeprefix(f"{rule.name}: "),
        written.text,
        PurePath(written.file).name,
        written.line,
        _condition(rule),
        tuple(fact for fact in FACTS if fact in rule.assumes),
        sketch(rule.pattern),
        None if right is None else sketch(right),
    )


def _condition(rule: Rule) -> str:
    """Return the condition of a rule, in words or as Python."""
    condition = rule.condition
    if condition is None:
        return ""
    documentation = inspect.getdoc(condition) if condition.__name__ != "<lambda>" else None
    return (
        documentation.splitlines()[0] if documentation else f"only where {condition.__name__} holds"
    )


def _step(owner: Pass) -> RuleFacts:
    """Return a step that a pass takes by its own code."""
    cls = type(owner)
    doc = inspect.getdoc(cls) or ""
    return RuleFacts(
        f"a step of {owner.name}: {doc.splitlines()[0] if doc else 'it does not say'}",
        *_placed(_of_class(cls)),
    )


def _placed(written: RuleSource) -> tuple[str, str, int]:
    return written.text, PurePath(written.file).name, written.line


# -- both sides ------------------------------------------------------------------------------------


def sketch(pattern: Pattern) -> Sketch:
    """Return a side of a rule as a small graph, with one node per name.

    >>> from luminal_lab.passes.pattern import variables
    >>> x = variables("x")
    >>> for node in sketch(x * 2 + x).nodes:
    ...     print(node.label, node.reads)
    x ()
    2 ()
    × (0, 1)
    + (2, 0)
    """
    nodes: list[SketchNode] = []
    positions: dict[str, int] = {}
    root = _sketch(pattern, nodes, positions)
    return Sketch(tuple(nodes), root)


SHOWN = {**SIGNS, "mul": "×"}


def _sketch(pattern: Pattern, nodes: list[SketchNode], positions: dict[str, int]) -> int:
    if not isinstance(pattern, OpPattern):
        label = str(pattern)
        if label in positions:
            return positions[label]
        positions[label] = len(nodes)
        nodes.append(SketchNode(label))
        return len(nodes) - 1
    reads = tuple(_sketch(source, nodes, positions) for source in pattern.sources)
    fields = ", ".join(f"{name}={value}" for name, value in pattern.fields)
    sign = SHOWN.get(pattern.cls.name, pattern.cls.name)
    nodes.append(SketchNode(f"{sign} {fields}".strip(), (*reads,)))
    return len(nodes) - 1


# -- their Python ----------------------------------------------------------------------------------


def _written(rule: Rule, typed: Mapping[str, RuleSource]) -> RuleSource:
    """Return the Python that makes a rule, if it can be found; none of it is run."""
    if not isinstance(rule.replacement, Pattern):
        written = source_of(rule.replacement)
        if written.text:
            return written
    return typed.get(rule.name) or _calls().get(rule.name, NOWHERE)


@cache
def _of_class(cls: type) -> RuleSource:
    try:
        lines, line = inspect.getsourcelines(cls)
        return RuleSource(inspect.getsourcefile(cls) or "", line, textwrap.dedent("".join(lines)))
    except (OSError, TypeError):
        return NOWHERE


def source_of(function: object) -> RuleSource:
    """Return the Python of a function, or nothing if it cannot be found."""
    try:
        lines, line = inspect.getsourcelines(function)  # pyright: ignore[reportArgumentType]  # it is tried
        file = inspect.getsourcefile(function) or ""  # pyright: ignore[reportArgumentType]  # likewise
        return RuleSource(file, line, textwrap.dedent("".join(lines)).rstrip())
    except (OSError, TypeError):
        return NOWHERE


@cache
def _calls() -> Mapping[str, RuleSource]:
    """Return the sources of the rules of this package's own passes."""
    sources: dict[str, RuleSource] = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("luminal_lab.passes.") and isinstance(file, str):
            sources.update(_spelled(file))
    return sources


def _typed(compilation: Compilation) -> Mapping[str, RuleSource]:
    """Return the sources of rules in the user's cells and in files that wrote the graph."""
    sources: dict[str, RuleSource] = {}
    origins = [node.meta.origin for node in compilation.written.table]
    for file in dict.fromkeys(origin.file for origin in origins if origin is not None):
        if not has_run(file):
            continue
        sources.update(_spelled(file))
    for title, text in typed_cells().items():
        if RULE.search(text):
            sources.update(
                (name, RuleSource(title, line, part)) for name, line, part in _rules_in(text)
            )
    return sources


def _spelled(file: str) -> dict[str, RuleSource]:
    """Return the calls `Rule("name", …)` in a file, by name."""
    text = "".join(linecache.getlines(file))
    if not RULE.search(text):
        return {}
    return {name: RuleSource(file, line, part) for name, line, part in _rules_in(text)}


def _rules_in(text: str) -> Iterator[tuple[str, int, str]]:
    lines = text.splitlines()
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with a magic, say
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="Rule") | ast.Attribute(attr="Rule"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                end = node.end_lineno or node.lineno
                part = "\n".join(lines[node.lineno - 1 : end])
                yield name, node.lineno, textwrap.dedent(part).rstrip().rstrip(",")
            case _:
                pass
