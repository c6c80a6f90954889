"""The work of passes as table rows: one for each pass, each firing, or each rule of a pass."""

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
    for snapshot in snapshots:
        yield (
            *(
                snapshot.index,
                snapshot.title,
                snapshot.round,
                len(snapshot.before),
                len(snapshot.ir),
            ),
            *(
                len(snapshot.firings),
                len(snapshot.refusals),
                snapshot.seconds,
                snapshot.verified,
                snapshot.checked,
            ),
        )


def firing_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    """Yield a row for each firing, with the names of the removed and the added nodes."""
    for snapshot in snapshots:
        for number, firing in enumerate(snapshot.firings):
            gone, inserted = (
                tuple(node.name for node in nodes) for nodes in (firing.before, firing.after)
            )
            yield (
                *(snapshot.index, snapshot.title, number, firing.rule, firing.because),
                *(gone, inserted, len(firing.changes)),
            )


def rule_rows(snapshots: Iterable[Snapshot]) -> Iterator[Row]:
    """Yield a row for each rule that fired, or was refused, in each pass."""
    for snapshot in snapshots:
        for rule in dict.fromkeys([*snapshot.counts, *snapshot.refused]):
            yield (
                snapshot.index,
                snapshot.title,
                rule,
                snapshot.counts.get(rule, 0),
                snapshot.refused.get(rule, 0),
            )


def pass_table(what: str, snapshots: Sequence[Snapshot], of: Of) -> Table:
    """Return the work of passes as a pandas table."""
    kinds = {
        "passes": (PASSES, pass_rows),
        "firings": (FIRINGS, firing_rows),
        "rules": (RULES, rule_rows),
    }
    if of not in kinds:
        raise UnknownNameError(
            f"{what}: there is no table of {of!r}",
            hint=nearest(str(of), kinds) or f"choose from {', '.join(map(repr, kinds))}",
        )
    columns, rows = kinds[of]
    graph = snapshots[0].before.name if snapshots else ""
    return frame(what, columns, rows(snapshots), {"graph": graph})
