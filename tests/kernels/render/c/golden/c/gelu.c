// kernel gelu(x: f32[n]) -> (y: f32[n])
//   y[i < n] = x[i] * recip(exp2(x[i] * (x[i] * x[i] * 0.044715 + 1.0) * -2.302208) + 1.0)
static void kernel_gelu(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict y = lab_buffers[1];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_task = lab_task;
#pragma omp simd
    for (lab_i64 i_own = 0; i_own < lab_min(1820, n - 1820*i_task); i_own++) {
        const float v0 = x[1820*i_task + i_own];
        const float v1 = lab_exp2_f32(v0 * (v0 * v0 * 0.044715f + 1.0f) * -2.302208f) + 1.0f;
        y[1820*i_task + i_own] = v0 * lab_recip_f32(v1);
    }
}
