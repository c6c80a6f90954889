"""A module that came from elsewhere: its values by name, and the steps of its forward as data.

    %linear = aten.linear.default(%x, %fc.weight, %fc.bias)    # fc; "model.py", line 12

Every importer makes one. Each step names the function that writes it with our tensors, so `forward`
extends whatever graph its arguments belong to, as often as it is called and for any sizes of the
dims that were exported as symbols. The nodes of a step have its scope, the path of the author's
module, and its origin, the author's line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

from typing_extensions import override

from luminal_lab.core.builder import Transaction
from luminal_lab.core.dims import Dim, Expr, Symbol, bounds, check_bounds, substitute, symbols
from luminal_lab.core.dims.values import solve
from luminal_lab.core.ir import Meta
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.errors import (
    ArgumentError,
    DimError,
    DTypeError,
    LabError,
    ModelError,
    ShapeError,
    counted,
    whole_number,
)
from luminal_lab.nn.arguments import no_tensor
from luminal_lab.nn.module import Module, graph_in, kind_of
from luminal_lab.nn.norm import carried, latest
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources

Structure: TypeAlias = Any
"""Tuples, lists, dicts and slices around references and constants."""


class Ref(NamedTuple):
    """A value of a forward by its name: an input, a parameter, or the result of a step."""

    name: str

    @override
    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a forward: what it is called, who writes it, and what it is written with.

    >>> step = Step("Relu", lambda graph, x: x.relu(), (Ref("x"),), ("y",), scope="act")
    >>> print(step)
    %y = Relu(%x)    # act
    """

    target: str
    """Its name where it comes from, as in "aten.linear.default" or "Conv"."""
    write: Callable[..., Any]
    """Called with the graph and the resolved arguments."""
    args: tuple[Structure, ...] = ()
    results: tuple[str, ...] = ()
    """One name for what `write` returns, or a name for each part of it; "" for an unused part."""
    kwargs: Mapping[str, Structure] = field(default_factory=dict[str, Structure])
    scope: str = ""
    origin: Origin | None = None

    def refs(self) -> Iterator[str]:
        """Yield the names of the values that it reads.

        >>> [*Step("Add", print, (Ref("x"), [Ref("y"), 1]), ("z",)).refs()]
        ['x', 'y']
        """
        return refs_in((self.args, dict(self.kwargs)))

    @override
    def __str__(self) -> str:
        given = [_text(arg) for arg in self.args]
        given += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        results = ", ".join(f"%{name}" if name else "_" for name in self.results)
        about = "; ".join(filter(None, [self.scope, str(self.origin or "")]))
        line = f"{results} = {self.target}({', '.join(given)})"
        return f"{line}    # {about}" if about else line


def _text(value: Structure) -> str:
    if isinstance(value, Ref):
        return str(value)
    if isinstance(value, (tuple, list)):
        entries = cast("Sequence[object]", value)
        inner = ", ".join(map(_text, entries))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return " ".join(repr(value).split())


def refs_in(structure: Structure) -> Iterator[str]:
    """Yield the names of all references in a structure, in order."""
    yield from (leaf.name for leaf in leaves_of(structure) if isinstance(leaf, Ref))


def leaves_of(structure: Structure) -> Iterator[object]:
    """Yield what tuples, lists, dicts and slices hold, in order.

    >>> [*leaves_of(({"a": 1, "b": [2]}, slice(3, None)))]
    [1, 2, 3, None, None]
    """
    match structure:
        case tuple() | list() if not isinstance(structure, Ref):
            for part in cast("Sequence[Structure]", structure):
                yield from leaves_of(part)
        case dict():
            for part in cast("dict[object, Structure]", structure).values():
                yield from leaves_of(part)
        case slice():
            yield from leaves_of(_ends(cast("Any", structure)))
        case _:
            yield structure


def _ends(cut: slice) -> tuple[Structure, Structure, Structure]:
    return cut.start, cut.stop, cut.step


def resolved(structure: Structure, values: Mapping[str, Any]) -> Any:  # noqa: ANN401  # any value
    """Return a structure with each reference replaced by its value.

    >>> resolved((Ref("x"), {"k": [Ref("y"), 2]}), {"x": 0, "y": 1})
    (0, {'k': [1, 2]})
    """
    match structure:
        case Ref(name):
            return values[name]
        case tuple():
            parts = cast("tuple[Structure, ...]", structure)
            return tuple([resolved(part, values) for part in parts])
        case list():
            return [resolved(part, values) for part in cast("list[Structure]", structure)]
        case dict():
            entries = cast("dict[object, Structure]", structure)
            return {key: resolved(part, values) for key, part in entries.items()}
        case slice():
            return slice(*resolved(_ends(cast("Any", structure)), values))
        case _:
            return structure


class Part(Module):
    """A part of an imported module: its values and parts, under the author's names."""

    def __init__(self, parts: Mapping[str, Parameter | Part], kind: str = "") -> None:
        self.parts = dict(parts)
        self.kind = kind
        """The author's class."""

    @override
    def members(self) -> Iterable[tuple[str, object]]:
        return self.parts.items()

    @override
    def _heading(self) -> str:
        return self.kind


def tree(
    values: Mapping[str, Parameter], kinds: Mapping[str, str] | None = None
) -> dict[str, Parameter | Part]:
    """Return values by dotted name as a tree of parts; `kinds` has the classes of paths.

    >>> weight = ll.Parameter((2,))
    >>> [*tree({"h.0.weight": weight})["h"].children()["0"].own()]
    ['weight']
    """
    return _branch("", list(values.items()), kinds or {})


def _branch(
    path: str, values: Sequence[tuple[str, Parameter]], kinds: Mapping[str, str]
) -> dict[str, Parameter | Part]:
    ends = {name for name, _ in values if "." not in name}
    groups: dict[str, list[tuple[str, Parameter]]] = {}
    parts: dict[str, Parameter | Part] = {}
    for name, parameter in values:
        head, dot, rest = name.partition(".")
        if not dot or not head or not rest or head in ends:  # a value has no parts
            parts[name] = parameter
        else:
            groups.setdefault(head, []).append((rest, parameter))
            parts.setdefault(head, Part({}))  # its place in the order
    for head, inner in groups.items():
        below = f"{path}{head}"
        parts[head] = Part(_branch(f"{below}.", inner, kinds), kinds.get(below, ""))
    return parts


class Imported(Module):
    """A module that an importer made of somebody else's; it is called as the author's is.

    Its parameters have the author's names. It can be trained, quantised, saved and called in any
    graph, as other modules can.

    >>> from luminal_lab.importing.imported import Imported, Ref, Step
    >>> double = Step("Add", lambda graph, x: x + x, (Ref("x"),), ("y",))
    >>> model = Imported(
    ...     inputs={"x": Ref("x")},
    ...     types={"x": ll.TensorType(ll.DType.float32, (ll.Symbol("n"),))},
    ...     steps=[double],
    ...     outputs={"y": Ref("y")},
    ... )
    >>> model(cx.tensor(("rows",)))["y"].shape
    (rows,)
    """

    def __init__(
        self,
        *,
        inputs: Mapping[str, Structure],
        types: Mapping[str, TensorType],
        steps: Sequence[Step],
        outputs: Structure,
        parameters: Mapping[str, Parameter] | None = None,
        constants: Mapping[str, Parameter] | None = None,
        updates: Mapping[str, str] | None = None,
        matrices: Iterable[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.inputs = dict(inputs)
        """The arguments of `forward` in order: for each, where tensors are in it."""
        self.types = dict(types)
        """The types of those tensors; sizes that may vary are symbols."""
        self.steps = list(steps)
        self.outputs = outputs
        """What `forward` returns."""
        self.parts = tree(parameters or {}, kinds)
        self.hidden = (dict(constants or {}),)
        """Values that the author's module does not save, such as tables of angles."""
        self.updates = dict(updates or {})
        """Buffers that a call changes, each with the name of its new value."""
        self.stored = frozenset(matrices)
        """The names of matrices that products and look-ups read, which `ll.quantise` marks."""
        for name, parameter in [*self.named_values(), *self.hidden[0].items()]:
            parameter.name = graph_name(name)

    @override
    def members(self) -> Iterable[tuple[str, object]]:
        return self.parts.items()

    def named_values(self) -> list[tuple[str, Parameter]]:
        """Return parameters and buffers by all of their names.

        >>> weight = ll.Parameter((2,))
        >>> from luminal_lab.importing.imported import Imported
        >>> tied = {"a": weight, "b": weight}
        >>> model = Imported(inputs={}, types={}, steps=[], outputs=(), parameters=tied)
        >>> [name for name, _ in model.named_values()]
        ['a', 'b']
        """
        return list(self._paths())

    def tensors(self, graph: Sources) -> dict[str, Any]:
        """Return an input of a graph for each tensor among the arguments, by their names.

        Sizes that may vary are dims of the graph, under their names and within their bounds.

        >>> from luminal_lab.importing.imported import Imported, Ref
        >>> rows = ll.Symbol("rows", high=512)
        >>> types = {"x": ll.TensorType(ll.DType.int64, (rows,))}
        >>> model = Imported(inputs={"x": Ref("x")}, types=types, steps=[], outputs=Ref("x"))
        >>> model(**model.tensors(cx)).type
        i64[rows]
        """
        values = {
            name: graph.tensor(type.shape, type.dtype, graph_name(name))
            for name, type in self.types.items()
        }
        used = {name: s for name, s in self.inputs.items() if any(True for _ in refs_in(s))}
        return resolved(used, values)

    @override
    def matrices(self) -> list[Parameter]:
        return [value for name, value in self.named_values() if name in self.stored]

    @override
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        graph = graph_in((args, kwargs))
        assert isinstance(graph, Sources)  # __call__ has looked for it
        given = [arg for arg in args if not isinstance(arg, Workspace)]
        values = self._bound(graph, given, kwargs)
        lent = {**dict(self.named_values()), **self.hidden[0]}
        scope = graph.meta.scope
        with graph.whole():
            values.update({name: latest(graph, lent[name]) for name in self.updates})
            for step in self.steps:
                inner = f"{scope}.{scope_name(step.scope)}" if step.scope else scope
                with Transaction(graph, Meta(None, step.origin, inner)):
                    for name in step.refs():
                        if name not in values:
                            values[name] = graph.parameter(lent[name])
                    write_step(graph, step, values, kind_of(self))
            for name in refs_in((self.outputs, [Ref(new) for new in self.updates.values()])):
                if name not in values:
                    values[name] = graph.parameter(lent[name])
            seen = frozenset(refs_in(self.outputs))
            for buffer, new in self.updates.items():
                changed = values[new].clone() if new in seen else values[new]
                carried(graph, lent[buffer], lambda _, changed=changed: changed)
            return resolved(self.outputs, values)

    def write(self, graph: Sources) -> Any:  # noqa: ANN401  # what `forward` returns
        """Write a call into a graph, with new inputs of the exported types.

        >>> from luminal_lab.importing.imported import Imported, Ref, Step
        >>> types = {"x": ll.TensorType(ll.DType.float32, (2,))}
        >>> steps = [Step("Exp2", lambda graph, x: x.exp2(), (Ref("x"),), ("y",))]
        >>> model = Imported(inputs={"x": Ref("x")}, types=types, steps=steps, outputs=Ref("y"))
        >>> y = model.write(cx).retrieve()
        >>> print(cx.ir)
        graph main(%x: f32[2]) -> (%1) {
          %1 = exp2 %x : f32[2]
        }
        """
        tensors = {
            name: graph.tensor(type.shape, type.dtype, graph_name(name))
            for name, type in self.types.items()
        }
        return self(**{name: resolved(parts, tensors) for name, parts in self.inputs.items()})

    def name_results(self, results: Any) -> None:  # noqa: ANN401  # what `forward` returns
        """Name the tensors that a call has returned as the author named them.

        >>> from luminal_lab.importing.imported import Imported, Ref, Step
        >>> types = {"x": ll.TensorType(ll.DType.float32, (2,))}
        >>> steps = [Step("Exp2", lambda graph, x: x.exp2(), (Ref("x"),), ("y",))]
        >>> model = Imported(inputs={"x": Ref("x")}, types=types, steps=steps, outputs=Ref("y"))
        >>> y = model.write(cx)
        >>> model.name_results(y)
        >>> y.node.name
        'y'
        """
        one = isinstance(self.outputs, Ref)
        refs, tensors = ([self.outputs], [results]) if one else (self.outputs, results)
        for ref, tensor in zip(refs, tensors, strict=True):
            is_new = isinstance(tensor, Tensor) and not tensor.node.meta.name
            if is_new and not isinstance(tensor.node.op, Input):
                tensor.named(graph_name(ref.name))

    # -- its arguments -----------------------------------------------------------------------------

    def _bound(
        self, graph: Sources, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the tensors among arguments by their names, or raise if some do not fit."""
        what, names = kind_of(self), list(self.inputs)
        if len(args) > len(names):
            raise ArgumentError(
                f"{what}: {counted(len(args), 'argument')} given, and it takes {len(names)}",
                hint=f"its arguments are {', '.join(names)}" if names else None,
            )
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            ArgumentError.unless_known(
                name,
                names,
                f"{what}: there is no argument {name!r}",
                f"its arguments are {', '.join(names)}",
            )
            if name in given:
                raise ArgumentError(f"{what}: {name} is given twice", hint="give it once")
            given[name] = value
        values: dict[str, Any] = {}
        for name, structure in self.inputs.items():
            if name in given:
                _take(f"{what}: {name}", structure, given[name], values)
            elif any(True for _ in refs_in(structure)):
                raise ArgumentError(
                    f"{what}: the argument {name} is missing",
                    hint=f"its arguments are {', '.join(names)}",
                )
        sizes: dict[str, Dim] = {}
        for name, type in self.types.items():
            values[name] = _fitted(graph, f"{what}: {name}", values[name], type, sizes)
        for name, type in self.types.items():
            _check_shape(f"{what}: {name}", values[name], type, sizes)
        return values


def write_step(graph: Sources, step: Step, values: dict[str, Any], kind: str) -> None:
    """Write a step into a graph, and keep its results among the values.

    >>> values = {"x": cx.tensor((2,), name="x")}
    >>> step = Step("Exp2", lambda graph, x: x.exp2(), (Ref("x"),), ("y",))
    >>> write_step(cx, step, values, "Model")
    >>> values["y"].shape
    (2,)
    """
    try:
        args, kwargs = resolved((step.args, dict(step.kwargs)), values)
        result: Any = step.write(graph, *args, **kwargs)
    except LabError as error:
        raise _at(step, error, kind) from error.__cause__
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        wrong = ModelError(f"{step.target}: {error}", hint="model.steps has all steps")
        raise _at(step, wrong, kind) from error
    if len(step.results) == 1:
        values[step.results[0]] = result
    else:
        values.update(zip(step.results, result, strict=False))


def named(kind: str, **parts: Any) -> Imported:
    """Return an imported module of a class that has the author's name.

    >>> named("TinyNet", inputs={}, types={}, steps=[], outputs=())
    TinyNet()
    """
    word = re.sub(r"\W", "_", kind, flags=re.ASCII)
    word = word if word.isidentifier() else f"Model{word}"
    cls = type(word, (Imported,), {"__doc__": Imported.__doc__, "__module__": __name__})
    return cast("type[Imported]", cls)(**parts)


def graph_name(name: str) -> str:
    """Return a name from elsewhere as the text of a graph can have it.

    >>> graph_name("onnx::MatMul_12"), graph_name("0.weight")
    ('onnx_MatMul_12', '_0.weight')
    """
    word = re.sub(r"[^\w.]+", "_", name, flags=re.ASCII)
    return word if re.match(r"[A-Za-z_]", word) else f"_{word}"


def scope_name(name: str) -> str:
    """Return the path of a module from elsewhere as a scope.

    >>> scope_name("/model/layers.0/MatMul")
    'model.layers.0.MatMul'
    """
    return re.sub(r"[^\w.]+", "_", name.strip("/").replace("/", "."), flags=re.ASCII)


def _at(step: Step, error: LabError, kind: str) -> LabError:
    """Return an error with the author's line, and with a note of the step."""
    error.where = str(step.origin) if step.origin is not None else error.where
    if not getattr(error, "__notes__", None):
        inside = f" in {step.scope}" if step.scope else ""
        error.add_note(f"at {step.target}{inside}, a step of the imported {kind}")
    return error


def _take(what: str, structure: Structure, given: object, values: dict[str, Any]) -> None:
    """Put the parts of an argument into `values` by the references of its structure."""
    match structure:
        case Ref(name):
            values[name] = given
        case tuple() | list():
            wanted = cast("Sequence[Structure]", structure)
            if not isinstance(given, (tuple, list)) or len(cast("Any", given)) != len(wanted):
                raise ArgumentError(
                    f"{what}: must be a sequence of {len(wanted)}, as it was exported",
                    hint="export it again with what you want to give",
                )
            parts = cast("Sequence[object]", given)
            for at, (part, value) in enumerate(zip(wanted, parts, strict=True)):
                _take(f"{what}[{at}]", part, value, values)
        case dict():
            entries = cast("dict[object, Structure]", structure)
            if not isinstance(given, dict) or given.keys() != entries.keys():
                raise ArgumentError(
                    f"{what}: must be a dict with the keys {[*entries]}, as it was exported",
                    hint="export it again with what you want to give",
                )
            for key, part in entries.items():
                _take(f"{what}[{key!r}]", part, cast("dict[object, object]", given)[key], values)
        case _:
            if isinstance(given, Tensor) or given != structure:
                shown = given.label if isinstance(given, Tensor) else repr(given)
                raise ArgumentError(
                    f"{what}: is {shown}, and was exported as {structure!r}, which is part of "
                    "the program",
                    hint=f"leave it out, or export the module again with {shown}",
                )


def _fitted(
    graph: Sources, what: str, given: object, type: TensorType, sizes: dict[str, Dim]
) -> Any:  # noqa: ANN401  # a tensor, or a dim
    """Return an argument as a tensor of its dtype, and bind the symbols of its shape."""
    if not isinstance(given, Tensor):
        kind, hint = no_tensor(given)
        raise ArgumentError(
            f"{what} is {kind}, and not a tensor of a graph",
            hint="model(**model.tensors(cx)) gives all of them by name"
            if isinstance(given, dict)
            else hint,
        )
    if given.graph is not graph:
        raise ArgumentError(
            f"{what}: {given.label} belongs to another graph", hint="make all inputs in one graph"
        )
    if given.dtype.kind != type.dtype.kind or _loses(given, type):
        raise DTypeError(
            f"{what}: {given.label} is {given.dtype}, and was exported as {type.dtype}",
            hint=f"convert it: .cast({str(type.dtype)!r})",
        )
    if given.ndim != len(type.shape):
        raise ShapeError(
            f"{what}: {given.label} has {counted(given.ndim, 'axis', 'axes')}, "
            f"and the model takes {tuple_text(type.shape)}",
            hint="how many axes there are is part of a model; unsqueeze and reshape add some",
        )
    for wanted, dim in zip(type.shape, given.shape, strict=True):
        if isinstance(wanted, Symbol):
            sizes.setdefault(wanted.name, dim)
        elif isinstance(wanted, Expr) and isinstance(dim, int):
            known = {name: size for name, size in sizes.items() if isinstance(size, int)}
            for name, size in (solve(wanted, dim, known) or {}).items():
                sizes.setdefault(name, size)
    # A model whose weights were converted takes floats of their dtype.
    return given if given.dtype.is_float else given.cast(type.dtype)


def _loses(given: Tensor, type: TensorType) -> bool:
    """Return whether an integer argument is wider than what was exported."""
    return type.dtype.kind == "int" and (
        given.dtype.limits[0] < type.dtype.limits[0] or given.dtype.limits[1] > type.dtype.limits[1]
    )


def _check_shape(what: str, given: Tensor, type: TensorType, sizes: Mapping[str, Dim]) -> None:
    """Raise unless an argument has the exported shape, for the sizes of all arguments."""
    for axis, (wanted, dim) in enumerate(zip(type.shape, given.shape, strict=True)):
        size = substitute(wanted, sizes)
        if size != dim:
            own = isinstance(wanted, int)
            raise ShapeError(
                f"{what}: axis {axis} of {given.label} is {dim}, and "
                + (f"the model takes {wanted}" if own else f"must be {wanted}, which is {size}"),
                hint="from_torch(…, dynamic={…}) lets an axis vary, if the model does"
                if own
                else "give all arguments that share a dim one size",
            )
        for symbol in symbols(wanted):
            _check_size(what, symbol, sizes[symbol.name])


def _check_size(what: str, symbol: Symbol, size: Dim) -> None:
    """Raise unless a size is within what was exported."""
    if whole_number(size) is not None:
        check_bounds(symbol, cast("int", size))
        return
    least, most = bounds(size)
    low, high = symbol.low, symbol.high
    if isinstance(high, int) and (most is None or most > high):
        raise DimError(
            f"{what}: {symbol.name} was exported for at most {high}, and {size} may be more",
            hint=f'declare it so: cx.dim("{size}", high={high})',
        )
    if least is None or least < low:
        raise DimError(
            f"{what}: {symbol.name} was exported for at least {low}, and {size} may be less",
            hint=f'declare it so: cx.dim("{size}", low={low})',
        )
    if symbol.multiple_of > 1 and cast("Expr", size) % symbol.multiple_of != 0:
        by = symbol.multiple_of
        raise DimError(
            f"{what}: {symbol.name} was exported as a multiple of {by}, and {size} may be none",
            hint=f'declare it so: cx.dim("{size}", multiple_of={by})',
        )
