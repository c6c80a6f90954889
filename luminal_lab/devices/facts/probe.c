// A processor's rates: multiply and add in registers, read, and copy.
#if defined(__AVX512F__)
enum { BYTES = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { BYTES = 16, CHAINS = 24 };
#else
enum { BYTES = 16, CHAINS = 12 };
#endif
enum { AT_ONCE = 8 };
typedef float f32s __attribute__((vector_size(BYTES)));
typedef double f64s __attribute__((vector_size(BYTES)));
typedef long long words __attribute__((vector_size(BYTES)));
typedef words anywhere __attribute__((aligned(1))); // arrays of NumPy begin at any address

// Independent chains, enough to hide the latency of one operation; returns flops per round.
#define FMA(name, number, vector) \
    long name(long rounds, double factor, double *sink) { \
        const number f = (number)factor, one = 1; \
        vector sums[CHAINS], factors, ones; \
        for (int k = 0; k < (int)(BYTES / sizeof(number)); k++) factors[k] = f, ones[k] = one; \
        for (int c = 0; c < CHAINS; c++) sums[c] = ones; \
        for (long r = 0; r < rounds; r++) { \
            _Pragma("GCC unroll 24") \
            for (int c = 0; c < CHAINS; c++) sums[c] = sums[c] * factors + ones; \
        } \
        for (int c = 0; c < CHAINS; c++) *sink += sums[c][0]; \
        return 2 * CHAINS * (long)(BYTES / sizeof(number)); \
    }
FMA(fma_f32, float, f32s)
FMA(fma_f64, double, f64s)

void read_all(const void *from, void *to, long long bytes, long times, double *sink) {
    words sums[AT_ONCE] = {0};
    for (long t = 0; t < times; t++) {
        const anywhere *at = from;
        for (long long k = 0; k + AT_ONCE <= bytes / BYTES; k += AT_ONCE)
            for (int c = 0; c < AT_ONCE; c++) sums[c] += at[k + c];
        __asm__ volatile("" : : : "memory");
    }
    for (int c = 0; c < AT_ONCE; c++) *sink += sums[c][0];
}

void copy_words(const void *from, void *to, long long bytes, long times, double *sink) {
    for (long t = 0; t < times; t++) {
        const words *at = from;
        words *out = to;
        for (long long k = 0; k < bytes / BYTES; k++) out[k] = at[k];
        __asm__ volatile("" : : : "memory");
    }
}

void copy_bytes(const void *from, void *to, long long bytes, long times, double *sink) {
    for (long t = 0; t < times; t++) {
        __builtin_memcpy(to, from, bytes);
        __asm__ volatile("" : : : "memory");
    }
}
