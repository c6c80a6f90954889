"""Names in C for any names of the user's: different ones for different names, and readable.

    n → n      int → int_      int_ → int__      h.n → dot1_h_n

A name stays as it is unless C, the compiler, its headers or our own source use it. Those get an
underscore at the end, as do names that already end in one, so that the result is never another's. A
prefix records where dots were.
"""

from __future__ import annotations

import re

KEYWORDS = frozenset(
    """
    alignas alignof asm auto bool break case char complex const constexpr continue default do
    double else enum extern false float for fortran goto if imaginary inline int long noreturn
    nullptr register restrict return short signed sizeof static static_assert struct switch
    thread_local true typedef typeof typeof_unqual union unsigned void volatile while
    """.split()  # noqa: SIM905  # a list of words reads better so
)
"""The words of C, from C99 to C23, including GNU's."""
BEYOND_C = frozenset(
    """
    and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl
    concept const_cast consteval constinit decltype delete dynamic_cast explicit export friend
    mutable namespace new not not_eq operator or or_eq private protected public reinterpret_cast
    requires static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq
    blockDim blockIdx gridDim threadIdx warpSize
    as_type constant device fragment half kernel mem_flags metal simd_shuffle_xor
    simdgroup_float8x8 simdgroup_matrix simdgroup_multiply_accumulate thread threadgroup
    threadgroup_barrier uchar uint uint4 ulong ushort vertex
    exp2f expf fabs fabsf fma fmaf
    """.split()  # noqa: SIM905
)
"""The words of C++, CUDA and Metal, and functions that kernels for GPUs call."""
TAKEN = frozenset(
    """
    arm far i386 linux main mips near pascal cdecl small interface sun unix vax win32 environ errno
    stderr stdin stdout floordiv floormod min max
    """.split()  # noqa: SIM905
)
"""Names defined by compilers and headers of some system, and functions of our own source."""
RESERVED = re.compile(r"lab_.*|LAB_.*|__.*|_[A-Z].*|[A-Z][A-Z0-9_]+|I")
"""Our own names, the compiler's, and macros."""


def c_name(name: str) -> str:
    """Return the C name of a dim, a buffer or a kernel.

    >>> [c_name(name) for name in ("n", "int", "int_", "h.n", "h_n")]
    ['n', 'int_', 'int__', 'dot1_h_n', 'h_n']
    """
    if "." in name:
        dots = [str(at) for at, letter in enumerate(name) if letter == "."]
        return f"dot{'_'.join(dots)}_{name.replace('.', '_')}"
    if re.match(r"dot\d", name):
        return f"dot0_{name}"
    if name in KEYWORDS | BEYOND_C | TAKEN or name.endswith("_") or RESERVED.fullmatch(name):
        return f"{name}_"
    return name
