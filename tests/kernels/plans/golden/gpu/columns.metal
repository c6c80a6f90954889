// kernel columns(x: f32[n, 72]) -> (y: f32[72])
//   y[j < 72] = sum i < n: x[i, j]
kernel void kernel_columns(
    device const float *x [[buffer(0)]],
    device float *y [[buffer(1)]],
    constant lab_i64 &n [[buffer(2)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float lab_slots_f32[256];
    const lab_i64 j_block = lab_block;
    float t;
    float t_parts;
    t = 0.0f;
    t_parts = 0.0f;
    const int i_thread = lab_thread / 32;
    const int j_sum_own = lab_thread % 32;
    for (lab_i64 i_turn = 0; i_turn < (n + 7) / 8; i_turn++) {
        if (8*i_turn + i_thread < n) {
            t_parts +=
                32*j_block + j_sum_own < 72 ? x[576*i_turn + 72*i_thread + 32*j_block + j_sum_own]
                : 0;
        }
    }
    const int j_end_own = lab_thread % 32;
    lab_slots_f32[lab_thread] = t_parts;
    lab_sync();
    for (int v0 = 0; v0 < 8; v0++) {
        t += lab_slots_f32[32*v0 + j_end_own];
    }
    if (lab_thread < 32) {
        const int j_y_own = lab_thread;
        if (32*j_block + j_y_own < 72) {
            y[32*j_block + j_y_own] = t;
        }
    }
}
