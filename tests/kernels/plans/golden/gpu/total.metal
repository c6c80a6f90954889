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
    const lab_i64 i_j_o_o = lab_block;
    float t_part = 0.0f;
    float t_part_parts = 0.0f;
    const int i_j_o_i_i = lab_thread;
    for (lab_i64 i_j_o_i_o = 0;
        i_j_o_i_o < floordiv(lab_min(4096, 64*n - 4096*i_j_o_o) + 255, 256); i_j_o_i_o++) {
        if (256*i_j_o_i_o + i_j_o_i_i < lab_min(4096, 64*n - 4096*i_j_o_o)) {
            const lab_f32x4 v0 =
                LAB_LOAD(lab_f32x4, x, 16384*i_j_o_o + 1024*i_j_o_i_o + 4*i_j_o_i_i);
            #pragma unroll
            for (int j_i = 0; j_i < 4; j_i++) {
                t_part_parts += v0.at[j_i];
            }
        }
    }
    t_part += lab_block_sum_f32(t_part_parts, lab_shared_f32, 256);
    if (lab_thread == 0) {
        t_pieces[i_j_o_o] = t_part;
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
    const int i_j_o_o_2_i = lab_thread;
    for (lab_i64 i_j_o_o_2_o = 0; i_j_o_o_2_o < (n + 2047) / 2048; i_j_o_o_2_o++) {
        if (32*i_j_o_o_2_o + i_j_o_o_2_i < (n + 63) / 64) {
            t_parts += t_pieces[32*i_j_o_o_2_o + i_j_o_o_2_i];
        }
    }
    t += lab_warp_sum_f32(t_parts, 32);
    if (lab_thread == 0) {
        y[0] = t;
    }
}
