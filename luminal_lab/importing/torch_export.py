"""A PyTorch module as one of ours: torch.export writes it down, and each op becomes a step.

    model = ll.from_torch(module, (ids,), dynamic={"ids": ("batch", "seq")})
    y = model(cx.tensor(("batch", "seq"), "int64"))

Only this file calls torch, which whoever calls `from_torch` has. Ops that the table of `aten` can
write stay whole (attention, linear, norms); torch takes the others apart. The result is tried once
before it is returned, so that whatever cannot be written is refused here, with the author's line.
"""

from __future__ import annotations

import inspect
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import ml_dtypes
import numpy as np

from luminal_lab.core.dims import Dim, Expr, Symbol, evaluate, free_name, maximum, minimum
from luminal_lab.core.dtypes import Array, DType, as_dtype
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.core.origin import Origin, line_at
from luminal_lab.errors import ArgumentError, DeviceError, DTypeError, LabError, ModelError
from luminal_lab.importing.imported import Imported, Ref, Step, Structure, named, refs_in
from luminal_lab.nn.arguments import at_user
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.store import Store
from luminal_lab.trust import admit_exported, asked

if TYPE_CHECKING:
    from types import ModuleType

Torch: TypeAlias = Any
"""An object of torch's, which has no types here: torch is no dependency."""
Names: TypeAlias = Sequence["str | int | Symbol | None"] | Mapping[int, "str | int | Symbol | None"]

DROPPED = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}
"""Arguments that say where values live, which is not the program's business here."""
CHECKS = {
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}
"""Ops that only check: `Imported` checks sizes, and an index is checked where it is used."""
FARTHEST = 1 << 31
"""A bound of a size from here on is none."""
SPECIAL_SIZES = 2
"""PyTorch exports for sizes from here on, as 0 and 1 are special to it; 1 is not to us."""
FRAME = re.compile(r'\s*File "(.+)", line (\d+), in [^\n]*(?:\n {4}(.*))?')
OF_TORCH = re.compile(r"(^|[\\/])torch[\\/]")


@told
def from_torch(
    module: object,
    inputs: object = None,
    dynamic: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> Imported:
    """Return a PyTorch module, an ExportedProgram or a `.pt2` file as a module of ours.

    `inputs` are examples: a tensor, a tuple of them, or a dict by argument names. `dynamic` names
    the axes whose sizes may vary, for each argument, as in `{"ids": ("batch", "seq")}`; a name may
    be a `Symbol` with bounds. PyTorch unpickles a `.pt2` file, and whoever wrote one can make it
    run anything: without `trust=True` it is refused.

    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> layer = torch.nn.Linear(4, 2)
    >>> model = ll.from_torch(layer, torch.zeros(3, 4), dynamic={"input": ("rows", None)})
    >>> model(cx.tensor(("n", 4))).shape, sorted(model.parameters())
    ((n, 2), ['bias', 'weight'])
    """
    torch = _torch()
    asked("from_torch", trust)
    with _quiet():
        if isinstance(module, (str, Path)):
            program, kind, is_live = _loaded(torch, Path(module), trust), "Exported", False
        elif isinstance(module, torch.export.ExportedProgram):
            program, kind, is_live = module, "Exported", False
        elif isinstance(module, torch.nn.Module):
            program, kind, is_live = _exported(torch, module, inputs, dynamic), "", True
        else:
            raise ArgumentError(
                f"from_torch: {module!r} is no PyTorch module",
                hint='give a torch.nn.Module, an ExportedProgram, or a path such as "model.pt2"',
            )
        return _imported(torch, program, kind or type(module).__name__, dynamic, is_live)


def _torch() -> ModuleType:
    try:
        import torch  # noqa: PLC0415  # whoever calls this has it
        import torch.export  # noqa: PLC0415
    except ImportError as error:
        raise DeviceError(
            f"from_torch: PyTorch is not installed: {error}",
            hint="pip install torch; an ONNX file needs none: ll.from_onnx(path)",
        ) from None
    return torch


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's warnings about itself from whoever imports a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _loaded(torch: Torch, path: Path, trust: bool) -> Torch:
    """Return the program in a file, if it may be unpickled."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArgumentError(
            f"from_torch: {path} cannot be read: {error.strerror}", hint="name a .pt2 file"
        ) from None
    admit_exported(data, path.name, trust=trust)
    try:
        return torch.export.load(io.BytesIO(data))
    except Exception as error:
        raise ModelError(
            f"from_torch: PyTorch cannot load {path}: {_first(error)}",
            hint="torch.export.save(program, path) writes such files",
        ) from error


def _first(error: BaseException) -> str:
    """Return the first lines of an error of torch's that say something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:500] or type(error).__name__


# -- exporting -------------------------------------------------------------------------------------


def _exported(
    torch: Torch, module: Torch, inputs: object, dynamic: Mapping[str, Any] | None
) -> Torch:
    """Return a module as torch.export writes it down."""
    if inputs is None:
        raise ArgumentError(
            "from_torch: inputs are missing",
            hint="give examples of the module's arguments, as in (torch.zeros(2, 8),)",
        )
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}
    if isinstance(inputs, Mapping):
        kwargs = dict(cast("Mapping[str, object]", inputs))
    else:
        args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    args, kwargs = _as_torch(torch, args), _as_torch(torch, kwargs)
    names = _names_of(module, args, kwargs)
    given = dict(zip(names, (*args, *kwargs.values()), strict=True))
    for name in dynamic or {}:
        ArgumentError.unless_known(
            name,
            names,
            f"from_torch: dynamic names the argument {name!r}",
            f"the arguments given are {', '.join(names)}",
        )
    shapes = {
        name: _shapes(torch, f"from_torch: dynamic[{name!r}]", value, (dynamic or {}).get(name))
        for name, value in given.items()
    }
    try:
        with torch.no_grad():
            return torch.export.export(
                module, args, kwargs, dynamic_shapes=shapes if dynamic else None, strict=False
            )
    except Exception as error:
        where = [_origin(line, False) for line in [_trace_of(error)] if line]
        raise ModelError(
            f"from_torch: torch.export cannot export {type(module).__name__}: {_first(error)}",
            where=str(where[0]) if where and where[0] else None,
            hint="sizes and branches that depend on values cannot be exported; axes that the "
            "module fixes cannot be named in dynamic",
        ) from error


def _trace_of(error: BaseException) -> str:
    """Return the author's frames of an error, as torch writes them."""
    import traceback  # noqa: PLC0415  # only for errors

    frames = traceback.extract_tb(error.__traceback__)
    mine = [
        f for f in frames if not OF_TORCH.search(f.filename) and "luminal_lab" not in f.filename
    ]
    return "\n".join(f'File "{f.filename}", line {f.lineno}, in f\n    {f.line}' for f in mine[-1:])


def _as_torch(torch: Torch, value: Any) -> Any:  # noqa: ANN401  # a structure of tensors
    """Return examples with arrays as torch's tensors."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        return {key: _as_torch(torch, part) for key, part in entries.items()}
    if type(value) in (tuple, list):
        return type(value)([_as_torch(torch, part) for part in value])
    return value


def _names_of(module: Torch, args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
    """Return the names of a module's arguments, in order."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(
            f"from_torch: {type(module).__name__}.forward cannot be called with inputs: {error}",
            hint="give its arguments as a tuple, or as a dict by name",
        ) from None
    positional = [
        name
        for name, parameter in bound.signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return [*positional[: len(args)], *kwargs]


def _shapes(torch: Torch, what: str, value: Any, names: Any) -> Any:  # noqa: ANN401  # structures
    """Return what torch.export wants to know about the sizes of an argument."""
    if isinstance(value, torch.Tensor):
        static = torch.export.Dim.STATIC
        rows = dict(_axes_of(what, names, value.dim()))
        return {axis: _hint(torch, rows.get(axis)) for axis in range(value.dim())} or static
    if isinstance(value, (tuple, list)):
        parts = cast("Sequence[Any]", value)
        inner = names if isinstance(names, (tuple, list)) else [None] * len(parts)
        return [_shapes(torch, what, part, own) for part, own in zip(parts, inner, strict=False)]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        inner_names = cast("dict[str, Any]", names) if isinstance(names, dict) else {}
        return {k: _shapes(torch, what, part, inner_names.get(k)) for k, part in entries.items()}
    return None


def _axes_of(what: str, names: Names | None, rank: int) -> Iterator[tuple[int, str | Symbol]]:
    """Yield the named axes of an argument."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, (Sequence, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"{what} is {names!r}", hint='name axes in order, as in ("batch", None, "seq")'
        )
    rows = names.items() if isinstance(names, Mapping) else enumerate(names)
    for axis, name in rows:
        if axis >= rank or axis < -rank:
            raise ArgumentError(f"{what} names axis {axis}, and the tensor has {rank}", hint=None)
        if isinstance(name, (str, Symbol)):
            yield axis % rank, name


def _hint(torch: Torch, name: str | Symbol | None) -> Torch:
    """Return what torch.export is told about one axis."""
    dim = torch.export.Dim
    if name is None:
        return dim.STATIC
    if isinstance(name, str):
        return dim.DYNAMIC
    high = name.high if isinstance(name.high, int) else None
    if name.multiple_of > 1:
        by = name.multiple_of
        return by * dim(f"_{name.name}", max=None if high is None else high // by)
    return dim.DYNAMIC(min=name.low if name.low > 1 else None, max=high)


# -- from a program to a module --------------------------------------------------------------------


class Sizes(NamedTuple):
    """The symbols of a program as dims of ours, with the sizes of the example."""

    dims: dict[str, Dim]
    example: dict[str, int]


def _imported(
    torch: Torch, program: Torch, kind: str, dynamic: Mapping[str, Any] | None, is_live: bool
) -> Imported:
    """Return an exported program as a module of ours."""
    from luminal_lab.importing.aten import OPS  # noqa: PLC0415  # a table of hundreds

    names = _argument_names(program)
    program = program.run_decompositions(_decompositions(torch, OPS))
    signature = program.graph_signature
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    sizes = _sizes_of(torch, program, placeholders, names, dynamic or {})
    renamed, parameters, constants, numbers = _values_of(torch, program)
    taken = {*renamed.values(), *constants}
    for node in program.graph.nodes:
        if node.op != "placeholder" and node.name in taken:
            renamed[node.name] = f"{node.name}_"
    reading = Reading(torch, renamed, numbers, is_live)
    user = [spec.arg for spec in signature.input_specs if spec.kind.name == "USER_INPUT"]
    types = {
        arg.name: _type_of(torch, placeholders[arg.name].meta["val"], sizes, arg.name)
        for arg in user
        if isinstance(placeholders[arg.name].meta.get("val"), torch.Tensor)
    }
    steps, missing = reading.steps(program.graph, OPS)
    _refuse(missing)
    outputs, updates = _outputs_of(program, reading)
    parts: dict[str, Any] = {
        "inputs": _inputs_of(program, names, user, types),
        "types": types,
        "steps": _needed(steps, (outputs, [Ref(name) for name in updates.values()])),
        "outputs": outputs,
        "parameters": parameters,
        "constants": constants,
        "updates": updates,
        "matrices": _matrices(steps, parameters),
        "kinds": reading.kinds,
    }
    _try(torch, program, kind, parts, sizes, reading)
    return named(kind, **parts)


def _decompositions(torch: Torch, ops: Iterable[str]) -> Torch:
    """Return what torch takes apart: all that the table has nothing for."""
    table = torch.export.default_decompositions()
    for name in ops:
        family, _, rest = name.partition(".")
        packet, _, overload = rest.partition(".")
        if family == "aten":
            op = getattr(getattr(torch.ops.aten, packet, None), overload, None)
            if op is not None:
                table.pop(op, None)
    return table


def _argument_names(program: Torch) -> list[str]:
    """Return the names of the arguments of a program's forward."""
    signature = program.module_call_graph[0].signature
    positional, words = signature.in_spec.children()
    given: list[str] = list(signature.forward_arg_names or ())
    count = len(positional.children())
    names = given[:count] if len(given) >= count else [f"x{k}" for k in range(count)]
    return [*names, *words.context]


def _sizes_of(
    torch: Torch,
    program: Torch,
    placeholders: Mapping[str, Torch],
    names: Sequence[str],
    dynamic: Mapping[str, Any],
) -> Sizes:
    """Return the symbols of a program as dims of ours, under the names that `dynamic` has."""
    spec = program.module_call_graph[0].signature.in_spec
    arguments = [*spec.child(0).children(), *spec.child(1).children()]
    user = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    wanted: list[Any] = []
    for name, argument in zip(names, arguments, strict=True):
        wanted += _leaves(argument, dynamic.get(name))
    words: dict[Any, tuple[str, int]] = {}
    example: dict[str, int] = {}
    for arg, axes in zip(user, wanted, strict=True):
        value = placeholders[arg.name].meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        rows = dict(_axes_of(f"from_torch: dynamic, for {arg.name}", axes, value.dim()))
        for axis, size in enumerate(value.shape):
            if isinstance(size, int):
                continue
            expression, name = size.node.expr, rows.get(axis)
            for symbol in expression.free_symbols:
                hint = program.range_constraints.get(symbol)
                example.setdefault(str(symbol), _hint_of(size, symbol, hint))
            word = name.name if isinstance(name, Symbol) else name
            if word and expression.is_symbol:
                words.setdefault(expression, (word, 1))
            elif word and len(expression.free_symbols) == 1 and expression.is_Mul:
                factor, symbol = expression.as_coeff_Mul()
                if symbol.is_symbol and factor.is_integer:
                    words.setdefault(symbol, (word, int(factor)))
    dims: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    for symbol, limits in program.range_constraints.items():
        word, by = words.get(symbol, (str(symbol), 1))
        low, high = _bound(limits.lower, 1), _bound(limits.upper, FARTHEST)
        low = max(1, low if low > SPECIAL_SIZES else 1)
        most = None if high >= FARTHEST else high * by
        ours = Symbol(free_name(word), low * by, most, by)
        dims[str(symbol)] = ours // by
        if str(symbol) in example:
            sizes.setdefault(ours.name, example[str(symbol)] * by)
    return Sizes(dims, sizes)


def _hint_of(size: Torch, symbol: Torch, limits: Torch) -> int:
    """Return the size that a symbol had in the example."""
    env = size.node.shape_env
    known = getattr(env, "var_to_val", None) or getattr(env, "backed_var_to_val", {})
    if symbol in known:
        return int(known[symbol])
    return max(SPECIAL_SIZES, _bound(limits.lower, 1)) if limits is not None else SPECIAL_SIZES


def _bound(bound: Torch, otherwise: int) -> int:
    """Return a bound of a size, or a number instead of an infinite one."""
    return int(bound) if bound.is_Integer else otherwise


def _leaves(spec: Torch, names: Any) -> Iterator[Any]:  # noqa: ANN401  # a structure of names
    """Yield the names of axes for each leaf of an argument."""
    if spec.is_leaf():
        yield names
        return
    children = spec.children()
    inner: list[Any] = [None] * len(children)
    if isinstance(names, (tuple, list)):
        inner[: len(cast("list[Any]", names))] = names
    elif isinstance(names, Mapping):
        keys = list(spec.context) if isinstance(spec.context, (list, tuple)) else []
        inner = [cast("Mapping[Any, Any]", names).get(key) for key in keys] or inner
    for child, own in zip(children, inner, strict=False):
        yield from _leaves(child, own)


def _values_of(
    torch: Torch, program: Torch
) -> tuple[dict[str, str], dict[str, Parameter], dict[str, Parameter], dict[str, Structure]]:
    """Return the names of inputs that are values, the parameters, the hidden ones, the numbers."""
    renamed: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    constants: dict[str, Parameter] = {}
    numbers: dict[str, Structure] = {}
    shared: dict[object, Parameter] = {}
    for spec in program.graph_signature.input_specs:
        kind, target = spec.kind.name, spec.target
        if kind not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            if kind != "USER_INPUT":
                raise ModelError(
                    f"from_torch: the program has an input of the kind {kind.lower()}",
                    hint="export a module whose arguments and values are tensors",
                )
            continue
        value = program.state_dict.get(target)
        value = program.constants.get(target) if value is None else value
        if kind == "CONSTANT_TENSOR" and value.dim() == 0:
            numbers[spec.arg.name] = value.item(), _dtype(value.dtype, target)
            continue
        key = value.data_ptr(), tuple(value.shape), value.stride(), value.dtype, value.numel() > 0
        parameter = shared.get(key) if value.numel() else None
        if parameter is None:
            dtype = _dtype(value.dtype, target)
            trained = kind == "PARAMETER" and dtype.is_float
            parameter = shared[key] = Parameter(
                tuple(value.shape), dtype, value=_array(torch, value), trainable=trained
            )
        is_saved = kind == "PARAMETER" or (kind == "BUFFER" and spec.persistent is not False)
        (parameters if is_saved else constants)[target] = parameter
        renamed[spec.arg.name] = target
    return renamed, parameters, constants, numbers


def _array(torch: Torch, value: Torch) -> Array:
    """Return a tensor of torch's as an array."""
    own = value.detach().cpu().contiguous()
    if own.dtype is torch.bfloat16:
        return own.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return own.numpy()


def _dtype(dtype: Torch, what: str) -> DType:
    """Return a dtype of torch's as ours, or raise."""
    try:
        return as_dtype(str(dtype).removeprefix("torch."))
    except LabError:
        raise DTypeError(
            f"from_torch: {what} is {str(dtype).removeprefix('torch.')}, a dtype that there is not "
            "here",
            hint=f"the dtypes are {', '.join(DType)}",
        ) from None


def _type_of(torch: Torch, value: Torch, sizes: Sizes, what: str) -> TensorType:
    """Return the type of a tensor of torch's, with dims of ours."""
    shape = [_dim(size, sizes.dims) for size in value.shape]
    return TensorType(_dtype(value.dtype, what), tuple(shape))


def _dim(size: Torch, dims: Mapping[str, Dim]) -> Dim:
    """Return a size of torch's, which may be an expression, as a dim."""
    return int(size) if isinstance(size, int) else _expression(size.node.expr, dims)


def _expression(expr: Torch, dims: Mapping[str, Dim]) -> Dim:
    if expr.is_Integer:
        return int(expr)
    if expr.is_symbol:
        return dims[str(expr)]
    parts = [_expression(part, dims) for part in expr.args]
    match type(expr).__name__:
        case "Add":
            return sum(parts)
        case "Mul":
            total: Dim = 1
            for part in parts:
                total = total * part
            return total
        case "FloorDiv" | "CleanDiv":
            return parts[0] // parts[1]
        case "Mod" | "PythonMod":
            return parts[0] % parts[1]
        case "Max":
            return maximum(*parts)
        case "Min":
            return minimum(*parts)
        case "Pow" if isinstance(parts[1], int) and parts[1] >= 0:
            total = 1
            for _ in range(parts[1]):
                total = total * parts[0]
            return total
        case name:
            raise ModelError(
                f"from_torch: a size is {expr}, and {name} is no arithmetic of dims",
                hint="export the module with this size fixed",
            )


# -- nodes -----------------------------------------------------------------------------------------


class Missing(NamedTuple):
    """An op that there is nothing to write with."""

    target: str
    reason: str
    origin: Origin | None
    scope: str


class Reading:
    """What turns the nodes of a program into steps."""

    def __init__(
        self,
        torch: Torch,
        renamed: Mapping[str, str],
        numbers: Mapping[str, Structure],
        is_live: bool,
    ) -> None:
        self.torch = torch
        self.renamed = renamed
        self.numbers = numbers
        self.is_live = is_live
        self.kinds: dict[str, str] = {}
        """The classes of the author's modules, by path."""
        self._origins: dict[str, Origin | None] = {}

    def name_of(self, node: Torch) -> str:
        """Return a node's name in the steps."""
        return self.renamed.get(node.name, node.name)

    def steps(
        self, graph: Torch, ops: Mapping[str, Callable[..., Any]]
    ) -> tuple[list[Step], list[Missing]]:
        """Return the nodes of a graph as steps, and those that cannot be."""
        from luminal_lab.importing.aten import REFUSED  # noqa: PLC0415  # a table of hundreds

        steps = [
            Step("constant", _constant, value, (name,)) for name, value in self.numbers.items()
        ]
        missing: list[Missing] = []
        for node in graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            target = _target_of(node)
            if target in CHECKS:
                continue
            scope, origin = self._scope(node), self._line(node)
            write = ops.get(target)
            reason = REFUSED.get(target) or self._unwritable(node, target)
            if reason is None and write is None:
                reason = "there is nothing to write it with"
            if reason is not None and (node.users or write is None):
                missing.append(Missing(target, reason, origin, scope))
                continue
            assert write is not None
            args = tuple([self._given(arg) for arg in node.args])
            kwargs = {k: self._given(v) for k, v in node.kwargs.items() if k not in DROPPED}
            result = self.name_of(node)
            steps.append(Step(target, write, args, (result,), kwargs, scope, origin))
        return steps, missing

    def _unwritable(self, node: Torch, target: str) -> str | None:
        """Return why this one node cannot be written, though its op can be."""
        if node.op == "get_attr":
            return "it is a part of the program that only some sizes or values reach"
        if target.startswith("aten.as_strided"):
            value = node.args[0].meta.get("val")
            if not value.is_contiguous():
                return "it reads another order of elements than the row-major one"
        return None

    def _given(self, value: Any) -> Structure:  # noqa: ANN401  # an argument of a node
        """Return an argument of a node as plain data."""
        torch = self.torch
        if isinstance(value, torch.fx.Node):
            return Ref(self.name_of(value))
        if isinstance(value, (list, tuple)):
            parts = [self._given(part) for part in cast("Sequence[Any]", value)]
            return parts if isinstance(value, list) else tuple(parts)
        if isinstance(value, slice):
            cut = cast("Any", value)
            return slice(self._given(cut.start), self._given(cut.stop), self._given(cut.step))
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value)
            return {key: self._given(part) for key, part in entries.items()}
        if isinstance(value, torch.dtype):
            return _dtype(value, "a result")
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return None
        return value

    def _scope(self, node: Torch) -> str:
        """Return the path of the author's module that a node belongs to."""
        stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
        path = ""
        for entry in stack.values():
            path, kind = str(entry[0]), entry[1]
            word = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
            path = re.sub(r"@\d+", "", path)
            if "_empty_nn_module_stack" in path:
                return ""
            self.kinds.setdefault(path, str(word).rpartition(".")[2])
        return path

    def _line(self, node: Torch) -> Origin | None:
        trace = node.meta.get("stack_trace") or ""
        if trace not in self._origins:
            self._origins[trace] = _origin(trace, self.is_live)
        return self._origins[trace]


def _origin(trace: str, is_live: bool) -> Origin | None:
    """Return the author's line of a trace: the innermost that is not torch's."""
    frames = [(file, int(line), text or "") for file, line, text in FRAME.findall(trace)]
    frames = [frame for frame in frames if frame[0].startswith(("/", "<")) or ":" in frame[0]]
    own = [frame for frame in frames if not OF_TORCH.search(frame[0])]
    if not frames:
        return None
    file, line, text = (own or frames)[-1]
    # A file that a stranger's program names is not opened.
    return line_at(file, line) if is_live else Origin(file, line, text.strip())


def _constant(graph: Store, value: Any, dtype: DType) -> Tensor:  # noqa: ANN401  # a number
    """Write a number of the program."""
    return graph.constant(value, dtype)


def _target_of(node: Torch) -> str:
    """Return a node's op by name."""
    if node.op == "get_attr":
        return "get_attr"
    target = node.target
    if hasattr(target, "_schema") and hasattr(target, "_overloadname"):
        space, _, name = target._schema.name.partition("::")
        return f"{space}.{name}.{target._overloadname}"
    if hasattr(target, "namespace") and target.namespace == "higher_order":
        return f"higher_order.{target.name()}" if callable(target.name) else "higher_order"
    return f"{target.__module__}.{target.__qualname__}"


def _refuse(missing: Sequence[Missing]) -> None:
    """Raise if there are ops that cannot be written."""
    if not missing:
        return
    first = missing[0]
    others = list(dict.fromkeys(item.target for item in missing if item.target != first.target))
    error = ModelError(
        f"from_torch: {first.target} cannot be imported: {first.reason}"
        + (f" (in {first.scope})" if first.scope else ""),
        where=str(first.origin) if first.origin is not None else None,
        hint=f"as little can be {', '.join(others)}"
        if others
        else "write this part of the module with other ops",
    )
    error.missing = [first.target, *others]
    raise error


def _needed(steps: Sequence[Step], outputs: Structure) -> list[Step]:
    """Return the steps that outputs need."""
    wanted = set(refs_in(outputs))
    kept: list[Step] = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.results):
            wanted.update(step.refs())
            kept.append(step)
    return kept[::-1]


def _matrices(steps: Sequence[Step], parameters: Mapping[str, Parameter]) -> set[str]:
    """Return the matrices among parameters that products and look-ups read."""
    alias = {name: name for name, value in parameters.items() if len(value.shape) == 2}
    found: set[str] = set()
    for step in steps:
        word = step.target.split(".")[1] if step.target.startswith("aten.") else ""
        read = [ref for ref in step.refs() if ref in alias]
        if word in ("t", "permute", "transpose", "numpy_T", "detach", "alias") and read:
            alias[step.results[0]] = alias[read[0]]
        elif word in ("linear", "mm", "addmm", "matmul", "embedding", "baddbmm", "bmm"):
            found.update(alias[ref] for ref in read)
    return found


# -- arguments and results -------------------------------------------------------------------------


def _inputs_of(
    program: Torch, names: Sequence[str], user: Sequence[Torch], types: Mapping[str, TensorType]
) -> dict[str, Structure]:
    """Return where tensors are in the arguments of forward."""
    spec = program.module_call_graph[0].signature.in_spec
    leaves = iter([_leaf(arg, types) for arg in user])
    arguments = [*spec.child(0).children(), *spec.child(1).children()]
    return {
        name: _structure(argument, leaves) for name, argument in zip(names, arguments, strict=True)
    }


def _leaf(arg: Torch, types: Mapping[str, TensorType]) -> Structure:
    """Return an argument as a reference, or as the constant that it was exported with."""
    if arg.name in types or not hasattr(arg, "value"):
        return Ref(arg.name)
    return arg.value


def _structure(spec: Torch, leaves: Iterator[Structure]) -> Structure:
    """Return the structure that torch describes, with leaves of ours."""
    if spec.is_leaf():
        return next(leaves)
    parts = [_structure(child, leaves) for child in spec.children()]
    kind, context = spec.type, spec.context
    if issubclass(kind, Mapping) or (
        isinstance(context, (list, tuple))
        and len(cast("list[object]", context)) == len(parts)
        and all(isinstance(key, str) for key in cast("list[object]", context))
    ):
        keys: Iterable[Any] = context if isinstance(context, (list, tuple)) else context[1]
        return dict(zip(keys, parts, strict=True))
    return parts if kind is list else tuple(parts)


def _outputs_of(program: Torch, reading: Reading) -> tuple[Structure, dict[str, str]]:
    """Return what forward returns, and the buffers that it changes."""
    leaves: list[Structure] = []
    updates: dict[str, str] = {}
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    nodes = dict(enumerate(output.args[0]))
    for at, spec in enumerate(program.graph_signature.output_specs):
        kind, node = spec.kind.name, nodes.get(at)
        if kind == "USER_OUTPUT":
            is_node = isinstance(node, reading.torch.fx.Node)
            leaves.append(Ref(reading.name_of(node)) if is_node else node)
        elif kind == "BUFFER_MUTATION":
            updates[spec.target] = reading.name_of(node)
        elif kind != "TOKEN":
            raise ModelError(
                f"from_torch: forward writes into its argument {spec.target}",
                hint="return the changed value, or keep it in a buffer of the module",
            )
    spec = program.module_call_graph[0].signature.out_spec
    return _structure(spec, iter(leaves)), updates


# -- the trial -------------------------------------------------------------------------------------


def _try(
    torch: Torch,
    program: Torch,
    kind: str,
    parts: Mapping[str, Any],
    sizes: Sizes,
    reading: Reading,
) -> None:
    """Write the model once, and raise if a step cannot be, or has another type than torch's."""
    values = {
        reading.name_of(node): node.meta.get("val")
        for node in program.graph.nodes
        if node.op not in ("placeholder", "output")
    }
    steps = [
        replace(step, write=_checked(torch, step, values.get(step.results[0]), sizes))
        for step in parts["steps"]
    ]
    trial = named(kind, **{**parts, "steps": steps})
    graph = Store("trial", 0)
    try:
        trial(*([graph] if not trial.types else []), **trial.tensors(graph))
    except ModelError:
        raise
    except LabError as error:
        notes: list[str] = getattr(error, "__notes__", [])
        what = notes[0].split()[1] if notes else "a step"
        wrong = ModelError(
            f"from_torch: {what} cannot be written: {error.message}",
            where=error.where,
            hint=error.hint,
        )
        for note in notes:
            wrong.add_note(note)
        raise at_user(wrong) from None


def _checked(torch: Torch, step: Step, value: Any, sizes: Sizes) -> Callable[..., Any]:  # noqa: ANN401  # torch's
    """Return what writes a step and compares the type of its result with torch's."""

    def write(graph: Store, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # its result
        result = step.write(graph, *args, **kwargs)
        _compare(torch, step, result, value, sizes)
        return result

    return write


def _compare(torch: Torch, step: Step, result: Any, value: Any, sizes: Sizes) -> None:  # noqa: ANN401  # of any kind
    """Raise if a result has another dtype or shape than torch's has."""
    if isinstance(value, (tuple, list)) and isinstance(result, (tuple, list)):
        for own, theirs in zip(result, value, strict=False):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # as given
            _compare(torch, step, own, theirs, sizes)
    if not isinstance(value, torch.Tensor) or not isinstance(result, Tensor):
        return
    dtype = _dtype(value.dtype, step.target)
    shape = [_size(size) for size in value.shape]
    own = [_number(dim, sizes.example) for dim in result.shape]
    differ = any(
        a is not None and b is not None and a != b for a, b in zip(own, shape, strict=False)
    )
    if result.dtype is not dtype or len(own) != len(shape) or differ:
        theirs = TensorType(dtype, tuple(size if size is not None else 0 for size in shape))
        raise ModelError(
            f"from_torch: {step.target} gives {result.type} here, and {theirs} in PyTorch, for the "
            f"sizes {tuple_text([f'{k}={v}' for k, v in sizes.example.items()])}",
            hint="this is a fault of the import",
        )


def _size(size: Torch) -> int | None:
    """Return a size in the example, if it is known."""
    if isinstance(size, int):
        return size
    try:
        return int(size.node.hint) if size.node.hint is not None else None
    except (AttributeError, TypeError, ValueError):
        return None


def _number(dim: Dim, example: Mapping[str, int]) -> int | None:
    """Return a dim in the example, if it is known."""
    try:
        return evaluate(dim, example) if isinstance(dim, Expr) else dim
    except LabError:
        return None
