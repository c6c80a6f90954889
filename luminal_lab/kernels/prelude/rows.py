"""The placeholders of the files: a row for each type, or shape, for which they are written.

lab_$INT lab_add_$INT(…)   with   {"INT": "i8", "WIDE": "u32"}   is   lab_i8 lab_add_i8(…)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Final, TypeAlias

from luminal_lab.core.dtypes import INTEGERS, SHORT, DType

Row: TypeAlias = dict[str, str]

C_TYPES: Final = {dtype: f"lab_{dtype.short}" for dtype in DType} | {
    DType.float64: "double",
    DType.float32: "float",
}
"""How each dtype is stored: 16-bit floats as their bits, bools as bytes that are 0 or 1."""
EXCHANGED: Final = (
    *(DType.float32, DType.float64),
    *(dtype for dtype in INTEGERS if dtype.itemsize >= 4),
)
"""The dtypes that lanes of a warp exchange."""
FLOAT: Final = """REAL=f32 TYPE=float BITS=u32 F=f FAST=F BIAS=127 BELOW=126 FRACTION=23 DIGITS=24
    ROUND=0x1.8p23f LOGE=0x1.715476p+0f LNHIGH=0x1.62e4p-1f LNLOW=0x1.7f7d1cp-20f FALL=64 FALLEN=133
    ALONE=40 RISEN=89 SUNK=30 TINY=60 FLAT=20 LATE=10 GONE=160 WIDE=14.75 STEEP=11.0
    HALFLOGE=0x1.715476p-1f HALFREST=0x1.4ae0c0p-27f
    CUBED=0x1.a5a7d0p-4f CUBEDREST=0x1.151aaep-29f
    SINGLE=0x1.26p+1f SINGLEREST=0x1.5d8438p-8f"""
DOUBLE: Final = """REAL=f64 TYPE=double BITS=u64 F= FAST= BIAS=1023 BELOW=1022 FRACTION=52 DIGITS=53
    ROUND=0x1.8p52 LOGE=0x1.71547652b82fep+0 LNHIGH=0x1.62e42fefa38p-1 LNLOW=0x1.ef35793c7673p-45
    FALL=300 FALLEN=918 ALONE=40 RISEN=710 SUNK=60 TINY=100 FLAT=44 LATE=22 GONE=1100 WIDE=38.75
    STEEP=21.75
    HALFLOGE=0x1.71547652b82fep-1 HALFREST=0x1.777d0ffda0d24p-57
    CUBED=0x1.a5a7cf7572a98p-4 CUBEDREST=0x1.b91c940e4cfcfp-58
    SINGLE=0x1.26p+1 SINGLEREST=0x1.5d84379ceb297p-8"""
"""How floats are made up, the numbers of e^x = 2^n e^f, where functions level off, gelu's cubic."""
METAL_UNITS: Final = (
    ("f16", "lab_f16", "half"),
    ("bf16", "lab_bf16", "float"),
    ("tf32", "float", "float"),
)
"""What Metal's units multiply: its name, its form in memory, and bfloat16 as float32."""
COMPUTED: Final = (DType.float32, DType.float64)
"""The dtypes whose vectors a CPU computes with."""
VECTOR: Final = re.compile(r"lab_([a-z]+\d*)x(\d+)")
WGMMA: Final = re.compile(r"lab_wgmma_(f16|bf16|tf32)_n(\d+)(_rows)?")
REGISTERS: Final = re.compile(r"lab_registers_(fall|rise)_(\d+)")
FMA: Final = {
    "f32x16": {"__AVX512F__": "ia32_vfmaddps512_mask(x, y, z, -1, 4)"},
    "f64x8": {"__AVX512F__": "ia32_vfmaddpd512_mask(x, y, z, -1, 4)"},
    "f32x8": {"__FMA__": "ia32_vfmaddps256(x, y, z)"},
    "f64x4": {"__FMA__": "ia32_vfmaddpd256(x, y, z)"},
    "f32x4": {"__FMA__": "ia32_vfmaddps(x, y, z)", "__aarch64__": "aarch64_fmav4sf(x, y, z)"},
    "f64x2": {"__FMA__": "ia32_vfmaddpd(x, y, z)", "__aarch64__": "aarch64_fmav2df(x, y, z)"},
}
"""Vectors with an instruction of their own, and gcc's name for it, as no operator does the same."""


@cache
def rows() -> tuple[Row, ...]:
    """Return the rows of all dtypes."""
    return (
        *(dict(re.findall(r"(\w+)=(\S*)", real)) for real in (FLOAT, DOUBLE)),
        *map(_integer, INTEGERS),
        *(_saturated(x, y) for x in (DType.float32, DType.float64) for y in INTEGERS),
        *(_cast(x, y) for x, y in product(DType, DType)),
        *(_bitcast(x, y) for x, y in product(DType, DType) if x.itemsize == y.itemsize),
        *(row for dtype in EXCHANGED for row in _exchanged(dtype)),
        {"BYTE": "i8", "EXTENDED": "sx", "SIGNED": "1"},
        {"BYTE": "u8", "EXTENDED": "zx", "SIGNED": "0"},
        *({"HALF": dtype.short} for dtype in DType if dtype.is_half),
        *({"UNIT": name, "STORED": type, "FACTOR": kind} for name, type, kind in METAL_UNITS),
        {"PASSED": "bf16", "DEPTH": "16", "HALVES": "1"},
        {"PASSED": "tf32", "DEPTH": "8", "HALVES": "0"},
        *({"MOST": d.short, "TYPE": C_TYPES[d], "LEAST": least(d)} for d in DType if not d.is_half),
    )


def least(dtype: DType) -> str:
    """Return the least number of a dtype in C."""
    if dtype.is_float:
        return "-LAB_INF"
    return "0" if dtype.limits[0] == 0 else f"({C_TYPES[dtype]})(-{dtype.limits[1]} - 1)"


def _integer(dtype: DType) -> Row:
    is_long, is_narrow = dtype.itemsize == 8, dtype.limits[1] <= DType.int32.limits[1]
    words = {
        "INT": dtype.short,
        "WIDE": "u64" if is_long else "u32",
        "WIDTH": f"{8 * dtype.itemsize}",
    }
    words["SIGN"] = "0" if dtype.is_unsigned else "x < 0 ? -1 : 0"
    kinds = {"LONG": is_long, "NARROW": is_narrow, "WHOLE": dtype.is_unsigned and not is_narrow}
    return words | {word: dtype.short for word, holds in kinds.items() if holds}


def _saturated(x: DType, y: DType) -> Row:
    """Return the words of a cast, with the bounds within which numbers are kept."""
    low, most = y.limits
    suffix = "f" if x is DType.float32 else ""
    return {
        "FLOAT": x.short,
        "TYPE": C_TYPES[x],
        "INT": y.short,
        "SPAN": "i32" if most <= DType.int32.limits[1] else y.short,
        "LOW": f"{float(low)!r}{suffix}",
        "HIGH": f"{float(most + 1)!r}{suffix}",
        "LARGEST": f"0x{most:x}",
    }


def _cast(x: DType, y: DType) -> Row:
    if x is y:
        value = "x"
    elif y is DType.bool_:
        value = "(x & 0x7fff) != 0" if x.is_half else "x != 0"
    elif x.is_half or y.is_half:
        value = f"lab_cast_f32_{y.short}(lab_cast_{x.short}_f32(x))"
    else:
        value = f"({C_TYPES[y]})x"
    words = {"FROM": x.short, "GIVEN": C_TYPES[x], "TO": y.short, "MADE": C_TYPES[y]}
    return words | {"VALUE": value}


def _bitcast(x: DType, y: DType) -> Row:
    """Return the words of bits that are read as another dtype of the same size."""
    bits = f"lab_bits_{x.short}(x)" if x.is_float else "x"
    same = f"lab_from_{y.short}((lab_u{8 * y.itemsize}){bits})" if y.is_float else bits
    words = {"OLD": x.short, "GIVEN": C_TYPES[x], "NEW": y.short, "MADE": C_TYPES[y]}
    return words | {"SAME": f"({C_TYPES[y]}){same}"}


def _exchanged(dtype: DType) -> Iterator[Row]:
    """Yield the words of sums and maxima over lanes."""
    words = {"NAME": dtype.short, "TYPE": C_TYPES[dtype]}
    add = "x + other" if dtype.is_float else f"lab_add_{dtype.short}(x, other)"
    yield words | {"WHICH": "sum", "JOINED": add, "LEAST": "0"}
    more = f"lab_max_{dtype.short}(x, other)"
    yield words | {"WHICH": "max", "JOINED": more, "LEAST": least(dtype)}


def rows_of(names: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of the shapes that are named: vectors, and what four warps do or have."""
    for name in names:
        if match := VECTOR.fullmatch(name):
            if match[1] in SHORT:
                yield _vector(SHORT[match[1]], int(match[2]))
        elif match := WGMMA.fullmatch(name):
            unit, columns, rows = match[1], int(match[2]), match[3]
            if columns in range(8, 257, 8) and (unit != "tf32" or not rows):
                yield _group(name, unit, columns, rows=bool(rows))
        elif (match := REGISTERS.fullmatch(name)) and int(match[2]) in range(24, 257, 8):
            how = "dec" if match[1] == "fall" else "inc"
            yield {"CHANGED": f"{match[1]}_{match[2]}", "HOW": how, "COUNT": match[2]}


def _vector(dtype: DType, width: int) -> Row:
    """Return the words of neighbours in a vector."""
    name, size = f"{dtype.short}x{width}", width * dtype.itemsize
    words = {"VECTOR": name, "TYPE": C_TYPES[dtype], "WIDTH": str(width)}
    words |= {"SIZE": str(size), "LOADED": str(min(16, size)), "ITEM": str(dtype.itemsize)}
    if dtype not in COMPUTED:
        return words
    cases = (
        f"\n#elif defined({known})\n    return (lab_{name})__builtin_{call};"
        for known, call in FMA.get(name, {}).items()
    )
    pairs = {"PAIRS": str(width)} if dtype is DType.float32 else {}
    return words | {"FUSED": "".join(cases)} | pairs


def _group(name: str, unit: str, columns: int, *, rows: bool) -> Row:
    """Return the words of a product of 64 rows and this many columns."""
    count = columns // 2
    *sums, left, right, more = (f"%{number}" for number in range(count + 3))
    bound = [f'"+f"(c[{number}])' for number in range(count)]
    return {
        "PRODUCT": name.removeprefix("lab_wgmma_"),
        "MORE": more,
        "SHAPE": f"m64n{columns}k{8 if unit == 'tf32' else 16}",
        "UNIT": unit,
        "SUMS": "\n".join(f'        "{line}"' for line in _broken(sums)).lstrip(),
        "MATRICES": f"{left}, {right}",
        "TURNED": "" if unit == "tf32" else f", 0, {int(rows)}",
        "BOUND": "\n          ".join(_broken(bound)),
    }


def _broken(words: list[str], most: int = 6) -> list[str]:
    """Return words with commas between them, `most` in a line."""
    lines = [", ".join(words[at : at + most]) for at in range(0, len(words), most)]
    return [f"{line}," for line in lines[:-1]] + lines[-1:]
