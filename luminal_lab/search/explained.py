"""Why a class has its nodes, and why a rule made nothing of it, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from luminal_lab.algebra.egraph import EGraph, Reason
from luminal_lab.algebra.language import Applied, ENode, Folded, Ratio, Shift
from luminal_lab.algebra.rules.rule import Rule
from luminal_lab.algebra.rules.side import RuleSide
from luminal_lab.errors import GraphError, nearest
from luminal_lab.search.growth import Growth
from luminal_lab.search.named import class_name, node_text, parts_of


def class_of(egraph: EGraph, outputs: Mapping[str, int], term: str) -> int:
    """Return the class of an output, of a class name, or of a node with this text."""
    if term in outputs:
        return egraph.find(outputs[term])
    if term[:1] in ("c", "n") and term[1:].isdecimal() and int(term[1:]) < len(egraph.entered):
        return egraph.find(int(term[1:]))
    part = parts_of(egraph)
    texts = {node_text(node, part): number for number, node in egraph.each()}
    if term in texts:
        return texts[term]
    names = [*outputs, *map(class_name, egraph.classes), *texts]
    raise GraphError(
        f"search: there is no class {term!r} in this space",
        hint=nearest(term, names)
        or f"display() shows all, from {class_name(min(egraph.classes))} on; outputs are "
        f"{', '.join(outputs)}",
    )


def why(egraph: EGraph, growth: Growth, number: int) -> str:
    """Return which rule made each node of a class, from what and when."""
    part = parts_of(egraph)
    told = [f"{class_name(number)}: {_facts_text(egraph, number)}"]
    for node in egraph.nodes(number):
        told.append(f"  {node_text(node, part)}")
        told.append(f"      {_origin(egraph, growth, egraph.number_of(node))}")
    joined = [
        f"  {_reason_text(egraph, growth, reason)}"
        for reason in egraph.reasons
        if reason.rule and egraph.find(reason.first) == number
    ]
    return "\n".join([*told, *(["what the rules said about it:"] if joined else []), *joined])


def why_not(egraph: EGraph, growth: Growth, rule: Rule, number: int) -> str:
    """Return what a rule made of a class, or where it did not match.

    The rule is tried once more, so the e-graph should not be used for anything else.
    """
    part, name = parts_of(egraph), class_name(number)
    fired = [r for r in egraph.reasons if r.rule == rule.name and egraph.find(r.first) == number]
    if fired:
        told = [f"{rule.name} did fire on {name}:"]
        return "\n".join([*told, *(f"  {_reason_text(egraph, growth, each)}" for each in fired)])
    told = [f"{rule.name} made nothing new of {name}.", f"  {rule}"]
    left, nodes = rule.sides[0], egraph.nodes(number)
    begun = [node for node in nodes if rule.matches(node)]
    if not begun:
        texts = ", ".join(node_text(node, part) for node in nodes)
        told.append(f"  It begins with {_kind(left)}, and {name} has none: {texts}")
    for node in begun:
        told.append(f"  at {node_text(node, part)}: {_hindrance(egraph, rule, node)}")
    return "\n".join(told)


def _hindrance(egraph: EGraph, rule: Rule, node: ENode) -> str:
    """Return why a rule whose left side begins like a node makes nothing new of it."""
    for side, child in _asked(rule.sides[0], node):
        if not any(_begins(side, below) for below in egraph.nodes(child)):
            return f"it wants {_kind(side)} in {class_name(egraph.find(child))}, which has none"
    results = [*egraph.fired(rule.fire, node)]
    own = egraph.find(egraph.number_of(node))
    if results and all(egraph.find(number) == own for number in results):
        return f"what it makes is there already, in {class_name(own)}"
    if results:
        part = parts_of(egraph)
        texts = dict.fromkeys(node_text(egraph.entered[number], part) for number in results)
        return f"{rule.name} would make {', '.join(texts)}; the space was made without it"
    children = dict.fromkeys(map(egraph.find, node.children))
    told = [f"{class_name(child)} {_facts_text(egraph, child)}" for child in children]
    for question in _questions(egraph, node):
        told.append(f"{node_text(egraph.entered[question], parts_of(egraph))} is asked for")
        told += [f"to {text} no rule has an answer" for text in _open(egraph, question)]
    form = "nothing has the form of its left side"
    wanted = f"{rule.where}: this does not hold" if rule.where else form
    return f"{wanted}. {'; '.join(told)}"


def _questions(egraph: EGraph, node: ENode) -> Iterator[int]:
    """Yield the questions about a step that were asked about the parts of a fold."""
    axis = node.operator.axis if isinstance(node.operator, Folded) else None
    for number, other in enumerate(egraph.entered):
        is_asked = isinstance(other.operator, (Ratio, Shift)) and other.operator.axis == axis
        if is_asked and [*map(egraph.find, other.children)] == [*map(egraph.find, node.children)]:
            yield number
            return


def _open(egraph: EGraph, number: int) -> Iterator[str]:
    """Yield the unanswered questions that keep a question from having an answer."""
    todo, seen = [egraph.find(number)], set[int]()
    while todo:
        each = todo.pop()
        if each in seen or egraph.facts(each).is_solved:
            continue
        seen.add(each)
        nodes = egraph.nodes(each)
        asked = [node for node in nodes if isinstance(node.operator, (Ratio, Shift))]
        if len(asked) == len([*nodes]):
            yield node_text(asked[0], parts_of(egraph))
        others = (node for node in nodes if node not in asked)
        todo += [egraph.find(child) for node in others for child in node.children]


def _asked(side: RuleSide, node: ENode) -> Iterator[tuple[RuleSide, int]]:
    """Yield what a side asks of the parts of a node, if each part can stand in one place only."""
    if len(side.parts) == len(node.children) == 1 and side.parts[0].parts:
        yield side.parts[0], node.children[0]


def _begins(side: RuleSide, node: ENode) -> bool:
    """Return whether a node has the operator that a side begins with."""
    (kind, word), operator = side.operator, node.operator
    if isinstance(operator, Folded):
        return kind is Folded and operator.kind == word
    return isinstance(operator, kind) and (
        not isinstance(operator, Applied) or operator.op.name == word
    )


def _kind(side: RuleSide) -> str:
    """Return what a side begins with, in words."""
    match side.head:
        case "+" | "-":
            return "a sum of terms"
        case "*":
            return "a product"
        case "sum" | "max" | "online" as head:
            return f"`{head} {side.axis}: …`"
        case head:
            return f"`{head}[{side.axis}](…)`" if side.axis else f"`{head}(…)`"


def _facts_text(egraph: EGraph, number: int) -> str:
    """Return what is known of a class, in words."""
    facts = egraph.facts(number)
    free, moving = ", ".join(sorted(facts.free)), ", ".join(sorted(facts.moving))
    told = [f"depends on {free}" if free else "depends on no axis"]
    told.append(f"needs a fold over {moving}" if moving else "needs no fold")
    told += [] if facts.is_solved else ["is a question to which no rule has an answer"]
    return ", ".join(told)


def _origin(egraph: EGraph, growth: Growth, number: int) -> str:
    """Return what made a node."""
    maker = growth.makers.get(number)
    if maker is None:
        is_written = any(number == n for c in growth.rounds[0].classes.values() for n, _ in c.nodes)
        return "as it was written" if is_written else "from its parts, which had become equal"
    name = class_name(egraph.find(maker.number))
    return f"made by {maker.rule} in round {maker.round}, which looked at {name}"


def _reason_text(egraph: EGraph, growth: Growth, reason: Reason) -> str:
    """Return a firing, in the names of classes."""
    part = parts_of(egraph)
    left, right = (node_text(egraph.entered[number], part) for number in reason[1:3])
    return f"{reason.rule}, round {growth.round_of(reason)}: {left} → {right}"
