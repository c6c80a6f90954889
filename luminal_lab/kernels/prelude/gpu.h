// Maths for both languages of GPUs, where the CPU's way is slow there: no double, and no tables.
//
// Functions here replace those with the same names in maths.c. Consumer cards are 64 times as slow
// in double as in float, and Apple's have none. `fmaf` is meant literally: its product is not
// rounded. tests/kernels/prelude/test_gpu.py holds it to 2 ulp, or exactly.

static inline float lab_fma_f32(float x, float y, float z) { return fmaf(x, y, z); }

static inline lab_u32 lab_two_over_pi(lab_u32 place) {
    lab_u32 low = place & 1 ? (place & 2 ? 0xfc2757d1 : 0xa2f9836e) : place & 2 ? 0x4e441529 : 0;
    lab_u32 high = place & 1 ? 0xdb629599 : 0xf534ddc0;
    high = place & 2 ? (place & 1 ? 0xfe5163ab : 0x3c439041) : high;
    return place & 4 ? high : low;
}

/* The sine of |x| and some quarters of a turn, with the sign bit of `sign` turned. Below 2^15, r is
   |x| - k pi/2 with pi/2 in three parts: the first product is exact, and so is what it leaves. From
   there on r comes from the 96 bits of 2/pi that matter, whose product with x is kept modulo 4
   (Payne and Hanek); x = m 2^(at - 30), and bits before `at` would only add multiples of 4. */
static inline float lab_sin_turned_f32(float x, lab_u32 quarters, lab_u32 sign) {
    lab_u32 u = lab_bits_f32(x) & 0x7fffffff, q;
    float r;
    if (u < 0x47000000) {
        float size = lab_from_f32(u);
        float shifted = size * 0x1.45f306p-1f + 0x1.8p23f;
        float k = shifted - 0x1.8p23f;
        q = lab_bits_f32(shifted);
        r = fmaf(k, -0x1.921fb6p+0f, size);
        r = fmaf(k, 0x1.777a5cp-25f, r);
        r = fmaf(k, 0x1.ee59dap-50f, r);
    } else {
        lab_u32 m = (u & 0x7fffff) | 0x800000;
        lab_u32 at = (u >> 23) - 120, word = at >> 5, left = at & 31, right = 31 - left;
        lab_u32 w0 = lab_two_over_pi(word), w1 = lab_two_over_pi(word + 1);
        lab_u32 w2 = lab_two_over_pi(word + 2), w3 = lab_two_over_pi(word + 3);
        w0 = w0 << left | w1 >> 1 >> right;
        w1 = w1 << left | w2 >> 1 >> right;
        w2 = w2 << left | w3 >> 1 >> right;
        lab_u64 product = ((lab_u64)(m * w0) << 32) + (lab_u64)m * w1 + ((lab_u64)m * w2 >> 32);
        q = (lab_u32)(product >> 32) + 0x20000000 >> 30;
        lab_i64 rest = (lab_i64)(product - ((lab_u64)q << 62));
        /* rest pi/2 2^-62, both in two parts */
        float most = (float)rest, less = (float)(rest - (lab_i64)most);
        r = fmaf(less, 0x1.921fb6p-62f, most * -0x1.777a5cp-87f);
        r = fmaf(most, 0x1.921fb6p-62f, r);
    }
    float y = lab_sin_sum_f32(r, q + quarters, sign);
    return u < 0x7f800000 ? y : x - x;
}

/* Zero gets the sign of the divisor, and so does everything else. */
static inline float lab_mod_sign_f32(float r, float y) {
    r = ((r != 0.0f) & ((r < 0.0f) != (y < 0.0f))) ? r + y : r;
    return r == 0.0f ? __builtin_copysignf(0.0f, y) : r;
}

/* The remainder of |x| / |y|, exactly: by 40 bits of the quotient at a time. */
static inline float lab_mod_far_f32(float x, float y) {
    lab_u32 a = lab_bits_f32(x) & 0x7fffffff, b = lab_bits_f32(y) & 0x7fffffff;
    if (a >= 0x7f800000 || b > 0x7f800000 || b == 0) return __builtin_nanf("");
    lab_i32 high = (lab_i32)(a >> 23), low = (lab_i32)(b >> 23);
    lab_u32 m = (a & 0x7fffff) | (high ? 0x800000 : 0), d = (b & 0x7fffff) | (low ? 0x800000 : 0);
    high = high ? high : 1;
    low = low ? low : 1;
    lab_u32 r = m % d;
    for (lab_i32 left = high - low; left > 0; left -= 40) {
        r = (lab_u32)(((lab_u64)r << (left < 40 ? left : 40)) % d);
    }
    /* r 2^(low - 150): as a float, r has the exponent that is moved. */
    lab_u32 whole = lab_bits_f32((float)r);
    lab_i32 exponent = (lab_i32)(whole >> 23) + low - 150;
    whole = exponent > 0 ? (whole & 0x7fffff) | (lab_u32)exponent << 23 : r << (low - 1);
    return lab_from_f32(r ? whole : 0);
}

/* x - k y with k the nearest whole number to x / y: the result has no more bits than y. */
static inline float lab_mod_f32(float x, float y) {
    float quotient = x / y;
    if (__builtin_fabsf(quotient) < 0x1p22f) {
        float k = __builtin_rintf(quotient);
        return lab_mod_sign_f32(k == 0.0f ? x : fmaf(-k, y, x), y);
    }
    float r = lab_mod_far_f32(x, y);
    return lab_mod_sign_f32(x < 0.0f ? -r : r, y);
}

static inline float lab_random(lab_u32 k0, lab_u32 k1, lab_i64 at, lab_u32 step) {
    const lab_u32 k2 = k0 ^ k1 ^ 0x1bd11bda;
    lab_u32 x = (lab_u32)at + k0, y = step + k1;
    LAB_UNROLL(5)
    for (lab_u32 group = 0; group < 5; group++) {
        /* By how many bits y is rotated, a byte each. */
        const lab_u32 turns = group % 2 ? 0x18101d11 : 0x061a0f0d;
        LAB_UNROLL(4)
        for (lab_u32 turn = 0; turn < 4; turn++) {
            const lab_u32 by = turns >> 8 * turn & 31;
            x += y;
            y = (y << by | y >> (32 - by)) ^ x;
        }
        x += group % 3 == 0 ? k1 : group % 3 == 1 ? k2 : k0;
        y += (group % 3 == 0 ? k2 : group % 3 == 1 ? k0 : k1) + group + 1;
    }
    return (float)(x >> 8) * 0x1p-24f;
}

static inline lab_$NARROW lab_mod_$NARROW(lab_$NARROW x, lab_$NARROW y) {
    lab_i32 b = ((y == 0) | (y == -1)) ? 1 : y;
    lab_i32 r = x % b;
    return (lab_$NARROW)(((r != 0) & ((r ^ b) < 0)) ? r + b : r);
}

static inline $TYPE lab_warp_$WHICH_$NAME($TYPE x, int lanes) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        $TYPE other = lab_shuffle_xor_$NAME(x, apart);
        x = $JOINED;
    }
    return x;
}

static inline $TYPE lab_block_$WHICH_in_$NAME(
    $TYPE x, lab_shared $TYPE *shared, int threads, lab_u32 thread_) {
    const int lane = (int)thread_ % 32, warps = threads / 32;
    x = lab_warp_$WHICH_$NAME(x, 32);
    if (warps < 2) return x;
    lab_sync();
    if (lane == 0) shared[thread_ / 32] = x;
    lab_sync();
    x = shared[lane < warps ? lane : 0];
    if (lane >= warps) x = $LEAST;
    return lab_warp_$WHICH_$NAME(x, 32);
}

#define lab_block_$WHICH_$NAME(value, shared, threads) \
    lab_block_$WHICH_in_$NAME(value, shared, threads, lab_thread)

struct alignas($LOADED) lab_$VECTOR { $TYPE at[$WIDTH]; };
