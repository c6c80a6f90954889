// What Metal kernels call: the names of cuda.cu, in Metal's language.
//
// There is no double here, and a function's pointer says which memory it points to. Threadgroups
// have one axis, and kernels name the thread's position in it `lab_thread`: code that needs it is a
// macro that passes it on. Half precision is Metal's own; bfloat16 is its bits, as Metal has the
// type only since 3.1. Sources must be compiled without fast maths (`mathMode = safe`), which
// assumes that NaN and infinity do not occur; a pragma also keeps products from being fused with
// sums. Subnormal floats may still be taken for 0.
//
// A simdgroup multiplies tiles of 8 by 8. Of each tile, lane l has two elements side by side:
//
//     row 4 (l / 16) + l / 2 % 4,  columns 4 (l / 8 % 2) + 2 (l % 2) and the next
//
// which is the layout of `thread_elements()` of Metal's simdgroup_matrix on all Apple GPUs that
// have it, as Apple's own MLX also assumes; the manual leaves it open.

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

#define LAB_INF INFINITY

#define LAB_NAN NAN

#define LAB_PRAGMA(text) _Pragma(#text)

#define LAB_UNROLL(n) LAB_PRAGMA(unroll(n))

#define LAB_LOAD(type, array, place) (*(device const type *)((array) + (place)))

#define LAB_STORE(type, array, place, value) (*(device type *)((array) + (place)) = (value))

#define LAB_LOAD_SHARED(type, array, place) (*(threadgroup const type *)((array) + (place)))

#define LAB_STORE_SHARED(type, array, place, value) \
    (*(threadgroup type *)((array) + (place)) = (value))

static inline lab_u32 lab_bits_f32(float x) { return as_type<uint>(x); }

static inline float lab_from_f32(lab_u32 u) { return as_type<float>(u); }

static inline lab_u16 lab_bits_f16(lab_f16 x) { return as_type<ushort>(x); }

static inline lab_f16 lab_from_f16(lab_u16 u) { return as_type<half>(u); }

static inline float lab_cast_f16_f32(lab_f16 x) { return (float)x; }

static inline lab_f16 lab_cast_f32_f16(float x) { return (lab_f16)x; }

static inline lab_bool lab_cast_f16_bool(lab_f16 x) { return (float)x != 0.0f; }

static inline void lab_sync() {
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
}

static inline lab_$LONG lab_shuffle_xor_$LONG(lab_$LONG x, int mask) {
    const uint low = simd_shuffle_xor((uint)x, (ushort)mask);
    const uint high = simd_shuffle_xor((uint)(x >> 32), (ushort)mask);
    return (lab_$LONG)((lab_u64)high << 32 | low);
}

static inline int lab_tile_row_in(uint thread_) {
    return (int)(thread_ % 32 / 16 * 4 + thread_ / 2 % 4);
}

static inline int lab_tile_column_in(uint thread_) {
    return (int)(thread_ / 8 % 2 * 4 + thread_ % 2 * 2);
}

static inline half lab_part_f16(thread const lab_u32 *words, int e) {
    return as_type<half>((ushort)(words[0] >> 16 * e));
}

static inline float lab_part_bf16(thread const lab_u32 *words, int e) {
    return as_type<float>(words[0] >> 16 * e << 16);
}

static inline float lab_part_tf32(thread const lab_u32 *words, int e) {
    return as_type<float>(words[e]);
}

static inline void lab_parts_f16(thread lab_u32 *words, half x, half y) {
    words[0] = as_type<ushort>(x) | (uint)as_type<ushort>(y) << 16;
}

static inline void lab_parts_bf16(thread lab_u32 *words, lab_bf16 x, lab_bf16 y) {
    words[0] = x | (uint)y << 16;
}

static inline void lab_parts_tf32(thread lab_u32 *words, float x, float y) {
    words[0] = as_type<uint>(x);
    words[1] = as_type<uint>(y);
}

#define lab_tile_row(e) lab_tile_row_in(lab_thread)

#define lab_tile_column(e) (lab_tile_column_in(lab_thread) + (e))

static inline $TYPE lab_shuffle_xor_$NAME($TYPE x, int mask) {
    return simd_shuffle_xor(x, (ushort)mask);
}

static inline void lab_mma_$UNIT(thread float *c, thread const lab_u32 *a, thread const lab_u32 *b) {
    simdgroup_matrix<$FACTOR, 8, 8> left, right;
    simdgroup_float8x8 sum;
    for (int e = 0; e < 2; e++) {
        left.thread_elements()[e] = lab_part_$UNIT(a, e);
        right.thread_elements()[e] = lab_part_$UNIT(b, e);
        sum.thread_elements()[e] = c[e];
    }
    simdgroup_multiply_accumulate(sum, left, right, sum);
    for (int e = 0; e < 2; e++) c[e] = sum.thread_elements()[e];
}

static inline void lab_tile_a_in_$UNIT(
    thread lab_u32 *a, threadgroup const $STORED *at, int stride, uint thread_) {
    at += lab_tile_row_in(thread_) * stride + lab_tile_column_in(thread_);
    lab_parts_$UNIT(a, at[0], at[1]);
}

static inline void lab_tile_b_in_$UNIT(
    thread lab_u32 *b, threadgroup const $STORED *at, int rows, int columns, uint thread_) {
    at += lab_tile_row_in(thread_) * rows + lab_tile_column_in(thread_) * columns;
    lab_parts_$UNIT(b, at[0], at[columns]);
}

#define lab_tile_a_$UNIT(a, at, stride) lab_tile_a_in_$UNIT(a, at, stride, lab_thread)

#define lab_tile_b_$UNIT(b, at, rows, columns) \
    lab_tile_b_in_$UNIT(b, at, rows, columns, lab_thread)
