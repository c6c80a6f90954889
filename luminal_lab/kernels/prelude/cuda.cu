// What CUDA kernels call: maths, warps and blocks that exchange values, tensor units, copies.
//
// No header is included: NVRTC has few, and the source that is shown can be read to the end. The
// emulator replaces what is PTX here with functions of its own. The renderer, the preludes and the
// emulator share these names; D is a dtype's short name, T its type, and Metal has those with *,
// too:
//
//     lab_F_D, lab_cast_D_E *               the functions of maths.c
//     lab_random(k0, k1, at, step) *        the number at a place of a random stream
//     LAB_INF, LAB_NAN *                    as floats
//     lab_fma_f32(x, y, z) *                x y + z, rounded once, as x * y + z is not; (f64)
//     LAB_UNROLL(n) *                       before a loop of n iterations that is written out
//     lab_Dx4 *                             four neighbours: v.at[2] is one of them
//     LAB_LOAD(type, array, place) *        such a vector, in memory of the device
//     LAB_STORE(type, array, place, v) *
//     LAB_LOAD_SHARED, LAB_STORE_SHARED *   the same, in memory that the block shares
//     lab_sync() *                          all threads of the block wait for each other
//     lab_shuffle_xor_D(v, mask) *          what lane (own ^ mask) has; D in f32 f64 i32 i64 u32 u64
//     lab_warp_sum_D(v, n) *                the sum over n lanes side by side, n = 2, 4, … 32
//     lab_warp_max_D(v, n) *                the largest of n lanes, NaN if one is
//     lab_block_sum_D(v, shared, n) *       the sum over all n threads, and
//     lab_block_max_D(v, shared, n) *       the largest; shared: T[n / 32] that nothing else uses
//     lab_mma_U(c, a, b) *                  c += a b on the tensor units; U in f16 bf16 tf32
//     lab_tile_a_U(a, at, stride) *         this lane's part of a tile of a from shared memory
//     lab_tile_b_U(b, at, rows, columns) *  and of b; elements of a row are `columns` apart
//     lab_tile_row(e), lab_tile_column(e) * where element e of this lane's part of c lies
//     lab_cast_f32_tf32(x)                  the bits of a float rounded to 10 bits of fraction
//     lab_copy_async_16(to, from, bytes)    16 bytes from memory to shared memory, while work goes on;
//                                           of them `bytes` exist, and the others become 0
//     lab_copy_commit()                     the copies so far are a group
//     lab_copy_wait(n)                      wait until at most n < 8 groups are under way
//     lab_wgmma_…, lab_bulk_…, lab_barrier_…  Hopper's: see hopper.cu
//
// The sizes of tiles, and of the lanes' parts, are in dialect.py. Tiles are read in one access if
// shared arrays are __align__(16); for vectors they must be.
//
// Accuracy of the maths: exp2 and exp of float32 are the toolkit's, whose errors are documented as
// at most 2 ulp over the full range (CUDA C++ Programming Guide, "Mathematical Functions": exp2f 2,
// expf 2), and which take half the instructions, since the hardware has 2^x. Its log2f and sinf are
// no shorter than ours; those and all others are the text that the emulator and Metal use, too.
// Division and square roots are correctly rounded, and so is each product, except those of
// lab_fma_f32 and lab_fma_f64.

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
typedef lab_u8 lab_bool;

#define LAB_INF __int_as_float(0x7f800000)

#define LAB_NAN __int_as_float(0x7fc00000)

#define LAB_PRAGMA(text) _Pragma(#text)

#define LAB_UNROLL(n) LAB_PRAGMA(unroll n)

#define LAB_LOAD(type, array, place) (*(const type *)((array) + (place)))

#define LAB_STORE(type, array, place, value) (*(type *)((array) + (place)) = (value))

#define LAB_LOAD_SHARED(type, array, place) (*(const type *)((array) + (place)))

#define LAB_STORE_SHARED(type, array, place, value) (*(type *)((array) + (place)) = (value))

static __device__ __forceinline__ lab_u32 lab_bits_f32(float x) { return __float_as_uint(x); }

static __device__ __forceinline__ lab_u64 lab_bits_f64(double x) { return (lab_u64)__double_as_longlong(x); }

static __device__ __forceinline__ float lab_from_f32(lab_u32 u) { return __uint_as_float(u); }

static __device__ __forceinline__ double lab_from_f64(lab_u64 u) { return __longlong_as_double((lab_i64)u); }

static __device__ __forceinline__ float lab_exp2_f32(float x) { return exp2f(x); }

static __device__ __forceinline__ float lab_exp_f32(float x) { return expf(x); }

static __device__ __forceinline__ double lab_fma_f64(double x, double y, double z) { return fma(x, y, z); }

static __device__ __forceinline__ float lab_cast_f16_f32(lab_f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

static __device__ __forceinline__ lab_f16 lab_cast_f32_f16(float x) {
    lab_f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// To nearest, ties to even; before 8.0 there is no such instruction.
static __device__ __forceinline__ lab_bf16 lab_cast_f32_bf16(float x) {
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

static __device__ __forceinline__ void lab_sync() { __syncthreads(); }

static __device__ __forceinline__ $TYPE lab_shuffle_xor_$NAME($TYPE x, int mask) {
    return __shfl_xor_sync(0xffffffff, x, mask);
}
