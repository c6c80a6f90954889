"""The table of ONNX's ops: a function for each, and what it is given.

    @op("LeakyRelu")
    def leaky_relu(_: Call, x: Tensor, *, alpha: float = 0.01) -> Tensor:
        return x.leaky_relu(alpha)

Inputs are its positional parameters, attributes its keyword ones. What an input arrives as is said
by its annotation: a `Tensor` of the graph, a `Stored` one (which the file may hold in fewer bits
than any of our dtypes has), an array whose values are `Known` at import, `Sizes` (whole numbers,
each of which may be a dim), or a `Value`, whichever it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from typing_extensions import TypeIs

from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.errors import DefinitionError, LabError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources

Known: TypeAlias = Array
"""Values that are known at import."""
Stored: TypeAlias = Tensor
"""A tensor whose dtype may have been widened."""
Sizes: TypeAlias = "list[Dim]"
"""Whole numbers, each of which may be a dim."""
Value: TypeAlias = "Tensor | Array | list[Any] | None"
"""A tensor; an array known at import, or of dims (dtype object); a sequence; an input left out."""
Result: TypeAlias = "Value | tuple[Value, ...]"
F = TypeVar("F", bound=Callable[..., Any])

ELEMENTS: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn",
    24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""ONNX's numbers of dtypes, and their names in NumPy and ml_dtypes."""


DAMAGED: Final = "the file may be damaged"
CHECK: Final = "onnx.checker.check_model(path) says whether the file keeps to the standard"
KNOW_IT: Final = "known={…} gives the value of an input, or the size of a dim, at import"
WIDER: Final = {
    "uint4": "uint8", "int4": "int8", "uint2": "uint8", "int2": "int8",
    "float4_e2m1fn": "float32", "float8_e4m3fn": "float32", "float8_e4m3fnuz": "float32",
    "float8_e5m2": "float32", "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32",
}  # fmt: skip
"""Dtypes of few bits that only files have, and what holds their values."""


def widened(array: Array) -> Array:
    """Return an array of a dtype that we do not have in the smallest one that holds its values."""
    wider = WIDER.get(str(array.dtype))
    return array if wider is None else array.astype(wider)


def is_known(value: Value) -> TypeIs[Array]:
    """Return whether a value is an array of numbers, and no dims."""
    return isinstance(value, np.ndarray) and value.dtype != object


def has_dims(value: Value) -> bool:
    """Return whether a value is an array of dims."""
    return isinstance(value, np.ndarray) and value.dtype == object


class Refusal(Exception):  # noqa: N818  # it is no error yet
    """Why a node cannot become part of a module; the reader says of which node."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.value: Value = None
        """What would have to be known at import."""


def unknown(reason: str, value: Value) -> Refusal:
    """Return a Refusal because of a value that is not known at import."""
    refusal = Refusal(reason, KNOW_IT)
    refusal.value = value
    return refusal


def dtype_of(number: int) -> DType:
    """Return the dtype of one of ONNX's numbers, or raise a Refusal."""
    name = ELEMENTS.get(number)
    if name is None:
        raise Refusal(f"there is no dtype {number}", "the file may be damaged")
    if name not in [*DType]:
        raise Refusal(f"the dtype {name} is not one of ours", f"use one of {', '.join(DType)}")
    return DType(name)


@dataclass(slots=True)
class Call:
    """One node as it is written into a graph."""

    graph: Sources
    op: str
    opset: int
    """The version of ONNX's ops that the model uses."""
    outputs: int
    """How many outputs the node has, those without a name as well."""
    evaluate: Callable[[Tensor], Array | None]
    """Returns the value of a tensor that is known at import, or None."""
    constant: Callable[[Array], Tensor]
    """Writes an array that is known at import into the graph."""

    def tensor(self, value: Value) -> Tensor:
        """Return a value as a tensor of the graph."""
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, np.ndarray):
            what = "a sequence" if isinstance(value, list) else "left out"
            raise Refusal(f"an input is {what} where a tensor is meant")
        if value.dtype == object:
            return self._of_dims(value)
        if value.dtype not in BY_NUMPY:
            raise Refusal(f"the dtype {value.dtype} is not one of ours")
        return self.constant(value)

    def _of_dims(self, dims: Array) -> Tensor:
        flat: list[Any] = list(dims.flat)
        parts = [self._of_dim(dim).reshape(1) for dim in flat]
        if not parts:
            return self.graph.zeros(dims.shape, "int64")
        return parts[0].concat(parts[1:]).reshape(dims.shape)

    def _of_dim(self, dim: Dim | Share) -> Tensor:
        if isinstance(dim, Share):  # it has been a float
            return self.graph.constant(dim.dim, "float32") * (1 / dim.over)
        return self.graph.constant(dim, "int64")

    def known(self, value: Value, name: str) -> Known:
        """Return the values of an input, or raise a Refusal that names it."""
        if isinstance(value, Tensor):
            found = self.evaluate(value)
            if found is not None:
                return found
        elif isinstance(value, np.ndarray) and value.dtype != object:
            return value
        raise unknown(f"the values of its input {name} are not known at import", value)

    def sizes(self, value: Value, name: str) -> Sizes:
        """Return whole numbers, some of which may be dims."""
        if isinstance(value, np.ndarray) and value.dtype == object:
            dims: list[Any] = list(value.flat)
            if all(isinstance(dim, (int, Expr)) for dim in dims):
                return dims
            raise Refusal(f"its input {name} is no list of sizes")
        array = self.known(value, name)
        if array.dtype.kind not in "iub":
            raise Refusal(f"its input {name} is {array.dtype} and not whole numbers")
        return [int(number) for number in array.flat]


@dataclass(frozen=True, slots=True)
class Share:
    """A size times a fraction, as in floor(height · 1.5): what some exporters write."""

    dim: Dim
    over: int
    """The size is `dim / over`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An op's function, and how its inputs and attributes are read off its signature."""

    function: Callable[..., Result]
    inputs: tuple[tuple[str, str, bool], ...]
    """The name, kind and need of each input."""
    rest: str
    """The kind of all further inputs, if it takes any number."""
    attributes: frozenset[str]
    required: frozenset[str]

    def __call__(
        self, call: Call, inputs: Sequence[Value], attributes: Mapping[str, object]
    ) -> Result:
        """Write a node into the graph, and return its outputs."""
        for name in attributes.keys() - self.attributes:
            raise Refusal(f"the attribute {name!r} is not known")
        for name in sorted(self.required - attributes.keys()):
            raise Refusal(f"the attribute {name!r} is missing", "the file may be damaged")
        if len(inputs) > len(self.inputs) and not self.rest:
            raise Refusal(f"it has {len(inputs)} inputs, and takes {len(self.inputs)}")
        given = [_read(call, *self.kind(at), value) for at, value in enumerate(inputs)]
        for (name, _, needed), value in zip(self.inputs, [*given, *[None] * 9], strict=False):
            if needed and value is None:
                raise Refusal(f"the input {name} is missing", "the file may be damaged")
        given += [None] * (len(self.inputs) - len(given))
        return self.function(call, *given, **attributes)

    def kind(self, at: int) -> tuple[str, str]:
        """Return the name and the kind of an input."""
        return self.inputs[at][:2] if at < len(self.inputs) else (str(at), self.rest)


def _read(call: Call, name: str, kind: str, value: Value) -> object:
    if kind == "Value" or value is None:
        return value
    if kind == "Known":
        return call.known(value, name)
    if kind == "Stored" and is_known(value):
        value = widened(value)
    return call.sizes(value, name) if kind == "Sizes" else call.tensor(value)


OPS: Final[dict[str, Entry]] = {}


def op(*names: str) -> Callable[[F], F]:
    """Make a function the meaning of an op, or of several, which `call.op` then tells apart."""

    def decorated(function: F) -> F:
        inputs: list[tuple[str, str, bool]] = []
        rest, attributes, required = "", set[str](), set[str]()
        for parameter in [*inspect.signature(function).parameters.values()][1:]:
            kind = str(parameter.annotation).split(" ")[0]
            if parameter.kind is parameter.VAR_POSITIONAL:
                rest = kind
            elif parameter.kind is parameter.KEYWORD_ONLY:
                attributes.add(parameter.name)
                if parameter.default is parameter.empty:
                    required.add(parameter.name)
            else:
                inputs.append((parameter.name, kind, parameter.default is parameter.empty))
        entry = Entry(function, tuple(inputs), rest, frozenset(attributes), frozenset(required))
        for name in names:
            if name in OPS:
                raise DefinitionError(f"op: there are two functions for {name}")
            OPS[name] = entry
        return function

    return decorated


def method(**names: str) -> None:
    """Make methods of tensors the meaning of ops with one input and no attributes."""
    for name, word in names.items():

        def function(call: Call, x: Tensor, _word: str = word) -> Tensor:
            return cast("Tensor", getattr(x, _word)())

        OPS[name] = Entry(function, (("x", "Tensor", True),), "", frozenset(), frozenset())


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front, or raise a Refusal."""
    if not -rank <= axis < rank:
        raise Refusal(f"there is no axis {axis} among {rank}")
    return axis % rank


def whole(dims: Sequence[Dim], what: str) -> list[int]:
    """Return sizes as numbers, or raise a Refusal if one of them is a dim without a number."""
    for dim in dims:
        if not isinstance(dim, int):
            raise Refusal(f"{what} is {dim}, and must be a number", KNOW_IT)
    return cast("list[int]", list(dims))


__all__ = ["OPS", "Call", "Dim", "Known", "LabError", "Refusal", "Sizes", "Value", "op"]
