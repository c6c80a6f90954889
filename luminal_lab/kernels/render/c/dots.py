"""Sums of products of bytes, which processors have instructions for.

    simd k < 64:                                       t += lab_dot_i8(x, y + 64*j, 64);
      t += i32(x[k]) * i32(y[j, k])        →

    for j < 8:                                         lab_dots_u8(t, x, y, 8, 255);
      for k < 4:                           →
        t[j] += i32(x[4*j + k]) * i32(y[4*j + k])

The instructions add up in 32 bits, as the nest does, or without ever reaching their limit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from luminal_lab.core.dims import Symbol, substitute, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.ops.bits import BitAnd, BitOr, ShiftLeft, ShiftRight
from luminal_lab.kernels.definition.substitution import replaced
from luminal_lab.kernels.definition.terms import (
    Apply,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    free,
    walk,
)
from luminal_lab.kernels.nest.nest import Loop, Set, substituted
from luminal_lab.kernels.nest.sizes import at_most, slope
from luminal_lab.kernels.render.arrays import Arrays
from luminal_lab.kernels.render.index import PRODUCT
from luminal_lab.kernels.render.names import c_name

NEIGHBOURS: Final = 4
"""The products in one of several sums."""
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
    places = (place_of(factor, loop, arrays) for factor in (dot.first, dot.second))
    return code.call(f"lab_dot_{dot.first.dtype.short}", *places, code.index(loop.size))


class Dots(NamedTuple):
    """Sums of four products each, side by side."""

    update: Set
    firsts: tuple[Term, ...]
    """The bytes of all products in a row, in as many equal parts; made of bytes in memory, or
    those themselves."""
    second: Factor
    row: Loop
    """The loop over all products in a row."""
    products: int


def dots_of(loop: Loop, arrays: Arrays) -> Dots | None:
    """Return the sums that a loop adds four products to, if there may be instructions for it."""
    match loop:
        case Loop(start=0, size=int(count), body=(Loop(start=0, size=4) as inner,)):
            pass
        case _:
            return None
    match inner.body:
        case (Set(how="+=", term=Apply(op=Mul(), args=args, dtype=DType.int32)) as update,):
            pass
        case _:
            return None
    if arrays.types[update.name].dtype is not DType.int32:
        return None
    target = arrays.nest.flat(update.name, update.index)
    if (slope(target, loop.axis), slope(target, inner.axis)) != (1, 0):
        return None
    if not all(_is_in_row(part, loop, inner, update.name, arrays) for part in walk(*args)):
        return _halved(loop, count // 2, arrays) if count % (2 * NEIGHBOURS) == 0 else None
    row = replace(inner, size=NEIGHBOURS * count)
    left, right = (replaced(arg, {loop.name: 0}) for arg in args)
    for first, second in ((left, right), (right, left)):
        byte, factor = _cast_from(first, DType.int32), _factor(second, row, arrays)
        if byte is None or byte.dtype not in (DType.int8, DType.uint8):
            continue
        if factor is not None and factor.dtype is DType.int8 and row.name in free(byte):
            return Dots(update, (byte,), factor, row, NEIGHBOURS * count)
    return None


def _halved(loop: Loop, half: int, arrays: Arrays) -> Dots | None:
    """Return the sums of a loop whose two halves each read their bytes in a row.

    So it is where each byte in memory stands for two numbers.
    """
    axis = Symbol(loop.name, 0, half - 1)
    bodies = (substituted(loop.body, {loop.name: each}) for each in (axis, axis + half))
    halves = [dots_of(replace(loop, axis=axis, size=half, body=body), arrays) for body in bodies]
    match halves:
        case [Dots(firsts=(low,)) as dots, Dots(firsts=(high,)) as other]:
            pass
        case _:
            return None
    starts = [
        substitute(arrays.nest.flat(read.buffer, read.index), {each.row.name: 0, loop.name: 0})
        for each in (dots, other)
        for read in [each.second.read]
    ]
    is_one = dots.second.read.buffer == other.second.read.buffer
    if not is_one or starts[1] - starts[0] != dots.products:
        return None
    size = 2 * dots.products
    return dots._replace(firsts=(low, high), row=replace(dots.row, size=size), products=size)


def _is_in_row(part: Term, loop: Loop, inner: Loop, sums: str, arrays: Arrays) -> bool:
    """Return whether a part of a term is the next one in memory for the next product, or the same.

    Then the products of all sums are one row.
    """
    match part:
        case Guarded() | Lookup():
            return False
        case Read(buffer=buffer, index=index):
            flat = arrays.nest.flat(buffer, index)
            near = slope(flat, inner.axis)
            return buffer != sums and near in (0, 1) and slope(flat, loop.axis) == NEIGHBOURS * near
        case _:
            moving = {symbol for dim in part.places for symbol in symbols(dim)}
            return moving.isdisjoint({loop.axis, inner.axis})


def greatest(byte: Term) -> int:
    """Return what no value of a term of bytes is above.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> low = parse_definition('''kernel low(x: u8[n]) -> (y: u8[n])
    ...   y[i < n] = bit_or(shift_left(bit_and(x[i], 2_u8), 4_u8), bit_and(x[i], 15_u8))''')
    >>> greatest(low.outputs[0].term)
    63
    """
    most = 255 if byte.dtype is DType.uint8 else 127
    match byte:
        case Number(value=value):
            return int(value) if value >= 0 else most
        case Apply(op=BitAnd(), args=args):
            return min(map(greatest, args))
        case Apply(op=BitOr(), args=args):
            return (1 << max(map(greatest, args)).bit_length()) - 1
        case Apply(op=ShiftLeft(), args=(value, Number(value=places))) if 0 <= places < 8:
            return min(greatest(value) << int(places), most)
        case Apply(op=ShiftRight(), args=(value, Number(value=places))) if 0 <= places < 8:
            return greatest(value) >> int(places)
        case _:
            return most


def place_of(factor: Factor, loop: Loop, arrays: Arrays) -> str:
    """Return where the bytes along a loop begin."""
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
    return None if byte is None else factor_of(byte, loop, arrays)


def factor_of(byte: Term, loop: Loop, arrays: Arrays) -> Factor | None:
    """Return bytes that lie side by side along a loop, if a term reads such."""
    if byte.dtype not in (DType.int8, DType.uint8):
        return None
    read = byte if isinstance(byte, Read) else _cast_from(byte, DType.int8)
    if not isinstance(read, Read) or read.dtype.itemsize != 1 or read.dtype.kind != "int":
        return None
    if arrays.is_scalar(read.buffer):
        return None
    flat = arrays.nest.flat(read.buffer, read.index)
    return Factor(read, byte.dtype) if slope(flat, loop.axis) == 1 else None
