// kernel bf16_dot(x: bf16[n], y: bf16[n]) -> (z: bf16[])
//   z[] = bf16(sum i < n: fused(f32(x[i]) * f32(y[i])))
static void kernel_bf16_dot__0(LAB_GIVEN) {
    const lab_bf16 *restrict x = lab_buffers[0];
    const lab_bf16 *restrict y = lab_buffers[1];
    float *restrict t_parts = lab_buffers[2];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_o = lab_task;
    float t_part = 0.0f;
    float t_part_lanes[32] LAB_ALIGNED;
#pragma omp simd
    for (lab_i64 i_i_i_2 = 0; i_i_i_2 < 32; i_i_i_2++) {
        t_part_lanes[i_i_i_2] = 0.0f;
    }
    for (lab_i64 i_i_o = 0; i_i_o < floordiv(lab_min(65536, n - 65536*i_o), 32); i_i_o++) {
        float v0[32] LAB_ALIGNED;
        lab_widen_bf16(v0, x + (65536*i_o + 32*i_i_o), 32);
        float v1[32] LAB_ALIGNED;
        lab_widen_bf16(v1, y + (65536*i_o + 32*i_i_o), 32);
#pragma omp simd
        for (lab_i64 i_i_i = 0; i_i_i < 32; i_i_i++) {
            t_part_lanes[i_i_i] = lab_fma_f32(v0[i_i_i], v1[i_i_i], t_part_lanes[i_i_i]);
        }
    }
#pragma omp simd reduction(+:t_part)
    for (lab_i64 i_i_i_3 = 0; i_i_i_3 < 32; i_i_i_3++) {
        t_part += t_part_lanes[i_i_i_3];
    }
#pragma omp simd reduction(+:t_part)
    for (lab_i64 i_i_2 = 0; i_i_2 < floormod(lab_min(65536, n - 65536*i_o), 32); i_i_2++) {
        const float v2 =
            lab_cast_bf16_f32(x[65536*i_o + 32*floordiv(lab_min(65536, n - 65536*i_o), 32)
            + i_i_2]);
        const float v3 =
            lab_cast_bf16_f32(y[65536*i_o + 32*floordiv(lab_min(65536, n - 65536*i_o), 32)
            + i_i_2]);
        t_part = lab_fma_f32(v2, v3, t_part);
    }
    t_parts[i_o] = t_part;
}

static void kernel_bf16_dot__1(LAB_GIVEN) {
    const float *restrict t_parts = lab_buffers[2];
    lab_bf16 *restrict z = lab_buffers[3];
    const lab_i64 n = lab_dims[0];
    float t = 0.0f;
#pragma omp simd reduction(+:t)
    for (lab_i64 i_o_2 = 0; i_o_2 < (n + 65535) / 65536; i_o_2++) {
        t += t_parts[i_o_2];
    }
    z[0] = lab_cast_f32_bf16(t);
}
