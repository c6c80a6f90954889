// kernel bf16_dot(x: bf16[n], y: bf16[n]) -> (z: bf16[])
//   z[] = bf16(sum i < n: f32(x[i]) * f32(y[i]))
static void kernel_bf16_dot_0(LAB_GIVEN) {
    const lab_bf16 *restrict x = lab_buffers[0];
    const lab_bf16 *restrict y = lab_buffers[1];
    float *restrict t_parts = lab_buffers[2];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_o = lab_task;
    float t_part = 0.0f;
#pragma omp simd reduction(+:t_part)
    for (lab_i64 i_i = 0; i_i < lab_min(65536, n - 65536*i_o); i_i++) {
        const float v0 = lab_cast_bf16_f32(x[65536*i_o + i_i]);
        t_part += v0 * lab_cast_bf16_f32(y[65536*i_o + i_i]);
    }
    t_parts[i_o] = t_part;
}

static void kernel_bf16_dot_1(LAB_GIVEN) {
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
