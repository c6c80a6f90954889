// kernel rms_norm(x: bf16[n, 64], g: bf16[64]) -> (y: bf16[n, 64])
//   m[i < n] = (sum j < 64: fused(f32(x[i, j]) * f32(x[i, j]))) * 0.015625
//   y[i < n, j < 64] = bf16(f32(x[i, j]) * recip(sqrt(m[i] + 1e-05))) * g[j]
extern "C" __global__ void __launch_bounds__(256) kernel_rms_norm(
    const lab_bf16 *__restrict__ x,
    const lab_bf16 *__restrict__ g,
    lab_bf16 *__restrict__ y,
    const lab_i64 n
) {
    const lab_i64 i_block = blockIdx.x;
    float m;
    float t;
    float t_parts;
    t = 0.0f;
    t_parts = 0.0f;
    const int i_sum_own = threadIdx.x / 32;
    const int j_thread = threadIdx.x % 32;
    if (8*i_block + i_sum_own < n) {
        const lab_bf16x2 v0 = LAB_LOAD(lab_bf16x2, x, 512*i_block + 64*i_sum_own + 2*j_thread);
        #pragma unroll
        for (int j_lane = 0; j_lane < 2; j_lane++) {
            const float v1 = lab_cast_bf16_f32(v0.at[j_lane]);
            t_parts = lab_fma_f32(v1, v1, t_parts);
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    m = t * 0.015625f;
    const int i_end_2_own = threadIdx.x / 32;
    const int j_2_vector = threadIdx.x % 32;
    if (8*i_block + i_end_2_own < n) {
        const lab_bf16x2 v2 = LAB_LOAD(lab_bf16x2, x, 512*i_block + 64*i_end_2_own + 2*j_2_vector);
        const lab_bf16x2 v3 = LAB_LOAD(lab_bf16x2, g, 2*j_2_vector);
        lab_bf16x2 v4;
        #pragma unroll
        for (int j_2_lane = 0; j_2_lane < 2; j_2_lane++) {
            const float v5 = lab_recip_f32(lab_sqrt_f32(m + 1e-05f));
            const float v6 = lab_cast_bf16_f32(v2.at[j_2_lane]) * v5;
            const float v7 = lab_cast_bf16_f32(lab_cast_f32_bf16(v6));
            v4.at[j_2_lane] = lab_cast_f32_bf16(v7 * lab_cast_bf16_f32(v3.at[j_2_lane]));
        }
        LAB_STORE(lab_bf16x2, y, 512*i_block + 64*i_end_2_own + 2*j_2_vector, v4);
    }
}
