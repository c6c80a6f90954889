// kernel total(x: f32[n, 256]) -> (y: f32[])
//   y[] = sum i < n: sum j < 256: x[i, j]
extern "C" __global__ void __launch_bounds__(256) kernel_total__0(
    const float *__restrict__ x,
    float *__restrict__ t_pieces,
    const float *__restrict__ y,
    const lab_i64 n
) {
    __shared__ __align__(16) float lab_shared_f32[8];
    const lab_i64 i_j_o_o = blockIdx.x;
    float t_part = 0.0f;
    float t_part_parts = 0.0f;
    const int i_j_o_i_i = threadIdx.x;
    for (lab_i64 i_j_o_i_o = 0;
        i_j_o_i_o < floordiv(lab_min(2048, 64*n - 2048*i_j_o_o) + 255, 256); i_j_o_i_o++) {
        if (256*i_j_o_i_o + i_j_o_i_i < lab_min(2048, 64*n - 2048*i_j_o_o)) {
            const lab_f32x4 v0 =
                LAB_LOAD(lab_f32x4, x, 8192*i_j_o_o + 1024*i_j_o_i_o + 4*i_j_o_i_i);
            #pragma unroll
            for (int j_i = 0; j_i < 4; j_i++) {
                t_part_parts += v0.at[j_i];
            }
        }
    }
    t_part += lab_block_sum_f32(t_part_parts, lab_shared_f32, 256);
    if (threadIdx.x == 0) {
        t_pieces[i_j_o_o] = t_part;
    }
}

extern "C" __global__ void __launch_bounds__(32) kernel_total__1(
    const float *__restrict__ x,
    const float *__restrict__ t_pieces,
    float *__restrict__ y,
    const lab_i64 n
) {
    float t = 0.0f;
    float t_parts = 0.0f;
    const int i_j_o_o_2_i = threadIdx.x;
    for (lab_i64 i_j_o_o_2_o = 0; i_j_o_o_2_o < (n + 1023) / 1024; i_j_o_o_2_o++) {
        if (32*i_j_o_o_2_o + i_j_o_o_2_i < (n + 31) / 32) {
            t_parts += t_pieces[32*i_j_o_o_2_o + i_j_o_o_2_i];
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    if (threadIdx.x == 0) {
        y[0] = t;
    }
}
