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

static __device__ __forceinline__ float lab_shuffle_xor_f32(float x, int mask) {
    return __shfl_xor_sync(0xffffffff, x, mask);
}

static __device__ __forceinline__ float lab_max_f32(float x, float y) {
    float larger = x > y ? x : y; /* one instruction, which takes y if either is NaN */
    return x == x ? larger : x;
}

static __device__ __forceinline__ float lab_warp_max_f32(float x, int lanes) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        float other = lab_shuffle_xor_f32(x, apart);
        x = lab_max_f32(x, other);
    }
    return x;
}

static __device__ __forceinline__ void lab_sync() { __syncthreads(); }

#define LAB_INF __int_as_float(0x7f800000)

static __device__ __forceinline__ float lab_block_max_in_f32(
    float x, float *shared, int threads, lab_u32 thread_) {
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
    lab_block_max_in_f32(value, shared, threads, threadIdx.x)

struct alignas(16) lab_f16x8 { lab_f16 at[8]; };

static __device__ __forceinline__ void lab_mma_f16(float *c, const lab_u32 *a, const lab_u32 *b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int half = 0; half < 2; half++) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
    }
#endif
}

static __device__ __forceinline__ lab_u32 lab_bits_f32(float x) { return __float_as_uint(x); }

static __device__ __forceinline__ float lab_from_f32(lab_u32 u) { return __uint_as_float(u); }

/* x, or the nearer of low < 0 and high > 0 beyond them, by minima of its bits: an instruction each,
   while minima of floats would have to mind NaN. */
static __device__ __forceinline__ float lab_within_f32(float x, float low, float high) {
    lab_i32 most = (lab_i32)lab_bits_f32(high), capped = (lab_i32)lab_bits_f32(x);
    capped = capped < most ? capped : most;
    lab_u32 least = lab_bits_f32(low), bits = (lab_u32)capped < least ? (lab_u32)capped : least;
    return x == x ? lab_from_f32(bits) : x;
}

static __device__ __forceinline__ float lab_fma_f32(float x, float y, float z) { return fmaf(x, y, z); }

/* e^f - 1 for |f| <= ln(2)/2. */
static __device__ __forceinline__ float lab_exp_rest_f32(float f) {
    float p = 0x1.6d11fep-10f;
    p = lab_fma_f32(p, f, 0x1.120c62p-7f);
    p = lab_fma_f32(p, f, 0x1.555518p-5f);
    p = lab_fma_f32(p, f, 0x1.5554dcp-3f);
    p = lab_fma_f32(p, f, 0.5f);
    return lab_fma_f32(p * f, f, f);
}

/* 2^-64 (1 + e^-x), which is infinite only where no result is left. From 40 on, e^-x is nothing
   beside 1. */
static __device__ __forceinline__ float lab_one_and_exp_f32(float x) {
    const float round = 0x1.8p23f + (127 - 64);
    float y = lab_within_f32(x, -133.0f, 40.0f);
    float shifted = lab_fma_f32(y, -0x1.715476p+0f, round);
    float n = shifted - round;
    float f = lab_fma_f32(n, -0x1.7f7d1cp-20f, lab_fma_f32(n, -0x1.62e4p-1f, -y));
    float power = lab_from_f32(lab_bits_f32(shifted) << 23);
    return lab_fma_f32(lab_exp_rest_f32(f) + 1.0f, power, 0x1p-64f);
}

static __device__ __forceinline__ float lab_sigmoid_f32(float x) { return 0x1p-64f / lab_one_and_exp_f32(x); }

// Row r and k are at at[r * stride + k]. Rows of 16 bytes are read in one access if they begin at
// multiples of that: for a shared array with __align__(16) the compiler knows, and keeps only one
// way.
static __device__ __forceinline__ void lab_tile_a_f16(lab_u32 *a, const lab_f16 *at, int stride) {
    const int lane = (int)(threadIdx.x % 32);
    if ((((lab_u32)__cvta_generic_to_shared(at) | (lab_u32)(2 * stride)) & 15) == 0) {
        const lab_f16 *row = at + lane % 16 * stride + lane / 16 * 8;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
            : "r"((lab_u32)__cvta_generic_to_shared(row)) : "memory");
    } else {
        for (int e = 0; e < 4; e++) {
            const lab_f16 *pair = at + (lane / 4 + e % 2 * 8) * stride + lane % 4 * 2 + e / 2 * 8;
            a[e] = pair[0] | (lab_u32)pair[1] << 16;
        }
    }
}
