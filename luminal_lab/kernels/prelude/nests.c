// What the functions of a CPU's kernels call besides the maths: macros, vectors, sums of narrow
// values.
//
// There are instructions that widen narrow neighbours to floats, which compilers do not find in a
// loop: for int8 they unpack step by step instead, which takes twice as long as reading the
// summands from memory.

/* What every function of a kernel gets: the buffers (inputs, locals, outputs), the dims of its
   definition in order, the number of runs, where to report an index out of range, the number of its
   task, and memory of its own. */
#define LAB_GIVEN \
    void *const *lab_buffers, const lab_i64 *lab_dims, lab_u32 lab_step, lab_i64 *lab_fault, \
    lab_i64 lab_task, char *lab_scratch

#if defined(__clang__)
#define LAB_UNROLL(n) LAB_PRAGMA(unroll)
#else
#define LAB_UNROLL(n) LAB_PRAGMA(GCC unroll n)
#endif

#define LAB_PRAGMA(text) _Pragma(#text)

#define LAB_ALIGNED __attribute__((aligned(64)))

/* Hides everything about a number but its type from the compiler. */
#define LAB_HIDE(number) __asm__("" : "+r"(number))

/* Values that one step of a sum has read are not kept for the next: registers are for the sums. */
#define LAB_STEP __asm__ volatile("" ::: "memory")

#define LAB_LANES(type, at) (*(type##_at *)(at))

/* x y + z, where x or y may be one number for all lanes: subtracting zeros makes it a vector. */
#define LAB_FMA(type, x, y, z) type##_fma((x) - (type){0}, (y) - (type){0}, z)

/* The address as a number, as no pointer may be outside its array, and this place may be. */
#define LAB_FETCH(array, at, writes) \
    __builtin_prefetch((const void *)((__SIZE_TYPE__)(array) + sizeof *(array) * (at)), writes)

#define LAB_INF __builtin_inff()

#define LAB_NAN __builtin_nanf("")

/* A vector, and its form in memory. A loop over lanes is no way to add products to all of them: gcc
   12 turns it into one that reads past the end of arrays. */
typedef $TYPE lab_$VECTOR __attribute__((vector_size($SIZE)));
typedef $TYPE lab_$VECTOR_at __attribute__((vector_size($SIZE), aligned($ITEM), may_alias));
static inline lab_$VECTOR lab_$VECTOR_fma(lab_$VECTOR x, lab_$VECTOR y, lab_$VECTOR z) {
#if defined(__clang__)
#pragma clang fp contract(fast)
    return x * y + z;$FUSED
#else
    return x * y + z;
#endif
}

typedef $TYPE lab_$VECTOR __attribute__((vector_size($SIZE)));
typedef $TYPE lab_$VECTOR_at __attribute__((vector_size($SIZE), aligned($ITEM), may_alias));

/* Adds two products of bfloat16 numbers to each lane: of the pair at x, and of the lane's own pair
   at y. The instruction counts subnormal numbers as 0; compilers differ in how they name it. */
static inline lab_$VECTOR lab_$VECTOR_pairs(
    const lab_bf16 *x, const lab_bf16 *y, lab_$VECTOR z) {
    typedef lab_u32 lab_both __attribute__((vector_size(4 * $PAIRS)));
    lab_u32 pair;
    lab_both pairs;
    __builtin_memcpy(&pair, x, sizeof pair);
    __builtin_memcpy(&pairs, y, sizeof pairs);
    const lab_both same = pair - (lab_both){0};
#if defined(__AVX512BF16__) && (defined(__AVX512VL__) || $PAIRS == 16)
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(z) : "v"(same), "v"(pairs));
    return z;
#else
    z = lab_$VECTOR_fma((lab_$VECTOR)(same >> 16 << 16), (lab_$VECTOR)(pairs >> 16 << 16), z);
    return lab_$VECTOR_fma((lab_$VECTOR)(same << 16), (lab_$VECTOR)(pairs << 16), z);
#endif
}

#pragma omp declare reduction(lab_max_$MOST: $TYPE: omp_out = lab_max_$MOST(omp_out, omp_in)) \
    initializer(omp_priv = $LEAST)

/* So many values are widened at once: as many as the registers of the loop behind it hold, since a
   wide load waits for two narrow stores. */
#if defined(__AVX512F__)
#define LAB_WIDE 16
#else
#define LAB_WIDE 8
#endif
typedef float lab_floats __attribute__((vector_size(4 * LAB_WIDE)));
typedef int lab_ints __attribute__((vector_size(4 * LAB_WIDE)));
typedef unsigned lab_words __attribute__((vector_size(4 * LAB_WIDE)));

// `count` values in a row.
static inline __attribute__((always_inline)) void lab_widen_f16(
    float *restrict to, const lab_f16 *restrict from, int count) {
    int i = 0;
#if defined(__F16C__)
#if defined(__clang__)
    typedef _Float16 lab_halves __attribute__((vector_size(2 * LAB_WIDE)));
#define LAB_FROM_HALVES(halves) __builtin_convertvector(halves, lab_floats)
#else
    typedef short lab_halves __attribute__((vector_size(2 * LAB_WIDE)));
#if defined(__AVX512F__)
#define LAB_FROM_HALVES(halves) __builtin_ia32_vcvtph2ps512_mask(halves, (lab_floats){0}, -1, 4)
#else
#define LAB_FROM_HALVES(halves) __builtin_ia32_vcvtph2ps256(halves)
#endif
#endif
    for (; i + LAB_WIDE <= count; i += LAB_WIDE) {
        lab_halves halves;
        __builtin_memcpy(&halves, from + i, sizeof halves);
        const lab_floats floats = LAB_FROM_HALVES(halves);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }
#elif defined(__aarch64__)
    for (; i < count; i++) {
        __fp16 half;
        __builtin_memcpy(&half, from + i, sizeof half);
        to[i] = half;
    }
#endif
    for (; i < count; i++) to[i] = lab_cast_f16_f32(from[i]);
}

// The sum of `count` values in a row, 8 or a multiple of 16: half of them is added to the other half, and
// so on. One after the other, each addition would wait for the last one.
static inline __attribute__((always_inline)) float lab_joined_f32(const float *x, int count) {
    typedef float lab_16 __attribute__((vector_size(64)));
    typedef float lab_8 __attribute__((vector_size(32)));
    typedef float lab_4 __attribute__((vector_size(16)));
    lab_8 eight[2];
    if (count == 8) __builtin_memcpy(eight, x, sizeof eight[0]);
    else {
        lab_16 sums, more;
        __builtin_memcpy(&sums, x, sizeof sums);
        for (int i = 16; i < count; i += 16) {
            __builtin_memcpy(&more, x + i, sizeof more);
            sums += more;
        }
        __builtin_memcpy(eight, &sums, sizeof sums);
        eight[0] += eight[1];
    }
    lab_4 four[2];
    __builtin_memcpy(four, eight, sizeof four);
    four[0] += four[1];
    return (four[0][0] + four[0][2]) + (four[0][1] + four[0][3]);
}

/* A vector whose first bytes, 4, 8 or all 16, are read, and whose others are 0. To put them together
   in memory is what compilers make of a copy: the load then waits for a shorter store. */
typedef char lab_chars __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) lab_chars lab_first(const void *at, int count) {
    typedef lab_u64 lab_two __attribute__((vector_size(16)));
    lab_two two = {0};
    if (count == 16) __builtin_memcpy(&two, at, 16);
    else {
        lab_u64 word = 0;
        __builtin_memcpy(&word, at, (__SIZE_TYPE__)count);
        two = (lab_two){word, 0};
    }
    return (lab_chars)two;
}

/* Eight values: the first four are the first one of two, the others the second one. */
static inline __attribute__((always_inline)) void lab_fours_f32(
    float *restrict to, const float *restrict from) {
#if defined(__AVX2__)
    typedef float lab_4 __attribute__((vector_size(16)));
    typedef float lab_8 __attribute__((vector_size(32)));
    const lab_4 pair = (lab_4)lab_first(from, 8);
    const lab_8 eight = __builtin_shufflevector(pair, pair, 0, 0, 0, 0, 1, 1, 1, 1);
    __builtin_memcpy(to, &eight, sizeof eight);
#else
    for (int i = 0; i < 8; i++) to[i] = from[i / 4];
#endif
}

/* Rows become columns: to[far * j + i] is from[row * i + j] for i < rows and j < columns, of which
   there is a multiple of 4. */
static inline __attribute__((always_inline)) void lab_across_f32(
    float *restrict to, lab_i64 far, const float *restrict from, int row, int rows, int columns) {
    typedef float lab_4 __attribute__((vector_size(16)));
#define LAB_PAIRS(x, y, from) __builtin_shufflevector(x, y, from, 4 + from, 1 + from, 5 + from)
#define LAB_FOUR(x, y, from) __builtin_shufflevector(x, y, from, 1 + from, 4 + from, 5 + from)
    for (int j = 0; j < columns; j += 4) {
        int i = 0;
        for (; i + 2 <= rows; i += 4) {
            lab_4 x[4], pairs[4], four[4];
            const int count = i + 4 <= rows ? 4 : 2;
            for (int k = 0; k < count; k++) __builtin_memcpy(&x[k], from + row * (i + k) + j, 16);
            pairs[0] = LAB_PAIRS(x[0], x[1], 0);
            pairs[1] = LAB_PAIRS(x[0], x[1], 2);
            if (count == 2) {
                for (int k = 0; k < 4; k++)
                    __builtin_memcpy(to + far * (j + k) + i, (const float *)&pairs[k / 2] + k % 2 * 2, 8);
                i += 2;
                break;
            }
            pairs[2] = LAB_PAIRS(x[2], x[3], 0);
            pairs[3] = LAB_PAIRS(x[2], x[3], 2);
            four[0] = LAB_FOUR(pairs[0], pairs[2], 0);
            four[1] = LAB_FOUR(pairs[0], pairs[2], 2);
            four[2] = LAB_FOUR(pairs[1], pairs[3], 0);
            four[3] = LAB_FOUR(pairs[1], pairs[3], 2);
            for (int k = 0; k < 4; k++) __builtin_memcpy(to + far * (j + k) + i, &four[k], 16);
        }
        for (; i < rows; i++)
            for (int k = 0; k < 4; k++) to[far * (j + k) + i] = from[row * i + j + k];
    }
}

/* Eight bytes, wherever they lie. */
typedef lab_u64 lab_word __attribute__((aligned(1), may_alias));

// Two bytes as a word, the lower one first.
static inline lab_u16 lab_pair(const lab_u8 *at) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    lab_u16 pair;
    __builtin_memcpy(&pair, at, sizeof pair);
    return pair;
#else
    return (lab_u16)(at[0] | at[1] << 8);
#endif
}

// One value, where no loop becomes vectors: those are of integer arithmetic.
static inline float lab_one_f16_f32(lab_f16 x) {
#if defined(__F16C__)
    typedef short lab_eight __attribute__((vector_size(16)));
    return __builtin_ia32_vcvtph2ps((lab_eight){(short)x})[0];
#elif defined(__aarch64__)
    __fp16 half;
    __builtin_memcpy(&half, &x, sizeof half);
    return half;
#else
    return lab_cast_f16_f32(x);
#endif
}

// `count` values in a row.
static inline __attribute__((always_inline)) void lab_widen_bf16(
    float *restrict to, const lab_bf16 *restrict from, int count) {
    int i = 0;
#if defined(__AVX2__)
    typedef short lab_halves __attribute__((vector_size(2 * LAB_WIDE)));
#if defined(__clang__)
#define LAB_FROM_SHORTS(shorts) __builtin_convertvector(shorts, lab_ints)
#elif defined(__AVX512F__)
#define LAB_FROM_SHORTS(shorts) __builtin_ia32_pmovzxwd512_mask(shorts, (lab_ints){0}, -1)
#else
#define LAB_FROM_SHORTS(shorts) __builtin_ia32_pmovzxwd256(shorts)
#endif
    for (; i + LAB_WIDE <= count; i += LAB_WIDE) {
        lab_halves halves;
        __builtin_memcpy(&halves, from + i, sizeof halves);
        const lab_words wide = (lab_words)LAB_FROM_SHORTS(halves) << 16;
        __builtin_memcpy(to + i, &wide, sizeof wide);
    }
#endif
    for (; i < count; i++) to[i] = lab_cast_bf16_f32(from[i]);
}

#if defined(__clang__)
#define LAB_FROM_$BYTE(bytes) __builtin_convertvector(bytes, lab_ints)
#elif defined(__AVX512F__)
#define LAB_FROM_$BYTE(bytes) __builtin_ia32_pmov$EXTENDEDbd512_mask(bytes, (lab_ints){0}, -1)
#else
#define LAB_FROM_$BYTE(bytes) (lab_ints)__builtin_ia32_pmov$EXTENDEDbd256(bytes)
#endif

// `count` values in a row.
static inline __attribute__((always_inline)) void lab_widen_$BYTE(
    float *restrict to, const lab_$BYTE *restrict from, int count) {
    int i = 0;
#if defined(__AVX2__)
    for (; i + LAB_WIDE <= count; i += LAB_WIDE) {
#if defined(__clang__)
        typedef lab_$BYTE lab_bytes __attribute__((vector_size(LAB_WIDE)));
        lab_bytes bytes;
        __builtin_memcpy(&bytes, from + i, LAB_WIDE);
#else
        const lab_chars bytes = lab_first(from + i, LAB_WIDE);
#endif
        const lab_floats floats = __builtin_convertvector(LAB_FROM_$BYTE(bytes), lab_floats);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }
#endif
    for (; i < count; i++) to[i] = lab_cast_$BYTE_f32(from[i]);
}

// `count` values in a row, as integers of 32 bits, of which there may be only four.
static inline __attribute__((always_inline)) void lab_words_$BYTE(
    lab_i32 *restrict to, const lab_$BYTE *restrict from, int count) {
    int i = 0;
#if defined(__AVX2__) && !defined(__clang__)
    for (; i + LAB_WIDE <= count; i += LAB_WIDE) {
        const lab_ints words = LAB_FROM_$BYTE(lab_first(from + i, LAB_WIDE));
        __builtin_memcpy(to + i, &words, sizeof words);
    }
    typedef int lab_four __attribute__((vector_size(16)));
    for (; i + 4 <= count; i += 4) {
        const lab_four words = __builtin_ia32_pmov$EXTENDEDbd128(lab_first(from + i, 4));
        __builtin_memcpy(to + i, &words, sizeof words);
    }
#endif
    for (; i < count; i++) to[i] = from[i];
}

/* Adds four products of neighbouring bytes to each of eight sums, the first of which have no sign. */
#if defined(__AVX512VNNI__) && defined(__AVX512VL__) || defined(__AVXVNNI__)
#if defined(__clang__)
#define LAB_ADD_DOTS __builtin_ia32_vpdpbusd256
#else
#define LAB_ADD_DOTS __builtin_ia32_vpdpbusd_v8si
#endif
#endif

typedef int lab_eight __attribute__((vector_size(32)));
typedef short lab_sixteen __attribute__((vector_size(32)));

#if defined(__clang__)
#define LAB_WORDS_$BYTE(bytes) __builtin_convertvector(bytes, lab_sixteen)
#else
#define LAB_WORDS_$BYTE(bytes) __builtin_ia32_pmov$EXTENDEDbw256((lab_chars)(bytes))
#endif

#if defined(__AVX2__)
/* 32 bytes, whose halves may just have been made: a load of both would wait for two stores. */
static inline __attribute__((always_inline)) lab_eight lab_two_halves(const void *bytes) {
    typedef lab_i64 lab_half __attribute__((vector_size(16)));
    lab_half halves[2];
    __builtin_memcpy(halves, bytes, sizeof halves[0]);
    __builtin_memcpy(halves + 1, (const char *)bytes + sizeof halves[0], sizeof halves[1]);
    return (lab_eight)__builtin_shufflevector(halves[0], halves[1], 0, 1, 2, 3);
}
#endif

#if defined(__AVX2__)
/* The sums of two neighbouring products each, of sixteen. */
static inline __attribute__((always_inline)) lab_eight lab_pairs_$BYTE(
    const lab_$BYTE *x, const lab_i8 *y) {
    typedef lab_$BYTE lab_lefts __attribute__((vector_size(16)));
    typedef lab_i8 lab_rights __attribute__((vector_size(16)));
    lab_lefts left;
    lab_rights right;
    __builtin_memcpy(&left, x, sizeof left);
    __builtin_memcpy(&right, y, sizeof right);
    return __builtin_ia32_pmaddwd256(LAB_WORDS_$BYTE(left), LAB_WORDS_i8(right));
}
#endif

/* The sum of `count` products of bytes. There are instructions for this that no compiler finds in a
   loop; where they take one factor without a sign, 128 more makes it so, and goes off again. */
static inline __attribute__((always_inline)) lab_i32 lab_dot_$BYTE(
    const lab_$BYTE *restrict x, const lab_i8 *restrict y, lab_i64 count) {
    lab_u32 sum = 0;
    lab_i64 i = 0;
#if defined(__AVX2__)
    typedef lab_u32 lab_sums __attribute__((vector_size(32)));
    lab_sums sums = {0};
#if defined(LAB_ADD_DOTS)
    const lab_sums more = sums + 0x80808080u * $SIGNED;
    lab_sums signs = sums;
    for (; i + 32 <= count; i += 32) {
        lab_sums left, right;
        __builtin_memcpy(&left, x + i, sizeof left);
        __builtin_memcpy(&right, y + i, sizeof right);
        sums = (lab_sums)LAB_ADD_DOTS((lab_eight)sums, (lab_eight)(left ^ more), (lab_eight)right);
        if ($SIGNED)
            signs = (lab_sums)LAB_ADD_DOTS((lab_eight)signs, (lab_eight)more, (lab_eight)right);
    }
    sums -= signs;
#endif
    for (; i + 16 <= count; i += 16) sums += (lab_sums)lab_pairs_$BYTE(x + i, y + i);
    for (int k = 0; k < 8; k++) sum += sums[k];
#endif
    for (; i < count; i++) sum += (lab_u32)((lab_i32)x[i] * (lab_i32)y[i]);
    return (lab_i32)sum;
}

/* Adds four products of neighbouring bytes to each of `count` sums in a row. No byte of `x` is above
   `most`; two products of less than 128 are a sum of 16 bits. */
static inline __attribute__((always_inline)) void lab_dots_$BYTE(lab_i32 *restrict to,
    const lab_$BYTE *restrict x, const lab_i8 *restrict y, int count, int most) {
    int i = 0;
    (void)most; /* which only AVX2 asks for */
#if defined(LAB_ADD_DOTS)
    typedef lab_u32 lab_sums __attribute__((vector_size(32)));
    const lab_sums more = (lab_sums){0} + 0x80808080u * $SIGNED;
    for (; i + 8 <= count; i += 8) {
        const lab_sums left = (lab_sums)lab_two_halves(x + 4 * i);
        lab_sums sums, right;
        __builtin_memcpy(&sums, to + i, sizeof sums);
        __builtin_memcpy(&right, y + 4 * i, sizeof right);
        sums = (lab_sums)LAB_ADD_DOTS((lab_eight)sums, (lab_eight)(left ^ more), (lab_eight)right);
        if ($SIGNED)
            sums -= (lab_sums)LAB_ADD_DOTS((lab_eight){0}, (lab_eight)more, (lab_eight)right);
        __builtin_memcpy(to + i, &sums, sizeof sums);
    }
#endif
#if defined(__AVX2__)
    typedef lab_i64 lab_fours __attribute__((vector_size(32)));
    for (; !$SIGNED && most < 128 && i + 8 <= count; i += 8) {
        typedef char lab_bytes __attribute__((vector_size(32)));
        const lab_bytes left = (lab_bytes)lab_two_halves(x + 4 * i);
        lab_bytes right;
        lab_eight sums;
        __builtin_memcpy(&sums, to + i, sizeof sums);
        __builtin_memcpy(&right, y + 4 * i, sizeof right);
        const lab_sixteen pairs = (lab_sixteen)__builtin_ia32_pmaddubsw256(left, right);
        sums += (lab_eight)__builtin_ia32_pmaddwd256(pairs, (lab_sixteen){0} + 1);
        __builtin_memcpy(to + i, &sums, sizeof sums);
    }
    for (; i + 8 <= count; i += 8) {
        lab_eight sums;
        const lab_eight low = lab_pairs_$BYTE(x + 4 * i, y + 4 * i);
        const lab_eight high = lab_pairs_$BYTE(x + 4 * i + 16, y + 4 * i + 16);
        const lab_fours fours = (lab_fours)__builtin_ia32_phaddd256(low, high);
        __builtin_memcpy(&sums, to + i, sizeof sums);
        sums += (lab_eight)__builtin_shufflevector(fours, fours, 0, 2, 1, 3);
        __builtin_memcpy(to + i, &sums, sizeof sums);
    }
    if (i + 4 <= count) {
        typedef lab_i32 lab_sums_4 __attribute__((vector_size(16)));
        lab_sums_4 sums;
        const lab_eight low = lab_pairs_$BYTE(x + 4 * i, y + 4 * i);
        const lab_fours fours = (lab_fours)__builtin_ia32_phaddd256(low, low);
        __builtin_memcpy(&sums, to + i, sizeof sums);
        sums += (lab_sums_4)__builtin_shufflevector(fours, fours, 0, 2);
        __builtin_memcpy(to + i, &sums, sizeof sums);
        i += 4;
    }
#endif
    for (; i < count; i++)
        for (int k = 0; k < 4; k++) to[i] += (lab_i32)x[4 * i + k] * (lab_i32)y[4 * i + k];
}
