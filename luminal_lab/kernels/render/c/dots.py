"""Sums of products of bytes, which processors have instructions for.

    simd k < 64:                                       t += lab_dot_i8(x, y + 64*j, 64);
      t += i32(x[k]) * i32(y[j, k])        →

The instructions add up in 32 bits, as the nest does, or without ever reaching their limit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from luminal_lab.core.dims import substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.kernels.definition.terms import Apply, Read, Term
from luminal_lab.kernels.nest.nest import Loop, Set
from luminal_lab.kernels.nest.sizes import at_most, slope
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.index import PRODUCT
from luminal_lab.kernels.render.names import c_name

MOST: Final = 1 << 15
"""The most products whose sum is within 32 bits, whatever they are."""


class Factor(NamedTuple):
    """Bytes in memory, and as what they are read."""

    read: Read
    dtype: DType


class Dot(NamedTuple):
    """A sum of products of neighbouring bytes: the factors, of which the second has a sign."""

    update: Set
    first: Factor
    second: Factor


def dot_of(loop: Loop, arrays: Arrays) -> Dot | None:
    """Return the sum of products that a loop is, if there may be instructions for it."""
    match loop.body:
        case (Set(how="+=", index=(), term=term) as update,) if loop.start == 0:
            pass
        case _:
            return None
    dtype = arrays.types[update.name].dtype
    if dtype is DType.int64 and at_most(loop.size) <= MOST:
        term = _cast_from(term, dtype) or term
    if not (isinstance(term, Apply) and term.op == Mul() and term.dtype is DType.int32):
        return None
    factors = [_factor(arg, loop, arrays) for arg in term.args]
    match sorted(filter(None, factors), key=lambda each: each.dtype is DType.int8):
        case [first, Factor(dtype=DType.int8) as second]:
            return Dot(update, first, second)
        case _:
            return None


def dot_text(dot: Dot, loop: Loop, arrays: Arrays) -> str:
    """Return the call that sums all products."""
    code = arrays.code
    places = (_place(factor, loop, arrays) for factor in (dot.first, dot.second))
    return code.call(f"lab_dot_{dot.first.dtype.short}", *places, code.index(loop.size))


def _place(factor: Factor, loop: Loop, arrays: Arrays) -> str:
    read, dtype = factor
    start = substitute(arrays.nest.flat(read.buffer, read.index), {loop.name: 0})
    place = f"{c_name(read.buffer)} + {arrays.code.index(start, PRODUCT)}"
    if dtype is not read.dtype:
        place = f"(const {arrays.code.use(f'lab_{dtype.short}')} *)({place})"
    return place


def _cast_from(term: Term, dtype: DType) -> Term | None:
    """Return what is cast to a dtype."""
    return term.args[0] if isinstance(term, Apply) and term.op == Cast(dtype) else None


def _factor(term: Term, loop: Loop, arrays: Arrays) -> Factor | None:
    """Return bytes that lie side by side along a loop, if a factor is an integer of them."""
    byte = _cast_from(term, DType.int32)
    if byte is None or byte.dtype not in (DType.int8, DType.uint8):
        return None
    read = byte if isinstance(byte, Read) else _cast_from(byte, DType.int8)
    if not isinstance(read, Read) or read.dtype.itemsize != 1 or read.dtype.kind != "int":
        return None
    if arrays.is_scalar(read.buffer):
        return None
    flat = arrays.nest.flat(read.buffer, read.index)
    return Factor(read, byte.dtype) if slope(flat, loop.axis) == 1 else None
