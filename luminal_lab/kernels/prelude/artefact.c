// After the launches of a model that runs without us: sizes are bound, and all launches done in turn.
//
// What the model has of each is defined before: LAB_DIMS, LAB_NUMBERS, LAB_PLACES, LAB_VALUES,
// LAB_GIVENS, LAB_PHASES, LAB_BUFFERS, LAB_ARGUMENTS, each at least 1.

enum { LAB_OK, LAB_PROCESSOR, LAB_WEIGHTS, LAB_SIZES, LAB_INDEX, LAB_IN_USE, LAB_MISSING };

typedef struct {
    lab_i64 low, high, multiple;
} lab_bounds;

typedef struct {
    lab_i32 number;              // which must lie between
    lab_i64 low, high;
} lab_limit;

// Where something lies: from 0 up, a place in the arena; below, -1 - k is the k-th given pointer, and
// beyond those the weights follow.
typedef struct {
    lab_i32 to, from, number;    // the number of bytes to copy
} lab_copy;

// What is done for some sizes of dims. Numbers are those that `lab_numbers` works out.
typedef struct {
    lab_i32 work_count, place_count, limit_count, before_count, after_count, scratch_count;
    const lab_i32 *launches;     // of each work
    const lab_i32 *tasks;        // the numbers of tasks of each work, LAB_PHASES of them
    const lab_i32 *places;       // the bytes of each place in the arena, by number
    const lab_i32 *below;        // for each place: how many end before it begins, and which; -1: all
    const lab_i32 *values;       // where each value lies
    const lab_limit *limits;
    const lab_copy *before, *after;
    const lab_i32 *scratch;      // the most of these numbers is the memory that tasks need
} lab_plan;

typedef struct {
    const lab_plan *plan;
    lab_i64 numbers[LAB_NUMBERS], starts[LAB_PLACES];
    lab_i64 arena, scratch;      // bytes
} lab_bound;

#define LAB_LINE 64
#define LAB_UP(size) (((size) + LAB_LINE - 1) / LAB_LINE * LAB_LINE)
#define LAB_MARK ((size_t)0x9e3779b97f4a7c15ull)   // at the start of an arena in which a run is under way

static lab_i64 lab_bytes(const lab_bound *bound) {
    return 2 * LAB_LINE + bound->arena + bound->scratch;   // it may begin anywhere
}

// Binds sizes of dims: finds the plan for them, and where everything lies.
static int lab_bind(const lab_i64 *dims, lab_bound *bound) {
    for (int k = 0; k < LAB_DIMS; k++) {
        const lab_bounds *may = &lab_dim_bounds[k];
        if (dims[k] < may->low || dims[k] > may->high || dims[k] % may->multiple) return LAB_SIZES;
    }
    lab_numbers(dims, bound->numbers);
    const lab_plan *plan = bound->plan = lab_plan_of(dims);
    const lab_i64 *numbers = bound->numbers;
    for (int k = 0; k < plan->limit_count; k++) {
        const lab_limit *limit = &plan->limits[k];
        const lab_i64 number = numbers[limit->number];
        if (number < limit->low || number > limit->high) return LAB_SIZES;
    }
    const lab_i32 *below = plan->below;
    bound->arena = bound->scratch = 0;
    for (int k = 0; k < plan->place_count; k++) {
        const lab_i32 count = *below++;
        lab_i64 start = count < 0 ? bound->arena : 0;
        for (int n = 0; n < count; n++) {
            const lab_i32 other = *below++;
            const lab_i64 end = bound->starts[other] + LAB_UP(numbers[plan->places[other]]);
            start = start < end ? end : start;
        }
        bound->starts[k] = start;
        const lab_i64 size = numbers[plan->places[k]], end = start + LAB_UP(size);
        if (size < 0) return LAB_SIZES;
        bound->arena = bound->arena < end ? end : bound->arena;
    }
    for (int k = 0; k < plan->scratch_count; k++) {
        const lab_i64 size = LAB_UP(numbers[plan->scratch[k]]);
        bound->scratch = bound->scratch < size ? size : bound->scratch;
    }
#if SIZE_MAX < 0xffffffffffffffff
    if (lab_bytes(bound) > (lab_i64)SIZE_MAX) return LAB_SIZES;
#endif
    return LAB_OK;
}

static char *lab_at(const lab_bound *bound, lab_i32 where, void *const *given, char *arena) {
    if (where >= 0) return arena + bound->starts[where];
    const lab_i32 k = -1 - where;
    return k < LAB_GIVENS ? given[k] : (char *)given[LAB_GIVENS] + lab_weight_offsets[k - LAB_GIVENS];
}

static void lab_copy_all(const lab_copy *copies, int count, const lab_bound *bound,
                         void *const *given, char *arena) {
    for (int k = 0; k < count; k++) {
        char *to = lab_at(bound, copies[k].to, given, arena);
        const char *from = lab_at(bound, copies[k].from, given, arena);
        for (lab_i64 n = 0; n < bound->numbers[copies[k].number]; n++) to[n] = from[n];
    }
}

// Runs all launches, or those whose byte in `asked` is not 0; `given` are the pointers to inputs and
// outputs, and then the weights.
static int lab_run_all(const lab_i64 *dims, void *const *given, void *memory, lab_u32 step,
                       const unsigned char *asked) {
    lab_bound bound;
    const int fits = lab_bind(dims, &bound);
    if (fits != LAB_OK) return fits;
    for (int k = 0; k < LAB_GIVENS; k++) {
        if (!given[k]) return LAB_MISSING;
    }
    if (!memory || !given[LAB_GIVENS]) return LAB_MISSING;
    size_t *mark = (size_t *)LAB_UP((uintptr_t)memory);
    if (__atomic_exchange_n(mark, LAB_MARK, __ATOMIC_ACQUIRE) == LAB_MARK) return LAB_IN_USE;
    const lab_plan *plan = bound.plan;
    char *arena = (char *)mark + LAB_LINE, *scratch = arena + bound.arena;
    void *values[LAB_VALUES], *buffers[LAB_BUFFERS];
    lab_i64 arguments[LAB_ARGUMENTS], fault = 0;
    for (int k = 0; k < LAB_VALUES; k++) {
        const lab_i32 where = plan->values[k];
        values[k] = where == LAB_NOWHERE ? 0 : lab_at(&bound, where, given, arena);
    }
    lab_copy_all(plan->before, plan->before_count, &bound, given, arena);
    for (int at = 0; at < plan->work_count && !fault; at++) {
        if (asked && !asked[at]) continue;
        const lab_launch *launch = &lab_launches[plan->launches[at]];
        for (int k = 0; k < launch->buffer_count; k++) buffers[k] = values[launch->buffers[k]];
        for (int k = 0; k < launch->dim_count; k++) arguments[k] = dims[launch->dims[k]];
        for (int k = 0; k < launch->phase_count; k++) {
            const lab_i64 tasks = bound.numbers[plan->tasks[at * LAB_PHASES + k]];
            for (lab_i64 task = 0; task < tasks; task++)
                launch->phases[k](buffers, arguments, step, &fault, task, scratch);
        }
    }
    if (!fault) lab_copy_all(plan->after, plan->after_count, &bound, given, arena);
    __atomic_store_n(mark, 0, __ATOMIC_RELEASE);
    return fault ? LAB_INDEX : LAB_OK;
}

// Whether this processor has what the library was compiled for; asked without any of that itself.
#if defined(__x86_64__) && !defined(LAB_HAS)
#define LAB_HAS(feature) __builtin_cpu_supports(feature)
#define LAB_PLAIN __attribute__((target("arch=x86-64"), noinline))
#elif defined(__linux__) && (defined(__aarch64__) || defined(__riscv)) && !defined(LAB_HAS)
#include <sys/auxv.h>
/* Linux has a bit for each feature: 64 in one word, and 64 in another. */
#define LAB_HAS(bit) (getauxval((bit) < 64 ? AT_HWCAP : AT_HWCAP2) >> (bit) % 64 & 1)
#elif !defined(LAB_HAS)
#define LAB_HAS(feature) 1
#endif
#ifndef LAB_PLAIN
#define LAB_PLAIN
#endif

LAB_PLAIN static int lab_is_processor(void) {
    int has = 1;
#ifdef __x86_64__
    __builtin_cpu_init();
#ifdef __SSE4_2__
    has &= !!LAB_HAS("sse4.2");
#endif
#ifdef __POPCNT__
    has &= !!LAB_HAS("popcnt");
#endif
#ifdef __AVX__
    has &= !!LAB_HAS("avx");
#endif
#ifdef __AVX2__
    has &= !!LAB_HAS("avx2");
#endif
#ifdef __FMA__
    has &= !!LAB_HAS("fma");
#endif
#ifdef __BMI__
    has &= !!LAB_HAS("bmi");
#endif
#ifdef __BMI2__
    has &= !!LAB_HAS("bmi2");
#endif
#ifdef __AVX512F__
    has &= !!LAB_HAS("avx512f");
#endif
#ifdef __AVX512BW__
    has &= !!LAB_HAS("avx512bw");
#endif
#ifdef __AVX512DQ__
    has &= !!LAB_HAS("avx512dq");
#endif
#ifdef __AVX512VL__
    has &= !!LAB_HAS("avx512vl");
#endif
#ifdef __AVX512VNNI__
    has &= !!LAB_HAS("avx512vnni");
#endif
#ifdef __AVX512VBMI__
    has &= !!LAB_HAS("avx512vbmi");
#endif
#ifdef __AVX512BF16__
    has &= !!LAB_HAS("avx512bf16");
#endif
#elif defined(__aarch64__)
#ifdef __ARM_FEATURE_CRC32
    has &= !!LAB_HAS(7);
#endif
#ifdef __ARM_FEATURE_ATOMICS
    has &= !!LAB_HAS(8);
#endif
#ifdef __ARM_FEATURE_FP16_VECTOR_ARITHMETIC
    has &= !!LAB_HAS(10);
#endif
#ifdef __ARM_FEATURE_QRDMX
    has &= !!LAB_HAS(12);
#endif
#ifdef __ARM_FEATURE_DOTPROD
    has &= !!LAB_HAS(20);
#endif
#ifdef __ARM_FEATURE_SVE
    has &= !!LAB_HAS(22);
#endif
#ifdef __ARM_FEATURE_FP16_FML
    has &= !!LAB_HAS(23);
#endif
#ifdef __ARM_FEATURE_SVE2
    has &= !!LAB_HAS(64 + 1);
#endif
#ifdef __ARM_FEATURE_MATMUL_INT8
    has &= !!LAB_HAS(64 + 13);
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    has &= !!LAB_HAS(64 + 14);
#endif
#elif defined(__riscv_vector)
    has &= !!LAB_HAS('V' - 'A');
#endif
    return has;
}

// Whether some bytes are the weights that this was made for, by their size and their header.
static int lab_check(const unsigned char *weights, size_t bytes) {
    if (!lab_is_processor()) return LAB_PROCESSOR;
#if LAB_WEIGHT_BYTES
    if (!weights) return LAB_MISSING;
    if (bytes < LAB_WEIGHT_BYTES) return LAB_WEIGHTS;
    lab_u64 digest = 0xcbf29ce484222325ull;
    for (size_t k = 0; k < LAB_HEADER_BYTES; k++) digest = (digest ^ weights[k]) * 0x100000001b3ull;
    if (digest != LAB_HEADER_DIGEST) return LAB_WEIGHTS;
#else
    (void)weights, (void)bytes;
#endif
    return LAB_OK;
}
