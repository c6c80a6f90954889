/* The child process in which kernels run that nobody trusts yet.

       trial <program> <memory> <commands> <answers> <seconds> <bytes>

   The first process sets the limits and becomes <program>, which is this file again, built with the
   sanitizers that are available. <memory> is a file that the parent has also mapped. It begins with
   numbers (struct told) and has each array at pages of its own. Here every array ends just before a
   page that nobody may touch, and begins less than a page after another one.

   A command is four numbers; the answer is one, or the process dies, having noted where it was. An
   answer below 0 means that a kernel left something behind: a process, a rounding mode, files. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/personality.h>
#include <sys/prctl.h>
#include <ucontext.h>
#endif

LAB_POOL

/* What both processes know; the order is that of trial.py. Places are counted in numbers. */
typedef struct {
    lab_i64 areas, areas_at;         /* offset, pages' bytes, bytes, writable, address: of each */
    lab_i64 values, values_at;       /* area and offset of each of the program's values */
    lab_i64 launches, launches_at;   /* numbers of launches, as 32 bits each */
    lab_i64 tasks_at, dims_at;
    lab_i64 writes_at;               /* where each launch's list of areas begins, and one more */
    lab_i64 written_at;
    lab_i64 scratch, scratch_bytes;  /* an area or -1, and the bytes of each thread */
    lab_i64 threads, step, no_return;
    lab_i64 seconds_at;              /* nanoseconds of each round */
    lab_i64 guard;
    /* What the child tells. */
    lab_i64 begun, launch, phase, task, fault, signal, address, access, left;
} told;
enum { OFFSET, PAGES, BYTES, WRITABLE, ADDRESS, EACH };
enum { UNKNOWN, READ, WRITE };
enum { RUN = 1, TIME = 2 };
enum { NOTHING, PROCESS, ROUNDING, FILES };    /* what a kernel has left behind */

#define EXPORTED __attribute__((visibility("default"), used))
extern void __asan_poison_memory_region(void const volatile *, size_t) __attribute__((weak));
EXPORTED const char *__asan_default_options(void) {
    return "detect_leaks=0:exitcode=86:abort_on_error=0:handle_abort=1:allocator_may_return_null=0:"
           "detect_stack_use_after_return=0:max_malloc_fill_size=4096:print_legend=0:"
           "handle_sigfpe=1:handle_sigill=1:handle_sigbus=1:color=never";
}
EXPORTED const char *__ubsan_default_options(void) {
    return "print_stacktrace=1:halt_on_error=1:exitcode=87:color=never";
}

static volatile lab_i64 *numbers;
static told *shared;

/* -- dying -------------------------------------------------------------------------------------- */

#if LAB_CHECKED < 2
static char other_stack[1 << 16];

static void died(int number, siginfo_t *info, void *context) {
    shared->signal = number;
    shared->address = (lab_i64)(intptr_t)info->si_addr;
#if defined(__linux__) && defined(__x86_64__)
    if (number == SIGSEGV || number == SIGBUS)
        shared->access = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? WRITE : READ;
#endif
    (void)context;
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(void) {
    const int numbers_[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    stack_t stack = {0};
    struct sigaction action;
    stack.ss_sp = other_stack;
    stack.ss_size = sizeof other_stack;
    sigaltstack(&stack, 0);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = died;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (unsigned k = 0; k < sizeof numbers_ / sizeof *numbers_; k++)
        sigaction(numbers_[k], &action, 0);
}
#else
static void watch(void) {}
#endif

static void fail(const char *what, const char *why) {
    fprintf(stderr, "trial: %s: %s\n", what, why);
    _exit(85);
}

/* -- limits ------------------------------------------------------------------------------------- */

static void limit(int kind, lab_i64 most) {
    struct rlimit given;
    if (getrlimit(kind, &given)) return;
    if (given.rlim_max != RLIM_INFINITY && (rlim_t)most > given.rlim_max) most = given.rlim_max;
    given.rlim_cur = given.rlim_max = (rlim_t)most;
    setrlimit(kind, &given);
}

static void become(char **given) {
    const lab_i64 seconds = atoll(given[5]), bytes = atoll(given[6]);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 64 << 20);
    if (seconds > 0) limit(RLIMIT_CPU, seconds);
    if (bytes > 0) limit(RLIMIT_AS, bytes);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    personality(ADDR_NO_RANDOMIZE);    /* if addresses are too random, a sanitizer finds no room */
#endif
    char *program = given[1];
    given[1] = "-";
    execv(program, given);
    fail(program, strerror(errno));
}

/* -- arrays ------------------------------------------------------------------------------------- */

static void map(int file) {
    const lab_i64 guard = shared->guard;
    for (lab_i64 k = 0; k < shared->areas; k++) {
        volatile lab_i64 *area = numbers + shared->areas_at + k * EACH;
        const lab_i64 size = area[PAGES];
        char *room = mmap(0, guard + size + guard, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
        if (room == MAP_FAILED) fail("no memory", strerror(errno));
        room += guard;
        if (size) {
            const int how = PROT_READ | (area[WRITABLE] ? PROT_WRITE : 0);
            if (mmap(room, size, how, MAP_SHARED | MAP_FIXED, file, area[OFFSET]) == MAP_FAILED)
                fail("no memory", strerror(errno));
            if (__asan_poison_memory_region && size > area[BYTES])
                __asan_poison_memory_region(room, size - area[BYTES]);
        }
        area[ADDRESS] = (lab_i64)(intptr_t)(room + size - area[BYTES]);
    }
}

static void protect(lab_i64 area, int how) {
    volatile lab_i64 *room = numbers + shared->areas_at + area * EACH;
    char *end = (char *)(intptr_t)(room[ADDRESS] + room[BYTES]);
    if (room[PAGES]) mprotect(end - room[PAGES], room[PAGES], how);
}

/* Lets a launch write its results, and nothing else. */
static void open_for(lab_i64 at, int how) {
    if (!shared->writes_at) return;
    volatile lab_i64 *range = numbers + shared->writes_at + at;
    for (lab_i64 k = range[0]; k < range[1]; k++) protect(numbers[shared->written_at + k], how);
}

/* -- running ------------------------------------------------------------------------------------ */

typedef void tries(lab_run *, lab_i64, lab_i64, volatile lab_i64 *);
static tries *try;
static const lab_program *program;
static lab_pool *pool;
static lab_run run;

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("the library cannot be loaded", dlerror());
    try = (tries *)dlsym(library, "lab_tried");
    if (try) return;
    program = dlsym(library, "lab_main");
    if (!program) fail("the library has no program", path);
    pool = lab_open((int)shared->threads);
    if (!pool) fail("no memory", "a pool of threads");
}

static void prepare(void) {
    void **values = calloc(shared->values ? shared->values : 1, sizeof *values);
    if (!values) fail("no memory", "a list of values");
    for (lab_i64 k = 0; k < shared->values; k++) {
        volatile lab_i64 *value = numbers + shared->values_at + 2 * k;
        if (value[0] < 0) continue;
        volatile lab_i64 *area = numbers + shared->areas_at + value[0] * EACH;
        values[k] = (char *)(intptr_t)(area[ADDRESS] + value[1]);
    }
    run.values = values;
    run.dims = (const lab_i64 *)numbers + shared->dims_at;
    run.launches = (const lab_i32 *)((const lab_i64 *)numbers + shared->launches_at);
    run.tasks = (const lab_i64 *)numbers + shared->tasks_at;
    run.scratch_bytes = shared->scratch_bytes;
    run.no_return = shared->no_return;
    if (shared->scratch >= 0) {
        volatile lab_i64 *area = numbers + shared->areas_at + shared->scratch * EACH;
        run.scratch = (char *)(intptr_t)area[ADDRESS];
    }
}

/* How floats are rounded, and which of their exceptions end a process. */
static lab_i64 rounding(void) {
#if defined(__SSE__)
    return __builtin_ia32_stmxcsr() & ~0x3f;
#elif defined(__aarch64__)
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (lab_i64)mode;
#else
    return 0;
#endif
}

static pid_t own;
static lab_i64 rounded;

static lab_i64 left_behind(void) {
    siginfo_t info;
    if (getpid() != own) _exit(0);             /* the process that was started has come back */
    if (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) return PROCESS;
    return rounding() == rounded ? NOTHING : ROUNDING;
}

static lab_i64 runs(lab_i64 first, lab_i64 last, lab_i64 backwards) {
    run.fault = 0;
    run.step = (lab_u32)shared->step;
    for (lab_i64 at = first; at < last; at++) {
        shared->launch = at;
        shared->phase = shared->task = 0;
        open_for(at, PROT_READ | PROT_WRITE);
        if (try) try(&run, at, backwards, &shared->phase);
        else lab_execute(pool, program, &run, at, at + 1);
        open_for(at, PROT_READ);
        shared->left = left_behind();
        if (shared->left) return -1;
        if (run.fault) {
            shared->fault = run.fault;
            return at - first;
        }
    }
    return last - first;
}

static lab_i64 times(lab_i64 first, lab_i64 last, lab_i64 rounds) {
    if (!program) return 0;          /* a library that notes each task is not timed */
    run.step = (lab_u32)shared->step;
    for (lab_i64 k = 0; k < rounds; k++) {
        const lab_i64 start = lab_now();
        shared->launch = first;
        lab_execute(pool, program, &run, first, last);
        numbers[shared->seconds_at + k] = lab_now() - start;
    }
    return rounds;
}

static int take(int from, void *to, size_t size) {
    for (char *at = to; size;) {
        const ssize_t count = read(from, at, size);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return 0;
        at += count;
        size -= count;
    }
    return 1;
}

int main(int count, char **given) {
    if (count < 8) {                 /* it can be started; now test its checks */
        if (LAB_CHECKED == 2 && !__asan_poison_memory_region) return 1;
        return LAB_CHECKED ? 1 << (count + 31) : 0;
    }
    if (strcmp(given[1], "-")) become(given);
    const int file = atoi(given[2]), commands = atoi(given[3]), answers = atoi(given[4]);
    const lab_i64 size = lseek(file, 0, SEEK_END);
    void *all = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (all == MAP_FAILED) fail("no memory", strerror(errno));
    numbers = all;
    shared = all;
    watch();
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1);          /* what a kernel starts stays below this one */
#endif
    own = getpid();
    rounded = rounding();
    map(file);
    load(given[7]);
    prepare();
    close(file);
    shared->begun = 1;
    lab_i64 command[4];
    while (take(commands, command, sizeof command)) {
        const lab_i64 answer = command[0] == RUN ? runs(command[1], command[2], command[3])
                                                 : times(command[1], command[2], command[3]);
        if (write(answers, &answer, sizeof answer) != sizeof answer) break;
    }
    shared->left = FILES;                      /* otherwise nobody reads this any more */
    return 0;
}
