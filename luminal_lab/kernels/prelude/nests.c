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

#pragma omp declare reduction(lab_max_$MOST: $TYPE: omp_out = lab_max_$MOST(omp_out, omp_in)) \
    initializer(omp_priv = $LEAST)

typedef float lab_floats __attribute__((vector_size(32)));
typedef int lab_ints __attribute__((vector_size(32)));
typedef unsigned lab_words __attribute__((vector_size(32)));

// `count` values in a row, a known multiple of 8.
static inline __attribute__((always_inline)) void lab_widen_f16(
    float *restrict to, const lab_f16 *restrict from, int count) {
#if defined(__F16C__)
#if defined(__clang__)
    typedef _Float16 lab_eight __attribute__((vector_size(16)));
#define LAB_HALVES(eight) __builtin_convertvector(eight, lab_floats)
#else
    typedef short lab_eight __attribute__((vector_size(16)));
#define LAB_HALVES(eight) __builtin_ia32_vcvtph2ps256(eight)
#endif
    for (int i = 0; i < count; i += 8) {
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
        const lab_floats floats = LAB_HALVES(eight);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }
#elif defined(__aarch64__)
    for (int i = 0; i < count; i++) {
        __fp16 half;
        __builtin_memcpy(&half, from + i, sizeof half);
        to[i] = half;
    }
#else
    for (int i = 0; i < count; i++) to[i] = lab_cast_f16_f32(from[i]);
#endif
}

// `count` values in a row, a known multiple of 8.
static inline __attribute__((always_inline)) void lab_widen_bf16(
    float *restrict to, const lab_bf16 *restrict from, int count) {
#if defined(__AVX2__)
    typedef short lab_eight __attribute__((vector_size(16)));
    for (int i = 0; i < count; i += 8) {
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
#if defined(__clang__)
        const lab_words wide = (lab_words)__builtin_convertvector(eight, lab_ints) << 16;
#else
        const lab_words wide = (lab_words)__builtin_ia32_pmovzxwd256(eight) << 16;
#endif
        __builtin_memcpy(to + i, &wide, sizeof wide);
    }
#else
    for (int i = 0; i < count; i++) to[i] = lab_cast_bf16_f32(from[i]);
#endif
}

// `count` values in a row, a known multiple of 8.
static inline __attribute__((always_inline)) void lab_widen_i8(
    float *restrict to, const lab_i8 *restrict from, int count) {
#if defined(__AVX2__)
    for (int i = 0; i < count; i += 8) {
#if defined(__clang__)
        typedef signed char lab_eight __attribute__((vector_size(8)));
        lab_eight eight;
        __builtin_memcpy(&eight, from + i, sizeof eight);
        const lab_ints wide = __builtin_convertvector(eight, lab_ints);
#else
        typedef long long lab_pair __attribute__((vector_size(16)));
        typedef char lab_sixteen __attribute__((vector_size(16)));
        lab_pair pair = {0};
        __builtin_memcpy(&pair, from + i, 8);
        const lab_ints wide = (lab_ints)__builtin_ia32_pmovsxbd256((lab_sixteen)pair);
#endif
        const lab_floats floats = __builtin_convertvector(wide, lab_floats);
        __builtin_memcpy(to + i, &floats, sizeof floats);
    }
#else
    for (int i = 0; i < count; i++) to[i] = lab_cast_i8_f32(from[i]);
#endif
}
