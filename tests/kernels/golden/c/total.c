// kernel total(x: f32[n, m]) -> (y: f32[])
//   y[] = sum i < n: sum j < m: x[i, j]
static void kernel_total_0(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict t_parts = lab_buffers[1];
    const lab_i64 m = lab_dims[0];
    const lab_i64 n = lab_dims[1];
    const lab_i64 i_o = lab_task;
    float t_part = 0.0f;
    for (lab_i64 i_i = 0; i_i < lab_min(64, n - 64*i_o); i_i++) {
#pragma omp simd reduction(+:t_part)
        for (lab_i64 j = 0; j < m; j++) {
            t_part += x[64*i_o*m + i_i*m + j];
        }
    }
    t_parts[i_o] = t_part;
}

static void kernel_total_1(LAB_GIVEN) {
    const float *restrict t_parts = lab_buffers[1];
    float *restrict y = lab_buffers[2];
    const lab_i64 n = lab_dims[1];
    float t = 0.0f;
#pragma omp simd reduction(+:t)
    for (lab_i64 i_o_2 = 0; i_o_2 < (n + 63) / 64; i_o_2++) {
        t += t_parts[i_o_2];
    }
    y[0] = t;
}
