"""`ll.beside(a, b)`: compiles, recordings or models beside each other, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import NamedTuple, cast

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, expect, visible
from luminal_lab.io.facts import Subject
from luminal_lab.io.opened import Opened
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.search.candidates import seconds_text
from luminal_lab.tables import aligned
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.timings import Timings
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed, backed_compile
from luminal_lab.viz.live.workbench import Workbench
from luminal_lab.viz.markup import plain
from luminal_lab.viz.pages import framed
from luminal_lab.viz.search_pages import table

TAKEN = "give compiles, sessions (cx), or recordings that ll.open has opened"
HIGHEST = 560
"""The pixels of a saved picture that are in sight; a larger one is scrolled."""


class AlignedPass(NamedTuple):
    """A pass of either run, or of both: the snapshots after it."""

    first: Snapshot | None
    other: Snapshot | None

    @property
    def title(self) -> str:
        """The pass."""
        snapshot = self.first or self.other
        assert snapshot is not None
        return snapshot.title

    @property
    def is_idle(self) -> bool:
        """Whether it changed nothing in either."""
        return not any(one is not None and one.firings for one in self)

    @property
    def differs(self) -> bool:
        """Whether it did something in one that it did not do in the other."""
        if self.first is None or self.other is None:
            return not self.is_idle
        return _did(self.first) != _did(self.other)


def _did(snapshot: Snapshot) -> tuple[int, int, dict[str, int]]:
    return len(snapshot.before), len(snapshot.ir), dict(snapshot.counts)


def aligned_passes(first: Sequence[Snapshot], other: Sequence[Snapshot]) -> list[AlignedPass]:
    """Return the passes of two runs in order, those of one name beside each other."""
    names = [[snapshot.title for snapshot in run] for run in (first, other)]
    matcher = SequenceMatcher(None, *names, autojunk=False)
    pairs: list[AlignedPass] = []
    for _, a, b, c, d in matcher.get_opcodes():
        ones, others = first[a:b], other[c:d]
        if names[0][a:b] == names[1][c:d]:
            pairs += map(AlignedPass, ones, others)
        else:
            pairs += [AlignedPass(one, None) for one in ones]
            pairs += [AlignedPass(None, one) for one in others]
    return pairs


@told_object("beside")
class Beside(Workbench):
    """Compiles beside each other: passes aligned, nodes, kernels and times in columns."""

    what = "beside"

    @property
    def passes(self) -> tuple[AlignedPass, ...]:
        """The passes of the first two, those of one name beside each other."""
        first, other = self._held.all[:2]
        return tuple(aligned_passes(first.snapshots, other.snapshots))

    @property
    def totals(self) -> dict[str, tuple[str, ...]]:
        """What all of them come to: nodes, kernels, launches, bytes, times."""
        sums = [_sums(subject) for subject in self.subjects]
        names = dict.fromkeys(name for one in sums for name in one)
        return {name: tuple(one.get(name, "") for one in sums) for name in names}

    def _rows(self) -> Iterator[tuple[str, str, str, str]]:
        for pair in self.passes:
            if not pair.is_idle or pair.title == "written":
                yield (
                    pair.title,
                    _cell(pair.first),
                    _cell(pair.other),
                    "≠" if pair.differs else "",
                )

    @override
    def words(self) -> str:
        titles = [subject.title for subject in self.subjects]
        head = [("<", "pass"), ("<", titles[0]), ("<", titles[1]), ("<", "")]
        lines = aligned(head, self._rows())
        sums = aligned([("<", ""), *((">", title) for title in titles)], self._sum_rows())
        return "\n".join([*lines, "", *sums])

    def _sum_rows(self) -> list[tuple[str, ...]]:
        return [(name, *values) for name, values in self.totals.items()]

    @override
    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        more, left = f" {mark}" if mark else "", "text-align:left;"
        titles = [subject.title for subject in self.subjects]
        heads = [("pass", "left"), *((plain(title), "left") for title in titles[:2]), ("", "left")]
        changed = "background:rgba(227,179,65,.18);"
        rows = [
            [(plain(cell), left + (changed if row[-1] else "")) for cell in row]
            for row in self._rows()
        ]
        sums = [[(plain(cell), "") for cell in row] for row in self._sum_rows()]
        sum_heads = [("", "left"), *((plain(title), "right") for title in titles)]
        images = "".join(
            f'<figure style="margin:0;flex:1 1 320px;min-width:0">'
            f"<figcaption>{plain(backed.subject.title)}</figcaption>"
            f'<div style="max-height:{HIGHEST}px;overflow:auto">{backed.picture(theme).html}</div>'
            "</figure>"
            for backed in self._held.all
        )
        parts = [table(heads, rows), table(sum_heads, sums)]
        parts += [f'<div style="display:flex;flex-wrap:wrap;gap:12px">{images}</div>']
        return f"<div{more}>{framed(parts, theme)}</div>"

    @override
    def __repr__(self) -> str:
        differ = sum(pair.differs for pair in self.passes)
        many = f"{differ} pass differs" if differ == 1 else f"{differ} passes differ"
        return f"<Beside of {self.title}: {many}; print(…) shows them>"


def beside(*things: object, names: Sequence[str] = ()) -> Beside:
    """Return compiles, recordings or models beside each other, pass by pass.

    `things` are compiles, sessions (each stands for its last compile), recordings that are open,
    and live pictures; `names` are what their columns are called.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph("twice")
    >>> y = (cx.tensor((2,), name="x") * 2 + 0).retrieve()
    >>> ll.beside(cx.compile("dce"), cx.compile("simplify, dce"), names=["as it is", "simpler"])
    <Beside of as it is, simpler: 2 passes differ; print(…) shows them>
    """
    given = [one for thing in things for one in backed_of("beside", thing)]
    if len(given) < 2:
        raise ArgumentError(
            f"beside: there {'is 1 compile' if given else 'are no compiles'}", hint=TAKEN
        )
    expect(names, list | tuple, "beside: the names are {}", 'as in names=["before", "after"]')
    if names and len(names) != len(given):
        counted = "is 1 name" if len(names) == 1 else f"are {len(names)} names"
        raise ArgumentError(
            f"beside: there {counted}, and {len(given)} compiles",
            hint="give a name for each",
        )
    titles = [visible(str(name)) for name in names] or _titles(given)
    return Beside(
        [
            replace(one, subject=replace(one.subject, title=title))
            for one, title in zip(given, titles, strict=True)
        ]
    )


def _titles(given: Sequence[Backed]) -> list[str]:
    """Return titles of which no two are the same."""
    titles = [one.subject.title for one in given]
    models = [_model_of(one) for one in given]
    if len({*titles}) == 1 and all(models) and len({*models}) == len(models):
        return models  # sessions that nobody has named, each with a model of its own
    counts = {title: titles.count(title) for title in titles}
    seen: dict[str, int] = {}
    unique: list[str] = []
    for title in titles:
        seen[title] = seen.get(title, 0) + 1
        unique.append(f"{title} ({seen[title]})" if counts[title] > 1 else title)
    return unique


def _model_of(backed: Backed) -> str:
    """Return the name of the only module that a graph calls; "" if there is none, or several."""
    scopes = {node.meta.scope.partition(".")[0] for node in backed.snapshots[0].ir.nodes}
    names = scopes - {""}
    return names.pop() if len(names) == 1 else ""


def backed_of(caller: str, thing: object) -> Sequence[Backed]:
    """Return the graphs and compiles of a compile, a session, a recording or a live picture."""
    if isinstance(thing, Compilation):
        return [backed_compile(thing)]
    if isinstance(thing, Opened):
        subjects = [one for one in thing.subjects if one.facts.search is None]
        return [Backed(subject) for subject in subjects]
    if isinstance(thing, Live):
        return thing._held.all  # of this room
    backed = getattr(thing, "_backed", None)
    if backed is None or isinstance(thing, type):
        times = "two times are compared by first.beside(second)"
        hint = times if isinstance(thing, Timings) else TAKEN
        raise ArgumentError(f"{caller}: {thing!r} is not a compile", hint=hint)
    found = backed(caller)
    return [found] if isinstance(found, Backed) else cast("Sequence[Backed]", found)


def _cell(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "–"
    before, after = len(snapshot.before), len(snapshot.ir)
    if not snapshot.firings:
        return f"{after:,}"
    return f"{before:,} → {after:,}  ×{len(snapshot.firings):,}"


def _sums(subject: Subject) -> dict[str, str]:
    facts = subject.facts
    sums = {"nodes at the end": f"{len(subject.snapshots[-1].ir):,}"}
    if facts.kernels:
        sums |= {"kernels": f"{len(facts.kernels):,}", "launches": f"{len(facts.launches):,}"}
    if facts.memory is not None:
        sums["bytes of temporaries"] = f"{facts.memory.after:,}"
    for times in facts.times:
        total = seconds_text(sum(row.median for row in times.rows))
        sums[f"{times.device}, {times.how}"] = total
    return sums
