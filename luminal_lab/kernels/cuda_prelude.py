"""What CUDA kernels call: the C maths as device functions, warps and blocks that exchange values.

No header is included: NVRTC has few, and what is shown can be read to the end. The maths is that of
the CPU's kernels (c_maths.py), so that both compute alike; casts of 16-bit floats are the GPU's own
instructions. The emulator replaces what stands under WARPS by functions of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.c_index import INDICES
from luminal_lab.kernels.c_maths import C_TYPES, c_maths
from luminal_lab.kernels.c_values import INDICES as DIVISIONS, RANDOM

NUMBERS = """\
#define __INT8_TYPE__ signed char
#define __INT16_TYPE__ short
#define __INT32_TYPE__ int
#define __INT64_TYPE__ long long
#define __UINT8_TYPE__ unsigned char
#define __UINT16_TYPE__ unsigned short
#define __UINT32_TYPE__ unsigned int
#define __UINT64_TYPE__ unsigned long long
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
#define LAB_INF __int_as_float(0x7f800000)
#define LAB_NAN __int_as_float(0x7fc00000)
#define LAB_UNROLL(n) LAB_PRAGMA(unroll n)
#define LAB_PRAGMA(text) _Pragma(#text)"""
BUILTIN = re.compile(
    r"__builtin_(fabsf?|sqrtf?|fmodf?|floorf?|ceilf?|truncf?|rintf?|copysignf?|memcpy)\b"
)
CASTS = {
    "lab_cast_f16_f32": ("float", "lab_f16", "cvt.f32.f16 %0, %1;", "f", "h"),
    "lab_cast_f32_f16": ("lab_f16", "float", "cvt.rn.f16.f32 %0, %1;", "h", "f"),
}
"""Casts that are one instruction: results, arguments, PTX and its constraints."""
VECTOR = """\
struct __align__({bytes}) {name} {{ {type} at[{width}]; }};"""
MEMORY = """\
#define LAB_LOAD(type, array, place) (*(const type *)((array) + (place)))
#define LAB_STORE(type, array, place, value) (*(type *)((array) + (place)) = (value))"""
SYNC = """\
static __device__ __forceinline__ void lab_sync() { __syncthreads(); }"""
WARP = """\
static __device__ __forceinline__ {type} lab_warp_{which}_{short}({type} x, int lanes) {{
    for (int apart = lanes / 2; apart > 0; apart /= 2) {{
        {type} other = __shfl_xor_sync(0xffffffff, x, apart);
        x = {joined};
    }}
    return x;
}}"""
BLOCK = """\
static __device__ {type} lab_block_{which}_{short}({type} x, {type} *shared, int threads) {{
    const int warps = threads / 32, lane = threadIdx.x % 32;
    x = lab_warp_{which}_{short}(x, 32);
    __syncthreads();
    if (lane == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    x = lane < warps ? shared[lane] : {neutral};
    return lab_warp_{which}_{short}(x, 32);
}}"""


def cuda_prelude(uses: Collection[str], dtypes: Iterable[DType], maths: Iterable[str]) -> str:
    """Return the text of what kernels use, from the types to what blocks exchange.

    >>> print(cuda_prelude({"lab_sync"}, ["float32"], ["exp2"]).splitlines()[0])
    #define __INT8_TYPE__ signed char
    """
    known = list(dtypes)
    text = c_maths(maths, known)
    for name, (made, given, ptx, out, inside) in CASTS.items():
        start = text.find(f"static inline {made} {name}(")
        if start >= 0:
            end = text.index("\n}", start) + 2
            line_end = text.index("\n", start)
            if text[start:line_end].rstrip().endswith("}"):
                end = line_end
            text = text[:start] + _instruction(name, made, given, ptx, out, inside) + text[end:]
    parts = [NUMBERS, BUILTIN.sub(r"\1", text), DIVISIONS, INDICES]
    if "lab_random" in uses:
        parts.append(RANDOM)
    parts += [*_vectors(uses), MEMORY, SYNC, *_exchanges(uses)]
    return "\n\n".join(parts).replace("static inline", "static __device__ __forceinline__")


def _instruction(name: str, made: str, given: str, ptx: str, out: str, inside: str) -> str:
    return (
        f"static inline {made} {name}({given} x) {{\n    {made} y;\n"
        f'    asm("{ptx}" : "={out}"(y) : "{inside}"(x));\n    return y;\n}}'
    )


def _vectors(uses: Collection[str]) -> Iterable[str]:
    by_short = {dtype.short: dtype for dtype in DType}
    for name in sorted(uses):
        match = re.fullmatch(r"lab_([a-z]+\d*)x(\d+)", name)
        if match and match[1] in by_short:
            dtype, width = by_short[match[1]], int(match[2])
            size = width * dtype.itemsize
            yield VECTOR.format(bytes=size, name=name, type=C_TYPES[dtype], width=width)


def _exchanges(uses: Collection[str]) -> Iterable[str]:
    for dtype in (DType.float32, DType.float64, DType.int32, DType.int64):
        for which in ("sum", "max"):
            short, type = dtype.short, C_TYPES[dtype]
            block = f"lab_block_{which}_{short}" in uses
            if not block and f"lab_warp_{which}_{short}" not in uses:
                continue
            joined = "x + other" if which == "sum" else f"lab_max_{short}(x, other)"
            least = f"-({type})LAB_INF" if dtype.is_float else f"({type}){dtype.limits[0] + 1} - 1"
            neutral = "0" if which == "sum" else least
            yield WARP.format(type=type, which=which, short=short, joined=joined)
            if block:
                yield BLOCK.format(type=type, which=which, short=short, neutral=neutral)
