"""A graph that grows: appends nodes with their origin and scope, and takes back failed calls."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import index
from types import FrameType
from typing import Any, Self, cast

from luminal_lab.core.dims import Dim, Expr, Shape, Symbol, free_name, parse_dim, symbols
from luminal_lab.core.dtypes import DType, DTypeLike, as_dtype
from luminal_lab.core.ir import IR, NO_META, Derivation, Meta, Node, Table
from luminal_lab.core.op import NAME, Op, TensorType
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import here
from luminal_lab.core.printer import bounds_text, unique
from luminal_lab.errors import DimError, Explained, GraphError, ShapeError
from luminal_lab.interrupts import OpenBlocks, held, is_on_stack

DimLike = int | str | Expr
id_of = id  # where `id` is a node's
# The same as Node(…), in half the time.
make: Callable[..., Node] = cast("Any", tuple).__new__
Mark = tuple[int, int, int, int]
frame_of = sys._getframe  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
MOST = 1 << 62  # more than any dim


class Builder(ABC):
    """A graph that grows; subclasses decide how data and results are kept."""

    seed: int
    """Random numbers depend on this and on the count of runs."""

    def __init__(self, name: str) -> None:
        self.name = check_name(name, "a graph")
        self._table = Table()
        self._inputs: list[int] = []
        self._names: dict[str, int] = {}
        self._dims: dict[str, Symbol] = {}
        self._scope = ""
        self._blocks: OpenBlocks[tuple[str, Meta]] = (
            OpenBlocks()
        )  # open scopes, each with the scope around it
        self._metas: dict[tuple[int, str], Meta] = {}
        self.meta = NO_META
        """The meta that nodes of the current call get."""
        # Caches, with at most one entry per node.
        self._types: dict[TensorType, TensorType] = {}
        self.known: dict[tuple[object, ...], tuple[Op, TensorType]] = {}
        """Ops with the types of their results, by their class, operand types and fields."""
        self.common: dict[tuple[DType, Shape, DType, Shape], TensorType] = {}
        """The common type of operands of two types."""
        self._gone: dict[int, Node] = {}  # superseded
        self._revived: list[int] = []
        self._streams = 0
        self._last: tuple[IR, ...] = ()  # the last two snapshots
        self.stale: set[int] = set()
        """Nodes still in use whose notebook cell has run again."""
        self.begun: tuple[Mark, FrameType | None] | None = None
        """The mark and the frame of the current call, or of one that Ctrl-C broke off."""

    # -- what the session adds -----------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a run is under way: functions it calls must not extend the graph."""
        return False

    @abstractmethod
    def unask(self, id: int) -> None:
        """Forget all requests for a node, and its value."""

    @abstractmethod
    def forget(self, id: int) -> None:
        """Forget a node's value, or its data."""

    # -- growing -------------------------------------------------------------------------------

    def append(
        self, op: Op, sources: tuple[int, ...], type: TensorType, name: str | None = None
    ) -> int:
        """Add a node of a known type, perhaps with a free name, and return its id."""
        if self.running:
            raise GraphError(
                f"{op.name}: the graph {self.name!r} is running, and cannot be written meanwhile",
                where=str(here() or "") or None,
                hint="let functions, probes and providers of data work on arrays alone",
            )
        meta = self._meta_here(2) if self.begun is None else self.meta
        if self._gone:
            self.revive(sources)
        table = self._table
        id = table.size
        if name is not None:
            meta = Meta(name, *meta[1:])
            self._names[name] = id
        table.append(make(Node, (id, op, sources, type, (), meta)))
        return id

    def _meta_here(self, skip: int) -> Meta:
        """Return the meta of nodes from the user's line, found beyond `skip` of our own frames."""
        origin = here(skip)
        key = id_of(origin), self._scope
        meta = self._metas.get(key)
        if meta is None:
            meta = self._metas[key] = Meta(None, origin, self._scope)
        return meta

    def append_named(self, op: Op, type: TensorType, name: str | None) -> int:
        """Add an input or another node under a name, which is made unique."""
        if name is not None:
            name = self.free_name(check_name(name, "a tensor"))
        id = self.append(op, (), type, name)
        if isinstance(op, Input):
            self._inputs.append(id)
        return id

    def free_name(self, name: str) -> str:
        """Return `name`, with a number behind it if this graph has the name already."""
        holder = self._names.get(name)
        if holder in self.stale:
            self.rename(holder, unique(name, self._names))
        return unique(name, self._names)

    def rename(self, id: int, name: str) -> None:
        """Rename a node."""
        self.revive([id])
        node = self.node(id)
        with held():
            if node.meta.name is not None:
                del self._names[node.meta.name]
            self._names[name] = id
            self._table.set(id, node._replace(meta=node.meta._replace(name=name)))

    def node(self, id: int) -> Node:
        """Return the record of a node, even of one that is superseded."""
        node = self._gone.get(id) or self._table.get(id)
        if node is None:
            raise GraphError(
                f"%{id} is not in the graph", hint="print(cx) shows the ids of its nodes"
            )
        return node

    def put(self, node: Node) -> None:
        """Replace the record of a node."""
        with held():
            self._table.set(node.id, node)
            if isinstance(node.op, Input) and node.id not in self._inputs:
                self._inputs.append(node.id)

    def the(self, type: TensorType) -> TensorType:
        """Return the one object that stands for all equal types in this graph."""
        return self._types.setdefault(type, type)

    @property
    def next_id(self) -> int:
        """The id that the next node will have."""
        return self._table.size

    # -- superseding -------------------------------------------------------------------------------

    def supersede(self, ids: Iterable[int]) -> None:
        """Take nodes out of the graph; using a handle of one brings it back."""
        gone = set(ids)
        with held():
            for id in gone:
                node = self._gone[id] = self.node(id)
                self.unask(id)
                self._table.set(id, None)
                if node.meta.name is not None:
                    del self._names[node.meta.name]
            self._inputs = [id for id in self._inputs if id not in gone]

    def revive(self, ids: Iterable[int]) -> None:
        """Bring superseded nodes back, with all their ancestors."""
        todo = [id for id in ids if id in self._gone]
        if not todo:
            return
        with held():
            while todo:
                node = self._gone.pop(todo.pop(), None)
                if node is not None:
                    if node.meta.name is not None:
                        name = self.free_name(node.meta.name)
                        self._names[name] = node.id
                        node = node._replace(meta=node.meta._replace(name=name))
                    self.put(node)
                    self._revived.append(node.id)
                    todo += node.sources

    def next_stream(self) -> int:
        """Return a random stream of its own for a call site."""
        self._streams += 1
        return self._streams - 1

    def snapshot(self, outputs: tuple[int, ...], carries: tuple[tuple[int, int], ...]) -> IR:
        """Return the graph as a value; the same value as long as nothing changes."""
        for last in self._last:  # which has the same inputs if it has the same nodes
            same = last.output_ids == outputs and last.carries == carries and last.name == self.name
            if same and last.table.shares_all(self._table):
                return last
        table = self._table.copy()
        ir = IR(table, tuple(self._inputs), outputs, name=self.name, carries=carries)
        # They keep their cached analyses for the next run. Two, because a run asks for two:
        # one of the outputs, and one of all a program's results, kept and probed values included.
        self._last = (ir, *self._last[:1])
        return ir

    # -- taking back ---------------------------------------------------------------------------

    def mark(self, frame: FrameType | None = None) -> None:
        """Begin a call that is undone as a whole if it fails; a frame bounds its lifetime."""
        if self._blocks:
            self.leave(self._blocks.end_dead())
        self.meta = self._meta_here(3)
        self._revived = []
        self.begun = self.size, frame

    @property
    def size(self) -> Mark:
        """The present size of the graph; everything added later can be taken back."""
        return self._table.size, len(self._inputs), len(self._dims), self._streams

    def within(self) -> bool:
        """Return whether a call is under way; take back a call that was broken off."""
        if self.begun is None:
            return False
        if self.begun[1] is None or is_on_stack(self.begun[1]):
            return True
        self.fail(KeyboardInterrupt())
        return False

    def fail(self, error: BaseException) -> None:
        """End the current call and take back all it did."""
        with held():
            if self.begun is not None:
                self.take_back(self.begun[0], error)
                self.begun = None

    def take_back(self, mark: Mark, error: BaseException) -> None:
        """Forget everything added since `mark`; note the user's line in the error."""
        size, inputs, dims, self._streams = mark
        for id in range(size, self._table.size):
            self.unask(id)
            self.forget(id)
        self._names = {name: id for name, id in self._names.items() if id < size}
        self._table.truncate(size)
        del self._inputs[inputs:]
        self.supersede(self._revived)
        for name in list(self._dims)[dims:]:
            del self._dims[name]
        if isinstance(error, Explained) and not error.where:
            error.where = str(here() or "") or None

    def whole(self) -> "Transaction":
        """Return a context that undoes everything if it fails."""
        return Transaction(self)

    def deriving(self, rule: str, *parents: Node) -> "Transaction":
        """Derive nodes from parents: they take the first parent's origin and scope."""
        meta, ids = parents[0].meta, tuple(parent.id for parent in parents)
        return Transaction(self, Meta(None, meta.origin, meta.scope, Derivation(rule, ids)))

    # -- scopes and dims -----------------------------------------------------------------------

    def scope(self, name: str) -> "Block":
        """Name the part of the model that nodes added inside belong to.

        >>> with cx.scope("head"):
        ...     y = cx.tensor((2,), name="x").exp2()
        >>> y.node.meta.scope
        'head'
        """
        return Block(self, name)

    def enter(self, block: "Block", name: str, frame: FrameType) -> None:
        """Open a scope for a block in a frame."""
        with self.whole():
            outer = self._scope
            inner = check_name(f"{outer}.{name}" if outer else name, "a scope")  # as "mlp.0" is
        with held():
            self._blocks.begin(block, frame, (outer, self.meta))
            self._scope, self.meta = inner, self.meta._replace(scope=inner)

    def leave(self, before: tuple[str, Meta] | None) -> None:
        """Restore the scope from before a block."""
        if before is not None:
            self._scope, self.meta = before

    def dim(
        self, name: str, low: int = 1, high: int | None = None, *, multiple_of: int = 1
    ) -> Symbol:
        """Declare a symbolic dim with inclusive bounds.

        >>> batch = cx.dim("batch", 1, 64, multiple_of=8)
        >>> cx.tensor((batch, 3)).shape
        (batch, 3)
        """
        with self.whole():
            try:
                top = None if high is None else index(high)
                symbol = Symbol(free_name(str(name)), index(low), top, index(multiple_of))
            except TypeError:
                raise DimError(
                    f"dim {name!r}: its bounds are {low!r} and {high!r}, a multiple of "
                    f"{multiple_of!r}, and not whole numbers",
                    hint='as in dim("seq", 1, 4096, multiple_of=8)',
                ) from None
            known = self._dims.setdefault(name, symbol)
            if known != symbol and name in self.snapshot((), ()).symbols:
                raise DimError(
                    f"dim {name!r}: it is declared as {bounds_text(known)}, and again as "
                    f"{bounds_text(symbol)}",
                    hint="declare a dim once, before it is first used",
                )
            self._dims[name] = symbol
            return symbol

    def has_dim(self, name: str) -> bool:
        """Return whether this graph has a dim of this name."""
        return name in self._dims

    def as_dim(self, like: DimLike) -> Dim:
        """Return the dim that a number, a name, or an expression such as "p + 1" stands for."""
        if type(like) is int and 0 <= like < MOST:
            return like
        dim = self.as_integer(like)
        if isinstance(dim, int) and dim < 0:
            raise ShapeError(
                f"shape: a dim cannot be negative, but one is {dim}",
                hint="-1 stands for the size that is left in reshape and expand only",
            )
        return dim

    def as_integer(self, like: object) -> Dim:
        """Return the dim or the negative number that a value stands for."""
        if type(like) is int and -MOST < like < MOST:
            return like
        if isinstance(like, (str, Expr)):
            like = parse_dim(like, self._dims, declare=True) if isinstance(like, str) else like
            for symbol in symbols(like):
                known = self._dims.get(symbol.name)
                if known is None:
                    known = self._dims[free_name(symbol.name)] = symbol
                if known != symbol:
                    raise DimError(
                        f"dim {symbol.name!r}: in this graph it is {bounds_text(known)}, and here "
                        f"{bounds_text(symbol)}",
                        hint="make the dim with this graph's dim(...)",
                    )
            return like
        try:
            size = int(index(like))  # pyright: ignore[reportArgumentType]  # it is tried
        except TypeError:
            label = getattr(like, "label", None)
            if label is not None:
                raise ShapeError(
                    f"shape: {label} is a tensor, whose value only a run knows",
                    hint="shapes are known before a run: use a number or a symbolic dim, and a "
                    "mask for what depends on values, as in (positions < t).where(x, 0)",
                ) from None
            text = " ".join(repr(like).split())
            raise ShapeError(
                f"shape: {text} is not a dim", hint='a dim is a number or a name such as "seq"'
            ) from None
        if -MOST < size < MOST:
            return size
        raise ShapeError(f"shape: {size} is too large for a dim", hint="a dim has 62 bits")

    def as_shape(self, like: "ShapeLike") -> Shape:
        """Return the shape that a dim or a sequence of dims stands for."""
        if isinstance(like, (int, str, Expr)):
            return (self.as_dim(like),)
        try:
            shape = tuple([self.as_dim(dim) for dim in like])
        except TypeError:
            raise ShapeError(
                f"shape: {like!r} is not a shape", hint="a shape is a tuple of dims, as in (3, 4)"
            ) from None
        if len(shape) > 64:
            raise ShapeError(f"shape: {len(shape)} axes are more than the 64 that NumPy allows")
        return shape

    def type_of(self, shape: "ShapeLike", dtype: DTypeLike) -> TensorType:
        """Return the type that a user's shape and dtype stand for."""
        return TensorType(as_dtype(dtype), self.as_shape(shape))


class Transaction:
    """A block that leaves the session unchanged if it fails."""

    __slots__ = ("_graph", "_is_outermost", "_meta")

    def __init__(self, graph: Builder, meta: Meta | None = None) -> None:
        self._graph = graph
        self._is_outermost = False
        self._meta = meta
        """The meta of its nodes while it is open, and of other nodes while it is not."""

    def __enter__(self) -> Self:
        if self._graph.begun is None or not self._graph.within():
            self._is_outermost = True
            self._graph.mark(frame_of(1))
        self._turn()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._turn()
        if self._is_outermost and error is not None:
            self._graph.fail(error)
        elif self._is_outermost:
            self._graph.begun = None

    def _turn(self) -> None:
        if self._meta is not None:
            self._graph.meta, self._meta = self._meta, self._graph.meta


class Block:
    """A block that may be entered repeatedly, also inside itself."""

    __slots__ = ("_graph", "_name")

    def __init__(self, graph: Builder, name: str) -> None:
        self._graph = graph
        self._name = name

    def __enter__(self) -> None:
        self._graph.enter(self, self._name, frame_of(1))

    def __exit__(self, *error: object) -> None:
        with held():
            self._graph.leave(self._graph._blocks.end(self))  # pyright: ignore[reportPrivateUsage]  # its other half


ShapeLike = DimLike | tuple[DimLike, ...] | list[DimLike]


def check_name(name: object, what: str) -> str:
    """Return `name` if the text form can write it, or raise."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise GraphError(
            f"{name!r} cannot be the name of {what}",
            hint="a name is letters, digits, '_' and '.', and starts with a letter or '_'",
        )
    return name
