// kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
//   c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0
extern "C" __global__ void __launch_bounds__(256) kernel_matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    const lab_i64 n
) {
    __shared__ __align__(16) float rows[1024];
    __shared__ __align__(16) float columns[1024];
    const lab_i64 i_block = blockIdx.x / 2;
    const lab_i64 j_block = blockIdx.x % 2;
    float t[4];
    for (int i_start_own = 0; i_start_own < 2; i_start_own++) {
        for (int j_start_own = 0; j_start_own < 2; j_start_own++) {
            t[2*i_start_own + j_start_own] = 0.0f;
        }
    }
    for (int k_step = 0; k_step < 2; k_step++) {
        lab_sync();
        const int rows_i_thread = threadIdx.x / 16;
        const int rows_i_own = threadIdx.x / 8 % 2;
        const int rows_k_vector = threadIdx.x % 8;
        const lab_f32x4 v0 =
            32*i_block + 2*rows_i_thread + rows_i_own < n && 8*k_step + rows_k_vector < 10
            ? LAB_LOAD(lab_f32x4, a,
            1280*i_block + 80*rows_i_thread + 40*rows_i_own + 32*k_step + 4*rows_k_vector)
            : lab_f32x4();
        #pragma unroll
        for (int rows_k_lane = 0; rows_k_lane < 4; rows_k_lane++) {
            rows[128*rows_k_vector + 32*rows_k_lane + 2*rows_i_thread + rows_i_own] =
                v0.at[rows_k_lane];
        }
        const int columns_k_each = threadIdx.x / 16;
        const int columns_j_thread = threadIdx.x % 16;
        #pragma unroll
        for (int columns_k_batch = 0; columns_k_batch < 2; columns_k_batch++) {
            const lab_f32x2 v1 =
                32*k_step + 16*columns_k_batch + columns_k_each < 40
                && 16*j_block + columns_j_thread < 24
                ? LAB_LOAD(lab_f32x2, b,
                1536*k_step + 768*columns_k_batch + 48*columns_k_each + 32*j_block
                + 2*columns_j_thread) : lab_f32x2();
            lab_f32x2 v2;
            #pragma unroll
            for (int columns_j_lane = 0; columns_j_lane < 2; columns_j_lane++) {
                v2.at[columns_j_lane] = v1.at[columns_j_lane];
            }
            LAB_STORE_SHARED(lab_f32x2, columns,
                512*columns_k_batch + 32*columns_k_each + 2*columns_j_thread, v2);
        }
        lab_sync();
        const int i_sum_thread = threadIdx.x / 16;
        const int j_sum_thread = threadIdx.x % 16;
        #pragma unroll
        for (int k_own = 0; k_own < 32; k_own++) {
            #pragma unroll
            for (int i_sum_own = 0; i_sum_own < 2; i_sum_own++) {
                #pragma unroll
                for (int j_sum_own = 0; j_sum_own < 2; j_sum_own++) {
                    const float v3 = columns[32*k_own + 2*j_sum_thread + j_sum_own];
                    const float v4 = rows[32*k_own + 2*i_sum_thread + i_sum_own];
                    t[2*i_sum_own + j_sum_own] = lab_fma_f32(v4, v3, t[2*i_sum_own + j_sum_own]);
                }
            }
        }
    }
    const int i_end_thread = threadIdx.x / 16;
    const int j_end_thread = threadIdx.x % 16;
    #pragma unroll
    for (int i_end_own = 0; i_end_own < 2; i_end_own++) {
        #pragma unroll
        for (int j_end_own = 0; j_end_own < 2; j_end_own++) {
            if (32*i_block + 2*i_end_thread + i_end_own < n) {
                if (32*j_block + 2*j_end_thread + j_end_own < 48) {
                    c[1536*i_block + 96*i_end_thread + 48*i_end_own + 32*j_block + 2*j_end_thread
                        + j_end_own] = t[2*i_end_own + j_end_own] * 2.0f;
                }
            }
        }
    }
}
