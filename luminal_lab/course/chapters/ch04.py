"""The exercises of notebook 04: what a compile leaves, the lines of a node, the order of passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from itertools import islice
from typing import cast

from luminal_lab.core.ir import Node
from luminal_lab.core.origin import Origin
from luminal_lab.course.exercise import Exercise, Verdict, error_text
from luminal_lab.course.probing import kind
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

FIRST, OTHER = "simplify, cse, dce", "cse, simplify, dce"
"""The orders of passes that are compared."""
MOST = 1_000
"""How many lines of an answer are looked at."""
SPARE = """\
a = x + 0
b = (a * 2).sin()
c = (x * 2).sin()
y = (b + c).retrieve()
"""
TWICE = """\
p = (x * 1).softmax(-1)
q = x.softmax(-1)
r = p + q
s = x.sin() * 2
y = (r + s).retrieve()
"""
IDLE = """\
a = x + 0
b = a * 1
c = b + 0
d = c * 1
e = d + 0
y = e.softmax(-1).retrieve()
"""
ALONE = "y = x.layer_norm(-1).retrieve()\n"
"""Programs that are compiled to ask about; their lines are counted."""


def compiled(program: str, passes: str) -> Compilation:
    """Compile a program, whose lines are those of a file of its own."""
    cx = Graph("asked")
    exec(compile(program, "program.py", "exec"), {"x": cx.tensor((4, 8), name="x")})
    return cx.compile(passes)


def no_function(answer: object, wanted: str) -> Verdict | None:
    """Return what is said of an answer that cannot be called."""
    if is_function(answer) and not isinstance(answer, type):
        return None
    text = f"expected a function, got {kind(answer)}"
    return Verdict.no(text, f"{wanted}: …, and then the name of the function as the answer")


def asked(
    answer: object, fault: Callable[[Callable[..., object], Compilation], str]
) -> Callable[[str, str], Callable[[], str]]:
    """Return what tries a function on a program and passes, and says what is wrong with it."""
    call = cast("Callable[..., object]", answer)

    def on(program: str, passes: str) -> Callable[[], str]:
        def attempt() -> str:
            try:
                return fault(call, compiled(program, passes))
            except Exception as error:  # the answer's, of whatever kind
                return f"with the passes {passes} it raises {error_text(error)}"

        return attempt

    return on


# -- 04.1 ------------------------------------------------------------------------------------------


def removed(snapshot: Snapshot) -> int:
    """Return by how many nodes a pass has made a graph smaller."""
    return len(snapshot.before) - len(snapshot.ir)


def not_the_largest(function: Callable[..., object], compilation: Compilation) -> str:
    """Return what is wrong with the snapshot, or the name of a pass, that a function returns."""
    named = function(compilation)
    most = max(removed(snapshot) for snapshot in compilation.snapshots)
    right = [snapshot for snapshot in compilation.snapshots if removed(snapshot) == most]
    if isinstance(named, Snapshot):
        ours = [snapshot for snapshot in compilation.snapshots if snapshot is named]
        if not ours:
            return "expected a snapshot of the given compilation, got one of another"
    elif isinstance(named, str):
        ours = [
            snapshot
            for snapshot in compilation.snapshots
            if named in (snapshot.name, snapshot.title)
        ]
        if not ours:
            return "expected the name of a pass that ran, got another text"
    else:
        return f"what it returns: expected a snapshot or the name of a pass, got {kind(named)}"
    if any(snapshot in right for snapshot in ours):
        return ""
    got, best = max(ours, key=removed), right[0]
    return (
        f"expected {best.name}, which removed {most}, got {got.name}, which removed {removed(got)}"
    )


def largest(answer: object) -> Verdict:
    """Does it find the pass that removed the most?"""
    on = asked(answer, not_the_largest)
    return no_function(answer, "def most(compilation)") or Verdict.all(
        (
            "it is right where dce removes the most",
            on(IDLE, "simplify, dce"),
            "len(snapshot.before) and len(snapshot.ir) are the nodes before and after a pass",
        ),
        (
            "it is right where a pass removes many with few firings",
            on(IDLE, "simplify, recognise, dce"),
            "one firing may remove many nodes: count the nodes, not the firings",
        ),
        (
            "it is right for all of the generic compiler",
            on(ALONE, "generic"),
            "take the compilation that is given, and all of its snapshots",
        ),
    )


# -- 04.2 ------------------------------------------------------------------------------------------


def not_the_counts(function: Callable[..., object], compilation: Compilation) -> str:
    """Return what is wrong with the numbers of firings that a function returns."""
    named = function(compilation)
    if not isinstance(named, Mapping):
        return f"what it returns: expected a dict, got {kind(named)}"
    counts = {str(key): value for key, value in cast("Mapping[object, object]", named).items()}
    right = Counter(f.rule for snapshot in compilation.snapshots for f in snapshot.firings)
    for rule, count in right.items():
        if counts.get(rule, 0) != count:
            got = counts.get(rule, "not there")
            often = f"{count} time{'s' * (count != 1)}"
            return f"the rule {rule!r}: expected {often}, got {got}"
    extra = [rule for rule, count in counts.items() if count and rule not in right]
    return f"expected only rules that fired, got {extra[0][:40]!r} as well" if extra else ""


def counted(answer: object) -> Verdict:
    """Does it count the firings of each rule over all passes?"""
    on = asked(answer, not_the_counts)
    return no_function(answer, "def counts(compilation)") or Verdict.all(
        (
            "it is right for one pass",
            on(SPARE, "simplify"),
            "a snapshot has its firings, and a firing its rule",
        ),
        (
            "it is right for three passes",
            on(TWICE, "simplify, cse, dce"),
            "go through all of compilation.snapshots",
        ),
        (
            "it is right where a pass runs more than once",
            on(SPARE, "(cse, simplify, dce){rounds = 5}"),
            "add to what the rule has already: a Counter does, dict.update does not",
        ),
    )


# -- 04.3 ------------------------------------------------------------------------------------------


def lines_of(compilation: Compilation, node: Node) -> set[int]:
    """Return the lines of all nodes as written that one of the last graph stands for."""
    nodes = [node]
    for snapshot in reversed(compilation.snapshots[1:]):
        nodes = [old for new in nodes for old in snapshot.back(new)]
    return {node.meta.origin.line for node in nodes if node.meta.origin is not None}


def not_the_lines(
    wanted: Callable[[Node], bool],
) -> Callable[[Callable[..., object], Compilation], str]:
    """Return what asks for the lines of some nodes, and says what is wrong with them."""

    def fault(function: Callable[..., object], compilation: Compilation) -> str:
        for node in filter(wanted, compilation.ir):
            lines = function(compilation, node)
            if not isinstance(lines, (AbstractSet, list, tuple)):
                return f"what it returns: expected a set of numbers, got {kind(lines)}"
            got = {_number(line) for line in islice(cast("Iterable[object]", lines), MOST)}
            right = lines_of(compilation, node)
            if got != right:
                name = f"the {node.op.name} that is left"
                return f"for {name}: expected {_listed(right)}, got {_listed(got)}"
        return ""

    return fault


def _number(line: object) -> object:
    return line.line if isinstance(line, Origin) else line


def _listed(lines: set[object] | set[int]) -> str:
    shown = sorted(str(line)[:20] for line in lines)
    more = [f"{len(shown) - 4} more"] if len(shown) > 4 else []
    return f"line {' and '.join([*shown[:4], *more])}" if shown else "no line"


def followed(answer: object) -> Verdict:
    """Does it find all lines of a node?"""
    sines = asked(answer, not_the_lines(lambda node: node.op.name == "sin"))
    others = asked(answer, not_the_lines(lambda node: node.op.name not in ("input", "constant")))
    return no_function(answer, "def lines(compilation, node)") or Verdict.all(
        (
            "it is right for a node that one line wrote",
            sines(TWICE, "dce"),
            "a written node's line is node.meta.origin.line",
        ),
        (
            "it is right for a node that two lines share since cse",
            sines(SPARE, "simplify, cse, dce"),
            "the node's own origin is one line alone: ask snapshot.back(node), pass by pass",
        ),
        (
            "it is right for every op that a compile leaves, calls too",
            others(TWICE, "generic"),
            "go back through all snapshots, from the last to the first, with all nodes found",
        ),
    )


# -- 04.4 ------------------------------------------------------------------------------------------


def left_by(function: Callable[..., object], passes: str) -> int | str:
    """Return how many nodes some passes leave of what a function writes, or what is wrong."""
    cx = Graph("asked")
    x = cx.tensor((4, 8), name="x")
    try:
        y = function(x)
        if not isinstance(y, Tensor):
            return f"what it returns: expected a tensor, got {kind(y)}"
        if y.graph is not cx:
            return "expected a tensor of the given graph, got one of another"
        y.retrieve()
        return len(cx.compile(passes).ir)
    except Exception as error:  # the answer's, of whatever kind
        return f"it raises {error_text(error)}"


def ordered(answer: object) -> Verdict:
    """Does the order of passes matter for what it writes?"""
    wrong = no_function(answer, "def graph(x)")
    if wrong is not None:
        return wrong
    call = cast("Callable[..., object]", answer)
    good, bad = left_by(call, FIRST), left_by(call, OTHER)
    if isinstance(good, str) or isinstance(bad, str):
        fault = good if isinstance(good, str) else str(bad)
        return Verdict.all(
            ("it returns a tensor computed from the one given", fault, "return y, as in y = x + 0")
        )
    return Verdict.all(
        ("it returns a tensor computed from the one given", good > 0),
        (
            f"{OTHER} leaves more than {FIRST}",
            "" if bad > good else f"the one leaves {bad} nodes, the other {good}",
            "write two things that are equal, but look equal only once simplify has been there",
        ),
    )


EXERCISES = (
    Exercise(
        "04.1",
        "Write a function of a compilation that returns the snapshot, or the name, of the pass "
        "that removed the most nodes.",
        (
            "compilation.snapshots has them all; the first is the graph as written.",
            "A pass has removed len(snapshot.before) - len(snapshot.ir) nodes.",
            "max(…, key=…) finds the largest by what a function makes of each.",
        ),
        """\
def most(compilation):
    return max(compilation.snapshots, key=lambda one: len(one.before) - len(one.ir))

answer = most
""",
        largest,
    ),
    Exercise(
        "04.2",
        "Write a function of a compilation that returns a dict: for each rule that fired, how "
        "often it fired in all passes together.",
        (
            "A snapshot has firings, and a firing has a rule, which is a text.",
            "Two loops, one in the other: over compilation.snapshots and over snapshot.firings.",
            "collections.Counter counts what it is given.",
        ),
        """\
from collections import Counter

def counts(compilation):
    return Counter(
        firing.rule for snapshot in compilation.snapshots for firing in snapshot.firings
    )

answer = counts
""",
        counted,
    ),
    Exercise(
        "04.3",
        "Write a function of a compilation and a node of its last graph that returns the set of "
        "the numbers of all lines that the node stands for.",
        (
            "snapshot.back(node) are the nodes before a pass that a node after it comes from.",
            "Begin with the one node, go back snapshot by snapshot, and keep all that you find.",
            "reversed(compilation.snapshots[1:]) are the passes from the last to the first.",
        ),
        """\
def lines(compilation, node):
    nodes = [node]
    for snapshot in reversed(compilation.snapshots[1:]):
        nodes = [old for new in nodes for old in snapshot.back(new)]
    return {old.meta.origin.line for old in nodes}

answer = lines
""",
        followed,
    ),
    Exercise(
        "04.4",
        f"Write a function of a tensor that returns one of which {OTHER} leaves more nodes than "
        f"{FIRST}.",
        (
            "cse sees that two nodes are equal only if they are written alike when it runs.",
            "x + 0 and x are the same for simplify, and not for cse.",
            "Compute the same from x and from x + 0, and add both.",
        ),
        """\
def graph(x):
    return x.sin() + (x + 0).sin()

answer = graph
""",
        ordered,
    ),
)
