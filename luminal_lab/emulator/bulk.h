// Barriers that count bytes, copies that arrive at them, and products of four warps: the runtime's
// part. A copy stays in flight until a thread waits at its barrier, a product until its warp waits
// for it: that is the latest. By another order, both are done at once, or whenever a draw says so.

enum { REGISTERS = 65536, LEAST_REGISTERS = 24, MOST_REGISTERS = 256 };  // of a core, of a thread
enum { MOST_BARRIERS = 64, MOST_COPIES = 256, MOST_PRODUCTS = 256, SWIZZLED = 128 };
static const lab_address MAP = 0x70616d5f62616cull;  // the last word of our tensor maps

struct Counted {
    lab_address *at;
    int threads, pending;  // how many arrive in a phase, and how many have not yet in this one
    long long bytes;       // still to come
    unsigned phases;       // completed
};

struct Copy {
    char *to;
    const char *from;
    int rows, bytes;                     // of a row
    int first, last, first_row, last_row;  // the ones that exist
    long long pitch;
    int counted, swizzled, has_landed;
    unsigned thread;
    const void *pc;
    int line;
};

struct Product {
    lab_group given[32];
    unsigned group;
    const void *pc;
    int is_computed;
};

struct Registers { int count, line; };  // of a thread, since a warp has changed them


static Counted counted[MOST_BARRIERS];
static Copy copies[MOST_COPIES];
static int counted_count, copy_count;
static Product products[MOST_THREADS / 32][MOST_PRODUCTS];
static int product_count[MOST_THREADS / 32], has_begun[MOST_THREADS / 32];
static unsigned groups_of[MOST_THREADS / 32];
static Registers registers[MOST_THREADS / 32];

static void begin_block_bulk() {
    counted_count = copy_count = 0;
    memset(product_count, 0, sizeof product_count);
    memset(has_begun, 0, sizeof has_begun);
    memset(groups_of, 0, sizeof groups_of);
    memset(registers, 0, sizeof registers);
}

[[noreturn]] static void refuse(int status, int line) {
    now->line = line;
    escape(status);
}

// Record an access as if by another thread; the runtime is left as it was.
static void touch_as(unsigned thread, const void *at, int bytes, int kind, const void *pc) {
    const unsigned before = table.number;
    table.number = thread, inside = 1;
    touch(at, (unsigned)bytes, kind, pc);
    table.number = before, inside = 0;
}

static lab_address swizzled(lab_address at) { return at ^ (at >> 7 & 7) << 4; }

// -- barriers -------------------------------------------------------------------------------------

static int counted_at(const lab_address *at) {
    for (int k = 0; k < counted_count; k++)
        if (counted[k].at == at) return k;
    return -1;
}

static void land(Copy *copy) {
    const lab_address start = (lab_address)(copy->to - shared_memory);
    for (int row = 0; row < copy->rows; row++) {
        const int is_there = copy->first_row <= row && row < copy->last_row;
        char *to = copy->to + (long long)row * copy->bytes;
        // The pieces of a row are permuted within it.
        touch_landed(copy->thread, to, copy->bytes, copy->counted, counted[copy->counted].phases, copy->pc);
        for (int byte = 0; byte < copy->bytes; byte += 16) {
            const int from = copy->first > byte ? copy->first : byte;
            const int end = copy->last < byte + 16 ? copy->last : byte + 16;
            lab_address at = start + (lab_address)row * (lab_address)copy->bytes + (lab_address)byte;
            if (copy->swizzled) at = swizzled(at);
            memset(shared_memory + at, 0, 16);
            if (!is_there || from >= end) continue;
            inside = 1;  // reading a missing address is the kernel's fault
            memcpy(shared_memory + at + from % 16, copy->from + row * copy->pitch + from, (size_t)(end - from));
            inside = 0;
        }
    }
    copy->has_landed = 1;
    counted[copy->counted].bytes -= (long long)copy->rows * copy->bytes;
}

// Let some of the copies under way arrive, in any order.
static void some_arrive() {
    if (job->order <= EARLY) return;
    for (int k = copy_count - 1; k >= 0; k--)
        if (!copies[k].has_landed && arrives()) land(&copies[k]);
}

// Let everything arrive that is due at a barrier, and let those that wait for it continue.
static void settle(int number) {
    Counted *counter = &counted[number];
    for (int k = 0; k < copy_count; k++)
        if (copies[k].counted == number && !copies[k].has_landed) land(&copies[k]);
    if (counter->pending || counter->bytes) return;
    counter->phases++, counter->pending = counter->threads;
    over_watch(number);
    for (unsigned k = 0; k < count; k++)
        if (lanes[k].state == AT_BYTES && lanes[k].counted == number) make_ready(&lanes[k]);
    int kept = 0;
    for (int k = 0; k < copy_count; k++)
        if (!copies[k].has_landed) copies[kept++] = copies[k];
    copy_count = kept;
}

static int is_waited_for(int number) {
    for (unsigned k = 0; k < count; k++)
        if (lanes[k].state == AT_BYTES && lanes[k].counted == number) return 1;
    return 0;
}

static void count_bytes(int what, lab_address *at, int given, int line) {
    inside = 0;
    some_arrive();
    int number = counted_at(at);
    if (what == LAB_INIT) {
        if (number < 0) number = counted_count++;
        if (number >= MOST_BARRIERS || given < 1) refuse(BAD_BARRIER, line);
        counted[number] = {at, given, given, 0, 0};
        *at = MAP;
        inside = 1;
        return;
    }
    if (number < 0) refuse(BAD_BARRIER, line);
    Counted *counter = &counted[number];
    if (what == LAB_EXPECT) {
        if (!counter->pending) settle(number);  // nobody waited for the phase, which may be over
        if (!counter->pending) refuse(BAD_BARRIER, line);
        counter->bytes += given, counter->pending--;
        arrive_watch(number);
        if (is_waited_for(number) || !counter->bytes) settle(number);
    } else {
        if ((counter->phases & 1) == (unsigned)given) settle(number);
        while ((counter->phases & 1) == (unsigned)given) {
            now->state = AT_BYTES, now->line = line, now->counted = number;
            wait_here();
        }
        landed_watch(number, counter->phases);
    }
    inside = 1;
}

// -- copies ---------------------------------------------------------------------------------------

static void bulk(void *to, const lab_address *map, const void *from, int x, int y, lab_address *at,
                 int line) {
    inside = 0;
    const int number = counted_at(at);
    if (number < 0) refuse(BAD_BARRIER, line);
    if (copy_count == MOST_COPIES) refuse(BAD_COPY, line);
    Copy *copy = &copies[copy_count++];
    *copy = {(char *)to, (const char *)from, 1, x, 0, x, 0, 1, 0, number, 0, 0, table.number, table.from, line};
    const lab_address start = (lab_address)((char *)to - shared_memory);
    if (map) {  // address, width, height, pitch, columns and rows of a tile, bytes of an element
        const long long width = (long long)map[1], height = (long long)map[2], size = (long long)map[6];
        if (map[7] != MAP || (long long)map[4] * size != SWIZZLED || start % TILE) refuse(BAD_COPY, line);
        copy->pitch = (long long)map[3], copy->rows = (int)map[5], copy->bytes = SWIZZLED, copy->swizzled = 1;
        copy->from = (const char *)map[0] + y * copy->pitch + x * size;
        copy->first = x < 0 ? (int)(-x * size) : 0, copy->first_row = y < 0 ? -y : 0;
        copy->last = (width - x) * size < SWIZZLED ? (int)((width - x) * size) : SWIZZLED;
        copy->last_row = height - y < copy->rows ? (int)(height - y) : copy->rows;
    } else if ((lab_address)copy->from % 16) {
        refuse(BAD_COPY, line);
    }
    if (copy->bytes <= 0 || copy->bytes % 16 || start % 16) refuse(BAD_COPY, line);
    if (start >= SHARED_BYTES || start + (lab_address)copy->rows * (lab_address)copy->bytes > SHARED_BYTES)
        refuse(BAD_COPY, line);
    for (int row = 0; row < copy->rows; row++) {
        const int bytes = copy->first_row <= row && row < copy->last_row ? copy->last - copy->first : 0;
        const char *from_row = copy->from + row * copy->pitch + copy->first;
        char *to_row = copy->to + row * copy->bytes;
        if (bytes > 0) {
            touch_units(table.number, from_row, bytes, 0, copy->pc);
            touch_as(table.number, from_row, bytes, LAB_READ, copy->pc);
        }
        touch_units(table.number, to_row, copy->bytes, 1, copy->pc);
        touch_as(table.number, to_row, copy->bytes, LAB_FLYING, copy->pc);
    }
    touch_units(table.number, at, sizeof *at, 1, copy->pc);
    if (arrives()) land(copy);
    some_arrive();
    if (is_waited_for(number)) settle(number);
    inside = 1;
}

// -- products of four warps -----------------------------------------------------------------------

// The address of a byte in a row of k, or in a row of columns, for a lab_wgmma_matrix.
static lab_address tile_at(lab_address matrix, int row, int byte, int is_rows) {
    const lab_address start = (matrix & 0x3fff) << 4, leading = (matrix >> 16 & 0x3fff) << 4;
    const lab_address stride = (matrix >> 32 & 0x3fff) << 4;
    const lab_address piece = is_rows ? (lab_address)(byte / SWIZZLED) * leading : 0;
    const int within = is_rows ? byte % SWIZZLED : byte;
    return swizzled(start + piece + (lab_address)(row / 8) * stride + (lab_address)(row % 8 * SWIZZLED + within));
}

// A descriptor that gives no offset from a multiple of 1024 bytes, as all of ours: rows of 128 bytes
// are permuted by their place in eight of them.
static int begins_a_tile(lab_address matrix) { return (matrix << 4 >> 7 & 7) == 0 && matrix >> 62 == 1; }

static float element_at(int kind, lab_address at) {
    unsigned word = 0;
    if (at + 4 > SHARED_BYTES) escape(BAD_TILE);
    memcpy(&word, shared_memory + at, kind == LAB_OF_MMA_TF32 ? 4 : 2);
    return value_of(kind, word, 0);
}

static int depth_of(int kind) { return kind == LAB_OF_MMA_TF32 ? 8 : 16; }

static void touch_piece(unsigned thread, const void *at, int kind, const void *pc) {
    if (kind == LAB_READ) touch_units(thread, at, 16, 0, pc);  // and not once more at its end
    touch_as(thread, at, 16, kind, pc);
}

// Record the accesses of a warp to its tiles, 16 bytes at a time, its lanes taking turns.
static void touch_tiles(const Product *product, unsigned warp, int kind) {
    if (!is_watched) return;
    const lab_group *given = &product->given[0];
    unsigned turn = 0;
    for (int piece = 0; piece < 32; piece++) {
        const lab_address at = tile_at(given->a, (int)(warp % 4) * 16 + piece % 16, piece / 16 * 16, 0);
        touch_piece(32 * warp + turn++ % 32, shared_memory + at, kind, product->pc);
    }
    const int rows = given->is_rows ? depth_of(given->kind) : given->columns;
    const int pieces = given->is_rows ? given->columns / 8 : 2, each = given->is_rows ? 8 : 1;
    for (int first = 0; first < pieces; first += each)
        for (int row = 0; row < rows; row++)
            for (int piece = first; piece < first + each && piece < pieces; piece++) {
                const lab_address at = tile_at(given->b, row, 16 * piece, given->is_rows);
                touch_piece(32 * warp + turn++ % 32, shared_memory + at, kind, product->pc);
            }
}

static void compute(const Product *product, unsigned warp) {
    static float a[16][16], b[16][256];
    const lab_group *given = &product->given[0];
    const int kind = given->kind, depth = depth_of(kind), size = kind == LAB_OF_MMA_TF32 ? 4 : 2;
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < depth; k++)
            a[row][k] = element_at(kind, tile_at(given->a, (int)(warp % 4) * 16 + row, k * size, 0));
    for (int k = 0; k < depth; k++)
        for (int column = 0; column < given->columns; column++)
            b[k][column] = element_at(kind, given->is_rows ? tile_at(given->b, k, column * size, 1)
                                                         : tile_at(given->b, column, k * size, 0));
    for (int row = 0; row < 16; row++) {
        float sum[256] = {0};
        for (int k = 0; k < depth; k++)
            for (int column = 0; column < given->columns; column++) sum[column] += a[row][k] * b[k][column];
        for (int column = 0; column < given->columns; column++) {
            float *c = product->given[row % 8 * 4 + column % 8 / 2].c + column / 8 * 4 + row / 8 * 2 + column % 2;
            *c = given->more ? *c + sum[column] : sum[column];
        }
    }
}

static void compute_some(unsigned warp) {
    for (int k = 0; k < product_count[warp] && (products[warp][k].is_computed || arrives()); k++) {
        if (!products[warp][k].is_computed) compute(&products[warp][k], warp);
        products[warp][k].is_computed = 1;
    }
}

static void finish_group(int kind, unsigned members, unsigned first, const unsigned char *answer) {
    const unsigned warp = first / 32;
    int *many = &product_count[warp];
    if (members != ~0u) escape(DIVERGED);
    if (kind == LAB_OF_GROUP_BEGIN) {
        has_begun[warp] = 1;
    } else if (kind == LAB_OF_GROUP_COMMIT) {
        groups_of[warp]++;
    } else if (kind == LAB_OF_GROUP_WAIT) {
        int groups, kept = 0;
        memcpy(&groups, answer, sizeof groups);
        for (int k = 0; k < *many; k++) {
            Product *product = &products[warp][k];
            if (product->group + (unsigned)groups < groups_of[warp]) {
                touch_tiles(product, warp, LAB_STILL);
                if (!product->is_computed) compute(product, warp);
            } else {
                products[warp][kept++] = *product;
            }
        }
        *many = kept;
        if (!kept) has_begun[warp] = 0;  // from here on its registers may be set
    } else {
        if (!has_begun[warp]) escape(NOT_BEGUN);
        if (*many == MOST_PRODUCTS) escape(BAD_TILE);
        Product *product = &products[warp][(*many)++];
        for (unsigned lane = 0; lane < 32; lane++) {
            lab_group *mine = &product->given[lane];
            memcpy(mine, answer + lane * LAB_PAYLOAD, sizeof *mine);
            const int same = mine->a == product->given[0].a && mine->b == product->given[0].b;
            const int known = begins_a_tile(mine->a) && begins_a_tile(mine->b);
            if (!same || !known) escape(BAD_TILE);
        }
        product->group = groups_of[warp], product->pc = table.from, product->is_computed = 0;
        touch_tiles(product, warp, LAB_READ);
    }
    compute_some(warp);
}

// -- registers ------------------------------------------------------------------------------------

// The most that a thread can begin with, if a block is to have room: a multiple of 8.
static int registers_first() {
    const unsigned each = REGISTERS / ((count + 31) & ~31u) & ~7u;
    return each < MOST_REGISTERS ? (int)each : MOST_REGISTERS;
}

// Whether all warps together have room; a warp that has changed nothing has what is given.
static int has_room(int otherwise) {
    const int warps = (int)(count + 31) / 32;
    long long sum = 0;
    for (int k = 0; k < warps; k++) sum += 32 * (registers[k].count ? registers[k].count : otherwise);
    return sum <= 32ll * warps * registers_first();
}

static void change_registers(unsigned members, unsigned first, const unsigned char *answer) {
    Registers *own = &registers[first / 32];
    int asked[2];  // how many, and whether that is more
    memcpy(asked, answer, sizeof asked);
    if (members != ~0u) escape(DIVERGED);
    const int is_turned = own->count && (asked[1] ? asked[0] < own->count : asked[0] > own->count);
    *own = {asked[0], now->line};
    if (is_turned || !has_room(LEAST_REGISTERS)) escape(BAD_REGISTERS);
}

// -- the end of a block ---------------------------------------------------------------------------

static void ended_at(int status, unsigned thread, int line) {
    run_as(&lanes[thread]);
    lanes[thread].line = line, job->status = status;
}

// What nobody has waited for goes on after its block, and what nobody has announced ends no phase.
static void end_block_bulk() {
    for (int k = 0; k < copy_count; k++) {
        const Copy *copy = &copies[k];
        const Counted *counter = &counted[copy->counted];
        if (counter->bytes < 0 && !counter->pending) return ended_at(UNANNOUNCED, copy->thread, copy->line);
        const int is_over = copy->has_landed && !counter->bytes && !counter->pending;
        if (job->status == FINE && !is_over && !(is_watched && finding_count))  // a race with it says more
            return ended_at(NOT_WAITED_FOR, copy->thread, copy->line);
    }
    if (job->status != FINE) return;
    for (unsigned warp = 0; warp < (count + 31) / 32; warp++) {
        const Registers *own = &registers[warp], *others = &registers[warp & ~3u];
        if (own->count != others->count || (own->count && !has_room(registers_first())))
            return ended_at(BAD_REGISTERS, 32 * warp, own->count ? own->line : others->line);
    }
}
