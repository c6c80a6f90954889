// kernel softmax(x: f32[n, 64]) -> (y: f32[n, 64])
//   m[i < n] = max j < 64: x[i, j]
//   e[i < n, j < 64] = exp2((x[i, j] - m[i]) * 1.442695)
//   y[i < n, j < 64] = e[i, j] * recip(sum k < 64: e[i, k])
static void kernel_softmax(LAB_GIVEN) {
    const float *restrict x = lab_buffers[0];
    float *restrict y = lab_buffers[1];
    const lab_i64 n = lab_dims[0];
    const lab_i64 i_task = lab_task;
    for (lab_i64 i_own = 0; i_own < lab_min(21, n - 21*i_task); i_own++) {
        float e[64] LAB_ALIGNED;
        float m;
        float t = -LAB_INF;
#pragma omp simd reduction(lab_max_f32:t)
        for (lab_i64 j = 0; j < 64; j++) {
            t = lab_max_f32(x[1344*i_task + 64*i_own + j], t);
        }
        m = t;
        float t_2 = 0.0f;
#pragma omp simd reduction(+:t_2)
        for (lab_i64 j_2 = 0; j_2 < 64; j_2++) {
            e[j_2] = lab_exp2_f32((x[1344*i_task + 64*i_own + j_2] - m) * 1.442695f);
            t_2 += e[j_2];
        }
#pragma omp simd
        for (lab_i64 j_3 = 0; j_3 < 64; j_3++) {
            y[1344*i_task + 64*i_own + j_3] = e[j_3] * lab_recip_f32(t_2);
        }
    }
}
