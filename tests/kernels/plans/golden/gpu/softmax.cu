// kernel softmax(x: f32[n, 160]) -> (y: f32[n, 160])
//   m[i < n] = max j < 160: x[i, j]
//   e[i < n, j < 160] = exp2((x[i, j] - m[i]) * 1.442695)
//   y[i < n, j < 160] = e[i, j] * recip(sum k < 160: e[i, k])
extern "C" __global__ void __launch_bounds__(128) kernel_softmax(
    const float *__restrict__ x,
    float *__restrict__ y,
    const lab_i64 n
) {
    __shared__ __align__(16) float e[160];
    __shared__ __align__(16) float lab_shared_f32[4];
    const lab_i64 i = blockIdx.x;
    float m;
    float t = -LAB_INF;
    float t_parts = -LAB_INF;
    const int j_thread = threadIdx.x;
    for (int j_turn = 0; j_turn < 2; j_turn++) {
        if (128*j_turn + j_thread < 160) {
            t_parts = lab_max_f32(t_parts, x[160*i + 128*j_turn + j_thread]);
        }
    }
    t = lab_max_f32(t, lab_block_max_f32(t_parts, lab_shared_f32, 128));
    m = t;
    const int j_2_thread = threadIdx.x;
    for (int j_2_turn = 0; j_2_turn < 2; j_2_turn++) {
        if (128*j_2_turn + j_2_thread < 160) {
            e[128*j_2_turn + j_2_thread] =
                lab_exp2_f32((x[160*i + 128*j_2_turn + j_2_thread] - m) * 1.442695f);
        }
    }
    float t_2 = 0.0f;
    float t_2_parts = 0.0f;
    const int k_thread = threadIdx.x;
    for (int k_turn = 0; k_turn < 2; k_turn++) {
        if (128*k_turn + k_thread < 160) {
            t_2_parts += e[128*k_turn + k_thread];
        }
    }
    t_2 += lab_block_sum_f32(t_2_parts, lab_shared_f32, 128);
    const int j_3_thread = threadIdx.x;
    for (int j_3_turn = 0; j_3_turn < 2; j_3_turn++) {
        if (128*j_3_turn + j_3_thread < 160) {
            y[160*i + 128*j_3_turn + j_3_thread] =
                e[128*j_3_turn + j_3_thread] * lab_recip_f32(t_2);
        }
    }
}
