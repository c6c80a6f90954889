"""`depth-first`: reorder the nodes to lower the peak memory.

    graph g() -> (%e) {                            graph g() -> (%e) {
      %a = random{seed = 0, stream = 0} : f32[9]     %a = random{seed = 0, stream = 0} : f32[9]
      %b = random{seed = 0, stream = 1} : f32[9]     %c = sum_reduce{axis = 0} %a : f32[1]
      %c = sum_reduce{axis = 0} %a : f32[1]     →    %b = random{seed = 0, stream = 1} : f32[9]
      %d = sum_reduce{axis = 0} %b : f32[1]          %d = sum_reduce{axis = 0} %b : f32[1]
      %e = add %c, %d : f32[1]                       %e = add %c, %d : f32[1]
    }                                              }

Each node comes right after its sources, from the outputs down. Among the sources, the one comes
first whose peak exceeds its result the most: the results of the others then need not wait
during its computation (Sethi and Ullman, "The generation of optimal code for arithmetic
expressions", 1970, with bytes for registers). No other order of this kind is better on a tree. A
graph is no tree, so a second order is tried as well: among the nodes that could run next, always
the one that allocates least and frees most. `memory.py` gives the peak of an order; the graph keeps
its order unless another one has a lower peak.

With `updates_last`, carried outputs that nothing reads come after everything else: until the first
of them is written over its input a run may end, and nothing reads what they write over. Then their
gradients wait for them.

A symbolic dim counts with its upper bound, or as 1,024 without one; no order is
taken that would raise the peak at the smallest sizes of all dims.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Symbol
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.ops import Pick
from luminal_lab.errors import DimError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.memory import Value, held_by, size, through

LARGE = 1024
"""The assumed size of a symbolic dim without an upper bound."""
Sizes: TypeAlias = Mapping[Value, int]


@dataclass(frozen=True)
class DepthFirst(Pass):
    """Order the nodes so that their peak memory is low."""

    name: ClassVar[str] = "depth-first"
    updates_last: bool = False

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        needed = ir.ancestors(ir.output_ids)
        nodes = [node for node in ir.nodes if node.id in needed]
        updates = _updates(ir, nodes) if self.updates_last else ()
        plan = Plan(ir, updates)
        planned = [(dims, plan.sizes(dims)) for dims in _bindings(ir.symbols.values())]
        bindings = [(dims, sizes) for dims, sizes in planned if sizes is not None]
        if not bindings:  # no tried sizes fit together
            return
        dims, sizes = bindings[0]
        before = [plan.peak(plan.ids, each) for _, each in bindings]
        best, order = before[0], None
        for candidate in (plan.depth_first(sizes), plan.freeing_first(sizes)):
            peaks = [plan.peak(candidate, each) for _, each in bindings]
            worse = any(new > old for new, old in zip(peaks, before, strict=True))
            if peaks[0] < best and not worse:
                best, order = peaks[0], candidate
        if order is not None:
            because = f"at most {best:,} bytes are taken at once, and {before[0]:,} were before"
            names = ", ".join(f"{name} = {value:,}" for name, value in dims.items())
            with edit.firing("less-memory", f"with {names}, {because}" if names else because):
                edit.reorder([*order, *updates, *plan.rest])
        elif updates and {*updates} != {node.id for node in nodes[-len(updates) :]}:
            with edit.firing("updates-last", "until the first of them a run may end"):
                edit.reorder([*plan.ids, *updates, *plan.rest])


def _updates(ir: IR, needed: Sequence[Node]) -> tuple[int, ...]:
    """Return the carried outputs that only others of them read, with the kernels they come from."""
    carried = {new for new, _ in ir.carries}
    ids = {node.id for node in needed}
    updates: set[int] = set()
    for node in reversed(needed):
        users = {user.id for user in ir.users(node)} & ids
        is_whole = bool(users) and all(isinstance(ir[id].op, Pick) for id in users)
        if (node.id in carried or is_whole) and users <= updates:
            updates.add(node.id)
    return tuple(node.id for node in needed if node.id in updates)


def _bindings(symbols: Iterable[Symbol]) -> Iterator[dict[str, int]]:
    """Yield the sizes for which orders are compared, the most important first."""
    large: dict[str, int] = {}
    small: dict[str, int] = {}
    for symbol in symbols:
        by = symbol.multiple_of
        least = -(-symbol.low // by) * by
        most = symbol.high if isinstance(symbol.high, int) else max(LARGE, least)
        large[symbol.name], small[symbol.name] = most // by * by, least
    yield large
    if small != large:
        yield small


class Plan:
    """The values of a graph, their lifetimes, and the orders that these suggest.

    What nodes in the end, if given, read is kept for them.
    """

    def __init__(self, ir: IR, end: Sequence[int] = ()) -> None:
        needed = ir.ancestors(ir.output_ids)
        ordered = needed.difference(end)
        self.nodes = [node for node in ir.nodes if node.id in ordered]
        self.ids = [node.id for node in self.nodes]
        self.rest = [node.id for node in ir.nodes if node.id not in needed]
        read = [source for id in end for source in ir[id].sources]
        self.outputs = tuple(id for id in dict.fromkeys([*ir.output_ids, *read]) if id not in end)
        self.sources = {node.id: tuple(dict.fromkeys(node.sources)) for node in self.nodes}
        self.users: dict[int, list[Node]] = {id: [] for id in self.ids}
        for node in self.nodes:
            for id in self.sources[node.id]:
                self.users[id].append(node)
        self.makes: dict[int, tuple[Value, ...]] = {}
        """The values that each node allocates."""
        self.behind: dict[int, frozenset[Value]] = {}
        """The values that a read of each node needs."""
        self.reads: dict[int, frozenset[Value]] = {}
        """The values that the computation of each node needs."""
        self.readers: dict[Value, list[int]] = {}
        returned = {*self.outputs}
        for node in self.nodes:
            self._add(node, [] if node.id in returned else self.users[node.id])
        self.kept = frozenset[Value]().union(*[self.behind[id] for id in self.outputs])
        """The values that must exist in the end."""

    def _add(self, node: Node, users: Sequence[Node]) -> None:
        held = held_by(node, users)
        self.makes[node.id] = held or ()
        self.behind[node.id] = through(node, self.behind) if held is None else frozenset(held)
        behind = [self.behind[id] for id in node.sources]
        reads = behind[0].union(*behind[1:]) if behind else frozenset[Value]()
        self.reads[node.id] = reads
        for value in held or ():
            self.readers[value] = []
        for value in reads:
            self.readers[value].append(node.id)

    def sizes(self, dims: Mapping[str, int]) -> Sizes | None:
        """Return the bytes of all values, or None if these dims make a shape impossible."""
        types = {(node.id, k): type for node in self.nodes for k, type in enumerate(node.types)}
        try:
            bytes_of = {type: size(type, dims) for type in set(types.values())}
        except DimError:
            return None
        return {value: bytes_of[types[value]] for value in self.readers}

    def peak(self, order: Sequence[int], sizes: Sizes) -> int:
        """Return the peak memory in bytes if the nodes run in an order."""
        # What is kept has a reader that never comes.
        left = {v: len(readers) + (v in self.kept) for v, readers in self.readers.items()}
        taken = most = 0
        for id in order:
            makes = self.makes[id]
            for value in makes:
                taken += sizes[value]
            most = max(most, taken)
            for value in self.reads[id]:
                left[value] -= 1
                if not left[value]:
                    taken -= sizes[value]
            for value in makes:
                if not left[value]:
                    taken -= sizes[value]
        return most

    # -- from the outputs down -------------------------------------------------------------------

    def depth_first(self, sizes: Sizes) -> list[int]:
        """Return the order in which each node comes right after its sources, the heaviest first."""
        needs: dict[int, int] = {}  # peaks of nodes with all their ancestors
        leaves = {id: sum(sizes[v] for v in behind) for id, behind in self.behind.items()}

        def heaviest_first(ids: Sequence[int]) -> list[int]:
            return sorted(ids, key=lambda id: leaves[id] - needs[id]) if ids[1:] else [*ids]

        sources: dict[int, list[int]] = {}
        for id in self.ids:
            sources[id] = heaviest_first(self.sources[id])
            waiting = most = 0
            for source in sources[id]:
                most = max(most, waiting + needs[source])
                waiting += leaves[source]
            needs[id] = max(most, waiting + sum([sizes[value] for value in self.makes[id]]))
        order: dict[int, None] = {}
        todo = heaviest_first(self.outputs)[::-1]
        while todo:
            missing = [source for source in sources[todo[-1]] if source not in order]
            if missing:
                todo += missing[::-1]
            else:
                order[todo.pop()] = None
        return [*order]

    # -- from the inputs up ----------------------------------------------------------------------

    def freeing_first(self, sizes: Sizes) -> list[int]:
        """Return the order that always runs the node that allocates least and frees most."""
        left = {value: len(readers) for value, readers in self.readers.items()}
        missing = {id: len(sources) for id, sources in self.sources.items()}
        rank = {id: position for position, id in enumerate(self.ids)}
        order: dict[int, None] = {}

        def growth(id: int) -> int:
            freed = [v for v in self.reads[id] if left[v] == 1 and v not in self.kept]
            return sum([sizes[v] for v in self.makes[id]]) - sum([sizes[v] for v in freed])

        def offer(ids: Iterable[int]) -> None:
            for id in ids:
                if not missing[id] and id not in order:
                    heapq.heappush(ready, (growth(id), rank[id], id))

        ready: list[tuple[int, int, int]] = []
        offer(self.ids)
        while ready:
            # A node is offered again when it frees more than before; the best offer comes first.
            id = heapq.heappop(ready)[2]
            if id in order:
                continue
            order[id] = None
            for user in self.users[id]:
                missing[user.id] -= 1
            offer(user.id for user in self.users[id])
            for value in self.reads[id]:
                left[value] -= 1
                if left[value] == 1:  # the last reader frees it
                    offer(self.readers[value])
        return [*order]
