"""ONNX files: read within limits, checked node by node, and made into modules.

    Conv "/stem/conv"  ->  Step("Conv", …, scope="stem.conv")

The file is a stranger's. What it says is counted before anything is allocated, and nothing of it is
executed: each node is written once into a graph of its own, with dims by name. What a model
calculates of its shapes, and of what is known when it is imported, becomes plain numbers there. A
node that cannot become part of a module is refused by its name, and why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import ml_dtypes
import numpy as np

from luminal_lab.core.dims import Dim, Expr, Symbol, free_name, known as decided
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.op import TensorType
from luminal_lab.core.origin import here
from luminal_lab.errors import LabError, ModelError, nearest, visible
from luminal_lab.importing.imported import Imported, Ref, Step, graph_name, named, scope_name
from luminal_lab.importing.onnx_ops import OPS
from luminal_lab.importing.onnx_ops.sizes import are_sizes, calculated
from luminal_lab.importing.onnx_ops.table import ELEMENTS, Call, Refusal, Value, widened
from luminal_lab.reading import read_plain
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources
from luminal_lab.tensor.store import Store

if TYPE_CHECKING:
    import onnx

MOST_BYTES: Final = 1 << 31
"""The most bytes of a model without its external data: protobuf reads no more."""
MOST_NODES: Final = 1 << 17
"""The most nodes of a model, those of unrolled loops and of functions included."""
MOST_UNROLLED: Final = 4096
"""The most nodes that a loop may become."""
MOST_ELEMENTS: Final = 1 << 22
"""The most elements of each value that is calculated at import."""
DEEPEST: Final = 32
"""The deepest nesting of functions and of graphs in attributes."""
EXTRA: Final = "pip install 'luminal-lab[onnx]'"


def from_onnx(path: str | Path, *, known: Mapping[str, object] | None = None) -> Imported:
    """Return the module that an ONNX file describes; its parameters have the file's names.

    Call it with tensors of any graph, in the order of the model's inputs or by their names. Dims
    keep their names. `known` fixes inputs and dims at import, by name: what a model decides by
    them is decided then, and they are no longer arguments.

    >>> import numpy as np, onnx
    >>> from onnx import helper
    >>> x = helper.make_tensor_value_info("x", 1, ["batch", 4])
    >>> y = helper.make_tensor_value_info("y", 1, ["batch", 2])
    >>> w = onnx.numpy_helper.from_array(np.ones((4, 2), "float32"), "w")
    >>> node = helper.make_node("MatMul", ["x", "w"], ["y"])
    >>> graph = helper.make_graph([node], "tiny", [x], [y], [w])
    >>> onnx.save(helper.make_model(graph), "tiny.onnx")
    >>> model = ll.from_onnx("tiny.onnx")
    >>> [*model.parameters()], model(cx.tensor(("n", 4))).shape
    (['w'], (n, 2))
    """
    file = Path(path)
    library = _library()
    try:
        data = read_plain(file, MOST_BYTES)
    except OSError as error:
        raise _wrong(
            f"from_onnx: {file} cannot be read: {error.strerror or error}",
            "give the path of an ONNX file",
        ) from error
    try:
        model = library.load_model_from_string(data)
    except Exception as error:  # protobuf's own, which has no public base
        raise _wrong(
            f"from_onnx: {file.name} is no ONNX model: {_line(error)}",
            "the file may be damaged, or not be an ONNX file",
        ) from error
    return Reader(model, file.name, file.parent, known or {}).module()


def _library() -> Any:  # noqa: ANN401  # an untyped module
    try:
        import onnx  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise _wrong(
            "from_onnx: the package onnx is not installed", f"install it: {EXTRA}"
        ) from error
    return onnx


def _wrong(message: str, hint: str | None = None) -> ModelError:
    return ModelError(message, where=str(here() or "") or None, hint=hint)


def _line(error: BaseException) -> str:
    return visible(" ".join(str(error).split()))[:200]


@dataclass(frozen=True, slots=True)
class Write:
    """Writes a node's op into a graph."""

    op: str
    opset: int
    outputs: int

    def __call__(self, graph: Sources, *inputs: Value, **attributes: object) -> object:
        call = Call(graph, self.op, self.opset, self.outputs, _unknown, _constant_in(graph))
        result = write(call, inputs, attributes)
        return result if self.outputs > 1 else result[0]


def _unknown(_: Tensor) -> Array | None:
    return None


def _constant_in(graph: Sources) -> Callable[[Array], Tensor]:
    def constant(array: Array) -> Tensor:
        uniform = _uniform(graph, array)
        return graph.tensor(array.shape, array.dtype).set(array) if uniform is None else uniform

    return constant


def _uniform(graph: Sources, array: Array) -> Tensor | None:
    """Return an array of equal numbers as a constant."""
    if not array.size:
        return graph.zeros(array.shape, array.dtype)
    first = array.reshape(-1)[0]
    if array.size > 1 and array.tobytes() != first.tobytes() * array.size:
        return None
    dtype = BY_NUMPY[array.dtype]
    return graph.full(array.shape, float(first) if dtype.is_float else first.item(), dtype)


def write(
    call: Call, inputs: Sequence[Value], attributes: Mapping[str, object]
) -> tuple[Value, ...]:
    """Return a node's outputs, and raise a Refusal if they cannot be had."""
    if are_sizes(inputs):
        sizes = calculated(call.op, inputs, dict(attributes), call.outputs)
        if sizes is not None:
            return tuple(sizes)
    result = OPS[call.op](call, inputs, attributes)
    return result if isinstance(result, tuple) else (result,)


@dataclass
class Scope:
    """The names that a graph's nodes see: values, and what refers to each in a step."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    refs: dict[str, object] = field(default_factory=dict[str, object])
    prefix: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those of a function's call, which its nodes refer to."""

    def inner(self, prefix: str) -> Scope:
        """Return the scope of a graph within a node, which sees all names around it."""
        return Scope(dict(self.values), dict(self.refs), prefix, self.attributes)


class Reader:
    """One model as it becomes a module."""

    def __init__(
        self,
        model: Any,
        name: str,
        folder: Path,
        given: Mapping[str, object],  # noqa: ANN401  # untyped
    ) -> None:
        self.library = _library()
        self.model: onnx.ModelProto = model
        self.name = visible(name)
        self.folder = folder
        self.given = dict(given)
        self.graph = Store("import", 0)
        self.arrays: dict[int, Array] = {}  # the values of inputs of the graph, by node
        self.parameters: dict[str, Parameter] = {}
        self.constants: dict[str, Parameter] = {}
        self.weights: dict[str, Array] = {}
        self.steps: list[Step] = []
        self.count = 0
        self.used: set[str] = set()
        self.evaluated: dict[int, Array | None] = {}
        self.opset = 0
        self.functions: dict[tuple[str, str], Any] = {}
        self.symbols: dict[str, str] = {}
        self.input_ids: dict[str, int] = {}
        """The nodes of the model's inputs by their names."""

    # -- the whole -------------------------------------------------------------------------------

    def module(self) -> Imported:
        """Return the module, or raise a ModelError."""
        model = self.model
        self._versions()
        graph = model.graph
        top = Scope()
        for tensor in graph.initializer:
            self._initialise(top, tensor)
        if len(graph.sparse_initializer):
            raise self._error("it has sparse initialisers", "store them dense")
        inputs, types = self._inputs(top, graph)
        self._nodes(top, graph.node)
        outputs: list[object] = []
        for output in graph.output:
            if output.name not in top.refs:
                raise self._error(
                    f"no node makes its output {output.name!r}", "the file is damaged"
                )
            try:
                outputs.append(self._output(top, output))
            except Refusal as refusal:
                raise self._error(f"its output {output.name!r}: {refusal.reason}") from refusal
        live = self._live(outputs)
        words = [output.name for output in graph.output]
        return named(
            graph_name(self.name.removesuffix(".onnx")) or "Model",
            inputs=inputs,
            types=types,
            steps=live,
            outputs=outputs[0] if len(outputs) == 1 else tuple(outputs),
            parameters={n: p for n, p in self.parameters.items() if n in self.used},
            constants={n: p for n, p in self.constants.items() if n in self.used},
            matrices=[
                n for n, p in self.parameters.items() if n in self.used and len(p.shape) == 2
            ],
        )

    def _versions(self) -> None:
        for version in self.model.opset_import:
            if version.domain in ("", "ai.onnx"):
                self.opset = int(version.version)
        newest = self.library.defs.onnx_opset_version()
        local = {(f.domain, f.name): f for f in self.model.functions}
        self.functions = local
        if not self.opset and not local:
            domains = ", ".join(repr(v.domain) for v in self.model.opset_import) or "none"
            raise self._error(
                f"it uses no ops of ONNX's own domain; its domains are {domains}",
                "the file may be damaged, or be of another kind",
            )
        if not 0 <= self.opset <= newest:
            raise self._error(
                f"its opset is {self.opset}, and the package onnx knows those up to {newest}",
                "install a newer onnx, or export the model with an older opset",
            )

    def _error(self, what: str, hint: str | None = None) -> ModelError:
        return _wrong(f"from_onnx: {self.name}: {visible(what)}", hint)

    # -- inputs and initialisers -------------------------------------------------------------------

    def _initialise(self, scope: Scope, tensor: Any) -> None:  # noqa: ANN401  # untyped
        array = self.array(tensor, f"the initialiser {tensor.name!r}")
        name = f"{scope.prefix}{tensor.name}"
        scope.values[tensor.name] = array
        self.weights[name] = array
        scope.refs[tensor.name] = Ref(name)

    def _inputs(
        self,
        scope: Scope,
        graph: Any,  # noqa: ANN401  # untyped
    ) -> tuple[dict[str, Ref], dict[str, TensorType]]:
        inputs: dict[str, Ref] = {}
        types: dict[str, TensorType] = {}
        left = dict(self.given)
        dims = {
            name: value for name, value in left.items() if name not in {i.name for i in graph.input}
        }
        for value in graph.input:
            if value.name in left:
                scope.values[value.name] = array = self._known(value, left.pop(value.name))
                scope.refs[value.name] = array
            elif value.name not in scope.values:
                kind, name = self._type(value, dims, left), graph_name(value.name)
                while name in inputs:
                    name += "_"
                tensor = self.graph.tensor(kind.shape, kind.dtype)
                scope.values[value.name], scope.refs[value.name] = tensor, Ref(name)
                inputs[name], types[name] = Ref(name), kind
                self.input_ids[value.name] = tensor.id
        for name in left:
            words = [value.name for value in graph.input] + [*self.symbols]
            raise self._error(
                f"known has {name!r}, and the model has no such input or dim",
                nearest(name, words) or f"its inputs are {', '.join(words)}",
            )
        return inputs, types

    def _known(self, value: Any, given: object) -> Value:  # noqa: ANN401  # untyped
        kind = value.type
        while kind.WhichOneof("value") == "optional_type":
            if given is None:
                return None
            kind = kind.optional_type.elem_type
        if kind.WhichOneof("value") == "sequence_type":
            element = kind.sequence_type.elem_type.tensor_type.elem_type
            parts = cast("Sequence[object]", given)
            return [self._as_known(element, part) for part in parts]
        return self._as_known(kind.tensor_type.elem_type, given)

    def _as_known(self, element: int, given: object) -> Array:
        name = ELEMENTS.get(element, "")
        array = np.asarray(given)
        if name in ("string", "complex64", "complex128") or array.dtype.kind not in "biufV":
            raise self._error(
                f"known has an array of {name or array.dtype}, which is not supported"
            )
        try:
            wanted = np.dtype(getattr(ml_dtypes, name, None) or name)
        except TypeError:
            wanted = array.dtype
        return array if array.dtype == wanted else array.astype(wanted)

    def _type(self, value: Any, fixed: Mapping[str, object], left: dict[str, object]) -> TensorType:  # noqa: ANN401  # untyped
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            what = (kind or "of no type").removesuffix("_type")
            raise self._refused_input(value.name, f"is {what}, and inputs must be tensors")
        tensor = value.type.tensor_type
        name = ELEMENTS.get(tensor.elem_type, f"of dtype {tensor.elem_type}")
        if name not in [*DType]:
            raise self._refused_input(value.name, f"is {name}, which is no dtype of ours")
        if not tensor.HasField("shape"):
            raise self._refused_input(value.name, "has no rank: its shape is not given")
        shape: list[Dim] = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
                shape.append(int(dim.dim_value))
                continue
            word = dim.dim_param or f"{value.name}_{axis}"
            if word in fixed:
                left.pop(word, None)
                size = fixed[word]
                if not isinstance(size, int) or size < 0:
                    raise self._error(
                        f"the dim {word!r} is known as {size!r}", "give a whole number"
                    )
                shape.append(size)
            else:
                shape.append(self._symbol(word))
        if len(shape) > 64:
            raise self._refused_input(value.name, f"has {len(shape)} axes")
        return TensorType(DType(name), tuple(shape))

    def _symbol(self, word: str) -> Dim:
        if word not in self.symbols:
            name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in word)[
                :60
            ]
            name = free_name(name if name[:1].isalpha() else f"d_{name}")
            while name in self.symbols.values():
                name += "_"
            self.symbols[word] = name
        return self.graph.as_dim(self.symbols[word])

    def _refused_input(self, name: str, why: str) -> ModelError:
        error = self._error(f"the input {name!r} {why}", "known={…} gives its value at import")
        error.needs = (name,)
        return error

    def array(self, tensor: Any, what: str) -> Array:  # noqa: ANN401  # untyped
        """Return the array that a tensor of the file holds, counted before it is made."""
        name = ELEMENTS.get(tensor.data_type)
        if name is None or name in ("string", "complex64", "complex128"):
            shown = name or f"of the unknown dtype {tensor.data_type}"
            raise self._error(f"{what} is {shown}, which is not supported")
        shape = tuple(int(size) for size in tensor.dims)
        if min(shape, default=0) < 0 or len(shape) > 64:
            raise self._error(f"{what} has the shape {shape}", "the file is damaged")
        count = math.prod(shape)
        kind = np.dtype(getattr(ml_dtypes, name, None) or name)
        bits = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}.get(name)
        needed = -(-count * bits // 8) if bits else count * kind.itemsize
        if tensor.data_location == 1:
            raw = self._external(tensor, what, needed)
        elif tensor.HasField("raw_data"):
            raw = tensor.raw_data
        else:
            held = max(
                len(tensor.float_data), len(tensor.int32_data), len(tensor.int64_data),
                len(tensor.double_data), len(tensor.uint64_data),
            )  # fmt: skip
            if held != (count if not bits else -(-count * bits // 8)):
                raise self._error(
                    f"{what} has the shape {shape} and {held} numbers", "the file is damaged"
                )
            return self.library.numpy_helper.to_array(tensor)
        if len(raw) != needed:
            raise self._error(
                f"{what} has the shape {shape}, for which it needs {needed:,} bytes, and it has "
                f"{len(raw):,}",
                "the file is damaged",
            )
        if bits:
            copy = self.library.TensorProto()
            copy.CopyFrom(tensor)
            copy.raw_data = bytes(raw)
            copy.data_location = 0
            return self.library.numpy_helper.to_array(copy)
        return (
            np.frombuffer(
                raw,
                kind.newbyteorder("<")
                if kind.kind in "iuf" and kind.itemsize > 1 and name in np.sctypeDict
                else kind,
            )
            .astype(kind, copy=False)
            .reshape(shape)
        )

    def _external(self, tensor: Any, what: str, needed: int) -> memoryview:  # noqa: ANN401  # untyped
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        hint = "external data must lie in the model's folder, under the name that it had"
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
        except (OSError, ValueError, RuntimeError):
            path = folder.parent
        if (
            not location
            or Path(location).is_absolute()
            or not path.is_relative_to(folder)
            or path == folder
        ):
            raise self._error(f"{what} is in {location!r}, outside the model's folder", hint)
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", str(needed)))
        except ValueError:
            raise self._error(
                f"{what} has no valid place in {location!r}", "the file is damaged"
            ) from None
        if not path.is_file():
            raise self._error(f"{what} is in {location!r}, which is missing", hint)
        size = path.stat().st_size
        if offset < 0 or length != needed or offset + length > size:
            raise self._error(
                f"{what} is at byte {offset:,} of {location!r}, {length:,} bytes; it needs "
                f"{needed:,}, and the file has {size:,}",
                "the file is damaged, or belongs to another model",
            )
        if not length:
            return memoryview(b"")
        return memoryview(np.memmap(path, np.uint8, "r", offset, (length,)))

    # -- nodes -------------------------------------------------------------------------------------

    def _nodes(self, scope: Scope, nodes: Iterable[Any], depth: int = 0) -> None:
        if depth > DEEPEST:
            raise self._error(f"graphs and functions are nested more than {DEEPEST} deep")
        for node in nodes:
            try:
                self._node(scope, node, depth)
            except Refusal as refusal:
                error = self._error(f"{_title(node)}: {refusal.reason}", refusal.hint or None)
                error.needs = tuple(refusal.needs.split("\0")) if refusal.needs else ()
                raise error from refusal
            except ModelError:
                raise
            except LabError as error:
                raise self._error(f"{_title(node)}: {error.message}", error.hint) from error
            except (
                TypeError,
                ValueError,
                IndexError,
                KeyError,
                ArithmeticError,
                AttributeError,
            ) as error:
                raise self._error(
                    f"{_title(node)}: {_line(error)}", "the node may be damaged"
                ) from error

    def _node(self, scope: Scope, node: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        self.count += 1
        if self.count > MOST_NODES:
            raise Refusal(f"the model has more than {MOST_NODES:,} nodes")
        for name in node.input:
            if name and name not in scope.refs:
                raise Refusal(f"no node before it makes its input {name!r}", "the file is damaged")
        node = self._settled(scope, node)
        local = self.functions.get((node.domain, node.op_type))
        if local is not None:
            return self._expand(scope, node, local, depth)
        if node.domain not in ("", "ai.onnx"):
            raise Refusal(f"its domain is {node.domain!r}, and only ONNX's own ops are known")
        if node.op_type in ("If", "Loop", "Scan"):
            return getattr(self, f"_{node.op_type.lower()}")(scope, node, depth)
        if node.op_type not in OPS:
            return self._body(scope, node, depth)
        self._write(scope, node)

    def _attributes(self, node: Any) -> dict[str, Any]:  # noqa: ANN401  # untyped
        return {attribute.name: self._attribute(attribute) for attribute in node.attribute}

    def _settled(self, scope: Scope, node: Any) -> Any:  # noqa: ANN401  # untyped
        """Return a node of a function with the attributes that its call gives it."""
        if not any(attribute.ref_attr_name for attribute in node.attribute):
            return node
        copy = self.library.NodeProto()
        copy.CopyFrom(node)
        del copy.attribute[:]
        for attribute in node.attribute:
            own = attribute
            if attribute.ref_attr_name:
                if attribute.ref_attr_name not in scope.attributes:
                    continue
                own = scope.attributes[attribute.ref_attr_name]
            made = copy.attribute.add()
            made.CopyFrom(own)
            made.name = attribute.name
        return copy

    def _attribute(self, attribute: Any) -> object:  # noqa: ANN401  # untyped
        match attribute.type:
            case 1:
                return float(attribute.f)
            case 2:
                return int(attribute.i)
            case 3:
                return attribute.s.decode("utf-8", "replace")
            case 4:
                return self.array(attribute.t, f"the attribute {attribute.name!r}")
            case 5:
                return attribute.g
            case 6:
                return [float(number) for number in attribute.floats]
            case 7:
                return [int(number) for number in attribute.ints]
            case 8:
                return [text.decode("utf-8", "replace") for text in attribute.strings]
            case _:
                raise Refusal(f"the attribute {attribute.name} is of a kind that is not supported")

    def _write(self, scope: Scope, node: Any) -> None:  # noqa: ANN401  # untyped
        attributes = self._attributes(node)
        names = list(node.input)
        while names and not names[-1]:
            names.pop()
        inputs = [scope.values[name] if name else None for name in names]
        entry = OPS[node.op_type]
        if node.op_type == "Identity" and len(node.output) == 1:
            scope.values[node.output[0]] = scope.values[names[0]]
            scope.refs[node.output[0]] = scope.refs[names[0]]
            return
        call = Call(
            self.graph, node.op_type, self.opset, len(node.output), self.evaluate, self.constant
        )
        args: list[object] = []
        sizes = are_sizes(inputs)
        result: Sequence[Value] | None = None
        if sizes:
            result = calculated(call.op, inputs, attributes, call.outputs)
            args = [scope.refs[name] if name else None for name in names]
            if result is not None:
                args = [self._literal(ref, value) for ref, value in zip(args, inputs, strict=True)]
        if result is None:
            args = []
            for at, name in enumerate(names):
                kind = entry.inputs[at][1] if at < len(entry.inputs) else entry.rest
                value, ref = inputs[at], scope.refs[name] if name else None
                if value is None:
                    args.append(None)
                elif kind in ("Tensor", "Stored"):
                    if kind == "Stored" and isinstance(value, np.ndarray) and value.dtype != object:
                        value = widened(value)
                    inputs[at], ref = self._as_tensor(name, value, ref, scope)
                    args.append(ref)
                elif kind in ("Known", "Sizes"):
                    try:
                        if isinstance(value, Tensor):
                            inputs[at] = value = call.known(value, name)
                            ref = value
                        elif kind == "Known":
                            call.known(value, name)
                    except Refusal as refusal:
                        refusal.needs = self._needs(value)
                        if refusal.needs:
                            words = ", ".join(map(repr, refusal.needs.split("\0")))
                            refusal.hint = f"give the input {words} by known={{…}}"
                        raise
                    args.append(self._literal(ref, value))
                else:
                    args.append(self._literal(ref, value))
            made = entry(call, inputs, attributes)
            result = made if isinstance(made, tuple) else (made,)
        self._keep(scope, node, result, args, attributes)

    def _keep(
        self,
        scope: Scope,
        node: Any,
        result: Sequence[Value],
        args: list[object],
        attributes: Any,  # noqa: ANN401  # untyped
    ) -> None:
        """Note a node's results, and the step that makes them, unless all of them are known."""
        results: list[str] = []
        for name, value in zip(node.output, result, strict=False):
            full = f"{scope.prefix}{name}"
            scope.values[name] = value
            if isinstance(value, np.ndarray) and value.dtype != object:
                scope.refs[name] = value
                results.append("")
            elif name:
                scope.refs[name] = Ref(full)
                results.append(full)
            else:
                results.append("")
        if any(results):
            if len(node.output) > 1:
                results += [""] * (len(node.output) - len(results))
            self.steps.append(
                Step(
                    node.op_type,
                    Write(node.op_type, self.opset, len(node.output)),
                    tuple(args),
                    tuple(results),
                    attributes,
                    scope_name(f"{scope.prefix}{node.name}") if node.name else "",
                )
            )

    def _literal(self, ref: object, value: Value) -> object:
        """Return a value itself where it is known, and else what refers to it."""
        if isinstance(value, np.ndarray) and value.dtype != object:
            return value
        return ref

    def _as_tensor(
        self, name: str, value: Value, ref: object, scope: Scope
    ) -> tuple[Value, object]:
        """Return a value as a tensor of the import's graph, and what refers to it in a step."""
        if not isinstance(value, np.ndarray) or value.dtype == object:
            return value, ref
        if value.dtype not in BY_NUMPY:
            raise Refusal(f"its input {name!r} is {value.dtype}, which is no dtype of ours")
        if isinstance(ref, Ref) and ref.name in self.weights:
            parameter = self.parameters.get(ref.name)
            if parameter is None:
                parameter = Parameter(
                    value.shape, value.dtype, trainable=BY_NUMPY[value.dtype].is_float
                )
                parameter.set(value, copy=False)
                self.parameters[ref.name] = parameter
            return self._lent(parameter, value), ref
        uniform = _uniform(self.graph, value)
        if uniform is not None:
            return uniform, value
        full = f"{scope.prefix}{name}"
        while full in self.constants and self.constants[full].value is not value:
            full += "_"
        if full not in self.constants:
            constant = Parameter(value.shape, value.dtype, trainable=False)
            constant.set(np.ascontiguousarray(value), copy=False)
            self.constants[full] = constant
        return self._lent(self.constants[full], value), Ref(full)

    def _lent(self, parameter: Parameter, array: Array) -> Tensor:
        tensor = self.graph.parameter(parameter)
        self.arrays[tensor.id] = array
        return tensor

    def constant(self, array: Array) -> Tensor:
        """Write an array into the import's graph."""
        uniform = _uniform(self.graph, array)
        if uniform is not None:
            return uniform
        tensor = self.graph.tensor(array.shape, array.dtype).set(array)
        self.arrays[tensor.id] = array
        return tensor

    def evaluate(self, tensor: Tensor) -> Array | None:
        """Return the value of a tensor that depends on nothing but what is known, or None."""
        if tensor.id not in self.evaluated:
            self.evaluated[tensor.id] = self._evaluated(tensor)
        return self.evaluated[tensor.id]

    def _evaluated(self, tensor: Tensor) -> Array | None:
        ir = self.graph.ir
        for id in ir.ancestors([tensor.id]):
            node = ir[id]
            if node.op.name in ("input", "random") and id not in self.arrays:
                return None
            for type in node.types:
                if any(isinstance(dim, Expr) for dim in type.shape):
                    return None
                if math.prod(cast("tuple[int, ...]", type.shape)) > MOST_ELEMENTS:
                    return None
            if any(isinstance(value, Expr) for value in vars_of(node.op)):
                return None
        values = interpret(ir, Environment(lambda node: self.arrays[node.id]), wanted=[tensor.id])
        return values[tensor.id]

    def _needs(self, value: Value) -> str:
        """Return the names of the model's inputs that a value depends on."""
        if not isinstance(value, Tensor):
            return ""
        ir = self.graph.ir
        behind = ir.ancestors([value.id])
        return "\0".join(name for name, id in self.input_ids.items() if id in behind)

    # -- graphs within nodes -----------------------------------------------------------------------

    def _expand(
        self,
        scope: Scope,
        node: Any,
        function: Any,
        depth: int,
        defaults: Sequence[Any] = (),  # noqa: ANN401  # untyped
    ) -> None:
        """Write the body of a function in place of its call."""
        given = [*defaults, *function.attribute_proto]
        attributes = {attribute.name: attribute for attribute in [*given, *node.attribute]}
        inner = Scope(prefix=f"{scope.prefix}{node.name or node.output[0]}/", attributes=attributes)
        for at, name in enumerate(function.input):
            given = node.input[at] if at < len(node.input) else ""
            inner.values[name] = scope.values[given] if given else None
            inner.refs[name] = scope.refs[given] if given else None
        opset = self.opset
        for version in function.opset_import:
            if version.domain in ("", "ai.onnx"):
                self.opset = int(version.version)
        try:
            self._nodes(inner, function.node, depth + 1)
        finally:
            self.opset = opset
        for name, own in zip(node.output, function.output, strict=False):
            if name:
                scope.values[name], scope.refs[name] = inner.values[own], inner.refs[own]

    def _body(self, scope: Scope, node: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        """Write what ONNX itself says that an op is made of, if it does."""
        function, defaults = self._function_of(scope, node)
        if function is None:
            raise self._missing(node)
        self._expand(scope, node, function, depth, defaults)

    def _missing(self, node: Any) -> ModelError:  # noqa: ANN401  # untyped
        kinds = "strings" if "String" in node.op_type else ""
        why = f"there is nothing to write {kinds or 'it'} with"
        error = self._error(f"{_title(node)}: {why}", nearest(node.op_type, OPS))
        error.missing = [node.op_type]
        return error

    def _function_of(self, scope: Scope, node: Any) -> tuple[Any, list[Any]]:  # noqa: ANN401  # untyped
        """Return the function that an op is, if it is one, and the defaults of its attributes."""
        defs = self.library.defs
        try:
            schema = defs.get_schema(node.op_type, self.opset, node.domain)
        except Exception:  # noqa: BLE001  # its own, which has no public name
            return None, []
        defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
        if schema.has_function:
            return schema.function_body, defaults
        if not schema.has_context_dependent_function:
            return None, []
        types = [
            self._type_proto(scope.values[name]) if name else self.library.TypeProto()
            for name in node.input
        ]
        text = schema.get_context_dependent_function(
            node.SerializeToString(), [kind.SerializeToString() for kind in types]
        )
        function = self.library.FunctionProto()
        function.ParseFromString(text)
        return function, defaults

    def _type_proto(self, value: Value) -> Any:  # noqa: ANN401  # untyped
        helper = self.library.helper
        if isinstance(value, Tensor):
            number = {name: number for number, name in ELEMENTS.items()}[str(value.dtype)]
            shape: Any = [dim if isinstance(dim, int) else str(dim) for dim in value.shape]
        elif isinstance(value, np.ndarray):
            dtype = "int64" if value.dtype == object else str(value.dtype)
            number = {name: number for number, name in ELEMENTS.items()}[dtype]
            shape = list(value.shape)
        elif isinstance(value, list):
            return helper.make_sequence_type_proto(
                self._type_proto(value[0] if value else np.zeros(0, np.float32))
            )
        else:
            return self.library.TypeProto()
        return helper.make_tensor_type_proto(number, shape)

    def _if(self, scope: Scope, node: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        attributes = self._attributes(node)
        holds = self._decided(scope, node.input[0])
        body = attributes["then_branch" if holds else "else_branch"]
        inner = scope.inner(f"{scope.prefix}{node.name or node.output[0]}/")
        self._graph(inner, body, depth)
        for name, output in zip(node.output, body.output, strict=True):
            if name:
                scope.values[name], scope.refs[name] = (
                    inner.values[output.name],
                    inner.refs[output.name],
                )

    def _loop(self, scope: Scope, node: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        """Write a loop's body as often as it runs, which must be known."""
        body = self._attributes(node)["body"]
        names = [*node.input, "", ""]
        count: int | None = None
        if names[0]:
            most = self._number(scope, names[0], "the number of its rounds")
            count = int(most.reshape(-1)[0])
        goes_on = self._decided(scope, names[1]) if names[1] else True
        if count is None and not names[1]:
            raise Refusal("it has no end", "the file may be damaged")
        state = [(scope.values[n], scope.refs[n]) for n in node.input[2:]]
        carried = len(state)
        if len(body.input) != carried + 2 or len(body.output) < carried + 1:
            raise Refusal("its body does not fit its inputs", "the file is damaged")
        parts: list[list[tuple[Value, object]]] = [[] for _ in body.output[1 + carried :]]
        start, round = self.count, 0
        inner = scope
        while goes_on and (count is None or round < count):
            inner = scope.inner(f"{scope.prefix}{node.name or node.output[0]}/{round}/")
            number: Array = np.array(round, np.int64)
            first = [(number, number), (np.array(True), np.array(True))]
            for value, (held, ref) in zip(body.input, [*first, *state], strict=True):
                inner.values[value.name], inner.refs[value.name] = held, ref
            self._graph(inner, body, depth)
            goes_on = self._decided(inner, body.output[0].name)
            made = [(inner.values[o.name], inner.refs[o.name]) for o in body.output[1:]]
            state = made[:carried]
            for part, one in zip(parts, made[carried:], strict=True):
                part.append(one)
            round += 1
            if self.count - start > MOST_UNROLLED:
                raise Refusal(f"unrolled it has more than {MOST_UNROLLED:,} nodes")
        for name, (value, ref) in zip(node.output, state, strict=False):
            if name:
                scope.values[name], scope.refs[name] = value, ref
        for name, part, output in zip(
            node.output[carried:], parts, body.output[1 + carried :], strict=False
        ):
            if name:
                self._stacked(scope, node, name, part, output, 0)

    def _scan(self, scope: Scope, node: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        """Write a scan's body once for each slice of what it goes over."""
        if self.opset < 9:
            raise Refusal("scans of batches, as before version 9, are not supported")
        attributes = self._attributes(node)
        body, over = attributes["body"], int(attributes["num_scan_inputs"])
        carried = len(node.input) - over
        made = len(body.output) - carried
        if over < 1 or carried < 0 or made < 0 or len(body.input) != len(node.input):
            raise Refusal("its body does not fit its inputs", "the file is damaged")
        axes = attributes.get("scan_input_axes", [0] * over)
        back = attributes.get("scan_input_directions", [0] * over)
        state = [(scope.values[n], scope.refs[n]) for n in node.input[:carried]]
        sources = list(node.input[carried:])
        lengths: list[Dim] = []
        for name, axis in zip(sources, axes, strict=True):
            value = scope.values[name]
            if not isinstance(value, (Tensor, np.ndarray)):
                raise Refusal("it goes over no tensor", "the file is damaged")
            lengths.append(value.shape[axis])
        length = lengths[0]
        if not isinstance(length, int):
            raise Refusal(f"it goes over {length} slices", "fix the dim by known={…}")
        parts: list[list[tuple[Value, object]]] = [[] for _ in range(made)]
        start = self.count
        for round in range(length):
            inner = scope.inner(f"{scope.prefix}{node.name or node.output[0]}/{round}/")
            for value, (held, ref) in zip(body.input, state, strict=False):
                inner.values[value.name], inner.refs[value.name] = held, ref
            for at, value in enumerate(body.input[carried:]):
                place = length - 1 - round if back[at] else round
                slice = self._make(
                    "lab.select", [sources[at]], value.name, axis=axes[at], index=place
                )
                self._write(inner, slice)
            self._graph(inner, body, depth)
            made_now = [(inner.values[o.name], inner.refs[o.name]) for o in body.output]
            state = made_now[:carried]
            for part, one in zip(parts, made_now[carried:], strict=True):
                part.append(one)
            if self.count - start > MOST_UNROLLED:
                raise Refusal(f"unrolled it has more than {MOST_UNROLLED:,} nodes")
        for name, (value, ref) in zip(node.output, state, strict=False):
            if name:
                scope.values[name], scope.refs[name] = value, ref
        directions = attributes.get("scan_output_directions", [0] * made)
        places = attributes.get("scan_output_axes", [0] * made)
        for at, name in enumerate(node.output[carried:]):
            if name:
                part = parts[at][::-1] if directions[at] else parts[at]
                self._stacked(scope, node, name, part, body.output[carried + at], places[at])

    def _stacked(
        self,
        scope: Scope,
        node: Any,  # noqa: ANN401  # untyped
        name: str,
        parts: Sequence[tuple[Value, object]],
        output: Any,  # noqa: ANN401  # untyped
        axis: int,
    ) -> None:
        """Write the slices that the rounds of a loop have made as one tensor."""
        inner = scope.inner(scope.prefix)
        if not parts:
            kind = self._type(output, {}, {})
            if any(isinstance(dim, Expr) for dim in kind.shape):
                raise Refusal("it runs no round, and the shape of what it makes is not known")
            scope.values[name] = scope.refs[name] = np.zeros((0, *kind.shape), kind.dtype.numpy)  # pyright: ignore[reportArgumentType]  # numbers
            return
        words = [f"{name}/{at}" for at in range(len(parts))]
        for word, (value, ref) in zip(words, parts, strict=True):
            inner.values[word], inner.refs[word] = value, ref
        self._write(inner, self._make("lab.stack", words, name, axis=axis, title=node.name))
        scope.values[name], scope.refs[name] = inner.values[name], inner.refs[name]

    def _make(
        self, kind: str, inputs: Sequence[str], output: str, title: str = "", **attributes: int
    ) -> Any:  # noqa: ANN401  # untyped
        return self.library.helper.make_node(kind, inputs, [output], name=title, **attributes)

    def _number(self, scope: Scope, name: str, what: str) -> Array:
        value = scope.values[name]
        array = self.evaluate(value) if isinstance(value, Tensor) else value
        if not isinstance(array, np.ndarray) or array.dtype == object or array.size != 1:
            raise Refusal(
                f"{what} is not known at import",
                "known={…} gives an input's value",
                self._needs(value),
            )
        return array

    def _output(self, scope: Scope, output: Any) -> object:  # noqa: ANN401  # untyped
        """Return what refers to an output, as a tensor."""
        value, ref = scope.values[output.name], scope.refs[output.name]
        if isinstance(value, Tensor):
            return ref
        if value is None:
            raise self._error(f"its output {output.name!r} is an optional without a value")
        if isinstance(value, np.ndarray) and value.dtype != object:
            _, ref = self._as_tensor(output.name, value, ref, scope)
            if isinstance(ref, Ref):
                return ref
        name = f"{output.name}/tensor"
        write = Write("lab.tensor", self.opset, 1)
        self.steps.append(Step("lab.tensor", write, (ref,), (name,)))
        return Ref(name)

    def _live(self, outputs: Sequence[object]) -> list[Step]:
        """Return the steps that outputs depend on, and note the parameters that these read."""
        wanted = {ref.name for ref in outputs if isinstance(ref, Ref)}
        live: list[Step] = []
        for step in reversed(self.steps):
            if wanted.intersection(step.results):
                live.append(step)
                wanted.update(step.refs())
        self.used = wanted
        return live[::-1]

    def _graph(self, inner: Scope, body: Any, depth: int) -> None:  # noqa: ANN401  # untyped
        for tensor in body.initializer:
            self._initialise(inner, tensor)
        self._nodes(inner, body.node, depth + 1)

    def _decided(self, scope: Scope, name: str) -> bool:
        value = scope.values[name]
        if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1:
            dim = value.reshape(-1)[0]
            holds = decided(dim) if isinstance(dim, Expr) else bool(dim)
            if holds is not None:
                return holds
            raise Refusal(f"whether {dim} holds is not known at import", "fix the dim by known={…}")
        array = self.evaluate(value) if isinstance(value, Tensor) else value
        if not isinstance(array, np.ndarray) or array.size != 1:
            raise Refusal(
                f"it depends on {name!r}, whose value is not known at import",
                "known={…} gives an input's value at import",
                self._needs(value),
            )
        return bool(array.reshape(-1)[0])


def vars_of(op: object) -> list[object]:
    """Return the values of an op's fields."""
    return [getattr(op, name) for name in getattr(op, "__dataclass_fields__", ())]


def _title(node: Any) -> str:  # noqa: ANN401  # untyped
    name = node.name or (f"-> {node.output[0]}" if len(node.output) else "")
    return visible(f"{node.op_type} {name!r}" if node.name else f"{node.op_type} {name}")
