"""`depth-first`: put the nodes into an order in which little memory is taken at once.

    graph g() -> (%e) {                            graph g() -> (%e) {
      %a = random{seed = 0, stream = 0} : f32[9]     %a = random{seed = 0, stream = 0} : f32[9]
      %b = random{seed = 0, stream = 1} : f32[9]     %c = sum_reduce{axis = 0} %a : f32[1]
      %c = sum_reduce{axis = 0} %a : f32[1]     →    %b = random{seed = 0, stream = 1} : f32[9]
      %d = sum_reduce{axis = 0} %b : f32[1]          %d = sum_reduce{axis = 0} %b : f32[1]
      %e = add %c, %d : f32[1]                       %e = add %c, %d : f32[1]
    }                                              }

Each node comes right after what it reads, from the outputs down. Of its sources the one comes
first that needs most on its way beside what it leaves behind: the others' results need not wait
while it is computed (Sethi and Ullman, "The generation of optimal code for arithmetic
expressions", 1970, with bytes for registers). No other order of this kind is better on a tree. A
graph is no tree, so a second order is tried as well: of all nodes that could run next, always the
one that makes least and frees most. `memory.py` says what an order takes; the graph stays in the
one that it has unless another takes less.

A symbolic dim counts as large as its bounds allow, or as 1,024 if they do not say; no order is
taken that would need more where all dims are as small as they may be.
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
from luminal_lab.errors import DimError
from luminal_lab.passes.base import Pass
from luminal_lab.passes.memory import Value, held_by, size, through

LARGE = 1024
"""What a symbolic dim without an upper bound counts as."""
Sizes: TypeAlias = Mapping[Value, int]


@dataclass(frozen=True)
class Schedule(Pass):
    """Order the nodes so that their values take little memory at once."""

    name: ClassVar[str] = "depth-first"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        plan = Plan(ir)
        found = [(dims, plan.sizes(dims)) for dims in _bindings(ir.symbols.values())]
        bindings = [(dims, sizes) for dims, sizes in found if sizes is not None]
        if not bindings:  # no sizes that we can think of fit together
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
                edit.reorder([*order, *plan.rest])


def _bindings(symbols: Iterable[Symbol]) -> Iterator[dict[str, int]]:
    """Yield the sizes for which orders are compared, the ones that count most first."""
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
    """What a graph computes, which values that needs, and the orders that they suggest."""

    def __init__(self, ir: IR) -> None:
        needed = ir.ancestors(ir.output_ids)
        self.nodes = [node for node in ir.nodes if node.id in needed]
        self.ids = [node.id for node in self.nodes]
        self.rest = [node.id for node in ir.nodes if node.id not in needed]
        self.outputs = tuple(dict.fromkeys(ir.output_ids))
        self.sources = {node.id: tuple(dict.fromkeys(node.sources)) for node in self.nodes}
        self.users: dict[int, list[Node]] = {id: [] for id in self.ids}
        for node in self.nodes:
            for id in self.sources[node.id]:
                self.users[id].append(node)
        self.makes: dict[int, tuple[Value, ...]] = {}
        """The values that are there from a node on."""
        self.behind: dict[int, frozenset[Value]] = {}
        """What must be there to read a node."""
        self.reads: dict[int, frozenset[Value]] = {}
        """What must be there to compute a node."""
        self.readers: dict[Value, list[int]] = {}
        for node in self.nodes:
            self._add(node, [] if node.id in self.outputs else self.users[node.id])
        self.kept = frozenset[Value]().union(*[self.behind[id] for id in self.outputs])
        """What must be there in the end."""

    def _add(self, node: Node, users: Sequence[Node]) -> None:
        held = held_by(node, users)
        self.makes[node.id] = held or ()
        self.behind[node.id] = through(node, self.behind) if held is None else frozenset(held)
        reads = frozenset[Value]().union(*[self.behind[id] for id in node.sources])
        self.reads[node.id] = reads
        for value in held or ():
            self.readers[value] = []
        for value in reads:
            self.readers[value].append(node.id)

    def sizes(self, dims: Mapping[str, int]) -> Sizes | None:
        """Return the bytes of all values, unless these dims make a shape impossible."""
        types = {(node.id, k): type for node in self.nodes for k, type in enumerate(node.types)}
        try:
            bytes_of = {type: size(type, dims) for type in set(types.values())}
        except DimError:
            return None
        return {value: bytes_of[types[value]] for value in self.readers}

    def peak(self, order: Sequence[int], sizes: Sizes) -> int:
        """Return the most bytes that are taken at once if the nodes run in an order."""
        left = {value: len(readers) for value, readers in self.readers.items()}
        taken = most = 0
        for id in order:
            taken += sum(sizes[value] for value in self.makes[id])
            most = max(most, taken)
            for value in self.reads[id]:
                left[value] -= 1
            done = [v for v in (*self.reads[id], *self.makes[id]) if not left[v]]
            taken -= sum(sizes[value] for value in done if value not in self.kept)
        return most

    # -- from the outputs down -------------------------------------------------------------------

    def depth_first(self, sizes: Sizes) -> list[int]:
        """Return the order in which each node comes right after its sources, the heaviest first."""
        needs: dict[int, int] = {}  # what a node takes with all that is computed for it
        leaves = {id: sum(sizes[v] for v in behind) for id, behind in self.behind.items()}

        def heaviest_first(ids: Iterable[int]) -> list[int]:
            return sorted(ids, key=lambda id: leaves[id] - needs[id])

        sources: dict[int, list[int]] = {}
        for id in self.ids:
            sources[id] = heaviest_first(self.sources[id])
            waiting = most = 0
            for source in sources[id]:
                most = max(most, waiting + needs[source])
                waiting += leaves[source]
            needs[id] = max(most, waiting + sum(sizes[value] for value in self.makes[id]))
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
        """Return the order in which always the node runs that makes least and frees most."""
        left = {value: len(readers) for value, readers in self.readers.items()}
        missing = {id: len(sources) for id, sources in self.sources.items()}
        place = {id: place for place, id in enumerate(self.ids)}
        order: dict[int, None] = {}

        def growth(id: int) -> int:
            freed = [v for v in self.reads[id] if left[v] == 1 and v not in self.kept]
            return sum(sizes[v] for v in self.makes[id]) - sum(sizes[v] for v in freed)

        def offer(ids: Iterable[int]) -> None:
            for id in ids:
                if not missing[id] and id not in order:
                    heapq.heappush(ready, (growth(id), place[id], id))

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
                if left[value] == 1:  # whoever reads it now frees it
                    offer(self.readers[value])
        return [*order]
