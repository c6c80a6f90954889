"""How layouts flow through a graph: what each node makes of its sources', and what it asks of them.

Once forward: a node gets its layout from those of its sources, by its rule. Once backward: what do
its readers wish for? Then forward again, where a sum of which the workers hold terms is joined
straight into the parts that its readers want. Terms are carried along as far as they stay terms,
while there is only one reader; so the gradients of three products are added first, and sent once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Reduce, View, size_of
from luminal_lab.core.ops import Input
from luminal_lab.workers.layout import FREE, WHOLE, Kind, Layout, parse_layout, whole
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.ops import Reshard
from luminal_lab.workers.rules import Links, Rule, rule_of, terms


class Vote(NamedTuple):
    """An axis of the mesh that a source brings to an axis of the result."""

    rank: tuple[int, ...]
    """What is gathered rather than this: larger ranks win."""
    dim: int
    axis: str


class Flow:
    """The layouts of all values of a graph."""

    def __init__(
        self,
        ir: IR,
        mesh: Mesh,
        given: Mapping[int, Layout],
        *,
        weights: Collection[int] = (),
        wishes: bool = True,
    ) -> None:
        self.ir, self.mesh, self.given, self.weights = ir, mesh, given, weights
        self.rules: dict[int, Rule] = {node.id: rule_of(ir, node) for node in ir}
        self.wish: dict[int, tuple[str, ...]] = {}
        self.raw: dict[int, Layout] = {}
        """The layout in which each node is computed."""
        self.seen: dict[int, Layout] = {}
        """The layout that its readers find."""
        self.needs: dict[int, tuple[Layout, ...]] = {}
        """The layouts that a node needs its sources in."""
        self._forward()
        if wishes:
            self._backward()
            self._forward()

    def _forward(self) -> None:
        for node in self.ir:
            self._at(node)

    def is_carried(self, node: Node) -> bool:
        """Return whether the only reader of a value may read terms of it."""
        return len(self.ir.users(node)) == 1 and not self.ir.is_output(node)

    def _at(self, node: Node) -> None:
        given = self.given.get(node.id)
        if isinstance(node.op, Input):
            raw, needs = given or whole(len(node.shape)), ()
        elif isinstance(node.op, Reshard):
            raw, needs = parse_layout(node.op.new), (parse_layout(node.op.old),)
        else:
            raw, needs = self._computed(node)
        self.raw[node.id], self.needs[node.id] = raw, needs
        if given is not None:
            self.seen[node.id] = given
        elif raw.partial and not self.is_carried(node):
            self.seen[node.id] = self._joined(node.id, raw)
        else:
            self.seen[node.id] = raw

    def _joined(self, id: int, raw: Layout) -> Layout:
        """Return the layout in which terms are joined: cut as the readers wish, or whole."""
        wished = self.wish.get(id, ())
        dims = list[str]()
        for have, word in zip(raw.dims, wished or raw.dims, strict=True):
            # Readers may wish for two axes cut over one of the mesh, each for another one.
            takes = have in (WHOLE, FREE) and word in raw.partial and word not in dims
            dims.append(word if takes else have.replace(FREE, WHOLE))
        return Layout(tuple(dims))

    def _computed(self, node: Node) -> tuple[Layout, tuple[Layout, ...]]:
        rule, rank = self.rules[node.id], len(node.shape)
        layouts = [self.seen[id] for id in node.sources]
        cut = self._cut(node, rule, layouts)
        partial, kind = self._terms(node, layouts, [*cut.values()])
        if not partial and rule.fold is not None:
            kind = rule.fold
        folded = {cut[dim] for dim in cut if dim >= rank}
        if folded and partial and kind != rule.fold:
            partial = frozenset[str]()
            kind = rule.fold or kind
        needs = tuple(
            self._need(layout, links, cut, partial)
            for layout, links in zip(layouts, rule.links, strict=True)
        )
        words = [cut.get(dim, self._word(node, rule, needs, dim)) for dim in range(rank)]
        joined = sorted({*partial, *folded}, key=[*self.mesh.sizes].index)
        return Layout(tuple(words), tuple(joined), kind if joined else "sum"), needs

    def _word(self, node: Node, rule: Rule, needs: Sequence[Layout], dim: int) -> str:
        """Return the word of an axis of a result that nothing cuts: free, or whole."""
        if node.shape[dim] == 1:
            return WHOLE
        if dim in rule.free:
            return FREE
        words = [
            need.dims[k] if self._is_same(node, source, k, dim) else WHOLE
            for need, links, source in zip(needs, rule.links, node.sources, strict=True)
            for k, link in enumerate(links)
            if link == dim
        ]
        return FREE if words and all(word == FREE for word in words) else WHOLE

    def _is_same(self, node: Node, source: int, k: int, dim: int) -> bool:
        return self.ir[source].shape[k] == node.shape[dim]

    def _cut(self, node: Node, rule: Rule, layouts: Sequence[Layout]) -> dict[int, str]:
        """Return what cuts the axes of a result, by them; folded ones are behind its own."""
        rank, votes = len(node.shape), list[Vote]()
        folding = self._folded_next(node)
        for id, links, layout in zip(node.sources, rule.links, layouts, strict=True):
            root = self._root(id)
            size = size_of(self.ir[root].shape)
            kept = (root not in self.weights, not isinstance(self.ir[root].op, Input))
            for link, word in zip(links, layout.dims, strict=True):
                if link is None or word in (WHOLE, FREE):
                    continue
                if link < rank and not self._divides(word, node.shape[link]):
                    continue
                order = kept[0], link not in folding, kept[1], size if isinstance(size, int) else 0
                votes.append(Vote(tuple(map(int, order)), link, word))
        cut: dict[int, str] = {}
        for vote in sorted(votes, key=lambda vote: vote.rank, reverse=True):
            if vote.dim not in cut and vote.axis not in cut.values():
                cut[vote.dim] = vote.axis
        ends = {axis for layout in layouts for axis in layout.partial}
        for dim, word in enumerate(self.wish.get(node.id, ())):
            if word in ends and dim not in cut and word not in cut.values():
                partial = [word in layout.partial for layout in layouts]
                kind: Kind = next(layout.kind for layout in layouts if word in layout.partial)
                if not terms(self.ir, node, partial, kind) and all(
                    dim in links for links in rule.links
                ):
                    cut[dim] = word
        return cut

    def _divides(self, axis: str, dim: object) -> bool:
        return isinstance(dim, int) and dim % self.mesh.sizes[axis] == 0

    def _folded_next(self, node: Node) -> set[int]:
        """Return the axes of a result that its readers sum over."""
        users = self.ir.users(node)
        return {user.op.axis for user in users if isinstance(user.op, Reduce)}

    def _root(self, id: int) -> int:
        """Return what a value is a view of."""
        while isinstance(self.ir[id].op, View):
            id = self.ir[id].sources[0]
        return id

    def _terms(
        self, node: Node, layouts: Sequence[Layout], cut: Collection[str]
    ) -> tuple[frozenset[str], Kind]:
        """Return the axes of the mesh over which the result has terms because its sources do."""
        kinds: list[Kind] = [layout.kind for layout in layouts if layout.partial]
        if len({*kinds}) != 1:
            return frozenset(), "sum"
        kind = kinds[0]
        axes = dict.fromkeys(axis for layout in layouts for axis in layout.partial)
        kept = [
            axis
            for axis in axes
            if axis not in cut
            and terms(self.ir, node, [axis in layout.partial for layout in layouts], kind)
        ]
        return frozenset(kept), kind

    def _need(
        self, layout: Layout, links: Links, cut: Mapping[int, str], partial: frozenset[str]
    ) -> Layout:
        dims = [
            WHOLE if link is None else cut.get(link, FREE if word == FREE else WHOLE)
            for link, word in zip(links, layout.dims, strict=True)
        ]
        kept = tuple(axis for axis in layout.partial if axis in partial)
        return Layout(tuple(dims), kept, layout.kind if kept else "sum")

    # -- backward ----------------------------------------------------------------------------------

    def _backward(self) -> None:
        for node in reversed(self.ir.nodes):
            wishes = [
                self._wished(user, slot)
                for user in self.ir.users(node)
                for slot, id in enumerate(user.sources)
                if id == node.id
            ]
            if node.id in self.given:
                self.wish[node.id] = self.given[node.id].dims
            elif wishes:
                words = zip(*wishes, strict=True)
                self.wish[node.id] = tuple(w[0] if len({*w}) == 1 else WHOLE for w in words)

    def _wished(self, user: Node, slot: int) -> tuple[str, ...]:
        """Return how a reader would like a source to be cut: as it, or its own readers, need it."""
        need, links = self.needs[user.id][slot], self.rules[user.id].links[slot]
        if isinstance(user.op, Reshard):
            return need.dims
        above = self.wish.get(user.id, ())
        words: list[str] = []
        shape = self.ir[user.sources[slot]].shape
        for word, link, dim in zip(need.dims, links, shape, strict=True):
            wish = word
            if word in (WHOLE, FREE) and link is not None and link < len(above):
                is_axis = above[link] not in (WHOLE, FREE)
                wish = above[link] if is_axis and self._divides(above[link], dim) else WHOLE
            words.append(WHOLE if wish == FREE else wish)
        return tuple(words)
