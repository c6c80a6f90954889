// kernel total(x: f32[n, 256]) -> (y: f32[])
//   y[] = sum i < n: sum j < 256: x[i, j]
extern "C" __global__ void __launch_bounds__(256) kernel_total__0(
    const float *__restrict__ x,
    float *__restrict__ t_pieces,
    const float *__restrict__ y,
    const lab_i64 n
) {
    __shared__ __align__(16) float lab_shared_f32[8];
    const lab_i64 ij_piece = blockIdx.x;
    float t_pieces_own = 0.0f;
    float t_pieces_own_parts = 0.0f;
    const int ij_thread = threadIdx.x;
    for (lab_i64 ij_turn = 0; ij_turn < floordiv(lab_min(2048, 64*n - 2048*ij_piece) + 255, 256);
        ij_turn++) {
        if (256*ij_turn + ij_thread < lab_min(2048, 64*n - 2048*ij_piece)) {
            const lab_f32x4 v0 = LAB_LOAD(lab_f32x4, x, 8192*ij_piece + 1024*ij_turn + 4*ij_thread);
            #pragma unroll
            for (int j_lane = 0; j_lane < 4; j_lane++) {
                t_pieces_own_parts += v0.at[j_lane];
            }
        }
    }
    t_pieces_own += lab_block_sum_f32(t_pieces_own_parts, lab_shared_f32, 256);
    if (threadIdx.x == 0) {
        t_pieces[ij_piece] = t_pieces_own;
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
    const int t_pieces_thread = threadIdx.x;
    for (lab_i64 t_pieces_turn = 0; t_pieces_turn < (n + 1023) / 1024; t_pieces_turn++) {
        if (32*t_pieces_turn + t_pieces_thread < (n + 31) / 32) {
            t_parts += t_pieces[32*t_pieces_turn + t_pieces_thread];
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    if (threadIdx.x == 0) {
        y[0] = t;
    }
}
