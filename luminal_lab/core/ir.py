"""The graph as a value: permanent ids to frozen records, and the outputs.

An `IR` never changes. A new one shares every record that is the same, because records name their
sources by id instead of pointing at them, and because the table of records is kept in chunks that
are copied only when one of their records changes.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from operator import is_
from typing import NamedTuple, TypeAlias, final

from typing_extensions import override

from luminal_lab.core.dims import Shape, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, TensorType, mentioned
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import print_ir
from luminal_lab.display import DrawnGraph
from luminal_lab.errors import GraphError, nearest


class Derivation(NamedTuple):
    """The rule that inserted a node, and the ids of its parents."""

    rule: str
    parents: tuple[int, ...]


class Spelling(NamedTuple):
    """The function whose formula ends at a node: its name, its arguments and its settings."""

    function: str
    sources: tuple[int, ...]
    settings: tuple[object, ...]


class Meta(NamedTuple):
    """The part of a record without influence on its meaning: its name and its origin."""

    name: str | None = None
    origin: Origin | None = None
    scope: str = ""
    derivation: Derivation | None = None
    spells: Spelling | None = None


NO_META = Meta()


@final
class Node(NamedTuple):
    """One record: an op, the ids of its sources, the type of its result.

    A `Call` with several outputs has the types of the second and later ones in `extra`.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2,), name="x") * 3
    >>> y.node.op, y.node.sources, y.node.type
    (Mul(), (0, 1), f32[2])
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

    def is_version_of(self, other: "Node") -> bool:
        """Return whether two records can be of one node, before and after its sources changed.

        >>> y = (cx.tensor((2,), name="x") + cx.tensor((2,), name="w")).retrieve()
        >>> y.node._replace(sources=(1, 0)).is_version_of(y.node)
        True
        """
        return (self.id, self.op, self.type) == (other.id, other.op, other.type)

    # Records compare by identity: two equal lines of text are two nodes.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    @override
    def __repr__(self) -> str:
        return f"%{self.name}"

    __str__ = __repr__


NodeLike: TypeAlias = Node | int | str

CHUNK_BITS = 6
CHUNK = 1 << CHUNK_BITS
EMPTY: "list[Node | None]" = [None] * CHUNK


@final
class Table:
    """Records by id, in chunks that copies share until one of them writes to a chunk."""

    __slots__ = ("_chunks", "_copies", "_flat", "_own", "size")

    def __init__(self, chunks: list[list[Node | None]] | None = None, size: int = 0) -> None:
        self._chunks = chunks if chunks is not None else []
        # Own are the chunks that no other table shares.
        self._flat, self._own, self._copies, self.size = list[Node | None](), set[int](), 0, size

    def copy(self) -> "Table":
        """Return a table that shares all chunks; from now on neither table owns them."""
        self._own.clear()
        self._copies += 1
        return Table(self._chunks.copy(), self.size)

    @property
    def state(self) -> tuple[int, int] | None:
        """What no other state of this table equals; None while it has records of its own."""
        return None if self._own else (self._copies, self.size)

    def get(self, id: int) -> Node | None:
        """Return the record with this id, or None."""
        return self._chunks[id >> CHUNK_BITS][id & (CHUNK - 1)] if 0 <= id < self.size else None

    @property
    def flat(self) -> list[Node | None]:
        """All records by id, for whoever reads many: valid until a record is appended."""
        if len(self._flat) != len(self._chunks) << CHUNK_BITS:
            self._flat[:] = chain.from_iterable(self._chunks)
        return self._flat

    def set(self, id: int, node: Node | None) -> None:
        """Store a record under its id, growing the table as needed."""
        index = id >> CHUNK_BITS
        self._chunks += [EMPTY] * (index + 1 - len(self._chunks))
        # The size first, then the record: `truncate` then works after Ctrl-C at any point.
        self.size = max(self.size, id + 1)
        if index not in self._own:
            self._chunks[index] = self._chunks[index].copy()
            self._own.add(index)
        self._chunks[index][id & (CHUNK - 1)] = node
        self._flat[id : id + 1] = [node] if id < len(self._flat) else ()

    def append(self, node: Node) -> None:
        """Append a record."""
        id, offset = self.size, self.size & (CHUNK - 1)
        if offset and id >> CHUNK_BITS in self._own:
            self.size, self._chunks[-1][offset] = id + 1, node
            self._flat[id : id + 1] = [node] if id < len(self._flat) else ()
        else:
            self.set(self.size, node)

    def truncate(self, size: int) -> None:
        """Remove the records from this id on."""
        for id in range(size, self.size):
            self.set(id, None)
        self.size = size
        count = (size + CHUNK - 1) >> CHUNK_BITS  # appended records go into the last chunk
        del self._chunks[count:]
        self._own.intersection_update(range(count))

    def differing(self, other: "Table") -> Iterator[tuple[int, Node | None]]:
        """Yield the ids whose records differ from another table's, with this table's record."""
        chunks = zip_longest(self._chunks, other._chunks, fillvalue=EMPTY)
        for index, (mine, theirs) in enumerate(chunks):
            if mine is not theirs:
                changes = enumerate(zip(mine, theirs, strict=True), index << CHUNK_BITS)
                yield from ((id, node) for id, (node, old) in changes if node is not old)

    def shares_all(self, other: "Table") -> bool:
        """Return whether two tables hold the same records, compared by chunk."""
        return self.size == other.size and all(map(is_, self._chunks, other._chunks))

    def __iter__(self) -> Iterator[Node]:
        return filter(None, chain.from_iterable(self._chunks))


class Signature(NamedTuple):
    """The inputs and outputs of a graph, by ids."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    carries: tuple[tuple[int, int], ...] = ()
    """Pairs (output, input): the output is that input's value in the next run."""
    schedule: tuple[int, ...] = ()
    """Ids in the scheduled order, where it differs from the order of creation."""


def _node_like(key: object) -> str:
    """Return what to give for a node instead of something else."""
    if isinstance(key, (list, tuple)):
        return "give nodes one by one, and not in a list"
    number = "a number has a node of its own: insert(Constant(0.0, node.dtype, node.shape))"
    return number if isinstance(key, float) else "give a node, its id or its name"


class NodeLookup:
    """The node lookup that a graph and its editor share."""

    def __init__(self, table: Table, name: str, signature: Signature) -> None:
        self.table = table
        self.name = name
        self.signature = signature

    def __getitem__(self, key: NodeLike) -> Node:
        """Return the current record of a node, by its id, its name, or an older record."""
        if key.__class__ is int:  # the usual key is an id
            node = self.table.get(key)  # pyright: ignore[reportArgumentType]  # it is one
            if node is not None:
                return node
        elif isinstance(key, Node) and self.table.get(key.id) is key:
            return key
        if isinstance(key, str):
            name = key.removeprefix("%")
            if name not in self.names:
                hint = nearest_node(name, self.names)
                raise GraphError(f"{self.name}: there is no node %{name}", hint=hint)
            key = self.names[name]
        if not isinstance(key, (int, Node)):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
            raise GraphError(f"{self.name}: {key!r} names no node", hint=_node_like(key))
        id = key if isinstance(key, int) else key.id
        node = self.table.get(id)
        if node is not None and isinstance(key, Node) and not node.is_version_of(key):
            raise GraphError(
                f"{self.name}: {key} is a node of another graph; here {node} has its id",
                hint="look the node up in this graph by its name",
            )
        if node is None:
            what = f"the id {id}" if isinstance(key, int) else f"the id of {key}, which is {id}"
            raise GraphError(f"{self.name}: there is no node with {what}")
        return node

    def _ids(self, nodes: Iterable[NodeLike]) -> list[int]:
        """Return the ids of several nodes."""
        if not isinstance(nodes, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
            raise GraphError(
                f"{self.name}: {nodes!r} is not a list of nodes", hint='give a list, as in ["%y"]'
            )
        return [self[node].id for node in nodes]

    def __contains__(self, key: NodeLike) -> bool:
        if isinstance(key, str):
            return key.removeprefix("%") in self.names
        if isinstance(key, int):
            return self.table.get(key) is not None
        if not isinstance(key, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            return False
        node = self.table.get(key.id)
        return node is not None and node.is_version_of(key)

    @cached_property
    def names(self) -> dict[str, int]:
        """The id of every node by its name."""
        return {meta.name or str(id): id for id, _, _, _, _, meta in self.table}

    @cached_property
    def readers(self) -> dict[int, dict[int, None]]:
        """The ids of the nodes that read a node, in order."""
        readers: dict[int, dict[int, None]] = {}
        for id, _, sources, _, _, _ in self.table:
            for source in sources:
                readers.setdefault(source, {})[id] = None
        return readers

    @cached_property
    def returned(self) -> frozenset[int]:
        """The ids of the outputs."""
        return frozenset(self.signature.outputs)

    def sources(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that a node reads, in order.

        >>> y = (cx.tensor((2,), name="x") * cx.tensor((2,), name="w")).retrieve()
        >>> cx.ir.sources(cx.ir.outputs[0])
        (%x, %w)
        """
        flat = self.table.flat
        return tuple([flat[id] or self[id] for id in self[node].sources])

    def users(self, node: NodeLike) -> tuple[Node, ...]:
        """Return the nodes that read a node, each once, in the order of their ids.

        >>> x = cx.tensor((2,), name="x")
        >>> y, z = x.sin().named("y").retrieve(), x.sqrt().named("z").retrieve()
        >>> cx.ir.users("x")
        (%y, %z)
        """
        flat = self.table.flat
        return tuple([flat[id] or self[id] for id in self.readers.get(self[node].id, ())])

    def is_output(self, node: NodeLike) -> bool:
        """Return whether a node is one of the outputs.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> cx.ir.is_output("x"), cx.ir.is_output(y.node)
        (False, True)
        """
        return self[node].id in self.returned


@final
class IR(NodeLookup, DrawnGraph):
    """A graph that never changes: nodes in an order in which sources come before users.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    >>> ir["y"].op, ir.users("x"), len(ir)
    (Sin(), (%y,), 2)
    """

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
        signature = Signature(tuple(inputs), tuple(outputs), tuple(carries), schedule)
        super().__init__(table, name, signature)
        self.input_ids, self.output_ids, self.carries, self.schedule = signature

    # -- reading -------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, sources before users, otherwise in the order of the schedule or of ids."""
        return in_order(self.table, self.schedule)

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

    def bare(self) -> "IR":
        """Return this graph without its cached analyses, which take far more memory.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> ir = cx.ir
        >>> ir.bare() == ir, ir.bare() is ir
        (True, False)
        """
        return IR(self.table.copy(), name=self.name, **self.signature._asdict())

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbolic dims that shapes and fields mention, by name."""
        types = {type for _, _, _, first, extra, _ in self.table for type in (first, *extra)}
        return mentioned(types, {node.op for node in self.table})

    def ancestors(self, nodes: Iterable[NodeLike], known: Container[int] = ()) -> set[int]:
        """Return the ids of nodes and of all their ancestors, up to known ones.

        >>> x = cx.tensor((2,), name="x")
        >>> y, z = x.sin().named("y").retrieve(), x.sqrt().named("z").retrieve()
        >>> [node for node in cx.ir if node.id in cx.ir.ancestors(["y"])]
        [%x, %y]
        """
        reached: set[int] = set()
        todo, flat = self._ids(nodes), self.table.flat
        while todo:
            id = todo.pop()
            if id not in reached and id not in known:
                reached.add(id)
                todo.extend((flat[id] or self[id]).sources)
        return reached

    def descendants(self, nodes: Iterable[NodeLike]) -> set[int]:
        """Return the ids of the given nodes and of all their descendants.

        >>> x = cx.tensor((2,), name="x")
        >>> y = (x.sin().named("s") * 2).retrieve()
        >>> [node for node in cx.ir if node.id in cx.ir.descendants(["s"])]
        [%s, %3]
        """
        reached = set(self._ids(nodes))
        for node in self.nodes:
            if not reached.isdisjoint(node.sources):
                reached.add(node.id)
        return reached

    # -- as a value ----------------------------------------------------------------------------

    @override
    def __eq__(self, other: object) -> bool:
        """Compare by structure: same inputs, outputs and ops; ids and inner names do not count."""
        if not isinstance(other, IR) or self._kind is other._kind:
            return isinstance(other, IR)
        if hash(self) == hash(other) and _isomorphic(self, other):
            other._kind = self._kind  # bodies within bodies are compared once, and not 2^n times
        return self._kind is other._kind

    @override
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _kind(self) -> object:
        """An object that this graph shares with all graphs known to be equal to it."""
        return object()

    @cached_property
    def _hash(self) -> int:
        counts = Counter((node.op, node.type) for node in self.table)
        return hash((frozenset(counts.items()), len(self.input_ids), len(self.output_ids)))

    @override
    def __str__(self) -> str:
        return self.text()

    @override
    def __repr__(self) -> str:
        return f"<IR {self.name}: {len(self)} nodes>"

    shows_itself = False  # readers want the text

    def text(self, *, origins: bool = False) -> str:
        """Return the text form; `parse` reads it back. Origins and scopes are shown on request.

        >>> with cx.scope("head"):
        ...     y = cx.tensor((2,), name="x").sin().retrieve()
        >>> print(cx.ir.text())
        graph main(%x: f32[2]) -> (%1) {
          %1 = sin %x : f32[2]
        }
        """
        return print_ir(self, origins=origins)


def in_order(table: Table, schedule: Sequence[int]) -> tuple[Node, ...]:
    """Return all nodes, sources before users, otherwise in the order of the schedule or of ids.

    Each comes as early as that order allows.
    """
    nodes = tuple(table)
    if not schedule and not any(s >= id for id, _, sources, _, _, _ in nodes for s in sources):
        return nodes
    wanted = [node for id in schedule if (node := table.get(id)) is not None]
    order: dict[int, Node] = {}
    begun: set[int] = set()
    for first in (*wanted, *nodes):
        if begun.issuperset(first.sources):
            begun.add(first.id)
            order.setdefault(first.id, first)
            continue
        stack = [first]
        while stack:
            node = stack[-1]
            if node.id in begun:  # its sources are done, unless it depends on itself
                order.setdefault(node.id, stack.pop())
                continue
            begun.add(node.id)
            for id in reversed(node.sources):
                source = table.get(id)
                if source is not None and id not in begun:
                    stack.append(source)
    return tuple(order.values())


def _isomorphic(a: IR, b: IR) -> bool:
    match: dict[int, int] = {}
    back: dict[int, int] = {}

    def pair(x: int, y: int) -> bool:
        """Match two nodes and all their ancestors."""
        todo = [(x, y)]
        while todo:
            x, y = todo.pop()
            if x in match or y in back:
                if match.get(x) != y or back.get(y) != x:
                    return False
                continue
            match[x], back[y] = y, x
            left, right = a[x], b[y]
            if (
                left.op != right.op
                or left.types != right.types
                or len(left.sources) != len(right.sources)
            ):
                return False
            todo.extend(zip(left.sources, right.sources, strict=True))
        return True

    def ends(ir: IR) -> tuple[list[int], list[str | None]]:
        """Return the ids of inputs, outputs and unread nodes, and the names of the inputs."""
        given = {*ir.input_ids, *ir.output_ids}
        loose = [n.id for n in ir.nodes if n.id not in ir.readers and n.id not in given]
        return [*ir.input_ids, *ir.output_ids, *loose], [n.meta.name for n in ir.inputs]

    (ends_a, names_a), (ends_b, names_b) = ends(a), ends(b)
    if len(a) != len(b) or len(ends_a) != len(ends_b) or names_a != names_b:
        return False
    if not all(map(pair, ends_a, ends_b)):
        return False
    return {(match.get(new), match.get(old)) for new, old in a.carries} == set(b.carries)


def nearest_node(name: str, names: Iterable[str]) -> str | None:
    """Return a hint that names the node nearest to a name, as the text form writes it.

    Ids count the nodes: one that resembles another says nothing about which is meant.
    """
    if name.removeprefix("%").isdigit():
        return None
    return nearest(f"%{name.removeprefix('%')}", [f"%{known}" for known in names])


def check_ir(what: str, ir: object) -> None:
    """Raise unless an argument is an IR."""
    if not isinstance(ir, IR):
        kind = "None" if ir is None else f"a {ir.__class__.__name__}"
        raise GraphError(f"{what}: needs an IR, not {kind}", hint="use cx.ir, or parse one")
