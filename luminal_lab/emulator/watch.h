// Watches each access of a traced kernel: out of bounds, of what nobody wrote, racing with another.
//
// A cell is the least that a buffer's elements are made of (a byte in shared memory). It remembers
// its last write and two reads by different threads since: whoever comes next meets one that is not
// its own. Two accesses are ordered by a barrier between them, within a warp by a sync of its lanes,
// between blocks by a fence and an atomic that both have done; or they race.

#include <stdlib.h>
#include <string.h>

enum { OUTSIDE, UNWRITTEN_READ, RACE, OFF_ALIGNMENT, CONSTANT_WRITTEN, NO_LANE };
enum { NOWHERE = -1 };
enum { MOST_FINDINGS = 256, DEPTH = 64, SHARED_REGION = 1000, DYNAMIC_REGION = 2000 };

struct Region {
    char *low, *at, *high;  // what lies between low and high is taken for this buffer
    lab_address bytes;
    unsigned char *written;  // of each cell whether it has been; none where all is given
    int element, is_constant;
};

struct Seen {
    unsigned block, epoch, clock;  // block 0 is nobody; else one more than the block
    unsigned arrivals;             // how often the thread had arrived at barriers that count
    int line;
    unsigned short thread;
    unsigned char kind, counted;  // of what has landed: at which barrier, `clock` in which phase
};

struct Cell {
    Seen writer, readers[2];
};

struct Finding {
    int kind, region, line, other_line, is_write, is_other_write;  // 2: by a copy that goes on beside
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
    unsigned phase, launch;  // the launch is for whoever puts several together
};

struct Line {
    const char *at;
    long long line;
};

struct Clocks {
    unsigned sync;  // how often this thread has met others
    unsigned clock, known[32];  // of its warp's lanes: before which clock all is over
    unsigned landed[64];  // of each barrier that counts bytes: how many phases are known to be over
    int fenced, depth, is_in_kernel;
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
static unsigned epochs[2];  // of shared memory, of the device's
// Of each thread how often it has arrived at a barrier that counts, and what each knows of all; what
// those who have arrived at a barrier know, and those of whom its last phase was.
static unsigned arrivals[MOST_THREADS], known_of[MOST_THREADS][MOST_THREADS];
static unsigned released[64][MOST_THREADS], released_last[64][MOST_THREADS];
static int has_arrivals;
static unsigned phase;  // how many barriers all threads of the block have met at
static unsigned char *acquired;
static struct Release { const void *at; unsigned block; } *releases;
static long long release_count, release_room;
static int last_line;
static unsigned flat_block;

static int line_at(const char *pc) {
    return pc > text_low && pc <= text_high ? line_of[pc - text_low] : 0;
}

// The kernel's line behind an access: of a stand-in's, the one that called it.
static int line_behind(const char *pc, const Clocks *mine) {
    int line = line_at(pc);
    for (int depth = mine->depth - 1; line == 0 && depth >= 0; depth--)
        if (depth < DEPTH) line = line_at(mine->callers[depth]);
    return line;
}

static Finding *finding(int kind, int region, int line, int other_line) {
    for (int k = 0; k < finding_count; k++) {
        Finding *f = &findings[k];
        const int same = f->line == line && f->other_line == other_line;
        const int turned = f->line == other_line && f->other_line == line;
        if (f->kind == kind && f->region == region && (same || turned)) {
            f->count++;
            return 0;
        }
    }
    if (finding_count == MOST_FINDINGS) return 0;
    Finding *f = &findings[finding_count++];
    memset(f, 0, sizeof *f);
    f->kind = kind, f->region = region, f->line = line, f->other_line = other_line, f->count = 1;
    f->block = flat_block, f->thread = table.number;
    return f;
}

static void describe(Finding *f, long long offset, unsigned bytes, lab_address length, int is_write,
                     const char *name) {
    f->offset = offset, f->bytes = bytes, f->length = (long long)length, f->is_write = is_write;
    if (name) strncpy(f->name, name, sizeof f->name - 1);
}

static int is_ordered(const Seen *seen, int space, const Clocks *mine) {
    if (seen->block == 0) return 1;
    if (seen->block - 1 != flat_block) return acquired[seen->block - 1];
    if (seen->kind == LAB_FLYING) return 0;
    if (seen->kind == LAB_LANDED) return mine->landed[seen->counted] > seen->clock;
    if (seen->thread == table.number || seen->epoch < epochs[space]) return 1;
    if (seen->arrivals < known_of[table.number][seen->thread]) return 1;
    return seen->thread / 32 == table.number / 32 && seen->clock < mine->known[seen->thread % 32];
}

static void meet_seen(const Seen *seen, int kind, int region, int space, long long offset,
                      unsigned bytes, int line, const char *name, lab_address length) {
    if ((seen->kind == LAB_ATOMIC && kind == LAB_ATOMIC) || is_ordered(seen, space, &clocks[table.number]))
        return;
    Finding *f = finding(RACE, region, line, seen->line);
    if (!f) return;
    f->other_block = seen->block - 1, f->other_thread = seen->thread;
    const int is_copy = seen->kind == LAB_FLYING || seen->kind == LAB_LANDED;
    f->is_other_write = is_copy ? 2 : seen->kind != LAB_READ;
    describe(f, offset, bytes, length, kind != LAB_READ, name);
}

// Of what lands in shared memory: at which barrier, in which phase.
static int landing_at;
static unsigned landing_in;

static void visit(Cell *cell, int kind, int region, int space, long long offset, unsigned bytes,
                  int line, const char *name, lab_address length) {
    const Clocks *mine = &clocks[table.number];
    Seen me = {flat_block + 1, epochs[space], mine->clock, arrivals[table.number], line,
               (unsigned short)table.number, (unsigned char)kind, 0};
    if (kind == LAB_LANDED) {  // whoever came between has met it in its flight
        me.counted = (unsigned char)landing_at, me.clock = landing_in;
        cell->writer = me;
        return;
    }
    meet_seen(&cell->writer, kind, region, space, offset, bytes, line, name, length);
    if (kind == LAB_COUNTED) return;
    if (kind == LAB_READ) {
        Seen *readers = cell->readers;
        const int second = !(readers[0].block == me.block && readers[0].thread == me.thread) &&
                           !is_ordered(&readers[0], space, mine);
        readers[second] = me;
        return;
    }
    for (int k = 0; k < 2; k++)
        meet_seen(&cell->readers[k], kind, region, space, offset, bytes, line, name, length);
    // What a thread has written plainly races with others' atomics, whatever it does then itself.
    const Seen *last = &cell->writer;
    if (kind == LAB_ATOMIC && last->kind == LAB_WRITE && last->block == me.block &&
        last->thread == me.thread && last->epoch == me.epoch && last->clock == me.clock &&
        last->arrivals == me.arrivals)
        return;
    cell->writer = me;
}

static void note(int region, long long offset, unsigned bytes, int kind, const char *pc, int line) {
    if (event_count >= most_events) escape(TOO_MANY);
    if (event_count == event_room) {
        event_room = event_room ? 2 * event_room : 1 << 14;
        Event *grown = (Event *)realloc(events, (size_t)event_room * sizeof *events);
        if (!grown) escape(TOO_MANY);
        events = grown;
    }
    Event *e = &events[event_count++];
    e->offset = offset, e->block = flat_block, e->sync = clocks[table.number].sync;
    e->pc = (unsigned)(pc - text_low), e->line = line, e->thread = (unsigned short)table.number;
    e->bytes = (unsigned short)bytes, e->region = (short)region, e->kind = (unsigned char)kind;
    e->pad = 0, e->phase = phase, e->launch = 0;
}

static void touch_region(const char *at, unsigned bytes, int kind, const char *pc, char *base,
                         lab_address length, int element, int region, int space, Cell *own,
                         unsigned char *written, const char *name) {
    const Clocks *mine = &clocks[table.number];
    const int line = line_behind(pc, mine);
    const long long offset = at - base;
    last_line = line;
    if (offset < 0 || (lab_address)offset + bytes > length) {
        Finding *f = finding(OUTSIDE, region, line, 0);
        if (f) describe(f, offset, bytes, length, kind != LAB_READ, name);
        return;
    }
    const int begun = kind == LAB_BEGUN || kind == LAB_FLYING, still = kind == LAB_STILL;
    if (kind == LAB_BEGUN) kind = LAB_WRITE;
    if (still) kind = LAB_READ;
    const int noted = kind == LAB_LANDED ? LAB_WRITE : kind == LAB_COUNTED ? LAB_ATOMIC : kind;
    if (!begun && !still) note(region, offset, bytes, noted, pc, line);
    for (long long cell = offset / element; cell <= (offset + bytes - 1) / element; cell++) {
        const int looks = kind == LAB_READ || kind == LAB_ATOMIC || kind == LAB_COUNTED;
        if (written && looks && !written[cell]) {
            Finding *f = finding(UNWRITTEN_READ, region, line, 0);
            if (f) describe(f, cell * element, bytes, length, 0, name);
        }
        if (written && kind != LAB_READ && kind != LAB_COUNTED && !begun) written[cell] = 1;
        visit(&own[cell], kind, region, space, cell * element, bytes, line, name, length);
    }
}

// What the compiler has found out about an address before it is used.
static void misaligned_watch(const void *given, unsigned to, int is_write, const void *from) {
    if (!inside) return;
    const char *at = (const char *)given;
    const int line = line_behind((const char *)from, &clocks[table.number]);
    for (int k = 0; k < PLACES + 8; k++) {
        const Place *p = k < PLACES ? &places[k] : &dynamics[k - PLACES];
        if (!p->at || at < p->at || at >= p->at + p->bytes) continue;
        Finding *f = finding(OFF_ALIGNMENT, k < PLACES ? SHARED_REGION + k : DYNAMIC_REGION + k - PLACES, line, 0);
        if (f) describe(f, at - p->at, to, p->bytes, is_write, p->name);
        return;
    }
    for (int k = 0; k < region_count; k++) {
        if (at < regions[k].low || at >= regions[k].high) continue;
        Finding *f = finding(OFF_ALIGNMENT, k, line, 0);
        if (f) describe(f, at - regions[k].at, to, regions[k].bytes, is_write, 0);
        return;
    }
    Finding *f = finding(OFF_ALIGNMENT, NOWHERE, line, 0);  // in what a thread has for itself
    if (f) f->bytes = to, f->is_write = is_write;
}

static void outside_watch(int is_write, const void *from) {
    Finding *f = finding(OUTSIDE, NOWHERE, line_behind((const char *)from, &clocks[table.number]), 0);
    if (f) f->is_write = is_write;
}

// A thread asks for the value of a lane that gave none.
static void no_lane_watch(unsigned lane, int, const void *from) {
    if (!is_watched) return;
    Finding *f = finding(NO_LANE, NOWHERE, line_behind((const char *)from, &clocks[table.number]), 0);
    if (f) f->offset = lane, f->other_thread = (table.number & ~31u) + lane, f->other_block = flat_block;
}

// What the compiler announces before each access; the stack and the library's own are no concern.
static void touch(const void *at, unsigned bytes, int kind, const void *from) {
    if (!is_watched || !inside || !bytes) return;
    inside = 0;
    if (stopping) escape(STOPPED);
    const char *place = (const char *)at, *pc = (const char *)from;
    if (place >= shared_memory && place < shared_memory + SHARED_BYTES) {
        for (int k = 0; k < PLACES + 8; k++) {
            Place *p = k < PLACES ? &places[k] : &dynamics[k - PLACES];
            if (!p->at || place < p->at - SHARED_GAP) continue;
            if (place >= p->at + ((p->bytes + 1023) & ~1023ull) + SHARED_GAP) continue;
            const long long start = p->at - shared_memory;
            touch_region(place, bytes, kind, pc, p->at, p->bytes, 1,
                         k < PLACES ? SHARED_REGION + k : DYNAMIC_REGION + k - PLACES, 0,
                         shared_cells + start, shared_written + start, p->name);
            break;
        }
    } else {
        for (int k = 0; k < region_count; k++) {
            Region *r = &regions[k];
            if (place < r->low || place >= r->high) continue;
            touch_region(place, bytes, kind, pc, r->at, r->bytes, r->element, k, 1, cells[k],
                         r->written, 0);
            if (r->is_constant && kind != LAB_READ && kind != LAB_STILL) {
                Finding *f = finding(CONSTANT_WRITTEN, k, last_line, 0);
                if (f) describe(f, place - r->at, bytes, r->bytes, 1, 0);
            }
            if (kind == LAB_ATOMIC) {
                for (long long j = 0; j < release_count; j++)
                    if (releases[j].at == at && releases[j].block != flat_block)
                        acquired[releases[j].block] = 1;
                if (clocks[table.number].fenced) {
                    if (release_count == release_room) {
                        release_room = release_room ? 2 * release_room : 256;
                        Release *grown = (Release *)realloc(releases, (size_t)release_room * sizeof *releases);
                        if (!grown) escape(NO_MEMORY);
                        releases = grown;
                    }
                    releases[release_count++] = {at, flat_block};
                }
            }
            break;
        }
    }
    inside = 1;
}

// What a thread's copy has brought, as others see it who have waited at its barrier.
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
    if (spaces & LAB_SHARED) epochs[0]++;
    if (spaces & LAB_DEVICE) epochs[1]++;
    phase++;
    for (unsigned k = 0; k < count; k++) clocks[k].sync++;
    if (!has_arrivals) return;
    unsigned landed[64] = {0};
    for (unsigned k = 0; k < count; k++) join(landed, clocks[k].landed, 64);
    for (unsigned k = 0; k < count; k++) memcpy(clocks[k].landed, landed, sizeof landed);
}

// What any of these lanes has done, or knows to be over, all of them know from here on.
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

static void end_watch() {
    for (int k = 0; k < region_count; k++) free(cells[k]);
    free(cells), free(line_of), free(acquired);
    cells = 0, line_of = 0, acquired = 0, region_count = 0, is_watched = 0;
}

// Watch the next launch; what was noted before stays until `lab_forget`.
static int begin_watch(Region *given, int count_of, const Line *lines, long long line_count,
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
