// CUDA C++ without headers, as NVRTC compiles it, on a CPU.

#define __global__
#define __device__
#define __host__
#if defined(LAB_TRACED)
#define __forceinline__ inline __attribute__((noinline))  // so that the calling line is known
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define __CUDACC__ 1
#define __CUDA_ARCH__ 800

#define LAB_VECTORS(NAME, T)                                                                      \
    struct NAME##1 { T x; };                                                                      \
    struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                                            \
    struct NAME##3 { T x, y, z; };                                                                \
    struct alignas(sizeof(T) < 8 ? 4 * sizeof(T) : 16) NAME##4 { T x, y, z, w; };                 \
    static inline NAME##1 make_##NAME##1(T x) { return {x}; }                                     \
    static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                             \
    static inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                     \
    static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
LAB_VECTORS(char, signed char) LAB_VECTORS(uchar, unsigned char) LAB_VECTORS(short, short)
LAB_VECTORS(ushort, unsigned short) LAB_VECTORS(int, int) LAB_VECTORS(uint, unsigned)
LAB_VECTORS(long, long) LAB_VECTORS(ulong, unsigned long) LAB_VECTORS(longlong, long long)
LAB_VECTORS(ulonglong, unsigned long long) LAB_VECTORS(float, float) LAB_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define threadIdx (*(const uint3 *)lab_now->at_thread)
#define blockIdx (*(const uint3 *)lab_now->at_block)
#define blockDim (*(const uint3 *)lab_now->block_size)
#define gridDim (*(const uint3 *)lab_now->grid_size)
static const int warpSize = 32;

static inline size_t __cvta_generic_to_shared(const void *at) {
    return (size_t)((const char *)at - lab_now->shared_base);
}

// -- barriers and warps ---------------------------------------------------------------------------

static inline void __syncthreads(LAB_LINE) { lab_now->barrier(lab_line, LAB_SHARED | LAB_DEVICE); }
static inline void __syncwarp(unsigned mask = ~0u, LAB_LINE) { lab_meet(LAB_OF_SYNC, mask, 0, lab_line); }
static inline void __threadfence() { lab_now->fence(); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { lab_now->fence(); }

// Lanes in segments of a width, a power of two: `first` is the start of this segment, `end` of the
// next.
#define LAB_SHUFFLE(NAME, T_LANE, FROM)                                                           \
    template <class T>                                                                            \
    static inline T NAME(unsigned mask, T v, T_LANE lane, int width = 32, LAB_LINE) {             \
        const unsigned own = lab_own_lane(), by = (unsigned)lane, size = (unsigned)width;         \
        const unsigned first = own & ~(size - 1), end = first + size;                             \
        return lab_shuffle_from(v, FROM, mask, lab_line);                                         \
    }
LAB_SHUFFLE(__shfl_sync, int, first + by % size)
LAB_SHUFFLE(__shfl_xor_sync, int, (own ^ by) < end ? own ^ by : own)
LAB_SHUFFLE(__shfl_up_sync, unsigned, own - first < by ? own : own - by)
LAB_SHUFFLE(__shfl_down_sync, unsigned, own + by >= end ? own : own + by)
static inline unsigned __ballot_sync(unsigned mask, int is, LAB_LINE) {
    const lab_given<int> all = lab_meet(LAB_OF_VOTE, mask, is, lab_line);
    unsigned bits = 0;
    for (unsigned k = 0; k < 32; k++)
        if ((all.givers() >> k & 1) && all[k]) bits |= 1u << k;
    return bits;
}
static inline int __any_sync(unsigned mask, int is, LAB_LINE) {
    return __ballot_sync(mask, is, lab_line) != 0;
}
static inline int __all_sync(unsigned mask, int is, LAB_LINE) {
    return __ballot_sync(mask, !is, lab_line) == 0;
}
static inline unsigned __activemask() {
    unsigned bits = 0;
    for (unsigned k = 0; k < 32; k++) bits |= (unsigned)lab_is_there(k) << k;
    return bits;
}
#define LAB_REDUCE(NAME, T, F)                                                                    \
    static inline T NAME(unsigned mask, T v, LAB_LINE) {                                          \
        return lab_fold(LAB_OF_SUM, v, 32, mask, F(), lab_line);                                  \
    }
LAB_REDUCE(__reduce_add_sync, unsigned, lab_add) LAB_REDUCE(__reduce_add_sync, int, lab_add)
LAB_REDUCE(__reduce_max_sync, unsigned, lab_greater) LAB_REDUCE(__reduce_max_sync, int, lab_greater)
LAB_REDUCE(__reduce_min_sync, unsigned, lab_less) LAB_REDUCE(__reduce_min_sync, int, lab_less)

static inline int lab_counted(int is, int what, int line) {
    const int lane = (int)__ballot_sync(__activemask(), is, line), warp = (int)(lab_now->number / 32);
    int *votes = lab_shared<int[32]>(255, "votes", line);
    if (lab_own_lane() == 0) votes[warp] = lane;
    lab_now->barrier(line, LAB_SHARED | LAB_DEVICE);
    const unsigned n = lab_now->block_size[0] * lab_now->block_size[1] * lab_now->block_size[2];
    int count = 0;
    for (unsigned k = 0; k < (n + 31) / 32; k++) count += __builtin_popcount((unsigned)votes[k]);
    lab_now->barrier(line, LAB_SHARED | LAB_DEVICE);
    return what == 0 ? count : what == 1 ? count == (int)n : count > 0;
}
static inline int __syncthreads_count(int is, LAB_LINE) { return lab_counted(is != 0, 0, lab_line); }
static inline int __syncthreads_and(int is, LAB_LINE) { return lab_counted(is != 0, 1, lab_line); }
static inline int __syncthreads_or(int is, LAB_LINE) { return lab_counted(is != 0, 2, lab_line); }

// -- atomics: one thread runs at a time ------------------------------------------------------------

#define LAB_ATOMIC_ON(NAME, T, NEW)                                                               \
    LAB_QUIET __attribute__((noinline)) static T NAME(T *p, T v) {                                \
        LAB_TOUCHED(p, LAB_ATOMIC);                                                               \
        const T old = *p;                                                                         \
        *p = (T)(NEW);                                                                            \
        return old;                                                                               \
    }
#define LAB_ON_WHOLE(NAME, NEW)                                                                   \
    LAB_ATOMIC_ON(NAME, int, NEW)                                                                 \
    LAB_ATOMIC_ON(NAME, unsigned, NEW)                                                            \
    LAB_ATOMIC_ON(NAME, unsigned long long, NEW)
LAB_ON_WHOLE(atomicAdd, old + v) LAB_ATOMIC_ON(atomicAdd, float, old + v)
LAB_ATOMIC_ON(atomicAdd, double, old + v)
LAB_ATOMIC_ON(atomicSub, int, old - v) LAB_ATOMIC_ON(atomicSub, unsigned, old - v)
LAB_ON_WHOLE(atomicMax, old < v ? v : old) LAB_ATOMIC_ON(atomicMax, long long, old < v ? v : old)
LAB_ON_WHOLE(atomicMin, v < old ? v : old) LAB_ATOMIC_ON(atomicMin, long long, v < old ? v : old)
LAB_ON_WHOLE(atomicAnd, old & v) LAB_ON_WHOLE(atomicOr, old | v) LAB_ON_WHOLE(atomicXor, old ^ v)
LAB_ON_WHOLE(atomicExch, v) LAB_ATOMIC_ON(atomicExch, float, v)
LAB_ATOMIC_ON(atomicInc, unsigned, old >= v ? 0 : old + 1)
LAB_ATOMIC_ON(atomicDec, unsigned, old == 0 || old > v ? v : old - 1)
template <class T> LAB_QUIET __attribute__((noinline)) static T atomicCAS(T *p, lab_same<T> is, lab_same<T> v) {
    LAB_TOUCHED(p, LAB_ATOMIC);
    const T old = *p;
    if (old == is) *p = v;
    return old;
}

// -- maths ----------------------------------------------------------------------------------------

#define LAB_C1(NAME)                                                                              \
    static inline float NAME##f(float x) { return __builtin_##NAME##f(x); }                       \
    static inline float NAME(float x) { return __builtin_##NAME##f(x); }                          \
    static inline double NAME(double x) { return __builtin_##NAME(x); }                           \
    static inline double NAME(int x) { return __builtin_##NAME((double)x); }
#define LAB_C2(NAME)                                                                              \
    static inline float NAME##f(float x, float y) { return __builtin_##NAME##f(x, y); }           \
    static inline float NAME(float x, float y) { return __builtin_##NAME##f(x, y); }              \
    static inline double NAME(double x, double y) { return __builtin_##NAME(x, y); }
LAB_C1(exp) LAB_C1(exp2) LAB_C1(expm1) LAB_C1(log) LAB_C1(log2) LAB_C1(log10) LAB_C1(log1p)
LAB_C1(sin) LAB_C1(cos) LAB_C1(tan) LAB_C1(asin) LAB_C1(acos) LAB_C1(atan) LAB_C1(sinh) LAB_C1(cosh)
LAB_C1(tanh) LAB_C1(asinh) LAB_C1(acosh) LAB_C1(atanh) LAB_C1(sqrt) LAB_C1(cbrt) LAB_C1(erf)
LAB_C1(erfc) LAB_C1(floor) LAB_C1(ceil) LAB_C1(trunc) LAB_C1(round) LAB_C1(rint) LAB_C1(nearbyint)
LAB_C1(fabs) LAB_C1(tgamma) LAB_C1(lgamma)
LAB_C2(pow) LAB_C2(fmod) LAB_C2(fmin) LAB_C2(fmax) LAB_C2(atan2) LAB_C2(hypot) LAB_C2(copysign)
LAB_C2(fdim) LAB_C2(remainder)
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
static inline float ldexpf(float x, int e) { return __builtin_ldexpf(x, e); }
static inline float exp10f(float x) { return __builtin_powf(10.0f, x); }
static inline void sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
#define LAB_IS(NAME, T) static inline bool NAME(T x) { return __builtin_##NAME(x); }
LAB_IS(isnan, float) LAB_IS(isinf, float) LAB_IS(isfinite, float)
LAB_IS(isnan, double) LAB_IS(isinf, double) LAB_IS(isfinite, double)
static inline long long llabs(long long x) { return x < 0 ? -x : x; }
LAB_ABS(int) LAB_ABS(long) LAB_ABS(long long) LAB_ABS_OF(float, fabsf) LAB_ABS_OF(double, fabs)
LAB_LEAST(int) LAB_LEAST(unsigned) LAB_LEAST(long) LAB_LEAST(unsigned long)
LAB_LEAST(long long) LAB_LEAST(unsigned long long)
#define LAB_LEAST_OF(R, A, B, MIN, MAX)                                                           \
    static inline R min(A a, B b) { return MIN((R)a, (R)b); }                                     \
    static inline R max(A a, B b) { return MAX((R)a, (R)b); }
LAB_LEAST_OF(unsigned, int, unsigned, min, max) LAB_LEAST_OF(unsigned, unsigned, int, min, max)
LAB_LEAST_OF(float, float, float, fminf, fmaxf) LAB_LEAST_OF(double, double, double, fmin, fmax)
LAB_LEAST_OF(double, float, double, fmin, fmax) LAB_LEAST_OF(double, double, float, fmin, fmax)

#define LAB_FAST(NAME) static inline float __##NAME##f(float x) { return NAME##f(x); }
LAB_FAST(exp) LAB_FAST(exp10) LAB_FAST(log) LAB_FAST(log2) LAB_FAST(log10) LAB_FAST(sin)
LAB_FAST(cos) LAB_FAST(tan)
static inline float __powf(float x, float y) { return powf(x, y); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
// Functions that state their rounding are never fused: the compiler cannot see through them.
template <class T> static inline T lab_alone(T x) {
    __asm__("" : "+m"(x));
    return x;
}
#define LAB_ROUNDED(F, T, SQRT, FMA)                                                              \
    static inline T __##F##add_rn(T x, T y) { return lab_alone(lab_alone(x) + lab_alone(y)); }    \
    static inline T __##F##sub_rn(T x, T y) { return lab_alone(lab_alone(x) - lab_alone(y)); }    \
    static inline T __##F##mul_rn(T x, T y) { return lab_alone(x * y); }                          \
    static inline T __##F##div_rn(T x, T y) { return x / y; }                                     \
    static inline T __##F##rcp_rn(T x) { return T(1) / x; }                                       \
    static inline T __##F##sqrt_rn(T x) { return SQRT(x); }                                       \
    static inline T FMA(T x, T y, T z) { return fma(x, y, z); }
LAB_ROUNDED(f, float, sqrtf, __fmaf_rn) LAB_ROUNDED(d, double, sqrt, __fma_rn)
#define LAB_AS(NAME, TO, FROM, VALUE) static inline TO NAME(FROM x) { return VALUE; }
LAB_AS(__float2int_rn, int, float, (int)rintf(x)) LAB_AS(__float2int_rz, int, float, (int)x)
LAB_AS(__float2int_rd, int, float, (int)floorf(x)) LAB_AS(__float2int_ru, int, float, (int)ceilf(x))
LAB_AS(__float2uint_rn, unsigned, float, (unsigned)rintf(x)) LAB_AS(__int2float_rn, float, int, (float)x)
LAB_AS(__uint2float_rn, float, unsigned, (float)x) LAB_AS(__double2float_rn, float, double, (float)x)
#define LAB_BITS(NAME, TO, FROM) LAB_AS(NAME, TO, FROM, lab_bits<TO>(x))
LAB_BITS(__float_as_int, int, float) LAB_BITS(__float_as_uint, unsigned, float)
LAB_BITS(__int_as_float, float, int) LAB_BITS(__uint_as_float, float, unsigned)
LAB_BITS(__double_as_longlong, long long, double) LAB_BITS(__longlong_as_double, double, long long)
#define LAB_COUNTS(LL, S, U)                                                                      \
    static inline int __popc##LL(U x) { return __builtin_popcount##LL(x); }                       \
    static inline int __clz##LL(S x) { return x ? __builtin_clz##LL((U)x) : 8 * (int)sizeof x; }  \
    static inline int __ffs##LL(S x) { return __builtin_ffs##LL(x); }
LAB_COUNTS(, int, unsigned) LAB_COUNTS(ll, long long, unsigned long long)
static inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int k = 0; k < 32; k++) y |= (x >> k & 1) << (31 - k);
    return y;
}
static inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((unsigned long long)x * y >> 32);
}
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline int __dp4a(int a, int b, int c) {
    for (int k = 0; k < 32; k += 8) c += (int)(signed char)(a >> k) * (int)(signed char)(b >> k);
    return c;
}
#define LAB_CACHED_LOAD(NAME) template <class T> static inline T NAME(const T *p) { return *p; }
#define LAB_CACHED_STORE(NAME) template <class T> static inline void NAME(T *p, lab_same<T> v) { *p = v; }
LAB_CACHED_LOAD(__ldg) LAB_CACHED_LOAD(__ldcg) LAB_CACHED_LOAD(__ldcs)
LAB_CACHED_STORE(__stcg) LAB_CACHED_STORE(__stcs)
static inline long long clock64() { return 0; }
static inline int clock() { return 0; }
static inline void __nanosleep(unsigned) {}
static inline void __trap(LAB_LINE) { lab_now->trap(lab_line); }
extern "C" int printf(const char *, ...);
#define assert(IS) ((IS) ? (void)0 : lab_now->trap(__LINE__))

// -- 16-bit floats, as cuda_fp16.h and cuda_bf16.h have them -----------------------------------------

typedef lab_half_f16 __half;
typedef lab_half_f16 half;
typedef lab_half_bf16 __nv_bfloat16;
typedef lab_half_bf16 nv_bfloat16;
struct alignas(4) __half2 { __half x, y; };
typedef __half2 half2;
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
LAB_AS(__half2float, float, __half, x)
LAB_AS(__float2half, __half, float, x) LAB_AS(__float2half_rn, __half, float, x)
LAB_AS(__half_as_ushort, unsigned short, __half, x.bits) LAB_BITS(__ushort_as_half, __half, unsigned short)
LAB_AS(__bfloat162float, float, __nv_bfloat16, x)
LAB_AS(__float2bfloat16, __nv_bfloat16, float, x) LAB_AS(__float2bfloat16_rn, __nv_bfloat16, float, x)
#define LAB_OF_HALVES(R, NAME, T, OP) static inline R NAME(__half x, __half y) { return (T)x OP(T) y; }
LAB_OF_HALVES(__half, __hadd, __half, +) LAB_OF_HALVES(__half, __hsub, __half, -)
LAB_OF_HALVES(__half, __hmul, __half, *) LAB_OF_HALVES(__half, __hdiv, __half, /)
LAB_OF_HALVES(bool, __hlt, float, <) LAB_OF_HALVES(bool, __hgt, float, >)
static inline __half __hfma(__half x, __half y, __half z) { return fmaf(x, y, z); }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
static inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }
static inline __half2 __hadd2(__half2 x, __half2 y) { return {x.x + y.x, x.y + y.y}; }
static inline __half2 __hmul2(__half2 x, __half2 y) { return {x.x * y.x, x.y * y.y}; }
static inline __half2 __hfma2(__half2 x, __half2 y, __half2 z) {
    return {__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)};
}
