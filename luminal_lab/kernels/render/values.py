"""Values, ops and dtypes as C writes them; and what kernels call beside the maths.

16-bit floats are stored as their bits, and computed with in float32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op
from luminal_lab.core.ops.intrinsic import PREFIX, Intrinsic
from luminal_lab.kernels.definition.definition import Apply, Definition, walk
from luminal_lab.kernels.definition.terms import worked_out
from luminal_lab.kernels.prelude.c_composed import COMPOSED
from luminal_lab.kernels.prelude.c_maths import C_TYPES, PRIMITIVE


def c_type(dtype: DType) -> str:
    """Return the C type of a value while it is computed with."""
    return "float" if dtype.is_half else C_TYPES[dtype]


def maths_of(definitions: Iterable[Definition]) -> tuple[set[str], set[DType]]:
    """Return the functions and dtypes that kernels need of the C maths."""
    names, dtypes = {"cast", "add", "mul", "max", "fma"}, {DType.float32, DType.int64, DType.bool_}
    for definition in definitions:
        dtypes |= {type.dtype for type in definition.types.values()}
        for term in walk(*(step for line in definition.lines for step in worked_out(line.term))):
            dtypes.add(term.dtype)
            function = function_of(term.op) if isinstance(term, Apply) else None
            names |= set() if function is None else {function}
    return names, dtypes


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
    return f"(({C_TYPES[dtype]}){int(value)}LL)"


def least(dtype: DType) -> str:
    """Return the least value of a dtype."""
    return number(-float("inf") if dtype.is_float else dtype.limits[0], dtype)


def function_of(op: Op) -> str | None:
    """Return which C function computes an op, as `c_maths` calls it; None for a user's own op."""
    name = op.name.removeprefix(PREFIX) if isinstance(op, Intrinsic) else op.name
    return name if name in (COMPOSED if isinstance(op, Intrinsic) else PRIMITIVE) else None


def functions_in(form: str) -> set[str]:
    """Return what an op's own form in C takes of the prelude."""
    return {*re.findall(r"\b(?:lab|LAB)_\w+", form)}


def key_word(seed: int, stream: int) -> int:
    """Return the second word of a random stream's key, as `core/random.py` has it."""
    high = seed >> 32 & 0xFFFFFFFF
    return (stream & 0xFFFFFFFF) ^ (high * 0x9E3779B9 & 0xFFFFFFFF)
