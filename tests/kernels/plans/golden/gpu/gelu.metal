// kernel gelu(x: f32[n, 64], b: f32[64]) -> (y: f32[n, 64])
//   y[i < n, j < 64] = (x[i, j] + b[j]) * recip(exp2((x[i, j] + b[j]) * -2.302208) + 1.0)
kernel void kernel_gelu(
    device const float *x [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *y [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    const lab_i64 ij_turn = lab_block;
    const int ij_thread = lab_thread;
    if (256*ij_turn + ij_thread < 16*n) {
        const lab_f32x4 v0 = LAB_LOAD(lab_f32x4, x, 1024*ij_turn + 4*ij_thread);
        const lab_f32x4 v1 = LAB_LOAD(lab_f32x4, b, 4*(ij_thread % 16));
        lab_f32x4 v2;
        #pragma unroll
        for (int j_lane = 0; j_lane < 4; j_lane++) {
            const float v3 = v0.at[j_lane] + v1.at[j_lane];
            v2.at[j_lane] = v3 * lab_recip_f32(lab_exp2_f32(v3 * -2.302208f) + 1.0f);
        }
        LAB_STORE(lab_f32x4, y, 1024*ij_turn + 4*ij_thread, v2);
    }
}
