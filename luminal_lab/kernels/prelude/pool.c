// Runs programs: a small pool of threads, and a function (execute.c) that goes through launches.
//
// The tasks of a phase are counted down in one 64-bit word, whose upper half counts phases: a
// thread that takes tasks with compare-and-swap knows that they belong to the present phase, which
// cannot end before they are done. So no thread has to check in, and a thread that wakes up
// late does no harm.
//
// Threads without work look for some for a while, so that successive runs find them awake, and then
// sleep. A phase of one task, or one marked as short, is run by the caller alone. Some systems put
// a thread that wakes up onto the core of the thread that woke it, and leave it there for longer
// than a phase takes (virtual machines that pack their cores do): on Linux the caller checks where
// each thread was last, and sends those elsewhere that would wait for its core, or for each
// other's. Ctrl-C sets a flag that is checked before each task, up to the launch from which inputs
// are overwritten; from there on the run is finished.
//
// It is compiled once, and not into each program: programs come as tables of launches (launch.h).

// -- the pool -------------------------------------------------------------------------------------

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <process.h>
#include <signal.h>
#include <stdlib.h>
typedef SRWLOCK lab_lock;
typedef CONDITION_VARIABLE lab_bell;
typedef HANDLE lab_thread;
#define lab_lock_new(lock) InitializeSRWLock(lock)
#define lab_bell_new(bell) InitializeConditionVariable(bell)
#define lab_lock_take(lock) AcquireSRWLockExclusive(lock)
#define lab_lock_give(lock) ReleaseSRWLockExclusive(lock)
#define lab_bell_wait(bell, lock) SleepConditionVariableSRW(bell, lock, INFINITE, 0)
#define lab_bell_ring(bell) WakeAllConditionVariable(bell)
#define lab_yield() SwitchToThread()
#define lab_process() ((lab_i64)GetCurrentProcessId())
#else
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
typedef pthread_mutex_t lab_lock;
typedef pthread_cond_t lab_bell;
typedef pthread_t lab_thread;
#define lab_lock_new(lock) pthread_mutex_init(lock, 0)
#define lab_bell_new(bell) pthread_cond_init(bell, 0)
#define lab_lock_take(lock) pthread_mutex_lock(lock)
#define lab_lock_give(lock) pthread_mutex_unlock(lock)
#define lab_bell_wait(bell, lock) pthread_cond_wait(bell, lock)
#define lab_bell_ring(bell) pthread_cond_broadcast(bell)
#define lab_yield() sched_yield()
static lab_i64 lab_this_process;         // asked for once, and again in a fork: a launch may be shorter
#define lab_process() lab_this_process
static void lab_forked(void) {
    lab_this_process = (lab_i64)getpid();
}
#endif

#if defined(__x86_64__) || defined(__i386__)
#define lab_pause() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define lab_pause() __asm__ volatile("yield")
#else
#define lab_pause() ((void)0)
#endif

#ifdef __linux__
#include <sys/syscall.h>
extern int sched_getcpu(void);           // which headers declare in some dialects of C only
extern long syscall(long number, ...);
#endif

#define LAB_SPINS 40000          // checks for work before a thread sleeps: about half a millisecond
#define LAB_POLITE 1000          // checks after which another thread may have the core
#define LAB_SLICE (1ll << 30)    // tasks that are counted down at once
#define LAB_SHARES 4             // the parts that a thread's share of what is left is taken in
#define lab_get(place) __atomic_load_n(place, __ATOMIC_SEQ_CST)
#define lab_set(place, value) __atomic_store_n(place, value, __ATOMIC_SEQ_CST)
#define lab_add(place, value) __atomic_add_fetch(place, value, __ATOMIC_SEQ_CST)

typedef struct {
    lab_function *function;
    void *const *buffers;
    const lab_i64 *dims;
    lab_i64 *fault;
    char *scratch;               // the memory of the caller, then that of each thread
    lab_i64 scratch_bytes;
    lab_i64 tasks, before;       // how many are counted down, and how many came before them
    lab_u32 step;
    int may_stop;
} lab_phase;

typedef struct lab_pool lab_pool;

#define LAB_CORES 1024
#define LAB_WORD (8 * (int)sizeof(unsigned long))
typedef struct {
    unsigned long words[LAB_CORES / (8 * sizeof(unsigned long))];
} lab_cores;

typedef struct {
    lab_pool *pool;
    int number;                  // from 1 up; the caller is 0
    int core;                    // its last core; LAB_ANY while it sleeps
    int sent, system_number;     // whether it was sent elsewhere, and the system's number for it
    lab_thread thread;
} lab_worker;
#define LAB_ANY (-1)

struct lab_pool {
    lab_u64 ticket __attribute__((aligned(64)));   // phases so far, and tasks not yet taken
    lab_u64 done __attribute__((aligned(64)));     // tasks of this phase that are done
    lab_phase phase __attribute__((aligned(64)));
    int sleepers, stop, cancelled;
    lab_i64 process;
    int threads, running;        // as requested, and as started, both with the caller
    lab_lock lock;
    lab_bell bell;
    lab_cores cores;             // where threads may run
    lab_worker workers[];
};

// -- cores ----------------------------------------------------------------------------------------

#ifdef __linux__
static void lab_look_at_cores(lab_pool *pool) {
    lab_cores none = {{0}};
    pool->cores = none;
    syscall(SYS_sched_getaffinity, 0, sizeof(lab_cores), &pool->cores);
}

// Notes where a thread is. One that was sent elsewhere has arrived, and is free to go again.
static void lab_note_core(lab_worker *worker) {
    lab_set(&worker->core, sched_getcpu());
    if (!worker->system_number) lab_set(&worker->system_number, (int)syscall(SYS_gettid));
    if (lab_get(&worker->sent)) {
        lab_set(&worker->sent, 0);
        syscall(SYS_sched_setaffinity, 0, sizeof(lab_cores), &worker->pool->cores);
    }
}

// Sends threads away that would wait for the caller's core, or for each other's.
static void lab_part(lab_pool *pool) {
    lab_cores left = pool->cores;
    int core = sched_getcpu();
    if (core >= 0 && core < LAB_CORES) left.words[core / LAB_WORD] &= ~(1ul << core % LAB_WORD);
    for (int k = 0; k < pool->running - 1; k++) {
        lab_worker *worker = &pool->workers[k];
        const int number = lab_get(&worker->system_number);
        core = lab_get(&worker->core);
        if (!number || core >= LAB_CORES) continue;
        if (core >= 0 && (left.words[core / LAB_WORD] >> core % LAB_WORD & 1)) {
            left.words[core / LAB_WORD] &= ~(1ul << core % LAB_WORD);
            continue;
        }
        syscall(SYS_sched_setaffinity, number, sizeof(lab_cores), &left);   // no core: no change
        lab_set(&worker->sent, 1);
    }
}
#else
static void lab_look_at_cores(lab_pool *pool) { (void)pool; }
static void lab_note_core(lab_worker *worker) { (void)worker; }
static void lab_part(lab_pool *pool) { (void)pool; }
#endif

// -- tasks ----------------------------------------------------------------------------------------

static void lab_do(lab_pool *pool, int number, lab_i64 task) {
    const lab_phase *phase = &pool->phase;
    if (phase->may_stop && lab_get(&pool->cancelled)) return;
    char *scratch = phase->scratch + number * phase->scratch_bytes;
    phase->function(phase->buffers, phase->dims, phase->step, phase->fault, task, scratch);
}

// Takes tasks, and does them: many at once while many are left, since threads that take one at a
// time wait for each other's count where tasks are short, and one at a time at the end.
static int lab_take(lab_pool *pool, int number) {
    lab_u64 ticket = lab_get(&pool->ticket);
    while ((lab_u32)ticket) {
        const lab_i64 left = (lab_u32)ticket, share = left / (LAB_SHARES * pool->threads);
        const lab_i64 count = share > 1 ? share : 1;
        if (__atomic_compare_exchange_n(&pool->ticket, &ticket, ticket - (lab_u64)count, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            const lab_phase *phase = &pool->phase;
            const lab_i64 first = phase->before + phase->tasks - left;
            for (lab_i64 task = first; task < first + count; task++) lab_do(pool, number, task);
            lab_add(&pool->done, (lab_u64)count);
            return 1;
        }
    }
    return 0;
}

static void lab_work(lab_worker *worker) {
    lab_pool *pool = worker->pool;
    while (!lab_get(&pool->stop)) {
        int spins = 0;
        lab_note_core(worker);
        while (lab_take(pool, worker->number)) {}
        while (spins < LAB_SPINS && !(lab_u32)lab_get(&pool->ticket)) {
            lab_pause();
            if (++spins % LAB_POLITE) continue;
            lab_yield();
            lab_note_core(worker);
        }
        if (spins < LAB_SPINS) continue;
        lab_lock_take(&pool->lock);
        lab_set(&worker->core, LAB_ANY);
        lab_add(&pool->sleepers, 1);
        while (!(lab_u32)lab_get(&pool->ticket) && !lab_get(&pool->stop))
            lab_bell_wait(&pool->bell, &pool->lock);
        lab_add(&pool->sleepers, -1);
        lab_lock_give(&pool->lock);
    }
}

#ifdef _WIN32
static unsigned __stdcall lab_begin(void *worker) {
    lab_work(worker);
    return 0;
}
static int lab_thread_new(lab_worker *worker) {
    worker->thread = (HANDLE)_beginthreadex(0, 0, lab_begin, worker, 0, 0);
    return worker->thread != 0;
}
static void lab_thread_join(lab_worker *worker) {
    WaitForSingleObject(worker->thread, INFINITE);
    CloseHandle(worker->thread);
}
static lab_i64 lab_now(void) {
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    return (lab_i64)((double)count.QuadPart * 1e9 / (double)rate.QuadPart);
}
#else
static void *lab_begin(void *worker) {
    lab_work(worker);
    return 0;
}
static int lab_thread_new(lab_worker *worker) {
    sigset_t all, before;        // signals are for other threads
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&worker->thread, 0, lab_begin, worker);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    return !failed;
}
static void lab_thread_join(lab_worker *worker) {
    pthread_join(worker->thread, 0);
}
static lab_i64 lab_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (lab_i64)now.tv_sec * 1000000000 + now.tv_nsec;
}
#endif

static void lab_begin_pool(lab_pool *pool) {
    lab_lock_new(&pool->lock);
    lab_bell_new(&pool->bell);
    pool->ticket = pool->done = 0;
    pool->sleepers = pool->stop = pool->cancelled = 0;
    pool->process = lab_process();
    pool->running = 1;
}

static void lab_start(lab_pool *pool) {
    lab_look_at_cores(pool);
    while (pool->running < pool->threads) {
        lab_worker *worker = &pool->workers[pool->running - 1];
        worker->pool = pool;
        worker->number = pool->running;
        worker->core = LAB_ANY;
        worker->sent = worker->system_number = 0;
        if (!lab_thread_new(worker)) {
            pool->threads = pool->running;   // as many as the system allows
            break;
        }
        pool->running++;
    }
}

static void lab_run_phase(lab_pool *pool, lab_i64 tasks, int alone) {
    lab_phase *phase = &pool->phase;
    if (tasks <= 1 || alone || pool->threads == 1) {
        for (lab_i64 task = 0; task < tasks; task++) lab_do(pool, 0, task);
        return;
    }
    if (pool->running < pool->threads) lab_start(pool);
    lab_part(pool);
    for (phase->before = 0; phase->before < tasks; phase->before += phase->tasks) {
        const lab_i64 left = tasks - phase->before;
        phase->tasks = left < LAB_SLICE ? left : LAB_SLICE;
        lab_set(&pool->done, 0);
        lab_set(&pool->ticket, ((lab_get(&pool->ticket) >> 32) + 1) << 32 | (lab_u64)phase->tasks);
        if (lab_get(&pool->sleepers)) {
            lab_lock_take(&pool->lock);
            lab_bell_ring(&pool->bell);
            lab_lock_give(&pool->lock);
        }
        while (lab_take(pool, 0)) {}
        // The thread with the last task may be waiting for this core.
        for (int spins = 1; lab_get(&pool->done) != (lab_u64)phase->tasks; spins++) {
            if (spins % LAB_POLITE) lab_pause();
            else lab_yield();
        }
    }
}

// -- Ctrl-C ---------------------------------------------------------------------------------------

static int *volatile lab_watched;    // the flag that a signal sets

static void lab_signalled(int number) {
    int *flag = lab_watched;
    (void)number;
    if (flag) lab_set(flag, 1);
}

#ifdef _WIN32
typedef void (*lab_before)(int);
static int lab_watch(lab_before *before, int *flag) {
    lab_watched = flag;
    *before = signal(SIGINT, lab_signalled);
    if (*before != SIG_DFL && *before != SIG_IGN && *before != SIG_ERR) return 1;
    signal(SIGINT, *before == SIG_ERR ? SIG_DFL : *before);
    return 0;
}
static void lab_unwatch(lab_before *before) {
    signal(SIGINT, *before);
    lab_watched = 0;
}
#else
typedef struct sigaction lab_before;
static int lab_watch(lab_before *before, int *flag) {
    struct sigaction action = {0};
    action.sa_handler = lab_signalled;
    sigemptyset(&action.sa_mask);
    lab_watched = flag;
    if (sigaction(SIGINT, &action, before)) return 0;
    if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) return 1;
    sigaction(SIGINT, before, 0);    // nobody waits for it
    return 0;
}
static void lab_unwatch(lab_before *before) {
    sigaction(SIGINT, before, 0);
    lab_watched = 0;
}
#endif
