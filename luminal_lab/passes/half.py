"""`half`: store values as 16-bit floats where that is precise enough, and compute in float32.

    %y = call{body = matmul} %x, %w    where %w is a weight, and %x is computed
                       ↓
    %h = stored{body = bf16} %w        : bf16[64, 64]      %v = cast{dtype = f32} %h : f32[64, 64]
    %k = cast{dtype = bf16} %x         : bf16[4, 64]       %u = cast{dtype = f32} %k : f32[4, 64]
    %y = call{body = matmul} %u, %v    : f32[4, 64]

A value is rounded only if it would be in memory: halves save bytes, and kernels compute in float32
between reading and storing anyway. So these become halves:

* weights of matrix products, convolutions and embeddings. They are `stored`: rounded when
  they are set, not at each run. A weight that the graph trains is rounded in the graph.
* operands of matrix products, convolutions and attention;
* values with several readers, one of them a product further on: the residual stream.

Everything else stays float32: sums, the insides of softmax, norms and losses, exponentials and
their arguments, gradients of weights, updates of optimisers, counters, random numbers, caches and
other values that a run carries to the next, small values such as biases and rope's tables, and
inputs and outputs, whose dtypes the user chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DType, as_dtype
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, TensorType, View
from luminal_lab.core.ops import (
    Call,
    Cast,
    Constant,
    Gather,
    Input,
    Iota,
    Stored,
)
from luminal_lab.core.parse import parse
from luminal_lab.errors import DTypeError, PassError, flag
from luminal_lab.passes.base import Pass, spec_text
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.recognition.reading import Reading
from luminal_lab.passes.recognition.recognise import RECOGNISERS, Recognise
from luminal_lab.passes.rereading import readers, reread, sweep

Kind: TypeAlias = tuple[str, tuple[tuple[str, int], ...]]
"""The kind of a call, and the names of its sources with their positions."""
NO_KIND: Kind = ("", ())
PRODUCTS = ("matmul", "convolution", "attention")
STEEP_KINDS = ("exp", "softmax", "log_softmax")
SMOOTH_KINDS = (
    *("gelu", "gelu_tanh", "silu", "sigmoid", "cos"),
    *("layer_norm", "rms_norm", "mean_norm", "std_norm"),
)
"""Calls that may be rounded like products, despite exponentials or sums inside."""


@dataclass(frozen=True, init=False, repr=False)
class HalfPrecision(Pipeline):
    """Store weights and operands of products as 16-bit floats; compute in float32.

    >>> print(HalfPrecision("bfloat16"), HalfPrecision("float16", weights=False))
    half half{dtype = float16, weights = false}
    """

    name: ClassVar[str] = "half"
    is_early: ClassVar[bool] = True
    dtype: str = "bfloat16"
    weights: bool = True
    """Whether weights are rounded once, when they are set, or in each run."""

    def __init__(self, dtype: str = "bfloat16", *, weights: bool = True) -> None:
        object.__setattr__(self, "dtype", str(_half(dtype)))
        object.__setattr__(self, "weights", flag("half: weights", weights))
        super().__init__([Recognise(), Halves(self.dtype, weights)])

    @override
    def __str__(self) -> str:
        options: dict[str, str | bool] = {}
        if self.dtype != "bfloat16":
            options["dtype"] = self.dtype
        if not self.weights:
            options["weights"] = False
        return spec_text(self.name, dict(options))


def _half(dtype: object) -> DType:
    hint = 'choose "bfloat16", with the range of float32, or "float16", which is finer'
    try:
        narrow = as_dtype(str(dtype))
    except DTypeError as error:
        raise PassError(f"half: there is no dtype {str(dtype)!r}", hint=hint) from error
    if not narrow.is_half:
        raise PassError(f"half: {narrow} is not a 16-bit float", hint=hint)
    return narrow


@dataclass(frozen=True)
class Halves(Pass):
    """Round values to 16-bit floats if they are in memory."""

    name: ClassVar[str] = "halves"
    rounds: ClassVar[bool] = True
    dtype: str = "bfloat16"
    weights: bool = True
    """Whether weights are rounded once, when they are set, or in each run."""

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        _Rounding(ir, edit, _half(self.dtype), stores=self.weights).run()


class _Rounding:
    def __init__(self, ir: IR, edit: Edit, dtype: DType, *, stores: bool) -> None:
        self.ir, self.edit, self.dtype, self.stores = ir, edit, dtype, stores
        self.nature = Nature(ir)
        self.carried = {into for _, into in ir.carries}
        self.now: dict[int, Node] = {}  # recreated nodes, by their original ids
        self.first: dict[int, int] = {}

    def run(self) -> None:
        for node in self.ir.nodes:
            now = self.edit.table.get(self.now.get(node.id, node).id)
            if now is None or node.dtype is not DType.float32 or node.extra:
                continue
            if isinstance(node.op, Input):
                self._input(now)
            elif _is_computed(now.op) and not self.nature.is_given(node):
                self._computed(now, node)

    def _takes(self, reader: Node, source: Node) -> bool:
        """Return whether a reader is a product that accepts halves for a source."""
        positions = self.nature.operands(reader)
        return any(reader.sources[position] == source.id for position in positions)

    # -- inputs ------------------------------------------------------------------------------------

    def _input(self, node: Node) -> None:
        mark = self.edit.weights.get(node.id)
        used = [
            reader for reader, source in readers(self.edit, node) if self._takes(reader, source)
        ]
        rows = [reader for reader in self.edit.users(node) if self._looks_up(reader, node)]
        if mark:  # another pass handles readers of that form
            return
        if mark is not None and self.stores and node.id not in self.carried:
            if used or rows:
                with self.edit.firing("weight", _read_by([*rows, *used])):
                    half = self.edit.insert(
                        Stored(rounding(node.type, self.dtype)), node, like=node
                    )
                    for reader in rows:
                        self._look_up(reader, half)
                    self._reread(node, half)
        elif used and (mark is not None or node.id not in self.carried):
            with self.edit.firing("operand", _read_by(used)):
                self._reread(node, self._narrow(node))

    def _looks_up(self, reader: Node, table: Node) -> bool:
        return isinstance(reader.op, Gather) and reader.sources[0] == table.id

    def _look_up(self, reader: Node, half: Node) -> None:
        rows = self.edit.insert(reader.op, half, reader.sources[1], like=reader)
        self._remember({reader.id: self._wide(rows)})
        self.edit.replace(reader, self.now[self.first_of(reader)])
        self.edit.erase(reader)

    # -- what is computed --------------------------------------------------------------------------

    def _computed(self, node: Node, written: Node) -> None:
        pairs = list(readers(self.edit, node))
        every = {reader.id: reader for reader, _ in pairs}
        used = {reader.id: reader for reader, source in pairs if self._takes(reader, source)}
        if self._are_apart(every, used) and self.nature.is_even(written):
            with self.edit.firing("several", _read_by(every.values())):
                again = self.edit.insert(node.op, *node.sources, like=node)
                self.edit.replace(node, self._wide(self._narrow(again)))
                self.edit.erase(node)
        elif used:
            with self.edit.firing("operand", _read_by(used.values())):
                self._reread(node, self._narrow(node))

    def _are_apart(self, every: Mapping[int, Node], used: Mapping[int, Node]) -> bool:
        """Return whether a value has several readers apart from products.

        A node that only serves another reader, as a comparison serves a choice, is part of it.
        """
        apart = [
            reader
            for reader in every.values()
            if not isinstance(reader.op, Elementwise)
            or self.edit.is_output(reader)
            or any(user.id not in every for user, _ in readers(self.edit, reader))
        ]
        return len(apart) > max(1, len(used))

    # -- changing ----------------------------------------------------------------------------------

    def _narrow(self, node: Node) -> Node:
        return self.edit.insert(Cast(self.dtype), node, like=node)

    def _wide(self, half: Node) -> Node:
        return self.edit.insert(Cast(DType.float32), half, like=half)

    def _reread(self, node: Node, half: Node) -> None:
        if any(self._takes(reader, source) for reader, source in readers(self.edit, node)):
            self._remember(reread(self.edit, node, self._wide(half), self._takes))
        sweep(self.edit, node)

    def _remember(self, replacements: Mapping[int, Node]) -> None:
        for old, new in replacements.items():
            self.first[new.id] = first = self.first.get(old, old)
            self.now[first] = new

    def first_of(self, node: Node) -> int:
        """Return the id that a node had in the original graph."""
        return self.first.get(node.id, node.id)


def _read_by(nodes: Iterable[Node]) -> str:
    """Return a value's readers in words: `matmul %9 reads it, now in half the bytes`."""
    every = {node.id: node for node in nodes}
    names = [f"{_word_for(node)} {node}" for node in every.values()]
    if len(names) > 3:
        names = [*names[:2], f"{len(names) - 2} more"]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    return f"{listed} read{'s' * (len(names) == 1)} it, now in half the bytes"


def _word_for(node: Node) -> str:
    body = node.op.body_of()
    return node.op.name if body is None else body.name


def _is_computed(op: Op) -> bool:
    """Return whether a value is computed, rather than already in memory."""
    return isinstance(op, (Elementwise, Gather, Call, Reduce)) and not isinstance(op, Cast)


@lru_cache(1024)
def rounding(type: TensorType, dtype: DType) -> IR:
    """Return the graph that rounds a weight."""
    half = type.with_dtype(dtype)
    return parse(
        f"graph {dtype}(%w: {type}) -> (%h) {{ %h = cast{{dtype = {dtype.short}}} %w : {half} }}"
    )


class Nature:
    """Properties of a graph's values: which may be rounded where they have several readers."""

    def __init__(self, ir: IR) -> None:
        self.ir = ir
        self.kinds: dict[int, tuple[IR, Kind]] = {}
        products = [node.id for node in ir.nodes if self.operands(node)]
        self.leading = ir.ancestors(products)
        """The ancestors of products."""
        self.smooth: set[int] = set()
        """The values derived from products, looked-up rows and inputs by smooth ops."""
        self.constant: set[int] = set()
        self.given: set[int] = set()
        """The values computed from stored weights and numbers alone."""
        for node in ir.nodes:
            self._learn(node)
        self.steep: set[int] = set()
        """The arguments of exponentials, logarithms and the like."""
        self.seen: set[int] = set(ir.output_ids)
        """The outputs, and values with an output as a view."""
        for node in reversed(ir.nodes):
            for user in ir.users(node):
                passes_on = isinstance(user.op, (Elementwise, View)) and user.id in self.steep
                if passes_on or user.op.slope == "steep" or self._is_kind(user, STEEP_KINDS):
                    self.steep.add(node.id)
                if isinstance(user.op, View) and user.id in self.seen:
                    self.seen.add(node.id)

    def operands(self, node: Node) -> tuple[int, ...]:
        """Return the positions of a product's sources that may be halves; none for other nodes."""
        kind, names = self._kind(node)
        masks = [position for name, position in names if name.startswith("mask")]
        return tuple(
            position for _, position in names if kind in PRODUCTS and position not in masks
        )

    def is_even(self, node: Node) -> bool:
        """Return whether a value can be a half for all its readers."""
        return (
            node.id in self.smooth
            and node.id in self.leading
            and node.id not in self.steep
            and node.id not in self.seen
        )

    def is_given(self, node: Node) -> bool:
        """Return whether a value is computed from stored weights and numbers alone."""
        return node.id in self.given or node.id in self.constant

    def _learn(self, node: Node) -> None:
        op, sources = node.op, node.sources
        is_plain = isinstance(op, (Elementwise, View))
        if isinstance(op, (Constant, Iota)) or (is_plain and self.constant.issuperset(sources)):
            self.constant.add(node.id)
        elif (
            isinstance(op, Stored)
            or self._is_widened(node)
            or (is_plain and (self.given | self.constant).issuperset(sources))
        ):
            self.given.add(node.id)
        if isinstance(op, Call):
            is_smooth = self._is_kind(node, PRODUCTS + SMOOTH_KINDS)
        elif is_plain:
            is_smooth = op.slope != "steep" and self.smooth.issuperset(sources)
        else:
            is_smooth = not isinstance(op, Reduce)
        if is_smooth:
            self.smooth.add(node.id)

    def _is_widened(self, node: Node) -> bool:
        """Return whether a value is what bytes of a weight mean, which are few already."""
        sources = [self.ir[id] for id in node.sources] if isinstance(node.op, Call) else []
        return bool(sources) and all(
            isinstance(source.op, Input) and source.dtype is DType.uint8 for source in sources
        )

    def _is_kind(self, node: Node, kinds: tuple[str, ...]) -> bool:
        return self._kind(node)[0] in kinds

    def _kind(self, node: Node) -> Kind:
        """Return the kind of a call; each body is examined once."""
        if not isinstance(node.op, Call) or node.extra:
            return NO_KIND
        body = node.op.body
        if id(body) not in self.kinds:
            self.kinds[id(body)] = body, _kind_of(body)
        return self.kinds[id(body)][1]


def _kind_of(body: IR) -> Kind:
    reading = Reading(body)
    positions = {id: position for position, id in enumerate(body.input_ids)}
    for recogniser in RECOGNISERS:
        for region in recogniser.find(reading, body.outputs[0]):
            if all(source.id in positions for source in region.sources.values()):
                named = [(name, positions[source.id]) for name, source in region.sources.items()]
                return region.kind, tuple(named)
    return NO_KIND
