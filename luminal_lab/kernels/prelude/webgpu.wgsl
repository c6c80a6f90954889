// What WGSL kernels call beside the maths: C, which wgsl.py translates, and WGSL where C has no word.
//
// There are no 64-bit numbers here: `lab_i64` and `lab_u64` are two words, the low one first, and
// their operators are functions. Products are never fused with sums unless asked, and `fma` may
// round twice, so nothing here relies on it. Compilers may also reorder sums: what is only rounded
// if they do not is kept by `lab_kept`. Threads hand each other values through workgroup memory. A
// compiler may take infinity and NaN for impossible in constants, so they come from bits that it
// does not see, and tests for NaN look at bits.

var<private> lab_thread: u32;

/* 0 in each launch: which layer of blocks this is, as no compiler can know. A uniform would not do:
   some drivers know their values. */
var<private> lab_zero: u32;

fn lab_infinity() -> f32 { return bitcast<f32>(0x7f800000u ^ lab_zero); }

fn lab_no_number() -> f32 { return bitcast<f32>(0x7fc00000u ^ lab_zero); }

fn lab_is_number(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) <= 0x7f800000u; }

/* A sum as it is rounded, whatever is taken from it next. */
fn lab_kept(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ lab_zero); }

fn lab_bits_f32(x: f32) -> u32 { return bitcast<u32>(x); }

fn lab_from_f32(u: u32) -> f32 { return bitcast<f32>(u); }

/* A 16-bit float where they are a type. */
fn lab_half(x: f32) -> f16 { return f16(x); }

fn lab_copysign(x: f32, y: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}

fn lab_fma_f32(x: f32, y: f32, z: f32) -> f32 { return x * y + z; }

fn lab_sync() {
    workgroupBarrier();
    storageBarrier();
}

/* -- index arithmetic, in 32 bits: buffers are checked before they are bound -- */

static inline int floordiv(int a, int b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int floormod(int a, int b) { return a - b * floordiv(a, b); }

static inline int lab_min(int a, int b) { return a < b ? a : b; }

static inline int lab_max(int a, int b) { return a > b ? a : b; }

/* -- numbers of 64 bits -- */

fn lab_add_64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let low = x.x + y.x;
    return vec2<u32>(low, x.y + y.y + select(0u, 1u, low < x.x));
}

fn lab_sub_64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(x.x - y.x, x.y - y.y - select(0u, 1u, x.x < y.x));
}

fn lab_product(x: u32, y: u32) -> vec2<u32> {
    let low = (x & 0xffffu) * (y & 0xffffu);
    let a = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
    let b = (x & 0xffffu) * (y >> 16u) + (a & 0xffffu);
    return vec2<u32>(x * y, (x >> 16u) * (y >> 16u) + (a >> 16u) + (b >> 16u));
}

fn lab_mul_64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return lab_product(x.x, y.x) + vec2<u32>(0u, x.x * y.y + x.y * y.x);
}

fn lab_less_u64(x: vec2<u32>, y: vec2<u32>) -> bool {
    return x.y < y.y || (x.y == y.y && x.x < y.x);
}

fn lab_less_i64(x: vec2<u32>, y: vec2<u32>) -> bool {
    return lab_less_u64(x ^ vec2<u32>(0u, 0x80000000u), y ^ vec2<u32>(0u, 0x80000000u));
}

fn lab_left_64(x: vec2<u32>, by: u32) -> vec2<u32> {
    let n = by & 31u;
    if ((by & 32u) != 0u) { return vec2<u32>(0u, x.x << n); }
    return vec2<u32>(x.x << n, (x.y << n) | ((x.x >> 1u) >> (31u - n)));
}

fn lab_right_u64(x: vec2<u32>, by: u32) -> vec2<u32> {
    let n = by & 31u;
    if ((by & 32u) != 0u) { return vec2<u32>(x.y >> n, 0u); }
    return vec2<u32>((x.x >> n) | ((x.y << 1u) << (31u - n)), x.y >> n);
}

fn lab_right_i64(x: vec2<u32>, by: u32) -> vec2<u32> {
    let all = 0u - (x.y >> 31u);
    return lab_right_u64(x ^ vec2<u32>(all, all), by) ^ vec2<u32>(all, all);
}

fn lab_rest_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    var rest = vec2<u32>(0u, 0u);
    for (var at: i32 = 63; at >= 0; at -= 1) {
        let is_past = (rest.y >> 31u) != 0u;
        rest = lab_left_64(rest, 1u);
        rest.x = rest.x | (lab_right_u64(x, u32(at)).x & 1u);
        if (is_past || !lab_less_u64(rest, y)) { rest = lab_sub_64(rest, y); }
    }
    return rest;
}

fn lab_rest_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let rest = lab_rest_u64(lab_size_64(x), lab_size_64(y));
    return select(rest, lab_sub_64(vec2<u32>(0u, 0u), rest), (x.y >> 31u) != 0u);
}

fn lab_size_64(x: vec2<u32>) -> vec2<u32> {
    return select(x, lab_sub_64(vec2<u32>(0u, 0u), x), (x.y >> 31u) != 0u);
}

fn lab_wide_i32(x: i32) -> vec2<u32> { return vec2<u32>(u32(x), u32(x >> 31u)); }

fn lab_wide_u32(x: u32) -> vec2<u32> { return vec2<u32>(x, 0u); }

/* What is cut off is kept as a lowest bit, so that a number is rounded once. */
fn lab_float_u64(x: vec2<u32>) -> f32 {
    if (x.y == 0u) { return f32(x.x); }
    let n = firstLeadingBit(x.y) + 1u;
    let cut = lab_left_64(vec2<u32>(x.x, 0u), 32u - n).x;
    let most = lab_right_u64(x, n).x;
    return f32(most | select(0u, 1u, cut != 0u)) * bitcast<f32>((127u + n) << 23u);
}

fn lab_float_i64(x: vec2<u32>) -> f32 {
    let size = lab_float_u64(lab_size_64(x));
    return select(size, -size, (x.y >> 31u) != 0u);
}

fn lab_words_u64(x: f32) -> vec2<u32> {
    let u = bitcast<u32>(x);
    let m = vec2<u32>((u & 0x7fffffu) | 0x800000u, 0u);
    let exponent = (u >> 23u) & 255u;
    if (exponent < 127u) { return vec2<u32>(0u, 0u); }
    if (exponent < 150u) { return lab_right_u64(m, 150u - exponent); }
    return lab_left_64(m, min(exponent - 150u, 63u));
}

fn lab_words_i64(x: f32) -> vec2<u32> {
    let size = lab_words_u64(abs(x));
    return select(size, lab_sub_64(vec2<u32>(0u, 0u), size), x < 0.0f);
}

/* -- threads -- */

static inline $TYPE lab_shuffle_xor_$NAME($TYPE x, int mask) {
    lab_sync();
    lab_shared_$NAME[lab_thread] = x;
    lab_sync();
    return lab_shared_$NAME[lab_thread ^ (lab_u32)mask];
}

static inline $TYPE lab_warp_$WHICH_$NAME($TYPE x, int lanes) {
    for (int apart = lanes / 2; apart > 0; apart /= 2) {
        const $TYPE other = lab_shuffle_xor_$NAME(x, apart);
        x = $JOINED;
    }
    return x;
}

static inline $TYPE lab_block_$WHICH_$NAME($TYPE x, int threads) {
    x = lab_warp_$WHICH_$NAME(x, 32);
    if (threads > 32) {
        const lab_u32 lane = lab_thread % 32;
        const lab_u32 warps = (lab_u32)(threads / 32);
        lab_sync();
        if (lane == 0) {
            lab_shared_$NAME[lab_thread / 32] = x;
        }
        lab_sync();
        const $TYPE other = lab_shared_$NAME[lane < warps ? lane : 0];
        x = lane < warps ? other : $LEAST;
        x = lab_warp_$WHICH_$NAME(x, 32);
    }
    return x;
}

/* -- maths that elsewhere needs a fused product, or 64 bits -- */

/* The sine of |x| and some quarters of a turn, with the sign bit of `sign` turned. From 1/2 on the
   rest comes from the 96 bits of 2/pi that matter (Payne and Hanek), as in gpu.h. */
static inline float lab_sin_turned_f32(float x, lab_u32 quarters, lab_u32 sign) {
    lab_u32 u = lab_bits_f32(x) & 0x7fffffff;
    lab_u32 m = (u & 0x7fffff) | 0x800000;
    lab_u32 at = (u >> 23) - 120;
    lab_u32 word = at >> 5, left = at & 31, right = 31 - left;
    lab_u32 w0 = lab_two_over_pi(word), w1 = lab_two_over_pi(word + 1);
    lab_u32 w2 = lab_two_over_pi(word + 2), w3 = lab_two_over_pi(word + 3);
    w0 = w0 << left | w1 >> 1 >> right;
    w1 = w1 << left | w2 >> 1 >> right;
    w2 = w2 << left | w3 >> 1 >> right;
    lab_u64 product = ((lab_u64)(m * w0) << 32) + (lab_u64)m * w1 + ((lab_u64)m * w2 >> 32);
    lab_u32 q = (lab_u32)(product >> 32) + 0x20000000 >> 30;
    lab_i64 rest = (lab_i64)(product - ((lab_u64)q << 62));
    float most = (float)rest;
    float less = (float)(rest - (lab_i64)most);
    float r = most * 0x1.921fb6p-62f + (less * 0x1.921fb6p-62f - most * 0x1.777a5cp-87f);
    lab_u32 is_near = u < 0x3f000000;
    r = is_near ? lab_from_f32(u) : r;
    q = is_near ? 0 : q;
    float y = lab_sin_sum_f32(r, q + quarters, sign);
    return u < 0x7f800000 ? y : LAB_NAN;
}

/* The remainder of |x| / |y|, exactly: by 8 bits of the quotient at a time. */
static inline float lab_mod_far_f32(float x, float y) {
    lab_u32 a = lab_bits_f32(x) & 0x7fffffff, b = lab_bits_f32(y) & 0x7fffffff;
    lab_i32 high = (lab_i32)(a >> 23), low = (lab_i32)(b >> 23);
    lab_u32 m = (a & 0x7fffff) | (high != 0 ? 0x800000 : 0), d = (b & 0x7fffff) | (low != 0 ? 0x800000 : 0);
    if (a >= 0x7f800000 || b > 0x7f800000 || b == 0) return __builtin_nanf("");
    high = high != 0 ? high : 1;
    low = low != 0 ? low : 1;
    if (high < low) return lab_from_f32(a);
    lab_u32 r = m % d;
    for (lab_i32 left = high - low; left > 0; left -= 8) {
        r = (r << (lab_u32)(left < 8 ? left : 8)) % d;
    }
    lab_u32 whole = lab_bits_f32((float)r);
    lab_i32 exponent = (lab_i32)(whole >> 23) + low - 150;
    lab_u32 below = r << (lab_u32)(low - 1);
    whole = exponent > 0 ? (whole & 0x7fffff) | (lab_u32)exponent << 23 : below;
    return lab_from_f32(r != 0 ? whole : 0);
}

static inline float lab_mod_f32(float x, float y) {
    float r = lab_mod_far_f32(x, y);
    r = x < 0.0f ? -r : r;
    return lab_mod_sign_f32(r, y);
}

static inline float lab_random(lab_u32 k0, lab_u32 k1, int at, lab_u32 step) {
    const lab_u32 k2 = k0 ^ k1 ^ 0x1bd11bda;
    lab_u32 x = (lab_u32)at + k0, y = step + k1;
    for (lab_u32 group = 0; group < 5; group++) {
        const lab_u32 turns = group % 2 != 0 ? 0x18101d11 : 0x061a0f0d;
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
