// kernel embedding(t: i64[n], w: f32[100, 32]) -> (y: f32[n, 32])
//   y[i < n, j < 32] = w[t[i], j]
static void kernel_embedding(LAB_GIVEN) {
    const lab_i64 *restrict t = lab_buffers[0];
    const float *restrict w = lab_buffers[1];
    float *restrict y = lab_buffers[2];
    const lab_i64 n = lab_dims[0];
    int lab_wrong = 0;
    const lab_i64 i_task = lab_task;
    for (lab_i64 i_own = 0; i_own < lab_min(512, n - 512*i_task); i_own++) {
#pragma omp simd reduction(|:lab_wrong)
        for (lab_i64 j = 0; j < 32; j++) {
            lab_i64 v0 = t[512*i_task + i_own];
            lab_wrong |= v0 < 0 || v0 >= 100;
            v0 = v0 < 0 || v0 >= 100 ? 0 : v0;
            y[16384*i_task + 32*i_own + j] = w[32*v0 + j];
        }
    }
    if (lab_wrong) *lab_fault = 1;
}
