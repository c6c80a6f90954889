// kernel layer_norm(x: f32[n, 64], g: f32[64], b: f32[64]) -> (y: f32[n, 64])
//   m[i < n] = (sum j < 64: x[i, j]) * 0.015625
//   v[i < n] = (sum j < 64: let a = x[i, j] - m[i]; fused(a * a)) * 0.015625
//   y[i < n, j < 64] = (x[i, j] - m[i]) * recip(sqrt(v[i] + 1e-05)) * g[j] + b[j]
static void kernel_layer_norm(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    const float *restrict g = lab_buffers[1];
    const float *restrict b = lab_buffers[2];
    float *restrict y = lab_buffers[3];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_task = lab_task;
    for (lab_i64 i_own = 0; i_own < lab_min(23, n - 23*i_task); i_own++) {
        float v;
        float m;
        float t = 0.0f;
        t += lab_joined_f32(x + (1472*i_task + 64*i_own), 64);
        m = t * 0.015625f;
        float t_2 = 0.0f;
#pragma omp simd reduction(+:t_2)
        for (lab_i64 j_2 = 0; j_2 < 64; j_2++) {
            const float v0 = x[1472*i_task + 64*i_own + j_2] - m;
            t_2 = lab_fma_f32(v0, v0, t_2);
        }
        v = t_2 * 0.015625f;
#pragma omp simd
        for (lab_i64 j_3 = 0; j_3 < 64; j_3++) {
            const float v1 = lab_recip_f32(lab_sqrt_f32(v + 1e-05f));
            y[1472*i_task + 64*i_own + j_3] =
                (x[1472*i_task + 64*i_own + j_3] - m) * v1 * g[j_3] + b[j_3];
        }
    }
}
