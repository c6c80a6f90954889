"""A derivation in a cell: each firing with its rule, and what it changed in the program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, unified_diff

from luminal_lab.algebra.rules.rule import Rule
from luminal_lab.display import Theme
from luminal_lab.io.derivation_facts import DerivationFacts, derivation_facts
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.search.derivation import Derivation, Firing
from luminal_lab.search.derived import JoinedDerivation
from luminal_lab.search.named import node_text, parts_of
from luminal_lab.viz.markup import plain
from luminal_lab.viz.picture import Page

TOKEN = re.compile(r"[\w.]+|\s+|.", re.DOTALL)
MONO = "font:12px/1.5 Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre-wrap"
# Half transparent, so that text is read on them in light and in dark notebooks.
GONE, NEW = "background:rgba(248,81,73,.28)", "background:rgba(46,160,67,.30)"
FAINT = "opacity:.7"
ROW = "margin:2px 0 2px 1em;overflow-wrap:anywhere"
CUT = (
    f"{MONO};display:inline-block;max-width:60%;overflow:hidden;text-overflow:ellipsis;"
    "white-space:nowrap;vertical-align:bottom"
)
ALIKE = 0.6
"""Of programs that have less in common, no parts are marked."""
RESTS = f' <span style="{FAINT}">(a later step rests on it)</span>'


def derivation_page(derivation: Derivation, *, theme: Theme = "auto") -> Page:
    """Return the firings of a derivation in order; the theme is the notebook's."""
    del theme
    return Page(_section(derivation), str(derivation))


def joined_page(joined: JoinedDerivation, *, theme: Theme = "auto") -> Page:
    """Return how several kernels were found, each below its name."""
    del theme
    return Page(found_page(derivation_facts(part) for part in joined.parts), str(joined))


def found_page(derivations: Iterable[DerivationFacts]) -> str:
    """Return how kernels came of what was written: each rule and step, with what it changed.

    Steps are numbered through all kernels, as `search.derivation[3]` counts.
    """
    parts, number = list[str](), 0
    for facts in derivations:
        rows = list[str]()
        for (name, told), (old, new) in zip(facts.told, facts.changes, strict=True):
            is_rule = len(rows) < len(facts.rules)
            rest = RESTS if old == new else ""
            words = f'<span style="{CUT}">{plain(told)}</span>'
            head = f"<summary><b>{number} · {plain(name)}</b> {words}{rest}</summary>"
            body = f'<div style="{MONO};{FAINT};margin-left:1em">{plain(told)}</div>' * is_rule
            if old != new:
                body += _definitions(old, new) if is_rule else _nests(old, new)
            rows.append(f'<details style="{ROW}">{head}{body}</details>')
            number += 1
        count = f"{_counted(len(facts.rules), 'rule')}, then {_counted(len(facts.steps), 'step')}"
        head = f'<b>{plain(facts.name)}</b> <span style="{FAINT}">{count}</span>'
        written = f'<div style="{MONO};{FAINT}">{plain(_lines(facts.written))}</div>'
        parts.append(f'<div style="margin:6px 0">{head}{written}{"".join(rows)}</div>')
    return "".join(parts) or "there is no kernel"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _definitions(old: str, new: str) -> str:
    """Return two definitions, with what differs marked."""
    pair = zip("−+", _marked(_lines(old), _lines(new)), strict=True)
    return "".join(
        f'<div style="{MONO};margin-left:1em">{sign} {line}</div>' for sign, line in pair
    )


def _nests(old: str, new: str) -> str:
    """Return the lines that differ between two nests, and some around them."""
    lines = [*unified_diff(old.splitlines(), new.splitlines(), n=2, lineterm="")][2:]
    looks = {"-": GONE, "+": NEW, "@": FAINT}
    rows = (
        f'<div style="{looks.get(line[0], "")}">{plain("⋯" if line[0] == "@" else line)}</div>'
        for line in lines
    )
    return f'<div style="{MONO};margin-left:1em;overflow-x:auto">{"".join(rows)}</div>'


def _section(derivation: Derivation) -> str:
    """Return the firings of one program."""
    rules = {rule.name: rule for rule in derivation.space.rules}
    first = derivation[0].before if len(derivation) else derivation.space.definition
    steps = [_step(number, each, rules[each.rule]) for number, each in enumerate(derivation)]
    head = f'<div style="{MONO}">{plain(_body(first))}</div>'
    return f"<div><b>as written</b>{head}{''.join(steps)}</div>"


def _step(number: int, firing: Firing, rule: Rule) -> str:
    """Return a firing: its rule, what it said of which classes, and the program's change."""
    egraph = firing.space.egraph
    part = parts_of(egraph)
    said = " → ".join(node_text(egraph.entered[n], part) for n in firing.reason[1:3])
    note = "" if firing.changes_program else RESTS
    names = dict.fromkeys(re.findall(r"\bc\d+\b", said))
    told = "\n".join(f"{name} = {_meaning(firing, name)}" for name in names)
    text = str(rule).removeprefix(f"{rule.name}: ")
    parts = [
        f'<summary><b>{number} · {plain(rule.name)}</b> <span style="{MONO}">{plain(said)}</span>',
        f'{note}</summary><div style="{FAINT};margin-left:1em">{plain(text)}</div>',
        f'<div style="{MONO};{FAINT};margin-left:1em">{plain(told)}</div>',
    ]
    if firing.changes_program:
        old, new = _body(firing.before), _body(firing.after)
        for sign, line in zip("−+", _marked(old, new), strict=True):
            parts.append(f'<div style="{MONO};margin-left:1em">{sign} {line}</div>')
    is_open = " open" * firing.changes_program
    return f'<details{is_open} style="margin:6px 0">{"".join(parts)}</details>'


def _meaning(firing: Firing, name: str) -> str:
    """Return the first node of a class."""
    egraph = firing.space.egraph
    return node_text(next(iter(egraph.nodes(int(name[1:])))), parts_of(egraph))


def _body(definition: Definition) -> str:
    """Return a program's lines, without its header."""
    return _lines(str(definition))


def _lines(definition: str) -> str:
    return "\n".join(line.strip() for line in definition.splitlines()[1:])


def _marked(old: str, new: str) -> tuple[str, str]:
    """Return both texts as HTML, with what differs marked, unless that is most of it."""
    before, after = TOKEN.findall(old), TOKEN.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < ALIKE:
        return plain(old), plain(new)
    left, right = list[str](), list[str]()
    for kind, a, b, c, d in matcher.get_opcodes():
        left.append(_piece(before[a:b], "" if kind == "equal" else GONE, "del"))
        right.append(_piece(after[c:d], "" if kind == "equal" else NEW, "ins"))
    return "".join(left), "".join(right)


def _piece(tokens: Sequence[str], style: str, tag: str) -> str:
    text = plain("".join(tokens))
    if not style or not text:
        return text
    return f'<{tag} style="{style};text-decoration:none">{text}</{tag}>'
