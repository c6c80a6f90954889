"""What is within nodes: bodies of functions, branches that are decided, loops that are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Expr, known as decided
from luminal_lab.core.dtypes import Array
from luminal_lab.importing.imported import Ref
from luminal_lab.importing.onnx_file import GRAPH, Proto, line_of
from luminal_lab.importing.onnx_nodes import MOST_NODES, OURS, Nodes, Scope, title
from luminal_lab.importing.onnx_ops import OPS
from luminal_lab.importing.onnx_ops.table import (
    DAMAGED,
    ELEMENTS,
    KNOW_IT,
    Refusal,
    Value,
    is_known,
    unknown,
)
from luminal_lab.tensor import Tensor

MOST_UNROLLED: Final = 4096
"""The most nodes that a loop may become."""


class Rounds:
    """The rounds of a loop: what goes from one to the next, and what each of them leaves."""

    def __init__(self, state: Sequence[tuple[Value, object]], left: int) -> None:
        self.state = list(state)
        self.parts: list[list[tuple[Value, object]]] = [[] for _ in range(left)]

    def take(self, made: Sequence[tuple[Value, object]]) -> None:
        """Take what a round has made: the next state, then a part of each output."""
        self.state = list(made[: len(self.state)])
        for part, value in zip(self.parts, made[len(self.state) :], strict=True):
            part.append(value)


class Control(Nodes):
    """Nodes that have graphs or functions in them."""

    functions: Mapping[tuple[str, str], Proto]
    """The model's own functions, by domain and name."""
    graphs: ClassVar[Mapping[str, Callable[[Control, Scope, Proto, int], None]]]

    @override
    def inside(self, scope: Scope, node: Proto, depth: int) -> bool:
        local = self.functions.get((node.domain, node.op_type))
        if local is not None:
            self._expand(scope, node, local, depth)
        elif node.domain not in OURS:
            raise self.missing(
                node, f"its domain is {node.domain!r}, and only ONNX's own ops are known"
            )
        elif node.op_type in self.graphs:
            self.graphs[node.op_type](self, scope, node, depth)
        elif node.op_type not in OPS:
            function, defaults = self._function_of(scope, node)
            if function is None:
                raise self.missing(node)
            self._expand(scope, node, function, depth, defaults)
        else:
            return False
        return True

    # -- functions ---------------------------------------------------------------------------------

    def check_functions(self, nodes: Sequence[Proto]) -> None:
        """Raise a ModelError if functions call themselves, or would become too many nodes."""

        @cache
        def size(key: tuple[str, str]) -> int:
            if key in running:
                raise self.error(f"the function {key[1]!r} calls itself")
            running.add(key)
            total = count(self.functions[key].node)
            running.discard(key)
            return total

        def count(nodes: Sequence[Proto]) -> int:
            total = 0
            for node in nodes:
                key = node.domain, node.op_type
                total += size(key) if key in self.functions else 1
                for attribute in node.attribute:
                    if attribute.type == GRAPH:
                        total += count(attribute.g.node)
            return total

        running = set[tuple[str, str]]()
        try:
            total = count(nodes)
        except RecursionError:
            raise self.error("its functions are nested too deep", DAMAGED) from None
        if total > MOST_NODES:
            raise self.error(
                f"with its functions written out it has {total:,} nodes, and may have "
                f"{MOST_NODES:,}"
            )

    def _expand(
        self,
        scope: Scope,
        node: Proto,
        function: Proto,
        depth: int,
        defaults: Sequence[Proto] = (),
    ) -> None:
        """Write the body of a function in place of its call."""
        given = [*defaults, *function.attribute_proto, *node.attribute]
        attributes = {attribute.name: attribute for attribute in given}
        inner = Scope(prefix=_prefix(scope, node), attributes=attributes)
        for at, name in enumerate(function.input):
            inner.keep(name, *scope.pair(node.input[at] if at < len(node.input) else ""))
        opset = self.opset
        for version in function.opset_import:
            if version.domain in OURS:
                self.opset = int(version.version)
        try:
            self.nodes(inner, function.node, depth + 1)
        finally:
            self.opset = opset
        for name, own in zip(node.output, function.output, strict=False):
            if name and own not in inner.refs:
                raise Refusal(f"no node of its body makes {own!r}", DAMAGED)
            if name:
                scope.keep(name, *inner.pair(own))

    def _function_of(self, scope: Scope, node: Proto) -> tuple[Proto, list[Proto]]:
        """Return what ONNX says that an op is made of, and the defaults of its attributes."""
        defs = self.library.defs
        try:
            schema = defs.get_schema(node.op_type, self.opset, "")
            self.library.checker.check_node(node, self._checking())
        except defs.SchemaError:
            return None, []
        except self.library.checker.ValidationError as error:
            raise Refusal(line_of(error).partition(" ==> ")[0], DAMAGED) from error
        defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
        if schema.has_function:
            return schema.function_body, defaults
        if not schema.has_context_dependent_function:
            return None, []
        # The package reads the types of all inputs, and does not look whether they are there.
        types = [self._type_of(scope.pair(name)[0]) for name in node.input]
        text = schema.get_context_dependent_function(
            node.SerializeToString(), [kind.SerializeToString() for kind in types]
        )
        function = self.library.FunctionProto()
        function.ParseFromString(text)
        return function, defaults

    def _checking(self) -> Proto:
        context = type(self.library.checker.DEFAULT_CONTEXT)()
        context.ir_version = self.library.IR_VERSION
        context.opset_imports = {"": self.opset}
        return context

    def _type_of(self, value: Value) -> Proto:
        helper = self.library.helper
        if value is None:
            return self.library.TypeProto()
        if isinstance(value, list):
            first: Value = value[0] if value else np.zeros(0, np.float32)
            return helper.make_sequence_type_proto(self._type_of(first))
        name = "int64" if value.dtype == object else str(value.dtype)
        shape = [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
        return helper.make_tensor_type_proto(_NUMBERS[name], shape)

    # -- branches ----------------------------------------------------------------------------------

    def branch(self, scope: Scope, node: Proto, depth: int) -> None:
        """Write the branch that a condition chooses, which must be known."""
        holds = self._decided(scope, node.input[0])
        body = self._graph_of(node, "then_branch" if holds else "else_branch")
        inner = scope.inner(_prefix(scope, node))
        made = self._body(inner, body, depth)
        for name, (value, ref) in zip(node.output, made, strict=True):
            scope.keep(name, value, ref)

    def _graph_of(self, node: Proto, name: str) -> Proto:
        """Return the graph that an attribute is."""
        for attribute in node.attribute:
            if attribute.name == name and attribute.type == GRAPH:
                return attribute.g
        raise Refusal(f"the graph {name} is missing", DAMAGED)

    def _body(self, inner: Scope, body: Proto, depth: int) -> list[tuple[Value, object]]:
        """Write a graph within a node, and return its outputs."""
        for tensor in body.initializer:
            self.initialise(inner, tensor)
        self.nodes(inner, body.node, depth + 1)
        for output in body.output:
            if output.name not in inner.refs:
                raise Refusal(f"no node of its graph makes {output.name!r}", DAMAGED)
        return [inner.pair(output.name) for output in body.output]

    def initialise(self, scope: Scope, tensor: Proto) -> None:
        """Give an initialiser its value; it is a parameter where a tensor is meant."""
        full = f"{scope.prefix}{tensor.name}"
        array = self.array(tensor, f"the initialiser {tensor.name!r}")
        self.weights.add(full)
        scope.keep(tensor.name, array, Ref(full))

    def _decided(self, scope: Scope, name: str) -> bool:
        value = scope.pair(name)[0]
        if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1:
            dim = value.flat[0]
            holds = decided(dim) if isinstance(dim, Expr) else bool(dim)
            if holds is None:
                raise Refusal(f"whether {dim} holds is not known at import", KNOW_IT)
            return holds
        return bool(self._number(scope, name, f"the condition {name!r}").flat[0])

    def _number(self, scope: Scope, name: str, what: str) -> Array:
        value = scope.pair(name)[0]
        array = self.evaluate(value) if isinstance(value, Tensor) else value
        if not is_known(array) or array.size != 1:
            raise unknown(f"{what} is not known at import", value)
        return array

    # -- loops -------------------------------------------------------------------------------------

    def loop(self, scope: Scope, node: Proto, depth: int) -> None:
        """Write a loop's body as often as it runs, which must be known."""
        body = self._graph_of(node, "body")
        most, condition = [*node.input, "", ""][:2]
        state = [scope.pair(name) for name in node.input[2:]]
        left = len(body.output) - 1 - len(state)
        if len(body.input) != len(state) + 2 or left < 0:
            raise Refusal("its body does not fit its inputs", DAMAGED)
        if not most and not condition:
            raise Refusal("it has no end", DAMAGED)
        count = None
        if most:
            count = int(self._number(scope, most, "the number of its rounds").flat[0])
        goes_on = self._decided(scope, condition) if condition else True
        rounds, start, at = Rounds(state, left), self.count, 0
        while goes_on and (count is None or at < count):
            inner = scope.inner(f"{_prefix(scope, node)}{at}/")
            number, true = np.array(at, np.int64), np.array(True)
            first = [(number, number), (true, true), *rounds.state]
            for value, (held, ref) in zip(body.input, first, strict=True):
                inner.keep(value.name, held, ref)
            made = self._body(inner, body, depth)
            goes_on = self._decided(inner, body.output[0].name)
            rounds.take(made[1:])
            at += 1
            self._check_length(start, at)
        self._end(scope, node, rounds, body.output[1:])

    def _check_length(self, start: int, rounds: int) -> None:
        if max(self.count - start, rounds) > MOST_UNROLLED:
            raise Refusal(f"unrolled it has more than {MOST_UNROLLED:,} nodes")

    def scan(self, scope: Scope, node: Proto, depth: int) -> None:
        """Write a scan's body once for each slice of what it goes over."""
        if self.opset < 9:
            raise Refusal("scans of batches, as before version 9, are not supported")
        attributes = self.attributes(node)
        body, over = self._graph_of(node, "body"), int(attributes.get("num_scan_inputs", 0))
        carried = len(node.input) - over
        left = len(body.output) - carried
        if over < 1 or carried < 0 or left < 0 or len(body.input) != len(node.input):
            raise Refusal("its body does not fit its inputs", DAMAGED)
        axes = attributes.get("scan_input_axes", [0] * over)
        back = attributes.get("scan_input_directions", [0] * over)
        sources = list(node.input[carried:])
        length = self._length(scope, sources[0], axes[0])
        rounds = Rounds([scope.pair(name) for name in node.input[:carried]], left)
        start = self.count
        for at in range(length):
            inner = scope.inner(f"{_prefix(scope, node)}{at}/")
            for value, (held, ref) in zip(body.input, rounds.state, strict=False):
                inner.keep(value.name, held, ref)
            for k, value in enumerate(body.input[carried:]):
                place = length - 1 - at if back[k] else at
                cut = self._make("lab.select", [sources[k]], value.name, axis=axes[k], index=place)
                self.write(inner, cut)
            rounds.take(self._body(inner, body, depth))
            self._check_length(start, at)
        for part, backward in zip(
            rounds.parts, attributes.get("scan_output_directions", [0] * left), strict=True
        ):
            if backward:
                part.reverse()
        self._end(scope, node, rounds, body.output, attributes.get("scan_output_axes"))

    def _length(self, scope: Scope, name: str, axis: int) -> int:
        value = scope.pair(name)[0]
        if not isinstance(value, (Tensor, np.ndarray)):
            raise Refusal("it goes over no tensor", DAMAGED)
        length = value.shape[axis]
        if not isinstance(length, int):
            raise Refusal(f"it goes over {length} slices", KNOW_IT)
        return length

    def _end(
        self,
        scope: Scope,
        node: Proto,
        rounds: Rounds,
        outputs: Sequence[Proto],
        axes: Sequence[int] | None = None,
    ) -> None:
        """Give a loop's outputs their values: the last state, then what rounds left, stacked."""
        carried = len(rounds.state)
        for name, (value, ref) in zip(node.output, rounds.state, strict=False):
            scope.keep(name, value, ref)
        for at, name in enumerate(node.output[carried:]):
            axis = 0 if axes is None else axes[at]
            if name:
                self._stack(scope, node, name, rounds.parts[at], outputs[carried + at], axis)

    def _stack(
        self,
        scope: Scope,
        node: Proto,
        name: str,
        parts: Sequence[tuple[Value, object]],
        output: Proto,
        axis: int,
    ) -> None:
        """Write the slices that the rounds of a loop have left as one tensor."""
        if not parts:
            kind = output.type.tensor_type
            dims = [dim.dim_value for dim in kind.shape.dim]
            if ELEMENTS.get(kind.elem_type, "string") == "string" or not all(
                dim.HasField("dim_value") for dim in kind.shape.dim
            ):
                raise Refusal("it runs no round, and the shape of what it leaves is not known")
            empty = np.zeros((0, *dims), ELEMENTS[kind.elem_type])
            return scope.keep(name, empty, empty)
        inner = scope.inner(scope.prefix)
        words = [f"{name}/{at}" for at in range(len(parts))]
        for word, (value, ref) in zip(words, parts, strict=True):
            inner.keep(word, value, ref)
        self.write(inner, self._make("lab.stack", words, name, node.name, axis=axis))
        return scope.keep(name, *inner.pair(name))

    def _make(
        self, kind: str, inputs: Sequence[str], output: str, title: str = "", **attributes: int
    ) -> Proto:
        return self.library.helper.make_node(kind, inputs, [output], name=title, **attributes)


Control.graphs = {"If": Control.branch, "Loop": Control.loop, "Scan": Control.scan}
_NUMBERS: Final[dict[str, Any]] = {name: number for number, name in ELEMENTS.items()}


def _prefix(scope: Scope, node: Proto) -> str:
    return f"{scope.prefix}{node.name or title(node).partition('-> ')[2]}/"
