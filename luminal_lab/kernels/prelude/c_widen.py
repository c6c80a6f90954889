"""C that makes floats of neighbours of narrower dtypes, ahead of a loop that adds them up.

There are instructions for it that compilers do not find in a loop: for int8 they unpack step by
step instead, which takes twice as long as to read from memory what is added.
"""

from __future__ import annotations

from luminal_lab.core.dtypes import DType

TYPES = """\
typedef float lab_floats __attribute__((vector_size(32)));
typedef int lab_ints __attribute__((vector_size(32)));
typedef unsigned lab_words __attribute__((vector_size(32)));"""
"""What all of them need."""


def _widen(dtype: DType, fast: str) -> str:
    """Return the function for a dtype, given its lines where there are such instructions."""
    name, plain = f"lab_widen_{dtype.short}", f"lab_cast_{dtype.short}_f32(from[i])"
    return f"""\
// `count` values in a row, a known multiple of 8.
static inline __attribute__((always_inline)) void {name}(
    float *restrict to, const lab_{dtype.short} *restrict from, int count) {{
{fast}
#else
    for (int i = 0; i < count; i++) to[i] = {plain};
#endif
}}"""


WIDEN = {
    DType.float16: _widen(
        DType.float16,
        """\
#if defined(__F16C__)
#if defined(__clang__)
    typedef _Float16 lab_eight __attribute__((vector_size(16)));
#define LAB_HALVES(eight) __builtin_convertvector(eight, lab_floats)
#else
    typedef short lab_eight __attribute__((vector_size(16)));
#define LAB_HALVES(eight) __builtin_ia32_vcvtph2ps256(eight)
#endif
    for (int i = 0; i < count; i += 8) {
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
        const lab_floats floats = LAB_HALVES(eight);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }
#elif defined(__aarch64__)
    for (int i = 0; i < count; i++) {
        __fp16 half;
        __builtin_memcpy(&half, from + i, sizeof half);
        to[i] = half;
    }""",
    ),
    DType.bfloat16: _widen(
        DType.bfloat16,
        """\
#if defined(__AVX2__)
    typedef short lab_eight __attribute__((vector_size(16)));
    for (int i = 0; i < count; i += 8) {
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
#if defined(__clang__)
        const lab_words wide = (lab_words)__builtin_convertvector(eight, lab_ints) << 16;
#else
        const lab_words wide = (lab_words)__builtin_ia32_pmovzxwd256(eight) << 16;
#endif
        __builtin_memcpy(to + i, &wide, sizeof wide);
    }""",
    ),
    DType.int8: _widen(
        DType.int8,
        """\
#if defined(__AVX2__)
    for (int i = 0; i < count; i += 8) {
#if defined(__clang__)
        typedef signed char lab_eight __attribute__((vector_size(8)));
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
        const lab_ints wide = __builtin_convertvector(eight, lab_ints);
#else
        typedef long long lab_pair __attribute__((vector_size(16)));
        typedef char lab_sixteen __attribute__((vector_size(16)));
        lab_pair pair = {0};
        __builtin_memcpy(&pair, from + i, 8);
        const lab_ints wide = (lab_ints)__builtin_ia32_pmovsxbd256((lab_sixteen)pair);
#endif
        const lab_floats floats = __builtin_convertvector(wide, lab_floats);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }""",
    ),
}
"""The functions by what they widen."""
