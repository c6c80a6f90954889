"""The nodes of an ONNX file, written once into a graph of the import and noted as steps.

Each name has a value there (a tensor with dims by name, an array that is known, dims, a sequence)
and what refers to it in a step: the value itself where it is known, and else the name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import Node
from luminal_lab.errors import LabError, ModelError, nearest, visible
from luminal_lab.importing.imported import Ref, Step, scope_name
from luminal_lab.importing.onnx_file import File, Proto, line_of
from luminal_lab.importing.onnx_ops import OPS
from luminal_lab.importing.onnx_ops.sizes import are_sizes, calculated
from luminal_lab.importing.onnx_ops.table import (
    DAMAGED,
    Call,
    Entry,
    Refusal,
    Value,
    has_dims,
    is_known,
    widened,
)
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources
from luminal_lab.tensor.store import Store

OURS: Final = "", "ai.onnx"
"""The domains whose ops are known."""
MOST_NODES: Final = 1 << 17
"""The most nodes of a model, those of unrolled loops and of functions included."""
MOST_ELEMENTS: Final = 1 << 22
"""The most elements of each value that is calculated at import."""
DEEPEST: Final = 32
"""The deepest nesting of functions and of graphs in attributes."""


@dataclass(frozen=True, slots=True)
class Write:
    """Writes a node's op into a graph."""

    op: str
    opset: int
    outputs: int
    tensors: tuple[bool, ...] = ()
    """Which outputs are tensors, though for some sizes they may be known."""

    def __call__(self, graph: Sources, *inputs: Value, **attributes: object) -> object:
        """Return the node's output, or a tuple of them."""
        call = Call(graph, self.op, self.opset, self.outputs, _unknown, _constant_in(graph))
        try:
            result = [*written(call, inputs, attributes)]
            for at, is_tensor in enumerate(self.tensors):
                result[at] = call.tensor(result[at]) if is_tensor else result[at]
        except Refusal as refusal:
            hint = refusal.hint or None
            raise ModelError(f"{self.op}: {refusal.reason}", hint=hint) from refusal
        return tuple(result) if self.outputs > 1 else result[0]


def _unknown(_: Tensor) -> Array | None:
    return None


def _constant_in(graph: Sources) -> Callable[[Array], Tensor]:
    def constant(array: Array) -> Tensor:
        same = uniform(graph, array)
        return graph.tensor(array.shape, array.dtype).set(array) if same is None else same

    return constant


def uniform(graph: Sources, array: Array) -> Tensor | None:
    """Return an array of equal numbers as a constant, and None for any other."""
    if not array.size:
        return graph.zeros(array.shape, array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{array.dtype.itemsize}")
    if np.any(bits != bits[0]):
        return None
    dtype: DType = BY_NUMPY[array.dtype]
    first: Any = flat[0]
    return graph.full(array.shape, float(first) if dtype.is_float else first.item(), dtype)


def written(
    call: Call, inputs: Sequence[Value], attributes: Mapping[str, object]
) -> tuple[Value, ...]:
    """Return a node's outputs, and raise a Refusal if they cannot be had."""
    if are_sizes(inputs):
        sizes = calculated(call.op, inputs, dict(attributes), call.outputs)
        if sizes is not None:
            return tuple(sizes)
    return listed(OPS[call.op](call, inputs, attributes))


def listed(result: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """Return an op's outputs, however many it has."""
    return result if isinstance(result, tuple) else (result,)


@dataclass
class Scope:
    """The names that a graph's nodes see."""

    values: MutableMapping[str, Value] = field(default_factory=dict[str, Value])
    refs: MutableMapping[str, object] = field(default_factory=dict[str, object])
    """What refers to each in a step."""
    prefix: str = ""
    attributes: Mapping[str, Proto] = field(default_factory=dict[str, Proto])
    """Those of a function's call, which its nodes refer to."""

    def inner(self, prefix: str) -> Scope:
        """Return the scope of a graph within a node, which sees all names around it."""
        values: ChainMap[str, Value] = ChainMap({}, self.values)
        refs: ChainMap[str, object] = ChainMap({}, self.refs)
        return Scope(values, refs, prefix, self.attributes)

    def keep(self, name: str, value: Value, ref: object) -> None:
        """Give a name its value; an output without a name is not wanted."""
        if name:
            self.values[name], self.refs[name] = value, ref

    def pair(self, name: str) -> tuple[Value, object]:
        """Return a name's value, and what refers to it; nothing for an input left out."""
        return (self.values[name], self.refs[name]) if name else (None, None)


class Nodes(File, ABC):
    """A file's nodes as they become steps."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.graph = Store("import", 0)
        self.steps: list[Step] = []
        self.parameters: dict[str, Parameter] = {}
        self.constants: dict[str, Parameter] = {}
        self.opset = 0
        self.count = 0
        """How many nodes there were, those of loops and functions included."""
        self.input_ids: dict[str, int] = {}
        """The nodes of the model's inputs by their names."""
        self.weights: set[str] = set()
        """The names of initialisers."""
        self._arrays: dict[int, Array] = {}  # the values of inputs of the graph, by node
        self._evaluated: dict[int, Array | None] = {}

    @abstractmethod
    def inside(self, scope: Scope, node: Proto, depth: int) -> bool:
        """Write what is within a node: a function's body or a graph; False if it has none."""

    def nodes(self, scope: Scope, nodes: Iterable[Proto], depth: int = 0) -> None:
        """Write nodes, or raise a ModelError that names the one which cannot be."""
        if depth > DEEPEST:
            raise self.error(f"graphs and functions are nested more than {DEEPEST} deep")
        for node in nodes:
            try:
                self._node(scope, node, depth)
            except Refusal as refusal:
                needs = self.needs(refusal.value)
                words = ", ".join(map(repr, needs))
                hint = f"give the input {words} by known={{…}}" if needs else refusal.hint
                error = self.error(f"{title(node)}: {refusal.reason}", hint or None)
                error.needs = needs
                raise error from refusal
            except ModelError:
                raise
            except LabError as error:
                raise self.error(f"{title(node)}: {error.message}", error.hint) from error
            except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
                raise self.error(f"{title(node)}: {line_of(error)}", DAMAGED) from error

    def _node(self, scope: Scope, node: Proto, depth: int) -> None:
        self.count += 1
        if self.count > MOST_NODES:
            raise Refusal(f"the model has more than {MOST_NODES:,} nodes")
        for name in node.input:
            if name and name not in scope.refs:
                raise Refusal(f"no node before it makes its input {name!r}", DAMAGED)
        node = self._settled(scope, node)
        if not self.inside(scope, node, depth):
            self.write(scope, node)

    def _settled(self, scope: Scope, node: Proto) -> Proto:
        """Return a node of a function with the attributes that its call gives it."""
        if not any(attribute.ref_attr_name for attribute in node.attribute):
            return node
        copy = self.library.NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for attribute in node.attribute:
            own = attribute
            if attribute.ref_attr_name:
                own = scope.attributes.get(attribute.ref_attr_name)
            if own is not None:
                made = copy.attribute.add()
                made.CopyFrom(own)
                made.name = attribute.name
        return copy

    def write(self, scope: Scope, node: Proto) -> None:
        """Write a node of one of the ops of the table."""
        attributes = self.attributes(node)
        names = list(node.input)
        while names and not names[-1]:
            names.pop()
        pairs = [scope.pair(name) for name in names]
        if any(has_dims(value) for value, _ in pairs):
            pairs = [self._settled_number(*pair) for pair in pairs]
        if node.op_type == "Identity" and len(names) == len(node.output) == 1:
            return scope.keep(node.output[0], *pairs[0])
        call = Call(
            self.graph, node.op_type, self.opset, len(node.output), self.evaluate, self.constant
        )
        inputs = [value for value, _ in pairs]
        result: Sequence[Value] | None = None
        if are_sizes(inputs) and not any(self._is_trained(*pair) for pair in pairs):
            result = calculated(call.op, inputs, attributes, call.outputs)
        if result is not None:
            args = [value if is_known(value) else ref for value, ref in pairs]
        else:
            entry, read = OPS[node.op_type], list[tuple[Value, object]]()
            for at, name in enumerate(names):
                read.append(self._read(call, entry, at, f"{scope.prefix}{name}", *pairs[at]))
            inputs, args = [value for value, _ in read], [ref for _, ref in read]
            result = listed(entry(call, inputs, attributes))
        self._note(scope, node, result, args, attributes)
        return None

    def _read(
        self, call: Call, entry: Entry, at: int, full: str, value: Value, ref: object
    ) -> tuple[Value, object]:
        """Return an input as its op reads it, and what refers to it in a step."""
        name, kind = entry.kind(at)
        if value is None:
            return None, None
        if kind in ("Tensor", "Stored"):
            if kind == "Stored" and is_known(value):
                value = widened(value)
            return self.as_tensor(full, value, ref)
        if kind == "Known" or (kind == "Sizes" and isinstance(value, Tensor)):
            value = call.known(value, name)
        return value, value if is_known(value) else ref

    def _note(
        self,
        scope: Scope,
        node: Proto,
        result: Sequence[Value],
        args: Sequence[object],
        attributes: Mapping[str, Any],
    ) -> None:
        """Keep a node's results, and note the step that makes them, unless all are known."""
        results = [""] * len(node.output)
        for at, (name, value) in enumerate(zip(node.output, result, strict=False)):
            full = f"{scope.prefix}{name}"
            scope.keep(name, value, value if is_known(value) else Ref(full))
            if name and not is_known(value):
                results[at] = full
        if any(results):
            tensors = tuple(isinstance(value, Tensor) for value in result)
            write = Write(node.op_type, self.opset, len(node.output), tensors)
            place = scope_name(f"{scope.prefix}{node.name}") if node.name else ""
            self.steps.append(
                Step(node.op_type, write, tuple(args), tuple(results), attributes, place)
            )

    def _settled_number(self, value: Value, ref: object) -> tuple[Value, object]:
        """Return whole numbers that meet dims as what they are, if they are known."""
        if isinstance(value, Tensor) and not value.dtype.is_float:
            array = self.evaluate(value)
            if array is not None:
                return array, array
        return value, ref

    def _is_trained(self, value: Value, ref: object) -> bool:
        """Return whether a value is a weight, which stays a parameter."""
        trained = is_known(value) and value.dtype.kind == "f" and value.ndim > 0
        return trained and isinstance(ref, Ref)

    # -- values ------------------------------------------------------------------------------------

    def as_tensor(self, full: str, value: Value, ref: object) -> tuple[Value, object]:
        """Return a value as a tensor of the import's graph, and what refers to it in a step."""
        if not is_known(value):
            return value, ref
        if value.dtype not in BY_NUMPY:
            raise Refusal(f"its input {full!r} is {value.dtype}, which is no dtype of ours")
        if isinstance(ref, Ref) and ref.name in self.weights:
            if ref.name not in self.parameters:
                trained = BY_NUMPY[value.dtype].is_float
                self.parameters[ref.name] = self._parameter(value, trained)
            return self._lent(self.parameters[ref.name], value), ref
        same = uniform(self.graph, value)
        if same is not None:
            return same, value
        while full in self.constants and self.constants[full].value.base is not value:
            full += "_"
        if full not in self.constants:
            self.constants[full] = self._parameter(np.ascontiguousarray(value), trained=False)
        return self._lent(self.constants[full], value), Ref(full)

    def _parameter(self, array: Array, trained: bool) -> Parameter:
        parameter = Parameter(array.shape, array.dtype, trainable=trained)
        parameter.set(array, copy=False)
        return parameter

    def _lent(self, parameter: Parameter, array: Array) -> Tensor:
        tensor = self.graph.parameter(parameter)
        self._arrays[tensor.id] = array
        return tensor

    def constant(self, array: Array) -> Tensor:
        """Write an array into the import's graph."""
        same = uniform(self.graph, array)
        if same is not None:
            return same
        tensor = self.graph.tensor(array.shape, array.dtype).set(array)
        self._arrays[tensor.id] = array
        return tensor

    def evaluate(self, tensor: Tensor) -> Array | None:
        """Return the value of a tensor that depends on nothing but what is known, or None."""
        if tensor.id not in self._evaluated:
            self._evaluated[tensor.id] = self._value_of(tensor)
        return self._evaluated[tensor.id]

    def _value_of(self, tensor: Tensor) -> Array | None:
        ir = self.graph.ir
        for id in ir.ancestors([tensor.id]):
            node = ir[id]
            if node.op.name == "random" or (node.op.name == "input" and id not in self._arrays):
                return None
            sizes = [dim for type in node.types for dim in type.shape]
            if any(isinstance(value, Expr) for value in [*sizes, *_fields(node.op)]):
                return None
            for type in node.types:
                if math.prod(cast("tuple[int, ...]", type.shape)) > MOST_ELEMENTS:
                    return None

        def data(node: Node) -> Array:
            return self._arrays[node.id]

        return interpret(ir, Environment(data), wanted=[tensor.id])[tensor.id]

    def needs(self, value: Value) -> tuple[str, ...]:
        """Return the names of the model's inputs that a value depends on."""
        if not isinstance(value, Tensor):
            return ()
        behind = self.graph.ir.ancestors([value.id])
        return tuple(name for name, id in self.input_ids.items() if id in behind)

    def missing(
        self, node: Proto, why: str = "there is nothing to write this op with"
    ) -> ModelError:
        """Return an error for an op that is not here."""
        foreign = node.domain not in OURS
        near = None if foreign else nearest(node.op_type, OPS)
        hint = near or "luminal-lab models inspect FILE says all that is not here"
        error = self.error(f"{title(node)}: {why}", hint)
        error.missing = [visible(f"{node.domain}.{node.op_type}" if foreign else node.op_type)]
        return error


def _fields(op: object) -> list[object]:
    return [getattr(op, entry.name) for entry in fields(cast("Any", op))]


def title(node: Proto) -> str:
    """Return a node's op with its name, or with its first output."""
    name = f"{node.name!r}" if node.name else f"-> {node.output[0]}" if len(node.output) else ""
    return visible(f"{node.op_type} {name}".strip())[:200]
