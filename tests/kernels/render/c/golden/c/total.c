// kernel total(x: f32[n, m]) -> (y: f32[])
//   y[] = sum i < n: sum j < m: x[i, j]
static void kernel_total__0(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict t_parts = lab_buffers[1];
    const lab_i64 m = lab_dims[0];
    const lab_i64 n = lab_dims[1];
    const lab_i64 i_o = lab_task;
    float t_part = 0.0f;
    for (lab_i64 i_i = 0; i_i < lab_min(64, n - 64*i_o); i_i++) {
        float t_part_lanes[32] LAB_ALIGNED;
#pragma omp simd
        for (lab_i64 j_i_2 = 0; j_i_2 < 32; j_i_2++) {
            t_part_lanes[j_i_2] = 0.0f;
        }
        for (lab_i64 j_o = 0; j_o < m / 32; j_o++) {
#pragma omp simd
            for (lab_i64 j_i = 0; j_i < 32; j_i++) {
                t_part_lanes[j_i] += x[64*i_o*m + i_i*m + 32*j_o + j_i];
            }
        }
#pragma omp simd reduction(+:t_part)
        for (lab_i64 j_i_3 = 0; j_i_3 < 32; j_i_3++) {
            t_part += t_part_lanes[j_i_3];
        }
#pragma omp simd reduction(+:t_part)
        for (lab_i64 j_2 = 0; j_2 < m % 32; j_2++) {
            t_part += x[64*i_o*m + i_i*m + 32*(m / 32) + j_2];
        }
    }
    t_parts[i_o] = t_part;
}

static void kernel_total__1(LAB_GIVEN) {
    const float *restrict t_parts = lab_buffers[1];
    float *restrict y = lab_buffers[2];
    const lab_i64 n = lab_dims[1];
    float t = 0.0f;
    float t_lanes[32] LAB_ALIGNED;
#pragma omp simd
    for (lab_i64 i_o_2_i_2 = 0; i_o_2_i_2 < 32; i_o_2_i_2++) {
        t_lanes[i_o_2_i_2] = 0.0f;
    }
    for (lab_i64 i_o_2_o = 0; i_o_2_o < (n + 63) / 2048; i_o_2_o++) {
#pragma omp simd
        for (lab_i64 i_o_2_i = 0; i_o_2_i < 32; i_o_2_i++) {
            t_lanes[i_o_2_i] += t_parts[32*i_o_2_o + i_o_2_i];
        }
    }
#pragma omp simd reduction(+:t)
    for (lab_i64 i_o_2_i_3 = 0; i_o_2_i_3 < 32; i_o_2_i_3++) {
        t += t_lanes[i_o_2_i_3];
    }
#pragma omp simd reduction(+:t)
    for (lab_i64 i_o_2_2 = 0; i_o_2_2 < (n + 63) / 64 % 32; i_o_2_2++) {
        t += t_parts[32*((n + 63) / 2048) + i_o_2_2];
    }
    y[0] = t;
}
