// The primitives, and casts, with NumPy's meaning: C99 that includes nothing, and calls libm's
// `fmod`.
//
// All but the far functions are free of branches, tables and calls, so that loops over them become
// vector code. They are written for `-O3 -march=native -ffp-contract=off -fno-math-errno
// -fno-trapping-math`, and never `-ffast-math`: no compiler chooses which products are rounded
// before they are added. If a processor does both in one instruction, lab_fma_f32(x, y, z) is x y +
// z, rounded once. Otherwise it rounds twice, which all functions allow for, and calls no library.
//
// exp2, log2 and sin are a reduction of the argument and a polynomial (minimax, by Remez's exchange)
// that only has to add a small term to an exact one; that keeps the error near half an ulp more than
// rounding itself. `bench.studies.maths` measures it. recip and sqrt are correctly rounded.
//
// 16-bit floats are stored as their bits and computed in float32: their functions are the casts.
// For floats, add and mul are C's own; for integers they wrap. Nothing is a multiple of 0 here, and
// everything is a multiple of -1, whose quotient might not fit.
//
// lab_sin_f64(x) is right everywhere, by a rare slow path with branches, so a loop over it is not
// vector code; the same holds for lab_cos_f64 and lab_mod of floats. To become vector code, a loop
// uses lab_sin_f64_near(x) for a block of elements, combines lab_sin_f64_is_far(x), which is
// nonzero where near may be wrong, with `|`, and repeats the block if one was far:
//
//     for (lab_i64 from = 0; from < n; from += 256) {
//         const lab_i64 to = from + 256 < n ? from + 256 : n;
//         int far = 0;
//         #pragma omp simd reduction(|:far)
//         for (lab_i64 j = from; j < to; j++) {
//             far |= lab_sin_f64_is_far(x[j]);
//             y[j] = lab_sin_f64_near(x[j]);
//         }
//         for (lab_i64 j = from; far && j < to; j++) y[j] = lab_sin_f64(x[j]);
//     }
//
// where y must not overlap what the second loop reads again.

typedef __INT8_TYPE__ lab_i8;
typedef __INT16_TYPE__ lab_i16;
typedef __INT32_TYPE__ lab_i32;
typedef __INT64_TYPE__ lab_i64;
typedef __UINT8_TYPE__ lab_u8;
typedef __UINT16_TYPE__ lab_u16;
typedef __UINT32_TYPE__ lab_u32;
typedef __UINT64_TYPE__ lab_u64;
typedef lab_u16 lab_f16;
typedef lab_u16 lab_bf16;
typedef lab_u8 lab_bool;

static inline lab_$BITS lab_bits_$REAL($TYPE x) {
    lab_$BITS u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}

static inline $TYPE lab_from_$REAL(lab_$BITS u) {
    $TYPE x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

static inline lab_u16 lab_bits_$HALF(lab_$HALF x) { return x; }

static inline lab_$HALF lab_from_$HALF(lab_u16 u) { return u; }

static inline $TYPE lab_fma_$REAL($TYPE x, $TYPE y, $TYPE z) {
#if defined(__clang__)
#pragma clang fp contract(fast)
    return x * y + z;
#elif defined(__FP_FAST_FMA$FAST)
    return __builtin_fma$F(x, y, z);
#else
    return x * y + z;
#endif
}

static inline $TYPE lab_sqrt_$REAL($TYPE x) { return __builtin_sqrt$F(x); }

static inline $TYPE lab_recip_$REAL($TYPE x) { return 1.0$F / x; }

/* x, or the nearer of low < 0 and high > 0 beyond them, by minima of its bits: an instruction each,
   while minima of floats would have to mind NaN. */
static inline float lab_within_f32(float x, float low, float high) {
    lab_i32 most = (lab_i32)lab_bits_f32(high), capped = (lab_i32)lab_bits_f32(x);
    capped = capped < most ? capped : most;
    lab_u32 least = lab_bits_f32(low), bits = (lab_u32)capped < least ? (lab_u32)capped : least;
    return x == x ? lab_from_f32(bits) : x;
}

static inline double lab_within_f64(double x, double low, double high) {
    double y = x > high ? high : x;
    return y < low ? low : y;
}

/* 2^x = 2^n 2^f with n whole and |f| <= 1/2. Adding 1.5 2^23 rounds to n and leaves it in the low
   bits. 2^n is two factors, 2^h and 2^(n - h), so that results may be subnormal and are rounded
   only once; the addition also gives each factor its exponent's 127. */
static inline float lab_exp2_f32(float x) {
    float y = lab_within_f32(x, -151.0f, 129.0f);
    float n = y + (0x1.8p23f + 254.0f);
    float h = lab_fma_f32(y, 0.5f, 0x1.8p23f + 127.0f);
    float f = y - (n - (0x1.8p23f + 254.0f));
    float p = $POLYNOMIAL(f, 0x1.448f42p-13f, 0x1.5f4774p-10f, 0x1.3b29aap-7f, 0x1.c6aed0p-5f,
        0x1.ebfbe0p-3f, 0x1.62e430p-1f, 1.0f);
    lab_u32 first = lab_bits_f32(h) << 23;
    lab_u32 second = (lab_bits_f32(n) - lab_bits_f32(h)) << 23;
    return p * lab_from_f32(first) * lab_from_f32(second);
}

/* 2^x as in float32, but halving n is whole-number arithmetic. */
static inline double lab_exp2_f64(double x) {
    double y = lab_within_f64(x, -1076.0, 1025.0);
    double shifted = y + 0x1.8p52;
    double f = y - (shifted - 0x1.8p52);
    double p = $POLYNOMIAL(f, 0x1.ea183da996f48p-32, 0x1.e61c92187c8f5p-28, 0x1.b524cdf4e4ad7p-24,
        0x1.62bfc6db09fd4p-20, 0x1.ffcbfc7c3f8abp-17, 0x1.4309130f290fcp-13, 0x1.5d87fe78a0e53p-10,
        0x1.3b2ab6fb9ff7bp-7, 0x1.c6b08d704a0d7p-5, 0x1.ebfbdff82c5a5p-3, 0x1.62e42fefa39efp-1,
        1.0);
    lab_u64 n = (lab_bits_f64(shifted) + 2048) & 0xffff;
    lab_u64 half = n >> 1;
    return p * lab_from_f64((half - 1) << 52) * lab_from_f64((n - half - 1) << 52);
}

/* x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); log2(1 + f) is f plus a small term. */
static inline float lab_log2_f32(float x) {
    lab_u32 tiny = x < 0x1p-126f; /* subnormals are scaled by 2^23 */
    lab_u32 u = lab_bits_f32(tiny ? x * 0x1p23f : x) + (0x3f800000 - 0x3f3504f3);
    lab_i32 n = (lab_i32)(u >> 23) - (tiny ? 127 + 23 : 127);
    float f = lab_from_f32((u & 0x7fffff) + 0x3f3504f3) - 1.0f;
    float p = $POLYNOMIAL(f, -0x1.cebf70p-4f, 0x1.80abdep-3f, -0x1.866016p-3f, 0x1.a265dep-3f,
        -0x1.eac68cp-3f, 0x1.2782e6p-2f, -0x1.715a68p-2f, 0x1.ec7080p-2f, -0x1.715470p-1f);
    p = lab_fma_f32(p, f, 0x1.c551dap-2f); /* log2(e) - 1 */
    float y = (float)n + lab_fma_f32(f, p, f);
    y = x < __builtin_inff() ? y : x;
    return x > 0.0f ? y : x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
}

/* As in float32, but log(1 + f) by its series in s = f / (2 + f): f - f^2/2 + s (f^2/2 + s^2 p). */
static inline double lab_log2_f64(double x) {
    lab_u64 tiny = x < 0x1p-1022; /* subnormals are scaled by 2^54 */
    lab_u64 u = lab_bits_f64(tiny ? x * 0x1p54 : x) + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
    /* An integer below 2^52 becomes a double as the low bits of 2^52. */
    double n = lab_from_f64((u >> 52) | 0x4330000000000000) - (0x1p52 + 1023.0);
    n = tiny ? n - 54.0 : n;
    double f = lab_from_f64((u & 0xfffffffffffff) + 0x3fe6a09e667f3bcd) - 1.0;
    double s = f / (2.0 + f);
    double z = s * s;
    double h = 0.5 * f * f;
    double p = $POLYNOMIAL(z, 0x1.2f0d4edbb5a0ep-3, 0x1.39a0fb8f9f4b7p-3, 0x1.746645e8c3359p-3,
        0x1.c71c51e953a9cp-3, 0x1.2492494215d5ap-2, 0x1.999999997fb55p-2, 0x1.5555555555593p-1);
    double small = 0x1.71547652b82fep+0 * lab_fma_f64(s, lab_fma_f64(z, p, h), -h);
    double y = n + (f + lab_fma_f64(0x1.c551d94ae0bf8p-2, f, small)); /* log2(e) - 1 */
    y = x < __builtin_inf() ? y : x;
    return x > 0.0 ? y : x == 0.0 ? -__builtin_inf() : __builtin_nan("");
}

/* sin(q pi/2 + r) with the sign bit of `sign` turned, for |r| <= pi/4. */
static inline float lab_sin_sum_f32(float r, lab_u32 q, lab_u32 sign) {
    float z = r * r;
    float s = $POLYNOMIAL(z, 0x1.6cd840p-19f, -0x1.a00f9ep-13f, 0x1.111108p-7f, -0x1.555556p-3f);
    s = lab_fma_f32(s * z, r, r);
    float c = $POLYNOMIAL(z, -0x1.242abcp-22f, 0x1.a01120p-16f, -0x1.6c16b8p-10f, 0x1.555556p-5f,
        -0.5f, 1.0f);
    sign = (sign & 0x80000000) ^ ((q & 2) << 30);
    return lab_from_f32(lab_bits_f32(q & 1 ? c : s) ^ sign);
}

/* x = k pi/2 + r, and k in the lowest bits of `shifted`; below 2^25 k times the first part of pi/2
   is exact. */
static inline double lab_sin_shifted_f32(double x) {
    return lab_fma_f64(x, 0x1.45f306dc9c883p-1, 0x1.8p52);
}

static inline double lab_sin_rest_f32(double x, double shifted) {
    double k = shifted - 0x1.8p52;
    return lab_fma_f64(k, -0x1.10b4611a62633p-30, lab_fma_f64(k, -0x1.921fb54p+0, x));
}

static inline int lab_sin_f32_is_far(float x) { return !(__builtin_fabsf(x) < 0x1p25f); }

static inline float lab_sin_f32_near(float x) {
    double a = __builtin_fabsf(x), shifted = lab_sin_shifted_f32(a);
    lab_u32 q = (lab_u32)lab_bits_f64(shifted);
    return lab_sin_sum_f32((float)lab_sin_rest_f32(a, shifted), q, lab_bits_f32(x));
}

/* The sine of |x| and some quarters of a turn, with the sign bit of `sign` turned. From 2^25 on r
   comes from the 96 bits of 2/pi that matter, whose product with x is kept modulo 4
   (Payne and Hanek). x = m 2^(at + 2), and bits before `at` would only add multiples of 4. */
static inline float lab_sin_turned_f32(float x, lab_u32 quarters, lab_u32 sign) {
    lab_u32 u = lab_bits_f32(x) & 0x7fffffff;
    lab_u32 m = (u & 0x7fffff) | 0x800000;
    lab_u32 at = (u >> 23) - 152;
    lab_u32 skip = at & 64;
    lab_u32 w0 = skip ? 0xfc2757d1 : 0xa2f9836e;
    lab_u32 w1 = skip ? 0xf534ddc0 : 0x4e441529;
    lab_u32 w2 = skip ? 0xdb629599 : 0xfc2757d1;
    lab_u32 w3 = skip ? 0x3c439041 : 0xf534ddc0;
    lab_u32 w4 = skip ? 0xfe5163ab : 0xdb629599;
    skip = at & 32;
    w0 = skip ? w1 : w0;
    w1 = skip ? w2 : w1;
    w2 = skip ? w3 : w2;
    w3 = skip ? w4 : w3;
    lab_u32 left = at & 31, right = 31 - left;
    w0 = w0 << left | w1 >> 1 >> right;
    w1 = w1 << left | w2 >> 1 >> right;
    w2 = w2 << left | w3 >> 1 >> right;
    lab_u64 product = ((lab_u64)(m * w0) << 32) + (lab_u64)m * w1 + ((lab_u64)m * w2 >> 32);
    lab_u32 high = (lab_u32)(product >> 32);
    lab_u32 far_q = (high + 0x20000000) >> 30;
    lab_i32 low = (lab_i32)((lab_u32)product >> 1);
    double far = lab_fma_f64(low, 0x1p-31, (lab_i32)(high - (far_q << 30)));
    far *= 0x1.921fb54442d18p+0 * 0x1p-30;
    double a = lab_from_f32(u), shifted = lab_sin_shifted_f32(a);
    double near = lab_sin_rest_f32(a, shifted);
    lab_u32 near_q = (lab_u32)lab_bits_f64(shifted);
    lab_u32 is_far = u >= 0x4c000000;
    float r = (float)(is_far ? far : near);
    float y = lab_sin_sum_f32(r, (is_far ? far_q : near_q) + quarters, sign);
    return u < 0x7f800000 ? y : x - x;
}

static inline float lab_sin_f32(float x) { return lab_sin_turned_f32(x, 0, lab_bits_f32(x)); }

/* sin(q pi/2 + r + tail) with the sign bit of `sign` turned, for |r| <= pi/4. */
static inline double lab_sin_sum_f64(double r, double tail, lab_u64 q, lab_u64 sign) {
    double z = r * r;
    double s = $POLYNOMIAL(z, 0x1.5d92fc62eea94p-33, -0x1.ae5e662a5a6cep-26, 0x1.71de3577a18cep-19,
        -0x1.a01a019c11812p-13, 0x1.111111110f87ap-7, -0x1.5555555555549p-3);
    s = r + lab_fma_f64(s * z, r, lab_fma_f64(-0.5 * z, tail, tail));
    double c = $POLYNOMIAL(z, -0x1.8fae9fd9e4496p-37, 0x1.1ee9ebf08ee96p-29, -0x1.27e4f809fd058p-22,
        0x1.a01a019cb1d19p-16, -0x1.6c16c16c1517fp-10, 0x1.555555555554cp-5);
    double most = lab_fma_f64(-0.5, z, 1.0);
    c = most + (lab_fma_f64(-0.5, z, 1.0 - most) + lab_fma_f64(c * z, z, -r * tail));
    sign = (sign & 0x8000000000000000) ^ ((q & 2) << 62);
    return lab_from_f64(lab_bits_f64(q & 1 ? c : s) ^ sign);
}

static inline int lab_sin_f64_is_far(double x) { return !(__builtin_fabs(x) < 0x1p20); }

/* r = |x| - k pi/2, pi/2 in four parts; k times each of the first three is exact. */
static inline double lab_sin_turned_f64_near(double x, lab_u64 quarters, lab_u64 sign) {
    double a = __builtin_fabs(x);
    double shifted = lab_fma_f64(a, 0x1.45f306dc9c883p-1, 0x1.8p52);
    double k = shifted - 0x1.8p52;
    double r1 = lab_fma_f64(k, -0x1.921fb544p+0, a);
    double r2 = lab_fma_f64(k, -0x1.0b4611a6p-34, r1);
    double r3 = lab_fma_f64(k, -0x1.3198a2ep-69, r2);
    double tail = lab_fma_f64(k, -0x1.0b4611a6p-34, r1 - r2);
    tail = tail + lab_fma_f64(k, -0x1.3198a2ep-69, r2 - r3);
    tail = lab_fma_f64(k, -0x1.b839a252049c1p-104, tail);
    double r = r3 + tail;
    return lab_sin_sum_f64(r, (r3 - r) + tail, lab_bits_f64(shifted) + quarters, sign);
}

static inline double lab_sin_f64_near(double x) {
    return lab_sin_turned_f64_near(x, 0, lab_bits_f64(x));
}

/* From 2^20 on: x times the 192 bits of 2/pi that matter, modulo 4 (Payne and Hanek). */
static inline double lab_sin_turned_f64_far(double x, lab_u64 quarters, lab_u64 sign) {
    static const lab_u32 two_over_pi[39] = {
        0, 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab,
        0xdebbc561, 0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e,
        0xe88235f5, 0x2ebb4484, 0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b,
        0xbdf9283b, 0x1ff897ff, 0xde05980f, 0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7,
        0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b, 0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1,
        0x1f8d5d08, 0x56033046};
    lab_u64 u = lab_bits_f64(x);
    lab_u32 exponent = (lab_u32)(u >> 52) & 0x7ff;
    if (exponent == 0x7ff) return x - x;
    lab_u64 m = (u & 0xfffffffffffff) | 0x10000000000000;
    lab_u32 at = exponent - 1013, left = at & 31, z[6], p[6] = {0};
    const lab_u32 *w = two_over_pi + (at >> 5);
    for (int i = 0; i < 6; i++) z[i] = w[i] << left | w[i + 1] >> 1 >> (31 - left);
    for (int half = 0; half < 2; half++) {
        lab_u64 carry = 0, factor = half ? m >> 32 : m & 0xffffffff;
        for (int i = 5 - half; i >= 0; i--) {
            carry += factor * z[i + half] + p[i];
            p[i] = (lab_u32)carry;
            carry >>= 32;
        }
    }
    lab_u32 q = (p[0] + 0x20000000) >> 30;
    p[0] -= q << 30;
    lab_u32 minus = p[0] >> 31;
    for (int i = 5, carry = 1; minus && i >= 0; i--) {
        p[i] = ~p[i] + (lab_u32)carry;
        carry = carry && p[i] == 0;
    }
    double t = 0.0, tail = 0.0, scale = 0x1p-30;
    for (int i = 0; i < 6; i++, scale *= 0x1p-32) {
        double next = t + p[i] * scale;
        tail += (t - next) + p[i] * scale;
        t = next;
    }
    double sum = t + tail;
    tail = (t - sum) + tail;
    /* sum pi/2 as a rounded product, whose low bits are cut, and its error (Dekker). */
    double high = lab_from_f64(lab_bits_f64(sum) & ~(lab_u64)0x7ffffff), low = sum - high;
    double product = lab_from_f64(lab_bits_f64(sum * 0x1.921fb54442d18p+0) & ~(lab_u64)0xff);
    double error = lab_fma_f64(high, 0x1.10b46p-30, high * 0x1.921fb54p+0 - product);
    error = lab_fma_f64(low, 0x1.10b46p-30, lab_fma_f64(low, 0x1.921fb54p+0, error));
    error += sum * 0x1.1a62633145c07p-54 + tail * 0x1.921fb54442d18p+0;
    double r = product + error;
    error = (product - r) + error;
    return lab_sin_sum_f64(minus ? -r : r, minus ? -error : error, q + quarters, sign);
}

static inline double lab_sin_f64(double x) {
    if (lab_sin_f64_is_far(x)) return lab_sin_turned_f64_far(x, 0, lab_bits_f64(x));
    return lab_sin_f64_near(x);
}

/* Zero gets the sign of the divisor, and so does everything else. */
static inline float lab_mod_sign_f32(double r, double y) {
    r = ((r != 0.0) & ((r < 0.0) != (y < 0.0))) ? r + y : r;
    return (float)(r == 0.0 ? __builtin_copysign(0.0, y) : r);
}

static inline double lab_mod_sign_f64(double r, double y) {
    r = ((r != 0.0) & ((r < 0.0) != (y < 0.0))) ? r + y : r;
    return r == 0.0 ? __builtin_copysign(0.0, y) : r;
}

static inline int lab_mod_f32_is_far(float x, float y) {
    return !(__builtin_fabs((double)x / (double)y) < 0x1p28);
}

/* x - k y in double, k the nearest whole number to x / y: a product of 28 by 24 bits is exact. */
static inline float lab_mod_f32_near(float x, float y) {
    double a = x, b = y;
    double k = (a / b + 0x1.8p52) - 0x1.8p52;
    return lab_mod_sign_f32(k == 0.0 ? a : a - k * b, b);
}

static inline float lab_mod_f32(float x, float y) {
    if (lab_mod_f32_is_far(x, y)) return lab_mod_sign_f32(__builtin_fmodf(x, y), y);
    return lab_mod_f32_near(x, y);
}

/* k y is at most 2 x, so it stays below infinity unless x is close to it. */
static inline int lab_mod_f64_is_far(double x, double y) {
    return !((__builtin_fabs(x / y) < 0x1p25) & (__builtin_fabs(x) < 0x1p1023));
}

/* As in float32, y in two parts of at most 27 bits; |x|, since a product must not be fused. */
static inline double lab_mod_f64_near(double x, double y) {
    double a = __builtin_fabs(x), b = __builtin_fabs(y);
    double k = (a / b + 0x1.8p52) - 0x1.8p52;
    double high = lab_from_f64(lab_bits_f64(b) & ~(lab_u64)0x7ffffff);
    double r = (a - k * high) - k * (b - high);
    r = k == 0.0 ? a : r;
    return lab_mod_sign_f64(x < 0.0 ? -r : r, y);
}

static inline double lab_mod_f64(double x, double y) {
    if (lab_mod_f64_is_far(x, y)) return lab_mod_sign_f64(__builtin_fmod(x, y), y);
    return lab_mod_f64_near(x, y);
}

static inline $TYPE lab_max_$REAL($TYPE x, $TYPE y) {
    $TYPE larger = x > y ? x : y; /* one instruction, which takes y if either is NaN */
    return x == x ? larger : x;
}

/* Read as the bits of a float32, a finite one is too small by 2^112, subnormal or not. */
static inline float lab_cast_f16_f32(lab_f16 x) {
    lab_u32 u = (lab_u32)(x & 0x7fff) << 13;
    lab_u32 scaled = lab_bits_f32(lab_from_f32(u) * 0x1p112f);
    lab_u32 infinite = u < 0x0f800000 ? 0 : 0x7f800000;
    return lab_from_f32(scaled | infinite | (lab_u32)(x & 0x8000) << 16);
}

/* To nearest, ties to even: above the subnormals by an integer sum, below by adding 1/2, whose last
   bit is worth 2^-24. */
static inline lab_f16 lab_cast_f32_f16(float x) {
    lab_u32 u = lab_bits_f32(x) & 0x7fffffff;
    lab_u32 large = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    large = u < 0x47800000 ? large : 0x7c00;
    large = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : large;
    lab_u32 small = lab_bits_f32(lab_from_f32(u) + 0.5f) - 0x3f000000;
    return (lab_f16)((u < 0x38800000 ? small : large) | (lab_bits_f32(x) >> 16 & 0x8000));
}

/* Rounded once: float32 gets the nearest odd number, from which both ways of rounding go right. */
static inline lab_f16 lab_cast_f64_f16(double x) {
    float near = (float)x;
    double a = __builtin_fabs(x), b = __builtin_fabs((double)near);
    lab_u32 u = lab_bits_f32(near);
    lab_u32 odd = b < a ? u + 1 : u - 1;
    return lab_cast_f32_f16(lab_from_f32(((b < a) | (b > a)) & ~u & 1 ? odd : u));
}

static inline float lab_cast_bf16_f32(lab_bf16 x) { return lab_from_f32((lab_u32)x << 16); }

static inline lab_bf16 lab_cast_f32_bf16(float x) {
    lab_u32 u = lab_bits_f32(x);
    lab_u32 rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (lab_bf16)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

static inline lab_bool lab_add_bool(lab_bool x, lab_bool y) { return x | y; }

static inline lab_bool lab_mul_bool(lab_bool x, lab_bool y) { return x & y; }

static inline lab_bool lab_max_bool(lab_bool x, lab_bool y) { return x | y; }

static inline lab_$INT lab_add_$INT(lab_$INT x, lab_$INT y) { return (lab_$INT)((lab_$WIDE)x + (lab_$WIDE)y); }

static inline lab_$INT lab_mul_$INT(lab_$INT x, lab_$INT y) { return (lab_$INT)((lab_$WIDE)x * (lab_$WIDE)y); }

static inline lab_$INT lab_max_$INT(lab_$INT x, lab_$INT y) { return x > y ? x : y; }

static inline lab_i64 lab_mod_i64(lab_i64 x, lab_i64 y) {
    lab_i64 b = ((y == 0) | (y == -1)) ? 1 : y;
    lab_i64 r = x % b;
    return ((r != 0) & ((r ^ b) < 0)) ? r + b : r;
}

static inline lab_$WHOLE lab_mod_$WHOLE(lab_$WHOLE x, lab_$WHOLE y) { return x % (y ? y : 1); }

static inline lab_$INT lab_shift_left_$INT(lab_$INT x, lab_$INT y) {
    return (lab_$WIDE)y < $WIDTH ? (lab_$INT)((lab_$WIDE)x << y) : 0;
}

static inline lab_$INT lab_shift_right_$INT(lab_$INT x, lab_$INT y) {
    return (lab_$WIDE)y < $WIDTH ? (lab_$INT)(x >> y) : $SIGN;
}

/* Truncating the quotient of doubles is exact, and vector code, unlike division of integers. */
static inline lab_$NARROW lab_mod_$NARROW(lab_$NARROW x, lab_$NARROW y) {
    lab_i32 a = x, b = y;
    b = ((b == 0) | (b == -1)) ? 1 : b;
    lab_i32 r = a - (lab_i32)((double)a / (double)b) * b;
    return (lab_$NARROW)(((r != 0) & ((r ^ b) < 0)) ? r + b : r);
}

static inline lab_$INT lab_cast_$FLOAT_$INT($TYPE x) {
    $TYPE y = x == x ? x : 0;
    y = y > $LOW ? y : $LOW;
    return y < $HIGH ? (lab_$INT)(lab_$SPAN)(y < $HIGH ? y : 0) : $LARGEST;
}

static inline $MADE lab_cast_$FROM_$TO($GIVEN x) { return $VALUE; }

static inline $MADE lab_bitcast_$OLD_$NEW($GIVEN x) { return $SAME; }
