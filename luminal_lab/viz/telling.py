"""Which pass of a compile says most: the one to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.core.ir import IR, Node
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.generic import TIDYING
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.workers.shard import Shard
from luminal_lab.workers.stage import Stage

SPREADING = (Shard.name, Stage.name)
"""The passes that spread a graph over workers."""


def _made_of(ir: IR) -> tuple[set[Node], tuple[int, ...]]:
    return set(ir.nodes), tuple(ir.output_ids)


def telling(snapshots: Sequence[Snapshot]) -> int:
    """Return the number of the snapshot that says most of a compile.

    It is the pass that takes most nodes together, as recognition and fusion do, and not one that
    tidies up, or puts nodes into another order. Nodes that a pass leaves for the next dead code
    elimination count as taken. Of a compile for several workers it is the pass that says what they
    send.
    """
    live: dict[IR, int] = {}

    def left(ir: IR) -> int:
        if ir not in live:
            live[ir] = _live(ir)
        return live[ir]

    changed = [at for at, snapshot in enumerate(snapshots) if at and snapshot.firings]
    # Another order of the same nodes says little.
    sides = {at: (snapshots[at].before, snapshots[at].ir) for at in changed}
    loud = [at for at, (old, new) in sides.items() if _made_of(old) != _made_of(new)]
    own = [at for at in loud if snapshots[at].name not in TIDYING]
    spread = [at for at in own if snapshots[at].name in SPREADING]
    if spread:
        return spread[-1]
    gains = {at: left(snapshots[at].before) - left(snapshots[at].ir) for at in own}
    most = max(gains.values(), default=0)
    if most > 0:
        return max(at for at, gain in gains.items() if gain == most)
    loud = [at for at in loud if snapshots[at].name != DeadCode.name] or loud
    return max(own or loud or changed, default=len(snapshots) - 1)


def _live(ir: IR) -> int:
    """Return how many nodes the outputs need."""
    table = ir.table
    todo = list(ir.output_ids)
    seen = set(todo)
    while todo:
        node = table.get(todo.pop())
        for source in () if node is None else node.sources:
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return len(seen)
