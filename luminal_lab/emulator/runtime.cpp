// Runs a kernel's blocks one after another, the threads of a block as fibers on one CPU thread.
//
// A fiber runs threads to their end, one after another, as long as none waits. A thread that waits,
// at a barrier or for its warp, keeps its fiber, and the others continue in new ones. So a kernel
// without barriers never switches. If no thread can continue, some thread waits in vain, and that
// is reported.

#include <stdlib.h>
#include <string.h>
#include <time.h>
#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif

enum { FRESH, READY, AT_BARRIER, AT_WARP, DONE, AT_BYTES, ENDED };
enum {
    FINE, DIVERGED, FAULT, STOPPED, TOO_LONG, TOO_MANY, TRAPPED, NO_SHARED, NO_MEMORY, BAD_BARRIER,
    BAD_COPY, BAD_TILE, NOT_BEGUN, MISALIGNED, TOO_MUCH_STATIC, OUTSIDE_OWN, UNANNOUNCED, NOT_WAITED_FOR,
    BAD_REGISTERS
};
enum { LATE, EARLY };
enum { MOST_THREADS = 1024, STACK = 256 << 10, PAGE = 16384, SHARED_GAP = 1024 };
static const lab_address SHARED_BYTES = 1 << 20;
static const unsigned char UNWRITTEN = 0xff;  // NaN in floats

struct Fiber {
    lab_context context;
    char *stack;
    lab_address bytes;
    int must_start;  // it was left in the middle of something
};

struct Lane {
    Fiber *fiber;
    unsigned index[3];
    int state, line, kind, spaces, counted, has_left;
    unsigned mask;
    unsigned char payload[LAB_PAYLOAD];
    const unsigned char *answer;
};

struct Meeting {  // lanes of a warp that do an operation together
    unsigned mask, here;
    int kind, line, live;
};

struct Job {  // as in failing.py
    void (*entry)(void **);
    void **arguments;
    unsigned blocks[3], threads[3];
    lab_address dynamic_bytes[8];
    double limit, seconds;
    lab_address most_static, most_shared;    // the bytes of shared memory that a block may have
    lab_address static_bytes, shared_bytes;  // those declared with a size, and all
    lab_address fault;
    long long blocks_done;
    int waits_for_all;  // including threads that have returned
    int status, signal, is_store;
    int early_line;  // a barrier passed without such threads: line, count, block
    unsigned early_threads, early_block;
    unsigned alignment;  // the required alignment of the address
    unsigned order;      // when what is asynchronous is done: LATE, EARLY, or drawn by this seed
};

struct Place {
    char *at;
    lab_address bytes;
    const char *name;
    int line, element;
};

static Job *job;
static Lane lanes[MOST_THREADS];
static Lane *now;
static Meeting meetings[MOST_THREADS / 32][32];
static unsigned char answers[MOST_THREADS / 32][32][LAB_ANSWER];
static unsigned returned[MOST_THREADS / 32];  // the lanes of each warp that have returned
static Fiber fibers[MOST_THREADS + 1], *idle[MOST_THREADS + 1], *running;
static int idle_count, fiber_count;
static unsigned count, fresh, done, arrived;
static Lane *queue[MOST_THREADS];
static unsigned queue_first, queue_length;
static lab_context home;
static volatile int inside, stopping;
static char *shared_memory;
static lab_address shared_used;
static Place places[PLACES];  // the last ones get their size from the launch
static lab_runtime table;

[[noreturn]] static void escape(int status);
static void return_from_meetings();
static void make_ready(Lane *lane);

enum { TILE = 1024 };  // tiles in rows of 128 bytes begin at multiples of this

static lab_address rounded(lab_address bytes) { return (bytes + TILE - 1) & ~(lab_address)(TILE - 1); }

// Whether something asynchronous that is under way is done by now.
static unsigned drawn;
static int arrives() {
    if (job->order <= EARLY) return job->order == EARLY;
    drawn ^= drawn << 13, drawn ^= drawn >> 17, drawn ^= drawn << 5;
    return drawn % 4 == 0;
}

#include "watch.h"

static double seconds_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int is_complete() { return arrived == count - (job->waits_for_all ? 0 : done); }

// Let all threads at the barrier continue; the one that has just come may be among them.
static void open_barrier(Lane *me) {
    Lane *first = 0;
    for (unsigned k = 0; k < count; k++) {
        if (lanes[k].state != AT_BARRIER) continue;
        if (!first) first = &lanes[k];
        if (lanes[k].line != first->line) escape(DIVERGED);
    }
    // A thread at its end has gone past the barrier: CUDA requires that all threads reach it, or
    // none.
    for (unsigned k = 0; k < count; k++)
        if (lanes[k].state == ENDED) escape(DIVERGED);
    if (done && !job->early_line) {
        job->early_line = first->line, job->early_threads = done;
        job->early_block = (unsigned)job->blocks_done;
    }
    arrived = 0;
    barrier_watch(first->spaces);
    for (unsigned k = 0; k < count; k++) {
        if (lanes[k].state != AT_BARRIER) continue;
        if (&lanes[k] == me) me->state = READY;
        else make_ready(&lanes[k]);
    }
}

// -- who runs -------------------------------------------------------------------------------------

static void fiber_body(void);

static Fiber *idle_fiber() {
    if (idle_count) {
        Fiber *fiber = idle[--idle_count];
        if (fiber->must_start) {
#if defined(_WIN32)
            DeleteFiber(fiber->context);
#endif
            fiber->context = lab_fiber(fiber->stack, fiber->bytes, fiber_body);
            fiber->must_start = 0;
        }
        return fiber;
    }
    Fiber *fiber = &fibers[fiber_count];
#if !defined(_WIN32)
    fiber->stack = (char *)lab_map(STACK + PAGE);
    if (!fiber->stack) escape(NO_MEMORY);
    lab_forbid(fiber->stack, PAGE);
    // Stacks begin at different offsets in a page; otherwise all would compete for the same cache
    // lines.
    fiber->stack += PAGE;
#endif
    fiber->bytes = STACK - 192 * (fiber_count % 64);
    fiber->context = lab_fiber(fiber->stack, fiber->bytes, fiber_body);
    fiber_count++;
    return fiber;
}

static void run_as(Lane *lane) {
    now = lane;
    table.at_thread[0] = lane->index[0], table.at_thread[1] = lane->index[1];
    table.at_thread[2] = lane->index[2], table.number = (unsigned)(lane - lanes);
}

static void make_ready(Lane *lane) {
    lane->state = READY;
    queue[(queue_first + queue_length++) % MOST_THREADS] = lane;
}

static Lane *next_ready() {
    Lane *lane = queue[queue_first];
    queue_first = (queue_first + 1) % MOST_THREADS, queue_length--;
    return lane;
}

// Leave this thread until another has made it ready.
static void wait_here() {
    Lane *me = now;
    Fiber *fiber = running;
    if (stopping) escape(STOPPED);
    if (queue_length) {
        running = next_ready()->fiber;
        lab_switch(&fiber->context, running->context);
    } else if (fresh < count) {
        running = idle_fiber();
        lab_switch(&fiber->context, running->context);
    } else {
        escape(DIVERGED);
    }
    running = fiber;
    run_as(me);
}

static void fiber_body() {
    for (;;) {
        Fiber *me = running;
        while (fresh < count) {
            Lane *lane = &lanes[fresh++];
            lane->fiber = me;
            run_as(lane);
            if (stopping) escape(STOPPED);
            inside = 1;
            job->entry(job->arguments);
            inside = 0;
            now->state = now->has_left ? DONE : ENDED;
            done++;
            return_from_meetings();
            if (arrived && is_complete()) open_barrier(0);
        }
        idle[idle_count++] = me;
        if (queue_length) {
            running = next_ready()->fiber;
            lab_switch(&me->context, running->context);
        } else if (done == count) {
            lab_switch(&me->context, home);
        } else {
            escape(DIVERGED);
        }
    }
}

// Leave all fibers as they are, and return to the launch.
static void escape(int status) {
    inside = 0;
    job->status = status;
    lab_context lost;
    lab_switch(&lost, home);
    __builtin_unreachable();
}

// -- waiting for each other -----------------------------------------------------------------------

static void some_arrive();
static void barrier(int line, int spaces) {
    inside = 0;
    some_arrive();
    now->state = AT_BARRIER, now->line = line, now->spaces = spaces;
    arrived++;
    if (is_complete()) open_barrier(now);
    else wait_here();
    inside = 1;
}

static void finish_meeting(int kind, unsigned members, unsigned first, unsigned char *answer);

// Hand to each member what all have given, and let all continue.
static void meet(Meeting *meeting, unsigned warp, unsigned members) {
    // A lane that has not read an older answer is not a member, so nobody still reads this one.
    unsigned char *answer = answers[warp][__builtin_ctz(members)];
    meeting->live = 0;
    for (unsigned k = 0; k < 32; k++) {
        if (!(members >> k & 1)) continue;
        Lane *other = &lanes[32 * warp + k];
        memcpy(answer + k * LAB_PAYLOAD, other->payload, LAB_PAYLOAD);
        other->answer = answer;
        if (other != now) make_ready(other);
    }
    memcpy(answer + 32 * LAB_PAYLOAD, &members, sizeof members);
    finish_meeting(meeting->kind, members, 32 * warp, answer);
    warp_watch(warp, members, meeting->kind == LAB_OF_SYNC);
}

// The lanes of a warp that a mask names and that are waited for.
static unsigned members_of(unsigned warp, unsigned mask) {
    const unsigned there = count - 32 * warp, gone = job->waits_for_all ? 0 : returned[warp];
    return mask & (there >= 32 ? ~0u : (1u << there) - 1) & ~gone;
}

static const unsigned char *exchange(int kind, unsigned mask, const void *mine, int bytes, int line) {
    inside = 0;
    const unsigned number = (unsigned)(now - lanes), warp = number / 32, lane = number % 32;
    const unsigned members = members_of(warp, mask);
    now->state = AT_WARP, now->line = line, now->kind = kind, now->mask = mask;
    memcpy(now->payload, mine, (size_t)bytes);
    if (!(members >> lane & 1)) escape(DIVERGED);
    Meeting *meeting = 0, *room = 0;
    for (int k = 0; k < 32; k++) {
        Meeting *held = &meetings[warp][k];
        if (held->live && held->mask == mask) meeting = held;
        if (!held->live && !room) room = held;
    }
    if (!meeting) {
        meeting = room;
        *meeting = {mask, 0, kind, line, 1};
    } else if (meeting->kind != kind || meeting->line != line) {
        escape(DIVERGED);
    }
    meeting->here |= 1u << lane;
    if (meeting->here != members) {
        wait_here();
    } else {
        meet(meeting, warp, members);
        now->state = READY;
    }
    inside = 1;
    return now->answer;
}

// From Volta on, lanes that have returned are not waited for: the waiting ones may now be complete.
static void return_from_meetings() {
    const unsigned number = (unsigned)(now - lanes), warp = number / 32;
    returned[warp] |= 1u << number % 32;
    if (job->waits_for_all) return;
    for (int k = 0; k < 32; k++) {
        Meeting *meeting = &meetings[warp][k];
        const unsigned members = members_of(warp, meeting->mask);
        if (meeting->live && meeting->here == members) meet(meeting, warp, members);
    }
}

// -- what a whole warp computes at once -----------------------------------------------------------

static float value_of(int kind, unsigned word, unsigned half) {
    if (kind == LAB_OF_MMA_TF32) return lab_bits<float>(word & 0xffffe000);
    const unsigned short bits = (unsigned short)(half ? word >> 16 : word);
    return kind == LAB_OF_MMA_F16 ? lab_c::lab_cast_f16_f32(bits) : lab_c::lab_cast_bf16_f32(bits);
}

// mma.m16n8k16 and m16n8k8 of PTX: lane 4 g + t has rows g and g + 8 of a, and column g of b.
static void multiply(int kind, unsigned char *answer) {
    const unsigned halves = kind == LAB_OF_MMA_TF32 ? 1 : 2, depth = 8 * halves;
    float a[16][16], b[16][8];
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned words[6];
        memcpy(words, answer + lane * LAB_PAYLOAD, sizeof words);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned k = 0; k < 4; k++)
            for (unsigned h = 0; h < halves; h++)
                a[g + k % 2 * 8][t * halves + h + k / 2 * 4 * halves] = value_of(kind, words[k], h);
        for (unsigned k = 0; k < 2; k++)
            for (unsigned h = 0; h < halves; h++)
                b[t * halves + h + k * 4 * halves][g] = value_of(kind, words[4 + k], h);
    }
    for (unsigned row = 0; row < 16; row++) {
        float sum[8] = {0};
        for (unsigned k = 0; k < depth; k++)
            for (unsigned column = 0; column < 8; column++) sum[column] += a[row][k] * b[k][column];
        for (unsigned column = 0; column < 8; column++) {
            const unsigned lane = row % 8 * 4 + column / 2, place = row / 8 * 2 + column % 2;
            memcpy(answer + lane * LAB_PAYLOAD + 4 * place, &sum[column], 4);
        }
    }
}

#include "bulk.h"

static void finish_meeting(int kind, unsigned members, unsigned first, unsigned char *answer) {
    if (kind == LAB_OF_REGISTERS) change_registers(members, first, answer);
    else if (kind >= LAB_OF_GROUP) finish_group(kind, members, first, answer);
    if (kind < LAB_OF_MMA_F16 || kind > LAB_OF_MMA_TF32) return;
    if (members != ~0u) escape(DIVERGED);
    multiply(kind, answer);
}

// -- shared memory --------------------------------------------------------------------------------

// An array lies at a multiple of the alignment that it declares, and of no higher power of two.
static void *shared(int number, lab_address bytes, int element, unsigned alignment, const char *name, int line) {
    Place *place = &places[number];
    if (place->at) return place->at;
    inside = 0;
    if (number >= LAB_SIZED) bytes = job->dynamic_bytes[number - LAB_SIZED];
    else if ((job->static_bytes += bytes) > job->most_static) escape(TOO_MUCH_STATIC);
    const lab_address more = alignment < TILE ? alignment : 0, whole = rounded(more + bytes);
    job->shared_bytes += bytes;
    if (job->shared_bytes > job->most_shared) escape(NO_SHARED);
    if (shared_used + whole + 2 * SHARED_GAP > SHARED_BYTES) escape(NO_MEMORY);
    *place = {shared_memory + shared_used + SHARED_GAP + more, bytes, name, line, element};
    shared_used += whole + 2 * SHARED_GAP;
    memset(place->at, UNWRITTEN, bytes);
    place_watch(place);
    inside = 1;
    return place->at;
}

static void trap(int line) {
    now->line = line;
    escape(TRAPPED);
}

static void misaligned(const void *at, unsigned to, int is_write, int line, const void *from) {
    if (is_watched) {
        misaligned_watch(at, to, is_write, from);
        return;
    }
    now->line = line, job->fault = (lab_address)at, job->alignment = to, job->is_store = is_write;
    escape(MISALIGNED);
}

static void left() { now->has_left = 1; }

// Beyond a thread's own memory lies that of others: it cannot continue.
static void outside(int is_write, int line, const void *from) {
    if (is_watched) outside_watch(is_write, from);
    now->line = line, job->is_store = is_write;
    escape(OUTSIDE_OWN);
}

// -- what goes wrong in the middle of a kernel ------------------------------------------------------

#if !defined(_WIN32)

static pthread_t runner;
static volatile int is_running;
static struct sigaction before[5];
static const int SIGNALS[5] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGURG};

static void on_signal(int number, siginfo_t *info, void *) {
    const int mine = is_running && pthread_equal(pthread_self(), runner);
    if (number == SIGURG) {
        if (mine && stopping && inside) escape(STOPPED);
        return;
    }
    if (mine && inside) {
        job->signal = number, job->fault = (lab_address)info->si_addr;
        escape(FAULT);
    }
    for (int k = 0; k < 5; k++)  // it happens again, and goes to the previous handler
        if (SIGNALS[k] == number) sigaction(number, &before[k], 0);
}

static char alternate[64 << 10];

static void catch_faults() {
    stack_t stack = {};
    stack.ss_sp = alternate, stack.ss_size = sizeof alternate;
    sigaltstack(&stack, 0);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    runner = pthread_self();
    is_running = 1;
    for (int k = 0; k < 5; k++) sigaction(SIGNALS[k], &action, &before[k]);
}

static void leave_faults() {
    is_running = 0;
    for (int k = 0; k < 5; k++) sigaction(SIGNALS[k], &before[k], 0);
    stack_t stack = {};
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
}

static void interrupt() {
    if (is_running) pthread_kill(runner, SIGURG);
}

#else

static HANDLE runner;
static void *vectored;
static DWORD runner_id;
static volatile int is_running;

[[noreturn]] static void escape_fault() { escape(FAULT); }
[[noreturn]] static void escape_stopped() { escape(STOPPED); }

static void redirect(CONTEXT *context, void (*to)()) {
#if defined(__aarch64__)
    context->Pc = (DWORD64)to;
#else
    context->Rsp = (context->Rsp & ~15ull) - 136;  // as after a call
    context->Rip = (DWORD64)to;
#endif
}

static LONG CALLBACK on_exception(EXCEPTION_POINTERS *told) {
    const DWORD code = told->ExceptionRecord->ExceptionCode;
    const int known = code == EXCEPTION_ACCESS_VIOLATION || code == EXCEPTION_INT_DIVIDE_BY_ZERO ||
                      code == EXCEPTION_ILLEGAL_INSTRUCTION || code == EXCEPTION_INT_OVERFLOW;
    if (!known || !is_running || !inside || GetCurrentThreadId() != runner_id)
        return EXCEPTION_CONTINUE_SEARCH;
    const int memory = code == EXCEPTION_ACCESS_VIOLATION;
    job->signal = memory ? 11 : code == EXCEPTION_ILLEGAL_INSTRUCTION ? 4 : 8;
    job->fault = memory ? told->ExceptionRecord->ExceptionInformation[1] : 0;
    redirect(told->ContextRecord, escape_fault);
    return EXCEPTION_CONTINUE_EXECUTION;
}

static void catch_faults() {
    DuplicateHandle(GetCurrentProcess(), GetCurrentThread(), GetCurrentProcess(), &runner, 0, FALSE,
                    DUPLICATE_SAME_ACCESS);
    runner_id = GetCurrentThreadId();
    vectored = AddVectoredExceptionHandler(1, on_exception);
    is_running = 1;
}

static void leave_faults() {
    is_running = 0;
    RemoveVectoredExceptionHandler(vectored);
    CloseHandle(runner);
}

static void interrupt() {
    if (!is_running) return;
    SuspendThread(runner);
    if (inside) {
        CONTEXT context;
        context.ContextFlags = CONTEXT_CONTROL | CONTEXT_INTEGER;
        GetThreadContext(runner, &context);
        redirect(&context, escape_stopped);
        SetThreadContext(runner, &context);
    }
    ResumeThread(runner);
}

#endif

// -- a launch -------------------------------------------------------------------------------------

static void run_block() {
    fresh = done = arrived = queue_first = queue_length = 0;
    memset(meetings, 0, sizeof meetings);
    memset(places, 0, sizeof places);
    memset(returned, 0, sizeof returned);
    shared_used = 0, job->shared_bytes = job->static_bytes = 0, table.turn++;
    for (unsigned k = 0; k < count; k++) lanes[k].state = FRESH, lanes[k].line = lanes[k].has_left = 0;
    begin_block_watch();
    begin_block_bulk();
    drawn = (job->order + 1) * 2654435761u + (unsigned)job->blocks_done * 40503u;
    if (!drawn) drawn = 1;
    running = idle_fiber();
    lab_switch(&home, running->context);
    if (job->status == FINE || job->status == DIVERGED) end_block_bulk();
}

static void run_all() {
    const double start = seconds_now();
    const long long all = (long long)job->blocks[0] * job->blocks[1] * job->blocks[2];
    while (job->blocks_done < all && job->status == FINE) {
        const unsigned long long at = (unsigned long long)job->blocks_done;
        table.at_block[0] = (unsigned)(at % job->blocks[0]);
        table.at_block[1] = (unsigned)(at / job->blocks[0] % job->blocks[1]);
        table.at_block[2] = (unsigned)(at / job->blocks[0] / job->blocks[1]);
        run_block();
        if (job->status != FINE) break;
        job->blocks_done++;
        job->seconds = seconds_now() - start;
        // Once some blocks have run for a while, the total time is known well enough.
        const double whole = job->seconds / (double)job->blocks_done * (double)all;
        const double sure = job->limit / 20 < 1 ? job->limit / 20 : 1;
        if (job->blocks_done < all && job->seconds > sure && whole > job->limit)
            job->status = TOO_LONG;
    }
}

static volatile int guard;  // nothing interrupts a runner that has just ended

static void lock() {
    while (__atomic_exchange_n(&guard, 1, __ATOMIC_ACQUIRE)) {}
}

static void unlock() { __atomic_store_n(&guard, 0, __ATOMIC_RELEASE); }

LAB_EXPORT const lab_runtime *lab_table(void) {
    table.barrier = barrier, table.exchange = exchange, table.shared = shared;
    table.trap = trap, table.count = count_bytes, table.bulk = bulk;
    table.misaligned = misaligned, table.no_lane = no_lane_watch;
    table.outside = outside, table.left = left;
    table.touch = touch, table.enter = enter, table.leave = leave, table.fence = fence, table.pass_on = pass_on, table.arrives = arrives;
    return &table;
}

LAB_EXPORT int lab_launch(Job *given) {
    if (!shared_memory && !(shared_memory = (char *)lab_map(SHARED_BYTES))) return NO_MEMORY;
    job = given;
    table.shared_base = shared_memory;
    job->status = FINE, job->blocks_done = 0, job->seconds = 0, job->early_line = 0;
    count = job->threads[0] * job->threads[1] * job->threads[2];
    for (unsigned k = 0; k < count; k++) {
        lanes[k].index[0] = k % job->threads[0];
        lanes[k].index[1] = k / job->threads[0] % job->threads[1];
        lanes[k].index[2] = k / job->threads[0] / job->threads[1];
    }
    memcpy(table.block_size, job->threads, sizeof table.block_size);
    memcpy(table.grid_size, job->blocks, sizeof table.grid_size);
#if defined(_WIN32)
    home = ConvertThreadToFiber(0);
#endif
    lock();
    catch_faults();
    unlock();
    run_all();
    lock();
    leave_faults();
    unlock();
    if (job->status != FINE) {  // fibers stopped where they were
        for (idle_count = 0; idle_count < fiber_count; idle_count++) {
            idle[idle_count] = &fibers[idle_count];
            idle[idle_count]->must_start = 1;
        }
    }
#if defined(_WIN32)
    ConvertFiberToThread();
#endif
    return job->status;
}

// End the launch that runs in another thread, wherever it is.
LAB_EXPORT void lab_stop(void) {
    lock();
    stopping = 1;
    interrupt();
    unlock();
}

LAB_EXPORT void lab_clear(void) { stopping = 0; }

// The state of a thread, and the line, the operation and the mask that it waits with.
LAB_EXPORT void lab_lane(unsigned number, int *four) {
    const Lane *lane = &lanes[number];
    four[0] = lane->state, four[1] = lane->line, four[2] = lane->kind, four[3] = (int)lane->mask;
}

// The thread that ran last: its block, its position there as x, y and z, and its number.
LAB_EXPORT void lab_standing(unsigned *seven) {
    memcpy(seven, table.at_block, sizeof table.at_block);
    memcpy(seven + 3, table.at_thread, sizeof table.at_thread);
    seven[6] = table.number;
}

LAB_EXPORT const Event *lab_events(long long *given) {
    *given = event_count;
    return events;
}

LAB_EXPORT const Finding *lab_findings(int *given) {
    *given = finding_count;
    return findings;
}

// The bytes of an element of an array that the threads of a block share.
LAB_EXPORT int lab_element(int region) { return places[region - SHARED_REGION].element; }

LAB_EXPORT int lab_last_line(void) { return last_line; }
