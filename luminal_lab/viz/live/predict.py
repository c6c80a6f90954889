"""`ll.predict(cx, "recognise")`: say what a pass will do before you see it; then it is revealed.

quiz = ll.predict(cx, "recognise")
quiz                                   the graph before, and the questions
quiz.answer(nodes=4, gone=["%7"])      your answers beside what the pass has done
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from typing_extensions import override

from luminal_lab.core.ir import Node
from luminal_lab.core.printer import as_text
from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, GraphError, LabError, expect, nearest, whole_number
from luminal_lab.io.facts import Facts
from luminal_lab.passes.diff import diff
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.tables import aligned
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.graphs import graph_picture
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.at import read_at
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.beside import backed_of
from luminal_lab.viz.markup import plain
from luminal_lab.viz.picture import Picture

QUESTIONS = (
    "How many nodes will there be?",
    "Which of these nodes go?",
    "Which rules fire?",
)
FORM = 'as in quiz.answer(nodes=4, gone=["%y"], rules=["softmax"])'


@told_object("answer")
@dataclass(frozen=True)
class Revealed:
    """Answers beside what a pass has done; `str` is a table of them."""

    predicted: tuple[str, str, str]
    """What was said: nodes, those that go, rules; empty where nothing was."""
    happened: tuple[str, str, str]
    right: tuple[bool | None, bool | None, bool | None]
    """Whether each answer was right; None where there was none."""

    @property
    def all_right(self) -> bool:
        """Whether something was said, and all of it is right."""
        said = [right for right in self.right if right is not None]
        return bool(said) and all(said)

    @override
    def __str__(self) -> str:
        signs = {True: "right", False: "not so", None: ""}
        rows = [
            (question, said, was, signs[right])
            for question, said, was, right in zip(
                QUESTIONS, self.predicted, self.happened, self.right, strict=True
            )
        ]
        head = [("<", ""), ("<", "you said"), ("<", "it is"), ("<", "")]
        return "\n".join(aligned(head, rows))

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        count = sum(right is True for right in self.right)
        return f"<Revealed: {count} right; print(…) shows what was said and what happened>"


@told_object("quiz")
class Prediction(Live):
    """The graph before a pass, and questions about what the pass will do."""

    what = "predict"

    def __init__(self, backed: Backed, stage: int) -> None:
        shot, facts = backed.snapshots[stage], backed.subject.facts
        # Alone, the graph before says nothing of what the pass will do.
        start = Snapshot(shot.before, shot.before, Record("written", ()))
        fired = {rule for snapshot in backed.snapshots for rule in snapshot.counts}
        rules = {name: rule for name, rule in facts.rules.items() if name in fired}
        known = Facts(rules=rules, cells=facts.cells)
        subject = replace(backed.subject, snapshots=(start, shot), facts=known)
        super().__init__([Backed(subject, None, backed.session)])
        self.go(0)

    @property
    def snapshot(self) -> Snapshot:
        """The pass, with the graph after it: the solution."""
        return self._held.all[0].snapshots[1]

    @property
    def gone(self) -> tuple[Node, ...]:
        """The nodes that go."""
        return diff(self.snapshot.before, self.snapshot.ir).removed

    @property
    def rules(self) -> Counter[str]:
        """How often each rule fired."""
        return Counter(self.snapshot.counts)

    def answer(
        self,
        *,
        nodes: int | None = None,
        gone: Iterable[str] | None = None,
        rules: Iterable[str] | None = None,
    ) -> Revealed:
        """Say what the pass will do, and see what it has done.

        `nodes` is how many there will be, `gone` which of the nodes go, by name, and `rules` which
        rules fire. What is left out is not judged.
        """
        expect(nodes, int | None, "predict: the number of nodes is {}", FORM)
        names = None if gone is None else self._nodes(gone)
        fired = None if rules is None else sorted(set(_texts("rules", rules)))
        went = sorted(str(node) for node in self.gone)
        happened = (
            f"{len(self.snapshot.ir):,}",
            _list(went),
            _list(f"{rule} ×{count}" for rule, count in self.rules.most_common()),
        )
        said = ("" if nodes is None else f"{nodes:,}", _list(names), _list(fired))
        right = (
            None if nodes is None else whole_number(nodes) == len(self.snapshot.ir),
            None if names is None else names == went,
            None if fired is None else fired == sorted(self.rules),
        )
        return Revealed(said, happened, right)

    def _nodes(self, given: Iterable[str]) -> list[str]:
        before = self.snapshot.before
        names: set[str] = set()
        for name in _texts("gone", given):
            short = name.removeprefix("%")
            if short not in before.names:
                raise GraphError(
                    f"predict: the graph before {self.snapshot.name} has no node {name!r}",
                    hint=nearest(short, before.names) or "print(quiz.snapshot.before) shows all",
                )
            names.add(str(before[short]))
        return sorted(names)

    # -- shown -------------------------------------------------------------------------------------

    @override
    def picture(self, theme: Theme = "auto") -> Picture:
        note = f"before {self.snapshot.title}"
        return graph_picture(self.snapshot.before, theme=theme, note=note)

    @override
    def words(self) -> str:
        before = len(self.snapshot.before)
        asked = "\n".join(f"  {question}" for question in QUESTIONS)
        return (
            f"What will {self.snapshot.title} do to these {before:,} nodes?\n{asked}\n"
            "quiz.answer(nodes=…, gone=[…], rules=[…]) compares what you say with what it does"
        )

    @override
    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        more, snapshot = f" {mark}" if mark else "", self.snapshot
        asked = "".join(f"<li>{plain(question)}</li>" for question in QUESTIONS)
        solved = "".join(
            f"<li>{plain(question)} <b>{plain(was)}</b></li>"
            for question, was in zip(QUESTIONS, self.answer().happened, strict=True)
        )
        changes = diff(snapshot.before, snapshot.ir)
        after = graph_picture(changes, theme=theme, note=f"before and after {snapshot.title}")
        return (
            f'<div{more} style="font-size:14px"><p style="margin:0 0 4px"><b>What will '
            f"{plain(snapshot.title)} do to these {len(snapshot.before):,} nodes?</b></p>"
            f'<ol style="margin:0 0 8px">{asked}</ol>{self.picture(theme).html}'
            f'<details><summary style="cursor:pointer;margin:8px 0"><b>reveal</b></summary>'
            f"<ol>{solved}</ol>{after.html}</details></div>"
        )

    @override
    def __repr__(self) -> str:
        return (
            f"<Prediction of {self.snapshot.title}: {len(self.snapshot.before):,} nodes before it; "
            "a notebook shows it, .answer(…) compares>"
        )


def _texts(what: str, given: object) -> list[str]:
    items: Sequence[object] = (
        [*cast("Iterable[object]", given)]
        if isinstance(given, Iterable) and not isinstance(given, str)
        else [given]
    )
    for item in items:
        if not isinstance(item, str):
            raise ArgumentError(f"predict: {what} has {item!r}, which is not a name", hint=FORM)
    return cast("list[str]", [*items])


def _list(names: Iterable[str] | None) -> str:
    """Return names in a line; "none" where there are none, nothing where nobody said."""
    return "" if names is None else ", ".join(names) or "none"


def predict(thing: object, at: str) -> Prediction:
    """Return the graph before a pass, with questions about what the pass will do.

    `thing` is a session, a compile or an open recording, `at` the pass, as in
    `cx.workbench(at=…)`.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph("twice")
    >>> y = (cx.tensor((2,), name="x") * 2 + 0).retrieve()
    >>> compilation = cx.compile("simplify, dce")
    >>> quiz = ll.predict(cx, "simplify")
    >>> print(quiz.answer(nodes=5, rules=["add-zero"]))
                                   you said  it is
    How many nodes will there be?  5         5            right
    Which of these nodes go?                 none
    Which rules fire?              add-zero  add-zero ×1  right
    """
    live = Live(backed_of("predict", thing))
    try:
        place, _ = read_at(at, live._held)
    except LabError as error:
        error.message = error.message.replace("at: ", "predict: ", 1)
        raise
    backed = live._held.all[place["run"]]  # of this room
    if not place["stage"]:
        raise GraphError(
            f"predict: {at!r} is not a pass", hint='name one, as in ll.predict(cx, "recognise")'
        )
    return Prediction(backed, place["stage"])
