"""ONNX files as modules: read within limits, checked node by node, refused by name.

    Conv "/stem/conv"  ->  Step("Conv", …, scope="stem.conv")

The file is a stranger's. What it says is counted before anything is allocated, and nothing of it is
executed: each node is written once into a graph of its own, with dims by name. What a model
calculates of its shapes, and of what is known when it is imported, becomes plain numbers there. A
node that cannot become part of a module is refused by its name, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import numpy as np

from luminal_lab.core.dims import Dim, Symbol, free_name
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import TensorType
from luminal_lab.errors import DimError, ModelError, ShapeError, expect, nearest, whole_number
from luminal_lab.importing.imported import Imported, Ref, Step, graph_name, named
from luminal_lab.importing.onnx_control import OURS, Control
from luminal_lab.importing.onnx_file import (
    MOST_AXES,
    NOT_OURS,
    Proto,
    numpy_dtype,
    read_model,
)
from luminal_lab.importing.onnx_nodes import Scope, Write
from luminal_lab.importing.onnx_ops.table import DAMAGED, ELEMENTS, Refusal, Value, is_known
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told

READ_AS_MATRICES: Final = frozenset(["MatMul", "Gemm", "Gather"])
"""The ops whose weights `ll.quantise` may mark."""


@told
def from_onnx(path: str | Path, *, known: Mapping[str, object] | None = None) -> Imported:
    """Return the module that an ONNX file describes; its parameters have the file's names.

    Call it with tensors of any graph, in the order of the model's inputs or by their names. Dims
    that the file names may have any size. `known` fixes inputs and dims at import, by name: what a
    model decides by them is decided then, and such inputs are no longer arguments. A dim may also
    be a `Symbol`, with bounds or as a multiple. docs/onnx_models.md says what is supported.

    >>> from onnx import parser
    >>> text = '''<ir_version: 8, opset_import: ["": 18]>
    ... tiny (float[batch, 4] x) => (float[batch, 2] y)
    ... <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }'''
    >>> _ = Path("tiny.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    >>> model = ll.from_onnx("tiny.onnx")
    >>> [*model.parameters()], model(cx.tensor(("n", 4))).shape
    (['w'], (n, 2))
    """
    hint = "name an ONNX file"
    if hasattr(path, "SerializeToString"):
        hint = "onnx.save(model, path) writes a model to a file"
    expect(path, str | Path, "from_onnx: {} is no path", hint)
    file = Path(path)
    model = read_model(file, "from_onnx")
    return module_of(model, file.name, file.parent, known)


def module_of(
    model: Proto, name: str, folder: Path, known: Mapping[str, object] | None = None
) -> Imported:
    """Return the module that a model of the package onnx describes."""
    return Reader(model, name, folder, known or {}).module()


class Reader(Control):
    """One model as it becomes a module."""

    def __init__(self, model: Proto, name: str, folder: Path, known: Mapping[str, object]) -> None:
        super().__init__(name, folder)
        self.model = model
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.known = dict(known)
        self.used: set[str] = set()
        """The names that the steps of the module read."""
        self.dims: dict[str, str] = {}
        """The names of dims in the file, and in the module."""

    def module(self) -> Imported:
        """Return the module, or raise a ModelError."""
        self._check_versions()
        graph, scope = self.model.graph, Scope()
        self.check_functions(graph.node)
        if len(graph.sparse_initializer):
            raise self.error("it has sparse initialisers", "store them dense")
        for tensor in graph.initializer:
            self.initialise(scope, tensor)
        inputs, types = self._inputs(scope, graph)
        self.nodes(scope, graph.node)
        outputs = [self._output(scope, output.name) for output in graph.output]
        steps = self._live(outputs)
        parameters = {n: p for n, p in self.parameters.items() if n in self.used}
        return named(
            graph_name(self.name.removesuffix(".onnx")) or "Model",
            inputs=inputs,
            types=types,
            steps=steps,
            outputs=outputs[0] if len(outputs) == 1 else tuple(outputs),
            parameters=parameters,
            constants={n: p for n, p in self.constants.items() if n in self.used},
            matrices=self._matrices(steps),
        )

    def _check_versions(self) -> None:
        versions = {v.domain: int(v.version) for v in self.model.opset_import}
        self.opset = max((versions.get(domain, 0) for domain in OURS), default=0)
        newest = self.library.defs.onnx_opset_version()
        if not self.opset and not self.functions:
            domains = ", ".join(map(repr, versions)) or "none"
            raise self.error(
                f"it uses no ops of ONNX's own domain; its domains are {domains}",
                "only ONNX's own ops are known",
            )
        if not 0 <= self.opset <= newest:
            raise self.error(
                f"its opset is {self.opset}, and the package onnx knows those up to {newest}",
                "install a newer onnx, or export the model with an older opset",
            )

    # -- inputs ------------------------------------------------------------------------------------

    def _inputs(self, scope: Scope, graph: Proto) -> tuple[dict[str, Ref], dict[str, TensorType]]:
        """Return the inputs that stay arguments, and their types."""
        inputs: dict[str, Ref] = {}
        types: dict[str, TensorType] = {}
        given = dict(self.known)
        for value in graph.input:
            if value.name in given:
                array = self._known(value.type, given.pop(value.name))
                scope.keep(value.name, array, array)
            elif value.name not in scope.refs:
                name = self._argument(value.name, inputs)
                try:
                    types[name] = self._type(value, given)
                    tensor = self.graph.tensor(types[name].shape, types[name].dtype)
                except (DimError, ShapeError) as error:
                    what = f"the input {value.name!r}: {error.message}"
                    raise self.error(what, error.hint) from error
                inputs[name] = Ref(name)
                scope.keep(value.name, tensor, Ref(name))
                self.input_ids[value.name] = tensor.id
        words = [value.name for value in graph.input] + [*self.dims]
        for name in given:
            if name not in self.dims:
                raise self.error(
                    f"known has {name!r}, and the model has no such input or dim",
                    nearest(name, words) or f"it has {', '.join(words)}",
                )
        return inputs, types

    def _argument(self, name: str, taken: Mapping[str, object]) -> str:
        word = graph_name(name)
        while word in taken or (word != name and word in self.weights):
            word += "_"
        return word

    def _known(self, kind: Proto, given: object) -> Value:
        """Return an input's value that is given at import: an array, a sequence of them, None."""
        while kind.WhichOneof("value") == "optional_type":
            if given is None:
                return None
            kind = kind.optional_type.elem_type
        if kind.WhichOneof("value") == "sequence_type":
            element = kind.sequence_type.elem_type.tensor_type.elem_type
            return [self._array(element, part) for part in cast("Sequence[object]", given)]
        return self._array(kind.tensor_type.elem_type, given)

    def _array(self, element: int, given: object) -> Array:
        name = ELEMENTS.get(element, "")
        array = np.asarray(given)
        if name in NOT_OURS or array.dtype.kind not in "biufV":
            raise self.error(f"known has an array of {name or array.dtype}, which is not supported")
        return array.astype(numpy_dtype(name), copy=False) if name else array

    def _type(self, value: Proto, given: Mapping[str, object]) -> TensorType:
        """Return the type of an input that stays an argument."""
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            what = (kind or "of no type").removesuffix("_type")
            raise self._refused(value.name, f"is {what}, and arguments must be tensors")
        tensor = value.type.tensor_type
        name = ELEMENTS.get(tensor.elem_type, f"of the unknown dtype {tensor.elem_type}")
        if name not in [*DType]:
            raise self._refused(value.name, f"is {name}, which is no dtype of ours")
        if not tensor.HasField("shape"):
            raise self._refused(value.name, "has no rank: its shape is not given")
        if len(tensor.shape.dim) > MOST_AXES:
            raise self._refused(value.name, f"has {len(tensor.shape.dim)} axes")
        dims = [
            int(dim.dim_value)
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else self._dim(dim.dim_param.strip("?") or f"{value.name}_{axis}", given)
            for axis, dim in enumerate(tensor.shape.dim)
        ]
        return TensorType(DType(name), tuple(dims))

    def _dim(self, word: str, given: Mapping[str, object]) -> Dim:
        """Return the size of a dim if it is given, or else the dim by a name that a graph takes."""
        if word not in self.dims:
            name = re.sub(r"\W", "_", word, flags=re.ASCII)[:60]
            name = free_name(name if name[:1].isalpha() else f"d_{name}")
            while name in self.dims.values():
                name += "_"
            self.dims[word] = name
        if word not in given:
            return self.graph.as_dim(self.dims[word])
        if isinstance(given[word], Symbol):
            return self.graph.as_dim(cast("Symbol", given[word]))
        size = whole_number(given[word])
        if size is None or size < 0:
            raise self.error(
                f"known has {given[word]!r} for the dim {word!r}", "give its size, or a Symbol"
            )
        return size

    def _refused(self, name: str, why: str) -> ModelError:
        error = self.error(f"the input {name!r} {why}", "known={…} gives its value at import")
        error.needs = (name,)
        return error

    # -- outputs -----------------------------------------------------------------------------------

    def _output(self, scope: Scope, name: str) -> Ref:
        """Return what refers to an output, as a tensor or a list of them."""
        if name not in scope.refs:
            raise self.error(f"no node makes its output {name!r}", DAMAGED)
        value, ref = scope.pair(name)
        if value is None:
            raise self.error(f"its output {name!r} is an optional without a value")
        try:
            if is_known(value) or isinstance(value, Tensor):
                _, ref = self.as_tensor(name, value, ref)
        except Refusal as refusal:
            raise self.error(f"its output {name!r}: {refusal.reason}") from refusal
        if isinstance(value, Tensor) and isinstance(ref, Ref):
            return ref
        if isinstance(ref, Ref) and ref.name in {*self.parameters, *self.constants}:
            return ref
        made = Ref(f"{name}/tensor")
        write = Write("lab.tensor", self.opset, 1)
        self.steps.append(Step("lab.tensor", write, (ref,), (made.name,)))
        return made

    def _live(self, outputs: Sequence[Ref]) -> list[Step]:
        """Return the steps that outputs depend on, and note what these read."""
        self.used = {ref.name for ref in outputs}
        live: list[Step] = []
        for step in reversed(self.steps):
            if self.used.intersection(step.results):
                live.append(step)
                self.used.update(step.refs())
        return live[::-1]

    def _matrices(self, steps: Sequence[Step]) -> list[str]:
        """Return the names of weights that products and look-ups read as matrices."""
        read = {name for step in steps if step.target in READ_AS_MATRICES for name in step.refs()}
        return [n for n, p in self.parameters.items() if n in read and len(p.shape) == 2]
