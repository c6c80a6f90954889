// Stand-ins for features of Hopper alone: products of four warps, bulk copies, barriers that count
// bytes.
//
// All of them run asynchronously. A product is computed when it is waited for, and a copy arrives
// when a thread waits at its barrier: as late as possible, so that a thread that does not wait
// finds the old values, unless the launch has another order.

namespace lab_units {

#if defined(LAB_TRACED)
#define LAB_SAY_FROM lab_now->from = LAB_FROM
#else
#define LAB_SAY_FROM
#endif

// What the functions for all shapes call.
static inline LAB_QUIET void lab_wgmma(
    float *c, lab_address a, lab_address b, int more, int kind, int columns, int is_rows, int line) {
    lab_group mine = {c, a, b, (unsigned short)columns, (unsigned char)kind, (unsigned char)is_rows, more};
    LAB_SAY_FROM;
    lab_now->exchange(LAB_OF_GROUP, ~0u, &mine, sizeof mine, line);
}
static inline void lab_wgmma_begin(LAB_LINE) { lab_meet(LAB_OF_GROUP_BEGIN, ~0u, 0, lab_line); }
static inline void lab_wgmma_commit(LAB_LINE) { lab_meet(LAB_OF_GROUP_COMMIT, ~0u, 0, lab_line); }
static inline void lab_wgmma_wait(int groups, LAB_LINE) {
    lab_meet(LAB_OF_GROUP_WAIT, ~0u, groups, lab_line);
}


// What the functions for all counts call: a warp changes the registers of its threads.
static inline void lab_registers(int count, int is_more, int line) {
    const int asked[2] = {count, is_more};
    lab_now->exchange(LAB_OF_REGISTERS, ~0u, asked, sizeof asked, line);
}

static inline void lab_wgmma_keep(float *, int) {}

static inline LAB_QUIET void lab_barrier_init(lab_address *at, int threads, LAB_LINE) {
    LAB_TOUCHED(at, LAB_WRITE);
    lab_now->count(LAB_INIT, at, threads, lab_line);
}
static inline void lab_barrier_seen() { lab_now->pass_on(); }
static inline LAB_QUIET void lab_barrier_expect(lab_address *at, int bytes, LAB_LINE) {
    LAB_TOUCHED(at, LAB_COUNTED);
    lab_now->count(LAB_EXPECT, at, bytes, lab_line);
}
static inline LAB_QUIET void lab_barrier_arrive(lab_address *at, LAB_LINE) {
    LAB_TOUCHED(at, LAB_COUNTED);
    lab_now->count(LAB_EXPECT, at, 0, lab_line);
}
static inline LAB_QUIET void lab_barrier_wait(lab_address *at, int phase, LAB_LINE) {
    LAB_TOUCHED(at, LAB_COUNTED);
    lab_now->count(LAB_WAIT, at, phase, lab_line);
}

static inline LAB_QUIET void lab_bulk_copy(
    void *to, const void *from, int bytes, lab_address *at, LAB_LINE) {
    LAB_SAY_FROM;
    LAB_TOUCHED(at, LAB_COUNTED);
    lab_now->bulk(to, 0, from, bytes, 0, at, lab_line);
}
static inline LAB_QUIET void lab_bulk_tile(
    void *to, const void *map, int x, int y, lab_address *at, LAB_LINE) {
    LAB_SAY_FROM;
    LAB_TOUCHED(at, LAB_COUNTED);
    lab_now->bulk(to, (const lab_address *)map, 0, x, y, at, lab_line);
}
static inline void lab_bulk_written() { lab_now->pass_on(); }

}  // namespace lab_units
