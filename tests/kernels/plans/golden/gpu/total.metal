// kernel total(x: f32[n, 256]) -> (y: f32[])
//   y[] = sum i < n: sum j < 256: x[i, j]
kernel void kernel_total__0(
    device const float *x [[buffer(0)]],
    device float *t_pieces [[buffer(1)]],
    device const float *y [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float lab_shared_f32[8];
    const lab_i64 ij_piece = lab_block;
    float t_pieces_own = 0.0f;
    float t_pieces_own_parts = 0.0f;
    const int ij_thread = lab_thread;
    for (lab_i64 ij_turn = 0; ij_turn < floordiv(lab_min(4096, 64*n - 4096*ij_piece) + 255, 256);
        ij_turn++) {
        if (256*ij_turn + ij_thread < lab_min(4096, 64*n - 4096*ij_piece)) {
            const lab_f32x4 v0 =
                LAB_LOAD(lab_f32x4, x, 16384*ij_piece + 1024*ij_turn + 4*ij_thread);
            #pragma unroll
            for (int j_lane = 0; j_lane < 4; j_lane++) {
                t_pieces_own_parts += v0.at[j_lane];
            }
        }
    }
    t_pieces_own += lab_block_sum_f32(t_pieces_own_parts, lab_shared_f32, 256);
    if (lab_thread == 0) {
        t_pieces[ij_piece] = t_pieces_own;
    }
}

kernel void kernel_total__1(
    device const float *x [[buffer(0)]],
    device const float *t_pieces [[buffer(1)]],
    device float *y [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    float t = 0.0f;
    float t_parts = 0.0f;
    const int t_pieces_thread = lab_thread;
    for (lab_i64 t_pieces_turn = 0; t_pieces_turn < (n + 2047) / 2048; t_pieces_turn++) {
        if (32*t_pieces_turn + t_pieces_thread < (n + 63) / 64) {
            t_parts += t_pieces[32*t_pieces_turn + t_pieces_thread];
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    if (lab_thread == 0) {
        y[0] = t;
    }
}
