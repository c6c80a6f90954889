"""What a file of a model holds, and what of it is not here: read, and nothing run or unpickled.

net.onnx: an ONNX model, opset 17, by pytorch 2.13
inputs    image  f32[batch, 1, 8, 8]
outputs   digit  f32[batch, 10]
holds     1,378 values in 4 tensors, 5.5 KB: float32
ops       Conv, Flatten, Gemm, MaxPool, Relu, Softmax
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.printer import as_text
from luminal_lab.errors import InputError, counted, visible
from luminal_lab.importing.aten.table import OPS as ATEN, REFUSED
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.importing.onnx_file import library, read_model
from luminal_lab.importing.onnx_ops.table import ELEMENTS, OPS as ONNX
from luminal_lab.importing.weights import Weights, read_weights
from luminal_lab.nn.gguf import GGUF
from luminal_lab.reading import read_json, room
from luminal_lab.tables import aligned
from luminal_lab.tensor.arguments import told_object

Entries: TypeAlias = Mapping[str, Any]
MOST_PROGRAM: Final = 1 << 28
"""The most bytes of a program's JSON."""
DAMAGES: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError),
    *(ValueError, LookupError, TypeError, AttributeError, OverflowError),
)
"""What reading a damaged zip, or a JSON of another form, raises."""
TORCH_DTYPES: Final = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32",
    8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16",
    28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2",
}  # fmt: skip
"""The numbers of dtypes in a program of torch.export."""
SYMBOL: Final = re.compile(r"Symbol\('(\w+)'[^()]*\)")
SYMBOLS: Final = ("_operator.", "torch.sym_", "math.")
"""What begins the names of a program's arithmetic on sizes."""
NOT_HERE: Final = "there is no such op here"
NOT_IN_TORCH: Final = (
    "there is no such op here, unless PyTorch, where it is installed, has others for it"
)
MOST_SHOWN: Final = 12
MOST_WORD: Final = 40
"""The most letters of an architecture's name."""


class StoredValue(NamedTuple):
    """One tensor of a file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@told_object("contents")
@dataclass(frozen=True, repr=False)
class FileContents:
    """What a file holds; `print(…)` shows it."""

    name: str
    kind: FileKind
    made: str = ""
    """By which program, and in which version of the format."""
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """The type of each input."""
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    values: tuple[StoredValue, ...] = ()
    ops: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each op is used."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """The ops and dtypes that are not here, each with the reason."""
    tree: str = ""
    """Weights without a model, as the tree that their names tell."""
    needs: Mapping[str, int] = field(default_factory=dict[str, int])
    """The bytes that it takes in memory, by what for."""

    @property
    def bytes(self) -> int:
        """The bytes of all values."""
        return sum(value.bytes for value in self.values)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dims that are open."""
        words = [type.partition("[")[2].rstrip("]") for type in self.inputs.values()]
        names = [name for word in words for name in word.split(", ")]
        return tuple(dict.fromkeys(name for name in names if name.isidentifier()))

    def as_json(self) -> dict[str, object]:
        """Return it for a program."""
        return {
            "file": self.name,
            "kind": self.kind.name.lower(),
            "made": self.made,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "values": [value._asdict() for value in self.values],
            "ops": dict(self.ops),
            "missing": dict(self.missing),
            "needs": dict(self.needs),
        }

    @override
    def __str__(self) -> str:
        title = f"{self.name}: {self.kind.value}" + (f", {self.made}" if self.made else "")
        rows: list[tuple[str, str]] = []
        rows += _named("inputs", [f"{name}  {type}" for name, type in self.inputs.items()])
        rows += _named("outputs", [f"{name}  {type}" for name, type in self.outputs.items()])
        rows += _named("holds", self._held())
        used = [f"{op} × {n}" if n > 1 else op for op, n in sorted(self.ops.items())]
        rows += _named("ops", [", ".join(used[k : k + 8]) for k in range(0, len(used), 8)])
        rows += _named("not here", [f"{what}: {why}" for what, why in self.missing.items()])
        needs = [f"{counted(size, 'byte')} for {what}" for what, size in self.needs.items()]
        rows += _named("needs", needs)
        lines = [line.rstrip() for line in aligned([("<", ""), ("<", "")], rows)[1:]]
        return "\n".join([title, *lines, *([self.tree] if self.tree else [])])

    def _held(self) -> Iterator[str]:
        groups: dict[str, list[StoredValue]] = {}
        for value in self.values:
            groups.setdefault(value.dtype, []).append(value)
        for dtype, values in groups.items():
            count = sum(prod(value.shape) for value in values)
            tensors = counted(len(values), "tensor")
            size = sum(value.bytes for value in values)
            yield f"{counted(count, 'value')} in {tensors}, {counted(size, 'byte')}: {dtype}"

    @override
    def __repr__(self) -> str:
        return f"<FileContents of {self.name}: {self.kind.value}; print(…) shows it>"

    _repr_mimebundle_ = as_text


def _named(name: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return rows of a table, with a name before the first; of very many the first ones."""
    shown = [*lines]
    if len(shown) > MOST_SHOWN:
        shown = [*shown[:MOST_SHOWN], f"and {len(shown) - MOST_SHOWN:,} more"]
    return [(name if not at else "", line) for at, line in enumerate(shown)]


def contents(path: str | Path) -> FileContents:
    """Return what a file of a model, or of weights, holds.

    >>> from tempfile import TemporaryDirectory
    >>> from luminal_lab.importing.contents import contents
    >>> with TemporaryDirectory() as folder:
    ...     ll.nn.Linear(2, 3).save(f"{folder}/head.safetensors")
    ...     print(contents(f"{folder}/head.safetensors"))
    head.safetensors: weights in safetensors
    holds  9 values in 2 tensors, 36 bytes: float32
    Weights()  9 parameters
      bias (3,) float32
      weight (3, 2) float32
    """
    path = Path(path)
    kind = supported(path, "inspect")
    if kind is FileKind.RECORDING:
        raise InputError(
            f"inspect: {path} is a recording, and no model", hint=f"luminal-lab open {path} --text"
        )
    if kind is FileKind.ONNX:
        return _of_onnx(path)
    if kind is FileKind.EXPORTED:
        return _of_program(path)
    if kind is FileKind.GGUF:
        return _of_gguf(path)
    weights = read_weights(path, "inspect")
    return FileContents(path.resolve().name, kind, values=_of_weights(weights), tree=str(weights))


def _of_weights(weights: Weights) -> tuple[StoredValue, ...]:
    return tuple(
        StoredValue(name, str(p.dtype), p.shape, prod(p.shape) * p.dtype.itemsize)
        for name, p in weights.parameters().items()
    )


def _of_gguf(path: Path) -> FileContents:
    """Read what a GGUF file says; of its values only where they are."""
    file = GGUF(path, "inspect")
    made = [f"version {file.version}"]
    architecture = file.keys.get("general.architecture")
    if isinstance(architecture, str):
        made.append(visible(architecture)[:MOST_WORD])
    made.append(counted(len(file.entries), "key"))
    tensors = file.tensors.values()
    unread = {tensor.form for tensor in tensors if not tensor.is_read}
    return FileContents(
        path.name,
        FileKind.GGUF,
        ", ".join(made),
        values=tuple(StoredValue(visible(t.name), t.form, t.shape, t.bytes) for t in tensors),
        missing=dict.fromkeys(sorted(unread), "a form of blocks that is not read here"),
        tree="" if unread else str(read_weights(path, "inspect")),
    )


def type_text(dtype: str, sizes: Sequence[object]) -> str:
    """Return the type of a value as graphs show it.

    >>> type_text("float32", ["batch", 3]), type_text("complex64", [2])
    ('f32[batch, 3]', 'complex64[2]')
    """
    short = DType(dtype).short if dtype in [*DType] else dtype
    return f"{short}[{', '.join(map(str, sizes))}]"


# -- ONNX ------------------------------------------------------------------------------------------


def _of_onnx(path: Path) -> FileContents:
    model = read_model(path, "inspect")
    opsets = {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import}
    made = [f"opset {version} of {domain}" for domain, version in opsets.items()]
    if model.producer_name:
        made.append(visible(f"by {model.producer_name} {model.producer_version}".strip()))
    graph = model.graph
    own = {(function.domain, function.name) for function in model.functions}
    used: Counter[tuple[str, str]] = Counter()
    for nodes in (graph.node, *(function.node for function in model.functions)):
        used.update(key for key in _nodes(nodes) if key not in own)
    values = tuple(_stored(tensor) for tensor in graph.initializer)
    held = {value.name for value in values}
    missing = {name: why for (domain, op), _ in used.items() for name, why in _lacks(domain, op)}
    missing |= dict.fromkeys({v.dtype for v in values} - {*DType}, "a dtype that is not here")
    return FileContents(
        path.name,
        FileKind.ONNX,
        ", ".join(made),
        {visible(v.name): _typed(v) for v in graph.input if v.name not in held},
        {visible(v.name): _typed(v) for v in graph.output},
        values,
        {visible(op): count for (_, op), count in used.items()},
        missing,
    )


def _nodes(nodes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the domain and name of each op, those of graphs in attributes included."""
    todo = [*nodes]
    while todo:
        node = todo.pop()
        yield ("" if node.domain == "ai.onnx" else node.domain), node.op_type
        for attribute in node.attribute:
            todo += attribute.g.node
            for inner in attribute.graphs:
                todo += inner.node


def _lacks(domain: str, op: str) -> Iterator[tuple[str, str]]:
    """Yield what of an op is not here, with the reason."""
    if domain:
        yield f"{visible(domain)}.{visible(op)}", "only ONNX's own ops are known"
    elif op not in ONNX and not _has_body(op):
        yield visible(op), NOT_HERE


def _has_body(op: str) -> bool:
    """Return whether the standard says what an op is, in terms of others."""
    defs = library().defs
    if not defs.has(op):
        return False
    schema = defs.get_schema(op)
    return schema.has_function or schema.has_context_dependent_function


def _stored(tensor: Any) -> StoredValue:  # noqa: ANN401  # of the package onnx, which is untyped
    dtype, shape = ELEMENTS.get(tensor.data_type, "unknown"), tuple(int(n) for n in tensor.dims)
    known = DType(dtype).itemsize if dtype in [*DType] else 1
    return StoredValue(visible(tensor.name), dtype, shape, max(prod(shape), 0) * known)


def _typed(value: Any) -> str:  # noqa: ANN401  # likewise
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind or "unknown").removesuffix("_type")
    given = value.type.tensor_type
    sizes = [visible(dim.dim_param or "") or dim.dim_value or "?" for dim in given.shape.dim]
    return type_text(ELEMENTS.get(given.elem_type, "unknown"), sizes)


# -- torch.export ----------------------------------------------------------------------------------


def _of_program(path: Path) -> FileContents:
    """Read the JSON in a `.pt2`, which says all but the values."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith("models/model.json")]
            if not names:
                raise ValueError("it has no models/model.json")
            info = archive.getinfo(names[0])
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{visible(names[0])} is packed as PyTorch packs nothing")
            packed = min(info.compress_size, path.stat().st_size)
            most = min(MOST_PROGRAM, room(packed) // 2)  # the bytes, and then their text
            if info.file_size > most:
                raise ValueError(
                    f"{visible(names[0])} would have {info.file_size >> 20:,} MB, and may have "
                    f"{most >> 20:,}"
                )
            given = cast("Entries", read_json(archive.read(info)))
        return _program(path.name, given)
    except DAMAGES as error:
        raise InputError(
            f"inspect: {path} is no program of torch.export that is known here: {error}",
            hint="write it with torch.export.save, of PyTorch 2.9 or newer",
        ) from error


def _program(name: str, given: Entries) -> FileContents:
    module: Entries = given["graph_module"]
    graph: Entries = module["graph"]
    types: Entries = graph["tensor_values"]
    given_specs: list[Entries] = module["signature"]["input_specs"]
    specs = [entry for (entry,) in (spec.items() for spec in given_specs)]
    inputs: dict[str, str] = {}
    values: list[StoredValue] = []
    for kind, spec in specs:
        tensor = spec["arg"].get("as_tensor", spec["arg"]).get("name")
        if tensor not in types:
            continue
        dtype, sizes = _sized(types[tensor])
        stored = spec.get(f"{kind}_name") or spec.get("tensor_constant_name")
        if kind == "user_input":
            inputs[visible(tensor)] = type_text(dtype, sizes)
        elif stored:
            shape = tuple(size for size in sizes if isinstance(size, int))
            width = DType(dtype).itemsize if dtype in [*DType] else 1
            values.append(StoredValue(visible(stored), dtype, shape, prod(shape) * width))
    outputs = [entry["as_tensor"]["name"] for entry in graph["outputs"] if "as_tensor" in entry]
    targets = Counter(_target(node["target"]) for node in graph["nodes"])
    return FileContents(
        name,
        FileKind.EXPORTED,
        f"of PyTorch {visible(str(given.get('torch_version', '?')))[:20]}",
        inputs,
        {visible(out): type_text(*_sized(types[out])) for out in outputs if out in types},
        tuple(values),
        dict(targets),
        {op: REFUSED.get(op, NOT_IN_TORCH) for op in targets if not _is_here(op)},
    )


def _target(word: str) -> str:
    return visible(str(word)).removeprefix("torch.ops.")


def _is_here(op: str) -> bool:
    return op in ATEN or op.startswith(SYMBOLS) or _is_taken_apart(op)


@cache
def _is_taken_apart(op: str) -> bool:
    """Return whether PyTorch, where it is installed, writes an op with others."""
    try:
        torch: Any = import_module("torch")
    except ImportError:  # it is never a dependency
        return False
    family, _, rest = op.partition(".")
    packet, _, overload = rest.partition(".")
    if family != "aten" or not hasattr(torch.ops.aten, packet):
        return False
    function: Any = getattr(getattr(torch.ops.aten, packet), overload, None)
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return function is not None and (
        function.has_kernel_for_dispatch_key(composite)
        or function in torch.export.default_decompositions()
    )


def _sized(meta: Entries) -> tuple[str, list[object]]:
    """Return the dtype and the sizes of a value, each a number or the text of an expression."""
    sizes: list[object] = [
        size["as_int"] if "as_int" in size else SYMBOL.sub(r"\1", size["as_expr"]["expr_str"])
        for size in meta["sizes"]
    ]
    return TORCH_DTYPES.get(meta["dtype"], f"dtype {meta['dtype']}"), sizes
