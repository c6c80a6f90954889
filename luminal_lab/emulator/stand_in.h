// What a kernel's source needs on a CPU in either dialect: the thread, shared memory, entry points.

static const lab_runtime *lab_now;

#define LAB_UNCHECKED __attribute__((no_sanitize("alignment")))
#define LAB_LINE int lab_line = __builtin_LINE()

// -- accesses, which the compiler reports if the thread sanitizer is requested
// ----------------------

// The compiler has these built in with types of its own, so they are defined under other names.
#define LAB_TEXT_OF(X) #X
#define LAB_TEXT(X) LAB_TEXT_OF(X)
#if defined(LAB_TRACED)
#if defined(__clang__)
#define LAB_QUIET __attribute__((disable_sanitizer_instrumentation))
#else
#define LAB_QUIET __attribute__((no_sanitize_thread))
#endif
#define LAB_FROM __builtin_return_address(0)
#define LAB_HOOK(R, NAME, ...)                                                                    \
    LAB_QUIET R lab_hook_##NAME(__VA_ARGS__) __asm__(LAB_TEXT(__USER_LABEL_PREFIX__) "__tsan_" #NAME); \
    R lab_hook_##NAME(__VA_ARGS__)
#define LAB_ONE(NAME, N, KIND)                                                                    \
    LAB_HOOK(void, NAME##N, void *p) { lab_now->touch(p, N, KIND, LAB_FROM); }
#define LAB_BOTH(NAME, N)                                                                         \
    LAB_HOOK(void, NAME##N, void *p) {                                                            \
        lab_now->touch(p, N, LAB_READ, LAB_FROM), lab_now->touch(p, N, LAB_WRITE, LAB_FROM);      \
    }
#define LAB_SIZED_HOOKS(N)                                                                        \
    LAB_ONE(read, N, LAB_READ) LAB_ONE(write, N, LAB_WRITE)                                       \
    LAB_ONE(unaligned_read, N, LAB_READ) LAB_ONE(unaligned_write, N, LAB_WRITE)                   \
    LAB_ONE(volatile_read, N, LAB_READ) LAB_ONE(volatile_write, N, LAB_WRITE)                     \
    LAB_ONE(unaligned_volatile_read, N, LAB_READ) LAB_ONE(unaligned_volatile_write, N, LAB_WRITE) \
    LAB_BOTH(read_write, N) LAB_BOTH(unaligned_read_write, N)
extern "C" {
LAB_SIZED_HOOKS(1) LAB_SIZED_HOOKS(2) LAB_SIZED_HOOKS(4) LAB_SIZED_HOOKS(8) LAB_SIZED_HOOKS(16)
LAB_HOOK(void, init, void) {}
LAB_HOOK(void, func_entry, void *from) { lab_now->enter(from); }
LAB_HOOK(void, func_exit, void) { lab_now->leave(); }
#define LAB_RANGE(NAME, KIND)                                                                     \
    LAB_HOOK(void, NAME##_range, void *p, __SIZE_TYPE__ n) {                                      \
        lab_now->touch(p, (unsigned)n, KIND, LAB_FROM);                                           \
    }
#define LAB_COPIED(NAME)                                                                          \
    LAB_HOOK(void *, NAME, void *to, const void *at, __SIZE_TYPE__ n) {                           \
        lab_now->touch(at, (unsigned)n, LAB_READ, LAB_FROM);                                      \
        lab_now->touch(to, (unsigned)n, LAB_WRITE, LAB_FROM);                                     \
        return __builtin_##NAME(to, at, n);                                                       \
    }
LAB_RANGE(read, LAB_READ) LAB_RANGE(write, LAB_WRITE) LAB_COPIED(memcpy) LAB_COPIED(memmove)
LAB_HOOK(void *, memset, void *to, int value, __SIZE_TYPE__ n) {
    lab_now->touch(to, (unsigned)n, LAB_WRITE, LAB_FROM);
    return __builtin_memset(to, value, n);
}
}
#define LAB_TOUCHED(p, kind) lab_now->touch((const void *)(p), sizeof *(p), kind, LAB_FROM)
#else
#define LAB_QUIET
#define LAB_TOUCHED(p, kind)
#endif

// -- addresses that are not a multiple of what their type asks for, or behind an array of the thread's
// own: the compiler looks at each ----------------------------------------------------------------------

struct lab_asked {
    struct { const char *file; unsigned line, column; } at;
    const void *type;
    unsigned char power, does;  // a power of two; 0 loads, 1 stores, 2 binds a reference
};
#if defined(__clang__)
enum { LAB_LEADS_ON = -1 };
#else
enum { LAB_LEADS_ON = 2 };  // to a load or store, which gcc checks as well
#endif
#define LAB_CHECK(NAME) __asm__(LAB_TEXT(__USER_LABEL_PREFIX__) "__ubsan_handle_" #NAME)
extern "C" {
LAB_QUIET void lab_report_address(const lab_asked *, __SIZE_TYPE__) LAB_CHECK(type_mismatch_v1);
void lab_report_address(const lab_asked *asked, __SIZE_TYPE__ at) {
    if (asked->does == LAB_LEADS_ON) return;
    const int line = (int)asked->at.line, is_write = asked->does == 1;
    const unsigned to = 1u << asked->power;
    if (at % to == 0) lab_now->outside(is_write, line, __builtin_return_address(0));
    else lab_now->misaligned((const void *)at, to, is_write, line, __builtin_return_address(0));
}
}

// A subscript of a thread's own array: its position (gcc gives its end, clang its beginning) and
// its depth; others are checked by their address.
struct lab_subscript { unsigned line, column, depth; bool is_write; };
extern const lab_subscript lab_subscripts[];
struct lab_indexed {
    struct { const char *file; unsigned line, column; } at;
    const struct { unsigned short kind, info; char name[1]; } *type;
};
extern "C" {
LAB_QUIET void lab_report_bounds(const lab_indexed *, __SIZE_TYPE__) LAB_CHECK(out_of_bounds);
void lab_report_bounds(const lab_indexed *asked, __SIZE_TYPE__) {
    unsigned depth = 0;
    for (const char *c = asked->type->name; *c; c++) depth += *c == '[';
    for (const lab_subscript *subscript = lab_subscripts; subscript->line; subscript++)
        if (subscript->line == asked->at.line && subscript->column == asked->at.column && depth >= subscript->depth)
            lab_now->outside(subscript->is_write, (int)subscript->line, __builtin_return_address(0));
}
}

LAB_EXPORT LAB_QUIET void lab_bind(const lab_runtime *table) { lab_now = table; }

// -- types ----------------------------------------------------------------------------------------

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#define LAB_INTEGERS(N) typedef __INT##N##_TYPE__ int##N##_t; typedef __UINT##N##_TYPE__ uint##N##_t;
LAB_INTEGERS(8) LAB_INTEGERS(16) LAB_INTEGERS(32) LAB_INTEGERS(64)
typedef __UINTPTR_TYPE__ uintptr_t;

// Each dialect says for which types it has min, max and abs.
#define LAB_LEAST(T)                                                                              \
    static inline T min(T a, T b) { return b < a ? b : a; }                                       \
    static inline T max(T a, T b) { return a < b ? b : a; }
#define LAB_ABS(T) static inline T abs(T x) { return x < 0 ? -x : x; }
#define LAB_ABS_OF(T, F) static inline T abs(T x) { return T(__builtin_##F(x)); }

template <class T> struct lab_plain { using type = T; };
template <class T> struct lab_plain<T &> { using type = T; };
template <class T> struct lab_plain<const T> { using type = T; };
template <class T> struct lab_plain<volatile T> { using type = T; };
template <class T> struct lab_plain<const T &> { using type = T; };
template <class T> struct lab_element { using type = T; };
template <class T, __SIZE_TYPE__ N> struct lab_element<T[N]> { using type = typename lab_element<T>::type; };
template <class T> struct lab_element<T[]> { using type = typename lab_element<T>::type; };
template <class T> using lab_same = T;

// A 16-bit float for computing: each operation is done in float and rounded.
template <unsigned short (*To)(float), float (*From)(unsigned short)> struct lab_half {
    unsigned short bits;
    lab_half() = default;
    template <class T, class = decltype((float)T())> lab_half(T x) : bits(To((float)x)) {}
    operator float() const { return From(bits); }
    lab_half operator-() const { return lab_half(-(float)*this); }
#define LAB_OF_TWO(OP)                                                                            \
    lab_half &operator OP##=(lab_half y) { return *this = lab_half((float)*this OP (float)y); }   \
    friend lab_half operator OP(lab_half x, lab_half y) { return x OP##= y; }
#define LAB_MIXED(OP, T)                                                                          \
    friend T operator OP(lab_half x, T y) { return (T)(float)x OP y; }                            \
    friend T operator OP(T x, lab_half y) { return x OP(T)(float) y; }
#define LAB_WHOLE(OP, T)                                                                          \
    friend lab_half operator OP(lab_half x, T y) { return x OP lab_half(y); }                     \
    friend lab_half operator OP(T x, lab_half y) { return lab_half(x) OP y; }
#define LAB_ALL(OP) LAB_OF_TWO(OP) LAB_MIXED(OP, float) LAB_WHOLE(OP, int) LAB_WHOLE(OP, unsigned)
    LAB_ALL(+) LAB_ALL(-) LAB_ALL(*) LAB_ALL(/)
};
using lab_half_f16 = lab_half<lab_c::lab_cast_f32_f16, lab_c::lab_cast_f16_f32>;
using lab_half_bf16 = lab_half<lab_c::lab_cast_f32_bf16, lab_c::lab_cast_bf16_f32>;

// -- shared memory, barriers, lanes ---------------------------------------------------------------

template <class T, unsigned N = 1> static inline T &lab_shared(int place, const char *name, int line) {
    using element = typename lab_element<T>::type;
    const unsigned alignment = N > alignof(T) ? N : alignof(T);
    return *(T *)lab_now->shared(place, sizeof(T), sizeof(element), alignment, name, line);
}

template <class T, class A> static inline T &lab_shared(int place, const char *name, int line) {
    return lab_shared<T, alignof(A)>(place, name, line);
}

template <class T, unsigned N = 16> static inline T *lab_dynamic(int place, const char *name, int line) {
    const unsigned alignment = N > alignof(T) ? N : alignof(T);
    return (T *)lab_now->shared(LAB_SIZED + place, 0, sizeof(T), alignment, name, line);
}

template <class T, class A> static inline T *lab_dynamic(int place, const char *name, int line) {
    return lab_dynamic<T, alignof(A)>(place, name, line);
}

// A thread leaves the kernel before its end, as threads may if no barrier waits for them.
static inline void lab_return() { lab_now->left(); }

static inline unsigned lab_own_lane() { return lab_now->number % 32; }

// The value of each lane of a warp.
template <class T> struct lab_given {
    const unsigned char *at;
    LAB_QUIET T operator[](unsigned lane) const {
        T value;
        __builtin_memcpy(&value, at + lane * LAB_PAYLOAD, sizeof value);
        return value;
    }
    // The lanes that gave something: those that the mask names and that had not returned.
    LAB_QUIET unsigned givers() const {
        unsigned lanes;
        __builtin_memcpy(&lanes, at + 32 * LAB_PAYLOAD, sizeof lanes);
        return lanes;
    }
};

template <class T> static inline lab_given<T> lab_meet(int kind, unsigned mask, T mine, int line) {
    static_assert(sizeof(T) <= LAB_PAYLOAD, "what a lane hands to the others is small");
    return {lab_now->exchange(kind, mask, &mine, sizeof mine, line)};
}

static inline bool lab_is_there(unsigned lane) {
    const lab_runtime *r = lab_now;
    return (r->number & ~31u) + lane < r->block_size[0] * r->block_size[1] * r->block_size[2];
}

// Beyond the last lane of a warp, a lane gets its own value back. The value of a lane that gave
// none is undefined: here all of its bits are set.
template <class T> static inline T lab_shuffle_from(T v, unsigned from, unsigned mask, int line) {
    const lab_given<T> all = lab_meet(LAB_OF_SHUFFLE, mask, v, line);
    if (from >= 32) return v;
    if (all.givers() >> from & 1) return all[from];
    lab_now->no_lane(from, line, __builtin_return_address(0));
    T nothing;
    __builtin_memset(&nothing, 0xff, sizeof nothing);
    return nothing;
}

// Combined as lanes n / 2, n / 4, ... apart are: all lanes of a group of n get the same result.
template <class T, class F>
static inline T lab_fold(int kind, T v, unsigned n, unsigned mask, F combine, int line) {
    const lab_given<T> all = lab_meet(kind, mask, v, line);
    const unsigned first = lab_own_lane() & ~(n - 1);
    T part[32];
    bool known[32];
    for (unsigned k = 0; k < n; k++) {
        known[k] = all.givers() >> (first + k) & 1;
        if (known[k]) part[k] = all[first + k];
    }
    for (unsigned half = n / 2; half; half /= 2) {
        for (unsigned k = 0; k < half; k++) {
            if (!known[k + half]) continue;
            part[k] = known[k] ? combine(part[k], part[k + half]) : part[k + half];
            known[k] = true;
        }
    }
    return part[0];
}

struct lab_add { template <class T> T operator()(T a, T b) const { return a + b; } };
struct lab_greater { template <class T> T operator()(T a, T b) const { return a < b || a != a ? (a != a ? a : b) : (b != b ? b : a); } };
struct lab_less { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };

// -- entry points ---------------------------------------------------------------------------------

template <class T> struct lab_told { static constexpr lab_parameter value = {'x', sizeof(T), alignof(T)}; };
template <class T> struct lab_told<T *> { static constexpr lab_parameter value = {'p', sizeof(T), 1}; };
template <class T> struct lab_told<const T *> { static constexpr lab_parameter value = {'c', sizeof(T), 1}; };
template <> struct lab_told<void *> { static constexpr lab_parameter value = {'p', 1, 1}; };
template <> struct lab_told<const void *> { static constexpr lab_parameter value = {'c', 1, 1}; };
#define LAB_TOLD(T, KIND) template <> struct lab_told<T> { static constexpr lab_parameter value = {KIND, sizeof(T), alignof(T)}; };
LAB_TOLD(bool, 'b') LAB_TOLD(char, 'i') LAB_TOLD(signed char, 'i') LAB_TOLD(short, 'i')
LAB_TOLD(int, 'i') LAB_TOLD(long, 'i') LAB_TOLD(long long, 'i') LAB_TOLD(unsigned char, 'u')
LAB_TOLD(unsigned short, 'u') LAB_TOLD(unsigned, 'u') LAB_TOLD(unsigned long, 'u')
LAB_TOLD(unsigned long long, 'u') LAB_TOLD(float, 'f') LAB_TOLD(double, 'f')
LAB_TOLD(lab_half_f16, 'f')

// The type of parameter K of a function.
template <int K, class F> struct lab_at;
template <class R, class P, class... Q> struct lab_at<0, R (*)(P, Q...)> { using type = P; };
template <int K, class R, class P, class... Q>
struct lab_at<K, R (*)(P, Q...)> { using type = typename lab_at<K - 1, R (*)(Q...)>::type; };
template <int K, class F> using lab_value = typename lab_plain<typename lab_at<K, F>::type>::type;
