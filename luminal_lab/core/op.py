"""What an op is: a frozen dataclass value whose class is its whole definition.

A class states its `name`, its fields, `infer` (the result's type, or an error) and `eval` (its
meaning in NumPy); an elementwise op also states its C form. Defining the class registers it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, final, get_type_hints

from typing_extensions import override

from luminal_lab.core.dims import Dim, Expr, Shape, Symbol, evaluate, known, symbols
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.errors import AxisError, DefinitionError, DTypeError, LabWarning, ShapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luminal_lab.core.ir import IR, Node


Scalar: TypeAlias = bool | int | float | Expr


@final
class TensorType:
    """A dtype and a shape: what is known of a value before it exists."""

    __slots__ = ("_hash", "dtype", "shape")
    dtype: Final[DType]
    shape: Final[Shape]

    def __init__(self, dtype: DType, shape: Shape) -> None:
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
        """Return the same shape with another dtype."""
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Shape) -> "TensorType":
        """Return the same dtype with another shape."""
        return TensorType(self.dtype, shape)

    def with_axis(self, axis: int, size: Dim) -> "TensorType":
        """Return the same type with one axis of another size."""
        return TensorType(self.dtype, (*self.shape[:axis], size, *self.shape[axis + 1 :]))

    @property
    def is_symbolic(self) -> bool:
        """True if any dim is an expression rather than a number."""
        return any(isinstance(dim, Expr) for dim in self.shape)


def tuple_text(shape: Sequence[Dim]) -> str:
    """Write a shape as the Python tuple that a user would write.

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
    """The base of all ops; a subclass is a frozen dataclass with typed fields."""

    __slots__ = ()
    name: ClassVar[str]
    commutative: ClassVar[bool] = False
    in_type: ClassVar[tuple[str, ...]] = ()
    """Fields that the result's type says already, so that the text does not say them again."""

    # Each op states its own sources, so that the base can only say "any"; that is what
    # a type checker takes to be compatible with every signature.
    def infer(self, *args: Any, **kwargs: Any) -> TensorType:
        """Return the result's type for sources of the given types, or raise."""
        raise NotImplementedError(type(self).__name__)

    def eval(self, *args: Any, **kwargs: Any) -> Array:
        """Return the result for NumPy arrays: this is what the op means."""
        raise NotImplementedError(type(self).__name__)

    def types(self, sources: "Sequence[Node]") -> tuple[TensorType, ...]:
        """Return the types of all results; more than one only for a `Call`."""
        return (self.infer(*[source.type for source in sources]),)

    def bind(self, dims: "Mapping[str, int]") -> "Op":
        """Return this op with every symbolic dim in its fields replaced by its value."""
        changed: dict[str, object] = {}
        for field in fields_of(type(self)):
            value = getattr(self, field)
            if isinstance(value, Expr):
                changed[field] = evaluate(value, dims)
            elif isinstance(value, tuple) and any(isinstance(dim, Expr) for dim in value):
                changed[field] = tuple(evaluate(dim, dims) for dim in value)
        if not changed:
            return self
        return type(self)(**{f: getattr(self, f) for f in fields_of(type(self))} | changed)

    def body_of(self) -> "IR | None":
        """Return the graph that this op stands for, if it stands for one."""
        return None

    def symbols(self) -> tuple[Symbol, ...]:
        """Return the symbolic dims that the fields mention."""
        values = (getattr(self, field) for field in fields_of(type(self)))
        return tuple(
            symbol
            for value in values
            for dim in (value if isinstance(value, tuple) else (value,))
            if isinstance(dim, Expr)
            for symbol in symbols(dim)
        )

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _register(cls)


OPS: dict[str, type[Op]] = {}
"""Every op class by its name in the text form."""


def _register(cls: type[Op]) -> None:
    old = OPS.get(cls.name)
    place = (cls.__module__, cls.__qualname__)
    if old is not None:
        if (old.__module__, old.__qualname__) != place:
            raise DefinitionError(
                f"op {cls.name!r}: {'.'.join(place)} defines it, and so does "
                f"{old.__module__}.{old.__qualname__}",
                hint="give the new op another name",
            )
        # `dataclass(slots=True)` makes the class a second time; then they share an __init__.
        made_again = "__init__" in vars(old) and vars(old)["__init__"] is vars(cls).get("__init__")
        if not made_again:
            warnings.warn(
                f"op {cls.name!r} was defined again; the new definition is used from here on",
                LabWarning,
                stacklevel=3,
            )
    OPS[cls.name] = cls


_FIELDS: dict[type[Op], dict[str, object]] = {}


def fields_of(cls: type[Op]) -> "Mapping[str, object]":
    """Return the fields of an op class with their types, in order."""
    known_fields = _FIELDS.get(cls)
    if known_fields is None:
        hints = get_type_hints(cls)
        names = [field.name for field in fields(cls)] if is_dataclass(cls) else []
        known_fields = _FIELDS[cls] = {name: hints[name] for name in names}
    return known_fields


# -- families ----------------------------------------------------------------------------------


class Elementwise(Op):
    """An op that makes each element from the elements at the same position."""

    __slots__ = ()
    c_form: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Unary(Elementwise):
    """An elementwise op on one float."""

    def infer(self, x: TensorType) -> TensorType:
        """Return the type of the source, which must be a float."""
        if not x.dtype.is_float:
            raise DTypeError(
                f"{self.name}: needs a float, but the source is {x.dtype}",
                hint='convert it first, as in x.cast("float32")',
            )
        return x


@dataclass(frozen=True, slots=True)
class Binary(Elementwise):
    """An elementwise op on two values of one type."""

    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        """Return the type that both sources have."""
        if x is not y and x != y:
            same_type(self.name, x, y)
        return x


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """An op that reduces one axis, which stays with size 1."""

    axis: int

    def infer(self, x: TensorType) -> TensorType:
        """Return the source's type with the axis at size 1."""
        check_axis(self.name, self.axis, x.shape)
        return x.with_axis(self.axis, 1)


class Source(Op):
    """An op without sources."""

    __slots__ = ()


class View(Op):
    """An op that only says where each element is read from; it moves no data."""

    __slots__ = ()


# -- what the shape rules share ------------------------------------------------------------------


def same_type(name: str, *types: TensorType) -> None:
    """Raise unless all types are equal, saying in which way they are not."""
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


def never(condition: Dim) -> bool:
    """Return whether a condition on dims is known not to hold."""
    return known(condition) is False


def ints(shape: Shape) -> tuple[int, ...]:
    """Return a shape whose symbols are all bound, typed as the numbers that it holds."""
    assert all(isinstance(dim, int) for dim in shape), f"{tuple_text(shape)} is not bound"
    return shape  # pyright: ignore[reportReturnType]  # the assertion above says so
