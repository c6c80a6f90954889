"""Eight bytes in a word become what eight bytes become one by one."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.ops import Cast
from luminal_lab.kernels.definition.terms import Apply, Number, Read, Term
from luminal_lab.kernels.nest.nest import Set, walk
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.c.packed import BYTES, WORD, in_words

BYTE = np.arange(256, dtype=np.uint8)
X, Z = (grid.ravel() for grid in np.meshgrid(BYTE, BYTE))
"""Every byte beside every other."""
EACH = {
    "what bits have in common": "bit_and(x[i], z[i])",
    "bits of both": "bit_or(x[i], bit_xor(z[i], 90_u8))",
    "one of two": "where(c[0] < 1_u8, bit_and(x[i], 63_u8), z[i])",
    "the same byte for all": "bit_or(x[i], c[0])",
    **{f"up by {by}": f"shift_left(x[i], {by}_u8)" for by in range(10)},
    **{f"down by {by}": f"bit_or(shift_right(x[i], {by}_u8), z[i])" for by in range(10)},
    "a sign": "i8(bit_or(x[i], shift_left(z[i], 4_u8)))",
}


def term_of(text: str) -> Term:
    kind = "i8" if text.startswith("i8") else "u8"
    nest = parse_nest(f"""nest k(x: u8[65536], z: u8[65536], c: u8[1]) -> (y: {kind}[65536])
  simd i < 65536:
    y[i] = {text}""")
    (only,) = (each for each in walk(nest.body) if isinstance(each, Set))
    return only.term


def value(term: Term, given: dict[str, Any]) -> Any:
    match term:
        case Number(value=number, dtype=dtype):
            return np.asarray(number, dtype.numpy)
        case Read(buffer=name):
            return given[name]
        case Apply(op=Cast(), args=(Read(buffer=name),), dtype=dtype) if (
            dtype is WORD and given[name].size > 1
        ):
            return given[name].view(np.uint64)
        case Apply(op=op, args=args):
            return op.eval(*np.broadcast_arrays(*(value(arg, given) for arg in args)))
        case _:
            raise AssertionError(term)


@pytest.mark.parametrize("text", EACH.values(), ids=[*EACH])
@pytest.mark.parametrize("chosen", [0, 1, 255])
def test_words_have_the_bytes_that_bytes_make(text: str, chosen: int) -> None:
    term = term_of(text)
    words = in_words(term, "i")
    assert words is not None
    assert words.dtype is WORD
    given = {"x": X, "z": Z, "c": np.array([chosen], np.uint8)}
    made = value(words, given)
    assert made.size * BYTES == X.size
    np.testing.assert_array_equal(made.view(term.dtype.numpy), value(term, given))


@pytest.mark.parametrize(
    "text",
    ["x[i] + z[i]", "shift_left(x[i], z[i])", "where(z[i] < 9_u8, x[i], 1_u8)", "u8(i32(x[i]))"],
)
def test_what_crosses_bytes_or_differs_from_byte_to_byte_is_left(text: str) -> None:
    assert in_words(term_of(text), "i") is None
