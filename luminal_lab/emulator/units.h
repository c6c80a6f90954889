// Stand-ins for the prelude's functions in PTX: casts, tensor units with their lane maps, copies.

namespace lab_units {

typedef unsigned lab_word;

static inline float lab_cast_f16_f32(unsigned short h) { return lab_c::lab_cast_f16_f32(h); }
static inline unsigned short lab_cast_f32_f16(float x) { return lab_c::lab_cast_f32_f16(x); }
static inline unsigned short lab_cast_f32_bf16(float x) { return lab_c::lab_cast_f32_bf16(x); }

// cvt.rna.tf32.f32: ten bits of fraction, ties away from zero.
static inline lab_word lab_cast_f32_tf32(float x) {
    const lab_word u = lab_bits<lab_word>(x);
    return (u & 0x7f800000) == 0x7f800000 ? u : (u + 0x1000) & 0xffffe000;
}

// -- mma.m16n8k16 and m16n8k8: lane 4 g + t has rows g and g + 8 of a and c, column g of b ----------

struct lab_fragments { lab_word a[4], b[2]; };
struct lab_quarter { float c[4]; };

LAB_QUIET static inline void lab_multiply(int kind, float *c, const lab_word *a, const lab_word *b, int line) {
    const lab_fragments mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const unsigned char *all = lab_now->exchange(kind, ~0u, &mine, sizeof mine, line);
    const lab_quarter sum = lab_given<lab_quarter>{all}[lab_own_lane()];
    for (int e = 0; e < 4; e++) c[e] += sum.c[e];
}

// a[row][k] is at at[row * stride + k], b[k][column] at at[k * row_stride + column *
// column_stride].
static inline void lab_tile_a_16(lab_word *a, const unsigned short *at, int stride) {
    const int g = (int)lab_own_lane() / 4, t = (int)lab_own_lane() % 4;
    for (int e = 0; e < 4; e++) {
        const unsigned short *pair = at + (g + e % 2 * 8) * stride + 2 * t + e / 2 * 8;
        a[e] = (lab_word)pair[0] | (lab_word)pair[1] << 16;
    }
}
static inline void lab_tile_b_16(lab_word *b, const unsigned short *at, int rows, int columns) {
    const int g = (int)lab_own_lane() / 4, t = (int)lab_own_lane() % 4;
    for (int e = 0; e < 2; e++) {
        const unsigned short *pair = at + (2 * t + e * 8) * rows + g * columns;
        b[e] = (lab_word)pair[0] | (lab_word)pair[rows] << 16;
    }
}
static inline void lab_tile_a_tf32(lab_word *a, const float *at, int stride) {
    const int g = (int)lab_own_lane() / 4, t = (int)lab_own_lane() % 4;
    for (int e = 0; e < 4; e++) a[e] = lab_cast_f32_tf32(at[(g + e % 2 * 8) * stride + t + e / 2 * 4]);
}
static inline void lab_tile_b_tf32(lab_word *b, const float *at, int rows, int columns) {
    const int g = (int)lab_own_lane() / 4, t = (int)lab_own_lane() % 4;
    for (int e = 0; e < 2; e++) b[e] = lab_cast_f32_tf32(at[(t + e * 4) * rows + g * columns]);
}

// Asynchronous copies: their data is there once they have been waited for.
struct lab_copy { char data[16], *to; const void *from; unsigned group; int is_done; };
struct lab_copies { lab_copy all[64]; unsigned first, last, group, turn; };
static lab_copies lab_under_way[1024];

static inline LAB_QUIET lab_copies *lab_own_copies() {
    lab_copies *own = &lab_under_way[lab_now->number];
    // Copies that an earlier block has not waited for are gone with it.
    if (own->turn != lab_now->turn) own->first = own->last = own->group = 0, own->turn = lab_now->turn;
    return own;
}
static inline LAB_QUIET void lab_arrive(lab_copy *copy) {
    if (copy->is_done) return;
#if defined(LAB_TRACED)
    lab_now->touch(copy->to, 16, LAB_WRITE, copy->from);
#endif
    __builtin_memcpy(copy->to, copy->data, 16);
    copy->is_done = 1;
}
static inline LAB_QUIET void lab_some_arrive(lab_copies *own) {
    for (unsigned k = own->last; k != own->first; k--)
        if (lab_now->arrives()) lab_arrive(&own->all[(k - 1) % 64]);
}
static inline LAB_QUIET void lab_copy_async_16(void *to, const void *from, int bytes, LAB_LINE) {
    if ((lab_address)to % 16) lab_now->misaligned(to, 16, 1, lab_line, __builtin_return_address(0));
    if ((lab_address)from % 16) lab_now->misaligned(from, 16, 0, lab_line, __builtin_return_address(0));
    lab_copies *own = lab_own_copies();
    if (own->last - own->first == 64) lab_arrive(&own->all[own->first++ % 64]);
    lab_copy *copy = &own->all[own->last++ % 64];
    copy->to = (char *)to, copy->group = own->group, copy->is_done = 0;
    __builtin_memset(copy->data, 0, 16);
    __builtin_memcpy(copy->data, from, (size_t)(bytes < 16 ? bytes : 16));
#if defined(LAB_TRACED)
    copy->from = LAB_FROM;
    if (bytes > 0) lab_now->touch(from, (unsigned)bytes, LAB_READ, LAB_FROM);
    lab_now->touch(to, 16, LAB_BEGUN, LAB_FROM);
#endif
    lab_some_arrive(own);
}
static inline LAB_QUIET void lab_copy_commit() {
    lab_copies *own = lab_own_copies();
    own->group++;
    lab_some_arrive(own);
}
static inline LAB_QUIET void lab_copy_wait(int groups) {
    lab_copies *own = lab_own_copies();
    while (own->first != own->last && own->all[own->first % 64].group + (unsigned)groups < own->group)
        lab_arrive(&own->all[own->first++ % 64]);
    lab_some_arrive(own);
}

}  // namespace lab_units
#if defined(LAB_USING)
LAB_USING
#endif
