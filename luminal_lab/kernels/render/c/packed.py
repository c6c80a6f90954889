"""Bytes that are made of bytes, eight at a time, as one word.

    (x[i] >> 2) & 15        →   (w >> 2) & 0x3f3f3f3f3f3f3f3f & 0x0f0f0f0f0f0f0f0f
    x[i] << 4 | y[i]        →   (w << 4) & 0xf0f0f0f0f0f0f0f0 | v

Shifts move bits from one byte into the next, where a mask takes them away. Vectors of words can be
shifted by one instruction; there is none for vectors of bytes.
"""

from __future__ import annotations

from typing import Final

from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import (
    BitAnd,
    BitOr,
    BitXor,
    Cast,
    Mul,
    ShiftLeft,
    ShiftRight,
    Where,
)
from luminal_lab.kernels.definition.terms import Apply, Number, Read, Term, free

WORD: Final = DType.uint64
BYTES: Final = 8
"""The bytes of a word."""
EACH: Final = int.from_bytes(bytes([1] * BYTES), "little")
"""A word with 1 in each byte."""


def in_words(term: Term, axis: str) -> Term | None:
    """Return what makes eight neighbours of a byte along an axis; None if words cannot.

    Reads of neighbours are casts to words there, which the caller has to write.
    """
    if term.dtype is not DType.uint8:
        is_signed = isinstance(term, Apply) and term.op == Cast(DType.int8)
        return in_words(term.args[0], axis) if isinstance(term, Apply) and is_signed else None
    if axis not in free(term):
        return _everywhere(term)
    match term:
        case Read():
            return Apply(Cast(WORD), (term,), WORD)
        case Apply(op=BitAnd() | BitOr() | BitXor() as op, args=args):
            parts = [in_words(arg, axis) for arg in args]
            return None if None in parts else Apply(op, tuple(filter(None, parts)), WORD)
        case Apply(op=Where() as op, args=(test, *args)) if axis not in free(test):
            parts = [in_words(arg, axis) for arg in args]
            return None if None in parts else Apply(op, (test, *filter(None, parts)), WORD)
        case Apply(op=ShiftLeft() | ShiftRight() as op, args=(shifted, by)) if axis not in free(by):
            word = in_words(shifted, axis)
            if word is None:
                return None
            kept = _everywhere(Apply(op, (Number(255, DType.uint8), by), DType.uint8))
            count = Apply(Cast(WORD), (by,), WORD)
            return Apply(BitAnd(), (Apply(op, (word, count), WORD), kept), WORD)
        case _:
            return None


def _everywhere(byte: Term) -> Term:
    """Return a word whose bytes are all the same."""
    if isinstance(byte, Number):
        return Number(int(byte.value) * EACH, WORD)
    return Apply(Mul(), (Apply(Cast(WORD), (byte,), WORD), Number(EACH, WORD)), WORD)
