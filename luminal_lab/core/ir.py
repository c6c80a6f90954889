"""The graph as a value: permanent ids to frozen records, and the outputs.

An `IR` never changes. A new one shares every record that is the same, because records name their
sources by id instead of pointing at them, and because the table of records is kept in chunks that
are copied only when one of their records changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import print_ir
from luminal_lab.errors import GraphError, nearest

class Derivation(NamedTuple):
    """How a pass came to make a node: by which rule, from which nodes."""

    rule: str
    parents: tuple[int, ...]


class Meta(NamedTuple):
    """What a record says beside its meaning: its name, and where it comes from."""

    name: str | None = None
    origin: Origin | None = None
    scope: str = ""
    made: Derivation | None = None


NO_META = Meta()


@final
class Node(NamedTuple):
    """One record: an op, the ids of its sources, the type of its result.

    A `Call` with several outputs has the types of the second and later ones in `extra`.
    """

    id: int
    op: Op
    sources: tuple[int, ...]
    type: TensorType
    extra: tuple[TensorType, ...] = ()
    meta: Meta = NO_META

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the result."""
        return self.type.dtype

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of all results."""
        return (self.type, *self.extra)

    @property
    def name(self) -> str:
        """The name that the text form shows, without the %."""
        return self.meta.name or str(self.id)

    # A record is itself and nothing else: two equal lines of text are two nodes.
    @override
    def __eq__(self, other: object) -> bool:
        return self is other

    @override
    def __ne__(self, other: object) -> bool:
        return self is not other

    @override
    def __hash__(self) -> int:
        return id(self)

    @override
    def __repr__(self) -> str:
        return f"%{self.name}"

    __str__ = __repr__


NodeLike: TypeAlias = Node | int | str

CHUNK_BITS = 6
CHUNK = 1 << CHUNK_BITS


@final
class Table:
    """Records by id, in chunks that copies share until one of them writes there."""

    __slots__ = ("_chunks", "_own", "size")

    def __init__(self, chunks: list[list[Node | None]] | None = None, size: int = 0) -> None:
        self._chunks = chunks if chunks is not None else []
        # The chunks that no other table has.
        self._own: set[int] = set()
        self.size = size

    def copy(self) -> "Table":
        """Return a table that shares all chunks; neither owns them from now on."""
        self._own.clear()
        return Table(self._chunks.copy(), self.size)

    def get(self, id: int) -> Node | None:
        """Return the record with this id, or None."""
        if 0 <= id < self.size:
            return self._chunks[id >> CHUNK_BITS][id & (CHUNK - 1)]
        return None

    def set(self, id: int, node: Node | None) -> None:
        """Put a record in place, making room up to its id."""
        index = id >> CHUNK_BITS
        if id >= self.size:
            self.size = id + 1
            while len(self._chunks) <= index:
                self._own.add(len(self._chunks))
                self._chunks.append([None] * CHUNK)
        if index not in self._own:
            self._chunks[index] = self._chunks[index].copy()
            self._own.add(index)
        self._chunks[index][id & (CHUNK - 1)] = node

    def truncate(self, size: int) -> None:
        """Forget the records from this id on, as if they had never been made."""
        for id in range(size, self.size):
            self.set(id, None)
        self.size = size

    def __iter__(self) -> Iterator[Node]:
        for chunk in self._chunks:
            for node in chunk:
                if node is not None:
                    yield node


@final
class IR:
    """A graph that never changes: nodes in an order in which sources come before users.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    >>> ir["y"].op, ir.users("x"), len(ir)
    (Sin(), (%y,), 2)
    """

    __slots__ = (
        "_hash",
        "_names",
        "_nodes",
        "_symbols",
        "_users",
        "carries",
        "input_ids",
        "name",
        "output_ids",
        "schedule",
        "table",
    )

    def __init__(
        self,
        table: Table,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        name: str = "main",
        carries: Iterable[tuple[int, int]] = (),
        schedule: tuple[int, ...] = (),
    ) -> None:
        self.table = table
        self.input_ids = tuple(inputs)
        self.output_ids = tuple(outputs)
        self.name = name
        self.carries = tuple(carries)
        """Pairs (output id, input id): the output is that input's value in the next run."""
        self.schedule = schedule
        """Ids in the order wanted, where it is not the order in which they were made."""
        self._nodes: tuple[Node, ...] | None = None
        self._names: dict[str, int] | None = None
        self._users: dict[int, tuple[Node, ...]] | None = None
        self._symbols: dict[str, Symbol] | None = None
        self._hash: int | None = None

    # -- reading -------------------------------------------------------------------------------

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sources before users, otherwise in the order of the schedule or of ids."""
        if self._nodes is None:
            self._nodes = _in_order(self.table, self.schedule)
        return self._nodes

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The input nodes, in the order of the signature."""
        return tuple(self[id] for id in self.input_ids)

    @property
    def outputs(self) -> tuple[Node, ...]:
        """The output nodes, in order."""
        return tuple(self[id] for id in self.output_ids)

    @property
    def next_id(self) -> int:
        """The first id never used."""
        return self.table.size

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        if isinstance(node, Node):
            return self.table.get(node.id) is node
        return isinstance(node, int) and self.table.get(node) is not None

    def __getitem__(self, key: NodeLike) -> Node:
        """Return a node by id, by name (with or without the %), or as it is in this graph."""
        if isinstance(key, str):
            found = self.names.get(key.removeprefix("%"))
            if found is None:
                raise GraphError(
                    f"{self.name}: there is no node %{key.removeprefix('%')}",
                    hint=nearest(key.removeprefix("%"), self.names),
                )
            key = found
        node = self.table.get(key if isinstance(key, int) else key.id)
        if node is None:
            raise GraphError(f"{self.name}: there is no node with the id {key}")
        return node

    @property
    def names(self) -> Mapping[str, int]:
        """The id of every node by its name."""
        if self._names is None:
            self._names = {node.name: node.id for node in self.table}
        return self._names

    def sources(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that a node reads, in order."""
        return tuple(self[id] for id in self[node].sources)

    def users(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that read a node, each once, in order."""
        if self._users is None:
            users: dict[int, dict[Node, None]] = {}
            for user in self.nodes:
                for source in user.sources:
                    users.setdefault(source, {})[user] = None
            self._users = {id: tuple(found) for id, found in users.items()}
        return self._users.get(self[node].id, ())

    def is_output(self, node: NodeLike) -> bool:
        """Return whether a node is one of the outputs."""
        return self[node].id in self.output_ids

    @property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbolic dims that shapes and fields mention, by name."""
        if self._symbols is None:
            found: dict[str, Symbol] = {}
            seen: set[TensorType] = set()
            for node in self.nodes:
                for type in node.types:
                    if type not in seen:
                        seen.add(type)
                        found.update((s.name, s) for dim in type.shape for s in symbols(dim))
                found.update((s.name, s) for s in node.op.symbols())
            self._symbols = dict(sorted(found.items()))
        return self._symbols

    def ancestors(self, nodes: Iterable[NodeLike]) -> set[int]:
        """Return the ids of the given nodes and of all that they are computed from."""
        found: set[int] = set()
        todo = [self[node].id for node in nodes]
        while todo:
            id = todo.pop()
            if id not in found:
                found.add(id)
                todo.extend(self[id].sources)
        return found

    def descendants(self, nodes: Iterable[NodeLike]) -> set[int]:
        """Return the ids of the given nodes and of all that is computed from them."""
        found = {self[node].id for node in nodes}
        for node in self.nodes:
            if not found.isdisjoint(node.sources):
                found.add(node.id)
        return found

    # -- as a value ----------------------------------------------------------------------------

    @override
    def __eq__(self, other: object) -> bool:
        """Compare by structure: same inputs, outputs and ops; ids and inner names do not count."""
        if self is other:
            return True
        return isinstance(other, IR) and hash(self) == hash(other) and _isomorphic(self, other)

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            ops = Counter((node.op, node.type) for node in self.table)
            self._hash = hash((frozenset(ops.items()), len(self.input_ids), len(self.output_ids)))
        return self._hash

    @override
    def __str__(self) -> str:
        return self.text()

    @override
    def __repr__(self) -> str:
        return f"<IR {self.name}: {len(self)} nodes>"

    def text(self, *, origins: bool = False) -> str:
        """Return the text form; `parse` reads it back. Origins and scopes are shown on request."""
        return print_ir(self, origins=origins)


def _in_order(table: Table, schedule: Sequence[int]) -> tuple[Node, ...]:
    nodes = list(table)
    if not schedule and all(all(s < node.id for s in node.sources) for node in nodes):
        return tuple(nodes)
    # Each node as early as the wanted order asks, but after its sources.
    done: set[int] = set()
    order: list[Node] = []
    wanted = [node for id in schedule if (node := table.get(id)) is not None]
    for first in (*wanted, *nodes):
        stack = [first]
        while stack:
            node = stack[-1]
            if node.id in done:
                stack.pop()
                continue
            missing = [
                source
                for id in reversed(node.sources)
                if id not in done and (source := table.get(id)) is not None
            ]
            if missing and len(stack) <= len(nodes):
                stack.extend(missing)
            else:
                done.add(node.id)
                order.append(stack.pop())
    return tuple(order)


def _isomorphic(a: IR, b: IR) -> bool:
    if len(a) != len(b) or len(a.carries) != len(b.carries):
        return False
    match: dict[int, int] = {}
    back: dict[int, int] = {}

    def pair(x: int, y: int) -> bool:
        """Match two nodes and all that they are computed from."""
        todo = [(x, y)]
        while todo:
            x, y = todo.pop()
            if match.get(x, y) != y or back.get(y, x) != x:
                return False
            if x in match:
                continue
            match[x], back[y] = y, x
            one, two = a[x], b[y]
            if one.op != two.op or one.types != two.types or len(one.sources) != len(two.sources):
                return False
            todo.extend(zip(one.sources, two.sources, strict=True))
        return True

    if [n.name for n in a.inputs] != [n.name for n in b.inputs]:
        return False
    pairs = zip((*a.input_ids, *a.output_ids), (*b.input_ids, *b.output_ids), strict=True)
    if not all(pair(x, y) for x, y in pairs):
        return False
    # What no output needs is compared too, from its last nodes, which come in order.
    loose = [
        [n.id for n in ir.nodes if not ir.users(n) and not ir.is_output(n)] for ir in (a, b)
    ]
    if len(loose[0]) != len(loose[1]) or not all(map(pair, *loose)):
        return False
    return [(match.get(new), match.get(old)) for new, old in a.carries] == list(b.carries)
