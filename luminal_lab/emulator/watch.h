// Watches each access of a traced kernel: out of bounds, of unwritten data, or racing with another.
//
// A cell is the smallest unit of a buffer's elements (a byte in shared memory). It remembers its
// last write and two reads by different threads since: the next thread meets one that is not its
// own. Two accesses are ordered by a barrier between them, within a warp by a sync of its lanes,
// between blocks by a fence and an atomic that both have done; otherwise they race.
//
// Ordinary accesses go one way to memory, bulk copies and products of four warps another. What a
// thread wrote before is known there if, between the two, its thread or theirs says so by a fence.

#include <stdlib.h>
#include <string.h>

enum { OUTSIDE, UNWRITTEN_READ, RACE, OFF_ALIGNMENT, CONSTANT_WRITTEN, NO_LANE, UNFENCED };
enum { NOWHERE = -1 };
enum { MOST_FINDINGS = 256, DEPTH = 64, SHARED_REGION = 1000, LAST_FENCES = 8 };

struct Region {
    char *low, *at, *high;  // addresses between low and high are attributed to this buffer
    lab_address bytes;
    unsigned char *written;  // for each cell whether it was written; none if all data is given
    int element, is_constant;
};

struct Seen {
    unsigned block, epoch, clock;  // 0 for none; else one more than the block's number
    unsigned arrivals;             // how often the thread had arrived at counting barriers
    unsigned fences;               // how many fences it had passed for copies and products
    int line;
    unsigned short thread;
    unsigned char kind, counted;  // of landed data: its barrier, with its phase in `clock`
};

struct Cell {
    Seen writer, readers[2];
};

struct Finding {
    int kind, region, line, other_line, is_write, is_other_write;  // 2: by an asynchronous copy
    unsigned block, other_block, thread, other_thread;
    long long offset, bytes, length, count;
    char name[64];
};

struct Event {
    long long offset;
    unsigned block, sync, pc;
    int line;
    unsigned short thread, bytes;
    short region;
    unsigned char kind, pad;
    unsigned phase, launch;  // the launch is set when several are joined
};

struct Line {
    const char *at;
    long long line;
};

struct Clocks {
    unsigned sync;  // how often this thread has met others
    unsigned clock, known[32];  // of the lanes of its warp: the clock before which all is over
    unsigned landed[64];  // phases known to be over, for each barrier that counts bytes
    int fenced, depth;
    const char *callers[DEPTH];
};

static Region *regions;
static Cell **cells, *shared_cells;
static unsigned char *shared_written;
static int region_count, is_watched;
static int *line_of;
static const char *text_low, *text_high;
static Event *events;
static long long event_count, event_room, most_events;
static Finding findings[MOST_FINDINGS];
static int finding_count;
static Clocks clocks[MOST_THREADS];
static unsigned epochs[2];  // of shared memory, and of the device's
// How often each thread has arrived at a counting barrier, and what it knows about all others; what
// the threads that arrived at a barrier know, and the same for its last phase.
static unsigned arrivals[MOST_THREADS], known_of[MOST_THREADS][MOST_THREADS];
static unsigned released[64][MOST_THREADS], released_last[64][MOST_THREADS];
static int has_arrivals;
// A thread's fences for copies and products: how many, when the last ones were, and what it knew at
// the very last; and the epoch before which all writes have been made known to all.
struct Fences { unsigned number, epoch, known[32]; Seen last[LAST_FENCES]; };
static Fences fences[MOST_THREADS];
static unsigned known_at_fence[MOST_THREADS][MOST_THREADS], passed_on;
static int has_fences;
static unsigned phase;  // how many barriers all threads of the block have passed
static unsigned char *acquired;
static struct Release { const void *at; unsigned block; } *releases;  // by fences, at atomics
static long long release_count, release_room;
static int last_line;
static unsigned flat_block;

static int line_at(const char *pc) {
    return pc > text_low && pc <= text_high ? line_of[pc - text_low] : 0;
}

// The kernel's line for an access; in a stand-in, the line that called it.
static int line_behind(const char *pc, const Clocks *mine) {
    int line = line_at(pc);
    for (int depth = mine->depth - 1; line == 0 && depth >= 0; depth--)
        if (depth < DEPTH) line = line_at(mine->callers[depth]);
    return line;
}

// An access, or a part of one: its array and offset; space 0 is shared memory.
struct Access {
    int kind, line, region, space, element;
    long long offset;
    lab_address bytes, length;
    const char *name;
    Cell *cells;
    unsigned char *written;
};

// A known finding is only counted; a new one is returned.
static Finding *finding(int kind, const Access &access, int other_line = 0) {
    for (int k = 0; k < finding_count; k++) {
        Finding *f = &findings[k];
        const int same = f->line == access.line && f->other_line == other_line;
        const int turned = f->line == other_line && f->other_line == access.line;
        if (f->kind == kind && f->region == access.region && (same || turned)) {
            f->count++;
            return 0;
        }
    }
    if (finding_count == MOST_FINDINGS) return 0;
    Finding *f = &findings[finding_count++];
    memset(f, 0, sizeof *f);
    f->kind = kind, f->region = access.region, f->line = access.line, f->other_line = other_line;
    f->count = 1, f->block = flat_block, f->thread = table.number, f->offset = access.offset;
    f->bytes = (long long)access.bytes, f->length = (long long)access.length;
    f->is_write = access.kind != LAB_READ && access.kind != LAB_STILL;
    if (access.name) strncpy(f->name, access.name, sizeof f->name - 1);
    return f;
}

// Find the array of an address, if any; addresses close to an array are attributed to it.
static int locate(const char *at, Access *access) {
    const int is_shared = at >= shared_memory && at < shared_memory + SHARED_BYTES;
    for (int k = 0; is_shared && k < PLACES; k++) {
        const Place *p = &places[k];
        if (!p->at || at < p->at - SHARED_GAP || at >= p->at + rounded(p->bytes) + SHARED_GAP) continue;
        const long long start = p->at - shared_memory;
        access->region = SHARED_REGION + k, access->space = 0, access->element = 1;
        access->offset = at - p->at, access->length = p->bytes, access->name = p->name;
        access->cells = shared_cells + start, access->written = shared_written + start;
        return 1;
    }
    for (int k = 0; k < region_count; k++) {
        const Region *r = &regions[k];
        if (at < r->low || at >= r->high) continue;
        access->region = k, access->space = 1, access->element = r->element;
        access->offset = at - r->at, access->length = r->bytes, access->name = 0;
        access->cells = cells[k], access->written = r->written;
        return 1;
    }
    return 0;
}

// Make room for one more entry.
template <class T> static void make_room(T *&all, long long count_of, long long *room, int status) {
    if (count_of < *room) return;
    *room = *room ? 2 * *room : 256;
    T *grown = (T *)realloc(all, (size_t)*room * sizeof(T));
    if (!grown) escape(status);
    all = grown;
}

// Whether another thread's access is over for this one, which knows these things.
static int is_over(const Seen *seen, unsigned epoch, const unsigned *arrived_of, const unsigned *lanes) {
    if (seen->epoch < epoch || seen->arrivals < arrived_of[seen->thread]) return 1;
    return seen->thread / 32 == table.number / 32 && seen->clock < lanes[seen->thread % 32];
}

static int is_ordered(const Seen *seen, int space, const Clocks *mine) {
    if (seen->block == 0) return 1;
    if (seen->block - 1 != flat_block) return acquired[seen->block - 1];
    if (seen->kind == LAB_FLYING) return 0;
    if (seen->kind == LAB_LANDED) return mine->landed[seen->counted] > seen->clock;
    if (seen->thread == table.number) return 1;
    return is_over(seen, epochs[space], known_of[table.number], mine->known);
}

static void meet_seen(const Seen *seen, const Access &access) {
    if (seen->kind == LAB_ATOMIC && access.kind == LAB_ATOMIC) return;
    if (is_ordered(seen, access.space, &clocks[table.number])) return;
    Finding *f = finding(RACE, access, seen->line);
    if (!f) return;
    f->other_block = seen->block - 1, f->other_thread = seen->thread;
    const int is_copy = seen->kind == LAB_FLYING || seen->kind == LAB_LANDED;
    f->is_other_write = is_copy ? 2 : seen->kind != LAB_READ;
}

// For data that lands in shared memory: its barrier, and the phase.
static int landing_at;
static unsigned landing_in;

static Seen seen_now(int space, int line, int kind) {
    const unsigned me = table.number;
    return {flat_block + 1, epochs[space], clocks[me].clock, arrivals[me], fences[me].number, line,
            (unsigned short)me, (unsigned char)kind, 0};
}

static void visit(Cell *cell, const Access &access) {
    const Clocks *mine = &clocks[table.number];
    Seen me = seen_now(access.space, access.line, access.kind);
    if (access.kind == LAB_LANDED) {  // threads that came in between have met it in flight
        me.counted = (unsigned char)landing_at, me.clock = landing_in;
        cell->writer = me;
        return;
    }
    meet_seen(&cell->writer, access);
    if (access.kind == LAB_COUNTED) return;
    if (access.kind == LAB_READ) {
        Seen *readers = cell->readers;
        const int second = !(readers[0].block == me.block && readers[0].thread == me.thread) &&
                           !is_ordered(&readers[0], access.space, mine);
        readers[second] = me;
        return;
    }
    for (int k = 0; k < 2; k++) meet_seen(&cell->readers[k], access);
    // A plain write by a thread still races with others' atomics, even after an atomic of its own.
    const Seen *last = &cell->writer;
    if (access.kind == LAB_ATOMIC && last->kind == LAB_WRITE && last->block == me.block &&
        last->thread == me.thread && last->epoch == me.epoch && last->clock == me.clock &&
        last->arrivals == me.arrivals)
        return;
    cell->writer = me;
}

static void note(const Access &access, const char *pc) {
    if (event_count >= most_events) escape(TOO_MANY);
    make_room(events, event_count, &event_room, TOO_MANY);
    const int kind = access.kind;
    Event *e = &events[event_count++];
    e->offset = access.offset, e->block = flat_block, e->sync = clocks[table.number].sync;
    e->pc = (unsigned)(pc - text_low), e->line = access.line, e->thread = (unsigned short)table.number;
    e->bytes = (unsigned short)access.bytes, e->region = (short)access.region;
    e->kind = kind == LAB_LANDED ? LAB_WRITE : kind == LAB_COUNTED ? LAB_ATOMIC : (unsigned char)kind;
    e->pad = 0, e->phase = phase, e->launch = 0;
}

// Note an access, and look at each cell of it.
static void look(Access access, const char *pc) {
    if (access.offset < 0 || (lab_address)access.offset + access.bytes > access.length) {
        finding(OUTSIDE, access);
        return;
    }
    const int is_begun = access.kind == LAB_BEGUN || access.kind == LAB_FLYING;
    const int is_still = access.kind == LAB_STILL;
    if (access.kind == LAB_BEGUN) access.kind = LAB_WRITE;
    if (is_still) access.kind = LAB_READ;
    if (!is_begun && !is_still) note(access, pc);
    const int kind = access.kind, looks = kind == LAB_READ || kind == LAB_ATOMIC || kind == LAB_COUNTED;
    const long long first = access.offset / access.element;
    const long long last = (access.offset + (long long)access.bytes - 1) / access.element;
    for (long long cell = first; cell <= last; cell++) {
        access.offset = cell * access.element;
        if (access.written && looks && !access.written[cell]) {
            Finding *f = finding(UNWRITTEN_READ, access);
            if (f) f->is_write = 0;
        }
        if (access.written && kind != LAB_READ && kind != LAB_COUNTED && !is_begun) access.written[cell] = 1;
        visit(&access.cells[cell], access);
    }
}

// Record a finding at a position in the code, wherever the data is in memory.
static Access access_from(int kind, lab_address bytes, const void *from) {
    Access access = {kind, line_behind((const char *)from, &clocks[table.number]), NOWHERE};
    access.bytes = bytes;
    return access;
}

// What the compiler's check has found about an address before its use.
static void misaligned_watch(const void *at, unsigned to, int is_write, const void *from) {
    if (!inside) return;
    Access access = access_from(is_write ? LAB_WRITE : LAB_READ, to, from);
    locate((const char *)at, &access);  // or it is in a thread's own memory
    finding(OFF_ALIGNMENT, access);
}

static void outside_watch(int is_write, const void *from) {
    finding(OUTSIDE, access_from(is_write ? LAB_WRITE : LAB_READ, 0, from));
}

// A thread asks for the value of a lane that gave none.
static void no_lane_watch(unsigned lane, int, const void *from) {
    if (!is_watched) return;
    Access access = access_from(LAB_READ, 0, from);
    access.offset = lane;
    Finding *f = finding(NO_LANE, access);
    if (f) f->other_thread = (table.number & ~31u) + lane, f->other_block = flat_block;
}

// Blocks that meet at an atomic know what came before the fence of the earlier one.
static void meet_blocks(const void *at) {
    for (long long k = 0; k < release_count; k++)
        if (releases[k].at == at && releases[k].block != flat_block) acquired[releases[k].block] = 1;
    if (!clocks[table.number].fenced) return;
    make_room(releases, release_count, &release_room, NO_MEMORY);
    releases[release_count++] = {at, flat_block};
}

// The compiler calls this before each access; the stack and the library's own data are ignored.
static void touch(const void *at, unsigned bytes, int kind, const void *from) {
    if (!is_watched || !inside || !bytes) return;
    inside = 0;
    if (stopping) escape(STOPPED);
    Access access = {kind};
    access.bytes = bytes;
    if (locate((const char *)at, &access)) {
        access.line = last_line = line_behind((const char *)from, &clocks[table.number]);
        look(access, (const char *)from);
        const int is_const = access.space && regions[access.region].is_constant;
        if (is_const && kind != LAB_READ && kind != LAB_STILL) finding(CONSTANT_WRITTEN, access);
        if (access.space && kind == LAB_ATOMIC) meet_blocks(at);
    }
    inside = 1;
}

// Whether a copy or product of this thread knows what was written there.
static int is_passed_on(const Seen *seen, int space) {
    if (seen->block - 1 != flat_block || (seen->kind != LAB_WRITE && seen->kind != LAB_ATOMIC)) return 1;
    if (!is_ordered(seen, space, &clocks[table.number])) return 1;  // a race, which is found as such
    if (space) return 0;  // our fences are for shared memory
    const Fences *theirs = &fences[seen->thread], *mine = &fences[table.number];
    const unsigned since = theirs->number - seen->fences;
    if (since > LAST_FENCES || seen->epoch < passed_on) return 1;
    if (since && is_ordered(&theirs->last[seen->fences % LAST_FENCES], 0, &clocks[table.number])) return 1;
    if (seen->thread == table.number || !mine->number) return 0;
    return is_over(seen, mine->epoch, known_at_fence[table.number], mine->known);
}

// A copy or product of a thread reads or writes this, or arrives there.
static void touch_units(unsigned thread, const void *at, int bytes, int is_write, const void *from) {
    if (!is_watched) return;
    const unsigned before = table.number;
    table.number = thread;
    Access access = access_from(is_write ? LAB_WRITE : LAB_READ, (lab_address)bytes, from);
    if (locate((const char *)at, &access) && access.offset >= 0 &&
        (lab_address)access.offset + access.bytes <= access.length) {
        const long long first = access.offset / access.element;
        for (long long cell = first; cell <= (access.offset + bytes - 1) / access.element; cell++) {
            const Seen *seen = &access.cells[cell].writer;
            if (is_passed_on(seen, access.space)) continue;
            access.offset = cell * access.element;
            Finding *f = finding(UNFENCED, access, seen->line);
            if (f) f->other_block = flat_block, f->other_thread = seen->thread;
        }
    }
    table.number = before;
}

static void pass_on() {
    if (!is_watched) return;
    const unsigned me = table.number;
    Fences *mine = &fences[me];
    mine->last[mine->number++ % LAST_FENCES] = seen_now(0, 0, LAB_WRITE);
    mine->epoch = epochs[0], has_fences = 1;
    memcpy(mine->known, clocks[me].known, sizeof mine->known);
    memcpy(known_at_fence[me], known_of[me], sizeof known_of[me]);
}

// Record a landed copy as seen by other threads that have waited at its barrier.
static void touch_landed(unsigned thread, const void *at, int bytes, int barrier, unsigned phase_of,
                         const void *from) {
    const unsigned before = table.number;
    table.number = thread, landing_at = barrier, landing_in = phase_of, inside = 1;
    touch(at, (unsigned)bytes, LAB_LANDED, from);
    table.number = before, inside = 0;
}

static void join(unsigned *known, const unsigned *other, unsigned many) {
    for (unsigned k = 0; k < many; k++)
        if (other[k] > known[k]) known[k] = other[k];
}

static void arrive_watch(int barrier) {
    if (!is_watched) return;
    has_arrivals = 1;
    known_of[table.number][table.number] = ++arrivals[table.number];
    join(released[barrier], known_of[table.number], count);
}

static void over_watch(int barrier) {
    if (is_watched) memcpy(released_last[barrier], released[barrier], sizeof released[barrier]);
}

static void landed_watch(int barrier, unsigned phases) {
    if (!is_watched) return;
    clocks[table.number].landed[barrier] = phases;
    join(known_of[table.number], released_last[barrier], count);
}

static void enter(const void *from) {
    Clocks *mine = &clocks[table.number];
    if (mine->depth < DEPTH) mine->callers[mine->depth] = (const char *)from;
    mine->depth++;
}

static void leave() {
    Clocks *mine = &clocks[table.number];
    if (mine->depth) mine->depth--;
}

static void fence() { clocks[table.number].fenced = 1; }

static void begin_block_watch() {
    if (!is_watched) return;
    flat_block = (table.at_block[2] * table.grid_size[1] + table.at_block[1]) * table.grid_size[0] + table.at_block[0];
    epochs[0] = epochs[1] = 1, phase = 0;
    memset(clocks, 0, sizeof clocks);
    if (has_arrivals) {
        memset(arrivals, 0, sizeof arrivals), memset(known_of, 0, sizeof known_of);
        memset(released, 0, sizeof released), memset(released_last, 0, sizeof released_last);
        has_arrivals = 0;
    }
    if (has_fences) memset(fences, 0, sizeof fences), memset(known_at_fence, 0, sizeof known_at_fence);
    has_fences = 0, passed_on = 0;
    memset(acquired, 0, (size_t)table.grid_size[0] * table.grid_size[1] * table.grid_size[2]);
}

static void place_watch(const Place *place) {
    if (!is_watched) return;
    const lab_address start = (lab_address)(place->at - shared_memory);
    memset(shared_written + start, 0, place->bytes);
    memset(shared_cells + start, 0, place->bytes * sizeof(Cell));
}

static void barrier_watch(int spaces) {
    if (!is_watched) return;
    for (unsigned k = 0; has_fences && k < count; k++)
        if (fences[k].epoch > passed_on) passed_on = fences[k].epoch;
    if (spaces & LAB_SHARED) epochs[0]++;
    if (spaces & LAB_DEVICE) epochs[1]++;
    phase++;
    for (unsigned k = 0; k < count; k++) clocks[k].sync++;
    if (!has_arrivals) return;
    unsigned landed[64] = {0};
    for (unsigned k = 0; k < count; k++) join(landed, clocks[k].landed, 64);
    for (unsigned k = 0; k < count; k++) memcpy(clocks[k].landed, landed, sizeof landed);
}

// From here on, each of these lanes knows what any of them has done, or knows to be over.
static void warp_watch(unsigned warp, unsigned members, int is_sync) {
    if (!is_watched) return;
    Clocks *lane = &clocks[32 * warp];
    unsigned known[32] = {0}, landed[64] = {0};
    for (unsigned k = 0; k < 32; k++) {
        if (!(members >> k & 1)) continue;
        lane[k].sync++;
        if (!is_sync) continue;
        lane[k].clock++;
        if (has_arrivals) join(landed, lane[k].landed, 64);
        join(known, lane[k].known, 32);
        if (lane[k].clock > known[k]) known[k] = lane[k].clock;
    }
    for (unsigned k = 0; is_sync && k < 32; k++)
        if (members >> k & 1) {
            memcpy(lane[k].known, known, sizeof known);
            if (!has_arrivals) continue;
            memcpy(lane[k].landed, landed, sizeof landed);
            for (unsigned j = 0; j < 32; j++)
                if (members >> j & 1) join(known_of[32 * warp + k], known_of[32 * warp + j], count);
        }
}

LAB_EXPORT void lab_unwatch(void) {
    for (int k = 0; k < region_count; k++) free(cells[k]);
    free(cells), free(line_of), free(acquired);
    cells = 0, line_of = 0, acquired = 0, region_count = 0, is_watched = 0;
}

// Watch the next launch; earlier notes stay until `lab_forget`.
LAB_EXPORT int lab_watch(Region *given, int count_of, const Line *lines, long long line_count,
                         long long most, lab_address blocks) {
    regions = given, region_count = count_of, most_events = most;
    cells = (Cell **)calloc((size_t)count_of + 1, sizeof *cells);
    acquired = (unsigned char *)calloc(blocks, 1);
    if (!shared_cells) shared_cells = (Cell *)lab_map(SHARED_BYTES * sizeof(Cell));
    if (!shared_written) shared_written = (unsigned char *)lab_map(SHARED_BYTES);
    if (!cells || !acquired || !shared_cells || !shared_written) return NO_MEMORY;
    for (int k = 0; k < count_of; k++) {
        cells[k] = (Cell *)calloc(given[k].bytes / (unsigned)given[k].element + 1, sizeof(Cell));
        if (!cells[k]) return NO_MEMORY;
    }
    text_low = text_high = line_count ? lines[0].at : 0;
    for (long long k = 0; k < line_count; k++) {
        if (lines[k].at < text_low) text_low = lines[k].at;
        if (lines[k].at > text_high) text_high = lines[k].at;
    }
    text_low--;
    line_of = (int *)calloc((size_t)(text_high - text_low) + 1, sizeof(int));
    if (!line_of) return NO_MEMORY;
    for (long long k = 0; k < line_count; k++) line_of[lines[k].at - text_low] = (int)lines[k].line;
    release_count = event_count = finding_count = 0;
    is_watched = 1;
    return FINE;
}
