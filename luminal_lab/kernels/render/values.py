"""Values, ops and dtypes as C writes them; and what kernels call besides the maths.

16-bit floats are stored as their bits, and computed with in float32.
"""

from __future__ import annotations

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op
from luminal_lab.core.ops.intrinsic import PREFIX, Intrinsic
from luminal_lab.kernels.prelude.files import NAME
from luminal_lab.kernels.prelude.prelude import known_in
from luminal_lab.kernels.prelude.rows import C_TYPES

FUNCTIONS = ("exp2", "log2", "sin", "sqrt", "recip", "mod", "max", "shift_left", "shift_right")
"""The ops that are functions in C, besides intrinsics."""


def c_type(dtype: DType) -> str:
    """Return the C type of a value while it is computed with."""
    return "float" if dtype.is_half else C_TYPES[dtype]


def number(value: bool | int | float, dtype: DType) -> str:
    """Return a number in C."""
    if dtype.is_float:
        text = repr(float(value))
        known = {"inf": "__builtin_inf()", "-inf": "-__builtin_inf()", "nan": '__builtin_nan("")'}
        if text in known:
            return f"(({c_type(dtype)}){known[text]})"
        return f"({text})" if dtype is DType.float64 else f"({text}f)"
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    return f"(({C_TYPES[dtype]}){int(value)}{'U' if int(value) >> 63 else ''}LL)"


def function_of(op: Op) -> str | None:
    """Return which C function computes an op, without its dtype; None for a user's own op."""
    if isinstance(op, Intrinsic):
        name = op.name.removeprefix(PREFIX)
        return name if f"lab_{name}_f32" in known_in("c") else None
    return op.name if op.name in FUNCTIONS else None


def functions_in(text: str) -> set[str]:
    """Return what the user's C uses from the prelude."""
    return {*NAME.findall(text)}


def key_word(seed: int, stream: int) -> int:
    """Return the second word of a random stream's key, as `core/random.py` has it."""
    high = seed >> 32 & 0xFFFFFFFF
    return (stream & 0xFFFFFFFF) ^ (high * 0x9E3779B9 & 0xFFFFFFFF)
