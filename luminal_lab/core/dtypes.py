"""The dtypes, and PyTorch's rules for promoting them, with NumPy's where PyTorch has none."""

from collections.abc import Iterable
from enum import StrEnum
from functools import reduce
from typing import Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.bfloat import BFLOAT16, MISSING, refuse
from luminal_lab.errors import DTypeError, nearest

Array: TypeAlias = npt.NDArray[np.generic]
Kind: TypeAlias = Literal["bool", "int", "float"]


class DType(StrEnum):
    """A dtype; equal to its NumPy name, so `t.dtype == "float32"` holds.

    >>> import luminal_lab as ll
    >>> x = ll.Graph().tensor((2,), dtype="float16")
    >>> x.dtype == "float16", x.dtype is ll.DType.float16
    (True, True)
    """

    short: str
    numpy: np.dtype[np.generic]
    kind: Kind

    def __new__(cls, value: str, short: str) -> "DType":
        """Make a member from its NumPy name and its name in the text form."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.short = short
        member.numpy = BFLOAT16 if value == "bfloat16" else np.dtype(value)
        member.kind = "float" if "float" in value else "int" if "int" in value else "bool"
        return member

    float64 = "float64", "f64"
    float32 = "float32", "f32"
    float16 = "float16", "f16"
    bfloat16 = "bfloat16", "bf16"
    int64 = "int64", "i64"
    int32 = "int32", "i32"
    int16 = "int16", "i16"
    int8 = "int8", "i8"
    uint64 = "uint64", "u64"
    uint32 = "uint32", "u32"
    uint16 = "uint16", "u16"
    uint8 = "uint8", "u8"
    bool_ = "bool", "bool"

    # Members are dict keys on the hottest path; Enum's own hash is a Python function.
    __hash__ = str.__hash__

    @classmethod
    @override
    def _missing_(cls, value: object) -> "DType":
        return as_dtype(cast("DTypeLike", value))

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """True for the four floating-point dtypes."""
        return self.kind == "float"

    @property
    def is_half(self) -> bool:
        """True for the 16-bit floats, whose arithmetic is done in float32."""
        return self.kind == "float" and self.numpy.itemsize == 2

    @property
    def is_unsigned(self) -> bool:
        """True for the integers that are never negative."""
        return self.value.startswith("u")

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer or bool dtype."""
        if self.kind == "bool":
            return 0, 1
        low = 0 if self.is_unsigned else -(1 << (8 * self.itemsize - 1))
        return low, low + (1 << 8 * self.itemsize) - 1


SHORT = {member.short: member for member in DType}
BY_NUMPY = {member.numpy: member for member in DType}
DTypeLike: TypeAlias = DType | str | np.dtype[np.generic] | type


def as_dtype(like: DTypeLike) -> DType:
    """Return the DType that a name, a NumPy dtype or a Python type stands for.

    >>> as_dtype("float32"), as_dtype(float), as_dtype("f16")
    (<DType.float32: 'float32'>, <DType.float32: 'float32'>, <DType.float16: 'float16'>)
    """
    if isinstance(like, DType):
        return refuse() if like.numpy is MISSING else like
    if isinstance(like, type) and like in (bool, int, float):  # np.dtype("float64") == float
        return scalar_dtype(like(0))
    if isinstance(like, str) and like in SHORT:
        return SHORT[like]
    try:
        return BY_NUMPY[np.dtype(like or "none")]  # NumPy reads None as float64
    except (TypeError, KeyError, ValueError, DeprecationWarning):
        # torch.float32 and its like print as "torch.float32".
        name = getattr(like, "__name__", str(like)).removeprefix("torch.")
        if name in DType.__members__ or name == "bool":
            return DType(name)
        raise DTypeError(
            f"dtype: {name!r} is not a dtype that luminal_lab has",
            hint=nearest(name, [*map(str, DType), *SHORT]) or f"one of {', '.join(DType)}",
        ) from None


def scalar_dtype(value: bool | float) -> DType:
    """Return the default dtype of a Python number."""
    if isinstance(value, bool):
        return DType.bool_
    return DType.int64 if isinstance(value, int) else DType.float32


INTEGERS = tuple(dtype for dtype in DType if dtype.kind == "int")
KIND_ORDER: dict[Kind, int] = {"bool": 0, "int": 1, "float": 2}


def promote(a: DType, b: DType) -> DType:
    """Return the common dtype of two, by PyTorch's table.

    Of two integer dtypes it is the smallest that holds the values of both, as in NumPy; PyTorch
    has no rule for uint16, uint32 and uint64. None holds uint64 and negative numbers.

    >>> promote(DType.uint8, DType.int8), promote(DType.float16, DType.bfloat16)
    (<DType.int16: 'int16'>, <DType.float32: 'float32'>)
    """
    if a is b:
        return a
    if a.kind != b.kind:
        return a if KIND_ORDER[a.kind] > KIND_ORDER[b.kind] else b
    if a.kind == "float":
        return DType.float32 if a.is_half and b.is_half else max(a, b, key=lambda d: d.itemsize)
    ends = (*a.limits, *b.limits)
    fitting = [d for d in INTEGERS if d.limits[0] <= min(ends) and max(ends) <= d.limits[1]]
    if not fitting:
        told = f"promotion: no integer dtype holds all values of {a} and of {b}"
        raise DTypeError(told, hint="convert one of them with cast")
    return min(fitting, key=lambda dtype: dtype.itemsize)


def promote_all(
    tensors: Iterable[tuple[DType, int]], scalars: Iterable[bool | float] = ()
) -> DType:
    """Return the common dtype of tensors, given as (dtype, rank), and Python scalars.

    As in PyTorch a tensor with axes outweighs one without, and both outweigh a scalar, unless
    the lighter one is of a higher kind (bool, then integers, then floats).
    """
    # What is of a higher kind comes first: beside a float, integers need no common dtype.
    given = sorted(tensors, key=lambda pair: -KIND_ORDER[pair[0].kind])
    groups = (
        [dtype for dtype, rank in given if rank],
        [dtype for dtype, rank in given if not rank],
        [scalar_dtype(value) for value in scalars],
    )
    common = [reduce(promote, group) for group in groups if group]
    if not common:
        raise DTypeError("promotion: there is nothing to promote")
    return max(common, key=lambda dtype: KIND_ORDER[dtype.kind])
