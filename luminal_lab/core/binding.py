"""Data meets types: arrays from any data, their fit to a type, the sizes of symbolic dims."""

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from luminal_lab.core.dims import (
    Dim,
    Expr,
    Symbol,
    bounds,
    check_bounds,
    evaluate,
    solve,
    substitute,
    symbols,
)
from luminal_lab.core.dtypes import BY_NUMPY, KIND_ORDER, Array, DType
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.errors import DeviceError, DimError, DTypeError, InputError, LabError


def as_array(value: Any, what: str = "the data") -> Array:  # noqa: ANN401  # anything may be data
    """Return numbers, lists, or an object with `__array__` or DLPack, as an array."""
    try:
        if hasattr(value, "requires_grad"):  # PyTorch's; NumPy cannot read all of them
            value = value.detach().cpu()
            if str(value.dtype) == "torch.bfloat16":
                return np.asarray(value.float()).astype(DType.bfloat16.numpy)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array: Array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except LabError:
        raise
    except Exception as error:
        raise InputError(
            f"{what}: a {type(value).__name__} that cannot be read as one array",
            hint="give a number, nested lists of equal lengths, or an array",
        ) from error
    if value is None:
        raise DTypeError(
            f"{what}: None is neither a number nor an array", hint="leave it out, or give one"
        )
    if array.dtype not in BY_NUMPY and array.dtype.kind not in "iuf":
        others = (x for x in array.flat if not isinstance(x, (int, float)))
        held = str(array.dtype)
        if held == "object":
            held = next((_kind(x) for x in others), "numbers of more than 64 bits")
        holds = f"a {type(value).__name__} that holds {held}, and not numbers of one of our dtypes"
        raise DTypeError(
            f"{what}: a {held} is neither a number nor an array"
            if held == type(value).__name__
            else f"{what}: {holds}",
            hint=f"the dtypes are {', '.join(DType)}",
        )
    return array


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def fit(
    what: str, data: object, type: TensorType, table: Mapping[str, Symbol], *, copy: bool
) -> Array:
    """Return data as an array of a type, or raise; `what` names its purpose in the error."""
    if data.__class__ is np.ndarray and _is_of(cast("Array", data), type):
        return _copied(what, cast("Array", data), type.dtype, copy=copy)
    array = as_array(data, what)
    if isinstance(data, (bool, int, float)) and all(dim == 1 for dim in type.shape):
        array = array.reshape([1] * len(type.shape))  # a number for the only element
    subject = f"{what} is {tuple_text(type.shape)}, but the data is {tuple_text(array.shape)}"
    if array.ndim != len(type.shape):
        axes = "1 axis" if len(type.shape) == 1 else f"{len(type.shape)} axes"
        raise InputError(subject, hint=f"give data with {axes}, as in data.reshape(...)")
    sizes = solve_shape(type.shape, array.shape, {})
    for axis, (dim, size) in enumerate(zip(type.shape, array.shape, strict=True)):
        if contradicts(dim, size, sizes):
            raise InputError(
                f"{subject}, so that axis {axis} has {size} and not {substitute(dim, sizes)}",
                hint="reshape the data, or make the tensor with the shape of the data",
            )
    for name, size in sizes.items():
        try:
            check_bounds(table[name], size)
        except DimError as error:
            raise DimError(f"{subject}: {error.message}", hint=error.hint) from None
    _check_dtype(what, array, type.dtype)
    return _copied(what, array, type.dtype, copy=copy)


def _copied(what: str, array: Array, dtype: DType, *, copy: bool) -> Array:
    try:
        with np.errstate(all="ignore"):
            return np.array(array, dtype=dtype.numpy, copy=copy or None)
    except MemoryError as error:
        raise DeviceError(
            f"{what}: out of memory: its copy needs {array.size * dtype.itemsize:,} bytes",
            hint="use smaller sizes, or borrow(...), which copies no array of the right dtype",
        ) from error


def _is_of(array: Array, type: TensorType) -> bool:
    """Return whether an array already has exactly this type, the usual case."""
    return array.dtype == type.dtype.numpy and array.shape == type.shape


def solve_shape(
    dims: tuple[Dim, ...], shape: tuple[int, ...], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Return the sizes of symbols that the shape of data determines, given other sizes."""
    solved: dict[str, int] = {}
    pairs = [pair for pair in zip(dims, shape, strict=True) if pair[0].__class__ is not int]
    for _ in pairs:
        for dim, size in pairs:
            solved.update(solve(dim, size, {**sizes, **solved}) or {})
    return solved


def contradicts(dim: Dim, size: int, sizes: Mapping[str, int]) -> bool:
    """Return whether a dim cannot have a size for any values of its unknown symbols."""
    left = substitute(dim, sizes)
    if not isinstance(left, Expr):
        return left != size
    terms = dict(left.terms)
    number = terms.pop((), 0)
    low, high = bounds(left)
    impossible = (low is not None and size < low) or (high is not None and size > high)
    return (size - number) % math.gcd(*terms.values()) != 0 or (
        impossible and not isinstance(left, Symbol)  # `check_bounds` says more
    )


def bound_shape(what: str, shape: tuple[Dim, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape with all its symbols bound."""
    bound = tuple(evaluate(dim, sizes) for dim in shape)
    if any(size < 0 for size in bound):
        names = {s.name for dim in shape for s in symbols(dim)}
        raise DimError(
            f"{what} is {tuple_text(shape)}, which is {tuple_text(bound)} with "
            + ", ".join(f"{name} = {sizes[name]}" for name in sorted(names)),
            hint="a dim cannot be negative; declare bounds with dim(name, low, high)",
        )
    return bound


def _check_dtype(what: str, array: Array, want: DType) -> None:
    """Raise unless an array can be converted to a dtype at the cost of precision alone."""
    # Numbers in the other order of bytes, for example, have no DType here.
    have = BY_NUMPY.get(array.dtype, DType.float64 if array.dtype.kind == "f" else DType.int64)
    if array.dtype == want.numpy or not array.size:
        return
    problem = f"{what} is {want}, but the data is {array.dtype}"
    if KIND_ORDER[have.kind] > KIND_ORDER[want.kind]:
        if have.is_float and not np.isfinite(array).all():
            problem += " and holds NaN or infinity"
        other = DType.float32 if have is DType.float64 else have
        raise DTypeError(
            problem,
            hint=f'convert it, as in numpy.array(data, "{want}"), or make it a {other}',
        )
    if want.kind == "int" and have.kind == "int":
        low, high = want.limits
        least, most = int(array.min()), int(array.max())
        if least < low or most > high:
            raise DTypeError(
                f"{problem} with values from {least} to {most}, and {want} holds {low} to {high}",
                hint="make the tensor of a wider dtype",
            )
