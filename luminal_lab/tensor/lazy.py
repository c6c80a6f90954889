"""The lazy tensor itself: a handle to a node, and the basic steps of all operations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.binding import as_array
from luminal_lab.core.builder import Builder, DimLike, ShapeLike, check_name
from luminal_lab.core.dims import Dim, Expr, Shape
from luminal_lab.core.dtypes import (
    Array,
    DType,
    DTypeLike,
    Kind,
    as_dtype,
    promote_all,
    scalar_dtype,
)
from luminal_lab.core.ir import Spelling
from luminal_lab.core.op import Op, Scalar, TensorType, tuple_text
from luminal_lab.core.ops import Cast, Constant, Expand, Input, Reshape
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, AxisError, DTypeError, GraphError, ShapeError
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.derived import Derived
from luminal_lab.tensor.operation import name_aliases, operation
from luminal_lab.tensor.parameter import Parameter

if TYPE_CHECKING:
    from luminal_lab.core.ir import IR, Node

Axis: TypeAlias = int | Sequence[int] | None
OPERATORS = {
    "add": ("+", "__radd__"),
    "subtract": ("-", "__rsub__"),
    "multiply": ("*", "__rmul__"),
    "divide": ("/", "__rtruediv__"),
    "floor_divide": ("//", "__rfloordiv__"),
    "remainder": ("%", "__rmod__"),
    "power": ("**", "__rpow__"),
    "matmul": ("@", "__rmatmul__"),
    "bitwise_and": ("&", "__rand__"),
    "bitwise_or": ("|", "__ror__"),
    "bitwise_xor": ("^", "__rxor__"),
    "left_shift": ("<<", "__rlshift__"),
    "right_shift": (">>", "__rrshift__"),
    "less": ("<", "__gt__"),
    "less_equal": ("<=", "__ge__"),
    "greater": (">", "__lt__"),
    "greater_equal": (">=", "__le__"),
    "equal": ("==", "__eq__"),
    "not_equal": ("!=", "__ne__"),
}
"""NumPy's functions for operators, each with a tensor's method for the right operand."""
NUMBERS = (float, int, bool)
FITTING: dict[Kind, tuple[type, ...]] = {"float": NUMBERS, "int": (int, bool), "bool": (bool,)}
"""The Python numbers that do not change a dtype, by its kind."""


class Workspace(Builder):
    """The services that lazy tensors need from their graph: data and results."""

    derived: list[Derived]
    """The records of transformations of the graph."""
    backwards: dict[str, Callable[[Any], Any]]
    """The functions of custom gradients, by name."""

    @property
    @abstractmethod
    def ir(self) -> IR:
        """The graph as written, as a value."""

    @abstractmethod
    def backward(self, loss: Lazy, checkpoint: Sequence[str]) -> None:
        """Derive a loss by all inputs that it depends on."""

    @abstractmethod
    def slope(self, tensor: Lazy) -> Lazy:
        """Return an input's gradient from `backward`."""

    @abstractmethod
    def parameter(self, parameter: Parameter) -> Lazy:
        """Return the input that borrows a parameter's value."""

    @abstractmethod
    def looked_up(self, table: Lazy, rows: Callable[[Any], Any]) -> Any:  # noqa: ANN401  # tensors
        """Return rows of a parameter that holds blocks, looked up as they are; None for others."""

    @abstractmethod
    def feed(self, tensor: Lazy, data: object, *, copy: bool) -> None:
        """Give an input its data."""

    @abstractmethod
    def hold(self, tensor: Lazy, *, output: bool) -> None:
        """Keep a tensor's value after a run; an output is retrieved for the user, too."""

    @abstractmethod
    def release(self, tensor: Lazy) -> None:
        """Undo `hold` and `probe`, and forget the value."""

    @abstractmethod
    def owned(self, tensor: Lazy) -> Array:
        """Return a value without copying it, or raise if there is none yet."""

    @abstractmethod
    def missing(self, tensor: Lazy) -> tuple[str, str] | None:
        """Return why a value cannot be read, with a hint, or None if it can be."""

    @abstractmethod
    def probe(self, tensor: Lazy, call: Callable[[Array], None]) -> None:
        """Pass the value to `call` whenever it is computed."""


class Lazy:
    """A handle to a node of a graph; subclasses add the operations."""

    __slots__ = ("graph", "id", "type")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: object, **options: Any) -> Any:  # noqa: ANN401  # the operator's result
        """Compute `array + tensor` by the tensor's operator, and refuse NumPy's functions."""
        name = ufunc.__name__
        sign, swapped = OPERATORS.get(name, ("", ""))
        # `array += tensor` also names the array as the output.
        outputs = options.pop("out", None)
        plain = method == "__call__" and not options and (not outputs or outputs[0] is given[0])
        if plain and swapped and given[1] is self and not isinstance(given[0], Lazy):
            return getattr(self, swapped)(given[0])
        if sign:
            hint = f"write it as an operator, as in x {sign} y"
        elif hasattr(type(self), name):
            hint = f"tensors have it as a method: x.{name}(...)"
        else:
            hint = "x.numpy() is an array, after cx.execute()"
        raise ArgumentError(
            f"np.{name}: {self.label} is a tensor, and NumPy computes with arrays",
            where=str(here() or "") or None,
            hint=hint,
        )

    def __init__(self, graph: Workspace, id: int, type: TensorType) -> None:
        self.graph = graph
        self.id = id
        self.type = type

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        name_aliases(cls)

    # -- what is known without computing ---------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The shape: a tuple of numbers and symbolic dims."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype; equal to its NumPy name."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def node(self) -> Node:
        """The record of this tensor in its graph."""
        return self.graph.node(self.id)

    @property
    def name(self) -> str:
        """The name that the graph's text shows for this tensor."""
        return self.node.name

    @property
    def label(self) -> str:
        """The tensor's name and shape, as in error messages."""
        return f"%{self.name} {tuple_text(self.shape)}"

    @override
    def __hash__(self) -> int:
        return id(self)

    # -- making nodes ----------------------------------------------------------------------------

    def _apply(self, op: Op, *others: Lazy) -> Self:
        """Add a node with a built-in op on tensors of this graph, and return its tensor."""
        if not others:
            return self._appended(op, (self.id,), op.infer(self.type))
        if len(others) == 1:
            (other,) = others
            return self._appended(op, (self.id, other.id), op.infer(self.type, other.type))
        type = op.infer(self.type, *[other.type for other in others])
        return self._appended(op, (self.id, *[other.id for other in others]), type)

    def _through(self, kind: Callable[..., Op], *fields: object) -> Self:
        """Add a node with an op on this tensor; equal ones share the op and its inference."""
        graph = self.graph
        key = kind, self.type.dtype, self.type.shape, fields
        known = graph.known.get(key)
        if known is None:
            op = kind(*fields)
            known = graph.known[key] = op, graph.the(op.infer(self.type))
        op, type = known
        return self.__class__(graph, graph.append(op, (self.id,), type), type)

    def _appended(self, op: Op, sources: tuple[int, ...], type: TensorType) -> Self:
        """Add a node of a known type, and return its tensor."""
        graph = self.graph
        return self.__class__(graph, graph.append(op, sources, type), type)

    def _spells(self, function: str, *sources: Lazy, settings: tuple[object, ...] = ()) -> Self:
        """Mark this as the end of a function's formula, which has its own derivative."""
        node, ids = self.node, tuple([source.id for source in sources])
        if self.id not in ids:
            spelling = Spelling(function, ids, settings)
            self.graph.put(node._replace(meta=node.meta._replace(spells=spelling)))
        return self

    @operation
    def full_like(self, value: Scalar, dtype: DTypeLike | None = None) -> Self:
        """Return a constant of this tensor's shape, and of its dtype unless one is given.

        >>> y = cx.arange(3).full_like(7).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [7, 7, 7]
        """
        return self.constant(value, self.dtype if dtype is None else as_dtype(dtype), self.shape)

    @operation
    def zeros_like(self, dtype: DTypeLike | None = None) -> Self:
        """Return zeros of this tensor's shape, and of its dtype unless one is given.

        >>> y = cx.tensor((2,)).zeros_like("int32").retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0, 0]
        """
        return self.full_like(0, dtype)

    @operation
    def ones_like(self, dtype: DTypeLike | None = None) -> Self:
        """Return ones of this tensor's shape, and of its dtype unless one is given.

        >>> y = cx.arange(2).ones_like().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1, 1]
        """
        return self.full_like(1, dtype)

    @partial(told, on="x.")
    def constant(self, value: Scalar, dtype: DType, shape: Shape) -> Self:
        """Return a constant in this tensor's graph.

        >>> x = cx.tensor((2,))
        >>> x.constant(0.5, x.dtype, (3,)).shape
        (3,)
        """
        graph = self.graph
        if value.__class__ not in NUMBERS:
            value = as_scalar("constant", value)
        # In Python 0.0 == -0.0, and 1.0 == True.
        key = value.__class__, str(value) if value == 0 else value, dtype, shape
        known = graph.known.get(key)
        if known is None:
            own, sizes = as_dtype(dtype), graph.as_shape(shape)
            op = constant_of(value, own, sizes)
            known = graph.known[key] = op, graph.the(TensorType(own, sizes))
        op, type = known
        return self.__class__(graph, graph.append(op, (), type), type)

    @operation
    def cast(self, dtype: DTypeLike) -> Self:
        """Return the values in another dtype.

        Floats become integers by truncation; values out of range take the nearest valid one.

        >>> x = cx.tensor((3,)).set([2.9, -2.9, 300])
        >>> y = x.cast("uint8").retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [2, 0, 255]
        """
        if dtype is self.type.dtype or (dtype := as_dtype(dtype)) is self.type.dtype:
            return self
        return self._through(Cast, dtype)

    # -- fitting operands together -----------------------------------------------------------------

    def _operand(self, value: object, what: str = "operand") -> Self | Scalar:
        """Return an operand: a tensor of this graph, or a Python scalar (or symbolic dim)."""
        if isinstance(value, Lazy):
            if value.graph is not self.graph:
                self._foreign(value, what)
            return value  # pyright: ignore[reportReturnType]  # all handles of a graph are of one class
        if isinstance(value, (bool, int, float, Expr)):
            return value
        if isinstance(value, Parameter):
            return self.graph.parameter(value)  # pyright: ignore[reportReturnType]  # as above
        array = as_array(value, what)
        if isinstance(value, np.generic):
            return as_scalar(what, array.flat[0])
        type = self.graph.type_of(array.shape, array.dtype)
        if type.dtype is DType.float64 and not hasattr(value, "dtype"):
            type = type.with_dtype(DType.float32)  # Python's numbers, in lists
        id = self.graph.append_named(Input(type.dtype, type.shape), type, None)
        tensor = self.__class__(self.graph, id, type)
        self.graph.feed(tensor, array, copy=True)
        return tensor

    def _foreign(self, value: object, what: str) -> NoReturn:
        if not isinstance(value, Lazy):
            raise GraphError(
                f"{what}: {value!r} is not a tensor", hint="make one with graph.tensor(...)"
            )
        raise GraphError(
            f"{what}: {value.label} belongs to another graph than {self.label}",
            hint="make both in one graph, or move the value: cx.transfer(theirs, an_input_of_ours)",
        )

    def _together(self, what: str, *values: object) -> list[Self]:
        """Return this tensor and others in one dtype and one shape, by PyTorch's rules."""
        if len(values) == 1:
            (value,), type = values, self.type
            if value.__class__ in FITTING[type.dtype.kind]:
                return [self, self.constant(value, type.dtype, type.shape)]  # pyright: ignore[reportArgumentType]  # it is a number
            if isinstance(value, Lazy) and value.graph is self.graph:
                return self._paired(what, value)  # pyright: ignore[reportArgumentType]  # all handles of a graph are of one class
        operands = [self, *[self._operand(value, what) for value in values]]
        tensors = [x for x in operands if isinstance(x, Lazy)]
        scalars = [0 if isinstance(x, Expr) else x for x in operands if not isinstance(x, Lazy)]
        dtype = promote_all([(t.dtype, t.ndim) for t in tensors], scalars)
        shape = broadcast(what, tensors)
        fitted: list[Self] = []
        for x in operands:
            if not isinstance(x, Lazy):
                x = self.constant(x, dtype, shape)
            elif x.type.dtype is not dtype:
                x = x.cast(dtype)
            fitted.append(x if x.type.shape == shape else x._stretch(shape))
        return fitted

    def _paired(self, what: str, other: Self) -> list[Self]:
        """Return the result of `_together` for two tensors of this graph."""
        graph, a, b = self.graph, self.type, other.type
        both = a.dtype, a.shape, b.dtype, b.shape
        type = graph.common.get(both)
        if type is None:
            dtype = promote_all([(self.dtype, self.ndim), (other.dtype, other.ndim)])
            type = graph.the(TensorType(dtype, broadcast(what, (self, other))))
            graph.common[both] = type
        return [
            x if x.type is type else x.cast(type.dtype)._stretch(type.shape) for x in (self, other)
        ]

    def _floats_together(self, what: str, *values: object) -> list[Self]:
        """Return this tensor and others as floats, in one dtype and one shape.

        Integers of several dtypes become floats one by one: in an unsigned dtype that they have in
        common, a negative number would be a large one.
        """
        operands = [self._operand(value, what) for value in values]
        dtypes = {x.type.dtype for x in (self, *operands) if isinstance(x, Lazy)}
        if len(dtypes) == 1 or any(dtype.kind == "float" for dtype in dtypes):
            return [x._as_float() for x in self._together(what, *operands)]
        floats = (x._as_float() if isinstance(x, Lazy) else x for x in operands)
        return self._as_float()._together(what, *floats)

    def _stretch(self, shape: Shape) -> Self:
        """Return this tensor broadcast to a shape that is known to fit."""
        tensor, own = self, self.type.shape
        if own == shape:
            return tensor
        missing = len(shape) - len(own)
        if missing:
            own = (1,) * missing + own
            tensor = tensor._through(Reshape, own)
        return tensor if own == shape else tensor._through(Expand, shape)

    def _as_float(self) -> Self:
        """Return this tensor, converted to float32 if it holds integers or bools."""
        return self if self.type.dtype.kind == "float" else self.cast(DType.float32)

    def _axis_of(self, what: str, axis: int, *, extra: int = 0) -> int:
        """Return an axis counted from the front; `extra` more axes are allowed for."""
        rank = len(self.type.shape) + extra
        if type(axis) is int and -rank <= axis < rank:
            return axis % rank
        try:
            number = axis.__index__()
        except (AttributeError, TypeError):
            raise AxisError(
                f"{what}: {axis!r} is not an axis of {self.label}", hint="an axis is a whole number"
            ) from None
        if isinstance(axis, bool) or not -rank <= number < rank:
            raise AxisError(
                f"{what}: there is no axis {axis} in {self.label}",
                hint=f"axes go from {-rank} to {rank - 1}" if rank else "it has no axes",
            )
        return number % rank

    def _axes_of(self, what: str, axis: Axis) -> tuple[int, ...]:
        """Return the axes named by an argument, in order; all axes for None."""
        if axis is None:
            return tuple(range(self.ndim))
        if isinstance(axis, tuple) and len(axis) == 1:
            axis = axis[0]
        if not self.type.shape and type(axis) is int and axis in (0, -1):
            return ()  # as in PyTorch, a number may be taken as a vector of one
        if type(axis) is int:
            return (self._axis_of(what, axis),)
        listed = list(axis) if isinstance(axis, Sequence) else [axis]
        axes = [self._axis_of(what, entry) for entry in listed]
        for number, given in zip(axes, listed, strict=True):
            if axes.count(number) > 1:
                raise AxisError(
                    f"{what}: axis {given} of {self.label} is given twice: {tuple_text(listed)}",
                    hint="name each axis once",
                )
        return tuple(sorted(axes))

    # -- data and results --------------------------------------------------------------------------

    @operation
    def set(self, data: object) -> Self:
        """Give an input its data, which is copied; symbolic dims take their sizes from it.

        A function without arguments is called when the data is first needed.

        >>> x = cx.tensor(("n",)).set([1, 2, 3])
        >>> x.set(lambda: [4, 5]).tolist()
        [4.0, 5.0]
        """
        self.graph.feed(self, data, copy=True)
        return self

    @operation
    def borrow(self, data: npt.ArrayLike) -> Self:
        """Give an input its data without copying it; the array must then stay as it is.

        >>> import numpy as np
        >>> weights = np.ones((2, 2), "float32")
        >>> cx.tensor((2, 2)).borrow(weights).tolist()
        [[1.0, 1.0], [1.0, 1.0]]
        """
        self.graph.feed(self, data, copy=False)
        return self

    @operation
    def keep(self) -> Self:
        """Keep the value after a run that computes it, for later runs.

        >>> inner = (cx.arange(3) * 2).keep()
        >>> y = inner.sum().retrieve()
        >>> cx.execute()
        >>> inner.tolist()
        [0, 2, 4]
        """
        self.graph.hold(self, output=False)
        return self

    @operation
    def retrieve(self) -> Self:
        """Make this an output: the next run computes it, and its value can then be read.

        >>> y = cx.arange(4).sum().retrieve()
        >>> cx.execute()
        >>> y.item()
        6
        """
        self.graph.hold(self, output=True)
        return self

    @operation
    def drop(self) -> Self:
        """Undo `keep`, `retrieve` and probes, and forget the value (for an input: its data).

        >>> x = cx.tensor((2,), name="x").set([1, 2])
        >>> x.drop()
        %x: f32[2], an input without data; give it data with set(...)
        """
        self.graph.release(self)
        return self

    @operation
    def named(self, name: str) -> Self:
        """Give this tensor a name in the graph's text.

        >>> y = (cx.tensor((2,), name="x") * 2).named("doubled")
        >>> print(y.lowering())
        %1 = constant{value = 2.0} : f32[2]
        %doubled = mul %x, %1 : f32[2]
        """
        if check_name(name, "a tensor") != self.node.meta.name:
            self.graph.rename(self.id, self.graph.free_name(name))
        return self

    @operation
    def numpy(self) -> npt.NDArray[Any]:
        """Return the value from a run, or raise if none has computed it.

        >>> y = cx.linspace(0, 1, 3).retrieve()
        >>> cx.execute()
        >>> y.numpy()
        array([0. , 0.5, 1. ], dtype=float32)
        """
        return self.graph.owned(self).copy()

    @operation
    def item(self) -> bool | int | float:
        """Return the only element as a Python number.

        >>> y = cx.arange(5).float().mean().retrieve()
        >>> cx.execute()
        >>> y.item()
        2.0
        """
        value = self.graph.owned(self)
        if value.size != 1:
            raise ShapeError(
                f"item: {self.label} has {value.size} elements and not one",
                hint="use numpy() for all of them",
            )
        return value.item()

    @operation
    def tolist(self) -> Any:  # noqa: ANN401  # a number, or lists of lists
        """Return the value as nested lists of Python numbers.

        >>> y = cx.eye(2).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        return self.numpy().tolist()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.numpy().astype(dtype or self.dtype.numpy, copy=False)

    @operation
    def __bool__(self) -> bool:
        if self.graph.missing(self) is None:
            return bool(self.item())
        raise GraphError(
            f"bool: {self.label} is neither true nor false before it is computed",
            hint="use cond.where(a, b) to choose in the graph, or retrieve() it and run "
            "cx.execute() first",
        )

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    @operation
    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise ShapeError(
                f"len: {self.label} has no first axis of known size",
                hint="use shape[0] for a symbolic dim; what has no axes has no length",
            )
        return self.shape[0]

    @override
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    @override
    def __repr__(self) -> str:
        head = f"%{self.name}: {self.type}"
        missing = self.graph.missing(self)
        if missing is not None:
            return f"{head}, {missing[0]}; {missing[1]}"
        return f"{value_text(self.graph.owned(self))}\n{head}"


def value_text(value: Array) -> str:
    """Return an array as text; a large one shows only its edges."""
    if not value.size:
        return "[] (empty)"
    return np.array2string(value, separator=", ", threshold=200, edgeitems=3)


def as_scalar(what: str, value: Any) -> Scalar:  # noqa: ANN401  # a caller may err
    """Return a Python or NumPy number as a Python number, and a symbolic dim unchanged."""
    if type(value) in NUMBERS:
        return value
    number = value
    if isinstance(value, np.generic):  # bfloat16's item() returns no Python number
        number = float(number) if str(number.dtype) == "bfloat16" else number.item()
    if not isinstance(number, (bool, int, float, Expr)):
        raise DTypeError(
            f"{what}: {value!r} is not a number", hint="give a Python number or a symbolic dim"
        )
    return number


def constant_of(value: Scalar, dtype: DType, shape: Shape) -> Constant:
    """Return the op for a number, or raise if it is not a value of the dtype."""
    value = as_scalar("constant", value)
    if isinstance(value, Expr) or (dtype.is_float and isinstance(value, float)):
        return Constant(value, dtype, shape)
    if isinstance(value, float) and dtype.kind == "int":
        raise DTypeError(
            f"constant: {value!r} is not a value of {dtype}",
            hint="use a whole number, or convert the tensor to a float",
        )
    if dtype is DType.bool_:
        return Constant(bool(value), dtype, shape)
    low, high = (-(1 << 1023), 1 << 1023) if dtype.is_float else dtype.limits
    if not low <= value <= high:
        raise DTypeError(
            f"constant: {value} is not a value of {dtype}, which holds {low} to {high}",
            hint="convert the tensor to a wider dtype first",
        )
    return Constant(float(value) if dtype.is_float else int(value), dtype, shape)


def broadcast(what: str, tensors: Sequence[Lazy]) -> Shape:
    """Return the common shape of tensors, by NumPy's rules."""
    shape = tensors[0].shape
    for other in tensors[1:]:
        if other.shape == shape:
            continue
        rank = max(len(shape), other.ndim)
        a = (1,) * (rank - len(shape)) + shape
        b = (1,) * (rank - other.ndim) + other.shape
        dims: list[Dim] = []
        for axis, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y and x != 1 and y != 1:
                raise ShapeError(
                    f"{what}: the shapes cannot be broadcast together: {tensors[0].label} and "
                    f"{other.label}, so {x} meets {y} on axis {axis - rank}",
                    hint="axes must be equal, or 1, counted from the last",
                )
            dims.append(y if x == 1 else x)
        shape = tuple(dims)
    return shape


__all__ = ["Axis", "DimLike", "Lazy", "ShapeLike", "as_array", "broadcast", "scalar_dtype"]
