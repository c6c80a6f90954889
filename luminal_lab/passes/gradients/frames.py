"""Sources of forward values for the sweep: the graph itself, or recomputed copies.

Values of ordinary nodes are in the graph. Those in a checkpointed scope, or in the body of a call,
are recomputed on demand, node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from typing_extensions import override

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import View
from luminal_lab.core.ops import After, Constant, HostCall, Input, Iota, Pick
from luminal_lab.errors import GraphError, nearest
from luminal_lab.passes.gradients.rule import emit
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Workspace

AFTER = After()


class Frame:
    """The graph that a sweep traverses, without recomputation."""

    def __init__(self, graph: Workspace) -> None:
        self.graph = graph

    def record(self, id: int) -> Node:
        """Return the record of a node."""
        return self.graph.node(id)

    def home(self, node: Node) -> Node:
        """Return the node of the user's graph that a node belongs to."""
        return node

    def values(self, reader: Node) -> Callable[[int], Tensor]:
        """Return a function that gives the forward values for a node's gradient."""
        return self.original

    def arrive(self, node: Node, g: Tensor) -> None:
        """Take note of the gradient that arrived at a node."""

    def original(self, id: int) -> Tensor:
        """Return the tensor of a node in the graph."""
        return Tensor(self.graph, id, self.record(id).type)


class Checkpointed(Frame):
    """The user's graph, with some scopes recomputed."""

    def __init__(self, graph: Workspace, nodes: Sequence[Node], scopes: Sequence[str]) -> None:
        super().__init__(graph)
        self._regions: dict[int, CheckpointRegion] = {}
        known = {node.meta.scope: list(outward(node.meta.scope)) for node in nodes}
        there = {outer for scopes in known.values() for outer in scopes}
        for scope in scopes:
            if scope not in there:
                raise GraphError(
                    f"grad: the loss is computed by no node in the scope {scope!r}",
                    hint=nearest(scope, there) or "scopes are named by cx.scope(...) and modules",
                )
        # A node in several of the scopes belongs to the first one named.
        order = {scope: k for k, scope in reversed(list(enumerate(scopes)))}
        first = {
            scope: min([order[name] for name in outer if name in order], default=None)
            for scope, outer in known.items()
        }
        inside: dict[int, set[int]] = {}
        for node in nodes:
            k = first[node.meta.scope]
            if k is not None:
                inside.setdefault(k, set()).add(node.id)
        for ids in inside.values():
            self._regions.update(dict.fromkeys(ids, CheckpointRegion(self, ids)))

    @override
    def values(self, reader: Node) -> Callable[[int], Tensor]:
        region = self._regions.get(reader.id)
        return self.original if region is None else region.value

    @override
    def arrive(self, node: Node, g: Tensor) -> None:
        region = self._regions.get(node.id)
        if region is not None and region.anchor is None:
            region.anchor = g


def outward(scope: str) -> Iterator[str]:
    """Yield a scope and its enclosing scopes: "a.b" and "a"."""
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]


class CheckpointRegion:
    """The nodes of a checkpointed scope, and their copies.

    The copies read the scope's sources through an `After` on the first gradient to arrive.
    So no pass can merge them with the originals or run them early.
    """

    def __init__(self, frame: Checkpointed, inside: set[int]) -> None:
        self.anchor: Tensor | None = None
        self._frame = frame
        self._inside = inside
        self._copies: dict[int, Tensor] = {}
        self._tied: set[int] = set()  # copies that wait for the gradient
        self._ties: dict[int, Tensor] = {}

    def value(self, id: int) -> Tensor:
        """Return the tensor that gradients in this scope read for a node."""
        if id not in self._inside:
            return self._frame.original(id)
        for node in unwritten(id, self._frame.record, self._reads, self._copies):
            self._copies[node.id] = self._copy(node)
        return self._copies[id]

    def _reads(self, node: Node) -> list[int]:
        return [id for id in node.sources if id in self._inside]

    def _copy(self, node: Node) -> Tensor:
        original = self._frame.original
        waits = not self._tied.isdisjoint(node.sources)
        if isinstance(node.op, (Input, Constant, Iota, HostCall)):
            return original(node.id)  # nothing to save, or not safe to call twice
        if isinstance(node.op, View) and not waits:
            return original(node.id)  # costs nothing
        copies = self._copies
        sources = [copies[id] if id in copies else original(id) for id in node.sources]
        with self._frame.graph.deriving("recompute", node):
            if sources and not waits:
                numbers = [isinstance(x.node.op, Constant) for x in sources]
                first = numbers.index(False) if False in numbers else 0
                sources[first] = self._tie(sources[first])
            copy = copied(self._frame.graph, node, sources)
            copy = copy if sources else self._tie(copy)  # random numbers
        self._tied.add(node.id)
        return copy

    def _tie(self, x: Tensor) -> Tensor:
        assert self.anchor is not None, "a value is asked for where no gradient has arrived"
        if x.id not in self._ties:
            self._ties[x.id] = emit(AFTER, x, self.anchor)
        return self._ties[x.id]


class Body(Frame):
    """The body of a call, whose inputs are the sources of the call."""

    def __init__(self, frame: Frame, call: Node, body: IR) -> None:
        super().__init__(frame.graph)
        self._body = body
        self._call = frame.home(call)
        self._copies: dict[int, Tensor] = {}
        self._outer = frame.values(call)
        self._call_id, self._picked = call.id, bool(call.extra)
        self._given = dict(zip(body.input_ids, call.sources, strict=True))
        self._results = {id: index for index, id in enumerate(body.output_ids)}

    @override
    def record(self, id: int) -> Node:
        return self._body[id]

    @override
    def home(self, node: Node) -> Node:
        return self._call

    @override
    def values(self, reader: Node) -> Callable[[int], Tensor]:
        return self._value

    def _value(self, id: int) -> Tensor:
        for node in unwritten(id, self.record, self._reads, self._copies):
            self._copies[node.id] = self._copy(node)
        return self._copies[id]

    def _reads(self, node: Node) -> list[int]:
        is_known = node.id in self._given or node.id in self._results
        return [] if is_known else list(node.sources)

    def _copy(self, node: Node) -> Tensor:
        if node.id in self._given:
            return self._outer(self._given[node.id])
        if node.id not in self._results:
            return copied(self.graph, node, [self._copies[id] for id in node.sources])
        call = self._outer(self._call_id)
        if not self._picked:
            return call
        op = Pick(self._results[node.id])
        return Tensor(self.graph, self.graph.append(op, (call.id,), node.type), node.type)


def unwritten(
    id: int,
    record: Callable[[int], Node],
    reads: Callable[[Node], list[int]],
    copies: Mapping[int, Tensor],
) -> Iterator[Node]:
    """Yield a node and the nodes whose copies its copy needs, sources before users."""
    todo = [id]
    while todo:
        node = record(todo[-1])
        first = [source for source in reads(node) if source not in copies]
        if node.id in copies or not first:
            todo.pop()
            if node.id not in copies:
                yield node
        else:
            todo += first


def copied(graph: Workspace, node: Node, sources: Sequence[Tensor]) -> Tensor:
    """Add a copy of a node, on other sources."""
    id = graph.append(node.op, tuple([source.id for source in sources]), node.type)
    if node.extra:
        graph.put(graph.node(id)._replace(extra=node.extra))
    return Tensor(graph, id, node.type)
