// Functions that tensors compose of the primitives: exp, tanh, gelu, floor and the like.
//
// Each costs about as much as one exp2: one reduction of the argument, one polynomial, at most one
// division. All are free of branches, tables and calls, except the float64 cosine, whose far
// arguments go to the sine in maths.c.

/* e^x = 2^n e^f with n whole and |f| <= ln(2)/2; the product of n and the first part of ln(2) is
   exact. e^f = 1 + f + f^2 p. As in exp2, 2^n is two factors. */
static inline float lab_exp_f32(float x) {
    float y = lab_within_f32(x, -105.0f, 89.0f);
    float shifted = lab_fma_f32(y, 0x1.715476p+0f, 0x1.8p23f);
    float n = shifted - 0x1.8p23f;
    float f = lab_fma_f32(n, -0x1.7f7d1cp-20f, lab_fma_f32(n, -0x1.62e4p-1f, y));
    float p = lab_exp_rest_f32(f) + 1.0f;
    lab_u32 m = (lab_bits_f32(shifted) + 256) & 0xffff;
    lab_u32 half = m >> 1;
    return p * lab_from_f32((half - 1) << 23) * lab_from_f32((m - half - 1) << 23);
}

/* e^f - 1 for |f| <= ln(2)/2. */
static inline float lab_exp_rest_f32(float f) {
    float p = $POLYNOMIAL(f, 0x1.6d11fep-10f, 0x1.120c62p-7f, 0x1.555518p-5f, 0x1.5554dcp-3f, 0.5f);
    return lab_fma_f32(p * f, f, f);
}

/* 2^n (e^f - 1) + (2^n - 1), for n below $DIGITS; with half of 2^n, which is never infinite. */
static inline $TYPE lab_expm1_$REAL($TYPE x) {
    $TYPE y = lab_within_$REAL(x, -$SUNK.0$F, $RISEN.0$F);
    $TYPE shifted = lab_fma_$REAL(y, $LOGE, $ROUND);
    $TYPE n = shifted - $ROUND;
    $TYPE f = lab_fma_$REAL(n, -$LNLOW, lab_fma_$REAL(n, -$LNHIGH, y));
    $TYPE half = lab_from_$REAL((lab_bits_$REAL(shifted) + $BELOW) << $FRACTION);
    $TYPE less = lab_fma_$REAL(lab_exp_rest_$REAL(f), half, half - 0.5$F) * 2.0$F;
    return __builtin_fabs$F(x) < 0x1p-$TINY$F ? x : less;
}

/* m / (m + 2) with m = e^(2 |x|) - 1; from $LATE on it is 1. */
static inline $TYPE lab_tanh_$REAL($TYPE x) {
    $TYPE y = 2.0$F * __builtin_fabs$F(x);
    y = y > $FLAT.0$F ? $FLAT.0$F : y;
    $TYPE shifted = lab_fma_$REAL(y, $LOGE, $ROUND);
    $TYPE n = shifted - $ROUND;
    $TYPE f = lab_fma_$REAL(n, -$LNLOW, lab_fma_$REAL(n, -$LNHIGH, y));
    $TYPE power = lab_from_$REAL((lab_bits_$REAL(shifted) + $BIAS) << $FRACTION);
    $TYPE m = lab_fma_$REAL(lab_exp_rest_$REAL(f), power, power - 1.0$F);
    return __builtin_copysign$F(m / (m + 2.0$F), x);
}

/* 2^-$FALL (1 + e^-x), which is infinite only where no result is left. From $ALONE on, e^-x is nothing
   beside 1. */
static inline $TYPE lab_one_and_exp_$REAL($TYPE x) {
    const $TYPE round = $ROUND + ($BIAS - $FALL);
    $TYPE y = lab_within_$REAL(x, -$FALLEN.0$F, $ALONE.0$F);
    $TYPE shifted = lab_fma_$REAL(y, -$LOGE, round);
    $TYPE n = shifted - round;
    $TYPE f = lab_fma_$REAL(n, -$LNLOW, lab_fma_$REAL(n, -$LNHIGH, -y));
    $TYPE power = lab_from_$REAL(lab_bits_$REAL(shifted) << $FRACTION);
    return lab_fma_$REAL(lab_exp_rest_$REAL(f) + 1.0$F, power, 0x1p-$FALL$F);
}

static inline $TYPE lab_sigmoid_$REAL($TYPE x) { return 0x1p-$FALL$F / lab_one_and_exp_$REAL(x); }

/* The quotient is a normal number where the result is not. */
static inline $TYPE lab_silu_$REAL($TYPE x) {
    $TYPE y = x / lab_one_and_exp_$REAL(x) * 0x1p-$FALL$F;
    return x > $ALONE.0$F ? x : y;
}

/* 2^64 2^(n + f) for a whole n from -180 to 0, to which 1.5 2^23 is added, and |f| <= 1/2. */
static inline float lab_exp2_falling_f32(float shifted, float f) {
    float p = $POLYNOMIAL(f, 0x1.448f42p-13f, 0x1.5f4774p-10f, 0x1.3b29aap-7f, 0x1.c6aed0p-5f,
        0x1.ebfbe0p-3f, 0x1.62e430p-1f, 1.0f);
    return p * lab_from_f32((lab_bits_f32(shifted) + (127 + 64)) << 23);
}

/* 2^$FALL e^(-x^2/2). What rounding takes from the exponent is added to its fraction: an exponent of
   100 that is off by half a unit in its last place would be a power off by 35 units. */
static inline $TYPE lab_bell_$REAL($TYPE x) {
    $TYPE size = __builtin_fabs$F(x);
    size = size > $WIDE$F ? $WIDE$F : size;
    $TYPE square = size * size;
    $TYPE shifted = lab_fma_$REAL(square, -$HALFLOGE, $ROUND);
    $TYPE f = lab_fma_$REAL(square, -$HALFLOGE, $ROUND - shifted);
    f = lab_fma_$REAL(lab_fma_$REAL(size, size, -square), -$HALFLOGE, f);
    return lab_exp2_falling_$REAL(shifted, lab_fma_$REAL(square, -$HALFREST, f));
}

/* x times e^(-x^2/2) q or 1 less that; q is a polynomial in 1 / (1 + c |x|), whose numbers
   are smaller by 2^64. */
static inline float lab_gelu_f32(float x) {
    float part = 1.0f / lab_fma_f32(0x1.375a70p-2f, __builtin_fabsf(x), 1.0f);
    float q = $POLYNOMIAL(part, 0x1.2b9afep-69f, -0x1.3b7d76p-67f, 0x1.85013cp-67f,
        -0x1.511e88p-69f, 0x1.f5ece8p-68f, 0x1.a4cec0p-68f, 0x1.f45052p-68f, 0x1.f0ae3ap-68f);
    float bell = lab_bell_f32(x);
    return x < 0.0f ? bell * x * (q * part) : x * (1.0f - bell * (q * part));
}

/* x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)); rest is what rounding takes from the slope. The first
   part of the slope at 0 has so few bits that it can be taken off again. */
static inline $TYPE lab_gelu_tanh_$REAL($TYPE x) {
    $TYPE size = __builtin_fabs$F(x);
    size = size > $STEEP$F ? $STEEP$F : size;
    $TYPE square = size * size;
    $TYPE slope = lab_fma_$REAL(square, -$CUBED, -$SINGLE);
    $TYPE rest = lab_fma_$REAL(square, -$CUBED, -(slope + $SINGLE));
    rest = lab_fma_$REAL(lab_fma_$REAL(size, size, -square), -$CUBED, rest);
    rest = lab_fma_$REAL(square, $CUBEDREST, rest - $SINGLEREST);
    $TYPE shifted = lab_fma_$REAL(size, slope, $ROUND);
    $TYPE f = lab_fma_$REAL(size, rest, lab_fma_$REAL(size, slope, $ROUND - shifted));
    $TYPE e = shifted < $ROUND - $GONE.0$F ? 0.0$F : lab_exp2_falling_$REAL(shifted, f);
    return (x < 0.0$F ? e * x * 0x1p-$FALL$F : x) / lab_fma_$REAL(e, 0x1p-$FALL$F, 1.0$F);
}

/* 1 - 2^(|x| p), and from 4 on 1. */
static inline float lab_erf_f32(float x) {
    float size = __builtin_fabsf(x);
    size = size > 4.0f ? 4.0f : size;
    float p = $POLYNOMIAL(size, -0x1.ec95c6p-15f, 0x1.2026a8p-11f, -0x1.d95ac2p-10f,
        -0x1.377aa2p-12f, 0x1.c8b67cp-6f, -0x1.2fc798p-3f, -0x1.d63e38p-1f, -0x1.a0be84p+0f);
    float y = p * size;
    float shifted = y + 0x1.8p23f;
    float f = y - (shifted - 0x1.8p23f);
    float q = $POLYNOMIAL(f, 0x1.44149ap-13f, 0x1.5f0a1cp-10f, 0x1.3b2a52p-7f, 0x1.c6af6ap-5f,
        0x1.ebfbe0p-3f, 0x1.62e430p-1f);
    float power = lab_from_f32((lab_bits_f32(shifted) + 127) << 23);
    return __builtin_copysignf(lab_fma_f32(-power, q * f, 1.0f - power), x);
}

/* The sine a quarter turn further on. */
static inline float lab_cos_f32(float x) {
    return lab_sin_turned_f32(__builtin_fabsf(x), 1, 0);
}

static inline $TYPE lab_floor_$REAL($TYPE x) { return __builtin_floor$F(x); }

static inline $TYPE lab_ceil_$REAL($TYPE x) { return __builtin_ceil$F(x); }

static inline $TYPE lab_trunc_$REAL($TYPE x) { return __builtin_trunc$F(x); }

static inline $TYPE lab_round_$REAL($TYPE x) { return __builtin_rint$F(x); }

static inline $TYPE lab_abs_$REAL($TYPE x) { return __builtin_fabs$F(x); }

static inline $TYPE lab_relu_$REAL($TYPE x) { return x <= 0.0$F ? 0.0$F : x; }

static inline $TYPE lab_maximum_$REAL($TYPE x, $TYPE y) {
    $TYPE larger = x > y ? x : y;
    return x == x ? larger : x;
}

static inline $TYPE lab_minimum_$REAL($TYPE x, $TYPE y) {
    $TYPE smaller = x < y ? x : y;
    return x == x ? smaller : x;
}

/* As in float32. */
static inline double lab_exp_f64(double x) {
    double y = lab_within_f64(x, -746.0, 710.0);
    double shifted = lab_fma_f64(y, 0x1.71547652b82fep+0, 0x1.8p52);
    double n = shifted - 0x1.8p52;
    double f = lab_fma_f64(n, -0x1.ef35793c7673p-45, lab_fma_f64(n, -0x1.62e42fefa38p-1, y));
    double p = lab_exp_rest_f64(f) + 1.0;
    lab_u64 m = (lab_bits_f64(shifted) + 2048) & 0xffff;
    lab_u64 half = m >> 1;
    return p * lab_from_f64((half - 1) << 52) * lab_from_f64((m - half - 1) << 52);
}

/* e^f - 1 for |f| <= ln(2)/2. */
static inline double lab_exp_rest_f64(double f) {
    double p = $POLYNOMIAL(f, 0x1.af39789bfd689p-26, 0x1.28922d8c8d4fbp-22, 0x1.71de0d573888bp-19,
        0x1.a019b87f7a6e9p-16, 0x1.a01a01a7da98dp-13, 0x1.6c16c178b0646p-10, 0x1.1111111110996p-7,
        0x1.5555555553d05p-5, 0x1.5555555555556p-3, 0.5);
    return lab_fma_f64(p * f, f, f);
}

/* erfc(x) for x from 0 on, without its factor e^(-x^2). */
static inline double lab_erfc_rest_f64(double x) {
    double part = 1.0 / lab_fma_f64(0x1.b851eb851eb85p-2, x, 1.0);
    double p = $POLYNOMIAL(part, -0x1.70c6f3eb8986fp-8, 0x1.00e5b93cae6e1p-4, -0x1.3ef6dcaf8171ep-2,
        0x1.c3fc9b4f1b3f4p-1, -0x1.75707e03936e2p+0, 0x1.f7423e46bc0e2p-1, 0x1.80a92df5b54eep+0,
        -0x1.52f5801e81ebbp+2, 0x1.00e52a6b59f16p+3, -0x1.fd7a2a812551ep+2, 0x1.6ef3f36c1852fp+2,
        -0x1.9aa7b9a1fd664p+1, 0x1.704da381113b0p+0, -0x1.eb560fc4470ecp-2, 0x1.13cd80f03de6cp-3,
        -0x1.eed8f6da7fff2p-5, -0x1.9ab6d4cb49a50p-6, -0x1.13efcc44526c6p-8, 0x1.9594d2724e6a2p-5,
        0x1.d3f0f182a8cbcp-4, 0x1.670c4f7e39f87p-3, 0x1.c2ea0ea2b24d5p-3, 0x1.f0d9110374efbp-3,
        0x1.f0d910f27c108p-3);
    return p * part;
}

/* 2^300 2^(n + f) for a whole n from -1200 to 0, to which 1.5 2^52 is added, and |f| <= 1/2. */
static inline double lab_exp2_falling_f64(double shifted, double f) {
    double p = $POLYNOMIAL(f, 0x1.ea183da996f48p-32, 0x1.e61c92187c8f5p-28, 0x1.b524cdf4e4ad7p-24,
        0x1.62bfc6db09fd4p-20, 0x1.ffcbfc7c3f8abp-17, 0x1.4309130f290fcp-13, 0x1.5d87fe78a0e53p-10,
        0x1.3b2ab6fb9ff7bp-7, 0x1.c6b08d704a0d7p-5, 0x1.ebfbdff82c5a5p-3, 0x1.62e42fefa39efp-1,
        1.0);
    return p * lab_from_f64((lab_bits_f64(shifted) + (1023 + 300)) << 52);
}

static inline double lab_gelu_f64(double x) {
    double q = 0x1p-301 * lab_erfc_rest_f64(__builtin_fabs(x) * 0x1.6a09e667f3bcdp-1);
    double bell = lab_bell_f64(x);
    return x < 0.0 ? bell * x * q : x * (1.0 - bell * q);
}

static inline double lab_erf_f64(double x) {
    double size = __builtin_fabs(x);
    size = size > 6.0 ? 6.0 : size;
    double z = size * size;
    double high = lab_from_f64(lab_bits_f64(size) & ~(lab_u64)0x7ffffff);
    double e = lab_exp_f64(-(high * high)) * lab_fma_f64(high - size, high + size, 1.0);
    double near = $POLYNOMIAL(z, 0x1.829db8dde30c5p-20, -0x1.f10678ea696dap-17,
        0x1.f97eb9cd03dccp-14, -0x1.c02ce74d55e5dp-11, 0x1.565bca6902a35p-8, -0x1.b82ce308ae72ap-6,
        0x1.ce2f21a03058ep-4, -0x1.812746b037913p-2, 0x1.20dd750429b6dp+0);
    double y = z < 0.3 ? size * near : lab_fma_f64(-lab_erfc_rest_f64(size), e, 1.0);
    return __builtin_copysign(y, x);
}

static inline double lab_cos_f64_near(double x) { return lab_sin_turned_f64_near(x, 1, 0); }

static inline int lab_cos_f64_is_far(double x) { return lab_sin_f64_is_far(x); }

static inline double lab_cos_f64(double x) {
    return lab_cos_f64_is_far(x) ? lab_sin_turned_f64_far(x, 1, 0) : lab_cos_f64_near(x);
}
