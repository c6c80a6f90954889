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
    const lab_i64 i_block = lab_block;
    float m;
    float t;
    float t_parts;
    float t_2;
    float t_2_parts;
    t = -LAB_INF;
    t_parts = -LAB_INF;
    const int i_max_own = lab_thread / 32;
    const int j_thread = lab_thread % 32;
    if (8*i_block + i_max_own < n) {
        for (int j_turn = 0; j_turn < 2; j_turn++) {
            if (32*j_turn + j_thread < 40) {
                const lab_f32x4 v0 =
                    LAB_LOAD(lab_f32x4, x, 1280*i_block + 160*i_max_own + 128*j_turn + 4*j_thread);
                #pragma unroll
                for (int j_lane = 0; j_lane < 4; j_lane++) {
                    t_parts = lab_max_f32(t_parts, v0.at[j_lane]);
                }
            }
        }
    }
    t = lab_max_f32(t, lab_warp_max_f32(t_parts, 32));
    m = t;
    const int i_end_2_own = lab_thread / 32;
    const int j_2_thread = lab_thread % 32;
    if (8*i_block + i_end_2_own < n) {
        for (int j_2_turn = 0; j_2_turn < 2; j_2_turn++) {
            if (32*j_2_turn + j_2_thread < 40) {
                const lab_f32x4 v1 =
                    LAB_LOAD(lab_f32x4, x,
                    1280*i_block + 160*i_end_2_own + 128*j_2_turn + 4*j_2_thread);
                lab_f32x4 v2;
                #pragma unroll
                for (int j_2_lane = 0; j_2_lane < 4; j_2_lane++) {
                    v2.at[j_2_lane] = lab_exp2_f32((v1.at[j_2_lane] - m) * 1.442695f);
                }
                LAB_STORE_SHARED(lab_f32x4, e, 160*i_end_2_own + 128*j_2_turn + 4*j_2_thread, v2);
            }
        }
    }
    t_2 = 0.0f;
    t_2_parts = 0.0f;
    const int i_sum_own = lab_thread / 32;
    const int k_thread = lab_thread % 32;
    if (8*i_block + i_sum_own < n) {
        for (int k_turn = 0; k_turn < 2; k_turn++) {
            if (32*k_turn + k_thread < 40) {
                const lab_f32x4 v3 =
                    LAB_LOAD_SHARED(lab_f32x4, e, 160*i_sum_own + 128*k_turn + 4*k_thread);
                #pragma unroll
                for (int k_lane = 0; k_lane < 4; k_lane++) {
                    t_2_parts += v3.at[k_lane];
                }
            }
        }
    }
    t_2 += lab_warp_sum_f32(t_2_parts, 32);
    const int i_end_4_own = lab_thread / 32;
    const int j_3_thread = lab_thread % 32;
    if (8*i_block + i_end_4_own < n) {
        for (int j_3_turn = 0; j_3_turn < 2; j_3_turn++) {
            if (32*j_3_turn + j_3_thread < 40) {
                const lab_f32x4 v4 =
                    LAB_LOAD_SHARED(lab_f32x4, e, 160*i_end_4_own + 128*j_3_turn + 4*j_3_thread);
                lab_f32x4 v5;
                #pragma unroll
                for (int j_3_lane = 0; j_3_lane < 4; j_3_lane++) {
                    v5.at[j_3_lane] = v4.at[j_3_lane] * lab_recip_f32(t_2);
                }
                LAB_STORE(lab_f32x4, y,
                    1280*i_block + 160*i_end_4_own + 128*j_3_turn + 4*j_3_thread, v5);
            }
        }
    }
}
