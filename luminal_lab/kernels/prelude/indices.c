// What index arithmetic and random numbers call. Division and remainder are Python's if signs are
// unknown; random numbers are Threefry-2x32 with 20 rounds, as in `core/random.py`.

static inline lab_i64 floordiv(lab_i64 a, lab_i64 b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline lab_i64 floormod(lab_i64 a, lab_i64 b) {
    return a - b * floordiv(a, b);
}

static inline lab_i64 lab_min(lab_i64 a, lab_i64 b) { return a < b ? a : b; }

static inline lab_i64 lab_max(lab_i64 a, lab_i64 b) { return a > b ? a : b; }

static inline float lab_random(lab_u32 k0, lab_u32 k1, lab_i64 at, lab_u32 step) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const lab_u32 keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
    lab_u32 x = (lab_u32)at + k0, y = step + k1;
    for (lab_u32 group = 0; group < 5; group++) {
        for (int turn = 0; turn < 4; turn++) {
            const int by = turns[group % 2][turn];
            x += y;
            y = (y << by | y >> (32 - by)) ^ x;
        }
        x += keys[(group + 1) % 3];
        y += keys[(group + 2) % 3] + group + 1;
    }
    return (float)(x >> 8) * 0x1p-24f;
}
