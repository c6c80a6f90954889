"""What passes did, as rows of tables: one for each pass, each firing, or each rule of a pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.tables import Table, frame

Of: TypeAlias = Literal["passes", "firings", "rules"]
Row: TypeAlias = tuple[object, ...]
PASSES: Final = tuple(
    """
    index pass round nodes_before nodes_after firings refusals seconds verified checked
    """.split()  # noqa: SIM905  # a list of names reads better so
)
FIRINGS: Final = ("index", "pass", "firing", "rule", "because", "gone", "made", "changes")
RULES: Final = ("index", "pass", "rule", "firings", "refusals")


def pass_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    """Yield a row for each pass; the graph as written is the first."""
    for one in snapshots:
        yield (
            *(one.index, one.title, one.round, len(one.before), len(one.ir)),
            *(len(one.firings), len(one.refusals), one.seconds, one.verified, one.checked),
        )


def firing_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    """Yield a row for each firing, with the names of the nodes that went and came."""
    for one in snapshots:
        for number, firing in enumerate(one.firings):
            gone, made = (
                tuple(node.name for node in nodes) for nodes in (firing.before, firing.after)
            )
            yield (
                *(one.index, one.title, number, firing.rule, firing.because),
                *(gone, made, len(firing.changes)),
            )


def rule_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    """Yield a row for each rule that fired, or was refused, in each pass."""
    for one in snapshots:
        for rule in dict.fromkeys([*one.counts, *one.refused]):
            yield one.index, one.title, rule, one.counts.get(rule, 0), one.refused.get(rule, 0)


def pass_table(what: str, snapshots: Sequence[Snapshot], of: Of) -> Table:
    """Return what passes did as a table of pandas."""
    kinds = {
        "passes": (PASSES, pass_rows),
        "firings": (FIRINGS, firing_rows),
        "rules": (RULES, rule_rows),
    }
    if of not in kinds:
        raise UnknownNameError(
            f"{what}: there is no table of {of!r}",
            hint=nearest(str(of), kinds) or f"there are {', '.join(map(repr, kinds))}",
        )
    columns, rows = kinds[of]
    graph = snapshots[0].before.name if snapshots else ""
    return frame(what, columns, rows(snapshots), {"graph": graph})
