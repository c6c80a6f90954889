"""Ops: frozen dataclass values, each class a complete definition.

A class states its `name`, its fields, `infer` (the result's type, or an error) and `eval` (its
meaning in NumPy); an elementwise op also states its C form. Defining the class registers it.
"""

import inspect
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeAlias,
    cast,
    final,
    get_args,
    get_type_hints,
)

from typing_extensions import override

from luminal_lab.core.dims import Dim, Expr, Shape, Symbol, bounds, evaluate, known, symbols
from luminal_lab.core.dtypes import MISSING, Array, DType, as_dtype
from luminal_lab.errors import (
    AxisError,
    DefinitionError,
    DTypeError,
    GraphError,
    LabError,
    LabWarning,
    ShapeError,
)

if TYPE_CHECKING:
    from luminal_lab.core.ir import IR, Node


Scalar: TypeAlias = bool | int | float | Expr
Domain: TypeAlias = Literal["anywhere", "nonzero", "non_negative"]
Slope: TypeAlias = Literal["even", "steep", "jumps"]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
"""The names that the text form can write."""
FIELD_TYPES = (int, float, bool, str, DType, Dim, Shape, tuple[int, ...], Scalar)
"""The field types that the text form can write, beside `Literal` names and bodies."""


@final
class TensorType:
    """The dtype and the shape of a value, known before the value exists.

    >>> import luminal_lab as ll
    >>> ll.Graph().tensor((2, 3)).type
    f32[2, 3]
    """

    __slots__ = ("_hash", "dtype", "shape")
    dtype: Final[DType]
    shape: Final[Shape]

    def __init__(self, dtype: DType, shape: Shape) -> None:
        if type(dtype) is not DType or type(shape) is not tuple or dtype.numpy is MISSING:
            dtype, shape = as_dtype(dtype), tuple(shape)
        self.dtype = dtype
        self.shape = shape
        self._hash = hash((dtype, shape))

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TensorType)
            and self.dtype is other.dtype
            and self.shape == other.shape
        )

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"

    def with_dtype(self, dtype: DType) -> "TensorType":
        """Return the same shape with another dtype.

        >>> cx.tensor((2, 3)).type.with_dtype(ll.DType.float16)
        f16[2, 3]
        """
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Shape) -> "TensorType":
        """Return the same dtype with another shape.

        >>> cx.tensor((2, 3)).type.with_shape((6,))
        f32[6]
        """
        return TensorType(self.dtype, shape)

    def with_axis(self, axis: int, size: Dim) -> "TensorType":
        """Return the same type with one axis of another size.

        >>> cx.tensor((2, 3)).type.with_axis(0, 5)
        f32[5, 3]
        """
        return TensorType(self.dtype, (*self.shape[:axis], size, *self.shape[axis + 1 :]))

    @property
    def is_symbolic(self) -> bool:
        """True if any dim is an expression rather than a number."""
        return any(isinstance(dim, Expr) for dim in self.shape)


def tuple_text(shape: Sequence[Dim]) -> str:
    """Return a shape as a Python tuple in text.

    >>> tuple_text((3,)), tuple_text((2, 3))
    ('(3,)', '(2, 3)')
    """
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def size_of(shape: Sequence[Dim]) -> Dim:
    """Return the number of elements of a shape."""
    size: Dim = 1
    for dim in shape:
        size = size * dim
    return size


class Op:
    """The base of all ops; a subclass is a frozen dataclass with typed fields.

    >>> import luminal_lab as ll
    >>> (ll.Graph().tensor((2,)) * 3).node.op
    Mul()
    """

    __slots__ = ("_hash",)
    _hash: int
    name: ClassVar[str]
    commutative: ClassVar[bool] = False
    in_type: ClassVar[tuple[str, ...]] = ()
    """Fields that the result's type implies, which the text therefore omits."""
    cost: ClassVar[int] = 0
    """The cost of one element of the result, in additions."""
    ulps: ClassVar[int] = 4
    """The units in the last place that a device may be off: 0 if the op rounds nothing, 1 if it
    rounds the exact result once, more for a function that each library computes in its own way."""
    domain: ClassVar[Domain] = "anywhere"
    """The domain of the last source; rules may assume it."""
    slope: ClassVar[Slope] = "even"
    """Whether a small change of a source may change the result much, or make it jump."""

    # Each op states its own sources, so the base can only say "any", which
    # a type checker accepts as compatible with every signature.
    def infer(self, *args: Any, **kwargs: Any) -> TensorType:
        """Return the result's type for sources of the given types, or raise.

        >>> x = cx.tensor((2, 3))
        >>> x.sum(1, keepdim=True).node.op.infer(x.type)
        f32[2, 1]
        """
        raise _fault(type(self), "has no infer", "define infer, which returns the result's type")

    def eval(self, *args: Any, **kwargs: Any) -> Array:
        """Return the result for NumPy arrays: the meaning of the op.

        >>> import numpy as np
        >>> cx.arange(4).flip().node.op.eval(np.arange(4))
        array([3, 2, 1, 0])
        """
        raise _fault(type(self), "has no eval", "define eval, which says in NumPy what it means")

    def types(self, sources: "Sequence[Node]") -> tuple[TensorType, ...]:
        """Return the types of all results; more than one only for a `Call`.

        >>> y = cx.tensor((2, 3)).sum(1, keepdim=True)
        >>> y.node.op.types(cx.ir.sources(y.node))
        (f32[2, 1],)
        """
        return (self.infer(*one_result_each(sources)),)

    def bind(self, dims: Mapping[str, int]) -> "Op":
        """Return this op with the symbolic dims in its fields replaced by their values.

        >>> op = cx.tensor(("n", 4)).reshape("2*n", 2).node.op
        >>> op, op.bind({"n": 3})
        (Reshape(shape=(2*n, 2)), Reshape(shape=(6, 2)))
        """
        if not self.symbols():
            return self
        values = {field: getattr(self, field) for field in fields_of(type(self))}
        return type(self)(**{field: _bound(value, dims) for field, value in values.items()})

    def body_of(self) -> "IR | None":
        """Return the graph that this op stands for, if any.

        >>> y = cx.tensor((2, 4), name="x").softmax(-1).retrieve()
        >>> (call,) = cx.compile("recognise, dce").ir.outputs
        >>> call.op.body_of()
        <IR softmax: 11 nodes>
        """
        return None

    def symbols(self) -> tuple[Symbol, ...]:
        """Return the symbolic dims that the fields mention.

        >>> cx.zeros(("n", 4)).node.op.symbols()
        (n,)
        """
        values = (getattr(self, field) for field in fields_of(type(self)))
        return tuple(s for value in values for dim in _parts(value) for s in symbols(dim))

    # -- as a value --------------------------------------------------------------------------------

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise _fault(type(self), *NO_DATACLASS)

    @override
    def __eq__(self, other: object) -> bool:
        """Compare class and fields as text does: -0.0 is not 0.0, NaN is NaN, True is not 1."""
        if self is other or type(self) is not type(other):
            return self is other
        return not fields_of(type(self)) or _key(self) == _key(cast(Op, other))

    @override
    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:  # the first time
            object.__setattr__(self, "_hash", hash(_key(self)))
            return self._hash

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # A dataclass keeps methods that the class has; the generated one compares by `==`.
        for method in (Op.__eq__, Op.__hash__):
            if method.__name__ not in vars(cls):
                setattr(cls, method.__name__, method)
        if "name" in vars(cls):
            _register(cls)


def _parts(value: object) -> Sequence[Dim]:
    parts = cast(tuple[object, ...], value) if isinstance(value, tuple) else (value,)
    return [part for part in parts if isinstance(part, Expr)]


def _bound(value: object, dims: Mapping[str, int]) -> object:
    if isinstance(value, tuple):
        return tuple([_bound(part, dims) for part in cast(tuple[object, ...], value)])
    return evaluate(value, dims) if isinstance(value, Expr) else value


OPS: dict[str, type[Op]] = {}
"""Every op class by its name in the text form."""
_FIELDS: dict[type[Op], dict[str, object]] = {}
NO_DATACLASS = (
    "is not a frozen dataclass",
    "write @dataclass(frozen=True, slots=True) above the class",
)


def _fault(cls: type[Op], what: str, hint: str) -> DefinitionError:
    subject = f"op {cls.name!r}" if hasattr(cls, "name") else "op"
    return DefinitionError(f"{subject}: the class {cls.__name__} {what}", hint=hint)


def _register(cls: type[Op]) -> None:
    # `dataclass(slots=True)` creates the class a second time, with the first one's attributes.
    if "__dataclass_fields__" not in vars(cls):
        old, identity = OPS.get(cls.name, cls), (cls.__module__, cls.__qualname__)
        if not NAME.fullmatch(cls.name):
            raise _fault(cls, "has an invalid name", "use letters, digits, '_' and '.'")
        if not vars(cls).get("__doc__"):
            raise _fault(cls, "has no docstring", "say in one sentence what the op computes")
        if (old.__module__, old.__qualname__) != identity:
            other = f"{old.__module__}.{old.__qualname__}"
            raise _fault(cls, f"has the name of another op, {other}", "give it another name")
        if old is not cls:
            again = f"op {cls.name!r} was defined again; the new definition is used from here on"
            warnings.warn(again, LabWarning, stacklevel=3)
    OPS[cls.name] = cls


def fields_of(cls: type[Op]) -> Mapping[str, object]:
    """Return the fields of an op class with their types, in order; the class is checked once."""
    hints = _FIELDS.get(cls)
    if hints is None:
        hints = _FIELDS[cls] = _check_class(cls)
    return hints


def _check_class(cls: type[Op]) -> dict[str, object]:
    if "name" not in vars(cls):
        raise _fault(cls, "has no name of its own", 'write name: ClassVar[str] = "…" in the class')
    if not getattr(vars(cls).get("__dataclass_params__"), "frozen", False):
        raise _fault(cls, *NO_DATACLASS)
    try:
        hints = get_type_hints(cls)
    except NameError as error:
        what = f"has a field whose type is not known: {error}"
        raise _fault(cls, what, "import the type where the class is defined") from error
    checked = {field.name: hints[field.name] for field in fields(cls)}  # pyright: ignore[reportArgumentType]  # checked above
    for name, hint in checked.items():
        words = get_args(hint)
        if hint in FIELD_TYPES or getattr(hint, "__name__", "") == "IR":
            continue
        if not words or not all(isinstance(w, str) and NAME.fullmatch(w) for w in words):
            raise _fault(
                cls,
                f"has a field {name!r} whose type {hint} the text form cannot write",
                "use int, float, bool, str, Literal names, DType, Dim, Shape, Scalar, "
                "tuple[int, ...] or IR",
            )
    return checked


def _key(op: Op) -> tuple[object, ...]:
    key: list[object] = [type(op)]
    for field, hint in fields_of(type(op)).items():
        value: Any = getattr(op, field)
        if hint is float or isinstance(value, (float, bool)):
            value = value if isinstance(value, bool) and hint is not float else float(value)
            # In Python 0.0 == -0.0, NaN != NaN, and 1.0 == True.
            value = type(value), value if value and value == value else repr(value)
        key.append(value)
    return tuple(key)


def mentioned(types: Iterable[TensorType], ops: Iterable[Op]) -> dict[str, Symbol]:
    """Return the symbolic dims that types and ops mention, by name."""
    return {symbol.name: symbol for symbol in sorted({*mentions(types, ops)}, key=str)}


def mentions(types: Iterable[TensorType], ops: Iterable[Op]) -> list[Symbol]:
    """Return each mention of a symbolic dim in types and ops."""
    listed = [symbol for type in types for dim in type.shape for symbol in symbols(dim)]
    return listed + [symbol for op in ops for symbol in op.symbols()]


def one_result_each(sources: "Sequence[Node]") -> list[TensorType]:
    """Return the types of sources, or raise if one of them needs a pick."""
    for source in sources:
        if source.extra:
            raise GraphError(
                f"{source} has {len(source.types)} results, and only a pick can read them",
                hint="read one result with pick{index = 0}",
            )
    return [source.type for source in sources]


def result_types(op: Op, sources: "Sequence[Node]") -> tuple[TensorType, ...]:
    """Return the types of all results, or raise a `LabError` with the reason."""
    if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        if isinstance(op, type) and issubclass(op, Op):
            raise GraphError(f"{op.__name__} is the class of an op", hint=f"write {op.__name__}(…)")
        raise GraphError(f"{op!r} is not an op", hint="give a value: luminal_lab.core.ops.Sin()")
    fields_of(type(op))
    try:
        types = op.types(sources)
    except Exception as error:
        if isinstance(error, LabError) and not isinstance(error, AttributeError):
            raise
        signature = inspect.signature(op.infer)
        try:
            signature.bind(*sources)
        except TypeError:
            wanted, many = ", ".join(signature.parameters), len(sources)
            given = f"{many} {'was' if many == 1 else 'were'} given"
            named = f"it takes the sources {wanted}" if wanted else "it takes no sources"
            raise GraphError(f"{op.name}: {named}; {given}") from None
        raise _fault(type(op), f"has an infer that fails: {error!r}", "mend infer") from error
    if type(types[0]) is not TensorType:
        what = f"has an infer that returns {types[0]!r}"
        raise _fault(type(op), what, "return a TensorType")
    return types


# -- families ----------------------------------------------------------------------------------


class Elementwise(Op):
    """An op that computes each element from the elements at the same position.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3)) + 1
    >>> y.node.op, isinstance(y.node.op, ll.Elementwise)
    (Add(), True)
    """

    __slots__ = ()
    c_form: ClassVar[str]
    cost: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Unary(Elementwise):
    """An elementwise op on one float.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3)).sin()
    >>> y.node.op, isinstance(y.node.op, ll.Unary)
    (Sin(), True)
    """

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the source, which must be a float.

        >>> from luminal_lab.core.ops import Sin
        >>> Sin().infer(cx.tensor((2, 3)).type)
        f32[2, 3]
        """
        if x.dtype.kind != "float":
            raise DTypeError(
                f"{self.name}: needs a float, but the source is {x.dtype}",
                hint='convert it first, as in x.cast("float32")',
            )
        return x


@dataclass(frozen=True, slots=True)
class Binary(Elementwise):
    """An elementwise op on two values of one type.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3)) + 1
    >>> y.node.op, isinstance(y.node.op, ll.Binary)
    (Add(), True)
    """

    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        """Return the type that both sources have.

        >>> from luminal_lab.core.ops import Add
        >>> x = cx.tensor((2, 3))
        >>> Add().infer(x.type, x.type)
        f32[2, 3]
        """
        if x is not y and x != y:
            same_type(self.name, x, y)
        return x


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """An op that reduces one axis, which stays with size 1.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3)).sum(-1, keepdim=True)
    >>> y.node.op, isinstance(y.node.op, ll.Reduce)
    (SumReduce(axis=1), True)
    """

    axis: int

    def infer(self, x: TensorType) -> TensorType:
        """Return the source's type with the axis at size 1.

        >>> from luminal_lab.core.ops import SumReduce
        >>> SumReduce(axis=1).infer(cx.tensor((2, 3)).type)
        f32[2, 1]
        """
        check_axis(self.name, self.axis, x.shape)
        return x.with_axis(self.axis, 1)


class Source(Op):
    """An op without sources.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3))
    >>> isinstance(y.node.op, ll.Source), y.node.sources
    (True, ())
    """

    __slots__ = ()
    ulps: ClassVar[int] = 0


class View(Op):
    """An op that only maps each element to its source position; it moves no data.

    >>> import luminal_lab as ll
    >>> y = ll.Graph().tensor((2, 3)).T
    >>> y.node.op, isinstance(y.node.op, ll.View)
    (Permute(axes=(1, 0)), True)
    """

    __slots__ = ()
    ulps: ClassVar[int] = 0


# -- what the shape rules share ------------------------------------------------------------------


def same_type(name: str, *types: TensorType) -> None:
    """Raise unless all types are equal; the error names the difference."""
    first = types[0]
    for other in types[1:]:
        if first.dtype is not other.dtype:
            raise DTypeError(
                f"{name}: the dtypes differ: {first.dtype} and {other.dtype}",
                hint="convert one of them with cast",
            )
        if first.shape != other.shape:
            raise ShapeError(
                f"{name}: the shapes differ: {tuple_text(first.shape)} and "
                f"{tuple_text(other.shape)}",
                hint="expand one of them to the shape of the other",
            )


def check_axis(name: str, axis: int, shape: Shape) -> None:
    """Raise unless `axis` counts an axis of `shape` from the front."""
    if not 0 <= axis < len(shape):
        raise AxisError(
            f"{name}: there is no axis {axis} in the shape {tuple_text(shape)}",
            hint=f"axes count from 0 to {len(shape) - 1}" if shape else "the value has no axes",
        )


def check_rank(name: str, what: str, count: int, shape: Shape) -> None:
    """Raise unless a per-axis field has one entry for each axis of `shape`."""
    if count != len(shape):
        raise ShapeError(
            f"{name}: {what} has {count} entries, but the shape {tuple_text(shape)} has "
            f"{len(shape)} axes",
            hint=f"give {what} one entry for each axis",
        )


def made_type(name: str, dtype: DType, shape: Shape) -> TensorType:
    """Return the type stated by a source op, or raise if a dim is known to be negative."""
    for dim in shape:
        most = dim if dim.__class__ is int else bounds(dim)[1]
        if most is not None and most < 0:
            raise ShapeError(
                f"{name}: a dim cannot be negative, but the shape is {tuple_text(shape)}"
            )
    return TensorType(dtype, shape)


def never(condition: Dim) -> bool:
    """Return whether a condition on dims is known to be false."""
    return known(condition) is False


def ints(shape: Shape) -> tuple[int, ...]:
    """Return a fully bound shape, typed as integers."""
    assert all(isinstance(dim, int) for dim in shape), f"{tuple_text(shape)} is not bound"
    return shape  # pyright: ignore[reportReturnType]  # the assertion above says so
