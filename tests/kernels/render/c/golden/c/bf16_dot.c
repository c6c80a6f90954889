// kernel bf16_dot(x: bf16[n], y: bf16[n]) -> (z: bf16[])
//   z[] = bf16(sum i < n: fused(f32(x[i]) * f32(y[i])))
static void kernel_bf16_dot__0(LAB_GIVEN) {
    const lab_bf16 *restrict x = lab_buffers[0];
    const lab_bf16 *restrict y = lab_buffers[1];
    float *restrict t_parts = lab_buffers[2];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_task = lab_task;
    float t_parts_own = 0.0f;
#pragma omp simd reduction(+:t_parts_own)
    for (lab_i64 i_own = 0; i_own < lab_min(65536, n - 65536*i_task); i_own++) {
        const float v0 = lab_cast_bf16_f32(x[65536*i_task + i_own]);
        t_parts_own = lab_fma_f32(v0, lab_cast_bf16_f32(y[65536*i_task + i_own]), t_parts_own);
    }
    t_parts[i_task] = t_parts_own;
}

static void kernel_bf16_dot__1(LAB_GIVEN) {
    const float *restrict t_parts = lab_buffers[2];
    lab_bf16 *restrict z = lab_buffers[3];
    const lab_i64 n = lab_dims[0];
    float t = 0.0f;
#pragma omp simd reduction(+:t)
    for (lab_i64 t_parts_end = 0; t_parts_end < (n + 65535) / 65536; t_parts_end++) {
        t += t_parts[t_parts_end];
    }
    z[0] = lab_cast_f32_bf16(t);
}
