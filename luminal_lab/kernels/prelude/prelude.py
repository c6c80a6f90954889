"""What kernels call, as the text before them: only what they name, and what that names in turn.

    prelude("cuda", {"lab_exp2_f32", "lab_warp_sum_f32"})

All languages share one text of the maths, except where a language, or GPUs, have their own.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache, partial
from typing import Final

import numpy as np

from luminal_lab.errors import DTypeError
from luminal_lab.kernels.prelude.files import Paragraph, definitions, taken
from luminal_lab.kernels.prelude.rows import rows, rows_of
from luminal_lab.kernels.prelude.wgsl import Signature, Wgsl, signatures

MATHS: Final = ("indices.c", "maths.c", "composed.c")
"""The files that all languages share, in C."""
OWN: Final = {
    "c": ("nests.c",),
    "cuda": ("cuda.cu", "units.cu", "hopper.cu", "gpu.h"),
    "metal": ("metal.metal", "gpu.h"),
    "webgpu": ("webgpu.wgsl", "gpu.h"),
}
"""The files that a language has in addition, or instead."""
HEXADECIMAL: Final = re.compile(r"-?\b0x[\da-f]+(?:\.[\da-f]*)?p[+-]?\d+f\b")
CUDA: Final = (
    (r"__builtin_(fabsf?|sqrtf?|fmodf?|floorf?|ceilf?|truncf?|rintf?|copysignf?)\b", r"\1"),
    (r"__builtin_inff\(\)", "LAB_INF"),
    (r'__builtin_nanf\(""\)', "LAB_NAN"),
    (r"__builtin_inf\(\)", "__longlong_as_double(0x7ff0000000000000LL)"),
    (r'__builtin_nan\(""\)', "__longlong_as_double(0x7ff8000000000000LL)"),
    (r"static inline", "static __device__ __forceinline__"),
    (r"\blab_shared ", ""),
    (r"\blab_thread\b", "threadIdx.x"),
)
METAL: Final = (
    (r"__builtin_(fabs|sqrt|floor|ceil|trunc|rint|copysign)f\b", r"\1"),
    (r"\bfmaf\b", "fma"),
    (r"\blab_shared\b", "threadgroup"),
    (r"__builtin_inff\(\)", "INFINITY"),
    (r'__builtin_nanf\(""\)', "NAN"),
)
"""How a language spells what the maths says in C."""
WEBGPU: Final = ((r"\bfmaf\b", "lab_fma_f32"),)
SPELLINGS: Final = {"c": (), "cuda": CUDA, "metal": METAL, "webgpu": WEBGPU}


WITHOUT: Final = {"metal": "on Apple's GPUs", "webgpu": "in WGSL"}
"""Where there is no float64."""


def prelude(language: str, uses: Collection[str]) -> str:
    """Return the text of what kernels name, and of what that names in turn.

    >>> print(prelude("cuda", {"lab_recip_f32"}).splitlines()[-1])
    static __device__ __forceinline__ float lab_recip_f32(float x) { return 1.0f / x; }
    """
    if language in ("metal", "webgpu"):
        wide = sorted(name for name in uses if re.search(r"_f64(_|$)|^lab_f64x", name))
        if wide:
            raise DTypeError(
                f"{language}: there is no float64 {WITHOUT[language]}, "
                f"and a kernel calls {wide[0]}",
                hint="cast to float32 for this device",
            )
    known = known_in(language) | definitions(OWN[language], rows_of(uses))
    spelled = partial(_spelled, language)
    types = ["lab_i8"] * (language != "webgpu")
    return "\n\n".join(taken([*types, *sorted(uses)], known, spelled))


@cache
def known_in(language: str) -> dict[str, Paragraph]:
    """Return everything in a language, except what is written for each shape, by its names."""
    return definitions((*OWN[language], *MATHS), rows())


def signature_in(language: str, name: str) -> Signature | None:
    """Return what a function takes and returns in WGSL."""
    paragraph = known_in(language).get(name)
    return None if paragraph is None else signatures(paragraph.text).get(name)


@cache
def _spelled(language: str, text: str) -> str:
    """Return a paragraph of C as a language spells it.

    >>> _spelled("metal", "static inline float f(float x) { return __builtin_fabsf(x) * 0x1p3f; }")
    'static inline float f(float x) { return fabs(x) * 8.0f; }'
    """
    for pattern, spelling in SPELLINGS[language]:
        text = re.sub(pattern, spelling, text)
    if language == "webgpu":
        return Wgsl(partial(signature_in, language)).paragraph(text)
    return HEXADECIMAL.sub(lambda match: _decimal(match[0]), text) if language == "metal" else text


def _decimal(text: str) -> str:
    """Return a hexadecimal float, which C++ before 17 lacks, with as many digits as needed."""
    value = np.float32(float.fromhex(text.removesuffix("f")))
    return f"{float(str(value))!r}f"
