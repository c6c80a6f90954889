"""What CUDA kernels call: maths, warps and blocks that exchange values, tensor units, copies.

No header is included: NVRTC has few, and what is shown can be read to the end. What is PTX here the
emulator replaces by functions of its own. These are the names that the renderer, the preludes and
the emulator share; D is a dtype's short name, T its type, and with * Metal has it too:

    lab_F_D, lab_cast_D_E *               the functions of c_maths.py
    lab_random(k0, k1, at, step) *        the number at a place of a random stream
    LAB_INF, LAB_NAN *                    as floats
    lab_fma_f32(x, y, z) *                x y + z, rounded once, as x * y + z is not; (f64)
    LAB_UNROLL(n) *                       before a loop of n iterations that is written out
    lab_Dx4 *                             four neighbours: v.at[2] is one of them
    LAB_LOAD(type, array, place) *        such a vector, in memory of the device
    LAB_STORE(type, array, place, v) *
    LAB_LOAD_SHARED, LAB_STORE_SHARED *   the same, in memory that the block shares
    lab_sync() *                          all threads of the block wait for each other
    lab_sync_warp() *                     all 32 lanes of the warp
    lab_shuffle_xor_D(v, mask) *          what lane (own ^ mask) has; D in f32 f64 i32 i64
    lab_warp_sum_D(v, n) *                the sum over n lanes side by side, n = 2, 4, … 32
    lab_warp_max_D(v, n) *                the largest of n lanes, NaN if one is
    lab_block_sum_D(v, shared, n) *       the sum over all n threads, and
    lab_block_max_D(v, shared, n) *       the largest; shared: T[n / 32] that nothing else uses
    lab_atomic_add_D(at, v) *             adds to memory to which others add; f32 i32 (f64 i64)
    lab_atomic_max_D(at, v) *             likewise; i32 (i64)
    lab_mma_U(c, a, b) *                  c += a b on the tensor units; U in f16 bf16 tf32
    lab_tile_a_U(a, at, stride) *         this lane's part of a tile of a from shared memory
    lab_tile_b_U(b, at, rows, columns) *  and of b; elements of a row are `columns` apart
    lab_tile_row(e), lab_tile_column(e) * where element e of this lane's part of c lies
    lab_pack_f16(x, y), lab_pack_bf16 *   two floats as a word of a lane's part of a
    lab_cast_f32_tf32(x)                  the bits of a float rounded to 10 bits of fraction
    lab_copy_async_16(to, from, bytes)    16 bytes from memory to shared memory, while work goes on;
                                          of them `bytes` exist, and the others become 0
    lab_copy_commit()                     the copies so far are a group
    lab_copy_wait(n)                      wait until at most n < 8 groups are under way
    lab_wgmma_…, lab_bulk_…, lab_barrier_…  Hopper's: see cuda_hopper.py

The sizes of tiles, and of the lanes' parts, are in dialect.py. Tiles are read at once where
shared arrays are __align__(16); for vectors they have to be.

How exact the maths is: exp2 and exp of float32 are the toolkit's, whose errors are documented as at
most 2 ulp over the full range (CUDA C++ Programming Guide, "Mathematical Functions": exp2f 2, expf
2), and which take half the instructions, since the hardware has 2^x. Its log2f and sinf are no
shorter than ours; those and all others are the text that the emulator and Metal compute with too.
Division and square roots are correctly rounded, and so is each product, but for those of
lab_fma_f32 and lab_fma_f64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.prelude.c_maths import C_TYPES
from luminal_lab.kernels.prelude.cuda_units import unit_pieces

CUDA_TYPES = """\
typedef signed char lab_i8;
typedef short lab_i16;
typedef int lab_i32;
typedef long long lab_i64;
typedef unsigned char lab_u8;
typedef unsigned short lab_u16;
typedef unsigned int lab_u32;
typedef unsigned long long lab_u64;
typedef lab_u16 lab_f16; // as bits
typedef lab_u16 lab_bf16;
typedef lab_u8 lab_bool;"""
BUILTIN = re.compile(r"__builtin_(fabsf?|sqrtf?|fmodf?|floorf?|ceilf?|truncf?|rintf?|copysignf?)\b")
EXCHANGED = (DType.float32, DType.float64, DType.int32, DType.int64)
"""The dtypes that lanes exchange."""

PIECES = """\
#define LAB_INF __int_as_float(0x7f800000)

#define LAB_NAN __int_as_float(0x7fc00000)

#define LAB_PRAGMA(text) _Pragma(#text)

#define LAB_UNROLL(n) LAB_PRAGMA(unroll n)

#define LAB_LOAD(type, array, place) (*(const type *)((array) + (place)))

#define LAB_STORE(type, array, place, value) (*(type *)((array) + (place)) = (value))

#define LAB_LOAD_SHARED(type, array, place) (*(const type *)((array) + (place)))

#define LAB_STORE_SHARED(type, array, place, value) (*(type *)((array) + (place)) = (value))

static inline lab_u32 lab_bits_f32(float x) { return __float_as_uint(x); }

static inline lab_u64 lab_bits_f64(double x) { return (lab_u64)__double_as_longlong(x); }

static inline float lab_from_f32(lab_u32 u) { return __uint_as_float(u); }

static inline double lab_from_f64(lab_u64 u) { return __longlong_as_double((lab_i64)u); }

static inline float lab_exp2_f32(float x) { return exp2f(x); }

static inline float lab_exp_f32(float x) { return expf(x); }

static inline double lab_fma_f64(double x, double y, double z) { return fma(x, y, z); }

static inline float lab_cast_f16_f32(lab_f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

static inline lab_f16 lab_cast_f32_f16(float x) {
    lab_f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// To nearest, ties to even; before 8.0 there is no instruction for it.
static inline lab_bf16 lab_cast_f32_bf16(float x) {
#if __CUDA_ARCH__ >= 800
    lab_bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    lab_u32 u = lab_bits_f32(x);
    lab_u32 rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (lab_bf16)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
#endif
}

static inline void lab_sync() { __syncthreads(); }

static inline void lab_sync_warp() { __syncwarp(); }

static inline void lab_atomic_add_f32(float *at, float x) { atomicAdd(at, x); }

static inline void lab_atomic_add_f64(double *at, double x) { atomicAdd(at, x); }

static inline void lab_atomic_add_i32(lab_i32 *at, lab_i32 x) { atomicAdd(at, x); }

static inline void lab_atomic_add_i64(lab_i64 *at, lab_i64 x) {
    atomicAdd((lab_u64 *)at, (lab_u64)x);
}

static inline void lab_atomic_max_i32(lab_i32 *at, lab_i32 x) { atomicMax(at, x); }

static inline void lab_atomic_max_i64(lab_i64 *at, lab_i64 x) { atomicMax(at, x); }"""
"""Paragraphs of C++; `static inline` stands for `static __device__ __forceinline__`."""

SHUFFLE = """\
static inline TYPE lab_shuffle_xor_NAME(TYPE x, int mask) {
    return __shfl_xor_sync(0xffffffff, x, mask);
}"""
# A sum comes out the same in all lanes: at each turn both of two lanes add the same numbers.
WARP = """\
static inline TYPE lab_warp_WHICH_NAME(TYPE x, int lanes) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        TYPE other = lab_shuffle_xor_NAME(x, apart);
        x = JOINED;
    }
    return x;
}"""
# The first of the barriers is for what was in `shared` before, by an exchange just done.
BLOCK = """\
static inline TYPE lab_block_WHICH_NAME(TYPE x, TYPE *shared, int threads) {
    const int lane = (int)threadIdx.x % 32, warps = threads / 32;
    x = lab_warp_WHICH_NAME(x, 32);
    if (warps < 2) return x;
    lab_sync();
    if (lane == 0) shared[threadIdx.x / 32] = x;
    lab_sync();
    x = shared[lane < warps ? lane : 0];
    if (lane >= warps) x = NEUTRAL;
    return lab_warp_WHICH_NAME(x, 32);
}"""


def cuda_pieces() -> Iterator[str]:
    """Yield the paragraphs that CUDA has beside the maths, or instead of it."""
    yield from PIECES.split("\n\n")
    yield from unit_pieces()
    yield from chain.from_iterable(map(exchanges, EXCHANGED))


def exchanges(
    dtype: DType, shuffle: str = SHUFFLE, warp: str = WARP, block: str = BLOCK
) -> Iterator[str]:
    """Yield the paragraphs in which lanes, and warps, exchange values of a dtype."""
    words = {"TYPE": C_TYPES[dtype], "NAME": dtype.short}
    yield filled(shuffle, words)
    least = "-LAB_INF" if dtype.is_float else f"({C_TYPES[dtype]})(-{dtype.limits[1]} - 1)"
    for which, neutral in (("sum", "0"), ("max", least)):
        add = "x + other" if dtype.is_float else f"lab_add_{dtype.short}(x, other)"
        joined = add if which == "sum" else f"lab_max_{dtype.short}(x, other)"
        more = {"WHICH": which, "NEUTRAL": neutral, "JOINED": joined}
        yield filled(warp, words | more)
        yield filled(block, words | more)


def filled(text: str, words: dict[str, str]) -> str:
    """Return a text with words in capitals replaced."""
    return re.sub("[A-Z]{4,}", lambda match: words.get(match[0], match[0]), text)


def cuda_spelled(piece: str) -> str:
    """Return a paragraph of C as CUDA spells it.

    >>> cuda_spelled("static inline float lab_abs_f32(float x) { return __builtin_fabsf(x); }")
    'static __device__ __forceinline__ float lab_abs_f32(float x) { return fabsf(x); }'
    """
    text = BUILTIN.sub(r"\1", piece)
    text = text.replace("__builtin_inff()", "LAB_INF").replace('__builtin_nanf("")', "LAB_NAN")
    text = text.replace("__builtin_inf()", "__longlong_as_double(0x7ff0000000000000LL)")
    text = text.replace('__builtin_nan("")', "__longlong_as_double(0x7ff8000000000000LL)")
    return text.replace("static inline", "static __device__ __forceinline__")
