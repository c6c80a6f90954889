// kernel softmax(x: f32[n, 160]) -> (y: f32[n, 160])
//   m[i < n] = max j < 160: x[i, j]
//   e[i < n, j < 160] = exp2((x[i, j] - m[i]) * 1.442695)
//   y[i < n, j < 160] = e[i, j] * recip(sum k < 160: e[i, k])
kernel void kernel_softmax(
    device const float *x [[buffer(0)]],
    device float *y [[buffer(1)]],
    constant lab_i64 &n [[buffer(2)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float e[1280];
    const lab_i64 i_o = lab_block;
    float m;
    float t;
    float t_parts;
    float t_2;
    float t_2_parts;
    t = -LAB_INF;
    t_parts = -LAB_INF;
    const int i_i_3 = lab_thread / 32;
    const int j_o_i = lab_thread % 32;
    if (8*i_o + i_i_3 < n) {
        for (int j_o_o = 0; j_o_o < 2; j_o_o++) {
            if (32*j_o_o + j_o_i < 40) {
                const lab_f32x4 v0 =
                    LAB_LOAD(lab_f32x4, x, 1280*i_o + 160*i_i_3 + 128*j_o_o + 4*j_o_i);
                #pragma unroll
                for (int j_i = 0; j_i < 4; j_i++) {
                    t_parts = lab_max_f32(t_parts, v0.at[j_i]);
                }
            }
        }
    }
    t = lab_max_f32(t, lab_warp_max_f32(t_parts, 32));
    m = t;
    const int i_i_6 = lab_thread / 32;
    const int j_2_o_i = lab_thread % 32;
    if (8*i_o + i_i_6 < n) {
        for (int j_2_o_o = 0; j_2_o_o < 2; j_2_o_o++) {
            if (32*j_2_o_o + j_2_o_i < 40) {
                const lab_f32x4 v1 =
                    LAB_LOAD(lab_f32x4, x, 1280*i_o + 160*i_i_6 + 128*j_2_o_o + 4*j_2_o_i);
                lab_f32x4 v2;
                #pragma unroll
                for (int j_2_i = 0; j_2_i < 4; j_2_i++) {
                    v2.at[j_2_i] = lab_exp2_f32((v1.at[j_2_i] - m) * 1.442695f);
                }
                LAB_STORE_SHARED(lab_f32x4, e, 160*i_i_6 + 128*j_2_o_o + 4*j_2_o_i, v2);
            }
        }
    }
    t_2 = 0.0f;
    t_2_parts = 0.0f;
    const int i_i_9 = lab_thread / 32;
    const int k_o_i = lab_thread % 32;
    if (8*i_o + i_i_9 < n) {
        for (int k_o_o = 0; k_o_o < 2; k_o_o++) {
            if (32*k_o_o + k_o_i < 40) {
                const lab_f32x4 v3 = LAB_LOAD_SHARED(lab_f32x4, e, 160*i_i_9 + 128*k_o_o + 4*k_o_i);
                #pragma unroll
                for (int k_i = 0; k_i < 4; k_i++) {
                    t_2_parts += v3.at[k_i];
                }
            }
        }
    }
    t_2 += lab_warp_sum_f32(t_2_parts, 32);
    const int i_i_11 = lab_thread / 32;
    const int j_3_o_i = lab_thread % 32;
    if (8*i_o + i_i_11 < n) {
        for (int j_3_o_o = 0; j_3_o_o < 2; j_3_o_o++) {
            if (32*j_3_o_o + j_3_o_i < 40) {
                const lab_f32x4 v4 =
                    LAB_LOAD_SHARED(lab_f32x4, e, 160*i_i_11 + 128*j_3_o_o + 4*j_3_o_i);
                lab_f32x4 v5;
                #pragma unroll
                for (int j_3_i = 0; j_3_i < 4; j_3_i++) {
                    v5.at[j_3_i] = v4.at[j_3_i] * lab_recip_f32(t_2);
                }
                LAB_STORE(lab_f32x4, y, 1280*i_o + 160*i_i_11 + 128*j_3_o_o + 4*j_3_o_i, v5);
            }
        }
    }
}
