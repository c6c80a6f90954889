"""What kernels of GPUs call, as the text that stands before them: only what is needed of it.

    prelude(CUDA, {"lab_exp2_f32", "lab_warp_sum_f32"})

A prelude is paragraphs of C, each of which defines one function, type or macro, or some that belong
together. What is named brings along what its paragraph names. The maths is c_maths.py's, but where
gpu_maths.py has a function of the same name, or the language itself (cuda.py, metal.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import DTypeError
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.prelude.c_indices import DIVISIONS, EXTREMA
from luminal_lab.kernels.prelude.c_maths import C_TYPES, NAMES as MATHS, c_maths
from luminal_lab.kernels.prelude.cuda import CUDA_TYPES, cuda_pieces, cuda_spelled, filled
from luminal_lab.kernels.prelude.cuda_hopper import hopper
from luminal_lab.kernels.prelude.gpu_maths import GPU_MATHS, GPU_MOD
from luminal_lab.kernels.prelude.metal import METAL_TYPES, metal_pieces, metal_spelled

WORD = re.compile(r"\b(?:(?:lab|LAB)_\w+|floordiv|floormod)\b")
DEFINED = re.compile(
    r"^static inline [\w *]*?\b(\w+)\("
    r"|^#define (\w+)"
    r"|^struct [^;{\n]*?\b(lab_\w+) \{",
    re.MULTILINE,
)
"""The names that a paragraph defines."""
VECTOR = re.compile(r"lab_([a-z]+\d*)x(\d+)")


def prelude(dialect: Dialect, uses: Collection[str]) -> str:
    """Return the text of what kernels name, and of what that names.

    >>> from luminal_lab.kernels.dialect import CUDA
    >>> print(prelude(CUDA, {"lab_recip_f32"}).splitlines()[-1])
    static __device__ __forceinline__ float lab_recip_f32(float x) { return 1.0f / x; }
    """
    if dialect.name == "metal":
        wide = sorted(name for name in uses if re.search(r"_f64(_|$)|^lab_f64x", name))
        if wide:
            raise DTypeError(
                f"metal: there is no float64 on Apple's GPUs, and a kernel calls {wide[0]}",
                hint="cast to float32 for this device",
            )
    is_cuda = dialect.name == "cuda"
    known = dict(_pieces(dialect.name))
    known |= _by_name([*_vectors(uses), *(hopper(uses) if is_cuda else ())], dialect.name)
    found: list[str] = []
    seen: set[str] = set()
    for name in sorted(uses):
        _collect(name, known, found, seen)
    return "\n\n".join([CUDA_TYPES if is_cuda else METAL_TYPES, *found])


def _collect(name: str, known: Mapping[str, str], found: list[str], seen: set[str]) -> None:
    """Add the paragraph of a name to `found`, and before it those that it names."""
    piece = known.get(name)
    if piece is None or piece in seen:
        return
    seen.add(piece)
    for called in WORD.findall(piece):
        _collect(called, known, found, seen)
    found.append(piece)


@functools.cache
def _pieces(dialect: str) -> Mapping[str, str]:
    """Return the paragraphs of a language by the names that they define."""
    narrow = (dtype for dtype in DType if dtype.kind == "int" and dtype is not DType.int64)
    pieces = [
        *c_maths(MATHS, DType).split("\n\n")[1:],
        *DIVISIONS.split("\n\n"),
        *EXTREMA.split("\n\n"),
        *GPU_MATHS.split("\n\n"),
        *(filled(GPU_MOD, {"TYPE": C_TYPES[one], "NAME": one.short}) for one in narrow),
        *(cuda_pieces() if dialect == "cuda" else metal_pieces()),
    ]
    return _by_name(pieces, dialect)


def _by_name(pieces: Iterable[str], dialect: str) -> dict[str, str]:
    """Return paragraphs by the names that they define; of two with one name the last is kept."""
    spelled = cuda_spelled if dialect == "cuda" else metal_spelled
    found: dict[str, str] = {}
    for piece in pieces:
        names = (a or b or c for a, b, c in DEFINED.findall(piece))
        found |= dict.fromkeys(names, spelled(piece.strip()))
    return found


def _vectors(uses: Collection[str]) -> Iterator[str]:
    """Yield the types of vectors that are named: neighbours that are loaded as one."""
    by_short = {dtype.short: dtype for dtype in DType}
    for name in uses:
        match = VECTOR.fullmatch(name)
        if match and match[1] in by_short:
            dtype, width = by_short[match[1]], int(match[2])
            size = min(16, width * dtype.itemsize)
            yield f"struct alignas({size}) {name} {{ {C_TYPES[dtype]} at[{width}]; }};"
