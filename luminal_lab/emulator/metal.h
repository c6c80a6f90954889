// Metal's standard library on a CPU. Metal has no float64, so none may be named.

#define kernel
#define device
#define constant const
#define thread
#define threadgroup
#define visible
#define METAL_FUNC static inline
#define __METAL_VERSION__ 310
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#define HALF_MAX half(65504.0f)
#define M_PI_F 3.14159265358979323846f
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LN2_F 0.69314718055994530942f

#if defined(_WIN32)
#define long long long
#endif
typedef unsigned long ulong;
typedef lab_half_f16 half;
typedef lab_half_bf16 bfloat;

namespace metal {

// -- vectors --------------------------------------------------------------------------------------

template <class T, int N> struct vec;

// Some components of a vector, to which v.zx += w adds: the source says v.set<2, 0>() there.
template <class T, int... I> struct lab_parts {
    T *all;
    typedef vec<T, sizeof...(I)> value;
    const lab_parts &operator=(const value &v) const {
        int k = 0;
        ((all[I] = v[k++]), ...);
        return *this;
    }
    value now() const { return {all[I]...}; }
#define LAB_PARTS(OP)                                                                             \
    template <class U> const lab_parts &operator OP##=(const U &v) const { return *this = now() OP v; }
    LAB_PARTS(+) LAB_PARTS(-) LAB_PARTS(*) LAB_PARTS(/)
};

#define LAB_BARE(...) __VA_ARGS__
#define LAB_VECTOR(N, PLACES, XYZW, RGBA)                                                         \
    union {                                                                                       \
        T all[PLACES];                                                                            \
        struct { T LAB_BARE XYZW; };                                                              \
        struct { T LAB_BARE RGBA; };                                                              \
    };                                                                                            \
    vec() = default;                                                                              \
    T &operator[](int k) { return all[k]; }                                                       \
    const T &operator[](int k) const { return all[k]; }                                           \
    template <int... I> vec<T, sizeof...(I)> get() const { return {all[I]...}; }                  \
    template <int... I> lab_parts<T, I...> set() { return {all}; }                                \
    vec(T s) {                                                                                    \
        for (int k = 0; k < N; k++) all[k] = s;                                                   \
    }                                                                                             \
    template <class U> explicit vec(const vec<U, N> &v) {                                         \
        for (int k = 0; k < N; k++) all[k] = (T)v[k];                                             \
    }

template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
    LAB_VECTOR(2, 2, (x, y), (r, g))
    vec(T x, T y) : all{x, y} {}
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
    LAB_VECTOR(3, 4, (x, y, z), (r, g, b))
    vec(T x, T y, T z) : all{x, y, z} {}
    vec(vec<T, 2> v, T z) : all{v[0], v[1], z} {}
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
    LAB_VECTOR(4, 4, (x, y, z, w), (r, g, b, a))
    vec(T x, T y, T z, T w) : all{x, y, z, w} {}
    vec(vec<T, 2> a, vec<T, 2> b) : all{a[0], a[1], b[0], b[1]} {}
    vec(vec<T, 3> a, T w) : all{a[0], a[1], a[2], w} {}
};

#define LAB_OPERATOR(OP)                                                                          \
    template <class T, int N> static inline vec<T, N> operator OP(vec<T, N> a, vec<T, N> b) {     \
        for (int k = 0; k < N; k++) a[k] = a[k] OP b[k];                                          \
        return a;                                                                                 \
    }                                                                                             \
    template <class T, int N> static inline vec<T, N> operator OP(vec<T, N> a, lab_same<T> b) {   \
        return a OP vec<T, N>(b);                                                                 \
    }                                                                                             \
    template <class T, int N> static inline vec<T, N> operator OP(lab_same<T> a, vec<T, N> b) {   \
        return vec<T, N>(a) OP b;                                                                 \
    }                                                                                             \
    template <class T, int N> static inline vec<T, N> &operator OP##=(vec<T, N> &a, vec<T, N> b) { \
        return a = a OP b;                                                                        \
    }                                                                                             \
    template <class T, int N> static inline vec<T, N> &operator OP##=(vec<T, N> &a, lab_same<T> b) { \
        return a = a OP b;                                                                        \
    }
LAB_OPERATOR(+) LAB_OPERATOR(-) LAB_OPERATOR(*) LAB_OPERATOR(/) LAB_OPERATOR(%) LAB_OPERATOR(&)
LAB_OPERATOR(|) LAB_OPERATOR(^)
template <class T, int N> static inline vec<T, N> operator-(vec<T, N> a) {
    for (int k = 0; k < N; k++) a[k] = -a[k];
    return a;
}
#define LAB_COMPARE(OP)                                                                           \
    template <class T, int N> static inline vec<bool, N> operator OP(vec<T, N> a, vec<T, N> b) {  \
        vec<bool, N> is;                                                                          \
        for (int k = 0; k < N; k++) is[k] = a[k] OP b[k];                                         \
        return is;                                                                                \
    }
LAB_COMPARE(<) LAB_COMPARE(>) LAB_COMPARE(<=) LAB_COMPARE(>=) LAB_COMPARE(==) LAB_COMPARE(!=)

// The same elements without alignment.
template <class T, int N> struct lab_packed {
    T all[N];
    lab_packed() = default;
    lab_packed(vec<T, N> v) { for (int k = 0; k < N; k++) all[k] = v[k]; }
    operator vec<T, N>() const {
        vec<T, N> v;
        for (int k = 0; k < N; k++) v[k] = all[k];
        return v;
    }
    T &operator[](int k) { return all[k]; }
    const T &operator[](int k) const { return all[k]; }
};
#define LAB_NAMED(NAME, T)                                                                        \
    typedef vec<T, 2> NAME##2;                                                                    \
    typedef vec<T, 3> NAME##3;                                                                    \
    typedef vec<T, 4> NAME##4;                                                                    \
    typedef lab_packed<T, 2> packed_##NAME##2;                                                    \
    typedef lab_packed<T, 3> packed_##NAME##3;                                                    \
    typedef lab_packed<T, 4> packed_##NAME##4;
LAB_NAMED(float, float) LAB_NAMED(half, half) LAB_NAMED(bfloat, bfloat) LAB_NAMED(int, int)
LAB_NAMED(uint, uint) LAB_NAMED(short, short) LAB_NAMED(ushort, ushort) LAB_NAMED(char, signed char)
LAB_NAMED(uchar, uchar) LAB_NAMED(long, long) LAB_NAMED(ulong, ulong) LAB_NAMED(bool, bool)

// -- maths ----------------------------------------------------------------------------------------

#define LAB_EACH(NAME)                                                                            \
    template <class T, int N> static inline vec<T, N> NAME(vec<T, N> x) {                         \
        for (int k = 0; k < N; k++) x[k] = NAME(x[k]);                                            \
        return x;                                                                                 \
    }
#define LAB_EACH_PAIR(NAME)                                                                       \
    template <class T, int N> static inline vec<T, N> NAME(vec<T, N> x, vec<T, N> y) {            \
        for (int k = 0; k < N; k++) x[k] = NAME(x[k], y[k]);                                      \
        return x;                                                                                 \
    }
#define LAB_M1(NAME, C)                                                                           \
    static inline float NAME(float x) { return __builtin_##C##f(x); }                             \
    static inline half NAME(half x) { return half(__builtin_##C##f(x)); }                         \
    LAB_EACH(NAME)
#define LAB_ALL_M1                                                                                \
    LAB_M1(exp, exp) LAB_M1(exp2, exp2) LAB_M1(log, log) LAB_M1(log2, log2) LAB_M1(log10, log10)  \
    LAB_M1(sin, sin) LAB_M1(cos, cos) LAB_M1(tan, tan) LAB_M1(asin, asin) LAB_M1(acos, acos)      \
    LAB_M1(atan, atan) LAB_M1(sinh, sinh) LAB_M1(cosh, cosh) LAB_M1(tanh, tanh)                   \
    LAB_M1(sqrt, sqrt)
LAB_ALL_M1
LAB_M1(floor, floor) LAB_M1(ceil, ceil) LAB_M1(trunc, trunc) LAB_M1(round, round) LAB_M1(rint, rint)
LAB_M1(fabs, fabs)
static inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline half rsqrt(half x) { return half(1.0f / __builtin_sqrtf(x)); }
LAB_EACH(rsqrt)
#define LAB_M2(NAME, C) static inline float NAME(float x, float y) { return __builtin_##C##f(x, y); }
LAB_M2(pow, pow) LAB_M2(powr, pow) LAB_M2(fmod, fmod) LAB_M2(atan2, atan2)
LAB_M2(copysign, copysign) LAB_M2(fmin, fmin) LAB_M2(fmax, fmax)
static inline float ldexp(float x, int e) { return __builtin_ldexpf(x, e); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline half fma(half x, half y, half z) { return half(__builtin_fmaf(x, y, z)); }
template <class T, int N> static inline vec<T, N> fma(vec<T, N> x, vec<T, N> y, vec<T, N> z) {
    for (int k = 0; k < N; k++) x[k] = fma(x[k], y[k], z[k]);
    return x;
}
LAB_LEAST(int) LAB_LEAST(uint) LAB_LEAST(short) LAB_LEAST(ushort) LAB_LEAST(long) LAB_LEAST(ulong)
LAB_LEAST(signed char) LAB_LEAST(uchar)
#define LAB_LEAST_FLOAT(T)                                                                        \
    static inline T min(T a, T b) { return T(fmin(a, b)); }                                       \
    static inline T max(T a, T b) { return T(fmax(a, b)); }
LAB_LEAST_FLOAT(float) LAB_LEAST_FLOAT(half)
LAB_EACH_PAIR(min) LAB_EACH_PAIR(max)
template <class T> static inline T clamp(T x, lab_same<T> low, lab_same<T> high) {
    return min(max(x, low), high);
}
static inline float saturate(float x) { return clamp(x, 0.0f, 1.0f); }
LAB_ABS(int) LAB_ABS(long) LAB_ABS_OF(float, fabsf) LAB_ABS_OF(half, fabsf)
LAB_EACH(abs)
static inline float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
static inline float fract(float x) { return x - floor(x); }
template <class T> static inline T mix(T a, T b, lab_same<T> t) { return a + (b - a) * t; }
template <class T> static inline T select(T no, T yes, bool is) { return is ? yes : no; }
template <class T, int N> static inline vec<T, N> select(vec<T, N> no, vec<T, N> yes, vec<bool, N> is) {
    for (int k = 0; k < N; k++) no[k] = is[k] ? yes[k] : no[k];
    return no;
}
template <class T, int N> static inline T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a[0] * b[0];
    for (int k = 1; k < N; k++) sum = sum + a[k] * b[k];
    return sum;
}
template <int N> static inline float length(vec<float, N> a) { return sqrt(dot(a, a)); }
template <int N> static inline bool any(vec<bool, N> a) {
    bool is = false;
    for (int k = 0; k < N; k++) is |= a[k];
    return is;
}
template <int N> static inline bool all(vec<bool, N> a) { return !any(a == vec<bool, N>(false)); }
static inline bool isnan(float x) { return x != x; }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline uint popcount(uint x) { return (uint)__builtin_popcount(x); }
static inline uint clz(uint x) { return x ? (uint)__builtin_clz(x) : 32; }
static inline uint ctz(uint x) { return x ? (uint)__builtin_ctz(x) : 32; }
static inline uint mulhi(uint x, uint y) { return (uint)((ulong)x * y >> 32); }
static inline int mulhi(int x, int y) { return (int)((long)x * y >> 32); }
namespace precise { LAB_ALL_M1 using metal::fma; using metal::pow; using metal::rsqrt; using metal::fmod; using metal::min; using metal::max; }
namespace fast { LAB_ALL_M1 using metal::fma; using metal::pow; using metal::rsqrt; using metal::fmod; using metal::min; using metal::max; }

// -- barriers, simdgroups -------------------------------------------------------------------------

enum class mem_flags {
    mem_none = 0, mem_threadgroup = LAB_SHARED, mem_device = LAB_DEVICE, mem_texture = 8
};
static inline mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
static inline void threadgroup_barrier(mem_flags flags, LAB_LINE) {
    lab_now->barrier(lab_line, (int)flags);
}
static inline void simdgroup_barrier(mem_flags, LAB_LINE) { lab_meet(LAB_OF_SYNC, ~0u, 0, lab_line); }

#define LAB_FROM_LANE(NAME, LANE)                                                                 \
    template <class T> static inline T NAME(T v, ushort lane, LAB_LINE) {                         \
        return lab_shuffle_from(v, LANE, ~0u, lab_line);                                          \
    }
LAB_FROM_LANE(simd_shuffle, lane) LAB_FROM_LANE(simd_broadcast, lane)
LAB_FROM_LANE(simd_shuffle_xor, lab_own_lane() ^ lane)
LAB_FROM_LANE(simd_shuffle_down, lab_own_lane() + lane)
LAB_FROM_LANE(simd_shuffle_up, lab_own_lane() - lane)
template <class T> static inline T simd_broadcast_first(T v, LAB_LINE) {
    return lab_shuffle_from(v, 0, ~0u, lab_line);
}
struct lab_times { template <class T> T operator()(T a, T b) const { return a * b; } };
#define LAB_SIMD_FOLD(NAME, KIND, F)                                                              \
    template <class T> static inline T NAME(T v, LAB_LINE) {                                      \
        return lab_fold(KIND, v, 32, ~0u, F(), lab_line);                                         \
    }
LAB_SIMD_FOLD(simd_sum, LAB_OF_SUM, lab_add) LAB_SIMD_FOLD(simd_product, LAB_OF_SUM, lab_times)
LAB_SIMD_FOLD(simd_max, LAB_OF_MAX, lab_greater) LAB_SIMD_FOLD(simd_min, LAB_OF_MIN, lab_less)
#define LAB_SIMD_VOTE(NAME, F)                                                                    \
    static inline bool NAME(bool is, LAB_LINE) { return lab_fold(LAB_OF_VOTE, (int)is, 32, ~0u, F(), lab_line); }
LAB_SIMD_VOTE(simd_any, lab_greater) LAB_SIMD_VOTE(simd_all, lab_less)
template <class T> static inline T lab_prefix(T v, bool with_own, int line) {
    const lab_given<T> all = lab_meet(LAB_OF_SUM, ~0u, v, line);
    T sum = 0;
    for (unsigned k = 0; k < lab_own_lane() + with_own; k++) sum += all[k];
    return sum;
}
template <class T> static inline T simd_prefix_inclusive_sum(T v, LAB_LINE) { return lab_prefix(v, true, lab_line); }
template <class T> static inline T simd_prefix_exclusive_sum(T v, LAB_LINE) { return lab_prefix(v, false, lab_line); }

// -- matrices of a simdgroup: a lane has two neighbours of a row ---------------------------------------

template <class T, int R, int C> struct simdgroup_matrix {
    static_assert(R == 8 && C == 8, "Metal's simdgroups have matrices of 8 by 8");
    alignas(vec<T, 2>) T own[2];
    simdgroup_matrix() = default;
    explicit simdgroup_matrix(T diagonal) {
        for (int e = 0; e < 2; e++) own[e] = row() == column() + e ? diagonal : T(0);
    }
    static int row() { return (int)(lab_own_lane() / 16 * 4 + lab_own_lane() / 2 % 4); }
    static int column() { return (int)(lab_own_lane() / 8 % 2 * 4 + lab_own_lane() % 2 * 2); }
    vec<T, 2> &thread_elements() { return *(vec<T, 2> *)own; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
template <class T, int R, int C> static inline simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(lab_same<T> v) {
    simdgroup_matrix<T, R, C> matrix;
    matrix.own[0] = matrix.own[1] = v;
    return matrix;
}
// The position of element e of a lane's part of a matrix.
template <class T, int R, int C>
static inline ulong lab_element_at(const simdgroup_matrix<T, R, C> &m, int e, ulong stride, vec<ulong, 2> origin, bool turned) {
    const int r = turned ? m.column() + e : m.row(), c = turned ? m.row() : m.column() + e;
    return (origin[1] + (ulong)r) * stride + origin[0] + (ulong)c;
}
template <class T, int R, int C>
static inline void simdgroup_load(simdgroup_matrix<T, R, C> &m, const T *at, ulong stride = C, vec<ulong, 2> origin = vec<ulong, 2>(0), bool turned = false, LAB_LINE) {
    lab_meet(LAB_OF_MATRIX, ~0u, 1, lab_line);
    for (int e = 0; e < 2; e++) m.own[e] = at[lab_element_at(m, e, stride, origin, turned)];
}
template <class T, int R, int C>
static inline void simdgroup_store(const simdgroup_matrix<T, R, C> &m, T *at, ulong stride = C, vec<ulong, 2> origin = vec<ulong, 2>(0), bool turned = false, LAB_LINE) {
    lab_meet(LAB_OF_MATRIX, ~0u, 2, lab_line);
    for (int e = 0; e < 2; e++) at[lab_element_at(m, e, stride, origin, turned)] = m.own[e];
}
template <class A, class B> struct lab_both_parts { A a[2]; B b[2]; };
static inline unsigned lab_lane_of(int row, int column) {
    return (unsigned)(row / 4 * 16 + column / 4 * 8 + row % 4 * 2 + column % 4 / 2);
}
template <class D, class A, class B, class C>
static inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a, const simdgroup_matrix<B, 8, 8> &b, const simdgroup_matrix<C, 8, 8> &c, LAB_LINE) {
    typedef lab_both_parts<A, B> parts;
    const parts mine = {{a.own[0], a.own[1]}, {b.own[0], b.own[1]}};
    const lab_given<parts> all = lab_meet(LAB_OF_MATRIX, ~0u, mine, lab_line);
    float sum[2] = {0.0f, 0.0f};
    for (int k = 0; k < 8; k++) {
        const parts left = all[lab_lane_of(d.row(), k)];
        const parts right = all[lab_lane_of(k, d.column())];
        for (int e = 0; e < 2; e++) sum[e] += (float)left.a[k % 2] * (float)right.b[e];
    }
    for (int e = 0; e < 2; e++) d.own[e] = D(sum[e] + (float)c.own[e]);
}
template <class D, class A, class B>
static inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8> &d, const simdgroup_matrix<A, 8, 8> &a, const simdgroup_matrix<B, 8, 8> &b, LAB_LINE) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)), lab_line);
}

// -- atomics: one thread runs at a time ------------------------------------------------------------

enum memory_order { memory_order_relaxed };
template <class T> struct atomic { T value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
#define LAB_FETCH(NAME, NEW)                                                                      \
    template <class T> LAB_QUIET __attribute__((noinline)) static T NAME(volatile atomic<T> *p, lab_same<T> v, memory_order) { \
        LAB_TOUCHED(p, LAB_ATOMIC);                                                               \
        const T old = p->value;                                                                   \
        p->value = (T)(NEW);                                                                      \
        return old;                                                                               \
    }
LAB_FETCH(atomic_fetch_add_explicit, old + v) LAB_FETCH(atomic_fetch_sub_explicit, old - v)
LAB_FETCH(atomic_fetch_max_explicit, old < v ? v : old)
LAB_FETCH(atomic_fetch_min_explicit, v < old ? v : old)
LAB_FETCH(atomic_fetch_and_explicit, old & v) LAB_FETCH(atomic_fetch_or_explicit, old | v)
LAB_FETCH(atomic_fetch_xor_explicit, old ^ v) LAB_FETCH(atomic_exchange_explicit, v)
template <class T> LAB_QUIET __attribute__((noinline)) static void atomic_store_explicit(volatile atomic<T> *p, lab_same<T> v, memory_order) {
    LAB_TOUCHED(p, LAB_ATOMIC);
    p->value = v;
}
template <class T> LAB_QUIET __attribute__((noinline)) static T atomic_load_explicit(const volatile atomic<T> *p, memory_order) {
    LAB_TOUCHED(p, LAB_ATOMIC);
    return p->value;
}
template <class T> LAB_QUIET __attribute__((noinline)) static bool atomic_compare_exchange_weak_explicit(volatile atomic<T> *p, T *is, lab_same<T> v, memory_order, memory_order) {
    LAB_TOUCHED(p, LAB_ATOMIC);
    const bool same = __builtin_memcmp((const void *)&p->value, is, sizeof(T)) == 0;
    if (same) p->value = v;
    else *is = p->value;
    return same;
}

}  // namespace metal
using namespace metal;

template <class To, class From> static inline To as_type(const From &from) { return lab_bits<To>(from); }

// The position of a thread, in the type of the kernel's parameter.
struct lab_place {
    unsigned at[3];
    lab_place(const unsigned *three) : at{three[0], three[1], three[2]} {}
    lab_place(unsigned x) : at{x, 0, 0} {}
    operator uint() const { return at[0]; }
    operator ushort() const { return (ushort)at[0]; }
    operator uint2() const { return {at[0], at[1]}; }
    operator uint3() const { return {at[0], at[1], at[2]}; }
    operator ushort2() const { return {(ushort)at[0], (ushort)at[1]}; }
    operator ushort3() const { return {(ushort)at[0], (ushort)at[1], (ushort)at[2]}; }
};
static inline lab_place lab_place_in_grid() {
    unsigned at[3];
    for (int k = 0; k < 3; k++) at[k] = lab_now->at_block[k] * lab_now->block_size[k] + lab_now->at_thread[k];
    return at;
}
static inline lab_place lab_grid() {
    unsigned at[3];
    for (int k = 0; k < 3; k++) at[k] = lab_now->grid_size[k] * lab_now->block_size[k];
    return at;
}
static inline unsigned lab_simdgroups() {
    return (lab_now->block_size[0] * lab_now->block_size[1] * lab_now->block_size[2] + 31) / 32;
}
template <class T> struct lab_pointed_by;
template <class T> struct lab_pointed_by<T *> { using type = T; };
template <class T> using lab_pointed = typename lab_pointed_by<T>::type;
#pragma GCC poison double
