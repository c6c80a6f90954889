#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

typedef char lab_i8;
typedef short lab_i16;
typedef int lab_i32;
typedef long lab_i64;
typedef uchar lab_u8;
typedef ushort lab_u16;
typedef uint lab_u32;
typedef ulong lab_u64;
typedef half lab_f16;
typedef ushort lab_bf16; // as bits
typedef uchar lab_bool;

static inline float lab_shuffle_xor_f32(float x, int mask) {
    return simd_shuffle_xor(x, (ushort)mask);
}

static inline float lab_max_f32(float x, float y) {
    float larger = x > y ? x : y; /* one instruction, which takes y if either is NaN */
    return x == x ? larger : x;
}

static inline float lab_warp_max_f32(float x, int lanes) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        float other = lab_shuffle_xor_f32(x, apart);
        x = lab_max_f32(x, other);
    }
    return x;
}

static inline void lab_sync() {
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
}

#define LAB_INF INFINITY

static inline float lab_block_max_in_f32(
    float x, threadgroup float *shared, int threads, lab_u32 thread_) {
    const int lane = (int)thread_ % 32, warps = threads / 32;
    x = lab_warp_max_f32(x, 32);
    if (warps < 2) return x;
    lab_sync();
    if (lane == 0) shared[thread_ / 32] = x;
    lab_sync();
    x = shared[lane < warps ? lane : 0];
    if (lane >= warps) x = -LAB_INF;
    return lab_warp_max_f32(x, 32);
}

#define lab_block_max_f32(value, shared, threads) \
    lab_block_max_in_f32(value, shared, threads, lab_thread)

struct alignas(16) lab_f16x8 { lab_f16 at[8]; };

static inline half lab_part_f16(thread const lab_u32 *words, int e) {
    return as_type<half>((ushort)(words[0] >> 16 * e));
}

static inline void lab_mma_f16(thread float *c, thread const lab_u32 *a, thread const lab_u32 *b) {
    simdgroup_matrix<half, 8, 8> left, right;
    simdgroup_float8x8 sum;
    for (int e = 0; e < 2; e++) {
        left.thread_elements()[e] = lab_part_f16(a, e);
        right.thread_elements()[e] = lab_part_f16(b, e);
        sum.thread_elements()[e] = c[e];
    }
    simdgroup_multiply_accumulate(sum, left, right, sum);
    for (int e = 0; e < 2; e++) c[e] = sum.thread_elements()[e];
}

static inline lab_u32 lab_bits_f32(float x) { return as_type<uint>(x); }

static inline float lab_from_f32(lab_u32 u) { return as_type<float>(u); }

/* x, or the nearer of low < 0 and high > 0 beyond them, by minima of its bits: an instruction each,
   while minima of floats would have to mind NaN. */
static inline float lab_within_f32(float x, float low, float high) {
    lab_i32 most = (lab_i32)lab_bits_f32(high), capped = (lab_i32)lab_bits_f32(x);
    capped = capped < most ? capped : most;
    lab_u32 least = lab_bits_f32(low), bits = (lab_u32)capped < least ? (lab_u32)capped : least;
    return x == x ? lab_from_f32(bits) : x;
}

static inline float lab_fma_f32(float x, float y, float z) { return fma(x, y, z); }

/* e^f - 1 for |f| <= ln(2)/2. */
static inline float lab_exp_rest_f32(float f) {
    float p = 0.0013926326f;
    p = lab_fma_f32(p, f, 0.008363293f);
    p = lab_fma_f32(p, f, 0.041666552f);
    p = lab_fma_f32(p, f, 0.16666576f);
    p = lab_fma_f32(p, f, 0.5f);
    return lab_fma_f32(p * f, f, f);
}

/* 2^-64 (1 + e^-x), which is infinite only where no result is left. From 40 on, e^-x is nothing
   beside 1. */
static inline float lab_one_and_exp_f32(float x) {
    const float round = 12582912.0f + (127 - 64);
    float y = lab_within_f32(x, -133.0f, 40.0f);
    float shifted = lab_fma_f32(y, -1.442695f, round);
    float n = shifted - round;
    float f = lab_fma_f32(n, -1.4286068e-06f, lab_fma_f32(n, -0.69314575f, -y));
    float power = lab_from_f32(lab_bits_f32(shifted) << 23);
    return lab_fma_f32(lab_exp_rest_f32(f) + 1.0f, power, 5.421011e-20f);
}

static inline float lab_sigmoid_f32(float x) { return 5.421011e-20f / lab_one_and_exp_f32(x); }

static inline int lab_tile_row_in(uint thread_) {
    return (int)(thread_ % 32 / 16 * 4 + thread_ / 2 % 4);
}

static inline int lab_tile_column_in(uint thread_) {
    return (int)(thread_ / 8 % 2 * 4 + thread_ % 2 * 2);
}

static inline void lab_parts_f16(thread lab_u32 *words, half x, half y) {
    words[0] = as_type<ushort>(x) | (uint)as_type<ushort>(y) << 16;
}

static inline void lab_tile_a_in_f16(
    thread lab_u32 *a, threadgroup const lab_f16 *at, int stride, uint thread_) {
    at += lab_tile_row_in(thread_) * stride + lab_tile_column_in(thread_);
    lab_parts_f16(a, at[0], at[1]);
}

#define lab_tile_a_f16(a, at, stride) lab_tile_a_in_f16(a, at, stride, lab_thread)
