// kernel total(x: f32[n, m]) -> (y: f32[])
//   y[] = sum i < n: sum j < m: x[i, j]
static void kernel_total__0(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict t_parts = lab_buffers[1];
    const lab_i64 m = lab_dims[0];
    const lab_i64 n = lab_dims[1];
    const lab_i64 i_task = lab_task;
    float t_parts_own = 0.0f;
    for (lab_i64 i_own = 0; i_own < lab_min(64, n - 64*i_task); i_own++) {
        float t_parts_own_lanes[32] LAB_ALIGNED = {0};
        for (lab_i64 j_block = 0; j_block < m / 32; j_block++) {
#pragma omp simd
            for (lab_i64 j_own = 0; j_own < 32; j_own++) {
                t_parts_own_lanes[j_own] += x[64*i_task*m + i_own*m + 32*j_block + j_own];
            }
        }
        t_parts_own += lab_joined_f32(t_parts_own_lanes, 32);
#pragma omp simd reduction(+:t_parts_own)
        for (lab_i64 j_rest = 0; j_rest < m % 32; j_rest++) {
            t_parts_own += x[64*i_task*m + i_own*m + 32*(m / 32) + j_rest];
        }
    }
    t_parts[i_task] = t_parts_own;
}

static void kernel_total__1(LAB_GIVEN) {
    const float *restrict t_parts = lab_buffers[1];
    float *restrict y = lab_buffers[2];
    const lab_i64 n = lab_dims[1];
    float t = 0.0f;
    float t_lanes[32] LAB_ALIGNED = {0};
    for (lab_i64 t_parts_block = 0; t_parts_block < (n + 63) / 2048; t_parts_block++) {
#pragma omp simd
        for (lab_i64 t_parts_own_2 = 0; t_parts_own_2 < 32; t_parts_own_2++) {
            t_lanes[t_parts_own_2] += t_parts[32*t_parts_block + t_parts_own_2];
        }
    }
    t += lab_joined_f32(t_lanes, 32);
#pragma omp simd reduction(+:t)
    for (lab_i64 t_parts_rest = 0; t_parts_rest < (n + 63) / 64 % 32; t_parts_rest++) {
        t += t_parts[32*((n + 63) / 2048) + t_parts_rest];
    }
    y[0] = t;
}
