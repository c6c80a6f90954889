// kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0
kernel void kernel_matmul(
    device const float *a [[buffer(0)]],
    device const float *b [[buffer(1)]],
    device float *c [[buffer(2)]],
    constant lab_i64 &n [[buffer(3)]],
    uint lab_block [[threadgroup_position_in_grid]],
    uint lab_thread [[thread_position_in_threadgroup]]
) {
    threadgroup __attribute__((aligned(16))) float rows[1024];
    threadgroup __attribute__((aligned(16))) float columns[1024];
    const lab_i64 i_block = lab_block;
    const lab_i64 j_block = 0;
    float t[16];
    for (int i_start_own = 0; i_start_own < 4; i_start_own++) {
        for (int j_start_own = 0; j_start_own < 4; j_start_own++) {
            t[4*i_start_own + j_start_own] = 0.0f;
        }
    }
    for (int k_step = 0; k_step < 3; k_step++) {
        lab_sync();
        const int rows_i_thread = lab_thread / 16;
        const int rows_i_own = lab_thread / 4 % 4;
        const int rows_k_vector = lab_thread % 4;
        const lab_f32x4 v0 =
            4*k_step + rows_k_vector < 10 && 64*i_block + 4*rows_i_thread + rows_i_own < n
            ? LAB_LOAD(lab_f32x4, a,
            2560*i_block + 160*rows_i_thread + 40*rows_i_own + 16*k_step + 4*rows_k_vector)
            : lab_f32x4();
        #pragma unroll
        for (int rows_k_lane = 0; rows_k_lane < 4; rows_k_lane++) {
            rows[256*rows_k_vector + 64*rows_k_lane + 4*rows_i_thread + rows_i_own] =
                v0.at[rows_k_lane];
        }
        const int columns_k_own = lab_thread / 16;
        const int columns_j_thread = lab_thread % 16;
        const lab_f32x4 v1 =
            16*j_block + columns_j_thread < 12 && 16*k_step + columns_k_own < 40
            ? LAB_LOAD(lab_f32x4, b,
            768*k_step + 64*j_block + 48*columns_k_own + 4*columns_j_thread) : lab_f32x4();
        lab_f32x4 v2;
        #pragma unroll
        for (int columns_j_lane = 0; columns_j_lane < 4; columns_j_lane++) {
            v2.at[columns_j_lane] = v1.at[columns_j_lane];
        }
        LAB_STORE_SHARED(lab_f32x4, columns, 64*columns_k_own + 4*columns_j_thread, v2);
        lab_sync();
        const int i_sum_thread = lab_thread / 16;
        const int j_sum_thread = lab_thread % 16;
        #pragma unroll
        for (int k_own = 0; k_own < 16; k_own++) {
            #pragma unroll
            for (int i_sum_own = 0; i_sum_own < 4; i_sum_own++) {
                #pragma unroll
                for (int j_sum_own = 0; j_sum_own < 4; j_sum_own++) {
                    const float v3 = columns[64*k_own + 4*j_sum_thread + j_sum_own];
                    const float v4 = rows[64*k_own + 4*i_sum_thread + i_sum_own];
                    t[4*i_sum_own + j_sum_own] = lab_fma_f32(v4, v3, t[4*i_sum_own + j_sum_own]);
                }
            }
        }
    }
    const int i_end_thread = lab_thread / 16;
    const int j_end_thread = lab_thread % 16;
    #pragma unroll
    for (int i_end_own = 0; i_end_own < 4; i_end_own++) {
        #pragma unroll
        for (int j_end_own = 0; j_end_own < 4; j_end_own++) {
            if (64*i_block + 4*i_end_thread + i_end_own < n) {
                if (64*j_block + 4*j_end_thread + j_end_own < 48) {
                    c[3072*i_block + 192*i_end_thread + 64*j_block + 48*i_end_own + 4*j_end_thread
                        + j_end_own] = t[4*i_end_own + j_end_own] * 2.0f;
                }
            }
        }
    }
}
